/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See node/bulk_memories.h: the files that clients ask for, and the thread that makes and unmakes
 * them, LIMIT_BULK_STEP of one and then of the next, so that who asks for little does not wait for
 * who asks for much. What it is at is found by nobody else: it needs no lock for that.
 *
 * Populating and unmapping hold the locks of the process's address space for a step at most; lanes
 * map extents beside it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "memory/admission.h"
#include "memory/memfd.h"
#include "node/bulk_memories_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

/* ---- what was asked ------------------------------------------------------- */

/* Of a session, and of a uid that has a share, half of all. Locked, as all of this section. */
static struct bulk_ask *free_ask(struct bulk_memories *memories, uint64_t session, uint32_t uid)
{
    bool has_share = uid != 0 && uid != memories->config.own_uid;
    struct bulk_ask *ask = NULL;
    uint32_t count = 0, uid_count = 0;

    for (uint32_t n = 0; n < LIMIT_BULK_ASKS; n++) {
        struct bulk_ask *at = &memories->asks[n];

        if (ask == NULL && at->kind == ASK_FREE)
            ask = at;
        count += at->kind != ASK_FREE && at->asker.session == session;
        uid_count += at->kind != ASK_FREE && at->uid == uid;
    }
    if (has_share && uid_count >= LIMIT_BULK_ASKS / 2)
        return NULL;
    return count < LIMIT_SESSION_BULK_ASKS ? ask : NULL;
}

/* Its lane is to say so. */
static void end_ask(struct bulk_memories *memories, struct bulk_ask *ask, nigh_status status)
{
    uint32_t lane = ask->asker.lane;
    struct bulk_memory *memory = bulk_memories_find(memories, ask->number);

    if (ask->kind == ASK_WAIT && memory != NULL)
        memory->waiting--;
    ask->over = true;
    ask->status = status;
    atomic_fetch_add_explicit(&memories->over[lane], 1, memory_order_relaxed);
    memories->config.kick(memories->config.context, lane);
}

/* Who gave up, or whose time is over: the piece stays, unless nobody uses it already. */
static void give_up(struct bulk_memories *memories, struct bulk_ask *ask, nigh_status status)
{
    struct bulk_memory *memory = bulk_memories_find(memories, ask->number);

    if (ask->kind == ASK_END && (memory == NULL || memory->uses == 0))
        return; /* it is going, and ends soon */
    if (ask->kind == ASK_END)
        memory->going = false;
    end_ask(memories, ask, status);
}

/* Ends what has been waited for long enough. When there is more to look at for that. */
static uint64_t look_at_asks(struct bulk_memories *memories, uint64_t now_us)
{
    uint64_t due_us = UINT64_MAX;

    for (uint32_t n = 0; n < LIMIT_BULK_ASKS; n++) {
        struct bulk_ask *ask = &memories->asks[n];
        const struct bulk_memory *memory;

        if (ask->over || (ask->kind != ASK_WAIT && ask->kind != ASK_END))
            continue;
        memory = bulk_memories_find(memories, ask->number);
        if (ask->kind == ASK_WAIT && (memory == NULL || memory->uses == 0))
            end_ask(memories, ask, NIGH_OK);
        else if (now_us >= ask->deadline_us)
            give_up(memories, ask, NIGH_TIMEOUT);
        else
            due_us = min_u64(due_us, ask->deadline_us);
    }
    return due_us;
}

/* A file is there, could not be made, or has gone: who asked for that hears of it. */
static void end_asks_of(struct bulk_memories *memories, uint64_t number, enum bulk_ask_kind kind)
{
    for (uint32_t n = 0; n < LIMIT_BULK_ASKS; n++) {
        struct bulk_ask *ask = &memories->asks[n];

        if (ask->kind == kind && !ask->over && ask->number == number)
            end_ask(memories, ask, ask->status);
    }
}

static void fail_make(struct bulk_memories *memories, uint64_t number, nigh_status status)
{
    for (uint32_t n = 0; n < LIMIT_BULK_ASKS; n++) {
        if (memories->asks[n].kind == ASK_MAKE && memories->asks[n].number == number)
            memories->asks[n].status = status;
    }
}

/* ---- a step of a file: not locked ----------------------------------------- */

/* `owed`: what files that are begun have not taken yet. */
static nigh_status begin_file(struct bulk_memory *memory, uint64_t owed)
{
    uint64_t bytes = memory->memory.bytes;
    nigh_status status = admission_ask(bytes, owed);
    void *address;

    if (status == NIGH_OK)
        status = memfd_create_sealed("nigh-bulk", bytes, MEMFD_BARE | MEMFD_DATA, &memory->fd);
    if (status == NIGH_OK)
        status = memfd_map(memory->fd, bytes, MEMFD_WRITABLE, &address);
    if (status == NIGH_OK) {
        memory->memory.address = address;
        memory->mapped = bytes;
    }
    return status;
}

