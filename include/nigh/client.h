/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client: one process's connection to the node of its machine, attached to one pool.
 *
 * Threads: every call on a client may be made from any thread, at the same time as others, except
 * nigh_client_close, which must be the last. Fork: a child may not use its parent's client (calls
 * return NIGH_FORKED) and must not touch object bytes mapped by it; it opens its own.
 *
 * Asynchronous calls end in `_start` and take a struct nigh_op in the caller's memory, which must
 * stay where it is, with all the arrays and buffers handed to the call (also those that it only
 * reads, as the ids of a get), until the op has ended; object.h names what is copied instead.
 * Each op ends exactly once: with a result, an error, NIGH_TIMEOUT or NIGH_CANCELED. Nothing is
 * called back: an op is seen to have ended by nigh_op_status, nigh_poll or nigh_wait.
 */
#ifndef NIGH_CLIENT_H
#define NIGH_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a node listens when neither an option nor NIGH_SOCKET says otherwise. */
#define NIGH_DEFAULT_SOCKET "/run/nigh/nigh.sock"

/* A timeout without end. Zero means: do not wait. */
#define NIGH_FOREVER UINT64_MAX

struct nigh_client;
typedef struct nigh_client nigh_client;

/* Flags of nigh_client_options. */
#define NIGH_OPEN_READ_ONLY 1u /* never writes: no write extent is mapped, no lease is taken */
#define NIGH_OPEN_LOW_PRIORITY \
    2u /* what it does with regions has low priority; a node that does not know it refuses */

/* How to open a client. Zero-fill, then set what matters; struct_size lets the struct grow. */
typedef struct nigh_client_options {
    size_t struct_size;      /* sizeof(nigh_client_options) */
    const char *socket_path; /* NULL: $NIGH_SOCKET, else NIGH_DEFAULT_SOCKET */
    const char *pool;        /* NULL: the caller's own pool, "uid-<uid>" */
    const char *name; /* how `nigh top` and `nigh who` call this client; NULL: the program's name */
    uint64_t quota_bytes;    /* most bytes this session may keep in memory; 0: the node's default */
    uint64_t timeout_us;     /* how long to wait for the node's answer; 0: 5 seconds */
    uint64_t prefault_bytes; /* write memory to map and touch now, so that no first put pays for it;
                                0: what the first puts are cut from */
    uint32_t spin_us; /* how long a waiting call spins before it sleeps; 0: as the node does */
    uint32_t flags;   /* NIGH_OPEN_* */
} nigh_client_options;

/*
 * When the node dies or stops, each client hears of it at its next call. Where nobody keeps the
 * node's memory (no `nighd --hold`, no descriptor store) every call returns NIGH_NODE_LOST from
 * then on, gets of what was there included, and also when a new node listens: close this client and
 * open another. Where it is kept, gets go on, and what needs the node finds the next one. Held
 * views stay readable either way, until nigh_client_close.
 *
 * Opens a client; options may be NULL. *client is the caller's and ends with nigh_client_close.
 * NIGH_UNREACHABLE: nobody listens; NIGH_VERSION, NIGH_DENIED, NIGH_LIMIT, NIGH_NOT_FOUND (pool):
 * refused, and nigh_open_error says why in a sentence.
 */
NIGH_API nigh_status nigh_client_open(const nigh_client_options *options, nigh_client **client);

/* Why the calling thread's last nigh_client_open failed: one sentence with a remedy; "" when it did
 * not. */
NIGH_API const char *nigh_open_error(void);

/*
 * Ends the session: its pins, unsealed objects and subscriptions go. Bytes of objects got through
 * it must not be touched afterwards. Ops still pending end with NIGH_CLOSED. NULL is allowed.
 */
NIGH_API void nigh_client_close(nigh_client *client);

/*
 * Writes up to size_bytes (terminated) of a sentence that explains the last failure of this client
 * on the calling thread, e.g. who holds the memory after NIGH_OUT_OF_MEMORY, or that the node has
 * less than was asked for. Each call that fails leaves its own sentence; one that succeeds leaves
 * the last failure's. Returns the length it wanted.
 */
NIGH_API size_t nigh_client_error(nigh_client *client, char *text, size_t size_bytes);

/* An asynchronous operation, in the caller's memory. Its fields are the library's. */
typedef struct nigh_op {
    uint64_t opaque[24];
} nigh_op;

/* NIGH_PENDING until the op has ended, then how. Does not make progress by itself. Any thread. */
NIGH_API nigh_status nigh_op_status(const nigh_op *op);

/*
 * Waits until the op has ended, at most timeout_us; returns the op's status, or NIGH_TIMEOUT when
 * it is still pending (it then goes on: cancel it or wait again).
 */
NIGH_API nigh_status nigh_wait(nigh_client *client, nigh_op *op, uint64_t timeout_us);

