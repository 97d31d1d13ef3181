/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of four nodes, whose letters, acts and operations take any time and go in any order that
 * their links keep: names are created, changed, written, read and freed while links break, channels
 * are full, nodes die and come back, views and leases change. A chunk is a number: one node writes
 * ever greater ones, and whoever reads finds what was acknowledged last, or later, or hears that it
 * is lost.
 *
 * And in some worlds a chunk is a word that several nodes write, read, add to and swap, while it
 * moves: what they found can have been, one after the other (support/linear.h). There what breaks
 * off with a link, or with its node, may have come to pass, and may do so later.
 *
 * In others who was given a lock when, and let go, can have been so of a lock; who dies with one
 * lets go at any time from then on, or never.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "region/letter.h"
#include "region/regions.h"
#include "support/linear.h"
#include "support/support.h"

enum {
    NODES = 4,
    NAMES = 3,
    CHUNKS = 4,
    FRAMES = 512,
    ACTS = 64,
    OPS = 8,
    ASKS = 6,
    HOLDS = 6,
    MEMBERS = 4,
    LATE = 8,
    VIEWS = 256,
    STEPS = 6000
};

#define CHUNK_BYTES UINT64_C(4096)
#define OWNER       1000u
#define USER        1001u

struct frame {
    enum regions_frame kind;
    uint32_t count;
    uint8_t bytes[REGION_LETTER_BYTES];
};

/* Frames from one node to another, in order. */
struct wire {
    struct frame *frames[FRAMES];
    uint32_t head, count;
};

struct memory {
    struct region_window window; /* none: closed */
    bool is_there, is_writable;
    uint64_t value;
};

struct act {
    struct region *region;
    uint32_t name;
    struct region_holder_act what;
};

struct operation {
    struct regions_op op;
    bool is_used, is_write;
    enum linear_kind kind; /* of words: what is done to each chunk */
    uint64_t compare;
    size_t recorded[CHUNKS];
    bool has_no_say; /* what it says is not held against anybody */
    bool must_find;  /* its region is there, and its chunks if no node died */
    bool lost_link;
    uint32_t node, name;
    uint64_t value, seen[CHUNKS], least[CHUNKS];
    struct region_post posts[CHUNKS];
    uint32_t post_count;
};

/* One who waits for a lock of a region, or has it. */
struct held {
    struct regions_hold hold;
    bool is_used, has;
    uint32_t node, name;
    enum region_lock_mode mode;
    struct region_version birth;
    size_t recorded;
};

/* One who takes part in a barrier. */
struct member {
    struct regions_party party;
    bool takes_part, waits;
    uint32_t node, name;
};

/* A piece of an operation that its node knows nothing of any more, and which is still on its way.
 */
struct late {
    struct operation operation;
    struct region_post posted;
};

struct asked {
    struct region_ask ask;
    bool is_used;
    uint32_t name, deaths; /* so many had been */
    uint32_t nodes[CHUNKS];
};

struct node {
    struct regions *regions; /* NULL: dead */
    uint64_t epoch;
    uint32_t incarnation;
    uint32_t lives[NODES]; /* the incarnations that it knows of */
    bool has_lease;
    struct memory memories[NAMES][CHUNKS];
    struct act acts[ACTS];
    uint32_t act_count;
    struct region *opened[NAMES];
};

/* What must be so of a name. */
struct truth {
    uint64_t last;          /* ever written */
    uint64_t acked[CHUNKS]; /* a read that begins now sees no less */
    uint32_t changing;      /* asks under way that make or end chunks */
    bool is_shaky;          /* one of them ended without an answer: it may happen yet */
    uint32_t giving;        /* asks under way that give rights */
    bool is_revoked;        /* for all but the owner, and acknowledged */
    bool is_there;          /* it was created, and its nodes live since */
};

static struct {
    uint64_t random;
    uint32_t calm;  /* how rare trouble is */
    bool is_scarce; /* memory */
    bool is_static; /* its members agree on one view, for ever */
    bool is_whole;  /* nothing is in anybody's way any more */
    uint32_t deaths;
    uint32_t names;     /* that a node has room for; 0: some */
    nigh_status answer; /* the last, to an ask or an operation */
    struct node nodes[NODES];
    struct wire wires[NODES][NODES]; /* from, to */
    bool is_up[NODES][NODES];
    struct operation ops[OPS];
    struct asked asks[ASKS];
    struct held holds[HOLDS];
    struct member members[MEMBERS];
    struct truth truths[NAMES];
    uint64_t last_window, epoch;
    uint32_t last_incarnation;
    struct region_set views[VIEWS]; /* by epoch */

    bool has_words, has_locks;
    struct linear_history history; /* of these */
    uint64_t time, last_value;
    struct late late[LATE];
    uint32_t late_count;
} world;

/* Of all worlds. */
static struct {
    uint32_t done[REGION_ASKS], written, read, lost, denied, refused, locked, waited, passed,
        broken;
    uint32_t words, open_words, late; /* ended; without a known end; landed behind it */
    uint32_t unopened;                /* chunks that were closed before they had opened */
    uint32_t given_up, widowed;       /* waited in vain; were had by a node that died */
} seen;

/* ---- memory --------------------------------------------------------------- */

/* Within calls of what is tested some allocations fail, in some worlds. */
static bool lacks_memory;

#ifdef REGIONS_LACK_MEMORY
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool is_lacking(void)
{
    return lacks_memory && support_random(&world.random) % 16 == 0;
}

void *__wrap_malloc(size_t size)
{
    return is_lacking() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_lacking() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return is_lacking() ? NULL : __real_realloc(memory, size);
}
#endif

static const char *const names[NAMES] = {"first", "second", "a third one"};

static uint32_t below(uint32_t bound)
{
    return (uint32_t)(support_random(&world.random) % bound);
}

static bool one_in(uint32_t count)
{
    return below(count) == 0;
}

static uint32_t name_of(const struct region *region)
{
    uint32_t count;
    const char *name = region_name(region, &count);

    for (uint32_t n = 0; n < NAMES; n++) {
        if (strlen(names[n]) == count && memcmp(names[n], name, count) == 0) {
            return n;
        }
    }
    fail();
    return 0;
}

static uint32_t home_in(uint64_t epoch, uint64_t hash)
{
    uint64_t weight = 0;
    uint32_t best = 0;

    for (uint32_t n = 0; n < NODES; n++) {
        uint64_t its = hash_u64(hash ^ (n + 1));

        if (region_set_has(&world.views[epoch], n) && its >= weight) {
            best = n;
            weight = its;
        }
    }
    return best;
}

/* ---- the shell ------------------------------------------------------------ */

static uint32_t home(void *context, uint64_t hash)
{
    const struct node *node = context;

    return home_in(node->epoch, hash);
}

static bool send_frame(void *context, uint32_t rank, enum regions_frame kind, const uint8_t *bytes,
                       uint32_t count)
{
    struct node *node = context;
    uint32_t from = (uint32_t)(node - world.nodes);
    struct wire *wire = &world.wires[from][rank];
    struct frame *frame;

    assert_true(world.is_up[from][rank] && count <= REGION_LETTER_BYTES);
    frame = wire->count == FRAMES || one_in(8) ? NULL : malloc(sizeof *frame);
    if (frame == NULL) {
        return false;
    }
    frame->kind = kind;
    frame->count = count;
    memcpy(frame->bytes, bytes, count);
    wire->frames[(wire->head + wire->count++) % FRAMES] = frame;
    return true;
}

static void act(void *context, struct region *region, const struct region_holder_act *what)
{
    struct node *node = context;

    for (uint32_t n = 0; n < node->act_count; n++) {
        const struct act *todo = &node->acts[n];

        if (todo->region == region && todo->what.chunk == what->chunk) {
            assert_true(todo->what.action == REGION_ACT_OPEN && what->action == REGION_ACT_CLOSE);
            node->acts[n].what = *what; /* it goes no further */
            seen.unopened++;
            return;
        }
    }
    assert_true(node->act_count < ACTS);
    node->acts[node->act_count++] =
        (struct act){.region = region, .name = name_of(region), .what = *what};
}

static struct operation *operation_of(struct regions_op *op)
{
    return container_of(op, struct operation, op);
}

static void post(void *context, struct regions_op *op, const struct region_post *todo)
{
    const struct node *node = context;
    struct operation *operation = operation_of(op);

    assert_true(operation->is_used && operation->post_count < CHUNKS);
    /* Nothing is presented to a process that the one before it had given. */
    assert_true(todo->place.handle.key >= node->lives[todo->place.node]);
    operation->posts[operation->post_count++] = *todo;
}

