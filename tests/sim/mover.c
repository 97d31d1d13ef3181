/* SPDX-License-Identifier: Apache-2.0 */
/* See mover.h. Loans, and what services move from there and to there. */
#include "mover.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "cluster/link.h"

#define MOVER_SALT UINT64_C(0x3c6ef372fe94f82b)
#define NOBODYS    0xa5u /* each byte that is nobody's */
#define JUDGES_US  1000u /* between moves for the judge's calls, at most: they are to end soon */
#define ROW_BYTES  256u  /* that follow from the first of them */
#define PUSHED     0x3cu /* what differs in each byte that is pushed */

static uint64_t below(struct mover_world *mover, uint64_t bound)
{
    return random_below(&mover->random, bound);
}

static bool dice(struct mover_world *mover, uint32_t percent)
{
    return below(mover, 100) < percent;
}

void mover_choose(struct world *world)
{
    struct mover_world *mover;

    if (world->options.no_memory || hash_u64(world->options.seed ^ MOVER_SALT) % 2 != 0) {
        return;
    }
    mover = calloc(1, sizeof(*mover));
    NIGH_ASSERT(mover != NULL);
    world->moves = mover;
    random_init(&mover->random, world->options.seed ^ MOVER_SALT);
    mover->places = 4 + (uint32_t)below(mover, MOVER_PLACES - 3);
    mover->most_bytes = UINT64_C(1) << (6 + below(mover, 8));
    if (dice(mover, 6)) { /* of several READs, and several turns */
        mover->most_bytes = 2 * LIMIT_BULK_CHUNK + LIMIT_BULK_CHUNK / 4;
        mover->places = 6;
    }
    mover->brings_percent = 20 + (uint32_t)below(mover, 60);
    mover->late_us = UINT64_C(1) << (5 + below(mover, 12));
    world->totals->memory_worlds++;
}

/* ---- bytes ---------------------------------------------------------------- */

/* What a call lends, and what is pushed into it, at each place of it. */
static uint8_t byte_lent(const struct mover_loan *loan, uint32_t part, uint64_t at)
{
    return (uint8_t)(loan->serial * 151 + part * 59 + at * 7 + (at >> 8) * 13 + (at >> 16) * 29);
}

static uint8_t byte_pushed(const struct mover_loan *loan, uint32_t part, uint64_t at)
{
    return byte_lent(loan, part, at) ^ PUSHED;
}

/* A row of a part from its place `at` on, not beyond the row's end: how many bytes, at most `most`.
 * Most of a run's bytes are made and looked at here, many at a time. */
static uint64_t make_row(const struct mover_loan *loan, uint32_t part, uint64_t at, uint64_t most,
                         bool pushed, uint8_t row[ROW_BYTES])
{
    uint8_t first = byte_lent(loan, part, at), mask = pushed ? PUSHED : 0;

    for (uint32_t n = 0; n < ROW_BYTES; n++) {
        row[n] = (uint8_t)(first + n * 7) ^ mask;
    }
    return min_u64(most, ROW_BYTES - at % ROW_BYTES);
}

static void fill_bytes(const struct mover_loan *loan, uint32_t part, uint64_t offset, uint8_t *to,
                       uint64_t count, bool pushed)
{
    uint8_t row[ROW_BYTES];

    for (uint64_t n = 0; n < count;) {
        uint64_t some = make_row(loan, part, offset + n, count - n, pushed, row);

        memcpy(to + n, row, some);
        n += some;
    }
}

static void check_nobodys(const struct world_lane *lane, const struct mover_place *place,
                          uint64_t from)
{
    const uint8_t *begin = place->bytes + from;

    /* All are as the first one, mostly. */
    if (begin[0] == NOBODYS && memcmp(begin, begin + 1, place->size + MOVER_EDGE - from - 1) == 0) {
        return;
    }
    for (uint64_t at = from; place->size > 0 && at < place->size + MOVER_EDGE; at++) {
        WORLD_CHECK(lane->world, place->bytes[at] == NOBODYS,
                    "node %u: byte %llu of %llu is nobody's, and was touched", lane->node,
                    (unsigned long long)at, (unsigned long long)place->size);
    }
}

