/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Donated: memory that a process has already becomes a region. The process goes on storing in it
 * as in any of its own, here what it has done so far; whoever wants to know, at any node, reads
 * that, and the process neither answers nor notices.
 *
 *   example-region_donated NAME [COUNT [PERIOD_MS]]    works COUNT times, one every PERIOD
 *   example-region_donated --watch NAME                what it has done, once; at any node
 *
 *   example-region_donated progress 100 & sleep 1      the node: $NIGH_SOCKET
 *   example-region_donated --watch progress
 *
 *   cc region_donated.c $(pkg-config --cflags --libs nigh) -o example-region_donated
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nigh/nigh.h>

#define WAIT_US      UINT64_C(10000000)
#define REGION_BYTES 4096 /* a page: what is donated has a multiple of it */
#define COUNT_MAX    1000000000u
#define PERIOD_MAX   3600000u

/* At the region's beginning. Each word on its own is read whole; there is no order between them. */
struct progress {
    _Atomic uint64_t pid;
    _Atomic uint64_t of;
    _Atomic uint64_t done;
};

/* A memfd that nobody makes longer or shorter, so that the node may map it. */
static int make_memory(struct progress **progress)
{
    int fd = memfd_create("progress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *memory = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, REGION_BYTES) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
        memory = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (memory == MAP_FAILED) {
        perror("donated: cannot make memory");
        exit(1);
    }
    *progress = memory;
    return fd;
}

/* The work, of which others are to know how far it is. */
static void work(struct progress *progress, unsigned count, unsigned period_ms)
{
    for (unsigned n = 1; n <= count; n++) {
        poll(NULL, 0, (int)period_ms);
        progress->done = n;
    }
}

/* Everybody may read it. Who ends without having freed it leaves it as it is, until somebody who
 * may removes it (nigh region rm). */
static nigh_status donate(nigh_client *client, const char *name, unsigned count, unsigned period_ms)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = name,
                             .size = REGION_BYTES,
                             .other_access = NIGH_REGION_READ};
    struct progress *progress;
    int fd = make_memory(&progress);
    nigh_region *region;
    nigh_status status;

    progress->pid = (uint64_t)getpid();
    progress->of = count;
    status = nigh_region_donate(client, &spec, fd, WAIT_US, &region);
    close(fd); /* the node has the memory itself, as long as the region is there */
    if (status == NIGH_OK) {
        printf("donated: %s\n", name);
        fflush(stdout);
        work(progress, count, period_ms);
        status = nigh_region_free(region, WAIT_US);
        nigh_region_close(region);
    }
    munmap(progress, REGION_BYTES);
    return status;
}

static nigh_status watch(nigh_client *client, const char *name)
{
    uint64_t words[sizeof(struct progress) / sizeof(uint64_t)];
    nigh_region *region;
    nigh_status status = nigh_region_open(client, name, NIGH_REGION_READ, WAIT_US, &region);

    if (status != NIGH_OK) {
        return status;
    }
    status = nigh_region_read(region, 0, words, sizeof words, WAIT_US);
    if (status == NIGH_OK) {
        printf("process %" PRIu64 " has done %" PRIu64 " of %" PRIu64 "\n", words[0], words[2],
               words[1]);
    }
    nigh_region_close(region);
    return status;
}

static unsigned parse(const char *name, const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < least || number > most) {
        fprintf(stderr, "donated: %s is a number from %u to %u, not '%s'\n", name, least, most,
                text);
        exit(2);
    }
    return (unsigned)number;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-region_donated NAME [COUNT [PERIOD_MS]]\n"
                "       example-region_donated --watch NAME\n"
                "Makes memory of this process the region NAME, and stores in it COUNT times\n"
                "(default 100), once every PERIOD_MS (default 100), how often it has; --watch\n"
                "reads that. At the node $NIGH_SOCKET.\n");
}

int main(int argc, char **argv)
{
    int watches = argc > 1 && strcmp(argv[1], "--watch") == 0;
    const char *name = argc > 1 + watches ? argv[1 + watches] : "";
    unsigned count = !watches && argc > 2 ? parse("COUNT", argv[2], 1, COUNT_MAX) : 100;
    unsigned period_ms = !watches && argc > 3 ? parse("PERIOD_MS", argv[3], 0, PERIOD_MAX) : 100;
    nigh_client *client;
    nigh_status status;
    char text[512];

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (name[0] == '\0' || name[0] == '-' || argc > (watches ? 3 : 4)) {
        usage(stderr);
        return 2;
    }
    if (nigh_client_open(NULL, &client) != NIGH_OK) {
        fprintf(stderr, "donated: %s\n", nigh_open_error());
        return 1;
    }
    status = watches ? watch(client, name) : donate(client, name, count, period_ms);
    if (status != NIGH_OK) {
        nigh_client_error(client, text, sizeof text);
        fprintf(stderr, "donated: %s: %s (%s)\n", name, nigh_status_string(status), text);
    }
    nigh_client_close(client);
    return status == NIGH_OK ? 0 : 1;
}
