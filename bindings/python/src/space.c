/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: spaces. What is written, fenced and locked is of the thread that does it, here as
 * in C: Python's threads are the system's.
 */
#include "native.h"

#include <string.h>

#define LISTED 63 /* spaces of one question: most of nigh_space_list */

/* ---- handles -------------------------------------------------------------- */

static nigh_status close_space(void *it)
{
    nigh_space_close(it);
    return NIGH_OK;
}

static bool parse_durability(const char *text, nigh_space_durability *durability)
{
    static const char *const names[] = {"none", "async", "sync"};

    for (int n = 0; n <= NIGH_SPACE_DURABLE_SYNC; n++) {
        if (strcmp(text, names[n]) == 0) {
            *durability = (nigh_space_durability)n;
            return true;
        }
    }
    PyErr_SetString(PyExc_ValueError, "durability is \"none\", \"async\" or \"sync\"");
    return false;
}

PyObject *space_create(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"name",       "home_size",    "cache_size",
                               "block_size", "group_access", "other_access",
                               "durability", "timeout",      NULL};
    struct client_object *object = (struct client_object *)self;
    nigh_space_spec spec = {.struct_size = sizeof spec};
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    const char *durability = "none";
    struct native_name name;
    nigh_space *space = NULL;
    PyObject *made = NULL;
    nigh_client *client;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|$O&O&O&O&sO&", keywords, convert_name,
                                     &name, convert_number, &spec.home_size, convert_number,
                                     &spec.cache_size, convert_u32, &spec.block_size, convert_u32,
                                     &spec.group_access, convert_u32, &spec.other_access,
                                     &durability, convert_timeout, &timeout_us) ||
        !parse_durability(durability, &spec.durability) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    spec.name = name.text;
    WITHOUT_LOCK(status = nigh_space_create(client, &spec, timeout_us, &space));
    if (status == NIGH_OK) {
        made = (PyObject *)handle_new(native_state()->space_type, object, space, close_space);
    } else {
        (void)errors_raise(status, client);
    }
    client_drop(object);
    return made;
}

PyObject *space_open(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"name", "access", "timeout", NULL};
    struct client_object *object = (struct client_object *)self;
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    uint32_t access = NIGH_SPACE_ALL;
    nigh_space *space = NULL;
    PyObject *made = NULL;
    nigh_client *client;
    nigh_status status;
    struct native_name name;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&O&", keywords, convert_name, &name,
                                     convert_u32, &access, convert_timeout, &timeout_us) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_open(client, name.text, access, timeout_us, &space));
    if (status == NIGH_OK) {
        made = (PyObject *)handle_new(native_state()->space_type, object, space, close_space);
    } else {
        (void)errors_raise(status, client);
    }
    client_drop(object);
    return made;
}

PyObject *space_delete(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"name", "timeout", NULL};
    struct client_object *object = (struct client_object *)self;
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    nigh_client *client;
    nigh_status status;
    struct native_name name;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&", keywords, convert_name, &name,
                                     convert_timeout, &timeout_us) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_delete(client, name.text, timeout_us));
    return client_ended(object, status);
}

/* ---- what they are like --------------------------------------------------- */

static PyObject *ranks_of(uint64_t bits)
{
    PyObject *ranks = PyList_New(0);

    for (unsigned int n = 0; n < 64 && ranks != NULL; n++) {
        PyObject *rank;

        if ((bits >> n & 1) == 0) {
            continue;
        }
        rank = convert_number_from(n);
        if (rank == NULL || PyList_Append(ranks, rank) != 0) {
            Py_CLEAR(ranks);
        }
        Py_XDECREF(rank);
    }
    return ranks;
}

