/* SPDX-License-Identifier: Apache-2.0 */
/* The store's surroundings for tests; see object_store_fixture.h. */
#include "object_store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "memory/extent_internal.h"

#define PAGE 4096u

/* ---- the shell ---- */

static void on_complete(void *context, uint32_t session, const struct session_cqe *cqe)
{
    struct fixture *fixture = context;

    NIGH_ASSERT(session < FIXTURE_SESSIONS && fixture->clients[session].memory != NULL);
    NIGH_ASSERT(cqe->cookie < FIXTURE_COOKIES);
    NIGH_ASSERT(cqe->status != NIGH_PENDING);
    NIGH_ASSERT(fixture->completed[cqe->cookie] == 0); /* exactly once */
    fixture->completed[cqe->cookie] = 1;
    fixture->completions[cqe->cookie] = *cqe;
    fixture->completion_count++;
}

static void on_event(void *context, uint32_t session, const struct session_event *event)
{
    struct fixture *fixture = context;

    NIGH_ASSERT(session < FIXTURE_SESSIONS && fixture->clients[session].memory != NULL);
    if (fixture->event_count < FIXTURE_EVENTS) {
        fixture->events[fixture->event_count++] = (struct fixture_event){session, *event};
    }
}

static bool on_disk(void *context, const struct store_disk_job *job)
{
    struct fixture *fixture = context;

    if (fixture->disk_full_queue || fixture->job_count == LIMIT_SPILL_QUEUE) {
        return false;
    }
    fixture->jobs[fixture->job_count++] = *job;
    return true;
}

static struct fixture_file *file_of(struct fixture *fixture, uint32_t pool, uint64_t generation,
                                    uint32_t incarnation)
{
    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        struct fixture_file *file = &fixture->files[i];

        if (file->used && file->pool == pool && file->generation == generation &&
            file->incarnation == incarnation) {
            return file;
        }
    }
    return NULL;
}

static void file_drop(struct fixture_file *file)
{
    free(file->bytes);
    *file = (struct fixture_file){0};
}

static void on_disk_forget(void *context, uint32_t pool, uint64_t generation, uint32_t incarnation,
                           bool again)
{
    struct fixture *fixture = context;
    struct fixture_file *file = file_of(fixture, pool, generation, incarnation);

    (void)again;
    NIGH_ASSERT(file != NULL); /* never twice, never one that was not written */
    file_drop(file);
    fixture->forgotten++;
}

static uint64_t files_bytes(const struct fixture *fixture)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        bytes += fixture->files[i].used ? fixture->files[i].size_bytes : 0;
    }
    return bytes;
}

static uint64_t on_disk_free(void *context)
{
    const struct fixture *fixture = context;
    uint64_t taken = files_bytes(fixture);

    return fixture->disk_bytes > taken ? fixture->disk_bytes - taken : 0;
}

static void on_expel(void *context, uint32_t session, const char *why)
{
    struct fixture *fixture = context;

    NIGH_ASSERT(why != NULL);
    fixture->expelled_last = session;
    fixture->expelled++;
}

static uint64_t on_wall(void *context)
{
    struct fixture *fixture = context;

    return fixture->wall_ns + fixture->now_us * 1000;
}

/* ---- making ---- */

static void start_store(struct fixture *fixture)
{
    struct store_config config = {
        .extents = fixture->set,
        .lane = 0,
        .lanes = fixture->lanes,
        .rank = FIXTURE_RANK,
        .incarnation = ++fixture->incarnation,
        .max_blocks = 4 * fixture->entries * FIXTURE_POOLS + 4096,
        .spill_bytes = fixture->spill_bytes,
        .max_lane_pins = fixture->max_pins,
        .wall_ns = on_wall,
        .shell = {fixture, on_complete, on_event, fixture->spills ? on_disk : NULL,
                  fixture->spills ? on_disk_forget : NULL,
                  fixture->disk_bytes != 0 ? on_disk_free : NULL, on_expel},
    };
    nigh_status status = store_create(&config, &fixture->store);

    NIGH_ASSERT(status == NIGH_OK);
}

