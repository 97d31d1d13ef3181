/* SPDX-License-Identifier: Apache-2.0 */
/* See allocator.h. */
#include "space/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"

enum run_kind {
    RUN_NONE,
    RUN_GIVEN,
    RUN_LEAVING, /* being freed */
    RUN_FREE
};

static enum run_kind kind_of(const struct space_allocator *allocator, uint64_t first)
{
    return (enum run_kind)(allocator->runs[first] & 3);
}

static uint32_t length_of(const struct space_allocator *allocator, uint64_t first)
{
    return allocator->runs[first] >> 2;
}

static void set_run(struct space_allocator *allocator, uint64_t first, uint32_t length,
                    enum run_kind kind)
{
    allocator->runs[first] = length << 2 | kind;
}

static uint32_t class_of(uint32_t length)
{
    return 31u - (uint32_t)__builtin_clz(length);
}

nigh_status space_allocator_init(struct space_allocator *allocator, uint64_t count)
{
    *allocator = (struct space_allocator){.count = count, .used = count};
    if (count == 0 || count > LIMIT_SPACE_BLOCKS) {
        return NIGH_INVALID;
    }
    allocator->runs = calloc(count, sizeof(uint32_t));
    allocator->ends = calloc(count, sizeof(uint32_t));
    allocator->next = calloc(count, sizeof(uint32_t));
    allocator->before = calloc(count, sizeof(uint32_t));
    if (allocator->runs == NULL || allocator->ends == NULL || allocator->next == NULL ||
        allocator->before == NULL) {
        space_allocator_fini(allocator);
        return NIGH_OUT_OF_MEMORY;
    }
    for (uint64_t n = 0; n < count; n++) {
        set_run(allocator, n, 1, RUN_GIVEN);
    }
    return NIGH_OK;
}

void space_allocator_fini(struct space_allocator *allocator)
{
    free(allocator->runs);
    free(allocator->ends);
    free(allocator->next);
    free(allocator->before);
    *allocator = (struct space_allocator){0};
}

/* ---- free runs ------------------------------------------------------------ */

static void link_free(struct space_allocator *allocator, uint64_t first, uint32_t length)
{
    uint32_t *head = &allocator->heads[class_of(length)];

    set_run(allocator, first, length, RUN_FREE);
    allocator->ends[first + length - 1] = length;
    allocator->before[first] = 0;
    allocator->next[first] = *head;
    if (*head != 0) {
        allocator->before[*head - 1] = (uint32_t)first + 1;
    }
    *head = (uint32_t)first + 1;
}

static void unlink_free(struct space_allocator *allocator, uint64_t first)
{
    uint32_t length = length_of(allocator, first);
    uint32_t next = allocator->next[first], before = allocator->before[first];

    NIGH_ASSERT(kind_of(allocator, first) == RUN_FREE);
    if (before != 0) {
        allocator->next[before - 1] = next;
    } else {
        allocator->heads[class_of(length)] = next;
    }
    if (next != 0) {
        allocator->before[next - 1] = before;
    }
    allocator->ends[first + length - 1] = 0;
    allocator->runs[first] = 0;
}

/* Free runs of one class that are looked at for one that is long enough. */
#define LOOKS 256u

/* Where so many blocks would begin in a free run, or SPACE_NO_BLOCK. */
static uint64_t fit(const struct space_allocator *allocator, uint64_t first, uint64_t blocks,
                    uint64_t align)
{
    uint64_t begin = (first + align - 1) & ~(align - 1);
    uint64_t end = first + length_of(allocator, first);

    return begin <= end && blocks <= end - begin ? begin : SPACE_NO_BLOCK;
}

/* A run of their class, or a larger one, in which they fit; *begin: where. Where there are many of
 * a class, one of it may not be found, so that nobody can make this long: but for the first larger
 * class in which they fit whatever begins where. */
static uint64_t find(const struct space_allocator *allocator, uint64_t blocks, uint64_t align,
                     uint64_t *begin)
{
    for (uint32_t class = class_of((uint32_t)blocks); class < SPACE_ALLOCATOR_CLASSES; class ++) {
        uint32_t looks = 0;

        for (uint32_t n = allocator->heads[class]; n != 0 && looks < LOOKS;
             n = allocator->next[n - 1], looks++) {
            *begin = fit(allocator, n - 1, blocks, align);
            if (*begin != SPACE_NO_BLOCK) {
                return n - 1;
            }
        }
    }
    return SPACE_NO_BLOCK;
}

