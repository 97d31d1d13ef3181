/* SPDX-License-Identifier: Apache-2.0 */
/* See native.h: what a client does with objects. */
#include "native.h"

#define LISTED 64 /* objects of one question */

/* ---- write ---------------------------------------------------------------- */

/* What create and put are given besides, and what they are made of. */
struct making {
    PyObject *id_from;
    struct native_name name; /* where the id is one */
    nigh_id id;
    nigh_create_options options;
    PyObject *meta_from;
    Py_buffer meta;
    uint32_t replicas;
    int exclusive, no_evict;
    nigh_put_item item;
    nigh_writer writer;
    nigh_op op;
};

/* Behind the arguments. False: raised. */
static bool begin_making(struct making *making)
{
    nigh_create_options *options = &making->options;

    if (!convert_id(making->id_from, &making->id) ||
        (PyUnicode_Check(making->id_from) && !convert_name(making->id_from, &making->name))) {
        return false;
    }
    if (making->replicas > NIGH_REPLICAS_MOST) {
        PyErr_Format(PyExc_ValueError, "at most %d replicas", NIGH_REPLICAS_MOST);
        return false;
    }
    options->name = convert_name_text(&making->name);
    options->flags = (making->exclusive ? NIGH_CREATE_EXCLUSIVE : 0) |
                     (making->no_evict ? NIGH_CREATE_NO_EVICT : 0) |
                     NIGH_CREATE_REPLICAS(making->replicas);
    if (making->meta_from == NULL || making->meta_from == Py_None) {
        return true;
    }
    if (PyObject_GetBuffer(making->meta_from, &making->meta, PyBUF_SIMPLE) != 0) {
        return false;
    }
    if (making->meta.len > UINT16_MAX + 1) {
        PyErr_SetString(PyExc_ValueError, "at most 65536 bytes of metadata");
        return false;
    }
    options->meta = making->meta.buf;
    options->meta_size = (uint32_t)making->meta.len;
    return true;
}

static void end_making(struct making *making)
{
    if (making->meta.obj != NULL) {
        PyBuffer_Release(&making->meta);
    }
    PyMem_Free(making);
}

/* Whether it may take longer than an answer of this node. */
static bool waits(const nigh_create_options *options)
{
    return options->timeout_us != 0 || options->flags != 0;
}

/* What waits may be interrupted; what does not goes the shortest way. The time is the node's to
 * see; one that stands still sees none. */
static nigh_status put_now(struct client_object *object, struct making *making,
                           const Py_buffer *data)
{
    nigh_status status;

    if (!waits(&making->options)) {
        WITHOUT_LOCK(status = nigh_put(object->client, &making->id, data->buf, (uint64_t)data->len,
                                       &making->options));
        return status;
    }
    making->item = (nigh_put_item){
        .id = making->id,
        .data = data->buf,
        .data_size = (uint64_t)data->len,
        .options = &making->options,
    };
    WITHOUT_LOCK(status = nigh_put_many_start(object->client, &making->item, 1, &making->op));
    return pending_end(object, &making->op, status,
                       puts_time_us(&making->options, 1, (uint64_t)data->len));
}

static nigh_status create_now(struct client_object *object, struct making *making)
{
    nigh_writer *writer = &making->writer;
    nigh_status status;

    if (!waits(&making->options)) {
        WITHOUT_LOCK(status = nigh_create(object->client, &making->id, &making->options, writer));
        return status;
    }
    WITHOUT_LOCK(status = nigh_create_start(object->client, &making->id, &making->options, writer,
                                            &making->op));
    status = pending_end(object, &making->op, status, puts_time_us(&making->options, 1, 0));
    if (status == NIGH_OK && PyErr_Occurred() != NULL) {
        WITHOUT_LOCK((void)nigh_abort(object->client, writer)); /* it came first */
    }
    return status;
}

static PyObject *put_it(struct client_object *object, struct making *making, const Py_buffer *data)
{
    return !begin_making(making) || client_use(object) == NULL
               ? NULL
               : client_ended(object, put_now(object, making, data));
}

