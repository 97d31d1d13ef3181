/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views and windows between threads that run at once, and processes that are killed: what the
 * explorer does in small with every order, here in large with those that come. A reader never sees
 * torn bytes, another block's, or bytes older than what it knows to have been given up; a thread
 * sees its own writes, and none behind which another's came that it knows of; who sleeps is woken;
 * and what a client is killed in, or scribbles over, costs the lane nothing.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/futex.h"
#include "memory/space_record.h"
#include "space/frames.h"
#include "support/support.h"

#define BLOCK   128u
#define HOME    (UINT64_C(2) << 48)
#define READERS 2u

/* ---- a cache: one lane, readers --------------------------------------------- */

#define BLOCKS 24u /* in fifteen frames */
#define READS  20000u

static struct space_frames frames;
static _Atomic uint64_t least[BLOCKS]; /* the version that a read that begins now may have */
static uint64_t versions[BLOCKS];      /* the lane's */

struct reader {
    pthread_t thread;
    uint64_t seed;
    uint64_t seen[BLOCKS];
    _Atomic bool is_done;
    const char *wrong;
};

static uint64_t address_of(uint32_t block)
{
    return HOME + (block + 1) * BLOCK;
}

/* Four words that have the version, and bytes that follow from it. */
static void make_bytes(uint32_t block, uint8_t bytes[BLOCK])
{
    uint64_t word = versions[block] << 8 | block;

    for (uint32_t n = 0; n < 4; n++)
        memcpy(bytes + n * 8, &word, 8);
    memset(bytes + 32, (int)(uint8_t)(versions[block] * 3 + block), BLOCK - 32);
}

static const char *check_words(struct reader *reader, uint32_t block, uint64_t floor,
                               const uint8_t *bytes, uint32_t count)
{
    uint64_t first, word;

    memcpy(&first, bytes, 8);
    for (uint32_t n = 1; n < count; n++) {
        memcpy(&word, bytes + n * 8, 8);
        if (word != first)
            return "torn words";
    }
    if ((first & 0xff) != block)
        return "another block's";
    if (first >> 8 < floor)
        return "given up, and read";
    if (first >> 8 < reader->seen[block])
        return "older than what was read before";
    reader->seen[block] = first >> 8;
    return NULL;
}

static const char *read_one(struct reader *reader, bool *got)
{
    uint32_t block = (uint32_t)(support_random(&reader->seed) % BLOCKS), frame;
    uint32_t how = (uint32_t)(support_random(&reader->seed) % 3), length, offset;
    uint64_t floor = shared_load_acquire(&least[block]);
    uint8_t out[BLOCK];

    if (how == 0) { /* some of its words */
        offset = 0;
        length = 8 * (1 + (uint32_t)(support_random(&reader->seed) % 4));
    } else if (how == 1) { /* some of its bytes, anywhere */
        offset = 32 + (uint32_t)(support_random(&reader->seed) % (BLOCK - 32));
        length = 1 + (uint32_t)(support_random(&reader->seed) % (BLOCK - offset));
    } else {
        offset = 0;
        length = BLOCK;
    }
    *got = space_cache_read(&frames.view, space_hash(address_of(block), 7),
                            address_of(block) + offset, out, length, &frame) == SPACE_READ;
    if (!*got)
        return NULL;
    if (how == 1) {
        for (uint32_t n = 1; n < length; n++)
            if (out[n] != out[0])
                return "torn bytes";
        return NULL;
    }
    if (how == 2) {
        uint64_t version;

        memcpy(&version, out, 8);
        for (uint32_t n = 32; n < BLOCK; n++)
            if (out[n] != (uint8_t)((version >> 8) * 3 + block))
                return "a torn block";
    }
    return check_words(reader, block, floor, out, how == 0 ? length / 8 : 4);
}

static void *read_many(void *argument)
{
    struct reader *reader = argument;
    uint32_t count = 0;

    while (count < READS && reader->wrong == NULL) {
        bool got;

        reader->wrong = read_one(reader, &got);
        count += got;
        if (!got)
            sched_yield();
    }
    atomic_store(&reader->is_done, true);
    return NULL;
}

