/* SPDX-License-Identifier: Apache-2.0 */
/* See numa.h. The system is asked by its calls themselves: libnuma is not needed for three. */
#include "memory/numa.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"

#define NODES         "/sys/devices/system/node"
#define DEVICES       "/sys/class/infiniband"
#define INTERFACES    "/sys/class/net"
#define PORTS         2u   /* looked at, of a device */
#define GIDS          256u /* ... of a port */
#define PATH_BYTES    512
#define TEXT_BYTES    4096
#define DISTANCE_SELF 10u
#define DISTANCE_FAR  UINT32_MAX

/* ---- what the kernel shows ---- */

static bool read_text(const char *path, char text[TEXT_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t bytes = 0;
    nigh_status status = fd < 0 ? NIGH_NOT_FOUND : fd_read_full(fd, text, TEXT_BYTES - 1, &bytes);

    fd_close(&fd);
    text[status == NIGH_OK ? bytes : 0] = '\0';
    return status == NIGH_OK && bytes > 0;
}

/* "0-3,8,10-11": the next number of such a list, or -1. *range: where a range goes on, and ends. */
struct numbers {
    const char *text;
    long next, last;
};

static long numbers_next(struct numbers *list, long most)
{
    char *end;

    if (list->next <= list->last)
        return list->next++;
    if (list->text[0] < '0' || list->text[0] > '9')
        return -1;
    list->next = list->last = strtol(list->text, &end, 10);
    if (*end == '-')
        list->last = strtol(end + 1, &end, 10);
    list->text = *end == ',' ? end + 1 : end;
    if (list->last > most)
        list->last = most;
    return list->next <= list->last ? list->next++ : -1;
}

static struct numbers numbers_of(const char *text)
{
    return (struct numbers){.text = text, .next = 0, .last = -1};
}

static void read_cpus(const char *root, struct numa *numa, int node)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    struct numbers list;
    long cpu;

    snprintf(path, sizeof(path), "%s" NODES "/node%d/cpulist", root, node);
    if (!read_text(path, text))
        return;
    list = numbers_of(text);
    while ((cpu = numbers_next(&list, CPU_SETSIZE - 1)) >= 0)
        CPU_SET((size_t)cpu, &numa->cpus[node]);
}

/* A number for each node that is there, in their order. */
static void read_distances(const char *root, struct numa *numa, int node)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    const char *at = text;

    snprintf(path, sizeof(path), "%s" NODES "/node%d/distance", root, node);
    if (!read_text(path, text))
        return;
    for (int to = 0; to < NUMA_NODES; to++) {
        char *end;
        unsigned long distance;

        if (!numa_has(numa, to))
            continue;
        distance = strtoul(at, &end, 10);
        if (end == at)
            return;
        numa->distances[node][to] = distance > UINT8_MAX ? UINT8_MAX : (uint8_t)distance;
        at = end;
    }
}

void numa_read(const char *root, struct numa *numa)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    struct numbers list;
    long node;

    memset(numa, 0, sizeof(*numa));
    snprintf(path, sizeof(path), "%s" NODES "/online", root);
    (void)read_text(path, text);
    list = numbers_of(text);
    while ((node = numbers_next(&list, NUMA_NODES - 1)) >= 0)
        numa->present |= UINT64_C(1) << node;
    if (numa->present == 0)
        numa->present = 1;
    for (int n = 0; n < NUMA_NODES; n++) {
        if (!numa_has(numa, n))
            continue;
        read_cpus(root, numa, n);
        read_distances(root, numa, n);
    }
}

uint32_t numa_count(const struct numa *numa)
{
    return (uint32_t)__builtin_popcountll(numa->present);
}

bool numa_has(const struct numa *numa, int node)
{
    return node >= 0 && node < NUMA_NODES && (numa->present >> node & 1) != 0;
}

uint32_t numa_distance(const struct numa *numa, int from, int to)
{
    if (!numa_has(numa, from) || !numa_has(numa, to))
        return DISTANCE_FAR;
    if (from == to)
        return DISTANCE_SELF;
    return numa->distances[from][to] != 0 ? numa->distances[from][to] : DISTANCE_FAR - 1;
}

/* ---- devices ---- */

static int read_node(const char *path)
{
    char text[TEXT_BYTES];
    long node;
    char *end;

    if (!read_text(path, text))
        return NUMA_NONE;
    node = strtol(text, &end, 10);
    return end == text || node < 0 || node >= NUMA_NODES ? NUMA_NONE : (int)node;
}

static bool is_name(const char *device)
{
    return device[0] != '\0' && device[0] != '.' && strchr(device, '/') == NULL;
}

/* The kernel says it of cards. A virtual machine's (virtio) is the device above the one that is
 * asked. */
