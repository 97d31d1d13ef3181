/* SPDX-License-Identifier: Apache-2.0 */
/* When a lane that spins offers its processor: often to clients, and seldom to who only uses it. */
#include "node/lane_offer.h"

#include "support/support.h"

static uint64_t now_us;

/* Until the next one; somebody has it for so long. How long the lane had had it. */
static uint64_t offer(struct lane_offer *offered, uint64_t taken, uint64_t used_us)
{
    uint64_t begun_us = now_us;

    while (!lane_offer_is_due(offered, now_us, taken)) {
        now_us++;
    }
    lane_offer_made(offered, now_us, now_us + used_us);
    now_us += used_us;
    return now_us - used_us - begun_us;
}

static void it_is_offered_often_where_nobody_wants_it(void **state)
{
    struct lane_offer offered = {0};

    (void)state;
    (void)offer(&offered, 0, 1);
    for (uint32_t n = 0; n < 100; n++) {
        assert_int_equal(offer(&offered, 0, 1), LANE_OFFER_US);
    }
}

static void who_computes_has_it_ever_less_often(void **state)
{
    struct lane_offer offered = {0};
    uint64_t had_us = 0, lost_us = 0;

    (void)state;
    for (uint32_t n = 0; n < 2; n++) { /* the first of a client may take long */
        had_us += offer(&offered, 7, 4000);
    }
    assert_true(had_us < 5000);
    for (uint32_t n = 0; n < 100; n++) {
        had_us += offer(&offered, 7, 4000);
        lost_us += 4000;
    }
    assert_true(lost_us < had_us / 20); /* as many of a hundred turns find it gone */
    (void)offer(&offered, 7, 1);        /* it wanted nothing, once: no client has come */
    assert_int_equal(offer(&offered, 7, 4000), LANE_OFFER_MOST_US);
}

static void a_client_has_it_at_once(void **state)
{
    struct lane_offer offered = {0};

    (void)state;
    for (uint32_t n = 0; n < 100; n++) {
        (void)offer(&offered, 7, 4000);
    }
    for (uint64_t n = 8; n < 100; n++) { /* each gives work, though it takes long */
        assert_int_equal(offer(&offered, n, 4000), LANE_OFFER_US);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_offered_often_where_nobody_wants_it),
        cmocka_unit_test(who_computes_has_it_ever_less_often),
        cmocka_unit_test(a_client_has_it_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
