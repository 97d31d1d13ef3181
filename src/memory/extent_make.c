/* SPDX-License-Identifier: Apache-2.0 */
/* See extent.h. Makes sets of extents, anew or over what a former node left. */
#define LOG_MODULE "extent"
#include "memory/extent.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"
#include "base/log.h"
#include "memory/admission.h"
#include "memory/extent_internal.h"
#include "memory/memfd.h"

#define EXTENT_WORKERS     8  /* threads that populate; more only fight for the kernel's locks */
#define EXTENT_SPARE_FILES 64 /* descriptors that a process has open besides */

#define EXTENT_HUGETLBFS 0x958458f6 /* HUGETLBFS_MAGIC of linux/magic.h */

__attribute__((format(printf, 4, 5))) static nigh_status
extent_refuse(nigh_status status, char *why, size_t why_bytes, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, why_bytes, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- the plan ---- */

/* Whether a set may have these; the sizes that the limits of the contract name. */
static nigh_status extent_check_sizes(uint64_t extent_bytes, uint32_t lanes, char *why,
                                      size_t why_bytes)
{
    if (!is_pow2(lanes) || lanes > LIMIT_LANES)
        return extent_refuse(NIGH_INVALID, why, why_bytes,
                             "%u lanes: choose a power of two, %d at most", lanes, LIMIT_LANES);
    if (!is_pow2(extent_bytes) || extent_bytes < LIMIT_EXTENT_BYTES_MIN ||
        extent_bytes > LIMIT_EXTENT_BYTES_MAX)
        return extent_refuse(
            NIGH_INVALID, why, why_bytes,
            "extents of %llu bytes: choose a power of two from %llu to %llu, or leave it to nigh",
            (unsigned long long)extent_bytes, (unsigned long long)LIMIT_EXTENT_BYTES_MIN,
            (unsigned long long)LIMIT_EXTENT_BYTES_MAX);
    return NIGH_OK;
}

/* About LIMIT_EXTENTS_AIM extents, and several for every lane: down to a power of two. */
static uint64_t extent_default_bytes(uint64_t memory_bytes, uint32_t lanes)
{
    uint64_t bytes = memory_bytes / max_u64(LIMIT_EXTENTS_AIM, (uint64_t)lanes * 8);

    bytes = min_u64(max_u64(bytes, LIMIT_EXTENT_BYTES_MIN), LIMIT_EXTENT_BYTES_MAX);
    return UINT64_C(1) << (63 - __builtin_clzll(bytes));
}

/* More than any node has; mostly it was a slip, which what the machine has shows. */
static nigh_status extent_refuse_most(uint64_t memory_bytes, char *why, size_t why_bytes)
{
    struct admission_facts *facts = malloc(sizeof(*facts));
    char wanted[BYTES_SIZE_TEXT], most[BYTES_SIZE_TEXT], total[BYTES_SIZE_TEXT];
    bool is_known = facts != NULL && admission_read("", facts) == NIGH_OK;

    (void)bytes_format_sizes(memory_bytes, LIMIT_EXTENTS * LIMIT_EXTENT_BYTES_MAX, wanted, most);
    if (is_known)
        bytes_format_size(facts->memory_total_bytes, total);
    free(facts);
    return extent_refuse(NIGH_INVALID, why, why_bytes,
                         "%s of memory are more than a node can have (%s)%s%s: ask for less",
                         wanted, most, is_known ? ", and this machine has " : "",
                         is_known ? total : "");
}

/* How many extents every lane gets, of which size. */
static nigh_status extent_plan(const struct extent_options *options, uint64_t *extent_bytes,
                               uint32_t *per_lane, char *why, size_t why_bytes)
{
    uint64_t bytes = options->extent_bytes;
    uint64_t share, count;
    nigh_status status;

    if (options->lanes == 0)
        return extent_refuse(NIGH_INVALID, why, why_bytes, "no lanes: choose one at least");
    if (options->memory_bytes < LIMIT_MEMORY_BYTES_MIN)
        return extent_refuse(
            NIGH_INVALID, why, why_bytes, "%llu bytes of memory: ask for %llu at least",
            (unsigned long long)options->memory_bytes, (unsigned long long)LIMIT_MEMORY_BYTES_MIN);
    if (bytes == 0)
        bytes = extent_default_bytes(options->memory_bytes, options->lanes);
    status = extent_check_sizes(bytes, options->lanes, why, why_bytes);
    if (status != NIGH_OK)
        return status;

    share = (options->memory_bytes - 1) / options->lanes + 1;
    count = (share - 1) / bytes + 1;
    if (count > LIMIT_EXTENTS / options->lanes && bytes == LIMIT_EXTENT_BYTES_MAX)
        return extent_refuse_most(options->memory_bytes, why, why_bytes);
    if (count > LIMIT_EXTENTS / options->lanes)
        return extent_refuse(NIGH_INVALID, why, why_bytes,
                             "%llu extents for each of %u lanes: choose larger extents, so that "
                             "there are %u at most",
                             (unsigned long long)count, options->lanes,
                             LIMIT_EXTENTS / options->lanes);
    *extent_bytes = bytes;
    *per_lane = (uint32_t)count;
    return NIGH_OK;
}

/* Asks what the machine grants; *huge_extents of the set may be of huge pages. */
static nigh_status extent_admit(const struct admission_wish *wish, uint32_t *huge_extents,
                                char *why, size_t why_bytes)
{
    struct admission_facts *facts = malloc(sizeof(*facts));
    uint64_t huge_bytes = 0;
    nigh_status status = facts == NULL ? NIGH_NO_RESOURCES : admission_read("", facts);

    if (status != NIGH_OK)
        extent_refuse(status, why, why_bytes,
                      "the machine's memory is not known: mount /proc, which says it");
    else
        status = admission_decide(facts, wish, &huge_bytes, why, why_bytes);
    free(facts);
    if (status == NIGH_OK)
        *huge_extents = (uint32_t)(huge_bytes / wish->extent_bytes);
    return status;
}

/* ---- the set ---- */

void extent_set_begin(struct extent_set *set)
{
    set->count = LIMIT_EXTENTS;
    for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
        set->extents[i].fd = -1;
        set->extents[i].read_fd = -1;
        set->extents[i].absence = EXTENT_UNUSED;
        set->extents[i].lane = i / (LIMIT_EXTENTS / set->lanes);
    }
}