/* Takes in what has completed, without waiting; returns how many ops ended. */
NIGH_API size_t nigh_poll(nigh_client *client);

/*
 * Asks for the end of a pending op: it ends with NIGH_CANCELED, or with its result if that came
 * first. Returns after it has ended: the op's memory is the caller's again. A cancelled put or seal
 * that waits in the node ends there, and the object is gone; what the node was sealing already may
 * be sealed all the same.
 */
NIGH_API nigh_status nigh_cancel(nigh_client *client, nigh_op *op);

/*
 * A descriptor for the application's own loop: readable when completions or events may be waiting.
 * Use: nigh_client_arm, then nigh_poll / nigh_next_event until nothing comes, then sleep on the
 * descriptor (level or edge). The library keeps it; do not read from it, nor close it.
 */
NIGH_API int nigh_client_fd(nigh_client *client);
NIGH_API nigh_status nigh_client_arm(nigh_client *client);

/* What this machine's node knows of another. */
typedef enum nigh_node_state {
    NIGH_NODE_IS_AWAY = 0, /* not seen yet */
    NIGH_NODE_IS_UP = 1,   /* connected */
    NIGH_NODE_IS_LOST = 2, /* not to be reached now; what it holds may come back */
    NIGH_NODE_IS_DEAD = 3  /* stopped, or lost for too long: its memory is taken for gone */
} nigh_node_state;

/* What the nodes tell each other of it by datagrams; beside its state, which connections decide. */
typedef enum nigh_node_life {
    NIGH_NODE_LIVES = 0,      /* or nothing is known */
    NIGH_NODE_SUSPECTED = 1,  /* it does not answer, and may still refute that */
    NIGH_NODE_FOUND_DEAD = 2, /* it did not, in time */
    NIGH_NODE_HAS_LEFT = 3    /* it stopped, and said so */
} nigh_node_life;

/* Whether a node is in the view that the nodes agreed on: those are the homes of what is looked
 * for.
 */
typedef enum nigh_node_view {
    NIGH_NODE_NO_VIEW = 0, /* nothing is agreed: the nodes keep no state, or have none yet */
    NIGH_NODE_IN_VIEW = 1,
    NIGH_NODE_OUT_OF_VIEW = 2
} nigh_node_view;

/* Written by nigh_nodes; struct_size lets the struct grow. */
typedef struct nigh_node_info {
    size_t struct_size; /* sizeof(nigh_node_info): set it in the first, it is written in each */
    uint32_t rank;      /* its place in the list of nodes */
    nigh_node_state state;
    uint32_t incarnation; /* grows with every start; 0: it was never up */
    uint32_t is_self;     /* 1: the node that answers */
    char address[80];     /* as the list has it; "" for a node that is alone */
    nigh_status refused;  /* why the last handshake with it failed since it was up: NIGH_DENIED
                             another key, NIGH_INVALID another list or rank, NIGH_VERSION no common
                             version, NIGH_UNSUPPORTED another fabric, NIGH_NOT_FOUND another place
                             of the directory, NIGH_EXISTS a second process of its rank,
                             NIGH_PROTOCOL something else; NIGH_OK: none failed. Not proved where
                             the other node dials: a stranger may claim its rank */
    nigh_node_life life;
    nigh_node_view view;
    char name[32];            /* that the nodes know it by, agreed on (nighd --name); "": none */
    nigh_status name_refused; /* of the node that answers: NIGH_EXISTS: the name that it was started
                                 with is another's, so it has none */
    uint32_t votes;   /* 1: it is one of those that decide the view, as far as is known here */
    uint32_t leaving; /* 1: it leaves (nigh_leave), as it says itself: it takes nothing new. Of one
                         that is up */
} nigh_node_info;

/*
 * The nodes of the cluster as this machine's node sees them, by rank: up to `capacity` are written,
 * each of nodes[0].struct_size bytes, which the caller has set; *count says how many there are. A
 * node that is alone is one node. NIGH_INVALID: there is room, and nodes[0].struct_size is not set;
 * NIGH_UNSUPPORTED: an older node.
 */
NIGH_API nigh_status nigh_nodes(nigh_client *client, nigh_node_info *nodes, size_t capacity,
                                size_t *count);

/*
 * Which rank has a name, as this machine's node knows it. NIGH_NOT_FOUND: none; NIGH_UNSUPPORTED:
 * an older node.
 */
NIGH_API nigh_status nigh_rank_of_name(nigh_client *client, const char *name, uint32_t *rank);

#define NIGH_NO_CROSSOVER UINT64_MAX
#define NIGH_ALL_RANKS    UINT32_MAX

/* How calls leave over a link. */
typedef enum nigh_link_calls {
    NIGH_LINK_CALLS_UNKNOWN = 0, /* an older node does not say */
    NIGH_LINK_CALLS_SENT = 1,    /* as messages */
    NIGH_LINK_CALLS_WRITTEN = 2  /* into memory of the other node */
} nigh_link_calls;

