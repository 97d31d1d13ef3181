/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that explored threads see: store buffers (TSO) or histories of stores (weak), behind
 * the functions of the seam.
 */
#include "explorer_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

#define ADDRESSES 1024u /* places to find words by address: a power of two */

static uint8_t memory_places[ADDRESSES];
static bool memory_place_used[ADDRESSES];

static struct thread *memory_self(void)
{
    return &machine.state.threads[machine.running];
}

/* ---- words */

static uint64_t memory_real_load(const volatile void *word, uint32_t size)
{
    switch (size) {
    case 1: return *(const volatile uint8_t *)word;
    case 2: return *(const volatile uint16_t *)word;
    case 4: return *(const volatile uint32_t *)word;
    default: return *(const volatile uint64_t *)word;
    }
}

static void memory_real_store(volatile void *word, uint32_t size, uint64_t value)
{
    switch (size) {
    case 1: *(volatile uint8_t *)word = (uint8_t)value; break;
    case 2: *(volatile uint16_t *)word = (uint16_t)value; break;
    case 4: *(volatile uint32_t *)word = (uint32_t)value; break;
    default: *(volatile uint64_t *)word = value; break;
    }
}

/* The number of the word at an address, new or known. */
static uint32_t memory_word(const volatile void *address)
{
    uint32_t place = (uint32_t)hash_u64((uint64_t)(uintptr_t)address) & (ADDRESSES - 1);
    struct word *word;

    for (; memory_place_used[place]; place = (place + 1) & (ADDRESSES - 1)) {
        if (machine.words[memory_places[place]].address == address) {
            return memory_places[place];
        }
    }
    NIGH_ASSERT(machine.word_count < WORDS);
    memory_place_used[place] = true;
    memory_places[place] = (uint8_t)machine.word_count;
    word = &machine.words[machine.word_count];
    *word = (struct word){.address = address, .shared = NO_WORD};
    snprintf(word->name, sizeof(word->name), "word%u", machine.word_count);
    return machine.word_count++;
}

/* The same for an access, which tells the size, and so the initial value. */
static struct word *memory_sized_word(const volatile void *address, uint32_t size, uint32_t *number)
{
    struct word *word = &machine.words[ *number = memory_word(address)];

    if (word->size == 0) {
        word->size = size;
        word->initial = memory_real_load(address, size);
    }
    NIGH_ASSERT(word->size == size);
    return word;
}

static uint64_t memory_value(uint32_t number)
{
    return machine.words[number].initial + machine.state.changes[number];
}

static void memory_set(uint32_t number, uint64_t value)
{
    machine.state.changes[number] = value - machine.words[number].initial;
}

static bool memory_is_shared(const struct word *word)
{
    uint32_t all = word->readers | word->writers;

    return word->writers != 0 && (all & (all - 1)) != 0;
}

/* Notes who uses a word how; a word that turns out to be shared, or written by more threads than
 * was known, ends this pass. */
static void memory_touch(struct word *word, bool writes)
{
    uint32_t bit = 1u << machine.running;
    uint32_t *mask = writes ? &word->writers : &word->readers;
    bool was_shared = memory_is_shared(word);

    if ((*mask & bit) != 0) {
        return;
    }
    *mask |= bit;
    if (memory_is_shared(word) != was_shared || (was_shared && writes)) {
        machine_abandon();
    }
}

