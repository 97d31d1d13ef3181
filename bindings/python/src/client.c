/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: a client of a node: its life, its events, its numbers. */
#include "native.h"

#define OPEN_US        UINT64_C(5000000) /* how long to wait for the node's answer, as libnigh does */
#define EVENT_SLICE_US UINT64_C(50000)   /* how often a wait for an event looks after signals */

/* ---- uses ----------------------------------------------------------------- */

bool client_is_forked(const struct client_object *object)
{
    return object->fork != native_fork();
}

void client_keep(struct client_object *object)
{
    object->uses++;
    Py_INCREF((PyObject *)object);
}

nigh_client *client_use(struct client_object *object)
{
    if (object->is_closed || object->client == NULL) {
        return errors_say(NIGH_CLOSED, "the client is closed"), NULL;
    }
    if (client_is_forked(object)) {
        return errors_raise(NIGH_FORKED, NULL), NULL;
    }
    client_keep(object);
    return object->client;
}

/* A child closes what it has of its parent's client, too: nothing of it is the parent's then. */
static void end_session(struct client_object *object)
{
    nigh_client *client = object->client;

    object->client = NULL;
    if (client != NULL) {
        WITHOUT_LOCK(nigh_client_close(client));
    }
}

void client_drop(struct client_object *object)
{
    object->uses--;
    if (object->uses == 0 && object->is_closed) {
        end_session(object);
    }
    Py_DECREF((PyObject *)object);
}

PyObject *client_ended(struct client_object *object, nigh_status status)
{
    if (status != NIGH_OK && PyErr_Occurred() == NULL) {
        (void)errors_raise(status, object->client);
    }
    client_drop(object);
    return PyErr_Occurred() == NULL ? Py_NewRef(Py_None) : NULL;
}

/* ---- open, close ---------------------------------------------------------- */

static int open_it(struct client_object *object, const nigh_client_options *options)
{
    nigh_client *client = NULL;
    nigh_status status;

    WITHOUT_LOCK(status = nigh_client_open(options, &client));
    if (status != NIGH_OK) {
        (void)errors_say(status, nigh_open_error());
        return -1;
    }
    if (object->client != NULL || object->is_closed) { /* by another thread, meanwhile */
        WITHOUT_LOCK(nigh_client_close(client));
        PyErr_SetString(PyExc_RuntimeError,
                        object->is_closed ? "the client is closed" : "a client is opened once");
        return -1;
    }
    object->client = client;
    object->fork = native_fork();
    return 0;
}

static int client_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"socket",   "pool",      "name",    "quota",        "timeout",
                               "prefault", "read_only", "spin_us", "low_priority", NULL};
    struct client_object *object = (struct client_object *)self;
    nigh_client_options options = {.struct_size = sizeof options, .timeout_us = OPEN_US};
    PyObject *socket = Py_None, *path = NULL;
    int read_only = 0, low_priority = 0, failed;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|OzzO&O&O&pO&p", keywords, &socket,
                                     &options.pool, &options.name, convert_number,
                                     &options.quota_bytes, convert_timeout, &options.timeout_us,
                                     convert_number, &options.prefault_bytes, &read_only,
                                     convert_u32, &options.spin_us, &low_priority)) {
        return -1;
    }
    if (object->client != NULL || object->is_closed) {
        PyErr_SetString(PyExc_RuntimeError, "a client is opened once");
        return -1;
    }
    if (options.timeout_us == 0) {
        options.timeout_us = 1; /* 0 is libnigh's word for as long as it likes */
    }
    options.flags =
        (read_only ? NIGH_OPEN_READ_ONLY : 0) | (low_priority ? NIGH_OPEN_LOW_PRIORITY : 0);
    if (socket != Py_None && !PyUnicode_FSConverter(socket, &path)) {
        return -1;
    }
    options.socket_path = path == NULL ? NULL : PyBytes_AsString(path);
    failed = open_it(object, &options);
    Py_XDECREF(path);
    return failed;
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
    end_session((struct client_object *)self); /* no use is left: each has a reference */
    native_free(self);
}

static PyObject *client_enter(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;

    (void)unused;
    return object->is_closed || object->client == NULL
               ? errors_say(NIGH_CLOSED, "the client is closed")
               : Py_NewRef(self);
}

static PyObject *client_get_closed(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct client_object *)self)->is_closed);
}

