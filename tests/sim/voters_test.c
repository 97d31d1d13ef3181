/* SPDX-License-Identifier: Apache-2.0 */
/* Voters in states that faults by seed rarely bring about, and voters that lie (docs/views.md). */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"
#include "views_world.h"

#define SECOND UINT64_C(1000000)
#define LIES   20000u

static struct views_world world;

/* Of the last `seats` ranks one has joined. */
static void begin_with_seats(uint32_t count, uint32_t seats)
{
    struct agreed_set in;

    views_init(&world, count, support_seed());
    world.listed = count - seats;
    for (uint32_t rank = 0; rank < world.listed; rank++) {
        views_start(&world, rank);
    }
    in = agreed_all(world.listed);
    for (uint32_t n = 0; !views_settled(&world, &in); n++) {
        assert_true(n < 200 && views_run(&world, world.now_us + SECOND / 10));
    }
    for (uint32_t n = 0; seats > 0 && world.joiners[0].rank == AGREE_NOBODY; n++) {
        views_join(&world, 0, 0);
        assert_true(n < 200 && views_run(&world, world.now_us + SECOND / 10));
    }
}

static void begin(uint32_t count)
{
    begin_with_seats(count, 0);
}

static void run(uint64_t us)
{
    if (!views_run(&world, world.now_us + us)) {
        fail_msg("%s, at %llu us", world.broken, (unsigned long long)world.now_us);
    }
}

static void settle(uint64_t within_us)
{
    struct agreed_set in = views_everybody(&world);
    uint64_t until_us = world.now_us + within_us;

    while (!views_settled(&world, &in)) {
        if (world.now_us >= until_us) {
            views_print(&world);
            fail_msg("not settled after %llu us", (unsigned long long)within_us);
        }
        run(SECOND / 100);
    }
}

static struct agree *agree_of(uint32_t rank)
{
    return world.nodes[rank].agree;
}

static uint32_t leader(void)
{
    for (uint32_t rank = 0; rank < world.count; rank++) {
        if (agree_of(rank) != NULL && agree_of(rank)->leads) {
            return rank;
        }
    }
    return AGREE_NOBODY;
}

static void restart(uint32_t rank)
{
    views_kill(&world, rank);
    views_start(&world, rank);
}

/* ---- rare states ---------------------------------------------------------- */

/* As candidates leave it that won no vote: the longer the log, the lower the term. */
static void leave(uint32_t rank, uint32_t entries, uint64_t terms)
{
    struct agree *agree = agree_of(rank);

    for (uint32_t n = 0; n < entries; n++) {
        struct agree_entry *entry = &agree->log.entries[agree->log.count++];

        memset(entry, 0, sizeof(*entry));
        entry->head = (struct agree_entry_head){
            .term = agree->log.term, .type = RAFT_BARRIER, .bytes = sizeof(uint64_t)};
    }
    agree->log.term += terms;
    agree->log.vote = 0;
    assert_int_equal(agree_store(agree), NIGH_OK);
    agree->log.count -= entries; /* it dies, and what was kept stays */
    agree->log.term -= terms;
}

/* Who has the longest log has to be elected, and may have the lowest term: it has to hear of the
 * others' when they refuse it. */
static void the_longest_log_wins_from_the_lowest_term(void **state)
{
    uint64_t term = 0;

    (void)state;
    begin(3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        term = max_u64(term, agree_of(rank)->log.term);
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
        leave(rank, 2 - rank, term - agree_of(rank)->log.term + 3 * rank);
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
        restart(rank);
    }
    settle(15 * SECOND);
    views_fini(&world);
}

/* What a leader says of a log that goes on otherwise is not held against ours: it has to hear that
 * it must go back. */