static nigh_status extent_set_reserve(uint64_t extent_bytes, uint32_t lanes,
                                      struct extent_set **made, char *why, size_t why_bytes)
{
    struct extent_set *set = aligned_alloc(_Alignof(struct extent_set), sizeof(*set));
    void *arena;

    if (set == NULL)
        return extent_refuse(NIGH_NO_RESOURCES, why, why_bytes,
                             "the process gets no memory for its tables: end what uses it");
    if (memfd_reserve(LIMIT_EXTENTS * extent_bytes, &arena) != NIGH_OK) {
        free(set);
        return extent_refuse(NIGH_NO_RESOURCES, why, why_bytes,
                             "%llu GiB of address space cannot be had (%s): choose smaller "
                             "extents, or lift the limit (ulimit -v unlimited)",
                             (unsigned long long)((LIMIT_EXTENTS * extent_bytes) >> 30),
                             strerror(errno));
    }
    memset(set, 0, sizeof(*set));
    set->arena = arena;
    set->extent_bytes = extent_bytes;
    set->extent_shift = (uint32_t)__builtin_ctzll(extent_bytes);
    set->lanes = lanes;
    extent_set_begin(set);
    for (uint32_t i = 0; i < LIMIT_LANES; i++)
        set->lane[i].numa_node = NUMA_NONE;
    *made = set;
    return NIGH_OK;
}

void extent_set_near(struct extent_set *set, const int *numa_nodes)
{
    for (uint32_t i = 0; i < set->lanes; i++)
        set->lane[i].numa_node = numa_nodes[i];
}

static void extent_set_release(struct extent_set *set, bool close_writable)
{
    memfd_unmap(set->arena, LIMIT_EXTENTS * set->extent_bytes);
    for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
        struct extent *at = &set->extents[i];

        if (at->fd < 0)
            continue;
        fd_close(&at->read_fd);
        if (close_writable)
            fd_close(&at->fd);
    }
    free(set);
}

void extent_set_destroy(struct extent_set *set)
{
    if (set != NULL)
        extent_set_release(set, true);
}

/* What the extents are, all in all; they are there. */
static void extent_set_count(struct extent_set *set)
{
    set->all_huge = true;
    for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
        const struct extent *at = &set->extents[i];

        if (!at->present)
            continue;
        set->memory_bytes += set->extent_bytes;
        set->any_huge |= at->huge;
        set->all_huge &= at->huge;
    }
    for (uint32_t lane = 0; lane < set->lanes; lane++)
        extent_recount(set, lane);
}

