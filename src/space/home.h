/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block at its home, as a machine: who has a copy, what is under way, and who waits
 * (docs/spaces.md). The table is home_table.h.
 *
 * One thing at a time is under way of a block; all else waits in one queue, in which a node has one
 * place, and so have all clients of the home together. Pure; nothing is allocated; one lane.
 */
#ifndef SPACE_HOME_H
#define SPACE_HOME_H

#include "space/cache.h"
#include "space/home_table.h"
#include "space/message.h"

#define SPACE_HOME_EVENT(name, from, has_bytes, what) SPACE_HOME_##name,
#define SPACE_HOME_STATE(name, what, ...)             SPACE_HOME_##name,
enum space_home_event {
    SPACE_HOME_TABLE(SPACE_HOME_EVENT, SPACE_NONE_OF, SPACE_NONE_OF) SPACE_HOME_EVENTS
};
enum space_home_state {
    SPACE_HOME_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, SPACE_HOME_STATE) SPACE_HOME_STATES
};
#undef SPACE_HOME_EVENT
#undef SPACE_HOME_STATE

/* What holds for all blocks of a home. */
struct space_home {
    uint32_t term;
    uint32_t before;  /* the term before */
    uint8_t self;     /* its seat */
    bool remembers;   /* what it did in the term before: else it was started anew */
    uint64_t members; /* seats of this term, its own among them */
    /* Who was started anew and has no log of what it had, since no term was open with it: that it
     * says nothing of a block means nothing. */
    uint64_t anew;
    /* Of each seat: the first term that was open with it as it is; of a right that an earlier one
     * gave it does not know either. The caller's; NULL: all know of all. */
    const uint32_t *since;
    bool is_durable; /* who is gone may come back, with what it had */
};

/* What the directory has of each block; the directory is an array of these. A zeroed one is of a
 * block that nobody has but the home. */
struct space_entry {
    uint64_t seats; /* who shares it; or, alone, who owns it */
    uint32_t count; /* of its epoch; the term is the home's */
    uint8_t state;
    uint8_t holds; /* of clients of the home; SPACE_HELD_ALONE */
    uint16_t work; /* the caller's: which struct space_work it has */
};
_Static_assert(sizeof(struct space_entry) == 16, "what a block costs at its home");

/*
 * What is under way of a block, and who waits: as long as something is. A zeroed one is of nothing.
 * There are never more of them than the nodes of a space may have asked for at once.
 */
struct space_work {
    uint64_t waits;   /* whose answer it waits for */
    uint64_t leaving; /* SHARING, DEMOTING: who is to be told RELEASE at its end */
    uint64_t left;    /* a new term: who claims to have given it up */
    uint32_t frame;   /* of who asked */
    uint8_t asker;    /* whom it is under way for: a seat, or SPACE_NOBODY; of a busy state */
    uint8_t ask;      /* enum space_home_event: what for */
    /* BARE, and until it is known who has it, or the bytes are here: what the home remembers: who
     * had it last, by which right, and whether the bytes here are those that it was given.
     * SPACE_NOBODY: nothing. */
    uint8_t owner;
    bool is_ours;
    struct space_epoch owned;
    /* BARE: of those that gave it up, who had it last, by which right, and whom it gave it to.
     * AWAY: it keeps the bytes. */
    uint8_t leaver, left_to;
    struct space_epoch left_by;
    bool is_turn; /* what waits at the home itself has its turn, until YIELD */
    uint8_t queued;
    uint8_t queue[SPACE_SEATS]; /* seats, the next one first */
    uint8_t asks[SPACE_SEATS];  /* enum space_home_event, of a seat in the queue */
    uint32_t frames[SPACE_SEATS];
};

/*
 * One event. `event->seat` is who sent it, known by its link, or the home's own. `work` is the
 * entry's, or a zeroed one that the entry has from here on, unless space_work_is_idle. DONE, WAITS
 * and GONE are of clients' asks; when `out` wakes, all that waits here is tried again, and then
 * YIELD is said, before anything else happens to the block. Where an ATOMIC_DONE is sent, the
 * atomic of that seat is done first.
 */
enum space_result space_home_step(const struct space_home *home, struct space_entry *entry,
                                  struct space_work *work, const struct space_message *event,
                                  struct space_out *out);

/* Whether what that seat asked for, or what the home's own clients want, is yet to be had. */
bool space_home_waits(const struct space_entry *entry, const struct space_work *work, uint8_t seat);

/* Of what is under way: the nodes that may yet hold the block, each of which was asked for it. */
uint64_t space_home_awaited(const struct space_entry *entry, const struct space_work *work);

bool space_work_is_idle(const struct space_entry *entry, const struct space_work *work);

const char *space_home_state_name(uint8_t state);
const char *space_home_state_what(uint8_t state);
const char *space_home_event_name(uint8_t event);
const char *space_home_event_what(uint8_t event);
enum space_from space_home_event_from(uint8_t event);
bool space_home_event_has_bytes(uint8_t event);

/* NULL: a hole. */
const struct space_row *space_home_row(uint8_t state, uint8_t event);

/* The home's own bytes may be read; written. */
static inline bool space_entry_is_readable(const struct space_entry *entry)
{
    return entry->state == SPACE_HOME_UNSHARED || entry->state == SPACE_HOME_SHARED ||
           entry->state == SPACE_HOME_CLEARING || entry->state == SPACE_HOME_GRANTING;
}

static inline bool space_entry_is_writable(const struct space_entry *entry)
{
    return entry->state == SPACE_HOME_UNSHARED;
}

/* The home's memory has no bytes that count: those that are on their way may land there. */
static inline bool space_entry_is_bare(const struct space_entry *entry)
{
    return entry->state == SPACE_HOME_DIRTY || entry->state == SPACE_HOME_RECALLING ||
           entry->state == SPACE_HOME_DEMOTING || entry->state == SPACE_HOME_SHARING ||
           entry->state == SPACE_HOME_PASSING || entry->state == SPACE_HOME_BARE ||
           entry->state == SPACE_HOME_CLAIMED || entry->state == SPACE_HOME_AWAY;
}

bool space_entry_is_valid(const struct space_home *home, const struct space_entry *entry,
                          const struct space_work *work);

#endif
