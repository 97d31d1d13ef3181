/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to connect to a Redis server, what to say to it first, and when to take it for lost. Pure:
 * driven by the thread that does it (node/redis.c), tested without a server.
 *
 * Down, it waits, longer after each failure, and connects; then come the steps below in their
 * order, each of which has REDIS_STEP_US. Up, a silent server is asked for a sign of life each
 * REDIS_BEAT_US, and is lost when it was not heard for REDIS_SILENT_US.
 */
#ifndef CLUSTER_REDIS_SESSION_H
#define CLUSTER_REDIS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#define REDIS_STEP_US   UINT64_C(2000000)
#define REDIS_BEAT_US   UINT64_C(500000)
#define REDIS_SILENT_US UINT64_C(2000000)
#define REDIS_PAUSE_US  UINT64_C(50000)
#define REDIS_PAUSE_MAX UINT64_C(3200000)

enum redis_step {
    REDIS_NOTHING = 0, /* as an answer: go on waiting */
    REDIS_CONNECT,     /* both connections: for commands, and for what is published */
    REDIS_AUTH,        /* where there is a password */
    REDIS_SELECT,      /* where a database is named */
    REDIS_LOAD,        /* the script */
    REDIS_EPOCH,       /* this server's memory has a name */
    REDIS_LISTEN,
    REDIS_UP,   /* as an answer: it is up from here on */
    REDIS_BEAT, /* as an answer: ask for a sign of life */
    REDIS_CLOSE /* as an answer: it is lost; both connections end */
};

struct redis_session {
    bool has_password, has_database;
    enum redis_step step; /* under way; REDIS_NOTHING: down; REDIS_UP */
    bool begun;
    bool lost;
    uint64_t due_us;   /* down: when to connect; a step: when it is too late */
    uint64_t pause_us; /* of the next failure */
    uint64_t heard_us;
    uint64_t beat_us;
};

void redis_session_init(struct redis_session *session, bool has_password, bool has_database);

/* What is to be done now; again until REDIS_NOTHING. */
enum redis_step redis_session_turn(struct redis_session *session, uint64_t now_us);

/* When to call that next. */
uint64_t redis_session_due_us(const struct redis_session *session);

/* The step under way is over. */
void redis_session_done(struct redis_session *session, uint64_t now_us);

/* Something came from the server. */
void redis_session_heard(struct redis_session *session, uint64_t now_us);

/* A step failed, a connection ended, or the server has lost what it knew: REDIS_CLOSE follows. */
void redis_session_lost(struct redis_session *session);

#endif