static nigh_status make_step(struct bulk_memory *memory, uint64_t owed)
{
    uint64_t bytes = min_u64(memory->memory.bytes - memory->done, LIMIT_BULK_STEP);
    nigh_status status;

    if (memory->fd < 0)
        return begin_file(memory, owed);
    status = memfd_populate_at(memory->fd, memory->done, bytes);
    if (status == NIGH_OK)
        status = memfd_prefault(memory->memory.address + memory->done, bytes, true);
    if (status == NIGH_OK)
        memory->done += bytes;
    return status;
}

/* Also what was not there yet: it is mapped all the same. True: nothing is left. */
static bool unmake_step(struct bulk_memory *memory)
{
    uint64_t bytes = min_u64(memory->mapped, LIMIT_BULK_STEP);

    if (bytes > 0) {
        memory->mapped -= bytes;
        memfd_unmap(memory->memory.address + memory->mapped, bytes);
        (void)memfd_punch_at(memory->fd, memory->mapped, bytes);
    }
    if (memory->mapped > 0)
        return false;
    fd_close(&memory->fd);
    return true;
}

void bulk_memories_drop_file(struct bulk_memory *memory)
{
    while (!unmake_step(memory)) {
    }
}

/* ---- the thread ----------------------------------------------------------- */

/* Whether there is something to do for a piece. Locked. */
static bool has_turn(struct bulk_memories *memories, struct bulk_memory *memory)
{
    if (memory->state == BULK_FREE || !memory->made)
        return false;
    if (memory->state != BULK_THERE)
        return true;
    if (!memory->going || memory->uses > 0)
        return false;
    if (memory->registered > 0 && !memory->told) {
        memory->told = true;
        bulk_memories_tell(memories);
    }
    return memory->registered == 0;
}

/* The next that has a turn; NULL. Locked. */
static struct bulk_memory *next_turn(struct bulk_memories *memories)
{
    for (uint32_t n = 0; n < memories->used; n++) {
        struct bulk_memory *memory = &memories->all[(memories->next + n) % memories->used];

        if (has_turn(memories, memory)) {
            memories->next = (uint32_t)(memory - memories->all) + 1;
            return memory;
        }
    }
    return NULL;
}

/* What files that are begun are still to take of the machine. Locked. */
static uint64_t owed_bytes(const struct bulk_memories *memories)
{
    uint64_t bytes = 0;

    for (uint32_t n = 0; n < memories->used; n++) {
        const struct bulk_memory *memory = &memories->all[n];

        if (memory->state == BULK_MAKING && memory->fd >= 0)
            bytes += memory->memory.bytes - memory->done;
    }
    return bytes;
}

/* At most once a while: who asks may ask on. Locked. */
static void tell_failed(struct bulk_memories *memories, const struct bulk_memory *memory,
                        nigh_status status)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);

    if (now_us < memories->told_us)
        return;
    memories->told_us = now_us + LIMIT_FULL_TOLD_US;
    LOG_WARN("memory for calls could not be made",
             "session=%llu bytes=%llu status=%s do=\"free memory on the machine, or in the node's "
             "control group, or lower --call-memory\"",
             (unsigned long long)memory->memory.session, (unsigned long long)memory->memory.bytes,
             nigh_status_name(status));
}

/* Locked, but for the steps. */
static void make_some(struct bulk_memories *memories, struct bulk_memory *memory)
{
    uint64_t owed = owed_bytes(memories);
    nigh_status status;

    (void)pthread_mutex_unlock(&memories->lock);
    status = make_step(memory, owed);
    (void)pthread_mutex_lock(&memories->lock);
    if (status != NIGH_OK) {
        memories->refused++;
        tell_failed(memories, memory, status);
        fail_make(memories, memory->number, status);
        memory->state = BULK_UNMAKING;
    } else if (memory->going) {
        memory->state = BULK_UNMAKING; /* its session has ended */
    } else if (memory->done == memory->memory.bytes) {
        memory->state = BULK_THERE;
        end_asks_of(memories, memory->number, ASK_MAKE);
    }
}

static void unmake_some(struct bulk_memories *memories, struct bulk_memory *memory)
{
    bool gone;

    memory->state = BULK_UNMAKING;
    (void)pthread_mutex_unlock(&memories->lock);
    gone = unmake_step(memory);
    (void)pthread_mutex_lock(&memories->lock);
    if (!gone)
        return;
    memories->made_bytes -= memory->memory.bytes;
    memory->state = BULK_FREE;
    end_asks_of(memories, memory->number, ASK_MAKE);
    end_asks_of(memories, memory->number, ASK_END);
}

