/* SPDX-License-Identifier: Apache-2.0 */
/* Places of the memory that calls, answers and receives lie in (places.c): the steps that these
 * have in common. For libnigh alone; all locked, unless they say otherwise. */
#ifndef CLIENT_PLACES_H
#define CLIENT_PLACES_H

#include "client/client_internal.h"
#include "client/op.h"

/* Writes what an op submits to a place. */
typedef void place_fill(struct client_op *op, struct session_sqe *sqe);

/* The node gives each session places of its own. At open. */
void calls_own_places(nigh_client *client);
/* Whether who was opened read-only may ask what only looks: it has places of its own to write to.
 */
bool calls_may_look(const nigh_client *client);
/* Whether a lease beside the own ones is not used; and gives it back. Locked. */
bool calls_may_rest(const nigh_client *client, uint32_t lane);
void calls_rest(nigh_client *client, uint32_t lane);
/* What lies at a place that a submission named; NULL: no place begins there. Locked. */
uint8_t *calls_bytes(const nigh_client *client, uint32_t lane, uint64_t offset);
/* The answer to a CALL_LEASE. Locked. */
void calls_leased(nigh_client *client, uint32_t lane, const struct session_cqe *cqe);
/* A submission with bytes at this place has ended. Locked. */
void calls_give_place(nigh_client *client, uint32_t lane, uint64_t offset);
/* Nothing is under way any more, in a lane; for services that receive. Locked. */
void calls_reset(nigh_client *client, uint32_t lane);

/* The places of an op's lane. */
struct client_calls *places_of(const struct client_op *op);

/* op_kind.lane of what lies in one. */
uint32_t place_lane(struct client_op *op, size_t step);
/* Whether there is one, beside `kept` that are for others; also where none was asked for yet. */
bool place_is_free(const struct client_op *op, uint32_t kept);
/* The same, unless the memory is on its way. */
bool place_may_be_had(const struct client_op *op, uint32_t kept);
/* Its deadline has come. */
bool place_is_overdue(const struct client_op *op);
/* op_kind.has_room of calls: places are kept for answers. */
bool place_has_room(struct client_op *op);

/* Asks for the memory. */
void place_ask_memory(const struct client_op *op, struct session_sqe *sqe);
/* An op's place, from place_take to its end. */
uint8_t *place_bytes(const struct client_op *op);
/* Takes a place for an op: where its bytes go; and writes what the caller gave. */
uint8_t *place_take(struct client_op *op, struct session_sqe *sqe);
void place_write(const struct client_op *op, uint8_t *to);

/* op_kind.build: a submission, or before that the question for memory. */
bool place_build(struct client_op *op, struct session_sqe *sqe, place_fill *fill);
/* That was answered: whether there is memory now; and goes on, from within op_kind.done. */
bool place_came(struct client_op *op, const struct session_cqe *cqe);
bool place_goes_on(struct client_op *op, size_t step, const struct session_cqe *cqe,
                   place_fill *fill);

/* What ended of having no place says so: whether this did. */
bool place_explain(const struct client_op *op, nigh_status status);

/*
 * Starts a call or a receive. The client's first in its lane waits until the lane has granted
 * memory for it: its submission is made from here, for what is left to the next poll is not begun
 * as long as nobody polls. Not locked.
 */
nigh_status calls_start(struct client_op *op);

#endif
