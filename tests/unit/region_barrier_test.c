/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers of a region: parties of many nodes, whose letters go up and down a tree, over channels
 * that keep their order and lose what is on its way when they break, while the tree changes. Nobody
 * goes on before all have arrived as often, everybody does in the end, and a party that dies is
 * waited for by nobody.
 */
#include <stdlib.h>
#include <string.h>

#include "region/barrier.h"

#include "support/support.h"

enum {
    NODES = 7,
    FAN = 2,
    PARTIES = 10, /* of all */
    LETTERS = 512,
    ROUNDS = 12
};

struct channel {
    struct region_message letters[LETTERS];
    uint32_t head, count;
};

struct member {
    struct region_party party;
    uint32_t node, passed, arrived;
    bool waits;
    nigh_status status; /* the last */
};

static struct {
    uint64_t random;
    uint32_t root;
    struct region_barriers nodes[NODES];
    struct member members[PARTIES];
    struct channel channels[NODES][NODES]; /* from, to */
    uint32_t untold[NODES]; /* letters to the root, of what was known in the view before */
    bool is_dead[NODES], is_member[NODES];
    bool knows_dead[NODES][NODES];
    uint64_t asks[NODES], rounds[NODES];
} world;

static const struct region_version birth = {.epoch = 1, .incarnation = 2, .counter = 3};

/* ---- channels ------------------------------------------------------------- */

static void on_send(void *context, const struct region_message *message)
{
    uint32_t rank = (uint32_t)(uintptr_t)context;
    struct channel *channel = &world.channels[rank][message->peer];
    struct region_message *at;

    if (world.is_dead[rank] || world.is_dead[message->peer] ||
        world.knows_dead[rank][message->peer]) {
        return;
    }
    assert_true(channel->count < LETTERS);
    at = &channel->letters[(channel->head + channel->count++) % LETTERS];
    *at = *message;
    at->peer = rank;
}

static bool is_alive(void *context, uint32_t rank)
{
    return world.is_member[rank] && !world.knows_dead[(uintptr_t)context][rank];
}

static bool deliver(uint32_t from, uint32_t to)
{
    struct channel *channel = &world.channels[from][to];
    struct region_message message;

    if (channel->count == 0) {
        return false;
    }
    message = channel->letters[channel->head];
    channel->head = (channel->head + 1) % LETTERS;
    channel->count--;
    if (to == world.root && world.untold[from] > 0) {
        world.untold[from]--;
    }
    assert_int_equal(region_barriers_take(&world.nodes[to], &message), NIGH_OK);
    assert_true(region_barriers_are_valid(&world.nodes[to]));
    return true;
}

/* ---- parties -------------------------------------------------------------- */

static void on_passed(void *context, struct region_party *party, nigh_status status)
{
    struct member *member = container_of(party, struct member, party);

    (void)context;
    if (world.is_dead[member->node]) {
        return;
    }
    assert_true(member->waits);
    member->waits = false;
    member->status = status;
    if (status != NIGH_OK) {
        return;
    }
    member->passed++;
    for (uint32_t n = 0; n < PARTIES; n++) {
        assert_true(world.members[n].arrived >= member->passed);
    }
}

static void arrive(struct member *member, uint64_t number, uint32_t parties)
{
    assert_false(member->waits);
    member->waits = true;
    member->arrived = member->passed + 1;
    assert_int_equal(
        region_barrier_arrive(&world.nodes[member->node], &birth, number, parties, &member->party),
        NIGH_OK);
}

/* ---- a world -------------------------------------------------------------- */

static uint32_t below(uint32_t bound)
{
    return (uint32_t)(support_random(&world.random) % bound);
}

/* From the root on, by rank, of those in the view. */
static uint32_t parent_of(uint32_t rank)
{
    uint32_t order[NODES], count = 0, place = 0;

    for (uint32_t n = 0; n < NODES; n++) {
        uint32_t at = (world.root + n) % NODES;

        if (world.is_member[at]) {
            place = at == rank ? count : place;
            order[count++] = at;
        }
    }
    return place == 0 ? REGION_NOBODY : order[(place - 1) / FAN];
}

/* A node hears that another is dead. */
static void tell_dead(uint32_t rank, uint32_t dead)
{
    if (world.is_dead[rank] || !world.is_dead[dead] || world.knows_dead[rank][dead]) {
        return;
    }
    world.knows_dead[rank][dead] = true;
    world.channels[dead][rank].count = 0;
    region_barriers_dead(&world.nodes[rank], dead);
}

