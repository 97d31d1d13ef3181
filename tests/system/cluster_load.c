/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects whose every byte is known, for scripts that test a cluster:
 *
 *   cluster-load SOCKET put FIRST COUNT SIZE LIFE [DEADLINE_MS]   puts objects FIRST ... of SIZE
 * bytes cluster-load SOCKET get FIRST COUNT SIZE TIMEOUT_MS           gets them all at once and
 * looks at every byte cluster-load SOCKET rm FIRST COUNT cluster-load SOCKET hold FIRST COUNT SIZE
 * TIMEOUT_MS          gets, says "held", keeps them until its standard input ends, looks again
 * cluster-load SOCKET near FIRST COUNT     finds COUNT numbers from FIRST on whose homes answer
 *
 * FIRST may be a list of numbers, "7,9,12" of COUNT; near prints one.
 * An object's bytes follow from its number, its size and its life (which tells one birth from the
 * next); the first eight say the life. It prints one JSON object: how many ended how, lives seen,
 * the longest wait; exit 1 when a byte was wrong or a get passed its deadline by more than
 * LATE_MS.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nigh/nigh.h"

#define LATE_MS     10000u /* of a machine without a processor to spare */
#define LIVES       64u
#define STATUSES    64
#define BATCH_BYTES (UINT64_C(64) << 20)

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static nigh_id id_of(uint64_t number)
{
    nigh_id id;
    char name[32];

    (void)snprintf(name, sizeof name, "load-%" PRIu64, number);
    (void)nigh_id_from_name(name, &id);
    return id;
}

/* Word `at` of an object. */
static uint64_t word(uint64_t number, uint64_t life, uint64_t at)
{
    return at == 0 ? life : mix(mix(number) + life * UINT64_C(0x9e3779b97f4a7c15) + at);
}

static void fill(uint8_t *bytes, uint64_t size, uint64_t number, uint64_t life)
{
    for (uint64_t at = 0; at * 8 < size; at++) {
        uint64_t value = word(number, life, at);

        memcpy(bytes + at * 8, &value, size - at * 8 < 8 ? size - at * 8 : 8);
    }
}

/* The life that every byte belongs to, or UINT64_MAX. */
static uint64_t check(const uint8_t *bytes, uint64_t size, uint64_t number, uint64_t wanted_size)
{
    uint64_t life = 0;

    if (size != wanted_size || size < 8)
        return UINT64_MAX;
    memcpy(&life, bytes, 8);
    for (uint64_t at = 0; at * 8 < size; at++) {
        uint64_t value = word(number, life, at);

        if (memcmp(bytes + at * 8, &value, size - at * 8 < 8 ? size - at * 8 : 8) != 0)
            return UINT64_MAX;
    }
    return life;
}

struct tally {
    uint64_t statuses[STATUSES];
    uint64_t lives[LIVES];
    uint64_t wrong, longest_ms;
};

static void count(struct tally *tally, nigh_status status)
{
    tally->statuses[-(int)status < STATUSES ? -(int)status : STATUSES - 1]++;
}

static void print(const struct tally *tally)
{
    printf("{\"wrong\": %" PRIu64 ", \"longest_ms\": %" PRIu64 ", \"lives\": {", tally->wrong,
           tally->longest_ms);
    for (unsigned n = 0, more = 0; n < LIVES; n++) {
        if (tally->lives[n] > 0)
            printf("%s\"%u\": %" PRIu64, more++ > 0 ? ", " : "", n, tally->lives[n]);
    }
    printf("}, \"statuses\": {");
    for (int n = 0, more = 0; n < STATUSES; n++) {
        if (tally->statuses[n] > 0)
            printf("%s\"%s\": %" PRIu64, more++ > 0 ? ", " : "", nigh_status_name((nigh_status)-n),
                   tally->statuses[n]);
    }
    printf("}}\n");
    (void)fflush(stdout);
}

/* The n-th of a FIRST argument. */
static uint64_t number_at(const char *first, uint64_t n)
{
    bool is_list = strchr(first, ',') != NULL;

    for (uint64_t i = 0; is_list && i < n; i++) {
        first = strchr(first, ',');
        if (first == NULL)
            exit(2);
        first++;
    }
    return strtoull(first, NULL, 10) + (is_list ? 0 : n);
}

static void put(nigh_client *client, char **argv, struct tally *tally)
{
    uint64_t n = strtoull(argv[4], NULL, 10);
    uint64_t size = strtoull(argv[5], NULL, 10), life = strtoull(argv[6], NULL, 10);
    uint8_t *bytes = malloc(size + 8);

    if (bytes == NULL)
        exit(2);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t number = number_at(argv[3], i);
        nigh_id id = id_of(number);

        fill(bytes, size, number, life);
        count(tally, nigh_put(client, &id, bytes, size, NULL));
    }
    free(bytes);
}