struct fixture *fixture_create(const struct fixture_options *options)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct extent_options extents = {
        .memory_bytes = options->memory_bytes != 0 ? options->memory_bytes : LIMIT_MEMORY_BYTES_MIN,
        .extent_bytes = LIMIT_EXTENT_BYTES_MIN,
        .lanes = 1,
        .huge = EXTENT_HUGE_NEVER,
    };
    char why[256] = "";
    nigh_status status;

    NIGH_ASSERT(fixture != NULL);
    fixture->entries = options->entries != 0 ? options->entries : 4096;
    fixture->lanes = options->lanes != 0 ? options->lanes : 1;
    fixture->spills = options->spills;
    fixture->disk_bytes = options->disk_bytes;
    fixture->spill_bytes = options->spill_bytes != 0 ? options->spill_bytes : UINT64_MAX;
    fixture->max_pins = options->max_pins != 0 ? options->max_pins : LIMIT_LANE_PINS;
    fixture->now_us = 1000000;
    fixture->wall_ns = UINT64_C(1700000000000000000);
    fixture->completed = calloc(FIXTURE_COOKIES, sizeof(*fixture->completed));
    fixture->completions = calloc(FIXTURE_COOKIES, sizeof(*fixture->completions));
    fixture->events = calloc(FIXTURE_EVENTS, sizeof(*fixture->events));
    NIGH_ASSERT(fixture->completed != NULL && fixture->completions != NULL &&
                fixture->events != NULL);
    status = extent_set_create(&extents, &fixture->set, why, sizeof(why));
    if (status != NIGH_OK) {
        fprintf(stderr, "%s\n", why);
    }
    NIGH_ASSERT(status == NIGH_OK);
    start_store(fixture);
    return fixture;
}

void fixture_destroy(struct fixture *fixture)
{
    store_destroy(fixture->store);
    for (uint32_t i = 0; i < FIXTURE_SESSIONS; i++) {
        free(fixture->clients[i].memory);
    }
    for (uint32_t i = 0; i < FIXTURE_POOLS; i++) {
        free(fixture->index_memory[i]);
    }
    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        free(fixture->files[i].bytes);
    }
    extent_set_destroy(fixture->set);
    free(fixture->completed);
    free(fixture->completions);
    free(fixture->events);
    free(fixture);
}

void fixture_pool(struct fixture *fixture, uint32_t pool, bool strict, uint64_t quota_bytes)
{
    uint64_t bytes = index_size_bytes(fixture->entries);
    struct store_pool_config *config = &fixture->pools[pool];
    nigh_status status;

    fixture->index_memory[pool] = aligned_alloc(PAGE, bytes);
    NIGH_ASSERT(fixture->index_memory[pool] != NULL);
    memset(fixture->index_memory[pool], 0, bytes);
    *config = (struct store_pool_config){
        .pool = pool, .owner_uid = 1000 + pool, .strict = strict, .quota_bytes = quota_bytes};
    index_format(fixture->index_memory[pool], pool, 0, fixture->lanes, fixture->entries,
                 &config->index);
    status = store_pool_add(fixture->store, config);
    NIGH_ASSERT(status == NIGH_OK);
    fixture->pool_used[pool] = true;
}

static void open_session(struct fixture *fixture, uint32_t session, bool may_write)
{
    struct fixture_client *client = &fixture->clients[session];
    struct store_session_config config = {
        .session = session,
        .session_id = client->session_id,
        .pool = client->pool,
        .uid = client->uid,
        .pid = (int32_t)(5000 + session),
        .may_write = may_write,
        .quota_used = &client->quota_used,
        .front = client->front,
        .lane = client->lane,
        .chunks = client->chunks,
    };
    nigh_status status;

    snprintf(config.name, sizeof(config.name), "client-%u", session);
    status = store_session_open(fixture->store, &config);
    NIGH_ASSERT(status == NIGH_OK);
}

void fixture_open(struct fixture *fixture, uint32_t session, uint32_t pool, uint32_t uid,
                  bool may_write)
{
    static uint64_t next_session_id = 77;
    struct fixture_client *client = &fixture->clients[session];
    uint64_t bytes = session_memory_bytes(1);

    NIGH_ASSERT(client->memory == NULL);
    client->memory = aligned_alloc(PAGE, bytes);
    NIGH_ASSERT(client->memory != NULL);
    memset(client->memory, 0, bytes);
    client->front = session_front_of(client->memory);
    client->lane = session_lane_of(client->memory, 0);
    client->chunks = session_chunks_of(client->memory, 1);
    client->pool = pool;
    client->uid = uid;
    client->session_id = next_session_id++;
    atomic_store(&client->quota_used, 0);
    open_session(fixture, session, may_write);
}

void fixture_close(struct fixture *fixture, uint32_t session)
{
    store_session_close(fixture->store, session);
    free(fixture->clients[session].memory);
    fixture->clients[session].memory = NULL;
}

/* ---- restart ---- */

void fixture_kill(struct fixture *fixture)
{
    store_destroy(fixture->store);
    fixture->store = NULL;
    fixture->job_count = 0;
}

