/* SPDX-License-Identifier: Apache-2.0 */
/* Time, samples, rows and nodes of the benchmark programs. Measures nothing itself. */
#include "harness.h"

#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "node/transfer_names.h"

#define ANSWER_BYTES 8192 /* of an object that comes in the answer */

const char *bench_nighd_path;

static FILE *rows_file;
static bool rows_first;
static int rows_missed;

uint64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void bench_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

uint32_t bench_number(const char *word, uint32_t most)
{
    char *end;
    unsigned long value = strtoul(word, &end, 10);

    if (word[0] < '0' || word[0] > '9' || *end != '\0' || value < 1 || value > most) {
        bench_fail("'%s' is not a number of 1 to %u", word, most);
    }
    return (uint32_t)value;
}

void bench_check(nigh_status status, const char *what)
{
    if (status != NIGH_OK) {
        bench_fail("%s: %s (%s)", what, nigh_status_name(status), nigh_open_error());
    }
}

int bench_cores(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void bench_pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int i = 0; i < bench_cores(); i++) {
        if (core < 0 || i == core % bench_cores()) {
            CPU_SET(i, &set);
        }
    }
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        bench_fail("cannot pin to core %d", core);
    }
}

void samples_add(struct samples *samples, double value)
{
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity == 0 ? 1024 : samples->capacity * 2;
        samples->value = realloc(samples->value, samples->capacity * sizeof *samples->value);
        if (samples->value == NULL) {
            bench_fail("no memory for samples");
        }
    }
    samples->value[samples->count++] = value;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double samples_quantile(struct samples *samples, double quantile)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->value, samples->count, sizeof *samples->value, compare_doubles);
    return samples->value[(size_t)(quantile * (double)(samples->count - 1) + 0.5)];
}

void samples_append(struct samples *samples, const struct samples *more)
{
    for (size_t i = 0; i < more->count; i++) {
        samples_add(samples, more->value[i]);
    }
}

void samples_free(struct samples *samples)
{
    free(samples->value);
    *samples = (struct samples){0};
}

void bench_rows_open(const char *path)
{
    rows_file = fopen(path, "w");
    if (rows_file == NULL) {
        bench_fail("cannot write %s", path);
    }
    fputs("[", rows_file);
    rows_first = true;
}

static bool row_met(const struct bench_row *row)
{
    double value = row->on == BENCH_ON_RATIO ? row->ratio : row->median;

    return strcmp(row->better, "lower") == 0 ? value <= row->target : value >= row->target;
}

void bench_row_set_ratios(struct bench_row *row, struct samples *ratios)
{
    row->pairs = ratios->count;
    row->ratio = samples_quantile(ratios, 0.5);
    row->ratio_low = samples_quantile(ratios, 0);
    row->ratio_high = samples_quantile(ratios, 1);
}

static void file_row(const struct bench_row *row)
{
    fprintf(rows_file, "%s\n {\"name\": \"%s\", \"unit\": \"%s\", \"median\": %.4g, \"p99\": %.4g",
            rows_first ? "" : ",", row->name, row->unit, row->median, row->p99);
    rows_first = false;
    if (row->baseline_name != NULL) {
        fprintf(rows_file, ", \"baseline\": %.4g, \"baseline_name\": \"%s\", \"ratio\": %.4g",
                row->baseline, row->baseline_name, row->ratio);
    }
    if (row->most > 0) {
        fprintf(rows_file, ", \"min\": %.4g, \"max\": %.4g", row->least, row->most);
    }
    if (row->pairs > 0) {
        fprintf(rows_file, ", \"pairs\": %zu, \"ratio_low\": %.4g, \"ratio_high\": %.4g",
                row->pairs, row->ratio_low, row->ratio_high);
    }
    if (row->on != BENCH_NO_TARGET) {
        fprintf(rows_file, ", \"target\": %.4g, \"better\": \"%s\", \"on\": \"%s\", \"met\": %s",
                row->target, row->better, row->on == BENCH_ON_RATIO ? "ratio" : "median",
                row_met(row) ? "true" : "false");
    }
    fprintf(rows_file, ", \"path\": \"%s\"}", row->path);
}

