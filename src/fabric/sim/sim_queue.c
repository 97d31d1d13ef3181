/* SPDX-License-Identifier: Apache-2.0 */
/* The event queue (a heap of four children a place: fewer cache lines than two) and the pools. */
#include "fabric/sim/sim_queue.h"

#include <stdlib.h>
#include <string.h>

#define POOL_CHUNK_BYTES 65536u
#define POOL_ALIGNMENT   16u
#define QUEUE_FIRST      1024u
#define QUEUE_CHILDREN   4u

/* ---- pools ---------------------------------------------------------------- */

void sim_pool_init(struct sim_pool *pool, size_t record_bytes)
{
    record_bytes = (size_t)align_up_u64(max_size(record_bytes, sizeof(void *)), POOL_ALIGNMENT);
    *pool = (struct sim_pool){.record_bytes = record_bytes};
}

void sim_pool_fini(struct sim_pool *pool)
{
    NIGH_ASSERT(pool->in_use == 0);
    while (pool->chunks != NULL) {
        void *chunk = pool->chunks;

        memcpy(&pool->chunks, chunk, sizeof(void *));
        free(chunk);
    }
}

static void sim_pool_grow(struct sim_pool *pool)
{
    size_t count = max_size(1, POOL_CHUNK_BYTES / pool->record_bytes);
    char *chunk = malloc(POOL_ALIGNMENT + count * pool->record_bytes);

    NIGH_ASSERT(chunk != NULL);
    memcpy(chunk, &pool->chunks, sizeof(void *));
    pool->chunks = chunk;
    for (size_t i = count; i > 0; i--) {
        char *record = chunk + POOL_ALIGNMENT + (i - 1) * pool->record_bytes;

        memcpy(record, &pool->free, sizeof(void *));
        pool->free = record;
    }
}

void *sim_pool_take(struct sim_pool *pool)
{
    if (pool->free == NULL)
        sim_pool_grow(pool);
    void *record = pool->free;

    memcpy(&pool->free, record, sizeof(void *));
    memset(record, 0, pool->record_bytes);
    pool->in_use++;
    return record;
}

void sim_pool_give(struct sim_pool *pool, void *record)
{
    NIGH_ASSERT(pool->in_use > 0);
    memcpy(record, &pool->free, sizeof(void *));
    pool->free = record;
    pool->in_use--;
}

/* ---- events --------------------------------------------------------------- */

void sim_queue_init(struct sim_queue *queue)
{
    *queue = (struct sim_queue){.entries = NULL};
}

void sim_queue_fini(struct sim_queue *queue)
{
    NIGH_ASSERT(queue->count == 0);
    free(queue->entries);
}

static bool sim_entry_is_before(const struct sim_queue_entry *a, const struct sim_queue_entry *b)
{
    return a->time_us != b->time_us ? a->time_us < b->time_us : a->order < b->order;
}

static void sim_queue_put(struct sim_queue *queue, uint32_t index, struct sim_queue_entry entry)
{
    queue->entries[index] = entry;
    if ((entry.order & 1) != 0)
        entry.event->place = index + 1; /* the others' memory is left alone: it is far away */
}

static void sim_queue_sift_up(struct sim_queue *queue, uint32_t index, struct sim_queue_entry entry)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / QUEUE_CHILDREN;

        if (!sim_entry_is_before(&entry, &queue->entries[parent]))
            break;
        sim_queue_put(queue, index, queue->entries[parent]);
        index = parent;
    }
    sim_queue_put(queue, index, entry);
}

static void sim_queue_sift_down(struct sim_queue *queue, uint32_t index,
                                struct sim_queue_entry entry)
{
    for (;;) {
        uint32_t first = QUEUE_CHILDREN * index + 1;
        uint32_t end = min_u32(first + QUEUE_CHILDREN, queue->count);
        uint32_t least = first;

        if (first >= queue->count)
            break;
        for (uint32_t child = first + 1; child < end; child++) {
            if (sim_entry_is_before(&queue->entries[child], &queue->entries[least]))
                least = child;
        }
        if (!sim_entry_is_before(&queue->entries[least], &entry))
            break;
        sim_queue_put(queue, index, queue->entries[least]);
        index = least;
    }
    sim_queue_put(queue, index, entry);
}

void sim_queue_add(struct sim_queue *queue, struct sim_event *event, uint64_t time_us)
{
    NIGH_ASSERT(event->place == 0);
    if (queue->count == queue->capacity) {
        uint32_t capacity = max_u32(QUEUE_FIRST, 2 * queue->capacity);

        NIGH_ASSERT(capacity > queue->capacity);
        queue->entries = realloc(queue->entries, capacity * sizeof(*queue->entries));
        NIGH_ASSERT(queue->entries != NULL);
        queue->capacity = capacity;
    }
    queue->count++;
    uint64_t order = queue->next_order | sim_event_is_timer(event);

    queue->next_order += 2;
    sim_queue_sift_up(queue, queue->count - 1, (struct sim_queue_entry){time_us, order, event});
    NIGH_ASSERT_SLOW(sim_queue_is_valid(queue));
}

static void sim_queue_remove_at(struct sim_queue *queue, uint32_t index)
{
    queue->entries[index].event->place = 0;
    queue->count--;
    if (index == queue->count)
        return;
    struct sim_queue_entry last = queue->entries[queue->count];

    /* The last fills the gap; it may belong above it as well as below. */
    if (index > 0 && sim_entry_is_before(&last, &queue->entries[(index - 1) / QUEUE_CHILDREN]))
        sim_queue_sift_up(queue, index, last);
    else
        sim_queue_sift_down(queue, index, last);
    NIGH_ASSERT_SLOW(sim_queue_is_valid(queue));
}

void sim_queue_remove(struct sim_queue *queue, struct sim_event *event)
{
    uint32_t index = event->place - 1;

    NIGH_ASSERT(event->place > 0 && index < queue->count && queue->entries[index].event == event);
    sim_queue_remove_at(queue, index);
}

struct sim_event *sim_queue_pop(struct sim_queue *queue)
{
    NIGH_ASSERT(queue->count > 0);
    struct sim_event *event = queue->entries[0].event;

    sim_queue_remove_at(queue, 0);
    return event;
}

bool sim_queue_is_valid(const struct sim_queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        const struct sim_queue_entry *entry = &queue->entries[i];

        if (entry->order >= queue->next_order)
            return false;
        if (entry->event->place != ((entry->order & 1) != 0 ? i + 1 : 0))
            return false;
        if (i > 0 && !sim_entry_is_before(&queue->entries[(i - 1) / QUEUE_CHILDREN], entry))
            return false;
    }
    return true;
}