/* What a shell does at start: a file that no spilled entry names is rubbish. */
static void sweep_files(struct fixture *fixture)
{
    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        struct fixture_file *file = &fixture->files[i];
        bool named = false;

        for (uint32_t e = 0; file->used && e < fixture->entries && !named; e++) {
            const struct index_entry *entry = &fixture->pools[file->pool].index.entries[e];

            named = entry->word == index_word(file->generation, INDEX_SPILLED) &&
                    entry->incarnation == file->incarnation;
        }
        if (file->used && !named) {
            file_drop(file);
        }
    }
}

void fixture_restart(struct fixture *fixture)
{
    sweep_files(fixture);
    start_store(fixture);
    for (uint32_t i = 0; i < FIXTURE_POOLS; i++) {
        nigh_status status;

        if (!fixture->pool_used[i]) {
            continue;
        }
        status = index_attach(fixture->index_memory[i], index_size_bytes(fixture->entries),
                              &fixture->pools[i].index);
        NIGH_ASSERT(status == NIGH_OK);
        status = store_pool_adopt(fixture->store, &fixture->pools[i]);
        NIGH_ASSERT(status == NIGH_OK);
    }
}

void fixture_reopen_as(struct fixture *fixture, uint32_t session, bool may_write)
{
    NIGH_ASSERT(fixture->clients[session].memory != NULL);
    atomic_store(&fixture->clients[session].quota_used, 0);
    open_session(fixture, session, may_write);
}

void fixture_reopen(struct fixture *fixture, uint32_t session)
{
    fixture_reopen_as(fixture, session, true);
}

void fixture_forget(struct fixture *fixture, uint32_t session)
{
    free(fixture->clients[session].memory);
    fixture->clients[session].memory = NULL;
}

void fixture_recycle(struct fixture *fixture)
{
    fixture_kill(fixture);
    for (uint32_t i = 0; i < fixture->set->count; i++) {
        atomic_store(&fixture->set->extents[i].owner, EXTENT_NO_OWNER);
    }
    extent_recount(fixture->set, 0);
    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        if (fixture->files[i].used) {
            file_drop(&fixture->files[i]);
        }
    }
    fixture->event_count = 0;
    fixture->fail_writes = NIGH_OK;
    fixture->fail_reads = NIGH_OK;
    fixture->disk_full_queue = false;
    start_store(fixture);
    for (uint32_t i = 0; i < FIXTURE_POOLS; i++) {
        struct store_pool_config config = fixture->pools[i];

        if (fixture->pool_used[i]) {
            free(fixture->index_memory[i]);
            fixture_pool(fixture, i, config.strict, config.quota_bytes);
        }
    }
}

/* ---- submissions ---- */

uint32_t fixture_submit(struct fixture *fixture, uint32_t session, struct session_sqe sqe)
{
    NIGH_ASSERT(fixture->next_cookie + 1 < FIXTURE_COOKIES);
    sqe.cookie = ++fixture->next_cookie;
    store_submit(fixture->store, session, &sqe, fixture->now_us);
    return sqe.cookie;
}

void fixture_tick(struct fixture *fixture)
{
    uint64_t next = store_tick(fixture->store, fixture->now_us);

    NIGH_ASSERT(next == UINT64_MAX || next >= 1);
}

void fixture_pass(struct fixture *fixture, uint64_t us)
{
    uint64_t end = fixture->now_us + us;

    while (fixture->now_us < end) {
        fixture->now_us = min_u64(end, fixture->now_us + 1000);
        fixture_tick(fixture);
    }
}

bool fixture_ended(const struct fixture *fixture, uint32_t cookie)
{
    return fixture->completed[cookie] != 0;
}

struct session_cqe fixture_completion(const struct fixture *fixture, uint32_t cookie)
{
    NIGH_ASSERT(fixture_ended(fixture, cookie));
    return fixture->completions[cookie];
}

struct session_cqe fixture_do(struct fixture *fixture, uint32_t session, struct session_sqe sqe)
{
    uint32_t cookie = fixture_submit(fixture, session, sqe);

    for (uint32_t turn = 0; turn < 100000 && !fixture_ended(fixture, cookie); turn++) {
        fixture_tick(fixture);
    }
    return fixture_completion(fixture, cookie);
}

void fixture_id(uint64_t key, uint8_t id[LIMIT_ID_BYTES])
{
    uint64_t mixed = hash_u64(key + 1);

    memset(id, 0, LIMIT_ID_BYTES);
    memcpy(id, &mixed, sizeof(mixed));
    memcpy(id + 8, &key, sizeof(key));
}

struct session_sqe fixture_sqe(uint8_t op, uint64_t key)
{
    struct session_sqe sqe = {.op = op};

