/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LRU, CLOCK, SIEVE, 2Q, ARC and S3-FIFO for the comparison of bench/evict_traces.c: each as its
 * paper has it, with queues measured in bytes and exact histories of what was evicted.
 *
 * Not production code: a node per object ever seen, memory from malloc, no defence against callers.
 * Sources: CLOCK, Corbató 1968; 2Q, Johnson and Shasha, VLDB'94 (full version, Kin 25 %, Kout 50
 * %); ARC, Megiddo and Modha, FAST'03; S3-FIFO, Yang et al., SOSP'23 (small queue 10 %, promotion
 * after two hits); SIEVE, Zhang et al., NSDI'24.
 */
#include "evict_policies.h"

#include <stdbool.h>
#include <stdlib.h>

#define NONE   UINT32_MAX
#define QUEUES 5

/* Queue 0 means "in none". What the others are called by each policy: */
enum {
    Q_ALL = 1, /* LRU, CLOCK, SIEVE */
    Q_SMALL = 1,
    Q_MAIN = 2,
    Q_GHOST = 3, /* S3-FIFO; 2Q: A1in, Am, A1out */
    Q_T1 = 1,
    Q_T2 = 2,
    Q_B1 = 3,
    Q_B2 = 4 /* ARC */
};

struct node {
    uint64_t size;
    uint32_t toward_head;
    uint32_t toward_tail;
    uint32_t entry;
    uint8_t queue;
    uint8_t home; /* the queue that a picked victim came from */
    uint8_t hits;
};

struct queue {
    uint64_t bytes;
    uint32_t head;
    uint32_t tail;
};

struct policy {
    struct node *nodes;
    uint32_t *object_of;
    struct queue queues[QUEUES];
    uint64_t capacity;
    uint64_t t1_target; /* ARC's p */
    uint32_t hand;      /* SIEVE's */
    bool full_once;     /* S3-FIFO: something was evicted */
};

static struct policy *loser_create(uint32_t max_entries, uint32_t objects, uint64_t capacity_bytes)
{
    struct policy *p = calloc(1, sizeof *p);
    p->nodes = calloc(objects, sizeof *p->nodes);
    p->object_of = malloc(max_entries * sizeof *p->object_of);
    for (uint32_t i = 0; i < max_entries; i++)
        p->object_of[i] = NONE;
    for (int q = 0; q < QUEUES; q++)
        p->queues[q].head = p->queues[q].tail = NONE;
    p->capacity = capacity_bytes;
    p->hand = NONE;
    return p;
}

static void loser_destroy(struct policy *p)
{
    free(p->nodes);
    free(p->object_of);
    free(p);
}

static void push(struct policy *p, int q, uint32_t o)
{
    struct queue *to = &p->queues[q];
    struct node *n = &p->nodes[o];
    n->queue = (uint8_t)q;
    n->toward_head = NONE;
    n->toward_tail = to->head;
    if (to->head != NONE)
        p->nodes[to->head].toward_head = o;
    else
        to->tail = o;
    to->head = o;
    to->bytes += n->size;
}

static void take(struct policy *p, uint32_t o)
{
    struct node *n = &p->nodes[o];
    struct queue *from = &p->queues[n->queue];
    if (n->queue == 0)
        return;
    if (p->hand == o)
        p->hand = n->toward_head;
    if (n->toward_head != NONE)
        p->nodes[n->toward_head].toward_tail = n->toward_tail;
    else
        from->head = n->toward_tail;
    if (n->toward_tail != NONE)
        p->nodes[n->toward_tail].toward_head = n->toward_head;
    else
        from->tail = n->toward_head;
    from->bytes -= n->size;
    n->queue = 0;
}

static void move(struct policy *p, int q, uint32_t o)
{
    take(p, o);
    push(p, q, o);
}

/* Forgets the oldest history of `q` until it describes at most `bytes`. */
static void trim(struct policy *p, int q, uint64_t bytes)
{
    while (p->queues[q].bytes > bytes)
        take(p, p->queues[q].tail);
}

static uint32_t assign(struct policy *p, uint32_t entry, uint32_t object, uint64_t size_bytes)
{
    p->object_of[entry] = object;
    p->nodes[object].entry = entry;
    p->nodes[object].size = size_bytes;
    p->nodes[object].hits = 0;
    return object;
}

static void loser_forget(struct policy *p, uint32_t entry)
{
    take(p, p->object_of[entry]);
    p->object_of[entry] = NONE;
}

static void evicted_without_history(struct policy *p, uint32_t entry)
{
    p->object_of[entry] = NONE;
}

/* Each policy's choice: the next victim, still in its queue; NONE when nothing is left. */
typedef uint32_t (*pick_fn)(struct policy *);

