/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: a client of a node, and what it does with objects. */
#include "native.h"

#include <string.h>
#include <unistd.h>

#define MANY      1024  /* ids of one get or delete */
#define META_MOST 65536 /* as nigh_create_options has it */

/* ---- uses ----------------------------------------------------------------- */

bool client_is_forked(const struct client_object *object)
{
    return object->pid != getpid();
}

nigh_client *client_use(struct client_object *object)
{
    if (object->is_closed || object->client == NULL) {
        (void)errors_say(NIGH_CLOSED, "the client is closed");
        return NULL;
    }
    if (client_is_forked(object)) {
        (void)errors_raise(NIGH_FORKED, NULL);
        return NULL;
    }
    object->uses++;
    Py_INCREF(object);
    return object->client;
}

/* A child closes what it has of its parent's client, too: nothing of it is the parent's then. */
static void end_session(struct client_object *object)
{
    nigh_client *client = object->client;

    object->client = NULL;
    if (client == NULL) {
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    nigh_client_close(client);
    Py_END_ALLOW_THREADS
}

void client_drop(struct client_object *object)
{
    object->uses--;
    if (object->uses == 0 && object->is_closed) {
        end_session(object);
    }
}

/* A call has ended. */
static void unuse(struct client_object *object)
{
    client_drop(object);
    Py_DECREF(object);
}

static PyObject *ended(struct client_object *object, nigh_status status)
{
    if (status != NIGH_OK) {
        (void)errors_raise(status, object->client);
    }
    unuse(object);
    return status == NIGH_OK ? Py_NewRef(Py_None) : NULL;
}

/* ---- open, close ---------------------------------------------------------- */

static int client_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"socket", "pool",      "name",    "quota", "timeout",
                               "prefault", "read_only", "spin_us", NULL};
    struct client_object *object = (struct client_object *)self;
    nigh_client_options options = {.struct_size = sizeof options};
    unsigned long long quota = 0, prefault = 0;
    PyObject *timeout = NULL;
    nigh_client *client = NULL;
    unsigned int spin_us = 0;
    int read_only = 0;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|zzzKOKpI", keywords, &options.socket_path,
                                     &options.pool, &options.name, &quota, &timeout, &prefault,
                                     &read_only, &spin_us)) {
        return -1;
    }
    if (timeout != NULL && !convert_timeout(timeout, &options.timeout_us)) {
        return -1;
    }
    if (object->client != NULL || object->is_closed) {
        PyErr_SetString(PyExc_RuntimeError, "a client is opened once");
        return -1;
    }
    options.quota_bytes = quota;
    options.prefault_bytes = prefault;
    options.spin_us = spin_us;
    options.flags = read_only ? NIGH_OPEN_READ_ONLY : 0;
    Py_BEGIN_ALLOW_THREADS
    status = nigh_client_open(&options, &client);
    Py_END_ALLOW_THREADS
    if (status != NIGH_OK) {
        (void)errors_say(status, nigh_open_error());
        return -1;
    }
    object->client = client;
    object->pid = getpid();
    return 0;
}

static PyObject *client_close(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;

    (void)unused;
    object->is_closed = true;
    if (object->uses == 0) {
        end_session(object);
    }
    Py_RETURN_NONE;
}

static void client_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    end_session((struct client_object *)self); /* no use is left: each has a reference */
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *client_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *client_get_closed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct client_object *)self)->is_closed);
}

/* ---- write ---------------------------------------------------------------- */

/* What create and put are given besides. */
struct making {
    nigh_id id;
    nigh_create_options options;
    Py_buffer meta;
    const char *name;
};

