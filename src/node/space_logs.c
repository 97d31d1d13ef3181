/* SPDX-License-Identifier: Apache-2.0 */
/* See space_logs.h: the thread. */
#include "node/space_logs.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MODULE "space-log"
#include "base/check.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/random.h"
#include "node/space_log_folder.h"

struct space_logs {
    int fd;
    void (*wake)(void *context);
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something is to do, or was done */
    struct list todo, done;
    pthread_t thread;
    bool is_stopping;
};

/* ---- what is done: not locked --------------------------------------------- */

/* Of each of the two files: an image is due when one is half full. */
static uint64_t file_bytes_of(const struct space_info *info)
{
    uint64_t bytes = info->home_bytes + info->cache_bytes;

    return align_up_u64(min_u64(max_u64(bytes, LIMIT_SPACE_LOG_FILE_MIN), LIMIT_SPACE_LOG_FILE_MAX),
                        SPACE_LOG_SECTOR);
}

static nigh_status recover(struct space_log_here *here)
{
    struct space_log_files files = space_log_directory_files(&here->directory);
    struct space_log_name name = {.identity = here->birth ^ here->geometry.rank};
    struct space_log_found found;
    uint64_t seed;
    nigh_status status = random_system_seed(&name.life);

    if (status == NIGH_OK) {
        status = random_system_seed(&seed);
    }
    if (status == NIGH_OK) {
        status = space_log_state_init(&here->state, &here->geometry, here->home, seed);
    }
    if (status != NIGH_OK) {
        return status;
    }
    here->has_state = true;
    status = space_log_recover(&files, name.identity, &here->state, &found);
    if (status == NIGH_OK && found.is_new) {
        here->state.lives[here->geometry.rank] = here->life;
    }
    if (status == NIGH_OK) {
        status = space_log_start(&here->log, &files, &name, file_bytes_of(&here->info),
                                 &here->state, &found);
        here->is_open = status == NIGH_OK;
    }
    if (status == NIGH_OK) {
        LOG_INFO("a space's log begins", "space=\"%s\" records=%llu is_new=%d",
                 LOG_QUOTE(here->info.name), (unsigned long long)found.records, found.is_new);
    }
    return status;
}

static void say_none(const struct space_log_here *here, nigh_status status)
{
    if (here->is_new) {
        LOG_ERROR("a space is not made, as this node cannot write a log for it",
                  "space=\"%s\" status=%s log_bytes=%llu do=\"see to the disk of --log-dir by the "
                  "lines before this one (twice so many bytes have to find room), and create the "
                  "space again\"",
                  LOG_QUOTE(here->info.name), nigh_status_name(status),
                  (unsigned long long)file_bytes_of(&here->info));
        return;
    }
    LOG_ERROR(
        "this node takes no part in a space, as its log cannot be used: what it had of it is "
        "away",
        "space=\"%s\" directory=" SPACE_LOG_FOLDER_NAME
        " status=%s do=\"if status is NIGH_VERSION, start the nighd that wrote it; else see to the "
        "disk of --log-dir by the lines before this one, and start the node again; or remove the "
        "directory, which gives up what this node had of it\"",
        LOG_QUOTE(here->info.name), (unsigned long long)here->birth, nigh_status_name(status));
}

static nigh_status open_log(struct space_logs *logs, struct space_log_here *here)
{
    nigh_status status = space_log_folder_make(logs->fd, &here->info, &here->fd);

    if (status != NIGH_OK) {
        if (here->is_new) {
            say_none(here, status);
        }
        return status;
    }
    space_log_directory_init(&here->directory, here->fd);
    status = recover(here);
    if (status != NIGH_OK) {
        space_log_here_forget(here);
        say_none(here, status);
    }
    return status;
}

static void close_log(struct space_logs *logs, struct space_log_here *here)
{
    space_log_here_forget(here);
    if (here->is_open) {
        space_log_fini(&here->log);
    }
    if (here->is_refused && here->fd >= 0 && space_log_folder_refuse(here->fd) != NIGH_OK) {
        LOG_ERROR("a space's log that is old cannot be marked so",
                  "space=\"%s\" directory=" SPACE_LOG_FOLDER_NAME
                  " do=\"remove its directory below --log-dir before this node is started again\"",
                  LOG_QUOTE(here->info.name), (unsigned long long)here->birth);
    }
    if (here->fd >= 0) {
        space_log_directory_fini(&here->directory);
    }
    if (here->what == SPACE_LOGS_REMOVE) {
        space_log_folder_bury(logs->fd, here->birth);
        space_log_folder_remove(logs->fd, here->birth);
    }
    fd_close(&here->fd);
}

static void do_one(struct space_logs *logs, struct space_log_here *here)
{
    struct space_log_files files;

    switch ((enum space_logs_what)here->what) {
    case SPACE_LOGS_OPEN: here->status = open_log(logs, here); break;
    case SPACE_LOGS_RUN:
        files = space_log_directory_files(&here->directory);
        space_log_run(&files, here->job);
        break;
    case SPACE_LOGS_CLOSE:
    case SPACE_LOGS_REMOVE: close_log(logs, here); break;
    }
}