static uint32_t victims_by(struct policy *p, pick_fn pick, uint32_t max_count,
                           uint64_t bytes_wanted, uint32_t *entries)
{
    uint64_t bytes = 0;
    uint32_t count = 0;
    while (count < max_count && bytes < bytes_wanted) {
        uint32_t o = pick(p);
        if (o == NONE)
            break;
        p->nodes[o].home = p->nodes[o].queue;
        take(p, o);
        bytes += p->nodes[o].size;
        entries[count++] = p->nodes[o].entry;
    }
    return count;
}

/* ---- LRU ---- */

static void one_admit(struct policy *p, uint32_t entry, uint32_t object, uint64_t size_bytes)
{
    push(p, Q_ALL, assign(p, entry, object, size_bytes));
}

static void lru_touch(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    if (o != NONE && p->nodes[o].queue == Q_ALL)
        move(p, Q_ALL, o);
}

static uint32_t lru_pick(struct policy *p)
{
    return p->queues[Q_ALL].tail;
}

static uint32_t lru_victims(struct policy *p, uint32_t max_count, uint64_t bytes_wanted,
                            uint32_t *entries)
{
    return victims_by(p, lru_pick, max_count, bytes_wanted, entries);
}

static void one_kept(struct policy *p, uint32_t entry)
{
    push(p, Q_ALL, p->object_of[entry]);
}

/* ---- CLOCK and SIEVE: one bit an object ---- */

static void bit_touch(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    if (o != NONE)
        p->nodes[o].hits = 1;
}

static uint32_t clock_pick(struct policy *p)
{
    uint32_t o = p->queues[Q_ALL].tail;
    while (o != NONE && p->nodes[o].hits) {
        p->nodes[o].hits = 0;
        move(p, Q_ALL, o);
        o = p->queues[Q_ALL].tail;
    }
    return o;
}

static uint32_t clock_victims(struct policy *p, uint32_t max_count, uint64_t bytes_wanted,
                              uint32_t *entries)
{
    return victims_by(p, clock_pick, max_count, bytes_wanted, entries);
}

static uint32_t sieve_pick(struct policy *p)
{
    uint32_t o = p->hand != NONE ? p->hand : p->queues[Q_ALL].tail;
    while (o != NONE && p->nodes[o].hits) {
        p->nodes[o].hits = 0;
        o = p->nodes[o].toward_head != NONE ? p->nodes[o].toward_head : p->queues[Q_ALL].tail;
    }
    p->hand = o;
    return o;
}

static uint32_t sieve_victims(struct policy *p, uint32_t max_count, uint64_t bytes_wanted,
                              uint32_t *entries)
{
    return victims_by(p, sieve_pick, max_count, bytes_wanted, entries);
}

/* ---- 2Q ---- */

static void twoq_admit(struct policy *p, uint32_t entry, uint32_t object, uint64_t size_bytes)
{
    bool known = p->nodes[object].queue == Q_GHOST;
    take(p, object);
    push(p, known ? Q_MAIN : Q_SMALL, assign(p, entry, object, size_bytes));
}

static void twoq_touch(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    if (o != NONE && p->nodes[o].queue == Q_MAIN)
        move(p, Q_MAIN, o);
}

static uint32_t twoq_pick(struct policy *p)
{
    if (p->queues[Q_SMALL].bytes > p->capacity / 4 || p->queues[Q_MAIN].tail == NONE)
        return p->queues[Q_SMALL].tail;
    return p->queues[Q_MAIN].tail;
}

static uint32_t twoq_victims(struct policy *p, uint32_t max_count, uint64_t bytes_wanted,
                             uint32_t *entries)
{
    return victims_by(p, twoq_pick, max_count, bytes_wanted, entries);
}

static void twoq_evicted(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    if (p->nodes[o].home == Q_SMALL) {
        push(p, Q_GHOST, o);
        trim(p, Q_GHOST, p->capacity / 2);
    }
    p->object_of[entry] = NONE;
}

static void main_kept(struct policy *p, uint32_t entry)
{
    push(p, Q_MAIN, p->object_of[entry]);
}

/* ---- ARC, its lists and its target in bytes ---- */

static int arc_adapt(struct policy *p, uint32_t object, uint64_t size_bytes)
{
    uint64_t b1 = p->queues[Q_B1].bytes;
    uint64_t b2 = p->queues[Q_B2].bytes;
    int found = p->nodes[object].queue;
    if (found == Q_B1) {
        uint64_t step =
            b2 > b1 ? (uint64_t)((double)size_bytes * (double)b2 / (double)b1) : size_bytes;
        p->t1_target = p->t1_target + step < p->capacity ? p->t1_target + step : p->capacity;
    } else if (found == Q_B2) {
        uint64_t step =
            b1 > b2 ? (uint64_t)((double)size_bytes * (double)b1 / (double)b2) : size_bytes;
        p->t1_target = p->t1_target > step ? p->t1_target - step : 0;
    }
    take(p, object);
    return found;
}

static void arc_admit(struct policy *p, uint32_t entry, uint32_t object, uint64_t size_bytes)
{
    int found = arc_adapt(p, object, size_bytes);
    push(p, found ? Q_T2 : Q_T1, assign(p, entry, object, size_bytes));
}