static void make_nobodys(const struct world_lane *lane, struct mover_place *place)
{
    check_nobodys(lane, place, place->size);
    memset(place->bytes, NOBODYS, place->size);
    place->use = PLACE_FREE;
}

static struct mover_place *take_place(struct world_lane *lane, uint64_t bytes)
{
    const struct mover_world *mover = lane->world->moves;

    for (uint32_t n = 0; n < mover->places; n++) {
        struct mover_place *place = &lane->memory->places[n];

        if (place->use == PLACE_FREE) {
            check_nobodys(lane, place, 0);
            place->size = bytes;
            memset(place->bytes, NOBODYS, bytes + MOVER_EDGE);
            return place;
        }
    }
    return NULL;
}

/* What was pushed into a part, or is. */
struct pushes {
    const struct mover_move *all[MOVER_EACH];
    uint32_t count;
};

static void find_pushes(const struct mover_world *mover, const struct mover_loan *loan,
                        uint32_t part, struct pushes *pushes)
{
    pushes->count = 0;
    for (uint32_t n = 0; n < mover->move_count; n++) {
        const struct mover_move *move = &mover->moves[n];

        if (&mover->loans[move->loan] == loan && move->push && move->part == part) {
            NIGH_ASSERT(pushes->count < MOVER_EACH); /* one service alone has it */
            pushes->all[pushes->count++] = move;
        }
    }
}

/* Whether a byte may be, or must be, one that was pushed. */
static void see_pushes(const struct pushes *pushes, uint64_t at, bool *may, bool *must)
{
    *may = *must = false;
    for (uint32_t n = 0; n < pushes->count; n++) {
        const struct mover_move *move = pushes->all[n];

        if (at >= move->offset && at - move->offset < move->bytes) {
            *may = true;
            *must = *must || (move->ended && move->status == NIGH_OK);
        }
    }
}

/* How many bytes from a place on are in the same pushes as it is, at most `most`. */
static uint64_t count_alike(const struct pushes *pushes, uint64_t at, uint64_t most)
{
    for (uint32_t n = 0; n < pushes->count; n++) {
        uint64_t begin = pushes->all[n]->offset, end = begin + pushes->all[n]->bytes;

        most = at < begin ? min_u64(most, begin - at) : at < end ? min_u64(most, end - at) : most;
    }
    return most;
}

/* `count` bytes of a part from `offset` on: each is what was lent, or what was pushed there; where
 * it is the caller's (`there`), what a push that ended well has brought. */
static void check_bytes(struct world *world, const struct mover_loan *loan, uint32_t part,
                        uint64_t offset, const uint8_t *bytes, uint64_t count, bool there)
{
    uint8_t row[ROW_BYTES];
    struct pushes pushes;
    bool may, must;
    uint64_t some;

    find_pushes(world->moves, loan, part, &pushes);
    for (uint64_t n = 0; n < count; n += some) {
        see_pushes(&pushes, offset + n, &may, &must);
        some = count_alike(&pushes, offset + n, count - n);
        some = make_row(loan, part, offset + n, some, there && must, row);
        if (memcmp(bytes + n, row, some) == 0) {
            continue;
        }
        for (uint64_t i = n; i < n + some; i++) {
            WORLD_CHECK(world,
                        (bytes[i] == byte_lent(loan, part, offset + i) && !(there && must)) ||
                            (may && bytes[i] == byte_pushed(loan, part, offset + i)),
                        "call %u: byte %llu of part %u of its memory is another", loan->serial,
                        (unsigned long long)(offset + i), part);
        }
    }
}

/* ---- loans ---------------------------------------------------------------- */