PyObject *objects_put(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"id",        "data",     "meta",     "timeout",
                               "exclusive", "replicas", "no_evict", NULL};
    struct making *making = pending_memory(sizeof *making);
    PyObject *done = NULL;
    Py_buffer data = {0};

    if (making == NULL) {
        return NULL;
    }
    if (PyArg_ParseTupleAndKeywords(arguments, names, "Oy*|O$O&pO&p", keywords, &making->id_from,
                                    &data, &making->meta_from, convert_timeout,
                                    &making->options.timeout_us, &making->exclusive, convert_u32,
                                    &making->replicas, &making->no_evict)) {
        done = put_it((struct client_object *)self, making, &data);
        PyBuffer_Release(&data);
    }
    end_making(making);
    return done;
}

static PyObject *create_it(struct client_object *object, struct making *making)
{
    PyObject *made = NULL;
    nigh_status status;

    if (!begin_making(making) || client_use(object) == NULL) {
        return NULL;
    }
    status = create_now(object, making);
    if (status == NIGH_OK && PyErr_Occurred() == NULL) {
        made = writer_new(object, &making->writer);
    } else if (PyErr_Occurred() == NULL) {
        (void)errors_raise(status, object->client);
    }
    client_drop(object);
    return made;
}

PyObject *objects_create(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"id",        "size",     "meta",     "timeout",
                               "exclusive", "replicas", "no_evict", NULL};
    struct making *making = pending_memory(sizeof *making);
    PyObject *made = NULL;

    if (making == NULL) {
        return NULL;
    }
    if (PyArg_ParseTupleAndKeywords(arguments, names, "OO&|O$O&pO&p", keywords, &making->id_from,
                                    convert_number, &making->options.data_size, &making->meta_from,
                                    convert_timeout, &making->options.timeout_us,
                                    &making->exclusive, convert_u32, &making->replicas,
                                    &making->no_evict)) {
        made = create_it((struct client_object *)self, making);
    }
    end_making(making);
    return made;
}

/* ---- read ----------------------------------------------------------------- */

/* A get that is under way. */
struct getting {
    nigh_id *ids;
    nigh_view *views;
    size_t count;
    nigh_id one_id; /* of a get of one, which has no memory of its own for these */
    nigh_view one_view;
    bool is_one;
};

/* A view of each, or None where there is none by then; the views are the list's. */
static PyObject *views_of(struct client_object *object, struct getting *getting)
{
    PyObject *list = PyList_New((Py_ssize_t)getting->count);

    for (size_t n = 0; n < getting->count; n++) {
        nigh_view *view = &getting->views[n];
        PyObject *item = NULL;

        if (list == NULL) {
            (void)nigh_release(object->client, view);
            continue;
        }
        item =
            view->status == NIGH_OK ? view_new(object, &getting->ids[n], view) : Py_NewRef(Py_None);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)n, item) != 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static void leave_get(nigh_client *client, void *state)
{
    struct getting *getting = state;

    for (size_t n = 0; n < getting->count; n++) {
        (void)nigh_release(client, &getting->views[n]);
    }
}

static bool is_late(nigh_status status)
{
    return status == NIGH_OK || status == NIGH_TIMEOUT;
}

/* What a get of several failed with otherwise than by its time: the first, whatever the library
 * gives as that of them all. */
static nigh_status failed_with(const struct getting *getting, nigh_status status)
{
    if (!is_late(status)) {
        return status;
    }
    for (size_t n = 0; n < getting->count; n++) {
        nigh_status each = getting->views[n].status;

        /* One that was given up at its time is late, too. */
        if (!is_late(each) && (status != NIGH_TIMEOUT || each != NIGH_CANCELED)) {
            return each;
        }
    }
    return NIGH_OK;
}

