/* SPDX-License-Identifier: Apache-2.0 */
/* The views' thread: what members say comes to it by turns, and all else has its turn, too. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/agree_internal.h"
#include "lock_fault.h"
#include "node/views.h"
#include "node/views_file.h"
#include "rpc/calls.h"
#include "support/support.h"

#define LISTED   40u
#define SEATS    (LIMIT_NODES - LISTED) /* all the rest */
#define SELF     (LISTED - 1)           /* votes not, and knows no leader: an ASK gets a HINT */
#define DEADLINE 20000

/* What it says, as the thread that says it kicks the lane. */
struct heard {
    struct views *views;
    _Atomic uint32_t hints; /* in all */
    _Atomic uint32_t batch; /* the most, from kick to kick */
    uint32_t of[LISTED];
    uint32_t first[2]; /* to whom */
};

struct fixture {
    struct members members;
    struct heard heard;
    struct views_file file;
    char folder[128];
};

static void on_kick(void *context, uint32_t lane)
{
    struct heard *heard = context;
    uint32_t rank, count, hints = 0, before = atomic_load(&heard->hints);
    uint8_t *bytes;

    (void)lane;
    while ((bytes = views_take(heard->views, &rank, &count)) != NULL) {
        if (bytes[0] == AGREE_HINT) {
            if (before + hints < 2) {
                heard->first[before + hints] = rank;
            }
            heard->of[rank]++;
            hints++;
        }
        free(bytes);
    }
    if (hints > atomic_load(&heard->batch)) {
        atomic_store(&heard->batch, hints);
    }
    atomic_store(&heard->hints, before + hints);
}

/* A node's state directory, and what it is told there. */
static nigh_status create(struct fixture *fixture, char *why, size_t why_bytes)
{
    struct views_config config = {.members = &fixture->members,
                                  .dead_us = 4000000,
                                  .name = "",
                                  .lanes = 1,
                                  .kick = on_kick,
                                  .context = &fixture->heard};
    nigh_status status;

    views_destroy(fixture->heard.views);
    fixture->heard.views = NULL;
    views_file_close(&fixture->file);
    status = views_file_open(&fixture->file, fixture->folder, why, why_bytes);
    return status == NIGH_OK
               ? views_create(&config, &fixture->file, &fixture->heard.views, why, why_bytes)
               : status;
}

static int setup(void **state)
{
    static uint32_t number;
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char list[LISTED * 24], self[16], why[256];
    uint32_t length = 0;

    assert_non_null(fixture);
    views_file_init(&fixture->file);
    for (uint32_t rank = 0; rank < LISTED; rank++) {
        length += (uint32_t)snprintf(list + length, sizeof(list) - length, "%s127.0.0.1:%u",
                                     rank > 0 ? "," : "", 7000 + rank);
    }
    (void)snprintf(self, sizeof(self), "%u", SELF);
    assert_int_equal(members_parse(list, self, &fixture->members, why, sizeof(why)), NIGH_OK);
    assert_int_equal(members_agree(&fixture->members, LISTED + SEATS, why, sizeof(why)), NIGH_OK);
    (void)snprintf(self, sizeof(self), "state-%u", ++number);
    support_path(fixture->folder, sizeof(fixture->folder), self);
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    views_destroy(fixture->heard.views);
    views_file_close(&fixture->file);
    free(fixture);
    return 0;
}

static void ask(const struct fixture *fixture, uint32_t rank, uint32_t times)
{
    struct agree_head head = {.kind = AGREE_ASK, .numbers = {1}};

    for (uint32_t n = 0; n < times; n++) {
        views_heard(fixture->heard.views, rank, (const uint8_t *)&head, sizeof(head));
    }
}

/* More waits than one member may have: the rest of its own is lost, and nothing of another's. */
static void who_says_much_keeps_nobody_out(void **state)
{
    struct fixture *fixture = *state;
    struct heard *heard = &fixture->heard;

    ask(fixture, 1, 2000);
    ask(fixture, 2, 1);
    assert_int_equal(views_start(heard->views), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&heard->hints) > VIEWS_SHARE, DEADLINE));
    views_stop(heard->views);
    assert_int_equal(heard->of[1], VIEWS_SHARE);
    assert_int_equal(heard->of[2], 1);
    assert_int_equal(heard->first[0], 1);
    assert_int_equal(heard->first[1], 2);
}

