/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: calls, services, and the requests that these receive. A request keeps its service
 * until it is gone; one that goes unanswered is answered that it was cancelled.
 */
#include "native.h"

#define RECEIVE_SLICE_US                                                    \
    UINT64_C(50000) /* how often a receive looks after signals, and the end \
                     */

/* ---- calls ---------------------------------------------------------------- */

struct calling {
    nigh_call_spec spec;
    struct native_name service;
    Py_buffer request;
    struct handle_object *brought[NIGH_CALL_BULKS]; /* used */
    nigh_bulk_part parts[NIGH_CALL_BULKS];
    char reply[NIGH_CALL_BYTES];
};

static PyObject *take_call(struct client_object *client, void *state, nigh_status status)
{
    struct calling *calling = state;

    if (status == NIGH_OK) {
        return PyBytes_FromStringAndSize(calling->reply, (Py_ssize_t)calling->spec.reply_bytes);
    }
    if (calling->spec.answered != 0) { /* which is told from what is nigh's */
        (void)errors_say(status, nigh_status_string(status));
        errors_mark("answered", Py_True);
        return NULL;
    }
    return errors_raise(status, client->client);
}

static void leave_call(nigh_client *client, void *state)
{
    (void)client;
    (void)state;
}

static void clear_call(void *state)
{
    struct calling *calling = state;

    if (calling->request.obj != NULL) {
        PyBuffer_Release(&calling->request);
    }
    for (size_t n = 0; n < NIGH_CALL_BULKS && calling->brought[n] != NULL; n++) {
        handle_drop(calling->brought[n]);
    }
}

static int visit_call(void *state, visitproc visit, void *arg)
{
    struct calling *calling = state;

    Py_VISIT(calling->request.obj);
    for (size_t n = 0; n < NIGH_CALL_BULKS; n++) {
        Py_VISIT(calling->brought[n]);
    }
    return 0;
}

static const struct pending_kind call_kind = {
    .size = sizeof(struct calling),
    .take = take_call,
    .leave = leave_call,
    .clear = clear_call,
    .visit = visit_call,
};

/* What a call is given; the request is held. */
struct call_asked {
    struct native_name service;
    PyObject *bulks;
    Py_buffer request;
    uint64_t timeout_us;
    uint32_t rank, flags;
};

static bool ask(PyObject *arguments, PyObject *names, struct call_asked *asked)
{
    static char *keywords[] = {"service",    "request", "rank",  "timeout", "one_way",
                               "idempotent", "urgent",  "bulks", NULL};
    int one_way = 0, idempotent = 0, urgent = 0;
    uint64_t rank = NIGH_ANY_RANK;
    PyObject *from = Py_None;

    *asked = (struct call_asked){.timeout_us = NIGH_FOREVER};
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|y*$OO&pppO", keywords, convert_name,
                                     &asked->service, &asked->request, &from, convert_timeout,
                                     &asked->timeout_us, &one_way, &idempotent, &urgent,
                                     &asked->bulks)) {
        return false;
    }
    if (from != Py_None && (!convert_number(from, &rank) || rank >= NIGH_NEAREST)) {
        if (PyErr_Occurred() == NULL) {
            PyErr_SetString(PyExc_ValueError, "no such rank");
        }
        if (asked->request.obj != NULL) {
            PyBuffer_Release(&asked->request);
        }
        return false;
    }
    asked->rank = (uint32_t)rank;
    asked->flags = (one_way ? NIGH_CALL_ONE_WAY : 0) | (idempotent ? NIGH_CALL_IDEMPOTENT : 0) |
                   (urgent ? NIGH_CALL_URGENT : 0);
    return true;
}

/* Ready to be begun; the request is the pending's. NULL: raised. */
static struct pending_object *prepare(struct client_object *object, struct call_asked *asked)
{
    struct pending_object *pending = pending_new(object, &call_kind);
    struct calling *calling;

    if (pending == NULL) {
        if (asked->request.obj != NULL) {
            PyBuffer_Release(&asked->request);
        }
        return NULL;
    }
    calling = pending_state(pending);
    calling->service = asked->service;
    calling->request = asked->request;
    calling->spec = (nigh_call_spec){
        .struct_size = sizeof calling->spec,
        .service = calling->service.text,
        .rank = asked->rank,
        .flags = asked->flags,
        .request = calling->request.buf,
        .request_bytes = (size_t)calling->request.len,
        .reply = calling->reply,
        .reply_room = sizeof calling->reply,
        .bulks = calling->parts,
    };
    if (!bulk_bring(asked->bulks, calling->brought, calling->parts, &calling->spec.bulk_count)) {
        Py_DECREF((PyObject *)pending);
        return NULL;
    }
    return pending;
}

