/* SPDX-License-Identifier: Apache-2.0 */
/* See views.h. One mutex guards both queues and what is published; nothing is decided, and nothing
 * written, while it is held. */
#include "node/views.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/random.h"
#include "node/views_parts.h"

#define LOG_MODULE "views"
#include "base/log.h"

#define VIEWS_QUEUE         512u              /* messages that wait to be sent */
#define VIEWS_JOIN_SPARE_US UINT64_C(1000000) /* for who asks to hear how it ended */

struct message {
    struct list_node place;
    uint32_t rank;
    uint32_t count;
    uint8_t bytes[];
};

struct queue {
    struct list messages;
    uint32_t count;
    struct list_node place; /* of what a member said, while there is some: in line */
};

/* Somebody who joins by this node. */
struct join {
    char address[AGREED_ADDRESS_BYTES]; /* "": free */
    bool asked, ended;
    uint64_t until_us; /* then nobody wants to know it any more */
    struct views_seat seat;
};

/* A seat that somebody at this node wants struck off. */
struct forget {
    bool taken, asked, ended;
    uint32_t rank;
    uint64_t until_us; /* then nobody wants to know it any more */
    nigh_status status;
};

struct views {
    struct views_config config;
    struct views_file *file; /* the caller's */
    bool kept_nothing;       /* before this start */
    struct agree *agree;
    pthread_t thread;
    bool started;
    bool takes_part;  /* from its start on: what it says is kept */
    uint8_t *to_keep; /* what it had said before; NULL: nothing */
    size_t to_keep_bytes;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopping;
    bool has_news;                           /* for the thread: adopted, or dead ones */
    struct queue out, in[LIMIT_NODES];       /* what each member said */
    uint32_t serial;                         /* of the last message that went out in parts */
    struct views_whole *wholes[LIMIT_NODES]; /* of each member; NULL: none */
    struct list line; /* of these, those with messages: who was heard last, last */
    struct agreed_set dead;
    struct join joins[AGREE_JOINS];
    struct forget forgets[AGREE_FORGETS];
    struct agree_look look; /* as the thread knew it last */
    struct agreed_roster roster;
    bool leaves;
    uint64_t leave_until_us; /* then it keeps its vote */
    uint32_t name_is_of;     /* the thread's: whose the name is that this node wants */

    _Atomic uint32_t to_send;  /* out.count */
    _Atomic uint64_t version;  /* of look.agreed */
    _Atomic uint64_t lease_us; /* as of that version */
    _Atomic uint64_t adopted[LIMIT_LANES];
    _Atomic uint64_t struck[AGREED_WORDS]; /* by the roster */
};

/* ---- queues --------------------------------------------------------------- */

static bool put(struct queue *queue, uint32_t room, uint32_t rank, const void *bytes,
                uint32_t count)
{
    struct message *message = queue->count == room ? NULL : malloc(sizeof(*message) + count);

    if (message == NULL) {
        return false;
    }
    *message = (struct message){.rank = rank, .count = count};
    memcpy(message->bytes, bytes, count);
    list_push_back(&queue->messages, &message->place);
    queue->count++;
    return true;
}

static struct message *take(struct queue *queue)
{
    struct list_node *node = list_pop_front(&queue->messages);

    if (node == NULL) {
        return NULL;
    }
    queue->count--;
    return container_of(node, struct message, place);
}

/* Members in turn, so that none keeps the others out; the mutex is held. */
static struct message *take_heard(struct views *views)
{
    struct list_node *node = list_pop_front(&views->line);
    struct queue *queue;
    struct message *message;

    if (node == NULL) {
        return NULL;
    }
    queue = container_of(node, struct queue, place);
    message = take(queue);
    if (queue->count > 0) {
        list_push_back(&views->line, &queue->place);
    }
    return message;
}

static void drain(struct queue *queue)
{
    struct message *message;

    while ((message = take(queue)) != NULL) {
        free(message);
    }
}

/* ---- what agree wants ----------------------------------------------------- */

/* The mutex is held. What finds no room is not heard, as a message that finds none. */
static void put_parts(struct views *views, uint32_t rank, const uint8_t *bytes, uint32_t count)
{
    uint8_t frame[VIEWS_FRAME_BYTES];
    uint32_t offset = 0, had;

    views->serial++;
    while ((had = views_part_write(views->serial, bytes, count, &offset, frame)) > 0 &&
           put(&views->out, VIEWS_QUEUE, rank, frame, had)) {
    }
}

