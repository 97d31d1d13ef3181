/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane's turn, its rings, its wakes and its driver, over a store that only echoes: what is taken,
 * when, and that nothing a client writes into its memory hurts anyone else.
 */
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/futex.h"
#include "node/lane_internal.h"
#include "node_echo_store.h"

/* ---- a lane and its sessions ---------------------------------------------- */

#define SESSIONS 4

static struct session_node_page page;
static struct lane *lane;
static struct store *store;
static struct lane_seat seats[SESSIONS];
static int doorbells[SESSIONS][1];
static int client_sockets[SESSIONS];
static uint32_t expelled[SESSIONS];
static uint64_t now_us = 1000;

static void on_mail(void *context, const struct mailbox_message *message)
{
    (void)context;
    assert_int_equal(message->kind, LANE_EXPEL);
    expelled[message->number]++;
    lane_session_close(lane, message->number);
}

static void on_ready(void *context, uint64_t data, uint32_t events)
{
    (void)context;
    (void)data;
    (void)events;
}

static bool tick_loses_a_peer;

static uint64_t on_tick(void *context, uint64_t now)
{
    (void)context;
    (void)now;
    if (tick_loses_a_peer)
        assert_true(lane_tell_peer(lane, LANE_PEER_LOST, 1, NULL));
    return UINT64_MAX;
}

static const struct lane_front front = {.ready = on_ready, .mail = on_mail, .tick = on_tick};

static struct session_lane *ring(uint32_t slot)
{
    return session_lane_of(seats[slot].memory, 0);
}

static int set_up(void **state)
{
    struct lane_config config = {.lanes = 1,
                                 .max_sessions = SESSIONS,
                                 .page = &page,
                                 .store = {.incarnation = 1},
                                 .front = &front};

    (void)state;
    memset(&page, 0, sizeof(page));
    memset(expelled, 0, sizeof(expelled));
    assert_int_equal(lane_create(&config, &lane), NIGH_OK);
    store = lane_store(lane);
    store->pools = 1;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
        client_sockets[i] = pair[1];
        doorbells[i][0] = eventfd(0, EFD_NONBLOCK);
        memset(&seats[i], 0, sizeof(seats[i]));
        seats[i].slot = i;
        seats[i].session_id = i + 1;
        seats[i].socket_fd = pair[0];
        seats[i].doorbell_fds = doorbells[i];
        seats[i].memory = mmap(NULL, session_memory_bytes(1), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_int_equal(lane_session_open(lane, &seats[i]), NIGH_OK);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lane_stop(lane);
    lane->exchange = NULL; /* a stand-in, if any */
    lane_destroy(lane);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        munmap(seats[i].memory, session_memory_bytes(1));
        close(seats[i].socket_fd);
        close(client_sockets[i]);
        close(doorbells[i][0]);
    }
    return 0;
}

static void submit(uint32_t slot, uint32_t n)
{
    struct session_lane *shared = ring(slot);
    uint32_t tail = atomic_load(&shared->sq_tail.value);

    for (uint32_t i = 0; i < n; i++, tail++) {
        struct session_sqe sqe = {.op = SESSION_OP_NOP, .cookie = tail, .argument = tail * 3u};

        shared->sq[tail % LIMIT_RING_ENTRIES] = sqe;
    }
    atomic_store(&shared->sq_tail.value, tail);
    atomic_store(session_ready(shared, slot), 1);
}

static uint32_t completed(uint32_t slot)
{
    return atomic_load(&ring(slot)->cq_tail.value);
}

static bool turn(void)
{
    return lane_turn(lane, ++now_us);
}

/* ---- tests ---------------------------------------------------------------- */

static void a_submission_comes_back(void **state)
{
    (void)state;
    assert_false(turn() && turn()); /* nothing to do */
    submit(1, 1);
    assert_true(turn());
    assert_int_equal(completed(1), 1);
    assert_int_equal(ring(1)->cq[0].cookie, 0);
    assert_int_equal(atomic_load(session_ready(ring(1), 1)), 0);
    assert_int_equal(atomic_load(&ring(1)->sq_head.value), 1);
    assert_int_equal(completed(0), 0);
}

