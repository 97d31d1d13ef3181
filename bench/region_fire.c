/* SPDX-License-Identifier: Apache-2.0 */
/* What clients do to records of a region, and how they know what they may find. Moves nothing. */
#include "region_fire.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"

#define LOCK         UINT64_C(7)
#define LOCK_OWNER   FIRE_NODES /* of the record that is written under it */
#define LOCK_RARE    64u        /* of so many rounds one is under the lock */
#define LOCK_TERM_US (FIRE_SECOND_US / 10)
#define LATE_NS      UINT64_C(5000000000) /* behind the deadline, of whoever is not run */
#define SAID         UINT64_C(8)          /* records that are wrong, of which it is said how */

struct fire *fire;

struct retired {
    nigh_op op;
    nigh_status status;
    bool has_ended;
    uint64_t words[FIRE_WORDS], copy[FIRE_WORDS];
};

struct user {
    uint32_t number;
    uint64_t random;
    nigh_client *client;
    nigh_region *region;
    struct fire_counts *counts; /* NULL: of one that may be killed */
    struct retired retired[FIRE_RETIRED];
    uint32_t retired_at;
};

/* ---- time, numbers -------------------------------------------------------- */

uint64_t fire_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint32_t fire_random(uint64_t *random, uint32_t bound)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (uint32_t)((*random * UINT64_C(0x2545f4914f6cdd1d)) >> 32) % bound;
}

void fire_breathe(uint32_t ms)
{
    (void)poll(NULL, 0, (int)ms);
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t seen = atomic_load(most);

    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

/* Below FIRE_PARTS one by one; then so many of each power of two. */
static uint32_t part_of(uint64_t ns)
{
    uint32_t power = ns < FIRE_PARTS ? 0 : 63u - (uint32_t)__builtin_clzll(ns) - 5u;
    uint64_t part =
        ns < FIRE_PARTS ? ns : (uint64_t)power * FIRE_PARTS + (ns >> power) % FIRE_PARTS;

    return part < FIRE_TIMES ? (uint32_t)part : FIRE_TIMES - 1u;
}

void fire_time(struct fire_times *times, uint64_t ns)
{
    atomic_fetch_add(&times->count, 1);
    atomic_fetch_add(&times->counts[part_of(ns)], 1);
    raise_to(&times->most, ns);
}

double fire_quantile(const struct fire_times *times, double quantile)
{
    double wanted = quantile * (double)atomic_load(&times->count);
    uint64_t seen = 0, ns = 1;
    uint32_t part = 0;

    if (atomic_load(&times->count) == 0) {
        return 0;
    }
    while ((double)(seen += atomic_load(&times->counts[part])) < wanted) {
        part++;
    }
    while (part_of(ns) < part) {
        ns += 1 + (ns >> 7);
    }
    return (double)ns;
}

/* ---- how it ends ---------------------------------------------------------- */

#define BIT(status) (UINT64_C(1) << -(status))

/* What nigh/region.h says of each and can be here; a client whose node dies has NODE_LOST of
 * anything (docs/client.md). */
static const uint64_t documented[FIRE_KINDS] = {
    [FIRE_READ] = BIT(NIGH_PEER_LOST) | BIT(NIGH_NO_QUORUM) | BIT(NIGH_TIMEOUT) |
                  BIT(NIGH_OVERLOADED) | BIT(NIGH_CLOSED),
    [FIRE_WRITE] = BIT(NIGH_PEER_LOST) | BIT(NIGH_NO_QUORUM) | BIT(NIGH_TIMEOUT) |
                   BIT(NIGH_OVERLOADED) | BIT(NIGH_CLOSED),
    [FIRE_LOCKED_READ] = BIT(NIGH_PEER_LOST) | BIT(NIGH_NO_QUORUM) | BIT(NIGH_TIMEOUT) |
                         BIT(NIGH_OVERLOADED) | BIT(NIGH_CLOSED) | BIT(NIGH_LOCK_LOST),
    [FIRE_LOCKED_WRITE] = BIT(NIGH_PEER_LOST) | BIT(NIGH_NO_QUORUM) | BIT(NIGH_TIMEOUT) |
                          BIT(NIGH_OVERLOADED) | BIT(NIGH_CLOSED) | BIT(NIGH_LOCK_LOST),
    [FIRE_LOCK] = BIT(NIGH_NO_QUORUM) | BIT(NIGH_TIMEOUT) | BIT(NIGH_OVERLOADED) | BIT(NIGH_CLOSED),
    [FIRE_UNLOCK] = BIT(NIGH_LOCK_LOST) | BIT(NIGH_CLOSED),
    [FIRE_MOVE] = BIT(NIGH_EXISTS) | BIT(NIGH_OUT_OF_MEMORY) | BIT(NIGH_OVERLOADED) |
                  BIT(NIGH_NO_QUORUM) | BIT(NIGH_BUSY) | BIT(NIGH_TIMEOUT) | BIT(NIGH_PEER_LOST) |
                  BIT(NIGH_CLOSED),
};

static uint32_t mode_now(void)
{
    return atomic_load(&fire->mode);
}

void fire_ended(enum fire_kind kind, nigh_status status)
{
    uint64_t allowed = documented[kind] | BIT(NIGH_OK) | BIT(NIGH_NODE_LOST);
    uint32_t mode = mode_now(), number = (uint32_t)-status % FIRE_STATUSES;

    atomic_fetch_add(&fire->statuses[mode < FIRE_MODES ? mode : FIRE_PLAIN][kind][number], 1);
    if ((allowed >> number & 1) == 0 && atomic_fetch_add(&fire->undocumented, 1) < SAID) {
        fprintf(stderr, "region-moves: an operation (%d) ended %s\n", (int)kind,
                nigh_status_name(status));
    }
}

bool fire_is_of_client(nigh_status status)
{
    return status == NIGH_CLOSED || status == NIGH_NODE_LOST;
}

/* ---- clients -------------------------------------------------------------- */

static nigh_client *open_client(uint32_t node)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = fire->sockets[node], .name = "region-moves"};
    nigh_client *client;

    while (mode_now() != FIRE_OVER) {
        if (nigh_client_open(&options, &client) == NIGH_OK) {
            return client;
        }
        fire_breathe(10);
    }
    return NULL;
}

