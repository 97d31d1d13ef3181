/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: memory that calls bring, as a buffer, and what a service moves into it and out of
 * it. What a call brings is kept by the call; whoever serves it touches it until the call is over,
 * and for a moment longer where that ended without an answer.
 */
#include "native.h"

#define CLOSE_US UINT64_C(15000000) /* longer than anybody touches what is closed */

struct bulk_object {
    struct handle_object handle; /* first: it is one */
    void *memory;
    uint64_t size;
};

/* What is in use still goes with the client. */
static nigh_status close_bulk(void *it)
{
    return nigh_bulk_close(it, CLOSE_US);
}

PyObject *bulk_alloc(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"size", "access", NULL};
    struct client_object *object = (struct client_object *)self;
    uint32_t access = NIGH_BULK_READ | NIGH_BULK_WRITE;
    struct bulk_object *made = NULL;
    nigh_bulk *bulk = NULL;
    void *memory = NULL;
    nigh_client *client;
    nigh_status status;
    uint64_t size;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&", keywords, convert_number, &size,
                                     convert_u32, &access) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_bulk_alloc(client, size, access, &memory, &bulk));
    if (status == NIGH_OK) {
        made =
            (struct bulk_object *)handle_new(native_state()->bulk_type, object, bulk, close_bulk);
    } else {
        (void)errors_raise(status, client);
    }
    if (made != NULL) {
        made->memory = memory;
        made->size = size;
    }
    client_drop(object);
    return (PyObject *)made;
}

/* ---- what a call brings --------------------------------------------------- */

bool bulk_bring(PyObject *from, struct handle_object **brought, nigh_bulk_part *parts,
                uint32_t *count)
{
    Py_ssize_t wanted = from == NULL || from == Py_None ? 0 : PySequence_Size(from);

    if (wanted < 0) {
        return false;
    }
    if (wanted > NIGH_CALL_BULKS) {
        PyErr_Format(PyExc_ValueError, "a call brings at most %d pieces of memory",
                     NIGH_CALL_BULKS);
        return false;
    }
    for (Py_ssize_t n = 0; n < wanted; n++) {
        PyObject *item = PySequence_GetItem(from, n);
        /* Not by isinstance: that believes what an object says of its class. */
        bool is_one =
            item != NULL && PyObject_TypeCheck(item, (PyTypeObject *)native_state()->bulk_type);

        if (item != NULL && !is_one) {
            PyErr_SetString(PyExc_TypeError, "what a call brings is memory of alloc_bulk");
        }
        if (!is_one || handle_use((struct handle_object *)item) == NULL) {
            Py_XDECREF(item);
            return false;
        }
        brought[*count] = (struct handle_object *)item;
        parts[*count] = (nigh_bulk_part){.bulk = brought[*count]->it,
                                         .size = ((struct bulk_object *)item)->size};
        ++*count;
        Py_DECREF(item); /* the use has one of its own */
    }
    return true;
}

/* ---- moves ---------------------------------------------------------------- */

struct moving {
    PyObject *request;
    struct handle_object *service, *local; /* used */
};

static PyObject *take_move(struct client_object *client, void *state, nigh_status status)
{
    (void)state;
    return status == NIGH_OK ? Py_NewRef(Py_None) : errors_raise(status, client->client);
}

static void leave_move(nigh_client *client, void *state)
{
    (void)client;
    (void)state;
}

static void clear_move(void *state)
{
    struct moving *moving = state;

    Py_XDECREF(moving->request);
    if (moving->local != NULL) {
        handle_drop(moving->local);
    }
    if (moving->service != NULL) {
        handle_drop(moving->service);
    }
}

static int visit_move(void *state, visitproc visit, void *arg)
{
    struct moving *moving = state;

    Py_VISIT(moving->request);
    Py_VISIT(moving->service);
    Py_VISIT(moving->local);
    return 0;
}

static const struct pending_kind move_kind = {
    .size = sizeof(struct moving),
    .take = take_move,
    .leave = leave_move,
    .clear = clear_move,
    .visit = visit_move,
};

/* Between memory that a request brings and memory of this client's. */
static PyObject *move(PyObject *self, PyObject *arguments, PyObject *names,
                      nigh_status (*begin)(const nigh_bulk_move *move, nigh_op *op))
{
    static char *keywords[] = {"number", "bulk", "offset", "local_offset", "size", "start", NULL};
    nigh_bulk_move wanted = {.struct_size = sizeof wanted};
    struct handle_object *service;
    struct pending_object *pending;
    struct moving *moving;
    PyObject *local, *from = Py_None;
    nigh_status status;
    uint64_t size = 0;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O!|O&O&Op", keywords, convert_u32,
                                     &wanted.number, native_state()->bulk_type, &local,
                                     convert_number, &wanted.offset, convert_number,
                                     &wanted.local_offset, &from, &start) ||
        (from != Py_None && !convert_number(from, &size)) ||
        (service = service_of_request(self, wanted.number, &wanted)) == NULL) {
        return NULL;
    }
    if (from == Py_None) {
        wanted.size -= wanted.offset < wanted.size ? wanted.offset : wanted.size;
    } else {
        wanted.size = size;
    }
    pending = pending_new(service->client, &move_kind);
    if (pending == NULL) {
        handle_drop(service);
        return NULL;
    }
    moving = pending_state(pending);
    moving->service = service;
    wanted.local = handle_use((struct handle_object *)local);
    if (wanted.local == NULL) {
        Py_DECREF((PyObject *)pending);
        return NULL;
    }
    moving->local = (struct handle_object *)local;
    moving->request = Py_NewRef(self);
    WITHOUT_LOCK(status = begin(&wanted, pending_op(pending)));
    return start ? pending_begun(pending, status) : pending_wait(pending, status, NIGH_FOREVER);
}

PyObject *bulk_pull(PyObject *self, PyObject *arguments, PyObject *names)
{
    return move(self, arguments, names, nigh_bulk_pull_start);
}

PyObject *bulk_push(PyObject *self, PyObject *arguments, PyObject *names)
{
    return move(self, arguments, names, nigh_bulk_push_start);
}

/* ---- the type ------------------------------------------------------------- */

static int bulk_get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct bulk_object *bulk = (struct bulk_object *)self;

    buffer->obj = NULL;
    if (handle_use(&bulk->handle) == NULL) {
        errors_of_buffer();
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, self, bulk->memory, (Py_ssize_t)bulk->size, 0, flags) != 0) {
        handle_drop(&bulk->handle);
        return -1;
    }
    return 0;
}

/* A buffer is a use: the memory is there until the last is gone, whoever has closed it. */
static void bulk_release_buffer(PyObject *self, Py_buffer *buffer)
{
    (void)buffer;
    handle_drop((struct handle_object *)self);
}

static Py_ssize_t bulk_length(PyObject *self)
{
    return (Py_ssize_t)((struct bulk_object *)self)->size;
}

static PyMethodDef methods[] = {
    {"close", handle_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Frees it, when no buffer and no call uses it any more."},
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
    {Py_sq_length, bulk_length},
    {Py_bf_getbuffer, bulk_get_buffer},
    {Py_bf_releasebuffer, bulk_release_buffer},
    {Py_tp_doc, "Memory that calls bring, as a buffer."},
    {0, NULL},
};

PyType_Spec bulk_spec = {
    .name = "nigh.Bulk",
    .basicsize = sizeof(struct bulk_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