void explorer_name(const volatile void *address, const char *format, ...)
{
    struct word *word = &machine.words[memory_word(address)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(word->name, sizeof(word->name), format, arguments);
    va_end(arguments);
}

void memory_reset(void)
{
    memset(&machine, 0, sizeof(machine));
    memset(memory_place_used, 0, sizeof(memory_place_used));
}

void memory_begin(void)
{
    memset(&machine.state, 0, sizeof(machine.state));
    machine.shared_count = 0;
    for (uint32_t w = 0; w < machine.word_count; w++) {
        struct word *word = &machine.words[w];

        word->initial = word->size == 0 ? 0 : memory_real_load(word->address, word->size);
        word->shared = NO_WORD;
        if (memory_is_shared(word)) {
            NIGH_ASSERT(machine.shared_count < SHARED);
            machine.word_of_shared[machine.shared_count] = (uint8_t)w;
            word->shared = machine.shared_count++;
        }
    }
    machine.exploring = true;
}

/* ---- the log */

static void memory_log(const struct operation *operation, uint32_t thread, uint64_t result,
                       bool stale)
{
    struct state *state = &machine.state;

    NIGH_ASSERT(state->log_count < LOGGED);
    machine.log[state->log_count++] = (struct logged){
        .operation = *operation, .result = result, .thread = (uint8_t)thread, .stale = stale};
}

static void memory_log_now(enum operation_kind kind, uint32_t word, enum seam_order order,
                           uint64_t value, uint64_t result)
{
    struct operation operation = {.kind = kind, .word = word, .order = order, .value = value};

    memory_log(&operation, machine.running, result, false);
}

char *memory_trace(void)
{
    static const char *const orders[] = {"plain", "relaxed", "acquire", "release", "full"};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    NIGH_ASSERT(out != NULL);
    for (uint32_t i = 0; i < machine.state.log_count; i++) {
        const struct logged *l = &machine.log[i];
        const struct operation *o = &l->operation;
        const char *name = o->word == NO_WORD ? "" : machine.words[o->word].name;
        unsigned long long value = o->value, result = l->result;

        fprintf(out, "%*sthread %u: ", (int)l->thread * 4, "", l->thread);
        switch (o->kind) {
        case OPERATION_LOAD:
            fprintf(out, "load %s %s = %#llx%s\n", orders[o->order], name, result,
                    l->stale ? " (a newer store is there)" : "");
            break;
        case OPERATION_STORE:
            fprintf(out, "store %s %s := %#llx\n", orders[o->order], name, value);
            break;
        case OPERATION_FENCE: fprintf(out, "fence %s\n", orders[o->order]); break;
        case OPERATION_COMPARE_EXCHANGE:
            fprintf(out, "compare-exchange %s: was %#llx, to be %#llx\n", name, result, value);
            break;
        case OPERATION_EXCHANGE:
        case OPERATION_ADD:
            fprintf(out, "exchange %s: was %#llx, value %#llx\n", name, result, value);
            break;
        case OPERATION_PAUSE: fprintf(out, "pause\n"); break;
        case OPERATION_CHOOSE: fprintf(out, "choose %llu\n", result); break;
        case OPERATION_FLUSH: fprintf(out, "(%s := %#llx arrives)\n", name, value); break;
        case OPERATION_USE: fprintf(out, "use %s = %#llx\n", name, value); break;
        }
    }
    fclose(out);
    return text;
}

/* ---- weak memory */

static const struct message *weak_message(uint32_t shared, uint32_t time)
{
    for (uint32_t m = 0; m < machine.state.message_count; m++) {
        if (machine.state.messages[m].word == shared && machine.state.messages[m].time == time) {
            return &machine.state.messages[m];
        }
    }
    return NULL;
}

static uint64_t weak_value(uint32_t shared, uint32_t time)
{
    return time == 0 ? machine.words[machine.word_of_shared[shared]].initial
                     : weak_message(shared, time)->value;
}

static void weak_join(struct view *view, const struct view *more)
{
    for (uint32_t s = 0; s < SHARED; s++) {
        view->at[s] = view->at[s] < more->at[s] ? more->at[s] : view->at[s];
    }
}

/* A store becomes readable by all; whoever uses the word must not be able to read it. */
static void weak_append(uint32_t number, uint64_t value, enum seam_order order)
{
    struct state *state = &machine.state;
    struct thread *self = memory_self();
    uint32_t shared = machine.words[number].shared;
    struct message *message = &state->messages[state->message_count];

    if (self->current.at[shared] != state->last[shared]) {
        explorer_fail("two threads store to %s without knowing of each other",
                      machine.words[number].name);
    }
    NIGH_ASSERT(state->message_count < MESSAGES && state->last[shared] < UINT8_MAX);
    state->message_count++;
    self->current.at[shared] = self->acquired.at[shared] = ++state->last[shared];
    *message =
        (struct message){.value = value, .word = (uint8_t)shared, .time = state->last[shared]};
    message->view = order == SEAM_RELEASE ? self->current : self->released;
    message->view.at[shared] = message->time;
    memory_set(number, value);
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        for (uint32_t i = 0; i < state->threads[t].watch_count; i++) {
            const struct watch *watch = &state->threads[t].watches[i];

            if (watch->word == shared && t != machine.running && watch->expected != value) {
                explorer_fail("thread %u may read %#llx where it uses %s", t,
                              (unsigned long long)value, watch->what);
            }
        }
    }
}

