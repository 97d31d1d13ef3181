/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: puts of many objects with one question, which may go on. */
#include "native.h"

#define COPY_BYTES_A_US UINT64_C(100)    /* slower than copies are to memory that is new, too */
#define ITEM_BYTES      UINT64_C(65536)  /* an object takes no longer than a copy of so many */
#define CLAIM_US        UINT64_C(500000) /* how long a claim of an id waits at the least */
#define AT_ONCE         32               /* of one client in one lane may wait for memory, always */

struct put_one {
    struct native_name name; /* where the id is one */
    Py_buffer data, meta;
    nigh_create_options options;
};

struct putting {
    struct put_one *ones;
    nigh_put_item *items;
    size_t count;
    uint64_t bytes; /* of them all */
};

uint64_t puts_time_us(const nigh_create_options *options, uint64_t count, uint64_t bytes)
{
    bool is_claimed = (options->flags & NIGH_CREATE_EXCLUSIVE) != 0;
    bool is_replicated = (options->flags >> NIGH_CREATE_REPLICAS_SHIFT) != 0;
    uint64_t wait_us = options->timeout_us, claim_us, replicas_us, time_us;

    claim_us = wait_us > CLAIM_US ? wait_us : CLAIM_US;
    replicas_us = wait_us > NIGH_REPLICAS_WAIT_US ? wait_us : NIGH_REPLICAS_WAIT_US;
    /* Its create, its seal and its replicas wait one behind the other. */
    if (wait_us == NIGH_FOREVER ||
        (is_claimed && __builtin_add_overflow(claim_us, claim_us, &wait_us)) ||
        (is_replicated && __builtin_add_overflow(wait_us, replicas_us, &wait_us)) ||
        __builtin_mul_overflow(wait_us, 1 + count / AT_ONCE, &time_us) ||
        __builtin_add_overflow(time_us, (bytes + count * ITEM_BYTES) / COPY_BYTES_A_US, &time_us)) {
        return NIGH_FOREVER;
    }
    return time_us;
}

/* Of each object, in their order. What was given up at its time is late, as a get's is. */
static PyObject *statuses_of(const struct putting *putting, nigh_status status)
{
    PyObject *statuses = PyList_New(0);

    for (size_t n = 0; n < putting->count; n++) {
        nigh_status each = putting->items[n].status;

        errors_note(&statuses,
                    each == NIGH_CANCELED && status == NIGH_TIMEOUT ? NIGH_TIMEOUT : each);
    }
    return statuses;
}

static PyObject *take_puts(struct client_object *client, void *state, nigh_status status)
{
    PyObject *statuses;

    if (status == NIGH_OK) {
        return Py_NewRef(Py_None);
    }
    statuses = statuses_of(state, status);
    if (statuses == NULL) {
        return NULL;
    }
    (void)errors_raise(status, client->client);
    errors_mark("statuses", statuses);
    Py_DECREF(statuses);
    return NULL;
}

static void leave_puts(nigh_client *client, void *state)
{
    (void)client;
    (void)state;
}

static void clear_puts(void *state)
{
    struct putting *putting = state;

    for (size_t n = 0; n < putting->count; n++) {
        struct put_one *one = &putting->ones[n];

        if (one->data.obj != NULL) {
            PyBuffer_Release(&one->data);
        }
        if (one->meta.obj != NULL) {
            PyBuffer_Release(&one->meta);
        }
    }
    PyMem_Free(putting->ones);
    PyMem_Free(putting->items);
}

static int visit_puts(void *state, visitproc visit, void *arg)
{
    struct putting *putting = state;

    for (size_t n = 0; n < putting->count; n++) {
        Py_VISIT(putting->ones[n].data.obj);
        Py_VISIT(putting->ones[n].meta.obj);
    }
    return 0;
}

static const struct pending_kind put_kind = {
    .size = sizeof(struct putting),
    .take = take_puts,
    .leave = leave_puts,
    .clear = clear_puts,
    .visit = visit_puts,
};