static void without_the_ready_word_nothing_is_taken(void **state)
{
    (void)state;
    submit(0, 1);
    atomic_store(session_ready(ring(0), 0), 0);
    turn();
    assert_int_equal(completed(0), 0);
}

static void one_session_gets_a_share_of_a_turn(void **state)
{
    (void)state;
    submit(0, LIMIT_TURN_SUBMISSIONS + 10);
    submit(1, 1);
    turn();
    assert_int_equal(completed(0), LIMIT_TURN_SUBMISSIONS);
    assert_int_equal(completed(1), 1);
    turn(); /* the lane remembers by itself */
    assert_int_equal(completed(0), LIMIT_TURN_SUBMISSIONS + 10);
}

static void a_completion_always_has_room(void **state)
{
    (void)state;
    submit(0, LIMIT_RING_ENTRIES);
    while (turn())
        ;
    assert_int_equal(completed(0), LIMIT_RING_ENTRIES);
    submit(0, 5); /* nothing was read: nothing more may be taken */
    while (turn())
        ;
    assert_int_equal(completed(0), LIMIT_RING_ENTRIES);
    assert_int_equal(store->submitted[0], LIMIT_RING_ENTRIES);
    atomic_store(&ring(0)->cq_head.value, 2);
    atomic_store(session_ready(ring(0), 0), 1);
    while (turn())
        ;
    assert_int_equal(completed(0), LIMIT_RING_ENTRIES + 2);
}

static void what_is_under_way_counts_as_taken_room(void **state)
{
    (void)state;
    store->hold = true;
    submit(0, LIMIT_RING_ENTRIES);
    while (turn())
        ;
    assert_int_equal(store->submitted[0], LIMIT_RING_ENTRIES);
    submit(0, 1);
    while (turn())
        ;
    assert_int_equal(store->submitted[0], LIMIT_RING_ENTRIES);
}

static void forged_indices_cost_only_the_forger(void **state)
{
    (void)state;
    submit(1, 1);
    atomic_store(&ring(0)->sq_tail.value, LIMIT_RING_ENTRIES + 1);
    atomic_store(session_ready(ring(0), 0), 1);
    turn();
    assert_int_equal(expelled[0], 1);
    assert_int_equal(completed(1), 1);

    atomic_store(&ring(1)->cq_head.value, 2); /* ahead of the tail */
    submit(1, 1);
    turn();
    assert_int_equal(expelled[1], 1);

    submit(2, 1);
    turn();
    atomic_store(&ring(2)->cq_head.value, (uint32_t)-LIMIT_RING_ENTRIES); /* behind by too much */
    submit(2, 1);
    turn();
    assert_int_equal(expelled[2], 1);
    submit(3, 1);
    turn();
    assert_int_equal(completed(3), 1);
    assert_int_equal(expelled[3], 0);
}

static void a_head_moved_back_is_forged_too(void **state)
{
    (void)state;
    store->hold = true;
    submit(0, 200);
    while (turn())
        ;
    store->hold = false;
    submit(0, 1);
    turn();
    assert_int_equal(completed(0), 1);
    /* Unread completions and submissions under way together cannot exceed the ring. */
    atomic_store(&ring(0)->cq_head.value, (uint32_t)-100);
    submit(0, 1);
    turn();
    assert_int_equal(expelled[0], 1);
}

static void the_lane_does_not_read_its_own_words_back(void **state)
{
    (void)state;
    submit(0, 3);
    turn();
    atomic_store(&ring(0)->cq_tail.value, 77);
    atomic_store(&ring(0)->sq_head.value, 99);
    submit(0, 1);
    turn();
    assert_int_equal(completed(0), 4);
    assert_int_equal(atomic_load(&ring(0)->sq_head.value), 4);
}

static void statistics_are_the_lanes_and_the_stores(void **state)
{
    nigh_node_stats stats = {0};

    (void)state;
    submit(0, 1);
    ring(0)->sq[0].op = SESSION_OP_STATS;
    turn();
    memcpy((uint8_t *)&stats + offsetof(nigh_node_stats, memory_bytes), ring(0)->reply,
           STORE_STATS_BYTES);
    assert_int_equal(ring(0)->cq[0].data_size, STORE_STATS_BYTES);
    assert_int_equal(stats.objects, 12345);
    assert_true(stats.turns > 0);
    assert_int_equal(store->submitted[0], 0);
}