uint64_t space_allocator_take_aligned(struct space_allocator *allocator, uint64_t blocks,
                                      uint64_t align)
{
    uint64_t first, begin, end;

    if (blocks == 0 || blocks > allocator->count || align > LIMIT_SPACE_BLOCKS) {
        return SPACE_NO_BLOCK;
    }
    first = find(allocator, blocks, align, &begin);
    if (first == SPACE_NO_BLOCK) {
        return SPACE_NO_BLOCK;
    }
    end = first + length_of(allocator, first);
    unlink_free(allocator, first);
    if (begin > first) {
        link_free(allocator, first, (uint32_t)(begin - first));
    }
    if (end > begin + blocks) {
        link_free(allocator, begin + blocks, (uint32_t)(end - begin - blocks));
    }
    set_run(allocator, begin, (uint32_t)blocks, RUN_GIVEN);
    allocator->used += blocks;
    return begin;
}

uint64_t space_allocator_take(struct space_allocator *allocator, uint64_t blocks)
{
    return space_allocator_take_aligned(allocator, blocks, 1);
}

/* ---- given runs ----------------------------------------------------------- */

uint64_t space_allocator_length(const struct space_allocator *allocator, uint64_t first)
{
    if (first >= allocator->count || kind_of(allocator, first) != RUN_GIVEN) {
        return 0;
    }
    return length_of(allocator, first);
}

void space_allocator_join(struct space_allocator *allocator, uint64_t first, uint64_t blocks)
{
    for (uint64_t n = first; n < first + blocks; n++) {
        NIGH_ASSERT(space_allocator_length(allocator, n) == 1);
        allocator->runs[n] = 0;
    }
    set_run(allocator, first, (uint32_t)blocks, RUN_GIVEN);
}

void space_allocator_leave(struct space_allocator *allocator, uint64_t first)
{
    NIGH_ASSERT(space_allocator_length(allocator, first) != 0);
    set_run(allocator, first, length_of(allocator, first), RUN_LEAVING);
}

void space_allocator_keep(struct space_allocator *allocator, uint64_t first)
{
    NIGH_ASSERT(kind_of(allocator, first) == RUN_LEAVING);
    set_run(allocator, first, length_of(allocator, first), RUN_GIVEN);
}

void space_allocator_give(struct space_allocator *allocator, uint64_t first)
{
    uint32_t length = length_of(allocator, first);
    uint64_t next = first + length;

    NIGH_ASSERT(kind_of(allocator, first) == RUN_LEAVING);
    allocator->used -= length;
    allocator->runs[first] = 0;
    if (next < allocator->count && kind_of(allocator, next) == RUN_FREE) {
        uint32_t more = length_of(allocator, next);

        unlink_free(allocator, next);
        length += more;
    }
    if (first > 0 && allocator->ends[first - 1] != 0) {
        uint32_t more = allocator->ends[first - 1];

        first -= more;
        unlink_free(allocator, first);
        length += more;
    }
    link_free(allocator, first, length);
}

/* ---- looked at ------------------------------------------------------------ */

static uint64_t linked(const struct space_allocator *allocator)
{
    uint64_t count = 0;

    for (uint32_t class = 0; class < SPACE_ALLOCATOR_CLASSES; class ++) {
        uint32_t before = 0;

        for (uint32_t n = allocator->heads[class]; n != 0; n = allocator->next[n - 1]) {
            if (kind_of(allocator, n - 1) != RUN_FREE ||
                class_of(length_of(allocator, n - 1)) != class ||
                allocator->before[n - 1] != before) {
                return UINT64_MAX;
            }
            before = n;
            count++;
        }
    }
    return count;
}

bool space_allocator_is_valid(const struct space_allocator *allocator)
{
    uint64_t used = 0, runs_free = 0;
    bool was_free = false;

    for (uint64_t first = 0; first < allocator->count;) {
        uint32_t length = length_of(allocator, first);
        bool is_free = kind_of(allocator, first) == RUN_FREE;

        if (kind_of(allocator, first) == RUN_NONE || length == 0 ||
            length > allocator->count - first || (is_free && was_free)) {
            return false;
        }
        for (uint64_t n = first; n < first + length; n++) {
            bool is_end = is_free && n == first + length - 1;

            if ((n != first && allocator->runs[n] != 0) ||
                allocator->ends[n] != (is_end ? length : 0)) {
                return false;
            }
        }
        used += is_free ? 0 : length;
        runs_free += is_free;
        was_free = is_free;
        first += length;
    }
    return used == allocator->used && linked(allocator) == runs_free;
}
