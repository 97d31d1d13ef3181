/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which spaces there are, as several nodes tell each other over channels that keep their order, go
 * as fast as a seed says, and break: in the end all of those that can speak to each other know the
 * same, each has told each where its memory is, every ask has ended once, nothing of what was
 * deleted is left, and no memory went before all others had let go of it.
 */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "space/registry.h"
#include "support/support.h"

#define NODES  5u
#define QUEUE  4096u
#define ASKS   64u
#define NO_ASK 1

struct channel {
    bool is_up;
    uint32_t count;
    struct space_letter letters[QUEUE];
};

struct ask {
    bool is_used;
    nigh_status status; /* NO_ASK: it has not ended */
};

struct at_node {
    struct space_registry *registry;
    bool is_making[LIMIT_SPACES], is_deleted[LIMIT_SPACES], is_forgotten[LIMIT_SPACES];
    uint64_t births[LIMIT_SPACES];
    uint64_t joined[LIMIT_SPACES];
    struct ask asks[ASKS];
    nigh_status make_status;
};

static struct at_node nodes[NODES];
static struct channel channels[NODES][NODES];
static struct random dice;
static uint64_t births;
static uint32_t makes;

/* ---- the shell ------------------------------------------------------------ */

static uint32_t self_of(const struct at_node *node)
{
    return (uint32_t)(node - nodes);
}

static void on_make(void *context, uint32_t place, const struct space_info *info)
{
    struct at_node *node = context;

    assert_false(node->is_making[place]);
    node->is_making[place] = true;
    node->is_deleted[place] = node->is_forgotten[place] = false;
    node->joined[place] = 0;
    node->births[place] = info->birth;
    makes++;
}

static void on_joined(void *context, uint32_t place, uint8_t seat, const struct space_site *memory)
{
    struct at_node *node = context;

    assert_int_equal(memory->cache_address, 1000 + seat);
    assert_false(node->is_deleted[place]);
    assert_int_equal(node->joined[place] >> seat & 1, 0);
    node->joined[place] |= UINT64_C(1) << seat;
}

static void on_left(void *context, uint32_t place, uint8_t seat)
{
    struct at_node *node = context;

    assert_int_equal(node->joined[place] >> seat & 1, 1);
    node->joined[place] &= ~(UINT64_C(1) << seat);
}

static void on_deleted(void *context, uint32_t place, const struct space_info *info)
{
    struct at_node *node = context;

    assert_true(space_info_is_valid(info));
    assert_false(node->is_deleted[place]);
    node->is_deleted[place] = true;
    node->joined[place] = 0;
}

/* Nobody who has a link with this node still has it joined: that one could write here. */
static void on_forgotten(void *context, uint32_t place)
{
    struct at_node *node = context;
    uint32_t self = self_of(node);

    assert_true(node->is_deleted[place]);
    assert_false(node->is_making[place]);
    for (uint32_t other = 0; other < NODES; other++) {
        for (uint32_t at = 0; at < LIMIT_SPACES; at++) {
            if (channels[other][self].is_up && nodes[other].births[at] == node->births[place]) {
                assert_int_equal(nodes[other].joined[at] >> self & 1, 0);
            }
        }
    }
    node->is_forgotten[place] = true;
}

static void on_answered(void *context, uint32_t number, nigh_status status)
{
    struct at_node *node = context;

    assert_true(number < ASKS && node->asks[number].is_used);
    assert_int_equal(node->asks[number].status, NO_ASK);
    node->asks[number].status = status;
}

static uint8_t on_home(void *context, uint64_t id, uint64_t seats)
{
    uint32_t count = (uint32_t)__builtin_popcountll(seats);

    (void)context;
    for (uint64_t nth = id % count; nth > 0; nth--) {
        seats &= seats - 1;
    }
    return (uint8_t)__builtin_ctzll(seats);
}

/* ---- the world ------------------------------------------------------------ */

