/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See native.h: regions, and locks of them, which are handles like others. What a call moves is
 * kept by the call, also where that goes on after it (start=True).
 */
#include "native.h"

#define LISTED 32 /* regions of one question */

/* ---- handles -------------------------------------------------------------- */

static nigh_status close_region(void *it)
{
    nigh_region_close(it);
    return NIGH_OK;
}

static nigh_status close_lock(void *it)
{
    return nigh_region_unlock(it);
}

/* Where new chunks go: None here, a rank, or "spread". */
static bool parse_where(PyObject *from, nigh_region_where *where, uint32_t *rank)
{
    *where = NIGH_REGION_LOCAL;
    if (from == NULL || from == Py_None) {
        return true;
    }
    if (PyUnicode_Check(from) && PyUnicode_CompareWithASCIIString(from, "spread") == 0) {
        *where = NIGH_REGION_SPREAD;
        return true;
    }
    if (!PyIndex_Check(from)) {
        PyErr_SetString(PyExc_TypeError, "where is None (this node), a rank, or \"spread\"");
        return false;
    }
    *where = NIGH_REGION_ON;
    return convert_u32(from, rank) != 0;
}

PyObject *region_create(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"name",         "size",     "chunk_size", "where",   "group_access",
                               "other_access", "mappable", "near",       "timeout", NULL};
    struct client_object *object = (struct client_object *)self;
    nigh_region_spec spec = {.struct_size = sizeof spec};
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    struct native_name name, near = {.is_there = false};
    PyObject *where = NULL, *made = NULL;
    nigh_region *region = NULL;
    nigh_client *client;
    nigh_status status;
    int mappable = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|$O&OO&O&pO&O&", keywords, convert_name,
                                     &name, convert_number, &spec.size, convert_number,
                                     &spec.chunk_size, &where, convert_u32, &spec.group_access,
                                     convert_u32, &spec.other_access, &mappable,
                                     convert_name_or_none, &near, convert_timeout, &timeout_us) ||
        !parse_where(where, &spec.where, &spec.rank)) {
        return NULL;
    }
    spec.flags = mappable ? NIGH_REGION_MAPPABLE : 0;
    spec.name = name.text;
    spec.near = convert_name_text(&near);
    spec.where = spec.near != NULL ? NIGH_REGION_NEAR : spec.where;
    client = client_use(object);
    if (client == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_create(client, &spec, timeout_us, &region));
    if (status == NIGH_OK) {
        made = (PyObject *)handle_new(native_state()->region_type, object, region, close_region);
    } else {
        (void)errors_raise(status, client);
    }
    client_drop(object);
    return made;
}

PyObject *region_open(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"name", "access", "timeout", NULL};
    struct client_object *object = (struct client_object *)self;
    uint32_t access = NIGH_REGION_READ | NIGH_REGION_WRITE;
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    nigh_region *region = NULL;
    PyObject *made = NULL;
    nigh_client *client;
    nigh_status status;
    struct native_name name;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&O&", keywords, convert_name, &name,
                                     convert_u32, &access, convert_timeout, &timeout_us) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_open(client, name.text, access, timeout_us, &region));
    if (status == NIGH_OK) {
        made = (PyObject *)handle_new(native_state()->region_type, object, region, close_region);
    } else {
        (void)errors_raise(status, client);
    }
    client_drop(object);
    return made;
}

/* ---- what is done with one ------------------------------------------------ */

struct doing {
    struct handle_object *handle, *other; /* both are used; the other is of a copy */
    PyObject *bytes;                      /* what is read, where that is to be given */
    Py_buffer data;
    uint64_t old;
    nigh_region *held;
    enum {
        GIVES_NOTHING,
        GIVES_BYTES,
        GIVES_NUMBER,
        GIVES_LOCK
    } gives;
};

static PyObject *take_done(struct client_object *client, void *state, nigh_status status)
{
    struct doing *doing = state;
    nigh_region *held = doing->held;

    if (status != NIGH_OK) {
        return errors_raise(status, client->client);
    }
    switch (doing->gives) {
    case GIVES_NOTHING: break;
    case GIVES_BYTES: return Py_NewRef(doing->bytes);
    case GIVES_NUMBER: return convert_number_from(doing->old);
    case GIVES_LOCK:
        doing->held = NULL;
        return (PyObject *)handle_new(native_state()->region_type, client, held, close_lock);
    }
    return Py_NewRef(Py_None);
}

