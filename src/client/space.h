/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: what space.c (handles), space_list.c, space_windows.c (what threads have), space_ask.c
 * (waiting), space_bytes.c and space_words.c share. For libnigh alone.
 *
 * A read of what is here takes no lock and asks nobody: it looks at the client's guard, at the
 * calling thread's window, and at the space's memory.
 */
#ifndef CLIENT_SPACE_H
#define CLIENT_SPACE_H

#include "base/clock.h"
#include "client/client_internal.h"
#include "client/op.h"
#include "memory/space_window.h"

/* What is mapped of a space, of which there may be several handles. Locked. */
struct space_memory {
    struct list_node place; /* in client->space_memories */
    uint32_t handles;
    uint32_t connection;
    uint64_t cache_bytes, home_bytes;
    void *cache, *home; /* home NULL: there are no blocks here */
    struct space_mapped mapped;
};

struct nigh_space {
    nigh_client *client;
    uint32_t connection; /* that it was opened over */
    uint32_t access;
    bool is_durable;            /* what was flushed outlives the node */
    struct space_mapped mapped; /* as its memory says */
    struct space_memory *memory;
    struct list_node place; /* in client->spaces */
};

/* A block that a thread holds. */
struct space_hold {
    uint64_t block;
    uint32_t space;
    uint32_t kept; /* which of the producer's, or SPACE_NO_KEPT */
};

/* What one thread says through. Its owner's alone, but for the memory's tail and head. */
struct client_window {
    struct space_producer producer;
    uint64_t number;     /* the node's */
    uint64_t serial;     /* of the process: tickets name it */
    uint32_t connection; /* that it was made over */
    bool asks;           /* the last ask is not answered, and nobody waits for it: */
    enum space_record_kind asked;
    struct space_hold asked_of;
    uint32_t hold_count;
    struct space_hold holds[LIMIT_SPACE_HOLDS];
    uint64_t locked[SPACE_NOTES]; /* blocks, of late, by a few bits of their hash */
};

/* What the calling thread used last; see pins_cache. */
struct space_cache {
    uint64_t serial; /* of the client; 0: none */
    struct client_window *window;
};

extern __thread struct space_cache space_cache
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* ---- handles: space.c ----------------------------------------------------- */

/* A question, so far without bytes. */
void space_init(struct client_op *op, nigh_client *client, enum session_space_what what,
                uint64_t timeout_us);

/* Runs a question to its end, and explains it. */
nigh_status space_run(struct client_op *op);

/* Bytes of a name; 0: it cannot be one. */
uint32_t space_name_bytes(const char *name);

/* Whether a question of this name can be asked, and answered to `out`; says why not. looks: it
 * changes nothing, and opens nothing. */
nigh_status space_check_name(nigh_client *client, const char *name, const void *out, bool looks,
                             const char *call);

/* Whether what only looks may be asked; says why not. */
nigh_status space_check_looks(nigh_client *client, const char *call);

/* The client has ended: so do its handles, and what its threads have. */
void spaces_end(nigh_client *client);

/* Ends a space, or a window, that nobody has. There is a place. */
void spaces_undo(nigh_client *client, uint32_t lane, const struct session_cqe *cqe);

/* Why the handle is not good, or NIGH_OK. */
nigh_status space_check_slow(const nigh_space *space, const char *call);

/* Whether a handle is good still, as far as is known here: none is once the node has died, for what
 * it had of the space others may have changed since. */
static inline bool space_is_good(const nigh_space *space)
{
    const nigh_client *client = space->client;

    return atomic_load_explicit(&client->guard->word, memory_order_relaxed) == GUARD_ALIVE &&
           shared_load_relaxed(&client->front->ended) == 0 && client_life_is_same(client) &&
           atomic_load_explicit(&client->state, memory_order_relaxed) == CLIENT_ATTACHED &&
           space->connection == atomic_load_explicit(&client->connections, memory_order_relaxed);
}

