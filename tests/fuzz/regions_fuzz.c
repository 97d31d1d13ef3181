/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node whose peers have the key and say anything of regions: frames of all kinds, while views,
 * leases, links and lives change, names are opened and changes asked for. What must hold: no
 * assertion; all is valid after each step; memory is made, opened and given back in order, and all
 * of it at the end; operations and asks end once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "region/regions.h"
#include "region_say.h"

#define NODES   3u
#define SELF    1u
#define NAMES   4u
#define ACTS    512u
#define OPS     4u
#define ASKS    4u
#define HOLDS   4u
#define PARTIES 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

struct act {
    struct region *region;
    enum region_holder_action action;
    uint32_t chunk;
};

struct operation {
    struct regions_op op;
    bool runs;
    uint32_t name, count;
    struct region_post posts[LIMIT_REGION_CHUNKS];
};

struct holding {
    struct regions_hold hold;
    bool waits, has;
    uint32_t name;
};

struct meeting {
    struct regions_party party;
    bool waits;
    uint32_t name;
};

struct asking {
    struct region_ask ask;
    bool is_asked;
};

static const char *const names[NAMES] = {"n", "m", "a", "longer"};

static struct {
    struct region_say say;
    struct regions *regions;
    struct act acts[ACTS];
    uint32_t act_count;
    struct operation operations[OPS];
    struct asking asks[ASKS];
    struct holding holds[HOLDS];
    struct meeting parties[PARTIES];
    struct region *opened[NAMES];
    uint32_t nodes[LIMIT_REGION_CHUNKS];
    uint64_t last_handle, epoch;
    uint64_t incarnations[NODES];
} fuzz;

static uint32_t below(uint32_t bound)
{
    return region_say_below(&fuzz.say, bound);
}

/* ---- the shell ------------------------------------------------------------ */

static uint32_t home(void *context, uint64_t hash)
{
    (void)context;
    return (uint32_t)((hash + fuzz.epoch) % NODES);
}

static bool send_frame(void *context, uint32_t rank, enum regions_frame frame, const uint8_t *bytes,
                       uint32_t count)
{
    static struct region_letter letter;

    (void)context;
    NIGH_ASSERT(rank < NODES && rank != SELF);
    NIGH_ASSERT(frame != REGIONS_LETTER || region_letter_decode(bytes, count, &letter) == NIGH_OK);
    return below(8) != 0;
}

static void act(void *context, struct region *region, const struct region_holder_act *what)
{
    (void)context;
    for (uint32_t n = 0; n < fuzz.act_count; n++) {
        struct act *todo = &fuzz.acts[n];

        if (todo->region == region && todo->chunk == what->chunk) {
            NIGH_ASSERT(todo->action == REGION_ACT_OPEN && what->action == REGION_ACT_CLOSE);
            todo->action = REGION_ACT_CLOSE; /* it goes no further */
            return;
        }
    }
    NIGH_ASSERT(fuzz.act_count < ACTS);
    fuzz.acts[fuzz.act_count++] =
        (struct act){.region = region, .action = what->action, .chunk = what->chunk};
}

static struct operation *operation_of(struct regions_op *op)
{
    return container_of(op, struct operation, op);
}

static void post(void *context, struct regions_op *op, const struct region_post *todo)
{
    struct operation *operation = operation_of(op);

    (void)context;
    NIGH_ASSERT(operation->runs && operation->count < LIMIT_REGION_CHUNKS);
    NIGH_ASSERT(todo->place.node < NODES);
    operation->posts[operation->count++] = *todo;
}

static nigh_status judge(void *context, struct regions_op *op,
                         const struct region_descriptor *descriptor)
{
    (void)context;
    (void)op;
    return region_descriptor_rights(descriptor, 1, 1) != 0 ? NIGH_OK : NIGH_DENIED;
}

static void ended(void *context, struct regions_op *op, nigh_status status)
{
    (void)context;
    (void)status;
    NIGH_ASSERT(operation_of(op)->runs && operation_of(op)->count == 0);
    operation_of(op)->runs = false;
}

static void answered(void *context, struct region_ask *ask, nigh_status status)
{
    struct asking *asking = container_of(ask, struct asking, ask);

    (void)context;
    (void)status;
    NIGH_ASSERT(asking->is_asked);
    asking->is_asked = false;
}

static void locked(void *context, struct regions_hold *hold, nigh_status status)
{
    struct holding *holding = container_of(hold, struct holding, hold);

    (void)context;
    NIGH_ASSERT(holding->waits && !(holding->has && status == NIGH_OK));
    holding->waits = holding->has = status == NIGH_OK;
}

static void wanted(void *context, struct regions_hold *hold)
{
    (void)context;
    NIGH_ASSERT(container_of(hold, struct holding, hold)->has);
}

static void passed(void *context, struct regions_party *party, nigh_status status)
{
    struct meeting *meeting = container_of(party, struct meeting, party);

    (void)context;
    (void)status;
    NIGH_ASSERT(meeting->waits);
    meeting->waits = false;
}

/* ---- what happens --------------------------------------------------------- */

