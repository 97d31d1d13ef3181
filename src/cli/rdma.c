/* SPDX-License-Identifier: Apache-2.0 */
/* See rdma.h. Looks at what the kernel shows and at the libraries; opens no device. */
#include "cli/rdma.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"

#define DEVICES      "/sys/class/infiniband"
#define CONNECTIONS  "/dev/infiniband/rdma_cm"
#define NAME_BYTES   64
#define LOCKED_BYTES (UINT64_C(128) << 20) /* the least node and its links */

static void say(struct rdma_finding *found, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct rdma_finding *found, const char *remedy, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(found->text, sizeof found->text, format, arguments);
    va_end(arguments);
    found->remedy = remedy;
}

static bool has_library(const char *name)
{
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);

    if (library != NULL) {
        dlclose(library);
    }
    return library != NULL;
}

/* The state of a port, as "ACTIVE". False: there is no such port. */
static bool read_state(const char *device, unsigned port, char state[NAME_BYTES])
{
    char path[256];
    FILE *file;
    bool is_read;

    snprintf(path, sizeof path, DEVICES "/%s/ports/%u/state", device, port);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    is_read = fscanf(file, "%*u: %63[A-Z_]", state) == 1;
    fclose(file);
    return is_read;
}

/* Fills device and state with the first active port, or else with what was seen last; the port's
 * number, or 0: no device. */
static unsigned find_port(char device[NAME_BYTES], char state[NAME_BYTES])
{
    DIR *folder = opendir(DEVICES);
    const struct dirent *entry;
    unsigned found = 0;

    strcpy(state, "");
    while (folder != NULL && strcmp(state, "ACTIVE") != 0 && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(device, NAME_BYTES, "%.63s", entry->d_name);
        found = 1;
        for (unsigned port = 1; read_state(device, port, state); port++) {
            found = port;
            if (strcmp(state, "ACTIVE") == 0) {
                break;
            }
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

void rdma_look(uint64_t locked_limit_bytes, struct rdma_finding *found)
{
    char device[NAME_BYTES] = "", state[NAME_BYTES] = "", limit[BYTES_SIZE_TEXT];
    unsigned port = find_port(device, state);

    *found = (struct rdma_finding){.is_missing = true, .has_device = port != 0};
    bytes_format_size(locked_limit_bytes, limit);
    if (port == 0) {
        say(found, "", "no RDMA here, so tcp: no device (" DEVICES ")");
    } else if (strcmp(state, "ACTIVE") != 0) {
        say(found, "bring its link up; InfiniBand needs a subnet manager",
            "no RDMA here, so tcp: port %u of %s is %s", port, device,
            state[0] != '\0' ? state : "not there");
    } else if (!has_library("libibverbs.so.1") || !has_library("librdmacm.so.1")) {
        say(found, "install libibverbs1, librdmacm1 and the device's provider (rdma-core)",
            "no RDMA here, so tcp: %s is there, but %s is not", device,
            has_library("libibverbs.so.1") ? "librdmacm.so.1" : "libibverbs.so.1");
    } else if (access(CONNECTIONS, R_OK | W_OK) != 0) {
        say(found, "modprobe rdma_ucm; let this user, or container, use /dev/infiniband",
            "no RDMA here, so tcp: %s is there, but " CONNECTIONS " cannot be used", device);
    } else if (locked_limit_bytes < LOCKED_BYTES && geteuid() != 0) {
        say(found, "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit",
            "no RDMA here, so tcp: %s may be locked, and the device needs all of a node's memory",
            limit);
    } else {
        found->is_missing = false;
        say(found, "", "RDMA can be used: port %u of %s is active (nighd --fabric auto, or verbs)",
            port, device);
    }
}
