/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block at a node that caches it, as a machine: what is here of it, what was asked of its home,
 * who holds it, and what is owed (docs/spaces.md). The table is cache_table.h.
 *
 * It has no bytes, no clients and no channel: it says what to send, and when to try again what
 * waits. Pure; nothing is allocated; one lane.
 */
#ifndef SPACE_CACHE_H
#define SPACE_CACHE_H

#include "space/cache_table.h"
#include "space/message.h"

#define SPACE_NONE_OF(...)
#define SPACE_CACHE_EVENT(name, from, has_bytes, what) SPACE_CACHE_##name,
#define SPACE_CACHE_STATE(name, what, ...)             SPACE_CACHE_##name,
enum space_cache_event {
    SPACE_CACHE_TABLE(SPACE_CACHE_EVENT, SPACE_NONE_OF, SPACE_NONE_OF) SPACE_CACHE_EVENTS
};
enum space_cache_state {
    SPACE_CACHE_TABLE(SPACE_NONE_OF, SPACE_NONE_OF, SPACE_CACHE_STATE) SPACE_CACHE_STATES
};
#undef SPACE_CACHE_EVENT
#undef SPACE_CACHE_STATE

/* Clients that hold a block to read; or this, for one that holds it alone. */
#define SPACE_HELD_ALONE UINT8_MAX

/* What a node knows of one home. */
struct space_cache {
    uint32_t term;
    uint8_t self, home; /* seats */
    bool is_open;       /* the home serves in this term */
};

/* A zeroed line is of a block of which nothing is here: it need not be. */
struct space_line {
    uint8_t state;
    uint8_t holds;
    bool wants_read, wants_write; /* somebody waits */
    uint8_t owed;                 /* enum space_cache_event: what the home wants; 0: nothing */
    uint8_t owed_whom;
    uint8_t handed_to; /* HANDED: to whom */
    bool is_homes;     /* to read, and the home gave it in this term: it has the bytes, too */
    bool is_restored;  /* to read, given back as a term began, and none was open since */
    bool is_away;      /* given up, and kept for one that may come back: nobody is served */
    struct space_epoch epoch;
    uint32_t frame; /* the caller's: where the bytes are, or are to come; set before an ask */
    uint32_t owed_frame;
};

/*
 * One event. `event->seat` is who sent it, known by its link. DONE, WAITS and GONE are of clients'
 * asks: one that waits is tried again when `out` wakes, and whoever asks in the mean time comes
 * behind. All that `out` says is done before anything else happens to the block.
 */
enum space_result space_cache_step(const struct space_cache *cache, struct space_line *line,
                                   const struct space_message *event, struct space_out *out);

const char *space_cache_state_name(uint8_t state);
const char *space_cache_state_what(uint8_t state);
const char *space_cache_event_name(uint8_t event);
const char *space_cache_event_what(uint8_t event);
enum space_from space_cache_event_from(uint8_t event);
bool space_cache_event_has_bytes(uint8_t event);

/* NULL: a hole. */
const struct space_row *space_cache_row(uint8_t state, uint8_t event);

/* What is here may be read; written. */
static inline bool space_line_is_readable(const struct space_line *line)
{
    return line->state == SPACE_CACHE_SHARED || line->state == SPACE_CACHE_DIRTY ||
           line->state == SPACE_CACHE_UPGRADING;
}

static inline bool space_line_is_writable(const struct space_line *line)
{
    return line->state == SPACE_CACHE_DIRTY;
}

/* Its frame is its own: nothing else may lie there. */
static inline bool space_line_has_frame(const struct space_line *line)
{
    return line->state != SPACE_CACHE_INVALID && line->state != SPACE_CACHE_AT_HOME &&
           line->state != SPACE_CACHE_FRAMELESS;
}

bool space_line_is_valid(const struct space_line *line);

#endif
