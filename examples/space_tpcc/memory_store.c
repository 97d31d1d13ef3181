/* SPDX-License-Identifier: Apache-2.0 */
/* See store.h: rows in memory of this process, a mutex for each block, threads that share them.
 * Nobody dies alone here, so there is no log; a lock is waited for, as all lock in one order. */
#include "store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

struct memory {
    unsigned char *bytes;
    pthread_mutex_t *mutexes; /* of each block */
    uint64_t size, used;
};

struct memory_store {
    struct store store;
    struct memory *memory;
};

static unsigned char *at(struct store *store, uint64_t address)
{
    return ((struct memory_store *)store)->memory->bytes + address;
}

static pthread_mutex_t *mutex_of(struct store *store, uint64_t row)
{
    return &((struct memory_store *)store)->memory->mutexes[row / ROW_BYTES];
}

static bool lock(struct store *store, uint64_t row, bool alone, void *head, uint32_t bytes)
{
    (void)alone;
    pthread_mutex_lock(mutex_of(store, row));
    memcpy(head, at(store, row), bytes);
    return true;
}

static void unlock(struct store *store, uint64_t row)
{
    pthread_mutex_unlock(mutex_of(store, row));
}

static void read_bytes(struct store *store, uint64_t from, void *to, uint64_t bytes)
{
    memcpy(to, at(store, from), bytes);
}

static void write_bytes(struct store *store, uint64_t to, const void *from, uint64_t bytes)
{
    memcpy(at(store, to), from, bytes);
}

static uint64_t allocate(struct store *store, uint64_t bytes)
{
    struct memory *memory = ((struct memory_store *)store)->memory;
    uint64_t address = memory->used;

    memory->used += (bytes + ROW_BYTES - 1) / ROW_BYTES * ROW_BYTES;
    if (memory->used > memory->size) {
        fail("memory of one process", "is less than its rows take");
    }
    return address;
}

static void commit(struct store *store, const struct change *changes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        memcpy(at(store, changes[i].row), changes[i].head, changes[i].head_bytes);
        if (changes[i].tail_bytes > 0) {
            memcpy(at(store, changes[i].row + ROW_BYTES), changes[i].tail, changes[i].tail_bytes);
        }
    }
}

static void finish(struct store *store)
{
    (void)store;
}

static void close_store(struct store *store)
{
    free(store);
}

struct memory *memory_create(uint64_t bytes)
{
    struct memory *memory = memory_of(sizeof *memory);
    uint64_t blocks = bytes / ROW_BYTES + 2;

    /* Address 0 is none. */
    *memory = (struct memory){.bytes = memory_of(blocks * ROW_BYTES),
                              .mutexes = memory_of(blocks * sizeof *memory->mutexes),
                              .size = blocks * ROW_BYTES,
                              .used = ROW_BYTES};
    for (uint64_t i = 0; i < blocks; i++) {
        pthread_mutex_init(&memory->mutexes[i], NULL);
    }
    return memory;
}

void memory_destroy(struct memory *memory)
{
    free(memory->bytes);
    free(memory->mutexes);
    free(memory);
}

struct store *memory_store_open(struct memory *memory)
{
    struct memory_store *self = memory_of(sizeof *self);

    *self = (struct memory_store){
        .store = {lock, unlock, read_bytes, write_bytes, allocate, commit, finish, close_store},
        .memory = memory};
    return &self->store;
}
