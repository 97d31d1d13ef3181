/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: an exception for each status, made from the table. */
#include "native.h"

#include <ctype.h>
#include <string.h>

#define STATUSES  (1 - NIGH_STATUS_LOWEST)
#define NAME_MOST 64

static PyObject *base;              /* nigh.Error */
static PyObject *classes[STATUSES]; /* by -status */

/* "NIGH_NO_QUORUM": "NoQuorumError". */
static void class_name(const char *status, char name[NAME_MOST])
{
    size_t at = 0;
    bool begins = true;

    for (const char *c = status + strlen("NIGH_"); *c != 0 && at < NAME_MOST - 6; c++) {
        if (*c == '_') {
            begins = true;
            continue;
        }
        name[at++] = (char)(begins ? *c : tolower((unsigned char)*c));
        begins = false;
    }
    strcpy(name + at, "Error");
}

/* What Python itself calls that, or NULL. */
static PyObject *own_word(nigh_status status)
{
    switch (status) {
    case NIGH_INVALID: return PyExc_ValueError;
    case NIGH_NOT_FOUND: return PyExc_KeyError;
    case NIGH_EXISTS: return PyExc_FileExistsError;
    case NIGH_OUT_OF_MEMORY: return PyExc_MemoryError;
    case NIGH_TIMEOUT: return PyExc_TimeoutError;
    case NIGH_DENIED: return PyExc_PermissionError;
    case NIGH_UNREACHABLE:
    case NIGH_NODE_LOST: return PyExc_ConnectionError;
    case NIGH_UNSUPPORTED: return PyExc_NotImplementedError;
    default: return NULL;
    }
}

static PyObject *make_class(nigh_status status, const char *symbol)
{
    char name[NAME_MOST], full[NAME_MOST + 8];
    PyObject *word = own_word(status), *bases, *made;

    class_name(symbol, name);
    (void)PyOS_snprintf(full, sizeof full, "nigh.%s", name);
    bases = word != NULL ? PyTuple_Pack(2, base, word) : PyTuple_Pack(1, base);
    if (bases == NULL) {
        return NULL;
    }
    made = PyErr_NewExceptionWithDoc(full, nigh_status_string(status), bases, NULL);
    Py_DECREF(bases);
    return made;
}

static int set_constant(PyObject *class, const char *name, PyObject *value)
{
    int failed = value == NULL || PyObject_SetAttrString(class, name, value) != 0;

    Py_XDECREF(value);
    return failed ? -1 : 0;
}

static int add_class(PyObject *module, nigh_status status, const char *symbol)
{
    char name[NAME_MOST];
    PyObject *class;

    if (status == NIGH_OK) {
        return 0;
    }
    class = make_class(status, symbol);
    classes[-status] = class;
    class_name(symbol, name);
    return class == NULL || set_constant(class, "status", PyLong_FromLong(status)) != 0 ||
                   set_constant(class, "name", PyUnicode_FromString(symbol)) != 0 ||
                   PyModule_AddObjectRef(module, name, class) != 0
               ? -1
               : 0;
}

/* A KeyError would show its sentence in quotes. And no error is a service's, but those that say so.
 */
static int set_up_base(void)
{
    return set_constant(base, "__str__", PyObject_GetAttrString(PyExc_BaseException, "__str__")) !=
                       0 ||
                   set_constant(base, "answered", Py_NewRef(Py_False)) != 0 ||
                   set_constant(base, "status", PyLong_FromLong(1)) != 0 ||
                   set_constant(base, "name", PyUnicode_FromString("NIGH_UNKNOWN")) != 0
               ? -1
               : 0;
}

int errors_init(PyObject *module)
{
    base = PyErr_NewExceptionWithDoc("nigh.Error",
                                     "What libnigh says went wrong: `status` is its number, `name` "
                                     "its name, and the text a sentence.",
                                     NULL, NULL);
    if (base == NULL || set_up_base() != 0 || PyModule_AddObjectRef(module, "Error", base) != 0) {
        return -1;
    }
#define ADD(symbol, value, sentence)               \
    if (add_class(module, symbol, #symbol) != 0) { \
        return -1;                                 \
    }
    NIGH_STATUS_TABLE(ADD)
#undef ADD
    return 0;
}

PyObject *errors_say(nigh_status status, const char *sentence)
{
    bool is_known = status < 0 && status >= NIGH_STATUS_LOWEST && classes[-status] != NULL;
    PyObject *text = convert_text(sentence);

    if (text != NULL) {
        PyErr_SetObject(is_known ? classes[-status] : base, text);
        Py_DECREF(text);
    }
    return NULL;
}

void errors_of_buffer(void)
{
    PyObject *type, *error, *trace, *text;

    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    text = error == NULL ? NULL : PyObject_Str(error);
    if (text != NULL) {
        PyErr_SetObject(PyExc_BufferError, text);
        Py_DECREF(text);
    }
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

PyObject *errors_raise(nigh_status status, nigh_client *client)
{
    char text[512] = "";

    if (client != NULL) {
        WITHOUT_LOCK((void)nigh_client_error(client, text, sizeof text)); /* may ask the node */
    }
    return errors_say(status, text[0] != 0 ? text : nigh_status_string(status));
}

void errors_note(PyObject **list, nigh_status status)
{
    PyObject *number = *list == NULL ? NULL : PyLong_FromLong(status);

    if (*list != NULL && (number == NULL || PyList_Append(*list, number) != 0)) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(number);
}

void errors_mark(const char *name, PyObject *value)
{
    PyObject *type, *error, *trace;

    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (error != NULL && PyObject_SetAttrString(error, name, value) != 0) {
        PyErr_Clear(); /* what was raised is worth more */
    }
    PyErr_Restore(type, error, trace);
}
