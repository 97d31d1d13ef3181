/* SPDX-License-Identifier: Apache-2.0 */
/* See admission.h. Reads the files; what they mean is in admission_parse.c. */
#include "memory/admission.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/fd.h"
#include "memory/admission_parse.h"
#include "memory/memfd.h"

/* More of a file is not looked at. mountinfo is the longest: a line a mount. */
#define ADMISSION_WANTED_BYTES 160 /* a phrase: how much, and what for */
#define ADMISSION_FILE_BYTES   ((size_t)1 << 20)

/* A file under the root, read anew into the one buffer. */
struct admission_reader {
    const char *root;
    char *text;
    size_t text_bytes;
};

static bool admission_load(struct admission_reader *reader, const char *folder, const char *name)
{
    char path[2 * ADMISSION_PATH_BYTES];
    int length = snprintf(path, sizeof(path), "%s%s%s", reader->root, folder, name);
    nigh_status status;
    int fd;

    reader->text_bytes = 0;
    if (length < 0 || (size_t)length >= sizeof(path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    status = fd_read_full(fd, reader->text, ADMISSION_FILE_BYTES, &reader->text_bytes);
    fd_close(&fd);
    return status == NIGH_OK;
}

static bool admission_load_number(struct admission_reader *reader, const char *folder,
                                  const char *name, uint64_t *value)
{
    return admission_load(reader, folder, name) &&
           admission_parse_number(reader->text, reader->text_bytes, value);
}

static bool admission_field(const struct admission_reader *reader, const char *key, uint64_t *value)
{
    return admission_parse_field(reader->text, reader->text_bytes, key, value);
}

static nigh_status admission_read_machine(struct admission_reader *reader,
                                          struct admission_facts *facts)
{
    uint64_t mode = 0, limit, committed;

    if (!admission_load(reader, "/proc/", "meminfo") ||
        !admission_field(reader, "MemTotal:", &facts->memory_total_bytes) ||
        !admission_field(reader, "MemAvailable:", &facts->memory_available_bytes))
        return NIGH_NO_RESOURCES;
    if (!admission_field(reader, "CommitLimit:", &limit) ||
        !admission_field(reader, "Committed_AS:", &committed))
        return NIGH_OK;
    if (admission_load_number(reader, "/proc/sys/vm/", "overcommit_memory", &mode) && mode == 2)
        facts->commit_left_bytes = limit > committed ? limit - committed : 0;
    return NIGH_OK;
}

/* Puts the pools in order of their page size: folders come in any. */
static void admission_add_pool(struct admission_facts *facts,
                               const struct admission_huge_pool *pool)
{
    uint32_t at = facts->huge_count;

    if (at == ADMISSION_HUGE_POOLS)
        return;
    for (; at > 0 && facts->huge[at - 1].page_bytes > pool->page_bytes; at--)
        facts->huge[at] = facts->huge[at - 1];
    facts->huge[at] = *pool;
    facts->huge_count++;
}

static void admission_read_pool(struct admission_reader *reader, const char *name,
                                struct admission_facts *facts)
{
    struct admission_huge_pool pool = {0};
    char folder[ADMISSION_PATH_BYTES];
    uint64_t surplus = 0;

    if (!admission_parse_huge_name(name, &pool.page_bytes))
        return;
    snprintf(folder, sizeof(folder), "/sys/kernel/mm/hugepages/%s/", name);
    if (!admission_load_number(reader, folder, "nr_hugepages", &pool.total) ||
        !admission_load_number(reader, folder, "free_hugepages", &pool.free))
        return;
    admission_load_number(reader, folder, "resv_hugepages", &pool.reserved);
    admission_load_number(reader, folder, "surplus_hugepages", &surplus);
    admission_load_number(reader, folder, "nr_overcommit_hugepages", &pool.overcommit);
    pool.overcommit -= min_u64(pool.overcommit, surplus);
    admission_add_pool(facts, &pool);
}

static void admission_read_huge(struct admission_reader *reader, struct admission_facts *facts)
{
    char path[ADMISSION_PATH_BYTES];
    struct dirent *entry;
    DIR *dir;
    int length = snprintf(path, sizeof(path), "%s/sys/kernel/mm/hugepages", reader->root);

    if (length < 0 || (size_t)length >= sizeof(path))
        return;
    dir = opendir(path);
    if (dir == NULL)
        return;
    while ((entry = readdir(dir)) != NULL)
        admission_read_pool(reader, entry->d_name, facts);
    closedir(dir);
}

/* One group of the hierarchy; false where it does not account memory. */
static bool admission_read_level(struct admission_reader *reader, const char *folder,
                                 uint32_t version, struct admission_cgroup *level)
{
    bool v2 = version == 2;
    uint64_t ceiling, kept;

    *level = (struct admission_cgroup){.version = version, .high_bytes = ADMISSION_NO_LIMIT};
    if (!admission_load_number(reader, folder, v2 ? "/memory.max" : "/memory.limit_in_bytes",
                               &level->limit_bytes) ||
        !admission_load_number(reader, folder, v2 ? "/memory.current" : "/memory.usage_in_bytes",
                               &level->used_bytes))
        return false;
    if (v2)
        admission_load_number(reader, folder, "/memory.high", &level->high_bytes);
    if (admission_load(reader, folder, "/memory.stat"))
        admission_field(reader, v2 ? "inactive_file" : "total_inactive_file",
                        &level->reclaimable_bytes);

    ceiling = min_u64(level->limit_bytes, level->high_bytes);
    kept = level->used_bytes - min_u64(level->used_bytes, level->reclaimable_bytes);
    level->available_bytes = ceiling;
    if (ceiling != ADMISSION_NO_LIMIT)
        level->available_bytes = ceiling - min_u64(ceiling, kept);
    snprintf(level->folder, sizeof(level->folder), "%s", folder);
    return true;
}

/* Looks at this process's group and every one above it; the one that grants least counts. */
static void admission_read_cgroup(struct admission_reader *reader, struct admission_facts *facts)
{
    char path[ADMISSION_PATH_BYTES], mount[ADMISSION_PATH_BYTES], folder[ADMISSION_PATH_BYTES];
    struct admission_cgroup level;
    uint32_t version;
    size_t mount_bytes;

    if (!admission_load(reader, "/proc/self/", "cgroup") ||
        !admission_parse_cgroup(reader->text, reader->text_bytes, &version, path, sizeof(path)) ||
        !admission_load(reader, "/proc/self/", "mountinfo") ||
        !admission_parse_mount(reader->text, reader->text_bytes, version, path, mount, folder,
                               sizeof(folder)))
        return;
    mount_bytes = strlen(mount);
    for (;;) {
        if (admission_read_level(reader, folder, version, &level) &&
            (facts->cgroup.version == 0 || level.available_bytes < facts->cgroup.available_bytes))
            facts->cgroup = level;
        if (strlen(folder) <= mount_bytes) /* the folder shrinks by a name each turn */
            return;
        *strrchr(folder, '/') = '\0';
    }
}

/* Of the process whose folder in /proc this is. */
static bool admission_load_limits(struct admission_reader *reader, const char *folder,
                                  struct admission_facts *facts)
{
    const struct {
        const char *key;
        uint64_t *value;
    } limits[] = {
        {"Max address space", &facts->address_limit_bytes},
        {"Max file size", &facts->file_limit_bytes},
        {"Max open files", &facts->descriptor_limit},
        {"Max locked memory", &facts->locked_limit_bytes},
    };

    if (!admission_load(reader, folder, "limits"))
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++)
        admission_parse_rlimit(reader->text, reader->text_bytes, limits[i].key, limits[i].value);
    return true;
}

bool admission_read_limits(const char *root, pid_t pid, struct admission_facts *facts)
{
    struct admission_reader reader = {.root = root, .text = malloc(ADMISSION_FILE_BYTES)};
    char folder[48];
    bool found;

    (void)snprintf(folder, sizeof(folder), "/proc/%d/", (int)pid);
    found = reader.text != NULL && admission_load_limits(&reader, folder, facts);
    free(reader.text);
    return found;
}

static void admission_read_process(struct admission_reader *reader, struct admission_facts *facts)
{
    (void)admission_load_limits(reader, "/proc/self/", facts);
    if (admission_load(reader, "/proc/self/", "status"))
        admission_field(reader, "VmSize:", &facts->address_used_bytes);
}

static void admission_read_shm(const char *root, struct admission_facts *facts)
{
    char path[ADMISSION_PATH_BYTES];
    struct statvfs st;
    int length = snprintf(path, sizeof(path), "%s/dev/shm", root);

    if (length < 0 || (size_t)length >= sizeof(path) || statvfs(path, &st) != 0)
        return;
    facts->shm_total_bytes = (uint64_t)st.f_blocks * st.f_frsize;
    facts->shm_available_bytes = (uint64_t)st.f_bavail * st.f_frsize;
}

nigh_status admission_read(const char *root, struct admission_facts *facts)
{
    struct admission_reader reader = {.root = root};
    struct admission_facts *found = calloc(1, sizeof(*found));
    nigh_status status = NIGH_NO_RESOURCES;

    reader.text = malloc(ADMISSION_FILE_BYTES);
    if (found == NULL || reader.text == NULL)
        goto free_buffers;
    found->commit_left_bytes = ADMISSION_NO_LIMIT;
    found->address_limit_bytes = ADMISSION_NO_LIMIT;
    found->file_limit_bytes = ADMISSION_NO_LIMIT;
    found->descriptor_limit = ADMISSION_NO_LIMIT;
    found->locked_limit_bytes = ADMISSION_NO_LIMIT;
    found->cgroup.limit_bytes = ADMISSION_NO_LIMIT;
    found->cgroup.high_bytes = ADMISSION_NO_LIMIT;
    found->cgroup.available_bytes = ADMISSION_NO_LIMIT;

    errno = 0;
    status = admission_read_machine(&reader, found);
    if (status != NIGH_OK)
        goto free_buffers;
    admission_read_huge(&reader, found);
    admission_read_cgroup(&reader, found);
    admission_read_process(&reader, found);
    admission_read_shm(root, found);
    *facts = *found;

free_buffers:
    free(reader.text);
    free(found);
    return status;
}

uint64_t admission_huge_free_bytes(const struct admission_facts *facts)
{
    for (uint32_t i = 0; i < facts->huge_count; i++) {
        const struct admission_huge_pool *pool = &facts->huge[i];

        if (pool->page_bytes == MEMFD_HUGE_BYTES)
            return min_u64(pool->free - min_u64(pool->free, pool->reserved),
                           INT64_MAX / MEMFD_HUGE_BYTES) *
                   MEMFD_HUGE_BYTES;
    }
    return 0;
}

/* A refusal. Returns its status, so that the checks below read as a table. */
__attribute__((format(printf, 4, 5))) static nigh_status
admission_refuse(nigh_status status, char *why, size_t why_bytes, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, why_bytes, format, arguments);
    va_end(arguments);
    return status;
}