static void leave_done(nigh_client *client, void *state)
{
    struct doing *doing = state;

    (void)client;
    if (doing->held != NULL) {
        WITHOUT_LOCK((void)nigh_region_unlock(doing->held));
    }
}

static void clear_done(void *state)
{
    struct doing *doing = state;

    if (doing->data.obj != NULL) {
        PyBuffer_Release(&doing->data);
    }
    Py_XDECREF(doing->bytes);
    if (doing->other != NULL) {
        handle_drop(doing->other);
    }
    if (doing->handle != NULL) {
        handle_drop(doing->handle);
    }
}

static int visit_done(void *state, visitproc visit, void *arg)
{
    struct doing *doing = state;

    Py_VISIT(doing->handle);
    Py_VISIT(doing->other);
    Py_VISIT(doing->data.obj);
    return 0;
}

static const struct pending_kind doing_kind = {
    .size = sizeof(struct doing),
    .take = take_done,
    .leave = leave_done,
    .clear = clear_done,
    .visit = visit_done,
};

/* Something that is to be done with a region; NULL: raised. */
static struct pending_object *begin(PyObject *self, struct doing **doing)
{
    struct handle_object *handle = (struct handle_object *)self;
    struct pending_object *pending;

    if (handle_use(handle) == NULL) {
        return NULL;
    }
    pending = pending_new(handle->client, &doing_kind);
    if (pending == NULL) {
        handle_drop(handle);
        return NULL;
    }
    *doing = pending_state(pending);
    (*doing)->handle = handle;
    return pending;
}

static PyObject *go_on(struct pending_object *pending, nigh_status status, uint64_t timeout_us,
                       int start)
{
    return start ? pending_begun(pending, status) : pending_wait(pending, status, timeout_us);
}

