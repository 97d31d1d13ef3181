/* SPDX-License-Identifier: Apache-2.0 */
/* Deletes that clients of this node ask for (exchange_erase.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_ERASE_H
#define OBJECT_EXCHANGE_ERASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap_timer.h"
#include "base/list.h"
#include "object/exchange_hear.h"

struct exchange;
struct exchange_link;
struct outside_news;
struct rpc_request;

enum erase_state {
    ERASE_FREE = 0,
    ERASE_READY,
    ERASE_PAUSED,
    ERASE_ASKED
};

/* A delete that a client of this node asked for. */
struct erase {
    struct list_node place; /* ready list, free list, or `crowded` of a link */
    struct timer timer;
    struct exchange *exchange;
    uint32_t generation; /* grows with every use of the record */
    enum erase_state state;
    uint32_t pool;
    struct directory_key key;
    uint64_t hash;
    uint32_t home;
    bool had;                   /* an object of the id was here, and is deleted */
    bool is_heard;              /* all members were, since the directory outside knew of none */
    bool is_unsure;             /* and one of them could not say */
    struct exchange_link *link; /* ASKED, of another node */
    struct unheard unheard;
    uint64_t deadline_us;
};

nigh_status erases_init(struct exchange *exchange);
void erases_fini(struct exchange *exchange);
bool erase_begin(void *context, uint32_t pool, const uint8_t *id, uint64_t hash, nigh_status local);
uint32_t erase_room(void *context);
void erase_deleted(struct exchange *exchange, uint64_t ticket, nigh_status status);
void erase_link_down(struct exchange_link *link);
void erase_on_drop(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
bool erase_turn(struct exchange *exchange, uint64_t now_us);
uint64_t erase_due_us(const struct exchange *exchange);
bool erases_are_idle(const struct exchange *exchange);

/* Tickets of directory_delete: whose delete it is. */
#define EXCHANGE_TICKET_PEER (UINT64_C(1) << 63) /* asked_delete; else erase */

void erase_told(struct exchange *exchange, const struct outside_news *news);
void erase_heard(struct exchange *exchange, uint64_t ticket, bool is_unsure, uint64_t now_us);

#endif