/* Until when others wait for what the node shows: a node that stands still shows what it had. */
static inline uint64_t space_until_us(const nigh_space *space)
{
    return shared_load_acquire(&space->client->node_page->spaces_until_us);
}

/* Whether what was read since that was loaded was so. Loaded behind the read it might be of a lease
 * that the node was given since, which says nothing of what was read before: whoever sees that one
 * sees, too, what was hidden before it was given. */
static inline bool space_was_current(uint64_t until_us)
{
    return until_us == UINT64_MAX || clock_rough_us() < until_us;
}

/* ---- windows: space_windows.c --------------------------------------------- */

/* Before the first of a client's threads can want one. Locked. */
nigh_status windows_create(nigh_client *client);

/* The client ends: threads let go of theirs when they next come by, or end. */
void windows_end(nigh_client *client, bool is_child);

/* The calling thread's, made, or had from one that ended, when first asked for; says why not. */
nigh_status windows_find(nigh_space *space, uint64_t deadline_us, struct client_window **window);

/* Whether what any thread has said is not carried out. Locked. */
bool windows_are_pending(const nigh_client *client);

/* Lets go of all that is held, as far as there is room. */
bool window_let_go(struct client_window *window);

/* ---- waiting: space_ask.c ------------------------------------------------- */

/* The lane is to look. */
void window_ring(nigh_client *client, const struct client_window *window);

/* What is waited for; `number` says more of it. */
typedef bool window_until(const struct client_window *window, uint64_t number);

/* NIGH_OK: it is so; NIGH_TIMEOUT; why the handle is not good any more. Says which. */
nigh_status window_wait(nigh_space *space, struct client_window *window, window_until *until,
                        uint64_t number, uint64_t deadline_us);

/* Waits until there may be room for what there was none for. */
nigh_status window_wait_room(nigh_space *space, struct client_window *window, uint64_t deadline_us);

/* Waits until all is carried out. */
nigh_status window_wait_empty(nigh_space *space, struct client_window *window,
                              uint64_t deadline_us);

/* Says a FENCE or an UNLOCK. */
nigh_status window_say(nigh_space *space, struct client_window *window, enum space_record_kind kind,
                       uint64_t address, uint64_t deadline_us);

struct space_question {
    enum space_record_kind kind;
    uint64_t address;
    uint32_t length;
    uint64_t operands[2];
};

/* Asks, and waits: *value (NULL: it is none), and of a READ bytes. Says why not. */
nigh_status window_ask(nigh_space *space, struct client_window *window,
                       const struct space_question *question, uint64_t deadline_us, uint64_t *value,
                       void *bytes);

/* Waits for the answer that nobody waited for, and undoes what it gave. */
nigh_status window_settle(nigh_space *space, struct client_window *window, uint64_t deadline_us);

/* ---- why not: space_why.c ------------------------------------------------- */

/* Says why the node refused what was asked. */
nigh_status space_say_refused(nigh_client *client, enum space_record_kind kind, uint64_t address,
                              nigh_status status);

/* Says that so many of the thread's writes and unlocks failed, the last there and so. */
nigh_status space_say_lost(nigh_client *client, uint32_t count, uint64_t address,
                           nigh_status status);

/* ---- how a call begins ---------------------------------------------------- */

nigh_status space_begin_slow(nigh_space *space, uint32_t access, uint64_t timeout_us,
                             const char *call, struct client_window **window);

/* The first of every call that a thread's window is for. */
static inline nigh_status space_begin(nigh_space *space, uint32_t access, uint64_t timeout_us,
                                      const char *call, struct client_window **window)
{
    if (likely(space != NULL) && likely(space_is_good(space)) &&
        likely((space->access & access) == access) &&
        likely(space_cache.serial == space->client->serial) &&
        likely(space_cache.window->connection == space->connection)) {
        *window = space_cache.window;
        return NIGH_OK;
    }
    return space_begin_slow(space, access, timeout_us, call, window);
}

/* Whether bytes can be at an address; says why not. */
nigh_status space_check_range(nigh_space *space, uint64_t address, const void *bytes, uint64_t size,
                              const char *call);

#endif
