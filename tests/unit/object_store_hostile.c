/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that send anything, alone or beside other nodes; see object_store_hostile.h. */
#include "object_store_hostile.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "object_store_fixture.h"

#define SESSIONS 4u /* 0 and 1 of pool 0, 2 of pool 1, which is strict, 3 of pool 0 only reads */
#define PINS     32u
#define KEYS     24u
#define CHECKED  256u /* bytes under a pin that are compared */
#define CLAIMS   512u /* that homes know of at once */
#define ERASES   512u
#define PULLS    2u
#define LOANS    4u

/* Kinds of lives: bits of what is around the store. With both, little may go to disk. */
#define SPILLS 1u
#define OTHERS 2u
#define KINDS  4u

#define SPILL_BYTES (UINT64_C(20) << 20)

/* An object that a session holds without IPC. */
struct held {
    bool held;
    uint32_t entry;
    uint64_t word;
    uint32_t crc;
};

/* The other nodes, played by the bytes: what they were told of claims and deletes. */
struct others {
    bool there;
    bool stands;         /* claims that were granted are sure */
    nigh_status at_once; /* what a claim is told when it is asked for */
    struct store_sight claims[CLAIMS];
    uint32_t claim_count;
    struct store_sight erases[ERASES]; /* to be answered: pool, id and hash */
    uint32_t erase_count;
    struct store_sight sealed;              /* the last */
    struct store_pull pulls[PULLS];         /* data_size 0: none */
    uint32_t pulled[PULLS];                 /* the entry of each */
    uint32_t lent_pool[LOANS], lent[LOANS]; /* entries, and one; 0: none */
    uint64_t births;                        /* of other nodes */
};

struct hostile {
    /* By what is around the store. */
    struct fixture *fixtures[KINDS];
    struct fixture *fixture; /* of this life */
    const uint8_t *bytes;
    size_t left;
    struct held held[SESSIONS][PINS];
    bool open[SESSIONS];
    uint64_t lease[SESSIONS];   /* offset of the youngest */
    uint32_t ref[SESSIONS];     /* of the youngest created object */
    uint32_t created[SESSIONS]; /* the last create that waits; 0: none */
    struct others others;
    uint8_t *owner; /* of each cookie: session and one; 0: nobody waits for it any more */
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

/* ---- the other nodes ---- */

static struct store_sight *claim_of(struct others *others, const struct birth *birth)
{
    for (uint32_t i = 0; i < others->claim_count; i++) {
        if (memcmp(&others->claims[i].birth, birth, sizeof(*birth)) == 0) {
            return &others->claims[i];
        }
    }
    return NULL;
}

static void end_claim(struct others *others, const struct birth *birth)
{
    struct store_sight *claim = claim_of(others, birth);

    if (claim != NULL) {
        *claim = others->claims[--others->claim_count];
    }
}

static nigh_status on_claim(void *context, const struct store_sight *sight, bool tell)
{
    struct others *others = context;

    NIGH_ASSERT(sight->is_claim && !sight->is_copy);
    if (sight->is_granted && others->stands) {
        return NIGH_OK;
    }
    if (tell && claim_of(others, &sight->birth) == NULL) {
        NIGH_ASSERT(others->claim_count < CLAIMS);
        others->claims[others->claim_count++] = *sight;
    }
    return others->at_once;
}

static void on_sealed(void *context, const struct store_sight *sight)
{
    struct others *others = context;

    end_claim(others, &sight->birth);
    others->sealed = *sight;
}

static void on_gone(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                    const struct birth *birth)
{
    (void)pool;
    (void)id;
    (void)hash;
    end_claim(context, birth);
}

static void on_want(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                    uint64_t deadline_us, bool keep)
{
    (void)context;
    (void)pool;
    (void)id;
    (void)hash;
    (void)deadline_us;
    (void)keep;
}

static void on_unwant(void *context, uint32_t pool, const uint8_t *id, uint64_t hash)
{
    (void)context;
    (void)pool;
    (void)id;
    (void)hash;
}

static bool on_erase(void *context, uint32_t pool, const uint8_t *id, uint64_t hash,
                     nigh_status local)
{
    struct others *others = context;
    struct store_sight *erase = &others->erases[others->erase_count];

    (void)local;
    NIGH_ASSERT(others->erase_count < ERASES);
    erase->pool = pool;
    erase->hash = hash;
    memcpy(erase->id, id, LIMIT_ID_BYTES);
    others->erase_count++;
    return true;
}

static uint32_t on_erase_room(void *context)
{
    return ERASES - ((struct others *)context)->erase_count;
}

/* What a home is told again when its link comes up. */
static void walk(struct hostile *hostile)
{
    struct others *others = &hostile->others;
    struct store_sight sight;

    others->claim_count = 0;
    for (uint32_t pool = 0; others->there && pool < 2; pool++) {
        for (uint32_t cursor = 0; store_next(hostile->fixture->store, pool, &cursor, &sight);) {
            if (sight.entry != UINT32_MAX && sight.is_claim) {
                others->claims[others->claim_count++] = sight;
            }
        }
    }
}

static void join(struct hostile *hostile)
{
    if (hostile->others.there) {
        store_set_remote(hostile->fixture->store,
                         &(struct store_remote){.context = &hostile->others,
                                                .want = on_want,
                                                .unwant = on_unwant,
                                                .sealed = on_sealed,
                                                .gone = on_gone,
                                                .claim = on_claim,
                                                .erase = on_erase,
                                                .erase_room = on_erase_room});
    }
}

static void answer_claim(struct hostile *hostile, uint8_t which, uint8_t what,
                         struct hostile_counts *counts)
{
    static const nigh_status says[] = {NIGH_OK, NIGH_OK,   NIGH_OK,     NIGH_OK,
                                       NIGH_OK, NIGH_BUSY, NIGH_EXISTS, NIGH_LIMIT};
    struct others *others = &hostile->others;
    struct store_sight claim;
    nigh_status status = says[what % 8];