static void print_row(const struct bench_row *row)
{
    printf("%-46s %10.4g %-5s p99 %10.4g", row->name, row->median, row->unit, row->p99);
    if (row->most > 0) {
        printf("   %.4g..%.4g", row->least, row->most);
    }
    if (row->baseline_name != NULL) {
        printf("   %s %.4g: ratio %.3g", row->baseline_name, row->baseline, row->ratio);
    }
    if (row->pairs > 0) {
        printf(" (median of %zu pairs, %.3g..%.3g)", row->pairs, row->ratio_low, row->ratio_high);
    }
    if (row->on != BENCH_NO_TARGET) {
        printf("   [%s %s %.4g: %s]", row->on == BENCH_ON_RATIO ? "ratio" : "median",
               strcmp(row->better, "lower") == 0 ? "<=" : ">=", row->target,
               row_met(row) ? "met" : "MISSED");
    }
    printf("\n%-46s   %s\n", "", row->path);
    fflush(stdout);
}

void bench_row_write(const struct bench_row *row)
{
    rows_missed += row->on != BENCH_NO_TARGET && !row_met(row) ? 1 : 0;
    file_row(row);
    if (!row->is_silent) {
        print_row(row);
    }
}

int bench_rows_close(void)
{
    fputs("\n]\n", rows_file);
    if (fclose(rows_file) != 0) {
        bench_fail("cannot write the rows");
    }
    return rows_missed;
}

int bench_tcp_listen(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 1) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        bench_fail("no socket for the plain comparison");
    }
    *port = ntohs(address.sin_port);
    return fd;
}