static void begin_node(uint32_t n)
{
    struct space_registry_shell shell = {.context = &nodes[n],
                                         .make = on_make,
                                         .joined = on_joined,
                                         .left = on_left,
                                         .deleted = on_deleted,
                                         .forgotten = on_forgotten,
                                         .answered = on_answered,
                                         .home = on_home};

    memset(&nodes[n], 0, sizeof(nodes[n]));
    assert_int_equal(space_registry_create((uint8_t)n, &shell, &nodes[n].registry), NIGH_OK);
    space_registry_lease(nodes[n].registry, true);
}

static int set_up(void **state)
{
    (void)state;
    random_init(&dice, 1);
    births = 0;
    memset(channels, 0, sizeof(channels));
    for (uint32_t n = 0; n < NODES; n++) {
        begin_node(n);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < NODES; n++) {
        space_registry_destroy(nodes[n].registry);
    }
    return 0;
}

static void set_link(uint32_t one, uint32_t other, bool is_up)
{
    channels[one][other].is_up = channels[other][one].is_up = is_up;
    channels[one][other].count = channels[other][one].count = 0;
    space_registry_link(nodes[one].registry, (uint8_t)other, is_up);
    space_registry_link(nodes[other].registry, (uint8_t)one, is_up);
}

static void link_all(void)
{
    for (uint32_t one = 0; one < NODES; one++) {
        for (uint32_t other = 0; other < one; other++) {
            if (!channels[one][other].is_up) {
                set_link(one, other, true);
            }
        }
    }
}

static bool say(uint32_t from, uint32_t to)
{
    struct channel *channel = &channels[from][to];

    if (!channel->is_up || channel->count == QUEUE ||
        !space_registry_next(nodes[from].registry, (uint8_t)to,
                             &channel->letters[channel->count])) {
        return false;
    }
    channel->count++;
    space_registry_said(nodes[from].registry, (uint8_t)to);
    return true;
}

static bool hear(uint32_t from, uint32_t to)
{
    struct channel *channel = &channels[from][to];
    struct space_letter letter;

    if (channel->count == 0) {
        return false;
    }
    letter = channel->letters[0];
    channel->count--;
    memmove(channel->letters, channel->letters + 1, channel->count * sizeof(letter));
    assert_int_equal(space_registry_hear(nodes[to].registry, (uint8_t)from, &letter), NIGH_OK);
    return true;
}

/* Memory that is being made, or goes. */
static bool carry_out(uint32_t n)
{
    struct at_node *node = &nodes[n];
    struct space_site memory = {.cache_address = 1000 + n};
    uint32_t place = (uint32_t)random_below(&dice, LIMIT_SPACES);

    for (uint32_t tries = 0; tries < LIMIT_SPACES; tries++, place = (place + 1) % LIMIT_SPACES) {
        if (node->is_making[place]) {
            node->is_making[place] = false;
            space_registry_made(node->registry, place, node->make_status, &memory);
            return true;
        }
        if (node->is_forgotten[place]) {
            node->is_forgotten[place] = false;
            node->births[place] = 0;
            space_registry_free(node->registry, place);
            return true;
        }
    }
    return false;
}

static bool step(void)
{
    uint32_t from = (uint32_t)random_below(&dice, NODES), to = (uint32_t)random_below(&dice, NODES);
    bool any = false;

    switch (random_below(&dice, 3)) {
    case 0: any = from != to && say(from, to); break;
    case 1: any = from != to && hear(from, to); break;
    default: any = carry_out(from); break;
    }
    for (uint32_t n = 0; any && n < NODES; n++) {
        assert_true(space_registry_is_valid(nodes[n].registry));
    }
    return any;
}

static void settle(void)
{
    for (uint32_t idle = 0; idle < 4000; idle++) {
        if (step()) {
            idle = 0;
        }
    }
    for (uint32_t from = 0; from < NODES; from++) {
        for (uint32_t to = 0; to < NODES; to++) {
            assert_int_equal(channels[from][to].count, 0);
        }
    }
}

