/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: the module. */
#include "native.h"

#include <pthread.h>

static struct native_state state; /* one interpreter a process: libnigh is one, too */
static unsigned int forks;

struct native_state *native_state(void)
{
    return &state;
}

/* In a child of fork. */
static void count_fork(void)
{
    forks++;
}

unsigned int native_fork(void)
{
    return forks;
}

void *native_new(PyObject *type)
{
    return ((allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc))((PyTypeObject *)type, 0);
}

void native_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

static int add_type(PyObject *module, PyType_Spec *spec, PyObject **type)
{
    *type = PyType_FromModuleAndSpec(module, spec, NULL);
    return *type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)*type);
}

static int add_types(PyObject *module)
{
    return add_type(module, &client_spec, &state.client_type) != 0 ||
                   add_type(module, &view_spec, &state.view_type) != 0 ||
                   add_type(module, &writer_spec, &state.writer_type) != 0 ||
                   add_type(module, &pending_spec, &state.pending_type) != 0 ||
                   add_type(module, &region_spec, &state.region_type) != 0 ||
                   add_type(module, &mapping_spec, &state.mapping_type) != 0 ||
                   add_type(module, &space_spec, &state.space_type) != 0 ||
                   add_type(module, &service_spec, &state.service_type) != 0 ||
                   add_type(module, &request_spec, &state.request_type) != 0 ||
                   add_type(module, &bulk_spec, &state.bulk_type) != 0
               ? -1
               : 0;
}

static_assert(NIGH_SPACE_READ == NIGH_REGION_READ && NIGH_SPACE_WRITE == NIGH_REGION_WRITE,
              "spaces and regions have the same rights");

static int add_flags(PyObject *module)
{
    return PyModule_AddIntMacro(module, NIGH_SUBSCRIBE_REPLAY) != 0 ||
                   PyModule_AddIntConstant(module, "READ", NIGH_REGION_READ) != 0 ||
                   PyModule_AddIntConstant(module, "WRITE", NIGH_REGION_WRITE) != 0 ||
                   PyModule_AddIntConstant(module, "MASTER", NIGH_REGION_MASTER) != 0 ||
                   PyModule_AddIntMacro(module, NIGH_SUBSCRIBE_CONFLICTS) != 0 ||
                   PyModule_AddIntMacro(module, NIGH_EVENT_SEALED) != 0 ||
                   PyModule_AddIntMacro(module, NIGH_EVENT_DELETED) != 0 ||
                   PyModule_AddIntMacro(module, NIGH_EVENT_EVICTED) != 0 ||
                   PyModule_AddIntMacro(module, NIGH_EVENT_SPILLED) != 0 ||
                   PyModule_AddIntMacro(module, NIGH_EVENT_OVERFLOW) != 0 ||
                   PyModule_AddIntMacro(module, NIGH_EVENT_CONFLICT) != 0
               ? -1
               : 0;
}

/* None in the interpreter that the process began with; ImportError in another. */
static PyObject *check_interpreter(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "nigh is for the main interpreter of a process: "
                                           "no subinterpreter imports it");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* For nigh itself: in another interpreter a module that was made in one is not made, but copied. */
static PyMethodDef functions[] = {
    {"_check_interpreter", check_interpreter, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef native_module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "nigh._native",
    .m_doc = "libnigh; see nigh.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = NULL, *checked = check_interpreter(NULL, NULL);

    if (checked != NULL) {
        Py_DECREF(checked);
        module = PyModule_Create(&native_module);
    }
    if (module == NULL ||
        (pthread_atfork(NULL, NULL, count_fork) != 0 && PyErr_NoMemory() == NULL) ||
        errors_init(module) != 0 || add_types(module) != 0 || add_flags(module) != 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
