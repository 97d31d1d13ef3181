/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a region mapped, for a script: map-user SOCKET REGION RIGHTS opens it, reads lines, and
 * answers each with one, the name of a status, or what was asked for:
 *
 *   map OFFSET SIZE RIGHTS    unmap
 *   read OFFSET               write OFFSET VALUE       words, through the node
 *   flood OFFSET              writes again and again, until it may not: "floods", then that
 *   peek OFFSET               poke OFFSET VALUE        words of what is mapped
 *   mode                      what the kernel has for the mapping: r-, rw
 *   force                     tries to have it writable: by mprotect, and by opening its file anew
 *   punch                     gives pages of it back
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nigh/region.h"

#define WAIT_US UINT64_C(60000000)
#define PAGE    4096u
#define FLOOD   100u /* writes after which it is said that it goes on */

static nigh_region *region;
static uint8_t *mapped;

static nigh_status map(uint64_t offset, uint64_t size, uint32_t rights)
{
    void *address = NULL;
    nigh_status status = nigh_region_map(region, offset, size, rights, WAIT_US, &address);

    if (status == NIGH_OK)
        mapped = address;
    return status;
}

static nigh_status unmap(void)
{
    nigh_status status = nigh_region_unmap(region, mapped);

    mapped = NULL;
    return status;
}

/* The line of /proc/self/maps of what is mapped. */
static void find(uintptr_t *from, uintptr_t *to, char mode[5])
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", from, to, mode) == 3 &&
            (uintptr_t)mapped >= *from && (uintptr_t)mapped < *to)
            break;
    }
    if (maps != NULL)
        (void)fclose(maps);
}

/* All ways fail: "refused". */
static const char *force(void)
{
    uintptr_t from = 0, to = 0;
    char mode[5] = "", path[80];
    int fd;

    find(&from, &to, mode);
    if (mprotect((void *)from, PAGE, PROT_READ | PROT_WRITE) == 0)
        return "mprotect";
    if (madvise((void *)from, PAGE, MADV_REMOVE) == 0)
        return "madvise";
    (void)snprintf(path, sizeof path, "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR, from, to);
    fd = open(path, O_RDWR);
    if (fd >= 0)
        return "open";
    fd = open("/proc/self/mem", O_RDWR);
    if (fd >= 0 && pwrite(fd, "x", 1, (off_t)from) == 1 && *(volatile char *)from == 'x')
        return "mem";
    return "refused";
}

/* Of a link that was lost, or a node without a lease, on a busy machine, it is tried again. */
static nigh_status flood(uint64_t offset)
{
    nigh_status status = NIGH_OK;

    for (uint64_t value = 1;
         status == NIGH_OK || status == NIGH_NO_QUORUM || status == NIGH_PEER_LOST; value++) {
        status = nigh_region_write(region, offset, &value, sizeof value, WAIT_US);
        if (value == FLOOD) {
            puts("floods");
            (void)fflush(stdout);
        }
    }
    return status;
}

static void carry_out(const char *line)
{
    uint64_t first = 0, second = 0, word = 0;
    uint32_t rights = 0;
    uintptr_t from, to;
    char mode[5] = "";

    if (sscanf(line, "map %" SCNu64 " %" SCNu64 " %" SCNu32, &first, &second, &rights) == 3) {
        puts(nigh_status_name(map(first, second, rights)));
    } else if (strncmp(line, "unmap", 5) == 0) {
        puts(nigh_status_name(unmap()));
    } else if (sscanf(line, "read %" SCNu64, &first) == 1) {
        nigh_status status = nigh_region_read(region, first, &word, sizeof word, WAIT_US);

        if (status == NIGH_OK)
            printf("%" PRIu64 "\n", word);
        else
            puts(nigh_status_name(status));
    } else if (sscanf(line, "write %" SCNu64 " %" SCNu64, &first, &word) == 2) {
        puts(nigh_status_name(nigh_region_write(region, first, &word, sizeof word, WAIT_US)));
    } else if (sscanf(line, "flood %" SCNu64, &first) == 1) {
        puts(nigh_status_name(flood(first)));
    } else if (mapped == NULL) {
        puts("nothing is mapped");
    } else if (sscanf(line, "peek %" SCNu64, &first) == 1) {
        memcpy(&word, mapped + first, sizeof word);
        printf("%" PRIu64 "\n", word);
    } else if (sscanf(line, "poke %" SCNu64 " %" SCNu64, &first, &word) == 2) {
        memcpy(mapped + first, &word, sizeof word);
        puts("NIGH_OK");
    } else if (strncmp(line, "mode", 4) == 0) {
        find(&from, &to, mode);
        printf("%.2s\n", mode);
    } else if (strncmp(line, "force", 5) == 0) {
        puts(force());
    } else if (strncmp(line, "punch", 5) == 0) {
        puts(madvise(mapped, PAGE, MADV_REMOVE) == 0 ? "NIGH_OK" : strerror(errno));
    } else {
        puts("what?");
    }
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_client *client = NULL;
    nigh_status status;
    char line[128];

    if (argc != 4)
        return 2;
    options.socket_path = argv[1];
    status = nigh_client_open(&options, &client);
    if (status == NIGH_OK)
        status = nigh_region_open(client, argv[2], (uint32_t)strtoul(argv[3], NULL, 10), WAIT_US,
                                  &region);
    puts(nigh_status_name(status));
    (void)fflush(stdout);
    while (status == NIGH_OK && fgets(line, sizeof line, stdin) != NULL) {
        carry_out(line);
        (void)fflush(stdout);
    }
    nigh_client_close(client);
    return status == NIGH_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