static struct space_info info_of(const char *name)
{
    struct space_info info = {.birth = ++births,
                              .home_bytes = 65536,
                              .cache_bytes = 65536,
                              .block_bytes = 512,
                              .mode = 7,
                              .name_bytes = (uint32_t)strlen(name)};

    memcpy(info.name, name, info.name_bytes);
    info.id = space_name_id(info.name, info.name_bytes);
    return info;
}

static uint32_t new_ask(struct at_node *node)
{
    uint32_t n = 0;

    while (node->asks[n].is_used && node->asks[n].status == NO_ASK) {
        n++;
        assert_true(n < ASKS);
    }
    node->asks[n] = (struct ask){true, NO_ASK};
    return n;
}

static uint32_t make(uint32_t n, const char *name)
{
    struct space_info info = info_of(name);
    uint32_t number = new_ask(&nodes[n]);
    nigh_status status = space_registry_make(nodes[n].registry, &info, number);

    if (status != NIGH_OK) {
        nodes[n].asks[number].status = status;
    }
    return number;
}

static uint32_t place_of(uint32_t n, const char *name)
{
    return space_registry_find(nodes[n].registry, space_name_id(name, (uint32_t)strlen(name)));
}

static uint32_t delete (uint32_t n, const char *name)
{
    uint32_t place = place_of(n, name), number = new_ask(&nodes[n]);
    nigh_status status = NIGH_NOT_FOUND;

    if (place < LIMIT_SPACES) {
        status = space_registry_delete(
            nodes[n].registry, space_registry_info(nodes[n].registry, place)->birth, number);
    }
    if (status != NIGH_OK) {
        nodes[n].asks[number].status = status;
    }
    return number;
}

static void claim_ended(uint32_t n, uint32_t number, nigh_status status)
{
    assert_int_equal(nodes[n].asks[number].status, status);
}

/* All know it, and each has each. */
static void claim_known(const char *name)
{
    for (uint32_t n = 0; n < NODES; n++) {
        uint32_t place = place_of(n, name);

        assert_true(place < LIMIT_SPACES);
        assert_int_equal(space_registry_status(nodes[n].registry, place), NIGH_OK);
        assert_int_equal(space_registry_seats(nodes[n].registry, place), (1u << NODES) - 1);
        assert_int_equal(nodes[n].joined[place], ((1u << NODES) - 1) & ~(1u << n));
    }
}

static void claim_unknown(const char *name)
{
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(place_of(n, name), LIMIT_SPACES);
    }
}

/* ---- tests ---------------------------------------------------------------- */

static void who_makes_one_is_told_when_all_have_it(void **state)
{
    uint32_t number;

    (void)state;
    link_all();
    number = make(0, "a");
    while (nodes[0].asks[number].status == NO_ASK) {
        (void)step();
    }
    claim_ended(0, number, NIGH_OK);
    claim_known("a");
    settle();
    number = make(3, "a");
    settle();
    claim_ended(3, number, NIGH_EXISTS);
}

static void what_one_has_no_memory_for_nobody_has(void **state)
{
    uint32_t number;

    (void)state;
    link_all();
    for (uint32_t n = 0; n < NODES; n++) {
        nodes[n].make_status = NIGH_OUT_OF_MEMORY;
        number = make(1, "a");
        settle();
        claim_ended(1, number, NIGH_OUT_OF_MEMORY);
        claim_unknown("a");
        nodes[n].make_status = NIGH_OK;
    }
    number = make(1, "a");
    settle();
    claim_ended(1, number, NIGH_OK);
}

static void what_is_deleted_is_nowhere_and_its_name_is_free(void **state)
{
    uint32_t number;

    (void)state;
    link_all();
    for (uint32_t n = 0; n < NODES; n++) {
        number = make(n, "a");
        settle();
        claim_ended(n, number, NIGH_OK);
        number = delete (NODES - 1 - n, "a");
        settle();
        claim_ended(NODES - 1 - n, number, NIGH_OK);
        claim_unknown("a");
    }
    number = delete (0, "a");
    claim_ended(0, number, NIGH_NOT_FOUND);
}