static PyObject *take_several(struct client_object *object, struct getting *getting,
                              nigh_status status)
{
    nigh_status failed = failed_with(getting, status);
    PyObject *statuses;

    if (failed == NIGH_OK) {
        return views_of(object, getting);
    }
    statuses = PyList_New(0);
    for (size_t n = 0; n < getting->count; n++) {
        errors_note(&statuses, getting->views[n].status);
    }
    leave_get(object->client, getting);
    if (statuses == NULL) {
        return NULL;
    }
    (void)(failed == status ? errors_raise(status, object->client)
                            : errors_say(failed, nigh_status_string(failed)));
    errors_mark("statuses", statuses);
    Py_DECREF(statuses);
    return NULL;
}

/* What failed otherwise than by its time is raised. */
static PyObject *take_get(struct client_object *object, void *state, nigh_status status)
{
    struct getting *getting = state;

    if (!getting->is_one) {
        return take_several(object, getting, status);
    }
    if (status == NIGH_OK) {
        return view_new(object, getting->ids, getting->views);
    }
    leave_get(object->client, state);
    return errors_raise(status, object->client);
}

static void clear_get(void *state)
{
    struct getting *getting = state;

    if (!getting->is_one) {
        PyMem_Free(getting->ids);
        PyMem_Free(getting->views);
    }
}

static const struct pending_kind get_kind = {
    .size = sizeof(struct getting),
    .take = take_get,
    .leave = leave_get,
    .clear = clear_get,
};

static bool ids_of(PyObject *sequence, struct getting *getting)
{
    Py_ssize_t count = PySequence_Size(sequence);

    if (count < 0) {
        return false;
    }
    if (PyUnicode_Check(sequence) || PyBytes_Check(sequence)) {
        PyErr_SetString(PyExc_TypeError, "a sequence of ids is wanted, and not one id");
        return false;
    }
    getting->ids = PyMem_Calloc((size_t)count + 1, sizeof *getting->ids);
    getting->views = PyMem_Calloc((size_t)count + 1, sizeof *getting->views);
    if (getting->ids == NULL || getting->views == NULL) {
        (void)PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *item = PySequence_GetItem(sequence, n);
        bool is_good = item != NULL && convert_id(item, &getting->ids[n]);

        Py_XDECREF(item);
        if (!is_good) {
            return false;
        }
    }
    getting->count = (size_t)count;
    return true;
}

/* Begins a get of one id (`from`), or of a sequence. NULL: raised. */
static PyObject *get_it(PyObject *self, PyObject *from, bool is_one, uint64_t timeout_us,
                        int no_copy, bool waits)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client = client_use(object);
    struct pending_object *pending;
    struct getting *getting;
    nigh_status status;

    if (client == NULL) {
        return NULL;
    }
    pending = pending_new(object, &get_kind);
    client_drop(object);
    if (pending == NULL) {
        return NULL;
    }
    getting = pending_state(pending);
    getting->is_one = is_one;
    if (is_one) {
        getting->ids = &getting->one_id;
        getting->views = &getting->one_view;
        getting->count = 1;
    }
    if (is_one ? !convert_id(from, getting->ids) : !ids_of(from, getting)) {
        Py_DECREF((PyObject *)pending);
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_get_with_start(client, getting->ids, getting->count, timeout_us,
                                              no_copy ? NIGH_GET_NO_COPY : 0, getting->views,
                                              pending_op(pending)));
    return waits ? pending_wait(pending, status, timeout_us) : pending_begun(pending, status);
}

static PyObject *parse_get(PyObject *self, PyObject *arguments, PyObject *names, char **keywords,
                           bool is_one, bool waits)
{
    uint64_t timeout_us = NIGH_FOREVER;
    int no_copy = 0;
    PyObject *from;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O|O&p", keywords, &from, convert_timeout,
                                     &timeout_us, &no_copy)) {
        return NULL;
    }
    return get_it(self, from, is_one, timeout_us, no_copy, waits);
}

PyObject *objects_get(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"id", "timeout", "no_copy", NULL};

    return parse_get(self, arguments, names, keywords, true, true);
}

