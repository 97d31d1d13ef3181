/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: ids and times. */
#include "native.h"

#include <math.h>
#include <string.h>

bool convert_id(PyObject *from, nigh_id *id)
{
    nigh_status status;

    if (PyUnicode_Check(from)) {
        const char *name = PyUnicode_AsUTF8AndSize(from, NULL);

        if (name == NULL) {
            return false;
        }
        status = nigh_id_from_name(name, id);
        if (status != NIGH_OK) {
            (void)errors_say(status, "a name has 1 to 255 bytes");
        }
        return status == NIGH_OK;
    }
    if (PyBytes_Check(from) && PyBytes_Size(from) == NIGH_ID_BYTES) {
        memcpy(id->bytes, PyBytes_AsString(from), NIGH_ID_BYTES);
        return true;
    }
    PyErr_SetString(PyExc_TypeError, "an id is bytes of length 20, or a name (str)");
    return false;
}

PyObject *convert_from_id(const nigh_id *id)
{
    return PyBytes_FromStringAndSize((const char *)id->bytes, NIGH_ID_BYTES);
}

bool convert_timeout(PyObject *from, uint64_t *timeout_us)
{
    double seconds;

    if (from == Py_None) {
        *timeout_us = NIGH_FOREVER;
        return true;
    }
    seconds = PyFloat_AsDouble(from);
    if (PyErr_Occurred() != NULL) {
        return false;
    }
    if (isnan(seconds) || seconds < 0) {
        PyErr_SetString(PyExc_ValueError, "a timeout is seconds from 0 on, or None");
        return false;
    }
    *timeout_us = seconds >= 1e12 ? NIGH_FOREVER : (uint64_t)(seconds * 1e6);
    return true;
}
