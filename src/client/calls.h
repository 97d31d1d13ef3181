/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of services: what calls.c, near.c, bulk.c and what carries calls share. For libnigh alone.
 */
#ifndef CLIENT_CALLS_H
#define CLIENT_CALLS_H

#include "client/op.h"

/* What a service's name is called by. NIGH_INVALID: it is none. */
nigh_status calls_hash(const char *name, uint64_t *hash);

/* Whether the node is the one that had this number. Locked where it matters. */
bool calls_is_now(const nigh_client *client, uint32_t incarnation);

/* A request's second word: its lane, and above it the node that has it. */
uint64_t calls_where(const nigh_client *client, uint32_t lane);

/* What a spec has had, as it grew: to with bulks, and to with answered. */
#define CALL_SPEC_BULKS    offsetof(nigh_call_spec, answered)
#define CALL_SPEC_ANSWERED (offsetof(nigh_call_spec, answered) + sizeof(uint32_t))

/* How many pieces of memory a call brings; none where its struct is of before there were any. */
uint32_t calls_bulk_count(const nigh_call_spec *spec);
/* Writes what a call brings in front of its request; how many bytes that takes. */
uint32_t calls_fill_bulks(const nigh_call_spec *spec, uint8_t *to);
/* Its end is what the service said. */
void calls_answered(struct client_op *op);
/* Whether a call may bring that. */
nigh_status calls_check_bulks(nigh_client *client, const nigh_call_spec *spec);

/* A call of any server of a name whose spec says NIGH_NEAREST: *op finds out first whom to ask. */
nigh_status calls_near_init(nigh_client *client, nigh_call_spec *spec, struct client_op *op);
/* Whom it is asked of first, once that is known. */
void calls_fill_near(const nigh_call_spec *spec, struct session_near *near);

extern const struct op_kind call_kind;
/* Why a call has failed, for nigh_client_error. */
nigh_status calls_explain(const struct client_op *op, nigh_status status);

#endif