static void a_quota_may_only_be_lowered_below_the_nodes(void **state)
{
    const struct {
        uint64_t most, asked, told;
    } cases[] = {{0, 0, 0}, {0, 900, 900}, {500, 0, 500}, {500, 900, 500}, {500, 400, 400}};

    (void)state;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        seats[0].quota_max_bytes = cases[i].most;
        submit(0, 1);
        ring(0)->sq[i].op = SESSION_OP_QUOTA;
        ring(0)->sq[i].argument = cases[i].asked;
        turn();
        assert_int_equal(store->last.argument, cases[i].told);
    }
}

static void send_events(uint32_t slot, uint32_t n)
{
    struct session_event event = {.kind_meta = NIGH_EVENT_SEALED};

    for (uint32_t i = 0; i < n; i++) {
        event.data_size = i;
        store->config.shell.event(store->config.shell.context, slot, &event);
    }
}

static void lost_events_are_counted_and_said(void **state)
{
    struct session_lane *shared = ring(0);
    const struct session_event *said = &shared->events[0];

    (void)state;
    send_events(0, LIMIT_EVENT_ENTRIES + 7);
    assert_int_equal(atomic_load(&shared->event_tail.value), LIMIT_EVENT_ENTRIES);
    assert_int_equal(atomic_load(&shared->events_lost.value), 7);
    /* One place is not enough for the OVERFLOW and the event behind it. */
    atomic_store(&shared->event_head.value, 1);
    send_events(0, 1);
    assert_int_equal(atomic_load(&shared->event_tail.value), LIMIT_EVENT_ENTRIES);
    atomic_store(&shared->event_head.value, 2);
    send_events(0, 1);
    assert_int_equal(atomic_load(&shared->event_tail.value), LIMIT_EVENT_ENTRIES + 2);
    assert_int_equal(said->kind_meta & 0xff, NIGH_EVENT_OVERFLOW);
    assert_int_equal(said->data_size, 8);
    assert_int_equal(shared->events[1].kind_meta & 0xff, NIGH_EVENT_SEALED);
}

static void an_overflow_is_said_even_if_nothing_more_happens(void **state)
{
    struct session_lane *shared = ring(0);

    (void)state;
    send_events(0, LIMIT_EVENT_ENTRIES + 7);
    atomic_store(&shared->event_head.value, LIMIT_EVENT_ENTRIES);
    now_us += 1000000;
    turn();
    assert_int_equal(atomic_load(&shared->event_tail.value), LIMIT_EVENT_ENTRIES + 1);
    assert_int_equal(shared->events[0].kind_meta & 0xff, NIGH_EVENT_OVERFLOW);
    assert_int_equal(shared->events[0].data_size, 7);
}

static void a_forged_event_head_expels(void **state)
{
    (void)state;
    atomic_store(&ring(0)->event_head.value, 5);
    send_events(0, 1);
    turn();
    assert_int_equal(expelled[0], 1);
}

static void pokes_come_when_asked_for_and_once(void **state)
{
    struct session_front *shared = session_front_of(seats[0].memory);
    struct session_message_header poke;

    (void)state;
    submit(0, 1);
    turn();
    assert_int_equal(recv(client_sockets[0], &poke, sizeof(poke), MSG_DONTWAIT), -1);
    atomic_store(&shared->poke_wanted, 1);
    submit(0, 2);
    turn();
    assert_int_equal(recv(client_sockets[0], &poke, sizeof(poke), MSG_DONTWAIT), sizeof(poke));
    assert_int_equal(poke.kind, SESSION_POKE);
    assert_int_equal(atomic_load(&shared->poke_wanted), 0);
    submit(0, 1);
    turn();
    assert_int_equal(recv(client_sockets[0], &poke, sizeof(poke), MSG_DONTWAIT), -1);
}

static void a_client_that_never_reads_its_socket_holds_nobody_up(void **state)
{
    struct session_front *shared = session_front_of(seats[0].memory);

    (void)state;
    for (uint32_t i = 0; i < 5000; i++) {
        atomic_store(&shared->poke_wanted, 1);
        atomic_store(&ring(0)->cq_head.value, completed(0));
        submit(0, 1);
        turn();
    }
    assert_int_equal(completed(0), 5000);
}

