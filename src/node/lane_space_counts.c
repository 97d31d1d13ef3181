/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads of clients count of spaces in their windows, for nobody but who asks for numbers: a
 * read of what is here tells the node nothing else of itself. Words of windows only grow; what they
 * have grown by is added to the space's sums when somebody asks, and before a window, or what a
 * session has open, goes. A client may write anything there: a word that shrinks, or grows by more
 * than a thread can count, counts for nothing, and sums do not wrap.
 */
#include "node/lane_spaces.h"

static uint64_t grown(uint64_t now, uint64_t seen)
{
    return now >= seen && now - seen <= LIMIT_SPACE_COUNT_STEP ? now - seen : 0;
}

/* Looks at a window's words of one place. NULL: what they say is nobody's. */
static void look(const struct space_window_here *window, uint32_t place, uint64_t *sums)
{
    const struct space_window *memory = window->memory;

    for (uint32_t n = 0; n < SPACE_COUNTS; n++) {
        uint64_t now = shared_load_relaxed(&memory->counts[place][n]);
        uint64_t more = grown(now, window->seen[place][n]);

        window->seen[place][n] = now;
        if (sums != NULL)
            sums[n] = more > UINT64_MAX - sums[n] ? UINT64_MAX : sums[n] + more;
    }
}

/* Of what a session has open: the sums of that space. NULL: it was deleted, and may have another in
 * its place. */
static uint64_t *sums_of(struct lane_spaces *at, const struct space_opened *opened)
{
    const struct space_info *info = space_registry_info(at->registry, opened->place);
    struct space_counted *counted = &at->counted[opened->place];

    if (opened->number == 0 || info == NULL || info->birth != opened->birth)
        return NULL;
    if (counted->birth != opened->birth)
        *counted = (struct space_counted){.birth = opened->birth};
    return counted->sums;
}

void lane_space_count_window(struct lane_spaces *at, const struct lane_space_session *session,
                             const struct space_window_here *window)
{
    for (uint32_t n = 0; n < LIMIT_SPACES; n++) {
        if (session->opened[n].number != 0)
            look(window, n, sums_of(at, &session->opened[n]));
    }
}

void lane_space_count_opened(struct lane_spaces *at, const struct lane_space_session *session,
                             const struct space_opened *opened)
{
    uint32_t place = (uint32_t)(opened - session->opened);

    for (uint32_t n = 0; n < LIMIT_SESSION_WINDOWS; n++) {
        if (session->windows[n].number != 0)
            look(&session->windows[n], place, sums_of(at, opened));
    }
}

/* Once a turn, however often it is asked for. */
static void count_all(struct lane_spaces *at)
{
    if (at->has_counted)
        return;
    at->has_counted = true;
    for (uint32_t slot = 0; slot < at->lane->config.max_sessions; slot++) {
        const struct lane_space_session *session = at->sessions[slot];

        for (uint32_t n = 0; session != NULL && n < LIMIT_SESSION_WINDOWS; n++) {
            if (session->windows[n].number != 0)
                lane_space_count_window(at, session, &session->windows[n]);
        }
    }
}

static uint64_t sum(uint64_t one, uint64_t other)
{
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

void lane_space_counts(struct lane_spaces *at, uint32_t place, struct session_space_counts *counts)
{
    const struct space_counted *counted = &at->counted[place];
    const struct space_here *here = at->places[place];
    struct space_engine_stats stats = {0};

    count_all(at);
    if (here != NULL && here->engine != NULL)
        space_engine_stats(here->engine, &stats);
    *counts = (struct session_space_counts){.writes = stats.writes,
                                            .atomics = stats.atomics,
                                            .asks = stats.asks,
                                            .invalidations = stats.invalidations,
                                            .evictions = stats.evictions,
                                            .messages = stats.messages,
                                            .block_bytes = stats.bytes};
    if (counted->birth != space_registry_info(at->registry, place)->birth)
        return;
    counts->hits = counted->sums[SPACE_COUNT_HITS];
    counts->reads = sum(counts->hits, counted->sums[SPACE_COUNT_MISSES]);
    counts->kept = counted->sums[SPACE_COUNT_KEPT];
    counts->locks = sum(counts->kept, counted->sums[SPACE_COUNT_LOCKS]);
}

void lane_space_add_counts(struct lane_spaces *at, nigh_node_stats *stats)
{
    count_all(at);
    for (uint32_t place = 0; place < LIMIT_SPACES; place++) {
        const struct space_counted *counted = &at->counted[place];
        const struct space_info *info = space_registry_info(at->registry, place);

        if (info == NULL || info->birth != counted->birth)
            continue;
        stats->space_hits = sum(stats->space_hits, counted->sums[SPACE_COUNT_HITS]);
        stats->space_client_reads =
            sum(stats->space_client_reads,
                sum(counted->sums[SPACE_COUNT_HITS], counted->sums[SPACE_COUNT_MISSES]));
        stats->space_locks_kept = sum(stats->space_locks_kept, counted->sums[SPACE_COUNT_KEPT]);
    }
}