static PyObject *call(PyObject *self, PyObject *arguments, PyObject *names, bool waits)
{
    struct client_object *object = (struct client_object *)self;
    struct pending_object *pending;
    struct call_asked asked;
    struct calling *calling;
    nigh_client *client;
    nigh_status status;

    if (!ask(arguments, names, &asked)) {
        return NULL;
    }
    client = client_use(object);
    if (client == NULL) {
        if (asked.request.obj != NULL) {
            PyBuffer_Release(&asked.request);
        }
        return NULL;
    }
    pending = prepare(object, &asked);
    client_drop(object);
    if (pending == NULL) {
        return NULL;
    }
    calling = pending_state(pending);
    WITHOUT_LOCK(
        status = nigh_call_start(client, &calling->spec, asked.timeout_us, pending_op(pending)));
    return waits ? pending_wait(pending, status, asked.timeout_us) : pending_begun(pending, status);
}

PyObject *call_now(PyObject *self, PyObject *arguments, PyObject *names)
{
    return call(self, arguments, names, true);
}

PyObject *call_start(PyObject *self, PyObject *arguments, PyObject *names)
{
    return call(self, arguments, names, false);
}

/* ---- requests ------------------------------------------------------------- */

struct request_object {
    PyObject_HEAD struct handle_object *service; /* which it uses; NULL: it is answered */
    nigh_request request;
    PyObject *bytes;
    nigh_bulk_info bulks[NIGH_CALL_BULKS]; /* of the memory that it brings */
};

/* One that nobody gets to see is answered as the library does: its caller may say it again. */
static void refuse(const nigh_request *request)
{
    if (request->is_one_way == 0) {
        WITHOUT_LOCK((void)nigh_call_reply(request, NIGH_BUSY, NULL, 0));
    }
}

static PyObject *request_new(struct handle_object *service, const nigh_request *request)
{
    struct request_object *made = native_new(native_state()->request_type);

    if (made != NULL) {
        made->bytes = PyBytes_FromStringAndSize(request->size > 0 ? request->bytes : "",
                                                (Py_ssize_t)request->size);
    }
    if (made == NULL || made->bytes == NULL) {
        Py_XDECREF((PyObject *)made);
        refuse(request);
        return NULL;
    }
    for (uint32_t n = 0; n < request->bulk_count && n < NIGH_CALL_BULKS; n++) {
        (void)nigh_request_bulk(request, n, &made->bulks[n]);
    }
    handle_keep(service);
    made->service = service;
    made->request = *request;
    made->request.bytes = NULL; /* they lay in the receive's buffer */
    return (PyObject *)made;
}

static nigh_status answer(struct request_object *request, nigh_status said, const void *bytes,
                          size_t size)
{
    struct handle_object *service = request->service;
    nigh_status status = NIGH_OK;

    request->service = NULL;
    if (!client_is_forked(service->client) && request->request.is_one_way == 0) {
        WITHOUT_LOCK(status = nigh_call_reply(&request->request, said, bytes, size));
    }
    handle_drop(service);
    return status;
}

static int request_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct request_object *)self)->service);
    return 0;
}

static void request_dealloc(PyObject *self)
{
    struct request_object *request = (struct request_object *)self;

    PyObject_GC_UnTrack(self);
    if (request->service != NULL) {
        (void)answer(request, NIGH_CANCELED, NULL, 0);
    }
    Py_XDECREF(request->bytes);
    native_free(self);
}

static PyObject *request_reply(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"data", "status", NULL};
    struct request_object *request = (struct request_object *)self;
    struct handle_object *service;
    Py_buffer data = {0};
    nigh_status status;
    int said = NIGH_OK;
    PyObject *done;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|y*i", keywords, &data, &said)) {
        return NULL;
    }
    service = request->service; /* only now: an argument's own methods may have answered it */
    if (service == NULL) {
        done = errors_say(NIGH_CLOSED, "the request is answered");
    } else if (client_is_forked(service->client)) {
        done = errors_raise(NIGH_FORKED, NULL); /* it is the parent's to answer */
    } else if (data.len > NIGH_CALL_BYTES || said > 0 || said < NIGH_STATUS_LOWEST ||
               said == NIGH_PENDING) { /* which is no end */
        PyErr_Format(PyExc_ValueError, "a reply has a status, and at most %d bytes",
                     NIGH_CALL_BYTES);
        done = NULL;
    } else {
        handle_keep(service); /* for the sentence */
        status = answer(request, (nigh_status)said, data.buf, (size_t)data.len);
        /* Nobody waits for it any more: that is the caller's affair. */
        done = handle_ended(service, status == NIGH_NOT_FOUND ? NIGH_OK : status);
    }
    if (data.obj != NULL) {
        PyBuffer_Release(&data);
    }
    return done;
}