/* A link from this machine's node to another: one of those of their lanes. */
typedef struct nigh_link_info {
    uint32_t rank;            /* of the other node */
    uint32_t rail;            /* which of the links to it */
    uint64_t crossover_bytes; /* objects of so many bytes and more are read from the other node's
                                 memory, smaller ones are sent by it; NIGH_NO_CROSSOVER: all are
                                 sent; 0: not known yet */
    uint32_t measured;        /* probes that are over, of those that tell what the link costs: */
    uint32_t to_measure;      /* so many; 0: the nodes do not measure it */
    nigh_link_calls calls;
    uint32_t calls_sent_us; /* that a small call took either way when the link came up; both 0: */
    uint32_t calls_written_us; /* that was not measured */
} nigh_link_info;

/* The links that are up, in no order: as nigh_nodes. */
NIGH_API nigh_status nigh_links(nigh_client *client, nigh_link_info *links, size_t capacity,
                                size_t *count);

/*
 * Measures the links to a node (NIGH_ALL_RANKS: to all) anew, while nothing else goes over them:
 * what comes from there to here. Does not wait: nigh_links says how far it is. NIGH_UNSUPPORTED:
 * the node was told which way to go (nighd --transfer), or is an older one; NIGH_DENIED: the client
 * was opened read-only.
 */
NIGH_API nigh_status nigh_measure(nigh_client *client, uint32_t rank);

/* Why something cannot be handed over now. */
typedef enum nigh_leave_why {
    NIGH_LEAVE_NOBODY = 0, /* no other node is up that stays */
    NIGH_LEAVE_NO_ROOM = 1,
    NIGH_LEAVE_QUOTA = 2,
    NIGH_LEAVE_NO_POOL = 3, /* no other node that is up has it */
    NIGH_LEAVE_LIMIT = 4,   /* more than nodes keep account of */
    NIGH_LEAVE_FAILED = 5,  /* it could not be read here, or copied there, or not in time */
    NIGH_LEAVE_WHYS = 6
} nigh_leave_why;

typedef struct nigh_leave_count {
    uint64_t objects;
    uint64_t bytes; /* data, metadata and names, as they lie */
} nigh_leave_count;

/* How it stands with what would be gone with this node, or be on fewer nodes than was asked for. */
typedef struct nigh_leave_info {
    uint32_t leaving; /* 1: it takes nothing new */
    uint32_t looking; /* 1: it has yet to look at some of what it has */
    nigh_leave_count waiting;
    nigh_leave_count safe;         /* as many other nodes have it as were asked for, or one */
    nigh_leave_count stuck;        /* nobody can be asked now; it is tried again */
    nigh_leave_count alone;        /* of waiting and stuck: no other node has it for good */
    uint64_t why[NIGH_LEAVE_WHYS]; /* of stuck, by reason: objects */
    uint64_t unsealed;             /* created, and not sealed */
} nigh_leave_info;

typedef enum nigh_leave_how {
    NIGH_LEAVE_LOOK = 0,
    NIGH_LEAVE_BEGIN = 1, /* again: looks at all once more */
    NIGH_LEAVE_UNDO = 2
} nigh_leave_how;

/*
 * Has this node leave: creates, puts and leases of memory end with NIGH_LEAVING from now on, and
 * what only it holds is copied to nodes that stay, until it is stopped or the leave is undone. Does
 * not wait for it: NIGH_LEAVE_LOOK says how it stands (*info, which may be NULL). All is safe when
 * nothing is looked at, waits, is stuck or unsealed. For root and the uid of the node: NIGH_DENIED;
 * anybody may look. NIGH_TOO_FEW: the node is alone. NIGH_UNSUPPORTED: it is of an older version.
 * Any thread.
 */
NIGH_API nigh_status nigh_leave(nigh_client *client, nigh_leave_how how, nigh_leave_info *info);

/*
 * Has a node that joined and is gone for good struck off its cluster: its rank is nobody's for
 * ever, its name and its address are free for another, and should it come back it is told so and
 * ends. What only it held is lost with it. Does not wait: NIGH_PENDING: it is asked for, and asked
 * for again by the next call. NIGH_OK: it is struck off, now or before. NIGH_BUSY: it lives, or did
 * two seconds ago; NIGH_UNSUPPORTED: the list of members names it, or the cluster agrees on no
 * views; NIGH_NOT_FOUND: no node was ever given this rank; NIGH_TIMEOUT: not decided in ten
 * seconds, as the view still has it or most voters are away; NIGH_NO_QUORUM: this node is cut off;
 * NIGH_DENIED: only root, and the uid that the node runs as, may. Any thread.
 */
NIGH_API nigh_status nigh_forget(nigh_client *client, uint32_t rank);

#ifdef __cplusplus
}
#endif
#endif