static nigh_status judge(void *context, struct regions_op *op,
                         const struct region_descriptor *descriptor)
{
    uint32_t needs = operation_of(op)->is_write ? REGION_WRITE : REGION_READ;

    (void)context;
    return (region_descriptor_rights(descriptor, USER, USER) & needs) != 0 ? NIGH_OK : NIGH_DENIED;
}

/* What was refused, and one piece of a region is all of it, has not happened. What ended otherwise
 * may have, or may yet. */
static void record_end(struct operation *operation, uint64_t first, uint64_t last,
                       nigh_status status)
{
    bool did_nothing = status == NIGH_NOT_FOUND || status == NIGH_INVALID || status == NIGH_DENIED;

    world.time++;
    for (uint64_t n = first; n <= last; n++) {
        if (status == NIGH_OK) {
            linear_end(&world.history, operation->recorded[n], operation->seen[n], world.time);
        } else if (operation->kind == LINEAR_READ || (did_nothing && first == last)) {
            linear_cancel(&world.history, operation->recorded[n]);
        }
    }
    seen.words += status == NIGH_OK ? 1 : 0;
    seen.open_words += status != NIGH_OK && !did_nothing ? 1 : 0;
}

static void record_begin(struct operation *operation, uint32_t first, uint32_t count)
{
    world.time++;
    for (uint32_t n = first; n < first + count; n++) {
        struct linear_op op = {.word = operation->name * CHUNKS + n,
                               .given = operation->value,
                               .compare = operation->compare,
                               .kind = operation->kind,
                               .who = operation->node};

        operation->recorded[n] = linear_begin(&world.history, op, world.time);
        assert_true(operation->recorded[n] != SIZE_MAX);
    }
}

static void ended(void *context, struct regions_op *op, nigh_status status)
{
    struct operation *operation = operation_of(op);
    struct truth *truth = &world.truths[operation->name];
    uint64_t first = op->op.offset_bytes / CHUNK_BYTES;
    uint64_t last = (op->op.offset_bytes + op->op.length_bytes - 1) / CHUNK_BYTES;

    (void)context;
    assert_true(operation->is_used && operation->post_count == 0);
    operation->is_used = false;
    world.answer = status;
    assert_false(operation->must_find && !operation->has_no_say &&
                 (status == NIGH_NOT_FOUND || (status == NIGH_PEER_LOST && !operation->lost_link)));
    assert_false(world.is_whole && status == NIGH_BUSY); /* where it is would be known */
    seen.lost += status == NIGH_PEER_LOST ? 1 : 0;
    seen.denied += status == NIGH_DENIED ? 1 : 0;
    if (world.has_words) {
        record_end(operation, first, last, status);
        return;
    }
    if (status != NIGH_OK) {
        return;
    }
    for (uint64_t n = first; n <= last; n++) {
        if (!operation->is_write) {
            assert_true(operation->seen[n] >= operation->least[n]);
            assert_true(operation->seen[n] <= truth->last);
        } else if (!operation->has_no_say && truth->changing == 0 && !truth->is_shaky &&
                   truth->acked[n] < operation->value) {
            truth->acked[n] = operation->value;
        }
    }
    seen.written += operation->is_write ? 1 : 0;
    seen.read += operation->is_write ? 0 : 1;
}

static struct held *held_of(struct regions_hold *hold)
{
    return container_of(hold, struct held, hold);
}

/* Each region of a name has its own. */
static uint64_t lock_word(const struct held *held)
{
    return hash_u64(hash_u64(hash_u64(held->birth.epoch) ^ held->birth.incarnation) ^
                    held->birth.counter) ^
           held->name;
}

static size_t record_lock(const struct held *held, enum linear_kind kind)
{
    struct linear_op op = {.word = lock_word(held),
                           .given = (uint64_t)(held - world.holds),
                           .kind = kind,
                           .who = held->node};
    size_t number = linear_begin(&world.history, op, ++world.time);

    assert_true(number != SIZE_MAX);
    return number;
}

/* It neither waits nor has it any more; it had it until now. */
static void record_lost(const struct held *held)
{
    if (world.history.ops[held->recorded].ended == LINEAR_NEVER) {
        linear_cancel(&world.history, held->recorded);
        seen.given_up++;
    } else if (held->has) {
        size_t number = record_lock(held, LINEAR_UNLOCK);

        linear_end(&world.history, number, 1, ++world.time);
    }
}

/* Nobody who lives has it, too, in a way that does not suit. */
static void nobody_else_has(const struct held *held)
{
    for (uint32_t n = 0; n < HOLDS; n++) {
        const struct held *other = &world.holds[n];

        if (other != held && other->is_used && other->has && other->name == held->name &&
            region_version_equal(&other->birth, &held->birth)) {
            assert_true(region_lock_suits(other->mode, held->mode));
        }
    }
}

/* Where there is a history that is what says whether it could be had. */
static void locked(void *context, struct regions_hold *hold, nigh_status status)
{
    struct held *held = held_of(hold);

    (void)context;
    assert_true(held->is_used);
    if (status != NIGH_OK) {
        if (world.has_locks) {
            record_lost(held);
        }
        held->is_used = false;
        return;
    }
    held->has = true;
    seen.locked++;
    if (world.has_locks) {
        linear_end(&world.history, held->recorded, 1, ++world.time);
    } else {
        nobody_else_has(held);
    }
}

static void wanted(void *context, struct regions_hold *hold)
{
    (void)context;
    assert_true(held_of(hold)->has);
    seen.waited++;
}

static void passed(void *context, struct regions_party *party, nigh_status status)
{
    struct member *member = container_of(party, struct member, party);

    (void)context;
    assert_true(member->waits);
    member->waits = false;
    seen.passed += status == NIGH_OK ? 1 : 0;
    seen.broken += status == NIGH_PEER_LOST ? 1 : 0;
}

/* Chunks of a name come or go: what was written before says nothing of what is read from now on. */
static void forget(uint32_t name)
{
    memset(world.truths[name].acked, 0, sizeof world.truths[name].acked);
    world.truths[name].is_there = false;
    for (uint32_t n = 0; n < OPS; n++) {
        if (world.ops[n].is_used && world.ops[n].name == name) {
            memset(world.ops[n].least, 0, sizeof world.ops[n].least);
            world.ops[n].has_no_say = true;
        }
    }
}

static bool makes_or_ends(const struct region_ask *ask)
{
    return ask->kind == REGION_ASK_CREATE || ask->kind == REGION_ASK_RESIZE ||
           ask->kind == REGION_ASK_FREE;
}

static bool gives(const struct region_ask *ask)
{
    return ask->kind == REGION_ASK_CREATE || (ask->kind == REGION_ASK_GRANT && ask->give != 0);
}

static void answered(void *context, struct region_ask *ask, nigh_status status)
{
    struct asked *asked = container_of(ask, struct asked, ask);
    struct truth *truth = &world.truths[asked->name];
    bool is_sure = status != NIGH_BUSY && status != NIGH_CANCELED && status != NIGH_NO_QUORUM &&
                   status != NIGH_TIMEOUT;

    (void)context;
    assert_true(asked->is_used);
    asked->is_used = false;
    world.answer = status;
    truth->changing -= makes_or_ends(ask) ? 1 : 0;
    truth->giving -= gives(ask) ? 1 : 0;
    if (makes_or_ends(ask)) {
        forget(asked->name);
        truth->is_shaky = truth->is_shaky || !is_sure;
    }
    if (status != NIGH_OK) {
        truth->giving += gives(ask) && !is_sure ? 1000 : 0; /* it may happen for ever */
        return;
    }
    seen.done[ask->kind]++;
    truth->is_there = truth->is_there || (ask->kind == REGION_ASK_CREATE && truth->changing == 0 &&
                                          !truth->is_shaky && asked->deaths == world.deaths);
    if (truth->is_shaky && truth->changing == 0) {
        forget(asked->name); /* all that was before is settled */
        truth->is_shaky = false;
    }
    if (ask->kind == REGION_ASK_GRANT && ask->take != 0 && truth->giving == 0) {
        truth->is_revoked = true;
    }
}

/* ---- what happens --------------------------------------------------------- */

static void drop_frames(uint32_t from, uint32_t to)
{
    struct wire *wire = &world.wires[from][to];

    while (wire->count > 0) {
        free(wire->frames[wire->head]);
        wire->head = (wire->head + 1) % FRAMES;
        wire->count--;
    }
}

