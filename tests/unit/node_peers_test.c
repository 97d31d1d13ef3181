/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random lives of a node's control port among strangers and members: the fuzz target's driver, with
 * other bytes; and by itself what a handshake may not change.
 */
#include "../fuzz/peers_fuzz.c"

#include "support/support.h"

#define LIFE_BYTES 600u
#define LIVES_MIN  500u /* however slow the machine is */

static void random_lives_leave_the_books_right(void **state)
{
    uint64_t seed = support_seed(), end_us = support_now_us() + support_budget_ms(3000) * 1000;
    uint8_t bytes[LIFE_BYTES];

    (void)state;
    for (uint64_t life = 0; life < LIVES_MIN || support_now_us() < end_us; life++) {
        uint64_t random = seed + life * UINT64_C(0x9e3779b97f4a7c15) + 1;

        for (uint32_t i = 0; i < LIFE_BYTES; i++) {
            bytes[i] = (uint8_t)(support_random(&random) >> 24);
        }
        (void)LLVMFuzzerTestOneInput(bytes, LIFE_BYTES);
    }
    printf("# %llu lives: %llu times up, %llu refused, %llu dead; %llu tokens, %llu good\n",
           (unsigned long long)counts.lives, (unsigned long long)counts.ups,
           (unsigned long long)counts.refused, (unsigned long long)counts.deaths,
           (unsigned long long)counts.tokens, (unsigned long long)counts.tokens_good);
    /* A driver that only sends rubbish proves little. */
    assert_true(counts.ups > counts.lives / 2 && counts.refused > counts.lives / 2);
    assert_true(counts.deaths > counts.lives / 4 && counts.tokens_good > counts.lives / 10);
}

/* ---- one thing at a time --------------------------------------------------- */

static void begin_alone(void)
{
    memset(&fuzz, 0, sizeof(fuzz));
    begin();
    pump();
}

/* Somebody with the key knocks, and says all that is needed; its end. */
static struct end *knock_from(uint32_t rank, uint32_t incarnation, uint32_t life,
                              const char *address, const char *member)
{
    uint8_t nonce[AUTH_NONCE_BYTES] = {(uint8_t)life};
    struct auth_identity identity = {
        .rank = rank, .incarnation = incarnation, .life = life, .epoch = fuzz.members.epoch};
    struct auth_offer offer = {.lanes = 1};
    struct end *end;
    int fd = new_pair(&end);

    assert_true(fd >= 0);
    snprintf(offer.addresses[0], sizeof(offer.addresses[0]), "%s", address);
    snprintf(offer.member, sizeof(offer.member), "%s", member);
    auth_begin(&end->auth, true, fuzz_key, &identity, &offer, SELF, nonce);
    fuzz.queue[fuzz.queued++] = fd;
    peers_ready(fuzz.peers, PEERS_LISTEN, EPOLLIN);
    carry_all(end);
    check();
    return end;
}

static struct end *knock_as(uint32_t rank, uint32_t incarnation, uint32_t life, const char *address)
{
    return knock_from(rank, incarnation, life, address, "");
}

static enum peer_state state_of(uint32_t rank)
{
    struct peers_view view;

    peers_look(fuzz.peers, rank, &view);
    return view.state;
}

static void a_useless_offer_changes_nothing(void **state)
{
    static const char *const useless[] = {
        "", "7001", "host:7001",
        ":12345678901234567890123456789012345678901234567890123456789012345678901234567"};
    struct known before[MEMBERS], after[MEMBERS];

    (void)state;
    for (size_t n = 0; n < ARRAY_LENGTH(useless); n++) {
        struct end *good;

        begin_alone();
        /* Not seen yet: it stays away. */
        look(before);
        knock_as(2, 5, 1, useless[n]);
        look(after);
        assert_memory_equal(before, after, sizeof(before));
        assert_int_equal(state_of(2), PEER_AWAY);
        /* Up: it stays so, with the connection that it has. */
        good = knock_as(2, 5, 1, ":7001");
        assert_int_equal(state_of(2), PEER_UP);
        look(before);
        knock_as(2, 5, 1, useless[n]);
        knock_as(2, 6, 2, useless[n]);
        look(after);
        assert_memory_equal(before, after, sizeof(before));
        assert_true(fuzz.told[2].up);
        /* Dead: it stays dead. */
        close_end(good);
        pump();
        tick(6000000);
        assert_int_equal(state_of(2), PEER_DEAD);
        look(before);
        knock_as(2, 5, 1, useless[n]);
        knock_as(2, 9, 2, useless[n]);
        knock_as(2, 4, 2, useless[n]);
        look(after);
        assert_memory_equal(before, after, sizeof(before));
        assert_int_equal(state_of(2), PEER_DEAD);
        assert_int_equal(fuzz.peers->counters.refused_members, 6);
        knock_as(2, 5, 1, ":7001");
        assert_int_equal(state_of(2), PEER_UP);
        end_all();
    }
}

