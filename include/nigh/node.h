/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An embedded node: the code of nighd inside a process, with nothing to install (link
 * libnigh-node).
 *
 * The node listens on a socket like nighd, so other processes may attach; the process itself opens
 * clients with nigh_node_client, and a thread of it that waits drives the lane it waits for,
 * instead of sleeping for its thread. A child of fork has no node: it lets go of the socket by
 * itself, and may use neither the node nor the parent's clients (nigh_node_stop does nothing
 * there).
 */
#ifndef NIGH_NODE_H
#define NIGH_NODE_H

#include "nigh/client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nigh_node;
typedef struct nigh_node nigh_node;

/* A pool: memory with an owner, a group and a mode (permission bits: 4 reads, 2 writes, as of
 * files). */
typedef struct nigh_pool_options {
    const char *name;
    uint32_t owner_uid;
    uint32_t group_gid;
    uint32_t mode;        /* 0600 style */
    uint32_t strict;      /* 1: the lane copies at seal, so that readers need not trust writers */
    uint64_t quota_bytes; /* 0: none */
} nigh_pool_options;

/* How the bytes of an object come here. For measurements: AUTO is never much worse than the better
 * of the two. */
typedef enum nigh_transfer {
    NIGH_TRANSFER_AUTO = 0,      /* sent when small, read when large */
    NIGH_TRANSFER_TWO_SIDED = 1, /* the holder sends them */
    NIGH_TRANSFER_ONE_SIDED = 2, /* this node reads them from the holder's memory */
    NIGH_TRANSFER_PUSH = 3,    /* the holder writes them into memory that this node grants it; sent
                                  where the fabric has no writes with immediate data */
    NIGH_TRANSFER_REGISTER = 4 /* as ONE_SIDED; and what this node lends is registered for each
                                  loan, and deregistered after: it shows what that costs */
} nigh_transfer;

/* Whether priorities of regions count (NIGH_REGION_LOW, NIGH_OPEN_LOW_PRIORITY), for what leaves
 * this node. Sessions have turns in any case. */
typedef enum nigh_region_qos {
    NIGH_REGION_QOS_SOFTWARE =
        0,                       /* low priority goes last, and is limited while it is in the way */
    NIGH_REGION_QOS_NONE = 1,    /* all are alike */
    NIGH_REGION_QOS_SEPARATE = 2 /* each has connections of its own, and neither is limited */
} nigh_region_qos;

/* How calls travel between nodes, over RDMA. For measurements; a node goes by what it was told,
 * whatever others were. */
typedef enum nigh_calls {
    NIGH_CALLS_AUTO = 0, /* each connection is measured when it comes up, and its quicker way taken;
                            over TCP as SEND */
    NIGH_CALLS_SEND = 1, /* as messages */
    NIGH_CALLS_WRITE = 2 /* written into rings of memory, of 64 KiB for each connection, that nodes
                            give each other: this one keeps no other memory for what comes; as SEND
                            where RDMA has no writes with immediate data */
} nigh_calls;

/* What joins the nodes of a cluster: the same at each of them. */
typedef enum nigh_fabric {
    NIGH_FABRIC_TCP = 0,
    NIGH_FABRIC_VERBS = 1, /* RDMA; a node without a device for it does not start */
    NIGH_FABRIC_AUTO = 2 /* RDMA where this machine has it, else TCP; the log says which and why */
} nigh_fabric;

/* How to start a node. Zero-fill, then set; struct_size lets the struct grow. Zero means the
 * default named. */
