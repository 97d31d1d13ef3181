/* SPDX-License-Identifier: Apache-2.0 */
/* When a peer counts as up, lost and dead: every state and event, and random runs. */
#include <stdio.h>
#include <string.h>

#include "cluster/peer.h"
#include "support/support.h"

#define DEAD_US   1000000u
#define SILENT_US 300000u

/* ---- every state and event ------------------------------------------------ */

/* States in which a peer may be: those of the header, some in two ways. */
enum start {
    AWAY,
    UP,        /* incarnation 5 */
    LOST,      /* of 5 */
    DEAD_LEFT, /* of 5, by a goodbye */
    DEAD_LATE, /* never came */
    STARTS
};

enum event {
    CONNECTED_SAME,
    CONNECTED_HIGHER,
    CONNECTED_LOWER,
    DIAL_FAILED,
    ENDED,
    GOODBYE,
    QUIET, /* the time until it counts as silent passes */
    LATE,  /* the time until it counts as dead passes */
    EVENTS
};

static void to_start(struct peer *peer, enum start start, bool dials)
{
    struct peer_actions actions;

    peer_init(peer, dials, DEAD_US, SILENT_US, 0);
    if (start == DEAD_LATE) {
        peer_tick(peer, DEAD_US, &actions);
        assert_true(actions.dead);
        if (peer->dialling) {
            peer_dial_failed(peer, 0, DEAD_US);
        }
    } else if (start != AWAY) {
        assert_int_equal(peer_connected(peer, 5, 5, 0, &actions), NIGH_OK);
    }
    if (start == LOST || start == DEAD_LEFT) {
        peer_disconnected(peer, start == DEAD_LEFT, 0, 0, &actions);
    }
}

/* What is told, and the state after it, as "dlu s": dead, lost, up; the state's first letter. "!":
 * refused. */
static const char *const expected[STARTS][EVENTS] = {
    [AWAY] = {"--u u", "--u u", "--u u", "--- a", "--- a", "--- a", "--- a", "d-- d"},
    [UP] = {"-lu u", "d-u u", "! u", "--- u", "-l- l", "d-- d", "-l- l", "-l- l"},
    [LOST] = {"--u u", "d-u u", "! l", "--- l", "--- l", "--- l", "--- l", "d-- d"},
    [DEAD_LEFT] = {"--u u", "--u u", "--u u", "--- d", "--- d", "--- d", "--- d", "--- d"},
    [DEAD_LATE] = {"--u u", "--u u", "--u u", "--- d", "--- d", "--- d", "--- d", "--- d"},
};

static void one_event(enum start start, enum event event, bool dials)
{
    struct peer peer;
    struct peer_actions actions = {0};
    nigh_status status = NIGH_OK;
    char said[16];

    to_start(&peer, start, dials);
    switch (event) {
    case CONNECTED_SAME: status = peer_connected(&peer, 5, 5, 1, &actions); break;
    case CONNECTED_HIGHER: status = peer_connected(&peer, 6, 6, 1, &actions); break;
    case CONNECTED_LOWER: status = peer_connected(&peer, 4, 4, 1, &actions); break;
    case DIAL_FAILED: peer_dial_failed(&peer, 7, 1); break;
    case ENDED: peer_disconnected(&peer, false, 7, 1, &actions); break;
    case GOODBYE: peer_disconnected(&peer, true, 7, 1, &actions); break;
    case QUIET: peer_tick(&peer, SILENT_US, &actions); break;
    case LATE: peer_tick(&peer, DEAD_US + 1, &actions); break;
    case EVENTS: break;
    }
    if (status == NIGH_DENIED) {
        snprintf(said, sizeof(said), "! %c", "auld"[peer.state]);
    } else {
        snprintf(said, sizeof(said), "%c%c%c %c", actions.dead ? 'd' : '-',
                 actions.lost ? 'l' : '-', actions.up ? 'u' : '-', "auld"[peer.state]);
    }
    if (strcmp(said, expected[start][event]) != 0) {
        fail_msg("start %d, event %d, dials %d: %s, not %s", start, event, dials, said,
                 expected[start][event]);
    }
    assert_true(peer_is_valid(&peer));
}

static void every_event_in_every_state(void **state)
{
    (void)state;
    for (int start = 0; start < STARTS; start++) {
        for (int event = 0; event < EVENTS; event++) {
            one_event((enum start)start, (enum event)event, false);
            one_event((enum start)start, (enum event)event, true);
        }
    }
}

/* ---- sentences ------------------------------------------------------------ */

static void a_dialler_dials_at_once_and_the_other_never(void **state)
{
    (void)state;
    struct peer peer;
    struct peer_actions actions;

    peer_init(&peer, true, DEAD_US, SILENT_US, 100);
    assert_true(peer_tick(&peer, 100, &actions) == 100 + DEAD_US);
    assert_true(actions.dial);
    peer_tick(&peer, 100, &actions);
    assert_false(actions.dial); /* one is under way */
    peer_init(&peer, false, DEAD_US, SILENT_US, 100);
    peer_tick(&peer, 100, &actions);
    assert_false(actions.dial);
    assert_true(peer_tick(&peer, 100 + DEAD_US, &actions) == UINT64_MAX);
    assert_true(actions.dead && !actions.dial);
}