static void what_waits_is_not_heard_in_one_turn(void **state)
{
    struct fixture *fixture = *state;
    struct heard *heard = &fixture->heard;

    for (uint32_t rank = 0; rank < SELF; rank++) {
        ask(fixture, rank, 5);
    }
    assert_int_equal(views_start(heard->views), NIGH_OK);
    assert_true(SUPPORT_WAIT(atomic_load(&heard->hints) == 5 * SELF, DEADLINE));
    views_stop(heard->views);
    assert_int_equal(heard->batch, VIEWS_TURN);
}

/* It may have come to vote: what it said would be gone without a word. */
static void who_did_not_vote_at_first_reads_what_it_kept(void **state)
{
    struct fixture *fixture = *state;
    char why[256] = "", folder[160];

    (void)snprintf(folder, sizeof(folder), "%s/", fixture->folder);
    support_put_file(folder, VIEWS_FILE, "a voter's");
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_CORRUPT);
    assert_non_null(strstr(why, "this voter must not vote without it"));
}

static bool has_kept_votes(const struct fixture *fixture)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/" VIEWS_FILE, fixture->folder);
    return access(path, F_OK) == 0;
}

/* A start that failed, since the address was wrong, is mended by another: nobody heard it vote. */
static void who_never_took_part_may_be_another(void **state)
{
    struct fixture *fixture = *state;
    char why[256] = "";

    fixture->members.self = 0;
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_OK);
    assert_false(has_kept_votes(fixture));
    fixture->members.self = 1;
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_OK);
    assert_int_equal(views_start(fixture->heard.views), NIGH_OK);
    assert_true(has_kept_votes(fixture));
    fixture->members.self = 0;
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_VERSION);
    assert_non_null(strstr(why, "is of another member"));
}

/* A stack that no machine has: no thread can be made. */
static void let_threads_be_made(bool can)
{
    pthread_attr_t attributes;

    assert_int_equal(pthread_attr_init(&attributes), 0);
    if (!can) {
        assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)1 << 46), 0);
    } else {
        assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)8 << 20), 0);
    }
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    (void)pthread_attr_destroy(&attributes);
}

/* What it wrote is gone with it; what was there stays. */
static void a_start_that_fails_leaves_what_was(void **state)
{
    struct fixture *fixture = *state;
    char why[256] = "";

    fixture->members.self = 0;
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_OK);
    let_threads_be_made(false);
    assert_int_equal(views_start(fixture->heard.views), NIGH_NO_RESOURCES);
    let_threads_be_made(true);
    assert_false(has_kept_votes(fixture));
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_OK);
    assert_int_equal(views_start(fixture->heard.views), NIGH_OK);
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_OK);
    let_threads_be_made(false);
    assert_int_equal(views_start(fixture->heard.views), NIGH_NO_RESOURCES);
    let_threads_be_made(true);
    assert_true(has_kept_votes(fixture));
}

/* ---- locks ----------------------------------------------------------------- */

static void a_file_system_without_locks_is_no_other_node(void **state)
{
    struct fixture *fixture = *state;
    char why[256] = "";

    lock_fault = ENOLCK;
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_DISK);
    assert_non_null(strstr(why, "cannot be locked (No locks available)"));
    lock_fault = EWOULDBLOCK;
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_BUSY);
    assert_non_null(strstr(why, "another node uses the directory"));
    lock_fault = 0;
}

/* Who there is, in a cluster of many: more than a channel for calls carries at once. */
static uint32_t roster_of_many(uint8_t message[AGREE_MESSAGE_BYTES])
{
    struct agree_head head = {.kind = AGREE_ROSTER};
    struct agreed_roster roster = {.changes = 1, .count = SEATS};

    for (uint32_t n = 0; n < SEATS; n++) {
        (void)snprintf(roster.addresses[n], AGREED_ADDRESS_BYTES, "10.0.0.%u:7470", n);
    }
    for (uint32_t rank = 0; rank < LISTED + SEATS; rank++) {
        (void)snprintf(roster.names[rank], AGREED_NAME_BYTES, "node-%u", rank);
    }
    memcpy(message, &head, sizeof(head));
    agreed_roster_write(&roster, message + sizeof(head));
    return (uint32_t)(sizeof(head) + agreed_roster_bytes(&roster));
}

