/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: what is opened with a client. It ends when it was closed, or nobody has it, and no
 * call on it is under way; it keeps its client until then. A child of fork leaves it alone.
 */
#include "native.h"

struct handle_object *handle_new(PyObject *type, struct client_object *client, void *it,
                                 nigh_status (*close)(void *it))
{
    struct handle_object *made = native_new(type);

    if (made == NULL) {
        WITHOUT_LOCK((void)close(it));
        return NULL;
    }
    client_keep(client);
    made->client = client;
    made->it = it;
    made->close = close;
    return made;
}

/* Its end, once; the status is of the last call only. */
static nigh_status end(struct handle_object *handle)
{
    struct client_object *client = handle->client;
    nigh_status status = NIGH_OK;

    handle->client = NULL;
    if (client == NULL) {
        return NIGH_OK;
    }
    if (!client_is_forked(client)) {
        WITHOUT_LOCK(status = handle->close(handle->it));
    }
    client_drop(client);
    return status;
}

void *handle_use(struct handle_object *handle)
{
    if (handle->is_closed || handle->client == NULL) {
        return errors_say(NIGH_CLOSED, "it is closed");
    }
    if (client_is_forked(handle->client)) {
        return errors_raise(NIGH_FORKED, NULL);
    }
    handle_keep(handle);
    return handle->it;
}

void handle_keep(struct handle_object *handle)
{
    handle->uses++;
    Py_INCREF((PyObject *)handle);
}

void handle_drop(struct handle_object *handle)
{
    handle->uses--;
    if (handle->uses == 0 && handle->is_closed) {
        (void)end(handle);
    }
    Py_DECREF((PyObject *)handle);
}

PyObject *handle_ended(struct handle_object *handle, nigh_status status)
{
    if (status != NIGH_OK && PyErr_Occurred() == NULL) {
        (void)errors_raise(status, handle_client(handle));
    }
    handle_drop(handle);
    return PyErr_Occurred() == NULL ? Py_NewRef(Py_None) : NULL;
}

nigh_client *handle_client(const struct handle_object *handle)
{
    return handle->client->client;
}

int handle_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct handle_object *)self)->client);
    return 0;
}

void handle_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    (void)end((struct handle_object *)self); /* no use is left: each has a reference */
    native_free(self);
}

PyObject *handle_close(PyObject *self, PyObject *unused)
{
    struct handle_object *handle = (struct handle_object *)self;
    struct client_object *client = handle->client;
    nigh_status status = NIGH_OK;

    (void)unused;
    handle->is_closed = true;
    if (client != NULL && handle->uses == 0) {
        client_keep(client); /* for the sentence */
        status = end(handle);
        return client_ended(client, status);
    }
    Py_RETURN_NONE;
}

PyObject *handle_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (handle_use((struct handle_object *)self) == NULL) {
        return NULL;
    }
    handle_drop((struct handle_object *)self);
    return Py_NewRef(self);
}

PyObject *handle_get_closed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct handle_object *)self)->is_closed);
}
