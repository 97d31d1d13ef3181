/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: a get that goes on while Python does something else. Its op lies in it, and with it
 * what libnigh writes to; so it is cancelled before it goes.
 */
#include "native.h"

struct pending_object {
    PyObject_HEAD
    struct client_object *client; /* NULL: its result was taken, or it is gone */
    nigh_op op;
    Py_ssize_t count;
    nigh_id *ids;
    nigh_view *views;
};

PyObject *pending_get(struct client_object *client, nigh_id *ids, Py_ssize_t count,
                      uint64_t timeout_us, uint32_t flags)
{
    PyTypeObject *type = (PyTypeObject *)native_state()->pending_type;
    struct pending_object *made =
        (struct pending_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    nigh_status status;

    if (made == NULL) {
        PyMem_Free(ids);
        return NULL;
    }
    made->ids = ids;
    made->count = count;
    made->views = PyMem_Calloc((size_t)count + 1, sizeof *made->views);
    if (made->views == NULL) {
        Py_DECREF(made);
        return PyErr_NoMemory();
    }
    status = nigh_get_with_start(client->client, ids, (size_t)count, timeout_us, flags,
                                 made->views, &made->op);
    if (status != NIGH_OK && status != NIGH_PENDING) {
        Py_DECREF(made);
        return errors_raise(status, client->client);
    }
    Py_INCREF(client);
    client->uses++;
    made->client = client;
    return (PyObject *)made;
}

static void end_use(struct pending_object *pending)
{
    struct client_object *client = pending->client;

    pending->client = NULL;
    client_drop(client);
    Py_DECREF(client);
}

/* Views that nobody took are let go. */
static void give_up(struct pending_object *pending)
{
    if (pending->client == NULL) {
        return;
    }
    if (!client_is_forked(pending->client)) {
        nigh_client *client = pending->client->client;

        (void)nigh_cancel(client, &pending->op);
        for (Py_ssize_t n = 0; n < pending->count; n++) {
            (void)nigh_release(client, &pending->views[n]);
        }
    }
    end_use(pending);
}

static void pending_dealloc(PyObject *self)
{
    struct pending_object *pending = (struct pending_object *)self;
    PyTypeObject *type = Py_TYPE(self);

    give_up(pending);
    PyMem_Free(pending->ids);
    PyMem_Free(pending->views);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *pending_done(PyObject *self, PyObject *unused)
{
    struct pending_object *pending = (struct pending_object *)self;

    (void)unused;
    return PyBool_FromLong(pending->client == NULL ||
                           nigh_op_status(&pending->op) != NIGH_PENDING);
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
    PyObject *list = NULL;

    (void)unused;
    if (pending->client == NULL) {
        return errors_say(NIGH_CANCELED, "the get was cancelled, or its result taken");
    }
    status = nigh_op_status(&pending->op);
    if (status == NIGH_PENDING) {
        return errors_raise(status, NULL);
    }
    if (status == NIGH_OK || status == NIGH_TIMEOUT) {
        list = views_of(pending->client, pending->ids, pending->views, pending->count);
    } else {
        for (Py_ssize_t n = 0; n < pending->count; n++) {
            (void)nigh_release(pending->client->client, &pending->views[n]);
        }
        (void)errors_raise(status, pending->client->client);
    }
    end_use(pending);
    return list;
}

static PyMethodDef methods[] = {
    {"done", pending_done, METH_NOARGS, "Whether it has ended."},
    {"cancel", pending_cancel, METH_NOARGS, "Gives it up."},
    {"result", pending_result, METH_NOARGS, "Of one that is done: as get_many, once."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, pending_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec pending_spec = {
    .name = "nigh._native.Pending",
    .basicsize = sizeof(struct pending_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
