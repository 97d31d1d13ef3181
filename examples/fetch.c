/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetch: gets objects that lie on another node of the cluster, checks that every byte is that of
 * the file they were made of, and prints a table of what it took. `make demo` runs it after share.
 *
 *   example-fetch [--wait SECONDS] SOCKET FILE...
 *
 *   cc fetch.c $(pkg-config --cflags --libs nigh) -o example-fetch
 *
 * SOCKET is a node that does not have them yet; the objects have the files' paths for names. One
 * that is nowhere is waited for, 10 seconds unless --wait says how long.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <nigh/nigh.h>

enum {
    WAIT_S = 10,
    WAIT_MOST_S = 86400,
    QUIET_US = 500000 /* longer waits are told */
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int failed(nigh_client *client, const char *what, nigh_status status)
{
    char why[256] = "";

    nigh_client_error(client, why, sizeof why);
    fprintf(stderr, "fetch: %s: %s\n", what, why[0] != 0 ? why : nigh_status_string(status));
    return 1;
}

/* Whether a view has the bytes of a file, every one of them. -1: the file cannot be read. */
static int is_file(const nigh_view *view, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), equal = -1;
    struct stat status;
    void *bytes;

    if (fd < 0 || fstat(fd, &status) != 0) {
        goto close_file;
    }
    equal = (uint64_t)status.st_size == view->data_size;
    if (equal != 1 || view->data_size == 0) {
        goto close_file;
    }
    bytes = mmap(NULL, view->data_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (bytes == MAP_FAILED) {
        equal = -1;
        goto close_file;
    }
    equal = memcmp(bytes, view->data, view->data_size) == 0;
    munmap(bytes, view->data_size);
close_file:
    if (fd >= 0) {
        close(fd);
    }
    return equal;
}

/* How the bytes came, by the node's own numbers. */
static const char *way(const nigh_node_stats *before, const nigh_node_stats *after)
{
    if (after->pulled_bytes_one_sided > before->pulled_bytes_one_sided) {
        return "read from the holder's memory";
    }
    return after->pulled_bytes_two_sided > before->pulled_bytes_two_sided ? "in messages"
                                                                          : "was here";
}

/* Waits for an object; who looks on is told when it is not there at once, and for how long. */
static nigh_status get_or_wait(nigh_client *client, const nigh_id *id, unsigned wait_s,
                               nigh_view *view)
{
    nigh_object_info info;
    nigh_op op;
    nigh_status status = nigh_get_start(client, id, 1, (uint64_t)wait_s * 1000000, view, &op);

    if (status != NIGH_OK) {
        return status;
    }
    (void)nigh_wait(client, &op, QUIET_US);
    if (nigh_op_status(&op) == NIGH_PENDING && nigh_stat(client, id, &info) == NIGH_NOT_FOUND) {
        printf("(not here yet: waits up to %u s) ", wait_s);
        fflush(stdout);
    }
    return nigh_wait(client, &op, NIGH_FOREVER);
}

/* Gets one object and prints its line; not 0: it failed, or the bytes are others. */
static int fetch(nigh_client *client, const char *path, unsigned wait_s)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    nigh_node_stats before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    nigh_status status;
    nigh_view view;
    nigh_id id;
    double start, seconds;
    int equal;

    printf("%-20s ", name); /* before the wait */
    fflush(stdout);
    status = nigh_id_from_name(path, &id);
    if (status == NIGH_OK) {
        status = nigh_stats(client, &before);
    }
    start = now_s();
    if (status == NIGH_OK) {
        status = get_or_wait(client, &id, wait_s, &view);
    }
    seconds = now_s() - start;
    if (status == NIGH_OK) {
        status = nigh_stats(client, &after);
    }
    if (status != NIGH_OK) {
        putchar('\n');
        return failed(client, path, status);
    }
    printf("%12llu %9.4f %9.0f  %-29s ", (unsigned long long)view.data_size, seconds,
           seconds > 0 ? (double)view.data_size / 1048576 / seconds : 0, way(&before, &after));
    fflush(stdout);
    equal = is_file(&view, path);
    puts(equal == 1 ? "equal" : equal == 0 ? "DIFFERENT" : "the file cannot be read");
    nigh_release(client, &view);
    return equal != 1;
}

/* Takes --wait SECONDS off the arguments; false: that is no number of seconds. */
static bool take_wait(int *argc, char ***argv, unsigned *wait_s)
{
    char *end;
    unsigned long value;

    if (*argc < 3 || strcmp((*argv)[1], "--wait") != 0) {
        return true;
    }
    value = strtoul((*argv)[2], &end, 10);
    if ((*argv)[2][0] < '0' || (*argv)[2][0] > '9' || *end != '\0' || value > WAIT_MOST_S) {
        return false;
    }
    *wait_s = (unsigned)value;
    *argc -= 2;
    *argv += 2;
    return true;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-fetch [--wait SECONDS] SOCKET FILE...\n"
                "Gets the objects that have the files' paths for names, from the node SOCKET,\n"
                "compares each with its file, and prints what that took. It waits for one\n"
                "SECONDS (default 10).\n");
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options, .name = "fetch"};
    nigh_client *client;
    unsigned wait_s = WAIT_S;
    int wrong = 0;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (!take_wait(&argc, &argv, &wait_s) || argc < 3) {
        usage(stderr);
        return 2;
    }
    options.socket_path = argv[1];
    options.flags = NIGH_OPEN_READ_ONLY;
    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "fetch: %s\n", nigh_open_error());
        return 1;
    }
    printf("%-20s %12s %9s %9s  %-29s %s\n", "OBJECT", "BYTES", "SECONDS", "MiB/s", "WAY",
           "EVERY BYTE, AGAINST THE FILE");
    for (int i = 2; i < argc; i++) {
        wrong += fetch(client, argv[i], wait_s);
    }
    nigh_client_close(client);
    return wrong == 0 ? 0 : 1;
}
