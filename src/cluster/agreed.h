/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the members agree on, as a state machine: which ranks are homes, since which epoch, who may
 * still serve as of an earlier one, who has joined, and what the members are called
 * (docs/views.md). The same commands in the same order make the same state; Raft (agree.h) decides
 * which those are.
 *
 * Pure; any thread.
 */
#ifndef CLUSTER_AGREED_H
#define CLUSTER_AGREED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

#define AGREED_WORDS         (LIMIT_NODES / 64)
#define AGREED_ADDRESS_BYTES 80                 /* "[ipv6]:port" and its terminator */
#define AGREED_SEATS         (LIMIT_NODES - 1u) /* that may ever be given, behind the list */
#define AGREED_NAME_BYTES    32                 /* of a member, and its terminator */

/* Ranks. */
struct agreed_set {
    uint64_t words[AGREED_WORDS];
};

struct agreed {
    uint64_t epoch;         /* of the view; 0: nothing is agreed yet */
    uint64_t active;        /* the last epoch that was active */
    struct agreed_set in;   /* homes */
    struct agreed_set wary; /* may still serve as of an epoch since the active one */
};

/* Who there is. Seats: who joined, in that order: the first has the rank behind the list, and so
 * on. A seat that is taken stays its taker's until it is struck off, and is nobody's then: what was
 * of a rank is never another's, as objects are told apart by it. Names: of whoever wants one, by
 * rank. */
struct agreed_roster {
    uint64_t changes; /* commands that changed it: of two the one with more is later */
    uint64_t count;   /* of seats that were ever given */
    char addresses[AGREED_SEATS][AGREED_ADDRESS_BYTES]; /* "": it is struck off */
    char names[LIMIT_NODES][AGREED_NAME_BYTES];         /* "": none */
};

enum agreed_kind {
    AGREED_SET = 1,      /* epoch: on top of which; in: the next view */
    AGREED_ACTIVATE = 2, /* epoch: which is active now */
    AGREED_SEAT = 3,     /* epoch: how many seats were given before; address: whose the next is */
    AGREED_NAME = 4,     /* epoch: a rank; address: what it is called from now on, "" for nothing */
    AGREED_FORGET = 5    /* epoch: a rank of a seat; address: whose it is, and is no more */
};

/* A command, as it lies in the log. All numbers little-endian. */
struct agreed_command {
    uint64_t kind;
    uint64_t epoch;
    struct agreed_set in;
    char address[AGREED_ADDRESS_BYTES];
};

/* A roster as bytes: this, the addresses of the seats, the names. All numbers little-endian. */
struct agreed_roster_head {
    uint64_t changes;
    uint64_t seats;
    uint64_t names;
};

struct agreed_name_record {
    uint32_t rank; /* above that of the one before */
    char name[AGREED_NAME_BYTES];
};

#define AGREED_ROSTER_BYTES                                                    \
    (sizeof(struct agreed_roster_head) + AGREED_SEATS * AGREED_ADDRESS_BYTES + \
     LIMIT_NODES * sizeof(struct agreed_name_record))

_Static_assert(sizeof(struct agreed_name_record) == 36, "it is on the wire and on disk");
_Static_assert(sizeof(struct agreed) == 80, "it is on the wire and on disk");
_Static_assert(sizeof(struct agreed_command) == 128, "it is on the wire and on disk");

static inline bool agreed_has(const struct agreed_set *set, uint32_t rank)
{
    return (set->words[rank / 64] >> (rank % 64) & 1) != 0;
}

static inline void agreed_put(struct agreed_set *set, uint32_t rank, bool is)
{
    uint64_t bit = UINT64_C(1) << (rank % 64);

    set->words[rank / 64] = is ? set->words[rank / 64] | bit : set->words[rank / 64] & ~bit;
}

static inline bool agreed_same(const struct agreed_set *one, const struct agreed_set *other)
{
    for (uint32_t n = 0; n < AGREED_WORDS; n++) {
        if (one->words[n] != other->words[n]) {
            return false;
        }
    }
    return true;
}

/* Ranks below count. */
struct agreed_set agreed_all(uint32_t count);
uint32_t agreed_size(const struct agreed_set *set);

/* The first view: all of the list, active. */
void agreed_init(struct agreed *agreed, uint32_t count);

/* Carries a command out. NIGH_BUSY: it was meant for another epoch, or the seat is taken, and
 * changes nothing; NIGH_INVALID: it is none, or its view has nobody of `count` ranks in it, or
 * somebody else. */
nigh_status agreed_apply(struct agreed *agreed, uint32_t count,
                         const struct agreed_command *command);
/* The same of AGREED_SEAT; NIGH_NO_RESOURCES: of so many seats none is left. */
nigh_status agreed_seat(struct agreed_roster *roster, uint32_t most,
                        const struct agreed_command *command);
/* The same of AGREED_NAME, where the list names so many. NIGH_EXISTS: another is called that;
 * NIGH_BUSY: it is called that already; NIGH_INVALID: it is no name, or the rank is nobody's. */
nigh_status agreed_name(struct agreed_roster *roster, uint32_t listed,
                        const struct agreed_command *command);

/* The same of AGREED_FORGET. NIGH_BUSY: the seat's member is in the view, or may serve still;
 * NIGH_INVALID: it is no seat that is somebody's, or not that one's. */
nigh_status agreed_forget(struct agreed_roster *roster, const struct agreed *agreed,
                          uint32_t listed, const struct agreed_command *command);

/* Whether the seat of this rank was given, and struck off since. */
bool agreed_is_struck(const struct agreed_roster *roster, uint32_t listed, uint32_t rank);
/* All such ranks. */
struct agreed_set agreed_struck(const struct agreed_roster *roster, uint32_t listed);

/* Whether a set has a rank that the other has, too. */
bool agreed_meets(const struct agreed_set *one, const struct agreed_set *other);

/* Whether it can be somebody's: text that ends within it, and nothing behind its end. */
bool agreed_is_address(const char address[AGREED_ADDRESS_BYTES]);

/* Whether a member can be called that: a letter, and behind it letters, digits, '-', '_' and '.';
 * so that no name can be taken for a rank, or for a list. */
bool agreed_is_name(const char *text);

/* Which seat has this address; AGREED_SEATS: none. */
uint32_t agreed_seat_of(const struct agreed_roster *roster, const char *address);

/* Which rank is called that; LIMIT_NODES: none. */
uint32_t agreed_rank_of(const struct agreed_roster *roster, const char *name);

/* As bytes: the seats that were given, and the names that there are. At most AGREED_ROSTER_BYTES.
 */
size_t agreed_roster_bytes(const struct agreed_roster *roster);
void agreed_roster_write(const struct agreed_roster *roster, uint8_t *out);
/* Reads what came from elsewhere, where the list names so many, and at most so many may join;
 * false: it cannot be. */
bool agreed_roster_read(const uint8_t *bytes, size_t count, uint32_t listed, uint32_t most,
                        struct agreed_roster *roster);

/* Whether a state that came from elsewhere can be one. */
bool agreed_is_valid(const struct agreed *agreed, uint32_t count);

/* Whether `other` is later: of a higher epoch, or active where `agreed` is not. */
bool agreed_is_older(const struct agreed *agreed, const struct agreed *other);

#endif
