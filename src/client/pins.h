/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pin words of the calling thread: which chunk is its own, and which word of it is free.
 *
 * A thread owns whole chunks of each client it uses, and gives them back when it ends. The common
 * question is answered from thread-local memory without a branch that misses; everything else is in
 * pins.c. Which thread owns a chunk is private to this process.
 */
#ifndef CLIENT_PINS_H
#define CLIENT_PINS_H

#include "client/client_internal.h"

_Static_assert((LIMIT_PINS_A_CHUNK & (LIMIT_PINS_A_CHUNK - 1)) == 0, "hints wrap by a mask");

/* One thread's belongings of one client: heap, found through thread-local memory. */
struct pins_thread {
    struct pins_thread *next;
    struct client_pins *pins;
    uint32_t count;   /* chunks owned */
    uint32_t current; /* which of them was used last */
    uint16_t chunk[LIMIT_THREAD_CHUNKS];
    /* What nigh_client_error tells. */
    int32_t error;
    bool error_wants_holders;
    uint64_t error_wanted_bytes; /* of memory, by the call that had too little; 0: not known */
    uint32_t error_wanted_lane;  /* whose memory */
    bool index_was_full;         /* by the answer that is to be noted */
    bool error_index_full;       /* by the call that failed with NIGH_LIMIT */
    bool error_kept; /* written below the call that returns it: not to be replaced there */
    char error_text[CLIENT_TEXT_BYTES];
};

/* What the calling thread used last. */
struct pins_cache {
    uint64_t serial; /* of the client; 0: none */
    struct pin_chunk *chunk;
    uint32_t hint; /* the word to try first */
};

extern __thread struct pins_cache pins_cache
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

nigh_status pins_create(uint64_t serial, struct client_pins **pins);
/* The client closes: threads let go of theirs when they next come by, or end. */
void pins_close(struct client_pins *pins);

/* The calling thread's record for this client, made when first asked for; NULL: no memory. */
struct pins_thread *pins_thread_of(nigh_client *client);

/* As pins_find, when the first word to try is not free or the thread's last client was another. */
bool pins_find_slow(nigh_client *client, struct pin_chunk **chunk, uint32_t *slot);

/* A pin word of the calling thread that is 0. False: it owns as many as it may, all in use. */
static inline bool pins_find(nigh_client *client, struct pin_chunk **chunk, uint32_t *slot)
{
    if (likely(pins_cache.serial == client->serial) &&
        likely(shared_load_relaxed(&pins_cache.chunk->entry[pins_cache.hint]) == 0)) {
        *chunk = pins_cache.chunk;
        *slot = pins_cache.hint;
        return true;
    }
    return pins_find_slow(client, chunk, slot);
}

/* A word that pins_find gave is in use now: try its neighbour next time. */
static inline void pins_took(uint32_t slot)
{
    pins_cache.hint = (slot + 1) & (LIMIT_PINS_A_CHUNK - 1);
}

#endif
