/* SPDX-License-Identifier: Apache-2.0 */
/* See engine.h: mallocs and frees, at a home and of it. */
#include "space/engine_internal.h"

#include <string.h>

/* ---- at the home ---------------------------------------------------------- */

static struct engine_job *find_room(struct space_engine *engine, uint8_t seat)
{
    struct engine_job *room = NULL;
    uint32_t count = 0;

    for (uint32_t n = 0; n < LIMIT_SPACE_JOBS; n++) {
        struct engine_job *job = &engine->jobs[n];

        count += job->is_used && job->seat == seat;
        room = job->is_used ? room : job;
    }
    return seat != engine->config.self && count >= LIMIT_SPACE_JOBS_EACH ? NULL : room;
}

static void answer(struct space_engine *engine, const struct engine_job *job, nigh_status status,
                   uint64_t address)
{
    struct space_wire wire = {
        .kind = SPACE_WIRE_ANSWER,
        .event = job->kind == SPACE_OP_ALLOC ? SPACE_WIRE_ALLOC : SPACE_WIRE_FREE,
        .address = address,
        .operands = {(uint64_t)(int64_t)status, job->ticket},
    };

    engine_say_alone(engine, job->seat, &wire, job->record);
}

/* Whom to tell: a client here, or a seat that is linked. */
static bool is_heard(const struct space_engine *engine, const struct engine_job *job)
{
    return job->op != NULL || (job->seat != SPACE_NOBODY && job->seat != engine->config.self &&
                               engine->seats[job->seat].is_met);
}

static void end_job(struct space_engine *engine, struct engine_job *job, nigh_status status)
{
    struct space_op *op = job->op;
    uint64_t address = engine_address(engine, job->first);

    job->is_used = false;
    engine->jobs_used--;
    if (op != NULL) {
        op->value = job->kind == SPACE_OP_ALLOC ? address : 0;
        engine_end_op(engine, op, status);
    } else if (is_heard(engine, job)) {
        answer(engine, job, status, address);
    }
}

/* Zeroed, and then given: a log that has them has them so. */
static void clear_blocks(struct space_engine *engine, struct engine_job *job, uint32_t count)
{
    static const uint64_t zeroes[LIMIT_SPACE_BLOCK_BYTES / 8];
    uint64_t first = job->first + job->at;

    for (uint64_t n = first; n < first + count; n++) {
        space_bytes_store(space_bytes_of(&engine->config.home, n), 0, zeroes,
                          1u << engine->config.home.shift);
        engine->lives[n] = engine->life;
        engine->before[n] = (uint32_t)(n - job->first);
    }
    (void)engine_log_alloc(engine, first, count, job->at);
    for (uint64_t n = first; n < first + count; n++) {
        (void)engine_home_here(engine, n, SPACE_HOME_ALLOC);
    }
    job->at += count;
}

/* ---- frees, block by block ------------------------------------------------ */

static void release_step(struct space_engine *engine, struct engine_step *step)
{
    step->job->steps--;
    step->job = NULL;
    step->next = engine->steps_free;
    engine->steps_free = (uint32_t)(step - engine->steps) + 1;
    engine->steps_used--;
}

/* false: there was no room for it to wait, and it is to be tried again. */
static bool end_step(struct space_engine *engine, struct engine_step *step)
{
    struct engine_job *job = step->job;

    if (step->op.status == NIGH_BUSY) {
        step->next = job->again;
        job->again = (uint32_t)(step - engine->steps) + 1;
        return false;
    }
    release_step(engine, step);
    return true;
}

static void step_ended(struct space_op *op, uint64_t now_us)
{
    struct engine_step *step = container_of(op, struct engine_step, op);
    struct space_engine *engine = step->job->engine;

    (void)now_us;
    (void)end_step(engine, step);
    engine_wake(engine);
}

/*
 * The first block alone: as long as it is not free nothing of the rest is, so that a start tells
 * what a free has left from what a malloc gave (engine_recover.c). Then many at once, as far as
 * what others have under way leaves each job one.
 */