static void tell_dead_all(uint32_t dead)
{
    for (uint32_t rank = 0; rank < NODES; rank++) {
        tell_dead(rank, dead);
    }
}

static void link_both(uint32_t a, uint32_t b)
{
    if (!world.is_dead[a] && !world.is_dead[b]) {
        region_barriers_link(&world.nodes[a], b);
        region_barriers_link(&world.nodes[b], a);
        world.untold[a] = b == world.root ? world.channels[a][b].count : world.untold[a];
        world.untold[b] = a == world.root ? world.channels[b][a].count : world.untold[b];
    }
}

/* Whom the view leaves out is dead to all. */
static void place_all(void)
{
    memset(world.untold, 0, sizeof(world.untold));
    for (uint32_t rank = 0; rank < NODES; rank++) {
        for (uint32_t n = 0; n < NODES; n++) {
            if (!world.is_member[n]) {
                tell_dead(rank, n);
            }
        }
        if (!world.is_dead[rank]) {
            region_barriers_place(&world.nodes[rank], parent_of(rank), world.root,
                                  rank == world.root);
        }
    }
    memset(world.channels, 0, sizeof(world.channels)); /* said in no view, or in the one before */
    for (uint32_t n = 0; n < NODES * NODES; n++) {
        if (n / NODES <= n % NODES) {
            link_both(n / NODES, n % NODES);
        }
    }
}

/* The root may count when it knows the region, which it does when all who live have told it theirs,
 * and what was known before; letters that were said later may come later. */
static void open_root(void)
{
    if (world.is_dead[world.root]) {
        return;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        tell_dead(world.root, n);
        while (!world.is_dead[n] && world.untold[n] > 0) {
            assert_true(deliver(n, world.root));
        }
    }
    region_barriers_know(&world.nodes[world.root]);
    region_barriers_open(&world.nodes[world.root], &birth);
}

static void begin(uint64_t seed)
{
    memset(&world, 0, sizeof(world));
    world.random = seed;
    for (uint32_t rank = 0; rank < NODES; rank++) {
        struct region_barrier_shell shell = {.context = (void *)(uintptr_t)rank,
                                             .asks = &world.asks[rank],
                                             .rounds = &world.rounds[rank],
                                             .send = on_send,
                                             .passed = on_passed,
                                             .is_alive = is_alive};

        region_barriers_init(&world.nodes[rank], &shell);
        world.is_member[rank] = true;
    }
    for (uint32_t n = 0; n < PARTIES; n++) {
        world.members[n].node = below(NODES);
    }
    place_all();
    open_root();
}

static bool deliver_some(void)
{
    uint32_t first = below(NODES * NODES);

    for (uint32_t n = 0; n < NODES * NODES; n++) {
        uint32_t at = (first + n) % (NODES * NODES);

        if (deliver(at / NODES, at % NODES)) {
            return true;
        }
    }
    return false;
}

static void deliver_all(void)
{
    while (deliver_some()) {
    }
}

static void end(void)
{
    for (uint32_t n = 0; n < PARTIES; n++) {
        if (!world.is_dead[world.members[n].node]) {
            region_barrier_leave(&world.nodes[world.members[n].node], &world.members[n].party,
                                 false);
        }
    }
    deliver_all();
    for (uint32_t rank = 0; rank < NODES; rank++) {
        assert_true(world.is_dead[rank] || region_barriers_are_idle(&world.nodes[rank]));
    }
}

static void break_link(uint32_t a, uint32_t b)
{
    world.channels[a][b].count = world.channels[b][a].count = 0;
    if (!world.is_dead[a] && !world.is_dead[b]) {
        region_barriers_unlink(&world.nodes[a], b);
        region_barriers_unlink(&world.nodes[b], a);
    }
    link_both(a, b);
}

static void change_tree(void)
{
    do {
        world.root = below(NODES);
    } while (!world.is_member[world.root]);
    place_all();
    for (uint32_t n = 0, count = below(40); n < count; n++) {
        (void)deliver_some();
    }
    open_root();
}

static bool all_have_passed(uint32_t rounds)
{
    for (uint32_t n = 0; n < PARTIES; n++) {
        if (world.members[n].passed < rounds) {
            return false;
        }
    }
    return true;
}