/* ---- populating, by several threads ---- */

struct extent_job {
    uint32_t extent;
    bool huge;
    nigh_status status;
    int error; /* errno of a status that is not NIGH_OK */
};

struct extent_work {
    struct extent_set *set;
    struct extent_job *jobs;
    uint32_t count;
    _Atomic uint32_t next;
    _Atomic bool failed; /* a job of plain pages: the rest is in vain */
};

static void *extent_work_run(void *argument)
{
    struct extent_work *work = argument;
    uint32_t i;

    while ((i = atomic_fetch_add(&work->next, 1)) < work->count && !atomic_load(&work->failed)) {
        struct extent_job *job = &work->jobs[i];

        job->status = extent_make(work->set, job->extent, job->huge);
        job->error = errno;
        if (job->status != NIGH_OK && !job->huge)
            atomic_store(&work->failed, true);
    }
    return NULL;
}

static uint32_t extent_worker_count(uint32_t jobs)
{
    cpu_set_t cpus;
    uint32_t n = 1;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
        n = (uint32_t)CPU_COUNT(&cpus);
    return max_u32(1, min_u32(min_u32(n, EXTENT_WORKERS), jobs));
}

/* Carries all jobs out, this thread among the workers. Signals stay with the threads that were
 * there. */
static void extent_work_all(struct extent_work *work)
{
    pthread_t threads[EXTENT_WORKERS];
    uint32_t started = 0, wanted = extent_worker_count(work->count) - 1;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < wanted && pthread_create(&threads[started], NULL, extent_work_run, work) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    extent_work_run(work);
    while (started > 0)
        pthread_join(threads[--started], NULL);
}

/* ---- making a set ---- */

/* The first failure of plain pages, or of any, as a sentence. */
static nigh_status extent_explain(const struct extent_work *work, char *why, size_t why_bytes)
{
    for (uint32_t i = 0; i < work->count; i++) {
        const struct extent_job *job = &work->jobs[i];

        if (job->status == NIGH_OK || (job->huge && atomic_load(&work->failed)))
            continue;
        return extent_refuse(job->status, why, why_bytes,
                             "the kernel refused %s for extent %u of %u (%s): ask for less "
                             "memory, or lift what limits it",
                             job->huge ? "huge pages" : "memory", i, work->count,
                             strerror(job->error));
    }
    return NIGH_OK;
}

/* Huge pages that went to somebody else since they were counted: plain ones instead, where those
 * may be had. */
static nigh_status extent_fall_back(struct extent_work *work, const struct admission_wish *first,
                                    char *why, size_t why_bytes)
{
    struct admission_wish wish = *first;
    uint32_t failed = 0, ignored = 0;
    nigh_status status;

    for (uint32_t i = 0; i < work->count; i++) {
        if (work->jobs[i].status != NIGH_OK)
            work->jobs[failed++] = (struct extent_job){.extent = work->jobs[i].extent};
    }
    wish.memory_bytes = failed * wish.extent_bytes;
    wish.address_bytes = 0; /* has it already */
    wish.huge = EXTENT_HUGE_NEVER;
    status = extent_admit(&wish, &ignored, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    work->count = failed;
    atomic_store(&work->next, 0);
    extent_work_all(work);
    return extent_explain(work, why, why_bytes);
}

static nigh_status extent_set_fill(struct extent_set *set, uint32_t per_lane, uint32_t huge_extents,
                                   const struct admission_wish *wish, char *why, size_t why_bytes)
{
    uint32_t count = per_lane * set->lanes;
    struct extent_job *jobs = calloc(count, sizeof(*jobs));
    struct extent_work work = {.set = set, .jobs = jobs, .count = count};
    nigh_status status;

    if (jobs == NULL)
        return extent_refuse(NIGH_NO_RESOURCES, why, why_bytes,
                             "the process gets no memory for its tables: end what uses it");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t lane = i % set->lanes;

        jobs[i].extent = extent_lane_first(set, lane) + i / set->lanes;
        jobs[i].huge = i < huge_extents;
    }
    extent_work_all(&work);
    status = extent_explain(&work, why, why_bytes);
    if (status != NIGH_OK && !atomic_load(&work.failed) && wish->huge != EXTENT_HUGE_REQUIRED)
        status = extent_fall_back(&work, wish, why, why_bytes);
    for (uint32_t lane = 0; lane < set->lanes; lane++)
        set->lane[lane].used = per_lane;
    free(jobs);
    return status;
}

