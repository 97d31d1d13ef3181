/* SPDX-License-Identifier: Apache-2.0 */
/* What a holder serves its peers (exchange_serve.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_SERVE_H
#define OBJECT_EXCHANGE_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "nigh/status.h"
#include "object/exchange_wire.h"

struct exchange;
struct exchange_link;
struct fabric_memory;
struct pull;
struct rpc_request;

struct serve {
    struct list_node place; /* of its link, or the free list */
    struct list_node work;  /* exchange.serving: something to send or to sum */
    struct list_node twin;  /* of exchange.lent: with others of its object */
    uint32_t generation;    /* 0: free and never used */
    struct exchange *exchange;
    struct exchange_link *link;
    bool used;
    uint32_t pool;
    uint32_t entry;
    uint64_t offset;
    uint64_t content; /* bytes that travel */
    uint64_t data_size;
    enum wire_way way;
    uint64_t tag;
    uint64_t sent;
    uint32_t credits;
    struct wire_window
        *windows;    /* PUSH: a ring of config.bulk_receives, `credits` of them granted */
    uint32_t window; /* the first */
    struct fabric_memory *memory; /* LOAN, with EXCHANGE_REGISTER: registered for it */
    uint32_t sends;               /* under way */
    uint64_t summed;
    uint32_t crc;
    struct wire_sums sums;
    uint64_t done_call; /* a DONE waits for the sums; 0: none */
    struct directory_object object;
    uint64_t ready;          /* LOAN: bytes that are there */
    uint64_t relay;          /* tag of the pull that these come with; 0: all are there */
    nigh_status cut;         /* why no more come; NIGH_OK: not so */
    struct list_node parked; /* of exchange.parked, with a call that waits for more or for sums */
    uint64_t parked_call;    /* wants to go on; 0: none */
    uint64_t parked_us;
    uint64_t from;     /* and from here */
    uint32_t guests;   /* pullers that were sent to its peer */
    bool stopped;      /* its puller wants no more messages */
    bool last;         /* the last message is sent */
    uint64_t heard_us; /* of a loan: its puller said something */
};

nigh_status serves_init(struct exchange *exchange);
void serves_fini(struct exchange *exchange);
/* Serves an object to a peer, in a reply to its call, to a LOCATE or to a PULL. windows: what a
 * WIRE_PUSH goes to at first, `credits` of them. notes: this is the home, and may count the peer as
 * a holder. NIGH_OK: replied; else nothing was said. */
nigh_status serve_reply(struct exchange_link *link, uint64_t call, const struct wire_pull *wanted,
                        const struct wire_window *windows, bool notes, uint64_t now_us);
/* Copies the windows out that follow `head_bytes` of a request. False: they are not as many. */
bool serve_windows(const struct rpc_request *request, uint32_t head_bytes, uint32_t count,
                   struct wire_window windows[WIRE_WINDOWS]);
void serve_on_pull(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void serve_on_more(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void serve_on_done(struct exchange_link *link, const struct rpc_request *request, uint64_t now_us);
void serve_link_down(struct exchange_link *link);
bool serve_turn(struct exchange *exchange, uint64_t now_us);
uint64_t serve_due_us(const struct exchange *exchange);

/* Serves of one object, among others. */
struct list *serve_lent(struct exchange *exchange, uint32_t pool, uint32_t entry);
struct serve *serve_of_number(struct exchange_link *link, uint64_t number);
/* A serve of what a pull has so far, which is lent already. NULL: the peer has enough. */
struct serve *serve_of_pulled(struct exchange_link *link, const struct wire_pull *wanted,
                              const struct pull *pull, uint64_t now_us);
/* What is there of a loan from an offset on. */
void serve_reply_loan(struct serve *serve, uint64_t call, struct wire_pulled *pulled,
                      uint64_t from);
/* Answers the DONE that waits; the serve ends. */
void serve_answer_done(struct exchange *exchange, struct serve *serve);
void serve_over(struct exchange *exchange, struct serve *serve);

#endif
