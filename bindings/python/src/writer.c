/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: an object that is not sealed yet, as a writable buffer. */
#include "native.h"

#include <string.h>

struct writer_object {
    PyObject_HEAD struct client_object *client; /* NULL: sealed, or gone */
    nigh_writer writer;
    Py_ssize_t exports; /* buffers over it */
    bool is_doomed;     /* given up as soon as there is none */
};

PyObject *writer_new(struct client_object *client, nigh_writer *writer)
{
    struct writer_object *made = native_new(native_state()->writer_type);

    if (made == NULL) {
        WITHOUT_LOCK((void)nigh_abort(client->client, writer));
        return NULL;
    }
    client_keep(client);
    made->client = client;
    made->writer = *writer;
    return (PyObject *)made;
}

/* It is used up; the caller has the client's use. */
static struct client_object *take(struct writer_object *writer)
{
    struct client_object *client = writer->client;

    writer->client = NULL;
    return client;
}

static void give_up(struct writer_object *writer)
{
    struct client_object *client = take(writer);

    if (client == NULL) {
        return;
    }
    if (!client_is_forked(client)) {
        WITHOUT_LOCK((void)nigh_abort(client->client, &writer->writer));
    }
    client_drop(client);
}

static int writer_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct writer_object *)self)->client);
    return 0;
}

static void writer_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    give_up((struct writer_object *)self);
    native_free(self);
}

static bool is_open(const struct writer_object *writer)
{
    if (writer->client == NULL || writer->is_doomed) {
        (void)errors_say(NIGH_CLOSED, "the object is sealed, or given up");
        return false;
    }
    if (client_is_forked(writer->client)) {
        (void)errors_raise(NIGH_FORKED, NULL);
        return false;
    }
    return true;
}

static bool is_unused(const struct writer_object *writer)
{
    if (writer->exports > 0) {
        PyErr_Format(PyExc_BufferError, "%zd buffers over the writer are in use", writer->exports);
    }
    return writer->exports == 0;
}

static int writer_get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct writer_object *writer = (struct writer_object *)self;

    buffer->obj = NULL;
    if (!is_open(writer)) {
        errors_of_buffer();
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, self, writer->writer.data, (Py_ssize_t)writer->writer.data_size,
                          0, flags) != 0) {
        return -1;
    }
    writer->exports++;
    return 0;
}

static void writer_release_buffer(PyObject *self, Py_buffer *buffer)
{
    struct writer_object *writer = (struct writer_object *)self;

    (void)buffer;
    writer->exports--;
    if (writer->exports == 0 && writer->is_doomed) {
        give_up(writer);
    }
}

static PyObject *writer_seal(PyObject *self, PyObject *unused)
{
    struct writer_object *writer = (struct writer_object *)self;
    struct client_object *client;
    PyObject *done;
    nigh_status status;
    nigh_op *op;

    (void)unused;
    if (!is_open(writer) || !is_unused(writer)) {
        return NULL;
    }
    op = pending_memory(sizeof *op);
    if (op == NULL) {
        return NULL;
    }
    client = take(writer); /* whoever comes meanwhile finds it used up */
    WITHOUT_LOCK(status = nigh_seal_start(client->client, &writer->writer, op));
    done = client_ended(client, pending_end(client, op, status, NIGH_FOREVER));
    PyMem_Free(op);
    return done;
}

/* Copies without the lock, which a memoryview does not. */
static PyObject *writer_write(PyObject *self, PyObject *arguments)
{
    struct writer_object *writer = (struct writer_object *)self;
    Py_buffer data = {0};
    uint64_t at = 0;
    bool is_good;

    if (!PyArg_ParseTuple(arguments, "y*|O&", &data, convert_number, &at)) {
        return NULL;
    }
    is_good = is_open(writer);
    if (is_good &&
        (at > writer->writer.data_size || (uint64_t)data.len > writer->writer.data_size - at)) {
        PyErr_SetString(PyExc_ValueError, "the bytes do not all lie within the object");
        is_good = false;
    }
    if (is_good && data.len > 0) {
        writer->exports++;
        /* Of the object itself, it may be. */
        WITHOUT_LOCK(memmove((char *)writer->writer.data + at, data.buf, (size_t)data.len));
        writer_release_buffer(self, NULL);
    }
    PyBuffer_Release(&data);
    return is_good ? Py_NewRef(Py_None) : NULL;
}

static PyObject *writer_abort(PyObject *self, PyObject *unused)
{
    struct writer_object *writer = (struct writer_object *)self;

    (void)unused;
    if (!is_unused(writer)) {
        return NULL;
    }
    give_up(writer);
    Py_RETURN_NONE;
}

static PyObject *writer_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!is_open((struct writer_object *)self)) {
        return NULL;
    }
    return Py_NewRef(self);
}

/* The end of `with` seals, unless it is left by an exception, or that was done already. */
static PyObject *writer_exit(PyObject *self, PyObject *arguments)
{
    struct writer_object *writer = (struct writer_object *)self;
    PyObject *type, *value, *trace, *done;

    if (!PyArg_ParseTuple(arguments, "OOO", &type, &value, &trace)) {
        return NULL;
    }
    if (writer->client == NULL) {
        Py_RETURN_FALSE;
    }
    if (type != Py_None && writer->exports > 0) { /* as the frames of the exception may */
        writer->is_doomed = true;
        Py_RETURN_FALSE;
    }
    done = type == Py_None ? writer_seal(self, NULL) : writer_abort(self, NULL);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    Py_RETURN_FALSE;
}

static Py_ssize_t writer_length(PyObject *self)
{
    return (Py_ssize_t)((struct writer_object *)self)->writer.data_size;
}

static PyObject *writer_get_id(PyObject *self, void *closure)
{
    (void)closure;
    return convert_from_id(&((struct writer_object *)self)->writer.id);
}

static PyMethodDef methods[] = {
    {"seal", writer_seal, METH_NOARGS,
     "seal($self, /)\n--\n\n"
     "Makes the object visible, and its bytes unchangeable. BufferError: a buffer over it is in "
     "use."},
    {"write", writer_write, METH_VARARGS,
     "write($self, data, at=0, /)\n--\n\n"
     "Copies what is in a buffer to an offset (0) of the object, without the interpreter's lock."},
    {"abort", writer_abort, METH_NOARGS,
     "abort($self, /)\n--\n\n"
     "Gives the object up."},
    {"__enter__", writer_enter, METH_NOARGS, NULL},
    {"__exit__", writer_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fields[] = {
    {"id", writer_get_id, NULL, "The object's id: 20 bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_traverse, writer_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {Py_sq_length, writer_length},
    {Py_bf_getbuffer, writer_get_buffer},
    {Py_bf_releasebuffer, writer_release_buffer},
    {Py_tp_doc, "An object that is not sealed yet: a writable buffer of its bytes. `with` seals it "
                "at its end, and gives it up where that is an exception."},
    {0, NULL},
};

PyType_Spec writer_spec = {
    .name = "nigh.Writer",
    .basicsize = sizeof(struct writer_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
