/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The explorer: coroutines, saving and restoring, depth-first search over choices. The memory
 * models are in explorer_memory.c.
 *
 * A step is taken only where it matters to others. A store, a fence without effect and an access to
 * a word that no other thread writes are carried out at once: a store only enters a buffer or a
 * history, so doing it early forbids nothing. Which words are shared is found out by running: when
 * a thread first touches a word in a way that makes it shared, the exploration starts again,
 * knowing more, until nothing new comes up.
 *
 * Stacks are copied, which AddressSanitizer and ThreadSanitizer do not understand: the explorer is
 * built without them.
 */
#include "explorer_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "base/check.h"

#define STACK_BYTES   (64u << 10)
#define PRIVATES      16
#define DEPTH         4096
#define RED_ZONE      512 /* below a frame: what its function may still have there */
#define CHOICES       64
#define TABLE_AT_ONCE (1u << 16)

struct private_memory {
    uint8_t *memory;
    uint32_t size;
};

/* A state, and how many ways lead from it to an end. Every step of a thread brings it nearer to its
 * end, so no state comes back on the way from itself, and the number is known when it is needed. */
struct seen {
    uint64_t hash;
    double ways;
};

/* All that a step can change, saved. */
struct snapshot {
    uint8_t *bytes;
    size_t room;
};

struct machine machine;

/* Of the search; the stacks are in it because saving copies them in place. */
static struct {
    const struct explorer_scenario *scenario;
    struct explorer_report *report;
    struct private_memory privates[PRIVATES];
    uint32_t private_count;
    struct snapshot snapshots[DEPTH];
    struct seen *seen;
    uint64_t seen_room;
    uint64_t seen_count;
    jmp_buf scheduler;
    ucontext_t scheduler_context;
    ucontext_t contexts[EXPLORER_THREADS];
    _Alignas(64) uint8_t stacks[EXPLORER_THREADS][STACK_BYTES];
} engine;

/* ---- coroutines */

/* Hands the thread's pending operation to the scheduler; returns when it was carried out. */
static void engine_yield(struct thread *thread)
{
    thread->stack_low = (uint8_t *)__builtin_frame_address(0) - RED_ZONE;
    if (_setjmp(thread->context) == 0) {
        _longjmp(engine.scheduler, 1);
    }
}

uint64_t machine_perform(enum operation_kind kind, uint32_t word, enum seam_order order,
                         uint64_t value, uint64_t expected)
{
    struct thread *thread = &machine.state.threads[machine.running];

    thread->pending = (struct operation){
        .kind = kind, .word = word, .order = order, .value = value, .expected = expected};
    engine_yield(thread);
    return thread->result;
}

void machine_abandon(void)
{
    machine.abandoned = true;
    engine_yield(&machine.state.threads[machine.running]);
    abort();
}

static void engine_thread(void)
{
    engine.scenario->threads[machine.running]();
    machine.state.threads[machine.running].finished = true;
    memory_thread_ends();
    _longjmp(engine.scheduler, 1);
}

/* Runs a thread until it has an operation pending that matters to others, or ends. */
static void engine_resume(uint32_t number)
{
    struct thread *thread = &machine.state.threads[number];

    machine.running = number;
    machine.inside = true;
    if (_setjmp(engine.scheduler) == 0) {
        if (thread->started) {
            _longjmp(thread->context, 1);
        }
        thread->started = true;
        setcontext(&engine.contexts[number]);
    }
    machine.inside = false;
    machine.running = NOBODY;
}

static void engine_make_thread(uint32_t number)
{
    ucontext_t *context = &engine.contexts[number];

    getcontext(context);
    context->uc_stack.ss_sp = engine.stacks[number];
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, engine_thread, 0);
}

/* ---- saving and restoring */

static size_t engine_state_bytes(void)
{
    return offsetof(struct state, messages) + machine.state.message_count * sizeof(struct message);
}

static void engine_save(uint32_t depth)
{
    struct snapshot *snapshot = &engine.snapshots[depth];
    size_t size = engine_state_bytes();
    uint8_t *to;

    for (uint32_t t = 0; t < machine.thread_count; t++) {
        size += STACK_BYTES;
    }
    for (uint32_t p = 0; p < engine.private_count; p++) {
        size += engine.privates[p].size;
    }
    if (snapshot->room < size) {
        free(snapshot->bytes);
        snapshot->bytes = malloc(size + sizeof(struct message) * 32);
        NIGH_ASSERT(snapshot->bytes != NULL);
        snapshot->room = size + sizeof(struct message) * 32;
    }
    to = snapshot->bytes;
    memcpy(to, &machine.state, engine_state_bytes());
    to += engine_state_bytes();
    for (uint32_t p = 0; p < engine.private_count; p++) {
        memcpy(to, engine.privates[p].memory, engine.privates[p].size);
        to += engine.privates[p].size;
    }
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        uint8_t *low = machine.state.threads[t].stack_low;
        uint8_t *top = engine.stacks[t] + STACK_BYTES;

        if (!machine.state.threads[t].finished) {
            memcpy(to, low, (size_t)(top - low));
            to += top - low;
        }
    }
}

static void engine_restore(uint32_t depth)
{
    const uint8_t *from = engine.snapshots[depth].bytes;

    memcpy(&machine.state, from, offsetof(struct state, messages));
    memcpy(&machine.state, from, engine_state_bytes());
    from += engine_state_bytes();
    for (uint32_t p = 0; p < engine.private_count; p++) {
        memcpy(engine.privates[p].memory, from, engine.privates[p].size);
        from += engine.privates[p].size;
    }
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        uint8_t *low = machine.state.threads[t].stack_low;
        uint8_t *top = engine.stacks[t] + STACK_BYTES;

        if (!machine.state.threads[t].finished) {
            memcpy(low, from, (size_t)(top - low));
            from += top - low;
        }
    }
}

