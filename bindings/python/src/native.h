/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nigh._native: libnigh for Python, by the stable interface of 3.11 (docs/python.md). Each type is
 * in a file of its own; what they share is here.
 *
 * All functions but those that say otherwise are called with the interpreter's lock, and give it
 * back around whatever waits or copies. A reference that a call has keeps what libnigh uses
 * meanwhile.
 */
#ifndef NIGH_PYTHON_NATIVE_H
#define NIGH_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nigh/nigh.h"

/* ---- errors: errors.c ----------------------------------------------------- */

/* Makes an exception class for each status, and adds them to the module. */
int errors_init(PyObject *module);

/* Raises what a status is, with the client's sentence (NULL: the table's). Returns NULL. */
PyObject *errors_raise(nigh_status status, nigh_client *client);
/* The same with a sentence of one's own. */
PyObject *errors_say(nigh_status status, const char *sentence);

/* ---- clients: client.c ---------------------------------------------------- */

/*
 * A client of a node. `uses` counts views, writers and calls that are under way without the lock:
 * the session ends with the last of them once it is closed.
 */
struct client_object {
    PyObject_HEAD
    nigh_client *client; /* NULL: it has ended */
    Py_ssize_t uses;
    bool is_closed;
    pid_t pid; /* of the process that opened it */
};

extern PyType_Spec client_spec;

/* One more use; NULL: it is closed, or of another process, and that is raised. */
nigh_client *client_use(struct client_object *object);
/* One less; it may be the last. Raises nothing. */
void client_drop(struct client_object *object);
/* Whether this is a child of the process that opened it. */
bool client_is_forked(const struct client_object *object);

/* ---- views and writers: view.c, writer.c ---------------------------------- */

extern PyType_Spec view_spec, writer_spec;

/* A view that was got; it is the object's from here on, also where none can be made (NULL). */
PyObject *view_new(struct client_object *client, const nigh_id *id, nigh_view *view);
/* A writer that was created, likewise. */
PyObject *writer_new(struct client_object *client, nigh_writer *writer);

/* Of a get of many: a view of each, or None where there is none by then. They are the list's. */
PyObject *views_of(struct client_object *client, const nigh_id *ids, nigh_view *views,
                   Py_ssize_t count);

/* ---- gets that go on: pending.c ------------------------------------------- */

extern PyType_Spec pending_spec;

/* `ids` is its own from here on (PyMem_Free). The caller has a use of the client. */
PyObject *pending_get(struct client_object *client, nigh_id *ids, Py_ssize_t count,
                      uint64_t timeout_us, uint32_t flags);

/* ---- ids and times: convert.c --------------------------------------------- */

/* `bytes` of 20, or a name. False: raised. */
bool convert_id(PyObject *from, nigh_id *id);
PyObject *convert_from_id(const nigh_id *id);
/* Seconds, None for ever; false: raised. */
bool convert_timeout(PyObject *from, uint64_t *timeout_us);

struct native_state {
    PyObject *client_type, *view_type, *writer_type, *pending_type;
};

extern struct PyModuleDef native_module;

struct native_state *native_state(void);

#endif
