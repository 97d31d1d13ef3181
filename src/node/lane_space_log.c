/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a space that is durable: from its files to its engine, and back (docs/spaces.md,
 * durability). A thread does what takes long (space_logs.h); the lane asks, and is told.
 */
#include <stdlib.h>

#include "memory/session_space.h"
#include "node/lane_spaces.h"

_Static_assert(SPACE_DURABLE_NONE == SESSION_SPACE_DURABLE_NONE &&
                   SPACE_DURABLE_ASYNC == SESSION_SPACE_DURABLE_ASYNC &&
                   SPACE_DURABLE_SYNC == SESSION_SPACE_DURABLE_SYNC,
               "clients say it so");

#define LOG_MODULE "spaces"
#include "base/log.h"
#include "base/random.h"

nigh_status lane_space_open_log(struct space_here *here, const struct space_info *info)
{
    struct lane_spaces *at = here->at;
    struct space_log_here *log = calloc(1, sizeof(*log));
    nigh_status status;

    if (log == NULL)
        return NIGH_NO_RESOURCES;
    status = random_system_seed(&log->life);
    if (status != NIGH_OK) {
        free(log);
        return status;
    }
    log->tag = here;
    log->birth = info->birth;
    log->info = *info;
    log->is_new = space_registry_is_new(at->registry, here->place);
    log->life |= 1;
    log->fd = -1;
    log->home = (uint8_t *)space_bytes_of(&here->views[SPACE_MEMORY_HOME], 0);
    log->geometry = (struct space_log_geometry){
        .rank = at->self,
        .block_bytes = info->block_bytes,
        .blocks = (uint32_t)here->views[SPACE_MEMORY_HOME].count,
        .frames = (uint32_t)here->views[SPACE_MEMORY_CACHE].count * SPACE_WAYS,
    };
    here->log = log;
    space_logs_ask(at->logs, log, SPACE_LOGS_OPEN);
    return NIGH_OK;
}

bool lane_space_is_log_busy(const struct space_here *here)
{
    return here->log != NULL && here->log->is_busy;
}

static void on_log(void *context, struct space_log_job *job)
{
    struct space_here *here = context;

    here->log->job = job;
    space_logs_ask(here->at->logs, here->log, SPACE_LOGS_RUN);
}

static void on_failed(void *context, nigh_status why)
{
    struct space_here *here = context;

    here->log->is_refused = why == NIGH_CORRUPT;
    if (here->log->is_refused)
        LOG_ERROR("the log of a space is an old one, as a member knows what this node did since, "
                  "with another: this node leaves the space",
                  "space=\"%s\" do=\"put the last one in its place, or remove its directory below "
                  "--log-dir, which gives up what this node had of it; then start the node again\"",
                  LOG_QUOTE(here->log->info.name));
    else
        LOG_ERROR(
            "the log of a space failed: this node leaves it, and what it had of it is away until "
            "the node is started again",
            "space=\"%s\" status=%s do=\"see to the disk of --log-dir, and start the node again\"",
            LOG_QUOTE(here->log->info.name), nigh_status_name(why));
    here->failed = here->log->is_refused ? NIGH_CORRUPT : NIGH_DISK;
    here->at->has_failed = true;
    here->at->is_awake = true;
}

void lane_space_use_log(struct space_here *here, const struct space_info *info,
                        struct space_engine_config *config)
{
    if (here->log == NULL)
        return;
    config->log = &here->log->log;
    config->life = here->log->life;
    config->is_sync = info->durability == SPACE_DURABLE_SYNC;
    config->recovered = &here->log->state;
    config->shell.log = on_log;
    config->shell.failed = on_failed;
}

bool lane_space_end_log(struct space_here *here)
{
    if (here->log == NULL)
        return true;
    if (!here->log->is_busy)
        space_logs_ask(here->at->logs, here->log,
                       here->is_deleted ? SPACE_LOGS_REMOVE : SPACE_LOGS_CLOSE);
    return false;
}

