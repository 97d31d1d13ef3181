/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread owns which pin chunk: claimed by compare-and-swap in memory private to the process,
 * given back when the thread ends. No lock, so that a thread may end, or a child may be forked, at
 * any moment. Setting and clearing the words is memory/pin.h's.
 */
#include "client/client_internal.h"
#include "client/pins.h"

#include <stdlib.h>

/* The ownership of one client's chunks; lives until the client and every thread have let go. */
struct client_pins {
    _Atomic uint32_t references;
    _Atomic uint32_t closed;
    uint64_t serial;
    _Atomic uint32_t owned[LIMIT_PIN_CHUNKS]; /* 1: by a thread */
};

__thread struct pins_cache pins_cache __attribute__((tls_model("initial-exec")));

/* The calling thread's records; the key's destructor frees them. */
static __thread struct pins_thread *pins_threads;
static pthread_once_t pins_once = PTHREAD_ONCE_INIT;
static pthread_key_t pins_key;
static bool pins_key_made;

static void pins_let_go(struct client_pins *pins)
{
    if (atomic_fetch_sub_explicit(&pins->references, 1, memory_order_acq_rel) == 1) {
        free(pins);
    }
}

/* Words that are still set stay set: views outlive the thread that got them, and whoever owns the
 * chunk next passes them over. */
static void pins_free_thread(struct pins_thread *thread)
{
    for (uint32_t i = 0; i < thread->count; i++) {
        atomic_store_explicit(&thread->pins->owned[thread->chunk[i]], 0, memory_order_release);
    }
    pins_let_go(thread->pins);
    free(thread);
}

static void pins_thread_ends(void *unused)
{
    (void)unused;
    pins_cache.serial = 0;
    while (pins_threads != NULL) {
        struct pins_thread *thread = pins_threads;

        pins_threads = thread->next;
        pins_free_thread(thread);
    }
}

static void pins_make_key(void)
{
    pins_key_made = pthread_key_create(&pins_key, pins_thread_ends) == 0;
}

nigh_status pins_create(uint64_t serial, struct client_pins **out)
{
    struct client_pins *pins;

    (void)pthread_once(&pins_once, pins_make_key);
    if (!pins_key_made) {
        return NIGH_NO_RESOURCES;
    }
    pins = calloc(1, sizeof(*pins));
    if (pins == NULL) {
        return NIGH_NO_RESOURCES;
    }
    pins->serial = serial;
    atomic_store_explicit(&pins->references, 1, memory_order_relaxed);
    *out = pins;
    return NIGH_OK;
}

void pins_close(struct client_pins *pins)
{
    atomic_store_explicit(&pins->closed, 1, memory_order_release);
    pins_let_go(pins);
}

/* Finds the record of a client, and frees those of clients that were closed meanwhile. */
static struct pins_thread *pins_look_up(uint64_t serial)
{
    struct pins_thread **link = &pins_threads;
    struct pins_thread *found = NULL;

    while (*link != NULL) {
        struct pins_thread *thread = *link;

        if (atomic_load_explicit(&thread->pins->closed, memory_order_acquire) != 0) {
            *link = thread->next;
            pins_free_thread(thread);
            continue;
        }
        if (thread->pins->serial == serial) {
            found = thread;
        }
        link = &thread->next;
    }
    return found;
}

struct pins_thread *pins_thread_of(nigh_client *client)
{
    struct pins_thread *thread = pins_look_up(client->serial);

    if (thread != NULL) {
        return thread;
    }
    thread = calloc(1, sizeof(*thread));
    /* The key's value only has to be not NULL, so that the destructor runs. */
    if (thread == NULL || pthread_setspecific(pins_key, &pins_key) != 0) {
        free(thread);
        return NULL;
    }
    thread->pins = client->pins;
    atomic_fetch_add_explicit(&client->pins->references, 1, memory_order_relaxed);
    thread->next = pins_threads;
    pins_threads = thread;
    return thread;
}

/* A zero word of a chunk, from `hint` on; LIMIT_PINS_A_CHUNK when there is none. */
static uint32_t pins_scan(const struct pin_chunk *chunk, uint32_t hint)
{
    for (uint32_t i = 0; i < LIMIT_PINS_A_CHUNK; i++) {
        uint32_t slot = (hint + i) & (LIMIT_PINS_A_CHUNK - 1);

        if (shared_load_relaxed(&chunk->entry[slot]) == 0) {
            return slot;
        }
    }
    return LIMIT_PINS_A_CHUNK;
}

/*
 * Makes one more chunk the thread's. The lane scans chunks below chunks_used only, so that is
 * raised, for all to see, before the first pin in it.
 */
static bool pins_claim(nigh_client *client, struct pins_thread *thread)
{
    for (uint32_t number = 0; number < LIMIT_PIN_CHUNKS && thread->count < LIMIT_THREAD_CHUNKS;
         number++) {
        uint32_t nobody = 0;
        uint32_t used;

        if (atomic_load_explicit(&thread->pins->owned[number], memory_order_relaxed) != 0 ||
            !atomic_compare_exchange_strong_explicit(&thread->pins->owned[number], &nobody, 1,
                                                     memory_order_acquire, memory_order_relaxed)) {
            continue;
        }
        used = atomic_load_explicit(&client->front->chunks_used, memory_order_relaxed);
        while (used <= number && !atomic_compare_exchange_weak_explicit(
                                     &client->front->chunks_used, &used, number + 1,
                                     memory_order_release, memory_order_relaxed)) {
        }
        shared_fence();
        thread->chunk[thread->count] = (uint16_t)number;
        thread->current = thread->count++;
        return true;
    }
    return false;
}

static bool pins_use(nigh_client *client, struct pins_thread *thread, uint32_t which, uint32_t hint)
{
    struct pin_chunk *chunk = &client->chunks[thread->chunk[which]];
    uint32_t slot = pins_scan(chunk, hint);

    if (slot == LIMIT_PINS_A_CHUNK) {
        return false;
    }
    thread->current = which;
    pins_cache.serial = client->serial;
    pins_cache.chunk = chunk;
    pins_cache.hint = slot;
    return true;
}

bool pins_find_slow(nigh_client *client, struct pin_chunk **chunk, uint32_t *slot)
{
    uint32_t hint = pins_cache.serial == client->serial ? pins_cache.hint : 0;
    struct pins_thread *thread = pins_thread_of(client);
    bool found = false;

    if (thread == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < thread->count && !found; i++) {
        found = pins_use(client, thread, (thread->current + i) % thread->count, hint);
    }
    /* A claimed chunk may hold words that a thread before left set: then the next one. */
    while (!found && pins_claim(client, thread)) {
        found = pins_use(client, thread, thread->current, 0);
    }
    if (!found) {
        return false;
    }
    *chunk = pins_cache.chunk;
    *slot = pins_cache.hint;
    return true;
}