static void on_send(void *context, uint32_t rank, const void *bytes, uint32_t count)
{
    struct views *views = context;

    pthread_mutex_lock(&views->mutex);
    if (count <= VIEWS_FRAME_BYTES) {
        (void)put(&views->out, VIEWS_QUEUE, rank, bytes, count);
    } else {
        put_parts(views, rank, bytes, count);
    }
    atomic_store_explicit(&views->to_send, views->out.count, memory_order_release);
    pthread_mutex_unlock(&views->mutex);
}

/* Until a node takes part nobody hears it, and it may yet be started as another: all that is kept
 * then is what was. */
static nigh_status keep_for_later(struct views *views, const void *bytes, size_t count)
{
    uint8_t *copy = malloc(count);

    if (copy == NULL) {
        return NIGH_NO_RESOURCES;
    }
    memcpy(copy, bytes, count);
    free(views->to_keep);
    views->to_keep = copy;
    views->to_keep_bytes = count;
    return NIGH_OK;
}

static nigh_status on_store(void *context, const void *bytes, size_t count)
{
    struct views *views = context;

    if (!views->takes_part) {
        return keep_for_later(views, bytes, count);
    }
    return views_file_write(views->file, bytes, count);
}

/* It is the thread's: the mutex is not held. */
static void on_seated(void *context, const char *address, nigh_status status, uint32_t rank,
                      const struct agreed_roster *roster)
{
    struct views *views = context;

    pthread_mutex_lock(&views->mutex);
    for (uint32_t n = 0; n < AGREE_JOINS; n++) {
        struct join *join = &views->joins[n];

        if (strcmp(join->address, address) == 0) {
            join->ended = true;
            join->seat = (struct views_seat){.status = status, .rank = rank, .roster = *roster};
        }
    }
    pthread_mutex_unlock(&views->mutex);
}

/* The same. */
static void on_forgot(void *context, uint32_t rank, nigh_status status)
{
    struct views *views = context;

    pthread_mutex_lock(&views->mutex);
    for (uint32_t n = 0; n < AGREE_FORGETS; n++) {
        struct forget *forget = &views->forgets[n];

        if (forget->taken && forget->rank == rank) {
            forget->ended = true;
            forget->status = status;
        }
    }
    pthread_mutex_unlock(&views->mutex);
}

/* ---- the thread ----------------------------------------------------------- */

static void kick_all(struct views *views)
{
    for (uint32_t lane = 0; lane < views->config.lanes; lane++) {
        views->config.kick(views->config.context, lane);
    }
}

static void log_view(const struct agreed *agreed)
{
    char ranks[64];
    uint32_t length = 0;

    ranks[0] = '\0';
    for (uint32_t rank = 0; rank < LIMIT_NODES && length + 8 < sizeof(ranks); rank++) {
        if (agreed_has(&agreed->in, rank)) {
            length += (uint32_t)snprintf(ranks + length, sizeof(ranks) - length, "%s%u",
                                         length > 0 ? "," : "", rank);
        }
    }
    LOG_INFO("a view", "epoch=%llu active=%s members=%u ranks=%s",
             (unsigned long long)agreed->epoch, agreed->active == agreed->epoch ? "yes" : "no",
             agreed_size(&agreed->in), ranks);
}

/* Says once whose the name is that this node wants, where it is another's. The roster is written by
 * this thread alone. */
static void log_name(struct views *views)
{
    uint32_t rank = agreed_rank_of(&views->roster, views->config.name);

    if (rank != LIMIT_NODES && rank != views->config.members->self && rank != views->name_is_of) {
        LOG_WARN("this node has no name: another is called that",
                 "name=\"%s\" rank=%u do=\"start this node with a --name of its own\"",
                 LOG_QUOTE(views->config.name), rank);
    }
    views->name_is_of = rank;
}

/* For lane 0, which looks at every rank. */
static void publish_struck(struct views *views)
{
    struct agreed_set struck = agreed_struck(&views->roster, views->config.members->listed);

    for (uint32_t n = 0; n < AGREED_WORDS; n++) {
        atomic_store_explicit(&views->struck[n], struck.words[n], memory_order_release);
    }
}