static void two_processes_of_a_rank(void **state)
{
    struct known before[MEMBERS], after[MEMBERS];

    (void)state;
    begin_alone();
    knock_as(3, 5, 1, ":7001");
    look(before);
    knock_as(3, 5, 2, ":7001");       /* began in the same eighth of a second */
    knock_as(3, 4, 3, ":7001");       /* before it */
    knock_as(0, 9, 4, ":7001");       /* dials, and should be dialled */
    knock_as(MEMBERS, 9, 4, ":7001"); /* is none */
    look(after);
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(fuzz.peers->counters.refused_members, 4);
    knock_as(3, 6, 5, ":7001"); /* after it: the other is dead */
    look(after);
    assert_int_equal(after[3].incarnation, 6);
    assert_int_equal(fuzz.peers->counters.deaths, 1);
    end_all();
}

/* A node that is long in making its memory has not waited for anybody meanwhile. */
static void a_long_start_is_no_absence_of_others(void **state)
{
    (void)state;
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.start_us = 60000000;
    begin();
    tick(1);
    assert_int_equal(state_of(0), PEER_AWAY);
    assert_int_equal(state_of(2), PEER_AWAY);
    tick(4000000);
    assert_int_equal(state_of(2), PEER_AWAY);
    tick(2000000);
    assert_int_equal(state_of(2), PEER_DEAD);
    check();
    end_all();
}

/* The one that is dialled is dialled again, in a while. */
static void a_dialled_one_with_a_useless_offer_is_left_alone_for_a_while(void **state)
{
    uint64_t dialled;

    (void)state;
    begin_alone();
    tick(1); /* dials rank 0, which the end of zeros answers: no key, no rank that fits */
    {
        struct end *end = &fuzz.ends[0];
        struct auth_identity identity = {.rank = 0, .incarnation = 3, .epoch = fuzz.members.epoch};
        struct auth_offer offer = {.lanes = 1, .addresses = {"nowhere"}};
        uint8_t nonce[AUTH_NONCE_BYTES] = {9};

        assert_true(end->fd >= 0);
        auth_begin(&end->auth, false, fuzz_key, &identity, &offer, UINT32_MAX, nonce);
        pump();
        carry_all(end);
        assert_int_equal(end->auth.state, AUTH_DONE);
    }
    assert_int_equal(state_of(0), PEER_AWAY);
    assert_int_equal(fuzz.peers->counters.refused_members, 1);
    assert_false(fuzz.peers->members[0].peer.dialling);
    dialled = fuzz.peers->counters.dialled;
    tick(1000);
    assert_int_equal(fuzz.peers->counters.dialled, dialled);
    close_end(&fuzz.ends[0]);
    tick(2000000);
    assert_true(fuzz.peers->counters.dialled > dialled);
    check();
    end_all();
}

/* What it offers is of another fabric than ours, wherever it says so. */
static void another_fabric_is_refused(void **state)
{
    struct known before[MEMBERS], after[MEMBERS];

    (void)state;
    begin_alone();
    look(before);
    knock_as(3, 5, 1, "verbs:7001");
    knock_as(3, 5, 1, "tcp:7001");
    look(after);
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(fuzz.peers->counters.refused_members, 2);
    end_all();
}

/* What rank 3 says of rank 2, in a datagram. */
static void hear_of(enum swim_state life, uint32_t incarnation)
{
    struct swim_message message = {.kind = SWIM_ACK,
                                   .from = 3,
                                   .to = SELF,
                                   .target = 3,
                                   .incarnation = SWIM_INCARNATION(9, 0),
                                   .count = 1};

    message.updates[0] = (struct swim_update){
        .incarnation = SWIM_INCARNATION(incarnation, 0), .rank = 2, .from = 3, .state = life};
    carry_on(fuzz.peers, &(struct swim_event){.kind = SWIM_RECEIVE, .message = &message});
}