    if (others->claim_count == 0) {
        return;
    }
    claim = others->claims[which % others->claim_count];
    counts->claims += status == NIGH_OK;
    if (status != NIGH_OK) {
        end_claim(others, &claim.birth);
    }
    store_claimed(hostile->fixture->store, claim.pool, claim.id, claim.hash, &claim.birth, status,
                  hostile->fixture->now_us);
}

static void answer_erase(struct hostile *hostile, uint8_t which, uint8_t what)
{
    static const nigh_status says[] = {NIGH_OK, NIGH_IN_USE, NIGH_NOT_FOUND, NIGH_TIMEOUT};
    struct others *others = &hostile->others;
    struct store_sight erase, *at;

    if (others->erase_count == 0) {
        return;
    }
    at = &others->erases[which % others->erase_count];
    erase = *at;
    *at = others->erases[--others->erase_count];
    store_erased(hostile->fixture->store, erase.pool, erase.id, erase.hash, says[what % 4],
                 hostile->fixture->now_us);
}

static void lend(struct hostile *hostile, uint8_t place)
{
    struct others *others = &hostile->others;
    struct fixture *fixture = hostile->fixture;
    struct store_sight sight;
    uint32_t at = place % LOANS, pool = place >> 7;
    uint8_t id[LIMIT_ID_BYTES];

    if (others->lent[at] != 0) {
        store_lend_end(fixture->store, others->lent_pool[at], others->lent[at] - 1);
        others->lent[at] = 0;
        return;
    }
    fixture_id((place >> 3) % KEYS, id);
    if (store_lend(fixture->store, pool, id, hash_id20(id), NULL, fixture->now_us, &sight) ==
        NIGH_OK) {
        others->lent_pool[at] = pool;
        others->lent[at] = sight.entry + 1;
    }
}

static void pull(struct hostile *hostile, uint8_t place, uint8_t what,
                 struct hostile_counts *counts)
{
    struct others *others = &hostile->others;
    struct fixture *fixture = hostile->fixture;
    uint32_t at = place % PULLS;
    struct store_pull *pull = &others->pulls[at];
    uint64_t offset;