static void what_follows_another_log_is_refused(void **state)
{
    struct agree_conf three = {.index = 1, .count = 3};
    struct raft_configuration configuration;
    struct raft_entry entry = {.type = RAFT_CHANGE};
    struct raft_message message = {.type = RAFT_IO_APPEND_ENTRIES, .server_id = agree_id(0)};
    struct agree *agree;

    (void)state;
    begin(5);
    leave(4, 1, 0);
    restart(4);
    agree = agree_of(4);
    for (uint32_t rank = 0; rank < 3; rank++) { /* not one step from five */
        three.servers[rank] = (struct agree_server){.rank = (uint16_t)rank, .role = RAFT_VOTER};
    }
    assert_int_equal(agree_conf_make(agree, &three, &configuration), 0);
    assert_int_equal(raft_configuration_encode(&configuration, &entry.buf), 0);
    raft_configuration_close(&configuration);
    entry.term = agree->log.term + 1;
    message.append_entries =
        (struct raft_append_entries){.term = entry.term,
                                     .prev_log_index = agree->log.first + agree->log.count - 1,
                                     .prev_log_term = entry.term,
                                     .entries = &entry,
                                     .n_entries = 1};
    assert_true(agree_is_sound(agree, &message));
    message.append_entries.prev_log_term = agree->log.term; /* it is ours, and goes on like that */
    assert_false(agree_is_sound(agree, &message));
    raft_free(entry.buf.base);
    views_fini(&world);
}

/* A voter was away for longer than the log goes back, and the snapshot that it is sent is lost. */
static void a_snapshot_that_is_lost_is_sent_again(void **state)
{
    uint32_t away;

    (void)state;
    begin(3);
    away = (leader() + 1) % 3;
    views_kill(&world, away);
    for (uint32_t n = 0; n < 60; n++) { /* each start asks for a round of the log */
        restart(3 - leader() - away);   /* the one that is left */
        run(3 * SECOND);
        assert_int_not_equal(leader(), AGREE_NOBODY);
    }
    world.loses_kind = RAFT_IO_INSTALL_SNAPSHOT;
    views_start(&world, away);
    for (uint32_t n = 0; world.lost_of_kind == 0; n++) {
        assert_true(n < 10000);
        run(SECOND / 1000);
    }
    world.loses_kind = 0;
    run(3 * SECOND);
    assert_true(agree_of(away)->log.first + agree_of(away)->log.count + AGREE_SNAPSHOT >
                agree_of(leader())->log.first + agree_of(leader())->log.count);
    settle(20 * SECOND);
    views_fini(&world);
}

/* What a follower says it has of a leader's log, to that one; the message is under way. */
static uint64_t said_to_have(uint32_t rank, uint32_t to)
{
    for (uint32_t n = 0; n < VIEWS_MESSAGES; n++) {
        const struct views_message *message = &world.messages[n];
        struct agree_head head;

        memcpy(&head, message->bytes, sizeof(head));
        if (message->at_us != 0 && message->from == rank && message->to == to &&
            head.kind == RAFT_IO_APPEND_ENTRIES_RESULT) {
            assert_int_equal(head.numbers[1], 0);
            return head.numbers[2];
        }
    }
    fail_msg("it said nothing");
    return 0;
}

/* One who leads since then knows nothing of an entry that another left with a follower: it must not
 * be told that it is there, or take it for its own. */
static void what_an_earlier_leader_left_is_not_counted(void **state)
{
    struct agree_head head = {.kind = RAFT_IO_APPEND_ENTRIES};
    struct agree *agree;
    uint64_t last;

    (void)state;
    begin(3);
    leave(2, 1, 0);
    restart(2);
    agree = agree_of(2);
    last = agree->log.first + agree->log.count - 1;
    head.numbers[0] = agree->log.term + 1;
    head.numbers[1] = last - 1;
    head.numbers[2] = agree_term_at(&agree->log, last - 1);
    head.numbers[3] = last; /* ... of its own: what stands there here is another's */
    memset(world.messages, 0, sizeof(world.messages));
    agree_hear(agree, 1, &head, sizeof(head), world.now_us);
    assert_int_equal(agree->log.first + agree->log.count - 1, last);
    assert_int_equal(said_to_have(2, 1), last - 1);
    assert_true(agree->raft.commit_index < last);
    views_fini(&world);
}

/* ---- libraft gives up ----------------------------------------------------- */

static uint32_t heap_left = UINT32_MAX; /* pieces of memory, before there is none */

static bool heap_fails(void)
{
    heap_left -= heap_left != 0 && heap_left != UINT32_MAX ? 1 : 0;
    return heap_left == 0;
}

static void *heap_malloc(void *data, size_t size)
{
    (void)data;
    return heap_fails() ? NULL : malloc(size);
}