static struct mover_loan *loan_of(struct world *world, uint32_t number)
{
    return &world->moves->loans[number];
}

uint32_t mover_parts(const struct world *world, uint32_t loan)
{
    return loan == 0 ? 0 : world->moves->loans[loan].parts;
}

static uint64_t some_bytes(struct mover_world *mover)
{
    return dice(mover, 10) ? 0 : 1 + below(mover, mover->most_bytes);
}

static bool add_part(struct world_lane *lane, uint32_t number, struct bulks_part *part)
{
    struct mover_world *mover = lane->world->moves;
    struct mover_loan *loan = &mover->loans[number];
    uint64_t bytes = some_bytes(mover);
    struct mover_place *place = take_place(lane, bytes);

    if (place == NULL) {
        return false;
    }
    place->use = PLACE_LENT;
    place->of = number;
    place->part = loan->parts;
    loan->place[loan->parts] = place;
    loan->bytes[loan->parts] = bytes;
    loan->access[loan->parts] = 1 + (uint32_t)below(mover, BULKS_READ | BULKS_WRITE);
    fill_bytes(loan, loan->parts, 0, place->bytes, bytes, false);
    *part = (struct bulks_part){.memory = {.tag = place, .bytes = bytes},
                                .access = loan->access[loan->parts]};
    loan->parts++;
    return true;
}

uint32_t mover_open(struct world_lane *lane, uint32_t serial, struct bulks_loan **out)
{
    struct mover_world *mover = lane->world->moves;
    struct bulks_part parts[MOVER_PARTS];
    uint32_t number, wanted;
    struct mover_loan *loan;

    *out = NULL;
    if (mover == NULL || mover->loan_count == MOVER_LOANS || !dice(mover, mover->brings_percent)) {
        return 0;
    }
    number = ++mover->loan_count;
    loan = &mover->loans[number];
    *loan = (struct mover_loan){.serial = serial, .node = lane->node, .lives = true};
    wanted = 1 + (uint32_t)below(mover, MOVER_PARTS);
    while (loan->parts < wanted && add_part(lane, number, &parts[loan->parts])) {
    }
    if (loan->parts == 0) {
        return 0;
    }
    NIGH_ASSERT(bulks_open(calls_bulks(lane->calls), parts, loan->parts, out) == NIGH_OK);
    lane->world->totals->loans_of_calls++;
    return number;
}

void mover_call_ended(struct world *world, uint32_t number, bool gave_up)
{
    const struct mover_loan *loan = loan_of(world, number);

    for (uint32_t part = 0; part < loan->parts && !gave_up; part++) {
        WORLD_CHECK(world, loan->place[part] == NULL,
                    "call %u has ended, and part %u of its memory is lent still", loan->serial,
                    part);
    }
}

/* Of a loan: whoever moves something of it has ended that, unless the link just ends. */
static void check_unmoved(const struct world_lane *lane, uint32_t loan)
{
    struct world *world = lane->world;

    for (uint32_t n = 0; n < world->moves->move_count; n++) {
        const struct mover_move *move = &world->moves->moves[n];

        WORLD_CHECK(world,
                    move->loan != loan || move->ended || move->node + 1 == lane->memory->losing,
                    "call %u has its memory back, and node %u moves some of it still",
                    loan_of(world, loan)->serial, move->node);
    }
}

static void give_back(struct world_lane *lane, struct mover_place *place)
{
    struct mover_loan *loan = loan_of(lane->world, place->of);

    check_unmoved(lane, place->of);
    check_bytes(lane->world, loan, place->part, 0, place->bytes, place->size, true);
    loan->place[place->part] = NULL;
    make_nobodys(lane, place);
}

/* ---- the machine's shell -------------------------------------------------- */

