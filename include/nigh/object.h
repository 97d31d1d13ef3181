/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: immutable values, created, sealed, and read in place by every process of the machine
 * that may.
 *
 * An object is made in two steps: nigh_create gives memory to write to, nigh_seal makes it visible
 * and unchangeable (nigh_put does both). Readers see it in their own address space, read-only,
 * without a copy; the bytes stay where they are until nigh_release. A get and a release of a sealed
 * object in memory make no system call and no round trip (docs/objects.md says how).
 *
 * Sizes are bytes. `timeout_us` is how long the call may wait: 0 does not wait, NIGH_FOREVER waits
 * for ever. Ids are 20 opaque bytes, one name space a pool.
 */
#ifndef NIGH_OBJECT_H
#define NIGH_OBJECT_H

#include "nigh/client.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NIGH_ID_BYTES 20

typedef struct nigh_id {
    uint8_t bytes[NIGH_ID_BYTES];
} nigh_id;

/* The id of a name: its BLAKE2b hash of 160 bits. NIGH_INVALID: empty, or above 255 bytes. Any
 * thread. */
NIGH_API nigh_status nigh_id_from_name(const char *name, nigh_id *id);

/* A random id. NIGH_NO_RESOURCES when the system gives no randomness. Any thread. */
NIGH_API nigh_status nigh_id_random(nigh_id *id);

/* ---- write ---------------------------------------------------------------- */

/* Flags of nigh_create and nigh_put. */
#define NIGH_CREATE_EXCLUSIVE                                                                      \
    1u /* claim the id now, on all nodes: a second creator gets NIGH_EXISTS at create, not at seal \
        */
#define NIGH_CREATE_NO_EVICT 2u /* do not evict or spill others to make room */

/* So many nodes are to hold it, this one among them, 2 to NIGH_REPLICAS_MOST: the seal, or the put,
 * ends when they do (nigh_replicate); it waits for them up to timeout_us, or NIGH_REPLICAS_WAIT_US
 * if that is longer. NIGH_TOO_FEW: fewer do by then; the object is sealed all the same, and more
 * will hold it as soon as they can; nigh_client_error says how many do. */
#define NIGH_CREATE_REPLICAS_SHIFT 8
#define NIGH_CREATE_REPLICAS(n)    ((uint32_t)(n) << NIGH_CREATE_REPLICAS_SHIFT)
#define NIGH_REPLICAS_MOST         8
#define NIGH_REPLICAS_WAIT_US      5000000u

/*
 * What to create. Zero-fill, then set. The strings and bytes are copied before the call returns
 * (nigh_put_many_start: before its op has ended).
 */
typedef struct nigh_create_options {
    uint64_t data_size;
    const void *meta;   /* user metadata, copied behind the data; may be NULL when meta_size is 0 */
    uint32_t meta_size; /* at most 65,536 */
    uint32_t flags;     /* NIGH_CREATE_* */
    const char
        *name; /* kept with the object for listings; its id must be nigh_id_from_name(name) */
    uint64_t timeout_us; /* how long to wait for memory */
} nigh_create_options;

/* An unsealed object. `data` is writable, data_size bytes, until nigh_seal or nigh_abort. */
typedef struct nigh_writer {
    nigh_id id;
    void *data;
    uint64_t data_size;
    uint64_t opaque[6];
} nigh_writer;

/*
 * Creates an unsealed object; the caller writes writer->data, then seals or aborts. Zero-size
 * objects are allowed. NIGH_EXISTS: one of this id is sealed (or created, with
 * NIGH_CREATE_EXCLUSIVE) on this node; with that flag, on any node: the node that keeps the id's
 * places is asked, which is a round trip, up to timeout_us or half a second if that is longer.
 * NIGH_PEER_LOST: it is not to be reached; NIGH_TIMEOUT: it cannot say yet; NIGH_NO_QUORUM: nor
 * may it, as this node is cut off from most voters (where nodes keep state). Without the flag no
 * other node is asked, and what is sealed when another node has the id is dropped soon after
 * (NIGH_EVENT_CONFLICT). NIGH_OUT_OF_MEMORY after timeout_us: nothing more may be evicted
 * (nigh_client_error names the holders); at once: the node has less memory than that (it says how
 * much). NIGH_QUOTA: larger than the quota of this session, or than what the pool has of its quota
 * for one object; or no room can be made in either, which what is small learns from nigh_seal.
 * NIGH_DENIED, NIGH_INVALID.
 */