int bench_tcp_accept(int listen_fd)
{
    int fd = accept(listen_fd, NULL, NULL), one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int bench_tcp_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        bench_fail("cannot connect to the plain server");
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int bench_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    /* Stays bound: who sets SO_REUSEADDR may listen, and nobody else is given the port. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        bench_fail("no free port");
    }
    return ntohs(address.sin_port);
}

pid_t bench_fork(int core)
{
    pid_t pid = fork();

    if (pid < 0) {
        bench_fail("fork failed");
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        bench_pin(core);
    }
    return pid;
}

pid_t bench_spawn(const char *const arguments[], int core)
{
    pid_t pid = fork();

    if (pid < 0) {
        bench_fail("fork failed");
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bench_pin(core);
        if (freopen("/dev/null", "w", stdout) == NULL) {
            _exit(126);
        }
        execvp(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    return pid;
}

void bench_word_set(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void bench_word_wait(_Atomic uint32_t *word, uint32_t value)
{
    while (atomic_load(word) == value) {
        (void)syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
    }
}

void bench_stop(pid_t pid, const char *directory)
{
    char command[128];

    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command) != 0) {
        bench_fail("cannot remove %s", directory);
    }
}

void bench_node_start(struct bench_node *node, const struct bench_node_options *options)
{
    strcpy(node->directory, "/tmp/nigh-bench-XXXXXX");
    if (mkdtemp(node->directory) == NULL) {
        bench_fail("cannot make a temporary directory");
    }
    bench_node_start_again(node, options);
}

void bench_node_start_again(struct bench_node *node, const struct bench_node_options *options)
{
    char spin[16], ready[16], logs[80], byte;
    int ready_pipe[2];
    const char *arguments[32];
    int n = 0;

    if (pipe(ready_pipe) != 0) {
        bench_fail("no pipe");
    }
    snprintf(node->socket_path, sizeof node->socket_path, "%s/nigh.sock", node->directory);
    snprintf(spin, sizeof spin, "%d", options->spin_us);
    snprintf(ready, sizeof ready, "%d", ready_pipe[1]);
    arguments[n++] = bench_nighd_path;
    arguments[n++] = "--socket";
    arguments[n++] = node->socket_path;
    arguments[n++] = "--memory";
    arguments[n++] = options->memory;
    arguments[n++] = "--spin-us";
    arguments[n++] = spin;
    arguments[n++] = "--lanes";
    arguments[n++] = "1";
    arguments[n++] = "--log-level";
    arguments[n++] = "error";
    arguments[n++] = "--ready-fd";
    arguments[n++] = ready;
    if (options->max_objects != NULL) {
        arguments[n++] = "--max-objects";
        arguments[n++] = options->max_objects;
    }
    if (options->members != NULL) {
        arguments[n++] = "--join";
        arguments[n++] = options->members;
        arguments[n++] = "--member";
        arguments[n++] = options->member;
        arguments[n++] = "--cluster-key";
        arguments[n++] = options->key_path;
    }
    if (options->fabric != NULL) {
        arguments[n++] = "--fabric";
        arguments[n++] = options->fabric;
    }
    if (options->transfer != NULL) {
        arguments[n++] = "--transfer";
        arguments[n++] = options->transfer;
    }
    if (options->spaces != NULL) {
        arguments[n++] = "--space-memory";
        arguments[n++] = options->spaces;
    }
    if (options->has_logs) {
        snprintf(logs, sizeof logs, "%s/logs", node->directory);
        (void)mkdir(logs, 0700);
        arguments[n++] = "--log-dir";
        arguments[n++] = logs;
    }
    arguments[n] = NULL;
    node->pid = bench_spawn(arguments, options->core);
    close(ready_pipe[1]);
    if (read(ready_pipe[0], &byte, 1) != 1) {
        bench_fail("%s did not start", bench_nighd_path);
    }
    close(ready_pipe[0]);
}

void bench_node_stop(struct bench_node *node)
{
    bench_stop(node->pid, node->directory);
}

nigh_client *bench_client(const struct bench_node *node, uint32_t spin_us, uint32_t flags,
                          uint64_t prefault_bytes)
{
    nigh_client_options options = {.struct_size = sizeof options,
                                   .socket_path = node->socket_path,
                                   .name = "bench",
                                   .spin_us = spin_us,
                                   .flags = flags,
                                   .prefault_bytes = prefault_bytes};
    nigh_client *client;

    bench_check(nigh_client_open(&options, &client), "open");
    return client;
}

void bench_check_transfer(const nigh_node_stats *before, const nigh_node_stats *after,
                          uint32_t transfer, uint64_t object_bytes)
{
    uint64_t sent = after->pulled_bytes_two_sided - before->pulled_bytes_two_sided;
    uint64_t read = after->pulled_bytes_one_sided - before->pulled_bytes_one_sided;
    uint64_t pushed = after->pulled_bytes_pushed - before->pulled_bytes_pushed;
    bool fits_answer = object_bytes <= ANSWER_BYTES, as_told = true;

    switch ((nigh_transfer)transfer) {
    case NIGH_TRANSFER_AUTO: as_told = pushed == 0; break;
    case NIGH_TRANSFER_TWO_SIDED: as_told = read == 0 && pushed == 0; break;
    case NIGH_TRANSFER_PUSH: as_told = read == 0 && (fits_answer ? pushed : sent) == 0; break;
    case NIGH_TRANSFER_ONE_SIDED:
    case NIGH_TRANSFER_REGISTER: as_told = sent == 0 && pushed == 0; break;
    }
    if (!as_told) {
        bench_fail("not by %s: %llu bytes were sent, %llu read, %llu pushed",
                   transfer_names[transfer], (unsigned long long)sent, (unsigned long long)read,
                   (unsigned long long)pushed);
    }
}

void *bench_memory_create(uint64_t size_bytes)
{
    int fd = memfd_create("bench", MFD_CLOEXEC);
    void *memory = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)size_bytes) == 0) {
        memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    /* Populated only once it is sure to be of plain pages. A kernel without huge pages refuses the
     * first call, and needs none. */
    if (memory == MAP_FAILED ||
        (madvise(memory, size_bytes, MADV_NOHUGEPAGE) != 0 && errno != EINVAL) ||
        madvise(memory, size_bytes, MADV_POPULATE_WRITE) != 0) {
        bench_fail("no memory to compare with");
    }
    close(fd);
    return memory;
}

void bench_memory_destroy(void *memory, uint64_t size_bytes)
{
    munmap(memory, size_bytes);
}
