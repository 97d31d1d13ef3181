/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds locks of a region for a script: lock-user SOCKET REGION reads lines, and answers each with
 * one, the name of a status:
 *
 *   lock NUMBER MODE TERM_US    waits for a lock
 *   write OFFSET VALUE          a word, under the lock
 *   flood OFFSET                the same, again and again, until it fails
 *   unlock
 *   leave                       the same, with a line as soon as the node was asked
 *   want NUMBER COUNT           so many locks, from one on, and does not wait for them
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nigh/region.h"

#define WANTS_MAX 64

static nigh_client *client;
static nigh_region *region, *held;
static nigh_region *wanted[WANTS_MAX];
static nigh_op wants[WANTS_MAX];

static nigh_status lock(uint64_t number, unsigned mode, uint64_t term_us)
{
    nigh_status status;

    do {
        status = nigh_region_lock(region, number, (nigh_region_mode)mode, term_us,
                                  UINT64_C(60000000), &held);
    } while (status == NIGH_NO_QUORUM);
    return status;
}

static nigh_status flood(uint64_t offset)
{
    nigh_status status = NIGH_OK;

    for (uint64_t value = 1; status == NIGH_OK || status == NIGH_NO_QUORUM; value++) {
        status = nigh_region_write(held, offset, &value, sizeof value, NIGH_FOREVER);
        if (value == 100) {
            printf("floods\n");
            fflush(stdout);
        }
    }
    return status;
}

static nigh_status leave(void)
{
    nigh_op op;
    nigh_status status = nigh_region_unlock_start(held, &op);

    held = NULL;
    printf("leaves\n");
    fflush(stdout);
    return status == NIGH_OK ? nigh_wait(client, &op, NIGH_FOREVER) : status;
}

static nigh_status want(uint64_t number, uint64_t count)
{
    nigh_status status = count <= WANTS_MAX ? NIGH_OK : NIGH_LIMIT;

    for (uint64_t n = 0; n < count && status == NIGH_OK; n++) {
        status = nigh_region_lock_start(region, number + n, NIGH_REGION_EXCLUSIVE, 0, NIGH_FOREVER,
                                        &wanted[n], &wants[n]);
    }
    return status;
}

static nigh_status carry_out(const char *line)
{
    uint64_t first = 0, second = 0;
    unsigned mode = 0;

    if (sscanf(line, "lock %" SCNu64 " %u %" SCNu64, &first, &mode, &second) == 3)
        return lock(first, mode, second);
    if (sscanf(line, "want %" SCNu64 " %" SCNu64, &first, &second) == 2)
        return want(first, second);
    if (strncmp(line, "unlock", 6) == 0) {
        nigh_status status = nigh_region_unlock(held);

        held = NULL;
        return status;
    }
    if (held == NULL)
        return NIGH_INVALID;
    if (strncmp(line, "leave", 5) == 0)
        return leave();
    if (sscanf(line, "write %" SCNu64 " %" SCNu64, &first, &second) == 2)
        return nigh_region_write(held, first, &second, sizeof second, NIGH_FOREVER);
    if (sscanf(line, "flood %" SCNu64, &first) == 1)
        return flood(first);
    return NIGH_INVALID;
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_status status;
    char line[128];

    if (argc != 3)
        return 2;
    options.socket_path = argv[1];
    status = nigh_client_open(&options, &client);
    if (status == NIGH_OK)
        status = nigh_region_open(client, argv[2], NIGH_REGION_ALL, UINT64_C(20000000), &region);
    printf("%s\n", nigh_status_name(status));
    fflush(stdout);
    while (status == NIGH_OK && fgets(line, sizeof line, stdin) != NULL) {
        printf("%s\n", nigh_status_name(carry_out(line)));
        fflush(stdout);
    }
    nigh_client_close(client);
    return status == NIGH_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
