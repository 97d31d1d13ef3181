/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls may bring (rpc/bulks.h), for all lanes of a node: that of the node's own
 * process, which clients of an embedded node name; and files that the node makes for clients which
 * are processes of their own, who have them mapped as well.
 *
 * A lane that uses a piece registers it with its fabric, once, and drops that when the piece goes;
 * a piece goes when no lane uses it or has it registered. A lane looks once a turn whether some are
 * to go, with one load.
 *
 * Files are made, mapped and unmapped by a thread of the node, some of a file at a time: gigabytes
 * take it seconds, and no lane waits for it. Nobody hands in a descriptor. What a client does with
 * its file costs nobody else: its size is sealed, its pages are there before it is lent, and taken
 * back at the end, whoever keeps it mapped; and nothing in the node looks at what is in it. It goes
 * with the session's connection: what resumes the session, also at another node, has none.
 */
#ifndef NODE_BULK_MEMORIES_H
#define NODE_BULK_MEMORIES_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "memory/session.h"
#include "nigh/status.h"

struct bulk_memories;

enum bulk_state {
    BULK_FREE = 0,
    BULK_MAKING, /* nobody finds it yet */
    BULK_THERE,
    BULK_UNMAKING /* nobody finds it any more */
};

/* A piece. What lanes read of it stays as it is while anybody uses it. */
struct bulk_memory {
    struct session_memory memory;
    enum bulk_state state;
    uint64_t number;
    bool going, forced;
    uint32_t uses, registered;
    uint32_t waiting;                      /* for its last use to end */
    struct fabric_memory *at[LIMIT_LANES]; /* each by its lane */
    /* Of a file. */
    bool made;
    bool told;     /* lanes were, that it goes and nobody uses it */
    int fd;        /* -1: not yet */
    uint32_t uid;  /* whose share it counts for */
    uint64_t done; /* bytes of it whose pages are there */
    uint64_t mapped;
};

struct bulk_memories_config {
    uint32_t lanes;
    uint32_t incarnation;
    uint32_t own_uid;                           /* of the node: it and root have no share */
    uint64_t most_bytes;                        /* of all files; 0: none are made */
    void (*kick)(void *context, uint32_t lane); /* makes a lane turn soon; any thread */
    void *context;
};

/* NIGH_NO_RESOURCES. The configuration is copied. */
nigh_status bulk_memories_create(const struct bulk_memories_config *config,
                                 struct bulk_memories **memories);

/* Ends the thread that makes files: from here on nobody is kicked. Before the lanes go. NULL is
 * allowed. */
void bulk_memories_stop(struct bulk_memories *memories);

/* It was stopped, no thread is in it, and no lane runs. NULL is allowed. */
void bulk_memories_destroy(struct bulk_memories *memories);

/* ---- of the node's own process -------------------------------------------- */

/* Any thread. NIGH_LIMIT: there are LIMIT_BULKS, or the session has LIMIT_SESSION_BULKS. */
nigh_status bulk_memories_add(struct bulk_memories *memories, const struct session_memory *memory,
                              uint64_t *number);

/* Any thread but one that drives a lane. NIGH_OK: nobody touches the memory any more; NIGH_TIMEOUT:
 * it stays. `force`: what it is lent over is broken, so that it is over soon. */
nigh_status bulk_memories_remove(struct bulk_memories *memories, uint64_t number,
                                 uint64_t timeout_us, bool force);

/* The same without removing it: nobody touches it now. */
nigh_status bulk_memories_wait(struct bulk_memories *memories, uint64_t number,
                               uint64_t timeout_us);

/* ---- files: by a lane's driver -------------------------------------------- */

/* Whose submission asks: the lane's own words. */
struct bulk_asker {
    uint64_t session;
    uint32_t lane, slot, begun, cookie;
};

struct bulk_end {
    struct bulk_asker asker;
    nigh_status status;
    uint64_t number; /* of what was made */
};

/* What a file is asked for with. */
struct bulk_wish {
    uint64_t bytes;
    uint32_t access; /* SESSION_MEMORY_* */
    uint32_t uid;
    uint64_t session_bytes; /* most that the session's files may have; 0: no bound */
};

/*
 * NIGH_PENDING: an end follows. NIGH_INVALID; NIGH_UNSUPPORTED: this node makes none; NIGH_LIMIT:
 * so many files; NIGH_QUOTA: so many bytes of the session, or of the uid, which may have half;
 * NIGH_OUT_OF_MEMORY: of all; NIGH_BUSY: LIMIT_BULK_ASKS; NIGH_NO_RESOURCES: no thread. Ends with
 * NIGH_OUT_OF_MEMORY where the machine has no such memory.
 */
nigh_status bulk_memories_make(struct bulk_memories *memories, const struct bulk_asker *asker,
                               const struct bulk_wish *wish);

/*
 * Waits until nobody touches a file of the session, and with `ends` unmakes it. NIGH_PENDING: an
 * end follows, with NIGH_OK, or NIGH_TIMEOUT (it stays). NIGH_OK: so it is already; NIGH_TIMEOUT;
 * NIGH_NOT_FOUND: it has none such, or it is going; NIGH_BUSY.
 */
nigh_status bulk_memories_await(struct bulk_memories *memories, const struct bulk_asker *asker,
                                uint64_t number, uint64_t timeout_us, bool ends);

/* What waits ends with NIGH_CANCELED, soon. False: nothing does. */
bool bulk_memories_cancel(struct bulk_memories *memories, uint32_t lane, uint32_t slot,
                          uint32_t cookie);

/* What has ended of what a lane asked. */
bool bulk_memories_take_end(struct bulk_memories *memories, uint32_t lane, struct bulk_end *end);

/* A session's connection has ended, and it asks for nothing more: its files go when nobody uses
 * them, and what it asked for is not answered. Lane 0's driver. */
void bulk_memories_end(struct bulk_memories *memories, uint64_t session);

/* A duplicate of a file's descriptor, for its session; the caller's. NIGH_NOT_FOUND,
 * NIGH_NO_RESOURCES. */
nigh_status bulk_memories_open(struct bulk_memories *memories, uint64_t number, uint64_t session,
                               int *fd);

/* ---- by a lane's driver ---- */

/* To use it. NIGH_INVALID: it is another session's; NIGH_CLOSED: there is none such, or it goes. */
nigh_status bulk_memories_take(struct bulk_memories *memories, uint64_t number, uint64_t session,
                               struct bulk_memory **memory);
void bulk_memories_give(struct bulk_memories *memories, struct bulk_memory *memory);

/* Registered with the lane's fabric, from here on. */
nigh_status bulk_memories_register(struct bulk_memories *memories, struct bulk_memory *memory,
                                   uint32_t lane, struct fabric *fabric);

bool bulk_memories_have_news(const struct bulk_memories *memories, uint32_t lane);

/* Drops registrations of what goes and nobody uses. `breaks` is called for each whose uses are to
 * end; it may give some back. */
void bulk_memories_turn(struct bulk_memories *memories, uint32_t lane, struct fabric *fabric,
                        void (*breaks)(void *context, const struct bulk_memory *memory),
                        void *context);

/* ---- numbers -------------------------------------------------------------- */

/* Bytes of files that are there, are being made or are not gone yet. */
uint64_t bulk_memories_bytes(struct bulk_memories *memories);

/* How often a file was refused for want of room, a share or a place, or could not be made. */
uint64_t bulk_memories_refused(struct bulk_memories *memories);

#endif