NIGH_API nigh_status nigh_create(nigh_client *client, const nigh_id *id,
                                 const nigh_create_options *options, nigh_writer *writer);

/*
 * Seals: visible to every process that may read the pool when this returns. The writer is used up,
 * and its data must not be written any more. NIGH_EXISTS: another was sealed first; this one is
 * gone. So it is with NIGH_QUOTA: memory that the client cuts by itself, for small objects, counts
 * from here on. NIGH_PEER_LOST, NIGH_TIMEOUT: created with NIGH_CREATE_EXCLUSIVE, and the node that
 * granted it is away, so that another may have the id by now; this one is gone, too. Whatever it
 * fails with (NIGH_OUT_OF_MEMORY: no memory for the copy that a strict pool makes; NIGH_LIMIT: too
 * many wait in the node), the object is gone, and its claim with it: the id may be created again.
 */
NIGH_API nigh_status nigh_seal(nigh_client *client, nigh_writer *writer);

/* Gives an unsealed object up. The writer is used up. NIGH_INVALID: not (or no longer) this
 * client's. */
NIGH_API nigh_status nigh_abort(nigh_client *client, nigh_writer *writer);

/* Create, copy and seal in one. `options` may be NULL; its data_size is ignored. */
NIGH_API nigh_status nigh_put(nigh_client *client, const nigh_id *id, const void *data,
                              uint64_t data_size, const nigh_create_options *options);

/* One object of nigh_put_many. */
typedef struct nigh_put_item {
    nigh_id id;
    const void *data;
    uint64_t data_size;
    const nigh_create_options *options; /* may be NULL */
    nigh_status status;                 /* out */
} nigh_put_item;

/*
 * Puts n objects, those of up to 256 KiB with one round trip for all. Returns NIGH_OK when all did,
 * else the first failure; each has its own status, also when the node is lost and none was put.
 */
NIGH_API nigh_status nigh_put_many(nigh_client *client, nigh_put_item *items, size_t n);

/* ---- read ----------------------------------------------------------------- */

/* An object as one reader sees it. data and meta stay valid and unchanged until nigh_release. */
typedef struct nigh_view {
    const void *data;
    uint64_t data_size;
    const void *meta; /* NULL when meta_size is 0 */
    uint32_t meta_size;
    nigh_status status; /* of this id: NIGH_OK, NIGH_TIMEOUT, NIGH_NO_QUORUM ... */
    uint64_t opaque[2];
} nigh_view;

/*
 * Gets n objects, waiting up to timeout_us for those that are not sealed yet, on this node or on
 * another, from where they are copied here (with 0 no other is asked). views[i] answers
 * ids[i]; an id may stand in the list more than once (each view is released by itself). What this
 * node has on disk is waited for a second at least, whatever timeout_us. Returns NIGH_OK when every
 * view has status NIGH_OK; NIGH_TIMEOUT when some are missing, or on disk and not read back in time
 * (nigh_stat tells one from the other: NIGH_OBJECT_SPILLED): the others are valid and must be
 * released all the same.
 */
NIGH_API nigh_status nigh_get(nigh_client *client, const nigh_id *ids, size_t n,
                              uint64_t timeout_us, nigh_view *views);

/* Flags of nigh_get_with. */
#define NIGH_GET_NO_COPY \
    1u /* what has to be copied here from another node goes again with its last view */

/*
 * nigh_get with flags. With NIGH_GET_NO_COPY what is on this node already is used, and stays;
 * what another node has is copied here for those who wait for it, but no get without waiting finds
 * it, nigh_where and nigh_contains do not tell of it (nigh_stat and nigh_list do, as
 * NIGH_OBJECT_DELETING), and its memory goes with the last view of it. It becomes a copy like
 * others when a get without the flag asks for it too. A delete anywhere is done without waiting for
 * such views. A view's status may also be NIGH_UNSUPPORTED: an older node, which would leave a
 * copy.
 */
