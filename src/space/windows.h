/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of a lane: takes their records, in the order that docs/spaces.md ("Windows") promises
 * a thread over all spaces that it uses, has engines carry them out, and answers. It knows what
 * each window holds, and lets it go when the window is gone.
 *
 * Clients are not trusted: a record that cannot be ends the session, one that may not be fails.
 * Pure but for the wake of a thread that sleeps; memory is taken when windows are added; one lane.
 */
#ifndef SPACE_WINDOWS_H
#define SPACE_WINDOWS_H

#include "memory/space_window.h"
#include "space/engine.h"

struct space_windows;

struct space_windows_shell {
    void *context;
    uint64_t seed; /* of tables of what clients choose; it changes nothing that is seen */
    /* The engine of what a session calls `space`, and whether it may write there. NULL: *why is how
     * what is asked of it ends. */
    struct space_engine *(*find)(void *context, uint32_t session, uint32_t space, bool *may_write,
                                 nigh_status *why);
    /* The client wrote what cannot be: its session is to end. Its windows are served no more; not
     * to be removed from inside this call. */
    void (*broken)(void *context, uint32_t session);
    /* Whether what the space has here is so at this moment, by an exact clock: asked before each
     * answer that says what it has. false: those wait until it says true, or their space is let go
     * (space_windows_let_go). NULL: always. */
    bool (*is_current)(void *context);
};

nigh_status space_windows_create(uint32_t count, const struct space_windows_shell *shell,
                                 struct space_windows **windows);
/* All are removed. */
void space_windows_destroy(struct space_windows *windows);

/* Memory of sizeof(struct space_window), zeroed. *window: below `count`. NIGH_LIMIT: there are as
 * many as may be; NIGH_OUT_OF_MEMORY. */
nigh_status space_windows_add(struct space_windows *windows, uint32_t session,
                              struct space_window *memory, uint32_t *window);

/* Its thread, or its session, is gone: what it holds is let go, and what waits ends. From here on
 * the memory is not touched. */
void space_windows_remove(struct space_windows *windows, uint32_t window, uint64_t now_us);

/* A session closed a space, or the space ends (before space_engine_end): what its windows, or all,
 * hold there is let go, and what they wait for, or were not told of, ends with `why`. UINT32_MAX:
 * of all sessions. */
void space_windows_let_go(struct space_windows *windows, uint32_t session,
                          struct space_engine *engine, nigh_status why, uint64_t now_us);

/* Of an engine's shell: somebody wants a block that windows hold, or any (0). What is only kept is
 * let go in the next turn, or when all that its thread said before is carried out, which may wait
 * for who asks. true: all of it, or something of any, is let go in the next turn. */
bool space_windows_wanted(struct space_windows *windows, const struct space_engine *engine,
                          uint64_t block);

/* Whether there is something to take: what a lane looks at before it sleeps, behind the fence that
 * space_producer_must_ring needs. */
bool space_windows_has_work(const struct space_windows *windows);

/* Takes what is there, a bounded number a window, and lets go on what waited for what engines ended
 * since: behind theirs, a lane's last. true: there is more. */
bool space_windows_turn(struct space_windows *windows, uint64_t now_us);

/* When a turn is due, if nothing comes: what is held back until others before it are done may have
 * its time. UINT64_MAX: never. */
uint64_t space_windows_deadline(const struct space_windows *windows);

#endif