static void look(struct tally *tally, const nigh_view *view, uint64_t number, uint64_t size)
{
    uint64_t life;

    if (view->status != NIGH_OK)
        return;
    life = check(view->data, view->data_size, number, size);
    if (life == UINT64_MAX) {
        tally->wrong++;
        (void)fprintf(stderr, "cluster-load: object %" PRIu64 " has wrong bytes\n", number);
    } else {
        tally->lives[life % LIVES]++;
    }
}

static void get(nigh_client *client, char **argv, struct tally *tally, bool hold)
{
    uint64_t n = strtoull(argv[4], NULL, 10);
    uint64_t size = strtoull(argv[5], NULL, 10), timeout_ms = strtoull(argv[6], NULL, 10);
    nigh_id *ids = calloc(n + 1, sizeof *ids);
    nigh_view *views = calloc(n + 1, sizeof *views);
    uint64_t start;

    if (ids == NULL || views == NULL)
        exit(2);
    for (uint64_t i = 0; i < n; i++)
        ids[i] = id_of(number_at(argv[3], i));
    start = now_ms();
    (void)nigh_get(client, ids, n, timeout_ms * 1000, views);
    tally->longest_ms = now_ms() - start;
    if (tally->longest_ms > timeout_ms + LATE_MS) {
        (void)fprintf(stderr, "cluster-load: %" PRIu64 " ms for a timeout of %" PRIu64 " ms\n",
                      tally->longest_ms, timeout_ms);
        tally->wrong++;
    }
    for (uint64_t i = 0; i < n; i++) {
        count(tally, views[i].status);
        look(tally, &views[i], number_at(argv[3], i), size);
    }
    if (hold) {
        char nothing;

        printf("held\n");
        (void)fflush(stdout);
        (void)!read(STDIN_FILENO, &nothing, 1);
        for (uint64_t i = 0; i < n; i++)
            look(tally, &views[i], number_at(argv[3], i), size);
    }
    for (uint64_t i = 0; i < n; i++)
        (void)nigh_release(client, &views[i]);
    free(ids);
    free(views);
}

static void rm(nigh_client *client, char **argv, struct tally *tally)
{
    uint64_t n = strtoull(argv[4], NULL, 10);

    for (uint64_t i = 0; i < n; i++) {
        nigh_id id = id_of(number_at(argv[3], i));
        nigh_status status;

        (void)nigh_delete(client, &id, 1, &status);
        count(tally, status);
    }
}

/* Whether its home answers. One that is BUSY does not know yet, or who is asked does not whether
 * the home lives: it is asked again, with pauses of the client's, until that is known. */
static bool is_near(nigh_client *client, uint64_t number)
{
    nigh_id id = id_of(number);
    nigh_status status;
    size_t count = 0;

    do
        status = nigh_locate(client, &id, 1, NULL, 0, &count, NULL);
    while (status == NIGH_BUSY);
    return status == NIGH_OK;
}

static void near(nigh_client *client, char **argv)
{
    uint64_t number = strtoull(argv[3], NULL, 10), n = strtoull(argv[4], NULL, 10);

    for (; n > 0; number++) {
        if (is_near(client, number))
            printf("%" PRIu64 "%s", number, --n > 0 ? "," : "\n");
    }
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options, .name = "load"};
    static struct tally tally;
    nigh_client *client;
    nigh_status status;

    if (argc < 5) {
        (void)fprintf(stderr, "usage: cluster-load SOCKET put|get|rm|hold|near FIRST COUNT ...\n");
        return 2;
    }
    options.socket_path = argv[1];
    status = nigh_client_open(&options, &client);
    if (status != NIGH_OK) {
        (void)fprintf(stderr, "cluster-load: %s\n", nigh_status_string(status));
        return 2;
    }
    if (strcmp(argv[2], "put") == 0 && argc >= 7)
        put(client, argv, &tally);
    else if (strcmp(argv[2], "get") == 0 && argc == 7)
        get(client, argv, &tally, false);
    else if (strcmp(argv[2], "hold") == 0 && argc == 7)
        get(client, argv, &tally, true);
    else if (strcmp(argv[2], "rm") == 0)
        rm(client, argv, &tally);
    else if (strcmp(argv[2], "near") == 0)
        near(client, argv);
    else
        return 2;
    if (strcmp(argv[2], "near") != 0)
        print(&tally);
    nigh_client_close(client);
    return tally.wrong > 0 ? 1 : 0;
}
