/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetch: gets objects that lie on another node of the cluster, checks that every byte is that of
 * the file they were made of, and prints a table of what it took. `make demo` runs it after share.
 *
 *   example-fetch SOCKET FILE...
 *
 *   cc fetch.c $(pkg-config --cflags --libs nigh) -lb2 -o example-fetch
 *
 * SOCKET is a node that does not have them yet; the objects have the files' paths for names.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <blake2.h>
#include <nigh/nigh.h>

enum {
    DIGEST_BYTES = 32,
    WAIT_US = 60000000
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

/* The digest of a file; false: it cannot be read. */
static int digest_file(const char *path, uint8_t digest[DIGEST_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    void *bytes = NULL;

    if (fd < 0 || fstat(fd, &status) != 0) {
        return 0;
    }
    if (status.st_size > 0) {
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    if (bytes == MAP_FAILED) {
        return 0;
    }
    blake2b(digest, bytes, NULL, DIGEST_BYTES, (size_t)status.st_size, 0);
    if (bytes != NULL) {
        munmap(bytes, (size_t)status.st_size);
    }
    return 1;
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

/* Gets one object and prints its line; not 0: it failed, or the bytes are others. */
static int fetch(nigh_client *client, const char *path)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    uint8_t expected[DIGEST_BYTES], digest[DIGEST_BYTES];
    nigh_node_stats before, after;
    nigh_status status;
    nigh_view view;
    nigh_id id;
    double start, seconds;
    int equal;

    if (!digest_file(path, expected)) {
        fprintf(stderr, "fetch: cannot read %s\n", path);
        return 1;
    }
    status = nigh_id_from_name(path, &id);
    if (status == NIGH_OK) {
        status = nigh_stats(client, &before);
    }
    start = now_s();
    if (status == NIGH_OK) {
        status = nigh_get(client, &id, 1, WAIT_US, &view);
    }
    seconds = now_s() - start;
    if (status == NIGH_OK) {
        status = nigh_stats(client, &after);
    }
    if (status != NIGH_OK) {
        return failed(client, path, status);
    }
    blake2b(digest, view.data, NULL, DIGEST_BYTES, view.data_size, 0);
    equal = memcmp(digest, expected, DIGEST_BYTES) == 0;
    printf("%-20s %12llu %9.4f %9.0f  %-29s %02x%02x%02x%02x%02x%02x  %s\n", name,
           (unsigned long long)view.data_size, seconds,
           seconds > 0 ? (double)view.data_size / 1048576 / seconds : 0, way(&before, &after),
           digest[0], digest[1], digest[2], digest[3], digest[4], digest[5],
           equal ? "equal" : "DIFFERENT");
    nigh_release(client, &view);
    return !equal;
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options, .name = "fetch"};
    nigh_client *client;
    int wrong = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: example-fetch SOCKET FILE...\n");
        return 2;
    }
    options.socket_path = argv[1];
    options.flags = NIGH_OPEN_READ_ONLY;
    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "fetch: %s\n", nigh_open_error());
        return 1;
    }
    printf("%-20s %12s %9s %9s  %-29s %s\n", "OBJECT", "BYTES", "SECONDS", "MiB/s", "WAY",
           "BLAKE2b, against the file's");
    for (int i = 2; i < argc; i++) {
        wrong += fetch(client, argv[i]);
    }
    nigh_client_close(client);
    return wrong == 0 ? 0 : 1;
}
