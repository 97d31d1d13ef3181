/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a file of /proc, /sys or a control group, and any numbers as facts to decide upon. */
#include <string.h>

#include "base/check.h"
#include "memory/admission.h"
#include "memory/admission_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void try_lines(const char *text, size_t bytes)
{
    static const char *const keys[] = {"MemAvailable:", "inactive_file", "Max address space", ""};
    uint64_t value;

    if (admission_parse_number(text, bytes, &value))
        NIGH_ASSERT(value < UINT64_C(1) << 62 || value == ADMISSION_NO_LIMIT);
    for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
        admission_parse_field(text, bytes, keys[i], &value);
        admission_parse_rlimit(text, bytes, keys[i], &value);
    }
}

static void try_groups(const char *text, size_t bytes)
{
    static char path[ADMISSION_PATH_BYTES], mount[64], folder[64];
    uint32_t version;

    if (admission_parse_cgroup(text, bytes, &version, path, sizeof(path))) {
        NIGH_ASSERT(version == 1 || version == 2);
        NIGH_ASSERT(path[0] == '/' && strlen(path) < bytes);
    } else {
        strcpy(path, "/box/inner");
    }
    for (version = 1; version <= 2; version++) {
        if (!admission_parse_mount(text, bytes, version, path, mount, folder, sizeof(folder)))
            continue;
        NIGH_ASSERT(memchr(folder, 0, sizeof(folder)) != NULL);
        NIGH_ASSERT(mount[0] != '\0' && strncmp(folder, mount, strlen(mount)) == 0);
    }
}

static void try_name(const uint8_t *data, size_t bytes)
{
    char name[256];
    uint64_t page_bytes;

    memcpy(name, data, min_size(bytes, sizeof(name) - 1));
    name[min_size(bytes, sizeof(name) - 1)] = '\0';
    admission_parse_huge_name(name, &page_bytes);
}

/* Facts are numbers of the kernel's; whatever they are, what is granted fits them. */
static void try_decision(const uint8_t *data, size_t bytes)
{
    static struct admission_facts facts;
    struct admission_wish wish = {0};
    char why[ADMISSION_SENTENCE_BYTES] = "";
    uint64_t huge_bytes = 0;

    memset(&facts, 0, sizeof(facts));
    memcpy(&wish, data, min_size(bytes, sizeof(wish)));
    if (bytes > sizeof(wish))
        memcpy(&facts, data + sizeof(wish), min_size(bytes - sizeof(wish), sizeof(facts)));
    facts.huge_count %= ADMISSION_HUGE_POOLS + 1;
    facts.cgroup.folder[ADMISSION_PATH_BYTES - 1] = '\0';
    wish.huge = (enum extent_huge)((uint32_t)wish.huge % 3);
    if (admission_decide(&facts, &wish, &huge_bytes, why, sizeof(why)) == NIGH_OK) {
        NIGH_ASSERT(huge_bytes <= wish.memory_bytes);
        NIGH_ASSERT(huge_bytes <= admission_huge_free_bytes(&facts));
        NIGH_ASSERT(wish.memory_bytes - huge_bytes <= facts.memory_available_bytes);
        NIGH_ASSERT(wish.memory_bytes - huge_bytes <= facts.cgroup.available_bytes);
        NIGH_ASSERT(wish.huge != EXTENT_HUGE_REQUIRED || huge_bytes == wish.memory_bytes);
    } else {
        NIGH_ASSERT(why[0] != '\0' && memchr(why, 0, sizeof(why)) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    try_lines((const char *)data, size_bytes);
    try_groups((const char *)data, size_bytes);
    try_name(data, size_bytes);
    try_decision(data, size_bytes);
    return 0;
}