static bool may_begin_step(const struct space_engine *engine, const struct engine_job *job)
{
    return job->at < job->count &&
           (job->steps == 0 ||
            (job->at > 1 && job->steps < LIMIT_SPACE_JOB_STEPS && engine_has_letters(engine) &&
             engine->steps_used < LIMIT_SPACE_STEPS - LIMIT_SPACE_JOBS));
}

static struct engine_step *begin_step(struct space_engine *engine, struct engine_job *job)
{
    uint32_t n = engine->steps_free;
    struct engine_step *step;

    if (n != 0) {
        engine->steps_free = engine->steps[n - 1].next;
    } else {
        NIGH_ASSERT(engine->steps_new < LIMIT_SPACE_STEPS);
        n = ++engine->steps_new;
    }
    step = &engine->steps[n - 1];
    *step = (struct engine_step){
        .job = job,
        .op = {.kind = OP_FREE_BLOCK,
               .address = engine_address(engine, job->first + job->at),
               .deadline_us = UINT64_MAX,
               .ended = step_ended},
    };
    engine->steps_used++;
    job->steps++;
    job->at++;
    return step;
}

/* NULL: none, before one that waits has ended. */
static struct engine_step *next_step(struct space_engine *engine, struct engine_job *job)
{
    struct engine_step *step;

    if (job->again == 0) {
        return may_begin_step(engine, job) ? begin_step(engine, job) : NULL;
    }
    step = &engine->steps[job->again - 1];
    job->again = step->next;
    return step;
}

/* FREE of one block: done, or it waits, for who has or holds it. false: next turn. */
static bool try_step(struct space_engine *engine, struct engine_step *step)
{
    enum engine_tried tried = engine_try_home(engine, &step->op);

    if (tried != TRIED_ENDED) {
        tried = engine_wait(engine, &step->op, tried);
    }
    return tried != TRIED_ENDED || end_step(engine, step);
}

static void free_blocks(struct space_engine *engine, struct engine_job *job, uint32_t *budget)
{
    while (*budget > 0 && engine_log_has_room(engine)) {
        struct engine_step *step = next_step(engine, job);

        if (step == NULL) {
            return;
        }
        --*budget;
        if (!try_step(engine, step)) {
            return;
        }
    }
}

/* ---- both ----------------------------------------------------------------- */

static bool is_done(const struct engine_job *job)
{
    return job->at == job->count && job->steps == 0;
}

static void do_blocks(struct space_engine *engine, struct engine_job *job, uint32_t *budget)
{
    if (job->kind == SPACE_OP_FREE) {
        free_blocks(engine, job, budget);
    } else if (!is_done(job) && engine_log_has_room(engine)) {
        uint32_t count = (uint32_t)min_u64(job->count - job->at, *budget);

        *budget -= count;
        clear_blocks(engine, job, count);
    }
    job->record = is_done(job) && job->record == 0 ? engine_log_last(engine) : job->record;
}

/* A client here is told once it is durable: sync. Who is elsewhere is told behind that. */
static bool must_wait(const struct space_engine *engine, const struct engine_job *job)
{
    return is_done(job) && job->op != NULL && engine->log.is_sync &&
           !engine_is_durable(engine, job->record);
}

/* There is something to be done of it before anything comes. */
static bool is_ready(const struct space_engine *engine, const struct engine_job *job)
{
    return is_done(job)
               ? !must_wait(engine, job)
               : engine_log_has_room(engine) &&
                     (job->kind == SPACE_OP_ALLOC ||
                      (job->again != 0 ? engine_has_place(engine) : may_begin_step(engine, job)));
}