bool fire_open(uint32_t node, uint32_t access, nigh_client **client, nigh_region **region)
{
    while ((*client = open_client(node)) != NULL) {
        while (mode_now() != FIRE_OVER) {
            nigh_status status =
                nigh_region_open(*client, fire->name, access, 2 * FIRE_SECOND_US, region);

            if (status == NIGH_OK) {
                return true;
            }
            if (fire_is_of_client(status)) {
                break;
            }
            fire_breathe(5);
        }
        nigh_client_close(*client);
    }
    return false;
}

/* ---- records -------------------------------------------------------------- */

static uint64_t stride(void)
{
    return fire->chunk_bytes * fire->chunks / FIRE_SLOTS / fire->nodes / 8 * 8;
}

uint64_t fire_region_bytes(void)
{
    return fire->chunk_bytes * fire->chunks + 4096;
}

/* Those of all clients by turns; some reach over the end of their chunk. The one that is written
 * under the lock comes before all others. */
static uint64_t place_of(uint32_t owner, uint32_t slot)
{
    return owner == LOCK_OWNER
               ? 0
               : ((uint64_t)slot * fire->nodes + owner + 1) * stride() - FIRE_BYTES / 2;
}

static void fill(uint64_t *words, uint32_t owner, uint32_t slot, uint32_t write)
{
    for (uint32_t n = 0; n + 1 < FIRE_WORDS; n++) {
        uint32_t of[4] = {owner, slot, n, write};

        words[n] = (uint64_t)write << 32 | crc32c(0, of, sizeof of);
    }
    words[FIRE_WORDS - 1] = (uint64_t)write << 32 | crc32c(0, words, FIRE_BYTES - 8);
}

static bool may_be(const struct fire_slot *slot, uint32_t write, uint32_t least, uint32_t most)
{
    if (write >= least && write <= most) {
        return true;
    }
    for (uint32_t n = 0; n < atomic_load(&slot->unknown_count); n++) {
        if (atomic_load(&slot->unknown[n]) == write) {
            return true;
        }
    }
    return false;
}