static nigh_status admission_check_process(const struct admission_facts *facts,
                                           const struct admission_wish *wish, char *why,
                                           size_t why_bytes)
{
    char wanted[BYTES_SIZE_TEXT], limit[BYTES_SIZE_TEXT];
    uint64_t address;

    if (!checked_add_u64(facts->address_used_bytes, wish->address_bytes, &address))
        address = UINT64_MAX;
    if (facts->address_limit_bytes != ADMISSION_NO_LIMIT && address > facts->address_limit_bytes) {
        (void)bytes_format_sizes(wish->address_bytes, facts->address_limit_bytes, wanted, limit);
        return admission_refuse(NIGH_NO_RESOURCES, why, why_bytes,
                                "%s of address space are needed (not memory), but the process is "
                                "limited to %s of it: lift the limit (ulimit -v unlimited, or "
                                "LimitAS=infinity in the unit)",
                                wanted, limit);
    }
    if (wish->file_bytes > facts->file_limit_bytes) {
        (void)bytes_format_sizes(wish->file_bytes, facts->file_limit_bytes, wanted, limit);
        return admission_refuse(NIGH_NO_RESOURCES, why, why_bytes,
                                "memory and indexes lie in files of up to %s, but the process may "
                                "make files of %s at most: lift the limit (ulimit -f unlimited, or "
                                "LimitFSIZE=infinity in the unit)",
                                wanted, limit);
    }
    if (facts->descriptor_limit < wish->descriptors)
        return admission_refuse(NIGH_NO_RESOURCES, why, why_bytes,
                                "%" PRIu64 " descriptors are needed, but the process may open "
                                "%" PRIu64 ": raise the limit (ulimit -n, or LimitNOFILE= in the "
                                "unit), or choose larger extents",
                                wish->descriptors, facts->descriptor_limit);
    return NIGH_OK;
}

