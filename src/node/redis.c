/* SPDX-License-Identifier: Apache-2.0 */
/* See redis.h. */
#include "node/redis.h"

#include <errno.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/blake.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/random.h"
#include "cluster/redis_session.h"
#include "node/redis_guard.h"
#include "node/redis_lane.h"

#define LOG_MODULE "redis"
#include "base/log.h"

#define REDIS_WHY 256

/* Reasons told while the server is not reached, each once: what else it says then is not told. */
#define REDIS_REASONS 8u

struct redis_connection {
    struct redis *redis;
    redisAsyncContext *context; /* NULL: none */
    struct redis_guard guard;
    bool reads, writes;
};

struct redis {
    struct redis_config config;
    struct redis_session session;
    struct redis_lane lanes[LIMIT_LANES];
    struct redis_connection commands, messages;
    uint32_t awaited; /* replies that the step under way still needs */
    char digest[64];
    char epoch[REDIS_EPOCH_BYTES];
    char shown[REDIS_HOST_BYTES + 32];
    pthread_mutex_t lock; /* of why */
    char why[REDIS_WHY];
    bool has_why;                        /* of the connection under way, or the last one */
    uint64_t told_hashes[REDIS_REASONS]; /* of what was told since it was last reached */
    uint32_t told_count;
    uint64_t said_us; /* when nonsense was last in the log */
    pthread_t thread;
    bool started;
    int wake_fd;
    _Atomic bool stop;
    _Atomic bool up;
    _Atomic uint64_t losses;
};

/* A question under way. */
struct redis_flight {
    struct redis *redis;
    uint32_t lane;
    struct outside_ask ask; /* its key and object are not needed any more */
};

#define LANE_NONE UINT32_MAX /* a sign of life */

bool redis_is_built(void)
{
    return true;
}

/* ---- lanes ---------------------------------------------------------------- */

static bool on_ask(void *context, uint32_t number, const struct outside_ask *ask)
{
    struct redis *redis = context;
    bool taken = redis_lane_ask(&redis->lanes[number], ask);
    uint64_t one = 1;

    if (taken)
        (void)!write(redis->wake_fd, &one, sizeof(one));
    return taken;
}

static bool on_take(void *context, uint32_t number, struct outside_news *news)
{
    struct redis *redis = context;

    return redis_lane_take(&redis->lanes[number], news);
}

static bool on_has_news(void *context, uint32_t number)
{
    struct redis *redis = context;

    return redis_lane_has_news(&redis->lanes[number]);
}

static uint32_t on_life(void *context, uint32_t number)
{
    struct redis *redis = context;

    return redis_lane_life(&redis->lanes[number]);
}

struct outside redis_outside(struct redis *redis)
{
    return (struct outside){
        .context = redis, .ask = on_ask, .take = on_take, .has_news = on_has_news, .life = on_life};
}

static void tell_lane(struct redis *redis, uint32_t number, const struct outside_news *news)
{
    redis_lane_tell(&redis->lanes[number], news);
    redis->config.kick(redis->config.context, number);
}

/* A lane's life begins or ends. */
static void set_life(struct redis *redis, uint32_t number, bool alive)
{
    redis_lane_set_life(&redis->lanes[number], alive);
    redis->config.kick(redis->config.context, number);
}

/* ---- what went wrong ------------------------------------------------------ */

static void set_why(struct redis *redis, const char *what, const char *text, size_t count)
{
    char shown[REDIS_WHY];

    bytes_printable(text, count < 150 ? count : 150, shown, sizeof(shown));
    pthread_mutex_lock(&redis->lock);
    (void)snprintf(redis->why, sizeof(redis->why), "%s%.200s", what, shown);
    pthread_mutex_unlock(&redis->lock);
    redis->has_why = true;
}

bool redis_is_up(struct redis *redis, char *why, size_t why_bytes)
{
    bool up = atomic_load(&redis->up);

    pthread_mutex_lock(&redis->lock);
    (void)snprintf(why, why_bytes, "%.250s%s%.250s", redis->shown,
                   up || redis->why[0] == '\0' ? "" : ": ", up ? "" : redis->why);
    pthread_mutex_unlock(&redis->lock);
    return up;
}

