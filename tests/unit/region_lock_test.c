/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of a region between nodes and its home: whose turn it is, what is kept, said again and
 * lost. Four nodes whose channels keep their order, and lose what is on its way when they break;
 * homes that change; nodes that die. A lock is never held by two that do not suit each other, and
 * whoever waits has it in the end.
 */
#include <stdlib.h>
#include <string.h>

#include "region/lock_home.h"
#include "region/lock_node.h"

#include "support/support.h"

enum {
    NODES = 4,
    HOLDS = 6, /* of a node */
    LOCKS = 2,
    LETTERS = 256,
    STEPS = 4000
};

struct channel {
    struct region_message letters[LETTERS];
    uint32_t head, count;
};

enum wish {
    WISH_NONE,
    WISH_WAITS,
    WISH_HOLDS,
    WISH_LOST
};

struct client {
    struct region_hold hold;
    enum wish wish;
    nigh_status status;
    bool is_wanted;
    uint64_t number;
};

static struct {
    uint64_t random;
    uint32_t home_rank;
    struct region_lock_home home;
    struct region_lock_node nodes[NODES];
    struct client clients[NODES][HOLDS];
    struct channel to_home[NODES], from_home[NODES];
    uint32_t again;   /* nodes whose claims the home has yet to hear, since it began; a bit each */
    uint64_t landing; /* locks under which something may land yet, a bit each */
    uint64_t granted;
} world;

static const struct region_version birth = {.epoch = 1, .incarnation = 2, .counter = 3};

/* ---- channels ------------------------------------------------------------- */

static void put(struct channel *channel, const struct region_message *message, uint32_t peer)
{
    struct region_message *at;

    assert_true(channel->count < LETTERS);
    at = &channel->letters[(channel->head + channel->count++) % LETTERS];
    *at = *message;
    at->peer = peer;
}

static bool take(struct channel *channel, struct region_message *message)
{
    if (channel->count == 0) {
        return false;
    }
    *message = channel->letters[channel->head];
    channel->head = (channel->head + 1) % LETTERS;
    channel->count--;
    return true;
}

static void on_node_send(void *context, const struct region_message *message)
{
    uint32_t rank = (uint32_t)(uintptr_t)context;

    assert_int_equal(message->kind, REGION_CLAIM);
    if (message->peer == world.home_rank) {
        put(&world.to_home[rank], message, rank);
    }
}

static void on_home_send(void *context, const struct region_message *message)
{
    (void)context;
    put(&world.from_home[message->peer], message, world.home_rank);
}

static bool step_to_home(uint32_t rank)
{
    struct region_message message;

    if (!take(&world.to_home[rank], &message)) {
        return false;
    }
    assert_int_equal(region_lock_home_take(&world.home, &message), NIGH_OK);
    return true;
}

static bool step_from_home(uint32_t rank)
{
    struct region_message message;

    if (!take(&world.from_home[rank], &message)) {
        return false;
    }
    region_lock_node_take(&world.nodes[rank], &message);
    return true;
}

/* ---- clients -------------------------------------------------------------- */

static struct client *client_of(struct region_hold *hold)
{
    return container_of(hold, struct client, hold);
}

/* Whoever holds it suits all others that do; and nothing lands that another wrote. */
static void check_alone(const struct client *with)
{
    assert_true(with->number >= LOCKS || (world.landing >> with->number & 1) == 0);
    for (uint32_t n = 0; n < NODES * HOLDS; n++) {
        const struct client *other = &world.clients[n / HOLDS][n % HOLDS];

        if (other != with && other->wish == WISH_HOLDS && other->number == with->number) {
            assert_true(region_lock_suits(other->hold.mode, with->hold.mode));
        }
    }
}