static bool any(void *context, uint32_t frame)
{
    (void)context;
    (void)frame;
    return true;
}

/* It is given up: who is told so reads it no more until it is back, and is another. */
static void give_up(uint32_t frame)
{
    uint32_t block = (uint32_t)((space_frames_block(&frames, frame) - HOME) / BLOCK) - 1;

    space_word_hide(space_frames_word(&frames, frame));
    space_view_fence();
    shared_store_relaxed(&least[block], versions[block] + 1);
    space_frames_give(&frames, frame);
}

static void bring(uint32_t block)
{
    uint32_t frame = space_frames_take(&frames, address_of(block));
    uint8_t bytes[BLOCK];

    if (frame == SPACE_NO_FRAME) {
        give_up(space_frames_victim(&frames, address_of(block), any, NULL));
        frame = space_frames_take(&frames, address_of(block));
    }
    versions[block]++;
    make_bytes(block, bytes);
    space_bytes_store(space_frames_bytes(&frames, frame), 0, bytes, BLOCK);
    space_word_show(space_frames_word(&frames, frame));
}

static void lane_step(uint64_t *seed)
{
    uint32_t block = (uint32_t)(support_random(seed) % BLOCKS);
    uint32_t frame = space_frames_find(&frames, address_of(block));
    uint8_t bytes[BLOCK];

    if (frame == SPACE_NO_FRAME) {
        bring(block);
    } else if (support_random(seed) % 4 == 0) {
        give_up(frame);
    } else {
        versions[block]++;
        make_bytes(block, bytes);
        space_word_change(space_frames_word(&frames, frame), space_frames_bytes(&frames, frame), 0,
                          bytes, BLOCK);
    }
}

static void test_readers_see_what_is_there(void **state)
{
    static struct reader readers[READERS];
    uint64_t seed = support_seed() | 1, bytes = space_view_cache_bytes(1, BLOCK);
    void *memory = aligned_alloc(4096, bytes);
    struct space_view view;
    uint32_t running = READERS;

    (void)state;
    assert_non_null(memory);
    memset(memory, 0, bytes);
    space_view_make_cache(memory, 1, BLOCK, &view);
    assert_int_equal(space_frames_init(&frames, &view), NIGH_OK);
    for (uint32_t n = 0; n < READERS; n++) {
        readers[n] = (struct reader){.seed = seed + n * 2 + 2};
        assert_int_equal(pthread_create(&readers[n].thread, NULL, read_many, &readers[n]), 0);
    }
    for (uint32_t steps = 0; running > 0; steps++) {
        lane_step(&seed);
        if (steps % 64 == 0) {
            sched_yield();
            running = 0;
            for (uint32_t n = 0; n < READERS; n++)
                running += !atomic_load(&readers[n].is_done);
        }
    }
    for (uint32_t n = 0; n < READERS; n++) {
        assert_int_equal(pthread_join(readers[n].thread, NULL), 0);
        if (readers[n].wrong != NULL)
            fail_msg("%s", readers[n].wrong);
    }
    assert_true(space_frames_is_valid(&frames));
    space_frames_fini(&frames);
    free(memory);
}

/* ---- a window: a thread that writes and reads, a lane, and another who writes */

#define X      HOME
#define FLAG   (HOME + BLOCK)
#define SUM    (HOME + 2 * BLOCK)
#define REST   (HOME + 4 * BLOCK)
#define RESTS  4u
#define TURNS  20000u
#define OWN    (UINT64_C(1) << 63)
#define DELAYS 16u

static struct {
    struct space_window *window;
    struct space_mapped space;
    pthread_t client;
    _Atomic bool is_done;
    const char *wrong;
    uint64_t seed;
    uint64_t last[RESTS]; /* the client's last values */
    uint64_t sum;
} w;

/* Sleeps until the lane has done something, if it has not. */
static void wait_for_room(struct space_producer *producer)
{
    uint64_t head = producer->head;
    uint32_t news = space_producer_begin_sleep(producer);

    (void)space_producer_look(producer);
    if (producer->head == head)
        (void)space_producer_sleep(producer, news, FUTEX_FOREVER);
    space_producer_end_sleep(producer);
}