/* ---- events, and an application's own loop -------------------------------- */

static PyObject *client_subscribe(PyObject *self, PyObject *arguments)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client;
    nigh_status status;
    uint32_t flags = 0;

    if (!PyArg_ParseTuple(arguments, "|O&", convert_u32, &flags) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_subscribe(client, flags));
    return client_ended(object, status);
}

static PyObject *client_unsubscribe(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client = client_use(object);
    nigh_status status;

    (void)unused;
    if (client == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_unsubscribe(client));
    return client_ended(object, status);
}

/* In slices, between which it looks after signals, and whether the client was closed. Both are
 * raised. */
static nigh_status wait_for_event(struct client_object *object, uint64_t timeout_us,
                                  nigh_event *event)
{
    nigh_status status;

    do {
        uint64_t slice_us = timeout_us < EVENT_SLICE_US ? timeout_us : EVENT_SLICE_US;

        WITHOUT_LOCK(status = nigh_next_event(object->client, slice_us, event));
        timeout_us -= timeout_us == NIGH_FOREVER ? 0 : slice_us;
        if (status == NIGH_TIMEOUT && PyErr_CheckSignals() != 0) {
            return NIGH_CANCELED;
        }
        if (status == NIGH_TIMEOUT && object->is_closed) {
            (void)errors_say(NIGH_CLOSED, "the client is closed");
            return NIGH_CLOSED;
        }
    } while (status == NIGH_TIMEOUT && timeout_us != 0);
    return status;
}