static void leave(struct member *member)
{
    member->waits = false;
    region_barrier_leave(&world.nodes[member->node], &member->party, false);
}

/* As its deadline has passed. */
static void withdraw(struct member *member)
{
    region_barrier_withdraw(&world.nodes[member->node], &member->party);
    member->waits = false;
}

static void step(uint32_t trouble, uint32_t rounds)
{
    struct member *member = &world.members[below(PARTIES)];

    switch (below(4)) {
    case 0:
        if (member->waits) {
            /* With who is counted the others may have gone on, and it does not hear it. */
            if (member->party.ask != 0 && below(8) == 0) {
                withdraw(member);
            }
            break;
        }
        if (member->passed < rounds && below(8) == 0) {
            leave(member); /* somebody else takes its place, who knows how often all have arrived */
            member->node = below(NODES);
        }
        if (member->passed < rounds) {
            arrive(member, 9, PARTIES);
        }
        break;
    case 1:
    case 2: (void)deliver_some(); break;
    default:
        if (below(trouble) == 0) {
            break_link(below(NODES), below(NODES));
        } else if (below(8 * trouble) == 0) {
            change_tree();
        }
    }
}

static void all_go_on_together(void **state)
{
    uint64_t seed = support_seed(), until_us = support_now_us() + support_budget_ms(2000) * 1000;
    uint64_t worlds = 0;

    (void)state;
    do {
        uint32_t trouble, steps = 0;

        begin(seed + worlds++);
        for (trouble = 2 + below(64); !all_have_passed(ROUNDS); steps++) {
            assert_true(steps < 1000000);
            step(steps < 20000 ? trouble : UINT32_MAX / 8, ROUNDS); /* and then in peace */
        }
        end();
    } while (support_now_us() < until_us);
    print_message("# seed %llu: %llu worlds\n", (unsigned long long)seed,
                  (unsigned long long)worlds);
}

/* ---- deaths --------------------------------------------------------------- */

/* Some of what it said may come yet. */
static void kill(uint32_t dead)
{
    for (uint32_t n = 0; n < PARTIES; n++) {
        world.members[n].waits = world.members[n].waits && world.members[n].node != dead;
    }
    world.is_dead[dead] = true;
    region_barriers_end(&world.nodes[dead], NIGH_CANCELED);
    for (uint32_t rank = 0; rank < NODES; rank++) {
        struct channel *channel = &world.channels[dead][rank];

        world.channels[rank][dead].count = 0;
        channel->count = channel->count == 0 ? 0 : below(channel->count + 1);
    }
}

static bool lives(const struct member *member)
{
    return member->party.barrier != NULL && !world.is_dead[member->node];
}

/* All that lives may have heard of it, and the view may leave it out. */
static void change_members(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        world.is_member[n] = world.is_member[n] && !(world.is_dead[n] && below(2) == 0);
    }
    change_tree();
}

static void arrive_again(void)
{
    for (uint32_t n = 0; n < PARTIES; n++) {
        if (lives(&world.members[n]) && !world.members[n].waits) {
            arrive(&world.members[n], 9, PARTIES);
        }
    }
}

/* A party dies whose session ends, or whose node does, and perhaps other nodes; whatever views come
 * meanwhile. */
static void some_die(void)
{
    struct member *first = &world.members[below(PARTIES)];
    uint32_t deaths = 1 + below(3);

    if (below(2) == 0) {
        first->waits = false;
        region_barrier_leave(&world.nodes[first->node], &first->party, true);
    } else {
        kill(first->node);
    }
    for (uint32_t n = 0, count = below(200); n < count; n++) {
        switch (below(8)) {
        case 0: tell_dead(below(NODES), below(NODES)); break;
        case 1: break_link(below(NODES), below(NODES)); break;
        case 2:
            if (below(8) == 0) {
                change_members();
            }
            break;
        case 3:
            if (deaths < 4 && below(16) == 0) {
                uint32_t dead = below(NODES);

                deaths++;
                if (!world.is_dead[dead]) {
                    kill(dead);
                }
            }
            break;
        case 4: {
            struct member *member = &world.members[below(PARTIES)];

            if (lives(member) && !member->waits) {
                arrive(member, 9, PARTIES);
            }
            break;
        }
        default: (void)deliver_some(); break;
        }
    }
}