static PyObject *info_of(const nigh_space_info *info)
{
    static const char *const durabilities[] = {"none", "async", "sync"};
    PyObject *made = PyDict_New();

    if (made == NULL || !convert_put(made, "name", convert_from_name(info->name)) ||
        !convert_put(made, "home_size", convert_number_from(info->home_size)) ||
        !convert_put(made, "cache_size", convert_number_from(info->cache_size)) ||
        !convert_put(made, "used_size", convert_number_from(info->used_size)) ||
        !convert_put(made, "ranks", ranks_of(info->ranks)) ||
        !convert_put(made, "rank", convert_number_from(info->rank)) ||
        !convert_put(made, "block_size", convert_number_from(info->block_size)) ||
        !convert_put(made, "uid", convert_number_from(info->uid)) ||
        !convert_put(made, "gid", convert_number_from(info->gid)) ||
        !convert_put(made, "group_access", convert_number_from(info->group_access)) ||
        !convert_put(made, "other_access", convert_number_from(info->other_access)) ||
        !convert_put(made, "access", convert_number_from(info->access)) ||
        !convert_put(made, "durability",
                     convert_text(info->durability <= NIGH_SPACE_DURABLE_SYNC
                                      ? durabilities[info->durability]
                                      : ""))) {
        Py_CLEAR(made);
    }
    return made;
}

PyObject *space_stat(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"name", "timeout", NULL};
    struct client_object *object = (struct client_object *)self;
    nigh_space_info info = {.struct_size = sizeof info};
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    nigh_client *client;
    nigh_status status;
    struct native_name name;
    PyObject *done;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&", keywords, convert_name, &name,
                                     convert_timeout, &timeout_us) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_stat(client, name.text, timeout_us, &info));
    done = client_ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return info_of(&info);
}

static PyObject *infos_of(const nigh_space_info *infos, size_t count, bool more)
{
    PyObject *list = PyList_New(0);

    for (size_t n = 0; n < count && list != NULL; n++) {
        PyObject *info = info_of(&infos[n]);

        if (info == NULL || PyList_Append(list, info) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(info);
    }
    return list == NULL ? NULL : Py_BuildValue("NO", list, more ? Py_True : Py_False);
}

/* ([what a space is like, ...], whether there are more behind the last). */
PyObject *space_list_some(PyObject *self, PyObject *arguments)
{
    struct client_object *object = (struct client_object *)self;
    nigh_space_info infos[LISTED];
    PyObject *made = NULL;
    struct native_name after;
    nigh_client *client;
    nigh_status status;
    uint32_t more = 0;
    size_t count = 0;

    if (!PyArg_ParseTuple(arguments, "O&", convert_name_or_none, &after) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    memset(infos, 0, sizeof infos);
    infos[0].struct_size = sizeof infos[0];
    WITHOUT_LOCK(status = nigh_space_list(client, convert_name_text(&after), infos, LISTED,
                                          NATIVE_TIMEOUT_US, &count, &more));
    if (status == NIGH_OK) {
        made = infos_of(infos, count, more != 0);
    } else {
        (void)errors_raise(status, client);
    }
    client_drop(object);
    return made;
}

/* ---- memory --------------------------------------------------------------- */

/* What most calls are given: an address, one or two numbers, and how long they may take. */
struct asked {
    struct handle_object *handle; /* used */
    nigh_space *space;
    uint64_t address, first, second, timeout_us;
};

/* By position, `numbers` of them (1 to 3, the address first), and the timeout. False: raised. */
static bool ask(PyObject *self, PyObject *arguments, PyObject *names, int numbers,
                struct asked *asked)
{
    static char *one[] = {"address", "timeout", NULL};
    static char *two[] = {"address", "value", "timeout", NULL};
    static char *three[] = {"address", "expected", "value", "timeout", NULL};
    int is_good;

    *asked =
        (struct asked){.handle = (struct handle_object *)self, .timeout_us = NATIVE_TIMEOUT_US};
    if (numbers == 1) {
        is_good = PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&", one, convert_number,
                                              &asked->address, convert_timeout, &asked->timeout_us);
    } else if (numbers == 2) {
        is_good = PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|O&", two, convert_number,
                                              &asked->address, convert_number, &asked->first,
                                              convert_timeout, &asked->timeout_us);
    } else {
        is_good = PyArg_ParseTupleAndKeywords(
            arguments, names, "O&O&O&|O&", three, convert_number, &asked->address, convert_number,
            &asked->first, convert_number, &asked->second, convert_timeout, &asked->timeout_us);
    }
    asked->space = is_good ? handle_use(asked->handle) : NULL;
    return asked->space != NULL;
}

