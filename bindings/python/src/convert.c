/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: ids, numbers and times. */
#include "native.h"

#include <string.h>

static int convert_name(PyObject *from, nigh_id *id)
{
    Py_ssize_t size;
    const char *name = PyUnicode_AsUTF8AndSize(from, &size);
    nigh_status status;

    if (name == NULL) {
        return 0;
    }
    status = (size_t)size != strlen(name) ? NIGH_INVALID : nigh_id_from_name(name, id);
    if (status != NIGH_OK) {
        (void)errors_say(status, "a name has 1 to 255 bytes, none of them zero");
    }
    return status == NIGH_OK;
}

int convert_id(PyObject *from, void *id)
{
    nigh_id *into = id;

    if (PyUnicode_Check(from)) {
        return convert_name(from, into);
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
