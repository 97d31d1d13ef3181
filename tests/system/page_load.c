/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page is looked at with (page.py):
 *
 *   page-load SOCKET RANK NODES PER_SECOND ADDRESS...
 *
 * puts so many objects a second, of mixed sizes, named load-RANK-N; reads one that it holds,
 * hot-RANK, again and again; gets some of the next node's; calls "echo" at each node in turn;
 * writes, reads and locks in the region "matrix", of which each node has a chunk, and in the space
 * "table", of which an address is said for each node. When its standard input ends it says in one
 * JSON object how often each went well, and of the region and the space, where nothing is to fail,
 * what did.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nigh/nigh.h"

#define LARGEST     (1u << 20)
#define GET_US      UINT64_C(500000)
#define CALL_US     UINT64_C(5000000)
#define STEP_US     UINT64_C(60000000) /* of the region and the space: nothing of it is to fail */
#define HOT_READ    20
#define NODES_MOST  8u
#define CHUNK       (1u << 20) /* of the region, one at each node */
#define RECORD      256u       /* each load has one in each chunk, */
#define COUNTER     (1u << 19) /* and all have a word here, in the first */
#define BLOCK       512u       /* of the space: */
#define BLOCKS      16u        /* so many from each address on, */
#define BLOCKS_READ 8u         /* so many are read in a turn, */
#define LOCKED      256u       /* and all have a word here, in the first of all */
#define LOCK_EACH   16u        /* so many turns lie between two locks */

struct load {
    nigh_client *client;
    nigh_region *region;
    nigh_space *space;
    nigh_space_address blocks[NODES_MOST];
    uint32_t rank, nodes;
    uint8_t *bytes;             /* LARGEST of them */
    uint64_t puts, gets, calls; /* to other nodes: what it calls at its own goes by a pair */
    uint64_t region_read, region_written, region_locks; /* bytes, bytes; its own turns at COUNTER */
    uint64_t space_reads, space_locks;                  /* of a block each */
    uint64_t failed;
    const char *why; /* the last of these */
};

static nigh_id named(const char *kind, uint32_t rank, uint64_t number, char name[64])
{
    nigh_id id;

    if (strcmp(kind, "hot") == 0)
        (void)snprintf(name, 64, "hot-%u", rank);
    else
        (void)snprintf(name, 64, "%s-%u-%" PRIu64, kind, rank, number);
    (void)nigh_id_from_name(name, &id);
    return id;
}

static uint64_t size_of(uint64_t number)
{
    static const uint64_t sizes[] = {300, 3000, 20000, 700, 60000, 5000, 150000, 900};

    return number % 64 == 63 ? LARGEST : sizes[number % 8];
}

static void put(struct load *load, const char *kind, uint64_t number)
{
    char name[64];
    nigh_id id = named(kind, load->rank, number, name);
    nigh_create_options options = {.name = name, .timeout_us = GET_US};

    if (nigh_put(load->client, &id, load->bytes, size_of(number), &options) == NIGH_OK)
        load->puts++;
}

static void get(struct load *load, uint32_t rank, uint64_t number)
{
    char name[64];
    nigh_id id = named("load", rank, number, name);
    nigh_view view;

    if (nigh_get(load->client, &id, 1, GET_US, &view) == NIGH_OK)
        load->gets++;
    (void)nigh_release(load->client, &view);
}

static void read_hot(struct load *load)
{
    char name[64];
    nigh_id id = named("hot", load->rank, 0, name);
    nigh_view view;

    for (int n = 0; n < HOT_READ; n++) {
        (void)nigh_get(load->client, &id, 1, 0, &view);
        (void)nigh_release(load->client, &view);
    }
}