static void settle(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        world.is_member[n] = !world.is_dead[n];
    }
    change_tree();
    deliver_all();
}

static void who_is_gone_is_waited_for_by_nobody(void **state)
{
    uint64_t seed = support_seed(), until_us = support_now_us() + support_budget_ms(2000) * 1000;
    uint64_t worlds = 0;

    (void)state;
    do {
        uint32_t rounds, trouble;

        begin(seed + worlds++);
        rounds = 1 + below(3);
        trouble = 2 + below(64);
        for (uint32_t steps = 0; !all_have_passed(rounds); steps++) {
            assert_true(steps < 1000000);
            step(steps < 20000 ? trouble : UINT32_MAX / 8, rounds);
        }
        arrive_again();
        for (uint32_t n = 0, count = below(100); n < count; n++) {
            step(trouble, rounds);
        }
        some_die();
        settle();
        for (uint32_t n = 0; n < PARTIES; n++) {
            assert_false(world.members[n].waits);
        }
        arrive_again();
        deliver_all();
        for (uint32_t n = 0; n < PARTIES; n++) {
            assert_true(!lives(&world.members[n]) || world.members[n].status == NIGH_PEER_LOST);
        }
        end();
    } while (support_now_us() < until_us);
    print_message("# seed %llu: %llu worlds\n", (unsigned long long)seed,
                  (unsigned long long)worlds);
}

/* ---- one thing after the other -------------------------------------------- */

static void begin_spread(void)
{
    begin(1);
    for (uint32_t n = 0; n < PARTIES; n++) {
        world.members[n].node = n % NODES;
    }
}

static void who_withdrew_has_not_arrived(void **state)
{
    (void)state;
    begin_spread();
    for (uint32_t n = 1; n < PARTIES; n++) {
        arrive(&world.members[n], 9, PARTIES);
    }
    deliver_all();
    region_barrier_withdraw(&world.nodes[world.members[6].node], &world.members[6].party);
    world.members[6].waits = false;
    deliver_all();
    arrive(&world.members[0], 9, PARTIES);
    deliver_all();
    assert_int_equal(world.members[0].passed, 0);
    arrive(&world.members[6], 9, PARTIES);
    deliver_all();
    for (uint32_t n = 0; n < PARTIES; n++) {
        assert_int_equal(world.members[n].passed, 1);
    }
    end();
}

/* It is the root by then, and was told by who was that of another tree, which nobody heard. */
static void who_missed_that_all_went_on_hears_it(void **state)
{
    (void)state;
    begin_spread();
    for (uint32_t n = 0; n < PARTIES; n++) {
        arrive(&world.members[n], 9, PARTIES);
    }
    while (world.members[0].passed == 0) {
        assert_true(deliver_some());
    }
    world.root = 3;
    place_all();
    open_root();
    deliver_all();
    for (uint32_t n = 0; n < PARTIES; n++) {
        assert_int_equal(world.members[n].passed, 1);
    }
    end();
}

static void whom_a_party_died_of_waits_for_nobody(void **state)
{
    (void)state;
    begin_spread();
    for (uint32_t n = 0; n + 1 < PARTIES; n++) {
        arrive(&world.members[n], 9, PARTIES);
    }
    deliver_all();
    region_barrier_leave(&world.nodes[world.members[4].node], &world.members[4].party, true);
    world.members[4].waits = false;
    deliver_all();
    for (uint32_t n = 0; n + 1 < PARTIES; n++) {
        assert_true(n == 4 || world.members[n].status == NIGH_PEER_LOST);
        assert_false(world.members[n].waits);
    }
    arrive(&world.members[9], 9, PARTIES);
    deliver_all();
    assert_int_equal(world.members[9].status, NIGH_PEER_LOST); /* who comes later, too */
    for (uint32_t n = 0; n < PARTIES; n++) {
        arrive(&world.members[n], 10, PARTIES);
    }
    deliver_all();
    for (uint32_t n = 0; n < PARTIES; n++) {
        assert_int_equal(world.members[n].passed, 1); /* at another */
    }
    end();
}

