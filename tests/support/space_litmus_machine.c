/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may come out of a litmus test: a machine that does all that docs/spaces.md lets happen, and
 * a walk through all of its states. It has one memory, which all see at once (so it is multi-copy
 * atomic), and for each thread a store buffer, which is emptied in the order that the kinds of
 * records have: of one block in theirs, of several in any, but for fences and unlocks.
 */
#include "support/space_litmus.h"

#include <stdlib.h>
#include <string.h>

#define MACHINE_BUFFER (LITMUS_STEPS + 1) /* a put is two */
#define MACHINE_SLOTS  (1u << 14)
#define TOLD           LITMUS_VARIABLES

struct entry {
    uint8_t kind, variable, value;
};

struct thread {
    uint8_t at;          /* in its program */
    uint8_t count;       /* in its buffer */
    uint8_t unit, holds; /* what it holds: enum litmus_kind, or none */
    struct entry buffer[MACHINE_BUFFER];
};

/* Without padding: states are compared by their bytes. */
struct state {
    struct thread threads[LITMUS_THREADS];
    uint64_t outcome;
    uint8_t memory[LITMUS_VARIABLES + 1];
    uint8_t reserved[4];
};

_Static_assert(sizeof(struct state) ==
                   LITMUS_THREADS * (4 + 3 * MACHINE_BUFFER) + 8 + LITMUS_VARIABLES + 5,
               "no padding");

struct machine {
    const struct litmus_program *program;
    bool in_a_block;
    struct litmus_outcomes *outcomes;
    struct state *stack, *slots;
    uint8_t *used;
    uint64_t depth, moves;
    bool has_failed;
};

static uint8_t unit_of(const struct machine *machine, uint8_t variable)
{
    return machine->in_a_block ? 0 : variable;
}

/* ---- where it has been ---------------------------------------------------- */

