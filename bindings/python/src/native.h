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

#include "nigh/nigh.h"

/* What is done between the two braces is done without the interpreter's lock. */
#define WITHOUT_LOCK(what)           \
    do {                             \
        Py_BEGIN_ALLOW_THREADS what; \
        Py_END_ALLOW_THREADS         \
    } while (0)

/* How long calls wait that cannot be interrupted, unless they are told otherwise. */
#define NATIVE_TIMEOUT_US UINT64_C(10000000)

/*
 * Of the types that a client makes. They keep it, and it may keep them, as an attribute: cycles,
 * which are taken apart at the client's.
 */
#define NATIVE_FLAGS                                                                     \
    (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE | \
     Py_TPFLAGS_HAVE_GC)

/* A method that takes names, for the table of a type. */
#define NATIVE_NAMED(name, function, text)                                                    \
    {                                                                                         \
        (name), (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS, (text) \
    }

/* ---- errors: errors.c ----------------------------------------------------- */

/* Makes an exception class for each status, and adds them to the module. */
int errors_init(PyObject *module);

/* Raises what a status is, with the client's sentence (NULL: the table's). Returns NULL. */
PyObject *errors_raise(nigh_status status, nigh_client *client);
/* The same with a sentence of one's own. */
PyObject *errors_say(nigh_status status, const char *sentence);
/* What a buffer is refused with, in place of what is raised: Python's own word for it, and the
 * sentence. */
void errors_of_buffer(void);
/* Puts something more into what is raised. */
void errors_mark(const char *name, PyObject *value);
/* The number of a status at the end of a list; where there is no memory the list is NULL then. */
void errors_note(PyObject **list, nigh_status status);

/* ---- clients: client.c ---------------------------------------------------- */

/*
 * A client of a node. `uses` counts views, writers, handles and calls that are under way without
 * the lock: the session ends with the last of them once it is closed.
 */
struct client_object {
    PyObject_HEAD nigh_client *client; /* NULL: it has ended */
    Py_ssize_t uses;
    bool is_closed;
    bool is_watched;   /* its descriptor was armed: who sleeps on that takes in what came */
    unsigned int fork; /* native_fork, where it was opened */
};

extern PyType_Spec client_spec;

/* One more use, and a reference; NULL: it is closed, or of another process, and that is raised. */
nigh_client *client_use(struct client_object *object);
/* The same of one that is used already: raises nothing. */
void client_keep(struct client_object *object);
/* One less of both; it may be the last. Raises nothing. */
void client_drop(struct client_object *object);
/* A call has ended: drops it. None, or what the status is, raised, unless something is already. */
PyObject *client_ended(struct client_object *object, nigh_status status);
/* Whether this is a child of the process that opened it. */
bool client_is_forked(const struct client_object *object);

/* ---- objects: objects.c --------------------------------------------------- */

PyObject *objects_put(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *objects_create(PyObject *self, PyObject *arguments, PyObject *names);
/* puts.c */
PyObject *puts_many(PyObject *self, PyObject *arguments, PyObject *names);
/* How long it takes at most, where the node does not stand still, to make so many objects with
 * these options, for which so many bytes are copied. */
uint64_t puts_time_us(const nigh_create_options *options, uint64_t count, uint64_t bytes);
PyObject *objects_get(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *objects_get_many(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *objects_get_start(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *objects_contains(PyObject *self, PyObject *id);
PyObject *objects_delete(PyObject *self, PyObject *id);
PyObject *objects_pin(PyObject *self, PyObject *id);
PyObject *objects_unpin(PyObject *self, PyObject *id);
PyObject *objects_checksum(PyObject *self, PyObject *id);
PyObject *objects_evict(PyObject *self, PyObject *size);
PyObject *objects_stat(PyObject *self, PyObject *id);
PyObject *objects_list_some(PyObject *self, PyObject *cursor);
PyObject *objects_set_quota(PyObject *self, PyObject *quota);
PyObject *objects_replicate(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *objects_where(PyObject *self, PyObject *id);
PyObject *objects_who(PyObject *self, PyObject *id);

/* ---- views and writers: view.c, writer.c ---------------------------------- */

extern PyType_Spec view_spec, writer_spec;

/* A view that was got; it is the object's from here on, also where none can be made (NULL). */
PyObject *view_new(struct client_object *client, const nigh_id *id, nigh_view *view);
/* A writer that was created, likewise. */
PyObject *writer_new(struct client_object *client, nigh_writer *writer);

/* ---- what goes on: pending.c ---------------------------------------------- */

extern PyType_Spec pending_spec;

struct pending_object;

/* What is under way: what libnigh uses until its end. */
struct pending_kind {
    size_t size; /* of the state */
    /* What it has come to, or NULL, raised; once, with a status that is not NIGH_PENDING; also
     * where it failed as it was begun. */
    PyObject *(*take)(struct client_object *client, void *state, nigh_status status);
    /* What came of it and nobody took is let go. */
    void (*leave)(nigh_client *client, void *state);
    /* Of the state's own memory. */
    void (*clear)(void *state);
    /* What of Python's the state has references to; NULL: nothing. */
    int (*visit)(void *state, visitproc visit, void *arg);
};

/* With a state of zeros; keeps the client. NULL: raised. */
struct pending_object *pending_new(struct client_object *client, const struct pending_kind *kind);
void *pending_state(struct pending_object *pending);
nigh_op *pending_op(struct pending_object *pending);
/* It was begun, with that status: the object, or NULL, raised, and the reference is gone. */
PyObject *pending_begun(struct pending_object *pending, nigh_status status);
/* The same, and what it comes to within that time. */
PyObject *pending_wait(struct pending_object *pending, nigh_status status, uint64_t timeout_us);

/*
 * Waits for an op that was begun with that status, without the lock, and looks meanwhile after
 * signals, and whether the client is closed. How it ended; it has ended in any case: what it was
 * given is the caller's again. NIGH_TIMEOUT where it did not long after its time. A handler that
 * raised, or a client that was closed: that is raised (PyErr_Occurred), and the op was cancelled,
 * but may have come first. What was begun of a client that was closed before is waited for.
 */
nigh_status pending_end(struct client_object *client, nigh_op *op, nigh_status begun,
                        uint64_t timeout_us);

/* Zeroed memory for such an op, and for what libnigh reads and writes until its end, by PyMem_Free:
 * a thread that the interpreter leaves in its midst, as it ends, takes its stack along. NULL:
 * raised. */
void *pending_memory(size_t size);

/* ---- handles: handle.c ---------------------------------------------------- */

/* What is opened with a client, and closed: a region or its lock, a space, a service. */
struct handle_object {
    PyObject_HEAD struct client_object *client; /* which it keeps; NULL: it is gone */
    void *it;
    nigh_status (*close)(void *it); /* without the lock */
    Py_ssize_t uses;                /* calls that are under way, and what hangs on it */
    bool is_closed;
};

/* NULL: raised, and it is closed. */
struct handle_object *handle_new(PyObject *type, struct client_object *client, void *it,
                                 nigh_status (*close)(void *it));
/* One more use, and a reference; NULL: it is closed, or of another process, and that is raised. */
void *handle_use(struct handle_object *handle);
void handle_keep(struct handle_object *handle);
void handle_drop(struct handle_object *handle);
PyObject *handle_ended(struct handle_object *handle, nigh_status status);
/* Its client, of one that is used. */
nigh_client *handle_client(const struct handle_object *handle);

/* For the tables of its types. */
void handle_dealloc(PyObject *self);
int handle_traverse(PyObject *self, visitproc visit, void *arg);
PyObject *handle_close(PyObject *self, PyObject *unused);
PyObject *handle_enter(PyObject *self, PyObject *unused);
PyObject *handle_get_closed(PyObject *self, void *closure);

/* ---- regions, spaces, calls ----------------------------------------------- */

extern PyType_Spec region_spec, mapping_spec, space_spec, service_spec, request_spec, bulk_spec;

/* Of a client. */
PyObject *region_create(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *region_open(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *region_list_some(PyObject *self, PyObject *arguments);
/* Of a region: mapping.c. */
PyObject *region_map(PyObject *self, PyObject *arguments, PyObject *names);

PyObject *space_create(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *space_open(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *space_delete(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *space_stat(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *space_list_some(PyObject *self, PyObject *arguments);

PyObject *call_now(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *call_start(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *service_register(PyObject *self, PyObject *name);

/* Memory that calls bring: bulk.c. */
PyObject *bulk_alloc(PyObject *self, PyObject *arguments, PyObject *names);
/* Of a request. */
PyObject *bulk_pull(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *bulk_push(PyObject *self, PyObject *arguments, PyObject *names);
/* What a sequence of such memory comes to, from *count on: each is used. False: raised, and those
 * that are counted are used all the same. */
bool bulk_bring(PyObject *from, struct handle_object **brought, nigh_bulk_part *parts,
                uint32_t *count);
/* The service of a request that is not answered, used once more (another thread may answer it at
 * once); and what a move of its memory of that number begins with: the request, and the size of it
 * all. NULL: raised. */
struct handle_object *service_of_request(PyObject *request, uint32_t number, nigh_bulk_move *move);

/* Of all nodes, or some: multicast.c. */
PyObject *multicast_call(PyObject *self, PyObject *arguments, PyObject *names);

/* ---- ids, numbers and times: convert.c ------------------------------------ */

/* A name as libnigh takes it: of bytes, which text has for those that are no UTF-8 as Python's
 * names of files do (surrogateescape), so that what is listed may be asked for. */
struct native_name {
    bool is_there; /* false: it was None, or nothing */
    char text[256];
};

/* What libnigh is given. */
const char *convert_name_text(const struct native_name *name);

/* For PyArg_Parse's O&: 1, or 0, raised. */
int convert_id(PyObject *from, void *id);              /* nigh_id: `bytes` of 20, or a name */
int convert_name(PyObject *from, void *name);          /* struct native_name */
int convert_name_or_none(PyObject *from, void *name);  /* the same, or None */
int convert_number(PyObject *from, void *number);      /* uint64_t */
int convert_added(PyObject *from, void *number);       /* modulo 2^64: so that -1 subtracts */
int convert_u32(PyObject *from, void *number);         /* uint32_t */
int convert_timeout(PyObject *from, void *timeout_us); /* uint64_t: seconds, None for ever */

PyObject *convert_from_id(const nigh_id *id);
/* Text that somebody else wrote. */
PyObject *convert_text(const char *text);
/* A name that may be asked for. */
PyObject *convert_from_name(const char *name);
/* Puts a value into a dictionary, and takes the reference; false: raised, also where value is NULL
 * for that reason. */
bool convert_put(PyObject *dictionary, const char *name, PyObject *value);
PyObject *convert_number_from(uint64_t number);

/* ---- the module: native.c ------------------------------------------------- */

struct native_state {
    PyObject *client_type, *view_type, *writer_type, *pending_type, *region_type, *mapping_type,
        *space_type, *service_type, *request_type, *bulk_type;
};

struct native_state *native_state(void);

/* How many forks lie between this process and the one that imported the module first. */
unsigned int native_fork(void);

/* A zeroed object of one of those types; NULL: raised. */
void *native_new(PyObject *type);
/* Frees one, at the end of its dealloc. */
void native_free(PyObject *self);

#endif
