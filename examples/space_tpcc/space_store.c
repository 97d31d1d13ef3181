/* SPDX-License-Identifier: Apache-2.0 */
/* See store.h: all that calls nigh. */
#include "store.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nigh/nigh.h>
#include <nigh/space.h>

#include "common.h"

#define SECOND_US  UINT64_C(1000000)
#define TIMEOUT_US (30 * SECOND_US)
#define PATIENCE_S 30.0 /* for a cluster that was just formed */

enum {
    LOG_BYTES = 4096,
    LOG_AT = ROW_BYTES, /* of the log's body: in its first block is the number that was put */
    BODY_BYTES = LOG_BYTES - LOG_AT
};

/* Of a row in a log; its bytes follow, in whole words. */
struct logged {
    uint64_t row;
    uint32_t head_bytes, tail_bytes;
};

struct space_store {
    struct store store;
    nigh_client *client;
    nigh_space *space;
    struct store_logs *logs;
    uint64_t log, number, lock_us;
    uint32_t worker;
    enum death death;
    unsigned char body[BODY_BYTES];
};

static void check(nigh_client *client, nigh_status status, const char *what)
{
    char why[256] = "";

    if (status != NIGH_OK) {
        nigh_client_error(client, why, sizeof why);
        fail(what, why[0] != 0 ? why : nigh_status_string(status));
    }
}

/* ---- bytes ---------------------------------------------------------------- */

static void read_bytes(struct store *store, uint64_t at, void *to, uint64_t bytes)
{
    struct space_store *self = (struct space_store *)store;

    check(self->client, nigh_space_read(self->space, at, to, bytes, TIMEOUT_US), "read");
}

static void write_bytes(struct store *store, uint64_t at, const void *from, uint64_t bytes)
{
    struct space_store *self = (struct space_store *)store;

    check(self->client, nigh_space_write(self->space, at, from, bytes, TIMEOUT_US), "write");
}

static void fence(struct space_store *self)
{
    check(self->client, nigh_space_store_fence(self->space, TIMEOUT_US), "fence");
}

static void finish(struct store *store)
{
    struct space_store *self = (struct space_store *)store;

    check(self->client, nigh_space_flush(self->space, TIMEOUT_US, NULL), "flush");
}

static uint64_t allocate(struct store *store, uint64_t bytes)
{
    struct space_store *self = (struct space_store *)store;
    uint64_t address;

    check(self->client, nigh_space_alloc(self->space, bytes, 0, TIMEOUT_US, &address),
          "allocate rows");
    return address;
}

/* ---- what the dead left --------------------------------------------------- */

static uint64_t mark_of(uint32_t worker, uint64_t number)
{
    return (uint64_t)(worker + 1) << 48 | number;
}

static uint64_t words(uint32_t bytes)
{
    return ((uint64_t)bytes + 7) / 8 * 8;
}

/* Where a row's bytes are in a log's body: SIZE_MAX: it is not in it. */
static size_t find_logged(const unsigned char *body, uint64_t row, struct logged *logged)
{
    uint64_t count;
    size_t at = sizeof count;

    memcpy(&count, body, sizeof count);
    for (uint64_t i = 0; i < count && at + sizeof *logged <= BODY_BYTES; i++) {
        memcpy(logged, body + at, sizeof *logged);
        at += sizeof *logged;
        if (logged->row == row) {
            return at;
        }
        at += words(logged->head_bytes) + words(logged->tail_bytes);
    }
    return SIZE_MAX;
}

/* A row is written as it is to be: first what is in its second block, for with the first the mark
 * goes. */
static void write_row(struct space_store *self, const struct change *change)
{
    if (change->tail_bytes > 0) {
        write_bytes(&self->store, change->row + ROW_BYTES, change->tail, change->tail_bytes);
        fence(self);
    }
    write_bytes(&self->store, change->row, change->head, change->head_bytes);
}

/* This thread has the row's lock, alone, and who marked it has died. */
static void settle(struct space_store *self, uint64_t row, uint64_t mark)
{
    uint32_t worker = (uint32_t)(mark >> 48) - 1;
    uint64_t log = worker < WORKERS_MAX ? atomic_load(&self->logs->log[worker]) : 0, put;
    const uint64_t none = 0;
    struct logged logged;
    size_t at;

    if (log == 0) {
        fail("a row", "has a mark of nobody");
    }
    read_bytes(&self->store, log, &put, sizeof put);
    if (mark == mark_of(worker, put)) {
        read_bytes(&self->store, log + LOG_AT, self->body, BODY_BYTES);
        at = find_logged(self->body, row, &logged);
        if (at == SIZE_MAX) {
            fail("a row", "has a mark of a log that does not know it");
        }
        write_row(self, &(struct change){.row = row,
                                         .head = self->body + at,
                                         .head_bytes = logged.head_bytes,
                                         .tail = self->body + at + words(logged.head_bytes),
                                         .tail_bytes = logged.tail_bytes});
    } else {
        write_bytes(&self->store, row, &none, sizeof none);
    }
    atomic_fetch_add(&self->logs->settled, 1);
}

/* ---- locks ---------------------------------------------------------------- */

static bool try_lock(struct space_store *self, uint64_t row, bool alone)
{
    nigh_status status = alone ? nigh_space_try_lock_write(self->space, row, 1, self->lock_us)
                               : nigh_space_try_lock_read(self->space, row, 1, self->lock_us);

    if (status == NIGH_BUSY || status == NIGH_TIMEOUT || status == NIGH_LIMIT) {
        return false;
    }
    check(self->client, status, "lock a row");
    return true;
}