static nigh_status admission_refuse_cgroup(const struct admission_cgroup *group, const char *wanted,
                                           const char *left, char *why, size_t why_bytes)
{
    char limit[BYTES_SIZE_TEXT], used[BYTES_SIZE_TEXT];
    bool high = group->high_bytes < group->limit_bytes;
    const char *name = group->version == 1 ? "memory.limit_in_bytes"
                       : high              ? "memory.high"
                                           : "memory.max";

    bytes_format_size(min_u64(group->limit_bytes, group->high_bytes), limit);
    bytes_format_size(group->used_bytes, used);
    return admission_refuse(NIGH_OUT_OF_MEMORY, why, why_bytes,
                            "%s, but the control group %s grants %s more (%s "
                            "of %s are in use): raise its %s (the memory limit of the container or "
                            "unit), or ask for less memory",
                            wanted, group->folder, left, used, limit, name);
}

/* The first that has less than is needed, as the checks below have them. */
static uint64_t admission_left_bytes(const struct admission_facts *facts, uint64_t needed_bytes)
{
    if (needed_bytes > facts->memory_available_bytes)
        return facts->memory_available_bytes;
    return needed_bytes > facts->cgroup.available_bytes ? facts->cgroup.available_bytes
                                                        : facts->commit_left_bytes;
}