static void weak_read(struct thread *thread, uint32_t shared, uint32_t time, enum seam_order order)
{
    const struct message *message = time == 0 ? NULL : weak_message(shared, time);

    if (thread->current.at[shared] < time) {
        thread->current.at[shared] = (uint8_t)time;
    }
    if (message != NULL) {
        weak_join(&thread->acquired, &message->view);
        if (order == SEAM_ACQUIRE || order == SEAM_FULL) {
            weak_join(&thread->current, &message->view);
        }
    }
    weak_join(&thread->acquired, &thread->current);
}

/* Read-modify-write: reads the last store, acquires and releases. */
static uint64_t weak_change(uint32_t number, const struct operation *operation)
{
    struct thread *self = memory_self();
    uint32_t shared = machine.words[number].shared;
    uint64_t was = memory_value(number);

    weak_read(self, shared, machine.state.last[shared], SEAM_FULL);
    if (operation->kind == OPERATION_COMPARE_EXCHANGE && was != operation->expected) {
        return was;
    }
    weak_append(number,
                operation->kind == OPERATION_ADD ? was + operation->value : operation->value,
                SEAM_RELEASE);
    return was;
}

static void weak_fence(struct thread *thread, enum seam_order order)
{
    thread->watch_count = 0;
    if (order == SEAM_ACQUIRE) {
        thread->current = thread->acquired;
    } else if (order == SEAM_RELEASE) {
        thread->released = thread->current;
    } else {
        weak_join(&thread->acquired, &machine.state.fences);
        machine.state.fences = thread->acquired;
        thread->current = thread->released = thread->acquired;
    }
}

/* ---- total store order */

static uint64_t tso_read(const struct thread *thread, uint32_t number)
{
    for (uint32_t i = thread->buffer_count; i-- > 0;) {
        if (thread->buffer[i].word == number) {
            return thread->buffer[i].value;
        }
    }
    return memory_value(number);
}

/* A value arrives in memory; whoever uses the word must not meet it. */
static void tso_arrive(uint32_t from, uint32_t number, uint64_t value)
{
    struct state *state = &machine.state;

    memory_set(number, value);
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        for (uint32_t i = 0; i < state->threads[t].watch_count; i++) {
            const struct watch *watch = &state->threads[t].watches[i];

            if (watch->word == machine.words[number].shared && t != from &&
                watch->expected != value) {
                explorer_fail("thread %u may read %#llx where it uses %s", t,
                              (unsigned long long)value, watch->what);
            }
        }
    }
}

static uint64_t tso_change(uint32_t number, const struct operation *operation)
{
    uint64_t was = memory_value(number);

    if (operation->kind == OPERATION_COMPARE_EXCHANGE && was != operation->expected) {
        return was;
    }
    tso_arrive(machine.running, number,
               operation->kind == OPERATION_ADD ? was + operation->value : operation->value);
    return was;
}

static void tso_flush(uint32_t number)
{
    struct thread *thread = &machine.state.threads[number];
    struct buffered first = thread->buffer[0];
    struct operation operation = {
        .kind = OPERATION_FLUSH, .word = first.word, .value = first.value};

    thread->buffer_count--;
    memmove(thread->buffer, thread->buffer + 1, thread->buffer_count * sizeof(first));
    memory_log(&operation, number, 0, false);
    tso_arrive(number, first.word, first.value);
}

/* ---- the seam */

/* Whether operations are on real memory: setting up, or outside of any exploration. */
static bool memory_is_real(void)
{
    return !machine.exploring || machine.running == NOBODY;
}

uint64_t seam_load(const volatile void *address, uint32_t size, enum seam_order order)
{
    struct word *word;
    uint32_t number;
    uint64_t value;

    if (!machine.exploring) {
        return memory_real_load(address, size);
    }
    word = memory_sized_word(address, size, &number);
    if (machine.running == NOBODY) {
        return memory_value(number);
    }
    memory_touch(word, false);
    if (word->shared == NO_WORD) {
        return memory_value(number);
    }
    if (machine.steps == EXPLORER_ALL_STEPS || (word->writers & ~(1u << machine.running)) != 0) {
        return machine_perform(OPERATION_LOAD, number, order, 0, 0);
    }
    value = machine.memory == EXPLORER_TSO ? tso_read(memory_self(), number) : memory_value(number);
    memory_log_now(OPERATION_LOAD, number, order, 0, value);
    return value;
}

