/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that serve and call "paired" at one node, for the tests of pairs. */
#ifndef TESTS_PAIRS_FIXTURE_H
#define TESTS_PAIRS_FIXTURE_H

#include <stdint.h>
#include <sys/types.h>

#include "nigh/nigh.h"
#include "support/node_fixture.h"

#define SECOND_US 1000000u
#define PATIENCE  (20 * SECOND_US)
#define SHORT     100000u
#define TRIES     200u
#define CALLERS   64u

extern struct node_fixture node;

nigh_client *open_client(void);
nigh_call_spec spec_of(const void *request, size_t bytes, void *reply, size_t room);

/* As /proc has it; 0: there is none. */
char state_of(pid_t pid);
void stop(pid_t pid);
void go_on(pid_t pid);

struct server {
    pid_t pid;
    int said; /* reads 'r' when it serves, and each request's 'h' that it holds */
};

/* One that echoes; holds what begins with 'h', and says so; answers that with 'a'; answers 's' when
 * the test sleeps; dies of 'k'. */
struct server start_server(void);
void wait_said(const struct server *server, char what);
void kill_server(const struct server *server);

/* Calls until a call needs no node: with one that stands still, which it is left as. */
void wait_paired(nigh_client *caller);

/* A node, a server, and a caller that is paired with it, which is given; and their ends. */
nigh_client *begin_paired(struct server *server);
void end_paired(const struct server *server, nigh_client *caller);

struct serving {
    nigh_client *client;
    nigh_service *service;
};

void serve_here(struct serving *serving);
/* One that has its memory for calls: what it starts goes at once. */
nigh_client *open_caller(void);
/* Has a caller's call answered by the same thread. */
void call_once(nigh_client *caller, const struct serving *serving);
/* Until a call comes without the node, which then stands still. */
void pair_here(nigh_client *caller, const struct serving *serving);

/* Sleeps on the descriptor until the op has ended. */
nigh_status sleep_for(nigh_client *client, nigh_op *op);

/* Writes rubbish to all memory of pairs that this process has. */
void scribble(uint32_t seed);

enum life {
    WAITS,
    SCRIBBLES
};

/* Has a pair, calls, and does what it is for; says 'd' when that is done. */
pid_t start_caller(enum life life, uint32_t seed, int *said);
void end_caller(pid_t pid, int said);

#endif