PyObject *objects_get_many(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"ids", "timeout", "no_copy", NULL};

    return parse_get(self, arguments, names, keywords, false, true);
}

PyObject *objects_get_start(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"ids", "timeout", "no_copy", NULL};

    return parse_get(self, arguments, names, keywords, false, false);
}

PyObject *objects_contains(PyObject *self, PyObject *from)
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
    WITHOUT_LOCK(status = nigh_contains(client, &id, &found));
    done = client_ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return PyBool_FromLong(found);
}

/* ---- manage --------------------------------------------------------------- */

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
    WITHOUT_LOCK(status = what(client, &id));
    return client_ended(object, status);
}

/* A question that is waited for. */
struct asking {
    nigh_op op;
    nigh_id id;
    uint64_t freed;
    nigh_object_info info;
};

/* What others hold goes when they let go of it. */
PyObject *objects_delete(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    struct asking *asking = pending_memory(sizeof *asking);
    PyObject *done = NULL;
    nigh_status status;

    if (asking != NULL && convert_id(from, &asking->id) && client_use(object) != NULL) {
        WITHOUT_LOCK(status = nigh_delete_start(object->client, &asking->id, 1, NULL, &asking->op));
        done = client_ended(object, pending_end(object, &asking->op, status, NIGH_FOREVER));
    }
    PyMem_Free(asking);
    return done;
}

PyObject *objects_pin(PyObject *self, PyObject *from)
{
    return do_with_id(self, from, nigh_pin);
}

PyObject *objects_unpin(PyObject *self, PyObject *from)
{
    return do_with_id(self, from, nigh_unpin);
}

PyObject *objects_checksum(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client;
    uint32_t crc32c = 0;
    nigh_status status;
    PyObject *done;
    nigh_id id;

    if (!convert_id(from, &id) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_checksum(client, &id, &crc32c));
    done = client_ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return convert_number_from(crc32c);
}

PyObject *objects_evict(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    struct asking *asking = pending_memory(sizeof *asking);
    PyObject *told = NULL;
    nigh_status status;
    uint64_t size;

    if (asking != NULL && convert_number(from, &size) && client_use(object) != NULL) {
        WITHOUT_LOCK(status = nigh_evict_start(object->client, size, &asking->freed, &asking->op));
        told = client_ended(object, pending_end(object, &asking->op, status, NIGH_FOREVER));
    }
    if (told != NULL) {
        Py_DECREF(told);
        told = convert_number_from(asking->freed);
    }
    PyMem_Free(asking);
    return told;
}

static const char *state_of(nigh_object_state state)
{
    switch (state) {
    case NIGH_OBJECT_CREATED: return "created";
    case NIGH_OBJECT_SEALED: return "sealed";
    case NIGH_OBJECT_SPILLED: return "spilled";
    case NIGH_OBJECT_DELETING: return "deleting";
    }
    return "";
}

static PyObject *info_of(const nigh_object_info *info)
{
    PyObject *made = PyDict_New();

    if (made == NULL || !convert_put(made, "id", convert_from_id(&info->id)) ||
        !convert_put(made, "name", convert_from_name(info->name)) ||
        !convert_put(made, "state", convert_text(state_of(info->state))) ||
        !convert_put(made, "size", convert_number_from(info->data_size)) ||
        !convert_put(made, "meta_size", convert_number_from(info->meta_size)) ||
        !convert_put(made, "pinned", PyBool_FromLong(info->pinned != 0)) ||
        !convert_put(made, "holders", convert_number_from(info->holders)) ||
        !convert_put(made, "created", PyFloat_FromDouble((double)info->created_ns / 1e9)) ||
        !convert_put(made, "copy", PyBool_FromLong(info->copy != 0))) {
        Py_CLEAR(made);
    }
    return made;
}