static void cut_link(uint32_t a, uint32_t b)
{
    if (!world.is_up[a][b]) {
        return;
    }
    world.is_up[a][b] = world.is_up[b][a] = false;
    drop_frames(a, b);
    drop_frames(b, a);
    regions_link(world.nodes[a].regions, b, false);
    regions_link(world.nodes[b].regions, a, false);
}

static bool deliver(uint32_t from, uint32_t to)
{
    struct wire *wire = &world.wires[from][to];
    struct frame *frame;
    nigh_status status;

    if (wire->count == 0) {
        return false;
    }
    frame = wire->frames[wire->head];
    wire->head = (wire->head + 1) % FRAMES;
    wire->count--;
    lacks_memory = world.is_scarce;
    status =
        regions_receive(world.nodes[to].regions, from, frame->kind, frame->bytes, frame->count);
    lacks_memory = false;
    free(frame);
    assert_true(status == NIGH_OK || (world.is_scarce && status == NIGH_NO_RESOURCES));
    if (status != NIGH_OK) {
        cut_link(from, to);
    }
    return true;
}

static void meet(struct node *node, uint32_t rank, uint32_t incarnation)
{
    node->lives[rank] = incarnation;
    regions_alive(node->regions, rank, incarnation);
}

static void join_link(uint32_t a, uint32_t b)
{
    struct node *one = &world.nodes[a], *other = &world.nodes[b];

    if (a == b || world.is_up[a][b] || one->regions == NULL || other->regions == NULL) {
        return;
    }
    world.is_up[a][b] = world.is_up[b][a] = true;
    meet(one, b, other->incarnation);
    meet(other, a, one->incarnation);
    lacks_memory = world.is_scarce;
    regions_link(one->regions, b, true);
    regions_link(other->regions, a, true);
    lacks_memory = false;
}

static struct memory *memory_at(const struct region_place *place, uint32_t name, uint32_t chunk)
{
    struct node *node = &world.nodes[place->node];
    struct memory *memory = &node->memories[name][chunk];

    if (node->regions == NULL || region_window_is_none(memory->window) ||
        !region_window_equal(memory->window, place->handle)) {
        return NULL;
    }
    assert_int_equal(place->incarnation, node->incarnation); /* whose handle it is */
    return memory;
}

/* It says who made it. */
static struct region_window new_window(const struct node *node)
{
    return (struct region_window){.address = ++world.last_window, .key = node->incarnation};
}

static nigh_status carry_out(struct node *node, const struct act *todo)
{
    uint32_t self = (uint32_t)(node - world.nodes), chunk = todo->what.chunk;
    struct memory *memory = &node->memories[todo->name][chunk];
    const struct memory *source;

    switch (todo->what.action) {
    case REGION_ACT_MAKE:
        assert_false(memory->is_there);
        if (one_in(16)) {
            return NIGH_OUT_OF_MEMORY;
        }
        *memory = (struct memory){.is_there = true};
        break;
    case REGION_ACT_COPY:
        source = memory_at(&todo->what.source, todo->name, chunk);
        if (source == NULL || !world.is_up[self][todo->what.source.node] || one_in(16)) {
            return NIGH_PEER_LOST;
        }
        memory->value = source->value;
        break;
    case REGION_ACT_LEND:
        if (one_in(16)) {
            return NIGH_NO_RESOURCES;
        }
        memory->window = new_window(node);
        break;
    case REGION_ACT_OPEN:
        memory->window = new_window(node);
        memory->is_writable = true;
        break;
    case REGION_ACT_CLOSE:
        assert_true(region_window_equal(memory->window, todo->what.handle));
        memory->window = REGION_NO_WINDOW;
        memory->is_writable = false;
        break;
    case REGION_ACT_CUT:
        assert_true(memory->is_there && region_window_is_none(memory->window));
        *memory = (struct memory){.is_there = false};
        break;
    }
    return NIGH_OK;
}

static bool do_act(uint32_t self)
{
    struct node *node = &world.nodes[self];
    struct act todo;
    uint32_t at;
    nigh_status status;

    if (node->regions == NULL || node->act_count == 0) {
        return false;
    }
    at = below(node->act_count);
    todo = node->acts[at];
    node->acts[at] = node->acts[--node->act_count];
    status = carry_out(node, &todo);
    regions_did(todo.region, todo.what.chunk, status,
                status == NIGH_OK ? node->memories[todo.name][todo.what.chunk].window
                                  : REGION_NO_WINDOW);
    return true;
}

/* What an operation does where it lands. */
static void touch(struct operation *operation, uint32_t chunk, struct memory *memory)
{
    uint64_t was = memory->value;

    operation->seen[chunk] = was;
    if (operation->kind == LINEAR_ADD) {
        memory->value += operation->value;
    } else if (operation->is_write &&
               (operation->kind != LINEAR_SWAP || was == operation->compare)) {
        memory->value = operation->value;
    }
}

/* Its node knows nothing of it any more. */
static void leave_behind(const struct operation *operation, const struct region_post *posted)
{
    if (world.has_words && operation->is_write && world.late_count < LATE) {
        world.late[world.late_count++] = (struct late){.operation = *operation, .posted = *posted};
    }
}

/* One of these gets there nevertheless, if it may still be written there; or is lost on its way. */
static bool land_late(void)
{
    struct late late;
    struct memory *memory;
    uint32_t at;

    if (world.late_count == 0) {
        return false;
    }
    at = below(world.late_count);
    late = world.late[at];
    world.late[at] = world.late[--world.late_count];
    memory = memory_at(&late.posted.place, late.operation.name, late.posted.piece.chunk);
    if (memory != NULL && memory->is_writable && !one_in(4)) {
        touch(&late.operation, late.posted.piece.chunk, memory);
        seen.late++;
    }
    return true;
}

/* A piece gets to where it was sent, whatever has become of that since. */
static bool land(struct operation *operation)
{
    struct region_post posted;
    struct memory *memory;
    nigh_status status = NIGH_OK;
    uint32_t at;

    if (!operation->is_used || operation->post_count == 0) {
        return false;
    }
    at = below(operation->post_count);
    posted = operation->posts[at];
    operation->posts[at] = operation->posts[--operation->post_count];
    memory = memory_at(&posted.place, operation->name, posted.piece.chunk);
    if (posted.place.node != operation->node && !world.is_up[operation->node][posted.place.node]) {
        status = NIGH_PEER_LOST;
        operation->lost_link = true;
        leave_behind(operation, &posted);
    } else if (memory == NULL || (operation->is_write && !memory->is_writable)) {
        status = NIGH_STALE;
        seen.refused++;
    } else if (operation->is_write) {
        assert_false(world.truths[operation->name].is_revoked);
        assert_true(memory->is_there);
        touch(operation, posted.piece.chunk, memory);
    } else {
        touch(operation, posted.piece.chunk, memory);
    }
    regions_posted(&operation->op, posted.piece.chunk, posted.place.handle, status);
    return true;
}

/* ---- what users do -------------------------------------------------------- */

static struct region *opened(uint32_t self, uint32_t name)
{
    struct node *node = &world.nodes[self];

    if (node->opened[name] == NULL) {
        struct region *region;
        nigh_status status;

        lacks_memory = world.is_scarce;
        status = regions_open(node->regions, names[name], (uint32_t)strlen(names[name]), &region);
        lacks_memory = false;
        assert_true(status == NIGH_OK || (world.is_scarce && status == NIGH_NO_RESOURCES));
        node->opened[name] = status == NIGH_OK ? region : NULL;
    }
    return node->opened[name];
}

static bool is_in_use(uint32_t self, uint32_t name)
{
    for (uint32_t n = 0; n < OPS; n++) {
        if (world.ops[n].is_used && world.ops[n].node == self && world.ops[n].name == name) {
            return true;
        }
    }
    return false;
}

/* Two arrive, or more: who was one of those before waits for others. */
static void arrive_one(uint32_t self, uint32_t name)
{
    struct member *member = &world.members[below(MEMBERS)];
    struct region *region = world.nodes[self].opened[name];
    const struct region_descriptor *descriptor = region == NULL ? NULL : region_known(region);
    nigh_status status;

    if (member->takes_part) {
        if (member->waits && one_in(4)) {
            regions_withdraw(&member->party);
            member->waits = false;
        } else if (!member->waits && one_in(2)) {
            member->takes_part = false;
            regions_leave(&member->party, one_in(4));
        }
        return;
    }
    if (descriptor == NULL || region_descriptor_is_none(descriptor)) {
        return;
    }
    *member = (struct member){.takes_part = true, .waits = true, .node = self, .name = name};
    lacks_memory = world.is_scarce;
    status = regions_arrive(region, &descriptor->birth, below(2), 2, &member->party);
    lacks_memory = false;
    member->waits = member->waits && status == NIGH_OK;
    member->takes_part = member->party.party.barrier != NULL;
}

