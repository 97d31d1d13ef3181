/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that plays a machine, with the files in it by which the kernel tells of processors,
 * memory and devices. Each test has one of its own: `begin` is its setup. For one file of a test.
 */
#ifndef SUPPORT_MACHINE_H
#define SUPPORT_MACHINE_H

#include <stdint.h>
#include <stdio.h>

#include "support/support.h"

#define PATH_BYTES 256
#define NODES      "/sys/devices/system/node"
#define DEVICES    "/sys/class/infiniband"

static char root[PATH_BYTES];

static void put(const char *path, const char *text)
{
    support_put_file(root, path, text);
}

/* Another machine. */
static int begin(void **state)
{
    static uint32_t count;
    char name[16];

    (void)state;
    (void)snprintf(name, sizeof(name), "machine-%u", count++);
    support_path(root, sizeof(root), name);
    return 0;
}

#endif