typedef struct nigh_node_options {
    size_t struct_size;
    const char *socket_path; /* NULL: no socket; only nigh_node_client attaches */
    uint64_t memory_bytes;   /* populated at start; required */
    uint64_t extent_bytes;   /* 0: memory / 128, a power of two */
    uint64_t max_objects;    /* entries of each pool's index; 0: memory / 4 KiB, 64 Ki to 1 Mi */
    uint32_t lanes;          /* a power of two; 0: one for two cores, at least one */
    uint32_t spin_us;      /* how long a lane spins before it sleeps; UINT32_MAX: 50 (0 is never) */
    uint32_t max_sessions; /* 0: 1024 */
    uint32_t max_pins;     /* lane-held pins a session; 0: 8192 */
    uint64_t session_quota_bytes; /* default quota of a session; 0: none */
    const char *spill_dir;        /* NULL: objects are evicted, not spilled */
    uint64_t spill_bytes;         /* most bytes in spill_dir; 0: no bound but the disk's */
    uint32_t huge_pages;          /* 0: where granted, 1: required, 2: never */
    uint32_t socket_mode;         /* 0: 0666, pools decide who may do what */
    const nigh_pool_options *pools;
    size_t pool_count;
    /* Other nodes. members NULL: this node is alone. */
    const char *members;        /* "host:port,host:port,...": all nodes, the same list at each. With
                                   state_dir a node that is not among them joins them: one address
                                   is enough. NULL with member and state_dir: others join this one */
    const char *member;         /* which of them this is: its address as it stands there, or its
                                   rank (its place, from 0) */
    const char *listen_address; /* NULL: as members says; else e.g. "*:7470" */
    const void *cluster_key;    /* 32 bytes, the same at all nodes; required with members */
    uint32_t dead_ms;           /* a node that was lost is taken for dead after so long; 0: 5000 */
    uint32_t transfer_path;     /* how pulled objects travel: NIGH_TRANSFER_*; 0: by their size */
    uint32_t fabric;            /* what to: NIGH_FABRIC_*, the same at all nodes; 0: TCP */
    /* "10.0.0.1,10.0.1.1": addresses of this machine's RDMA devices, at most four, IPv4. Lanes are
     * spread over them; when a device is lost, its lanes move to the next. NULL: the device of the
     * address that other nodes know. */
    const char *fabric_addresses;
    /* How packets travel by RDMA; the same at all nodes. */
    uint32_t fabric_tos;         /* their byte of type of service, to 255; 0: the system's */
    uint32_t fabric_ack_timeout; /* an answer is awaited for 4.096 us << this, 8 to 20; 0: as the
                                    system has it, 16 (0.27 s) at most */
    uint32_t fabric_retries;     /* ... and asked for again so often, to 7; 0: 7 */
    uint32_t shared_receives;    /* of 32 KiB, those of a lane that its connections to all nodes
                                    share, 8 to 8192; 0: 128 with more than 32 members, else each
                                    connection has its own */
    uint32_t fabric_queue_pairs; /* that objects are read over, of a lane to each lane of another
                                    node, to 4 (TCP: connections); the larger of both nodes'
                                    numbers counts; 0: 1 */
    const char *state_dir; /* where this node keeps what it votes for: with it, at all nodes or at
                              none, they agree on who is there, and others take over what a dead one
                              kept of where objects are. Made if it is not there; each node its own.
                              NULL: nothing is agreed */
    uint32_t fanout;       /* other nodes that this one serves with one large object at once,
                              to 255; more are sent to those; 0: 2 */
    uint32_t ranks;   /* with state_dir: how many there are, for those of members and for nodes that
                         join later, up to 256; the same at all of members; 0: twice as many as
                         members has, at least 8 */
    const char *name; /* with state_dir: what this node is called, wherever a rank is asked for: a
                         letter, and up to 30 letters, digits, '-', '_' and '.'. While another node
                         has the name, this one has none (nigh_nodes). NULL: nothing */
    uint64_t call_memory_bytes; /* most that is made for calls of clients which are processes of
                                   their own (nigh_bulk_alloc), beside memory_bytes and when they
                                   ask; 0: a quarter of memory_bytes */
    uint32_t calls_way; /* how calls travel to other nodes: NIGH_CALLS_*; 0: as is quicker */
    uint32_t
        region_qos; /* what priorities of regions do: NIGH_REGION_QOS_*; 0: low ones are limited */
    uint64_t region_memory_bytes; /* most that the chunks of regions take which lie here, beside
                                     memory_bytes and when they are made; 0: half of memory_bytes */
    uint64_t session_rate_bytes;  /* of regions, that one session reads and writes in a second; what
                                     is more waits; 0: no limit */
    uint64_t session_rate_ops;    /* operations on regions, likewise */
    uint64_t space_memory_bytes;  /* most that spaces take here (nigh_space_create), beside
                                     memory_bytes and when they are made; 0: this node serves none */
    const char *space_log_dir;    /* where this node keeps the logs of spaces that are durable; made
                                     if it is not there. NULL: there are none of these with it */
} nigh_node_options;

/*
 * Starts a node in this process: reserves and populates its memory, starts its lanes.
 * NIGH_OUT_OF_MEMORY, NIGH_BUSY (another node listens there), NIGH_INVALID, NIGH_NO_RESOURCES:
 * nigh_node_start_error says why in a sentence with a remedy.
 */
NIGH_API nigh_status nigh_node_start(const nigh_node_options *options, nigh_node **node);

/* Why the calling thread's last nigh_node_start failed. */
NIGH_API const char *nigh_node_start_error(void);

/* Opens a client of an embedded node (options->socket_path is ignored). Close it before the node
 * stops. NIGH_FORKED: the node is the parent process's. */
NIGH_API nigh_status nigh_node_client(nigh_node *node, const nigh_client_options *options,
                                      nigh_client **client);

/* Stops the lanes, closes every session (their pending operations end with NIGH_NODE_LOST), frees
 * the memory. */
NIGH_API void nigh_node_stop(nigh_node *node);

#ifdef __cplusplus
}
#endif
#endif