static void a_sleeper_is_woken(void **state)
{
    struct session_front *shared = session_front_of(seats[0].memory);

    (void)state;
    atomic_store(&shared->waiting, 1);
    submit(0, 1);
    turn();
    assert_int_equal(atomic_load(&shared->wake), 1);
    atomic_store(&shared->waiting, 0);
    submit(0, 1);
    turn();
    assert_int_equal(atomic_load(&shared->wake), 1);
}

static void closed_sessions_leave_the_sweep(void **state)
{
    (void)state;
    lane_session_close(lane, 1);
    lane_session_close(lane, 1);
    submit(1, 1);
    submit(3, 1);
    turn();
    assert_int_equal(completed(1), 0);
    assert_int_equal(completed(3), 1);
    assert_int_equal(lane_session_open(lane, &seats[1]), NIGH_OK);
    submit(1, 1);
    turn();
    assert_int_equal(completed(1), 1);
}

static void ring_doorbell(uint32_t slot)
{
    uint64_t one = 1;

    if (atomic_load(&page.lane[0].asleep) != 0)
        assert_int_equal(write(doorbells[slot][0], &one, sizeof(one)), sizeof(one));
}

/* Until the lane's thread has given the lane up. It says that it sleeps before that, and may still
 * find what is submitted then, or count this sleep. */
static void await_sleep(void)
{
    assert_true(SUPPORT_WAIT(
        atomic_load(&lane->owner) == LANE_FREE && atomic_load(&lane->sleep_until_us) != 0, 20000));
}

static void a_sleeping_lane_is_woken_by_a_doorbell(void **state)
{
    (void)state;
    assert_int_equal(lane_start(lane), NIGH_OK);
    for (uint32_t i = 1; i <= 50; i++) {
        if (i % 2 == 0) /* else it may still be on its last look */
            await_sleep();
        assert_true(SUPPORT_WAIT(atomic_load(&page.lane[0].asleep) == 1, 20000));
        submit(0, 1);
        atomic_thread_fence(memory_order_seq_cst);
        ring_doorbell(0);
        assert_true(SUPPORT_WAIT(completed(0) == i, 20000));
        atomic_store(&ring(0)->cq_head.value, i);
    }
    assert_true(atomic_load(&lane_counters(lane)->sleeps) > 0);
}

static void a_full_doorbell_rings_no_one_and_blocks_no_one(void **state)
{
    uint64_t most = UINT64_MAX - 1;

    (void)state;
    assert_int_equal(lane_start(lane), NIGH_OK);
    assert_int_equal(write(doorbells[1][0], &most, sizeof(most)), sizeof(most));
    assert_true(SUPPORT_WAIT(atomic_load(&page.lane[0].asleep) == 1, 20000));
    submit(0, 1);
    atomic_thread_fence(memory_order_seq_cst);
    ring_doorbell(0);
    assert_true(SUPPORT_WAIT(completed(0) == 1, 20000));
}

static void a_thread_that_waits_drives_the_lane(void **state)
{
    uint64_t sleeps;

    (void)state;
    assert_int_equal(lane_start(lane), NIGH_OK);
    await_sleep();
    sleeps = atomic_load(&lane_counters(lane)->sleeps);
    for (uint32_t i = 1; i <= 100; i++) {
        submit(0, 1);
        assert_true(SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic), false), 20000));
        assert_int_equal(completed(0), i);
        atomic_store(&ring(0)->cq_head.value, i);
    }
    /* Nobody woke the lane's own thread for it. */
    assert_int_equal(atomic_load(&lane_counters(lane)->sleeps), sleeps);
}

/* Who waited for a lock since it looked at the clock comes with a time that is past. */
static void a_drivers_clock_does_not_turn_the_lanes_back(void **state)
{
    (void)state;
    submit(0, 1);
    assert_true(lane_drive(lane, 5000, false));
    assert_int_equal(store->now_us, 5000);
    submit(0, 1);
    assert_true(lane_drive(lane, 4000, false));
    assert_int_equal(completed(0), 2);
    assert_int_equal(store->now_us, 5000);
}