static void take(struct space_log_here *log)
{
    struct space_here *here = log->tag;

    switch ((enum space_logs_what)log->what) {
    case SPACE_LOGS_OPEN:
        if (here->status == NIGH_OK)
            here->status = log->status;
        break;
    case SPACE_LOGS_RUN:
        if (here->engine != NULL)
            space_engine_logged(here->engine, here->at->lane->now_us);
        break;
    case SPACE_LOGS_CLOSE:
    case SPACE_LOGS_REMOVE:
        here->log = NULL;
        free(log);
        break;
    }
}

bool lane_spaces_log_turn(struct lane_spaces *at)
{
    struct space_log_here *log;
    bool any = false;

    while ((log = space_logs_take(at->logs)) != NULL) {
        take(log);
        any = true;
    }
    return any;
}

void lane_space_stop_log(struct space_here *here)
{
    struct space_log_here *log = here->log;
    bool was_busy = lane_space_is_log_busy(here);

    if (log == NULL)
        return;
    space_logs_wait(here->at->logs, log);
    if (was_busy && log->what == SPACE_LOGS_RUN && here->engine != NULL)
        space_engine_logged(here->engine, here->at->lane->now_us);
    if (here->engine != NULL && !here->is_replaced && !here->is_deleted)
        space_log_here_write_all(log);
}

static bool is_one_of(uint64_t birth, const uint64_t *births, uint32_t count)
{
    uint32_t n = 0;

    while (n < count && births[n] != birth)
        n++;
    return n < count;
}

/* Also what a node that was killed as it removed one has left, which says no more what it was. Not
 * while they are listed: what goes changes which is the n-th. */
static void remove_deleted(struct lane_spaces *at, const uint64_t *births, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        if (space_log_folder_has(at->lane->config.space_logs->fd, births[n]))
            space_logs_remove(at->logs, births[n]);
    }
}

/* What this node had before it was started, and what it knows to be deleted. */
static void restore(struct lane_spaces *at)
{
    uint64_t deleted[LIMIT_SPACE_TOMBSTONES];
    int fd = at->lane->config.space_logs->fd;
    uint32_t cursor = 0, count = space_log_folder_deleted(fd, deleted);
    struct space_info info;

    for (uint32_t n = 0; n < count; n++)
        space_registry_bury(at->registry, deleted[n]);
    while (space_log_folder_next(fd, &cursor, &info)) {
        nigh_status status = NIGH_OK;

        if (!is_one_of(info.birth, deleted, count))
            status = space_registry_restore(at->registry, &info);
        if (status != NIGH_OK)
            LOG_WARN("a space that has a log is not served",
                     "space=\"%s\" birth=%016llx status=%s do=\"if status is NIGH_LIMIT, delete "
                     "spaces that nobody needs; if NIGH_EXISTS, move one of the two directories of "
                     "that space away from --log-dir; then start the node again\"",
                     LOG_QUOTE(info.name), (unsigned long long)info.birth,
                     nigh_status_name(status));
    }
    remove_deleted(at, deleted, count);
}

/* By the thread: something can be taken. */
static void on_done(void *context)
{
    struct lane *lane = context;

    shared_fence(); /* said before the look at whether the lane sleeps */
    if (shared_load_relaxed(&lane->config.page->lane[lane->config.number].asleep) != 0)
        lane_kick(lane);
}

nigh_status lane_spaces_open_logs(struct lane_spaces *at)
{
    const struct space_log_folder *folder = at->lane->config.space_logs;
    nigh_status status;

    if (folder == NULL)
        return NIGH_OK;
    status = space_logs_create(folder->fd, on_done, at->lane, &at->logs);
    if (status == NIGH_OK)
        restore(at);
    return status;
}

void lane_spaces_close_logs(struct lane_spaces *at)
{
    space_logs_destroy(at->logs);
    at->logs = NULL;
}