/* A number, where the status is NIGH_OK. */
static PyObject *give(struct asked *asked, nigh_status status, uint64_t number)
{
    PyObject *done = handle_ended(asked->handle, status);

    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return convert_number_from(number);
}

static PyObject *space_alloc(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"size", "near", "rank", "alignment", "timeout", NULL};
    struct asked asked = {.handle = (struct handle_object *)self, .timeout_us = NATIVE_TIMEOUT_US};
    uint64_t size, alignment = 1;
    nigh_space_address address = 0;
    PyObject *rank = Py_None;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|$O&OO&O&", keywords, convert_number,
                                     &size, convert_number, &asked.address, &rank, convert_number,
                                     &alignment, convert_timeout, &asked.timeout_us)) {
        return NULL;
    }
    if (rank != Py_None) {
        uint64_t number;

        if (!convert_number(rank, &number)) {
            return NULL;
        }
        if (number > UINT16_MAX) {
            PyErr_SetString(PyExc_ValueError, "no such rank");
            return NULL;
        }
        asked.address = NIGH_SPACE_ON(number);
    }
    asked.space = handle_use(asked.handle);
    if (asked.space == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = alignment <= 1 ? nigh_space_alloc(asked.space, size, asked.address,
                                                            asked.timeout_us, &address)
                                         : nigh_space_alloc_aligned(asked.space, size, alignment,
                                                                    asked.address, asked.timeout_us,
                                                                    &address));
    return give(&asked, status, address);
}

static PyObject *space_free(PyObject *self, PyObject *arguments, PyObject *names)
{
    struct asked asked;
    nigh_status status;

    if (!ask(self, arguments, names, 1, &asked)) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_free(asked.space, asked.address, asked.timeout_us));
    return handle_ended(asked.handle, status);
}

/* ---- bytes ---------------------------------------------------------------- */

typedef nigh_status reads(nigh_space *space, nigh_space_address address, void *bytes, uint64_t size,
                          uint64_t timeout_us);
typedef nigh_status writes(nigh_space *space, nigh_space_address address, const void *bytes,
                           uint64_t size, uint64_t timeout_us);

static PyObject *read_it(PyObject *self, PyObject *arguments, PyObject *names, reads *what)
{
    static char *keywords[] = {"address", "size", "timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t address, size, timeout_us = NATIVE_TIMEOUT_US;
    nigh_status status;
    PyObject *bytes, *done;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|O&", keywords, convert_number,
                                     &address, convert_number, &size, convert_timeout,
                                     &timeout_us)) {
        return NULL;
    }
    if (size > PY_SSIZE_T_MAX / 2) {
        return PyErr_NoMemory();
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes == NULL || handle_use(handle) == NULL) {
        Py_XDECREF(bytes);
        return NULL;
    }
    WITHOUT_LOCK(status = what(handle->it, address, PyBytes_AsString(bytes), size, timeout_us));
    done = handle_ended(handle, status);
    if (done == NULL) {
        Py_DECREF(bytes);
        return NULL;
    }
    Py_DECREF(done);
    return bytes;
}

static PyObject *write_it(PyObject *self, PyObject *arguments, PyObject *names, writes *what)
{
    static char *keywords[] = {"address", "data", "timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t address, timeout_us = NATIVE_TIMEOUT_US;
    Py_buffer data = {0};
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&y*|O&", keywords, convert_number,
                                     &address, &data, convert_timeout, &timeout_us)) {
        return NULL;
    }
    if (handle_use(handle) == NULL) {
        PyBuffer_Release(&data);
        return NULL;
    }
    WITHOUT_LOCK(status = what(handle->it, address, data.buf, (uint64_t)data.len, timeout_us));
    PyBuffer_Release(&data);
    return handle_ended(handle, status);
}

static PyObject *space_read(PyObject *self, PyObject *arguments, PyObject *names)
{
    return read_it(self, arguments, names, nigh_space_read);
}

static PyObject *space_write(PyObject *self, PyObject *arguments, PyObject *names)
{
    return write_it(self, arguments, names, nigh_space_write);
}

static PyObject *space_get_bytes(PyObject *self, PyObject *arguments, PyObject *names)
{
    return read_it(self, arguments, names, nigh_space_get_bytes);
}