/* (kind, id, size, meta_size), or None when none came in time. */
static PyObject *client_next_event(PyObject *self, PyObject *arguments)
{
    struct client_object *object = (struct client_object *)self;
    uint64_t timeout_us = NIGH_FOREVER;
    PyObject *told = NULL;
    nigh_client *client;
    nigh_status status;
    nigh_event event;

    if (!PyArg_ParseTuple(arguments, "|O&", convert_timeout, &timeout_us) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    status = wait_for_event(object, timeout_us, &event);
    if (status == NIGH_OK) {
        told = Py_BuildValue("iy#KI", (int)event.kind, (const char *)event.id.bytes,
                             (Py_ssize_t)NIGH_ID_BYTES, (unsigned long long)event.data_size,
                             event.meta_size);
    } else if (status == NIGH_TIMEOUT) {
        told = Py_NewRef(Py_None);
    } else if (PyErr_Occurred() == NULL) {
        (void)errors_raise(status, client);
    }
    client_drop(object);
    return told;
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
    client_drop(object);
    return PyLong_FromLong(fd);
}

static PyObject *client_arm(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client = client_use(object);
    nigh_status status;

    (void)unused;
    if (client == NULL) {
        return NULL;
    }
    object->is_watched = true;
    WITHOUT_LOCK(status = nigh_client_arm(client)); /* the client's own lock may be a thread's */
    return client_ended(object, status);
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
    WITHOUT_LOCK(ended_ops = nigh_poll(client));
    client_drop(object);
    return PyLong_FromSize_t(ended_ops);
}

/* ---- the node ------------------------------------------------------------- */

static PyObject *numbers_of(const nigh_node_stats *stats)
{
    PyObject *numbers = PyDict_New();
    bool is_good = numbers != NULL;

#define ADD(field, text) \
    is_good = is_good && convert_put(numbers, #field, convert_number_from(stats->field));
    NIGH_NODE_STATS_TABLE(ADD)
#undef ADD
    if (!is_good) {
        Py_CLEAR(numbers);
    }
    return numbers;
}

static PyObject *client_stats(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_node_stats stats = {.struct_size = sizeof stats};
    nigh_client *client = client_use(object);
    PyObject *done;
    nigh_status status;

    (void)unused;
    if (client == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_stats(client, &stats));
    done = client_ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return numbers_of(&stats);
}

#define NODES_MOST 1024

/* What is known of a node. */
static PyObject *node_of(const nigh_node_info *info)
{
    static const char *const states[] = {
        [NIGH_NODE_IS_AWAY] = "away",
        [NIGH_NODE_IS_UP] = "up",
        [NIGH_NODE_IS_LOST] = "lost",
        [NIGH_NODE_IS_DEAD] = "dead",
    };
    PyObject *node = PyDict_New();

    if (node == NULL || !convert_put(node, "rank", convert_number_from(info->rank)) ||
        !convert_put(node, "state",
                     convert_text(info->state <= NIGH_NODE_IS_DEAD ? states[info->state] : "")) ||
        !convert_put(node, "incarnation", convert_number_from(info->incarnation)) ||
        !convert_put(node, "is_self", PyBool_FromLong(info->is_self != 0)) ||
        !convert_put(node, "address", convert_text(info->address)) ||
        !convert_put(node, "name", convert_text(info->name)) ||
        !convert_put(node, "leaving", PyBool_FromLong(info->leaving != 0))) {
        Py_CLEAR(node);
    }
    return node;
}

static PyObject *nodes_of(const nigh_node_info *infos, size_t count)
{
    PyObject *list = PyList_New(0);

    for (size_t n = 0; n < count && list != NULL; n++) {
        PyObject *node = node_of(&infos[n]);

        if (node == NULL || PyList_Append(list, node) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(node);
    }
    return list;
}

static PyObject *client_nodes(PyObject *self, PyObject *unused)
{
    struct client_object *object = (struct client_object *)self;
    nigh_node_info *infos = PyMem_Calloc(NODES_MOST, sizeof *infos);
    nigh_client *client;
    PyObject *list = NULL;
    nigh_status status;
    size_t count = 0;

    (void)unused;
    if (infos == NULL) {
        return PyErr_NoMemory();
    }
    client = client_use(object);
    if (client != NULL) {
        infos[0].struct_size = sizeof *infos;
        WITHOUT_LOCK(status = nigh_nodes(client, infos, NODES_MOST, &count));
        if (status == NIGH_OK) {
            list = nodes_of(infos, count < NODES_MOST ? count : NODES_MOST);
        } else {
            (void)errors_raise(status, client);
        }
        client_drop(object);
    }
    PyMem_Free(infos);
    return list;
}

static PyMethodDef methods[] = {
    {"close", client_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Ends the session, when the last view, writer and handle of it are gone."},
    NATIVE_NAMED("put", objects_put,
                 "put($self, id, data, meta=None, *, timeout=0, exclusive=False, replicas=0, "
                 "no_evict=False)\n--\n\n"
                 "Puts a copy of what is in a buffer."),
    NATIVE_NAMED("put_many", puts_many,
                 "put_many($self, items, *, timeout=0, exclusive=False, replicas=0, "
                 "no_evict=False, start=False)\n--\n\n"
                 "Puts copies of several, with one question for the small."),
    NATIVE_NAMED("create", objects_create,
                 "create($self, id, size, meta=None, *, timeout=0, exclusive=False, replicas=0, "
                 "no_evict=False)\n--\n\n"
                 "A writer of so many bytes."),
    NATIVE_NAMED("get", objects_get,
                 "get($self, id, timeout=None, no_copy=False)\n--\n\n"
                 "A view of an object, waiting for it."),
    NATIVE_NAMED("get_many", objects_get_many,
                 "get_many($self, ids, timeout=None, no_copy=False)\n--\n\n"
                 "A view of each object; None where there is none in time."),
    NATIVE_NAMED("get_start", objects_get_start,
                 "get_start($self, ids, timeout=None, no_copy=False)\n--\n\n"
                 "get_many, without waiting for it."),
    {"contains", objects_contains, METH_O,
     "contains($self, id, /)\n--\n\n"
     "Whether a sealed object of that id is on this node."},
    {"delete", objects_delete, METH_O,
     "delete($self, id, /)\n--\n\n"
     "Deletes an object, on every node."},
    {"pin", objects_pin, METH_O,
     "pin($self, id, /)\n--\n\n"
     "Keeps an object from eviction until unpin."},
    {"unpin", objects_unpin, METH_O,
     "unpin($self, id, /)\n--\n\n"
     "Ends that."},
    {"checksum", objects_checksum, METH_O,
     "checksum($self, id, /)\n--\n\n"
     "CRC32C of an object's bytes."},
    {"evict", objects_evict, METH_O,
     "evict($self, size, /)\n--\n\n"
     "Frees so many bytes of unused objects; how many it were."},
    {"stat", objects_stat, METH_O,
     "stat($self, id, /)\n--\n\n"
     "What is known of an object."},
    {"list_some", objects_list_some, METH_O,
     "list_some($self, cursor, /)\n--\n\n"
     "Objects of the pool behind a cursor, and the next."},
    {"set_quota", objects_set_quota, METH_O,
     "set_quota($self, quota, /)\n--\n\n"
     "Most bytes that this client may keep in memory."},
    NATIVE_NAMED("replicate", objects_replicate,
                 "replicate($self, id, copies, timeout=10)\n--\n\n"
                 "Has so many nodes hold an object; how many do."),
    {"where", objects_where, METH_O,
     "where($self, id, /)\n--\n\n"
     "The ranks of nodes that hold an object."},
    {"who", objects_who, METH_O,
     "who($self, id, /)\n--\n\n"
     "The processes of this machine that hold an object."},
    {"subscribe", client_subscribe, METH_VARARGS,
     "subscribe($self, flags=0, /)\n--\n\n"
     "Begins events; see events()."},
    {"unsubscribe", client_unsubscribe, METH_NOARGS,
     "unsubscribe($self, /)\n--\n\n"
     "Ends events."},
    {"next_event", client_next_event, METH_VARARGS,
     "next_event($self, timeout=None, /)\n--\n\n"
     "(kind, id, size, meta_size), or None when none came in time."},
    {"fileno", client_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\n"
     "A descriptor that is readable when something may have come."},
    {"arm", client_arm, METH_NOARGS,
     "arm($self, /)\n--\n\n"
     "Before one looks, and then sleeps on the descriptor."},
    {"poll", client_poll, METH_NOARGS,
     "poll($self, /)\n--\n\n"
     "Takes in what came; how much has ended."},
    {"stats", client_stats, METH_NOARGS,
     "stats($self, /)\n--\n\n"
     "The node's counters and gauges."},
    {"nodes", client_nodes, METH_NOARGS,
     "nodes($self, /)\n--\n\n"
     "The nodes of the cluster, by rank."},
    NATIVE_NAMED("create_region", region_create,
                 "create_region($self, name, size, *, chunk_size=0, where=None, group_access=0, "
                 "other_access=0, mappable=False, near=None, timeout=10)\n--\n\n"
                 "Creates a region, and opens it for all."),
    NATIVE_NAMED("open_region", region_open,
                 "open_region($self, name, access=3, timeout=10)\n--\n\n"
                 "Opens a region."),
    {"regions_some", region_list_some, METH_VARARGS,
     "regions_some($self, after, /)\n--\n\n"
     "Regions behind a name, and whether more."},
    NATIVE_NAMED("create_space", space_create,
                 "create_space($self, name, home_size, *, cache_size=0, block_size=0, "
                 "group_access=0, other_access=0, durability='none', timeout=10)\n--\n\n"
                 "Creates a space, and opens it for all."),
    NATIVE_NAMED("open_space", space_open,
                 "open_space($self, name, access=3, timeout=10)\n--\n\n"
                 "Opens a space."),
    NATIVE_NAMED("delete_space", space_delete,
                 "delete_space($self, name, timeout=10)\n--\n\n"
                 "Deletes a space."),
    NATIVE_NAMED("stat_space", space_stat,
                 "stat_space($self, name, timeout=10)\n--\n\n"
                 "What a space is like."),
    {"spaces_some", space_list_some, METH_VARARGS,
     "spaces_some($self, after, /)\n--\n\n"
     "Spaces behind a name, and whether more."},
    NATIVE_NAMED("call", call_now,
                 "call($self, service, request=b'', *, rank=None, timeout=None, one_way=False, "
                 "idempotent=False, urgent=False, bulks=None)\n--\n\n"
                 "Calls a service; its reply."),
    NATIVE_NAMED("call_start", call_start,
                 "call_start($self, service, request=b'', *, rank=None, timeout=None, "
                 "one_way=False, idempotent=False, urgent=False, bulks=None)\n--\n\n"
                 "call, without waiting for it."),
    NATIVE_NAMED("multicast", multicast_call,
                 "multicast($self, service, request=b'', *, ranks=None, reduce='concat', size=8, "
                 "version=0, fan=0, timeout=None, start=False)\n--\n\n"
                 "Calls a service on many nodes at once; what became of it."),
    NATIVE_NAMED("alloc_bulk", bulk_alloc,
                 "alloc_bulk($self, size, access=3)\n--\n\n"
                 "Memory that calls may bring."),
    {"register", service_register, METH_O,
     "register($self, name, /)\n--\n\n"
     "Serves a name: a service to receive requests of."},
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