static bool begin_making(struct making *making, PyObject *id, PyObject *meta, PyObject *timeout,
                         int exclusive, unsigned int replicas, int no_evict)
{
    nigh_create_options *options = &making->options;

    if (!convert_id(id, &making->id) ||
        (timeout != NULL && !convert_timeout(timeout, &options->timeout_us))) {
        return false;
    }
    if (replicas > NIGH_REPLICAS_MOST) {
        PyErr_Format(PyExc_ValueError, "at most %d replicas", NIGH_REPLICAS_MOST);
        return false;
    }
    if (PyUnicode_Check(id)) {
        options->name = PyUnicode_AsUTF8AndSize(id, NULL); /* lives as long as `id` does */
    }
    options->flags = (exclusive ? NIGH_CREATE_EXCLUSIVE : 0) |
                     (no_evict ? NIGH_CREATE_NO_EVICT : 0) | NIGH_CREATE_REPLICAS(replicas);
    if (meta == NULL || meta == Py_None) {
        return true;
    }
    if (PyObject_GetBuffer(meta, &making->meta, PyBUF_SIMPLE) != 0) {
        return false;
    }
    options->meta = making->meta.buf;
    options->meta_size = (uint32_t)making->meta.len;
    if (making->meta.len > META_MOST) {
        PyErr_Format(PyExc_ValueError, "at most %d bytes of metadata", META_MOST);
        PyBuffer_Release(&making->meta);
        return false;
    }
    return true;
}

static void end_making(struct making *making)
{
    if (making->meta.obj != NULL) {
        PyBuffer_Release(&making->meta);
    }
}

static PyObject *client_put(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"id",       "data",     "meta", "timeout", "exclusive",
                               "replicas", "no_evict", NULL};
    struct client_object *object = (struct client_object *)self;
    PyObject *id, *meta = NULL, *timeout = NULL;
    struct making making = {0};
    unsigned int replicas = 0;
    int exclusive = 0, no_evict = 0;
    Py_buffer data;
    nigh_client *client;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "Oy*|O$OpIp", keywords, &id, &data, &meta,
                                     &timeout, &exclusive, &replicas, &no_evict)) {
        return NULL;
    }
    client = begin_making(&making, id, meta, timeout, exclusive, replicas, no_evict)
                 ? client_use(object)
                 : NULL;
    if (client == NULL) {
        end_making(&making);
        PyBuffer_Release(&data);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_put(client, &making.id, data.buf, (uint64_t)data.len, &making.options);
    Py_END_ALLOW_THREADS
    end_making(&making);
    PyBuffer_Release(&data);
    return ended(object, status);
}

static PyObject *client_create(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"id",       "size",     "meta", "timeout", "exclusive",
                               "replicas", "no_evict", NULL};
    struct client_object *object = (struct client_object *)self;
    PyObject *id, *meta = NULL, *timeout = NULL, *made = NULL;
    struct making making = {0};
    unsigned long long size;
    unsigned int replicas = 0;
    int exclusive = 0, no_evict = 0;
    nigh_writer writer;
    nigh_client *client;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OK|O$OpIp", keywords, &id, &size, &meta,
                                     &timeout, &exclusive, &replicas, &no_evict) ||
        !begin_making(&making, id, meta, timeout, exclusive, replicas, no_evict)) {
        return NULL;
    }
    making.options.data_size = size;
    client = client_use(object);
    if (client == NULL) {
        end_making(&making);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_create(client, &making.id, &making.options, &writer);
    Py_END_ALLOW_THREADS
    end_making(&making);
    if (status == NIGH_OK) {
        made = writer_new(object, &writer);
    } else {
        (void)errors_raise(status, client);
    }
    unuse(object);
    return made;
}

/* ---- read ----------------------------------------------------------------- */

/* What a sequence of ids comes to; NULL: raised. The caller frees it (PyMem_Free). */
static nigh_id *ids_of(PyObject *sequence, Py_ssize_t *count)
{
    nigh_id *ids;

    *count = PySequence_Size(sequence);
    if (*count < 0) {
        return NULL;
    }
    if (*count > MANY) {
        PyErr_Format(PyExc_ValueError, "at most %d ids at once", MANY);
        return NULL;
    }
    ids = PyMem_Calloc((size_t)*count + 1, sizeof *ids);
    if (ids == NULL) {
        (void)PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t n = 0; n < *count; n++) {
        PyObject *item = PySequence_GetItem(sequence, n);
        bool is_good = item != NULL && convert_id(item, &ids[n]);

        Py_XDECREF(item);
        if (!is_good) {
            PyMem_Free(ids);
            return NULL;
        }
    }
    return ids;
}