uint64_t redis_losses(const struct redis *redis)
{
    return atomic_load(&redis->losses);
}

/* An attempt a second fails for long, mostly for one reason; the next one may be of another kind.
 */
static void say_unreached(struct redis *redis)
{
    char why[2 * REDIS_WHY];
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t hash;

    (void)redis_is_up(redis, why, sizeof(why));
    blake_id20(why, strlen(why), id);
    hash = hash_load64(id);
    for (uint32_t n = 0; n < redis->told_count; n++) {
        if (redis->told_hashes[n] == hash)
            return;
    }
    if (redis->told_count == REDIS_REASONS)
        return;
    redis->told_hashes[redis->told_count++] = hash;
    LOG_WARN("the directory is not reached: what is not here is not found until it is",
             "why=\"%s\" do=\"see to the server, and to the way there, by what why says; nothing "
             "need be started again\"",
             LOG_QUOTE(why));
}

/* Once a second. */
static void say_nonsense(struct redis *redis, const char *text, size_t count)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    char shown[REDIS_WHY];

    if (redis->said_us != 0 && now_us < redis->said_us + 1000000)
        return;
    redis->said_us = now_us;
    bytes_printable(text, count < 120 ? count : 120, shown, sizeof(shown));
    LOG_WARN("the directory's server gives answers that mean nothing here",
             "at=%s answer=\"%s\" do=\"see that --directory names a Redis server, and a database "
             "that nobody else writes to\"",
             redis->shown, LOG_QUOTE(shown));
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
           reply->type == REDIS_REPLY_ERROR;
}

/* ---- connections ---------------------------------------------------------- */

static void add_read(void *data)
{
    ((struct redis_connection *)data)->reads = true;
}

static void del_read(void *data)
{
    ((struct redis_connection *)data)->reads = false;
}

static void add_write(void *data)
{
    ((struct redis_connection *)data)->writes = true;
}

static void del_write(void *data)
{
    ((struct redis_connection *)data)->writes = false;
}

static void clean_up(void *data)
{
    struct redis_connection *connection = data;

    connection->context = NULL;
    connection->reads = connection->writes = false;
}

static void step_part_done(struct redis *redis)
{
    NIGH_ASSERT(redis->awaited > 0);
    if (--redis->awaited == 0)
        redis_session_done(&redis->session, clock_now_us(&clock_monotonic));
}

static void on_connected(const redisAsyncContext *context, int status)
{
    struct redis *redis = ((struct redis_connection *)context->data)->redis;

    if (status == REDIS_OK) {
        step_part_done(redis);
    } else {
        set_why(redis, "cannot connect: ", context->errstr, strlen(context->errstr));
        redis_session_lost(&redis->session);
    }
}

static void on_disconnected(const redisAsyncContext *context, int status)
{
    struct redis *redis = ((struct redis_connection *)context->data)->redis;

    if (status != REDIS_OK && !redis->has_why)
        set_why(redis, "the connection ended: ", context->errstr, strlen(context->errstr));
    redis_session_lost(&redis->session);
}

static void on_refused(void *context, const char *what, const char *text, size_t count)
{
    set_why(context, what, text, count);
}

static bool connect_one(struct redis *redis, struct redis_connection *connection)
{
    const struct redis_address *to = &redis->config.address;
    redisAsyncContext *context = to->host[0] == '/' ? redisAsyncConnectUnix(to->host)
                                                    : redisAsyncConnect(to->host, to->port);

    if (context == NULL || context->err != 0) {
        const char *why = context == NULL ? "no memory" : context->errstr;

        set_why(redis, "cannot connect: ", why, strlen(why));
        if (context != NULL)
            redisAsyncFree(context);
        return false;
    }
    *connection = (struct redis_connection){.redis = redis, .context = context};
    context->data = connection;
    context->ev.data = connection;
    context->ev.addRead = add_read;
    context->ev.delRead = del_read;
    context->ev.addWrite = add_write;
    context->ev.delWrite = del_write;
    context->ev.cleanup = clean_up;
    redis_guard_init(&connection->guard, context, on_refused, redis);
    (void)redisAsyncSetConnectCallback(context, on_connected);
    (void)redisAsyncSetDisconnectCallback(context, on_disconnected);
    return true;
}