/* Makes known what is agreed. A lease is of one version: it ends before that changes. */
static void publish(struct views *views, uint64_t now_us)
{
    struct agree_look look;
    bool is_new, changes, renamed = false;

    agree_look(views->agree, now_us, &look);
    is_new = agreed_is_older(&views->look.agreed, &look.agreed);
    if (is_new) {
        atomic_store_explicit(&views->lease_us, 0, memory_order_seq_cst);
    }
    changes = is_new || look.has_lease != views->look.has_lease;
    pthread_mutex_lock(&views->mutex);
    views->look = look;
    if (views->roster.changes != agree_roster(views->agree)->changes) {
        views->roster = *agree_roster(views->agree);
        renamed = true;
    }
    if (is_new) {
        atomic_fetch_add_explicit(&views->version, 1, memory_order_seq_cst);
    }
    pthread_mutex_unlock(&views->mutex);
    atomic_store_explicit(&views->lease_us, look.has_lease ? look.lease_us : 0,
                          memory_order_seq_cst);
    if (is_new) {
        log_view(&look.agreed);
    }
    if (renamed) {
        publish_struck(views);
        log_name(views);
        views->config.kick(views->config.context, 0);
    }
    if (changes) {
        kick_all(views);
    }
}

static uint64_t adopted_by_all(const struct views *views)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t lane = 0; lane < views->config.lanes; lane++) {
        least = min_u64(least, atomic_load_explicit(&views->adopted[lane], memory_order_acquire));
    }
    return least;
}

static void ask_for_seats(struct views *views, uint64_t now_us)
{
    for (uint32_t n = 0; n < AGREE_JOINS; n++) {
        struct join *join = &views->joins[n];
        char address[AGREED_ADDRESS_BYTES];

        pthread_mutex_lock(&views->mutex);
        memcpy(address, join->address, sizeof(address));
        if (join->asked) {
            address[0] = '\0';
        }
        join->asked = true;
        pthread_mutex_unlock(&views->mutex);
        if (address[0] != '\0' && agree_join(views->agree, address, now_us) != NIGH_OK) {
            on_seated(views, address, NIGH_BUSY, 0, &(struct agreed_roster){0});
        }
    }
}

static void ask_to_strike(struct views *views, uint64_t now_us)
{
    for (uint32_t n = 0; n < AGREE_FORGETS; n++) {
        struct forget *forget = &views->forgets[n];
        uint32_t rank;
        bool asks;

        pthread_mutex_lock(&views->mutex);
        asks = forget->taken && !forget->asked;
        rank = forget->rank;
        forget->asked = true;
        pthread_mutex_unlock(&views->mutex);
        if (asks && agree_forget(views->agree, rank, now_us) != NIGH_OK) {
            on_forgot(views, rank, NIGH_TIMEOUT); /* others are under way */
        }
    }
}

/* What members said, as much as a turn takes. */
static void hear_some(struct views *views)
{
    for (uint32_t n = 0; n < VIEWS_TURN; n++) {
        struct message *message;

        pthread_mutex_lock(&views->mutex);
        message = take_heard(views);
        pthread_mutex_unlock(&views->mutex);
        if (message == NULL) {
            return;
        }
        agree_hear(views->agree, message->rank, message->bytes, message->count,
                   clock_now_us(&clock_monotonic));
        free(message);
    }
}

/* What came, and what follows; returns when to look again. */
static uint64_t work(struct views *views)
{
    struct agreed_set dead;
    uint64_t now_us, due_us;
    bool leaves;

    pthread_mutex_lock(&views->mutex);
    dead = views->dead;
    views->dead = (struct agreed_set){{0}};
    views->has_news = false;
    leaves = views->leaves;
    pthread_mutex_unlock(&views->mutex);
    hear_some(views);
    now_us = clock_now_us(&clock_monotonic);
    for (uint32_t rank = 0; rank < views->config.members->count; rank++) {
        if (agreed_has(&dead, rank)) {
            agree_dead(views->agree, rank, now_us);
        }
    }
    ask_for_seats(views, now_us);
    agree_leave(views->agree, leaves, now_us);
    ask_to_strike(views, now_us);
    agree_adopted(views->agree, adopted_by_all(views), now_us);
    due_us = agree_tick(views->agree, now_us);
    publish(views, now_us);
    if (atomic_load_explicit(&views->to_send, memory_order_acquire) > 0) {
        views->config.kick(views->config.context, 0);
    }
    return due_us;
}

static bool is_wanted(const struct views *views)
{
    return views->stopping || views->has_news || !list_empty(&views->line);
}

