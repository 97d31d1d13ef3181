/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that send anything; see object_store_hostile.h. */
#include "object_store_hostile.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "object_store_fixture.h"

#define SESSIONS 4u /* 0 and 1 of pool 0, 2 of pool 1, which is strict, 3 of pool 0 only reads */
#define PINS     32u
#define KEYS     24u
#define CHECKED  256u /* bytes under a pin that are compared */

/* An object that a session holds without IPC. */
struct held {
    bool held;
    uint32_t entry;
    uint64_t word;
    uint32_t crc;
};

struct hostile {
    struct fixture *fixtures[2]; /* one that does not spill, one that does */
    struct fixture *fixture;     /* of this life */
    const uint8_t *bytes;
    size_t left;
    struct held held[SESSIONS][PINS];
    bool open[SESSIONS];
    uint64_t lease[SESSIONS]; /* offset of the youngest */
    uint32_t ref[SESSIONS];   /* of the youngest created object */
    uint8_t *owner;           /* of each cookie: session and one; 0: nobody waits for it any more */
    uint32_t first_cookie;
    uint64_t stamp;
};

/* ---- bytes ---- */

static uint8_t take(struct hostile *hostile)
{
    if (hostile->left == 0) {
        return 0;
    }
    hostile->left--;
    return *hostile->bytes++;
}

static uint64_t take_u64(struct hostile *hostile)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < 8; i++) {
        value = value << 8 | take(hostile);
    }
    return value;
}

/* A number that is likely to matter: small, sizes around the bounds, or anything. */
static uint64_t take_number(struct hostile *hostile)
{
    uint8_t kind = take(hostile);
    uint64_t value = take(hostile);

    switch (kind % 8) {
    case 0: return 0;
    case 1: return value;
    case 2: return value * 64;
    case 3: return value * 4096;
    case 4: return value * 65536;
    case 5: return (UINT64_C(1) << (value % 64)) - (value >> 6);
    case 6: return UINT64_MAX - value;
    default: return take_u64(hostile);
    }
}

/* ---- pins ---- */

static uint32_t sum_of(const struct fixture *fixture, const struct index_entry *entry)
{
    return crc32c(0, extent_bytes_at(fixture->set, entry->offset),
                  min_u64(entry->data_size, CHECKED));
}

static struct index_entry *entry_of(struct hostile *hostile, uint32_t session, uint32_t entry)
{
    struct fixture *fixture = hostile->fixture;

    return &fixture->pools[fixture->clients[session].pool].index.entries[entry];
}

static void release(struct hostile *hostile, uint32_t session, uint32_t slot)
{
    struct held *held = &hostile->held[session][slot];
    struct index_entry *entry;

    if (!held->held) {
        return;
    }
    entry = entry_of(hostile, session, held->entry);
    NIGH_ASSERT(index_word_generation(entry->word) == index_word_generation(held->word));
    NIGH_ASSERT(index_word_state(entry->word) == INDEX_SEALED ||
                index_word_state(entry->word) == INDEX_DELETING);
    NIGH_ASSERT(sum_of(hostile->fixture, entry) == held->crc);
    fixture_release(hostile->fixture, session, slot);
    held->held = false;
}

static bool acquire(struct hostile *hostile, uint32_t session, uint64_t key, uint32_t slot)
{
    struct held *held = &hostile->held[session][slot];
    struct index_entry *entry;

    release(hostile, session, slot);
    if (fixture_acquire(hostile->fixture, session, key, slot, &held->entry) != INDEX_HIT) {
        return false;
    }
    entry = entry_of(hostile, session, held->entry);
    held->held = true;
    held->word = entry->word;
    held->crc = sum_of(hostile->fixture, entry);
    return true;
}

/* ---- sessions ---- */

static void open_one(struct hostile *hostile, uint32_t session)
{
    uint32_t pool = session == 2 ? 1 : 0;

    fixture_open(hostile->fixture, session, pool, 1000 + pool, session != 3);
    hostile->open[session] = true;
}

/* Nobody waits for what a session that ended, or that came back, had submitted. */
static void disown(struct hostile *hostile, uint32_t session)
{
    for (uint32_t i = hostile->first_cookie; i <= hostile->fixture->next_cookie; i++) {
        if (hostile->owner[i] == session + 1) {
            hostile->owner[i] = 0;
        }
    }
}