static uint8_t *on_address(void *context, const struct bulks_memory *memory)
{
    const struct world_lane *lane = context;
    const struct mover_place *place = memory->tag;

    WORLD_CHECK(lane->world,
                place->use != PLACE_FREE && memory->offset + memory->bytes <= place->size,
                "node %u copies what is nobody's", lane->node);
    return place->bytes + memory->offset;
}

static struct fabric_remote on_remote(void *context, const struct bulks_memory *memory)
{
    const struct world_lane *lane = context;

    return fabric_memory_remote(lane->fabric, lane->memory->registration,
                                on_address(context, memory));
}

static void on_read_done(void *context, nigh_status status, uint64_t now_us)
{
    bulks_read_done(context, status, now_us);
}

static nigh_status on_read(void *context, struct rpc *channel, const struct bulks_memory *to,
                           struct fabric_remote from, struct bulks_read *read)
{
    const struct world_lane *lane = context;
    struct fabric_slice slice = {.address = on_address(context, to),
                                 .bytes = to->bytes,
                                 .memory = lane->memory->registration};

    return link_read(link_of_calls(channel), &slice, 1, from, on_read_done, read);
}

static void on_release(void *context, const struct bulks_memory *memory)
{
    struct world_lane *lane = context;
    struct mover_place *place = memory->tag;

    if (lane->world->nodes[lane->node].ending) {
        return; /* its process is gone */
    }
    WORLD_CHECK(lane->world, place->use == PLACE_LENT || place->use == PLACE_MOVES,
                "node %u gives memory back that is nobody's", lane->node);
    if (place->use == PLACE_LENT) {
        give_back(lane, place);
    } else {
        place->use = PLACE_GIVEN;
    }
}

static const char *way_of(const struct mover_move *move)
{
    return move->push ? "pushes" : "pulls";
}

/* How it may end, besides well. */
static void check_end(struct world *world, const struct mover_move *move, nigh_status status)
{
    const struct mover_loan *loan = loan_of(world, move->loan);
    bool fits = status == NIGH_OK || status == NIGH_NOT_FOUND ||
                (status == NIGH_CANCELED && move->canceled) ||
                (status == NIGH_PEER_LOST && move->node != loan->node);

    WORLD_CHECK(world, fits, "node %u %s memory of call %u, which ends with %s", move->node,
                way_of(move), loan->serial, nigh_status_name(status));
    WORLD_CHECK(world, status == NIGH_OK || !world->calls->call[loan->serial - 1].is_the_judges,
                "in calm, node %u %s memory of call %u, which ends with %s", move->node,
                way_of(move), loan->serial, nigh_status_name(status));
}

static void check_moved(struct world *world, const struct mover_move *move)
{
    const struct mover_loan *loan = loan_of(world, move->loan);
    const struct mover_place *there = loan->place[move->part];

    if (!move->push) {
        check_bytes(world, loan, move->part, move->offset, move->place->bytes, move->bytes, false);
    } else if (loan->lives && there != NULL) {
        check_bytes(world, loan, move->part, move->offset, there->bytes + move->offset, move->bytes,
                    true);
    }
}

static void count_end(struct world_totals *totals, const struct mover_move *move)
{
    totals->moves_ok += move->status == NIGH_OK;
    totals->moves_over += move->status == NIGH_NOT_FOUND;
    totals->moves_canceled += move->status == NIGH_CANCELED;
    totals->moves_lost += move->status == NIGH_PEER_LOST;
    totals->moved_bytes += move->status == NIGH_OK ? move->bytes : 0;
}

/* When the last has ended, who waited for that answers. */
static void leave_order(struct world *world, struct mover_order *order)
{
    if (order->left > 0 || order->open > 0) {
        return;
    }
    order->used = false;
    if (order->answers) {
        world_at(world, 0, EVENT_ANSWER, order->request, 0, order->request_number);
    }
}

