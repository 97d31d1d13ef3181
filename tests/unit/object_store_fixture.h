/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store with everything around it that a test needs: real memory and a real index, a shell that
 * writes down what it is told, clients in this process that pin through the real functions, a disk
 * of copies, a clock that stands. Shared by the unit tests and the fuzz target, so it asserts with
 * NIGH_ASSERT and not with cmocka.
 */
#ifndef OBJECT_STORE_FIXTURE_H
#define OBJECT_STORE_FIXTURE_H

#include "base/check.h"
#include "base/hash.h"
#include "memory/heap.h"
#include "memory/index.h"
#include "object/store.h"

#define FIXTURE_POOLS    4u
#define FIXTURE_SESSIONS 128u
#define FIXTURE_COOKIES  (1u << 20)
#define FIXTURE_EVENTS   65536u
#define FIXTURE_FILES    4096u
#define FIXTURE_RANK     5u /* of the node in its cluster */

/* A file on the disk of the fixture. */
struct fixture_file {
    bool used;
    uint32_t pool;
    uint64_t generation;
    uint32_t incarnation;
    uint8_t *bytes;
    uint64_t size_bytes;
    uint32_t crc;
};

struct fixture_client {
    void *memory; /* the session's; NULL: not open */
    struct session_front *front;
    struct session_lane *lane;
    struct pin_chunk *chunks;
    uint32_t pool;
    uint32_t uid;
    uint64_t session_id;
    _Atomic uint64_t quota_used;
};

struct fixture_event {
    uint32_t session;
    struct session_event event;
};

struct fixture {
    struct extent_set *set;
    struct store *store;
    void *index_memory[FIXTURE_POOLS];
    struct store_pool_config pools[FIXTURE_POOLS];
    bool pool_used[FIXTURE_POOLS];
    struct fixture_client clients[FIXTURE_SESSIONS];
    uint32_t entries;
    uint32_t lanes;
    uint32_t incarnation;
    uint64_t now_us;
    uint64_t wall_ns;

    /* What the shell was told. cookies[] says how often each was completed. */
    uint8_t *completed;
    struct session_cqe *completions;
    uint32_t next_cookie;
    uint64_t completion_count;
    struct fixture_event *events;
    uint32_t event_count;
    uint32_t expelled;      /* how often */
    uint32_t expelled_last; /* whom */

    /* The disk. */
    bool spills;
    uint64_t spill_bytes;
    uint64_t disk_bytes;
    uint32_t max_pins;
    struct store_disk_job jobs[LIMIT_SPILL_QUEUE];
    uint32_t job_count;
    struct fixture_file files[FIXTURE_FILES];
    nigh_status fail_writes; /* what a write ends with instead */
    nigh_status fail_reads;
    uint32_t forgotten;
    bool disk_full_queue; /* the shell takes no job */
};

struct fixture_options {
    uint64_t memory_bytes; /* 0: the least */
    uint32_t entries;      /* of each index; 0: 4096 */
    uint32_t lanes;        /* 0: 1 */
    uint32_t max_pins;     /* of one session; 0: as many as can be */
    bool spills;
    uint64_t spill_bytes; /* 0: no bound */
    uint64_t disk_bytes;  /* of the disk; 0: no end of it */
};

struct fixture *fixture_create(const struct fixture_options *options);
void fixture_destroy(struct fixture *fixture);

/* Adds pool `pool`, owned by uid 1000 + pool. */
void fixture_pool(struct fixture *fixture, uint32_t pool, bool strict, uint64_t quota_bytes);

/* Of cmocka's tests: pools 0, 1, and 2, which is strict, of uids 1000, 1001 and 1002, with sessions
 * 1 and 2 of the first, 3 and 4 of the others; and the end of any, which fails where the store is
 * not valid. */
int fixture_setup_pools(void **state);
int fixture_teardown(void **state);

/* Attaches a session, or ends it. */
void fixture_open(struct fixture *fixture, uint32_t session, uint32_t pool, uint32_t uid,
                  bool may_write);