/* Goes on with it; `budget` is of blocks. */
static void go_on(struct space_engine *engine, struct engine_job *job, uint32_t *budget)
{
    do_blocks(engine, job, budget);
    if (!is_done(job) || must_wait(engine, job)) {
        return;
    }
    if (job->kind == SPACE_OP_ALLOC && !is_heard(engine, job)) {
        /* Nobody would ever free it. */
        job->kind = SPACE_OP_FREE;
        job->seat = SPACE_NOBODY;
        job->at = job->record = 0;
        return;
    }
    if (job->kind == SPACE_OP_FREE) {
        space_allocator_give(&engine->allocator, job->first);
    } else {
        space_allocator_keep(&engine->allocator, job->first);
    }
    end_job(engine, job, NIGH_OK);
}

static void put_job(struct space_engine *engine, struct engine_job *room,
                    const struct engine_job *job)
{
    *room = *job;
    room->engine = engine;
    room->is_used = true;
    engine->jobs_used++;
}

/* What a start found that is of no malloc, and nobody has freed since: what was given since then is
 * of one. */
static bool is_leftover(const struct space_engine *engine, uint64_t number)
{
    const struct space_log_block *block = &engine->log.home[number];

    return block->state != SPACE_LOG_IS_FREE && block->run == 0 &&
           space_allocator_length(&engine->allocator, number) != 0;
}

/* Frees that had not come to their end before a start do so, some at a time. true: there is more to
 * look at. */
static bool take_leftovers(struct space_engine *engine)
{
    uint64_t most = min_u64(engine->leftover_end, engine->leftover_at + LIMIT_SPACE_OPEN_BLOCKS);

    for (; engine->leftover_at < most; engine->leftover_at++) {
        uint64_t first = engine->leftover_at;
        struct engine_job rest = {.kind = SPACE_OP_FREE, .seat = SPACE_NOBODY, .first = first};
        struct engine_job *room;

        if (!is_leftover(engine, first)) {
            continue;
        }
        room = find_room(engine, SPACE_NOBODY);
        if (room == NULL) {
            return false;
        }
        rest.count = space_allocator_length(&engine->allocator, first);
        space_allocator_leave(&engine->allocator, first);
        put_job(engine, room, &rest);
    }
    return engine->leftover_at < engine->leftover_end;
}

bool engine_jobs_turn(struct space_engine *engine)
{
    uint32_t budget = LIMIT_SPACE_JOB_BLOCKS;
    bool more;

    if (!engine->term.is_open) {
        return false;
    }
    more = take_leftovers(engine);
    for (uint32_t n = 0; n < LIMIT_SPACE_JOBS && engine->jobs_used > 0 && budget > 0; n++) {
        struct engine_job *job = &engine->jobs[(engine->job_next + n) % LIMIT_SPACE_JOBS];

        if (job->is_used) {
            go_on(engine, job, &budget);
            more |=
                job->is_used ? is_ready(engine, job) : engine->leftover_at < engine->leftover_end;
        }
    }
    engine->job_next++;
    return more || budget == 0;
}

/* Blocks of which the first has an address that is a multiple of that; no address of a home is one
 * of more than has room for its memory. */
static uint64_t take_blocks(struct space_engine *engine, uint64_t blocks, uint64_t align)
{
    uint64_t size = engine->config.home.mask + 1;

    if (align > UINT64_C(1) << engine->place_bits) {
        return SPACE_NO_BLOCK;
    }
    return space_allocator_take_aligned(&engine->allocator, blocks,
                                        align <= size ? 1 : align / size);
}

/* What is to be done, or why not. `operands` as of an op. */
static nigh_status plan(struct space_engine *engine, uint8_t kind, uint64_t address,
                        const uint64_t operands[2], struct engine_job *job)
{
    uint64_t mask = engine->config.home.mask, span = engine->config.home.span;

    if (kind == SPACE_OP_ALLOC) {
        job->count = operands[0] > span ? 0 : (operands[0] + mask) >> engine->config.home.shift;
        job->first = take_blocks(engine, job->count, operands[1]);
        if (job->first == SPACE_NO_BLOCK) {
            return NIGH_OUT_OF_MEMORY;
        }
        space_allocator_leave(&engine->allocator, job->first); /* nobody frees it before its time */
        return NIGH_OK;
    }
    job->first = engine_number(engine, address);
    if (!engine_is_current(engine, address)) {
        return NIGH_NODE_LOST;
    }
    job->count = space_allocator_length(&engine->allocator, job->first);
    if (job->count == 0) {
        return NIGH_INVALID;
    }
    /* It would wait for who waits for it. */
    if (operands[0] > address &&
        (operands[0] - address) >> engine->config.home.shift < job->count) {
        return NIGH_INVALID;
    }
    space_allocator_leave(&engine->allocator, job->first);
    return NIGH_OK;
}