NIGH_API nigh_status nigh_get_with(nigh_client *client, const nigh_id *ids, size_t n,
                                   uint64_t timeout_us, uint32_t flags, nigh_view *views);

/*
 * Ends a view: its bytes may be evicted from now on. The view is zeroed; releasing a zeroed view,
 * or one whose status is not NIGH_OK, does nothing. No system call.
 */
NIGH_API nigh_status nigh_release(nigh_client *client, nigh_view *view);

/* *found: whether a sealed object of this id is in the pool on this node (in memory or spilled). */
NIGH_API nigh_status nigh_contains(nigh_client *client, const nigh_id *id, bool *found);

/* ---- manage --------------------------------------------------------------- */

/*
 * Deletes n objects, in a cluster on every node. An object in use disappears at once for new
 * readers, its memory at the last release: statuses[i] (may be NULL) is then NIGH_IN_USE. So it is
 * where nobody holds it but the node is writing it to disk, or sending it (nigh_stat: node_uses).
 * NIGH_NOT_FOUND: not there; an unsealed one is NIGH_NOT_SEALED. NIGH_PEER_LOST, NIGH_TIMEOUT,
 * NIGH_NO_QUORUM: it is deleted here, but not every other node that may have it said so within five
 * seconds. Returns NIGH_OK when every status is NIGH_OK or NIGH_IN_USE, else the first failure.
 *
 * The node knows of an unsealed object what it gave memory for by itself: one that is large, or
 * NIGH_CREATE_EXCLUSIVE. Of a small one it learns at the seal: until then it is NIGH_NOT_FOUND.
 * A copy whose news are under way when it is deleted elsewhere may be read for a moment
 * (milliseconds) after NIGH_OK.
 */
NIGH_API nigh_status nigh_delete(nigh_client *client, const nigh_id *ids, size_t n,
                                 nigh_status *statuses);

/*
 * Evicts (or spills, where the node spills) unused objects of the pool until this call has freed
 * size_bytes of memory, whatever was free before. Objects go whole, so that it may be a little
 * more. It is less, and still NIGH_OK, when no more is unused, or what is lies in few of the node's
 * lanes (the lanes are asked in three rounds, for a share each). Other calls may have taken the
 * memory by the time this one returns. *freed_bytes (may be NULL): how much was freed.
 */
NIGH_API nigh_status nigh_evict(nigh_client *client, uint64_t size_bytes, uint64_t *freed_bytes);

/* Counts n objects as used now, without reading them. Unknown ids are passed over. */
NIGH_API nigh_status nigh_refresh(nigh_client *client, const nigh_id *ids, size_t n);

/*
 * Has `copies` nodes (2 to NIGH_REPLICAS_MOST) hold a sealed object that is on this one, which
 * counts; the number of an object never becomes less. Waits up to timeout_us until they do, and
 * writes to *made (may be NULL) how many do. While as many members live, as many hold it: where one
 * dies another makes a copy. What is to have replicas is not evicted; its replicas are deleted with
 * it. NIGH_TOO_FEW: no other member that is up and has room can be asked now; NIGH_TIMEOUT: not all
 * do yet (*made is written for both); more will as soon as they can. NIGH_NOT_FOUND: not on this
 * node; NIGH_LIMIT: too many are, or wait; NIGH_UNSUPPORTED: an older node.
 */
NIGH_API nigh_status nigh_replicate(nigh_client *client, const nigh_id *id, uint32_t copies,
                                    uint64_t timeout_us, uint32_t *made);

/* Keeps an object from eviction and spill until nigh_unpin; outlives the client. Pins do not count
 * up. */
NIGH_API nigh_status nigh_pin(nigh_client *client, const nigh_id *id);
NIGH_API nigh_status nigh_unpin(nigh_client *client, const nigh_id *id);

/* An object's state, as nigh_stat and nigh_list report it. */
typedef enum nigh_object_state {
    NIGH_OBJECT_CREATED = 1, /* not sealed yet (what is small is not known before its seal) */
    NIGH_OBJECT_SEALED = 2,  /* in memory */
    NIGH_OBJECT_SPILLED = 3, /* on disk; the next get brings it back */
    NIGH_OBJECT_DELETING = 4 /* gone at the last release: deleted while in use, or never to stay
                                (NIGH_GET_NO_COPY) */
} nigh_object_state;