static void wait_until(struct views *views, uint64_t due_us)
{
    struct timespec at = {.tv_sec = (time_t)(due_us / 1000000),
                          .tv_nsec = (long)(due_us % 1000000) * 1000};

    while (!is_wanted(views)) {
        if (due_us == UINT64_MAX) {
            pthread_cond_wait(&views->changed, &views->mutex);
        } else if (pthread_cond_timedwait(&views->changed, &views->mutex, &at) != 0) {
            return;
        }
    }
}

static void *run(void *context)
{
    struct views *views = context;
    bool stopping = false;

    while (!stopping) {
        uint64_t due_us = work(views);

        pthread_mutex_lock(&views->mutex);
        wait_until(views, due_us);
        stopping = views->stopping;
        pthread_mutex_unlock(&views->mutex);
    }
    return NULL;
}

/* ---- lane 0 --------------------------------------------------------------- */

/* The mutex is held. */
static void put_heard(struct views *views, uint32_t rank, const uint8_t *bytes, uint32_t count)
{
    struct queue *queue = &views->in[rank];

    if (count <= AGREE_MESSAGE_BYTES && put(queue, VIEWS_SHARE, rank, bytes, count)) {
        if (queue->count == 1) {
            list_push_back(&views->line, &queue->place);
        }
        pthread_cond_signal(&views->changed);
    }
}

void views_heard(struct views *views, uint32_t rank, const uint8_t *bytes, uint32_t count)
{
    pthread_mutex_lock(&views->mutex);
    if (!views_is_part(bytes, count)) {
        put_heard(views, rank, bytes, count);
    } else if (views_part_take(&views->wholes[rank], bytes, count)) {
        put_heard(views, rank, views->wholes[rank]->bytes, views->wholes[rank]->total);
        free(views->wholes[rank]);
        views->wholes[rank] = NULL;
    }
    pthread_mutex_unlock(&views->mutex);
}

void views_dead(struct views *views, uint32_t rank)
{
    pthread_mutex_lock(&views->mutex);
    agreed_put(&views->dead, rank, true);
    views->has_news = true;
    pthread_cond_signal(&views->changed);
    pthread_mutex_unlock(&views->mutex);
}

void views_leave(struct views *views, bool leaves)
{
    pthread_mutex_lock(&views->mutex);
    if (views->leaves != leaves) {
        views->leaves = leaves;
        views->leave_until_us = clock_deadline_us(clock_now_us(&clock_monotonic), VIEWS_LEAVE_US);
        views->has_news = true;
        pthread_cond_signal(&views->changed);
    }
    pthread_mutex_unlock(&views->mutex);
}

bool views_is_leaving(struct views *views)
{
    bool is;

    pthread_mutex_lock(&views->mutex);
    is = views->leaves && views->look.votes &&
         clock_now_us(&clock_monotonic) < views->leave_until_us;
    pthread_mutex_unlock(&views->mutex);
    return is;
}

/* Its own place, or one that is free, or whose asker is gone; the mutex is held. */
static struct join *find_join(struct views *views, const char *address)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    struct join *place = NULL;

    for (uint32_t n = 0; n < AGREE_JOINS; n++) {
        struct join *join = &views->joins[n];

        if (join->address[0] == '\0' || now_us >= join->until_us) {
            place = join;
        } else if (strcmp(join->address, address) == 0) {
            return join;
        }
    }
    if (place != NULL) {
        *place = (struct join){.until_us = now_us + AGREE_JOIN_US + VIEWS_JOIN_SPARE_US};
        (void)bytes_copy_text(place->address, sizeof(place->address), address);
        views->has_news = true;
        pthread_cond_signal(&views->changed);
    }
    return place;
}

bool views_join(struct views *views, const char *address, struct views_seat *seat)
{
    struct join *join;
    bool ended;

    pthread_mutex_lock(&views->mutex);
    join = find_join(views, address);
    ended = join != NULL && join->ended;
    if (ended) {
        *seat = join->seat;
        join->address[0] = '\0';
    }
    pthread_mutex_unlock(&views->mutex);
    return ended;
}

/* Its own place, or one that is free, or whose asker is gone; the mutex is held. */
static struct forget *find_forget(struct views *views, uint32_t rank)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    struct forget *place = NULL;

    for (uint32_t n = 0; n < AGREE_FORGETS; n++) {
        struct forget *forget = &views->forgets[n];

        if (!forget->taken || now_us >= forget->until_us) {
            place = forget;
        } else if (forget->rank == rank) {
            return forget;
        }
    }
    if (place != NULL) {
        *place = (struct forget){.taken = true,
                                 .rank = rank,
                                 .until_us = now_us + AGREE_FORGET_US + VIEWS_JOIN_SPARE_US};
        views->has_news = true;
        pthread_cond_signal(&views->changed);
    }
    return place;
}