static void close_one(struct hostile *hostile, uint32_t session)
{
    for (uint32_t slot = 0; slot < PINS; slot++) {
        release(hostile, session, slot);
    }
    disown(hostile, session);
    fixture_close(hostile->fixture, session);
    hostile->open[session] = false;
    hostile->lease[session] = 0;
    hostile->ref[session] = 0;
}

static void restart(struct hostile *hostile, uint8_t who)
{
    fixture_kill(hostile->fixture);
    fixture_restart(hostile->fixture);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        disown(hostile, s);
        if ((who >> s & 1) != 0) {
            fixture_reopen_as(hostile->fixture, s, s != 3);
            continue;
        }
        for (uint32_t slot = 0; slot < PINS; slot++) {
            release(hostile, s, slot);
        }
        fixture_forget(hostile->fixture, s);
        hostile->open[s] = false;
    }
    fixture_tick(hostile->fixture);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        if (!hostile->open[s]) {
            open_one(hostile, s);
        }
    }
}

/* ---- steps ---- */

/* Memory that was just granted is its own: a writer fills it, and must not change anyone's pins. */
static void scribble(struct hostile *hostile, uint64_t offset, uint64_t bytes)
{
    fixture_fill(hostile->fixture, ++hostile->stamp, offset, min_u64(bytes, 4096));
}

/* Flags that an operation allows. */
static uint8_t flags_of(uint8_t op)
{
    switch (op) {
    case SESSION_OP_LEASE: return SESSION_FLAG_NO_EVICT;
    case SESSION_OP_CREATE: return SESSION_FLAG_EXCLUSIVE | SESSION_FLAG_NO_EVICT;
    case SESSION_OP_SEAL: return SESSION_FLAG_LEASED | SESSION_FLAG_NO_EVICT | SESSION_FLAG_RENEW;
    default: return 0;
    }
}

static void send(struct hostile *hostile, uint32_t session, const struct session_sqe *sqe,
                 struct hostile_counts *counts)
{
    struct fixture *fixture = hostile->fixture;
    struct session_cqe cqe;
    uint32_t cookie;

    hostile->owner[fixture->next_cookie + 1] = (uint8_t)(session + 1);
    cookie = fixture_submit(fixture, session, *sqe);
    counts->submissions++;
    if (!fixture_ended(fixture, cookie)) {
        return;
    }
    cqe = fixture_completion(fixture, cookie);
    counts->ended_well += cqe.status == NIGH_OK;
    if (cqe.lease_bytes != 0) {
        hostile->lease[session] = cqe.lease_offset;
        scribble(hostile, cqe.lease_offset, cqe.lease_bytes);
    }
    if (sqe->op == SESSION_OP_CREATE && cqe.status == NIGH_OK) {
        hostile->ref[session] = cqe.ref;
        scribble(hostile, cqe.offset, cqe.data_size);
    }
}

/* Anything at all, more or less likely to be taken. */
static void submit(struct hostile *hostile, uint32_t session, struct hostile_counts *counts)
{
    uint8_t op = take(hostile), shape = take(hostile);
    struct session_sqe sqe = fixture_sqe(op < 250 ? op % SESSION_OPS : op, take(hostile) % KEYS);

    sqe.flags = take(hostile);
    if ((shape & 0xc0) != 0) {
        sqe.flags &= flags_of(sqe.op);
    }
    sqe.data_size = take_number(hostile);
    sqe.argument = take_number(hostile);
    sqe.offset = (shape & 1) != 0 ? hostile->lease[session] + take(hostile) * UINT64_C(64)
                                  : take_number(hostile);
    sqe.ref = (shape & 2) != 0 ? hostile->ref[session] : take_number(hostile);
    if ((shape & 0x30) == 0) {
        sqe.meta_size = (uint32_t)take_number(hostile);
        sqe.name_size = take(hostile);
    }
    if (sqe.op == SESSION_OP_CANCEL && (shape & 8) != 0) {
        sqe.argument = hostile->fixture->next_cookie - take(hostile) % 16;
    }
    send(hostile, session, &sqe, counts);
}