void fixture_close(struct fixture *fixture, uint32_t session);

/* What a killed node leaves: the store object is gone, the memories stay. Then comes another. */
void fixture_kill(struct fixture *fixture);
void fixture_restart(struct fixture *fixture);
void fixture_reopen(struct fixture *fixture, uint32_t session);
void fixture_reopen_as(struct fixture *fixture, uint32_t session, bool may_write);
/* A session that does not come back: the node unmaps its memory. */
void fixture_forget(struct fixture *fixture, uint32_t session);

/* Everything from the beginning, but with the same memory: quick, for many short lives. No session
 * is open. Cookies go on. */
void fixture_recycle(struct fixture *fixture);

/* Submits; returns the cookie it was given. */
uint32_t fixture_submit(struct fixture *fixture, uint32_t session, struct session_sqe sqe);
/* A turn; and time that passes with turns every millisecond. */
void fixture_tick(struct fixture *fixture);
void fixture_pass(struct fixture *fixture, uint64_t us);
/* Whether a submission has ended, once. */
bool fixture_ended(const struct fixture *fixture, uint32_t cookie);
/* Its completion; it must have ended, once. */
struct session_cqe fixture_completion(const struct fixture *fixture, uint32_t cookie);

/* Submits, takes turns until it ends (without time passing), returns the completion. */
struct session_cqe fixture_do(struct fixture *fixture, uint32_t session, struct session_sqe sqe);

/* The same for one operation on a key. */
nigh_status fixture_status(struct fixture *fixture, uint32_t session, uint8_t op, uint64_t key);
struct session_cqe fixture_get(struct fixture *fixture, uint32_t session, uint64_t key,
                               uint64_t timeout_us);
struct session_cqe fixture_lease(struct fixture *fixture, uint32_t session, uint64_t bytes);
struct session_cqe fixture_create_key(struct fixture *fixture, uint32_t session, uint64_t key,
                                      uint64_t bytes, uint8_t flags, uint64_t timeout_us);
nigh_status fixture_seal(struct fixture *fixture, uint32_t session, uint32_t ref);
/* Create, fill with the key's pattern, seal. */
nigh_status fixture_put(struct fixture *fixture, uint32_t session, uint64_t key, uint64_t bytes);
/* The same with a seal of leased bytes at `offset`. */
nigh_status fixture_put_leased(struct fixture *fixture, uint32_t session, uint64_t key,
                               uint64_t offset, uint64_t bytes);
/* Puts keys first, first + 1, ... of a size until memory is full without evicting: how many. */
uint64_t fixture_fill_up(struct fixture *fixture, uint32_t session, uint64_t first, uint64_t bytes);

/* A submission with the id of a key. */
struct session_sqe fixture_sqe(uint8_t op, uint64_t key);
void fixture_id(uint64_t key, uint8_t id[LIMIT_ID_BYTES]);

/* Writes, or checks, the pattern of a key. */
void fixture_fill(struct fixture *fixture, uint64_t key, uint64_t offset, uint64_t bytes);
bool fixture_holds(const struct fixture *fixture, uint64_t key, uint64_t offset, uint64_t bytes);

/* A get without IPC, as libnigh does it, into pin word `slot` of the first chunk. */
enum index_answer fixture_acquire(struct fixture *fixture, uint32_t session, uint64_t key,
                                  uint32_t slot, uint32_t *entry);
void fixture_release(struct fixture *fixture, uint32_t session, uint32_t slot);
/* Ends a lane pin of a completion. */
void fixture_unpin(struct fixture *fixture, uint32_t session, uint32_t pin);

/* Carries out the disk's jobs; returns how many. */
uint32_t fixture_disk(struct fixture *fixture);

nigh_node_stats fixture_stats(const struct fixture *fixture);
/* How many events of a kind a session got for a key. */
uint32_t fixture_events(const struct fixture *fixture, uint32_t session, nigh_event_kind kind,
                        uint64_t key);

#endif
