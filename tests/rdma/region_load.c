/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes to a region and reads what it has written, for a script:
 *
 *   test-rdma-region-load SOCKET NAME COUNT DEADLINE_MS
 *
 * Opens the region NAME, writes to it and reads it once, says "open", and then, for each line of
 * standard input, COUNT times writes 64 bytes to a place and reads them; says how many reads and
 * writes were done and the status of the last. Exit 1: other bytes were read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nigh/nigh.h"
#include "nigh/region.h"

#define BYTES   64u
#define PLACES  1024u
#define LINE    64
#define OPEN_US UINT64_C(60000000)

struct load {
    nigh_region *region;
    uint64_t deadline_us, number, done;
};

static nigh_status write_and_read(struct load *load)
{
    uint64_t offset = load->number * 7 % PLACES * BYTES;
    uint8_t written[BYTES], read[BYTES];
    nigh_status status;

    memset(written, 0, sizeof written);
    memcpy(written, &load->number, sizeof load->number);
    memset(read, 0xff, sizeof read);
    load->number++;
    status = nigh_region_write(load->region, offset, written, BYTES, load->deadline_us);
    if (status != NIGH_OK)
        return status;
    load->done++;
    status = nigh_region_read(load->region, offset, read, BYTES, load->deadline_us);
    if (status != NIGH_OK)
        return status;
    load->done++;
    if (memcmp(read, written, BYTES) != 0) {
        (void)fprintf(stderr, "number %" PRIu64 ": other bytes were read\n", load->number - 1);
        exit(1);
    }
    return NIGH_OK;
}

static void say(const struct load *load, nigh_status status)
{
    printf("%" PRIu64 " %s\n", load->done, nigh_status_name(status));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options, .name = "load"};
    struct load load = {.number = 0};
    char line[LINE];
    nigh_client *client;
    nigh_status status;

    if (argc != 5)
        return 2;
    options.socket_path = argv[1];
    load.deadline_us = strtoull(argv[4], NULL, 10) * 1000;
    status = nigh_client_open(&options, &client);
    if (status == NIGH_OK)
        status = nigh_region_open(client, argv[2], NIGH_REGION_READ | NIGH_REGION_WRITE, OPEN_US,
                                  &load.region);
    if (status == NIGH_OK)
        status = write_and_read(&load);
    if (status != NIGH_OK) {
        (void)fprintf(stderr, "%s\n", nigh_status_string(status));
        return 2;
    }
    printf("open\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        load.done = 0;
        for (uint64_t n = strtoull(argv[3], NULL, 10); n > 0 && status == NIGH_OK; n--)
            status = write_and_read(&load);
        say(&load, status);
        status = NIGH_OK;
    }
    nigh_region_close(load.region);
    nigh_client_close(client);
    return 0;
}