static nigh_status begin(struct space_engine *engine, const struct engine_job *asked,
                         uint64_t address, const uint64_t operands[2])
{
    struct engine_job *job = find_room(engine, asked->seat), next = *asked;
    nigh_status status =
        job == NULL ? NIGH_BUSY : plan(engine, asked->kind, address, operands, &next);

    if (status == NIGH_OK) {
        uint32_t budget = LIMIT_SPACE_JOB_BLOCKS;

        put_job(engine, job, &next);
        if (engine->term.is_open && job->op == NULL) {
            go_on(engine, job, &budget);
        }
        engine_wake(engine);
    }
    return status;
}

/* ---- clients of this node ------------------------------------------------- */

static enum engine_tried ask_far(struct space_engine *engine, struct space_op *op, uint8_t home)
{
    struct space_wire wire = {
        .kind = op->kind == SPACE_OP_ALLOC ? SPACE_WIRE_ALLOC : SPACE_WIRE_FREE,
        .address = op->address,
    };

    if (!engine->seats[home].is_met || !engine->seats[home].member.cache.is_open) {
        return engine_wait(engine, op, TRIED_STARVES); /* until that home is open */
    }
    op->ticket = ++engine->ticket;
    if (op->kind == SPACE_OP_ALLOC && op->operands[1] > engine->config.home.mask + 1) {
        wire.why = (uint8_t)__builtin_ctzll(op->operands[1]);
    }
    wire.operands[0] = op->operands[0];
    wire.operands[1] = op->ticket;
    op->state = OP_FAR;
    list_push_back(&engine->far, &op->node);
    engine->stats.waiting++;
    engine_say_alone(engine, home, &wire, 0);
    return TRIED_WAITS;
}

enum engine_tried engine_begin_job(struct space_engine *engine, struct space_op *op)
{
    uint8_t home = engine_seat_of(engine, op);
    struct engine_job asked = {.op = op, .kind = op->kind, .seat = home};

    if (home != engine->config.self) {
        return ask_far(engine, op, home);
    }
    if (!engine->has_begun) {
        return engine_wait(engine, op, TRIED_STARVES);
    }
    op->state = OP_JOB;
    op->status = begin(engine, &asked, op->address, op->operands);
    if (op->status != NIGH_OK) {
        op->state = OP_IDLE;
        return TRIED_ENDED;
    }
    return TRIED_WAITS;
}

void engine_leave_job(struct space_engine *engine, struct space_op *op)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_JOBS; n++) {
        struct engine_job *job = &engine->jobs[n];

        if (job->is_used && job->op == op) {
            job->op = NULL;
            job->seat = SPACE_NOBODY;
        }
    }
}

void engine_forget_asker(struct space_engine *engine, uint8_t seat)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_JOBS; n++) {
        struct engine_job *job = &engine->jobs[n];

        if (job->is_used && job->op == NULL && job->seat == seat) {
            job->seat = SPACE_NOBODY;
        }
    }
}

void engine_end_jobs(struct space_engine *engine, nigh_status status)
{
    for (uint32_t n = 0; n < LIMIT_SPACE_JOBS; n++) {
        if (engine->jobs[n].is_used) {
            end_job(engine, &engine->jobs[n], status);
        }
    }
}

