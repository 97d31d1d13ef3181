/* SPDX-License-Identifier: Apache-2.0 */
/* What home.c, home_asks.c, home_answers.c and home_terms.c share. */
#ifndef SPACE_HOME_INTERNAL_H
#define SPACE_HOME_INTERNAL_H

#include "base/check.h"
#include "space/home.h"

struct home_step {
    const struct space_home *home;
    struct space_entry *entry;
    struct space_work *work;
    const struct space_message *event;
    struct space_out *out;
    bool is_next; /* it had its place in the queue, and is served now */
};

#define HOME_HANDLER(name, becomes, what) enum space_result home_##name(struct home_step *step);
SPACE_HOME_TABLE(SPACE_NONE_OF, HOME_HANDLER, SPACE_NONE_OF)
#undef HOME_HANDLER

/* Of the right that the entry's epoch is of. */
void home_say(struct home_step *step, uint8_t event, uint8_t seat);
void home_say_grant(struct home_step *step, uint8_t event, uint8_t seat, uint32_t frame);

/* INVALIDATE, or RELEASE, to each of a set. */
void home_say_all(struct home_step *step, uint8_t event, uint64_t seats);

/* Whether an ask leaves no room for those who hold the block here. */
bool home_is_held_against(const struct space_entry *entry, uint8_t ask);

/* Who asks waits: for those who hold it, or as others wait already. */
bool home_must_wait(const struct home_step *step);

/* Puts who asks at the end. REFUSED: it waits already. */
enum space_result home_queue(struct home_step *step);
bool home_is_queued(const struct space_work *work, uint8_t seat);

/* Something is under way from here on, for who asks, until all of `waits` have answered. */
void home_begin(struct home_step *step, uint8_t state, uint64_t waits);

/* It has ended, and what waits at the home itself has its turn. */
void home_end(struct home_step *step, uint8_t state);
void home_wake(struct home_step *step);

static inline void home_become(struct home_step *step, uint8_t state)
{
    step->entry->state = state;
}

/* The event says the epoch that the entry has. */
static inline bool home_is_current(const struct home_step *step)
{
    return step->event->epoch.term == step->home->term &&
           step->event->epoch.count == step->entry->count;
}

#endif