static void heap_free(void *data, void *at)
{
    (void)data;
    free(at);
}

static void *heap_calloc(void *data, size_t count, size_t size)
{
    (void)data;
    return heap_fails() ? NULL : calloc(count, size);
}

static void *heap_realloc(void *data, void *at, size_t size)
{
    (void)data;
    return heap_fails() ? NULL : realloc(at, size);
}

static struct raft_heap heap = {
    .malloc = heap_malloc, .free = heap_free, .calloc = heap_calloc, .realloc = heap_realloc};

/* Where libraft has given up the node says so, and is a member without a vote. */
static void who_libraft_gives_up_is_a_member_still(void **state)
{
    struct agree_look look;
    uint32_t lead, ill;

    (void)state;
    raft_heap_set(&heap);
    begin(5);
    lead = leader();
    ill = (lead + 1) % 5;
    heap_left = 0;
    agree_of(ill)->raft.election_timer_start = 0; /* it has heard nothing of the leader */
    agree_of(ill)->tick_us = world.now_us;
    (void)agree_tick(agree_of(ill), world.now_us);
    heap_left = UINT32_MAX;
    agree_look(agree_of(ill), world.now_us, &look);
    assert_true(look.failed);
    settle(5 * SECOND); /* it is, and stays */
    run(10 * SECOND);
    assert_true(views_has_lease(&world, ill));
    restart(ill);
    settle(10 * SECOND);
    agree_look(agree_of(ill), world.now_us, &look);
    assert_false(look.failed);
    views_fini(&world);
    raft_heap_set_default();
}

/* Whatever libraft lacks memory for, what it has of the log is what is kept. */
static void what_no_memory_is_left_for_is_not_kept(void **state)
{
    (void)state;
    raft_heap_set(&heap);
    begin(3);
    for (uint32_t n = 1; n < 40; n++) {
        struct agree *agree = agree_of(leader());

        if (!agree->barrier_pending) {
            heap_left = n;
            (void)agree_raft_barrier(agree);
            heap_left = UINT32_MAX;
        }
        assert_int_equal(raft_last_index(&agree->raft), agree->log.first + agree->log.count - 1);
        assert_false(agree->failed);
        run(SECOND / 10);
        settle(5 * SECOND);
    }
    views_fini(&world);
    raft_heap_set_default();
}

/* A leader whose disk fails leads no more, and so nobody may hear that it does. */
static void a_leader_without_a_disk_is_silent(void **state)
{
    uint32_t lead;

    (void)state;
    begin(3);
    lead = leader();
    world.nodes[lead].disk_fails = true;
    restart((lead + 1) % 3); /* that asks for a round of the log */
    for (uint32_t n = 0; !agree_of(lead)->failed; n++) {
        assert_true(n < 3000);
        run(SECOND / 1000);
    }
    for (uint32_t n = 0; n < VIEWS_MESSAGES; n++) {
        world.messages[n].at_us = world.messages[n].from == lead ? 0 : world.messages[n].at_us;
    }
    for (uint32_t n = 0; n < 20; n++) {
        run(SECOND / 10);
        for (uint32_t m = 0; m < VIEWS_MESSAGES; m++) {
            const struct views_message *message = &world.messages[m];

            assert_false(message->at_us != 0 && message->from == lead &&
                         message->bytes[0] < AGREE_ASK);
        }
    }
    views_fini(&world);
}

/* ---- voters that lie ------------------------------------------------------ */

struct lie {
    struct agree_head head;
    uint8_t more[AGREE_MESSAGE_BYTES - sizeof(struct agree_head)];
};

static struct lie lie;
static uint32_t lie_bytes;

static void lie_of(uint8_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    memset(&lie.head, 0, sizeof(lie.head));
    lie.head.kind = kind;
    lie.head.numbers[0] = a;
    lie.head.numbers[1] = b;
    lie.head.numbers[2] = c;
    lie.head.numbers[3] = d;
    lie_bytes = sizeof(lie.head);
}

static void add_entry(uint64_t term, uint32_t type, uint32_t bytes)
{
    struct agree_entry_head head = {.term = term, .type = type, .bytes = bytes};

    if (lie_bytes + sizeof(head) + bytes > sizeof(lie)) {
        return;
    }
    memcpy((uint8_t *)&lie + lie_bytes, &head, sizeof(head));
    memset((uint8_t *)&lie + lie_bytes + sizeof(head), 1, bytes);
    lie_bytes += (uint32_t)sizeof(head) + bytes;
    lie.head.entries++;
}