PyObject *objects_stat(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    struct asking *asking = pending_memory(sizeof *asking);
    PyObject *told = NULL;
    nigh_status status;

    if (asking != NULL && convert_id(from, &asking->id) && client_use(object) != NULL) {
        WITHOUT_LOCK(status =
                         nigh_stat_start(object->client, &asking->id, &asking->info, &asking->op));
        told = client_ended(object, pending_end(object, &asking->op, status, NIGH_FOREVER));
    }
    if (told != NULL) {
        Py_DECREF(told);
        told = info_of(&asking->info);
    }
    PyMem_Free(asking);
    return told;
}

/* (cursor, [info, ...]); the last has none. */
PyObject *objects_list_some(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_object_info infos[LISTED];
    PyObject *list, *done;
    nigh_client *client;
    nigh_status status;
    size_t count = 0;
    uint64_t cursor;

    if (!convert_number(from, &cursor) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_list(client, &cursor, infos, LISTED, &count));
    done = client_ended(object, status);
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

PyObject *objects_set_quota(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_client *client;
    nigh_status status;
    uint64_t quota;

    if (!convert_number(from, &quota) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_set_quota(client, quota));
    return client_ended(object, status);
}

/* How many nodes hold it now, also where that are fewer than were asked for: that is no error of
 * the object's. */
PyObject *objects_replicate(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"id", "copies", "timeout", NULL};
    struct client_object *object = (struct client_object *)self;
    uint64_t timeout_us = NATIVE_TIMEOUT_US;
    uint32_t copies;
    nigh_client *client;
    nigh_status status;
    uint32_t made = 0;
    PyObject *done;
    nigh_id id;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&O&|O&", keywords, convert_id, &id,
                                     convert_u32, &copies, convert_timeout, &timeout_us) ||
        (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_replicate(client, &id, copies, timeout_us, &made));
    done = client_ended(object, status);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    return convert_number_from(made);
}

#define RANKS 16 /* more than nigh_where tells of one object */

PyObject *objects_where(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    PyObject *list = NULL, *rank;
    uint32_t ranks[RANKS];
    nigh_client *client;
    nigh_status status;
    size_t count = 0;
    nigh_id id;

    if (!convert_id(from, &id) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_where(client, &id, ranks, RANKS, &count));
    if (status == NIGH_OK) {
        list = PyList_New(0);
    } else {
        (void)errors_raise(status, client);
    }
    for (size_t n = 0; n < count && n < RANKS && list != NULL; n++) {
        rank = convert_number_from(ranks[n]);
        if (rank == NULL || PyList_Append(list, rank) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(rank);
    }
    client_drop(object);
    return list;
}

static PyObject *holder_of(const nigh_holder *holder)
{
    PyObject *made = PyDict_New();

    if (made == NULL || !convert_put(made, "pid", PyLong_FromLong(holder->pid)) ||
        !convert_put(made, "uid", convert_number_from(holder->uid)) ||
        !convert_put(made, "name", convert_text(holder->name)) ||
        !convert_put(made, "views", convert_number_from(holder->views)) ||
        !convert_put(made, "size", convert_number_from(holder->size_bytes))) {
        Py_CLEAR(made);
    }
    return made;
}

#define HOLDERS 64 /* of an object, as many as are told of */

PyObject *objects_who(PyObject *self, PyObject *from)
{
    struct client_object *object = (struct client_object *)self;
    nigh_holder holders[HOLDERS];
    PyObject *list = NULL, *holder;
    nigh_client *client;
    nigh_status status;
    size_t count = 0;
    nigh_id id;

    if (!convert_id(from, &id) || (client = client_use(object)) == NULL) {
        return NULL;
    }
    WITHOUT_LOCK(status = nigh_who(client, &id, holders, HOLDERS, &count));
    if (status == NIGH_OK) {
        list = PyList_New(0);
    } else {
        (void)errors_raise(status, client);
    }
    for (size_t n = 0; n < count && n < HOLDERS && list != NULL; n++) {
        holder = holder_of(&holders[n]);
        if (holder == NULL || PyList_Append(list, holder) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(holder);
    }
    client_drop(object);
    return list;
}