    fixture_id(key, sqe.id);
    return sqe;
}

nigh_status fixture_status(struct fixture *fixture, uint32_t session, uint8_t op, uint64_t key)
{
    return (nigh_status)fixture_do(fixture, session, fixture_sqe(op, key)).status;
}

struct session_cqe fixture_get(struct fixture *fixture, uint32_t session, uint64_t key,
                               uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_GET, key);

    sqe.argument = timeout_us;
    return fixture_do(fixture, session, sqe);
}

struct session_cqe fixture_lease(struct fixture *fixture, uint32_t session, uint64_t bytes)
{
    return fixture_do(fixture, session,
                      (struct session_sqe){.op = SESSION_OP_LEASE, .argument = bytes});
}

struct session_cqe fixture_create_key(struct fixture *fixture, uint32_t session, uint64_t key,
                                      uint64_t bytes, uint8_t flags, uint64_t timeout_us)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_CREATE, key);

    sqe.data_size = bytes;
    sqe.flags = flags;
    sqe.argument = timeout_us;
    return fixture_do(fixture, session, sqe);
}

nigh_status fixture_seal(struct fixture *fixture, uint32_t session, uint32_t ref)
{
    return (nigh_status)fixture_do(fixture, session,
                                   (struct session_sqe){.op = SESSION_OP_SEAL, .ref = ref})
        .status;
}

nigh_status fixture_put(struct fixture *fixture, uint32_t session, uint64_t key, uint64_t bytes)
{
    struct session_cqe made = fixture_create_key(fixture, session, key, bytes, 0, 0);

    if (made.status != NIGH_OK) {
        return (nigh_status)made.status;
    }
    fixture_fill(fixture, key, made.offset, bytes);
    return fixture_seal(fixture, session, made.ref);
}

nigh_status fixture_put_leased(struct fixture *fixture, uint32_t session, uint64_t key,
                               uint64_t offset, uint64_t bytes)
{
    struct session_sqe sqe = fixture_sqe(SESSION_OP_SEAL, key);

    fixture_fill(fixture, key, offset, bytes);
    sqe.flags = SESSION_FLAG_LEASED;
    sqe.offset = offset;
    sqe.data_size = bytes;
    return (nigh_status)fixture_do(fixture, session, sqe).status;
}

/* ---- bytes ---- */

static uint8_t pattern(uint64_t key, uint64_t at)
{
    return (uint8_t)(hash_u64(key * 31 + at / 8) >> (8 * (at % 8)));
}

void fixture_fill(struct fixture *fixture, uint64_t key, uint64_t offset, uint64_t bytes)
{
    uint8_t *to = extent_bytes_at(fixture->set, offset);

    /* The first and last KiB tell objects apart well enough, and tests stay fast. */
    for (uint64_t i = 0; i < bytes; i += i == 1023 && bytes > 2048 ? bytes - 2047 : 1) {
        to[i] = pattern(key, i);
    }
}

bool fixture_holds(const struct fixture *fixture, uint64_t key, uint64_t offset, uint64_t bytes)
{
    const uint8_t *from = extent_bytes_at(fixture->set, offset);

    for (uint64_t i = 0; i < bytes; i += i == 1023 && bytes > 2048 ? bytes - 2047 : 1) {
        if (from[i] != pattern(key, i)) {
            return false;
        }
    }
    return true;
}

/* ---- pins ---- */

enum index_answer fixture_acquire(struct fixture *fixture, uint32_t session, uint64_t key,
                                  uint32_t slot, uint32_t *entry)
{
    struct fixture_client *client = &fixture->clients[session];
    struct pin_chunk *chunk = &client->chunks[slot / LIMIT_PINS_A_CHUNK];
    uint32_t used = slot / LIMIT_PINS_A_CHUNK + 1;
    enum index_answer answer;
    uint8_t id[LIMIT_ID_BYTES];

    fixture_id(key, id);
    if (atomic_load(&client->front->chunks_used) < used) {
        atomic_store(&client->front->chunks_used, used);
        shared_fence();
    }
    answer = index_acquire(&fixture->pools[client->pool].index, id, hash_id20(id), chunk,
                           slot % LIMIT_PINS_A_CHUNK, entry);
    if (answer == INDEX_HIT) {
        pin_leave_hint(chunk, 0, *entry);
    }
    return answer;
}

void fixture_release(struct fixture *fixture, uint32_t session, uint32_t slot)
{
    struct pin_chunk *chunk = &fixture->clients[session].chunks[slot / LIMIT_PINS_A_CHUNK];

    pin_clear(&chunk->entry[slot % LIMIT_PINS_A_CHUNK]);
}