/* The connection stands, and ends all the same: what waits for the member fails now. It may be back
 * at once. */
static void the_members_verdict_ends_a_connection(void **state)
{
    struct peers_view view;

    (void)state;
    begin_alone();
    assert_non_null(fuzz.peers->swim.swim);
    knock_as(2, 5, 1, ":7001");
    assert_int_equal(state_of(2), PEER_UP);
    hear_of(SWIM_DEAD, 4); /* a life before */
    hear_of(SWIM_SUSPECT, 5);
    peers_look(fuzz.peers, 2, &view);
    assert_int_equal(view.life, SWIM_SUSPECT);
    assert_int_equal(view.state, PEER_UP);
    hear_of(SWIM_DEAD, 5);
    assert_int_equal(state_of(2), PEER_DEAD);
    assert_int_equal(fuzz.peers->members[2].connection, PEERS_NOBODY);
    assert_int_equal(fuzz.peers->counters.deaths, 1);
    assert_false(fuzz.told[2].up);
    check();
    knock_as(2, 5, 1, ":7001"); /* it was not dead */
    assert_int_equal(state_of(2), PEER_UP);
    hear_of(SWIM_DEAD, 5); /* heard before: nothing new */
    assert_int_equal(state_of(2), PEER_UP);
    end_all();
}

/* ---- ranks behind the list -------------------------------------------------- */

#define SEAT     LISTED /* the first of them */
#define NO_SEAT  (LISTED + 1)
#define OF_SEAT  "127.0.0.1:5"
#define ANOTHERS "127.0.0.1:6"

static void begin_agreeing(void)
{
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.agrees = true;
    begin();
    pump();
}

static void is_waited_for(uint32_t rank)
{
    assert_int_equal(state_of(rank), PEER_AWAY);
    assert_false(fuzz.told[rank].is_dead);
}

static void is_nobodys(uint32_t rank)
{
    assert_int_equal(state_of(rank), PEER_DEAD);
    assert_true(fuzz.told[rank].is_dead);
    assert_false(peers_is_member(fuzz.peers, rank));
}

/* A node that was started again does not know yet who joined: what they hold is not absent. */
static void who_joined_is_waited_for_as_all_are(void **state)
{
    (void)state;
    begin_agreeing();
    tick(1000000); /* nothing is known but by what this node kept itself, which may be over */
    is_waited_for(SEAT);
    is_waited_for(NO_SEAT);
    fuzz.look = (struct agree_look){.has_lease = true, .seats = 1};
    tick(1000000);
    is_waited_for(SEAT);
    is_nobodys(NO_SEAT);
    knock_from(SEAT, 5, 1, ":7001", OF_SEAT);
    assert_int_equal(state_of(SEAT), PEER_UP);
    assert_true(fuzz.told[SEAT].up);
    end_all();

    begin_agreeing(); /* it does not come */
    fuzz.look = (struct agree_look){.has_lease = true, .seats = 1};
    tick(4000000);
    is_waited_for(SEAT);
    tick(2000000);
    is_nobodys(SEAT);
    knock_from(SEAT, 5, 1, ":7001", OF_SEAT);
    assert_int_equal(state_of(SEAT), PEER_UP);
    end_all();
}

/* Who votes knows where it is, too, and shows it. */
static void a_voter_knows_who_joined(void **state)
{
    struct peers_view view;

    (void)state;
    begin_agreeing();
    memcpy(fuzz.seats[0], OF_SEAT, sizeof(OF_SEAT));
    tick(1000000);
    is_waited_for(SEAT);
    assert_true(peers_is_member(fuzz.peers, SEAT));
    assert_false(peers_is_member(fuzz.peers, NO_SEAT));
    peers_look(fuzz.peers, SEAT, &view);
    assert_string_equal(view.address, OF_SEAT);
    tick(5000000);
    assert_int_equal(state_of(SEAT), PEER_DEAD);
    assert_true(fuzz.told[SEAT].is_dead);
    assert_int_equal(fuzz.peers->counters.deaths, 4); /* of the list, too */
    end_all();
}

/* Of two spellings of an address each would have a rank of its own, and nobody reaches all
 * addresses of another machine: a node says neither, and is told so where it does. */
