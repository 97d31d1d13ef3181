/* SPDX-License-Identifier: Apache-2.0 */
/* How an embedded node attaches clients of its own process (session.h): what these call instead of
 * waiting for it. Nothing here is shared between processes. */
#ifndef MEMORY_SESSION_DRIVER_H
#define MEMORY_SESSION_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

/* A request as the handler of an embedded node sees it. */
struct session_request {
    uint64_t id; /* 0: one-way */
    const void *bytes;
    uint32_t count;
    uint32_t lane;
    uint32_t rank;    /* of the caller's node */
    uint32_t uid;     /* of the caller's process */
    uint64_t left_us; /* of its deadline; UINT64_MAX: none */
    uint32_t bulks;   /* so many session_bulk_info are the first of the bytes */
};

/* Memory of the process that calls may bring, and that services may move bytes to and from. */
struct session_memory {
    uint8_t *address;
    uint64_t bytes;
    uint64_t session; /* whose it is */
    uint32_t access;  /* SESSION_MEMORY_*: what others may do, by that process's word */
};

struct session_service {
    uint64_t hash; /* of its name */
    uint32_t slot; /* of the session that answers later */
    void (*handler)(void *context, const struct session_request *request);
    void *context;
};

/* Lets a waiting thread drive a lane: runs a bounded turn unless another thread is at it. True if
 * it ran. `stays`: it means to come again at once, and need not be replaced meanwhile. */
struct session_driver {
    void *context;
    bool (*drive)(void *context, uint32_t lane, uint64_t now_us, bool stays);
    /* A thread that drove the lane wants to sleep: the descriptor that other nodes' messages make
     * readable, which it watches until it calls `rise`; or one of the below. */
    int (*rest)(void *context, uint32_t lane, uint64_t now_us);
    uint64_t (*rise)(void *context, uint32_t lane); /* the time */
    /* A service of this process: its handler is called from the return on, by whoever drives a
     * lane, until unserve has returned. NIGH_EXISTS: its name is taken; NIGH_LIMIT. Not by a
     * handler. */
    int (*serve)(void *context, const struct session_service *service);
    void (*unserve)(void *context, const struct session_service *service);
    /* Answers a request from inside a handler; SESSION_REPLY_ELSEWHERE: this thread is in none of
     * the request's lane. */
    int (*reply)(void *context, uint32_t lane, uint64_t id, int status, const void *bytes,
                 uint32_t count);
    /* Memory of this process. NIGH_LIMIT. Removing waits until nobody touches it, at most so long
     * (NIGH_TIMEOUT: it stays); `force`: whoever does loses the link. Not by a handler. */
    int (*memory_add)(void *context, const struct session_memory *memory, uint64_t *number);
    int (*memory_remove)(void *context, uint64_t number, uint64_t timeout_us, bool force);
    int (*memory_wait)(void *context, uint64_t number, uint64_t timeout_us);
};

#define SESSION_REPLY_ELSEWHERE 1

#define SESSION_REST_LOOK_AGAIN (-1) /* there is something to do already */
#define SESSION_REST_ELSEWHERE  (-2) /* another thread has the lane, or there are no other nodes */

struct nigh_client;
struct nigh_client_options;

/*
 * Opens a client over a socket that is connected already (taken over, on failure closed). `driver`
 * may be NULL; it must outlive the client. Defined in client/, called by the embedded node.
 */
int session_attach(int socket_fd, const struct nigh_client_options *options,
                   const struct session_driver *driver, struct nigh_client **client);

#endif