/* Bits of nigh_object_info.node_uses: what keeps an object's memory besides views. */
#define NIGH_USE_WRITE 1u /* it is being written to disk */
#define NIGH_USE_READ  2u /* it is being read back from disk */
#define NIGH_USE_SEND  4u /* its bytes are read for another node, or for a checksum */
#define NIGH_USE_REPLICA \
    8u /* it is one of several replicas (NIGH_CREATE_REPLICAS), which are not evicted */

/* What is known of an object. */
typedef struct nigh_object_info {
    nigh_id id;
    nigh_object_state state;
    uint64_t data_size;
    uint32_t meta_size;
    uint32_t pinned;        /* 1: by nigh_pin */
    uint64_t birth_counter; /* with incarnation: the birth, which tells one object of an id from the
                               next, and is the same at every node that has it; of a copy they are
                               numbers of the node where it was born */
    uint32_t incarnation;
    uint32_t holders;    /* views that processes hold now; nigh_list leaves it 0 */
    uint64_t created_ns; /* wall clock, nanoseconds since 1970 */
    uint64_t build_ns;   /* from create to seal */
    char name[256];      /* "" when it has none */
    uint32_t copy;       /* 1: pulled from another node, which has it too unless it let it go */
    uint32_t node_uses;  /* NIGH_USE_*: what the node itself does with it now; nigh_list leaves it
                            0, and so does an older node */
} nigh_object_info;

NIGH_API nigh_status nigh_stat(nigh_client *client, const nigh_id *id, nigh_object_info *info);

/*
 * Lists the pool. *cursor is 0 at first and carries the place on; up to n infos are written, *count
 * says how many; *count == 0 is the end. Objects that come or go meanwhile may be missed, never
 * reported twice.
 */
NIGH_API nigh_status nigh_list(nigh_client *client, uint64_t *cursor, nigh_object_info *infos,
                               size_t n, size_t *count);

/* One process that holds an object. */
typedef struct nigh_holder {
    uint64_t session;
    int32_t pid;
    uint32_t uid;
    uint64_t views;      /* how many views of the object (nigh_who), or objects (nigh_holders) */
    uint64_t size_bytes; /* bytes they keep */
    char name[32];
} nigh_holder;

/* Who holds an object: up to n holders, *count of them in all. A pinned or waiting-for-spill object
 * may have none. */
NIGH_API nigh_status nigh_who(nigh_client *client, const nigh_id *id, nigh_holder *holders,
                              size_t n, size_t *count);

/* Who keeps the pool's memory from being evicted, largest first. */
NIGH_API nigh_status nigh_holders(nigh_client *client, nigh_holder *holders, size_t n,
                                  size_t *count);

/*
 * Which nodes hold an object, as the cluster knows it: up to `capacity` ranks (nigh_nodes tells
 * whose), lowest first, *count of them in all; this node among them, and of the others eight at
 * most. None: nobody has it, or nobody has said so yet. NIGH_BUSY: nodes that came up, or that have
 * just heard that another is dead, have yet to tell what they hold; NIGH_PEER_LOST, NIGH_TIMEOUT:
 * the node that would know does not answer (it waits two seconds at most); NIGH_UNSUPPORTED: an
 * older node.
 */
NIGH_API nigh_status nigh_where(nigh_client *client, const nigh_id *id, uint32_t *ranks,
                                size_t capacity, size_t *count);

/* How much of a set of objects a node holds. */
typedef struct nigh_location {
    uint32_t rank;
    uint32_t is_self; /* 1: the client's own node */
    uint64_t objects;
    uint64_t size_bytes; /* of their data */
} nigh_location;

/*
 * Where the bytes of n objects are: up to `capacity` nodes, the one that holds most bytes first
 * (among equals: more objects, this node, the lower rank), *count of them in all. An id counts as
 * often as it stands in the list. *missing (may be NULL): how many are on no node, as far as is
 * known. It asks as nigh_where does, for many at once, and for no more than two seconds each. All
 * outputs are written also when some id could not be asked for, which then counts as missing:
 * NIGH_BUSY, NIGH_PEER_LOST or NIGH_TIMEOUT as there. NIGH_UNSUPPORTED: an older node, which knows
 * no sizes.
 */