/* Each wait is between half of its step and the step; the steps double up to a second. */
static void back_off_has_bounds(void **state)
{
    (void)state;
    static const uint32_t jitters[] = {0, 1, UINT32_MAX / 2, UINT32_MAX};
    struct peer_actions actions;

    for (size_t j = 0; j < sizeof(jitters) / sizeof(jitters[0]); j++) {
        struct peer peer;
        uint64_t now_us = 0, step_us = 20000;

        peer_init(&peer, true, UINT64_MAX, SILENT_US, 0);
        for (uint32_t n = 0; n < 100; n++) {
            uint64_t due_us;

            due_us = peer_tick(&peer, now_us, &actions);
            assert_true(actions.dial);
            peer_dial_failed(&peer, jitters[j], now_us);
            due_us = peer_tick(&peer, now_us, &actions);
            assert_false(actions.dial);
            assert_in_range(due_us - now_us, step_us / 2, step_us);
            peer_tick(&peer, due_us - 1, &actions);
            assert_false(actions.dial);
            now_us = due_us;
            step_us = step_us * 2 > 1000000 ? 1000000 : step_us * 2;
        }
    }
}

static void up_ends_the_back_off(void **state)
{
    (void)state;
    struct peer peer;
    struct peer_actions actions;

    peer_init(&peer, true, DEAD_US, SILENT_US, 0);
    for (uint32_t n = 0; n < 10; n++) {
        peer_dial_failed(&peer, UINT32_MAX, 0);
    }
    peer_connected(&peer, 1, 1, 0, &actions);
    peer_disconnected(&peer, false, UINT32_MAX, 0, &actions);
    assert_true(peer_tick(&peer, 0, &actions) == 20000);
}

/* A ghost that is reached again and again must not be dialled without a pause. */
static void a_ghost_is_not_dialled_at_once(void **state)
{
    (void)state;
    struct peer peer;
    struct peer_actions actions;

    to_start(&peer, LOST, true);
    peer_tick(&peer, 20000, &actions);
    assert_true(actions.dial);
    assert_int_equal(peer_connected(&peer, 4, 4, 20000, &actions), NIGH_DENIED);
    assert_false(actions.dead || actions.lost || actions.up || actions.dial);
    peer_tick(&peer, 20000, &actions);
    assert_false(actions.dial);
    assert_int_equal(peer.state, PEER_LOST);
}

/* It would give other objects the births that the first gave: not even when that one is dead. */
static void another_process_of_an_incarnation_is_refused(void **state)
{
    (void)state;
    static const enum start starts[] = {UP, LOST, DEAD_LEFT};
    struct peer_actions actions;

    for (size_t n = 0; n < sizeof(starts) / sizeof(starts[0]); n++) {
        struct peer peer, before;

        to_start(&peer, starts[n], false);
        before = peer;
        assert_int_equal(peer_connected(&peer, 5, 6, 1, &actions), NIGH_DENIED);
        assert_memory_equal(&peer, &before, sizeof(peer));
        assert_int_equal(peer_connected(&peer, 5, 5, 1, &actions), NIGH_OK);
    }
}

static void what_is_heard_keeps_it_up(void **state)
{
    (void)state;
    struct peer peer;
    struct peer_actions actions;

    to_start(&peer, UP, true);
    for (uint64_t now_us = 0; now_us < 10 * SILENT_US; now_us += SILENT_US - 1) {
        assert_true(peer_tick(&peer, now_us, &actions) > now_us);
        assert_false(actions.lost);
        peer_heard(&peer, now_us);
    }
}

/* Silence: the connection is closed, and a new one is dialled at once. */
static void silence_is_loss(void **state)
{
    (void)state;
    struct peer peer;
    struct peer_actions actions;

    to_start(&peer, UP, true);
    assert_true(peer_tick(&peer, SILENT_US - 1, &actions) == SILENT_US);
    assert_false(actions.lost);
    peer_tick(&peer, SILENT_US, &actions);
    assert_true(actions.lost && actions.dial && !actions.dead && !actions.up);
    /* Late tick, and nobody looked for so long that it is dead: dead, which says lost, too. */
    peer_init(&peer, true, 0, SILENT_US, 0);
    peer_connected(&peer, 1, 1, 0, &actions);
    peer_tick(&peer, SILENT_US, &actions);
    assert_true(actions.dead && !actions.lost);
}

/* ---- random runs ---------------------------------------------------------- */

/* What the lanes were told so far. */
struct told {
    bool up, lost;
    uint64_t lost_us;
    uint32_t incarnation;
};

