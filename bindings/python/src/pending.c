/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: what goes on while Python does something else. Its op lies in it, and with it what
 * libnigh reads and writes; so it is cancelled before it goes.
 */
#include "native.h"

#include <time.h>

#define SIGNALS_US UINT64_C(50000)   /* how often a call that waits looks after signals */
#define GRACE_US   UINT64_C(3000000) /* how long after its deadline an op is cancelled */

struct pending_object {
    PyObject_HEAD struct client_object
        *client; /* which it keeps; NULL: its result was taken, or it is gone */
    const struct pending_kind *kind;
    void *state;
    nigh_op op;
    unsigned int uses; /* threads that are at its op, and may read the state for a sentence */
    bool is_begun;     /* the op is libnigh's until it has ended */
    bool was_closed;   /* its client, as it was begun: a region of it goes on */
};

struct pending_object *pending_new(struct client_object *client, const struct pending_kind *kind)
{
    struct pending_object *made = native_new(native_state()->pending_type);

    if (made == NULL) {
        return NULL;
    }
    PyObject_GC_UnTrack((PyObject *)made); /* until it is begun nobody is to find it */
    made->kind = kind;
    made->state = PyMem_Calloc(1, kind->size);
    if (made->state == NULL) {
        Py_DECREF((PyObject *)made);
        (void)PyErr_NoMemory();
        return NULL;
    }
    client_keep(client);
    made->client = client;
    made->was_closed = client->is_closed;
    return made;
}

void *pending_state(struct pending_object *pending)
{
    return pending->state;
}

nigh_op *pending_op(struct pending_object *pending)
{
    return &pending->op;
}

/* From here on the collector, which may come while what is closed gives the lock back, sees nothing
 * of it: its references go one after the other. */
static void drop_state(struct pending_object *pending)
{
    void *state = pending->state;

    pending->state = NULL;
    if (state != NULL) {
        pending->kind->clear(state);
        PyMem_Free(state);
    }
}

/* One thread less is at it. The last drops the state of one that was taken or given up. */
static void end_use(struct pending_object *pending)
{
    pending->uses--;
    if (pending->uses == 0 && pending->client == NULL) {
        drop_state(pending);
    }
}

static void give_up(struct pending_object *pending)
{
    struct client_object *client = pending->client;

    pending->client = NULL; /* whoever comes meanwhile finds it gone */
    if (client == NULL) {
        return;
    }
    pending->uses++;
    if (pending->is_begun && !client_is_forked(client)) {
        WITHOUT_LOCK((void)nigh_cancel(client->client, &pending->op));
        pending->kind->leave(client->client, pending->state);
    }
    end_use(pending);
    client_drop(client);
}

static int pending_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct pending_object *pending = (struct pending_object *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(pending->client);
    if (pending->state != NULL && pending->kind->visit != NULL) {
        return pending->kind->visit(pending->state, visit, arg);
    }
    return 0;
}

static void pending_dealloc(PyObject *self)
{
    struct pending_object *pending = (struct pending_object *)self;

    PyObject_GC_UnTrack(self);
    give_up(pending);
    drop_state(pending);
    native_free(self);
}

/* The sentence that the client has for this thread becomes that of the op; the node may be asked.
 */
static nigh_status tell(nigh_client *client, nigh_op *op, nigh_status status)
{
    if (status != NIGH_OK) {
        WITHOUT_LOCK(status = nigh_wait(client, op, 0));
    }
    return status;
}

/* Of one that has ended, with that status; `is_told`: the client has its sentence. */
static PyObject *take(struct pending_object *pending, nigh_status status, bool is_told)
{
    struct client_object *client = pending->client;
    PyObject *result;

    pending->client = NULL; /* whoever comes meanwhile finds it taken */
    pending->uses++;
    result = pending->kind->take(client, pending->state,
                                 is_told ? status : tell(client->client, &pending->op, status));
    end_use(pending);
    client_drop(client);
    return result;
}

/* False: raised, and the reference is gone. What failed may have come in part, as a get of several
 * has the views of those that were here: it is taken as if it had failed later, which lets go of
 * them, and has the statuses. */