/* The paper's step of a miss, as far as it goes without the object. */
static void arc_missed(struct policy *p, uint32_t object, bool again)
{
    if (!again)
        arc_adapt(p, object, p->nodes[object].size);
}

static void arc_touch(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    if (o != NONE && (p->nodes[o].queue == Q_T1 || p->nodes[o].queue == Q_T2))
        move(p, Q_T2, o);
}

static uint32_t arc_pick(struct policy *p)
{
    struct queue *t1 = &p->queues[Q_T1];
    struct queue *t2 = &p->queues[Q_T2];
    if (t1->tail != NONE && (t1->bytes > p->t1_target || t2->tail == NONE))
        return t1->tail;
    return t2->tail;
}

static uint32_t arc_victims(struct policy *p, uint32_t max_count, uint64_t bytes_wanted,
                            uint32_t *entries)
{
    return victims_by(p, arc_pick, max_count, bytes_wanted, entries);
}

static void arc_evicted(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    uint64_t t1 = p->queues[Q_T1].bytes;
    uint64_t resident = t1 + p->queues[Q_T2].bytes;
    push(p, p->nodes[o].home == Q_T1 ? Q_B1 : Q_B2, o);
    trim(p, Q_B1, t1 < p->capacity ? p->capacity - t1 : 0);
    uint64_t known = resident + p->queues[Q_B1].bytes;
    trim(p, Q_B2, known < 2 * p->capacity ? 2 * p->capacity - known : 0);
    p->object_of[entry] = NONE;
}

/* ---- S3-FIFO ---- */

static void s3_admit(struct policy *p, uint32_t entry, uint32_t object, uint64_t size_bytes)
{
    bool known = p->nodes[object].queue == Q_GHOST;
    /* Before the first eviction a full small queue lets newcomers pass to main, as the authors' own
     * simulator does: else a loop would start with an empty main queue and never fill it. */
    bool spare = !p->full_once && p->queues[Q_SMALL].bytes >= p->capacity / 10;
    take(p, object);
    push(p, known || spare ? Q_MAIN : Q_SMALL, assign(p, entry, object, size_bytes));
}

static void s3_touch(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    if (o != NONE && p->nodes[o].hits < 3)
        p->nodes[o].hits++;
}

static uint32_t s3_pick(struct policy *p)
{
    p->full_once = true;
    for (;;) {
        struct queue *s = &p->queues[Q_SMALL];
        struct queue *m = &p->queues[Q_MAIN];
        bool from_main =
            m->tail != NONE && (m->bytes > p->capacity - p->capacity / 10 || s->tail == NONE);
        uint32_t o = from_main ? m->tail : s->tail;
        if (o == NONE || p->nodes[o].hits < (from_main ? 1 : 2))
            return o;
        p->nodes[o].hits = from_main ? p->nodes[o].hits - 1 : 0;
        move(p, Q_MAIN, o);
    }
}

static uint32_t s3_victims(struct policy *p, uint32_t max_count, uint64_t bytes_wanted,
                           uint32_t *entries)
{
    return victims_by(p, s3_pick, max_count, bytes_wanted, entries);
}

static void s3_evicted(struct policy *p, uint32_t entry)
{
    uint32_t o = p->object_of[entry];
    if (p->nodes[o].home == Q_SMALL) {
        push(p, Q_GHOST, o);
        trim(p, Q_GHOST, p->capacity - p->capacity / 10);
    }
    p->object_of[entry] = NONE;
}

#define LOSER(prefix_, name_, admit_, touch_, evicted_, kept_, missed_) \
    static const struct policy_ops prefix_ = {                          \
        .name = name_,                                                  \
        .create = loser_create,                                         \
        .destroy = loser_destroy,                                       \
        .admit = admit_,                                                \
        .touch = touch_,                                                \
        .forget = loser_forget,                                         \
        .victims = prefix_##_victims,                                   \
        .evicted = evicted_,                                            \
        .kept = kept_,                                                  \
        .missed = missed_,                                              \
    }

LOSER(lru, "LRU", one_admit, lru_touch, evicted_without_history, one_kept, NULL);
LOSER(clock, "CLOCK", one_admit, bit_touch, evicted_without_history, one_kept, NULL);
LOSER(sieve, "SIEVE", one_admit, bit_touch, evicted_without_history, one_kept, NULL);
LOSER(twoq, "2Q", twoq_admit, twoq_touch, twoq_evicted, main_kept, NULL);
LOSER(arc, "ARC", arc_admit, arc_touch, arc_evicted, main_kept, arc_missed);
LOSER(s3, "S3-FIFO", s3_admit, s3_touch, s3_evicted, main_kept, NULL);

const struct policy_ops *const evict_policies[EVICT_POLICIES] = {
    &lru, &clock, &sieve, &twoq, &arc, &s3, &evict_policy_production,
};