static void call(struct load *load, uint64_t number)
{
    char reply[64];
    nigh_call_spec spec = {.struct_size = sizeof(spec),
                           .service = "echo",
                           .rank = (uint32_t)(number % load->nodes),
                           .request = "hello",
                           .request_bytes = 5,
                           .reply = reply,
                           .reply_room = sizeof(reply)};

    if (nigh_call(load->client, &spec, CALL_US) == NIGH_OK && spec.rank != load->rank)
        load->calls++;
}

/* ---- the region, the space ------------------------------------------------- */

static bool is_well(struct load *load, nigh_status status, const char *what)
{
    if (status == NIGH_OK)
        return true;
    (void)fprintf(stderr, "page-load: %s: %s\n", what, nigh_status_name(status));
    load->failed++;
    load->why = what;
    return false;
}

static void read_region(struct load *load, nigh_region *region, uint64_t at, void *bytes,
                        size_t size)
{
    if (is_well(load, nigh_region_read(region, at, bytes, size, STEP_US), "a region's read"))
        load->region_read += size;
}

static void write_region(struct load *load, nigh_region *region, uint64_t at, const void *bytes,
                         size_t size)
{
    if (is_well(load, nigh_region_write(region, at, bytes, size, STEP_US), "a region's write"))
        load->region_written += size;
}

/* Its record in the chunk of each node in turn: what it writes it finds. */
static void use_region(struct load *load, uint64_t number)
{
    uint64_t at = number % load->nodes * CHUNK + (uint64_t)load->rank * RECORD;
    uint8_t written[RECORD], found[RECORD] = {0};

    memset(written, (int)(number % 255 + 1), sizeof(written));
    write_region(load, load->region, at, written, sizeof(written));
    read_region(load, load->region, at, found, sizeof(found));
    (void)is_well(load, memcmp(written, found, sizeof(found)) == 0 ? NIGH_OK : NIGH_CORRUPT,
                  "what a region has");
}

/* One more, by a read and a write that nobody comes between. */
static void lock_region(struct load *load)
{
    nigh_region *held = NULL;
    uint64_t word = 0;

    if (!is_well(load, nigh_region_lock(load->region, 0, NIGH_REGION_EXCLUSIVE, 0, STEP_US, &held),
                 "a region's lock"))
        return;
    read_region(load, held, COUNTER, &word, sizeof(word));
    word++;
    write_region(load, held, COUNTER, &word, sizeof(word));
    if (is_well(load, nigh_region_unlock(held), "a region's unlock"))
        load->region_locks++;
}

/* The blocks of all homes in turn. */
static nigh_space_address block_of(const struct load *load, uint64_t number)
{
    return load->blocks[number % load->nodes] + number / load->nodes % BLOCKS * BLOCK;
}

/* A read is counted whether it goes well or not: so do clients, for the node. */
static void read_space(struct load *load, nigh_space_address at, uint64_t *word)
{
    load->space_reads++;
    (void)is_well(load, nigh_space_read(load->space, at, word, sizeof(*word), STEP_US),
                  "a space's read");
}

static void write_space(struct load *load, nigh_space_address at, uint64_t word)
{
    (void)is_well(load, nigh_space_write(load->space, at, &word, sizeof(word), STEP_US),
                  "a space's write");
}

/* Each load has a word in each block. What one writes the others have copies of no more: their next
 * read of it is none that hits. */
static void use_space(struct load *load, uint64_t number)
{
    uint64_t word;

    write_space(load, block_of(load, number + load->rank) + 8 * (uint64_t)load->rank, number);
    for (uint32_t n = 0; n < BLOCKS_READ; n++)
        read_space(load, block_of(load, number * BLOCKS_READ + n), &word);
}

static void lock_space(struct load *load)
{
    nigh_space_address block = load->blocks[0];
    uint64_t word = 0;

    if (!is_well(load, nigh_space_lock_write(load->space, block, BLOCK, STEP_US), "a space's lock"))
        return;
    load->space_locks++;
    read_space(load, block + LOCKED, &word);
    write_space(load, block + LOCKED, word + 1);
    (void)is_well(load, nigh_space_unlock(load->space, block, BLOCK, STEP_US), "a space's unlock");
}

