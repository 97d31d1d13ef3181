/* SPDX-License-Identifier: Apache-2.0 */
/* What the rest of the exchange has to do with replicas; what these are is in exchange_replicas.h.
 */
#ifndef OBJECT_EXCHANGE_REPLICATION_H
#define OBJECT_EXCHANGE_REPLICATION_H

#include <stdbool.h>
#include <stdint.h>

#include "nigh/status.h"

struct birth;
struct directory_answer;
struct directory_key;
struct exchange;
struct exchange_link;
struct exchange_stats;
struct held_teller;
struct rpc_request;
struct store_sight;
struct wire_locate;

nigh_status replication_init(struct exchange *exchange);
void replication_fini(struct exchange *exchange);
void replication_pool_add(struct exchange *exchange, uint32_t pool);
struct held_teller *replication_make_teller(void);
void replication_link_up(struct exchange_link *link);
void replication_link_down(struct exchange_link *link);
void replication_member_dead(struct exchange *exchange, uint32_t rank);
/* Homes have moved, or a member counts again: others keep account of replicas. */
void replication_moved(struct exchange *exchange);
/* For replicas.h: whether a member keeps account of none. */
bool replication_is_out(void *context, uint32_t rank);
/* Something was sealed here. */
void replication_sealed(struct exchange *exchange, const struct store_sight *sight);
/* A birth is deleted here, or was dropped. */
void replication_gone(struct exchange *exchange, uint32_t pool, const uint8_t *id,
                      const struct birth *birth);
void replication_on_request(struct exchange_link *link, const struct rpc_request *request,
                            uint64_t now_us);
/* Whom to ask where a key is: its home, or while that is dead who keeps account of replicas. */
uint32_t replication_home(const struct exchange *exchange, uint64_t key_hash);
/* Whether this node is asked in a dead home's place; what it says then; and to a peer. */
bool replication_stands_in(const struct exchange *exchange, const struct directory_key *key);
/* NIGH_OK; NIGH_BUSY: it may hear of it yet; NIGH_PEER_LOST: it does not know, as what was known is
 * lost with the home. Then *answer says that it is not known yet. */
nigh_status replication_locate(struct exchange *exchange, uint32_t asker,
                               const struct directory_key *key, struct directory_answer *answer);
bool replication_on_locate(struct exchange_link *link, const struct rpc_request *request,
                           const struct wire_locate *locate);
/* Whether a holder is to be pulled from before another: less is on its way from it, or its link is
 * the quicker by what was measured. */
bool replication_is_nearer(const struct exchange *exchange, const struct exchange_link *link,
                           const struct exchange_link *than);
bool replication_turn(struct exchange *exchange, uint64_t now_us);
uint64_t replication_due_us(const struct exchange *exchange);
bool replication_is_idle(const struct exchange *exchange);
bool replication_is_valid(const struct exchange *exchange);
void replication_stats(const struct exchange *exchange, struct exchange_stats *stats);

#endif