static bool is_begun(struct pending_object *pending, nigh_status status)
{
    struct client_object *client = pending->client;

    if (status == NIGH_OK || status == NIGH_PENDING) {
        pending->is_begun = true;
        return true;
    }
    Py_XDECREF(pending->kind->take(client, pending->state, status));
    if (PyErr_Occurred() == NULL) {
        (void)errors_raise(status, client->client);
    }
    Py_DECREF((PyObject *)pending);
    return false;
}

PyObject *pending_begun(struct pending_object *pending, nigh_status status)
{
    if (!is_begun(pending, status)) {
        return NULL;
    }
    PyObject_GC_Track((PyObject *)pending);
    return (PyObject *)pending;
}

static uint64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Whether somebody wants a wait to end: raised. */
static bool is_unwanted(const struct client_object *client, bool was_closed)
{
    if (PyErr_CheckSignals() == 0 && client->is_closed && !was_closed) {
        (void)errors_say(NIGH_CLOSED, "the client is closed");
    }
    return PyErr_Occurred() != NULL;
}

/* Whether a node that stands still does not see that the time is up. */
static bool is_overdue(uint64_t begin_us, uint64_t timeout_us)
{
    uint64_t waited_us = now_us() - begin_us;

    return timeout_us != NIGH_FOREVER && waited_us > timeout_us &&
           waited_us - timeout_us > GRACE_US;
}

void *pending_memory(size_t size)
{
    void *memory = PyMem_Calloc(1, size);

    if (memory == NULL) {
        (void)PyErr_NoMemory();
    }
    return memory;
}

/* Whether a handler has forked, and this is the child: raised. */
static bool is_of_the_parent(const struct client_object *client)
{
    bool is_forked = client_is_forked(client);

    if (is_forked && PyErr_Occurred() == NULL) {
        (void)errors_raise(NIGH_FORKED, NULL);
    }
    return is_forked;
}

nigh_status pending_end(struct client_object *client, nigh_op *op, nigh_status begun,
                        uint64_t timeout_us)
{
    bool was_closed = client->is_closed; /* a region of it goes on */
    uint64_t begin_us = now_us();
    nigh_status status;

    if (begun != NIGH_OK && begun != NIGH_PENDING) {
        return begun;
    }
    while ((status = nigh_op_status(op)) == NIGH_PENDING) {
        bool is_over = is_unwanted(client, was_closed) || is_overdue(begin_us, timeout_us);

        if (is_of_the_parent(client)) {
            return NIGH_FORKED;
        }
        if (is_over) {
            WITHOUT_LOCK(status = nigh_cancel(client->client, op));
            return status == NIGH_CANCELED && PyErr_Occurred() == NULL ? NIGH_TIMEOUT : status;
        }
        WITHOUT_LOCK((void)nigh_wait(client->client, op, SIGNALS_US));
    }
    return tell(client->client, op, status);
}

PyObject *pending_wait(struct pending_object *pending, nigh_status status, uint64_t timeout_us)
{
    PyObject *result = NULL;

    if (!is_begun(pending, status)) {
        return NULL;
    }
    status = pending_end(pending->client, &pending->op, status, timeout_us);
    if (PyErr_Occurred() == NULL) {
        result = take(pending, status, true);
    }
    Py_DECREF((PyObject *)pending);
    return result;
}

/* Whether it has ended with its client. */
static bool is_closed(const struct pending_object *pending)
{
    return pending->client != NULL && pending->client->is_closed && !pending->was_closed;
}

static bool is_over(const struct pending_object *pending)
{
    return pending->client == NULL || nigh_op_status(&pending->op) != NIGH_PENDING ||
           is_closed(pending);
}

/* Takes in what came. Where somebody sleeps on the client's descriptor that is for him: what is
 * taken in here rings no bell. */
static void look(struct pending_object *pending)
{
    struct client_object *client = pending->client;

    if (is_over(pending) || client->is_watched || client_is_forked(client)) {
        return;
    }
    client_keep(client); /* another thread may take the result, or give it up, meanwhile */
    WITHOUT_LOCK((void)nigh_poll(client->client));
    client_drop(client);
}

