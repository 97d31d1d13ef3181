/* SPDX-License-Identifier: Apache-2.0 */
/* See rdma.h. Looks at what the kernel shows and at the libraries; opens no device. */
#include "cli/rdma.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "memory/numa.h"

#define DEVICES            "/sys/class/infiniband"
#define CONNECTIONS        "/dev/infiniband/rdma_cm"
#define NAME_BYTES         64
#define PACKET_BYTES       4096u /* that RDMA's packets carry at most, and at least */
#define PACKET_BYTES_LEAST 256u
#define HEADERS_BYTES      96u                   /* as the kernel reckons for RoCE */
#define LOCKED_BYTES       (UINT64_C(128) << 20) /* the least node and its links */

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

/* The loader finds it. A test's machine has its libraries in one folder. */
static bool has_library(const char *root, const char *name)
{
    char path[512];
    void *library;

    snprintf(path, sizeof path, "%s%s%s", root, root[0] != '\0' ? "/lib/" : "", name);
    library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library != NULL) {
        dlclose(library);
    }
    return library != NULL;
}

/* The state of a port, as "ACTIVE". False: there is no such port. */
static bool read_state(const char *root, const char *device, unsigned port, char state[NAME_BYTES])
{
    char path[512];
    FILE *file;
    bool is_read;

    snprintf(path, sizeof path, "%s" DEVICES "/%s/ports/%u/state", root, device, port);
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
static unsigned find_port(const char *root, char device[NAME_BYTES], char state[NAME_BYTES])
{
    char path[256];
    DIR *folder;
    const struct dirent *entry;
    unsigned found = 0;

    strcpy(state, "");
    snprintf(path, sizeof path, "%s" DEVICES, root);
    folder = opendir(path);
    while (folder != NULL && strcmp(state, "ACTIVE") != 0 && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(device, NAME_BYTES, "%.63s", entry->d_name);
        found = 1;
        for (unsigned port = 1; read_state(root, device, port, state); port++) {
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

static bool may_connect(const char *root)
{
    char path[256];

    snprintf(path, sizeof path, "%s" CONNECTIONS, root);
    return access(path, R_OK | W_OK) == 0;
}

void rdma_look(const char *root, uint64_t locked_limit_bytes, struct rdma_finding *found)
{
    char device[NAME_BYTES] = "", state[NAME_BYTES] = "", limit[BYTES_SIZE_TEXT];
    unsigned port = find_port(root, device, state);
    bool has_verbs = has_library(root, "libibverbs.so.1");

    *found = (struct rdma_finding){.is_missing = true, .has_device = port != 0};
    bytes_format_size(locked_limit_bytes, limit);
    if (port == 0) {
        say(found, "", "no RDMA here, so tcp: no device (" DEVICES ")");
    } else if (strcmp(state, "ACTIVE") != 0) {
        say(found, "bring its link up; InfiniBand needs a subnet manager",
            "no RDMA here, so tcp: port %u of %s is %s", port, device,
            state[0] != '\0' ? state : "not there");
    } else if (!has_verbs || !has_library(root, "librdmacm.so.1")) {
        say(found, "install libibverbs1, librdmacm1 and the device's provider (rdma-core)",
            "no RDMA here, so tcp: %s is there, but %s is not", device,
            has_verbs ? "librdmacm.so.1" : "libibverbs.so.1");
    } else if (!may_connect(root)) {
        say(found, "modprobe rdma_ucm; let this user, or container, use /dev/infiniband",
            "no RDMA here, so tcp: %s is there, but " CONNECTIONS " cannot be used", device);
    } else if (locked_limit_bytes < LOCKED_BYTES) {
        say(found, "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit",
            "no RDMA here, so tcp: %s may be locked, and the device needs all of a node's memory",
            limit);
    } else {
        found->is_missing = false;
        say(found, "", "RDMA can be used: port %u of %s is active (nighd --fabric auto, or verbs)",
            port, device);
    }
}

/* ---- places --------------------------------------------------------------- */

/* The devices that say where they are, as "mlx5_0 at node 1, mlx5_1 at node 0". */
static void list_places(const char *root, char *text, size_t text_bytes)
{
    char path[256];
    DIR *folder;
    const struct dirent *entry;
    size_t length = 0;

    text[0] = '\0';
    snprintf(path, sizeof path, "%s" DEVICES, root);
    folder = opendir(path);
    while (folder != NULL && length < text_bytes && (entry = readdir(folder)) != NULL) {
        int node = numa_of_device(root, entry->d_name);

        if (node != NUMA_NONE) {
            length += (size_t)snprintf(text + length, text_bytes - length, "%s%.63s at node %d",
                                       length > 0 ? ", " : "", entry->d_name, node);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

bool rdma_look_where(const char *root, uint64_t far_bytes, struct rdma_finding *found)
{
    char places[128], far[BYTES_SIZE_TEXT];
    struct numa *numa = malloc(sizeof *numa);
    uint32_t count = 1;

    if (numa != NULL) {
        numa_read(root, numa);
        count = numa_count(numa);
    }
    free(numa);
    list_places(root, places, sizeof places);
    if (count < 2 || places[0] == '\0') {
        return false;
    }
    *found = (struct rdma_finding){.is_missing = far_bytes > 0, .has_device = true};
    bytes_format_size(far_bytes, far);
    if (far_bytes > 0) {
        say(found,
            "free memory on the device's node before nighd starts, or give each device a nighd of "
            "its own: numactl --cpunodebind=N --membind=N nighd ...",
            "%u NUMA nodes, %s: %s of the node's memory is on another than its lane's device",
            count, places, far);
    } else {
        say(found, "", "%u NUMA nodes, %s: no memory is known to be far from its lane's device",
            count, places);
    }
    return true;
}

/* ---- packets -------------------------------------------------------------- */

/* The first line of a file of the first port of a device. */
static bool read_line(const char *root, const char *device, const char *name, char line[NAME_BYTES])
{
    char path[512];
    FILE *file;
    bool is_read;

    snprintf(path, sizeof path, "%s" DEVICES "/%s/ports/1/%s", root, device, name);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    is_read = fscanf(file, "%63[^\n]", line) == 1;
    fclose(file);
    return is_read;
}

/* The MTU of the network interface below a RoCE device, and its name; 0: it is another device. */
static unsigned read_mtu(const char *root, const char *device, char interface[NAME_BYTES])
{
    char path[512], type[NAME_BYTES];
    unsigned mtu = 0;
    FILE *file;

    if (!read_line(root, device, "gid_attrs/types/0", type) || strstr(type, "RoCE") == NULL ||
        !read_line(root, device, "gid_attrs/ndevs/0", interface)) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/sys/class/net/%s/mtu", root, interface);
    file = fopen(path, "re");
    if (file != NULL && fscanf(file, "%u", &mtu) != 1) {
        mtu = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return mtu;
}

bool rdma_look_mtu(const char *root, struct rdma_finding *found)
{
    char path[256], interface[NAME_BYTES] = "";
    const struct dirent *entry;
    bool is_small = false;
    DIR *folder;

    snprintf(path, sizeof path, "%s" DEVICES, root);
    folder = opendir(path);
    while (folder != NULL && !is_small && (entry = readdir(folder)) != NULL) {
        unsigned mtu = entry->d_name[0] != '.' ? read_mtu(root, entry->d_name, interface) : 0;
        unsigned carried = PACKET_BYTES;

        while (carried > PACKET_BYTES_LEAST && carried + HEADERS_BYTES > mtu) {
            carried /= 2;
        }
        is_small = mtu > 0 && carried < PACKET_BYTES;
        if (is_small) {
            *found = (struct rdma_finding){.is_missing = true, .has_device = true};
            say(found,
                "an MTU of 4200 or more, at all nodes and switches (ip link set IF mtu 4200)",
                "a packet of %.32s carries %u bytes, and could %u: the MTU of %s is %u",
                entry->d_name, carried, PACKET_BYTES, interface, mtu);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return is_small;
}

/* ---- addresses ------------------------------------------------------------ */

#define GIDS_MOST 256

/* Whether one of a port's GIDs is an IP address: of the link alone, which begins with fe80, none is
 * dialled; nor one of 0. */
static bool has_address(const char *root, const char *device)
{
    char name[NAME_BYTES], gid[NAME_BYTES], type[NAME_BYTES];

    for (unsigned n = 0; n < GIDS_MOST; n++) {
        (void)snprintf(name, sizeof name, "gids/%u", n);
        if (!read_line(root, device, name, gid)) {
            return false;
        }
        (void)snprintf(name, sizeof name, "gid_attrs/types/%u", n);
        if (strncmp(gid, "fe80:", 5) != 0 && strspn(gid, "0:") < strlen(gid) &&
            read_line(root, device, name, type) && strstr(type, "RoCE v2") != NULL) {
            return true;
        }
    }
    return false;
}

bool rdma_look_gid(const char *root, struct rdma_finding *found)
{
    char path[256], type[NAME_BYTES], gid[NAME_BYTES];
    const struct dirent *entry;
    bool is_nameless = false;
    DIR *folder;

    snprintf(path, sizeof path, "%s" DEVICES, root);
    folder = opendir(path);
    while (folder != NULL && !is_nameless && (entry = readdir(folder)) != NULL) {
        is_nameless =
            entry->d_name[0] != '.' && read_line(root, entry->d_name, "gid_attrs/types/0", type) &&
            strstr(type, "RoCE") != NULL && read_line(root, entry->d_name, "gids/0", gid) &&
            !has_address(root, entry->d_name);
        if (is_nameless) {
            *found = (struct rdma_finding){.is_missing = true, .has_device = true};
            say(found,
                "give the device's network interface an IP address (ip addr add), and let it speak "
                "RoCE v2 (cma_roce_mode); nodes are dialled by it",
                "%.63s has no RoCE v2 address (GID) that other machines could dial", entry->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return is_nameless;
}

/* That packets were lost, or came too late, is counted under these names: mlx5's, then rxe's. */
static const char *const losses[] = {"out_of_sequence",       "packet_seq_err",
                                     "local_ack_timeout_err", "rcvd_seq_err",
                                     "out_of_seq_request",    "completer_retry_err"};

static unsigned long long read_count(const char *root, const char *device, unsigned port,
                                     const char *name)
{
    char path[512];
    unsigned long long count = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s" DEVICES "/%s/ports/%u/hw_counters/%s", root, device, port,
             name);
    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%llu", &count) != 1) {
        count = 0;
    }
    fclose(file);
    return count;
}

/* What the first port of a device counts; the sum. */
static unsigned long long list_losses(const char *root, const char *device, char *text,
                                      size_t text_bytes)
{
    unsigned long long sum = 0;
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LENGTH(losses) && length < text_bytes; i++) {
        unsigned long long count = read_count(root, device, 1, losses[i]);

        sum += count;
        if (count > 0) {
            length += (size_t)snprintf(text + length, text_bytes - length, "%s%s %llu",
                                       length > 0 ? ", " : "", losses[i], count);
        }
    }
    return sum;
}

bool rdma_look_lost(const char *root, struct rdma_finding *found)
{
    char path[256], text[160];
    const struct dirent *entry;
    bool is_lost = false;
    DIR *folder;

    snprintf(path, sizeof path, "%s" DEVICES, root);
    folder = opendir(path);
    while (folder != NULL && !is_lost && (entry = readdir(folder)) != NULL) {
        is_lost =
            entry->d_name[0] != '.' && list_losses(root, entry->d_name, text, sizeof text) > 0;
        if (is_lost) {
            *found = (struct rdma_finding){.is_missing = true, .has_device = true};
            say(found,
                "if these grow: a lossless class of the network (nighd --fabric-tos says which), "
                "or a shorter --fabric-ack-timeout",
                "packets of %.63s were lost or late since it was there: %s", entry->d_name, text);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return is_lost;
}