static void a_driver_leaves_what_it_does_not_finish_to_the_thread(void **state)
{
    (void)state;
    assert_int_equal(lane_start(lane), NIGH_OK);
    await_sleep();
    submit(0, LIMIT_TURN_SUBMISSIONS * 3);
    assert_true(SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic), false), 20000));
    assert_true(SUPPORT_WAIT(completed(0) == LIMIT_TURN_SUBMISSIONS * 3, 20000));
}

static void a_driver_hands_nearer_deadlines_to_the_thread(void **state)
{
    uint64_t ticks;

    (void)state;
    assert_int_equal(lane_start(lane), NIGH_OK);
    await_sleep();
    store->due_us = clock_now_us(&clock_monotonic) + 20000;
    submit(0, 1);
    assert_true(SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic), false), 20000));
    ticks = atomic_load(&store->ticks);
    assert_true(SUPPORT_WAIT(atomic_load(&store->ticks) > ticks + 1, 20000));
}

/* Lets a guest, whose clock is `late_us` old, drive once while the thread means to look after it
 * LANE_DOZE_US from now. */
static void drive_as_guest(uint64_t late_us)
{
    uint64_t at_us = clock_now_us(&clock_monotonic);

    await_sleep();
    atomic_store(&lane->guest_us, at_us);
    atomic_store(&lane->sleep_until_us, at_us + LANE_DOZE_US);
    assert_true(SUPPORT_WAIT(lane_drive(lane, at_us - late_us, false), 20000));
}

static void a_guest_with_an_old_clock_wakes_nobody(void **state)
{
    uint64_t sleeps;

    (void)state;
    assert_int_equal(lane_start(lane), NIGH_OK);
    await_sleep();
    sleeps = atomic_load(&lane_counters(lane)->sleeps);
    drive_as_guest(LANE_GUEST_LATE_US / 2);
    assert_true(atomic_load(&lane->sleep_until_us) != 0); /* 0: it was kicked */
    assert_int_equal(atomic_load(&lane_counters(lane)->sleeps), sleeps);
    /* One that the thread would not look after for long has it look. */
    drive_as_guest(2 * LANE_GUEST_LATE_US);
    assert_true(SUPPORT_WAIT(atomic_load(&lane_counters(lane)->sleeps) > sleeps, 20000));
}

#define HOUR_US UINT64_C(3600000000)

static pthread_t test_thread;
static _Atomic uint32_t yields, lane_yields; /* of the test's thread; of the lane's */

/* Instead of the system's, of which it is. */
int sched_yield(void)
{
    atomic_fetch_add(pthread_equal(pthread_self(), test_thread) ? &yields : &lane_yields, 1);
    return (int)syscall(SYS_sched_yield);
}

/* The thread spins as long as this test takes, and longer. */
static void start_spinning(void)
{
    lane->config.spin_us = HOUR_US;
    assert_int_equal(lane_start(lane), NIGH_OK);
    submit(0, 1);
    atomic_thread_fence(memory_order_seq_cst);
    ring_doorbell(0);
    assert_true(SUPPORT_WAIT(completed(0) == 1, 20000));
    atomic_store(&ring(0)->cq_head.value, 1);
}

/* Whoever waits for an answer looks for it as the thread does, and where both have one processor
 * neither would get far. */
static void a_thread_that_spins_leaves_its_lane_to_a_guest(void **state)
{
    (void)state;
    start_spinning();
    atomic_store(&yields, 0);
    /* Not to one that only looks in. */
    assert_false(lane_drive(lane, clock_now_us(&clock_monotonic), false));
    assert_int_equal(atomic_load(&lane->guest_us), 0);
    assert_int_equal(atomic_load(&yields), 0);
    /* The thread may wait for this processor. */
    assert_false(lane_drive(lane, clock_now_us(&clock_monotonic), true));
    assert_int_equal(atomic_load(&yields), 1);
    assert_true(SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic), true), 20000));
}

/* Who is to give it work may want its processor. */
static void a_thread_that_spins_lets_others_have_its_processor(void **state)
{
    (void)state;
    start_spinning();
    atomic_store(&lane_yields, 0);
    assert_true(SUPPORT_WAIT(atomic_load(&lane_yields) > 2, 20000));
}