static void unlock(struct store *store, uint64_t row)
{
    struct space_store *self = (struct space_store *)store;

    check(self->client, nigh_space_unlock(self->space, row, 1, TIMEOUT_US), "unlock a row");
}

static bool lock(struct store *store, uint64_t row, bool alone, void *head, uint32_t bytes)
{
    struct space_store *self = (struct space_store *)store;
    uint64_t mark;

    if (!try_lock(self, row, alone)) {
        return false;
    }
    read_bytes(store, row, head, bytes);
    memcpy(&mark, head, sizeof mark);
    if (mark == 0) {
        return true;
    }
    if (!alone) { /* others may have settled it before this one has it alone */
        unlock(store, row);
        return lock(store, row, true, head, bytes);
    }
    settle(self, row, mark);
    read_bytes(store, row, head, bytes);
    return true;
}

/* ---- changes -------------------------------------------------------------- */

/* What was written until here is there; the rest is not. */
static void die_at(struct space_store *self, enum death death)
{
    if (self->death == death) {
        finish(&self->store);
        raise(SIGKILL);
    }
}

static void write_log(struct space_store *self, const struct change *changes, uint64_t count)
{
    size_t at = sizeof count;

    memcpy(self->body, &count, sizeof count);
    for (uint64_t i = 0; i < count; i++) {
        const struct change *change = &changes[i];
        struct logged logged = {change->row, change->head_bytes, change->tail_bytes};

        if (at + sizeof logged + words(logged.head_bytes) + words(logged.tail_bytes) > BODY_BYTES) {
            fail("a change of rows", "is larger than a log");
        }
        memcpy(self->body + at, &logged, sizeof logged);
        at += sizeof logged;
        memcpy(self->body + at, change->head, change->head_bytes);
        at += words(change->head_bytes);
        if (change->tail_bytes > 0) {
            memcpy(self->body + at, change->tail, change->tail_bytes);
            at += words(change->tail_bytes);
        }
    }
    write_bytes(&self->store, self->log + LOG_AT, self->body, at);
}

static void commit(struct store *store, const struct change *changes, uint32_t count)
{
    struct space_store *self = (struct space_store *)store;
    uint64_t mark = mark_of(self->worker, ++self->number);

    die_at(self, DEATH_LOCKED);
    for (uint32_t i = 0; i < count; i++) {
        write_bytes(store, changes[i].row, &mark, sizeof mark);
    }
    die_at(self, DEATH_MARKED);
    write_log(self, changes, count);
    check(self->client, nigh_space_put(self->space, self->log, self->number, TIMEOUT_US), "commit");
    die_at(self, DEATH_COMMITTED);
    fence(self);
    for (uint32_t i = 0; i < count; i++) {
        if (i == count / 2) {
            die_at(self, DEATH_APPLIED);
        }
        write_row(self, &changes[i]);
    }
}

void space_store_dies(struct store *store, enum death death)
{
    ((struct space_store *)store)->death = death;
}

/* ---- the space ------------------------------------------------------------ */

/* The members have not agreed yet on who is there, or have not met. */
static bool may_pass(nigh_status status, double begin_s)
{
    if ((status != NIGH_NO_QUORUM && status != NIGH_BUSY && status != NIGH_TIMEOUT &&
         status != NIGH_PEER_LOST) ||
        now_s() - begin_s >= PATIENCE_S) {
        return false;
    }
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return true;
}

static nigh_client *open_client(const char *socket)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = socket, .name = "space_tpcc"};
    nigh_client *client;

    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fail(socket, nigh_open_error());
    }
    return client;
}

void space_store_create(const char *socket, uint64_t home_bytes, char *name)
{
    nigh_space_spec spec = {.struct_size = sizeof spec,
                            .name = name,
                            .home_size = (home_bytes + ROW_BYTES - 1) / ROW_BYTES * ROW_BYTES,
                            .block_size = ROW_BYTES};
    nigh_client *client = open_client(socket);
    double begin_s = now_s();
    nigh_space *space;
    nigh_status status;

    snprintf(name, SPACE_NAME_BYTES, "tpcc-%ld-%.6f", (long)getpid(), begin_s);
    while (may_pass(status = nigh_space_create(client, &spec, TIMEOUT_US, &space), begin_s)) {
    }
    if (status != NIGH_EXISTS) { /* an earlier try, of which this was not known */
        check(client, status, "create the space");
    }
    nigh_client_close(client); /* no child has a part of it */
}

void space_store_delete(const char *socket, const char *name)
{
    nigh_client *client = open_client(socket);

    check(client, nigh_space_delete(client, name, TIMEOUT_US), "delete the space");
    nigh_client_close(client);
}

static void close_store(struct store *store)
{
    struct space_store *self = (struct space_store *)store;

    finish(store);
    nigh_client_close(self->client); /* and what it has open */
    free(self);
}

struct store *space_store_open(const char *socket, const char *name, struct store_logs *logs,
                               uint32_t worker, uint64_t lock_us)
{
    struct space_store *self = memory_of(sizeof *self);
    double begin_s = now_s();
    nigh_status status;

    *self = (struct space_store){
        .store = {lock, unlock, read_bytes, write_bytes, allocate, commit, finish, close_store},
        .client = open_client(socket),
        .logs = logs,
        .lock_us = lock_us,
        .worker = worker};
    while (may_pass(
        status = nigh_space_open(self->client, name, NIGH_SPACE_ALL, TIMEOUT_US, &self->space),
        begin_s)) {
    }
    check(self->client, status, "open the space");
    if (worker < WORKERS_MAX) {
        self->log = allocate(&self->store, LOG_BYTES);
        atomic_store(&logs->log[worker], self->log);
    }
    return &self->store;
}