/* What plain pages, and the tables that map them, need of the machine and the control group. */
static nigh_status admission_check_memory(const struct admission_facts *facts,
                                          const struct admission_wish *wish, uint64_t plain_bytes,
                                          char *why, size_t why_bytes)
{
    char all[BYTES_SIZE_TEXT], objects[BYTES_SIZE_TEXT], left[BYTES_SIZE_TEXT];
    char total[BYTES_SIZE_TEXT], wanted[ADMISSION_WANTED_BYTES];
    uint64_t needed;

    if (!checked_add_u64(plain_bytes, wish->memory_bytes / 512, &needed) ||
        !checked_add_u64(needed, wish->besides_bytes, &needed) ||
        !checked_add_u64(needed, ADMISSION_SPARE_BYTES, &needed))
        needed = UINT64_MAX;
    (void)bytes_format_sizes(needed, admission_left_bytes(facts, needed), all, left);
    bytes_format_size(plain_bytes, objects);
    snprintf(
        wanted, sizeof(wanted),
        "%s of memory are needed (%s for objects; the rest for indexes, sessions and page tables)",
        all, objects);
    if (needed > facts->memory_available_bytes) {
        bytes_format_size(facts->memory_total_bytes, total);
        return admission_refuse(NIGH_OUT_OF_MEMORY, why, why_bytes,
                                "%s, but of the machine's %s only %s are "
                                "available: ask for less memory, or end what uses the rest",
                                wanted, total, left);
    }
    if (needed > facts->cgroup.available_bytes)
        return admission_refuse_cgroup(&facts->cgroup, wanted, left, why, why_bytes);
    if (needed > facts->commit_left_bytes) {
        return admission_refuse(NIGH_OUT_OF_MEMORY, why, why_bytes,
                                "%s, but the kernel may promise only %s more "
                                "(vm.overcommit_memory is 2): raise vm.overcommit_ratio, or ask "
                                "for less memory",
                                wanted, left);
    }
    return NIGH_OK;
}

nigh_status admission_decide(const struct admission_facts *facts, const struct admission_wish *wish,
                             uint64_t *huge_bytes, char *why, size_t why_bytes)
{
    char wanted[BYTES_SIZE_TEXT], left[BYTES_SIZE_TEXT];
    uint64_t free_bytes = admission_huge_free_bytes(facts);
    uint64_t granted = 0;
    nigh_status status = admission_check_process(facts, wish, why, why_bytes);

    if (status != NIGH_OK)
        return status;
    if (wish->huge != EXTENT_HUGE_NEVER && wish->extent_bytes > 0)
        granted = min_u64(free_bytes, wish->memory_bytes) / wish->extent_bytes * wish->extent_bytes;
    if (wish->huge == EXTENT_HUGE_REQUIRED && granted < wish->memory_bytes) {
        (void)bytes_format_sizes(wish->memory_bytes, free_bytes, wanted, left);
        return admission_refuse(
            NIGH_OUT_OF_MEMORY, why, why_bytes,
            "%s of huge pages are required, but %s are free: set vm.nr_hugepages to at least "
            "%" PRIu64 " more, ask for less memory, or do not require huge pages",
            wanted, left, (wish->memory_bytes - granted + MEMFD_HUGE_BYTES - 1) / MEMFD_HUGE_BYTES);
    }
    status = admission_check_memory(facts, wish, wish->memory_bytes - granted, why, why_bytes);
    if (status == NIGH_OK)
        *huge_bytes = granted;
    return status;
}

nigh_status admission_ask(uint64_t bytes, uint64_t owed)
{
    struct admission_facts *facts = malloc(sizeof(*facts));
    nigh_status status = facts == NULL ? NIGH_NO_RESOURCES : admission_read("", facts);

    if (status == NIGH_OK) {
        uint64_t has = min_u64(facts->memory_available_bytes, facts->cgroup.available_bytes);

        has = min_u64(has, facts->commit_left_bytes);
        has -= min_u64(has, owed + ADMISSION_SPARE_BYTES);
        if (has < bytes)
            status = NIGH_OUT_OF_MEMORY;
        if (facts->file_limit_bytes < bytes)
            status = NIGH_OUT_OF_MEMORY; /* it would raise a signal */
    }
    free(facts);
    return status;
}