static void leave_all(void)
{
    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (world.members[n].takes_part) {
            world.members[n].takes_part = world.members[n].waits = false;
            regions_leave(&world.members[n].party, false);
        }
    }
}

static bool is_locked(uint32_t self, uint32_t name)
{
    for (uint32_t n = 0; n < MEMBERS; n++) {
        if (world.members[n].takes_part && world.members[n].node == self &&
            world.members[n].name == name) {
            return true;
        }
    }
    for (uint32_t n = 0; n < HOLDS; n++) {
        if (world.holds[n].is_used && world.holds[n].node == self && world.holds[n].name == name) {
            return true;
        }
    }
    return false;
}

static void lock_one(uint32_t self, uint32_t name)
{
    struct held *held = &world.holds[below(HOLDS)];
    struct region *region = world.nodes[self].opened[name];
    const struct region_descriptor *descriptor = region == NULL ? NULL : region_known(region);
    nigh_status status;

    if (held->is_used || descriptor == NULL || region_descriptor_is_none(descriptor)) {
        return;
    }
    *held = (struct held){.is_used = true, .node = self, .name = name};
    held->mode = one_in(2) ? REGION_LOCK_SHARED : REGION_LOCK_EXCLUSIVE;
    held->birth = descriptor->birth;
    if (world.has_locks) {
        held->recorded =
            record_lock(held, held->mode == REGION_LOCK_SHARED ? LINEAR_SHARE : LINEAR_LOCK);
    }
    lacks_memory = world.is_scarce;
    status = regions_lock(region, &held->birth, 5, held->mode, &held->hold);
    lacks_memory = false;
    if (status != NIGH_OK && world.has_locks) {
        record_lost(held);
    }
    held->is_used = held->is_used && status == NIGH_OK;
}

/* Within, another may be given what this one had. */
static void unlock_one(struct held *held)
{
    size_t number = SIZE_MAX;

    if (!held->is_used) {
        return;
    }
    if (world.has_locks && held->has) {
        number = record_lock(held, LINEAR_UNLOCK);
    } else if (world.has_locks) {
        record_lost(held);
    }
    held->is_used = false;
    regions_unlock(&held->hold, held->has && held->mode == REGION_LOCK_EXCLUSIVE && one_in(4));
    if (number != SIZE_MAX) {
        linear_end(&world.history, number, 1, ++world.time);
    }
}

static void close_one(uint32_t self, uint32_t name)
{
    struct node *node = &world.nodes[self];

    if (node->regions != NULL && node->opened[name] != NULL && !is_in_use(self, name) &&
        !is_locked(self, name)) {
        regions_close(node->opened[name]);
        node->opened[name] = NULL;
    }
}

/* Words of an even number are written and read, the others added to and swapped; all values
 * differ. */
static void choose_kind(struct operation *operation)
{
    operation->kind = operation->is_write ? LINEAR_WRITE : LINEAR_READ;
    operation->value = operation->is_write ? ++world.last_value << 20 : 0;
    if (operation->name % 2 != 0) {
        const struct linear_op *ops = world.history.ops;
        size_t count = world.history.count;

        operation->kind = operation->is_write && one_in(2) ? LINEAR_SWAP : LINEAR_ADD;
        operation->is_write = true; /* also what adds 0 */
        operation->compare =
            count == 0 ? 0 : ops[count - 1 - below(count < 8 ? (uint32_t)count : 8)].found;
    }
}

static void begin_op(uint32_t self, uint32_t name, bool is_write, uint32_t first, uint32_t count)
{
    struct truth *truth = &world.truths[name];
    struct operation *operation = NULL;

    for (uint32_t n = 0; n < OPS; n++) {
        if (!world.ops[n].is_used) {
            operation = &world.ops[n];
        } else if (!world.has_words && is_write && world.ops[n].is_write &&
                   world.ops[n].name == name) {
            return; /* one at a time */
        }
    }
    if (operation == NULL || opened(self, name) == NULL) {
        return;
    }
    *operation = (struct operation){.is_used = true, .is_write = is_write, .node = self};
    operation->name = name;
    operation->op.op.offset_bytes = first * CHUNK_BYTES;
    operation->op.op.length_bytes = count * CHUNK_BYTES;
    operation->value = is_write ? ++truth->last : 0;
    /* Else it may be another region that is known here, which is gone. */
    operation->must_find =
        truth->is_there && region_descriptor_is_none(region_known(opened(self, name)));
    memcpy(operation->least, truth->acked, sizeof operation->least);
    if (world.has_words) {
        choose_kind(operation);
        record_begin(operation, first, count);
    }
    regions_begin(opened(self, name), &operation->op);
}

static struct asked *free_ask(void)
{
    for (uint32_t n = 0; n < ASKS; n++) {
        if (!world.asks[n].is_used) {
            return &world.asks[n];
        }
    }
    return NULL;
}

/* What is known of a region at some node that has it open; NULL: nothing. */
static const struct region_descriptor *known(uint32_t name)
{
    for (uint32_t n = 0; n < NODES; n++) {
        const struct node *node = &world.nodes[n];

        if (node->regions != NULL && node->opened[name] != NULL &&
            !region_descriptor_is_none(region_known(node->opened[name]))) {
            return region_known(node->opened[name]);
        }
    }
    return NULL;
}

static void ask(uint32_t name, enum region_ask_kind kind)
{
    struct asked *asked = free_ask();
    const struct region_descriptor *descriptor = known(name);
    uint32_t size = (uint32_t)strlen(names[name]), had, count = 1 + below(CHUNKS);
    uint32_t at = home_in(world.epoch, regions_hash(names[name], size));
    struct truth *truth = &world.truths[name];

    if (asked == NULL || world.nodes[at].regions == NULL ||
        (kind != REGION_ASK_CREATE && descriptor == NULL)) {
        return;
    }
    had = descriptor == NULL ? 0 : descriptor->chunk_count;
    *asked = (struct asked){.is_used = true, .name = name, .deaths = world.deaths};
    asked->ask =
        (struct region_ask){.kind = kind, .uid = OWNER, .gid = OWNER, .nodes = asked->nodes};
    asked->ask.geometry =
        (struct region_geometry){.size_bytes = count * CHUNK_BYTES, .chunk_bytes = CHUNK_BYTES};
    asked->ask.name = names[name];
    asked->ask.name_bytes = (uint8_t)size;
    asked->ask.other_rights = REGION_READ | REGION_WRITE;
    asked->ask.birth = descriptor == NULL ? (struct region_version){0} : descriptor->birth;
    asked->ask.node_count = kind == REGION_ASK_CREATE ? count : count > had ? count - had : 0;
    asked->ask.whose = REGION_OF_OTHERS;
    asked->ask.give = kind == REGION_ASK_GRANT && one_in(2) ? REGION_READ | REGION_WRITE : 0;
    asked->ask.take = asked->ask.give == 0 ? REGION_WRITE : 0;
    asked->ask.chunk = below(CHUNKS);
    asked->ask.node = below(NODES);
    for (uint32_t n = 0; n < CHUNKS; n++) {
        asked->nodes[n] = below(NODES);
    }
    if (makes_or_ends(&asked->ask)) {
        truth->changing++;
        forget(name);
    }
    if (gives(&asked->ask)) {
        truth->giving++;
        truth->is_revoked = false;
    }
    lacks_memory = world.is_scarce;
    regions_ask(world.nodes[at].regions, names[name], size, &asked->ask);
    lacks_memory = false;
}

/* ---- nodes ---------------------------------------------------------------- */

static void begin_node(uint32_t self)
{
    struct node *node = &world.nodes[self];
    struct regions_config config = {.self = self,
                                    .incarnation = ++world.last_incarnation,
                                    .nodes = NODES,
                                    .names = world.names == 0 ? 16 : world.names,
                                    .seed = self,
                                    .shell = {.context = node,
                                              .home = home,
                                              .send = send_frame,
                                              .act = act,
                                              .post = post,
                                              .judge = judge,
                                              .ended = ended,
                                              .answered = answered,
                                              .locked = locked,
                                              .wanted = wanted,
                                              .passed = passed}};

    *node = (struct node){.incarnation = config.incarnation};
    node->lives[self] = config.incarnation;
    assert_int_equal(regions_create(&config, &node->regions), NIGH_OK);
}