/* A store: what it ends, and where it goes. */
static void memory_store(struct thread *thread, uint32_t number, uint64_t value,
                         enum seam_order order)
{
    if (machine.memory == EXPLORER_TSO || order == SEAM_RELEASE) {
        thread->watch_count = 0;
    }
    if (machine.words[number].shared == NO_WORD) {
        memory_set(number, value);
        return;
    }
    if (machine.memory == EXPLORER_WEAK) {
        weak_append(number, value, order);
        return;
    }
    NIGH_ASSERT(thread->buffer_count < BUFFERED);
    thread->buffer[thread->buffer_count++] =
        (struct buffered){.value = value, .word = (uint8_t)number};
}

void seam_store(volatile void *address, uint32_t size, uint64_t value, enum seam_order order)
{
    struct word *word;
    uint32_t number;

    if (size < 8) {
        value &= (UINT64_C(1) << (size * 8)) - 1;
    }
    if (memory_is_real()) {
        NIGH_ASSERT(!machine.exploring);
        memory_real_store(address, size, value);
        return;
    }
    word = memory_sized_word(address, size, &number);
    memory_touch(word, true);
    if (machine.steps == EXPLORER_ALL_STEPS && word->shared != NO_WORD) {
        machine_perform(OPERATION_STORE, number, order, value, 0);
        return;
    }
    if (word->shared != NO_WORD) {
        memory_log_now(OPERATION_STORE, number, order, value, 0);
    }
    memory_store(memory_self(), number, value, order);
}

void seam_fence(enum seam_order order)
{
    if (memory_is_real()) {
        return;
    }
    if (machine.steps == EXPLORER_ALL_STEPS ||
        (order == SEAM_FULL &&
         (machine.memory == EXPLORER_WEAK || memory_self()->buffer_count > 0))) {
        machine_perform(OPERATION_FENCE, NO_WORD, order, 0, 0);
        return;
    }
    memory_log_now(OPERATION_FENCE, NO_WORD, order, 0, 0);
    if (machine.memory == EXPLORER_WEAK) {
        weak_fence(memory_self(), order);
    }
}

static uint64_t memory_change(volatile void *address, uint32_t size, enum operation_kind kind,
                              uint64_t value, uint64_t expected)
{
    struct word *word;
    uint32_t number;
    uint64_t was;

    if (memory_is_real()) {
        was = memory_real_load(address, size);
        NIGH_ASSERT(!machine.exploring);
        if (kind != OPERATION_COMPARE_EXCHANGE || was == expected) {
            memory_real_store(address, size, kind == OPERATION_ADD ? was + value : value);
        }
        return was;
    }
    word = memory_sized_word(address, size, &number);
    memory_touch(word, false);
    memory_touch(word, true);
    if (word->shared != NO_WORD) {
        return machine_perform(kind, number, SEAM_FULL, value, expected);
    }
    was = memory_value(number);
    if (kind != OPERATION_COMPARE_EXCHANGE || was == expected) {
        memory_set(number, kind == OPERATION_ADD ? was + value : value);
    }
    return was;
}

bool seam_compare_exchange(volatile void *address, uint32_t size, uint64_t *expected,
                           uint64_t value)
{
    uint64_t was = memory_change(address, size, OPERATION_COMPARE_EXCHANGE, value, *expected);
    bool done = was == *expected;

    *expected = was;
    return done;
}

uint64_t seam_exchange(volatile void *address, uint32_t size, uint64_t value, bool add)
{
    return memory_change(address, size, add ? OPERATION_ADD : OPERATION_EXCHANGE, value, 0);
}

/* ---- what scenarios say */

void explorer_use(const uint64_t *address, uint64_t expected, const char *what)
{
    struct thread *self = memory_self();
    struct word *word;
    struct watch *watch;
    uint32_t number;

    word = memory_sized_word(address, sizeof(*address), &number);
    memory_touch(word, false);
    memory_log_now(OPERATION_USE, number, SEAM_PLAIN, expected, 0);
    if (word->shared == NO_WORD || machine.memory == EXPLORER_TSO) {
        uint64_t value = word->shared == NO_WORD ? memory_value(number) : tso_read(self, number);

        if (value != expected) {
            explorer_fail("thread %u reads %#llx where it uses %s", machine.running,
                          (unsigned long long)value, what);
        }
    }
    if (word->shared == NO_WORD) {
        return;
    }
    for (uint32_t time = self->current.at[word->shared];
         machine.memory == EXPLORER_WEAK && time <= machine.state.last[word->shared]; time++) {
        uint64_t value = weak_value(word->shared, time);

        if (value != expected) {
            explorer_fail("thread %u may read %#llx where it uses %s", machine.running,
                          (unsigned long long)value, what);
        }
    }
    NIGH_ASSERT(self->watch_count < WATCHES);
    watch = &self->watches[self->watch_count++];
    *watch = (struct watch){.expected = expected, .what = what, .word = (uint8_t)word->shared};
}