static void write_word(struct space_producer *producer, uint64_t address, uint64_t value)
{
    uint64_t ticket;

    while (!space_producer_write(producer, &w.space, address, &value, 8, &ticket))
        wait_for_room(producer);
}

static void read_word(struct space_producer *producer, uint64_t address, uint64_t *value)
{
    while (space_producer_read(producer, &w.space, address, value, 8) != SPACE_READ)
        sched_yield();
}

/* A write of x, the flag, and x: see the head of the file. `turn`: of own writes of x. */
static const char *look_at_x(struct space_producer *producer, uint64_t turn)
{
    uint64_t flag, x;

    write_word(producer, X, OWN | turn);
    read_word(producer, FLAG, &flag);
    read_word(producer, X, &x);
    if ((x & OWN) == 0)
        return x < turn ? "an own write is not seen" : NULL;
    x &= ~OWN;
    if (x != turn)
        return "an older own write";
    /* So many own writes were before another's that it knows of. */
    return x <= flag ? "an own write, behind which another came" : NULL;
}

static const char *add_one(struct space_producer *producer)
{
    static const uint64_t operands[2] = {1, 0};
    uint64_t value = 0;

    while (!space_producer_ask(producer, SPACE_RECORD_ADD, &w.space, SUM, 8, operands, 1000000))
        wait_for_room(producer);
    while (!space_producer_is_answered(producer)) {
        uint32_t news = space_producer_begin_sleep(producer);

        if (!space_producer_is_answered(producer))
            (void)space_producer_sleep(producer, news, FUTEX_FOREVER);
        space_producer_end_sleep(producer);
    }
    if (space_producer_answer(producer, &value, NULL, 0) != NIGH_OK || value != w.sum)
        return "a sum is another";
    w.sum++;
    return NULL;
}

static void *client(void *argument)
{
    struct space_producer *producer = malloc(sizeof *producer);

    (void)argument;
    space_producer_init(producer, w.window);
    for (uint64_t turn = 1; turn <= TURNS && w.wrong == NULL; turn++) {
        uint32_t rest = (uint32_t)(support_random(&w.seed) % RESTS);

        w.wrong = look_at_x(producer, turn);
        w.last[rest] = turn;
        write_word(producer, REST + rest * BLOCK + turn % 16 * 8, turn);
        if (w.wrong == NULL && turn % 64 == 0)
            w.wrong = add_one(producer);
    }
    while (!space_producer_is_empty(producer))
        sched_yield();
    (void)space_producer_look(producer);
    for (uint32_t n = 0; n < SPACE_NOTES && w.wrong == NULL; n++)
        w.wrong = producer->pending[n] != 0 ? "something is pending yet" : NULL;
    free(producer);
    atomic_store(&w.is_done, true);
    return NULL;
}

static void change(uint64_t address, const void *bytes, uint32_t length)
{
    uint64_t block = (address - HOME) / BLOCK;

    space_word_change(&w.space.home.words[block], space_bytes_of(&w.space.home, block),
                      (uint32_t)(address - HOME) % BLOCK, bytes, length);
}

static void carry_out(struct space_consumer *consumer, const struct space_record *record,
                      uint64_t *applied)
{
    uint64_t value, sum;

    if (record->kind == SPACE_RECORD_ADD) {
        space_bytes_load(space_bytes_of(&w.space.home, 2), 0, &sum, 8);
        value = sum + record->operands[0];
        change(SUM, &value, 8);
        space_consumer_reply(consumer, record, NIGH_OK, sum, NULL, 0);
        return;
    }
    space_consumer_bytes(consumer, record, &value);
    change(record->address, &value, 8);
    *applied += record->address == X;
    space_consumer_done(consumer, record->number);
}

/* Some records wait, and are carried out in another order where they are of other blocks. */
struct waits {
    struct space_record records[DELAYS];
    uint32_t count;
};

static void carry_one_out(struct space_consumer *consumer, struct waits *waits, uint64_t *seed,
                          uint64_t *applied)
{
    uint32_t which = (uint32_t)(support_random(seed) % waits->count);

    for (uint32_t n = 0; n < which; n++) /* the first of its block */
        if (waits->records[n].address / BLOCK == waits->records[which].address / BLOCK)
            which = n;
    carry_out(consumer, &waits->records[which], applied);
    memmove(&waits->records[which], &waits->records[which + 1],
            (waits->count - which - 1) * sizeof waits->records[0]);
    waits->count--;
}