/* (id, data) or (id, data, metadata). False: raised; what it has taken is the state's. */
static bool put_one(PyObject *from, struct put_one *one, nigh_put_item *item,
                    const nigh_create_options *options)
{
    PyObject *id, *data, *meta = Py_None;

    if (!PyTuple_Check(from)) {
        PyErr_SetString(PyExc_TypeError, "each is a tuple: id, data and, if there are, metadata");
        return false;
    }
    if (!PyArg_ParseTuple(from, "OO|O", &id, &data, &meta) || !convert_id(id, &item->id) ||
        (PyUnicode_Check(id) && !convert_name(id, &one->name)) ||
        PyObject_GetBuffer(data, &one->data, PyBUF_SIMPLE) != 0 ||
        (meta != Py_None && PyObject_GetBuffer(meta, &one->meta, PyBUF_SIMPLE) != 0)) {
        return false;
    }
    if (one->meta.len > UINT16_MAX + 1) {
        PyErr_SetString(PyExc_ValueError, "at most 65536 bytes of metadata");
        return false;
    }
    one->options = *options;
    one->options.name = convert_name_text(&one->name);
    one->options.meta = one->meta.buf;
    one->options.meta_size = (uint32_t)one->meta.len;
    item->data = one->data.buf;
    item->data_size = (uint64_t)one->data.len;
    item->options = &one->options;
    return true;
}

static bool put_all(PyObject *from, struct putting *putting, const nigh_create_options *options)
{
    Py_ssize_t count = PySequence_Size(from);

    if (count < 0) {
        return false;
    }
    putting->ones = PyMem_Calloc((size_t)count + 1, sizeof *putting->ones);
    putting->items = PyMem_Calloc((size_t)count + 1, sizeof *putting->items);
    if (putting->ones == NULL || putting->items == NULL) {
        (void)PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *item = PySequence_GetItem(from, n);
        bool is_good;

        putting->count = (size_t)n + 1;
        is_good = item != NULL && put_one(item, &putting->ones[n], &putting->items[n], options);
        putting->bytes += putting->items[n].data_size;
        Py_XDECREF(item);
        if (!is_good) {
            return false;
        }
    }
    return true;
}

PyObject *puts_many(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"items",    "timeout", "exclusive", "replicas",
                               "no_evict", "start",   NULL};
    struct client_object *object = (struct client_object *)self;
    int exclusive = 0, no_evict = 0, start = 0;
    nigh_create_options options = {0};
    struct pending_object *pending;
    struct putting *putting;
    uint32_t replicas = 0;
    nigh_client *client;
    nigh_status status;
    PyObject *from;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|$O&pO&pp", keywords, &from,
                                     convert_timeout, &options.timeout_us, &exclusive, convert_u32,
                                     &replicas, &no_evict, &start)) {
        return NULL;
    }
    if (replicas > NIGH_REPLICAS_MOST) {
        PyErr_Format(PyExc_ValueError, "at most %d replicas", NIGH_REPLICAS_MOST);
        return NULL;
    }
    options.flags = (exclusive ? NIGH_CREATE_EXCLUSIVE : 0) |
                    (no_evict ? NIGH_CREATE_NO_EVICT : 0) | NIGH_CREATE_REPLICAS(replicas);
    client = client_use(object);
    if (client == NULL) {
        return NULL;
    }
    pending = pending_new(object, &put_kind);
    client_drop(object);
    if (pending == NULL) {
        return NULL;
    }
    putting = pending_state(pending);
    if (!put_all(from, putting, &options)) {
        Py_DECREF((PyObject *)pending);
        return NULL;
    }
    WITHOUT_LOCK(
        status = nigh_put_many_start(client, putting->items, putting->count, pending_op(pending)));
    return start ? pending_begun(pending, status)
                 : pending_wait(pending, status,
                                puts_time_us(&options, putting->count, putting->bytes));
}