static void on_locked(void *context, struct region_hold *hold, nigh_status status)
{
    struct client *client = client_of(hold);

    (void)context;
    client->status = status;
    client->wish = status == NIGH_OK ? WISH_HOLDS : WISH_LOST;
    assert_int_not_equal(status, NIGH_LOCK_LOST); /* nobody is told that who has it */
    if (status == NIGH_OK) {
        world.granted++;
        check_alone(client);
    }
}

static void on_wanted(void *context, struct region_hold *hold)
{
    (void)context;
    assert_false(client_of(hold)->is_wanted);
    client_of(hold)->is_wanted = true;
}

static struct client *lock(uint32_t rank, uint32_t n, uint64_t number, enum region_lock_mode mode)
{
    struct client *client = &world.clients[rank][n];

    assert_true(client->wish == WISH_NONE || client->wish == WISH_LOST);
    *client = (struct client){.wish = WISH_WAITS, .number = number};
    assert_int_equal(region_lock_acquire(&world.nodes[rank], &birth, number, mode, &client->hold),
                     NIGH_OK);
    return client;
}

static void unlock(uint32_t rank, uint32_t n)
{
    struct client *client = &world.clients[rank][n];

    client->wish = WISH_NONE;
    region_lock_release(&world.nodes[rank], &client->hold);
}

/* ---- a world -------------------------------------------------------------- */

static void begin_node(uint32_t rank)
{
    struct region_lock_shell shell = {.context = (void *)(uintptr_t)rank,
                                      .send = on_node_send,
                                      .locked = on_locked,
                                      .wanted = on_wanted};

    assert_int_equal(region_lock_node_init(&world.nodes[rank], 7, true, &shell), NIGH_OK);
    region_lock_node_home(&world.nodes[rank], world.home_rank);
}

static void begin(void)
{
    memset(&world, 0, sizeof(world));
    assert_int_equal(region_lock_home_init(&world.home, 5, NULL, on_home_send), NIGH_OK);
    for (uint32_t rank = 0; rank < NODES; rank++) {
        begin_node(rank);
    }
    region_lock_home_open(&world.home, &birth);
}

static void end(void)
{
    for (uint32_t rank = 0; rank < NODES; rank++) {
        region_lock_node_lose(&world.nodes[rank], NIGH_CANCELED);
        region_lock_node_fini(&world.nodes[rank]);
    }
    region_lock_home_fini(&world.home);
}

static void check(void)
{
    assert_true(region_lock_home_is_valid(&world.home));
    for (uint32_t rank = 0; rank < NODES; rank++) {
        assert_true(region_lock_node_is_valid(&world.nodes[rank]));
    }
}

static void deliver_all(void)
{
    bool any;

    do {
        any = false;
        for (uint32_t rank = 0; rank < NODES; rank++) {
            any = step_to_home(rank) || any;
            any = step_from_home(rank) || any;
        }
    } while (any);
    check();
}

static uint64_t below(uint64_t bound)
{
    return support_random(&world.random) % bound;
}

/* Both ways; then all is said again. */
static void break_link(uint32_t rank)
{
    world.to_home[rank].count = world.from_home[rank].count = 0;
    region_lock_node_home(&world.nodes[rank], world.home_rank);
}

/* Another node is the home. It gives nothing until all have told it what they have. */
static void change_home(void)
{
    region_lock_home_fini(&world.home);
    assert_int_equal(region_lock_home_init(&world.home, 5, NULL, on_home_send), NIGH_OK);
    world.home_rank = (uint32_t)below(NODES);
    world.again = (1u << NODES) - 1;
    for (uint32_t rank = 0; rank < NODES; rank++) {
        break_link(rank);
    }
}

/* What was written before is refused from then on. */
static void fence(void)
{
    world.home.is_unsafe = false;
    world.landing = 0;
    if (world.again == 0) {
        region_lock_home_open(&world.home, &birth);
    }
}