bool views_forget(struct views *views, uint32_t rank, nigh_status *status)
{
    struct forget *forget;
    bool ended;

    pthread_mutex_lock(&views->mutex);
    forget = find_forget(views, rank);
    ended = forget != NULL && forget->ended;
    if (ended) {
        *status = forget->status;
        forget->taken = false;
    }
    pthread_mutex_unlock(&views->mutex);
    return ended;
}

bool views_is_struck(const struct views *views, uint32_t rank)
{
    return (atomic_load_explicit(&views->struck[rank / 64], memory_order_acquire) >> (rank % 64) &
            1) != 0;
}

bool views_is_voter(struct views *views, uint32_t rank)
{
    bool is;

    pthread_mutex_lock(&views->mutex);
    is = agreed_has(&views->look.voters, rank);
    pthread_mutex_unlock(&views->mutex);
    return is;
}

bool views_seat_of(struct views *views, uint32_t rank, char address[AGREED_ADDRESS_BYTES])
{
    uint32_t listed = views->config.members->listed;
    bool is_taken;

    pthread_mutex_lock(&views->mutex);
    is_taken = rank >= listed && rank - listed < views->roster.count &&
               !agreed_is_struck(&views->roster, listed, rank);
    if (is_taken) {
        memcpy(address, views->roster.addresses[rank - listed], AGREED_ADDRESS_BYTES);
    }
    pthread_mutex_unlock(&views->mutex);
    return is_taken;
}

uint8_t *views_take(struct views *views, uint32_t *rank, uint32_t *count)
{
    struct message *message = NULL;

    if (atomic_load_explicit(&views->to_send, memory_order_acquire) == 0) {
        return NULL;
    }
    pthread_mutex_lock(&views->mutex);
    message = take(&views->out);
    atomic_store_explicit(&views->to_send, views->out.count, memory_order_release);
    pthread_mutex_unlock(&views->mutex);
    if (message == NULL) {
        return NULL;
    }
    *rank = message->rank;
    *count = message->count;
    memmove(message, message->bytes, message->count);
    return (uint8_t *)message;
}

/* ---- lanes ---------------------------------------------------------------- */

uint64_t views_version(const struct views *views)
{
    return atomic_load_explicit(&views->version, memory_order_acquire);
}

uint64_t views_read(struct views *views, struct agreed *agreed)
{
    uint64_t version;

    pthread_mutex_lock(&views->mutex);
    *agreed = views->look.agreed;
    version = atomic_load_explicit(&views->version, memory_order_relaxed);
    pthread_mutex_unlock(&views->mutex);
    return version;
}

uint64_t views_lease_us(const struct views *views, uint64_t version)
{
    uint64_t lease_us = atomic_load_explicit(&views->lease_us, memory_order_seq_cst);

    /* The lease of the next version is there after that version is. */
    return atomic_load_explicit(&views->version, memory_order_seq_cst) == version ? lease_us : 0;
}

void views_adopted(struct views *views, uint32_t lane, uint64_t epoch)
{
    atomic_store_explicit(&views->adopted[lane], epoch, memory_order_release);
    pthread_mutex_lock(&views->mutex);
    views->has_news = true;
    pthread_cond_signal(&views->changed);
    pthread_mutex_unlock(&views->mutex);
}

void views_look(struct views *views, struct agree_look *look)
{
    pthread_mutex_lock(&views->mutex);
    *look = views->look;
    pthread_mutex_unlock(&views->mutex);
}

void views_name_of(struct views *views, uint32_t rank, char name[AGREED_NAME_BYTES])
{
    pthread_mutex_lock(&views->mutex);
    memcpy(name, views->roster.names[rank], AGREED_NAME_BYTES);
    pthread_mutex_unlock(&views->mutex);
}

bool views_name_is_taken(struct views *views)
{
    uint32_t rank;

    pthread_mutex_lock(&views->mutex);
    rank = agreed_rank_of(&views->roster, views->config.name);
    pthread_mutex_unlock(&views->mutex);
    return rank != LIMIT_NODES && rank != views->config.members->self;
}

/* ---- life ----------------------------------------------------------------- */

