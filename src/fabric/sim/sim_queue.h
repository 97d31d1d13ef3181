/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What will happen in a simulation, in order: a priority queue of events by (time, sequence), and
 * the pools that the simulation's records come from.
 *
 * Order is a function of what was scheduled alone; where records lie in memory decides nothing. A
 * simulation that finds no memory ends: it has nothing to say about that case.
 */
#ifndef FABRIC_SIM_SIM_QUEUE_H
#define FABRIC_SIM_SIM_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/list.h"
#include "nigh/status.h"

/* ---- pools ---------------------------------------------------------------- */

/* Records of one size. Memory goes back only at the end: it is as much as was in use at once. */
struct sim_pool {
    size_t record_bytes;
    void *free;   /* a list through the records' first words */
    void *chunks; /* all memory taken, a list through the chunks' first words */
    uint64_t in_use;
};

void sim_pool_init(struct sim_pool *pool, size_t record_bytes);
void sim_pool_fini(struct sim_pool *pool);

/* Zeroed. Never NULL. */
void *sim_pool_take(struct sim_pool *pool);
void sim_pool_give(struct sim_pool *pool, void *record);

/* ---- events --------------------------------------------------------------- */

enum sim_event_kind {
    SIM_PIECE = 1, /* bytes of a post move */
    SIM_DONE,      /* the initiator learns that its post acted */
    SIM_REFUSED,   /* the initiator learns that its post was refused */
    SIM_FAIL,      /* an end learns that its connection is over */
    SIM_REQUEST,   /* a dialler's wish arrives */
    SIM_ACCEPTED,  /* the acceptor's yes arrives */
    SIM_CONFIRMED, /* the dialler's last word arrives */
    SIM_SILENCE,   /* keep-alive: an end has heard nothing for too long */
    SIM_HANDSHAKE  /* an end was not connected in time */
};

struct sim_wire;
struct sim_work;

struct sim_event {
    struct list_node node; /* among those that a wire holds back */
    struct sim_wire *wire;
    struct sim_work *work; /* PIECE, DONE, REFUSED */
    uint64_t offset;       /* PIECE */
    uint64_t bytes;
    uint32_t place; /* a timer's, in the queue, from 1; 0: not in it */
    uint8_t kind;
    uint8_t side; /* whom it concerns, where there is no work */
    nigh_status status;
};

struct sim_queue_entry {
    uint64_t time_us;
    uint64_t order; /* counts up, in steps of two; the last bit: a timer, which knows its place */
    struct sim_event *event;
};

struct sim_queue {
    struct sim_queue_entry *entries; /* a heap; children of i: 4i+1 to 4i+4 */
    uint32_t count;
    uint32_t capacity;
    uint64_t next_order;
};

void sim_queue_init(struct sim_queue *queue);
void sim_queue_fini(struct sim_queue *queue);
void sim_queue_add(struct sim_queue *queue, struct sim_event *event, uint64_t time_us);

/* Timers only: they alone keep track of where they are. */
static inline bool sim_event_is_timer(const struct sim_event *event)
{
    return event->kind == SIM_SILENCE || event->kind == SIM_HANDSHAKE;
}

void sim_queue_remove(struct sim_queue *queue, struct sim_event *event);

/* Removes and returns the first; the queue is not empty. */
struct sim_event *sim_queue_pop(struct sim_queue *queue);

static inline uint64_t sim_queue_next_us(const struct sim_queue *queue)
{
    return queue->count == 0 ? UINT64_MAX : queue->entries[0].time_us;
}

/* Checks the whole structure; for tests and NIGH_ASSERT_SLOW. */
bool sim_queue_is_valid(const struct sim_queue *queue);

#endif