static void say_wrong(const char *what, uint32_t owner, uint32_t slot, uint32_t word,
                      uint64_t found, uint32_t least, uint32_t most)
{
    fprintf(stderr,
            "region-moves: %s: word %" PRIu32 " of record %" PRIu32 " of %" PRIu32 " is %016" PRIx64
            ", of write %" PRIu64 "; %" PRIu32 " to %" PRIu32 " may be\n",
            what, word, slot, owner, found, found >> 32, least, most);
}

/* Counts what must not be there; whether all words are of one write. */
static bool look_at(const uint64_t *words, uint32_t owner, uint32_t number,
                    const struct fire_slot *slot, uint32_t least, uint32_t most)
{
    uint64_t wanted[FIRE_WORDS] = {0};
    uint32_t filled = 0;
    bool is_whole = true;

    for (uint32_t n = 0; n < FIRE_WORDS; n++) {
        uint32_t write = (uint32_t)(words[n] >> 32);

        if (write != filled) {
            memset(wanted, 0, sizeof wanted);
            if (write != 0) {
                fill(wanted, owner, number, write);
            }
            filled = write;
        }
        is_whole = is_whole && write == (uint32_t)(words[0] >> 32);
        if (words[n] != wanted[n]) {
            if (atomic_fetch_add(&fire->wrong, 1) < SAID) {
                say_wrong("a wrong byte", owner, number, n, words[n], least, most);
            }
        } else if (!may_be(slot, write, least, most)) {
            if (atomic_fetch_add(&fire->stale, 1) < SAID) {
                say_wrong("a lost write", owner, number, n, words[n], least, most);
            }
        }
    }
    if (!is_whole) {
        atomic_fetch_add(&fire->torn, 1);
    }
    return is_whole;
}

/* ---- an operation --------------------------------------------------------- */

/* Which moves of its chunk it had begun beside, or met. */
struct meeting {
    uint32_t mode, chunk, begun, ended;
    uint64_t at_ns;
};

static struct meeting meet(uint64_t place)
{
    uint32_t chunk = (uint32_t)(place / fire->chunk_bytes);

    return (struct meeting){.mode = mode_now(),
                            .chunk = chunk,
                            .ended = atomic_load(&fire->move_ended[chunk]),
                            .begun = atomic_load(&fire->move_begun[chunk]),
                            .at_ns = fire_now_ns()};
}

static void part(const struct meeting *meeting)
{
    uint64_t ns = fire_now_ns() - meeting->at_ns;
    uint32_t last = atomic_load(&fire->move_begun[meeting->chunk]);

    if (ns > FIRE_PATIENCE_US * 1000 + LATE_NS) {
        atomic_fetch_add(&fire->late, 1);
    }
    if (meeting->mode >= FIRE_MODES) {
        return;
    }
    fire_time(&fire->times[meeting->mode], ns);
    if (meeting->mode == FIRE_MOVING && meeting->begun != meeting->ended) {
        raise_to(&fire->pauses[meeting->begun % FIRE_MOVES], ns);
    }
    if (meeting->mode == FIRE_MOVING && last != meeting->begun) {
        raise_to(&fire->pauses[last % FIRE_MOVES], ns);
    }
}

/* What has ended is not touched any more: neither its status nor its bytes. */
static struct retired *next_retired(struct user *user)
{
    struct retired *retired = &user->retired[user->retired_at++ % FIRE_RETIRED];

    if (retired->has_ended &&
        (nigh_op_status(&retired->op) != retired->status ||
         memcmp(retired->words, retired->copy, FIRE_BYTES) != 0) &&
        atomic_fetch_add(&fire->twice, 1) < SAID) {
        fprintf(stderr, "region-moves: an operation ended %s, and ended again\n",
                nigh_status_name(retired->status));
    }
    retired->has_ended = false;
    return retired;
}

