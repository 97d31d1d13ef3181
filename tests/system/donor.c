/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Donates memory until it is killed, for a script: donor SOCKET PREFIX BYTES makes memory files of
 * so many bytes, whose words all are n + 1, and regions PREFIX-n of them; each second one it frees
 * again. It says a line of each, the status.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nigh/region.h"

#define WAIT_US UINT64_C(60000000)

/* -1: there is no more memory. */
static int make_file(uint64_t bytes, uint64_t word)
{
    int fd = memfd_create("donor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t *at = NULL;

    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == NULL || at == MAP_FAILED)
        return -1;
    for (uint64_t n = 0; n < bytes / sizeof *at; n++)
        at[n] = word;
    (void)munmap(at, bytes);
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 ? fd : -1;
}

static nigh_status donate(nigh_client *client, const char *prefix, uint64_t bytes, uint32_t n)
{
    char name[NIGH_REGION_NAME_BYTES];
    nigh_region_spec spec = {.struct_size = sizeof spec, .name = name, .size = bytes};
    int fd = make_file(bytes, n + 1);
    nigh_region *region;
    nigh_status status;

    (void)snprintf(name, sizeof name, "%s-%" PRIu32, prefix, n);
    status = fd < 0 ? NIGH_NO_RESOURCES : nigh_region_donate(client, &spec, fd, WAIT_US, &region);
    (void)close(fd);
    if (status == NIGH_OK && n % 2 == 1)
        status = nigh_region_free(region, WAIT_US);
    return status;
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_client *client;

    if (argc != 4)
        return 2;
    options.socket_path = argv[1];
    if (nigh_client_open(&options, &client) != NIGH_OK)
        return 1;
    for (uint32_t n = 0;; n++) {
        nigh_status status = donate(client, argv[2], strtoull(argv[3], NULL, 10), n);

        puts(nigh_status_name(status));
        (void)fflush(stdout);
    }
}