static void connect_both(struct redis *redis)
{
    redis->awaited = 2;
    redis->has_why = false;
    if (!connect_one(redis, &redis->commands) || !connect_one(redis, &redis->messages))
        redis_session_lost(&redis->session);
}

static void close_one(struct redis_connection *connection)
{
    if (connection->context != NULL)
        redisAsyncFree(connection->context);
    connection->context = NULL;
}

/* What was asked and not sent is answered, too. */
static void fail_asks(struct redis *redis, uint32_t number)
{
    redis_lane_fail_asks(&redis->lanes[number]);
    redis->config.kick(redis->config.context, number);
}

static void close_both(struct redis *redis)
{
    bool was_up = atomic_exchange(&redis->up, false);

    atomic_fetch_add(&redis->losses, was_up ? 1 : 0);
    if (!redis->has_why)
        set_why(redis, "it does not answer", "", 0);
    for (uint32_t n = 0; n < redis->config.lanes; n++)
        set_life(redis, n, false);
    close_one(&redis->commands);
    close_one(&redis->messages);
    for (uint32_t n = 0; n < redis->config.lanes; n++)
        fail_asks(redis, n);
    say_unreached(redis);
}

/* ---- the first words ------------------------------------------------------ */

/* The answer to a step; to EPOCH two. */
static void on_step(redisAsyncContext *context, void *answer, void *data)
{
    struct redis *redis = ((struct redis_connection *)context->data)->redis;
    const redisReply *reply = answer;
    enum redis_step step = (enum redis_step)(uintptr_t)data;

    if (reply == NULL || step != redis->session.step || !redis->session.begun)
        return; /* the connection ends */
    if (reply->type == REDIS_REPLY_ERROR) {
        set_why(redis, "it says: ", reply->str, reply->len);
        redis_session_lost(&redis->session);
        return;
    }
    if (step == REDIS_LOAD || (step == REDIS_EPOCH && redis->awaited == 1)) {
        char *to = step == REDIS_LOAD ? redis->digest : redis->epoch;
        size_t room = step == REDIS_LOAD ? sizeof(redis->digest) : sizeof(redis->epoch);

        if (!is_text(reply) || reply->len == 0 || reply->len >= room ||
            memchr(reply->str, 0, reply->len) != NULL) {
            set_why(redis, "its first answers mean nothing here", "", 0);
            redis_session_lost(&redis->session);
            return;
        }
        memcpy(to, reply->str, reply->len);
        to[reply->len] = '\0';
    }
    step_part_done(redis);
}

static void say(struct redis *redis, struct redis_connection *connection, int count,
                const char **words)
{
    void *step = (void *)(uintptr_t)redis->session.step;

    if (connection->context == NULL ||
        redisAsyncCommandArgv(connection->context, on_step, step, count, words, NULL) != REDIS_OK)
        redis_session_lost(&redis->session);
}

static void say_password(struct redis *redis, struct redis_connection *connection)
{
    const struct redis_address *address = &redis->config.address;
    const char *words[3] = {"AUTH", address->user, address->password};

    if (address->user[0] == '\0')
        words[1] = address->password;
    say(redis, connection, address->user[0] == '\0' ? 2 : 3, words);
}

static void say_epoch(struct redis *redis)
{
    char key[REDIS_NAME_BYTES + 8], mine[REDIS_EPOCH_BYTES];
    uint64_t seed = clock_wall_ns();
    const char *set[] = {"SET", key, mine, "NX"};
    const char *get[] = {"GET", key};

    (void)random_system_seed(&seed);
    (void)snprintf(key, sizeof(key), "%sepoch", redis->config.name);
    bytes_hex(&seed, sizeof(seed), mine);
    redis->awaited = 2;
    say(redis, &redis->commands, 4, set);
    say(redis, &redis->commands, 2, get);
}