static void die(uint32_t rank)
{
    region_lock_node_lose(&world.nodes[rank], NIGH_CANCELED);
    region_lock_node_fini(&world.nodes[rank]);
    for (uint32_t n = 0; n < HOLDS; n++) {
        world.clients[rank][n].wish = WISH_NONE;
    }
    world.to_home[rank].count = world.from_home[rank].count = 0;
    begin_node(rank);
    region_lock_home_forget(&world.home, rank, true);
}

static void act(uint32_t rank)
{
    uint32_t n = (uint32_t)below(HOLDS);
    struct client *client = &world.clients[rank][n];

    if (client->wish == WISH_NONE || client->wish == WISH_LOST) {
        (void)lock(rank, n, below(LOCKS),
                   below(2) == 0 ? REGION_LOCK_SHARED : REGION_LOCK_EXCLUSIVE);
    } else if (client->wish == WISH_HOLDS && client->hold.mode == REGION_LOCK_EXCLUSIVE &&
               below(8) == 0) {
        client->hold.is_dirty = true;
        world.landing |= UINT64_C(1) << client->number;
        unlock(rank, n);
    } else if (client->wish == WISH_HOLDS || below(16) == 0) {
        unlock(rank, n);
    }
}

static void step(uint32_t trouble)
{
    uint32_t rank = (uint32_t)below(NODES);

    switch (below(8)) {
    case 0:
    case 1: act(rank); break;
    case 2:
    case 3:
    case 4: (void)step_to_home(rank); break;
    case 5:
    case 6: (void)step_from_home(rank); break;
    default:
        if (below(trouble) == 0) {
            break_link(rank);
        } else if (below(8 * trouble) == 0) {
            change_home();
        } else if (below(8 * trouble) == 0) {
            region_lock_node_lease(&world.nodes[rank], below(2) == 0);
        } else if (below(16 * trouble) == 0 && rank != world.home_rank) {
            die(rank);
        }
    }
    for (uint32_t n = 0; n < NODES; n++) {
        if (world.to_home[n].count == 0) {
            world.again &= ~(1u << n); /* as a home hears TOLD behind it */
        }
    }
    if (world.again == 0 && (world.home.is_unsafe || !world.home.may_grant) && below(8) == 0) {
        fence();
    }
}

/* Who holds lets go: then who waits has it. */
static void settle(void)
{
    bool waits = true;

    for (uint32_t rank = 0; rank < NODES; rank++) {
        region_lock_node_lease(&world.nodes[rank], true);
    }
    for (uint32_t round = 0; waits; round++) {
        assert_true(round < 8 * NODES * HOLDS);
        deliver_all();
        world.again = 0;
        fence();
        deliver_all();
        waits = false;
        for (uint32_t n = 0; n < NODES * HOLDS; n++) {
            struct client *client = &world.clients[n / HOLDS][n % HOLDS];

            if (client->wish == WISH_HOLDS) {
                unlock(n / HOLDS, n % HOLDS);
            }
            waits = waits || client->wish == WISH_WAITS;
        }
    }
}

static void any_order_and_any_trouble(void **state)
{
    uint64_t seed = support_seed(), until_us = support_now_us() + support_budget_ms(2000) * 1000;
    uint64_t worlds = 0, granted = 0;

    (void)state;
    do {
        begin();
        world.random = seed + worlds++;
        for (uint32_t n = 0, trouble = 2 + (uint32_t)below(64); n < STEPS; n++) {
            step(trouble);
            check();
        }
        settle();
        granted += world.granted;
        end();
    } while (support_now_us() < until_us);
    assert_true(granted > 10 * worlds);
    print_message("# seed %llu: %llu worlds, %llu locks given\n", (unsigned long long)seed,
                  (unsigned long long)worlds, (unsigned long long)granted);
}

/* ---- one thing after the other -------------------------------------------- */