/* All parts of it but one; LIMIT_NODES: all. */
static void say_in_parts(const struct fixture *fixture, uint32_t serial, uint32_t without)
{
    uint8_t message[AGREE_MESSAGE_BYTES], frame[VIEWS_FRAME_BYTES];
    uint32_t bytes = roster_of_many(message), offset = 0, count, n = 0;

    assert_true(bytes > VIEWS_FRAME_BYTES);
    while ((count = views_part_write(serial, message, bytes, &offset, frame)) > 0) {
        assert_true(count <= CALLS_PAYLOAD);
        if (n++ != without) {
            views_heard(fixture->heard.views, 0, frame, count);
        }
    }
}

static void who_there_is_is_heard_in_parts(void **state)
{
    struct fixture *fixture = *state;
    struct views *views = fixture->heard.views;
    char name[AGREED_NAME_BYTES] = "";

    assert_int_equal(views_start(views), NIGH_OK);
    say_in_parts(fixture, 1, 1);
    say_in_parts(fixture, 2, 0); /* the end of another, which is no end of the first */
    views_name_of(views, LISTED + SEATS - 1, name);
    assert_string_equal(name, "");
    say_in_parts(fixture, 3, LIMIT_NODES);
    assert_true(
        SUPPORT_WAIT((views_name_of(views, LISTED + SEATS - 1, name), name[0] != '\0'), DEADLINE));
    assert_string_equal(name, "node-255");
    views_stop(views);
}

/* Whose word is believed: at first those that the list has vote, and then whom a leader names. */
static void who_votes_is_what_a_leader_said(void **state)
{
    const uint32_t others[] = {0, 7, LISTED + 1};
    struct fixture *fixture = *state;
    struct views *views = fixture->heard.views;
    struct agree_head head = {.kind = AGREE_GRANT};
    struct agree_news news = {.conf = {.index = 9, .count = 3}};
    uint8_t message[sizeof(head) + sizeof(news)];

    assert_true(views_is_voter(views, AGREE_VOTERS - 1));
    assert_false(views_is_voter(views, AGREE_VOTERS));
    agreed_init(&news.agreed, LISTED);
    for (uint32_t n = 0; n < 3; n++) {
        news.conf.servers[n] =
            (struct agree_server){.rank = (uint16_t)others[n], .role = RAFT_VOTER};
    }
    memcpy(message, &head, sizeof(head));
    memcpy(message + sizeof(head), &news, sizeof(news));
    assert_int_equal(views_start(views), NIGH_OK);
    views_heard(views, 1, message, sizeof(message));
    assert_true(SUPPORT_WAIT(views_is_voter(views, LISTED + 1), DEADLINE));
    assert_true(views_is_voter(views, 0));
    assert_true(views_is_voter(views, 7));
    assert_false(views_is_voter(views, 1));
    views_stop(views);
}

/* ---- who asked, and is gone ------------------------------------------------ */

static uint64_t (*machine_clock)(struct clock *clock);
static _Atomic uint64_t ahead_us;  /* of the machine's clock */
static _Atomic uint64_t stands_us; /* ... or of this time; 0: it goes on */

static uint64_t moved_clock(struct clock *clock)
{
    uint64_t stands = atomic_load(&stands_us);

    return (stands != 0 ? stands : machine_clock(clock)) + atomic_load(&ahead_us);
}

static int setup_clock(void **state)
{
    atomic_store(&ahead_us, 0);
    atomic_store(&stands_us, 0);
    machine_clock = clock_monotonic.now_us;
    clock_monotonic.now_us = moved_clock;
    return setup(state);
}

static int teardown_clock(void **state)
{
    int status = teardown(state);

    clock_monotonic.now_us = machine_clock;
    return status;
}

/* Time passes, and the thread hears of it. */
static void move(struct views *views, uint64_t us)
{
    atomic_fetch_add(&ahead_us, us);
    views_adopted(views, 0, 1);
}

/* The only one of its list, whose directory is empty. */
static void create_alone(struct fixture *fixture)
{
    char why[256] = "";

    assert_int_equal(members_parse("127.0.0.1:7000", "0", &fixture->members, why, sizeof(why)),
                     NIGH_OK);
    assert_int_equal(members_agree(&fixture->members, 8, why, sizeof(why)), NIGH_OK);
    assert_int_equal(create(fixture, why, sizeof(why)), NIGH_OK);
}

static bool is_bare(struct views *views)
{
    struct agree_look look;

    views_look(views, &look);
    return look.bare;
}

