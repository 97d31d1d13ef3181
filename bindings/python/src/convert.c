/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: ids, numbers and times. */
#include "native.h"

#include <string.h>

#define BAD_NAME "a name has 1 to 255 bytes, none of them zero"

int convert_name(PyObject *from, void *into)
{
    struct native_name *name = into;
    PyObject *bytes;
    Py_ssize_t size;

    if (!PyUnicode_Check(from)) {
        PyErr_SetString(PyExc_TypeError, "a name is text (str)");
        return 0;
    }
    bytes = PyUnicode_AsEncodedString(from, "utf-8", "surrogateescape");
    if (bytes == NULL) {
        return 0;
    }
    size = PyBytes_Size(bytes);
    name->is_there =
        (size_t)size < sizeof name->text && (size_t)size == strlen(PyBytes_AsString(bytes));
    if (name->is_there) {
        memcpy(name->text, PyBytes_AsString(bytes), (size_t)size + 1);
    } else {
        (void)errors_say(NIGH_INVALID, BAD_NAME);
    }
    Py_DECREF(bytes);
    return name->is_there;
}

int convert_name_or_none(PyObject *from, void *name)
{
    if (from == Py_None) {
        ((struct native_name *)name)->is_there = false;
        return 1;
    }
    return convert_name(from, name);
}

const char *convert_name_text(const struct native_name *name)
{
    return name->is_there ? name->text : NULL;
}

int convert_id(PyObject *from, void *id)
{
    nigh_id *into = id;

    if (PyUnicode_Check(from)) {
        struct native_name name;

        if (convert_name(from, &name) == 0) {
            return 0;
        }
        if (nigh_id_from_name(name.text, into) != NIGH_OK) {
            (void)errors_say(NIGH_INVALID, BAD_NAME);
            return 0;
        }
        return 1;
    }
    if (PyBytes_Check(from) && PyBytes_Size(from) == NIGH_ID_BYTES) {
        memcpy(into->bytes, PyBytes_AsString(from), NIGH_ID_BYTES);
        return 1;
    }
    PyErr_SetString(PyExc_TypeError, "an id is bytes of length 20, or a name (str)");
    return 0;
}

PyObject *convert_from_id(const nigh_id *id)
{
    return PyBytes_FromStringAndSize((const char *)id->bytes, NIGH_ID_BYTES);
}

int convert_number(PyObject *from, void *number)
{
    PyObject *whole = PyNumber_Index(from);
    unsigned long long value;

    if (whole == NULL) {
        return 0;
    }
    value = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    if (PyErr_Occurred() != NULL) {
        return 0;
    }
    *(uint64_t *)number = value;
    return 1;
}

int convert_added(PyObject *from, void *number)
{
    PyObject *whole = PyNumber_Index(from);

    if (whole == NULL) {
        return 0;
    }
    *(uint64_t *)number = PyLong_AsUnsignedLongLong(whole);
    if (PyErr_Occurred() != NULL) { /* it is negative, or there is no such number */
        PyErr_Clear();
        *(uint64_t *)number = (uint64_t)PyLong_AsLongLong(whole);
    }
    Py_DECREF(whole);
    return PyErr_Occurred() == NULL;
}

int convert_u32(PyObject *from, void *number)
{
    uint64_t value;

    if (convert_number(from, &value) == 0) {
        return 0;
    }
    if (value > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the number has more than 32 bits");
        return 0;
    }
    *(uint32_t *)number = (uint32_t)value;
    return 1;
}

int convert_timeout(PyObject *from, void *timeout_us)
{
    double seconds;
    uint64_t us;

    if (from == Py_None) {
        *(uint64_t *)timeout_us = NIGH_FOREVER;
        return 1;
    }
    seconds = PyFloat_AsDouble(from);
    if (PyErr_Occurred() != NULL) {
        return 0;
    }
    if (!(seconds >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a timeout is seconds from 0 on, or None");
        return 0;
    }
    us = seconds >= 1e12 ? NIGH_FOREVER : (uint64_t)(seconds * 1e6);
    *(uint64_t *)timeout_us = us == 0 && seconds > 0 ? 1 : us; /* some time is not none */
    return 1;
}

PyObject *convert_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

PyObject *convert_from_name(const char *name)
{
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
}

PyObject *convert_number_from(uint64_t number)
{
    return PyLong_FromUnsignedLongLong(number);
}

bool convert_put(PyObject *dictionary, const char *name, PyObject *value)
{
    bool is_put = value != NULL && PyDict_SetItemString(dictionary, name, value) == 0;

    Py_XDECREF(value);
    return is_put;
}
