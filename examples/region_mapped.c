/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped: a region that lies in the memory of this process. Processes of a node count up one word
 * in place, with the processor's own instruction and no call; others, at any node, read it by a
 * call. Who comes first makes the region, and it stays when they end:
 *
 *   example-region_mapped NAME [COUNT]           the node: $NIGH_SOCKET
 *
 *   example-region_mapped hits 1000000 & example-region_mapped hits 1000000; wait
 *   nigh region read hits --size 8 | od -An -t u8      # 2000000
 *   nigh region rm hits
 *
 *   cc region_mapped.c $(pkg-config --cflags --libs nigh) -o example-region_mapped
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nigh/nigh.h>

#define WAIT_US   UINT64_C(10000000)
#define COUNT_MAX 1000000000u
#define BOTH      (NIGH_REGION_READ | NIGH_REGION_WRITE)

/* Made here, or by another process before: then it is opened. */
static nigh_status find(nigh_client *client, const char *name, nigh_region **region)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = name,
                             .size = sizeof(uint64_t),
                             .flags = NIGH_REGION_MAPPABLE};
    nigh_status status = nigh_region_create(client, &spec, WAIT_US, region);

    return status == NIGH_EXISTS ? nigh_region_open(client, name, BOTH, WAIT_US, region) : status;
}

/* Counts in place, and then looks through the node: those are the same bytes. */
static nigh_status count(nigh_region *region, unsigned times)
{
    void *address;
    uint64_t last = 0, read = 0;
    nigh_status status = nigh_region_map(region, 0, sizeof last, BOTH, WAIT_US, &address);

    if (status != NIGH_OK) {
        return status;
    }
    for (unsigned n = 0; n < times; n++) {
        last = atomic_fetch_add((_Atomic uint64_t *)address, 1) + 1;
    }
    status = nigh_region_read(region, 0, &read, sizeof read, WAIT_US);
    if (status == NIGH_OK) {
        /* More was read than counted to: other processes counted, too, between the two. */
        printf("mapped: added %u to the word in place, to %" PRIu64 "; a read by the node then: "
               "%" PRIu64 " (other processes count, too)\n",
               times, last, read);
        status = nigh_region_unmap(region, address);
    }
    return status;
}

static unsigned parse_count(const char *text)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number == 0 || number > COUNT_MAX) {
        fprintf(stderr, "mapped: COUNT is a number from 1 to %u, not '%s'\n", COUNT_MAX, text);
        exit(2);
    }
    return (unsigned)number;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-region_mapped NAME [COUNT]\n"
                "Adds 1 COUNT times (default 1000) to the word of the region NAME, in place:\n"
                "the region is mapped, and made where there is none of this name. At the node\n"
                "$NIGH_SOCKET.\n");
}

int main(int argc, char **argv)
{
    unsigned times;
    nigh_region *region = NULL;
    nigh_client *client;
    nigh_status status;
    char text[512];

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (argc < 2 || argc > 3 || argv[1][0] == '-') {
        usage(stderr);
        return 2;
    }
    times = argc > 2 ? parse_count(argv[2]) : 1000;
    if (nigh_client_open(NULL, &client) != NIGH_OK) {
        fprintf(stderr, "mapped: %s\n", nigh_open_error());
        return 1;
    }
    status = find(client, argv[1], &region);
    if (status == NIGH_OK) {
        status = count(region, times);
    }
    if (status != NIGH_OK) {
        nigh_client_error(client, text, sizeof text);
        fprintf(stderr, "mapped: %s: %s (%s)\n", argv[1], nigh_status_string(status), text);
    }
    nigh_region_close(region);
    nigh_client_close(client);
    return status == NIGH_OK ? 0 : 1;
}