static void who_comes_later_knows_what_there_is(void **state)
{
    uint32_t number;

    (void)state;
    set_link(0, 1, true);
    number = make(0, "a");
    settle();
    claim_ended(0, number, NIGH_OK);
    link_all();
    settle();
    claim_known("a");
}

static void who_was_away_hears_what_is_deleted(void **state)
{
    uint32_t number;

    (void)state;
    link_all();
    (void)make(0, "a");
    settle();
    for (uint32_t n = 0; n < NODES - 1; n++) {
        set_link(n, NODES - 1, false);
    }
    number = delete (0, "a");
    settle();
    claim_ended(0, number, NIGH_OK);
    assert_true(place_of(NODES - 1, "a") < LIMIT_SPACES);
    link_all();
    settle();
    claim_unknown("a");
}

/* Nobody was there all the time; what is kept on a disk was. */
static void what_was_deleted_before_a_start_is_gone(void **state)
{
    uint64_t birth;

    (void)state;
    (void)make(NODES - 1, "a");
    settle();
    birth = space_registry_info(nodes[NODES - 1].registry, place_of(NODES - 1, "a"))->birth;
    space_registry_bury(nodes[0].registry, birth);
    link_all();
    settle();
    claim_unknown("a");
}

static void of_two_of_one_name_none_is_taken_for_the_other(void **state)
{
    (void)state;
    (void)make(0, "a");
    (void)make(1, "a");
    settle();
    link_all();
    settle();
    assert_int_equal(space_registry_seats(nodes[0].registry, place_of(0, "a")) & 2u, 0);
    assert_int_equal(space_registry_seats(nodes[1].registry, place_of(1, "a")) & 1u, 0);
}

static void without_a_lease_nothing_is_made(void **state)
{
    uint32_t number;

    (void)state;
    for (uint32_t n = 0; n < NODES; n++) {
        space_registry_lease(nodes[n].registry, false);
    }
    link_all();
    number = make(2, "a");
    settle();
    claim_ended(2, number, NIGH_NO_QUORUM);
    claim_unknown("a");
}

static void an_ask_ends_when_the_link_goes(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    uint32_t numbers[6];

    (void)state;
    link_all();
    for (uint32_t n = 0; n < 6; n++) {
        numbers[n] = make(0, names[n]);
    }
    for (uint32_t n = 1; n < NODES; n++) {
        set_link(0, n, false);
    }
    settle();
    for (uint32_t n = 0; n < 6; n++) {
        assert_true(nodes[0].asks[numbers[n]].status != NO_ASK);
    }
}

static void more_than_there_may_be_are_refused(void **state)
{
    char name[8];
    uint32_t made = 0;

    (void)state;
    link_all();
    for (uint32_t n = 0; n < LIMIT_SPACES + 2; n++) {
        uint32_t number;

        snprintf(name, sizeof(name), "s%u", n);
        number = make(0, name);
        settle();
        made += nodes[0].asks[number].status == NIGH_OK;
        if (n >= LIMIT_SPACES) {
            claim_ended(0, number, NIGH_LIMIT);
        }
    }
    assert_int_equal(made, LIMIT_SPACES);
}

/* ---- courses -------------------------------------------------------------- */

/* Who may write maps the memory, and so reads it. */
static void to_write_alone_is_no_right(void **state)
{
    (void)state;
    for (uint32_t mode = 0; mode < 16; mode++) {
        struct space_info info = info_of("rights");

        info.mode = mode;
        assert_int_equal(space_info_is_valid(&info), mode % 4 != 2 && mode / 4 != 2);
    }
}