static PyObject *space_put_bytes(PyObject *self, PyObject *arguments, PyObject *names)
{
    return write_it(self, arguments, names, nigh_space_put_bytes);
}

/* ---- order ---------------------------------------------------------------- */

static nigh_status flush(nigh_space *space, uint64_t timeout_us)
{
    return nigh_space_flush(space, timeout_us, NULL);
}

static PyObject *order(PyObject *self, PyObject *arguments, PyObject *names,
                       nigh_status (*what)(nigh_space *space, uint64_t timeout_us))
{
    static char *keywords[] = {"timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&", keywords, convert_timeout,
                                     &timeout_us) ||
        handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = what(handle->it, timeout_us));
    return handle_ended(handle, status);
}

static PyObject *space_store_fence(PyObject *self, PyObject *arguments, PyObject *names)
{
    return order(self, arguments, names, nigh_space_store_fence);
}

static PyObject *space_fence(PyObject *self, PyObject *arguments, PyObject *names)
{
    return order(self, arguments, names, nigh_space_fence);
}

static PyObject *space_flush(PyObject *self, PyObject *arguments, PyObject *names)
{
    return order(self, arguments, names, flush);
}

/* ---- words ---------------------------------------------------------------- */

static PyObject *space_fetch_add(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"address", "added", "timeout", NULL};
    struct asked asked = {.handle = (struct handle_object *)self, .timeout_us = NATIVE_TIMEOUT_US};
    uint64_t added = 1;
    nigh_status status;
    uint64_t old = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&O&", keywords, convert_number,
                                     &asked.address, convert_added, &added, convert_timeout,
                                     &asked.timeout_us) ||
        (asked.space = handle_use(asked.handle)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(
        status = nigh_space_fetch_add(asked.space, asked.address, added, asked.timeout_us, &old));
    return give(&asked, status, old);
}

static PyObject *space_exchange(PyObject *self, PyObject *arguments, PyObject *names)
{
    struct asked asked;
    nigh_status status;
    uint64_t old = 0;

    if (!ask(self, arguments, names, 2, &asked)) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_exchange(asked.space, asked.address, asked.first,
                                              asked.timeout_us, &old));
    return give(&asked, status, old);
}

static PyObject *space_compare_swap(PyObject *self, PyObject *arguments, PyObject *names)
{
    struct asked asked;
    nigh_status status;
    uint64_t old = 0;

    if (!ask(self, arguments, names, 3, &asked)) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_compare_swap(asked.space, asked.address, asked.first,
                                                  asked.second, asked.timeout_us, &old));
    return give(&asked, status, old);
}

static PyObject *space_put(PyObject *self, PyObject *arguments, PyObject *names)
{
    struct asked asked;
    nigh_status status;

    if (!ask(self, arguments, names, 2, &asked)) {
        return NULL;
    }
    WITHOUT_LOCK(status =
                     nigh_space_put(asked.space, asked.address, asked.first, asked.timeout_us));
    return handle_ended(asked.handle, status);
}

static PyObject *space_get(PyObject *self, PyObject *arguments, PyObject *names)
{
    struct asked asked;
    nigh_status status;
    uint64_t value = 0;

    if (!ask(self, arguments, names, 1, &asked)) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_get(asked.space, asked.address, asked.timeout_us, &value));
    return give(&asked, status, value);
}

/* ---- locks ---------------------------------------------------------------- */

typedef nigh_status locks(nigh_space *space, nigh_space_address address, uint64_t length,
                          uint64_t timeout_us);

static PyObject *space_lock(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"address", "length", "shared", "wait", "timeout", NULL};
    static locks *const all[2][2] = {{nigh_space_try_lock_write, nigh_space_try_lock_read},
                                     {nigh_space_lock_write, nigh_space_lock_read}};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t address, length = 1, timeout_us = NATIVE_TIMEOUT_US;
    int shared = 0, wait = 1;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&$ppO&", keywords, convert_number,
                                     &address, convert_number, &length, &shared, &wait,
                                     convert_timeout, &timeout_us) ||
        handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = all[wait][shared](handle->it, address, length, timeout_us));
    return handle_ended(handle, status);
}

