/* SPDX-License-Identifier: Apache-2.0 */
/* See incarnation.h. */
#include "node/incarnation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"

#define LOG_MODULE "node"
#include "base/log.h"

#define INCARNATION_EPOCH_NS   UINT64_C(1700000000000000000) /* 2023-11-14 */
#define INCARNATION_TICK_NS    (UINT64_C(1000000000) / 8)
#define INCARNATION_TEXT_BYTES 11 /* ten digits and an end of line: always as long */

uint32_t incarnation_of_clock(uint64_t wall_ns)
{
    uint64_t ticks = wall_ns <= INCARNATION_EPOCH_NS
                         ? 0
                         : (wall_ns - INCARNATION_EPOCH_NS) / INCARNATION_TICK_NS;

    return (uint32_t)min_u64(max_u64(ticks, 1), UINT32_MAX);
}

/* 0: nothing is remembered, or something else, which the log tells: it is written over. */
static uint32_t read_number(int fd, const char *path)
{
    char text[INCARNATION_TEXT_BYTES + 1] = "";
    ssize_t got = pread(fd, text, INCARNATION_TEXT_BYTES, 0);
    char *end = text;
    unsigned long long number = strtoull(text, &end, 10);

    if (got == INCARNATION_TEXT_BYTES && end == text + INCARNATION_TEXT_BYTES - 1 && *end == '\n' &&
        number <= UINT32_MAX) {
        return (uint32_t)number;
    }
    if (got != 0) { /* it was just made, or its node died before it wrote */
        LOG_WARN("the number of this node's last life is damaged: it takes the clock's",
                 "path=\"%s\" do=\"nothing, unless the clock went back: other nodes let this one "
                 "in after --dead-ms then\"",
                 LOG_QUOTE(path));
    }
    return 0;
}

/* In place: that a full disk has room for, too. */
static bool write_number(int fd, uint32_t number)
{
    char text[INCARNATION_TEXT_BYTES + 1];

    snprintf(text, sizeof(text), "%010u\n", number);
    return pwrite(fd, text, INCARNATION_TEXT_BYTES, 0) == INCARNATION_TEXT_BYTES &&
           fdatasync(fd) == 0;
}

nigh_status incarnation_begin(const char *directory, uint32_t above, uint64_t wall_ns,
                              uint32_t *incarnation, char *why, uint64_t why_bytes)
{
    char path[4096 + sizeof("/incarnation")];
    uint32_t number = incarnation_of_clock(wall_ns);
    int fd = -1;

    if (directory[0] != '\0') {
        snprintf(path, sizeof(path), "%s/incarnation", directory);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        above = fd < 0 ? above : max_u32(above, read_number(fd, path));
    }
    if (above == UINT32_MAX) {
        fd_close(&fd);
        snprintf(why, why_bytes,
                 "no number is left for this node's life (%s%sit began with %u); remove what it "
                 "left of former lives, and stop all nodes of its cluster",
                 directory[0] != '\0' ? path : "", directory[0] != '\0' ? ": " : "", above);
        return NIGH_LIMIT;
    }
    number = max_u32(number, above + 1);
    if (directory[0] != '\0' && (fd < 0 || !write_number(fd, number))) {
        LOG_WARN("the number of this life is not remembered",
                 "path=\"%s\" errno=%d do=\"see to the disk of --state, or of --spill\"",
                 LOG_QUOTE(path), errno);
    }
    fd_close(&fd);
    *incarnation = number;
    return NIGH_OK;
}

uint64_t incarnation_wait_ns(uint32_t incarnation, uint64_t wall_ns)
{
    if (incarnation != incarnation_of_clock(wall_ns) || wall_ns < INCARNATION_EPOCH_NS) {
        return 0;
    }
    return INCARNATION_TICK_NS - (wall_ns - INCARNATION_EPOCH_NS) % INCARNATION_TICK_NS;
}