static PyObject *request_get_bytes(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef(((struct request_object *)self)->bytes);
}

static PyObject *request_get_rank(PyObject *self, void *closure)
{
    (void)closure;
    return convert_number_from(((struct request_object *)self)->request.rank);
}

static PyObject *request_get_uid(PyObject *self, void *closure)
{
    (void)closure;
    return convert_number_from(((struct request_object *)self)->request.uid);
}

/* Seconds, as timeouts are given. */
static PyObject *request_get_timeout(PyObject *self, void *closure)
{
    uint64_t timeout_us = ((struct request_object *)self)->request.timeout_us;

    (void)closure;
    return timeout_us == NIGH_FOREVER ? Py_NewRef(Py_None)
                                      : PyFloat_FromDouble((double)timeout_us / 1e6);
}

static PyObject *request_get_one_way(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct request_object *)self)->request.is_one_way != 0);
}

struct handle_object *service_of_request(PyObject *self, uint32_t number, nigh_bulk_move *move)
{
    struct request_object *request = (struct request_object *)self;

    if (request->service == NULL) {
        (void)errors_say(NIGH_CLOSED, "the request is answered");
        return NULL;
    }
    if (number >= request->request.bulk_count || number >= NIGH_CALL_BULKS) {
        PyErr_SetString(PyExc_IndexError, "the request brings less memory");
        return NULL;
    }
    move->request = &request->request;
    move->number = number;
    move->size = request->bulks[number].size;
    handle_keep(request->service);
    return request->service;
}

/* Size and access of each. */
static PyObject *request_get_bulks(PyObject *self, void *closure)
{
    struct request_object *request = (struct request_object *)self;
    PyObject *list = PyList_New(0);

    (void)closure;
    for (uint32_t n = 0; n < request->request.bulk_count && n < NIGH_CALL_BULKS && list != NULL;
         n++) {
        PyObject *told = Py_BuildValue("KI", (unsigned long long)request->bulks[n].size,
                                       request->bulks[n].access);

        if (told == NULL || PyList_Append(list, told) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(told);
    }
    return list;
}

static PyMethodDef request_methods[] = {
    NATIVE_NAMED(
        "pull", bulk_pull,
        "pull($self, number, bulk, offset=0, local_offset=0, size=None, start=False)\n--\n\n"
        "Brings bytes of the caller's memory into some of one's own."),
    NATIVE_NAMED(
        "push", bulk_push,
        "push($self, number, bulk, offset=0, local_offset=0, size=None, start=False)\n--\n\n"
        "Brings bytes of one's own memory into the caller's."),
    NATIVE_NAMED("reply", request_reply,
                 "reply($self, data=b'', status=0)\n--\n\n"
                 "Answers it, once: with bytes, or a status."),
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef request_fields[] = {
    {"bytes", request_get_bytes, NULL, "What the caller has sent.", NULL},
    {"rank", request_get_rank, NULL, "The rank of the caller's node.", NULL},
    {"uid", request_get_uid, NULL, "The caller's uid, as its node says.", NULL},
    {"timeout", request_get_timeout, NULL,
     "Seconds that its caller had left when it was received; None: it waits for ever.", NULL},
    {"bulks", request_get_bulks, NULL, "Size and access of each memory that it brings.", NULL},
    {"one_way", request_get_one_way, NULL, "Whether it wants no answer.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot request_slots[] = {
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_traverse, request_traverse},
    {Py_tp_methods, request_methods},
    {Py_tp_getset, request_fields},
    {0, NULL},
};

PyType_Spec request_spec = {
    .name = "nigh.Request",
    .basicsize = sizeof(struct request_object),
    .flags = NATIVE_FLAGS,
    .slots = request_slots,
};

/* ---- services ------------------------------------------------------------- */

static nigh_status close_service(void *it)
{
    nigh_service_unregister(it);
    return NIGH_OK;
}

PyObject *service_register(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_service *service = NULL;
    PyObject *made = NULL;
    nigh_client *client;
    struct native_name name;
    nigh_status status;

    if (!convert_name(from, &name) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_service_register(client, name.text, NULL, &service));
    if (status == NIGH_OK) {
        made = (PyObject *)handle_new(native_state()->service_type, object, service, close_service);
    } else {
        (void)errors_raise(status, client);
    }
    client_drop(object);
    return made;
}

/* For a receive: a service ends with its client, also where requests wait. */
static void *use_to_receive(struct handle_object *handle)
{
    void *it = handle_use(handle);

    if (it == NULL || !handle->client->is_closed) {
        return it;
    }
    handle->is_closed = true;
    handle_drop(handle);
    return errors_say(NIGH_CLOSED, "it is closed");
}

/* In slices, between which it looks after signals, and whether the service was closed. */
static nigh_status receive(struct handle_object *handle, nigh_request *request, void *buffer,
                           uint64_t timeout_us)
{
    nigh_status status;

    do {
        uint64_t slice_us = timeout_us < RECEIVE_SLICE_US ? timeout_us : RECEIVE_SLICE_US;

        WITHOUT_LOCK(status = nigh_receive(handle->it, request, buffer, slice_us));
        timeout_us -= timeout_us == NIGH_FOREVER ? 0 : slice_us;
        if (status == NIGH_TIMEOUT && PyErr_CheckSignals() != 0) {
            return NIGH_CANCELED;
        }
        if (status == NIGH_TIMEOUT && (handle->is_closed || handle->client->is_closed)) {
            handle->is_closed = true; /* with its client */
            (void)errors_say(NIGH_CLOSED, "it is closed");
            return NIGH_CLOSED;
        }
    } while (status == NIGH_TIMEOUT && timeout_us != 0);
    return status;
}

static PyObject *service_receive(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t timeout_us = NIGH_FOREVER;
    char buffer[NIGH_CALL_BYTES];
    nigh_request request;
    nigh_status status;
    PyObject *made;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&", keywords, convert_timeout,
                                     &timeout_us) ||
        use_to_receive(handle) == NULL) {
        return NULL;
    }
    status = receive(handle, &request, buffer, timeout_us);
    if (status != NIGH_OK) {
        return handle_ended(handle, status);
    }
    made = request_new(handle, &request);
    handle_drop(handle);
    return made;
}