static void *run(void *context)
{
    struct bulk_memories *memories = context;

    (void)pthread_mutex_lock(&memories->lock);
    while (!memories->stopping) {
        uint64_t due_us = look_at_asks(memories, clock_now_us(&clock_monotonic));
        struct bulk_memory *memory = next_turn(memories);

        if (memory == NULL)
            (void)bulk_memories_sleep(memories, due_us);
        else if (memory->state == BULK_MAKING)
            make_some(memories, memory);
        else
            unmake_some(memories, memory);
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return NULL;
}

/* Nodes of which nobody asks for a file have no such thread. Locked. */
static nigh_status start(struct bulk_memories *memories)
{
    sigset_t all, before;

    if (memories->stopping)
        return NIGH_CLOSED;
    if (memories->started)
        return NIGH_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    memories->started = pthread_create(&memories->thread, NULL, run, memories) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!memories->started)
        return NIGH_NO_RESOURCES;
    (void)pthread_setname_np(memories->thread, "nigh-bulk");
    return NIGH_OK;
}

void bulk_memories_stop(struct bulk_memories *memories)
{
    bool started;

    if (memories == NULL)
        return;
    (void)pthread_mutex_lock(&memories->lock);
    memories->stopping = true;
    started = memories->started;
    (void)pthread_cond_broadcast(&memories->changed);
    (void)pthread_mutex_unlock(&memories->lock);
    if (started)
        (void)pthread_join(memories->thread, NULL);
    memories->started = false;
}

/* ---- by lanes ------------------------------------------------------------- */

/* Locked. */
static nigh_status check_shares(const struct bulk_memories *memories, uint64_t session,
                                uint64_t bytes, const struct bulk_wish *wish)
{
    uint64_t most = memories->config.most_bytes, session_bytes = 0, uid_bytes = 0;
    uint32_t uid_count = 0;
    bool has_share = wish->uid != 0 && wish->uid != memories->config.own_uid;

    for (uint32_t n = 0; n < memories->used; n++) {
        const struct bulk_memory *memory = &memories->all[n];

        if (memory->state == BULK_FREE || !memory->made)
            continue;
        session_bytes += memory->memory.session == session ? memory->memory.bytes : 0;
        uid_bytes += memory->uid == wish->uid ? memory->memory.bytes : 0;
        uid_count += memory->uid == wish->uid;
    }
    if (has_share && uid_count >= LIMIT_BULKS / 2)
        return NIGH_LIMIT;
    if (has_share && bytes > most / 2 - min_u64(uid_bytes, most / 2))
        return NIGH_QUOTA;
    if (wish->session_bytes != 0 &&
        bytes > wish->session_bytes - min_u64(session_bytes, wish->session_bytes))
        return NIGH_QUOTA;
    return bytes > most - memories->made_bytes ? NIGH_OUT_OF_MEMORY : NIGH_OK;
}

/* Locked. */
static nigh_status begin_make(struct bulk_memories *memories, const struct bulk_asker *asker,
                              uint64_t bytes, const struct bulk_wish *wish)
{
    struct bulk_ask *ask = free_ask(memories, asker->session, wish->uid);
    struct bulk_memory *memory;
    nigh_status status = check_shares(memories, asker->session, bytes, wish);

    if (status == NIGH_OK && ask == NULL)
        status = NIGH_BUSY;
    if (status == NIGH_OK)
        status = start(memories);
    if (status == NIGH_OK)
        status = bulk_memories_place(memories, asker->session, &memory);
    if (status != NIGH_OK)
        return status;
    memory->memory =
        (struct session_memory){.bytes = bytes, .session = asker->session, .access = wish->access};
    memory->uid = wish->uid;
    memory->made = true;
    memory->state = BULK_MAKING;
    memories->made_bytes += bytes;
    *ask = (struct bulk_ask){
        .kind = ASK_MAKE, .number = memory->number, .uid = wish->uid, .asker = *asker};
    (void)pthread_cond_broadcast(&memories->changed);
    return NIGH_PENDING;
}

nigh_status bulk_memories_make(struct bulk_memories *memories, const struct bulk_asker *asker,
                               const struct bulk_wish *wish)
{
    uint64_t most = memories->config.most_bytes;
    nigh_status status = NIGH_OUT_OF_MEMORY;

    if (most == 0)
        return NIGH_UNSUPPORTED;
    if (wish->bytes == 0 || wish->access == 0 ||
        (wish->access & ~(SESSION_MEMORY_READ | SESSION_MEMORY_WRITE)) != 0)
        return NIGH_INVALID;
    (void)pthread_mutex_lock(&memories->lock);
    if (wish->bytes <= most)
        status = begin_make(memories, asker, align_up_u64(wish->bytes, SESSION_PAGE), wish);
    memories->refused += status != NIGH_PENDING;
    (void)pthread_mutex_unlock(&memories->lock);
    return status;
}

