/* SPDX-License-Identifier: Apache-2.0 */
/* See rpc_shared.h. */
#include "rpc_shared.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

#define RING_ENTRIES 64u
#define RECORD_BYTES 64

struct entry {
    _Atomic uint32_t commit; /* the record's number and one */
    uint32_t number;
    uint64_t words[2];
    uint8_t bytes[RECORD_BYTES];
    uint8_t reserved[128 - 24 - RECORD_BYTES]; /* whole pairs of cache lines */
};

struct ring {
    struct entry entries[RING_ENTRIES];
};

struct rings {
    struct ring there, back;
    uint32_t calls; /* of who calls */
};

static uint8_t record[RECORD_BYTES]; /* in and out of here */

struct rings *rings_open(void)
{
    struct rings *rings = mmap(NULL, sizeof *rings, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (rings == MAP_FAILED) {
        bench_fail("no shared memory for the rings");
    }
    return rings;
}

static void put(struct ring *ring, uint32_t number)
{
    struct entry *entry = &ring->entries[number % RING_ENTRIES];

    entry->number = number;
    entry->words[0] = number;
    entry->words[1] = RECORD_BYTES;
    memcpy(entry->bytes, record, RECORD_BYTES);
    atomic_store_explicit(&entry->commit, number + 1, memory_order_release);
}

/* Both lines come at once: without that, a record takes an eighth longer. */
static bool is_there(struct ring *ring, uint32_t number)
{
    struct entry *entry = &ring->entries[number % RING_ENTRIES];

    __builtin_prefetch(&entry->bytes[RECORD_BYTES - 1]);
    return atomic_load_explicit(&entry->commit, memory_order_acquire) == number + 1;
}

static void take(struct ring *ring, uint32_t number)
{
    const struct entry *entry = &ring->entries[number % RING_ENTRIES];

    if (entry->words[0] != number || entry->words[1] != RECORD_BYTES) {
        bench_fail("another record came");
    }
    memcpy(record, entry->bytes, RECORD_BYTES);
}

void rings_serve(struct rings *rings, uint64_t rest_ns)
{
    uint64_t idle_ns = bench_now_ns();

    for (uint32_t number = 0;;) {
        if (is_there(&rings->there, number)) {
            take(&rings->there, number);
            put(&rings->back, number++);
            idle_ns = 0;
        } else if (idle_ns == 0) {
            idle_ns = bench_now_ns();
        } else if (bench_now_ns() > idle_ns + rest_ns) {
            (void)usleep(100);
        }
    }
}

void rings_call(struct rings *rings)
{
    uint32_t number = rings->calls++;

    put(&rings->there, number);
    while (!is_there(&rings->back, number)) {
    }
    take(&rings->back, number);
}

void events_open(int fds[2])
{
    fds[0] = eventfd(0, EFD_CLOEXEC);
    fds[1] = eventfd(0, EFD_CLOEXEC);
    if (fds[0] < 0 || fds[1] < 0) {
        bench_fail("no event descriptors");
    }
}

static void ring_and_sleep(int rings, int sleeps)
{
    uint64_t one = 1;

    if (write(rings, &one, sizeof one) != sizeof one || read(sleeps, &one, sizeof one) < 0) {
        bench_fail("an event descriptor failed");
    }
}

void events_serve(const int fds[2])
{
    uint64_t one;

    if (read(fds[0], &one, sizeof one) < 0) {
        bench_fail("an event descriptor failed");
    }
    for (;;) {
        ring_and_sleep(fds[1], fds[0]);
    }
}

void events_call(const int fds[2])
{
    ring_and_sleep(fds[0], fds[1]);
}