NIGH_API nigh_status nigh_locate(nigh_client *client, const nigh_id *ids, size_t n,
                                 nigh_location *places, size_t capacity, size_t *count,
                                 size_t *missing);

/* CRC32C of a sealed object's data, computed by the node (and kept with the object). */
NIGH_API nigh_status nigh_checksum(nigh_client *client, const nigh_id *id, uint32_t *crc32c);

/* Sets this session's quota: the bytes of objects it made that may be in memory at once; 0: what
 * the node allows at most, which a larger one is cut to. What small objects take counts from
 * nigh_seal on. */
NIGH_API nigh_status nigh_set_quota(nigh_client *client, uint64_t quota_bytes);

/* ---- watch ---------------------------------------------------------------- */

typedef enum nigh_event_kind {
    NIGH_EVENT_SEALED = 1,
    NIGH_EVENT_DELETED = 2,
    NIGH_EVENT_EVICTED = 3,  /* dropped from memory for good */
    NIGH_EVENT_SPILLED = 4,  /* left memory for the disk */
    NIGH_EVENT_OVERFLOW = 5, /* data_size events were lost here: list the pool to catch up, and
                                look at what is open of regions. 0: the node was started again, and
                                nobody counted; handles of regions ended with it */
    NIGH_EVENT_CONFLICT = 6, /* dropped: another node had the id first. Only with
                                NIGH_SUBSCRIBE_CONFLICTS, else NIGH_EVENT_DELETED */
    /* With NIGH_SUBSCRIBE_REGIONS, of what this client has open, locks' handles too: data_size is
     * nigh_region_number of the handle, id nigh_id_from_name of the region's name. */
    NIGH_EVENT_REGION_FREED = 7,   /* whatever is done with the handle ends NIGH_NOT_FOUND */
    NIGH_EVENT_REGION_REVOKED = 8, /* meta_size: what the handle may still, NIGH_REGION_* */
    NIGH_EVENT_REGION_RESIZED = 9  /* nigh_region_stat says how large it is */
} nigh_event_kind;

typedef struct nigh_event {
    nigh_event_kind kind;
    nigh_id id;
    uint64_t data_size;
    uint32_t meta_size;
} nigh_event;

/* Flags of nigh_subscribe. */
#define NIGH_SUBSCRIBE_REPLAY \
    1u /* first an event NIGH_EVENT_SEALED for each object that is sealed already */
#define NIGH_SUBSCRIBE_CONFLICTS \
    2u /* tell what was sealed here and dropped for another node's from what was deleted */
#define NIGH_SUBSCRIBE_REGIONS \
    4u /* tell of regions that this client has open, too (NIGH_EVENT_REGION_*) */

/* Starts events of the pool for this client. The queue is bounded; a full one loses events and says
 * so. NIGH_INVALID: flags that there are not; NIGH_SUBSCRIBE_CONFLICTS or NIGH_SUBSCRIBE_REGIONS,
 * and an older node. */
NIGH_API nigh_status nigh_subscribe(nigh_client *client, uint32_t flags);
NIGH_API nigh_status nigh_unsubscribe(nigh_client *client);

/* The next event, waiting up to timeout_us. NIGH_TIMEOUT: none came. NIGH_NOT_FOUND: not
 * subscribed. */
NIGH_API nigh_status nigh_next_event(nigh_client *client, uint64_t timeout_us, nigh_event *event);

/* ---- the node ------------------------------------------------------------- */

