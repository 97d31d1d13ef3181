/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy of production (src/object/evict.h) behind the interface of the comparison. Holds no
 * decision of its own.
 */
#include "evict_policies.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "object/evict.h"

struct policy {
    struct evict evict;
    void *storage;
};

static struct policy *production_create(uint32_t max_entries, uint32_t objects,
                                        uint64_t capacity_bytes)
{
    struct policy *p = calloc(1, sizeof(*p));
    size_t bytes = align_up_u64(evict_storage_bytes(max_entries), CACHE_LINE);

    (void)objects;
    NIGH_ASSERT(p != NULL);
    p->storage = aligned_alloc(CACHE_LINE, bytes);
    NIGH_ASSERT(p->storage != NULL);
    NIGH_ASSERT(evict_init(&p->evict, max_entries, capacity_bytes, p->storage) == NIGH_OK);
    return p;
}

static void production_destroy(struct policy *p)
{
    NIGH_ASSERT(evict_is_valid(&p->evict));
    free(p->storage);
    free(p);
}

static void production_admit(struct policy *p, uint32_t entry, uint32_t object, uint64_t size_bytes)
{
    evict_admit(&p->evict, entry, size_bytes, hash_u64((uint64_t)object + 1));
}

static void production_touch(struct policy *p, uint32_t entry)
{
    evict_touch(&p->evict, entry);
}

static void production_forget(struct policy *p, uint32_t entry)
{
    evict_forget(&p->evict, entry);
}

static uint32_t production_victims(struct policy *p, uint32_t max_count, uint64_t bytes_wanted,
                                   uint32_t *entries)
{
    return evict_victims(&p->evict, max_count, bytes_wanted, entries);
}

static void production_evicted(struct policy *p, uint32_t entry)
{
    evict_evicted(&p->evict, entry);
}

static void production_kept(struct policy *p, uint32_t entry)
{
    evict_kept(&p->evict, entry);
}

static void production_missed(struct policy *p, uint32_t object, bool again)
{
    (void)again;
    evict_missed(&p->evict, hash_u64((uint64_t)object + 1));
}

const struct policy_ops evict_policy_production = {
    .name = "nigh",
    .create = production_create,
    .destroy = production_destroy,
    .admit = production_admit,
    .touch = production_touch,
    .forget = production_forget,
    .victims = production_victims,
    .evicted = production_evicted,
    .kept = production_kept,
    .missed = production_missed,
};
