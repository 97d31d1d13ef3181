/* SPDX-License-Identifier: Apache-2.0 */
/* The rings of a session: submissions and completions (ring.c). For libnigh alone. */
#ifndef CLIENT_RING_H
#define CLIENT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/session.h"
#include "nigh/nigh.h"

struct client_lane;
struct client_op;

/* All locked. */
/* Whether there is a place, and `most` others at most would wait: UINT32_MAX for what does not
 * wait. */
bool ring_has_room(const nigh_client *client, uint32_t lane, uint32_t most);
void ring_submit(nigh_client *client, uint32_t lane, struct client_op *op, size_t step, bool waits,
                 struct session_sqe *sqe);
/* The same in two: holds a place (its number) for a submission that is sent later, or dropped. */
uint16_t ring_hold(nigh_client *client, uint32_t lane, struct client_op *op, size_t step);
void ring_send(nigh_client *client, uint32_t lane, uint16_t number, struct session_sqe *sqe);
void ring_drop(nigh_client *client, uint32_t lane, uint16_t number);
/* The node is gone, and a created object will not be sealed: the next one hears of it (ring_pay).
 * There is a place. */
void ring_owe(nigh_client *client, uint32_t lane, uint32_t ref);
void ring_pay(nigh_client *client);
/* Tells the lanes submitted to. */
void ring_flush(nigh_client *client);

/* Rings those of the lanes that sleep. Any thread. */
void ring_bells(nigh_client *client, uint64_t lanes);
/* Takes in completions, feeds what found no room; *self's own end is not told to itself. */
void ring_take_in(nigh_client *client, const struct client_op *self);
/* Takes in what a node that is gone had completed before. From client_let_go only. */
void ring_take_last(nigh_client *client);
/* Tells the lane that the op is given up, and leaves its end to the answer. False: it is not there.
 */
bool ring_cancel(nigh_client *client, const struct client_op *op);
/* Gives up what *op has in the lanes; its memory is not looked at again. */
void ring_forget(nigh_client *client, struct client_op *op);
/* Undoes a result that nobody waits for. */
void ring_undo(nigh_client *client, uint32_t lane, uint8_t opcode, const struct session_cqe *cqe);
/* Ends a handle of a region, or a map, that nobody has. There is a place. */
void ring_undo_region(nigh_client *client, uint32_t lane, enum session_region_what what,
                      uint64_t number);
/* Wakes threads that sleep, because an op of theirs may have ended. */
void ring_tell(nigh_client *client);
/* Forgets everything submitted: the session's rings begin anew. */
void ring_reset(nigh_client *client);
void ring_init_lane(struct client_lane *lane);

/* Not locked: whether a lane has completions, or an event ring events, that nobody took. */
bool ring_has_completions(const nigh_client *client);
bool ring_has_events(const nigh_client *client);

#endif