static void who_cannot_be_reached_is_not_let_in(void **state)
{
    static const char *const wrong[] = {"127.1:7", "0.0.0.0:7", "[::]:7", "[0::1]:7", "a:07", "a"};

    (void)state;
    begin_agreeing();
    for (size_t n = 0; n < ARRAY_LENGTH(wrong); n++) {
        knock_from(AUTH_JOINER, 1, 1, ":7001", wrong[n]);
        tick(1);
        assert_int_equal(fuzz.peers->counters.joined, 0);
    }
    knock_from(AUTH_JOINER, 1, 1, ":7001", "127.0.0.1:7");
    tick(1);
    assert_int_equal(fuzz.peers->counters.joined, 1);
    end_all();
}

/* Where nothing is agreed on, nobody joins. */
static void without_views_a_rank_behind_the_list_is_nobodys(void **state)
{
    (void)state;
    begin_alone();
    tick(1);
    is_nobodys(SEAT);
    is_waited_for(LISTED - 1);
    end_all();
}

/* Two nodes have one rank: the later start is no reason to believe it. */
/* A name that is no more keeps nobody from starting: who has it comes by itself. In a list it does:
 * whoever wrote that can mend it. */
static void a_seat_whose_name_is_gone_stops_nobody(void **state)
{
    static const char no_name[] = "no..name:7000";
    struct members *members = calloc(1, sizeof(*members));
    struct peers *peers = calloc(1, sizeof(*peers));
    char addresses[MEMBERS][MEMBERS_ADDRESS_BYTES] = {"127.0.0.1:1", "127.0.0.1:2"}, why[256];

    (void)state;
    assert_non_null(members);
    assert_non_null(peers);
    peers->config.members = members;
    memcpy(addresses[2], no_name, sizeof(no_name));
    assert_int_equal(
        members_make((const char(*)[MEMBERS_ADDRESS_BYTES])addresses, 2, 3, MEMBERS, 0, members),
        NIGH_OK);
    assert_int_equal(peers_look_members_up(peers, why, sizeof(why)), NIGH_OK);
    assert_int_equal(peers->members[2].address_bytes, 0);
    assert_true(peers_is_member(peers, 2));
    members->self = 3; /* which dials those below */
    assert_int_equal(peers_look_members_up(peers, why, sizeof(why)), NIGH_INVALID);
    assert_int_equal(
        members_make((const char(*)[MEMBERS_ADDRESS_BYTES])addresses, 3, 3, MEMBERS, 0, members),
        NIGH_OK);
    assert_int_equal(peers_look_members_up(peers, why, sizeof(why)), NIGH_INVALID);
    free(peers);
    free(members);
}

static void a_seat_is_whose_it_is(void **state)
{
    struct known before[MEMBERS], after[MEMBERS];

    (void)state;
    begin_agreeing();
    memcpy(fuzz.seats[0], OF_SEAT, sizeof(OF_SEAT)); /* as it was decided */
    tick(1);
    look(before);
    knock_from(SEAT, 9, 2, ":7001", ANOTHERS);
    look(after);
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(fuzz.peers->counters.refused_members, 1);
    knock_from(SEAT, 5, 1, ":7001", OF_SEAT);
    assert_int_equal(state_of(SEAT), PEER_UP);
    look(before);
    knock_from(SEAT, 9, 2, ":7001", ANOTHERS);
    look(after);
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(fuzz.peers->counters.refused_members, 2);
    knock_from(SEAT, 9, 2, ":7001", OF_SEAT); /* it was started again */
    assert_int_equal(fuzz.peers->members[SEAT].peer.incarnation, 9);
    end_all();
}

/* Who does not vote believes the first that comes, as long as that lives. */
static void the_first_of_a_seat_has_it_while_it_lives(void **state)
{
    struct end *first;

    (void)state;
    begin_agreeing();
    fuzz.look = (struct agree_look){.has_lease = true, .seats = 1};
    first = knock_from(SEAT, 5, 1, ":7001", ANOTHERS);
    assert_int_equal(state_of(SEAT), PEER_UP);
    knock_from(SEAT, 9, 2, ":7001", OF_SEAT);
    assert_int_equal(fuzz.peers->members[SEAT].peer.incarnation, 5);
    close_end(first);
    pump();
    assert_int_equal(state_of(SEAT), PEER_LOST);
    knock_from(SEAT, 9, 2, ":7001", OF_SEAT);
    assert_int_equal(state_of(SEAT), PEER_LOST);
    assert_int_equal(fuzz.peers->counters.refused_members, 2);
    tick(6000000);
    assert_int_equal(state_of(SEAT), PEER_DEAD);
    knock_from(SEAT, 9, 2, ":7001", OF_SEAT);
    assert_int_equal(state_of(SEAT), PEER_UP);
    end_all();
}