/* What an operator wants to know of the memory, and what could be better about it. */
static void extent_set_log(const struct extent_set *set, enum extent_huge huge)
{
    char total[BYTES_SIZE_TEXT], each[BYTES_SIZE_TEXT];
    const char *pages = set->all_huge ? "huge" : set->any_huge ? "mixed" : "plain";

    bytes_format_size(set->memory_bytes, total);
    bytes_format_size(set->extent_bytes, each);
    LOG_INFO("memory is ready", "size=\"%s\" extents=%llu extent=\"%s\" lanes=%u pages=%s", total,
             (unsigned long long)(set->memory_bytes >> set->extent_shift), each, set->lanes, pages);
    if (huge == EXTENT_HUGE_WHERE_GRANTED && !set->all_huge)
        LOG_WARN("huge pages are not granted for all memory",
                 "wanted_pages=%llu pages=%s do=\"reserve them with vm.nr_hugepages before the "
                 "start, or say --huge never\"",
                 (unsigned long long)(set->memory_bytes / MEMFD_HUGE_BYTES), pages);
}

nigh_status extent_set_plan(const struct extent_options *options, uint64_t *memory_bytes, char *why,
                            size_t why_bytes)
{
    uint64_t extent_bytes = 0;
    uint32_t per_lane = 0;
    nigh_status status = extent_plan(options, &extent_bytes, &per_lane, why, why_bytes);

    if (status == NIGH_OK)
        *memory_bytes = (uint64_t)per_lane * options->lanes * extent_bytes;
    return status;
}

/* What a set needs, and whether it may have it. */
static nigh_status extent_ask(const struct extent_options *options, struct admission_wish *wish,
                              uint32_t *per_lane, uint32_t *huge_extents, char *why,
                              size_t why_bytes)
{
    uint64_t extent_bytes = 0;
    nigh_status status = extent_plan(options, &extent_bytes, per_lane, why, why_bytes);

    if (status != NIGH_OK)
        return status;
    *wish = (struct admission_wish){
        .memory_bytes = (uint64_t)*per_lane * options->lanes * extent_bytes,
        .extent_bytes = extent_bytes,
        .besides_bytes = options->besides_bytes,
        .file_bytes = max_u64(extent_bytes, options->file_bytes),
        .address_bytes = LIMIT_EXTENTS * extent_bytes + MEMFD_HUGE_BYTES,
        .descriptors = 2 * (uint64_t)*per_lane * options->lanes + EXTENT_SPARE_FILES,
        .huge = options->huge,
    };
    return extent_admit(wish, huge_extents, why, why_bytes);
}

nigh_status extent_set_may_be(const struct extent_options *options, char *why, size_t why_bytes)
{
    struct admission_wish wish;
    uint32_t per_lane = 0, huge_extents = 0;

    return extent_ask(options, &wish, &per_lane, &huge_extents, why, why_bytes);
}