/* As of the index that the head says. */
static void add_state(const struct agreed *agreed, const struct agreed_roster *seats)
{
    struct agree_conf conf = agree_of(1)->own;

    conf.index = lie.head.numbers[3];
    memcpy((uint8_t *)&lie + lie_bytes, &conf, sizeof(conf));
    lie_bytes += (uint32_t)sizeof(conf);
    lie_bytes += (uint32_t)agree_state_write(agreed, seats, (uint8_t *)&lie + lie_bytes);
}

static void say(uint32_t to)
{
    agree_hear(agree_of(to), to == 0 ? 1 : 0, &lie, lie_bytes, world.now_us);
}

/* What is agreed there, and whether it votes, are as they were. */
static void say_in_vain(uint32_t to, const char *what)
{
    struct agree_look before, after;

    agree_look(agree_of(to), world.now_us, &before);
    say(to);
    agree_look(agree_of(to), world.now_us, &after);
    if (after.failed || after.malformed == before.malformed ||
        agreed_is_older(&agree_of(to)->applied, &before.agreed)) {
        fail_msg("taken at its word: %s", what);
    }
}

static void a_leader_hears_of_no_other(uint32_t lead)
{
    struct agree *agree = agree_of(lead);
    uint64_t term = agree->raft.current_term;

    lie_of(RAFT_IO_APPEND_ENTRIES, term, 0, 0, 0);
    say_in_vain(lead, "another leads in the leader's term");
    lie_of(RAFT_IO_INSTALL_SNAPSHOT, term, 1000, term, 1);
    add_state(&agree->applied, &agree->roster);
    say_in_vain(lead, "another's snapshot, in the leader's term");
}

static void no_log_is_cut_or_filled(uint32_t to)
{
    struct agree *agree = agree_of(to);
    uint64_t term = agree->raft.current_term, last = agree->log.first + agree->log.count - 1;

    lie_of(RAFT_IO_APPEND_ENTRIES, term, 0, 0, 0);
    add_entry(term + 5, RAFT_BARRIER, 8);
    say_in_vain(to, "an entry in place of the first");
    lie_of(RAFT_IO_APPEND_ENTRIES, term, last - 1, 999, 0);
    say_in_vain(to, "another term of what was decided");
    lie_of(RAFT_IO_APPEND_ENTRIES, term, last, agree->log.entries[agree->log.count - 1].head.term,
           0);
    add_entry(term + 1, RAFT_BARRIER, 8);
    say_in_vain(to, "an entry of a term that is to come");
    lie_of(RAFT_IO_APPEND_ENTRIES, term, last, agree->log.entries[agree->log.count - 1].head.term,
           0);
    add_entry(term, RAFT_CHANGE, 64);
    say_in_vain(to, "other voters");
    lie_of(RAFT_IO_APPEND_ENTRIES, term, last, agree->log.entries[agree->log.count - 1].head.term,
           0);
    for (uint32_t n = 0; n < AGREE_ENTRIES; n++) {
        add_entry(term, RAFT_BARRIER, 8);
    }
    say_in_vain(to, "more entries than a log has");
}

static void no_state_is_taken_back(uint32_t to)
{
    struct agree *agree = agree_of(to);
    uint64_t term = agree->raft.current_term, last = agree->log.first + agree->log.count - 1;
    struct agreed first;

    agreed_init(&first, world.listed);
    lie_of(RAFT_IO_INSTALL_SNAPSHOT, term, last + 10, term, 1);
    add_state(&first, &agree->roster);
    say_in_vain(to, "a snapshot of what was before");
    lie_of(RAFT_IO_INSTALL_SNAPSHOT, term, last + 10, term, 1);
    add_state(&agree->applied, &(struct agreed_roster){0});
    say_in_vain(to, "a snapshot in which nobody has joined");
    lie_of(RAFT_IO_INSTALL_SNAPSHOT, term, UINT64_MAX - 1, term, 1);
    add_state(&agree->applied, &agree->roster);
    say_in_vain(to, "a snapshot at the end of all numbers");
    lie_of(RAFT_IO_INSTALL_SNAPSHOT, term, last + 10, term + 10, 1);
    add_state(&agree->applied, &agree->roster);
    say_in_vain(to, "a snapshot of a term that is to come");
}

