/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Share: one process puts files as objects; several others wait for them, read them where they lie,
 * and check that every byte is right. Prints a table of what was measured. This is what `make demo`
 * runs.
 *
 *   example-share SOCKET READERS FILE...
 *
 *   cc share.c $(pkg-config --cflags --libs nigh) -lb2 -o example-share
 *
 * The writer and the readers are processes of their own and share nothing but the node.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <blake2.h>
#include <nigh/nigh.h>

enum {
    DIGEST_BYTES = 32,
    READERS_MAX = 16,
    FILES_MAX = 64,
    BATCHES = 10,
    GETS = 10000, /* in a batch: shorter than the turns that the system gives a process */
    WAIT_S = 30,  /* for an object, before it is said once more what is waited for */
    WAITS = 40    /* and no longer than so often: a busy machine may take minutes for a GiB */
};

/* What a process found out about one file; lies in memory that the processes share. */
struct finding {
    uint64_t bytes;
    double wait_s; /* readers: from asking for the object to having it */
    double work_s; /* writer: create, read the file in, seal; readers: digest in place */
    double get_ns; /* readers: one get and release of it, warm, in the best batch */
    uint8_t digest[DIGEST_BYTES];
    int done;
};

static struct finding *findings; /* [process * FILES_MAX + file]; process 0 is the writer */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void check(nigh_status status, const char *what)
{
    if (status != NIGH_OK) {
        fprintf(stderr, "share: %s: %s %s\n", what, nigh_status_string(status), nigh_open_error());
        exit(1);
    }
}

static nigh_client *open_client(const char *socket_path, const char *name, uint32_t flags)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = socket_path, .name = name, .flags = flags};
    nigh_client *client;

    check(nigh_client_open(&options, &client), "open");
    return client;
}

/* Puts one file: its bytes go from the file straight into the object. */
static void put_file(nigh_client *client, const char *path, struct finding *finding)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    nigh_create_options options = {.name = path, .timeout_us = 10000000};
    nigh_writer writer;
    struct stat status;
    nigh_id id;
    double start = now_s();

    if (fd < 0 || fstat(fd, &status) != 0) {
        fprintf(stderr, "share: cannot open %s\n", path);
        exit(1);
    }
    options.data_size = (uint64_t)status.st_size;
    check(nigh_id_from_name(path, &id), path);
    check(nigh_create(client, &id, &options, &writer), path);
    for (uint64_t done = 0; done < options.data_size;) {
        ssize_t n = read(fd, (char *)writer.data + done, options.data_size - done);

        if (n <= 0) {
            fprintf(stderr, "share: cannot read %s\n", path);
            exit(1);
        }
        done += (uint64_t)n;
    }
    check(nigh_seal(client, &writer), path);
    close(fd);
    finding->bytes = options.data_size;
    finding->work_s = now_s() - start;
    finding->done = 1;
}

/* A batch of gets and releases; nanoseconds of one. */
static double time_gets(nigh_client *client, const nigh_id *id, const char *path)
{
    nigh_view view;
    double start = now_s();

    for (int i = 0; i < GETS; i++) {
        check(nigh_get(client, id, 1, 0, &view), path);
        nigh_release(client, &view);
    }
    return (now_s() - start) * 1e9 / GETS;
}

/* The writer may be long about it; that it is, is said. */
static void wait_for(nigh_client *client, const nigh_id *id, const char *path, nigh_view *view)
{
    nigh_status status = NIGH_TIMEOUT;

    for (int i = 0; i < WAITS && status == NIGH_TIMEOUT; i++) {
        status = nigh_get(client, id, 1, WAIT_S * UINT64_C(1000000), view);
        if (status == NIGH_TIMEOUT) {
            fprintf(stderr, "share: a reader has waited %d s for the writer to put %s\n",
                    (i + 1) * WAIT_S, path);
        }
    }
    check(status, path);
}

/* Waits for one object, digests it in place, and times a warm get and release. */
static void read_object(nigh_client *client, const char *path, struct finding *finding)
{
    nigh_view view;
    nigh_id id;
    double start = now_s();

    check(nigh_id_from_name(path, &id), path);
    wait_for(client, &id, path, &view);
    finding->wait_s = now_s() - start;
    start = now_s();
    blake2b(finding->digest, view.data, NULL, DIGEST_BYTES, view.data_size, 0);
    finding->work_s = now_s() - start;
    finding->bytes = view.data_size;
    check(nigh_release(client, &view), path);
    for (int batch = 0; batch < BATCHES; batch++) {
        double get_ns = time_gets(client, &id, path);

        if (batch == 0 || get_ns < finding->get_ns) {
            finding->get_ns = get_ns;
        }
    }
    finding->done = 1;
}