static void so_does_one_of_a_lane_without_the_front_door(void **state)
{
    lane->config.front = NULL;
    a_thread_that_spins_lets_others_have_its_processor(state);
}

/* A guest that asked for the lane may have its answer before it gets it, and not come: what clients
 * ask then is the thread's as before. */
static void a_guest_that_asked_and_went_is_not_waited_for(void **state)
{
    (void)state;
    start_spinning();
    for (uint32_t i = 2; i <= 50; i++) {
        (void)lane_drive(lane, clock_now_us(&clock_monotonic), true);
        submit(0, 1);
        atomic_thread_fence(memory_order_seq_cst);
        ring_doorbell(0);
        assert_true(SUPPORT_WAIT(completed(0) == i, 20000));
        atomic_store(&ring(0)->cq_head.value, i);
    }
}

/* ---- other nodes ---------------------------------------------------------- */

/* A fabric of which only the descriptor matters. A poll may take what makes that readable, and does
 * here in no turn but when a test says so: by `armed`. */
static struct {
    struct fabric fabric;
    int fd;
    _Atomic bool armed;
    _Atomic bool has_more; /* what is armed has something to poll already */
} wire;

static int wire_fd(const struct fabric *fabric)
{
    (void)fabric;
    return wire.fd;
}

static bool wire_arm(struct fabric *fabric)
{
    (void)fabric;
    atomic_store(&wire.armed, true);
    return !atomic_load(&wire.has_more);
}

static void wire_destroy(struct fabric *fabric)
{
    (void)fabric;
    close(wire.fd);
}

static void give_fabric(void)
{
    static const struct fabric_provider provider = {
        .fd = wire_fd, .arm = wire_arm, .destroy = wire_destroy};

    wire.fabric.provider = &provider;
    wire.fd = eventfd(0, EFD_NONBLOCK);
    atomic_store(&wire.armed, false);
    atomic_store(&wire.has_more, false);
    lane->config.fabric = &wire.fabric;
    lane->fabric_watched = true;
    assert_int_equal(lane_watch(lane, wire.fd, EPOLLIN, 0), NIGH_OK);
}

/* The lane's thread runs, and sleeps on a fabric. */
static void start_with_fabric(void)
{
    give_fabric();
    assert_int_equal(lane_start(lane), NIGH_OK);
    await_sleep();
    assert_true(atomic_load(&wire.armed));
}

static void take_what_woke(void)
{
    wire.fabric.is_armed = false;
    atomic_store(&wire.armed, false);
}

/* The thread sleeps, armed. Another's turn takes what would have woken it, and goes: the next
 * message of another node woke nobody. */
static void a_driver_that_goes_arms_the_fabric_again(void **state)
{
    uint64_t sleeps;

    (void)state;
    start_with_fabric();
    sleeps = atomic_load(&lane_counters(lane)->sleeps);
    take_what_woke();
    assert_true(SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic), false), 20000));
    assert_true(atomic_load(&wire.armed));
    assert_int_equal(atomic_load(&lane_counters(lane)->sleeps), sleeps); /* that is enough */
}

static void what_a_driver_finds_when_it_goes_is_the_threads(void **state)
{
    uint64_t turns;

    (void)state;
    start_with_fabric();
    take_what_woke();
    atomic_store(&wire.has_more, true);
    assert_true(SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic), false), 20000));
    turns = atomic_load(&lane_counters(lane)->turns);
    assert_true(SUPPORT_WAIT(atomic_load(&lane_counters(lane)->turns) > turns + 1, 20000));
    atomic_store(&wire.has_more, false);
}

/* A guest that stays takes what is submitted itself. The thread that looks after it, and sleeps
 * again, says so: who submits would ring for it else, and the two would have one processor. */