/* A run of the allocator's has a length of 30 bits. */
static void more_blocks_than_can_be_counted_are_no_space(void **state)
{
    struct space_info info = info_of("large");

    (void)state;
    info.block_bytes = LIMIT_SPACE_BLOCK_MIN;
    info.home_bytes = LIMIT_SPACE_BLOCKS * LIMIT_SPACE_BLOCK_MIN;
    assert_true(space_info_is_valid(&info));
    info.home_bytes += LIMIT_SPACE_BLOCK_MIN;
    assert_false(space_info_is_valid(&info));
}

static void do_something(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    uint32_t n = (uint32_t)random_below(&dice, NODES), other = (uint32_t)random_below(&dice, NODES);

    switch (random_below(&dice, 8)) {
    case 0:
    case 1: (void)make(n, names[random_below(&dice, 6)]); break;
    case 2: (void)delete (n, names[random_below(&dice, 6)]); break;
    case 3:
        if (n != other) {
            set_link(n, other, !channels[n][other].is_up);
        }
        break;
    case 4:
        nodes[n].make_status = random_below(&dice, 4) == 0 ? NIGH_OUT_OF_MEMORY : NIGH_OK;
        break;
    default: break;
    }
}

static void claim_all_agree(void)
{
    for (uint32_t n = 0; n < NODES; n++) {
        for (uint32_t number = 0; number < ASKS; number++) {
            assert_true(!nodes[n].asks[number].is_used || nodes[n].asks[number].status != NO_ASK);
        }
        for (uint32_t place = 0; place < LIMIT_SPACES; place++) {
            const struct space_info *info = space_registry_info(nodes[n].registry, place);

            for (uint32_t other = 0; info != NULL && other < NODES; other++) {
                uint32_t at = space_registry_find(nodes[other].registry, info->id);

                assert_true(at < LIMIT_SPACES);
            }
        }
    }
}

static void courses_with_links_that_break_end_in_agreement(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        (void)tear_down(NULL);
        (void)set_up(NULL);
        random_init(&dice, seed);
        link_all();
        for (uint32_t n = 0; n < 4000; n++) {
            if (random_below(&dice, 20) == 0) {
                do_something();
            }
            (void)step();
        }
        for (uint32_t n = 0; n < NODES; n++) {
            nodes[n].make_status = NIGH_OK;
        }
        link_all();
        settle();
        claim_all_agree();
    }
}

/* Whatever a peer says, what is kept stays valid, and what cannot be is said to be. */
static void what_makes_no_sense_is_refused(void **state)
{
    struct space_letter letter;
    uint32_t refused = 0;

    (void)state;
    set_link(0, 1, true);
    (void)make(0, "a");
    settle();
    for (uint32_t n = 0; n < 20000; n++) {
        nigh_status status;

        random_fill(&dice, &letter, sizeof(letter));
        letter.kind = (uint8_t)(SPACE_LETTERS + random_below(&dice, 10));
        letter.flags &= 15u;
        letter.zero = 0;
        letter.birth = random_below(&dice, 4);
        status = space_registry_hear(nodes[0].registry, 1, &letter);
        assert_true(status == NIGH_OK || status == NIGH_PROTOCOL);
        assert_true(space_registry_is_valid(nodes[0].registry));
        if (status == NIGH_PROTOCOL) {
            refused++;
            set_link(0, 1, false);
            set_link(0, 1, true);
        }
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_makes_one_is_told_when_all_have_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_one_has_no_memory_for_nobody_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_deleted_is_nowhere_and_its_name_is_free, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_comes_later_knows_what_there_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_was_away_hears_what_is_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_deleted_before_a_start_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_two_of_one_name_none_is_taken_for_the_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_a_lease_nothing_is_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_ask_ends_when_the_link_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_there_may_be_are_refused, set_up, tear_down),
        cmocka_unit_test(to_write_alone_is_no_right),
        cmocka_unit_test(more_blocks_than_can_be_counted_are_no_space),
        cmocka_unit_test_setup_teardown(courses_with_links_that_break_end_in_agreement, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