static PyObject *client_get(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"id", "timeout", "no_copy", NULL};
    struct client_object *object = (struct client_object *)self;
    PyObject *from, *timeout = Py_None, *made = NULL;
    uint64_t timeout_us;
    nigh_client *client;
    nigh_status status;
    nigh_view view;
    int no_copy = 0;
    nigh_id id;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|Op", keywords, &from, &timeout,
                                     &no_copy) ||
        !convert_id(from, &id) || !convert_timeout(timeout, &timeout_us)) {
        return NULL;
    }
    client = client_use(object);
    if (client == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_get_with(client, &id, 1, timeout_us, no_copy ? NIGH_GET_NO_COPY : 0, &view);
    Py_END_ALLOW_THREADS
    if (status == NIGH_OK) {
        made = view_new(object, &id, &view);
    } else {
        (void)errors_raise(status, client);
    }
    unuse(object);
    return made;
}

PyObject *views_of(struct client_object *object, const nigh_id *ids, nigh_view *views,
                          Py_ssize_t count)
{
    PyObject *list = PyList_New(count);

    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *item = NULL;

        if (list == NULL) {
            (void)nigh_release(object->client, &views[n]);
            continue;
        }
        item = views[n].status == NIGH_OK ? view_new(object, &ids[n], &views[n])
                                          : Py_NewRef(Py_None);
        if (item == NULL || PyList_SetItem(list, n, item) != 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *client_get_many(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"ids", "timeout", "no_copy", NULL};
    struct client_object *object = (struct client_object *)self;
    PyObject *sequence, *timeout = Py_None, *list = NULL;
    uint64_t timeout_us;
    nigh_client *client;
    nigh_status status;
    nigh_view *views;
    Py_ssize_t count;
    nigh_id *ids;
    int no_copy = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|Op", keywords, &sequence, &timeout,
                                     &no_copy) ||
        !convert_timeout(timeout, &timeout_us)) {
        return NULL;
    }
    ids = ids_of(sequence, &count);
    if (ids == NULL) {
        return NULL;
    }
    views = PyMem_Calloc((size_t)count + 1, sizeof *views);
    client = views != NULL ? client_use(object) : (nigh_client *)PyErr_NoMemory();
    if (client != NULL) {
        Py_BEGIN_ALLOW_THREADS
        status = nigh_get_with(client, ids, (size_t)count, timeout_us,
                               no_copy ? NIGH_GET_NO_COPY : 0, views);
        Py_END_ALLOW_THREADS
        if (status == NIGH_OK || status == NIGH_TIMEOUT) {
            list = views_of(object, ids, views, count);
        } else {
            for (Py_ssize_t n = 0; n < count; n++) {
                (void)nigh_release(client, &views[n]);
            }
            (void)errors_raise(status, client);
        }
        unuse(object);
    }
    PyMem_Free(views);
    PyMem_Free(ids);
    return list;
}

static PyObject *client_get_start(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"ids", "timeout", "no_copy", NULL};
    struct client_object *object = (struct client_object *)self;
    PyObject *sequence, *timeout = Py_None, *made;
    uint64_t timeout_us;
    Py_ssize_t count;
    nigh_id *ids;
    int no_copy = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|Op", keywords, &sequence, &timeout,
                                     &no_copy) ||
        !convert_timeout(timeout, &timeout_us) || (ids = ids_of(sequence, &count)) == NULL) {
        return NULL;
    }
    if (client_use(object) == NULL) {
        PyMem_Free(ids);
        return NULL;
    }
    made = pending_get(object, ids, count, timeout_us, no_copy ? NIGH_GET_NO_COPY : 0);
    unuse(object);
    return made;
}