/* What a well-behaved client sends. */
static void behave(struct hostile *hostile, uint32_t session, struct hostile_counts *counts)
{
    uint8_t what = take(hostile);
    struct session_sqe sqe = fixture_sqe(SESSION_OP_NOP, take(hostile) % KEYS);

    switch (what % 8) {
    case 0: sqe.op = SESSION_OP_LEASE; break;
    case 1:
    case 2:
        sqe.op = SESSION_OP_SEAL;
        sqe.flags = SESSION_FLAG_LEASED | (what & SESSION_FLAG_RENEW);
        sqe.offset = hostile->lease[session] + take(hostile) * UINT64_C(1024);
        sqe.data_size = take(hostile) * UINT64_C(16);
        break;
    case 3:
    case 4:
        sqe.op = SESSION_OP_CREATE;
        sqe.data_size = take(hostile) * UINT64_C(8192);
        sqe.argument = (what & 0x10) != 0 ? 20000 : 0;
        break;
    case 5:
        sqe.op = SESSION_OP_SEAL;
        sqe.ref = hostile->ref[session];
        sqe.argument = 20000;
        break;
    case 6:
        sqe.op = SESSION_OP_GET;
        sqe.argument = (what & 0x10) != 0 ? 20000 : 0;
        break;
    default: sqe.op = (what & 0x30) == 0 ? SESSION_OP_DELETE : SESSION_OP_CONTAINS;
    }
    send(hostile, session, &sqe, counts);
}

/* Anything into the memory that a session shares, but for the pins that the test relies on. */
static void litter(struct hostile *hostile, uint32_t session)
{
    struct fixture_client *client = &hostile->fixture->clients[session];
    uint32_t place = take(hostile);
    uint64_t value = take_number(hostile);

    switch (take(hostile) % 6) {
    case 0: atomic_store(&client->lane->pin_entry[place], value); break;
    case 1: atomic_store(&client->lane->pin_entry[place * 32], value); break;
    case 2: atomic_store(&client->chunks[1].entry[place % LIMIT_PINS_A_CHUNK], value); break;
    case 3:
        atomic_store(&client->chunks[0].hint[place % LIMIT_HINTS_A_CHUNK], (uint32_t)value);
        break;
    case 4: atomic_store(&client->chunks[0].hint_count, (uint32_t)value); break;
    default:
        atomic_store(&client->front->chunks_used, max_u32((uint32_t)value, 1));
        atomic_store(&client->lane->event_head.value, (uint32_t)value);
    }
}

/* What a store did in its life, before it ends. */
static void count(const struct hostile *hostile, struct hostile_counts *counts)
{
    nigh_node_stats stats = fixture_stats(hostile->fixture);

    counts->seals += stats.seals;
    counts->evictions += stats.evictions;
    counts->spills += stats.spills;
}

static void step(struct hostile *hostile, struct hostile_counts *counts)
{
    struct fixture *fixture = hostile->fixture;
    uint8_t what = take(hostile);
    uint32_t session = (what >> 5) % SESSIONS;

    switch (what % 32) {
    case 0:
        fixture->now_us += take(hostile) * UINT64_C(500);
        fixture_tick(fixture);
        break;
    case 1:
    case 2: fixture_tick(fixture); break;
    case 3: fixture_disk(fixture); break;
    case 4:
    case 5:
        counts->pins += acquire(hostile, session, take(hostile) % KEYS, take(hostile) % PINS);
        break;
    case 6: release(hostile, session, take(hostile) % PINS); break;
    case 7: litter(hostile, session); break;
    case 8: fixture_unpin(fixture, session, take(hostile)); break;
    case 9:
        if (take(hostile) < 64) {
            close_one(hostile, session);
            open_one(hostile, session);
        }
        break;
    case 10:
        if (take(hostile) < 16) {
            count(hostile, counts);
            restart(hostile, take(hostile));
            counts->restarts++;
        }
        break;
    case 11:
        fixture->fail_writes = take(hostile) < 32 ? NIGH_DISK : NIGH_OK;
        fixture->fail_reads = take(hostile) < 32 ? NIGH_CORRUPT : NIGH_OK;
        fixture->disk_full_queue = take(hostile) < 32;
        break;
    case 12:
        store_session_reset(fixture->store, session);
        disown(hostile, session);
        break;
    case 13:
    case 14:
    case 15:
    case 16:
    case 17:
    case 18: submit(hostile, session, counts); break;
    default: behave(hostile, session, counts);
    }
}