static void do_act(uint32_t at, bool fails)
{
    struct act todo = fuzz.acts[at];
    bool may_fail = todo.action == REGION_ACT_MAKE || todo.action == REGION_ACT_COPY ||
                    todo.action == REGION_ACT_LEND;
    bool has_handle = todo.action == REGION_ACT_LEND || todo.action == REGION_ACT_OPEN;
    nigh_status status = fails && may_fail ? NIGH_OUT_OF_MEMORY : NIGH_OK;

    fuzz.acts[at] = fuzz.acts[--fuzz.act_count];
    regions_did(todo.region, todo.chunk, status,
                (struct region_window){.address = has_handle ? ++fuzz.last_handle : 0});
}

static void land(struct operation *operation, uint32_t at, nigh_status status)
{
    struct region_post posted = operation->posts[at];

    operation->posts[at] = operation->posts[--operation->count];
    regions_posted(&operation->op, posted.piece.chunk, posted.place.handle, status);
}

static void hear(void)
{
    static uint8_t bytes[REGION_LETTER_BYTES];
    uint32_t rank = 2 * below(2), kind = below(8);
    struct region_version change = region_say_version(&fuzz.say);
    size_t count = 8;

    change.epoch = fuzz.epoch;
    change.incarnation = fuzz.incarnations[SELF];
    if (kind < 2) {
        memset(bytes, 0, sizeof(bytes));
        bytes[0] = (uint8_t)(below(4) == 0 ? below(8) : fuzz.epoch);
        count = below(16) == 0 ? below(16) : 8;
    } else {
        count = region_say(&fuzz.say, names[below(NAMES)], below(2) == 0 ? &change : NULL,
                           below(REGION_DONE), bytes);
    }
    if (regions_receive(fuzz.regions, rank,
                        kind == 0   ? REGIONS_VIEW
                        : kind == 1 ? REGIONS_TOLD
                                    : REGIONS_LETTER,
                        bytes, (uint32_t)count) != NIGH_OK) {
        regions_link(fuzz.regions, rank, false);
    }
}

static void tell(void)
{
    struct region_set members = {{7}};
    uint32_t rank = 2 * below(2);

    switch (below(8)) {
    case 0: regions_link(fuzz.regions, rank, false); break;
    case 1:
    case 2:
        regions_alive(fuzz.regions, rank, fuzz.incarnations[rank]);
        regions_link(fuzz.regions, rank, true);
        break;
    case 3: regions_dead(fuzz.regions, rank); break;
    case 4: regions_alive(fuzz.regions, rank, ++fuzz.incarnations[rank]); break;
    case 5: regions_lease(fuzz.regions, below(4) != 0); break;
    case 6:
        if (below(4) == 0) {
            members.words[0] = 2 | below(8);
            regions_view(fuzz.regions, ++fuzz.epoch, &members);
        }
        break;
    default: regions_drop(fuzz.regions); break;
    }
}

static void ask(void)
{
    struct asking *asking = &fuzz.asks[below(ASKS)];
    const char *name = names[below(NAMES)];

    if (asking->is_asked) {
        if (below(4) == 0) {
            regions_cancel(fuzz.regions, asking->ask.name, asking->ask.name_bytes, &asking->ask,
                           NIGH_TIMEOUT);
        }
        return;
    }
    asking->is_asked = true;
    asking->ask = (struct region_ask){.kind = below(REGION_ASKS),
                                      .uid = below(3),
                                      .birth = {3, 7, 1 + below(2)},
                                      .geometry = region_say_geometry(&fuzz.say),
                                      .name = name,
                                      .name_bytes = (uint8_t)strlen(name),
                                      .other_rights = REGION_ALL,
                                      .nodes = fuzz.nodes,
                                      .node_count = below(8),
                                      .chunk = below(8),
                                      .node = below(4)};
    for (uint32_t n = 0; n < 8; n++) {
        fuzz.nodes[n] = below(NODES);
    }
    regions_ask(fuzz.regions, name, asking->ask.name_bytes, &asking->ask);
}

static bool is_in_use(uint32_t name)
{
    for (uint32_t n = 0; n < OPS; n++) {
        if (fuzz.operations[n].runs && fuzz.operations[n].name == name) {
            return true;
        }
    }
    for (uint32_t n = 0; n < PARTIES; n++) {
        if (fuzz.parties[n].party.party.barrier != NULL && fuzz.parties[n].name == name) {
            return true;
        }
    }
    for (uint32_t n = 0; n < HOLDS; n++) {
        if (fuzz.holds[n].waits && fuzz.holds[n].name == name) {
            return true;
        }
    }
    return false;
}

static void meet(void)
{
    struct meeting *meeting = &fuzz.parties[below(PARTIES)];
    uint32_t name = below(NAMES), kind = below(4);
    struct region_version birth = {3, 7, 1 + below(2)};

    if (meeting->party.party.barrier != NULL && kind == 0) {
        meeting->waits = false;
        regions_leave(&meeting->party, below(4) == 0);
    } else if (meeting->party.party.barrier != NULL && kind == 1) {
        meeting->waits = false;
        regions_withdraw(&meeting->party);
    } else if (meeting->party.party.barrier != NULL) {
        name = meeting->name;
    }
    if (!meeting->waits && kind > 1 && fuzz.opened[name] != NULL) {
        meeting->name = name;
        meeting->waits = true;
        if (regions_arrive(fuzz.opened[name], &birth, below(2), below(4), &meeting->party) !=
            NIGH_OK) {
            meeting->waits = false;
        }
    }
}