static pid_t start_process(const char *socket_path, int process, char **files, int count)
{
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    nigh_client *client = open_client(socket_path, process == 0 ? "writer" : "reader",
                                      process == 0 ? 0 : NIGH_OPEN_READ_ONLY);

    for (int i = 0; i < count; i++) {
        struct finding *finding = &findings[process * FILES_MAX + i];

        if (process == 0) {
            put_file(client, files[i], finding);
        } else {
            read_object(client, files[i], finding);
        }
    }
    nigh_client_close(client);
    exit(0);
}

/* The digest of the file itself, from disk, for comparison. */
static void digest_file(const char *path, uint8_t digest[DIGEST_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    void *bytes = NULL;

    if (fd < 0 || fstat(fd, &status) != 0) {
        fprintf(stderr, "share: cannot open %s\n", path);
        exit(1);
    }
    if (status.st_size > 0) {
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            fprintf(stderr, "share: cannot map %s\n", path);
            exit(1);
        }
    }
    blake2b(digest, bytes, NULL, DIGEST_BYTES, (size_t)status.st_size, 0);
    if (bytes != NULL) {
        munmap(bytes, (size_t)status.st_size);
    }
    close(fd);
}

/* One line a file; returns how many digests were wrong. */
static int report(const char *path, int file, int readers)
{
    const struct finding *writer = &findings[file];
    double mib = (double)writer->bytes / 1048576, slowest = 0, get_ns = 0;
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    uint8_t digest[DIGEST_BYTES];
    int wrong = 0;

    digest_file(path, digest);
    for (int reader = 1; reader <= readers; reader++) {
        const struct finding *finding = &findings[reader * FILES_MAX + file];

        wrong += !finding->done || memcmp(finding->digest, digest, DIGEST_BYTES) != 0;
        slowest = finding->work_s > slowest ? finding->work_s : slowest;
        get_ns += finding->get_ns / readers;
    }
    printf("%-20s %10.2f %10.0f %12.0f %12.1f   %02x%02x%02x%02x%02x%02x  %d of %d equal\n", name,
           mib, writer->work_s > 0 ? mib / writer->work_s : 0,
           slowest > 0 ? mib * readers / slowest : 0, get_ns, digest[0], digest[1], digest[2],
           digest[3], digest[4], digest[5], readers - wrong, readers);
    return wrong;
}

/* When one has failed the others, which may wait for what it was to put, are ended. */
static bool all_end_well(pid_t *pids, int count)
{
    bool well = true;

    for (int left = count; left > 0; left--) {
        int status = 0;
        pid_t ended = wait(&status);
        bool failed = ended < 0 || status != 0;

        for (int i = 0; i < count; i++) {
            pids[i] = pids[i] == ended ? 0 : pids[i];
        }
        for (int i = 0; well && failed && i < count; i++) {
            if (pids[i] > 0) {
                kill(pids[i], SIGTERM);
            }
        }
        if (well && failed) {
            fprintf(stderr, "share: a process failed: the others are ended\n");
        }
        well = well && !failed;
    }
    return well;
}

static void usage(FILE *to)
{
    fprintf(to,
            "usage: example-share SOCKET READERS FILE...\n"
            "Puts the files, up to %d, as objects into the node SOCKET; READERS processes,\n"
            "up to %d, read them where they lie, and check every byte. Prints what that\n"
            "took.\n",
            FILES_MAX, READERS_MAX);
}

int main(int argc, char **argv)
{
    int readers = argc > 3 ? atoi(argv[2]) : 0, files = argc - 3, wrong = 0;
    pid_t pids[READERS_MAX + 1] = {0};
    size_t shared_bytes = sizeof(struct finding) * FILES_MAX * (READERS_MAX + 1);

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (argc < 4 || readers < 1 || readers > READERS_MAX || files > FILES_MAX) {
        usage(stderr);
        return 2;
    }
    findings = mmap(NULL, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (findings == MAP_FAILED) {
        perror("share");
        return 1;
    }
    /* Readers first: they wait for objects that are not there yet. */
    for (int process = readers; process >= 0; process--) {
        pids[process] = start_process(argv[1], process, argv + 3, files);
        if (pids[process] < 0) {
            perror("share: fork");
            return 1;
        }
    }
    if (!all_end_well(pids, readers + 1)) {
        return 1;
    }
    printf("%-20s %10s %10s %12s %12s   %s\n", "OBJECT", "MiB", "PUT MiB/s", "DIGEST MiB/s",
           "GET ns", "BLAKE2b of the file, and in how many readers");
    for (int file = 0; file < files; file++) {
        wrong += report(argv[3 + file], file, readers);
    }
    printf("PUT: from the file into the object; DIGEST: all readers together; GET: get and release "
           "of an object\nthat was read before, the best of %d batches in each reader (others on "
           "its processor disturb the rest)\n",
           BATCHES);
    return wrong == 0 ? 0 : 1;
}
