/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes and a Redis server that keeps the directory say to each other: its script, the
 * arguments of its calls, and its answers. Pure. A server may answer anything.
 */
#ifndef CLUSTER_REDIS_WORDS_H
#define CLUSTER_REDIS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/auth.h"
#include "cluster/outside.h"

#define REDIS_NAME_BYTES     32 /* of the cluster: "nigh:0123456789abcdef:" */
#define REDIS_EPOCH_BYTES    33
#define REDIS_PASSWORD_BYTES 512
#define REDIS_HOST_BYTES     256
#define REDIS_USER_BYTES     128
#define REDIS_ARGUMENTS      12

/* Where a server is. */
struct redis_address {
    char host[REDIS_HOST_BYTES]; /* a name or an address; beginning with '/': a socket's path */
    uint16_t port;
    uint32_t database;
    char user[REDIS_USER_BYTES];         /* "": the default one */
    char password[REDIS_PASSWORD_BYTES]; /* "": none */
};

/* Reads redis://[[user]:password@]host[:port][/database], or unix://[[user]:password@]/path. False:
 * it is neither. */
bool redis_address_parse(const char *text, struct redis_address *address);

/* The same without user and password, to be shown. */
void redis_address_show(const struct redis_address *address, char *text, size_t bytes);

/* The cluster's name on a server, of its key. */
void redis_name(const uint8_t key[AUTH_KEY_BYTES], char name[REDIS_NAME_BYTES]);

/* Where the directory is, as a number that is equal at nodes that were given the same server,
 * however they spell its address, and the same cluster's key; never 0. */
uint64_t redis_digest(const struct redis_address *address, const uint8_t key[AUTH_KEY_BYTES]);

extern const char redis_script[];

/* Who asks. */
struct redis_caller {
    const char *name; /* of the cluster */
    const char *epoch;
    uint32_t rank, incarnation, lane, lanes;
};

/* The arguments behind "EVALSHA digest 1", the name of the cluster first. */
struct redis_call {
    uint32_t count;
    const char *arguments[REDIS_ARGUMENTS];
    size_t bytes[REDIS_ARGUMENTS];
    char text[160];
};

/* *call points into itself and into ask and caller. */
void redis_call_make(struct redis_call *call, const struct redis_caller *caller,
                     const struct outside_ask *ask);

enum redis_verdict {
    REDIS_FINE = 0,
    REDIS_NONSENSE, /* no answer to this question */
    REDIS_STALE,    /* the server has lost what it knew: connect anew */
    REDIS_FORGOTTEN /* it knows the others, and not this lane: a new life */
};

/* An answer's bytes. Fills in news but for `use` and `token`. */
enum redis_verdict redis_take_answer(enum outside_op op, const void *bytes, size_t count,
                                     struct outside_news *news);

/* Drops that an answer to OWED names; how many. */
uint32_t redis_take_owed(const void *bytes, size_t count, struct outside_news drops[OUTSIDE_DROPS]);

/* An error's text. *status: what it means for the one who asked; STALE: connect anew. */
enum redis_verdict redis_take_error(const char *text, size_t count, nigh_status *status);

/* What was published to a lane. False: nothing that means something. */
bool redis_take_message(const void *bytes, size_t count, struct outside_news *news);

#endif