static void on_moved(void *context, const struct bulks_mover *mover, nigh_status status)
{
    struct world_lane *lane = context;
    struct world *world = lane->world;
    struct mover_world *moves = world->moves;
    struct mover_move *move = &moves->moves[mover->cookie];

    if (world->nodes[lane->node].ending) {
        return;
    }
    WORLD_CHECK(world,
                mover->cookie < moves->move_count && !move->ended && move->node == lane->node &&
                    move->lane == lane->number && move->session == mover->owner &&
                    move->incarnation == mover->begun,
                "node %u: a move ends that is not under way, or has ended", lane->node);
    WORLD_CHECK(world, move->place->use == PLACE_GIVEN,
                "node %u: a move ends, and its memory is not given back", lane->node);
    world_say(world, "node %u %s %llu bytes of call %u: %s", lane->node, way_of(move),
              (unsigned long long)move->bytes, loan_of(world, move->loan)->serial,
              nigh_status_name(status));
    move->ended = true;
    move->status = status;
    moves->open_count--;
    check_end(world, move, status);
    if (status == NIGH_OK) {
        check_moved(world, move);
    }
    make_nobodys(lane, move->place);
    count_end(world->totals, move);
    world_fold(world, (uint64_t)mover->cookie << 32 | (uint32_t)status);
    moves->orders[move->order].open--;
    leave_order(world, &moves->orders[move->order]);
}

static void on_breaks(void *context, struct rpc *channel)
{
    const struct world_lane *lane = context;
    struct link *link = link_of_calls(channel);

    WORLD_CHECK(lane->world, link_is_failing(link),
                "node %u breaks its link to node %u for memory of calls", lane->node,
                link_rank(link));
    link_break(link, NIGH_PROTOCOL, lane->world->now_us);
}

struct bulks_shell mover_shell(struct world_lane *lane)
{
    return (struct bulks_shell){.context = lane,
                                .address = on_address,
                                .remote = on_remote,
                                .read = on_read,
                                .release = on_release,
                                .moved = on_moved,
                                .breaks = on_breaks};
}

/* ---- lanes and lives ------------------------------------------------------ */

void mover_lane_starts(struct world_lane *lane)
{
    const struct mover_world *mover = lane->world->moves;
    uint32_t rights = FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ;
    struct mover_memory *memory;
    uint64_t each;

    if (mover == NULL) {
        return;
    }
    memory = calloc(1, sizeof(*memory));
    NIGH_ASSERT(memory != NULL);
    each = align_up_u64(mover->most_bytes + MOVER_EDGE, 64);
    memory->size = align_up_u64(each * mover->places, 4096);
    memory->bytes =
        mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NIGH_ASSERT(memory->bytes != MAP_FAILED);
    for (uint32_t n = 0; n < mover->places; n++) {
        memory->places[n].bytes = memory->bytes + n * each;
    }
    NIGH_ASSERT(fabric_memory_register(lane->fabric, memory->bytes, memory->size, FABRIC_HOST,
                                       rights, &memory->registration) == NIGH_OK);
    lane->memory = memory;
}

void mover_lane_ends(struct world_lane *lane)
{
    if (lane->memory != NULL) {
        fabric_memory_deregister(lane->fabric, lane->memory->registration);
        munmap(lane->memory->bytes, lane->memory->size);
        free(lane->memory);
        lane->memory = NULL;
    }
}

void mover_loses(struct world_lane *lane, uint32_t node)
{
    if (lane->memory != NULL) {
        lane->memory->losing = node;
    }
}

void mover_node_ends(struct world *world, uint32_t rank)
{
    struct mover_world *mover = world->moves;

    if (mover == NULL) {
        return;
    }
    for (uint32_t n = 1; n <= mover->loan_count; n++) {
        mover->loans[n].lives = mover->loans[n].lives && mover->loans[n].node != rank;
    }
    for (uint32_t n = 0; n < mover->move_count; n++) {
        struct mover_move *move = &mover->moves[n];

        if (move->node == rank && !move->ended) {
            move->ended = true; /* and nobody heard how */
            move->status = NIGH_PEER_LOST;
            mover->open_count--;
        }
    }
    for (uint32_t n = 0; n < MOVER_ORDERS; n++) {
        mover->orders[n].used = mover->orders[n].used && mover->orders[n].node != rank;
    }
}