/* Counters and gauges of the node, summed over its lanes (bytes, counts, microseconds). */
#define NIGH_NODE_STATS_TABLE(X)                                          \
    X(memory_bytes, "memory of the node for objects")                     \
    X(used_bytes, "bytes in objects, unsealed ones and leases included")  \
    X(leased_bytes, "bytes leased to clients and not yet sealed")         \
    X(unsealed_bytes, "bytes in created, not yet sealed objects")         \
    X(objects, "sealed objects in memory")                                \
    X(objects_unsealed, "objects created and not yet sealed")             \
    X(objects_spilled, "objects on disk only")                            \
    X(objects_deleting, "objects that go at their last release")          \
    X(spilled_bytes, "bytes on disk")                                     \
    X(sessions, "attached sessions")                                      \
    X(waiting, "operations that wait")                                    \
    X(seals, "objects sealed")                                            \
    X(gets_asked, "gets that had to ask the lane")                        \
    X(hints, "accesses that readers reported")                            \
    X(deletes, "objects deleted")                                         \
    X(evictions, "objects evicted")                                       \
    X(evicted_bytes, "bytes evicted")                                     \
    X(victims_kept, "victims that turned out to be in use")               \
    X(spills, "objects written to disk")                                  \
    X(unspills, "objects read back from disk")                            \
    X(spill_failures, "disk writes and reads that failed")                \
    X(out_of_memory, "requests refused because memory was full")          \
    X(expelled, "sessions expelled")                                      \
    X(sessions_died, "sessions whose process ended without closing them") \
    X(events_lost, "subscription events lost to full queues")             \
    X(turns, "turns of the lanes")                                        \
    X(sleeps, "times a lane slept")                                       \
    X(wakes, "doorbells and futex wakes sent to clients")                 \
    X(index_entries, "entries of the indexes, used and free")             \
    X(index_bytes, "bytes of the indexes")                                \
    X(uptime_us, "time since start")                                      \
    X(restarts, "times this memory was re-adopted by a new node")         \
    X(pulls, "objects pulled from other nodes")                           \
    X(pulls_failed, "pulls given up for good")                            \
    X(pulled_bytes_two_sided, "bytes that came in messages")              \
    X(pulled_bytes_one_sided, "bytes that were read in place")            \
    X(served_bytes, "bytes served to other nodes")                        \
    X(loans, "objects lent to other nodes now")                           \
    X(loans_overdue, "loans whose node was not heard of any more")        \
    X(checksum_failures, "pulls whose bytes were wrong")                  \
    X(conflicts, "objects dropped: another node sealed the id first")     \
    X(links_up, "links to other nodes")                                   \
    X(directory_keys, "objects whose places this node keeps")             \
    X(handshakes_refused, "handshakes with other nodes that failed")      \
    X(node_deaths, "other nodes taken for dead")                          \
    X(shares_refused, "requests of nodes that have their share")          \
    X(claims_refused, "claims of nodes that are not theirs to make")      \
    X(announcements_refused, "objects a full home was told of in vain")   \
    X(pinned_bytes, "bytes in memory that nigh_pin, or replicas, keep")   \
    X(registrations, "registrations of memory with the network, ever")    \
    X(rdma_lanes, "lanes that reach other nodes by RDMA, not TCP")        \
    X(device_requests, "work requests that RDMA devices took, ever")      \
    X(device_doorbells, "calls that handed RDMA devices requests")        \
    X(device_signalled, "requests with a completion of their own")        \
    X(device_messages, "messages that came by RDMA devices")              \
    X(device_wakes, "times that an RDMA device woke a lane")              \
    X(link_copied_bytes, "bytes copied to be sent to other nodes")        \
    X(pulled_bytes_pushed, "bytes that holders wrote here")               \
    X(memory_far_bytes, "memory far from the RDMA device of its lane")    \
    X(device_stock_lows, "times that shared receives of RDMA ran low")    \
    X(lanes, "lanes: no object is larger than one's part of the memory")  \
    X(spill_bytes, "most bytes on disk; 0: no bound that is known")       \
    X(spill_free_bytes, "of them, bytes that puts may have still")        \
    X(index_used, "entries of the indexes in use")                        \
    X(index_full, "requests refused because an index was full")           \
    X(nodes_suspected, "times that a node was suspected by others")       \
    X(nodes_found_dead, "nodes that the others declared dead")            \
    X(suspicions_refuted, "times that this node refuted a suspicion")     \
    X(datagrams_refused, "datagrams that were not of this cluster")       \
    X(nodes_reached, "other nodes that have answered datagrams")          \
    X(replicas_wanted, "replicas of objects whose count this node keeps") \
    X(replicas_missing, "of them, that no node holds")                    \
    X(replicas_made, "replicas made here for other nodes")                \
    X(replicas_repaired, "objects that lost replicas and have all again") \
    X(replica_failures, "times that a node was asked for one in vain")    \
    X(replica_bytes, "bytes of replicas that were made here")             \
    X(view_epoch, "the view that was agreed last; 0: none")               \
    X(view_active_epoch, "the last view that was active")                 \
    X(view_members, "nodes in the view")                                  \
    X(view_quorum, "1: this node is not cut off from most voters")        \
    X(view_elections, "times that this node was elected to lead views")   \
    X(loans_partial, "loans of what was being pulled itself, ever")       \
    X(pulls_sent_on, "pulls of others that were sent on, ever")           \
    X(directory_servers, "servers that keep the places of objects")       \
    X(directory_servers_up, "of them, those that are reached now")        \
    X(directory_losses, "times that one was not reached any more")        \
    X(call_frames_sent, "frames of calls sent to other nodes, ever")      \
    X(call_frames_written, "frames of calls written there, ever")         \
    X(call_rings_full, "times that there was no room to write one")       \
    X(links_writing_calls, "links over which calls are written")          \
    X(calls_begun, "calls begun at this node, but in pairs, ever")        \
    X(calls_taken, "requests that came for services here, ever")          \
    X(calls_timed_out, "calls that their deadline ended, ever")           \
    X(calls_busy, "calls that ended because too much was under way")      \
    X(calls_lost, "calls whose node was lost or not reached, ever")       \
    X(calls_under_way, "calls that have not ended yet")                   \
    X(requests_unanswered, "requests that services have not answered")    \
    X(services, "services that are registered here")                      \
    X(calls_retried, "times that idempotent calls were made again")       \
    X(collectives_begun, "calls of many nodes begun here, ever")          \
    X(collectives_taken, "parts of those of other nodes, ever")           \
    X(collectives_under_way, "both of them that have not ended yet")      \
    X(collectives_stale, "refused: reckoned with another view, ever")     \
    X(collectives_refused, "refused for another reason, ever")            \
    X(collective_answers, "nodes that answered those begun here, ever")   \
    X(collective_failures, "nodes that did not, or in vain, ever")        \
    X(bulk_moves, "moves of memory of calls by services here, ever")      \
    X(bulk_moves_failed, "of them, those that ended otherwise than well") \
    X(bulk_pulled_bytes, "bytes that they brought from callers, ever")    \
    X(bulk_pushed_bytes, "bytes that they brought to callers, ever")      \
    X(call_memory_bytes, "memory made for calls that is not gone yet")    \
    X(call_memory_limit_bytes, "most of it; 0: none is made")             \
    X(call_memory_refused, "times that it was refused, or not to be had") \
    X(pairs, "pairs of processes that call each other without the node")  \
    X(pairs_made, "pairs made, ever; what they call is not counted")      \
    X(pairs_dropped, "pairs that one of the two has let go of, ever")     \
    X(view_seats, "ranks given to nodes that the list does not name")     \
    X(view_seats_free, "ranks that may still be given to such nodes")     \
    X(view_votes, "1: this node has a vote on views")                     \
    X(view_unkept, "1: its votes cannot be kept: it has none any more")   \
    X(region_chunks, "chunks of regions that lie here")                   \
    X(region_memory_bytes, "memory of those, and of some on its way")     \
    X(region_memory_limit_bytes, "most of it")                            \
    X(region_homes, "regions whose changes this node decides")            \
    X(regions_mapped, "regions that clients here have open")              \
    X(region_operations, "reads, writes and the like, ever")              \
    X(region_parts_here, "parts of them that lay here, ever")             \
    X(region_parts_there, "parts at other nodes, ever")                   \
    X(region_parts_refused, "of these, those that the chunk had left")    \
    X(region_bytes_read, "that clients here have read, ever")             \
    X(region_bytes_written, "that they have written, ever")               \
    X(region_parts_waited, "parts that waited for their turn, ever")      \
    X(region_operations_held, "that waited by a session's limits, ever")  \
    X(region_low_limit_bytes, "a second, of low priority; 0: no limit")   \
    X(region_maps, "chunks that clients here have mapped")                \
    X(region_kept_bytes, "memory that only such maps keep")               \
    X(region_posts, "READs, WRITEs, atomics to other nodes, ever")        \
    X(region_posts_low, "of them, over connections of low priority's")    \
    X(region_ends, "connections for regions that ended alone, ever")      \
    X(region_post_bytes, "that READs and WRITEs of regions moved, ever")  \
    X(region_bytes_pushed, "of copies for clients elsewhere, ever")       \
    X(leases_refused, "leases that clients were refused, ever")           \
    X(spaces, "spaces that this node takes part in")                      \
    X(space_memory_bytes, "memory of those, and of some on its way")      \
    X(space_memory_limit_bytes, "most of it; 0: none are served")         \
    X(space_windows, "threads of clients here that use spaces")           \
    X(space_reads, "that the lane carried out, of these spaces")          \
    X(space_writes, "likewise")                                           \
    X(space_atomics, "likewise")                                          \
    X(space_locks, "likewise")                                            \
    X(space_messages, "to other nodes, of these spaces")                  \
    X(space_message_bytes, "of blocks, before these")                     \
    X(space_terms, "that homes here have begun, of these spaces")         \
    X(space_evictions, "copies given up for others, of these spaces")     \
    X(space_waiting, "operations that wait for a block")                  \
    X(space_blocks_used, "blocks of homes here that are allocated")       \
    X(space_frames_used, "copies of others' blocks")                      \
    X(space_blocks_lost, "blocks of homes here whose bytes are lost")     \
    X(space_client_reads, "of a block each, by clients here, by theirs")  \
    X(space_hits, "of these, those that found it where they read it")     \
    X(space_locks_kept, "locks that clients here had kept")               \
    X(space_asks, "of other nodes for a block, of these spaces")          \
    X(space_invalidations, "copies taken away from here")