/* ---- who is struck off ---------------------------------------------------- */

/* The message that the node says behind a handshake; 0: none. */
static enum auth_message heard_by(struct end *end)
{
    enum auth_message message = (enum auth_message)0;
    uint8_t bytes[AUTH_MESSAGE_BYTES];
    uint64_t sequence = 0;
    ssize_t got;
    uint32_t at = 0;

    got = recv(end->fd, bytes, sizeof(bytes), 0);
    if (got <= 0) {
        return message;
    }
    if (end->auth.state == AUTH_WAITS) {
        at = auth_input(&end->auth, bytes, (uint32_t)got);
    }
    for (; at + auth_sealed_bytes() <= (uint32_t)got; at += auth_sealed_bytes()) {
        assert_int_equal(auth_open(&end->auth, bytes + at, sequence++, &message), NIGH_OK);
    }
    return message;
}

/* All but hearing how it ends. */
static struct end *knock_and_prove(uint32_t rank, const char *member)
{
    uint8_t nonce[AUTH_NONCE_BYTES] = {7};
    struct auth_identity identity = {
        .rank = rank, .incarnation = 5, .life = 1, .epoch = fuzz.members.epoch};
    struct auth_offer offer = {.lanes = 1, .addresses = {":7001"}};
    struct end *end;
    int fd = new_pair(&end);

    assert_true(fd >= 0);
    snprintf(offer.member, sizeof(offer.member), "%s", member);
    auth_begin(&end->auth, true, fuzz_key, &identity, &offer, SELF, nonce);
    fuzz.queue[fuzz.queued++] = fd;
    peers_ready(fuzz.peers, PEERS_LISTEN, EPOLLIN);
    carry(end, false);
    pump();
    carry(end, false);
    pump();
    check();
    return end;
}

/* Also at the very address that the seat was given to. */
static void who_is_struck_off_is_told(void **state)
{
    struct known before[MEMBERS], after[MEMBERS];
    struct end *end;

    (void)state;
    begin_agreeing();
    agreed_put(&fuzz.struck, SEAT, true);
    tick(1);
    is_nobodys(SEAT);
    look(before);
    end = knock_and_prove(SEAT, OF_SEAT);
    assert_int_equal(heard_by(end), AUTH_STRUCK);
    look(after);
    assert_memory_equal(before, after, sizeof(before));
    assert_false(peers_is_member(fuzz.peers, SEAT));
    end_all();
}

/* It was let in by who had not heard of it yet. */
static void a_link_of_who_is_struck_off_ends(void **state)
{
    struct end *end;

    (void)state;
    begin_agreeing();
    memcpy(fuzz.seats[0], OF_SEAT, sizeof(OF_SEAT));
    tick(1);
    end = knock_and_prove(SEAT, OF_SEAT);
    assert_int_equal(state_of(SEAT), PEER_UP);
    assert_true(fuzz.told[SEAT].up && peers_is_member(fuzz.peers, SEAT));
    memset(fuzz.seats[0], 0, sizeof(fuzz.seats[0]));
    agreed_put(&fuzz.struck, SEAT, true);
    tick(1);
    assert_int_equal(heard_by(end), AUTH_STRUCK);
    is_nobodys(SEAT);
    assert_true(fuzz.told[SEAT].is_dead);
    assert_false(peers_is_member(fuzz.peers, SEAT));
    check();
    end_all();
}