static PyObject *space_unlock(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"address", "length", "timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t address, length = 1, timeout_us = NATIVE_TIMEOUT_US;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&O&", keywords, convert_number,
                                     &address, convert_number, &length, convert_timeout,
                                     &timeout_us) ||
        handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_space_unlock(handle->it, address, length, timeout_us));
    return handle_ended(handle, status);
}

/* ---- the type ------------------------------------------------------------- */

static PyObject *space_get_block_size(PyObject *self, void *closure)
{
    struct handle_object *handle = (struct handle_object *)self;
    uint32_t size;

    (void)closure;
    if (handle_use(handle) == NULL) {
        return NULL;
    }
    size = nigh_space_block_size(handle->it);
    handle_drop(handle);
    return convert_number_from(size);
}

static PyMethodDef methods[] = {
    NATIVE_NAMED("alloc", space_alloc,
                 "alloc($self, size, *, near=0, rank=None, alignment=1, timeout=10)\n--\n\n"
                 "Allocates bytes, all zero: here, near an address, or on a rank; its address."),
    NATIVE_NAMED("free", space_free,
                 "free($self, address, timeout=10)\n--\n\n"
                 "Frees what alloc gave."),
    NATIVE_NAMED("read", space_read,
                 "read($self, address, size, timeout=10)\n--\n\n"
                 "Bytes of the space."),
    NATIVE_NAMED("write", space_write,
                 "write($self, address, data, timeout=10)\n--\n\n"
                 "Writes what is in a buffer; others see it later."),
    NATIVE_NAMED("get_bytes", space_get_bytes,
                 "get_bytes($self, address, size, timeout=10)\n--\n\n"
                 "A value of one block: of one put_bytes, whole."),
    NATIVE_NAMED("put_bytes", space_put_bytes,
                 "put_bytes($self, address, data, timeout=10)\n--\n\n"
                 "Puts one behind all that was written before."),
    NATIVE_NAMED("store_fence", space_store_fence,
                 "store_fence($self, timeout=10)\n--\n\n"
                 "Orders what was written before what will be."),
    NATIVE_NAMED("fence", space_fence,
                 "fence($self, timeout=10)\n--\n\n"
                 "Waits until all that was written is seen by all."),
    NATIVE_NAMED("flush", space_flush,
                 "flush($self, timeout=10)\n--\n\n"
                 "The same, and raises what failed."),
    NATIVE_NAMED("fetch_add", space_fetch_add,
                 "fetch_add($self, address, added=1, timeout=10)\n--\n\n"
                 "Adds to a word; what it was."),
    NATIVE_NAMED("exchange", space_exchange,
                 "exchange($self, address, value, timeout=10)\n--\n\n"
                 "Sets a word; what it was."),
    NATIVE_NAMED("compare_swap", space_compare_swap,
                 "compare_swap($self, address, expected, value, timeout=10)\n--\n\n"
                 "Sets a word if it is one; what it was."),
    NATIVE_NAMED("put", space_put,
                 "put($self, address, value, timeout=10)\n--\n\n"
                 "Puts a word behind all that was written before."),
    NATIVE_NAMED("get", space_get,
                 "get($self, address, timeout=10)\n--\n\n"
                 "A word."),
    NATIVE_NAMED("lock", space_lock,
                 "lock($self, address, length=1, *, shared=False, wait=True, timeout=10)\n--\n\n"
                 "Locks the blocks of a range for this thread."),
    NATIVE_NAMED("unlock", space_unlock,
                 "unlock($self, address, length=1, timeout=10)\n--\n\n"
                 "Lets go of them, behind all that was written."),
    {"close", handle_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Closes the handle."},
    {"__enter__", handle_enter, METH_NOARGS, NULL},
    {"__exit__", handle_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fields[] = {
    {"closed", handle_get_closed, NULL, "Whether it was closed.", NULL},
    {"block_size", space_get_block_size, NULL, "Bytes of a block.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {Py_tp_doc, "One address space of many nodes, cached coherently at each of them."},
    {0, NULL},
};

PyType_Spec space_spec = {
    .name = "nigh.Space",
    .basicsize = sizeof(struct handle_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
