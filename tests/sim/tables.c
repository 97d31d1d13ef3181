/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large tables, kept between worlds. Lanes have many of them, of which a world touches little: to
 * map them, to fault what is touched in, and to unmap them again took longer than what is done in
 * them. The linker sends calloc and free of these tests here (--wrap); what is small goes on to
 * libc.
 *
 * A table that was given back goes to whoever wants as much next, and those of its pages that the
 * kernel says are there are cleared for them: all others read as zeroes still. Nothing faults who
 * uses a table after its end; so some worlds do without this (tables_keep), and those under a
 * sanitizer too.
 */
#include "tables.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"

#ifndef SIM_KEEPS_TABLES

void tables_keep(bool keep)
{
    (void)keep;
}

#else

#define PAGE        4096u
#define LEAST_BYTES 65536u
#define SIZES       512u
#define ROOM_BYTES  (UINT64_C(64) << 30) /* of address space */
#define MOST_PAGES  16384u               /* of one table */
#define MOST_KEPT   (32 << 20)           /* bytes that the C library keeps of what is not a table */

void *__real_calloc(size_t count, size_t bytes);
void __real_free(void *memory);
void *__wrap_calloc(size_t count, size_t bytes);
void __wrap_free(void *memory);

/* In the page before its table. */
struct table_head {
    struct table_head *next; /* of those that nobody has */
    uint32_t size;
};

struct table_size {
    uint64_t pages;
    struct table_head *spare;
};

static struct table_size sizes[SIZES];
static uint32_t size_count;
static uint8_t *room;
static uint64_t room_used;
static bool keeping;

void tables_keep(bool keep)
{
    keeping = keep;
    if (keep && room == NULL) {
        (void)mallopt(M_MMAP_THRESHOLD, MOST_KEPT);
        (void)mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
        room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        NIGH_ASSERT(room != MAP_FAILED);
    }
}

/* The number of a size; SIZES: there are too many. */
static uint32_t find_size(uint64_t pages)
{
    for (uint32_t n = 0; n < size_count; n++) {
        if (sizes[n].pages == pages) {
            return n;
        }
    }
    if (size_count < SIZES) {
        sizes[size_count] = (struct table_size){.pages = pages};
        return size_count++;
    }
    return SIZES;
}

/* Clears what was touched, ever. The answers are looked at several at a time: most are no. */
static void clear(uint8_t *table, uint64_t pages)
{
    static uint8_t there[MOST_PAGES];
    uint64_t some;

    NIGH_ASSERT(mincore(table, pages * PAGE, there) == 0);
    for (uint64_t n = 0; n < pages; n += sizeof(some)) {
        memcpy(&some, there + n, sizeof(some));
        for (uint64_t i = n; some != 0 && i < min_u64(n + sizeof(some), pages); i++) {
            if ((there[i] & 1) != 0) {
                memset(table + i * PAGE, 0, PAGE);
            }
        }
    }
}

static void *make_table(uint64_t pages, uint32_t size)
{
    uint64_t bytes = (pages + 1) * PAGE;
    struct table_head *head = (struct table_head *)(void *)(room + room_used);

    if (bytes > ROOM_BYTES - room_used) {
        return NULL;
    }
    room_used += bytes;
    head->size = size;
    return (uint8_t *)head + PAGE;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    uint64_t pages, wanted;
    struct table_head *head;
    uint32_t size;

    if (__builtin_mul_overflow(count, bytes, &wanted) || wanted < LEAST_BYTES || !keeping ||
        wanted > (uint64_t)MOST_PAGES * PAGE) {
        return __real_calloc(count, bytes);
    }
    pages = (wanted + PAGE - 1) / PAGE;
    size = find_size(pages);
    if (size == SIZES) {
        return __real_calloc(count, bytes);
    }
    head = sizes[size].spare;
    if (head == NULL) {
        void *made = make_table(pages, size);

        return made != NULL ? made : __real_calloc(count, bytes);
    }
    sizes[size].spare = head->next;
    clear((uint8_t *)head + PAGE, pages);
    return (uint8_t *)head + PAGE;
}

void __wrap_free(void *memory)
{
    uint64_t place = (uint64_t)((uint8_t *)memory - room);
    struct table_head *head;

    if (room == NULL || memory == NULL || place >= ROOM_BYTES) {
        __real_free(memory);
        return;
    }
    head = (struct table_head *)(void *)((uint8_t *)memory - PAGE);
    head->next = sizes[head->size].spare;
    sizes[head->size].spare = head;
}

#endif