static uint64_t hash_of(const struct state *state)
{
    const uint8_t *bytes = (const uint8_t *)state;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (uint32_t n = 0; n < sizeof(*state); n++) {
        hash = (hash ^ bytes[n]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 29;
}

static void visit(struct machine *machine, const struct state *state)
{
    uint32_t slot = (uint32_t)hash_of(state) % MACHINE_SLOTS;

    machine->moves++;
    while (machine->used[slot]) {
        if (memcmp(&machine->slots[slot], state, sizeof(*state)) == 0) {
            return;
        }
        slot = (slot + 1) % MACHINE_SLOTS;
    }
    if (machine->outcomes->states == MACHINE_SLOTS / 2) {
        machine->has_failed = true;
        return;
    }
    machine->outcomes->states++;
    machine->used[slot] = 1;
    machine->slots[slot] = *state;
    machine->stack[machine->depth++] = *state;
}

/* ---- steps ---------------------------------------------------------------- */

/* Whether others, or the thread's own lock to read, keep it from a block. */
static bool is_kept_from(const struct state *state, uint32_t thread, uint8_t unit, bool writes)
{
    for (uint32_t n = 0; n < LITMUS_THREADS; n++) {
        const struct thread *other = &state->threads[n];

        if (other->holds == LITMUS_NONE || other->unit != unit) {
            continue;
        }
        if (n == thread ? writes && other->holds == LITMUS_LOCK_READ
                        : writes || other->holds == LITMUS_LOCK_WRITE) {
            return true;
        }
    }
    return false;
}

/* Whether something of that block, or if it writes a fence, is before a place of the buffer. */
static bool is_behind(const struct machine *machine, const struct thread *thread, uint32_t place,
                      uint8_t unit, bool writes)
{
    for (uint32_t n = 0; n < place; n++) {
        const struct entry *entry = &thread->buffer[n];

        if (entry->kind == LITMUS_STORE_FENCE ? writes
                                              : unit_of(machine, entry->variable) == unit) {
            return true;
        }
    }
    return false;
}

static bool has_write_before(const struct thread *thread, uint32_t place)
{
    for (uint32_t n = 0; n < place; n++) {
        if (thread->buffer[n].kind == LITMUS_WRITE) {
            return true;
        }
    }
    return false;
}

/* Carries out what is at a place of a thread's buffer, if that may be now. */
static void drain(struct machine *machine, const struct state *from, uint32_t number,
                  uint32_t place)
{
    struct state state = *from;
    struct thread *thread = &state.threads[number];
    struct entry entry = thread->buffer[place];

    switch (entry.kind) {
    case LITMUS_STORE_FENCE:
        if (has_write_before(thread, place)) {
            return;
        }
        break;
    case LITMUS_UNLOCK:
        if (place > 0) {
            return;
        }
        thread->holds = LITMUS_NONE;
        thread->unit = 0;
        break;
    default:
        if (is_behind(machine, thread, place, unit_of(machine, entry.variable), true) ||
            is_kept_from(&state, number, unit_of(machine, entry.variable), true)) {
            return;
        }
        state.memory[entry.variable] = entry.value;
        break;
    }
    thread->count--;
    memmove(&thread->buffer[place], &thread->buffer[place + 1],
            sizeof(struct entry) * (thread->count - place));
    memset(&thread->buffer[thread->count], 0, sizeof(struct entry));
    visit(machine, &state);
}

static void say(struct thread *thread, uint8_t kind, const struct litmus_op *op)
{
    thread->buffer[thread->count++] = (struct entry){
        .kind = kind,
        .variable = kind == LITMUS_STORE_FENCE ? 0 : op->variable,
        .value = kind == LITMUS_WRITE ? op->value : 0,
    };
}

/* Notes what a read of the op that a thread is at gives. */
static void see(const struct machine *machine, struct state *state, uint32_t number, uint8_t value)
{
    uint32_t read = 0;

    for (uint32_t n = 0; n < state->threads[number].at; n++) {
        read += litmus_is_read(machine->program->ops[number][n].kind);
    }
    state->outcome |= litmus_saw(machine->program, number, read, value);
}

static bool read_variable(const struct machine *machine, struct state *state, uint32_t number,
                          const struct litmus_op *op)
{
    const struct thread *thread = &state->threads[number];

    for (uint32_t n = thread->count; n > 0; n--) {
        const struct entry *entry = &thread->buffer[n - 1];

        if (entry->kind == LITMUS_WRITE && entry->variable == op->variable) {
            see(machine, state, number, entry->value);
            return true;
        }
    }
    if (is_kept_from(state, number, unit_of(machine, op->variable), false)) {
        return false;
    }
    see(machine, state, number, state->memory[op->variable]);
    return true;
}

static bool change_variable(const struct machine *machine, struct state *state, uint32_t number,
                            const struct litmus_op *op)
{
    const struct thread *thread = &state->threads[number];
    uint8_t unit = unit_of(machine, op->variable);
    uint8_t *value = &state->memory[op->variable];

    if (is_behind(machine, thread, thread->count, unit, true) ||
        is_kept_from(state, number, unit, true)) {
        return false;
    }
    see(machine, state, number, *value);
    if (op->kind == LITMUS_ADD) {
        *value = (uint8_t)(*value + op->value);
    } else if (op->kind == LITMUS_EXCHANGE || *value == 0) {
        *value = op->value;
    }
    return true;
}

static bool lock(const struct machine *machine, struct state *state, uint32_t number,
                 const struct litmus_op *op)
{
    struct thread *thread = &state->threads[number];
    uint8_t unit = unit_of(machine, op->variable);

    if (thread->count > 0 || is_kept_from(state, number, unit, op->kind != LITMUS_LOCK_READ)) {
        return false;
    }
    thread->holds = op->kind == LITMUS_LOCK_READ ? LITMUS_LOCK_READ : LITMUS_LOCK_WRITE;
    thread->unit = unit;
    if (op->kind == LITMUS_TRY_LOCK) {
        see(machine, state, number, 1);
    }
    return true;
}

/* What the thread does next, if it may now. */
static bool act(const struct machine *machine, struct state *state, uint32_t number,
                const struct litmus_op *op)
{
    struct thread *thread = &state->threads[number];

    switch (op->kind) {
    case LITMUS_WRITE: say(thread, LITMUS_WRITE, op); return true;
    case LITMUS_PUT:
        say(thread, LITMUS_STORE_FENCE, op);
        say(thread, LITMUS_WRITE, op);
        return true;
    case LITMUS_STORE_FENCE: say(thread, LITMUS_STORE_FENCE, op); return true;
    case LITMUS_UNLOCK:
        if (thread->holds != LITMUS_NONE) {
            say(thread, LITMUS_UNLOCK, op);
        }
        return true;
    case LITMUS_READ:
    case LITMUS_GET: return read_variable(machine, state, number, op);
    case LITMUS_FENCE:
    case LITMUS_FLUSH: return thread->count == 0;
    case LITMUS_ADD:
    case LITMUS_EXCHANGE:
    case LITMUS_SWAP_ZERO: return change_variable(machine, state, number, op);
    case LITMUS_TRY_LOCK:
    case LITMUS_LOCK_READ:
    case LITMUS_LOCK_WRITE: return lock(machine, state, number, op);
    case LITMUS_TELL: state->memory[TOLD] = 1; return true;
    case LITMUS_HEAR: see(machine, state, number, state->memory[TOLD]); return true;
    default: return false;
    }
}

static void note(struct machine *machine, const struct state *state)
{
    struct litmus_outcomes *outcomes = machine->outcomes;
    uint64_t outcome = state->outcome;

    for (uint32_t n = 0; n < LITMUS_VARIABLES; n++) {
        outcome |= litmus_ends(n, state->memory[n]);
    }
    if (litmus_may_be(outcomes, outcome)) {
        return;
    }
    if (outcomes->count == LITMUS_OUTCOMES) {
        machine->has_failed = true;
        return;
    }
    outcomes->outcomes[outcomes->count++] = outcome;
}

static bool has_ended(const struct machine *machine, const struct state *state)
{
    for (uint32_t n = 0; n < machine->program->threads; n++) {
        if (state->threads[n].count > 0 || state->threads[n].at < machine->program->counts[n]) {
            return false;
        }
    }
    return true;
}

/* Whatever can be next is put on the stack, if it is new. */
static void walk(struct machine *machine, const struct state *from)
{
    uint64_t moves = machine->moves;

    for (uint32_t number = 0; number < machine->program->threads; number++) {
        const struct thread *thread = &from->threads[number];
        struct state state = *from;

        for (uint32_t place = 0; place < thread->count; place++) {
            drain(machine, from, number, place);
        }
        if (thread->at < machine->program->counts[number] &&
            act(machine, &state, number, &machine->program->ops[number][thread->at])) {
            state.threads[number].at++;
            visit(machine, &state);
        }
        /* What is tried may be refused, whoever has it: its time may be over. It gives 0. */
        if (thread->at < machine->program->counts[number] && thread->count == 0 &&
            machine->program->ops[number][thread->at].kind == LITMUS_TRY_LOCK) {
            state = *from;
            state.threads[number].at++;
            visit(machine, &state);
        }
    }
    if (has_ended(machine, from)) {
        note(machine, from);
    } else if (moves == machine->moves) {
        machine->has_failed = true; /* it stands still */
    }
}

bool litmus_allowed(const struct litmus_program *program, bool in_a_block,
                    struct litmus_outcomes *outcomes)
{
    struct machine machine = {
        .program = program,
        .in_a_block = in_a_block,
        .outcomes = outcomes,
        .stack = malloc(sizeof(struct state) * MACHINE_SLOTS / 2),
        .slots = malloc(sizeof(struct state) * MACHINE_SLOTS),
        .used = calloc(MACHINE_SLOTS, 1),
    };
    struct state state = {0};

    memset(outcomes, 0, sizeof(*outcomes));
    machine.has_failed = machine.stack == NULL || machine.slots == NULL || machine.used == NULL;
    if (!machine.has_failed) {
        visit(&machine, &state);
    }
    while (machine.depth > 0 && !machine.has_failed) {
        state = machine.stack[--machine.depth];
        walk(&machine, &state);
    }
    free(machine.stack);
    free(machine.slots);
    free(machine.used);
    return !machine.has_failed;
}
