/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pull and its states (exchange_pull.c), where it asks for what it is to pull
 * (exchange_locate.c), and what it does next (exchange_steps.c). For the exchange alone.
 */
#ifndef OBJECT_EXCHANGE_PULL_H
#define OBJECT_EXCHANGE_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap_timer.h"
#include "base/list.h"
#include "cluster/directory.h"
#include "object/exchange_figures.h"
#include "object/exchange_wire.h"
#include "object/tree.h"

struct exchange;
struct exchange_link;
struct outside_news;

enum pull_state {
    PULL_FREE = 0,
    PULL_READY,     /* in exchange.ready: something can be done */
    PULL_PAUSED,    /* until its timer */
    PULL_LOCATING,  /* a LOCATE is under way */
    PULL_WAITING,   /* the home will tell; its timer asks again */
    PULL_MEMORY,    /* waits for memory; in exchange.ready or a line of exchange.admission */
    PULL_ASKING,    /* a PULL is under way */
    PULL_STREAMING, /* messages come */
    PULL_READING,   /* READs are under way */
    PULL_SUMMING,   /* a DONE is under way: its reply has the sums */
    PULL_DRAINING,  /* given up, or to be tried elsewhere, once its READs are over */
    PULL_STATES
};

/* Where a loan lies; or one that is kept for the next. */
union piece_run {
    struct wire_piece pieces[EXCHANGE_PIECES];
    union piece_run *next;
};

struct pull {
    struct list_node bucket; /* of exchange.buckets; free list */
    struct list_node
        place; /* ready, a line of admission, a link's pulls; PAUSED, WAITING: resting, roused */
    struct timer timer;
    struct exchange *exchange;
    uint32_t generation;
    enum pull_state state;
    uint32_t pool;
    struct directory_key key;
    uint64_t hash;     /* of the id */
    uint64_t key_hash; /* of the key */
    uint32_t home;
    bool wanted;
    bool keep; /* by somebody who wants a copy */
    uint64_t deadline_us;
    uint32_t attempts;

    bool known; /* answer says where */
    struct directory_answer answer;
    uint32_t tried; /* bits of answer.holders */
    uint32_t holder;

    struct exchange_link *link; /* of the call, stream or reads under way */
    uint32_t asked_home;        /* by the last LOCATE */
    bool cut_off;               /* there is no quorum: the store knows, as it does of memory */

    bool has_memory;
    struct directory_object begun; /* whose bytes lie there */
    bool short_of;    /* memory: the store knows, and tells those who wait at their deadlines */
    bool is_next;     /* it was the first to wait for admission, and has its turn */
    bool in_line;     /* it waits for admission */
    uint64_t number;  /* of those that did: the lesser came first */
    bool admitted;    /* counted in exchange.pull_bytes */
    uint32_t charged; /* the rank of the holder whose share it is in */
    uint32_t entry;
    uint64_t offset;
    uint64_t bytes;   /* of memory */
    uint64_t content; /* of the object as it travels: data, metadata, name */

    uint64_t serve;       /* the holder's number; 0: none */
    union piece_run *run; /* READING: where it lies; NULL: no loan was read yet */
    uint32_t piece_count;
    uint32_t piece;    /* that the next READ is of */
    uint64_t piece_at; /* the offset that it begins at */
    uint64_t posted;   /* bytes asked for */
    uint64_t received; /* contiguous, and summed as far as they are data */
    uint32_t reads;    /* under way */
    uint32_t in_order; /* ... and those that were over before one that was posted first */
    uint32_t first_read, last_read; /* of these, while there are any */
    uint64_t renew_us;
    uint64_t heard_us; /* the holder did something for this transfer */
    uint32_t credits;  /* messages that the holder may still send */
    bool streams;      /* ASKING, LOCATING: for messages */
    bool pushes;       /* they are written into windows, one for each credit */
    uint32_t held;     /* LOCATING: messages that wait for its answer */
    bool last;         /* of them has come */
    uint32_t crc;
    struct wire_sums sums;
    uint32_t spoilt;

    uint64_t asked_us;  /* the first message to who serves it: its transfer is timed; 0: not */
    uint64_t crossover; /* what was said then; 0: nothing */
    bool located;       /* that message was a LOCATE */
    enum wire_way way;

    struct tree_climb climb;
    uint32_t children; /* serves of what lies here so far */
    bool sent;         /* the holders of the answer are those that a holder sent it to, */
    struct directory_answer told; /* and these are those that its home had told of */
    bool partial;                 /* READING: its loan may cover more when it asks */
    bool mixed;                   /* bytes came from who had not seen their sums agree */

