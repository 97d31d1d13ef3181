/* SPDX-License-Identifier: Apache-2.0 */
/* A lane's store with memory, one pool and one client, for tests of what joins it to others: the
 * client's completions go to the test, and nothing else is told. */
#ifndef SUPPORT_LANE_STORE_H
#define SUPPORT_LANE_STORE_H

#include <stdlib.h>
#include <string.h>

#include "memory/extent.h"
#include "memory/index.h"
#include "memory/session.h"
#include "object/store.h"
#include "support/support.h"

#define SUPPORT_STORE_MEMORY_BYTES (UINT64_C(64) << 20)
#define SUPPORT_STORE_EXTENT_BYTES (UINT64_C(8) << 20)
#define SUPPORT_STORE_POOL         0u
#define SUPPORT_STORE_SESSION      0u
#define SUPPORT_STORE_UID          1000u

struct support_store {
    struct extent_set *set;
    void *index_memory, *session;
    _Atomic uint64_t quota_used;
    struct store *store;
};

/* What differs. */
struct support_store_options {
    uint32_t rank;
    uint32_t entries;
    uint64_t (*wall_ns)(void *context);
    void (*complete)(void *context, uint32_t session, const struct session_cqe *cqe);
    void *context; /* of complete */
};

static inline void support_store_no_event(void *context, uint32_t session,
                                          const struct session_event *event)
{
    (void)context;
    (void)session;
    (void)event;
}

static inline void support_store_no_expel(void *context, uint32_t session, const char *why)
{
    (void)context;
    (void)session;
    fail_msg("expelled: %s", why);
}

static inline void support_store_open_session(struct support_store *at)
{
    struct store_session_config session = {.session_id = 1,
                                           .pool = SUPPORT_STORE_POOL,
                                           .uid = SUPPORT_STORE_UID,
                                           .pid = 1000,
                                           .name = "client",
                                           .may_write = true,
                                           .quota_used = &at->quota_used};

    session.front = session_front_of(at->session);
    session.lane = session_lane_of(at->session, 0);
    session.chunks = session_chunks_of(at->session, 1);
    assert_int_equal(store_session_open(at->store, &session), NIGH_OK);
}

static inline void support_store_open(struct support_store *at,
                                      const struct support_store_options *options)
{
    uint64_t bytes = index_size_bytes(options->entries);
    struct extent_options extents = {.memory_bytes = SUPPORT_STORE_MEMORY_BYTES,
                                     .extent_bytes = SUPPORT_STORE_EXTENT_BYTES,
                                     .lanes = 1,
                                     .huge = EXTENT_HUGE_NEVER};
    struct store_config config = {
        .lanes = 1,
        .rank = options->rank,
        .incarnation = 1,
        .max_blocks = 4096,
        .spill_bytes = UINT64_MAX,
        .max_lane_pins = LIMIT_LANE_PINS,
        .wall_ns = options->wall_ns,
        .shell = {.context = options->context,
                  .complete = options->complete,
                  .event = support_store_no_event,
                  .expel = support_store_no_expel},
    };
    struct store_pool_config pool = {.pool = SUPPORT_STORE_POOL, .owner_uid = SUPPORT_STORE_UID};
    char why[256];

    assert_int_equal(extent_set_create(&extents, &at->set, why, sizeof(why)), NIGH_OK);
    config.extents = at->set;
    at->index_memory = aligned_alloc(4096, bytes);
    at->session = calloc(1, session_memory_bytes(1));
    assert_true(at->index_memory != NULL && at->session != NULL);
    memset(at->index_memory, 0, bytes);
    index_format(at->index_memory, SUPPORT_STORE_POOL, 0, 1, options->entries, &pool.index);
    assert_int_equal(store_create(&config, &at->store), NIGH_OK);
    assert_int_equal(store_pool_add(at->store, &pool), NIGH_OK);
    support_store_open_session(at);
}

static inline void support_store_close(struct support_store *at)
{
    store_destroy(at->store);
    extent_set_destroy(at->set);
    free(at->index_memory);
    free(at->session);
}

#endif
