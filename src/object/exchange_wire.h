/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exchanges say to each other: the methods of their channels, and the layout of what they
 * carry. docs/protocol.md says the same in prose. Little endian; every struct is checked by size
 * before it is read, and copied out.
 */
#ifndef OBJECT_EXCHANGE_WIRE_H
#define OBJECT_EXCHANGE_WIRE_H

#include <stdint.h>

#include "cluster/directory.h"

enum wire_method {
    WIRE_ANNOUNCE = 1,  /* call, holder -> home: wire_announce[]; reply: int8_t[] */
    WIRE_ANNOUNCED = 2, /* one-way, holder -> home: that was all of this link's shards */
    WIRE_LOCATE = 3,    /* call, puller -> home: wire_locate; reply: wire_located or wire_pulled */
    WIRE_UNWAIT = 4,    /* one-way, puller -> home: directory_key */
    WIRE_FOUND = 5,     /* one-way, home -> puller: wire_found */
    WIRE_DELETE = 6,    /* call, asker -> home: wire_delete; reply: status */
    WIRE_DROP = 7,      /* call, home -> holder: wire_drop; reply: status */
    WIRE_PULL = 8,      /* call, puller -> holder: wire_pull; reply: wire_pulled */
    WIRE_MORE = 9,      /* one-way, puller -> holder: wire_more */
    WIRE_STOP = 10,     /* one-way, puller -> holder: wire_more: no more messages, please */
    WIRE_DONE = 11,     /* call, puller -> holder: wire_more; reply: wire_sums */
    WIRE_ANNOUNCING =
        12,             /* one-way, holder -> home: all of this link's shards follows, once more */
    WIRE_HEAR = 13,     /* call, home -> member: have you told all that is news? reply: status */
    WIRE_PROBE = 14,    /* call, puller -> holder: wire_probe; reply: wire_probed */
    WIRE_VIEW = 15,     /* one-way: wire_view: what follows goes by that view */
    WIRE_REPLICAS = 16, /* call, holder -> keeper: wire_replica[]; reply: wire_replica_state[] */
    WIRE_REPLICAS_TOLD = 17, /* one-way, holder -> keeper: that was all of this link's shards */
    WIRE_REPLICATE = 18,     /* call, keeper -> member: wire_replicate; reply: status */
    WIRE_REPLICA_COUNT = 19  /* one-way, keeper -> holder: wire_replica_count */
};

#define WIRE_GONE   1u /* wire_announce: held no longer */
#define WIRE_COPY   2u /* wire_announce: a copy of another node's */
#define WIRE_REPEAT 4u /* wire_announce: after the link came up */
#define WIRE_CLAIM \
    8u /* wire_announce: not sealed yet, and to be the only one; with GONE: given up */
#define WIRE_HELD 16u /* wire_announce: a claim that was granted before */

struct wire_view {
    uint64_t epoch;
};

_Static_assert(sizeof(struct wire_view) == 8, "on the wire");

struct wire_announce {
    struct directory_key key;
    struct directory_object object;
    uint32_t flags; /* WIRE_* above */
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_announce) == 72, "on the wire");

#define WIRE_WAIT_TELL 1u /* wire_locate: tell me when it is known */
#define WIRE_WAIT_PASS                                                                             \
    2u /* the same, and no copy is to stay with me: do not count me as a holder. An older home may \
        */

/* Ways, as in enum exchange_path, in what a puller asks for. */
struct wire_locate {
    struct directory_key key;
    uint64_t crossover_bytes; /* if the home holds it itself: from here on, lend; below, send */
    uint32_t wait;            /* WIRE_WAIT_*; 0: do not tell me later */
    uint32_t only;            /* 1: only say where; serve nothing */
    uint32_t credits;         /* messages that may be sent at once; 0: none */
    uint32_t way; /* of them: WIRE_PUSH: wire_window[credits] follow; else they are sent */
    uint64_t tag; /* comes back in each message */
};

_Static_assert(sizeof(struct wire_locate) == 64, "on the wire");

struct wire_located {
    uint32_t state; /* enum directory_state */
    uint32_t holder_count;
    uint32_t holders[DIRECTORY_HOLDERS];
    struct directory_object object;
    uint64_t reserved;
};

_Static_assert(sizeof(struct wire_located) == 80, "on the wire");

struct wire_found {
    struct directory_key key;
    struct wire_located located;
};

_Static_assert(sizeof(struct wire_found) == 112, "on the wire");

struct wire_delete {
    struct directory_key key;
    uint32_t gone; /* 1: the asker has no object of the id now; 0: it has one (again) */
    uint32_t had;  /* 1: the asker had one: a home that knows of none need hear nobody */
};

_Static_assert(sizeof(struct wire_delete) == 40, "on the wire");

struct wire_drop {
    struct directory_key key;
    struct birth birth;
};

_Static_assert(sizeof(struct wire_drop) == 48, "on the wire");

enum wire_way {
    WIRE_INLINE = 1, /* in the reply */
    WIRE_STREAM = 2, /* in messages on the bulk endpoint */
    WIRE_LOAN = 3,   /* read it yourself */
    WIRE_PUSH = 4    /* in messages that are written into windows */
};

#define WIRE_PULL_SENT \
    1u /* wire_pull: another node said to ask here, where the object may be pulled itself */
#define WIRE_PULL_ALONE 2u /* send me to nobody, and serve only what is whole */