static bool open_them(struct load *load)
{
    return is_well(load,
                   nigh_region_open(load->client, "matrix", NIGH_REGION_READ | NIGH_REGION_WRITE,
                                    STEP_US, &load->region),
                   "the region") &&
           is_well(load,
                   nigh_space_open(load->client, "table", NIGH_SPACE_ALL, STEP_US, &load->space),
                   "the space");
}

/* What was written is there when it has ended. */
static void close_them(struct load *load)
{
    (void)is_well(load, nigh_space_flush(load->space, STEP_US, NULL), "what a space was to have");
    nigh_space_close(load->space);
    nigh_region_close(load->region);
}

/* ---- all of it -------------------------------------------------------------- */

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Until standard input ends. What a turn takes is no part of the pause to the next: it is as many
 * a second as was asked for, while the machine keeps up. */
static void run(struct load *load, uint64_t per_second)
{
    struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
    int64_t due_us = now_us();

    for (uint64_t number = 0;; number++) {
        int64_t left_us = due_us - now_us();

        if (poll(&end, 1, left_us > 0 ? (int)(left_us / 1000) : 0) != 0)
            return;
        due_us = (left_us < -1000000 ? now_us() : due_us) + 1000000 / (int64_t)per_second;
        put(load, "load", number);
        read_hot(load);
        if (number % 4 == 3)
            get(load, (load->rank + 1) % load->nodes, number - 3);
        call(load, number);
        use_space(load, number);
        if (number % 2 == 0)
            use_region(load, number / 2);
        if (number % LOCK_EACH == load->rank) {
            lock_region(load);
            lock_space(load);
        }
    }
}

static bool take_words(struct load *load, int argc, char **argv)
{
    if (argc < 6)
        return false;
    load->rank = (uint32_t)strtoul(argv[2], NULL, 10);
    load->nodes = (uint32_t)strtoul(argv[3], NULL, 10);
    if (load->nodes > NODES_MOST || load->rank >= load->nodes || argc != 5 + (int)load->nodes)
        return false;
    for (uint32_t n = 0; n < load->nodes; n++)
        load->blocks[n] = strtoull(argv[5 + n], NULL, 0);
    return true;
}

static void tell(const struct load *load)
{
    printf("{\"puts\": %" PRIu64 ", \"gets\": %" PRIu64 ", \"calls\": %" PRIu64, load->puts,
           load->gets, load->calls);
    printf(", \"region_read\": %" PRIu64 ", \"region_written\": %" PRIu64
           ", \"region_locks\": %" PRIu64,
           load->region_read, load->region_written, load->region_locks);
    printf(", \"space_reads\": %" PRIu64 ", \"space_locks\": %" PRIu64, load->space_reads,
           load->space_locks);
    printf(", \"failed\": %" PRIu64 ", \"why\": \"%s\"}\n", load->failed,
           load->why != NULL ? load->why : "");
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof(options), .name = "page-load"};
    struct load load = {0};
    nigh_view held;
    char name[64];
    nigh_id hot;

    if (!take_words(&load, argc, argv))
        return 2;
    options.socket_path = argv[1];
    load.bytes = calloc(1, LARGEST);
    if (load.bytes == NULL || nigh_client_open(&options, &load.client) != NIGH_OK ||
        !open_them(&load))
        return 1;
    hot = named("hot", load.rank, 0, name);
    put(&load, "hot", 0);
    if (nigh_get(load.client, &hot, 1, GET_US, &held) != NIGH_OK)
        return 1;
    puts("ready");
    (void)fflush(stdout);
    run(&load, strtoul(argv[4], NULL, 10));
    close_them(&load);
    tell(&load);
    (void)nigh_release(load.client, &held);
    nigh_client_close(load.client);
    free(load.bytes);
    return 0;
}