nigh_status extent_set_create(const struct extent_options *options, struct extent_set **set,
                              char *why, size_t why_bytes)
{
    struct extent_set *made = NULL;
    struct admission_wish wish;
    uint32_t per_lane = 0, huge_extents = 0;
    nigh_status status = extent_ask(options, &wish, &per_lane, &huge_extents, why, why_bytes);

    if (status != NIGH_OK)
        return status;
    status = extent_set_reserve(wish.extent_bytes, options->lanes, &made, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    if (options->numa_nodes != NULL)
        extent_set_near(made, options->numa_nodes);
    status = extent_set_fill(made, per_lane, huge_extents, &wish, why, why_bytes);
    if (status != NIGH_OK) {
        extent_set_destroy(made);
        return status;
    }
    extent_set_count(made);
    extent_set_log(made, options->huge);
    *set = made;
    return NIGH_OK;
}

/* ---- adopting ---- */

static bool extent_is_huge(int fd)
{
    struct statfs st;

    return fstatfs(fd, &st) == 0 && (unsigned long)st.f_type == EXTENT_HUGETLBFS;
}

/* Takes one extent over, but for its descriptor. */
static nigh_status extent_adopt_one(struct extent_set *set, uint32_t number, int fd, uint64_t owner,
                                    uint32_t lane, char *why, size_t why_bytes)
{
    struct extent *at = &set->extents[number < LIMIT_EXTENTS ? number : 0];
    uint32_t first = extent_lane_first(set, lane < set->lanes ? lane : 0);
    uint64_t bytes;
    nigh_status status;

    if (lane >= set->lanes || number < first || number - first >= LIMIT_EXTENTS / set->lanes ||
        at->present)
        return extent_refuse(NIGH_INVALID, why, why_bytes,
                             "extent %u of lane %u does not fit %u lanes, or is there twice: start "
                             "without the memory of the former node",
                             number, lane, set->lanes);
    status = memfd_size(fd, &bytes);
    if (status != NIGH_OK || bytes != set->extent_bytes)
        return extent_refuse(NIGH_PROTOCOL, why, why_bytes,
                             "the descriptor of extent %u is not sealed memory of %llu bytes: "
                             "start without the memory of the former node",
                             number, (unsigned long long)set->extent_bytes);
    status = memfd_populate(fd, bytes);
    if (status == NIGH_OK)
        status = memfd_reopen_read_only(fd, &at->read_fd);
    if (status != NIGH_OK)
        goto refuse;
    status = memfd_map_at(extent_address(set, number), fd, bytes, MEMFD_WRITABLE | MEMFD_PREFAULT);
    if (status != NIGH_OK) {
        fd_close(&at->read_fd);
        goto refuse;
    }
    at->fd = fd;
    at->present = true;
    at->huge = extent_is_huge(fd);
    atomic_store_explicit(&at->owner, owner, memory_order_relaxed);
    set->lane[lane].used = max_u32(set->lane[lane].used, number - first + 1);
    return NIGH_OK;

refuse:
    return extent_refuse(status, why, why_bytes,
                         "extent %u cannot be mapped (%s): lift what limits memory, address space "
                         "or descriptors",
                         number, strerror(errno));
}

nigh_status extent_set_adopt(uint64_t extent_bytes, uint32_t lanes, const uint32_t *numbers,
                             const int *fds, const uint64_t *owners, const uint32_t *lanes_of,
                             size_t n, struct extent_set **set, char *why, size_t why_bytes)
{
    struct extent_set *made = NULL;
    nigh_status status = extent_check_sizes(extent_bytes, lanes, why, why_bytes);

    if (status == NIGH_OK && (n == 0 || n > LIMIT_EXTENTS))
        status = extent_refuse(NIGH_INVALID, why, why_bytes,
                               "%zu extents cannot be a node's memory: start without it", n);
    if (status == NIGH_OK)
        status = extent_set_reserve(extent_bytes, lanes, &made, why, why_bytes);
    if (status != NIGH_OK)
        return status;
    for (size_t i = 0; i < n && status == NIGH_OK; i++)
        status = extent_adopt_one(made, numbers[i], fds[i], owners[i], lanes_of[i], why, why_bytes);
    if (status != NIGH_OK) {
        extent_set_release(made, false);
        return status;
    }
    for (uint32_t i = 0; i < LIMIT_EXTENTS; i++) {
        struct extent *at = &made->extents[i];

        if (!at->present && i - extent_lane_first(made, at->lane) < made->lane[at->lane].used)
            at->absence = EXTENT_SPENT;
    }
    extent_set_count(made);
    extent_set_log(made, EXTENT_HUGE_NEVER);
    *set = made;
    return NIGH_OK;
}

nigh_status extent_set_adopt_absent(struct extent_set *set, uint32_t number,
                                    enum extent_absence absence, uint64_t owner, int fd)
{
    struct extent *at = &set->extents[number];
    struct extent_lane *counts = &set->lane[at->lane];
    uint64_t bytes;
    nigh_status status;

    if (at->present || absence == EXTENT_UNKNOWN || absence > EXTENT_SPENT ||
        (absence == EXTENT_DORMANT) != (owner != EXTENT_NO_OWNER))
        return NIGH_INVALID;
    if (absence == EXTENT_DORMANT) {
        status = memfd_size(fd, &bytes);
        if (status != NIGH_OK || bytes != set->extent_bytes)
            return NIGH_PROTOCOL;
        status = memfd_reopen_read_only(fd, &at->read_fd);
        if (status != NIGH_OK)
            return status;
        at->fd = fd;
        at->huge = extent_is_huge(fd);
        at->dormant_owner = owner;
        counts->dormant++;
    }
    at->absence = (uint8_t)absence;
    counts->used = max_u32(counts->used, number - extent_lane_first(set, at->lane) + 1);
    return NIGH_OK;
}
