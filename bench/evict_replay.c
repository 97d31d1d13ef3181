/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane's side of a replayed trace; see evict_replay.h. Its readers: eight threads, a ring of
 * hints each as long as a pin chunk's, which overwrites its oldest; each holds its last object.
 */
#include "evict_replay.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"

#define READERS     8u
#define NONE        UINT32_MAX
#define BATCH       64u
#define BATCH_SHARE 128u /* a batch makes at least this share of the capacity free */

struct reader {
    uint32_t hints[LIMIT_HINTS_A_CHUNK];
    uint32_t left; /* hints ever left since the last drain */
    uint32_t pin;
};

struct lane {
    const struct trace *trace;
    const struct policy_ops *ops;
    struct policy *policy;
    uint32_t *entry_of;  /* by object; NONE: not in memory */
    uint32_t *object_of; /* by entry */
    uint32_t *free_entries;
    uint32_t free_count;
    uint32_t hint_percent;
    uint64_t used;
    uint64_t seed;
    struct reader readers[READERS];
    struct replay_result *result;
};

static void lane_init(struct lane *lane, const struct trace *trace, const struct policy_ops *ops)
{
    uint32_t entries = trace->objects + 1;

    lane->trace = trace;
    lane->ops = ops;
    lane->policy = ops->create(entries, trace->objects, trace->capacity);
    lane->entry_of = malloc(trace->objects * sizeof(uint32_t));
    lane->object_of = malloc(entries * sizeof(uint32_t));
    lane->free_entries = malloc(entries * sizeof(uint32_t));
    NIGH_ASSERT(lane->entry_of != NULL && lane->object_of != NULL && lane->free_entries != NULL);
    memset(lane->entry_of, 0xff, trace->objects * sizeof(uint32_t));
    for (uint32_t i = 0; i < entries; i++) {
        lane->free_entries[lane->free_count++] = entries - 1 - i;
    }
    for (uint32_t i = 0; i < READERS; i++) {
        lane->readers[i].pin = NONE;
    }
}

static void lane_fini(struct lane *lane)
{
    lane->ops->destroy(lane->policy);
    free(lane->entry_of);
    free(lane->object_of);
    free(lane->free_entries);
}

static void give_up(struct lane *lane, uint32_t entry)
{
    uint32_t object = lane->object_of[entry];

    lane->entry_of[object] = NONE;
    lane->used -= lane->trace->sizes[object];
    lane->free_entries[lane->free_count++] = entry;
}

static bool is_pinned(const struct lane *lane, uint32_t entry)
{
    for (uint32_t i = 0; i < READERS; i++) {
        if (lane->readers[i].pin == entry) {
            return true;
        }
    }
    return false;
}

static void drain_hints(struct lane *lane)
{
    for (uint32_t i = 0; i < READERS; i++) {
        struct reader *reader = &lane->readers[i];

        for (uint32_t k = 0; k < min_u32(reader->left, LIMIT_HINTS_A_CHUNK); k++) {
            lane->ops->touch(lane->policy, reader->hints[k]);
        }
        reader->left = 0;
    }
}

/* Makes room for `size` bytes; false when the pinned objects do not leave any. */
static bool make_room(struct lane *lane, uint64_t size)
{
    uint64_t capacity = lane->trace->capacity;

    for (uint32_t round = 0; lane->used + size > capacity; round++) {
        uint32_t victims[BATCH];
        uint64_t want = max_u64(lane->used + size - capacity, capacity / BATCH_SHARE);
        uint32_t count;

        if (round == LIMIT_EVICT_ROUNDS) {
            return false;
        }
        drain_hints(lane);
        count = lane->ops->victims(lane->policy, BATCH, want, victims);
        lane->result->offers += count;
        for (uint32_t i = 0; i < count; i++) {
            if (is_pinned(lane, victims[i])) {
                lane->result->kept++;
                lane->ops->kept(lane->policy, victims[i]);
            } else {
                lane->ops->evicted(lane->policy, victims[i]);
                give_up(lane, victims[i]);
            }
        }
    }
    return true;
}

static void remove_object(struct lane *lane, uint32_t object)
{
    uint32_t entry = lane->entry_of[object];

    if (entry == NONE) {
        return;
    }
    for (uint32_t i = 0; i < READERS; i++) {
        if (lane->readers[i].pin == entry) {
            lane->readers[i].pin = NONE;
        }
    }
    lane->ops->forget(lane->policy, entry);
    give_up(lane, entry);
}

/* One use, or what else the kind says: whether the object was in memory. */
static bool use_object(struct lane *lane, uint32_t object, uint32_t kind)
{
    uint64_t size = lane->trace->sizes[object];
    uint32_t entry = lane->entry_of[object];
    uint64_t chance = trace_random(&lane->seed);
    struct reader *reader = &lane->readers[chance % READERS];
    bool hit = entry != NONE;

    if (!hit && kind != TRACE_PUT && lane->ops->missed != NULL) {
        lane->ops->missed(lane->policy, object, kind != TRACE_ONCE);
    }
    if (!hit && kind == TRACE_ONCE) {
        return false;
    }
    if (!hit) {
        if (size > lane->trace->capacity || !make_room(lane, size)) {
            return false;
        }
        entry = lane->free_entries[--lane->free_count];
        lane->entry_of[object] = entry;
        lane->object_of[entry] = object;
        lane->used += size;
        lane->ops->admit(lane->policy, entry, object, size);
    } else if ((chance >> 32) % 100 < lane->hint_percent) {
        reader->hints[reader->left++ % LIMIT_HINTS_A_CHUNK] = entry;
    }
    reader->pin = entry;
    return hit;
}

void replay(const struct trace *trace, const struct policy_ops *ops, uint32_t hint_percent,
            uint64_t seed, struct replay_result *result)
{
    struct lane lane = {.hint_percent = hint_percent, .seed = seed, .result = result};
    uint64_t uses = 0;
    uint64_t misses = 0;
    double bytes = 0;
    double missed = 0;

    *result = (struct replay_result){0};
    lane_init(&lane, trace, ops);
    for (uint32_t i = 0; i < trace->length; i++) {
        uint32_t object = trace->steps[i] & TRACE_OBJECT;
        uint32_t kind = trace->steps[i] & ~TRACE_OBJECT;
        bool hit;

        if (kind == TRACE_DELETE) {
            remove_object(&lane, object);
            continue;
        }
        hit = use_object(&lane, object, kind);
        if (kind == TRACE_PUT) {
            continue;
        }
        uses++;
        bytes += (double)trace->sizes[object];
        if (!hit) {
            misses++;
            missed += (double)trace->sizes[object];
        }
    }
    lane_fini(&lane);
    result->objects = (double)misses / (double)uses;
    result->bytes = missed / bytes;
}