void explorer_pause(void)
{
    machine_perform(OPERATION_PAUSE, NO_WORD, SEAM_PLAIN, 0, 0);
}

uint32_t explorer_choose(void)
{
    return (uint32_t)machine_perform(OPERATION_CHOOSE, NO_WORD, SEAM_PLAIN, 0, 0);
}

void explorer_forget(uint64_t summary)
{
    memory_self()->history = hash_u64(summary ^ HASH_K3);
}

/* ---- the search's side */

void memory_thread_ends(void)
{
    memory_self()->history = hash_u64(memory_self()->history ^ HASH_K2);
}

static uint64_t memory_mix(uint64_t hash, uint64_t value)
{
    return hash_mix(hash ^ HASH_K0, value ^ HASH_K1) + hash;
}

/*
 * The oldest store to each shared word that some thread may still read: what came before can make
 * no difference, and times count from there.
 */
static void weak_oldest(struct view *oldest)
{
    memset(oldest, UINT8_MAX, sizeof(*oldest));
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        const struct thread *thread = &machine.state.threads[t];

        for (uint32_t s = 0; s < machine.shared_count; s++) {
            if (!thread->finished && thread->current.at[s] < oldest->at[s]) {
                oldest->at[s] = thread->current.at[s];
            }
        }
    }
}

static uint64_t weak_view_hash(const struct view *view, const struct view *oldest)
{
    uint64_t hash = 0, eight;
    uint8_t at[(SHARED + 7) / 8 * 8] = {0};

    for (uint32_t s = 0; s < machine.shared_count; s++) {
        at[s] = view->at[s] > oldest->at[s] ? (uint8_t)(view->at[s] - oldest->at[s]) : 0;
    }
    for (uint32_t i = 0; i < machine.shared_count; i += 8) {
        memcpy(&eight, at + i, sizeof(eight));
        hash = memory_mix(hash, eight);
    }
    return hash;
}

static uint64_t weak_hash(void)
{
    const struct state *state = &machine.state;
    struct view oldest;
    uint64_t hash;

    weak_oldest(&oldest);
    hash = weak_view_hash(&state->fences, &oldest);
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        const struct thread *thread = &state->threads[t];

        if (!thread->finished) {
            hash = memory_mix(hash, weak_view_hash(&thread->current, &oldest));
            hash = memory_mix(hash, weak_view_hash(&thread->acquired, &oldest));
            hash = memory_mix(hash, weak_view_hash(&thread->released, &oldest));
        }
    }
    for (uint32_t s = 0; s < machine.shared_count; s++) {
        uint32_t number = machine.word_of_shared[s];

        /* The last value, for whoever looks at the end; the initial one if it can be read. */
        hash = memory_mix(hash, memory_value(number));
        hash += oldest.at[s] == 0 ? hash_u64(s + 1) : 0;
    }
    for (uint32_t m = 0; m < state->message_count; m++) {
        const struct message *message = &state->messages[m];

        if (message->time >= oldest.at[message->word]) {
            uint64_t one = memory_mix(message->word, message->value);

            /* Summed: in which order stores to different words came, nobody can tell. */
            one = memory_mix(one, (uint64_t)message->time - oldest.at[message->word]);
            hash += memory_mix(one, weak_view_hash(&message->view, &oldest));
        }
    }
    return hash;
}

uint64_t memory_hash(void)
{
    const struct state *state = &machine.state;
    uint64_t hash = machine.memory == EXPLORER_WEAK ? weak_hash() : 0;

    for (uint32_t s = 0; s < machine.shared_count && machine.memory == EXPLORER_TSO; s++) {
        hash = memory_mix(hash, memory_value(machine.word_of_shared[s]));
    }
    for (uint32_t t = 0; t < machine.thread_count; t++) {
        const struct thread *thread = &state->threads[t];

        hash = memory_mix(hash, thread->history + thread->finished);
        hash = memory_mix(hash, (uint64_t)thread->buffer_count << 8 | thread->watch_count);
        for (uint32_t i = 0; i < thread->buffer_count; i++) {
            hash = memory_mix(hash, thread->buffer[i].word);
            hash = memory_mix(hash, thread->buffer[i].value);
        }
        for (uint32_t i = 0; i < thread->watch_count; i++) {
            hash = memory_mix(hash, thread->watches[i].word);
            hash = memory_mix(hash, thread->watches[i].expected);
        }
    }
    return hash;
}