static void no_term_is_used_up(uint32_t to)
{
    static const uint8_t kinds[] = {RAFT_IO_APPEND_ENTRIES, RAFT_IO_APPEND_ENTRIES_RESULT,
                                    RAFT_IO_REQUEST_VOTE, RAFT_IO_REQUEST_VOTE_RESULT,
                                    RAFT_IO_TIMEOUT_NOW};

    for (uint32_t n = 0; n < sizeof(kinds); n++) {
        lie_of(kinds[n], UINT64_MAX, kinds[n] == RAFT_IO_REQUEST_VOTE ? (to == 0 ? 2 : 1) : 0, 0,
               0);
        say_in_vain(to, "the last term");
    }
}

static void grant_of(uint64_t epoch, uint64_t index)
{
    struct agree_news news = {.agreed = agree_of(1)->known, .conf = *agree_conf_known(agree_of(1))};

    lie_of(AGREE_GRANT, 0, 0, 0, 0);
    news.agreed.epoch = epoch == 0 ? news.agreed.epoch : epoch;
    news.conf.index = index == 0 ? news.conf.index : index;
    memcpy((uint8_t *)&lie + lie_bytes, &news, sizeof(news));
    lie_bytes += (uint32_t)sizeof(news);
}

/* kind: AGREE_ROSTER, or AGREE_SEATED, of somebody who has the first seat. */
static void roster_of(uint8_t kind, uint64_t changes, uint64_t seats, char first)
{
    struct agreed_roster roster = *agree_roster(agree_of(1));

    roster.changes = changes;
    roster.count = seats;
    roster.addresses[0][0] = first;
    lie_of(kind, 1, world.listed, 0, 0);
    agreed_roster_write(&roster, (uint8_t *)&lie + lie_bytes);
    lie_bytes += (uint32_t)agreed_roster_bytes(&roster);
}

/* What a leader tells of what is agreed, too: where it is at its end nothing comes after it. */
static void no_number_is_used_up(uint32_t to)
{
    const struct agreed_roster *roster = agree_roster(agree_of(1));
    char first = roster->addresses[0][0];

    assert_true(roster->count > 0);
    grant_of(UINT64_MAX, 0);
    say_in_vain(to, "the last epoch");
    grant_of(0, UINT64_MAX);
    say_in_vain(to, "the last index of who votes");
    roster_of(AGREE_ROSTER, UINT64_MAX, roster->count, first);
    say_in_vain(to, "the last change of the roster");
    roster_of(AGREE_SEATED, UINT64_MAX, roster->count, first);
    say_in_vain(to, "the last change of the roster, with a seat");
    roster_of(AGREE_ROSTER, roster->changes + 1, 0, first);
    say_in_vain(to, "a roster in which nobody has joined");
    roster_of(AGREE_ROSTER, roster->changes + 1, roster->count, (char)(first + 1));
    say_in_vain(to, "a seat that is another's");
}

static void lies_are_seen_through(void **state)
{
    uint32_t lead, other;

    (void)state;
    begin_with_seats(6, 1);
    for (uint32_t n = 0; n < 20; n++) { /* so that logs have been cut, and epochs have passed */
        views_kill(&world, 4);
        run(10 * SECOND);
        views_start(&world, 4);
        run(5 * SECOND);
    }
    settle(20 * SECOND);
    lead = leader();
    other = (lead + 1) % 5;
    if (other == 0) {
        other = lead == 1 ? 2 : 1;
    }
    a_leader_hears_of_no_other(lead);
    no_log_is_cut_or_filled(other);
    no_state_is_taken_back(other);
    no_term_is_used_up(other);
    no_term_is_used_up(lead);
    no_number_is_used_up(other);
    no_number_is_used_up(lead);
    /* Nothing of that was heard by anybody. */
    settle(SECOND / 100);
    views_fini(&world);
}

