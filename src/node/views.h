/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node's part in deciding views (cluster/agree.h): a thread of its own, since what a voter says
 * must be on disk first, and the file in which that is kept.
 *
 * Its messages travel as others' do, over lane 0's channels for calls: what comes is handed in, and
 * what is to go is taken out, by that lane's driver. Every lane reads what is agreed, and until
 * when this node may serve by it, without a lock as long as nothing changes, and says what it has
 * adopted.
 */
#ifndef NODE_VIEWS_H
#define NODE_VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/agree.h"
#include "cluster/members.h"
#include "node/views_file.h"
#include "node/views_parts.h"

#define VIEWS_SHARE    32u                /* messages of one member that wait to be heard */
#define VIEWS_LEAVE_US UINT64_C(10000000) /* two elections, and what messages take */
#define VIEWS_TURN     64u                /* messages that are heard before all else has its turn */

struct views;

struct views_config {
    const struct members *members; /* outlives it */
    uint64_t dead_us;
    bool joins;       /* as agree_config has it */
    const char *name; /* that this node wants to be called; "": nothing; outlives it */
    uint32_t lanes;
    void (*kick)(void *context, uint32_t lane); /* a lane must look; from the thread */
    void *context;
};

/* The file is open, and outlives it: reads what was kept there. On failure `why` is a sentence
 * with a remedy: NIGH_CORRUPT, NIGH_VERSION, NIGH_DISK, ... Start-up thread, as the next three. */
nigh_status views_create(const struct views_config *config, struct views_file *file,
                         struct views **views, char *why, size_t why_bytes);
/* It takes part from here on, and others can reach it: what it says is kept, and the lanes may be
 * kicked. NIGH_DISK: it cannot be kept; NIGH_NO_RESOURCES: there is no thread. What was not kept
 * before is not then, either. */
nigh_status views_start(struct views *views);
/* Its thread has ended at the return: nobody is kicked any more. */
void views_stop(struct views *views);
void views_destroy(struct views *views);

/* ---- lane 0 --------------------------------------------------------------- */

/* A member said something; lost when there is no room, as messages may be: each member has some. */
void views_heard(struct views *views, uint32_t rank, const uint8_t *bytes, uint32_t count);

/* A member is dead. */
void views_dead(struct views *views, uint32_t rank);

/* This node leaves, or does not any more: its vote is handed on, if there is to whom. Any lane. */
void views_leave(struct views *views, bool leaves);
/* Whether it is at that still; it is not waited for above VIEWS_LEAVE_US. Any lane. */
bool views_is_leaving(struct views *views);

/* What came of somebody's wish to join. */
struct views_seat {
    nigh_status status; /* as agree_config.seated has it */
    uint32_t rank;
    struct agreed_roster roster;
};

/* Somebody at this address wants to join: true: *seat says how that ended, once. Asked again until
 * then. */
bool views_join(struct views *views, const char *address, struct views_seat *seat);

/* The seat of this rank is to be struck off: true: *status says how that ended, once. Asked again
 * until then. */
bool views_forget(struct views *views, uint32_t rank, nigh_status *status);

/* Whether that is decided, as far as known here. */
bool views_is_struck(const struct views *views, uint32_t rank);

/* Whether a member is one of those that vote, as far as known here: what these say was decided is
 * believed. */
bool views_is_voter(struct views *views, uint32_t rank);

/* Whom a seat was given, by what is decided; false: nobody, or this node has not heard of it yet.
 */
bool views_seat_of(struct views *views, uint32_t rank, char address[AGREED_ADDRESS_BYTES]);

/* The next to send, of at most VIEWS_FRAME_BYTES: a message, or a part of one that is longer; its
 * bytes, the caller's to free; NULL: there is none. */
uint8_t *views_take(struct views *views, uint32_t *rank, uint32_t *count);

/* ---- any lane ------------------------------------------------------------- */

/* Changes with what is agreed; starts at 0, when nothing is. */
uint64_t views_version(const struct views *views);

/* What is agreed, and the version that it is of. */
uint64_t views_read(struct views *views, struct agreed *agreed);

/* Until when this node may ask and serve as of that version; 0: not, or it is not the present one.
 */
uint64_t views_lease_us(const struct views *views, uint64_t version);

/* The lane serves and asks by this epoch from now on. */
void views_adopted(struct views *views, uint32_t lane, uint64_t epoch);

/* ---- any thread ----------------------------------------------------------- */

void views_look(struct views *views, struct agree_look *look);

/* What a rank is called, as far as known here; "": nothing. */
void views_name_of(struct views *views, uint32_t rank, char name[AGREED_NAME_BYTES]);

/* Whether another has the name that this node wants: so it has none. */
bool views_name_is_taken(struct views *views);

#endif