static void memory_add(struct choice *choices, uint32_t room, uint32_t *count, uint32_t thread,
                       enum operation_kind kind, uint32_t pick)
{
    NIGH_ASSERT(*count < room);
    choices[(*count)++] = (struct choice){(uint8_t)thread, kind, pick};
}

static void memory_thread_choices(uint32_t number, struct choice *choices, uint32_t room,
                                  uint32_t *count)
{
    const struct thread *thread = &machine.state.threads[number];
    const struct operation *pending = &thread->pending;
    bool drained = thread->buffer_count == 0;
    uint32_t shared;

    switch (pending->kind) {
    case OPERATION_LOAD:
        if (machine.memory == EXPLORER_TSO) {
            memory_add(choices, room, count, number, pending->kind, 0);
            break;
        }
        shared = machine.words[pending->word].shared;
        for (uint32_t time = thread->current.at[shared]; time <= machine.state.last[shared];
             time++) {
            memory_add(choices, room, count, number, pending->kind, time);
        }
        break;
    case OPERATION_CHOOSE:
        memory_add(choices, room, count, number, pending->kind, 0);
        memory_add(choices, room, count, number, pending->kind, 1);
        break;
    case OPERATION_STORE:
    case OPERATION_PAUSE: memory_add(choices, room, count, number, pending->kind, 0); break;
    default:
        if (drained || (pending->kind == OPERATION_FENCE && pending->order != SEAM_FULL)) {
            memory_add(choices, room, count, number, pending->kind, 0);
        }
        break;
    }
}

uint32_t memory_choices(struct choice *choices, uint32_t room)
{
    uint32_t count = 0;

    for (uint32_t t = 0; t < machine.thread_count; t++) {
        if (machine.state.threads[t].buffer_count > 0) {
            memory_add(choices, room, &count, t, OPERATION_FLUSH, 0);
        }
        if (!machine.state.threads[t].finished) {
            memory_thread_choices(t, choices, room, &count);
        }
    }
    return count;
}

/* Carries out what a thread waits for; the thread counts as running. */
static uint64_t memory_carry_out(struct thread *thread, uint32_t pick)
{
    const struct operation *pending = &thread->pending;
    uint32_t shared = pending->word == NO_WORD ? 0 : machine.words[pending->word].shared;
    uint64_t value;

    switch (pending->kind) {
    case OPERATION_LOAD:
        if (machine.memory == EXPLORER_TSO) {
            return tso_read(thread, pending->word);
        }
        value = weak_value(shared, pick);
        weak_read(thread, shared, pick, pending->order);
        return value;
    case OPERATION_FENCE:
        if (machine.memory == EXPLORER_WEAK) {
            weak_fence(thread, pending->order);
        }
        return 0;
    case OPERATION_STORE:
        memory_store(thread, pending->word, pending->value, pending->order);
        return 0;
    case OPERATION_COMPARE_EXCHANGE:
    case OPERATION_EXCHANGE:
    case OPERATION_ADD:
        thread->watch_count = 0;
        return machine.memory == EXPLORER_TSO ? tso_change(pending->word, pending)
                                              : weak_change(pending->word, pending);
    default: return pick;
    }
}

bool memory_apply(const struct choice *choice)
{
    struct thread *thread = &machine.state.threads[choice->thread];
    bool stale;

    if (choice->kind == OPERATION_FLUSH) {
        tso_flush(choice->thread);
        if (thread->finished || thread->buffer_count > 0 ||
            thread->pending.kind != OPERATION_FENCE || machine.violated ||
            machine.steps == EXPLORER_ALL_STEPS) {
            return false;
        }
        /* The fence that waited for this needs no step of its own. */
        thread->history = memory_mix(thread->history, OPERATION_FENCE);
        memory_log(&thread->pending, choice->thread, 0, false);
        return true;
    }
    stale = machine.memory == EXPLORER_WEAK && choice->kind == OPERATION_LOAD &&
            choice->pick < machine.state.last[machine.words[thread->pending.word].shared];
    machine.running = choice->thread;
    thread->result = memory_carry_out(thread, choice->pick);
    machine.running = NOBODY;
    thread->history = memory_mix(thread->history, thread->result ^ (uint64_t)choice->kind << 56);
    memory_log(&thread->pending, choice->thread, thread->result, stale);
    return !machine.violated;
}