struct wire_pull {
    struct directory_key key;
    struct birth birth;
    uint32_t way;     /* WIRE_STREAM, WIRE_PUSH (small objects come inline, then) or WIRE_LOAN */
    uint32_t credits; /* STREAM, PUSH: messages that may be sent at once */
    uint64_t tag;     /* the same: comes back in each message; LOAN: read from this offset on */
    uint64_t serve;   /* LOAN: goes on with this one, which was partial; 0: begins one */
    uint32_t flags;   /* WIRE_PULL_*; without a meaning where it goes on */
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_pull) == 80, "on the wire");

/* Where the peer may write one message, once: by a WRITE that tells of its end with `imm`. They
 * follow the message that grants them, as many as its credits, WIRE_WINDOWS at most. */
#define WIRE_WINDOWS 8u

struct wire_window {
    uint64_t address;
    uint64_t bytes; /* more than a wire_chunk has */
    uint32_t key;
    uint32_t imm;
};

_Static_assert(sizeof(struct wire_window) == 24, "on the wire");

/* The sums of what was sent, as the holder knows them. */
struct wire_sums {
    uint32_t data_crc; /* CRC32C of the data */
    uint32_t tail_crc; /* of metadata and name */
    uint32_t known;    /* 1: both are true; 0: ask with DONE */
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_sums) == 16, "on the wire");

/* Told apart from wire_located by its state: WIRE_PULLED. */
#define WIRE_PULLED 100u

/* The state of a wire_located that answers a PULL: as many as may be served are; its holders are
 * nodes that are served, and are to be asked. */
#define WIRE_SENT_ON 101u

struct wire_pulled {
    uint32_t state; /* WIRE_PULLED */
    uint32_t way;   /* enum wire_way */
    struct directory_object object;
    struct wire_sums sums;
    uint64_t bytes;   /* of the object as it lies: data, metadata, name */
    uint64_t serve;   /* STREAM, PUSH, LOAN: names it in MORE, STOP, DONE */
    uint64_t from;    /* LOAN: the offset that the first piece begins at */
    uint32_t pieces;  /* LOAN: wire_piece[] that follow */
    uint32_t noted;   /* INLINE, of a home: 1: it counts the puller as a holder from here on */
    uint32_t partial; /* LOAN: 1: more of it may be there when a PULL asks to go on */
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_pulled) == 96, "on the wire");

/* A part of what is lent that lies under one key, behind the piece before it. Each ends where an
 * extent of the holder does, or the object. */
struct wire_piece {
    uint64_t address;
    uint64_t bytes;
    uint32_t key;
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_piece) == 24, "on the wire");

/* MORE of a WIRE_PUSH: wire_window[credits] follow. */
struct wire_more {
    uint64_t serve;
    uint32_t credits;
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_more) == 16, "on the wire");

/* Bytes of no object, to measure with. */
struct wire_probe {
    uint32_t bytes;
    uint32_t way;     /* WIRE_STREAM or WIRE_LOAN */
    uint32_t credits; /* STREAM: messages that are sent at once, with all of it; LOAN: 0 */
    uint32_t reserved;
    uint64_t tag; /* the same: comes back in each message; no pull has one like it */
};

_Static_assert(sizeof(struct wire_probe) == 24, "on the wire");

struct wire_probed {
    uint64_t address; /* LOAN: lent as long as the link lives */
    uint32_t key;
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_probed) == 16, "on the wire");

/* Head of a message on the bulk endpoint, or in a window. */
#define WIRE_LAST 1u

struct wire_chunk {
    uint64_t tag;    /* of the pull */
    uint64_t offset; /* in the object's bytes */
    uint32_t bytes;
    uint32_t
        flags; /* WIRE_LAST: the holder sends no more of it, and will not use `unused` credits */
    uint32_t unused;
    uint32_t reserved;
    struct wire_sums sums; /* with WIRE_LAST */
};

_Static_assert(sizeof(struct wire_chunk) == 48, "on the wire");

/* Replicas (docs/replicas.md). What a holder tells of one. */
#define WIRE_REPLICA_GONE  1u /* it is deleted there */
#define WIRE_REPLICA_WAITS 2u /* a client there waits for the others */
#define WIRE_REPLICA_LEAVES \
    4u /* that node leaves: it does not count. `wanted` may be 1 (docs/leaving.md) */

struct wire_replica {
    struct directory_key key;
    struct directory_object object;
    uint32_t wanted;
    uint32_t flags; /* WIRE_REPLICA_* */
};

_Static_assert(sizeof(struct wire_replica) == 72, "on the wire");

/* What a keeper says of a key. */
#define WIRE_COUNT_SHORT  1u /* more cannot be made now */
#define WIRE_COUNT_LEAVES 2u /* the node that is told does not count, as it leaves */

struct wire_replica_state {
    int32_t status;
    uint32_t wanted;
    uint32_t held;
    uint32_t flags; /* WIRE_COUNT_* */
    int32_t why;    /* SHORT: a status */
    uint32_t reserved;
};

_Static_assert(sizeof(struct wire_replica_state) == 24, "on the wire");

#define WIRE_REPLICATE_RELEASE 1u /* the other way round: it need not be a replica there */

struct wire_replicate {
    struct directory_key key;
    struct directory_object object;
    uint32_t wanted;
    uint32_t flags;
};

_Static_assert(sizeof(struct wire_replicate) == 72, "on the wire");

struct wire_replica_count {
    struct directory_key key;
    struct birth birth;
    uint32_t wanted;
    uint32_t held;
    uint32_t flags; /* WIRE_COUNT_* */
    int32_t why;    /* SHORT: a status */
};

_Static_assert(sizeof(struct wire_replica_count) == 64, "on the wire");

#endif