static void a_node_that_dies_is_waited_for_by_nobody(void **state)
{
    uint32_t dead = 5;

    (void)state;
    begin_spread();
    for (uint32_t n = 0; n + 1 < PARTIES; n++) {
        arrive(&world.members[n], 9, PARTIES);
    }
    deliver_all();
    kill(dead);
    tell_dead_all(dead);
    deliver_all();
    for (uint32_t n = 0; n + 1 < PARTIES; n++) {
        assert_false(world.members[n].waits);
    }
    assert_int_equal(world.members[0].status, NIGH_PEER_LOST);
    end();
}

static void who_died_as_the_tree_changed_is_waited_for_by_nobody(void **state)
{
    const uint32_t dead = 5;

    (void)state;
    begin_spread();
    world.members[0].node = 1;
    world.members[1].node = dead;
    arrive(&world.members[0], 9, 3);
    arrive(&world.members[1], 9, 3);
    deliver_all();
    kill(dead);
    tell_dead_all(dead);
    world.is_member[dead] = false;
    world.root = 6;
    place_all();
    open_root();
    deliver_all();
    assert_int_equal(world.members[0].status, NIGH_PEER_LOST);
    end();
}

/* Of two parties one is at a node that dies, as which it is known above it, in the tree of home 0.
 */
static void begin_two(uint32_t node, uint32_t other)
{
    begin_spread();
    world.members[0].node = node;
    world.members[1].node = other;
    arrive(&world.members[0], 9, 3);
    arrive(&world.members[1], 9, 3);
    deliver_all();
}

/* That home was told of the death before it had heard of the barrier, and nobody else was. */
static void a_home_looks_who_lives_of_those_that_took_part(void **state)
{
    const uint32_t dead = 5;

    (void)state;
    begin_two(2, dead);
    kill(dead);
    world.root = 6;
    place_all();
    tell_dead(world.root, dead);
    open_root();
    deliver_all();
    assert_int_equal(world.members[0].status, NIGH_PEER_LOST);
    assert_false(world.members[0].waits);
    end();
}

static void deliver_from(uint32_t from)
{
    for (uint32_t to = 0; to < NODES; to++) {
        while (deliver(from, to)) {
        }
    }
}

/* Who has told the home that it takes part dies before it is heard in the tree. */
static void a_home_keeps_who_takes_part(void **state)
{
    const uint32_t dead = 5;

    (void)state;
    begin_two(4, dead);
    world.root = 6;
    place_all();
    open_root();
    deliver_from(world.root); /* so nobody else has to remember it */
    kill(dead);
    memset(world.channels[dead], 0, sizeof(world.channels[dead]));
    tell_dead_all(dead);
    deliver_all();
    assert_int_equal(world.members[0].status, NIGH_PEER_LOST);
    assert_false(world.members[0].waits);
    end();
}

/* It was there as the view came, and died before it told the home; which takes who is there again
 * for it, as it had heard of the death before it heard of the barrier. */
static void who_was_started_again_took_no_part(void **state)
{
    const uint32_t dead = 5, teller = 2;
    struct region_barrier_shell shell;

    (void)state;
    begin_two(teller, dead);
    world.root = 6;
    place_all();
    shell = world.nodes[dead].shell;
    kill(dead);
    memset(world.channels[dead], 0, sizeof(world.channels[dead]));
    region_barriers_unlink(&world.nodes[teller], dead);
    tell_dead(world.root, dead);
    world.is_dead[dead] = world.knows_dead[world.root][dead] = false;
    world.untold[dead] = 0;
    region_barriers_init(&world.nodes[dead], &shell);
    region_barriers_place(&world.nodes[dead], parent_of(dead), world.root, false);
    open_root();
    deliver_all();
    assert_true(world.members[0].waits);
    region_barriers_dead(&world.nodes[teller], dead); /* as another is there */
    link_both(teller, dead);
    deliver_all();
    assert_int_equal(world.members[0].status, NIGH_PEER_LOST);
    assert_false(world.members[0].waits);
    end();
}

/* A node that remembers who took part, as it has no link to one of them, says nothing any more of
 * the rounds that those had. */