/* What they have goes on when others have heard of it. */
static void bury_holders(uint32_t node)
{
    for (uint32_t n = 0; n < HOLDS; n++) {
        struct held *held = &world.holds[n];

        if (held->has && held->node == node) {
            if (held->is_used && world.has_locks) {
                (void)record_lock(held, LINEAR_UNLOCK);
                seen.widowed++;
            }
            held->has = false;
        }
    }
}

/* What it had under way is nobody's. */
static void kill_node(uint32_t self)
{
    struct node *node = &world.nodes[self];

    for (uint32_t n = 0; n < NODES; n++) {
        cut_link(self, n);
    }
    for (uint32_t n = 0; n < OPS; n++) {
        struct operation *operation = &world.ops[n];

        while (operation->is_used && operation->node == self && operation->post_count > 0) {
            leave_behind(operation, &operation->posts[--operation->post_count]);
        }
        operation->is_used = operation->is_used && operation->node != self;
        operation->must_find = false;
    }
    for (uint32_t n = 0; n < NAMES; n++) {
        world.truths[n].is_there = false;
    }
    bury_holders(self);
    for (uint32_t n = 0; n < MEMBERS; n++) {
        world.members[n].takes_part = world.members[n].takes_part && world.members[n].node != self;
    }
    world.deaths++;
    regions_destroy(node->regions);
    *node = (struct node){.regions = NULL};
    for (uint32_t n = 0; n < HOLDS; n++) {
        assert_false(world.holds[n].is_used && world.holds[n].node == self);
    }
}

static void set_lease(uint32_t self, bool has_lease)
{
    world.nodes[self].has_lease = has_lease;
    regions_lease(world.nodes[self].regions, has_lease);
}

/* Who goes by an older view has no lease any more when the next one begins. */
static void begin_view(const struct region_set *members)
{
    if (world.epoch + 1 == VIEWS || (world.is_static && world.epoch > 0)) {
        return;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        if (world.nodes[n].regions != NULL) {
            set_lease(n, false);
        }
    }
    world.views[++world.epoch] = *members;
}

static void adopt(uint32_t self)
{
    struct node *node = &world.nodes[self];

    if (node->regions == NULL || node->epoch == world.epoch) {
        return;
    }
    node->epoch = world.epoch;
    lacks_memory = world.is_scarce;
    regions_view(node->regions, node->epoch, &world.views[node->epoch]);
    lacks_memory = false;
    for (uint32_t n = 0; n < NODES; n++) {
        if (n != self && world.nodes[n].regions == NULL) {
            regions_dead(node->regions, n);
        }
    }
}

static bool all_adopted(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        if (world.nodes[n].regions != NULL && world.nodes[n].epoch != world.epoch) {
            return false;
        }
    }
    return true;
}

static void change_members(void)
{
    struct region_set members = {{0}};
    uint32_t rank = below(NODES), living = 0;

    for (uint32_t n = 0; n < NODES; n++) {
        living += world.nodes[n].regions != NULL ? 1 : 0;
    }
    if (world.nodes[rank].regions == NULL) {
        begin_node(rank);
    } else if (living > 2 && one_in(2)) {
        kill_node(rank);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        if (world.nodes[n].regions != NULL) {
            region_set_add(&members, n);
        }
    }
    begin_view(&members);
}

/* ---- a run ---------------------------------------------------------------- */

static bool turn(uint32_t self)
{
    struct node *node = &world.nodes[self];
    bool more;

    if (node->regions == NULL) {
        return false;
    }
    lacks_memory = world.is_scarce;
    more = regions_turn(node->regions);
    lacks_memory = false;
    assert_true(regions_are_valid(node->regions));
    return more;
}

static void one_copy_is_written(void)
{
    for (uint32_t name = 0; name < NAMES; name++) {
        for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
            uint32_t writable = 0;

            for (uint32_t n = 0; n < NODES; n++) {
                writable += world.nodes[n].regions != NULL &&
                                    world.nodes[n].memories[name][chunk].is_writable
                                ? 1
                                : 0;
            }
            assert_true(writable <= 1);
        }
    }
}

static void trouble(uint32_t self, uint32_t other)
{
    switch (below(12)) {
    case 0: cut_link(self, other); break;
    case 1:
        if (one_in(world.has_words ? 32 : world.has_locks ? 2 : 8)) {
            change_members();
        } else if (world.nodes[self].regions != NULL && world.nodes[other].regions == NULL) {
            regions_dead(world.nodes[self].regions, other);
        }
        break;
    case 2:
        if (world.nodes[self].regions != NULL) {
            regions_held(world.nodes[self].regions);
        }
        break;
    case 3:
        if (world.nodes[self].regions != NULL && world.nodes[self].has_lease && one_in(4)) {
            set_lease(self, false);
        }
        break;
    case 4: close_one(self, below(NAMES)); break;
    case 5: {
        struct operation *operation = &world.ops[below(OPS)];

        if (operation->is_used && !operation->op.op.is_ending) {
            regions_end_op(&operation->op, NIGH_TIMEOUT);
        }
        break;
    }
    default: break;
    }
}

static void step(void)
{
    uint32_t self = below(NODES), other = below(NODES), name = below(NAMES), first = below(CHUNKS);

    switch (below(17)) {
    case 0:
    case 1:
    case 2: (void)turn(self); break;
    case 3:
    case 4:
    case 5:
    case 6:
        for (uint32_t n = 0; n < NODES * NODES; n++) { /* one that there is */
            if (deliver((self + n / NODES) % NODES, (other + n) % NODES)) {
                break;
            }
        }
        break;
    case 7:
    case 8:
        for (uint32_t n = 0; n < NODES && !do_act((self + n) % NODES); n++) {
        }
        break;
    case 9:
        for (uint32_t n = 0; n < OPS && !land(&world.ops[(first + n) % OPS]); n++) {
        }
        if (one_in(4)) {
            (void)land_late();
        }
        break;
    case 10:
        if (world.nodes[self].regions != NULL) {
            begin_op(self, name, one_in(2), first, 1 + below(CHUNKS - first));
        }
        if (world.has_words && world.nodes[other].regions != NULL) { /* beside it */
            begin_op(other, name, one_in(2), first, 1);
        }
        if (world.has_locks && world.nodes[other].regions != NULL) {
            lock_one(other, name);
        }
        break;
    case 11:
        if (world.has_words) {
            ask(name, one_in(16) ? REGION_ASK_GRANT : REGION_ASK_MOVE);
        } else if (world.has_locks) {
            ask(name, one_in(16)   ? REGION_ASK_CREATE
                      : one_in(64) ? REGION_ASK_FREE
                                   : REGION_ASK_MOVE);
        } else if (one_in(4)) {
            ask(name, one_in(2) ? REGION_ASK_CREATE : (enum region_ask_kind)below(REGION_ASKS));
        }
        break;
    case 12:
        adopt(self);
        if (all_adopted() && world.nodes[self].regions != NULL) {
            set_lease(self, true);
        }
        join_link(self, other);
        break;
    case 13:
        if (world.nodes[self].regions != NULL) {
            lock_one(self, name);
        }
        break;
    case 15:
        if (world.nodes[self].regions != NULL) {
            arrive_one(self, name);
        }
        break;
    case 14: {
        struct held *held = &world.holds[below(HOLDS)];

        if (held->has || !world.has_locks || one_in(16)) { /* else it waits on */
            unlock_one(held);
        }
        break;
    }
    default:
        if (one_in(world.calm)) {
            trouble(self, other);
        }
        break;
    }
    one_copy_is_written();
}

static bool pass_everything(void)
{
    bool any = false;

    for (uint32_t n = 0; n < NODES; n++) {
        any = turn(n) || any;
        any = do_act(n) || any;
        if (world.nodes[n].regions != NULL) {
            regions_held(world.nodes[n].regions);
        }
        for (uint32_t m = 0; m < NODES; m++) {
            any = deliver(n, m) || any;
        }
    }
    for (uint32_t n = 0; n < OPS; n++) {
        any = land(&world.ops[n]) || any;
    }
    return land_late() || any;
}

/* All of it, and once more, as a channel may have had no room. */
static void come_to_rest(void)
{
    uint32_t rest = 0;

    for (uint32_t n = 0; rest < 40; n++) {
        rest = pass_everything() ? 0 : rest + 1;
        assert_true(n < 100000);
    }
}