void fixture_unpin(struct fixture *fixture, uint32_t session, uint32_t pin)
{
    pin_clear(&fixture->clients[session].lane->pin_entry[pin]);
}

/* ---- the disk ---- */

static nigh_status disk_write(struct fixture *fixture, const struct store_disk_job *job,
                              uint32_t *crc)
{
    uint64_t bytes = index_object_bytes(job->data_size, job->meta_size, job->name_size);
    const uint8_t *from = extent_bytes_at(fixture->set, job->offset);

    if (fixture->fail_writes != NIGH_OK) {
        return fixture->fail_writes;
    }
    if (fixture->disk_bytes != 0 && on_disk_free(fixture) < bytes) {
        return NIGH_DISK;
    }
    NIGH_ASSERT(file_of(fixture, job->pool, job->generation, job->incarnation) == NULL);
    for (uint32_t i = 0; i < FIXTURE_FILES; i++) {
        struct fixture_file *file = &fixture->files[i];

        if (!file->used) {
            *crc = crc32c(0, from, job->data_size);
            *file = (struct fixture_file){
                true, job->pool, job->generation, job->incarnation, malloc(bytes), bytes, *crc};
            NIGH_ASSERT(file->bytes != NULL);
            memcpy(file->bytes, from, bytes);
            return NIGH_OK;
        }
    }
    return NIGH_DISK;
}

static nigh_status disk_read(struct fixture *fixture, const struct store_disk_job *job,
                             uint32_t *crc)
{
    struct fixture_file *file = file_of(fixture, job->pool, job->generation, job->incarnation);
    uint8_t *to = extent_bytes_at(fixture->set, job->offset);

    if (fixture->fail_reads != NIGH_OK) {
        return fixture->fail_reads;
    }
    if (file == NULL) {
        return NIGH_DISK;
    }
    memcpy(to, file->bytes, file->size_bytes);
    *crc = crc32c(0, to, job->data_size);
    return *crc == file->crc ? NIGH_OK : NIGH_CORRUPT;
}

uint32_t fixture_disk(struct fixture *fixture)
{
    uint32_t done = 0;

    while (done < fixture->job_count) {
        struct store_disk_job job = fixture->jobs[done++];
        uint32_t crc = 0;
        nigh_status status =
            job.write ? disk_write(fixture, &job, &crc) : disk_read(fixture, &job, &crc);

        store_disk_done(fixture->store, &job, status, crc, fixture->now_us);
    }
    fixture->job_count = 0;
    return done;
}

/* ---- questions ---- */

nigh_node_stats fixture_stats(const struct fixture *fixture)
{
    nigh_node_stats stats = {0};

    store_stats(fixture->store, &stats);
    return stats;
}

uint32_t fixture_events(const struct fixture *fixture, uint32_t session, nigh_event_kind kind,
                        uint64_t key)
{
    uint8_t id[LIMIT_ID_BYTES];
    uint32_t count = 0;

    fixture_id(key, id);
    for (uint32_t i = 0; i < fixture->event_count; i++) {
        const struct fixture_event *event = &fixture->events[i];

        count += event->session == session && (event->event.kind_meta & 0xff) == (uint32_t)kind &&
                 memcmp(event->event.id, id, LIMIT_ID_BYTES) == 0;
    }
    return count;
}

uint64_t fixture_fill_up(struct fixture *fixture, uint32_t session, uint64_t first, uint64_t bytes)
{
    uint64_t key = first;

    for (;; key++) {
        struct session_cqe made =
            fixture_create_key(fixture, session, key, bytes, SESSION_FLAG_NO_EVICT, 0);

        if (made.status != NIGH_OK) {
            NIGH_ASSERT(made.status == NIGH_OUT_OF_MEMORY);
            return key - first;
        }
        fixture_fill(fixture, key, made.offset, bytes);
        NIGH_ASSERT(fixture_seal(fixture, session, made.ref) == NIGH_OK);
    }
}

int fixture_setup_pools(void **state)
{
    struct fixture *fixture = fixture_create(&(struct fixture_options){.entries = 16384});

    for (uint32_t pool = 0; pool < 3; pool++) {
        fixture_pool(fixture, pool, pool == 2, 0);
    }
    fixture_open(fixture, 1, 0, 1000, true);
    fixture_open(fixture, 2, 0, 1000, true);
    fixture_open(fixture, 3, 1, 1001, true);
    fixture_open(fixture, 4, 2, 1002, true);
    *state = fixture;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    bool valid = store_is_valid(fixture->store);

    fixture_destroy(fixture);
    return valid ? 0 : -1;
}