static PyObject *region_read(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "size", "timeout", "start", NULL};
    uint64_t offset, size, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    struct doing *doing;
    nigh_status status;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|O&p", keywords, convert_number,
                                     &offset, convert_number, &size, convert_timeout, &timeout_us,
                                     &start)) {
        return NULL;
    }
    if (size > PY_SSIZE_T_MAX / 2) {
        return PyErr_NoMemory();
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        return NULL;
    }
    doing->gives = GIVES_BYTES;
    doing->bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (doing->bytes == NULL) {
        Py_DECREF((PyObject *)pending);
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_read_start(doing->handle->it, offset,
                                                 PyBytes_AsString(doing->bytes), (size_t)size,
                                                 timeout_us, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_read_into(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "buffer", "timeout", "start", NULL};
    uint64_t offset, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    Py_buffer data = {0};
    struct doing *doing;
    nigh_status status;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&w*|O&p", keywords, convert_number,
                                     &offset, &data, convert_timeout, &timeout_us, &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        PyBuffer_Release(&data);
        return NULL;
    }
    doing->data = data;
    WITHOUT_LOCK(status =
                     nigh_region_read_start(doing->handle->it, offset, data.buf, (size_t)data.len,
                                            timeout_us, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_write(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "data", "timeout", "start", NULL};
    uint64_t offset, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    Py_buffer data = {0};
    struct doing *doing;
    nigh_status status;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&y*|O&p", keywords, convert_number,
                                     &offset, &data, convert_timeout, &timeout_us, &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        PyBuffer_Release(&data);
        return NULL;
    }
    doing->data = data;
    WITHOUT_LOCK(status =
                     nigh_region_write_start(doing->handle->it, offset, data.buf, (size_t)data.len,
                                             timeout_us, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_memset(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "byte", "size", "timeout", "start", NULL};
    uint64_t offset, size, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    struct doing *doing;
    nigh_status status;
    unsigned char byte;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&bO&|O&p", keywords, convert_number,
                                     &offset, &byte, convert_number, &size, convert_timeout,
                                     &timeout_us, &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_memset_start(doing->handle->it, offset, byte, size,
                                                   timeout_us, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_copy(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"to_offset", "source", "from_offset", "size",
                               "timeout",   "start",  NULL};
    uint64_t to, from, size, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    struct doing *doing;
    PyObject *source;
    nigh_status status;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O!O&O&|O&p", keywords, convert_number,
                                     &to, native_state()->region_type, &source, convert_number,
                                     &from, convert_number, &size, convert_timeout, &timeout_us,
                                     &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        return NULL;
    }
    if (handle_use((struct handle_object *)source) == NULL) {
        Py_DECREF((PyObject *)pending);
        return NULL;
    }
    doing->other = (struct handle_object *)source;
    WITHOUT_LOCK(status = nigh_region_copy_start(doing->handle->it, to, doing->other->it, from,
                                                 size, timeout_us, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_fetch_add(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "added", "timeout", "start", NULL};
    uint64_t offset, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    uint64_t added = 1;
    struct doing *doing;
    nigh_status status;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|O&O&p", keywords, convert_number,
                                     &offset, convert_added, &added, convert_timeout, &timeout_us,
                                     &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        return NULL;
    }
    doing->gives = GIVES_NUMBER;
    WITHOUT_LOCK(status = nigh_region_fetch_add_start(doing->handle->it, offset, added, timeout_us,
                                                      &doing->old, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_compare_swap(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"offset", "compare", "swap", "timeout", "start", NULL};
    uint64_t offset, compare, swap, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    struct doing *doing;
    nigh_status status;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&O&|O&p", keywords, convert_number,
                                     &offset, convert_number, &compare, convert_number, &swap,
                                     convert_timeout, &timeout_us, &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        return NULL;
    }
    doing->gives = GIVES_NUMBER;
    WITHOUT_LOCK(status =
                     nigh_region_compare_swap_start(doing->handle->it, offset, compare, swap,
                                                    timeout_us, &doing->old, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_lock(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"number", "shared", "term", "timeout", "start", NULL};
    uint64_t number, term_us = 0, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    int shared = 0, start = 0;
    struct doing *doing;
    nigh_status status;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|$pO&O&p", keywords, convert_number,
                                     &number, &shared, convert_timeout, &term_us, convert_timeout,
                                     &timeout_us, &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        return NULL;
    }
    doing->gives = GIVES_LOCK;
    term_us = term_us == NIGH_FOREVER ? 0 : term_us; /* so says libnigh that there is none */
    WITHOUT_LOCK(status = nigh_region_lock_start(
                     doing->handle->it, number, shared ? NIGH_REGION_SHARED : NIGH_REGION_EXCLUSIVE,
                     term_us, timeout_us, &doing->held, pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

static PyObject *region_barrier(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"number", "parties", "timeout", "start", NULL};
    uint64_t number, timeout_us = NIGH_FOREVER;
    struct pending_object *pending;
    struct doing *doing;
    nigh_status status;
    uint32_t parties;
    int start = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|O&p", keywords, convert_number,
                                     &number, convert_u32, &parties, convert_timeout, &timeout_us,
                                     &start)) {
        return NULL;
    }
    pending = begin(self, &doing);
    if (pending == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_barrier_start(doing->handle->it, number, parties, timeout_us,
                                                    pending_op(pending)));
    return go_on(pending, status, timeout_us, start);
}

/* ---- changes -------------------------------------------------------------- */

/* What is granted to: a uid, "group" or "others". */
static bool parse_whose(PyObject *from, nigh_region_whose *whose, uint32_t *user)
{
    if (PyUnicode_Check(from)) {
        *whose = PyUnicode_CompareWithASCIIString(from, "group") == 0 ? NIGH_REGION_GROUP
                                                                      : NIGH_REGION_OTHERS;
        if (*whose == NIGH_REGION_GROUP || PyUnicode_CompareWithASCIIString(from, "others") == 0) {
            return true;
        }
    } else if (PyIndex_Check(from)) {
        *whose = NIGH_REGION_USER;
        return convert_u32(from, user) != 0;
    }
    PyErr_SetString(PyExc_ValueError, "rights are of a uid, of the \"group\", or of \"others\"");
    return false;
}

static PyObject *region_grant(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"whose", "give", "take", "timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    uint32_t user = 0, give = 0, take = 0;
    nigh_region_whose whose;
    nigh_status status;
    PyObject *from;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|O&O&O&", keywords, &from, convert_u32,
                                     &give, convert_u32, &take, convert_timeout, &timeout_us) ||
        !parse_whose(from, &whose, &user) || handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_grant(handle->it, whose, user, give, take, timeout_us));
    return handle_ended(handle, status);
}

static PyObject *region_resize(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"size", "where", "timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t size, timeout_us = NATIVE_TIMEOUT_US;
    nigh_region_where where;
    PyObject *from = NULL;
    nigh_status status;
    uint32_t rank = 0;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&|OO&", keywords, convert_number, &size,
                                     &from, convert_timeout, &timeout_us) ||
        !parse_where(from, &where, &rank) || handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_resize(handle->it, size, where, rank, timeout_us));
    return handle_ended(handle, status);
}

static PyObject *region_move(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"chunk", "rank", "timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    nigh_status status;
    uint32_t chunk, rank;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|O&", keywords, convert_u32, &chunk,
                                     convert_u32, &rank, convert_timeout, &timeout_us) ||
        handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_move(handle->it, chunk, rank, timeout_us));
    return handle_ended(handle, status);
}