/* Zero-fill, then set struct_size, which lets the struct grow: at its end. */
typedef struct nigh_node_stats {
    size_t struct_size; /* sizeof(nigh_node_stats) */
#define NIGH_NODE_STATS_FIELD(name, text) uint64_t name;
    NIGH_NODE_STATS_TABLE(NIGH_NODE_STATS_FIELD)
#undef NIGH_NODE_STATS_FIELD
} nigh_node_stats;

/* What an older node does not count is 0. NIGH_INVALID: struct_size is not set. */
NIGH_API nigh_status nigh_stats(nigh_client *client, nigh_node_stats *stats);

/* ---- the same, asynchronous (see client.h for the rules) ------------------ */

/*
 * All that a pointer names must be kept until the op has ended, and what is only read must not
 * change: `ids`, `items` with the data, options, metadata and names that they point to, `views`,
 * `statuses`, `freed_bytes`, `info`, the `writer` of a create. The library copies nothing of it,
 * but: nigh_create_start copies the id and the options with what they point to, nigh_stat_start the
 * id, nigh_seal_start the writer (which it uses up); these may go when the call has returned.
 */

NIGH_API nigh_status nigh_create_start(nigh_client *client, const nigh_id *id,
                                       const nigh_create_options *options, nigh_writer *writer,
                                       nigh_op *op);