/* A receive that goes on. */
struct receiving {
    struct handle_object *service;
    nigh_request request;
    char buffer[NIGH_CALL_BYTES];
};

static PyObject *take_request(struct client_object *client, void *state, nigh_status status)
{
    struct receiving *receiving = state;

    if (status != NIGH_OK) {
        return errors_raise(status, client->client);
    }
    return request_new(receiving->service, &receiving->request);
}

/* One that came as it was given up. */
static void leave_request(nigh_client *client, void *state)
{
    struct receiving *receiving = state;

    (void)client;
    if (receiving->request.service != NULL) {
        refuse(&receiving->request);
    }
}

static void clear_request(void *state)
{
    struct receiving *receiving = state;

    if (receiving->service != NULL) {
        handle_drop(receiving->service);
    }
}

static int visit_request(void *state, visitproc visit, void *arg)
{
    Py_VISIT(((struct receiving *)state)->service);
    return 0;
}

static const struct pending_kind receive_kind = {
    .size = sizeof(struct receiving),
    .take = take_request,
    .leave = leave_request,
    .clear = clear_request,
    .visit = visit_request,
};

static PyObject *service_receive_start(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    struct receiving *receiving;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&", keywords, convert_timeout,
                                     &timeout_us) ||
        use_to_receive(handle) == NULL) {
        return NULL;
    }
    pending = pending_new(handle->client, &receive_kind);
    if (pending == NULL) {
        handle_drop(handle);
        return NULL;
    }
    receiving = pending_state(pending);
    receiving->service = handle;
    WITHOUT_LOCK(status = nigh_receive_start(handle->it, &receiving->request, receiving->buffer,
                                             timeout_us, pending_op(pending)));
    return pending_begun(pending, status);
}

static PyMethodDef methods[] = {
    NATIVE_NAMED("receive", service_receive,
                 "receive($self, timeout=None)\n--\n\n"
                 "The next request, waiting for it."),
    NATIVE_NAMED("receive_start", service_receive_start,
                 "receive_start($self, timeout=None)\n--\n\n"
                 "The same, without waiting."),
    {"close", handle_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Ends the service, when its last request is gone."},
    {"__enter__", handle_enter, METH_NOARGS, NULL},
    {"__exit__", handle_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fields[] = {
    {"closed", handle_get_closed, NULL, "Whether it was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {Py_tp_doc, "A name that is served: requests of it are received here."},
    {0, NULL},
};

PyType_Spec service_spec = {
    .name = "nigh.Service",
    .basicsize = sizeof(struct handle_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