static nigh_status transfer_async(struct user *user, nigh_region *region, bool writes,
                                  uint64_t place, uint64_t *words)
{
    struct retired *retired = next_retired(user);
    nigh_status status;

    memcpy(retired->words, words, FIRE_BYTES);
    status = writes ? nigh_region_write_start(region, place, retired->words, FIRE_BYTES,
                                              FIRE_PATIENCE_US, &retired->op)
                    : nigh_region_read_start(region, place, retired->words, FIRE_BYTES,
                                             FIRE_PATIENCE_US, &retired->op);
    if (status != NIGH_OK) {
        return status;
    }
    do {
        (void)nigh_wait(user->client, &retired->op, FIRE_PATIENCE_US);
        status = nigh_op_status(&retired->op);
    } while (status == NIGH_PENDING);
    memcpy(words, retired->words, FIRE_BYTES);
    memcpy(retired->copy, retired->words, FIRE_BYTES);
    retired->status = status;
    retired->has_ended = true;
    return status;
}

static nigh_status transfer(struct user *user, nigh_region *region, enum fire_kind kind,
                            uint64_t place, uint64_t *words)
{
    bool writes = kind == FIRE_WRITE || kind == FIRE_LOCKED_WRITE;
    struct meeting meeting = meet(place);
    nigh_status status;

    if (user->counts != NULL) {
        atomic_fetch_add(&user->counts->begun, 1);
    }
    if (fire_random(&user->random, 2) == 0) {
        status = transfer_async(user, region, writes, place, words);
    } else if (writes) {
        status = nigh_region_write(region, place, words, FIRE_BYTES, FIRE_PATIENCE_US);
    } else {
        status = nigh_region_read(region, place, words, FIRE_BYTES, FIRE_PATIENCE_US);
    }
    part(&meeting);
    fire_ended(kind, status);
    if (user->counts != NULL) {
        atomic_fetch_add(&user->counts->ended, 1);
        atomic_fetch_add(&user->counts->ended_well, status == NIGH_OK);
    }
    return status;
}

static nigh_status read_slot(struct user *user, uint32_t owner, uint32_t number)
{
    const struct fire_slot *slot = &fire->slots[owner][number];
    uint32_t least = atomic_load(&slot->acknowledged);
    uint64_t words[FIRE_WORDS] = {0};
    nigh_status status = transfer(user, user->region, FIRE_READ, place_of(owner, number), words);

    if (status == NIGH_OK) {
        (void)look_at(words, owner, number, slot, least, atomic_load(&slot->begun));
    }
    return status;
}

static nigh_status write_slot(struct user *user, uint32_t number)
{
    struct fire_slot *slot = &fire->slots[user->number][number];
    uint32_t write = atomic_load(&slot->begun) + 1, count = atomic_load(&slot->unknown_count);
    uint64_t words[FIRE_WORDS];
    nigh_status status;

    if (count == FIRE_UNKNOWN) {
        return NIGH_OK;
    }
    fill(words, user->number, number, write);
    atomic_store(&slot->begun, write);
    status = transfer(user, user->region, FIRE_WRITE, place_of(user->number, number), words);
    if (status == NIGH_OK) {
        atomic_store(&slot->acknowledged, write);
    } else {
        atomic_store(&slot->unknown[count], write);
        atomic_store(&slot->unknown_count, count + 1);
    }
    return status;
}

/* ---- under the lock ------------------------------------------------------- */

/* What was acknowledged last; or the beginning of a write after it, which ended otherwise. */
static nigh_status read_locked(struct user *user, nigh_region *held)
{
    uint32_t least = atomic_load(&fire->locked.acknowledged);
    uint32_t most = atomic_load(&fire->locked.begun);
    uint64_t words[FIRE_WORDS] = {0};
    nigh_status status = transfer(user, held, FIRE_LOCKED_READ, place_of(LOCK_OWNER, 0), words);

    if (status == NIGH_OK) {
        (void)look_at(words, LOCK_OWNER, 0, &fire->locked, least, most);
    }
    return status;
}