static void a_thread_that_sleeps_beside_a_guest_is_not_rung_for(void **state)
{
    uint64_t sleeps;

    (void)state;
    start_with_fabric();
    /* Its time is far ahead: the thread takes the guest for there, however slow this machine is. */
    assert_true(
        SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic) + HOUR_US, true), 20000));
    sleeps = atomic_load(&lane_counters(lane)->sleeps);
    lane_kick(lane);
    assert_true(SUPPORT_WAIT(atomic_load(&lane_counters(lane)->sleeps) > sleeps, 20000));
    await_sleep();
    assert_int_equal(atomic_load(&page.lane[0].asleep), SESSION_ASLEEP_HAS_GUEST);
    /* One that goes leaves it to the doorbell again. */
    assert_true(SUPPORT_WAIT(lane_drive(lane, clock_now_us(&clock_monotonic), false), 20000));
    assert_int_equal(atomic_load(&page.lane[0].asleep), SESSION_ASLEEP);
}

/* A guest sleeps on the descriptor, armed; the thread's turn takes what would have woken it. */
static void a_guest_that_rests_finds_the_fabric_armed(void **state)
{
    (void)state;
    start_with_fabric();
    /* Its time is far ahead: the thread takes the guest for fresh, however slow this machine is. */
    assert_true(
        SUPPORT_WAIT(lane_rest(lane, clock_now_us(&clock_monotonic) + HOUR_US) == wire.fd, 20000));
    atomic_store(&wire.armed, false);
    lane_kick(lane);
    assert_true(SUPPORT_WAIT(atomic_load(&wire.armed), 20000));
    (void)lane_rise(lane);
}

/* What is submitted when the one that drove has gone, and the other sleeps, waited for the thread's
 * next look. The thread is as if it slept all the time: it does not run. */
static void who_goes_beside_one_that_rests_leaves_it_to_the_doorbell(void **state)
{
    uint64_t begin_us = clock_now_us(&clock_monotonic);

    (void)state;
    give_fabric();
    assert_true(lane_drive(lane, begin_us, true));
    assert_int_equal(lane_rest(lane, begin_us), wire.fd);
    assert_int_equal(atomic_load(&page.lane[0].asleep), SESSION_ASLEEP);
    assert_true(lane_drive(lane, begin_us, true));
    assert_int_equal(atomic_load(&page.lane[0].asleep), SESSION_ASLEEP_HAS_GUEST);
    assert_true(lane_drive(lane, begin_us, false));
    assert_int_equal(atomic_load(&page.lane[0].asleep), SESSION_ASLEEP);
    (void)lane_rise(lane);
}

/* ---- quiet ---------------------------------------------------------------- */

/* Whether the exchange had a whole turn in the lane's next one, and not only a look. */
static bool turns_whole(void)
{
    uint32_t turns = echo_turns.turns, looks = echo_turns.looks;

    (void)lane_turn(lane, ++now_us);
    assert_int_equal(echo_turns.turns - turns + echo_turns.looks - looks, 1);
    return echo_turns.turns != turns;
}

/* A lane that found nothing only looks at what other nodes send, until somebody calls in. */
static void a_quiet_lane_only_looks(void **state)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1};
    int rung = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

    (void)state;
    echo_turns = (struct echo_turns){0};
    lane->exchange = (struct exchange *)(void *)&page; /* never looked into */
    store->due_us = UINT64_MAX;
    assert_true(turns_whole()); /* in which the store is asked when it is due */
    assert_true(turns_whole());
    assert_false(turns_whole());
    echo_turns.comes = true; /* what follows from it is done at once, what it led to in the next */
    assert_false(turns_whole());
    assert_true(turns_whole());
    echo_turns.comes = false;

    assert_false(turns_whole());
    assert_true(lane_tell_peer(lane, LANE_PEER_LOST, 1, NULL));
    assert_true(turns_whole());

    assert_false(turns_whole());
    assert_int_equal(epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, rung, &event), 0);
    lane_poll(lane); /* the front door is told, and may have called anything */
    assert_true(turns_whole());
    assert_true(turns_whole()); /* so may its tick */

    assert_false(turns_whole());
    tick_loses_a_peer = true; /* in the turn, but after the exchange's part of it */
    lane->front_due_us = now_us;
    lane->quiet_until_us = 0;
    assert_true(turns_whole());
    tick_loses_a_peer = false;
    assert_true(turns_whole());

    echo_turns.due_us = now_us + 4;
    assert_true(lane_tell_peer(lane, LANE_PEER_LOST, 1, NULL));
    assert_true(turns_whole());
    assert_false(turns_whole());
    assert_false(turns_whole());
    assert_true(turns_whole()); /* it is due */
    echo_turns.due_us = 0;
    assert_true(turns_whole());

    submit(0, 7);
    assert_true(turns_whole());
    close(rung);
}