static PyObject *region_free(PyObject *self, PyObject *arguments, PyObject *names)
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
    WITHOUT_LOCK(status = nigh_region_free(handle->it, timeout_us));
    return handle_ended(handle, status);
}

/* ---- what it is like ------------------------------------------------------ */

/* A rank for each chunk; None for one that is lost. */
static PyObject *ranks_of(const nigh_region_info *info)
{
    PyObject *ranks = PyList_New(0);

    for (uint32_t n = 0; n < info->chunk_count && n < NIGH_REGION_CHUNKS && ranks != NULL; n++) {
        PyObject *rank = info->ranks[n] == NIGH_REGION_LOST ? Py_NewRef(Py_None)
                                                            : convert_number_from(info->ranks[n]);

        if (rank == NULL || PyList_Append(ranks, rank) != 0) {
            Py_CLEAR(ranks);
        }
        Py_XDECREF(rank);
    }
    return ranks;
}

/* The rights of users that have some of their own. */
static PyObject *users_of(const nigh_region_info *info)
{
    PyObject *users = PyDict_New();

    for (uint32_t n = 0; n < info->user_count && n < NIGH_REGION_USERS && users != NULL; n++) {
        PyObject *uid = convert_number_from(info->users[n].uid);
        PyObject *access = convert_number_from(info->users[n].access);

        if (uid == NULL || access == NULL || PyDict_SetItem(users, uid, access) != 0) {
            Py_CLEAR(users);
        }
        Py_XDECREF(uid);
        Py_XDECREF(access);
    }
    return users;
}

static PyObject *info_of(const nigh_region_info *info)
{
    PyObject *made = PyDict_New();

    if (made == NULL || !convert_put(made, "size", convert_number_from(info->size)) ||
        !convert_put(made, "chunk_size", convert_number_from(info->chunk_size)) ||
        !convert_put(made, "uid", convert_number_from(info->uid)) ||
        !convert_put(made, "gid", convert_number_from(info->gid)) ||
        !convert_put(made, "group_access", convert_number_from(info->group_access)) ||
        !convert_put(made, "other_access", convert_number_from(info->other_access)) ||
        !convert_put(made, "users", users_of(info)) ||
        !convert_put(made, "ranks", ranks_of(info)) ||
        !convert_put(made, "mappable",
                     PyBool_FromLong((info->flags & NIGH_REGION_MAPPABLE) != 0)) ||
        !convert_put(made, "donated", PyBool_FromLong((info->flags & NIGH_REGION_DONATED) != 0))) {
        Py_CLEAR(made);
    }
    return made;
}

static PyObject *region_stat(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"timeout", NULL};
    struct handle_object *handle = (struct handle_object *)self;
    nigh_region_info info = {.struct_size = sizeof info};
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    nigh_status status;
    PyObject *done;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&", keywords, convert_timeout,
                                     &timeout_us) ||
        handle_use(handle) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_region_stat(handle->it, timeout_us, &info));
    done = handle_ended(handle, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return info_of(&info);
}

static PyObject *entry_of(const nigh_region_entry *entry)
{
    PyObject *made = info_of(&entry->info);

    if (made != NULL && (!convert_put(made, "name", convert_from_name(entry->name)) ||
                         !convert_put(made, "access", convert_number_from(entry->access)) ||
                         !convert_put(made, "home", convert_number_from(entry->home)))) {
        Py_CLEAR(made);
    }
    return made;
}