static void say_select(struct redis *redis)
{
    char number[16];
    const char *words[] = {"SELECT", number};

    (void)snprintf(number, sizeof(number), "%u", redis->config.address.database);
    redis->awaited = 1;
    say(redis, &redis->commands, 2, words);
}

static void say_load(struct redis *redis)
{
    const char *words[] = {"SCRIPT", "LOAD", redis_script};

    redis->awaited = 1;
    say(redis, &redis->commands, 3, words);
}

/* ---- what is published ---------------------------------------------------- */

static void on_message(struct redis *redis, const redisReply *channel, const redisReply *payload)
{
    const char *dot = is_text(channel) ? strrchr(channel->str, '.') : NULL;
    unsigned long number = dot != NULL ? strtoul(dot + 1, NULL, 10) : ULONG_MAX;
    struct outside_news news;

    if (number >= redis->config.lanes || !is_text(payload) ||
        !redis_take_message(payload->str, payload->len, &news)) {
        say_nonsense(redis, "a message", 9);
        return;
    }
    tell_lane(redis, (uint32_t)number, &news);
}

static void on_published(redisAsyncContext *context, void *answer, void *data)
{
    struct redis *redis = ((struct redis_connection *)context->data)->redis;
    const redisReply *reply = answer;

    (void)data;
    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        set_why(redis, "it says: ", reply->str, reply->len);
        redis_session_lost(&redis->session);
    } else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
               !is_text(reply->element[0])) {
        say_nonsense(redis, "no message", 10);
    } else if (strcmp(reply->element[0]->str, "subscribe") == 0) {
        if (redis->session.step == REDIS_LISTEN && redis->awaited > 0)
            step_part_done(redis);
    } else if (strcmp(reply->element[0]->str, "message") == 0) {
        on_message(redis, reply->element[1], reply->element[2]);
    }
}

static void say_listen(struct redis *redis)
{
    redis->awaited = redis->config.lanes;
    for (uint32_t n = 0; n < redis->config.lanes; n++) {
        char channel[REDIS_NAME_BYTES + 32];
        const char *words[] = {"SUBSCRIBE", channel};

        (void)snprintf(channel, sizeof(channel), "%sc%u.%u", redis->config.name, redis->config.rank,
                       n);
        if (redis->messages.context == NULL ||
            redisAsyncCommandArgv(redis->messages.context, on_published, NULL, 2, words, NULL) !=
                REDIS_OK)
            redis_session_lost(&redis->session);
    }
}

/* ---- questions and answers ------------------------------------------------ */

static void take_owed(struct redis *redis, uint32_t lane, const redisReply *reply)
{
    struct outside_news drops[OUTSIDE_DROPS];
    uint32_t count = redis_take_owed(reply->str, reply->len, drops);

    for (uint32_t n = 0; n < count; n++)
        tell_lane(redis, lane, &drops[n]);
}

static enum redis_verdict take_reply(struct redis *redis, const redisReply *reply,
                                     const struct redis_flight *flight, struct outside_news *news)
{
    enum redis_verdict verdict = REDIS_NONSENSE;

    if (reply->type == REDIS_REPLY_ERROR)
        verdict = redis_take_error(reply->str, reply->len, &news->status);
    else if (is_text(reply))
        verdict = redis_take_answer(flight->ask.op, reply->str, reply->len, news);
    if (verdict == REDIS_NONSENSE) {
        news->status = NIGH_PROTOCOL;
        say_nonsense(redis, is_text(reply) ? reply->str : "", is_text(reply) ? reply->len : 0);
    } else if (verdict != REDIS_FINE) {
        news->status = NIGH_PEER_LOST;
    }
    return verdict;
}

/* What an answer says of the server. */
static void judge(struct redis *redis, enum redis_verdict verdict, const redisReply *reply,
                  const struct redis_flight *flight)
{
    if (verdict == REDIS_STALE) {
        bool is_error = reply->type == REDIS_REPLY_ERROR;

        set_why(redis, is_error ? "it says: " : "it lost what it knew", reply->str,
                is_error ? reply->len : 0);
        redis_session_lost(&redis->session);
    } else if (verdict == REDIS_FORGOTTEN && flight->lane != LANE_NONE &&
               redis->lanes[flight->lane].life == flight->ask.life) {
        set_life(redis, flight->lane, true);
    }
}