/* Everybody is there, in one view: in a new one where somebody was not, or sometimes. */
static void heal(void)
{
    struct region_set members = {{0}};
    bool had_all = true;

    world.is_scarce = false;
    for (uint32_t n = 0; n < NODES; n++) {
        region_set_add(&members, n);
        had_all = had_all && region_set_has(&world.views[world.epoch], n);
        if (world.nodes[n].regions == NULL) {
            begin_node(n);
        }
    }
    if (!had_all || (!world.is_static && one_in(2))) {
        begin_view(&members);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        adopt(n);
        for (uint32_t m = 0; m < n; m++) {
            join_link(n, m);
        }
    }
    for (uint32_t n = 0; n < NODES; n++) {
        set_lease(n, true);
    }
}

static void all_has_ended(void)
{
    for (uint32_t n = 0; n < OPS; n++) {
        assert_false(world.ops[n].is_used);
    }
    for (uint32_t n = 0; n < ASKS; n++) {
        assert_false(world.asks[n].is_used);
    }
}

/* Who waits for a lock has it in the end, as who has it lets go. */
static void all_let_go(void)
{
    for (uint32_t n = 0; n < HOLDS; n++) {
        uint32_t used = 0, has = 0;

        for (uint32_t m = 0; m < HOLDS; m++) {
            used += world.holds[m].is_used ? 1 : 0;
            has += world.holds[m].is_used && world.holds[m].has ? 1 : 0;
        }
        if (used == 0) {
            return;
        }
        assert_true(has > 0);
        for (uint32_t m = 0; m < HOLDS; m++) {
            if (world.holds[m].has) {
                unlock_one(&world.holds[m]);
            }
        }
        come_to_rest();
    }
}

/* What there is can be read, and freed: then nothing is left of it anywhere. */
static void everything_goes(void)
{
    for (uint32_t name = 0; name < NAMES; name++) {
        for (uint32_t n = 0; n < NODES; n++) {
            begin_op(n, name, false, 0, 1);
            come_to_rest();
        }
        all_has_ended();
        for (uint32_t n = 0; n < NODES; n++) {
            close_one(n, name);
        }
        come_to_rest();
        begin_op(0, name, false, 0, 1);
        come_to_rest();
        ask(name, REGION_ASK_FREE);
        come_to_rest();
        close_one(0, name);
        come_to_rest();
    }
    all_has_ended();
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(regions_counts(world.nodes[n].regions)->names, 0);
        for (uint32_t m = 0; m < NAMES * CHUNKS; m++) {
            assert_false(world.nodes[n].memories[m / CHUNKS][m % CHUNKS].is_there);
        }
    }
}

static void run(uint64_t seed)
{
    memset(&world, 0, sizeof world);
    world.random = seed;
    world.calm = 1u << 2 * below(5);
    world.is_static = one_in(2);
    for (uint32_t n = 0; n < NODES; n++) {
        begin_node(n);
    }
    heal();
    come_to_rest();
    world.is_scarce = one_in(4);
    for (uint32_t n = 0; n < STEPS; n++) {
        step();
    }
    heal();
    come_to_rest();
    all_has_ended();
    all_let_go();
    leave_all();
    come_to_rest();
    world.is_whole = true;
    everything_goes();
    for (uint32_t n = 0; n < NODES; n++) {
        kill_node(n);
    }
}

static void what_is_promised_is_kept(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    for (uint32_t n = 0; n < 300; n++) {
        run(seed + n);
    }
    for (uint32_t kind = 0; kind < REGION_ASKS; kind++) {
        assert_true(seen.done[kind] > 0);
    }
    assert_true(seen.written > 0 && seen.read > 0 && seen.lost > 0 && seen.denied > 0);
    assert_true(seen.refused > 0 && seen.locked > 0 && seen.waited > 0);
    assert_true(seen.passed > 0 && seen.broken > 0 && seen.unopened > 0);
}

/* ---- histories ------------------------------------------------------------ */

/* Regions that are there from the start; what ends with its nodes stays away. What is recorded, of
 * words or of locks, can have been so. */
static void run_recorded(linear_model model, uint64_t seed)
{
    struct linear_result result;

    memset(&world, 0, sizeof world);
    world.random = seed;
    world.calm = 4u << 2 * below(4);
    world.is_static = one_in(2);
    world.has_words = model == linear_register;
    world.has_locks = model == linear_lock;
    for (uint32_t n = 0; n < NODES; n++) {
        begin_node(n);
    }
    heal();
    come_to_rest();
    for (uint32_t name = 0; name < NAMES; name++) {
        ask(name, REGION_ASK_CREATE);
        come_to_rest();
    }
    world.is_scarce = one_in(4);
    for (uint32_t n = 0; n < 2 * STEPS; n++) {
        step();
    }
    heal();
    come_to_rest();
    all_has_ended();
    all_let_go();
    leave_all();
    come_to_rest();
    for (uint32_t n = 0; n < NAMES * NODES; n++) {
        begin_op(n % NODES, n / NODES, false, 0, 1);
        come_to_rest();
    }
    result = linear_check(world.history.ops, world.history.count, model, 0, LINEAR_STEPS);
    if (result.verdict != LINEAR_YES) {
        print_message("# world %llu\n", (unsigned long long)seed);
        linear_say(stdout, world.history.ops, world.history.count, &result);
    }
    assert_int_equal(result.verdict, LINEAR_YES);
    linear_free(&world.history);
    world.has_words = world.has_locks = false;
    for (uint32_t n = 0; n < NODES; n++) {
        kill_node(n);
    }
}

static void words_are_linearizable(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    memset(&seen, 0, sizeof seen);
    for (uint32_t n = 0; n < 300; n++) {
        run_recorded(linear_register, seed + n);
    }
    print_message("# %u operations, %u without a known end, %u pieces landed late, %u moves\n",
                  seen.words, seen.open_words, seen.late, seen.done[REGION_ASK_MOVE]);
    assert_true(seen.words > 0 && seen.open_words > 0 && seen.late > 0);
    assert_true(seen.done[REGION_ASK_MOVE] > 0 && seen.lost > 0 && seen.refused > 0);
}

/* A lock that two have who should not, in whichever order each let go, is none. */
static void locks_are_linearizable(void **state)
{
    uint64_t seed = support_seed();

    (void)state;
    memset(&seen, 0, sizeof seen);
    for (uint32_t n = 0; n < 300; n++) {
        run_recorded(linear_lock, seed + n);
    }
    print_message("# %u locks were had, %u waited for in vain, %u had by who died; %u recalled\n",
                  seen.locked, seen.given_up, seen.widowed, seen.waited);
    assert_true(seen.locked > 0 && seen.given_up > 0 && seen.widowed > 0 && seen.waited > 0);
    assert_true(seen.done[REGION_ASK_FREE] > 0 && seen.done[REGION_ASK_MOVE] > 0);
}

/* ---- two nodes ------------------------------------------------------------ */

static void begin_some(uint32_t count, uint32_t room)
{
    memset(&world, 0, sizeof world);
    world.names = room;
    world.random = support_seed();
    world.is_static = true;
    for (uint32_t n = 0; n < count; n++) {
        region_set_add(&world.views[1], n);
    }
    world.views[2] = world.views[1];
    world.epoch = 1;
    for (uint32_t n = 0; n < count; n++) {
        begin_node(n);
        adopt(n);
        set_lease(n, true);
        for (uint32_t other = 0; other < n; other++) {
            join_link(n, other);
        }
    }
    come_to_rest();
}

static void begin_two(uint32_t room)
{
    begin_some(2, room);
}

static void end_two(void)
{
    kill_node(0);
    kill_node(1);
}

/* A name of which that node is the home, the n-th. */
static const char *name_at(uint32_t rank, uint32_t n, char text[16])
{
    for (uint32_t tries = 0;; tries++) {
        snprintf(text, 16, "name %u", tries);
        if (home_in(1, regions_hash(text, (uint32_t)strlen(text))) == rank && n-- == 0) {
            return text;
        }
    }
}

static void say_epoch(uint32_t from, uint32_t to, enum regions_frame frame, uint8_t epoch)
{
    uint8_t said[8] = {epoch};

    assert_int_equal(regions_receive(world.nodes[to].regions, from, frame, said, sizeof said),
                     NIGH_OK);
}

static void begin_asking(struct asked *asked, const char *name)
{
    *asked = (struct asked){.is_used = true};
    asked->ask = (struct region_ask){.kind = REGION_ASK_CREATE,
                                     .uid = OWNER,
                                     .other_rights = REGION_READ,
                                     .name = name,
                                     .name_bytes = (uint8_t)strlen(name),
                                     .geometry = {CHUNK_BYTES, CHUNK_BYTES},
                                     .nodes = asked->nodes,
                                     .node_count = 1};
    world.truths[0].changing++;
    world.truths[0].giving++;
    asked->nodes[0] = 1;
    regions_ask(world.nodes[0].regions, name, asked->ask.name_bytes, &asked->ask);
}

