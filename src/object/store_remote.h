/* SPDX-License-Identifier: Apache-2.0 */
/* What the store has to do with other nodes: what it tells them and lends (store_remote.c), wants
 * from them (store_want.c), and takes in (store_pull.c). For the store alone. */
#ifndef OBJECT_STORE_REMOTE_H
#define OBJECT_STORE_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "object/store.h"

struct store;
struct store_call;
struct store_pool;
struct store_waiter;

/* Failures of reads that a holder remembers until it is asked for the object again. */
#define STORE_LOST_READS 16u
#define STORE_LOST_US    LIMIT_UNSPILL_US /* who asks later asks for a new attempt */

struct store_lost_read {
    uint64_t generation; /* 0: none */
    uint64_t at_us;
    uint32_t pool;
    nigh_status status;
};

/* Pulls that did not fit yet, of which it is known what was evicted for them in vain. */
#define STORE_SPENT_PULLS 8u
#define STORE_SPENT_US    1000000u /* and that is forgotten when nobody asks for so long */

struct store_spent {
    uint64_t hash;
    uint64_t bytes;
    uint64_t asked_us;
};

/* ---- store_remote.c ------------------------------------------------------- */

/* What a call of the other nodes that may free something begins with. */
void store_begin(struct store *store, uint64_t now_us);
/* An object as other nodes see it, and whether it is of a birth. */
struct store_sight store_sight_of(const struct store *store, const struct store_pool *pool,
                                  uint32_t entry, uint64_t hash);
bool store_is_birth(const struct store *store, const struct store_pool *pool, uint32_t entry,
                    const struct birth *birth);
/* What the other nodes hear of an object: that it was born; that it is no longer here (said while
 * it still is). */
void store_tell_sealed(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
void store_tell_gone(struct store *store, struct store_pool *pool, uint32_t entry, uint64_t hash);
/* A spilled object could not be read back: its next borrower is told. */
void store_note_lost(struct store *store, const struct store_pool *pool, uint32_t entry,
                     nigh_status status);

/* ---- store_want.c --------------------------------------------------------- */

/* Asks other nodes for what somebody waits for; for what those wait for who wait for an id. */
void store_want(struct store *store, const struct store_waiter *waiter);
void store_want_id(struct store *store, struct store_pool *pool, const uint8_t *id, uint64_t hash);
/* Whether somebody waits for an id to come from other nodes. */
bool store_is_wanted(struct store *store, const struct store_pool *pool, const uint8_t *id,
                     uint64_t hash);
/* Sets and clears flags of a sealed object in memory or on disk, of which some keep it in memory.
 */
void store_set_stays(struct store *store, struct store_pool *pool, uint32_t entry, uint16_t set,
                     uint16_t clear);
/* The same; *keep: by somebody who wants a copy. */
bool store_is_wanted_how(struct store *store, const struct store_pool *pool, const uint8_t *id,
                         uint64_t hash, bool *keep);
/* Nobody does any more; the same if `waiter`, which is about to leave, is the last. */
void store_unwant_id(struct store *store, const struct store_pool *pool, const uint8_t *id,
                     uint64_t hash);
void store_unwant(struct store *store, const struct store_waiter *waiter);
/* Begins a delete at other nodes, or lets it stand behind one of the same id. False: there is
 * nobody to ask, and what came of it here is its end. */
/* Whether one more delete may begin: it has room at the other nodes when it comes to them. */
bool store_may_erase(const struct store *store);
bool store_erase(struct store *store, const struct store_pool *pool, const uint8_t *id,
                 uint64_t hash, nigh_status local, bool *behind);
/* A delete is forgotten before the other nodes were asked: they are, for nobody. */
void store_unerase(struct store *store, const struct store_waiter *waiter);

/* ---- store_pull.c --------------------------------------------------------- */

/* Nobody is served with the transient copies of a call's id any more. Whether some are held. */
bool store_end_transients(struct store_call *call);

#endif