static int node_of(const char *root, const char *class, const char *device)
{
    static const char *const levels[] = {"", "/.."};
    char path[PATH_BYTES];
    int node = NUMA_NONE;

    for (size_t i = 0; i < ARRAY_LENGTH(levels) && node == NUMA_NONE && is_name(device); i++) {
        if (snprintf(path, sizeof(path), "%s%s/%s/device%s/numa_node", root, class, device,
                     levels[i]) < (int)sizeof(path))
            node = read_node(path);
    }
    return node;
}

/* A software device (rxe) has no card of its own: it names the interface that it is on. */
static int of_parent(const char *root, const char *device)
{
    char path[PATH_BYTES], parent[TEXT_BYTES];

    if (!is_name(device) ||
        snprintf(path, sizeof(path), "%s" DEVICES "/%s/parent", root, device) >=
            (int)sizeof(path) ||
        !read_text(path, parent))
        return NUMA_NONE;
    parent[strcspn(parent, "\n")] = '\0';
    return node_of(root, INTERFACES, parent);
}

int numa_of_device(const char *root, const char *device)
{
    int node = node_of(root, DEVICES, device);

    return node != NUMA_NONE ? node : of_parent(root, device);
}

/* On RoCE an address of the interface, or of a VLAN or bond above it, is a GID of the device. */
static bool has_gid(const char *root, const char *device, const char *gid)
{
    char path[PATH_BYTES], text[TEXT_BYTES];

    for (uint32_t port = 1; port <= PORTS; port++) {
        for (uint32_t i = 0; i < GIDS; i++) {
            if (snprintf(path, sizeof(path), "%s" DEVICES "/%s/ports/%u/gids/%u", root, device,
                         port, i) >= (int)sizeof(path) ||
                !read_text(path, text))
                break;
            if (strncmp(text, gid, strlen(gid)) == 0)
                return true;
        }
    }
    return false;
}

static int of_gid(const char *root, const char *gid)
{
    char path[PATH_BYTES];
    const struct dirent *entry;
    int node = NUMA_NONE;
    DIR *folder;

    snprintf(path, sizeof(path), "%s" DEVICES, root);
    folder = opendir(path);
    while (folder != NULL && node == NUMA_NONE && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.' && has_gid(root, entry->d_name, gid))
            node = numa_of_device(root, entry->d_name);
    }
    if (folder != NULL)
        (void)closedir(folder);
    return node;
}

static int of_interface(const char *root, struct in_addr wanted)
{
    struct ifaddrs *all = NULL;
    int node = NUMA_NONE;

    if (getifaddrs(&all) != 0)
        return NUMA_NONE;
    for (const struct ifaddrs *i = all; i != NULL && node == NUMA_NONE; i = i->ifa_next) {
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET &&
            ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr.s_addr ==
                wanted.s_addr)
            node = node_of(root, INTERFACES, i->ifa_name);
    }
    freeifaddrs(all);
    return node;
}

int numa_of_address(const char *root, const char *address)
{
    struct in_addr parsed;
    uint8_t bytes[4];
    char gid[48];
    int node;

    if (inet_pton(AF_INET, address, &parsed) != 1)
        return NUMA_NONE;
    memcpy(bytes, &parsed.s_addr, sizeof(bytes));
    snprintf(gid, sizeof(gid), "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", bytes[0],
             bytes[1], bytes[2], bytes[3]);
    node = of_gid(root, gid);
    return node != NUMA_NONE ? node : of_interface(root, parsed);
}

/* ---- memory ---- */

bool numa_is_chosen(void)
{
    int mode = MPOL_DEFAULT;

    return syscall(SYS_get_mempolicy, &mode, NULL, 0UL, NULL, 0UL) == 0 && mode != MPOL_DEFAULT;
}

/* The policy is the file's, not the mapping's: it outlives this one. */
nigh_status numa_prefer(int fd, uint64_t bytes, int node)
{
    unsigned long mask = 1ul << node;
    void *mapped = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    bool is_taken;
    int error;

    if (mapped == MAP_FAILED)
        return NIGH_UNSUPPORTED;
    /* One bit more than there are: the kernel looks at one less. */
    is_taken = syscall(SYS_mbind, mapped, bytes, MPOL_PREFERRED, &mask, NUMA_NODES + 1UL, 0U) == 0;
    error = errno;
    (void)munmap(mapped, bytes);
    errno = error;
    return is_taken ? NIGH_OK : NIGH_UNSUPPORTED;
}

int numa_of_page(const void *address)
{
    int node = NUMA_NONE;

    if (syscall(SYS_get_mempolicy, &node, NULL, 0UL, address,
                (unsigned long)(MPOL_F_NODE | MPOL_F_ADDR)) != 0)
        return NUMA_NONE;
    return node >= 0 && node < NUMA_NODES ? node : NUMA_NONE;
}