void mover_forget(struct world *world, uint32_t rank, uint32_t session)
{
    struct mover_world *mover = world->moves;
    struct world_node *node = &world->nodes[rank];

    for (uint32_t n = 0; mover != NULL && n < mover->move_count; n++) {
        struct mover_move *move = &mover->moves[n];

        move->canceled = move->canceled || (move->node == rank && move->session == session);
    }
    for (uint32_t n = 0; mover != NULL && n < node->lanes; n++) {
        bulks_forget(calls_bulks(node->lane[n].calls), session, world->now_us);
    }
}

/* ---- services ------------------------------------------------------------- */

void mover_check_infos(const struct world_lane *lane, uint32_t number,
                       const struct calls_request *request)
{
    const struct mover_loan *loan;
    struct bulks_info infos[MOVER_PARTS];

    WORLD_CHECK(lane->world, request->bulks == mover_parts(lane->world, number),
                "node %u: a call brings %u pieces of memory of %u", lane->node, request->bulks,
                mover_parts(lane->world, number));
    if (number == 0) {
        return;
    }
    loan = loan_of(lane->world, number);
    memcpy(infos, request->bytes, request->bulks * sizeof(*infos));
    for (uint32_t n = 0; n < request->bulks; n++) {
        WORLD_CHECK(
            lane->world, infos[n].bytes == loan->bytes[n] && infos[n].access == loan->access[n],
            "node %u: part %u of the memory of call %u is another", lane->node, n, loan->serial);
    }
}

static void next_move(struct world *world, uint32_t place)
{
    struct mover_world *mover = world->moves;
    const struct mover_order *order = &mover->orders[place];
    uint32_t serial = mover->loans[order->loan].serial;
    uint64_t most_us = world->calls->call[serial - 1].is_the_judges
                           ? min_u64(mover->late_us, JUDGES_US)
                           : mover->late_us;
    uint64_t after_us = dice(mover, 40) ? 0 : below(mover, most_us);

    world_at(world, after_us, EVENT_MOVE, place, 0, order->number);
}

bool mover_take(struct world_lane *lane, uint32_t number, uint32_t request)
{
    struct world *world = lane->world;
    struct mover_world *mover = world->moves;
    const struct caller_request *kept = &world->calls->all[request];
    const struct mover_loan *loan = loan_of(world, number);
    bool is_the_judges = world->calls->call[loan->serial - 1].is_the_judges;
    uint32_t place = 0;

    while (place < MOVER_ORDERS && mover->orders[place].used) {
        place++;
    }
    if (place == MOVER_ORDERS) {
        return false;
    }
    mover->orders[place] = (struct mover_order){
        .used = true,
        .answers = is_the_judges || dice(mover, 60),
        .node = lane->node,
        .lane = lane->number,
        .loan = number,
        .left = is_the_judges ? loan->parts : 1 + (uint32_t)below(mover, MOVER_EACH),
        .request = request,
        .request_number = kept->number,
        .number = ++mover->order_count,
        .id = kept->id};
    next_move(world, place);
    return mover->orders[place].answers;
}

/* What is wrong with a move, on purpose. */
enum wrong {
    RIGHT = 0,
    NO_PART,
    TOO_FAR,
    TOO_MANY,
    NOT_FOR_THAT
};

static void spoil(const struct mover_loan *loan, enum wrong wrong, struct bulks_move *move)
{
    switch (wrong) {
    case NO_PART: move->part = loan->parts; break;
    case TOO_FAR: move->offset = loan->bytes[move->part] + 1; break;
    case TOO_MANY: move->offset = loan->bytes[move->part] - move->memory.bytes + 1; break;
    case NOT_FOR_THAT: move->push = !move->push; break;
    case RIGHT: break;
    }
}