static void one_after_the_other(void **state)
{
    struct client *first, *second, *third;

    (void)state;
    begin();
    first = lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    assert_int_equal(first->wish, WISH_HOLDS);
    assert_false(first->is_wanted);
    second = lock(2, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    third = lock(1, 1, 9, REGION_LOCK_EXCLUSIVE); /* beside the first, but later than the second */
    deliver_all();
    assert_int_equal(second->wish, WISH_WAITS);
    assert_true(first->is_wanted);
    unlock(1, 0);
    deliver_all();
    assert_int_equal(second->wish, WISH_HOLDS);
    assert_int_equal(third->wish, WISH_WAITS);
    unlock(2, 0);
    deliver_all();
    assert_int_equal(third->wish, WISH_HOLDS);
    end();
}

static void readers_are_together_and_wait_behind_a_writer(void **state)
{
    struct client *readers[2], *writer, *late;

    (void)state;
    begin();
    readers[0] = lock(1, 0, 9, REGION_LOCK_SHARED);
    readers[1] = lock(2, 0, 9, REGION_LOCK_SHARED);
    deliver_all();
    assert_int_equal(readers[0]->wish, WISH_HOLDS);
    assert_int_equal(readers[1]->wish, WISH_HOLDS);
    writer = lock(3, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    late = lock(1, 1, 9, REGION_LOCK_SHARED);
    deliver_all();
    assert_int_equal(late->wish, WISH_WAITS);
    unlock(1, 0);
    unlock(2, 0);
    deliver_all();
    assert_int_equal(writer->wish, WISH_HOLDS);
    assert_int_equal(late->wish, WISH_WAITS);
    unlock(3, 0);
    deliver_all();
    assert_int_equal(late->wish, WISH_HOLDS);
    end();
}

static void a_lock_is_kept_until_others_want_it(void **state)
{
    struct client *again;

    (void)state;
    begin();
    (void)lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    unlock(1, 0);
    assert_int_equal(world.to_home[1].count, 0);
    again = lock(1, 0, 9, REGION_LOCK_SHARED);
    assert_int_equal(again->wish, WISH_HOLDS); /* without a word to the home */
    assert_int_equal(world.to_home[1].count, 0);
    unlock(1, 0);
    (void)lock(2, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    assert_int_equal(world.clients[2][0].wish, WISH_HOLDS);
    end();
}

static void without_a_lease_nobody_is_given_one(void **state)
{
    struct client *again;

    (void)state;
    begin();
    (void)lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    unlock(1, 0);
    region_lock_node_lease(&world.nodes[1], false);
    again = lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    assert_int_equal(again->wish, WISH_WAITS);
    region_lock_node_lease(&world.nodes[1], true);
    assert_int_equal(again->wish, WISH_HOLDS);
    end();
}

/* Neither the next of the same node, nor another's, before the home has had the chunks fenced. */
static void what_may_land_yet_is_waited_for(void **state)
{
    struct client *first, *beside, *other;

    (void)state;
    begin();
    first = lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    beside = lock(1, 1, 9, REGION_LOCK_EXCLUSIVE);
    other = lock(2, 0, 9, REGION_LOCK_EXCLUSIVE);
    first->hold.is_dirty = true;
    unlock(1, 0);
    assert_int_equal(beside->wish, WISH_WAITS);
    deliver_all();
    assert_true(world.home.is_unsafe);
    assert_int_equal(beside->wish, WISH_WAITS);
    assert_int_equal(other->wish, WISH_WAITS);
    fence();
    deliver_all();
    assert_true((beside->wish == WISH_HOLDS) != (other->wish == WISH_HOLDS));
    end();
}

static void who_waited_in_vain_leaves_nothing(void **state)
{
    (void)state;
    begin();
    (void)lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    (void)lock(2, 0, 9, REGION_LOCK_EXCLUSIVE);
    unlock(2, 0); /* as its grant may be on its way */
    unlock(1, 0);
    deliver_all();
    assert_true(region_lock_node_is_idle(&world.nodes[2]));
    (void)lock(3, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    assert_int_equal(world.clients[3][0].wish, WISH_HOLDS);
    end();
}

/* Who has it may have said that it uses the region no longer, over a link that broke. */
static void a_recall_is_said_again(void **state)
{
    struct region_message message;

    (void)state;
    begin();
    (void)lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    (void)lock(2, 0, 9, REGION_LOCK_EXCLUSIVE);
    assert_true(step_to_home(2));
    world.from_home[1].count = 0;
    region_lock_home_link(&world.home, 1);
    assert_true(take(&world.from_home[1], &message));
    assert_int_equal(message.kind, REGION_RECALL);
    world.clients[1][0].wish = WISH_NONE;
    region_lock_home_forget(&world.home, 1, false); /* as it answers */
    deliver_all();
    assert_int_equal(world.clients[2][0].wish, WISH_HOLDS);
    end();
}

/* Of a lock that a node knows nothing of, as it uses the region anew. */
static void who_has_nothing_says_so(void **state)
{
    struct region_message recall = {.kind = REGION_RECALL, .base = birth}, message;

    (void)state;
    begin();
    recall.lock = (struct region_lock_word){.number = 9, .serial = 3, .mode = REGION_LOCK_SHARED};
    region_lock_node_take(&world.nodes[1], &recall);
    assert_true(take(&world.to_home[1], &message));
    assert_int_equal(message.lock.mode, REGION_LOCK_NONE);
    assert_true(region_version_equal(&message.base, &birth));
    end();
}

static void a_region_that_is_gone_has_no_locks(void **state)
{
    struct region_version later = birth;

    (void)state;
    begin();
    (void)lock(1, 0, 9, REGION_LOCK_EXCLUSIVE);
    (void)lock(2, 0, 9, REGION_LOCK_EXCLUSIVE);
    deliver_all();
    later.counter++;
    region_lock_home_open(&world.home, &later); /* of the same name */
    deliver_all();
    assert_int_equal(world.clients[1][0].status, NIGH_NOT_FOUND);
    assert_int_equal(world.clients[2][0].status, NIGH_NOT_FOUND);
    assert_true(region_lock_home_is_empty(&world.home));
    end();
}

static void tables_grow_up_to_a_bound(void **state)
{
    static struct client many[LIMIT_REGION_LOCKS + 1];
    nigh_status status = NIGH_OK;
    uint32_t n = 0;

    (void)state;
    begin();
    for (; status == NIGH_OK && n <= LIMIT_REGION_LOCKS; n++) {
        status = region_lock_acquire(&world.nodes[1], &birth, n, REGION_LOCK_SHARED, &many[n].hold);
        while (step_to_home(1) || step_from_home(1)) {
        }
    }
    assert_int_equal(status, NIGH_LIMIT);
    assert_int_equal(n, LIMIT_REGION_LOCKS + 1);
    for (uint32_t i = 0; i + 1 < n; i++) {
        assert_int_equal(many[i].wish, WISH_HOLDS);
        many[i].wish = WISH_NONE;
        region_lock_release(&world.nodes[1], &many[i].hold);
        while (step_to_home(1) || step_from_home(1)) {
        }
    }
    check();
    assert_int_equal(world.nodes[1].count, LIMIT_REGION_LOCKS_KEPT);
    assert_int_equal(world.home.count, LIMIT_REGION_LOCKS_KEPT);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(readers_are_together_and_wait_behind_a_writer),
        cmocka_unit_test(a_lock_is_kept_until_others_want_it),
        cmocka_unit_test(without_a_lease_nobody_is_given_one),
        cmocka_unit_test(what_may_land_yet_is_waited_for),
        cmocka_unit_test(who_waited_in_vain_leaves_nothing),
        cmocka_unit_test(a_recall_is_said_again),
        cmocka_unit_test(who_has_nothing_says_so),
        cmocka_unit_test(a_region_that_is_gone_has_no_locks),
        cmocka_unit_test(tables_grow_up_to_a_bound),
        cmocka_unit_test(any_order_and_any_trouble),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