NIGH_API nigh_status nigh_seal_start(nigh_client *client, nigh_writer *writer, nigh_op *op);
NIGH_API nigh_status nigh_put_many_start(nigh_client *client, nigh_put_item *items, size_t n,
                                         nigh_op *op);
NIGH_API nigh_status nigh_get_start(nigh_client *client, const nigh_id *ids, size_t n,
                                    uint64_t timeout_us, nigh_view *views, nigh_op *op);
NIGH_API nigh_status nigh_get_with_start(nigh_client *client, const nigh_id *ids, size_t n,
                                         uint64_t timeout_us, uint32_t flags, nigh_view *views,
                                         nigh_op *op);
NIGH_API nigh_status nigh_delete_start(nigh_client *client, const nigh_id *ids, size_t n,
                                       nigh_status *statuses, nigh_op *op);
NIGH_API nigh_status nigh_evict_start(nigh_client *client, uint64_t size_bytes,
                                      uint64_t *freed_bytes, nigh_op *op);
NIGH_API nigh_status nigh_refresh_start(nigh_client *client, const nigh_id *ids, size_t n,
                                        nigh_op *op);
NIGH_API nigh_status nigh_stat_start(nigh_client *client, const nigh_id *id, nigh_object_info *info,
                                     nigh_op *op);

#ifdef __cplusplus
}
#endif
#endif
