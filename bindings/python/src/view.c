/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: a sealed object as a read-only buffer. It keeps the object's bytes where they are
 * as long as there is a buffer over it, or it itself.
 */
#include "native.h"

struct view_object {
    PyObject_HEAD struct client_object *client; /* NULL: released */
    nigh_view view;
    nigh_id id;
    Py_ssize_t exports; /* buffers over it */
};

PyObject *view_new(struct client_object *client, const nigh_id *id, nigh_view *view)
{
    struct view_object *made = native_new(native_state()->view_type);

    if (made == NULL) {
        (void)nigh_release(client->client, view);
        return NULL;
    }
    client_keep(client);
    made->client = client;
    made->view = *view;
    made->id = *id;
    return (PyObject *)made;
}

/* In a child the pin is the parent's, and so is its end. With the interpreter's lock: it is a store
 * into a word, but where the node has just died, and who gives the lock back for each of many views
 * waits for other threads as often. */
static void let_go(struct view_object *view)
{
    struct client_object *client = view->client;

    if (client == NULL) {
        return;
    }
    view->client = NULL;
    if (!client_is_forked(client)) {
        (void)nigh_release(client->client, &view->view);
    }
    client_drop(client);
}

static int view_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct view_object *)self)->client);
    return 0;
}

static void view_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    let_go((struct view_object *)self);
    native_free(self);
}

static bool is_held(const struct view_object *view)
{
    if (view->client == NULL || client_is_forked(view->client)) {
        PyErr_SetString(PyExc_BufferError, view->client == NULL
                                               ? "the view is released"
                                               : "the view is of the parent of this process");
        return false;
    }
    return true;
}

static int view_get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct view_object *view = (struct view_object *)self;

    buffer->obj = NULL;
    if (!is_held(view)) {
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, self, (void *)view->view.data, (Py_ssize_t)view->view.data_size,
                          1, flags) != 0) {
        return -1;
    }
    view->exports++;
    return 0;
}

static void view_release_buffer(PyObject *self, Py_buffer *buffer)
{
    (void)buffer;
    ((struct view_object *)self)->exports--;
}

static PyObject *view_release(PyObject *self, PyObject *unused)
{
    struct view_object *view = (struct view_object *)self;

    (void)unused;
    if (view->exports > 0) {
        PyErr_Format(PyExc_BufferError, "%zd buffers over the view are in use", view->exports);
        return NULL;
    }
    let_go(view);
    Py_RETURN_NONE;
}

static PyObject *view_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_held((struct view_object *)self)) {
        return NULL;
    }
    return Py_NewRef(self);
}

/* Where it is left by an exception what has a buffer over it still, as the frames of that, goes
 * first. */
static PyObject *view_exit(PyObject *self, PyObject *arguments)
{
    PyObject *type, *value, *trace;

    if (!PyArg_ParseTuple(arguments, "OOO", &type, &value, &trace)) {
        return NULL;
    }
    if (type != Py_None && ((struct view_object *)self)->exports > 0) {
        Py_RETURN_NONE;
    }
    return view_release(self, NULL);
}

static Py_ssize_t view_length(PyObject *self)
{
    return (Py_ssize_t)((struct view_object *)self)->view.data_size;
}

static PyObject *view_get_id(PyObject *self, void *closure)
{
    (void)closure;
    return convert_from_id(&((struct view_object *)self)->id);
}

static PyObject *view_get_meta(PyObject *self, void *closure)
{
    struct view_object *view = (struct view_object *)self;

    (void)closure;
    if (!is_held(view)) {
        return NULL;
    }
    return PyBytes_FromStringAndSize(view->view.meta_size > 0 ? view->view.meta : "",
                                     (Py_ssize_t)view->view.meta_size);
}

static PyObject *view_get_released(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct view_object *)self)->client == NULL);
}

static PyObject *view_repr(PyObject *self)
{
    struct view_object *view = (struct view_object *)self;

    return PyUnicode_FromFormat("<nigh.View of %llu bytes%s>",
                                (unsigned long long)view->view.data_size,
                                view->client == NULL ? ", released" : "");
}

static PyMethodDef methods[] = {
    {"release", view_release, METH_NOARGS,
     "release($self, /)\n--\n\n"
     "Ends the view: its bytes may go. BufferError: a buffer over it is in use."},
    {"__enter__", view_enter, METH_NOARGS, NULL},
    {"__exit__", view_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fields[] = {
    {"id", view_get_id, NULL, "The object's id: 20 bytes.", NULL},
    {"meta", view_get_meta, NULL, "The metadata that it was put with: a copy.", NULL},
    {"released", view_get_released, NULL, "Whether it has ended.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, view_dealloc},
    {Py_tp_traverse, view_traverse},
    {Py_tp_repr, view_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {Py_sq_length, view_length},
    {Py_bf_getbuffer, view_get_buffer},
    {Py_bf_releasebuffer, view_release_buffer},
    {Py_tp_doc, "A sealed object: a read-only buffer of its bytes, where they lie. They stay there "
                "until the view, and whatever has a buffer over it, is gone."},
    {0, NULL},
};

PyType_Spec view_spec = {
    .name = "nigh.View",
    .basicsize = sizeof(struct view_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
