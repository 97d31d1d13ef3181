/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of what sessions want of regions is under way at a time, and which of two priorities is
 * next (docs/qos.md).
 *
 * To each node a window of bytes is under way, whoever wants them: what waits, waits here, where
 * sessions have turns (turns.h), and not in a connection, where they have none.
 *
 * Of two priorities the high one is next, unless each has a window of its own (LITE's "HW-Sep"),
 * but for a piece of low priority now and then. Beside that low priority is limited to so many
 * bytes a second, by the three policies of LITE's "SW-Pri" (SOSP'17): when the load of high
 * priority is high; not while there is none, or next to none; and when answers to high priority
 * take longer than they do at best.
 *
 * Pure: time is an argument. One owner.
 */
#ifndef REGION_QOS_H
#define REGION_QOS_H

#include "base/limits.h"
#include "base/rate.h"

enum qos_policy {
    QOS_SOFTWARE = 0,
    QOS_NONE = 1,    /* there is one priority */
    QOS_SEPARATE = 2 /* each has a window and connections of its own, and neither is limited */
};

enum qos_class {
    QOS_HIGH = 0,
    QOS_LOW = 1,
    QOS_CLASSES = 2
};

/* What goes to one node. */
struct qos_window {
    uint64_t most_bytes;      /* under way at a time */
    uint64_t under_way_bytes; /* as charged: qos_charge */
    uint64_t run_bytes;       /* of high priority, since the last of low priority */
    uint64_t best_us[2];      /* round trips of few bytes: since `best_since_us`, and before that */
    uint64_t best_since_us;
};

/* What a lane knows of all nodes together. */
struct qos {
    enum qos_policy policy;
    bool is_limited;         /* low priority is */
    struct rate low;         /* if so */
    uint64_t period_us;      /* when the period under way began: what follows is of it */
    uint64_t looked_us;      /* up to when high_us is reckoned */
    uint64_t high_us;        /* posts of high priority, each for as long as it was under way */
    uint64_t low_bytes;      /* posted */
    uint32_t high_under_way; /* posts, now */
    uint32_t answers;        /* to few bytes of high priority */
    uint32_t answers_late;   /* of them, by far later than at best */
};

void qos_init(struct qos *qos, enum qos_policy policy, uint64_t now_us);
void qos_window_init(struct qos_window *window, uint64_t most_bytes);

/* What a piece counts as: there is more to one than its bytes. */
static inline uint64_t qos_charge(uint64_t bytes)
{
    return bytes < LIMIT_QOS_LEAST ? LIMIT_QOS_LEAST : bytes;
}

static inline bool qos_has_room(const struct qos_window *window, uint64_t charge)
{
    return window->under_way_bytes + charge <= window->most_bytes;
}

/* Whose window, of those to one node, a piece of a priority is in. */
static inline enum qos_class qos_window_of(enum qos_policy policy, enum qos_class class)
{
    return policy == QOS_SEPARATE ? class : QOS_HIGH;
}

/* Whether a piece of low priority may go, for its rate alone. */
bool qos_may_low(struct qos *qos, uint64_t now_us);

/* Which of two priorities is next, where something of them waits. QOS_CLASSES: none, now. `qos` may
 * be NULL: nothing limits low priority. */
enum qos_class qos_next(struct qos *qos, const struct qos_window *window, bool high_waits,
                        bool low_waits, uint64_t now_us);

/* A piece is under way. */
void qos_posted(struct qos *qos, struct qos_window *window, enum qos_class class, uint64_t charge,
                uint64_t now_us);

/* `charge` of what was posted is not under way any more, with one post. */
void qos_ended(struct qos *qos, struct qos_window *window, enum qos_class class, uint64_t charge,
               uint64_t now_us);

/* How long few bytes of high priority took. */
void qos_answered(struct qos *qos, struct qos_window *window, uint64_t took_us, uint64_t now_us);

/* Bytes a second that low priority is limited to; 0: it is not. */
static inline uint64_t qos_low_limit(const struct qos *qos)
{
    return qos->is_limited ? qos->low.per_second : 0;
}

#endif