static nigh_status make_agree(struct views *views, char *why, size_t why_bytes)
{
    struct agree_config config = {
        .self = views->config.members->self,
        .listed = views->config.members->listed,
        .count = views->config.members->count,
        .cluster = views->config.members->epoch,
        .dead_us = views->config.dead_us,
        .joins = views->config.joins,
        .context = views,
        .send = on_send,
        .store = on_store,
        .seated = on_seated,
        .forgot = on_forgot,
    };
    char reason[AGREE_WHY_BYTES] = "";
    struct agree_look look;
    uint8_t *stored = NULL;
    size_t count = 0;
    nigh_status status = views_file_read(views->file, &stored, &count, why, why_bytes);

    if (status != NIGH_OK) {
        return status;
    }
    views->kept_nothing = count == 0;
    (void)bytes_copy_text(config.name, sizeof(config.name), views->config.name);
    (void)random_system_seed(&config.seed);
    status =
        agree_create(&config, stored, count, clock_now_us(&clock_monotonic), &views->agree, reason);
    free(stored);
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "%s: %s", views->file->path, reason);
        return status;
    }
    agree_look(views->agree, clock_now_us(&clock_monotonic), &look);
    views->look.voters = look.voters; /* who is believed before the thread's first turn */
    return NIGH_OK;
}

static nigh_status make_locks(struct views *views)
{
    pthread_condattr_t attributes;

    if (pthread_mutex_init(&views->mutex, NULL) != 0) {
        return NIGH_NO_RESOURCES;
    }
    if (pthread_condattr_init(&attributes) != 0) {
        pthread_mutex_destroy(&views->mutex);
        return NIGH_NO_RESOURCES;
    }
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (pthread_cond_init(&views->changed, &attributes) != 0) {
        pthread_mutex_destroy(&views->mutex);
        pthread_condattr_destroy(&attributes);
        return NIGH_NO_RESOURCES;
    }
    pthread_condattr_destroy(&attributes);
    return NIGH_OK;
}

nigh_status views_create(const struct views_config *config, struct views_file *file,
                         struct views **views, char *why, size_t why_bytes)
{
    struct views *made = calloc(1, sizeof(*made));
    nigh_status status;

    if (made == NULL || make_locks(made) != NIGH_OK) {
        free(made);
        snprintf(why, why_bytes, "no memory for the node's own books");
        return NIGH_NO_RESOURCES;
    }
    made->config = *config;
    made->name_is_of = LIMIT_NODES;
    list_init(&made->line);
    list_init(&made->out.messages);
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        list_init(&made->in[rank].messages);
    }
    made->file = file;
    status = make_agree(made, why, why_bytes);
    if (status != NIGH_OK) {
        views_destroy(made);
        return status;
    }
    *views = made;
    return NIGH_OK;
}

/* From here on what it says is kept. */
static nigh_status begin_to_keep(struct views *views)
{
    if (views->to_keep != NULL &&
        views_file_write(views->file, views->to_keep, views->to_keep_bytes) != NIGH_OK) {
        return NIGH_DISK;
    }
    free(views->to_keep);
    views->to_keep = NULL;
    views->takes_part = true;
    return NIGH_OK;
}

static nigh_status start_thread(struct views *views)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&views->thread, NULL, run, views);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return NIGH_NO_RESOURCES;
    }
    views->started = true;
    (void)pthread_setname_np(views->thread, "nigh-views");
    return NIGH_OK;
}

nigh_status views_start(struct views *views)
{
    nigh_status status = begin_to_keep(views);

    if (status == NIGH_OK) {
        agree_opened(views->agree, clock_now_us(&clock_monotonic));
        status = start_thread(views);
    }
    if (status != NIGH_OK && views->kept_nothing) {
        views_file_remove(views->file); /* nobody has heard it, and it may be started as another */
    }
    return status;
}

void views_stop(struct views *views)
{
    if (views == NULL || !views->started) {
        return;
    }
    pthread_mutex_lock(&views->mutex);
    views->stopping = true;
    pthread_cond_signal(&views->changed);
    pthread_mutex_unlock(&views->mutex);
    pthread_join(views->thread, NULL);
    views->started = false;
}

void views_destroy(struct views *views)
{
    if (views == NULL) {
        return;
    }
    views_stop(views);
    agree_destroy(views->agree);
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        drain(&views->in[rank]);
        free(views->wholes[rank]);
    }
    drain(&views->out);
    free(views->to_keep);
    pthread_cond_destroy(&views->changed);
    pthread_mutex_destroy(&views->mutex);
    free(views);
}