static void what_was_noted_is_not_of_who_comes_later(void **state)
{
    const uint32_t keeper = 2, other = 5;

    (void)state;
    begin_two(keeper, other);
    for (uint32_t n = 3; n < PARTIES; n++) {
        world.members[n].arrived = 1; /* nobody waits for it */
    }
    arrive(&world.members[2], 9, 3);
    deliver_all();
    assert_int_equal(world.members[2].passed, 1);
    world.root = 6;
    place_all();
    region_barriers_unlink(&world.nodes[keeper], other);
    open_root();
    deliver_all();
    for (uint32_t n = 0; n < 3; n++) {
        leave(&world.members[n]);
    }
    deliver_all();
    assert_false(region_barriers_are_idle(&world.nodes[keeper]));
    for (uint32_t n = 0; n < PARTIES; n++) {
        world.members[n] = (struct member){.node = keeper + n % 2, .arrived = 1};
    }
    arrive(&world.members[1], 9, 3);
    deliver_all();
    arrive(&world.members[0], 9, 3);
    deliver_all();
    assert_true(world.members[0].waits && world.members[1].waits);
    link_both(keeper, other);
    end();
}

/* That it did was lost, and the home has no lease as it hears of the link. */
static void a_home_hears_who_left(void **state)
{
    const uint32_t node = 4;

    (void)state;
    begin_two(node, 3);
    world.root = 6;
    place_all();
    open_root();
    deliver_all();
    region_barriers_shut(&world.nodes[world.root]);
    leave(&world.members[0]);
    leave(&world.members[1]);
    world.channels[node][world.root].count = 0;
    break_link(node, world.root);
    deliver_all();
    assert_true(region_barriers_are_idle(&world.nodes[world.root]));
    end();
}

/* ---- newcomers ------------------------------------------------------------ */

/* Parties at these nodes of the tree of home 0; 1 and 2 are below it, and 3 and 4 below 1. */
static void begin_at(uint32_t first, uint32_t second, uint32_t third)
{
    begin_spread();
    for (uint32_t n = 0; n < PARTIES; n++) {
        world.members[n].arrived = 1000; /* nobody waits for it */
    }
    world.members[0].node = first;
    world.members[1].node = second;
    world.members[2].node = third;
}

/* Letters from one to another, and on from there, as long as there are some. */
static void deliver_along(const uint32_t *nodes, uint32_t count)
{
    for (uint32_t n = 0; n + 1 < count; n++) {
        while (deliver(nodes[n], nodes[n + 1])) {
        }
    }
}

#define ALONG(...)                                 \
    deliver_along((const uint32_t[]){__VA_ARGS__}, \
                  sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* The first two have waited for each other, as the home knows; the third takes the place of the
 * first, which has passed, and waits for the second, which has to arrive again. */
static void check_that_the_third_waits(void)
{
    assert_int_equal(world.members[0].passed, 1);
    leave(&world.members[0]);
    world.members[0].arrived = 1000;
    world.members[2].passed = 1;
    arrive(&world.members[2], 9, 2);
}

static void check_that_the_third_is_in_step(void)
{
    deliver_all();
    assert_int_equal(world.members[1].passed, 1);
    assert_true(world.members[2].waits);
    arrive(&world.members[1], 9, 2);
    deliver_all();
    assert_int_equal(world.members[1].passed, 2);
    assert_int_equal(world.members[2].passed, 2);
    end();
}

static void who_is_new_where_it_is_not_known_that_all_went_on_waits(void **state)
{
    (void)state;
    begin_at(1, 3, 3);
    arrive(&world.members[0], 9, 2);
    arrive(&world.members[1], 9, 2);
    for (uint32_t n = 0; n < 4; n++) {
        ALONG(3, 1, 0, 1);
        if (world.members[0].passed == 0) {
            ALONG(1, 3);
        }
    }
    check_that_the_third_waits();
    check_that_the_third_is_in_step();
}

static void who_is_new_below_who_does_not_know_that_all_went_on_waits(void **state)
{
    (void)state;
    begin_at(2, 1, 4);
    arrive(&world.members[0], 9, 2);
    arrive(&world.members[1], 9, 2);
    ALONG(1, 0, 1, 0);
    ALONG(2, 0, 2, 0, 2);
    check_that_the_third_waits();
    ALONG(4, 1, 4, 1);
    check_that_the_third_is_in_step();
}

/* It asked for one that waits no longer, and all went on without that one. */
static void what_answers_another_ask_is_not_for_who_came_later(void **state)
{
    (void)state;
    begin_at(0, 0, 3);
    world.members[3].node = 3;
    arrive(&world.members[3], 9, 2);
    ALONG(3, 1, 0, 1);
    withdraw(&world.members[3]);
    world.members[3].arrived = 1000;
    arrive(&world.members[0], 9, 2);
    arrive(&world.members[1], 9, 2);
    check_that_the_third_waits();
    ALONG(1, 3, 1, 0, 1, 3);
    check_that_the_third_is_in_step();
}

/* All have left that took part, while one was told of a round, or that it is broken. */
static void all_leave_and_others_come(void)
{
    ALONG(3, 1, 0);
    ALONG(3, 0);
    for (uint32_t n = 0; n < PARTIES; n++) {
        if (world.members[n].party.barrier != NULL) {
            leave(&world.members[n]);
        }
    }
    ALONG(4, 1, 0);
    ALONG(4, 0);
    ALONG(3, 1, 0);
    ALONG(3, 0);
    assert_true(region_barriers_are_idle(&world.nodes[0]));
    for (uint32_t n = 0; n < 3; n++) {
        world.members[n] = (struct member){.node = n == 1 ? 3 : 0};
    }
    arrive(&world.members[0], 9, 3);
    arrive(&world.members[1], 9, 3);
    deliver_all();
    assert_true(world.members[0].waits);
    assert_true(world.members[1].waits);
    arrive(&world.members[2], 9, 3);
    deliver_all();
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(world.members[n].passed, 1);
        assert_int_equal(world.members[n].status, NIGH_OK);
    }
    end();
}