/* False: it would not be wrong. */
static bool may_be(const struct mover_loan *loan, enum wrong wrong, uint32_t part)
{
    return wrong == RIGHT || wrong == NO_PART || wrong == TOO_FAR ||
           (wrong == TOO_MANY && loan->bytes[part] > 0) ||
           (wrong == NOT_FOR_THAT && loan->access[part] != (BULKS_READ | BULKS_WRITE));
}

static bool is_push(struct mover_world *mover, uint32_t access)
{
    return access == BULKS_WRITE || (access != BULKS_READ && dice(mover, 50));
}

/* Whole, or some of it. */
static void choose_piece(struct mover_world *mover, const struct mover_order *order,
                         struct mover_move *move, bool is_the_judges)
{
    const struct mover_loan *loan = &mover->loans[order->loan];

    move->part = is_the_judges ? order->left - 1 : (uint32_t)below(mover, loan->parts);
    move->push = is_push(mover, loan->access[move->part]);
    move->bytes = loan->bytes[move->part];
    if (!is_the_judges && dice(mover, 50)) {
        move->offset = below(mover, loan->bytes[move->part] + 1);
        move->bytes = below(mover, loan->bytes[move->part] - move->offset + 1);
    }
}

static void fill_place(const struct mover_loan *loan, struct mover_move *move)
{
    if (move->push) {
        fill_bytes(loan, move->part, move->offset, move->place->bytes, move->bytes, true);
    }
}

/* A move that must be refused. */
static void begin_wrong(struct world_lane *lane, struct bulks_serve *serve,
                        const struct mover_loan *loan, struct bulks_move *what)
{
    struct mover_world *mover = lane->world->moves;
    enum wrong wrong = (enum wrong)(1 + below(mover, NOT_FOR_THAT));
    nigh_status status;

    if (!may_be(loan, wrong, what->part)) {
        wrong = NO_PART;
    }
    spoil(loan, wrong, what);
    status = bulks_begin(serve, what, lane->world->now_us);
    WORLD_CHECK(lane->world, status == (wrong == NOT_FOR_THAT ? NIGH_DENIED : NIGH_INVALID),
                "node %u: a move of call %u that is wrong is %s", lane->node, loan->serial,
                nigh_status_name(status));
    lane->world->totals->moves_refused++;
}

static void count_begun(struct world_totals *totals, const struct mover_move *move,
                        const struct mover_loan *loan)
{
    totals->moves_of_calls++;
    totals->moves_pushed += move->push;
    totals->moves_here += move->node == loan->node;
}

static void begin_move(struct world_lane *lane, uint32_t place, struct bulks_serve *serve)
{
    struct world *world = lane->world;
    struct mover_world *mover = world->moves;
    struct mover_order *order = &mover->orders[place];
    const struct mover_loan *loan = &mover->loans[order->loan];
    bool is_the_judges = world->calls->call[loan->serial - 1].is_the_judges;
    uint32_t number = mover->move_count;
    struct mover_move *move = &mover->moves[number];
    struct bulks_move what;

    if (number == MOVER_MOVES) {
        return;
    }
    *move = (struct mover_move){.loan = order->loan,
                                .order = place,
                                .node = lane->node,
                                .lane = lane->number,
                                .session = (uint32_t)below(mover, WORLD_SESSIONS),
                                .incarnation = world->nodes[lane->node].incarnation};
    choose_piece(mover, order, move, is_the_judges);
    move->place = take_place(lane, move->bytes);
    if (move->place == NULL) {
        return;
    }
    what = (struct bulks_move){
        .push = move->push,
        .part = move->part,
        .offset = move->offset,
        .memory = {.tag = move->place, .bytes = move->bytes},
        .mover = {.owner = move->session, .begun = move->incarnation, .cookie = number}};
    if (!is_the_judges && dice(mover, 8)) {
        begin_wrong(lane, serve, loan, &what);
        return;
    }
    move->place->use = PLACE_MOVES;
    move->place->of = number;
    fill_place(loan, move);
    mover->move_count++;
    mover->open_count++;
    order->open++;
    count_begun(world->totals, move, loan);
    NIGH_ASSERT(bulks_begin(serve, &what, world->now_us) == NIGH_OK);
    if (!is_the_judges && dice(mover, 6)) {
        bool open = !move->ended;

        move->canceled = true;
        WORLD_CHECK(world,
                    bulks_cancel(calls_bulks(lane->calls), move->session, number, world->now_us) ==
                        open,
                    "node %u: a move of call %u cannot be cancelled, or has ended and can",
                    lane->node, loan->serial);
    }
}