static void tell(struct told *told, const struct peer_actions *actions, uint32_t incarnation,
                 uint64_t now_us)
{
    assert_false(actions->dead && actions->lost);
    if (actions->dead) {
        told->up = told->lost = false;
        told->incarnation = 0; /* whoever comes then is let in */
    }
    if (actions->lost) {
        assert_true(told->up && !told->lost);
        told->lost = true;
        told->lost_us = now_us;
    }
    if (actions->up) {
        assert_true(!told->up || told->lost);
        assert_true(incarnation >= told->incarnation);
        assert_true(!told->up || incarnation == told->incarnation); /* else dead comes first */
        told->up = true;
        told->lost = false;
        told->incarnation = incarnation;
    }
}

static void lanes_are_told_in_order(void **state)
{
    (void)state;
    uint64_t random = support_seed() | 1;

    for (uint32_t run = 0; run < 300; run++) {
        bool dials = support_random(&random) % 2 == 0, dialling = false;
        struct told told = {0};
        struct peer_actions actions;
        struct peer peer;
        uint64_t now_us = 0, heard_us = 0;
        uint32_t life = 1;

        peer_init(&peer, dials, DEAD_US, SILENT_US, now_us);
        for (uint32_t step = 0; step < 1000; step++) {
            uint32_t incarnation = life;
            bool was_up = told.up, was_lost = told.lost;
            uint64_t due_us;

            memset(&actions, 0, sizeof(actions));
            switch (support_random(&random) % 8) {
            case 0:
                if (dials && !dialling) {
                    break;
                }
                life += support_random(&random) % 8 == 0;
                incarnation = life - (life > 1 && support_random(&random) % 4 == 0);
                if (peer_connected(&peer, incarnation, incarnation, now_us, &actions) == NIGH_OK) {
                    heard_us = now_us;
                    tell(&told, &actions, incarnation, now_us);
                } else {
                    assert_true(incarnation < told.incarnation);
                    assert_true(told.up == was_up && told.lost == was_lost);
                }
                dialling = false;
                break;
            case 1:
                if (dialling) {
                    peer_dial_failed(&peer, (uint32_t)support_random(&random), now_us);
                    dialling = false;
                }
                break;
            case 2:
                peer_disconnected(&peer, support_random(&random) % 3 == 0,
                                  (uint32_t)support_random(&random), now_us, &actions);
                assert_true(actions.dead || actions.lost || !(was_up && !was_lost));
                tell(&told, &actions, 0, now_us);
                break;
            case 3:
                peer_heard(&peer, now_us);
                heard_us = now_us;
                break;
            default:
                now_us += support_random(&random) % (SILENT_US / 2);
                due_us = peer_tick(&peer, now_us, &actions);
                assert_true(due_us > now_us);
                assert_true(!actions.dial ||
                            (dials && !dialling && !(was_up && !was_lost && !actions.lost)));
                dialling = dialling || actions.dial;
                /* Lost only by silence, dead only after it was lost for long enough. */
                assert_true(!actions.lost || now_us - heard_us >= SILENT_US);
                assert_true(!actions.dead || !was_up || now_us - told.lost_us >= DEAD_US);
                tell(&told, &actions, 0, now_us);
                assert_true(!told.lost || now_us - told.lost_us < DEAD_US);
                assert_true(!(told.up && !told.lost) || now_us - heard_us < SILENT_US);
                break;
            }
            assert_true(peer_is_valid(&peer));
            assert_true((peer.state == PEER_UP) == (told.up && !told.lost));
            assert_true((peer.state == PEER_LOST) == told.lost);
        }
    }
}

static void the_members_verdict_ends_a_life(void **state)
{
    struct peer peer;
    struct peer_actions actions;

    (void)state;
    to_start(&peer, UP, true);
    peer_condemned(&peer, 4, 7, 1, &actions); /* of a life before */
    assert_true(!actions.dead && peer.state == PEER_UP);
    peer_condemned(&peer, 5, 7, 1, &actions);
    assert_true(actions.dead && !actions.lost && peer.state == PEER_DEAD && !peer.connected);
    assert_true(peer_is_valid(&peer));
    peer_condemned(&peer, 5, 7, 1, &actions); /* once */
    assert_false(actions.dead);
    assert_int_equal(peer_connected(&peer, 5, 5, 2, &actions), NIGH_OK); /* it lives after all */
    assert_true(actions.up && !actions.dead);
    to_start(&peer, LOST, true);
    peer_condemned(&peer, 5, 7, 1, &actions);
    assert_true(actions.dead && peer.state == PEER_DEAD);
    to_start(&peer, AWAY, true);
    peer_condemned(&peer, 5, 7, 1, &actions); /* nothing of it is known here that could end */
    assert_true(!actions.dead && peer.state == PEER_AWAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(a_dialler_dials_at_once_and_the_other_never),
        cmocka_unit_test(back_off_has_bounds),
        cmocka_unit_test(up_ends_the_back_off),
        cmocka_unit_test(a_ghost_is_not_dialled_at_once),
        cmocka_unit_test(another_process_of_an_incarnation_is_refused),
        cmocka_unit_test(what_is_heard_keeps_it_up),
        cmocka_unit_test(silence_is_loss),
        cmocka_unit_test(lanes_are_told_in_order),
        cmocka_unit_test(the_members_verdict_ends_a_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