    if (pull->data_size == 0) {
        *pull = (struct store_pull){
            .pool = place >> 7,
            .birth = {.rank = FIXTURE_RANK + 1, .incarnation = 1, .counter = ++others->births},
            .data_size = what * UINT64_C(8192) + 1};
        fixture_id((place >> 3) % KEYS, pull->id);
        pull->hash = hash_id20(pull->id);
        if (store_pull_reuse(fixture->store, pull, fixture->now_us) != NIGH_NOT_FOUND ||
            store_pull_begin(fixture->store, pull, fixture->now_us, &others->pulled[at], &offset) !=
                NIGH_OK) {
            pull->data_size = 0;
            return;
        }
        fixture_fill(fixture, others->births, offset, min_u64(pull->data_size, 4096));
        return;
    }
    if (what < 32) {
        store_pull_abort(fixture->store, pull->pool, others->pulled[at], fixture->now_us);
    } else {
        counts->copies += store_pull_seal(fixture->store, pull->pool, others->pulled[at], 0,
                                          what < 128, fixture->now_us) == NIGH_OK;
        if (what >= 192) {
            (void)store_drop(fixture->store, pull->pool, pull->id, pull->hash, &pull->birth, false,
                             fixture->now_us);
        }
    }
    pull->data_size = 0;
}

/* Loans and copies end with the node, or are ended. */
static void leave_others(struct hostile *hostile, bool tell)
{
    struct others *others = &hostile->others;
    struct fixture *fixture = hostile->fixture;

    for (uint32_t i = 0; i < PULLS; i++) {
        if (tell && others->pulls[i].data_size != 0) {
            store_pull_abort(fixture->store, others->pulls[i].pool, others->pulled[i],
                             fixture->now_us);
        }
        others->pulls[i].data_size = 0;
    }
    for (uint32_t i = 0; i < LOANS; i++) {
        if (tell && others->lent[i] != 0) {
            store_lend_end(fixture->store, others->lent_pool[i], others->lent[i] - 1);
        }
        others->lent[i] = 0;
    }
    others->erase_count = 0;
}

/* One thing that other nodes do. */
static void be_others(struct hostile *hostile, struct hostile_counts *counts)
{
    struct others *others = &hostile->others;
    struct fixture *fixture = hostile->fixture;
    uint8_t what = take(hostile), which = take(hostile);

    if (!others->there) {
        return;
    }
    switch (what % 16) {
    case 0: others->stands = which < 128; break;
    case 1: others->at_once = which < 128 ? NIGH_PENDING : NIGH_PEER_LOST; break;
    case 2:
        if (which < 64) {
            walk(hostile);
        }
        break;
    case 3:
    case 4:
        (void)store_drop(fixture->store, others->sealed.pool, others->sealed.id,
                         others->sealed.hash, &others->sealed.birth, which < 128, fixture->now_us);
        break;
    case 5:
    case 6: lend(hostile, which); break;
    case 7:
    case 8:
    case 9: pull(hostile, which, take(hostile), counts); break;
    case 10:
    case 11: answer_erase(hostile, which, take(hostile)); break;
    default: answer_claim(hostile, which, take(hostile), counts);
    }
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
    leave_others(hostile, false);
    fixture_kill(hostile->fixture);
    fixture_restart(hostile->fixture);
    join(hostile);
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
    memset(hostile->created, 0, sizeof(hostile->created));
    walk(hostile);
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
        hostile->created[session] =
            sqe->op == SESSION_OP_CREATE ? cookie : hostile->created[session];
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

/* A create that waited, and has ended by now. */
static void take_created(struct hostile *hostile, uint32_t session)
{
    uint32_t cookie = hostile->created[session];
    struct session_cqe cqe;

    if (cookie == 0 || !fixture_ended(hostile->fixture, cookie)) {
        return;
    }
    hostile->created[session] = 0;
    cqe = fixture_completion(hostile->fixture, cookie);
    if (cqe.status == NIGH_OK) {
        hostile->ref[session] = cqe.ref;
    }
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
        sqe.flags = (what & 0x20) != 0 ? SESSION_FLAG_EXCLUSIVE : 0;
        sqe.argument = (what & 0x10) != 0 ? 20000 : 0;
        break;
    case 5:
        take_created(hostile, session);
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
    case 19:
    case 20:
    case 21: be_others(hostile, counts); break;
    default: behave(hostile, session, counts);
    }
}

/* ---- runs ---- */

static struct fixture *make_fixture(uint32_t kind)
{
    struct fixture_options options = {.entries = 512,
                                      .spills = (kind & SPILLS) != 0,
                                      .spill_bytes = kind == (SPILLS | OTHERS) ? SPILL_BYTES : 0};
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
    for (uint32_t i = 0; i < KINDS; i++) {
        hostile->fixtures[i] = make_fixture(i);
    }
    return hostile;
}

void hostile_destroy(struct hostile *hostile)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        fixture_destroy(hostile->fixtures[i]);
    }
    free(hostile->owner);
    free(hostile);
}