/* ---- the thread ----------------------------------------------------------- */

static void *run(void *context)
{
    struct space_logs *logs = context;
    struct list_node *node;

    (void)pthread_mutex_lock(&logs->lock);
    while ((node = list_pop_front(&logs->todo)) != NULL || !logs->is_stopping) {
        struct space_log_here *here;

        if (node == NULL) {
            (void)pthread_cond_wait(&logs->changed, &logs->lock);
            continue;
        }
        here = container_of(node, struct space_log_here, link);
        (void)pthread_mutex_unlock(&logs->lock);
        do_one(logs, here);
        (void)pthread_mutex_lock(&logs->lock);
        if (here->tag == NULL) {
            free(here);
            continue;
        }
        list_push_back(&logs->done, node);
        (void)pthread_cond_broadcast(&logs->changed);
        logs->wake(logs->context);
    }
    (void)pthread_mutex_unlock(&logs->lock);
    return NULL;
}

nigh_status space_logs_create(int fd, void (*wake)(void *context), void *context,
                              struct space_logs **out)
{
    struct space_logs *logs = calloc(1, sizeof(*logs));
    sigset_t all, before;
    bool is_started;

    if (logs == NULL) {
        return NIGH_NO_RESOURCES;
    }
    logs->fd = fd;
    logs->wake = wake;
    logs->context = context;
    list_init(&logs->todo);
    list_init(&logs->done);
    (void)pthread_mutex_init(&logs->lock, NULL);
    (void)pthread_cond_init(&logs->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    is_started = pthread_create(&logs->thread, NULL, run, logs) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!is_started) {
        (void)pthread_cond_destroy(&logs->changed);
        (void)pthread_mutex_destroy(&logs->lock);
        free(logs);
        return NIGH_NO_RESOURCES;
    }
    (void)pthread_setname_np(logs->thread, "nigh-space-logs");
    *out = logs;
    return NIGH_OK;
}

void space_logs_destroy(struct space_logs *logs)
{
    if (logs == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&logs->lock);
    logs->is_stopping = true;
    (void)pthread_cond_broadcast(&logs->changed);
    (void)pthread_mutex_unlock(&logs->lock);
    (void)pthread_join(logs->thread, NULL);
    (void)pthread_cond_destroy(&logs->changed);
    (void)pthread_mutex_destroy(&logs->lock);
    free(logs);
}

/* ---- by the lane ---------------------------------------------------------- */

void space_logs_ask(struct space_logs *logs, struct space_log_here *here, enum space_logs_what what)
{
    NIGH_ASSERT(!here->is_busy);
    here->is_busy = true;
    here->what = (uint8_t)what;
    (void)pthread_mutex_lock(&logs->lock);
    list_push_back(&logs->todo, &here->link);
    (void)pthread_cond_broadcast(&logs->changed);
    (void)pthread_mutex_unlock(&logs->lock);
}

void space_logs_remove(struct space_logs *logs, uint64_t birth)
{
    struct space_log_here *here = calloc(1, sizeof(*here));

    if (here == NULL) {
        LOG_WARN("no memory to remove a deleted space's log: the next start serves it again, if no "
                 "other node says that it is gone",
                 "directory=" SPACE_LOG_FOLDER_NAME
                 " do=\"free memory on the machine; delete the space again if it comes back\"",
                 (unsigned long long)birth);
        return;
    }
    here->birth = birth;
    here->fd = -1;
    space_logs_ask(logs, here, SPACE_LOGS_REMOVE);
}

struct space_log_here *space_logs_take(struct space_logs *logs)
{
    struct space_log_here *here;
    struct list_node *node;

    if (logs == NULL) {
        return NULL;
    }
    (void)pthread_mutex_lock(&logs->lock);
    node = list_pop_front(&logs->done);
    (void)pthread_mutex_unlock(&logs->lock);
    if (node == NULL) {
        return NULL;
    }
    here = container_of(node, struct space_log_here, link);
    here->is_busy = false;
    return here;
}

static bool is_done(const struct space_logs *logs, const struct space_log_here *here)
{
    LIST_FOREACH(node, &logs->done)
    {
        if (container_of(node, const struct space_log_here, link) == here) {
            return true;
        }
    }
    return false;
}

void space_logs_wait(struct space_logs *logs, struct space_log_here *here)
{
    if (!here->is_busy) {
        return;
    }
    (void)pthread_mutex_lock(&logs->lock);
    while (!is_done(logs, here)) {
        (void)pthread_cond_wait(&logs->changed, &logs->lock);
    }
    list_remove(&here->link);
    (void)pthread_mutex_unlock(&logs->lock);
    here->is_busy = false;
}

void space_log_here_forget(struct space_log_here *here)
{
    if (here->has_state) {
        space_log_state_fini(&here->state);
        here->has_state = false;
    }
}

void space_log_here_write_all(struct space_log_here *here)
{
    struct space_log_files files = space_log_directory_files(&here->directory);
    struct space_log_job job;

    while (here->is_open && space_log_take_job(&here->log, &job)) {
        space_log_run(&files, &job);
        space_log_ended(&here->log, &job);
    }
}