static PyObject *pending_done(PyObject *self, PyObject *unused)
{
    struct pending_object *pending = (struct pending_object *)self;

    (void)unused;
    look(pending);
    return PyBool_FromLong(is_over(pending));
}

/* In slices, between which it looks after signals. */
static void wait_until(struct pending_object *pending, struct client_object *client,
                       uint64_t timeout_us)
{
    uint64_t begin_us = now_us(), waited_us = 0;

    while (!is_over(pending) && (timeout_us == NIGH_FOREVER || waited_us < timeout_us)) {
        uint64_t slice_us = timeout_us - waited_us < SIGNALS_US && timeout_us != NIGH_FOREVER
                                ? timeout_us - waited_us
                                : SIGNALS_US;

        WITHOUT_LOCK((void)nigh_wait(client->client, &pending->op, slice_us));
        if (PyErr_CheckSignals() != 0 || is_of_the_parent(client)) {
            return;
        }
        waited_us = now_us() - begin_us;
    }
}

/* It goes on where that ends first. */
static PyObject *pending_await(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct pending_object *pending = (struct pending_object *)self;
    uint64_t timeout_us = NIGH_FOREVER;
    struct client_object *client;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&", keywords, convert_timeout,
                                     &timeout_us)) {
        return NULL;
    }
    look(pending);
    client = pending->client;
    if (is_over(pending)) {
        Py_RETURN_TRUE;
    }
    if (is_of_the_parent(client)) {
        return NULL;
    }
    client_keep(client);
    pending->uses++;
    wait_until(pending, client, timeout_us);
    end_use(pending); /* another thread may have taken it */
    client_drop(client);
    return PyErr_Occurred() == NULL ? PyBool_FromLong(is_over(pending)) : NULL;
}

static PyObject *pending_cancel(PyObject *self, PyObject *unused)
{
    (void)unused;
    give_up((struct pending_object *)self);
    Py_RETURN_NONE;
}

/* Once, of one that is done. */
static PyObject *pending_result(PyObject *self, PyObject *unused)
{
    struct pending_object *pending = (struct pending_object *)self;
    nigh_status status;

    (void)unused;
    look(pending);
    if (pending->client == NULL) {
        return errors_say(NIGH_CANCELED, "it was cancelled, or its result was taken");
    }
    if (client_is_forked(pending->client)) {
        return errors_raise(NIGH_FORKED, NULL);
    }
    status = nigh_op_status(&pending->op);
    if (status == NIGH_PENDING && is_closed(pending)) {
        give_up(pending);
        return errors_say(NIGH_CLOSED, "the client is closed");
    }
    return status == NIGH_PENDING ? errors_raise(status, NULL) : take(pending, status, false);
}

static PyMethodDef methods[] = {
    {"done", pending_done, METH_NOARGS,
     "done($self, /)\n--\n\n"
     "Whether it has ended. Takes in what came, but where the client is armed: poll does then."},
    NATIVE_NAMED(
        "wait", pending_await,
        "wait($self, timeout=None)\n--\n\n"
        "Waits until it has ended, so long at most; whether it has. It goes on otherwise."),
    {"cancel", pending_cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\n"
     "Gives it up."},
    {"result", pending_result, METH_NOARGS,
     "result($self, /)\n--\n\n"
     "What one that is done has come to, once; PendingError of another."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS,
     "Pending[bytes], of one that comes to bytes: for type hints."},
    {NULL, NULL, 0, NULL},
};

/* Of one whose result was taken, or that was cancelled: None. */
static PyObject *pending_get_client(PyObject *self, void *closure)
{
    struct pending_object *pending = (struct pending_object *)self;

    (void)closure;
    return Py_NewRef(pending->client == NULL ? Py_None : (PyObject *)pending->client);
}

static PyGetSetDef fields[] = {
    {"client", pending_get_client, NULL, "The client that it is of, while it goes on.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, pending_dealloc},
    {Py_tp_traverse, pending_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {0, NULL},
};

PyType_Spec pending_spec = {
    .name = "nigh._native.Pending",
    .basicsize = sizeof(struct pending_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