static void on_answer(redisAsyncContext *context, void *answer, void *data)
{
    struct redis_flight *flight = data;
    struct redis *redis = flight->redis;
    const redisReply *reply = answer;
    struct outside_news news = {.kind = OUTSIDE_ANSWER,
                                .use = flight->ask.use,
                                .round = flight->ask.round,
                                .token = flight->ask.token,
                                .status = NIGH_PEER_LOST};

    (void)context;
    if (reply != NULL) {
        enum redis_verdict verdict = take_reply(redis, reply, flight, &news);

        redis_session_heard(&redis->session, clock_now_us(&clock_monotonic));
        if (verdict == REDIS_FINE && flight->ask.op == OUTSIDE_OWED &&
            reply->type != REDIS_REPLY_ERROR)
            take_owed(redis, flight->lane, reply);
        judge(redis, verdict, reply, flight);
    }
    if (flight->lane != LANE_NONE)
        tell_lane(redis, flight->lane, &news);
    free(flight);
}

static void ask_server(struct redis *redis, uint32_t lane, const struct outside_ask *ask)
{
    const struct redis_config *config = &redis->config;
    struct redis_caller caller = {.name = config->name,
                                  .epoch = redis->epoch,
                                  .rank = config->rank,
                                  .incarnation = config->incarnation,
                                  .lane = lane == LANE_NONE ? 0 : lane,
                                  .lanes = config->lanes};
    struct redis_flight *flight = malloc(sizeof(*flight));
    const char *words[4 + REDIS_ARGUMENTS] = {"EVALSHA", redis->digest, "1", config->name};
    size_t bytes[4 + REDIS_ARGUMENTS] = {7, strlen(redis->digest), 1, strlen(config->name)};
    struct redis_call call;

    NIGH_ASSERT(flight != NULL); /* as small as it is */
    *flight = (struct redis_flight){.redis = redis, .lane = lane, .ask = *ask};
    redis_call_make(&call, &caller, ask);
    memcpy(words + 4, call.arguments, call.count * sizeof(*words));
    memcpy(bytes + 4, call.bytes, call.count * sizeof(*bytes));
    if (redis->commands.context == NULL ||
        redisAsyncCommandArgv(redis->commands.context, on_answer, flight, 4 + (int)call.count,
                              words, bytes) != REDIS_OK) {
        struct outside_news news = redis_lane_lost(ask);

        redis_session_lost(&redis->session);
        if (lane != LANE_NONE)
            tell_lane(redis, lane, &news);
        free(flight);
    }
}

static void ask_all(struct redis *redis)
{
    for (uint32_t n = 0; n < redis->config.lanes && atomic_load(&redis->up); n++) {
        struct outside_ask ask;

        while (redis_lane_next_ask(&redis->lanes[n], &ask))
            ask_server(redis, n, &ask);
    }
}

/* ---- the thread ----------------------------------------------------------- */

static void go_up(struct redis *redis)
{
    pthread_mutex_lock(&redis->lock);
    redis->why[0] = '\0';
    pthread_mutex_unlock(&redis->lock);
    redis->has_why = false;
    redis->told_count = 0;
    atomic_store(&redis->up, true);
    LOG_INFO("the directory is reached", "at=%s", redis->shown);
    for (uint32_t n = 0; n < redis->config.lanes; n++)
        set_life(redis, n, true);
}

static void do_step(struct redis *redis, enum redis_step step)
{
    switch (step) {
    case REDIS_NOTHING: return;
    case REDIS_CONNECT: connect_both(redis); return;
    case REDIS_AUTH:
        redis->awaited = 2;
        say_password(redis, &redis->commands);
        say_password(redis, &redis->messages);
        return;
    case REDIS_SELECT: say_select(redis); return;
    case REDIS_LOAD: say_load(redis); return;
    case REDIS_EPOCH: say_epoch(redis); return;
    case REDIS_LISTEN: say_listen(redis); return;
    case REDIS_UP: go_up(redis); return;
    case REDIS_BEAT: ask_server(redis, LANE_NONE, &(struct outside_ask){0}); return;
    case REDIS_CLOSE: close_both(redis); return;
    }
}