static void say(struct end *end, enum auth_message message)
{
    uint8_t bytes[64];
    uint32_t count = auth_seal(&end->auth, message, end->sent++, bytes);

    assert_true(send(end->fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count);
    pump();
}

static bool leaves(uint32_t rank)
{
    struct peers_view view;

    peers_look(fuzz.peers, rank, &view);
    return view.leaves;
}

/* As long as it says so, and is up. */
static void who_leaves_says_so(void **state)
{
    struct end *end;

    (void)state;
    begin_alone();
    end = knock_as(2, 5, 1, ":7001");
    assert_false(leaves(2));
    say(end, AUTH_LEAVES);
    assert_true(leaves(2) && !leaves(3) && !leaves(SELF));
    assert_int_equal(state_of(2), PEER_UP);
    say(end, AUTH_PING);
    assert_false(leaves(2));
    say(end, AUTH_LEAVES);
    close_end(end);
    pump();
    assert_int_equal(state_of(2), PEER_LOST);
    assert_false(leaves(2));
    knock_as(2, 5, 1, ":7001");
    assert_false(leaves(2));
    fuzz.leaves = true;
    assert_true(leaves(SELF));
    end = knock_and_prove(3, "");
    tick(1);
    assert_int_equal(heard_by(end), AUTH_LEAVES);
    end_all();
}

/* It has a seat; who says so votes, and is dialled. */
static void who_hears_that_it_is_struck_off_is_alone(void **state)
{
    struct end *one, *other;

    (void)state;
    begin_agreeing();
    fuzz.members.listed = SELF + 2; /* it is of the list, which is not struck off */
    one = knock_as(2, 5, 1, ":7001");
    say(one, AUTH_STRUCK);
    check();
    assert_false(peers_is_struck(fuzz.peers));
    assert_int_equal(state_of(2), PEER_LOST); /* and who said it goes */
    fuzz.members.listed = SELF;               /* rank 0 alone votes */
    fuzz.seats[0][0] = '\0';
    memcpy(fuzz.members.addresses[3], OF_SEAT, sizeof(OF_SEAT));
    one = knock_from(3, 5, 1, ":7001", OF_SEAT);
    assert_int_equal(state_of(3), PEER_UP);
    say(one, AUTH_STRUCK);
    check();
    assert_false(peers_is_struck(fuzz.peers));
    assert_int_equal(state_of(3), PEER_LOST);
    one = knock_from(3, 5, 1, ":7001", OF_SEAT);
    other = NULL; /* rank 0, which this node dials */
    for (uint32_t n = 0; n < 40 && state_of(0) != PEER_UP; n++) {
        tick(1000000);
        pump();
        for (uint32_t i = 0; i < ENDS; i++) {
            if (fuzz.ends[i].fd >= 0 && !fuzz.ends[i].auth.dials) {
                other = &fuzz.ends[i];
                carry_all(other);
            }
        }
        if (state_of(3) != PEER_UP) {
            one = knock_from(3, 5, 1, ":7001", OF_SEAT);
        }
    }
    assert_int_equal(state_of(0), PEER_UP);
    say(other, AUTH_STRUCK);
    check();
    assert_true(peers_is_struck(fuzz.peers));
    assert_int_equal(fuzz.ends_told, 1);
    assert_true(fuzz.told[0].is_dead && fuzz.told[3].is_dead);
    tick(10000000);
    knock_from(3, 5, 1, ":7001", OF_SEAT);
    assert_int_equal(state_of(3), PEER_DEAD);
    assert_int_equal(state_of(0), PEER_DEAD);
    assert_int_equal(fuzz.ends_told, 1);
    (void)one;
    end_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_leave_the_books_right),
        cmocka_unit_test(a_useless_offer_changes_nothing),
        cmocka_unit_test(two_processes_of_a_rank),
        cmocka_unit_test(another_fabric_is_refused),
        cmocka_unit_test(the_members_verdict_ends_a_connection),
        cmocka_unit_test(a_long_start_is_no_absence_of_others),
        cmocka_unit_test(a_dialled_one_with_a_useless_offer_is_left_alone_for_a_while),
        cmocka_unit_test(who_joined_is_waited_for_as_all_are),
        cmocka_unit_test(a_voter_knows_who_joined),
        cmocka_unit_test(who_cannot_be_reached_is_not_let_in),
        cmocka_unit_test(without_views_a_rank_behind_the_list_is_nobodys),
        cmocka_unit_test(a_seat_is_whose_it_is),
        cmocka_unit_test(who_is_struck_off_is_told),
        cmocka_unit_test(a_link_of_who_is_struck_off_ends),
        cmocka_unit_test(who_hears_that_it_is_struck_off_is_alone),
        cmocka_unit_test(who_leaves_says_so),
        cmocka_unit_test(a_seat_whose_name_is_gone_stops_nobody),
        cmocka_unit_test(the_first_of_a_seat_has_it_while_it_lives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
