/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what the kernel writes about memory: the text of a few files in /proc, /sys and a control
 * group.
 *
 * Pure functions over text that need not be terminated: no file is opened here. Each returns
 * false, its output untouched, when the text does not say what was asked. Any thread.
 */
#ifndef MEMORY_ADMISSION_PARSE_H
#define MEMORY_ADMISSION_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/admission.h"

/*
 * A file of one number: "max", or digits in bytes. What cannot be a size of anything (from 2^62:
 * version 1 writes 9223372036854771712 on x86) is ADMISSION_NO_LIMIT, as "max" is.
 */
bool admission_parse_number(const char *text, size_t text_bytes, uint64_t *value);

/*
 * The number of the line that begins with `key` and a blank: "MemAvailable:   24344932 kB" in
 * /proc/meminfo (key "MemAvailable:"), "inactive_file 4096" in memory.stat. kB multiplies by 1024.
 */
bool admission_parse_field(const char *text, size_t text_bytes, const char *key, uint64_t *value);

/* The soft limit of a line of /proc/PID/limits: key "Max address space". */
bool admission_parse_rlimit(const char *text, size_t text_bytes, const char *key, uint64_t *value);

/*
 * The control group that accounts memory, from /proc/self/cgroup: the version (1 where a line names
 * the memory controller, else 2 where there is a line "0::") and the group's path.
 */
bool admission_parse_cgroup(const char *text, size_t text_bytes, uint32_t *version, char *path,
                            size_t path_bytes);

/*
 * Where a group's folder is mounted, from /proc/self/mountinfo: `mount` is the mount point of the
 * hierarchy and `folder` the group's folder, the mount point or below. A group that lies outside
 * of what is mounted (a container without a group namespace) has the mount point itself.
 */
bool admission_parse_mount(const char *text, size_t text_bytes, uint32_t version, const char *path,
                           char *mount, char *folder, size_t folder_bytes);

/* A path of mountinfo, where blanks, tabs, line ends and backslashes stand as \ooo. False: it is
 * empty, does not fit, or has a zero in it. */
bool admission_copy_escaped(const char *text, size_t text_bytes, char *out, size_t out_bytes);

/* The page size in the name of a folder of /sys/kernel/mm/hugepages: "hugepages-2048kB". */
bool admission_parse_huge_name(const char *name, uint64_t *page_bytes);

#endif