static bool serve(struct space_consumer *consumer, struct waits *waits, uint64_t *seed,
                  uint64_t *applied)
{
    enum space_window_answer answer = SPACE_WINDOW_NONE;

    while (waits->count < DELAYS &&
           (answer = space_consumer_take(consumer, &waits->records[waits->count])) ==
               SPACE_WINDOW_TAKEN)
        waits->count++;
    for (uint64_t n = support_random(seed) % 4; n > 0 && waits->count > 0; n--)
        carry_one_out(consumer, waits, seed, applied);
    if (support_random(seed) % 4 == 0) { /* another writes x, and says so */
        change(X, applied, 8);
        change(FLAG, applied, 8);
    }
    space_consumer_wake(consumer);
    return answer != SPACE_WINDOW_BROKEN;
}

static void test_a_thread_sees_its_own_writes(void **state)
{
    uint64_t seed = support_seed() | 1, applied = 0, bytes = space_view_home_bytes(16, BLOCK);
    struct space_consumer *consumer = malloc(sizeof *consumer);
    void *memory = aligned_alloc(4096, bytes);
    struct waits waits = {0};
    bool is_whole = true;

    (void)state;
    w.window = aligned_alloc(4096, sizeof *w.window);
    assert_true(consumer != NULL && memory != NULL && w.window != NULL);
    memset(memory, 0, bytes);
    memset(w.window, 0, sizeof *w.window);
    w.space = (struct space_mapped){.number = 1};
    space_view_make_home(memory, 16, BLOCK, HOME, &w.space.home);
    w.space.cache.shift = w.space.home.shift;
    w.seed = seed + 2;
    for (uint32_t n = 0; n < 16; n++)
        space_word_show(&w.space.home.words[n]);
    space_consumer_init(consumer, w.window);
    assert_int_equal(pthread_create(&w.client, NULL, client, NULL), 0);
    while (!atomic_load(&w.is_done) && is_whole)
        is_whole = serve(consumer, &waits, &seed, &applied);
    assert_true(is_whole);
    assert_int_equal(pthread_join(w.client, NULL), 0);
    if (w.wrong != NULL)
        fail_msg("%s", w.wrong);
    assert_int_equal(applied, TURNS);
    for (uint32_t n = 0; n < RESTS; n++) {
        uint64_t value;

        space_bytes_load(space_bytes_of(&w.space.home, 4 + n), (uint32_t)(w.last[n] % 16 * 8),
                         &value, 8);
        assert_int_equal(value, w.last[n]);
    }
    free(consumer);
    free(memory);
    free(w.window);
}

/* ---- a client that is killed, and one that scribbles ------------------------ */

#define KILLS 20u

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

/* Writes as fast as it can: every byte of a write is its length. */
static int write_for_ever(void *argument)
{
    static struct space_producer producer;
    struct space_mapped space = {.number = 1, .cache = {.shift = 12}};
    uint8_t bytes[LIMIT_SPACE_BLOCK_BYTES];

    space_producer_init(&producer, argument);
    for (uint64_t n = 1;; n++) {
        uint32_t length = 1 + (uint32_t)(n * 61 % 300);
        uint64_t ticket;

        memset(bytes, (int)(uint8_t)length, length);
        while (!space_producer_write(&producer, &space, HOME + n % 64 * 4096, bytes, length,
                                     &ticket)) {
        }
    }
    return 0;
}

/* How many whole records there are; -1: one that is not. */
static int take_all(struct space_consumer *consumer)
{
    uint8_t bytes[LIMIT_SPACE_BLOCK_BYTES];
    struct space_record record;
    enum space_window_answer answer;
    int count = 0;

    while ((answer = space_consumer_take(consumer, &record)) == SPACE_WINDOW_TAKEN) {
        space_consumer_bytes(consumer, &record, bytes);
        for (uint32_t n = 0; n < record.length; n++)
            if (bytes[n] != (uint8_t)record.length)
                return -1;
        space_consumer_done(consumer, record.number);
        count++;
    }
    return answer == SPACE_WINDOW_NONE ? count : -1;
}