static void what_was_said_of_a_round_is_not_of_who_comes_later(void **state)
{
    (void)state;
    begin_at(0, 3, 4);
    arrive(&world.members[1], 9, 2);
    deliver_all();
    arrive(&world.members[0], 9, 2);
    ALONG(0, 1);
    assert_int_equal(world.members[0].passed, 1);
    assert_int_equal(world.members[1].passed, 0);
    all_leave_and_others_come();
}

static void what_was_said_of_a_death_is_not_of_who_comes_later(void **state)
{
    (void)state;
    begin_at(0, 3, 4);
    for (uint32_t n = 0; n < 3; n++) {
        arrive(&world.members[n], 9, 4);
    }
    deliver_all();
    world.members[2].waits = false;
    region_barrier_leave(&world.nodes[4], &world.members[2].party, true);
    ALONG(4, 1, 0, 1);
    assert_int_equal(world.members[0].status, NIGH_PEER_LOST);
    assert_true(world.members[1].waits);
    all_leave_and_others_come();
}

/* As the home asks after a link broke whether somebody takes part yet. */
static void what_was_noted_of_a_round_is_not_of_who_comes_later(void **state)
{
    (void)state;
    begin_at(0, 3, 4);
    arrive(&world.members[1], 9, 2);
    arrive(&world.members[0], 9, 2);
    deliver_all();
    assert_int_equal(world.members[1].passed, 1);
    place_all();
    open_root();
    deliver_all();
    break_link(0, 3);
    all_leave_and_others_come();
}

static void what_was_noted_of_a_death_is_not_of_who_comes_later(void **state)
{
    (void)state;
    begin_at(0, 3, 4);
    for (uint32_t n = 0; n < 3; n++) {
        arrive(&world.members[n], 9, 4);
    }
    deliver_all();
    place_all();
    open_root();
    deliver_all();
    world.members[2].waits = false;
    region_barrier_leave(&world.nodes[4], &world.members[2].party, true);
    deliver_all();
    assert_int_equal(world.members[1].status, NIGH_PEER_LOST);
    break_link(0, 3);
    all_leave_and_others_come();
}

/* A node keeps what it knows as it does not hear that the home has noted it; all leave meanwhile,
 * and others come. */
static void what_was_known_of_a_round_is_not_of_who_comes_later(void **state)
{
    (void)state;
    begin_at(0, 3, 4);
    arrive(&world.members[1], 9, 2);
    arrive(&world.members[0], 9, 2);
    deliver_all();
    place_all();
    open_root();
    leave(&world.members[0]);
    leave(&world.members[1]);
    for (uint32_t n = 0; n < 4; n++) {
        ALONG(3, 1, 0);
        ALONG(3, 0);
    }
    world.channels[0][3].count = 0;
    deliver_all();
    assert_true(region_barriers_are_idle(&world.nodes[0]));
    assert_false(region_barriers_are_idle(&world.nodes[3]));
    for (uint32_t n = 0; n < 3; n++) {
        world.members[n] = (struct member){.node = n == 1 ? 3 : n};
    }
    arrive(&world.members[0], 9, 3);
    arrive(&world.members[1], 9, 3);
    ALONG(3, 1, 0, 1, 3, 1, 0);
    assert_true(world.members[0].waits);
    break_link(0, 3);
    deliver_all();
    assert_true(world.members[0].waits);
    assert_true(world.members[1].waits);
    arrive(&world.members[2], 9, 3);
    deliver_all();
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(world.members[n].passed, 1);
        assert_int_equal(world.members[n].status, NIGH_OK);
    }
    end();
}