static void lock(void)
{
    struct holding *holding = &fuzz.holds[below(HOLDS)];
    uint32_t name = below(NAMES);
    struct region_version birth = {3, 7, 1 + below(2)};

    if (holding->waits) {
        holding->waits = holding->has = false;
        regions_unlock(&holding->hold, below(4) == 0);
    } else if (fuzz.opened[name] != NULL) {
        *holding = (struct holding){.waits = true, .name = name};
        if (regions_lock(fuzz.opened[name], &birth, below(3),
                         below(2) == 0 ? REGION_LOCK_SHARED : REGION_LOCK_EXCLUSIVE,
                         &holding->hold) != NIGH_OK) {
            holding->waits = false;
        }
    }
}

static void use(void)
{
    struct operation *operation = &fuzz.operations[below(OPS)];
    uint32_t name = below(NAMES);
    struct region **region = &fuzz.opened[name];

    if (operation->runs) {
        if (operation->count > 0) {
            land(operation, below(operation->count), below(2) == 0 ? NIGH_STALE : NIGH_OK);
        } else if (!operation->op.op.is_ending && below(4) == 0) {
            regions_end_op(&operation->op, NIGH_TIMEOUT);
        }
        return;
    }
    if (*region == NULL) {
        (void)regions_open(fuzz.regions, names[name], (uint32_t)strlen(names[name]), region);
    } else if (below(4) == 0 && !is_in_use(name)) {
        regions_close(*region);
        *region = NULL;
    } else {
        *operation = (struct operation){.runs = true, .name = name};
        operation->op.op.offset_bytes = below(8) * UINT64_C(4096);
        operation->op.op.length_bytes = 1 + below(8) * UINT64_C(4096);
        regions_begin(*region, &operation->op);
    }
}

/* ---- a run ---------------------------------------------------------------- */

static void begin(const uint8_t *data, size_t size_bytes)
{
    struct region_set members = {{7}};
    struct regions_config config = {.self = SELF,
                                    .incarnation = 7,
                                    .nodes = NODES,
                                    .names = NAMES,
                                    .shell = {.home = home,
                                              .locked = locked,
                                              .wanted = wanted,
                                              .passed = passed,
                                              .send = send_frame,
                                              .act = act,
                                              .post = post,
                                              .judge = judge,
                                              .ended = ended,
                                              .answered = answered}};

    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.say.input = (struct fuzz_input){.bytes = data, .left = size_bytes};
    fuzz.epoch = 3;
    fuzz.incarnations[0] = fuzz.incarnations[1] = fuzz.incarnations[2] = 7;
    NIGH_ASSERT(regions_create(&config, &fuzz.regions) == NIGH_OK);
    regions_view(fuzz.regions, fuzz.epoch, &members);
    for (uint32_t rank = 0; rank < NODES; rank += 2) {
        uint8_t epoch[8] = {3};

        regions_alive(fuzz.regions, rank, 7);
        regions_link(fuzz.regions, rank, true);
        (void)regions_receive(fuzz.regions, rank, REGIONS_VIEW, epoch, sizeof(epoch));
        (void)regions_receive(fuzz.regions, rank, REGIONS_TOLD, epoch, sizeof(epoch));
    }
    regions_lease(fuzz.regions, true);
    (void)regions_turn(fuzz.regions);
}

/* Nothing more comes: operations end, and all memory goes. */
static void end(void)
{
    for (uint32_t n = 0; n < OPS; n++) {
        struct operation *operation = &fuzz.operations[n];

        if (operation->runs && !operation->op.op.is_ending) {
            regions_end_op(&operation->op, NIGH_CANCELED);
        }
        while (operation->runs) {
            land(operation, 0, NIGH_OK);
        }
    }
    regions_drop(fuzz.regions);
    while (fuzz.act_count > 0) {
        do_act(0, false);
    }
    NIGH_ASSERT(regions_counts(fuzz.regions)->holders == 0);
    regions_destroy(fuzz.regions);
    for (uint32_t n = 0; n < ASKS; n++) {
        NIGH_ASSERT(!fuzz.asks[n].is_asked);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    begin(data, size_bytes);
    while (fuzz.say.input.left > 0) {
        switch (below(10)) {
        case 0:
        case 1:
        case 2: hear(); break;
        case 3:
            if (fuzz.act_count > 0) {
                do_act(below(fuzz.act_count), below(8) == 0);
            }
            break;
        case 4: tell(); break;
        case 5: ask(); break;
        case 6: use(); break;
        case 7: lock(); break;
        case 8: meet(); break;
        default:
            regions_held(fuzz.regions);
            (void)regions_turn(fuzz.regions);
            break;
        }
        NIGH_ASSERT(regions_are_valid(fuzz.regions));
    }
    end();
    return 0;
}