bool engine_jobs_are_valid(const struct space_engine *engine)
{
    uint32_t jobs = 0, steps = 0, used = 0;

    for (uint32_t n = 0; n < LIMIT_SPACE_JOBS; n++) {
        const struct engine_job *job = &engine->jobs[n];

        jobs += job->is_used;
        steps += job->is_used ? job->steps : 0;
        if (job->is_used && (job->at > job->count || job->steps > LIMIT_SPACE_JOB_STEPS)) {
            return false;
        }
    }
    for (uint32_t n = 0; n < engine->steps_new; n++) {
        used += engine->steps[n].job != NULL;
    }
    return jobs == engine->jobs_used && steps == engine->steps_used && used == steps;
}

/* ---- other nodes ---------------------------------------------------------- */

void engine_job_message(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    struct engine_job asked = {
        .kind = wire->kind == SPACE_WIRE_ALLOC ? SPACE_OP_ALLOC : SPACE_OP_FREE,
        .seat = seat,
        .ticket = wire->operands[1],
    };
    const uint64_t operands[2] = {wire->operands[0], UINT64_C(1) << wire->why};
    nigh_status status = NIGH_INVALID;

    if (!engine->has_begun && (asked.kind == SPACE_OP_ALLOC || !engine->is_recovered)) {
        status = NIGH_UNREACHABLE; /* who asks knows that it is not open; a client that is gone may
                                      have something freed, which waits until it is */
    } else if (asked.kind == SPACE_OP_ALLOC
                   ? wire->operands[0] > 0
                   : engine_is_address(engine, wire->address) &&
                         engine_is_ours(engine, wire->address) &&
                         engine_block(engine, wire->address) == wire->address) {
        status = begin(engine, &asked, wire->address, operands);
    }
    if (status != NIGH_OK) {
        answer(engine, &asked, status, 0);
    }
}

/* Nobody waits for its end. */
static void free_far(struct space_engine *engine, uint8_t seat, uint64_t address)
{
    struct space_wire wire = {.kind = SPACE_WIRE_FREE, .address = address};

    engine_say_alone(engine, seat, &wire, 0);
}

void space_engine_give_back(struct space_engine *engine, uint64_t address, uint64_t now_us)
{
    struct engine_job asked = {.kind = SPACE_OP_FREE, .seat = engine->config.self};
    const uint64_t none[2] = {0};
    uint8_t home = (uint8_t)space_address_seat(address);

    engine->now_us = now_us;
    if (engine->has_ended) {
        return;
    }
    if (home == engine->config.self) {
        (void)begin(engine, &asked, address, none);
    } else if (engine->seats[home].is_met) {
        free_far(engine, home, address);
    }
}

static bool is_aligned(const struct space_op *op, uint64_t address)
{
    return op->kind != SPACE_OP_ALLOC || op->operands[1] == 0 ||
           (address & (op->operands[1] - 1)) == 0;
}

void engine_job_answer(struct space_engine *engine, uint8_t seat, const struct space_wire *wire)
{
    nigh_status status = (nigh_status)(int64_t)wire->operands[0];
    struct list_node *node;

    if (status == NIGH_OK && wire->event == SPACE_WIRE_ALLOC &&
        (!engine_is_address(engine, wire->address) || space_address_seat(wire->address) != seat ||
         engine_block(engine, wire->address) != wire->address)) {
        engine_refuse(engine, seat);
        return;
    }
    for (node = engine->far.head.next; node != &engine->far.head; node = node->next) {
        struct space_op *op = container_of(node, struct space_op, node);

        if (op->ticket == wire->operands[1] && space_address_seat(op->address) == seat &&
            (op->kind == SPACE_OP_ALLOC) == (wire->event == SPACE_WIRE_ALLOC)) {
            if (status == NIGH_OK && !is_aligned(op, wire->address)) {
                engine_refuse(engine, seat);
                return;
            }
            op->value = op->kind == SPACE_OP_ALLOC ? wire->address : 0;
            engine_end_op(engine, op, status);
            return;
        }
    }
    if (status == NIGH_OK && wire->event == SPACE_WIRE_ALLOC) {
        free_far(engine, seat, wire->address); /* its client gave it up */
    }
}
