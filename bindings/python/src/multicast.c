/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: a call of many nodes at once, whose replies are reduced on their way back. */
#include "native.h"

#include <string.h>

#define RANKS_MOST 4096 /* nodes of one call: more than a cluster has */

static const char *const reductions[] = {
    [NIGH_REDUCE_NONE] = "none",       [NIGH_REDUCE_SUM_U64] = "sum_u64",
    [NIGH_REDUCE_MIN_U64] = "min_u64", [NIGH_REDUCE_MAX_U64] = "max_u64",
    [NIGH_REDUCE_SUM_F64] = "sum_f64", [NIGH_REDUCE_MIN_F64] = "min_f64",
    [NIGH_REDUCE_MAX_F64] = "max_f64", [NIGH_REDUCE_CONCAT] = "concat",
};

struct multicasting {
    nigh_multicast_spec spec;
    struct native_name service;
    Py_buffer request;
    uint32_t *ranks;
    char value[NIGH_MULTICAST_BYTES];
};

/* {rank: reply} of what was put one behind the other. */
static PyObject *replies_of(const char *value, size_t bytes)
{
    PyObject *replies = PyDict_New();
    nigh_multicast_reply head;

    for (size_t at = 0; replies != NULL && at + sizeof head <= bytes;
         at += sizeof head + head.bytes) {
        PyObject *rank, *reply;

        memcpy(&head, value + at, sizeof head);
        if (head.bytes > bytes - at - sizeof head) {
            break;
        }
        rank = convert_number_from(head.rank);
        reply = PyBytes_FromStringAndSize(value + at + sizeof head, (Py_ssize_t)head.bytes);
        if (rank == NULL || reply == NULL || PyDict_SetItem(replies, rank, reply) != 0) {
            Py_CLEAR(replies);
        }
        Py_XDECREF(rank);
        Py_XDECREF(reply);
    }
    return replies;
}

static PyObject *errors_of(const nigh_multicast_spec *spec)
{
    PyObject *errors = PyList_New(0);

    for (uint32_t n = 0; n < spec->error_count && n < NIGH_MULTICAST_ERRORS && errors != NULL;
         n++) {
        const nigh_multicast_error *error = &spec->errors[n];
        PyObject *told = PyDict_New();

        if (told == NULL || !convert_put(told, "rank", convert_number_from(error->rank)) ||
            !convert_put(told, "status", PyLong_FromLong(error->status)) ||
            !convert_put(told, "count", convert_number_from(error->count)) ||
            !convert_put(told, "had", PyBool_FromLong(error->is_had != 0)) ||
            PyList_Append(errors, told) != 0) {
            Py_CLEAR(errors);
        }
        Py_XDECREF(told);
    }
    return errors;
}

/* Where anything is known of the nodes it is told, however the call ended; else that is raised. */
static PyObject *take_multicast(struct client_object *client, void *state, nigh_status status)
{
    struct multicasting *multicast = state;
    const nigh_multicast_spec *spec = &multicast->spec;
    PyObject *told;

    if (status != NIGH_OK && spec->answered + spec->failed + spec->unknown + spec->unasked == 0) {
        return errors_raise(status, client->client);
    }
    told = PyDict_New();
    if (told == NULL || !convert_put(told, "status", PyLong_FromLong(status)) ||
        !convert_put(
            told, "value",
            spec->reduce == NIGH_REDUCE_CONCAT
                ? replies_of(multicast->value, spec->value_bytes)
                : PyBytes_FromStringAndSize(multicast->value, (Py_ssize_t)spec->value_bytes)) ||
        !convert_put(told, "answered", convert_number_from(spec->answered)) ||
        !convert_put(told, "failed", convert_number_from(spec->failed)) ||
        !convert_put(told, "unknown", convert_number_from(spec->unknown)) ||
        !convert_put(told, "unasked", convert_number_from(spec->unasked)) ||
        !convert_put(told, "version", convert_number_from(spec->version)) ||
        !convert_put(told, "errors", errors_of(spec))) {
        Py_CLEAR(told);
    }
    return told;
}

static void leave_multicast(nigh_client *client, void *state)
{
    (void)client;
    (void)state;
}

static void clear_multicast(void *state)
{
    struct multicasting *multicast = state;

    if (multicast->request.obj != NULL) {
        PyBuffer_Release(&multicast->request);
    }
    PyMem_Free(multicast->ranks);
}