static PyObject *entries_of(const nigh_region_entry *entries, size_t count, bool more)
{
    PyObject *list = PyList_New(0);

    for (size_t n = 0; n < count && list != NULL; n++) {
        PyObject *entry = entry_of(&entries[n]);

        if (entry == NULL || PyList_Append(list, entry) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
    }
    return list == NULL ? NULL : Py_BuildValue("NO", list, more ? Py_True : Py_False);
}

/* ([what a region is like, ...], whether there are more behind the last). */
PyObject *region_list_some(PyObject *self, PyObject *arguments)
{
    struct client_object *object = (struct client_object *)self;
    nigh_region_entry *entries;
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
    entries = PyMem_Calloc(LISTED, sizeof *entries);
    if (entries == NULL) {
        client_drop(object);
        return PyErr_NoMemory();
    }
    entries[0].info.struct_size = sizeof entries[0].info;
    WITHOUT_LOCK(status = nigh_region_list(client, convert_name_text(&after), entries, LISTED,
                                           NATIVE_TIMEOUT_US, &count, &more));
    if (status == NIGH_OK || status == NIGH_PEER_LOST) {
        made = entries_of(entries, count, more != 0);
    }
    if (status != NIGH_OK && (made != NULL || status != NIGH_PEER_LOST)) {
        (void)errors_raise(status, client);
    }
    if (status == NIGH_PEER_LOST && made != NULL) { /* a list in part */
        errors_mark("found", made);
        Py_CLEAR(made);
    }
    PyMem_Free(entries);
    client_drop(object);
    return made;
}

/* ---- the type ------------------------------------------------------------- */

static PyMethodDef methods[] = {
    NATIVE_NAMED("read", region_read,
                 "read($self, offset, size, timeout=None, start=False)\n--\n\n"
                 "Bytes of the region."),
    NATIVE_NAMED("read_into", region_read_into,
                 "read_into($self, offset, buffer, timeout=None, start=False)\n--\n\n"
                 "Reads as many as a buffer has room for."),
    NATIVE_NAMED("write", region_write,
                 "write($self, offset, data, timeout=None, start=False)\n--\n\n"
                 "Writes what is in a buffer."),
    NATIVE_NAMED("memset", region_memset,
                 "memset($self, offset, byte, size, timeout=None, start=False)\n--\n\n"
                 "Makes all bytes of a range one byte."),
    NATIVE_NAMED(
        "copy", region_copy,
        "copy($self, to_offset, source, from_offset, size, timeout=None, start=False)\n--\n\n"
        "Copies bytes of another region, or of this one, to here."),
    NATIVE_NAMED("fetch_add", region_fetch_add,
                 "fetch_add($self, offset, added=1, timeout=None, start=False)\n--\n\n"
                 "Adds to a word; what it was."),
    NATIVE_NAMED("compare_swap", region_compare_swap,
                 "compare_swap($self, offset, compare, swap, timeout=None, start=False)\n--\n\n"
                 "Sets a word if it is one; what it was."),
    NATIVE_NAMED(
        "lock", region_lock,
        "lock($self, number, *, shared=False, term=None, timeout=None, start=False)\n--\n\n"
        "A handle of the region that is good as long as the lock is held; closing it "
        "unlocks."),
    NATIVE_NAMED("barrier", region_barrier,
                 "barrier($self, number, parties, timeout=None, start=False)\n--\n\n"
                 "Waits until all parties have arrived."),
    NATIVE_NAMED("map", region_map,
                 "map($self, offset=0, size=0, writable=False, timeout=10)\n--\n\n"
                 "A buffer of the region's own memory, where that is here."),
    NATIVE_NAMED("grant", region_grant,
                 "grant($self, whose, give=0, take=0, timeout=10)\n--\n\n"
                 "Gives rights to whom it says, and takes some."),
    NATIVE_NAMED("resize", region_resize,
                 "resize($self, size, where=None, timeout=10)\n--\n\n"
                 "Makes it longer or shorter."),
    NATIVE_NAMED("move", region_move,
                 "move($self, chunk, rank, timeout=10)\n--\n\n"
                 "Moves a chunk to another node."),
    NATIVE_NAMED("free", region_free,
                 "free($self, timeout=10)\n--\n\n"
                 "Ends the region, for all."),
    NATIVE_NAMED("stat", region_stat,
                 "stat($self, timeout=10)\n--\n\n"
                 "What it is like."),
    {"close", handle_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Closes the handle; of a lock: unlocks."},
    {"__enter__", handle_enter, METH_NOARGS, NULL},
    {"__exit__", handle_close, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fields[] = {
    {"closed", handle_get_closed, NULL, "Whether it was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {Py_tp_doc, "Named memory of the cluster that is read and written where it lies."},
    {0, NULL},
};

PyType_Spec region_spec = {
    .name = "nigh.Region",
    .basicsize = sizeof(struct handle_object),
    .flags = NATIVE_FLAGS,
    .slots = slots,
};