/* Extent numbers and cookies are never used again: after many lives it takes new memory. */
static void begin_life(struct hostile *hostile, uint32_t kind)
{
    struct fixture **fixture = &hostile->fixtures[kind];

    if ((*fixture)->set->lane[0].used > LIMIT_EXTENTS / 2 ||
        (*fixture)->next_cookie > FIXTURE_COOKIES / 2) {
        fixture_destroy(*fixture);
        *fixture = make_fixture(kind);
    } else {
        fixture_recycle(*fixture);
    }
    hostile->fixture = *fixture;
    hostile->first_cookie = (*fixture)->next_cookie + 1;
    memset(hostile->lease, 0, sizeof(hostile->lease));
    memset(hostile->ref, 0, sizeof(hostile->ref));
    memset(hostile->created, 0, sizeof(hostile->created));
    hostile->others =
        (struct others){.there = (kind & OTHERS) != 0, .stands = true, .at_once = NIGH_PENDING};
    join(hostile);
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

static struct session_cqe wait_for(struct fixture *fixture, uint32_t cookie)
{
    for (uint32_t ms = 0; ms < 4000 && !fixture_ended(fixture, cookie); ms++) {
        fixture->now_us += 1000;
        fixture_tick(fixture);
        fixture_disk(fixture);
    }
    return fixture_completion(fixture, cookie);
}

static void unkeep_all(struct hostile *hostile, uint32_t session)
{
    open_one(hostile, session);
    for (uint32_t key = 0; key < KEYS; key++) {
        (void)fixture_status(hostile->fixture, session, SESSION_OP_UNKEEP, key);
    }
    close_one(hostile, session);
}

/* What is on disk can be read while nobody holds anything, and no pool keeps anything in memory:
 * the largest object wants nearly all of it. */
static void check_readable(struct hostile *hostile, uint32_t session, struct hostile_counts *counts)
{
    struct fixture *fixture = hostile->fixture;

    fixture->fail_reads = fixture->fail_writes = NIGH_OK;
    open_one(hostile, session);
    for (uint32_t key = 0; key < KEYS; key++) {
        struct session_sqe sqe = fixture_sqe(SESSION_OP_GET, key);
        struct session_cqe cqe = fixture_do(fixture, session, fixture_sqe(SESSION_OP_STAT, key));

        if (cqe.status != NIGH_OK || cqe.flags != NIGH_OBJECT_SPILLED) {
            continue;
        }
        sqe.argument = 3000000;
        hostile->owner[fixture->next_cookie + 1] = (uint8_t)(session + 1);
        cqe = wait_for(fixture, fixture_submit(fixture, session, sqe));
        NIGH_ASSERT(cqe.status == NIGH_OK);
        counts->read_back++;
        fixture_unpin(fixture, session, cqe.pin);
    }
    close_one(hostile, session);
}

/* All sessions end: only what was sealed is left, and nothing waits. */
static void check_after(struct hostile *hostile, struct hostile_counts *counts)
{
    struct fixture *fixture = hostile->fixture;
    nigh_node_stats stats;

    fixture->disk_full_queue = false;
    leave_others(hostile, true);
    fixture_disk(fixture);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        close_one(hostile, s);
    }
    for (uint32_t i = 0; i < 8; i++) {
        fixture->now_us += 2 * LIMIT_GRAVE_US;
        fixture_tick(fixture);
        fixture_disk(fixture);
    }
    fixture->now_us += 2 * LIMIT_DISK_REST_US;
    unkeep_all(hostile, 0);
    unkeep_all(hostile, 2);
    check_readable(hostile, 0, counts);
    check_readable(hostile, 2, counts);
    NIGH_ASSERT(hostile->others.claim_count == 0); /* every home heard of the end of every claim */
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
    begin_life(hostile, take(hostile) % KINDS);
    for (uint32_t steps = 0; hostile->left > 0 && steps < 20000; steps++) {
        step(hostile, counts);
    }
    NIGH_ASSERT(store_is_valid(hostile->fixture->store));
    check_ends(hostile);
    count(hostile, counts);
    check_after(hostile, counts);
}