static void they_agree_on_how_many_they_are(void **state)
{
    (void)state;
    begin_spread();
    arrive(&world.members[1], 9, 2);
    deliver_all();
    arrive(&world.members[2], 9, 3);
    deliver_all();
    assert_int_equal(world.members[1].status, NIGH_INVALID);
    assert_int_equal(world.members[2].status, NIGH_INVALID);
    end();
}

static void a_region_that_is_freed_has_no_barriers(void **state)
{
    struct region_version later = birth;

    (void)state;
    begin_spread();
    arrive(&world.members[3], 9, 2);
    deliver_all();
    later.counter++;
    region_barriers_open(&world.nodes[world.root], &later);
    deliver_all();
    assert_int_equal(world.members[3].status, NIGH_NOT_FOUND);
    assert_null(world.members[3].party.barrier);
    arrive(&world.members[3], 9, 1); /* it has not heard of it */
    deliver_all();
    assert_int_equal(world.members[3].status, NIGH_NOT_FOUND);
    assert_null(world.members[3].party.barrier);
    end();
}

static void as_many_as_there_is_room_for(void **state)
{
    static struct member many[LIMIT_REGION_BARRIERS + 1];
    nigh_status status = NIGH_OK;
    uint32_t n = 0;

    (void)state;
    begin_spread();
    for (; n <= LIMIT_REGION_BARRIERS && status == NIGH_OK; n++) {
        many[n] = (struct member){.node = 0};
        status = region_barrier_arrive(&world.nodes[0], &birth, 100 + n, 2, &many[n].party);
    }
    assert_int_equal(status, NIGH_LIMIT);
    assert_int_equal(n, LIMIT_REGION_BARRIERS + 1);
    assert_int_equal(region_barrier_arrive(&world.nodes[0], &birth, 100, 2, &many[0].party),
                     NIGH_BUSY);
    while (n-- > 0) {
        region_barrier_leave(&world.nodes[0], &many[n].party, false);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_withdrew_has_not_arrived),
        cmocka_unit_test(who_missed_that_all_went_on_hears_it),
        cmocka_unit_test(whom_a_party_died_of_waits_for_nobody),
        cmocka_unit_test(a_node_that_dies_is_waited_for_by_nobody),
        cmocka_unit_test(who_died_as_the_tree_changed_is_waited_for_by_nobody),
        cmocka_unit_test(a_home_looks_who_lives_of_those_that_took_part),
        cmocka_unit_test(a_home_keeps_who_takes_part),
        cmocka_unit_test(who_was_started_again_took_no_part),
        cmocka_unit_test(what_was_noted_is_not_of_who_comes_later),
        cmocka_unit_test(a_home_hears_who_left),
        cmocka_unit_test(who_is_new_where_it_is_not_known_that_all_went_on_waits),
        cmocka_unit_test(who_is_new_below_who_does_not_know_that_all_went_on_waits),
        cmocka_unit_test(what_answers_another_ask_is_not_for_who_came_later),
        cmocka_unit_test(what_was_said_of_a_round_is_not_of_who_comes_later),
        cmocka_unit_test(what_was_said_of_a_death_is_not_of_who_comes_later),
        cmocka_unit_test(what_was_noted_of_a_round_is_not_of_who_comes_later),
        cmocka_unit_test(what_was_noted_of_a_death_is_not_of_who_comes_later),
        cmocka_unit_test(what_was_known_of_a_round_is_not_of_who_comes_later),
        cmocka_unit_test(they_agree_on_how_many_they_are),
        cmocka_unit_test(a_region_that_is_freed_has_no_barriers),
        cmocka_unit_test(as_many_as_there_is_room_for),
        cmocka_unit_test(all_go_on_together),
        cmocka_unit_test(who_is_gone_is_waited_for_by_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
