/* SPDX-License-Identifier: Apache-2.0 */
/* See common.h. */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t today_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void fail(const char *what, const char *why)
{
    fprintf(stderr, "space_tpcc: %s: %s\n", what, why);
    exit(1);
}

void *memory_of(uint64_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);

    if (memory == NULL) {
        fail("memory", strerror(errno));
    }
    return memory;
}
