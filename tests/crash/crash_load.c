/* SPDX-License-Identifier: Apache-2.0 */
/* See crash_load.h. */
#include "crash/crash_load.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LOAD_VIEWS 8u
#define LOAD_MANY  6u
#define LOAD_KIND  9u

struct load {
    nigh_client *client;
    struct load_board *board;
    struct load_report *report;
    uint64_t random;
    nigh_view views[LOAD_VIEWS]; /* held across operations */
    nigh_id held[LOAD_VIEWS];
    nigh_writer writer;
    bool writing;
    bool watching;
};

void *load_shared(size_t size_bytes)
{
    void *memory =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        fail_msg("no shared memory");
    }
    return memory;
}

struct load *load_create(nigh_client *client, struct load_board *board, struct load_report *report,
                         uint64_t seed)
{
    struct load *load = calloc(1, sizeof(*load));

    if (load != NULL) {
        load->client = client;
        load->board = board;
        load->report = report;
        load->random = seed;
    }
    return load;
}

/* ---- ids ------------------------------------------------------------------ */

static const uint32_t load_sizes[] = {0, 1, 100, 4000, 4096, 60000, 200000, 1 << 20};

static nigh_id load_id(uint64_t word)
{
    return crash_id(LOAD_KIND, word, load_sizes[word % (sizeof(load_sizes) / sizeof(uint32_t))]);
}

/* An id that nobody had. Small ones are more frequent. */
static uint64_t load_new(struct load *load)
{
    uint64_t word = (atomic_fetch_add(&load->board->next_serial, 1) + 1) * 8;

    return word + (support_random(&load->random) % 8 & support_random(&load->random) % 8);
}

static void load_publish(struct load *load, uint64_t word)
{
    atomic_store(&load->board->object[support_random(&load->random) % LOAD_BOARD], word);
}

/* An object that somebody put once; one that is not there when there was none. */
static nigh_id load_any(struct load *load)
{
    return load_id(atomic_load(&load->board->object[support_random(&load->random) % LOAD_BOARD]));
}

/* ---- operations ----------------------------------------------------------- */

static nigh_status load_put(struct load *load)
{
    uint64_t word = load_new(load);
    nigh_id id = load_id(word);
    nigh_status status =
        crash_put(load->client, &id, word % 3 == 0 ? (uint32_t)NIGH_CREATE_EXCLUSIVE : 0);

    if (status == NIGH_OK) {
        load_publish(load, word);
        atomic_fetch_add(&load->report->puts, 1);
    }
    return status;
}

static nigh_status load_put_many(struct load *load)
{
    static uint8_t data[LOAD_MANY][4096], meta[LOAD_MANY][CRASH_META_BYTES];
    nigh_create_options options[LOAD_MANY];
    nigh_put_item items[LOAD_MANY];
    uint64_t words[LOAD_MANY];
    nigh_status status;

    for (size_t i = 0; i < LOAD_MANY; i++) {
        words[i] = (load_new(load) & ~UINT64_C(7)) + i % 4;
        items[i] =
            (nigh_put_item){.id = load_id(words[i]), .data = data[i], .options = &options[i]};
        items[i].data_size = crash_size(&items[i].id);
        crash_fill(&items[i].id, data[i], items[i].data_size);
        crash_options(&items[i].id, 0, meta[i], &options[i]);
    }
    status = nigh_put_many(load->client, items, LOAD_MANY);
    for (size_t i = 0; i < LOAD_MANY; i++) {
        if (items[i].status == NIGH_OK) {
            load_publish(load, words[i]);
        }
    }
    return status;
}

static nigh_status load_get(struct load *load)
{
    nigh_id id = load_any(load);
    nigh_status status = crash_check(load->client, &id, 0);

    atomic_fetch_add(&load->report->verified, status == NIGH_OK);
    return status;
}