static nigh_status write_locked(struct user *user, nigh_region *held)
{
    uint32_t write = atomic_fetch_add(&fire->locked.begun, 1) + 1, seen;
    uint64_t words[FIRE_WORDS];
    nigh_status status;

    fill(words, LOCK_OWNER, 0, write);
    status = transfer(user, held, FIRE_LOCKED_WRITE, place_of(LOCK_OWNER, 0), words);
    seen = atomic_load(&fire->locked.acknowledged);
    while (status == NIGH_OK && seen < write &&
           !atomic_compare_exchange_weak(&fire->locked.acknowledged, &seen, write)) {
    }
    return status;
}

/* `again`: goes on while it has the lock, and may be killed then. */
static nigh_status use_lock(struct user *user, bool again)
{
    nigh_region *held = NULL;
    nigh_status status = nigh_region_lock(user->region, LOCK, NIGH_REGION_EXCLUSIVE, LOCK_TERM_US,
                                          FIRE_PATIENCE_US, &held);
    nigh_status unlocked;

    fire_ended(FIRE_LOCK, status);
    if (status != NIGH_OK) {
        return status;
    }
    status = read_locked(user, held);
    if (again) {
        atomic_store(&fire->holding, getpid());
    }
    do {
        status = status == NIGH_OK ? write_locked(user, held) : status;
    } while (again && status == NIGH_OK && mode_now() == FIRE_FAULTS);
    if (again) {
        atomic_store(&fire->holding, 0);
    }
    unlocked = nigh_region_unlock(held);
    fire_ended(FIRE_UNLOCK, unlocked);
    atomic_fetch_add(&fire->lock_losses, unlocked == NIGH_LOCK_LOST);
    return unlocked == NIGH_LOCK_LOST ? NIGH_OK : status;
}

/* ---- what they do --------------------------------------------------------- */

static nigh_status use_records(struct user *user)
{
    uint32_t mine = fire_random(&user->random, FIRE_SLOTS);
    uint32_t other = fire_random(&user->random, fire->nodes);
    nigh_status status = write_slot(user, mine);

    if (!fire_is_of_client(status)) {
        status = read_slot(user, user->number, mine);
    }
    if (!fire_is_of_client(status)) {
        status = read_slot(user, other, fire_random(&user->random, FIRE_SLOTS));
    }
    if (!fire_is_of_client(status) && fire_random(&user->random, LOCK_RARE) == 0) {
        status = use_lock(user, false);
    }
    return status;
}

static bool go_on(struct user *user, nigh_status status)
{
    if (!fire_is_of_client(status)) {
        if (status != NIGH_OK) {
            fire_breathe(1);
        }
        return true;
    }
    nigh_client_close(user->client);
    return fire_open(user->number % fire->nodes, NIGH_REGION_READ | NIGH_REGION_WRITE,
                     &user->client, &user->region);
}

static struct user *begin(uint32_t number, bool *is_open)
{
    struct user *user = calloc(1, sizeof *user);

    if (user == NULL) {
        _exit(2);
    }
    user->number = number;
    user->random = fire->seed * 1000 + number + 1;
    *is_open = fire_open(number % fire->nodes, NIGH_REGION_READ | NIGH_REGION_WRITE, &user->client,
                         &user->region);
    return user;
}

static void end(struct user *user, bool is_open)
{
    for (uint32_t n = 0; n < FIRE_RETIRED; n++) {
        (void)next_retired(user);
    }
    if (is_open) {
        nigh_client_close(user->client);
    }
    free(user);
}

void fire_client(uint32_t number)
{
    bool is_open;
    struct user *user = begin(number, &is_open);

    user->counts = &fire->clients[number];
    while (is_open && mode_now() != FIRE_OVER) {
        is_open = go_on(user, use_records(user));
    }
    for (uint32_t slot = 0; slot < FIRE_SLOTS && is_open; slot++) {
        (void)read_slot(user, number, slot);
    }
    end(user, is_open);
}

void fire_holder(uint32_t number)
{
    bool is_open;
    struct user *user = begin(number, &is_open);

    while (is_open && mode_now() != FIRE_OVER) {
        if (mode_now() != FIRE_FAULTS) {
            fire_breathe(5);
            continue;
        }
        is_open = go_on(user, use_lock(user, true));
    }
    end(user, is_open);
}