/* ---- states seen */

/* The place of a state, or the empty one where it would go. */
static struct seen *engine_find(uint64_t hash)
{
    uint64_t place = hash & (engine.seen_room - 1);

    while (engine.seen[place].hash != 0 && engine.seen[place].hash != hash) {
        place = (place + 1) & (engine.seen_room - 1);
    }
    return &engine.seen[place];
}

static void engine_grow_table(void)
{
    struct seen *old = engine.seen;
    uint64_t old_room = engine.seen_room;

    engine.seen_room = old_room == 0 ? TABLE_AT_ONCE : old_room * 2;
    engine.seen = calloc(engine.seen_room, sizeof(*engine.seen));
    NIGH_ASSERT(engine.seen != NULL);
    for (uint64_t i = 0; i < old_room; i++) {
        if (old[i].hash != 0) {
            *engine_find(old[i].hash) = old[i];
        }
    }
    free(old);
}

/* Whether this state is new; it is not, from now on. If it is not, *ways is known. */
static bool engine_is_new(uint64_t hash, double *ways)
{
    struct seen *seen;

    if (engine.seen_count * 2 >= engine.seen_room) {
        engine_grow_table();
    }
    seen = engine_find(hash);
    if (seen->hash != 0) {
        *ways = seen->ways;
        return false;
    }
    seen->hash = hash;
    engine.seen_count++;
    return true;
}

/* ---- the search */

static bool engine_is_over(void)
{
    return machine.abandoned || machine.violated;
}

static void engine_end(void)
{
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        if (!machine.state.threads[t].finished) {
            explorer_fail("thread %u can never go on", t);
            return;
        }
    }
    engine.report->endings++;
    if (engine.scenario->end != NULL) {
        engine.scenario->end();
    }
}

/* Tries all that can follow the present state; returns the number of ways to an end. */
static double engine_explore(uint32_t depth)
{
    struct choice choices[CHOICES];
    uint64_t hash = memory_hash();
    uint32_t count;
    double ways = 0;

    hash += hash == 0; /* 0 is an empty place */
    if (!engine_is_new(hash, &ways)) {
        return ways;
    }
    NIGH_ASSERT(depth < DEPTH);
    engine.report->states++;
    engine.report->depth = max_u32(engine.report->depth, depth);
    count = memory_choices(choices, CHOICES);
    if (count == 0) {
        engine_end();
        ways = 1;
    } else if (count > 1) {
        engine_save(depth);
    }
    for (uint32_t c = 0; c < count && !engine_is_over(); c++) {
        if (c > 0) {
            engine_restore(depth);
        }
        engine.report->transitions++;
        if (memory_apply(&choices[c])) {
            engine_resume(choices[c].thread);
        }
        if (!engine_is_over()) {
            ways += engine_explore(depth + 1);
        }
    }
    engine_find(hash)->ways = ways;
    return ways;
}

/* One exploration with what is known of the words so far. */
static void engine_pass(void)
{
    engine.report->states = engine.report->transitions = engine.report->endings = 0;
    engine.report->depth = 0;
    if (engine.seen_count > 0) {
        engine.seen_count = 0;
        memset(engine.seen, 0, engine.seen_room * sizeof(*engine.seen));
    }
    engine.private_count = 0;
    machine.running = NOBODY;
    machine.abandoned = false;
    machine.exploring = false;
    engine.scenario->set_up();
    memory_begin();
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        engine_make_thread(t);
        engine_resume(t);
        if (engine_is_over()) {
            return;
        }
    }
    engine.report->ways = engine_explore(0);
}

static uint64_t engine_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

void explorer_run(const struct explorer_scenario *scenario, enum explorer_memory memory,
                  enum explorer_steps steps, struct explorer_report *report)
{
    uint64_t start = engine_now_us();

    memset(report, 0, sizeof(*report));
    memory_reset();
    machine.memory = memory;
    machine.steps = steps;
    machine.running = NOBODY;
    engine.scenario = scenario;
    engine.report = report;
    engine_grow_table();
    while (machine.thread_count < EXPLORER_THREADS &&
           scenario->threads[machine.thread_count] != NULL) {
        machine.thread_count++;
    }
    do {
        engine_pass();
    } while (machine.abandoned && !machine.violated);
    report->violated = machine.violated;
    report->words = machine.shared_count;
    memcpy(report->message, machine.message, sizeof(report->message));
    if (machine.violated) {
        report->trace = memory_trace();
    }
    machine.exploring = false;
    free(engine.seen);
    engine.seen = NULL;
    engine.seen_room = engine.seen_count = 0;
    report->microseconds = engine_now_us() - start;
}

void explorer_private(void *memory, uint32_t size)
{
    NIGH_ASSERT(engine.private_count < PRIVATES);
    engine.privates[engine.private_count++] = (struct private_memory){memory, size};
}

void explorer_fail(const char *format, ...)
{
    va_list arguments;

    if (!machine.violated) {
        machine.violated = true;
        va_start(arguments, format);
        vsnprintf(machine.message, sizeof(machine.message), format, arguments);
        va_end(arguments);
    }
    if (machine.inside) {
        machine_abandon();
    }
}