/* A home begins when all have told it what they hold in this view; not in the one before. */
static void who_told_in_another_view_has_not_told(void **state)
{
    char text[16];

    (void)state;
    begin_two(16);
    world.epoch = 2;
    adopt(0);
    set_lease(0, true);
    begin_asking(&world.asks[0], name_at(0, 0, text));
    (void)turn(0);
    say_epoch(1, 0, REGIONS_TOLD, 1); /* it was on its way */
    say_epoch(1, 0, REGIONS_VIEW, 2);
    say_epoch(1, 0, REGIONS_TOLD, 1);
    (void)turn(0);
    for (uint32_t n = 0; n < 100; n++) {
        (void)turn(0);
    }
    assert_int_equal(regions_counts(world.nodes[0].regions)->letters, 0);
    say_epoch(1, 0, REGIONS_TOLD, 2);
    assert_int_equal(regions_counts(world.nodes[0].regions)->letters, 1); /* PREPARE */
    end_two();
    assert_false(world.asks[0].is_used);
}

/* What is said in one view is not heard in another: who said it says it again. */
static void letters_of_another_view_are_not_heard(void **state)
{
    struct region_message message = {.kind = REGION_MAP};
    uint8_t bytes[REGION_LETTER_BYTES];
    char text[16];
    size_t count;

    (void)state;
    begin_two(16);
    (void)name_at(0, 0, text);
    count = region_letter_encode(&message, text, (uint8_t)strlen(text), bytes);
    world.epoch = 2;
    adopt(0);
    assert_int_equal(
        regions_receive(world.nodes[0].regions, 1, REGIONS_LETTER, bytes, (uint32_t)count),
        NIGH_OK);
    assert_int_equal(regions_counts(world.nodes[0].regions)->other_views, 1);
    assert_int_equal(regions_counts(world.nodes[0].regions)->homes, 0);
    say_epoch(1, 0, REGIONS_VIEW, 2);
    assert_int_equal(
        regions_receive(world.nodes[0].regions, 1, REGIONS_LETTER, bytes, (uint32_t)count),
        NIGH_OK);
    assert_int_equal(regions_counts(world.nodes[0].regions)->homes, 1);
    bytes[0] ^= 0x80;
    assert_int_equal(
        regions_receive(world.nodes[0].regions, 1, REGIONS_LETTER, bytes, (uint32_t)count),
        NIGH_PROTOCOL);
    end_two();
}

/* A letter that says where a chunk is. */
static nigh_status say_where(uint32_t node)
{
    static const struct region_version version = {.epoch = 1, .incarnation = 1, .counter = 2};
    struct region_descriptor *says = calloc(1, sizeof(*says) + sizeof(says->chunks[0]));
    struct region_message message = {.kind = REGION_MAPPED, .descriptor = says};
    uint8_t bytes[REGION_LETTER_BYTES];
    size_t count;

    assert_non_null(says);
    says->version = says->birth = version;
    says->geometry =
        (struct region_geometry){.size_bytes = CHUNK_BYTES, .chunk_bytes = CHUNK_BYTES};
    says->chunk_count = 1;
    says->chunks[0] =
        (struct region_chunk){.node = node, .incarnation = 1, .handle = {.address = 1, .key = 1}};
    (void)name_at(0, 0, says->name);
    says->name_bytes = (uint8_t)strlen(says->name);
    count = region_letter_encode(&message, says->name, says->name_bytes, bytes);
    free(says);
    return regions_receive(world.nodes[0].regions, 1, REGIONS_LETTER, bytes, (uint32_t)count);
}

/* Who gives one a rank that none has would have it looked up. */
static void chunks_are_at_nodes_that_there_are(void **state)
{
    (void)state;
    begin_two(16);
    assert_int_equal(say_where(NODES - 1), NIGH_OK);
    assert_int_equal(say_where(NODES), NIGH_PROTOCOL);
    assert_int_equal(say_where(LIMIT_NODES - 1), NIGH_PROTOCOL);
    end_two();
}

/* A letter that says who took part in a barrier. */
static nigh_status say_known(uint32_t to, const char *name, uint32_t rank)
{
    struct region_message message = {.kind = REGION_KNOWN,
                                     .base = {.epoch = 1, .incarnation = 1, .counter = 2},
                                     .barrier.number = 1};
    uint8_t bytes[REGION_LETTER_BYTES];
    size_t count;

    region_set_add(&message.ranks, rank);
    count = region_letter_encode(&message, name, (uint8_t)strlen(name), bytes);
    return regions_receive(world.nodes[to].regions, 1 - to, REGIONS_LETTER, bytes, (uint32_t)count);
}

static void who_took_part_is_a_node_that_there_is(void **state)
{
    char text[16];

    (void)state;
    begin_two(16);
    (void)name_at(0, 0, text);
    assert_int_equal(say_known(0, text, NODES - 1), NIGH_OK);
    assert_int_equal(say_known(0, text, NODES), NIGH_PROTOCOL);
    assert_int_equal(say_known(0, text, LIMIT_NODES - 1), NIGH_PROTOCOL);
    end_two();
}

/* A home that was started again is told of all mappings, in some turns: also of the one that takes
 * the place of another meanwhile. */
static void what_takes_a_place_behind_a_walk_is_told(void **state)
{
    enum {
        MANY = 200
    };
    struct region *regions[MANY];
    char text[16];

    (void)state;
    begin_two(MANY);
    for (uint32_t n = 0; n < MANY; n++) {
        (void)name_at(1, n, text);
        assert_int_equal(
            regions_open(world.nodes[0].regions, text, (uint32_t)strlen(text), &regions[n]),
            NIGH_OK);
    }
    kill_node(1);
    begin_node(1);
    adopt(1);
    join_link(0, 1);
    while (turn(1) || !deliver(1, 0)) { /* by which view it goes */
    }
    (void)turn(0);
    regions_close(regions[0]); /* the last one comes to its place */
    come_to_rest();
    set_lease(1, true);
    come_to_rest();
    for (uint32_t n = 1; n < MANY; n++) {
        world.ops[0] = (struct operation){.is_used = true, .op.op.length_bytes = 1};
        regions_begin(regions[n], &world.ops[0].op);
        come_to_rest();
        assert_false(world.ops[0].is_used);
        regions_close(regions[n]);
    }
    end_two();
}

/* No more names than there is room for; and no others than there can be. */
static void names_have_a_bound(void **state)
{
    struct region *regions[17];
    char text[16];

    (void)state;
    begin_two(16);
    for (uint32_t n = 0; n < 17; n++) {
        (void)name_at(1, n, text);
        assert_int_equal(
            regions_open(world.nodes[0].regions, text, (uint32_t)strlen(text), &regions[n]),
            n < 16 ? NIGH_OK : NIGH_LIMIT);
    }
    (void)name_at(0, 0, text);
    begin_asking(&world.asks[0], text);
    assert_false(world.asks[0].is_used); /* NIGH_LIMIT */
    regions_close(regions[0]);
    begin_asking(&world.asks[0], name_at(1, 0, text));
    assert_false(world.asks[0].is_used); /* NIGH_STALE: it is the other node's */
    for (uint32_t n = 1; n < 16; n++) {
        regions_close(regions[n]);
    }
    assert_int_equal(regions_counts(world.nodes[0].regions)->names, 0);
    end_two();
}

static void begin_reading(uint32_t self, struct region *region)
{
    world.ops[0] = (struct operation){.is_used = true, .node = self, .op.op.length_bytes = 1};
    regions_begin(region, &world.ops[0].op);
}

/* One of those that acts are of, whose home is node 0. */
static const char *name_of_first(void)
{
    const char *name = names[0];

    for (uint32_t n = 1; home_in(1, regions_hash(name, (uint32_t)strlen(name))) != 0; n++) {
        assert_true(n < NAMES);
        name = names[n];
    }
    return name;
}

/* Of a chunk at node 1; memory may lack. */
static void create(const char *name)
{
    do {
        begin_asking(&world.asks[0], name);
        come_to_rest();
    } while (world.answer == NIGH_OUT_OF_MEMORY);
    assert_int_equal(world.answer, NIGH_OK);
}