void mover_step(struct world *world, uint32_t place, uint64_t number)
{
    struct mover_order *order = &world->moves->orders[place];
    struct world_node *node = &world->nodes[order->node];
    struct world_lane *lane = &node->lane[order->lane];
    struct bulks_serve *serve;

    if (!order->used || order->number != number) {
        return; /* its node died */
    }
    if (node->paused) {
        world_at(world, 1000, EVENT_MOVE, place, 0, number);
        return;
    }
    node->due_us = world->now_us;
    lane->quiet_until_us = 0;
    serve = calls_request_bulks(lane->calls, order->id);
    if (serve == NULL) {
        order->left = 0; /* it is answered, or was given up */
        leave_order(world, order);
        return;
    }
    order->open++; /* it is not over inside of this */
    begin_move(lane, place, serve);
    order->open--;
    order->left--;
    if (order->left > 0) {
        next_move(world, place);
    }
    leave_order(world, order);
}

/* ---- what must hold ------------------------------------------------------- */

void mover_check_lane(struct world_lane *lane)
{
    struct mover_memory *memory = lane->memory;
    const struct mover_place *place;

    if (memory == NULL) {
        return;
    }
    WORLD_CHECK(lane->world, bulks_is_valid(calls_bulks(lane->calls)),
                "what node %u lends and moves is wrong", lane->node);
    place = &memory->places[memory->next_look++ % lane->world->moves->places];
    check_nobodys(lane, place, place->use == PLACE_FREE ? 0 : place->size);
}

static bool lane_is_idle(const struct world_lane *lane)
{
    const struct bulks *bulks = calls_bulks(lane->calls);

    return bulks_loans(bulks) == 0 && bulks_moves(bulks) == 0;
}

bool mover_is_idle(const struct world *world)
{
    bool idle = world->moves == NULL || world->moves->open_count == 0;

    for (uint32_t n = 0; idle && world->moves != NULL && n < MOVER_ORDERS; n++) {
        idle = !world->moves->orders[n].used;
    }
    for (uint32_t rank = 0; idle && world->moves != NULL && rank < world->node_count; rank++) {
        const struct world_node *node = &world->nodes[rank];

        for (uint32_t n = 0; idle && n < node->lanes && node->alive; n++) {
            idle = lane_is_idle(&node->lane[n]);
        }
    }
    return idle;
}

void mover_why_not_idle(struct world *world)
{
    for (uint32_t rank = 0; world->moves != NULL && rank < world->node_count; rank++) {
        for (uint32_t n = 0; n < world->nodes[rank].lanes && world->nodes[rank].alive; n++) {
            const struct bulks *bulks = calls_bulks(world->nodes[rank].lane[n].calls);

            WORLD_CHECK(world, bulks_loans(bulks) == 0 && bulks_moves(bulks) == 0,
                        "node %u: memory of %u calls is lent still, and %u moves are under way",
                        rank, bulks_loans(bulks), bulks_moves(bulks));
        }
    }
    WORLD_CHECK(world, mover_is_idle(world), "a service has memory of calls to move, for ever");
}