#define DRIVERS 3
#define DRIVES  20000

static void *drive_often(void *argument)
{
    uint64_t *ran = argument;

    for (uint32_t i = 0; i < DRIVES; i++)
        *ran += lane_drive(lane, clock_now_us(&clock_monotonic), false);
    return NULL;
}

static void one_thread_drives_at_a_time(void **state)
{
    pthread_t threads[DRIVERS];
    uint64_t ran[DRIVERS] = {0};

    (void)state;
    assert_int_equal(lane_start(lane), NIGH_OK);
    for (uint32_t i = 0; i < DRIVERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, drive_often, &ran[i]), 0);
    for (uint32_t i = 1; i <= 2000; i++) {
        submit(0, 1);
        atomic_thread_fence(memory_order_seq_cst);
        ring_doorbell(0);
        assert_true(SUPPORT_WAIT(completed(0) == i, 20000));
        atomic_store(&ring(0)->cq_head.value, i);
    }
    for (uint32_t i = 0; i < DRIVERS; i++)
        pthread_join(threads[i], NULL);
    lane_stop(lane);
    assert_int_equal(store->submitted[0], 2000);
}

#define LANE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANE_TEST(a_submission_comes_back),
        LANE_TEST(without_the_ready_word_nothing_is_taken),
        LANE_TEST(one_session_gets_a_share_of_a_turn),
        LANE_TEST(a_completion_always_has_room),
        LANE_TEST(what_is_under_way_counts_as_taken_room),
        LANE_TEST(forged_indices_cost_only_the_forger),
        LANE_TEST(a_head_moved_back_is_forged_too),
        LANE_TEST(the_lane_does_not_read_its_own_words_back),
        LANE_TEST(statistics_are_the_lanes_and_the_stores),
        LANE_TEST(a_quota_may_only_be_lowered_below_the_nodes),
        LANE_TEST(lost_events_are_counted_and_said),
        LANE_TEST(an_overflow_is_said_even_if_nothing_more_happens),
        LANE_TEST(a_forged_event_head_expels),
        LANE_TEST(pokes_come_when_asked_for_and_once),
        LANE_TEST(a_client_that_never_reads_its_socket_holds_nobody_up),
        LANE_TEST(a_sleeper_is_woken),
        LANE_TEST(closed_sessions_leave_the_sweep),
        LANE_TEST(a_sleeping_lane_is_woken_by_a_doorbell),
        LANE_TEST(a_full_doorbell_rings_no_one_and_blocks_no_one),
        LANE_TEST(a_thread_that_waits_drives_the_lane),
        LANE_TEST(a_drivers_clock_does_not_turn_the_lanes_back),
        LANE_TEST(a_driver_leaves_what_it_does_not_finish_to_the_thread),
        LANE_TEST(a_driver_hands_nearer_deadlines_to_the_thread),
        LANE_TEST(a_guest_with_an_old_clock_wakes_nobody),
        LANE_TEST(a_thread_that_spins_leaves_its_lane_to_a_guest),
        LANE_TEST(a_thread_that_spins_lets_others_have_its_processor),
        LANE_TEST(so_does_one_of_a_lane_without_the_front_door),
        LANE_TEST(a_guest_that_asked_and_went_is_not_waited_for),
        LANE_TEST(a_driver_that_goes_arms_the_fabric_again),
        LANE_TEST(what_a_driver_finds_when_it_goes_is_the_threads),
        LANE_TEST(a_thread_that_sleeps_beside_a_guest_is_not_rung_for),
        LANE_TEST(a_guest_that_rests_finds_the_fabric_armed),
        LANE_TEST(who_goes_beside_one_that_rests_leaves_it_to_the_doorbell),
        LANE_TEST(a_quiet_lane_only_looks),
        LANE_TEST(one_thread_drives_at_a_time),
    };

    test_thread = pthread_self();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