static void test_a_client_that_is_killed_leaves_whole_records(void **state)
{
    struct space_window *window = shared_memory(sizeof *window);
    struct space_consumer *consumer = malloc(sizeof *consumer);

    (void)state;
    assert_non_null(consumer);
    for (uint32_t n = 0; n < KILLS; n++) {
        int taken = 0, more = 0;
        pid_t child;

        memset(window, 0, sizeof *window);
        space_consumer_init(consumer, window);
        child = support_fork(write_for_ever, window);
        while (taken < 500 + (int)n * 37 && more >= 0) {
            more = take_all(consumer);
            taken += more;
        }
        assert_int_equal(kill(child, n % 2 == 0 ? SIGKILL : SIGSTOP), 0);
        if (n % 2 != 0) { /* it stands still, somewhere: the lane goes on */
            for (uint32_t k = 0; k < 100 && more >= 0; k++)
                more = take_all(consumer);
            assert_int_equal(kill(child, SIGKILL), 0);
        }
        assert_int_equal(support_join(child, 10000), -SIGKILL);
        assert_true(more >= 0);
        assert_true(take_all(consumer) >= 0);
        assert_int_equal(take_all(consumer), 0);
    }
    free(consumer);
    (void)munmap(window, sizeof *window);
}

static _Atomic bool scribbles;

static void *scribble(void *argument)
{
    struct space_window *window = argument;
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)window;
    uint64_t seed = 77;

    while (atomic_load_explicit(&scribbles, memory_order_relaxed)) {
        uint64_t value = support_random(&seed);
        uint64_t at = support_random(&seed);

        switch (value >> 32 & 7) {
        case 0: shared_store_relaxed(&window->tail.value, value & 0xfff0); break;
        case 1: /* a record as it may be */
            shared_store_relaxed(&window->ring[at % 256 * 2],
                                 space_word_of((uint32_t)value % 16, 0, 8, 1));
            break;
        case 2: /* the hints, and their count */
            shared_store_relaxed(&window->hint_count.value, value);
            break;
        default: /* the ring and all that the lane wrote there; flags are of another size */
            shared_store_relaxed(&words[1024 + at % 4096], value);
            break;
        }
    }
    return NULL;
}

static void test_a_client_that_scribbles_leads_nowhere(void **state)
{
    struct space_window *window = shared_memory(sizeof *window);
    struct space_consumer *consumer = malloc(sizeof *consumer);
    uint8_t *bytes = malloc(LIMIT_SPACE_BLOCK_BYTES); /* of its own, so that its end is seen */
    uint64_t hints[LIMIT_SPACE_HINTS];
    uint32_t taken = 0, broken = 0;
    pthread_t thread;

    (void)state;
    assert_true(consumer != NULL && bytes != NULL);
    space_consumer_init(consumer, window);
    atomic_store(&scribbles, true);
    assert_int_equal(pthread_create(&thread, NULL, scribble, window), 0);
    while (taken < 2000 || broken < 2000) {
        struct space_record record;
        enum space_window_answer answer = space_consumer_take(consumer, &record);

        (void)space_consumer_hints(consumer, hints);
        if (answer == SPACE_WINDOW_TAKEN) {
            taken++;
            if (record.kind == SPACE_RECORD_WRITE)
                space_consumer_bytes(consumer, &record, bytes);
            if (taken % 3 != 0)
                space_consumer_done(consumer, record.number);
        }
        if (answer == SPACE_WINDOW_BROKEN || answer == SPACE_WINDOW_FULL) {
            broken++;
            space_consumer_init(consumer, window); /* a session would end here */
        }
        if (answer == SPACE_WINDOW_NONE)
            sched_yield();
    }
    atomic_store(&scribbles, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    free(bytes);
    free(consumer);
    (void)munmap(window, sizeof *window);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_see_what_is_there),
        cmocka_unit_test(test_a_thread_sees_its_own_writes),
        cmocka_unit_test(test_a_client_that_is_killed_leaves_whole_records),
        cmocka_unit_test(test_a_client_that_scribbles_leads_nowhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