/* What comes between, the node's memory, may take long: nobody could reach it meanwhile. */
static void who_begins_waits_from_when_it_can_be_reached(void **state)
{
    struct fixture *fixture = *state;
    struct views *views;

    create_alone(fixture);
    views = fixture->heard.views;
    atomic_store(&stands_us, machine_clock(&clock_monotonic));
    atomic_fetch_add(&ahead_us, BEGIN_WAIT_US);
    assert_int_equal(views_start(views), NIGH_OK);
    ask(fixture, 1, 1); /* what is said after that is answered in a turn of its own */
    assert_true(SUPPORT_WAIT(atomic_load(&fixture->heard.hints) == 1, DEADLINE));
    ask(fixture, 1, 1);
    assert_true(SUPPORT_WAIT(atomic_load(&fixture->heard.hints) == 2, DEADLINE));
    assert_true(is_bare(views));
    move(views, BEGIN_WAIT_US);
    assert_true(SUPPORT_WAIT(!is_bare(views), DEADLINE));
    views_stop(views);
}

/* How it ended is not told to somebody who asks the same, later: what was asked first ends last. */
static void who_asks_later_is_not_told_what_was(void **state)
{
    const uint32_t rank = LISTED;
    struct fixture *fixture = *state;
    struct views *views = fixture->heard.views;
    nigh_status status = NIGH_OK;
    struct views_seat seat;

    assert_int_equal(views_start(views), NIGH_OK);
    assert_false(views_forget(views, rank + 1, &status));
    assert_false(views_forget(views, rank, &status));
    assert_false(views_join(views, "b.example:7000", &seat));
    assert_false(views_join(views, "a.example:7000", &seat));
    ask(fixture, 1, 1); /* what is said after that is answered after that is taken */
    assert_true(SUPPORT_WAIT(atomic_load(&fixture->heard.hints) == 1, DEADLINE));
    ask(fixture, 1, 1);
    assert_true(SUPPORT_WAIT(atomic_load(&fixture->heard.hints) == 2, DEADLINE));
    move(views, AGREE_FORGET_US);
    assert_true(SUPPORT_WAIT(views_forget(views, rank + 1, &status), DEADLINE));
    assert_int_equal(status, NIGH_TIMEOUT);
    assert_true(SUPPORT_WAIT(views_join(views, "b.example:7000", &seat), DEADLINE));
    assert_int_equal(seat.status, NIGH_NO_QUORUM);
    move(views, AGREE_FORGET_US);
    assert_false(views_forget(views, rank, &status));
    assert_false(views_join(views, "a.example:7000", &seat));
    views_stop(views);
}

static struct stat watched; /* a directory */
static uint32_t syncs_watched;
static bool syncs_fail; /* of that one */

int fsync(int fd)
{
    struct stat here;

    if (fstat(fd, &here) == 0 && here.st_dev == watched.st_dev && here.st_ino == watched.st_ino) {
        syncs_watched++;
        if (syncs_fail) {
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

/* Its votes would go with it, in a power cut. */
static void a_directory_that_is_made_is_synced_in_its_parent(void **unused)
{
    char folder[128], why[256] = "";
    struct views_file file;

    (void)unused;
    support_path(folder, sizeof(folder), "made");
    assert_int_equal(stat(support_dir(), &watched), 0);
    views_file_init(&file);
    syncs_fail = true;
    assert_int_equal(views_file_open(&file, folder, why, sizeof(why)), NIGH_DISK);
    assert_non_null(strstr(why, "--state"));
    views_file_close(&file);
    assert_int_not_equal(access(folder, F_OK), 0);
    syncs_fail = false;
    syncs_watched = 0;
    assert_int_equal(views_file_open(&file, folder, why, sizeof(why)), NIGH_OK);
    views_file_close(&file);
    assert_int_equal(syncs_watched, 1);
    watched = (struct stat){0};
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_says_much_keeps_nobody_out, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waits_is_not_heard_in_one_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(who_there_is_is_heard_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(who_votes_is_what_a_leader_said, setup, teardown),
        cmocka_unit_test_setup_teardown(who_begins_waits_from_when_it_can_be_reached, setup_clock,
                                        teardown_clock),
        cmocka_unit_test_setup_teardown(who_asks_later_is_not_told_what_was, setup_clock,
                                        teardown_clock),
        cmocka_unit_test_setup_teardown(who_never_took_part_may_be_another, setup, teardown),
        cmocka_unit_test_setup_teardown(a_start_that_fails_leaves_what_was, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_system_without_locks_is_no_other_node, setup,
                                        teardown),
        cmocka_unit_test(a_directory_that_is_made_is_synced_in_its_parent),
        cmocka_unit_test_setup_teardown(who_did_not_vote_at_first_reads_what_it_kept, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