    bool noted;   /* the home counts this node as a holder already */
    bool doubted; /* it may not any more, whatever it answered: it is told of a copy */
};

/* A READ under way. */
struct pull_read {
    struct pull *pull; /* stays this one's until it has ended */
    uint64_t offset;
    uint64_t bytes;
    uint32_t next; /* free list, or posted after it by the same pull */
    bool is_over;  /* its bytes wait for those before them */
};

/* ---- exchange_pull.c ------------------------------------------------------ */

nigh_status pulls_init(struct exchange *exchange);
void pulls_fini(struct exchange *exchange);
void pull_want(void *context, uint32_t pool, const uint8_t *id, uint64_t hash, uint64_t deadline_us,
               bool keep);
void pull_unwant(void *context, uint32_t pool, const uint8_t *id, uint64_t hash);
void pull_link_down(struct exchange_link *link, uint64_t now_us);
/* The link to a home is up: who waits there asks again. */
void pull_home_up(struct exchange *exchange, uint32_t rank);
/* Homes have moved: those that wait for one ask the new one. */
void pull_homes_moved(struct exchange *exchange);
/* Whether there is a pull of a key. */
bool pull_is_under_way(struct exchange *exchange, const struct directory_key *key);
bool pulls_are_valid(const struct exchange *exchange);

struct pull *pull_of_tag(struct exchange *exchange, uint64_t tag);
struct pull *pull_of_key(struct exchange *exchange, const struct directory_key *key);
uint64_t pull_tag(const struct exchange *exchange, const struct pull *pull);
/* It begins again, with other memory. */
void pull_drop_memory(struct exchange *exchange, struct pull *pull);
void pull_ready(struct exchange *exchange, struct pull *pull);
void pull_pause(struct exchange *exchange, struct pull *pull);
void pull_leave(struct exchange *exchange, struct pull *pull);
void pull_set_link(struct pull *pull, struct exchange_link *link, enum pull_state state);
void pull_set_timer(struct exchange *exchange, struct pull *pull, uint64_t after_us);
/* It does nothing until its timer, or until there is news of its home. */
void pull_rest(struct exchange *exchange, struct pull *pull, enum pull_state state,
               uint64_t after_us);
/* Whether memory for it is missing, which its waiters end with at their deadlines. */
void pull_note_memory(struct exchange *exchange, struct pull *pull, nigh_status late);
/* This holder did not do: the next. */
void pull_next_holder(struct exchange *exchange, struct pull *pull);
/* There is no copy here, though its home was right to expect one: says so. Nothing if not noted. */
void pull_unnote(struct exchange *exchange, struct pull *pull);
/* This node says of a key that it does not hold it: what its home noted before is not true any
 * more. */
void pull_doubt(struct exchange *exchange, const struct directory_key *key);
/* Or will say so of all that it does not name again. */
void pull_doubt_all(struct exchange_link *link);
/* Ends a pull that has nothing under way. */
void pull_end(struct exchange *exchange, struct pull *pull);

/* ---- exchange_locate.c ---------------------------------------------------- */

/* Asks where it is: its home, or the directory outside. */
void pull_locate(struct exchange *exchange, struct pull *pull);
/* Its home (anybody else is not believed) says where an object is. */
void pull_found(struct exchange *exchange, uint32_t from, const struct directory_key *key,
                const struct directory_answer *answer);
/* The directory outside has answered a LOCATE. */
void pull_told(struct exchange *exchange, const struct outside_news *news);
/* It has told that somebody has an object now: it is asked who. */
void pull_rouse(struct exchange *exchange, const struct directory_key *key);

/* ---- exchange_steps.c ----------------------------------------------------- */

bool pull_turn(struct exchange *exchange, uint64_t now_us);
uint64_t pull_due_us(const struct exchange *exchange);
/* Memory for the object that the answer tells of, if not there yet: see store_pull_begin. */
nigh_status pull_take_memory(struct exchange *exchange, struct pull *pull);
/* The same with admission. False: the pull waits for it, or has ended. */
bool pull_get_memory(struct exchange *exchange, struct pull *pull);
/* Memory with bytes of another birth than the answer tells of goes. */
void pull_forget_memory(struct exchange *exchange, struct pull *pull);
/* There is a copy here now: says so, unless its home has noted it. */
void pull_announce(struct exchange *exchange, struct pull *pull);

#endif