/* Locked. */
static nigh_status begin_wait(struct bulk_memories *memories, const struct bulk_asker *asker,
                              uint64_t number, uint64_t timeout_us, bool ends)
{
    struct bulk_memory *memory = bulk_memories_find(memories, number);
    struct bulk_ask *ask;

    if (memory == NULL || !memory->made || memory->going ||
        memory->memory.session != asker->session)
        return NIGH_NOT_FOUND;
    if (memory->uses == 0 && !ends)
        return NIGH_OK;
    if (memory->uses > 0 && timeout_us == 0)
        return NIGH_TIMEOUT;
    ask = free_ask(memories, asker->session, memory->uid);
    if (ask == NULL)
        return NIGH_BUSY;
    *ask = (struct bulk_ask){.kind = ends ? ASK_END : ASK_WAIT,
                             .number = number,
                             .uid = memory->uid,
                             .deadline_us =
                                 clock_deadline_us(clock_now_us(&clock_monotonic), timeout_us),
                             .asker = *asker};
    memory->going = ends;
    memory->waiting += !ends;
    (void)pthread_cond_broadcast(&memories->changed);
    return NIGH_PENDING;
}

nigh_status bulk_memories_await(struct bulk_memories *memories, const struct bulk_asker *asker,
                                uint64_t number, uint64_t timeout_us, bool ends)
{
    nigh_status status;

    (void)pthread_mutex_lock(&memories->lock);
    status = begin_wait(memories, asker, number, timeout_us, ends);
    (void)pthread_mutex_unlock(&memories->lock);
    return status;
}

bool bulk_memories_cancel(struct bulk_memories *memories, uint32_t lane, uint32_t slot,
                          uint32_t cookie)
{
    bool found = false;

    (void)pthread_mutex_lock(&memories->lock);
    for (uint32_t n = 0; n < LIMIT_BULK_ASKS && !found; n++) {
        struct bulk_ask *ask = &memories->asks[n];

        found = (ask->kind == ASK_WAIT || ask->kind == ASK_END) && !ask->over &&
                ask->asker.lane == lane && ask->asker.slot == slot && ask->asker.cookie == cookie;
        if (found)
            give_up(memories, ask, NIGH_CANCELED);
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return found;
}

bool bulk_memories_take_end(struct bulk_memories *memories, uint32_t lane, struct bulk_end *end)
{
    bool found = false;

    if (atomic_load_explicit(&memories->over[lane], memory_order_relaxed) == 0)
        return false;
    (void)pthread_mutex_lock(&memories->lock);
    for (uint32_t n = 0; n < LIMIT_BULK_ASKS && !found; n++) {
        struct bulk_ask *ask = &memories->asks[n];

        found = ask->over && ask->asker.lane == lane;
        if (!found)
            continue;
        *end = (struct bulk_end){.asker = ask->asker, .status = ask->status, .number = ask->number};
        *ask = (struct bulk_ask){.kind = ASK_FREE};
        atomic_fetch_sub_explicit(&memories->over[lane], 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return found;
}

void bulk_memories_end(struct bulk_memories *memories, uint64_t session)
{
    (void)pthread_mutex_lock(&memories->lock);
    for (uint32_t n = 0; n < LIMIT_BULK_ASKS; n++) {
        struct bulk_ask *ask = &memories->asks[n];

        /* Its lane finds the session gone, and says nothing. */
        if (ask->kind != ASK_FREE && !ask->over && ask->asker.session == session)
            end_ask(memories, ask, NIGH_CANCELED);
    }
    for (uint32_t n = 0; n < memories->used; n++) {
        struct bulk_memory *memory = &memories->all[n];

        if (memory->state != BULK_FREE && memory->made && memory->memory.session == session)
            memory->going = true;
    }
    (void)pthread_cond_broadcast(&memories->changed);
    (void)pthread_mutex_unlock(&memories->lock);
}

nigh_status bulk_memories_open(struct bulk_memories *memories, uint64_t number, uint64_t session,
                               int *fd)
{
    struct bulk_memory *memory;
    nigh_status status = NIGH_NOT_FOUND;

    (void)pthread_mutex_lock(&memories->lock);
    memory = bulk_memories_find(memories, number);
    if (memory != NULL && memory->made && !memory->going && memory->memory.session == session) {
        *fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
        status = *fd < 0 ? NIGH_NO_RESOURCES : NIGH_OK;
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return status;
}

uint64_t bulk_memories_bytes(struct bulk_memories *memories)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&memories->lock);
    bytes = memories->made_bytes;
    (void)pthread_mutex_unlock(&memories->lock);
    return bytes;
}

uint64_t bulk_memories_refused(struct bulk_memories *memories)
{
    uint64_t refused;

    (void)pthread_mutex_lock(&memories->lock);
    refused = memories->refused;
    (void)pthread_mutex_unlock(&memories->lock);
    return refused;
}