static PyObject *client_contains(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client;
    nigh_status status;
    bool found = false;
    PyObject *done;
    nigh_id id;

    if (!convert_id(from, &id) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    status = nigh_contains(client, &id, &found);
    done = ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return PyBool_FromLong(found);
}

/* ---- manage --------------------------------------------------------------- */

/* True: it was there; what others hold goes when they let go of it. */
static PyObject *client_delete(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_status status, each = NIGH_OK;
    nigh_client *client;
    nigh_id id;

    if (!convert_id(from, &id) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_delete(client, &id, 1, &each);
    Py_END_ALLOW_THREADS
    return ended(object, status);
}

typedef nigh_status one_id(nigh_client *client, const nigh_id *id);

static PyObject *do_with_id(PyObject *self, PyObject *from, one_id *what)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client;
    nigh_status status;
    nigh_id id;

    if (!convert_id(from, &id) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = what(client, &id);
    Py_END_ALLOW_THREADS
    return ended(object, status);
}

static PyObject *client_pin(PyObject *self, PyObject *from)
{
    return do_with_id(self, from, nigh_pin);
}

static PyObject *client_unpin(PyObject *self, PyObject *from)
{
    return do_with_id(self, from, nigh_unpin);
}

static PyObject *info_of(const nigh_object_info *info)
{
    static const char *const states[] = {
        [NIGH_OBJECT_CREATED] = "created",
        [NIGH_OBJECT_SEALED] = "sealed",
        [NIGH_OBJECT_SPILLED] = "spilled",
        [NIGH_OBJECT_DELETING] = "deleting",
    };

    return Py_BuildValue(
        "{s:y#,s:s,s:s,s:K,s:I,s:O,s:I,s:d,s:O}", "id", (const char *)info->id.bytes,
        (Py_ssize_t)NIGH_ID_BYTES, "name", info->name, "state", states[info->state], "size",
        (unsigned long long)info->data_size, "meta_size", info->meta_size, "pinned",
        info->pinned ? Py_True : Py_False, "holders", info->holders, "created",
        (double)info->created_ns / 1e9, "copy", info->copy ? Py_True : Py_False);
}

static PyObject *client_stat(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_object_info info;
    nigh_client *client;
    nigh_status status;
    PyObject *done;
    nigh_id id;

    if (!convert_id(from, &id) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_stat(client, &id, &info);
    Py_END_ALLOW_THREADS
    done = ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return info_of(&info);
}

#define LISTED 64 /* objects of one question */

/* (cursor, [info, ...]); the last has none. */
static PyObject *client_list_some(PyObject *self, PyObject *arguments)
{
    struct client_object *object = (struct client_object *)self;
    nigh_object_info infos[LISTED];
    unsigned long long from;
    nigh_client *client;
    nigh_status status;
    size_t count = 0;
    PyObject *list, *done;
    uint64_t cursor;

    if (!PyArg_ParseTuple(arguments, "K", &from) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    cursor = from;
    Py_BEGIN_ALLOW_THREADS
    status = nigh_list(client, &cursor, infos, LISTED, &count);
    Py_END_ALLOW_THREADS
    done = ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    list = PyList_New(0);
    for (size_t n = 0; n < count && list != NULL; n++) {
        PyObject *info = info_of(&infos[n]);

        if (info == NULL || PyList_Append(list, info) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(info);
    }
    return list == NULL ? NULL : Py_BuildValue("KN", (unsigned long long)cursor, list);
}

/* ---- events, and an application's own loop -------------------------------- */

static PyObject *client_subscribe(PyObject *self, PyObject *arguments)
{
    struct client_object *object = (struct client_object *)self;
    unsigned int flags = 0;
    nigh_client *client;
    nigh_status status;

    if (!PyArg_ParseTuple(arguments, "|I", &flags) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_subscribe(client, flags);
    Py_END_ALLOW_THREADS
    return ended(object, status);
}

static PyObject *client_unsubscribe(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client = client_use(object);

    (void)unused;
    return client == NULL ? NULL : ended(object, nigh_unsubscribe(client));
}

/* (kind, id, size, meta_size), or None when none came in time. */
static PyObject *client_next_event(PyObject *self, PyObject *arguments)
{
    struct client_object *object = (struct client_object *)self;
    PyObject *timeout = Py_None, *done;
    uint64_t timeout_us;
    nigh_client *client;
    nigh_status status;
    nigh_event event;

    if (!PyArg_ParseTuple(arguments, "|O", &timeout) || !convert_timeout(timeout, &timeout_us) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_next_event(client, timeout_us, &event);
    Py_END_ALLOW_THREADS
    if (status == NIGH_TIMEOUT) {
        unuse(object);
        Py_RETURN_NONE;
    }
    done = ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return Py_BuildValue("iy#KI", (int)event.kind, (const char *)event.id.bytes,
                         (Py_ssize_t)NIGH_ID_BYTES, (unsigned long long)event.data_size,
                         event.meta_size);
}

static PyObject *client_fileno(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client = client_use(object);
    int fd;

    (void)unused;
    if (client == NULL) {
        return NULL;
    }
    fd = nigh_client_fd(client);
    unuse(object);
    return PyLong_FromLong(fd);
}

static PyObject *client_arm(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client = client_use(object);

    (void)unused;
    return client == NULL ? NULL : ended(object, nigh_client_arm(client));
}

static PyObject *client_poll(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client = client_use(object);
    size_t ended_ops;

    (void)unused;
    if (client == NULL) {
        return NULL;
    }
    ended_ops = nigh_poll(client);
    unuse(object);
    return PyLong_FromSize_t(ended_ops);
}

/* ---- the node ------------------------------------------------------------- */

static PyObject *client_stats(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_client *client = client_use(object);
    PyObject *numbers, *done;
    nigh_status status;

    (void)unused;
    if (client == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = nigh_stats(client, &stats);
    Py_END_ALLOW_THREADS
    done = ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    numbers = PyDict_New();
#define ADD(field, text)                                                            \
    if (numbers != NULL) {                                                          \
        PyObject *number = PyLong_FromUnsignedLongLong(stats.field);                \
        if (number == NULL || PyDict_SetItemString(numbers, #field, number) != 0) { \
            Py_CLEAR(numbers);                                                      \
        }                                                                           \
        Py_XDECREF(number);                                                         \
    }
    NIGH_NODE_STATS_TABLE(ADD)
#undef ADD
    return numbers;
}

#define METHOD(name, how, text)                                        \
    {                                                                  \
        #name, (PyCFunction)(void (*)(void))client_##name, how, (text) \
    }

static PyMethodDef methods[] = {
    METHOD(close, METH_NOARGS, "Ends the session, when the last view and writer of it are gone."),
    METHOD(put, METH_VARARGS | METH_KEYWORDS, "Puts a copy of what is in a buffer."),
    METHOD(create, METH_VARARGS | METH_KEYWORDS, "A writer of so many bytes."),
    METHOD(get, METH_VARARGS | METH_KEYWORDS, "A view of an object, waiting for it."),
    METHOD(get_many, METH_VARARGS | METH_KEYWORDS,
           "A view of each object; None where there is none in time."),
    METHOD(get_start, METH_VARARGS | METH_KEYWORDS, "get_many, without waiting for it."),
    METHOD(contains, METH_O, "Whether a sealed object of that id is on this node."),
    METHOD(delete, METH_O, "Deletes an object, on every node."),
    METHOD(pin, METH_O, "Keeps an object from eviction until unpin."),
    METHOD(unpin, METH_O, NULL),
    METHOD(stat, METH_O, "What is known of an object."),
    METHOD(list_some, METH_VARARGS, NULL),
    METHOD(subscribe, METH_VARARGS, NULL),
    METHOD(unsubscribe, METH_NOARGS, NULL),
    METHOD(next_event, METH_VARARGS, NULL),
    METHOD(fileno, METH_NOARGS, "A descriptor that is readable when something may have come."),
    METHOD(arm, METH_NOARGS, NULL),
    METHOD(poll, METH_NOARGS, NULL),
    METHOD(stats, METH_NOARGS, "The node's counters and gauges."),
    {"__enter__", client_enter, METH_NOARGS, NULL},
    {"__exit__", client_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fields[] = {
    {"closed", client_get_closed, NULL, "Whether it was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_init, client_init},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {0, NULL},
};

PyType_Spec client_spec = {
    .name = "nigh._native.Client",
    .basicsize = sizeof(struct client_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};