/* A view is held over other operations, and looked at again before it is let go. */
static nigh_status load_hold(struct load *load)
{
    size_t i = support_random(&load->random) % LOAD_VIEWS;

    if (load->views[i].status == NIGH_OK && load->views[i].opaque[0] != 0) {
        if (!crash_is_right(&load->held[i], &load->views[i])) {
            return NIGH_CORRUPT;
        }
        atomic_fetch_add(&load->report->verified, 1);
        return nigh_release(load->client, &load->views[i]);
    }
    load->held[i] = load_any(load);
    return nigh_get(load->client, &load->held[i], 1, 0, &load->views[i]);
}

static nigh_status load_wait(struct load *load)
{
    nigh_id id = load_id(UINT64_C(1) << 60);

    return crash_check(load->client, &id, support_random(&load->random) % 1000);
}

static nigh_status load_write(struct load *load)
{
    uint64_t word = load_new(load);
    nigh_id id = load_id(word);
    uint8_t meta[CRASH_META_BYTES];
    nigh_create_options options;
    nigh_status status;

    if (!load->writing) {
        crash_options(&id, word % 2 == 0 ? (uint32_t)NIGH_CREATE_EXCLUSIVE : 0, meta, &options);
        status = nigh_create(load->client, &id, &options, &load->writer);
        load->writing = status == NIGH_OK;
        return status;
    }
    load->writing = false;
    if (word / 8 % 3 == 0) {
        return nigh_abort(load->client, &load->writer);
    }
    crash_fill(&load->writer.id, load->writer.data, load->writer.data_size);
    return nigh_seal(load->client, &load->writer);
}

static nigh_status load_delete(struct load *load)
{
    nigh_id id = load_any(load);
    nigh_status status;

    (void)nigh_delete(load->client, &id, 1, &status);
    return status;
}

static nigh_status load_look(struct load *load)
{
    nigh_id id = load_any(load);
    nigh_object_info info;

    return nigh_stat(load->client, &id, &info);
}

static nigh_status load_watch(struct load *load)
{
    nigh_event event;
    nigh_status status;

    if (!load->watching) {
        load->watching = true;
        return nigh_subscribe(load->client, NIGH_SUBSCRIBE_REPLAY);
    }
    do {
        status = nigh_next_event(load->client, 0, &event);
    } while (status == NIGH_OK);
    return status;
}

static nigh_status load_cancel(struct load *load)
{
    nigh_id id = load_id(UINT64_C(1) << 61);
    nigh_view view;
    nigh_op op;
    nigh_status status = nigh_get_start(load->client, &id, 1, NIGH_FOREVER, &view, &op);

    return status == NIGH_OK ? nigh_cancel(load->client, &op) : status;
}

static nigh_status (*const load_operations[])(struct load *) = {
    load_put,  load_get,    load_hold, load_put_many, load_get,   load_hold,   load_write,
    load_wait, load_delete, load_look, load_watch,    load_write, load_cancel,
};

/* What may come of any of them, since others delete and evict; and memory may be held by many. */
static bool load_may_be(nigh_status status)
{
    return status == NIGH_OK || status == NIGH_TIMEOUT || status == NIGH_NOT_FOUND ||
           status == NIGH_NOT_SEALED || status == NIGH_IN_USE || status == NIGH_CANCELED;
}

bool load_step(struct load *load)
{
    size_t which =
        support_random(&load->random) % (sizeof(load_operations) / sizeof(load_operations[0]));
    uint64_t begin_us = support_now_us();
    nigh_status status = load_operations[which](load);
    uint64_t took_us = support_now_us() - begin_us;

    atomic_fetch_add(&load->report->steps, 1);
    if (took_us > atomic_load(&load->report->slowest_us)) {
        atomic_store(&load->report->slowest_us, took_us);
    }
    if (!load_may_be(status)) {
        atomic_store(&load->report->failed_in, (uint32_t)which + 1);
        atomic_store(&load->report->failure, status);
        return false;
    }
    return true;
}

void load_release_all(struct load *load)
{
    for (size_t i = 0; i < LOAD_VIEWS; i++) {
        if (load->views[i].status == NIGH_OK) {
            (void)nigh_release(load->client, &load->views[i]);
        }
    }
    if (load->writing) {
        (void)nigh_abort(load->client, &load->writer);
        load->writing = false;
    }
}