/* A candidate is told that it has votes of terms that it never asked in. */
static void no_vote_comes_from_afar(void **state)
{
    uint32_t lead;

    (void)state;
    begin(5);
    lead = leader();
    views_kill(&world, lead);
    for (uint32_t n = 0; n < 4000; n++) {
        run(SECOND / 1000);
        for (uint32_t rank = 0; rank < 5; rank++) {
            if (agree_of(rank) != NULL && raft_state(&agree_of(rank)->raft) == RAFT_CANDIDATE) {
                lie_of(RAFT_IO_REQUEST_VOTE_RESULT, agree_of(rank)->raft.current_term + 9, 0, 0, 0);
                lie.head.flags = 1 | 4; /* of a pre-vote, granted */
                say_in_vain(rank, "a vote of a later term");
            }
        }
    }
    views_fini(&world);
}

/* About the number that it should be. */
static uint64_t about(uint64_t number)
{
    switch (random_below(&world.random, 12)) {
    case 0: return 0;
    case 1: return random_below(&world.random, number + 4);
    case 2: return random_u64(&world.random);
    case 3: return UINT64_MAX - random_below(&world.random, 3);
    case 4: return number + 1 + random_below(&world.random, 4);
    default: return number + 1 - random_below(&world.random, 3);
    }
}

static void lie_about(const struct agree *agree)
{
    const struct agree_log *log = &agree->log;
    uint64_t index = about(log->first + random_below(&world.random, log->count + 1));
    uint64_t at = index - log->first < log->count ? log->entries[index - log->first].head.term
                                                  : log->snapshot_term;
    struct agreed agreed = agree->applied;

    lie_of((uint8_t)(RAFT_IO_APPEND_ENTRIES + random_below(&world.random, 6)), about(log->term),
           index, about(at), about(index));
    lie.head.flags = (uint8_t)random_below(&world.random, 16);
    switch (lie.head.kind) {
    case RAFT_IO_APPEND_ENTRIES:
        for (uint64_t left = random_below(&world.random, 4); left > 0; left--) {
            uint32_t type = RAFT_COMMAND + (uint32_t)random_below(&world.random, 3);

            add_entry(about(log->term), type,
                      type == RAFT_COMMAND ? sizeof(struct agreed_command) : 8);
        }
        break;
    case RAFT_IO_INSTALL_SNAPSHOT:
        lie.head.numbers[3] = about(1);
        agreed.epoch += random_below(&world.random, 2);
        add_state(&agreed, &agree->roster);
        break;
    case RAFT_IO_REQUEST_VOTE: lie.head.numbers[1] = agree->config.self == 0 ? 2 : 1; break;
    default: break;
    }
}

/* Whatever one voter says, the others run, and nothing that a node knows is taken back. */
static void lies_by_seed_bring_nobody_down(void **state)
{
    (void)state;
    begin(5);
    for (uint32_t n = 0; n < LIES; n++) {
        uint32_t to = 1 + (uint32_t)random_below(&world.random, 4);
        struct agree_look before, after;

        agree_look(agree_of(to), world.now_us, &before);
        lie_about(agree_of(to));
        say(to);
        agree_look(agree_of(to), world.now_us, &after);
        assert_false(after.failed);
        assert_false(agreed_is_older(&after.agreed, &before.agreed));
        if (random_below(&world.random, 4) == 0) {
            world.now_us += random_below(&world.random, SECOND / 20);
            world.nodes[to].due_us = agree_tick(agree_of(to), world.now_us);
        }
        if (random_below(&world.random, 16) == 0) { /* what they say to each other */
            (void)views_run(&world, world.now_us + SECOND / 100);
            world.broken = NULL; /* lies may have anything decided */
        }
    }
    views_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_log_wins_from_the_lowest_term),
        cmocka_unit_test(what_follows_another_log_is_refused),
        cmocka_unit_test(a_snapshot_that_is_lost_is_sent_again),
        cmocka_unit_test(what_an_earlier_leader_left_is_not_counted),
        cmocka_unit_test(who_libraft_gives_up_is_a_member_still),
        cmocka_unit_test(what_no_memory_is_left_for_is_not_kept),
        cmocka_unit_test(a_leader_without_a_disk_is_silent),
        cmocka_unit_test(lies_are_seen_through),
        cmocka_unit_test(no_vote_comes_from_afar),
        cmocka_unit_test(lies_by_seed_bring_nobody_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