static int visit_multicast(void *state, visitproc visit, void *arg)
{
    Py_VISIT(((struct multicasting *)state)->request.obj);
    return 0;
}

static const struct pending_kind multicast_kind = {
    .size = sizeof(struct multicasting),
    .take = take_multicast,
    .leave = leave_multicast,
    .clear = clear_multicast,
    .visit = visit_multicast,
};

static bool parse_ranks(PyObject *from, struct multicasting *multicast)
{
    Py_ssize_t count = from == Py_None ? 0 : PySequence_Size(from);

    if (count < 0 || from == Py_None) {
        return count == 0;
    }
    if (count > RANKS_MOST) {
        PyErr_Format(PyExc_ValueError, "at most %d ranks", RANKS_MOST);
        return false;
    }
    multicast->ranks = PyMem_Calloc((size_t)count + 1, sizeof *multicast->ranks);
    if (multicast->ranks == NULL) {
        (void)PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *item = PySequence_GetItem(from, n);
        uint64_t rank = 0;
        bool is_good = item != NULL && convert_number(item, &rank);

        Py_XDECREF(item);
        if (!is_good) {
            return false;
        }
        multicast->ranks[n] = rank < UINT32_MAX ? (uint32_t)rank : UINT32_MAX;
    }
    multicast->spec.ranks = multicast->ranks;
    multicast->spec.rank_count = (size_t)count;
    return true;
}

static bool parse_reduction(const char *text, uint32_t *reduce)
{
    for (uint32_t n = 0; n < sizeof reductions / sizeof reductions[0]; n++) {
        if (strcmp(text, reductions[n]) == 0) {
            *reduce = n;
            return true;
        }
    }
    PyErr_SetString(PyExc_ValueError, "reduce is \"none\", \"concat\", or \"sum_\", \"min_\" or "
                                      "\"max_\" with \"u64\" or \"f64\"");
    return false;
}

/* False: raised. */
static bool set_up(struct multicasting *multicast, PyObject *ranks, const char *reduce,
                   uint64_t size)
{
    nigh_multicast_spec *spec = &multicast->spec;

    if (!parse_reduction(reduce, &spec->reduce) || !parse_ranks(ranks, multicast)) {
        return false;
    }
    if (size > NIGH_MULTICAST_BYTES) {
        PyErr_Format(PyExc_ValueError, "a value has at most %d bytes", NIGH_MULTICAST_BYTES);
        return false;
    }
    spec->request = multicast->request.buf;
    spec->request_bytes = (size_t)multicast->request.len;
    spec->value = multicast->value;
    spec->value_room = spec->reduce == NIGH_REDUCE_NONE     ? 0
                       : spec->reduce == NIGH_REDUCE_CONCAT ? sizeof multicast->value
                                                            : (size_t)size;
    return true;
}

PyObject *multicast_call(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"service", "request", "ranks",   "reduce", "size",
                               "version", "fan",     "timeout", "start",  NULL};
    struct client_object *object = (struct client_object *)self;
    uint64_t size = 8, version = 0, timeout_us = NIGH_FOREVER;
    struct native_name service;
    PyObject *ranks = Py_None;
    struct multicasting *multicast;
    struct pending_object *pending;
    const char *reduce = "concat";
    Py_buffer request = {0};
    nigh_client *client;
    nigh_status status;
    uint32_t fan = 0;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|y*$OsO&O&O&O&p", keywords, convert_name,
                                     &service, &request, &ranks, &reduce, convert_number, &size,
                                     convert_number, &version, convert_u32, &fan, convert_timeout,
                                     &timeout_us, &start)) {
        return NULL;
    }
    client = client_use(object);
    pending = client == NULL ? NULL : pending_new(object, &multicast_kind);
    if (client != NULL) {
        client_drop(object);
    }
    if (pending == NULL) {
        if (request.obj != NULL) {
            PyBuffer_Release(&request);
        }
        return NULL;
    }
    multicast = pending_state(pending);
    multicast->request = request;
    multicast->service = service;
    multicast->spec = (nigh_multicast_spec){
        .struct_size = sizeof multicast->spec,
        .service = multicast->service.text,
        .version = version,
        .fan = fan,
    };
    if (!set_up(multicast, ranks, reduce, size)) {
        Py_DECREF((PyObject *)pending);
        return NULL;
    }
    WITHOUT_LOCK(
        status = nigh_multicast_start(client, &multicast->spec, timeout_us, pending_op(pending)));
    return start ? pending_begun(pending, status) : pending_wait(pending, status, timeout_us);
}