/* A mapper meets the process that came after a holder before it has heard from the home. */
static void handles_go_with_the_incarnation(void **state)
{
    struct region_place place;
    struct region *region;
    const char *name;

    (void)state;
    begin_two(16);
    name = name_of_first();
    create(name);
    assert_int_equal(regions_open(world.nodes[0].regions, name, (uint32_t)strlen(name), &region),
                     NIGH_OK);
    begin_reading(0, region);
    come_to_rest();
    assert_int_equal(world.answer, NIGH_OK);
    assert_true(region_place(region, 0, &place));
    assert_true(region_is_at(region, 0, &place)); /* what waits for a link may be presented */
    kill_node(1);
    begin_node(1);
    adopt(1);
    set_lease(1, true);
    assert_true(region_is_at(region, 0, &place));
    join_link(0, 1);
    assert_false(region_is_at(region, 0, &place));
    begin_reading(0, region);
    assert_true(world.ops[0].is_used);
    assert_int_equal(world.ops[0].post_count, 0);
    come_to_rest();
    assert_false(world.ops[0].is_used);
    assert_int_equal(world.answer, NIGH_NOT_FOUND);
    end_two();
}

/* So it is where the next one has a lower number: its clock went back. */
static void handles_go_with_an_incarnation_of_any_number(void **state)
{
    struct region_place place;
    struct region *region;
    const char *name;
    uint32_t before;

    (void)state;
    begin_two(16);
    name = name_of_first();
    create(name);
    assert_int_equal(regions_open(world.nodes[0].regions, name, (uint32_t)strlen(name), &region),
                     NIGH_OK);
    begin_reading(0, region);
    come_to_rest();
    assert_int_equal(world.answer, NIGH_OK);
    assert_true(region_place(region, 0, &place));
    before = world.nodes[1].incarnation;
    kill_node(1);
    world.last_incarnation = 0;
    begin_node(1);
    assert_true(world.nodes[1].incarnation < before);
    adopt(1);
    set_lease(1, true);
    join_link(0, 1);
    assert_false(region_is_at(region, 0, &place));
    begin_reading(0, region);
    assert_true(world.ops[0].is_used);
    assert_int_equal(world.ops[0].post_count, 0);
    come_to_rest();
    assert_false(world.ops[0].is_used);
    assert_int_equal(world.answer, NIGH_NOT_FOUND);
    end_two();
}

/* A mapper hears of a chunk of a holder's next life from the home, before it hears that the one
 * that it knows has ended. */
static void what_the_next_life_made_is_there(void **state)
{
    const char *name;
    struct region *region;

    (void)state;
    begin_some(3, 16);
    name = name_of_first();
    kill_node(1);
    begin_node(1);
    adopt(1);
    set_lease(1, true);
    join_link(0, 1);
    come_to_rest();
    create(name);
    assert_int_equal(regions_open(world.nodes[2].regions, name, (uint32_t)strlen(name), &region),
                     NIGH_OK);
    begin_reading(2, region);
    come_to_rest();
    assert_int_equal(world.answer, NIGH_PEER_LOST); /* there is no link to it */
    join_link(1, 2);
    begin_reading(2, region);
    assert_int_equal(world.ops[0].post_count, 1);
    come_to_rest();
    assert_false(world.ops[0].is_used);
    assert_int_equal(world.answer, NIGH_OK);
    end_two();
    kill_node(2);
}

/* So it is of a lower number: operations wait until the node is met. */
static void what_a_life_of_a_lower_number_made_is_there(void **state)
{
    const char *name;
    struct region *region;

    (void)state;
    begin_some(3, 16);
    name = name_of_first();
    kill_node(1);
    world.last_incarnation = 0;
    begin_node(1);
    adopt(1);
    set_lease(1, true);
    join_link(0, 1);
    come_to_rest();
    create(name);
    assert_int_equal(regions_open(world.nodes[2].regions, name, (uint32_t)strlen(name), &region),
                     NIGH_OK);
    begin_reading(2, region);
    come_to_rest();
    assert_true(world.ops[0].is_used);
    assert_int_equal(world.ops[0].post_count, 0);
    join_link(1, 2);
    come_to_rest();
    assert_false(world.ops[0].is_used);
    assert_int_equal(world.answer, NIGH_OK);
    end_two();
    kill_node(2);
}

static bool all_have(const struct held *held, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        if (!held[n].has) {
            return false;
        }
    }
    return true;
}

/* Of one region, so that a walk says them at once. */
static void more_locks_than_letters_are_claimed(void **state)
{
    enum {
        MANY = 600
    };
    static struct held held[2][MANY];
    struct region *region[2];
    uint32_t name = 0;

    (void)state;
    begin_two(16);
    memset(held, 0, sizeof held);
    while (home_in(1, regions_hash(names[name], (uint32_t)strlen(names[name]))) != 0) {
        name++;
        assert_true(name < NAMES);
    }
    do { /* memory may lack */
        begin_asking(&world.asks[0], names[name]);
        come_to_rest();
    } while (world.answer == NIGH_OUT_OF_MEMORY);
    assert_int_equal(world.answer, NIGH_OK);
    for (uint32_t node = 0; node < 2; node++) {
        assert_int_equal(regions_open(world.nodes[node].regions, names[name],
                                      (uint32_t)strlen(names[name]), &region[node]),
                         NIGH_OK);
        world.ops[0] = (struct operation){
            .is_used = true, .node = node, .name = name, .op.op.length_bytes = 1};
        regions_begin(region[node], &world.ops[0].op);
        come_to_rest();
        for (uint32_t n = 0; n < MANY; n++) {
            held[node][n] = (struct held){.is_used = true, .node = node, .name = name};
            assert_int_equal(regions_lock(region[node], &region_known(region[node])->birth,
                                          2 * n + node, REGION_LOCK_EXCLUSIVE, &held[node][n].hold),
                             NIGH_OK);
        }
        come_to_rest();
        assert_true(all_have(held[node], MANY));
    }
    cut_link(0, 1);
    join_link(0, 1);
    come_to_rest();
    for (uint32_t node = 0; node < 2; node++) {
        for (uint32_t n = 0; n < MANY; n++) {
            unlock_one(&held[node][n]);
        }
        come_to_rest();
        regions_close(region[node]);
    }
    end_two();
}

/* Who asks a node that has no room for one more name is told so, and the links stay. */
static void a_full_node_says_so(void **state)
{
    struct region *filling[16], *region;
    uint64_t letters;
    char text[16];

    (void)state;
    begin_two(16);
    for (uint32_t n = 0; n < 16; n++) {
        (void)name_at(0, n, text);
        assert_int_equal(
            regions_open(world.nodes[1].regions, text, (uint32_t)strlen(text), &filling[n]),
            NIGH_OK);
    }
    begin_asking(&world.asks[0], name_at(0, 20, text)); /* of memory at the full node */
    come_to_rest();
    assert_false(world.asks[0].is_used);
    assert_int_equal(world.answer, NIGH_LIMIT);
    (void)name_at(1, 20, text);
    assert_int_equal(regions_open(world.nodes[0].regions, text, (uint32_t)strlen(text), &region),
                     NIGH_OK);
    world.ops[0] = (struct operation){.is_used = true, .op.op.length_bytes = 1};
    regions_begin(region, &world.ops[0].op);
    come_to_rest();
    assert_false(world.ops[0].is_used);
    assert_int_equal(world.answer, NIGH_LIMIT);
    letters = regions_counts(world.nodes[1].regions)->letters;
    assert_int_equal(say_known(1, text, 0), NIGH_OK);
    assert_int_equal(regions_counts(world.nodes[1].regions)->letters, letters + 1);
    assert_true(world.is_up[0][1]);
    end_two();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_told_in_another_view_has_not_told),
        cmocka_unit_test(letters_of_another_view_are_not_heard),
        cmocka_unit_test(chunks_are_at_nodes_that_there_are),
        cmocka_unit_test(who_took_part_is_a_node_that_there_is),
        cmocka_unit_test(what_takes_a_place_behind_a_walk_is_told),
        cmocka_unit_test(names_have_a_bound),
        cmocka_unit_test(handles_go_with_the_incarnation),
        cmocka_unit_test(handles_go_with_an_incarnation_of_any_number),
        cmocka_unit_test(what_the_next_life_made_is_there),
        cmocka_unit_test(what_a_life_of_a_lower_number_made_is_there),
        cmocka_unit_test(more_locks_than_letters_are_claimed),
        cmocka_unit_test(a_full_node_says_so),
        cmocka_unit_test(what_is_promised_is_kept),
        cmocka_unit_test(words_are_linearizable),
        cmocka_unit_test(locks_are_linearizable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
