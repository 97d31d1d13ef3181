/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: memory of a region in this process: a buffer, as a view of an object is. */
#include "native.h"

struct mapping_object {
    PyObject_HEAD struct handle_object *handle; /* which it uses; NULL: it is unmapped */
    void *address;
    uint64_t size;
    Py_ssize_t exports;
    bool is_writable;
};

static nigh_status unmap(struct mapping_object *mapping)
{
    struct handle_object *handle = mapping->handle;
    nigh_status status = NIGH_OK;

    mapping->handle = NULL;
    if (handle == NULL) {
        return NIGH_OK;
    }
    if (!client_is_forked(handle->client)) {
        WITHOUT_LOCK(status = nigh_region_unmap(handle->it, mapping->address));
    }
    handle_drop(handle);
    return status;
}

static PyObject *mapping_of(struct handle_object *handle, void *address, uint64_t size,
                            bool is_writable)
{
    struct mapping_object *made = native_new(native_state()->mapping_type);

    if (made == NULL) {
        WITHOUT_LOCK((void)nigh_region_unmap(handle->it, address));
        return NULL;
    }
    handle_keep(handle);
    made->handle = handle;
    made->address = address;
    made->size = size;
    made->is_writable = is_writable;
    return (PyObject *)made;
}

/* With a size of 0 to the end, as that is now. */
static nigh_status map_it(nigh_region *region, uint64_t offset, uint64_t *size, uint32_t access,
                          uint64_t timeout_us, void **address)
{
    nigh_region_info info = {.struct_size = sizeof info};
    nigh_status status = *size != 0 ? NIGH_OK : nigh_region_stat(region, timeout_us, &info);

    if (status != NIGH_OK) {
        return status;
    }
    if (*size == 0) {
        *size = offset < info.size ? info.size - offset : 0;
    }
    return nigh_region_map(region, offset, *size, access, timeout_us, address);
}

PyObject *region_map(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "size", "writable", "timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t offset = 0, size = 0, timeout_us = NATIVE_TIMEOUT_US;
    PyObject *made = NULL;
    void *address = NULL;
    nigh_status status;
    int writable = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&O&pO&", keywords, convert_number,
                                     &offset, convert_number, &size, &writable, convert_timeout,
                                     &timeout_us) ||
        handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = map_it(handle->it, offset, &size,
                                 NIGH_REGION_READ | (writable ? NIGH_REGION_WRITE : 0), timeout_us,
                                 &address));
    if (status == NIGH_OK) {
        made = mapping_of(handle, address, size, writable != 0);
    } else {
        (void)errors_raise(status, handle_client(handle));
    }
    handle_drop(handle);
    return made;
}

static int mapping_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct mapping_object *)self)->handle);
    return 0;
}

static void mapping_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    (void)unmap((struct mapping_object *)self);
    native_free(self);
}

static bool is_mapped(const struct mapping_object *mapping)
{
    if (mapping->handle == NULL || client_is_forked(mapping->handle->client)) {
        PyErr_SetString(PyExc_BufferError, mapping->handle == NULL
                                               ? "it is unmapped"
                                               : "it is of the parent of this process");
        return false;
    }
    return true;
}

static int mapping_get_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct mapping_object *mapping = (struct mapping_object *)self;

    buffer->obj = NULL;
    if (!is_mapped(mapping)) {
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, self, mapping->address, (Py_ssize_t)mapping->size,
                          !mapping->is_writable, flags) != 0) {
        return -1;
    }
    mapping->exports++;
    return 0;
}

static void mapping_release_buffer(PyObject *self, Py_buffer *buffer)
{
    (void)buffer;
    ((struct mapping_object *)self)->exports--;
}

static PyObject *mapping_release(PyObject *self, PyObject *unused)
{
    struct mapping_object *mapping = (struct mapping_object *)self;
    struct handle_object *handle = mapping->handle;
    nigh_status status;

    (void)unused;
    if (mapping->exports > 0) {
        PyErr_Format(PyExc_BufferError, "%zd buffers over it are in use", mapping->exports);
        return NULL;
    }
    if (handle == NULL) {
        Py_RETURN_NONE;
    }
    handle_keep(handle); /* for the sentence */
    status = unmap(mapping);
    return handle_ended(handle, status);
}

static PyObject *mapping_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return is_mapped((struct mapping_object *)self) ? Py_NewRef(self) : NULL;
}

/* As that of a view. */
static PyObject *mapping_exit(PyObject *self, PyObject *arguments)
{
    PyObject *type, *value, *trace;

    if (!PyArg_ParseTuple(arguments, "OOO", &type, &value, &trace)) {
        return NULL;
    }
    if (type != Py_None && ((struct mapping_object *)self)->exports > 0) {
        Py_RETURN_NONE;
    }
    return mapping_release(self, NULL);
}

static Py_ssize_t mapping_length(PyObject *self)
{
    return (Py_ssize_t)((struct mapping_object *)self)->size;
}

static PyMethodDef methods[] = {
    {"release", mapping_release, METH_NOARGS,
     "release($self, /)\n--\n\n"
     "Unmaps it. BufferError: a buffer over it is in use; StaleError: it was the region's no "
     "more."},
    {"__enter__", mapping_enter, METH_NOARGS, NULL},
    {"__exit__", mapping_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, mapping_dealloc},
    {Py_tp_traverse, mapping_traverse},
    {Py_tp_methods, methods},
    {Py_sq_length, mapping_length},
    {Py_bf_getbuffer, mapping_get_buffer},
    {Py_bf_releasebuffer, mapping_release_buffer},
    {Py_tp_doc, "Memory of a region, as a buffer."},
    {0, NULL},
};

PyType_Spec mapping_spec = {
    .name = "nigh.Mapping",
    .basicsize = sizeof(struct mapping_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