/* ---- runs ---- */

static struct fixture *make_fixture(bool spills)
{
    struct fixture_options options = {.entries = 512, .spills = spills};
    struct fixture *fixture = fixture_create(&options);

    fixture_pool(fixture, 0, false, 0);
    fixture_pool(fixture, 1, true, 6 << 20);
    return fixture;
}

struct hostile *hostile_create(void)
{
    struct hostile *hostile = calloc(1, sizeof(*hostile));

    NIGH_ASSERT(hostile != NULL);
    hostile->owner = calloc(FIXTURE_COOKIES, sizeof(*hostile->owner));
    NIGH_ASSERT(hostile->owner != NULL);
    hostile->fixtures[0] = make_fixture(false);
    hostile->fixtures[1] = make_fixture(true);
    return hostile;
}

void hostile_destroy(struct hostile *hostile)
{
    fixture_destroy(hostile->fixtures[0]);
    fixture_destroy(hostile->fixtures[1]);
    free(hostile->owner);
    free(hostile);
}

/* Extent numbers and cookies are never used again: after many lives it takes new memory. */
static void begin_life(struct hostile *hostile, bool spills)
{
    struct fixture **fixture = &hostile->fixtures[spills];

    if ((*fixture)->set->lane[0].used > LIMIT_EXTENTS / 2 ||
        (*fixture)->next_cookie > FIXTURE_COOKIES / 2) {
        fixture_destroy(*fixture);
        *fixture = make_fixture(spills);
    } else {
        fixture_recycle(*fixture);
    }
    hostile->fixture = *fixture;
    hostile->first_cookie = (*fixture)->next_cookie + 1;
    memset(hostile->lease, 0, sizeof(hostile->lease));
    memset(hostile->ref, 0, sizeof(hostile->ref));
    for (uint32_t s = 0; s < SESSIONS; s++) {
        open_one(hostile, s);
    }
}

/* Every submission has ended, or waits, or nobody is there for it. */
static void check_ends(const struct hostile *hostile)
{
    uint64_t open = 0;

    for (uint32_t i = hostile->first_cookie; i <= hostile->fixture->next_cookie; i++) {
        open += hostile->owner[i] != 0 && !fixture_ended(hostile->fixture, i);
    }
    NIGH_ASSERT(open == fixture_stats(hostile->fixture).waiting);
}

/* All sessions end: only what was sealed is left, and nothing waits. */
static void check_after(struct hostile *hostile)
{
    struct fixture *fixture = hostile->fixture;
    nigh_node_stats stats;

    fixture->disk_full_queue = false;
    fixture_disk(fixture);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        close_one(hostile, s);
    }
    for (uint32_t i = 0; i < 8; i++) {
        fixture->now_us += 2 * LIMIT_GRAVE_US;
        fixture_tick(fixture);
        fixture_disk(fixture);
    }
    stats = fixture_stats(fixture);
    NIGH_ASSERT(stats.waiting == 0 && stats.leased_bytes == 0 && stats.unsealed_bytes == 0 &&
                stats.objects_unsealed == 0 && stats.objects_deleting == 0);
    NIGH_ASSERT(stats.objects > 0 || stats.used_bytes == 0);
    NIGH_ASSERT(store_is_valid(fixture->store));
}

void hostile_run(struct hostile *hostile, const uint8_t *bytes, size_t size_bytes,
                 struct hostile_counts *counts)
{
    hostile->bytes = bytes;
    hostile->left = size_bytes;
    begin_life(hostile, (take(hostile) & 1) != 0);
    for (uint32_t steps = 0; hostile->left > 0 && steps < 20000; steps++) {
        step(hostile, counts);
    }
    NIGH_ASSERT(store_is_valid(hostile->fixture->store));
    check_ends(hostile);
    count(hostile, counts);
    check_after(hostile);
}
