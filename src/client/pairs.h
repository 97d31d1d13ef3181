/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs: calls of a service that another process of this machine serves, through memory that both
 * have, without the node (docs/session.md, "Pairs"). Here is what both sides keep of theirs; what
 * lies in the memory is memory/pair.h's. What is told of a pair never goes beyond it: whatever its
 * other side writes, it alone ends.
 */
#ifndef CLIENT_PAIRS_H
#define CLIENT_PAIRS_H

#include "client/op.h"
#include "memory/pair.h"

/* A tag of a pair: a call under way, or a request that was received and is not answered. */
struct pair_call {
    bool used;
    struct client_op *op; /* caller: NULL: nobody waits any more */
    uint32_t nonce;
    uint32_t number; /* caller: of its record */
    uint32_t room;   /* for the reply */
};

struct client_pair {
    struct pair_memory *memory; /* at its place of the window */
    uint64_t hash;
    uint32_t serial;
    uint32_t uid;
    uint32_t rank;
    int bell_fd;
    bool serves;
    bool is_open; /* caller: the server has taken it */
    nigh_service *service;
    struct pair_writer out;
    struct pair_reader in;
    uint32_t under_way;
    uint32_t reply_bytes; /* caller: of `data` that replies to come may take */
    uint32_t nonce;
    uint8_t free[LIMIT_PAIR_ENTRIES]; /* caller: tags, the last one used first */
    struct pair_call calls[LIMIT_PAIR_ENTRIES];
};

/* What threads look at without the lock. A place that once had a pair always has memory to be read:
 * who looks may be late, and then sees zeroes, or the next pair. */
struct pair_look {
    _Atomic(struct pair_half *) reads;
    _Atomic uint32_t head; /* as in.head */
};

struct client_pairs {
    void *window;            /* one place a pair, where there is always memory to be read */
    _Atomic uint64_t live;   /* places with a pair; written locked */
    _Atomic uint64_t wanted; /* of them, those whose next record somebody waits for; likewise */
    _Atomic uint64_t due_us; /* not after the first deadline; likewise */
    int epoll_fd;            /* readable: a bell rings, or a deadline has passed since the arming */
    int timer_fd;
    uint32_t next; /* served next */
    uint64_t owed; /* places that were let go, of which the node could not be told yet */
    struct pair_look look[LIMIT_SESSION_PAIRS];
    struct client_pair all[LIMIT_SESSION_PAIRS];
    uint8_t bytes[LIMIT_CALL_BYTES]; /* of the record that is looked at */
};

enum pairs_call {
    PAIRS_ELSEWHERE,
    PAIRS_UNDER_WAY,
    PAIRS_ENDED
};

/* All locked, unless they say otherwise. */

/* Takes a call, if there is a pair for it with room. PAIRS_ENDED: it wanted no answer. */
enum pairs_call pairs_call(struct client_op *op);
/* The same of a call that has not begun, and whose answer is waited for a moment. True: it has
 * begun or ended; op_await. Not locked. */
bool pairs_call_now(struct client_op *op, uint64_t timeout_us);
/* A call through the node was answered by this rank: asks for a pair. */
void pairs_learn(nigh_client *client, uint64_t hash, uint32_t rank);

/* The next request of a service. False: there is none. */
bool pairs_receive(nigh_service *service, nigh_request *request, void *buffer);
/* The same, and `waits` for it a moment. */
bool pairs_receive_now(nigh_service *service, nigh_request *request, void *buffer, bool waits);
/* Whether that is a request that came through a pair. Not locked. */
bool pairs_has_request(const nigh_request *request);
nigh_status pairs_reply(nigh_client *client, const nigh_request *request, nigh_status status,
                        const void *bytes, uint32_t size);
/* Receives of a service wait, or none does any more. */
void pairs_want(nigh_service *service);
/* The service ends. */
void pairs_unserve(nigh_service *service);

/* A pair, or why there is none, and its descriptors, which are taken over. */
void pairs_told(nigh_client *client, const struct session_pair *told, int fds[2]);
/* Takes in what came through pairs, and what the node has to say of them. */
void pairs_take_in(nigh_client *client);
/* A call is given up. */
void pairs_forget(struct client_op *op);
/* The session is over: each call that is under way, for who ends it; then the pairs. */
struct client_op *pairs_take_op(nigh_client *client);
void pairs_lose(nigh_client *client);
/* The client is closed; `child`: in a child. */
void pairs_free(nigh_client *client, bool child);

/* Whether there is something to take in; a deadline to look after; any pair at all. Not locked. */
bool pairs_are_ready(const nigh_client *client);
bool pairs_are_due(const nigh_client *client, uint64_t now_us);
bool pairs_any(const nigh_client *client);
void pairs_end_overdue(nigh_client *client, uint64_t now_us);
/* Not after the first deadline; UINT64_MAX: there is none. Not locked. */
uint64_t pairs_due_us(const nigh_client *client);

/* The descriptor that is readable when another side rings; -1: none rings. Not locked. */
int pairs_bell(const nigh_client *client);
/* A thread is about to sleep on it, and looks once more behind a full fence; the application is,
 * which deadlines are to wake, too. */
void pairs_sleep(nigh_client *client);
void pairs_arm(nigh_client *client);
/* It is, as before a look at the beginning of which the first deadline was this one. */
void pairs_time(const nigh_client *client, uint64_t was_due_us);
/* What rang is quiet again, and is taken in. `sleeps`: the application may sleep on. */
void pairs_take_bells(nigh_client *client, bool sleeps);

#endif