static uint64_t run_steps(struct redis *redis)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    enum redis_step step;

    while ((step = redis_session_turn(&redis->session, now_us)) != REDIS_NOTHING)
        do_step(redis, step);
    return redis_session_due_us(&redis->session);
}

static struct pollfd poll_of(const struct redis_connection *connection)
{
    return (struct pollfd){
        .fd = connection->context != NULL ? connection->context->c.fd : -1,
        .events = (short)((connection->reads ? POLLIN : 0) | (connection->writes ? POLLOUT : 0)),
    };
}

static void read_from(struct redis_connection *connection)
{
    redisAsyncHandleRead(connection->context);
    if (connection->context == NULL || redis_guard_is_bounded(&connection->guard))
        return;
    set_why(connection->redis, "its answers are too long", "", 0);
    redis_session_lost(&connection->redis->session);
}

static void handle(struct redis_connection *connection, const struct pollfd *at)
{
    if (connection->context != NULL && connection->reads &&
        (at->revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        read_from(connection);
    if (connection->context != NULL && connection->writes &&
        (at->revents & (POLLOUT | POLLHUP | POLLERR)) != 0)
        redisAsyncHandleWrite(connection->context);
}

static void *run(void *context)
{
    struct redis *redis = context;

    while (!atomic_load(&redis->stop)) {
        uint64_t due_us = run_steps(redis);
        uint64_t now_us = clock_now_us(&clock_monotonic);
        uint64_t wait_us = due_us > now_us ? due_us - now_us : 0;
        struct pollfd at[3] = {{.fd = redis->wake_fd, .events = POLLIN}};
        uint64_t rings;

        ask_all(redis);
        at[1] = poll_of(&redis->commands);
        at[2] = poll_of(&redis->messages);
        if (poll(at, 3, redis->session.lost ? 0 : (int)(wait_us / 1000 + 1)) < 0)
            continue;
        (void)!read(redis->wake_fd, &rings, sizeof(rings));
        handle(&redis->commands, &at[1]);
        handle(&redis->messages, &at[2]);
    }
    close_one(&redis->commands);
    close_one(&redis->messages);
    return NULL;
}

/* ---- create, destroy ------------------------------------------------------ */

nigh_status redis_create(const struct redis_config *config, struct redis **out)
{
    struct redis *redis = calloc(1, sizeof(*redis));
    bool complete = true;

    if (redis == NULL)
        return NIGH_NO_RESOURCES;
    redis->config = *config;
    redis_session_init(&redis->session, config->address.password[0] != '\0',
                       config->address.database != 0);
    redis_address_show(&config->address, redis->shown, sizeof(redis->shown));
    redis->commands.redis = redis->messages.redis = redis;
    pthread_mutex_init(&redis->lock, NULL);
    redis->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (uint32_t n = 0; n < config->lanes; n++)
        complete = redis_lane_init(&redis->lanes[n]) && complete;
    if (!complete || redis->wake_fd < 0) {
        redis_destroy(redis);
        return NIGH_NO_RESOURCES;
    }
    *out = redis;
    return NIGH_OK;
}

nigh_status redis_start(struct redis *redis)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    redis->started = pthread_create(&redis->thread, NULL, run, redis) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return redis->started ? NIGH_OK : NIGH_NO_RESOURCES;
}

void redis_stop(struct redis *redis)
{
    uint64_t one = 1;

    if (redis == NULL || !redis->started)
        return;
    atomic_store(&redis->stop, true);
    (void)!write(redis->wake_fd, &one, sizeof(one));
    pthread_join(redis->thread, NULL);
    redis->started = false;
}

void redis_destroy(struct redis *redis)
{
    if (redis == NULL)
        return;
    redis_stop(redis);
    for (uint32_t n = 0; n < redis->config.lanes; n++)
        redis_lane_fini(&redis->lanes[n]);
    pthread_mutex_destroy(&redis->lock);
    fd_close(&redis->wake_fd);
    explicit_bzero(&redis->config.address, sizeof(redis->config.address));
    free(redis);
}
