/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and receives that wait for each other (rpc/pulls.h). */
#include "support/support.h"

#include <string.h>

#include "rpc/pulls.h"

#define ENDS 256

static struct pulls *pulls;
static struct {
    uint32_t cookie;
    nigh_status status;
    uint64_t id;
    uint8_t byte;
} ends[ENDS];
static uint32_t end_count;
static uint64_t refused_id;
static nigh_status refused_status;
static uint32_t refused_count;
static uint64_t gone_id;  /* nobody waits for it */
static uint32_t no_place; /* receives that find no place for a request */

static bool on_wanted(void *context, uint64_t id)
{
    (void)context;
    return id != gone_id;
}

static void on_refuse(void *context, uint64_t id, nigh_status status)
{
    (void)context;
    refused_id = id;
    refused_status = status;
    refused_count++;
}

static bool on_deliver(void *context, const struct pulls_receive *receive, nigh_status status,
                       const struct calls_request *request)
{
    bool has_place = request != NULL && no_place == 0;

    (void)context;
    assert_int_equal(request != NULL, status == NIGH_OK);
    ends[end_count].cookie = receive->cookie;
    ends[end_count].status = request != NULL && !has_place ? NIGH_INVALID : status;
    ends[end_count].id = has_place ? request->id : 0;
    ends[end_count].byte = has_place && request->count > 0 ? request->bytes[0] : 0;
    end_count++;
    no_place -= request != NULL && no_place > 0;
    return has_place;
}

static int set_up(void **state)
{
    struct pulls_shell shell = {.wanted = on_wanted, .refuse = on_refuse, .deliver = on_deliver};

    (void)state;
    end_count = refused_count = no_place = 0;
    gone_id = UINT64_MAX;
    assert_int_equal(pulls_create(&shell, &pulls), NIGH_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pulls_destroy(pulls);
    pulls = NULL;
    return 0;
}

static void request(uint64_t id, uint8_t byte, uint64_t deadline_us)
{
    struct calls_request came = {.id = id, .deadline_us = deadline_us, .bytes = &byte, .count = 1};

    pulls_request(pulls, &came, 10);
}

static void receive(uint32_t cookie, uint64_t deadline_us)
{
    pulls_receive(pulls, &(struct pulls_receive){.deadline_us = deadline_us, .cookie = cookie}, 10);
}

static void ended(uint32_t n, uint32_t cookie, nigh_status status, uint64_t id)
{
    assert_true(n < end_count);
    assert_int_equal(ends[n].cookie, cookie);
    assert_int_equal(ends[n].status, status);
    assert_int_equal(ends[n].id, id);
}

static void requests_wait_in_order_for_receives(void **state)
{
    (void)state;
    request(1, 'a', UINT64_MAX);
    request(2, 'b', UINT64_MAX);
    assert_int_equal(pulls_queued(pulls), 2);
    receive(7, UINT64_MAX);
    receive(8, UINT64_MAX);
    ended(0, 7, NIGH_OK, 1);
    ended(1, 8, NIGH_OK, 2);
    assert_int_equal(ends[0].byte, 'a'); /* a copy: the original is gone */
    assert_int_equal(ends[1].byte, 'b');
    assert_int_equal(pulls_queued(pulls), 0);
}

static void receives_wait_in_order_for_requests(void **state)
{
    (void)state;
    receive(7, UINT64_MAX);
    receive(8, UINT64_MAX);
    assert_int_equal(end_count, 0);
    request(1, 'a', UINT64_MAX);
    request(0, 'b', UINT64_MAX);
    ended(0, 7, NIGH_OK, 1);
    ended(1, 8, NIGH_OK, 0);
    assert_int_equal(pulls_receives(pulls), 0);
}

static void a_receive_ends_at_its_deadline_or_cancelled(void **state)
{
    (void)state;
    receive(1, 10); /* now: it only looks */
    ended(0, 1, NIGH_TIMEOUT, 0);
    receive(2, 50);
    receive(3, 30);
    receive(4, UINT64_MAX);
    assert_int_equal(pulls_due_us(pulls), 30);
    assert_false(pulls_tick(pulls, 29));
    assert_true(pulls_tick(pulls, 30));
    ended(1, 3, NIGH_TIMEOUT, 0);
    assert_int_equal(pulls_due_us(pulls), 50);
    assert_true(pulls_cancel(pulls, 2));
    assert_false(pulls_cancel(pulls, 2));
    ended(2, 2, NIGH_CANCELED, 0);
    pulls_destroy(pulls);
    pulls = NULL;
    ended(3, 4, NIGH_CLOSED, 0);
    assert_int_equal(end_count, 4);
}

static void what_nobody_waits_for_is_not_received(void **state)
{
    (void)state;
    request(1, 'a', UINT64_MAX);
    request(2, 'b', 10); /* overdue by the time of the receive */
    request(3, 'c', UINT64_MAX);
    gone_id = 1;
    receive(7, UINT64_MAX);
    ended(0, 7, NIGH_OK, 3);
    assert_int_equal(refused_count, 1);
    assert_int_equal(refused_id, 2);
    assert_int_equal(refused_status, NIGH_TIMEOUT);
    assert_int_equal(pulls_queued(pulls), 0);
}

static void a_request_without_a_place_goes_to_the_next(void **state)
{
    (void)state;
    receive(1, UINT64_MAX);
    receive(2, UINT64_MAX);
    no_place = 1;
    request(5, 'a', UINT64_MAX);
    ended(0, 1, NIGH_INVALID, 0);
    ended(1, 2, NIGH_OK, 5);
    request(6, 'b', UINT64_MAX);
    no_place = 1;
    receive(3, UINT64_MAX);
    ended(2, 3, NIGH_INVALID, 0);
    assert_int_equal(pulls_queued(pulls), 1);
    receive(4, UINT64_MAX);
    ended(3, 4, NIGH_OK, 6);
}

static void both_tables_have_bounds(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= LIMIT_SERVICE_QUEUE; n++)
        request(n, 'a', UINT64_MAX);
    assert_int_equal(refused_count, 0);
    request(1000, 'b', UINT64_MAX);
    request(0, 'b', UINT64_MAX); /* one-way: gone without a word */
    assert_int_equal(refused_count, 1);
    assert_int_equal(refused_id, 1000);
    assert_int_equal(refused_status, NIGH_OVERLOADED);
    gone_id = 5; /* its place is another's */
    request(1001, 'c', UINT64_MAX);
    assert_int_equal(refused_count, 1);
    assert_int_equal(pulls_queued(pulls), LIMIT_SERVICE_QUEUE);
    for (uint32_t n = 0; n < LIMIT_SERVICE_QUEUE; n++)
        receive(n, UINT64_MAX);
    ended(4, 4, NIGH_OK, 6);
    ended(LIMIT_SERVICE_QUEUE - 1, LIMIT_SERVICE_QUEUE - 1, NIGH_OK, 1001);
    end_count = 0;
    for (uint32_t n = 0; n < LIMIT_RECEIVES; n++)
        receive(n, UINT64_MAX);
    assert_int_equal(end_count, 0);
    receive(99, UINT64_MAX);
    ended(0, 99, NIGH_BUSY, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_wait_in_order_for_receives),
        TEST(receives_wait_in_order_for_requests),
        TEST(a_receive_ends_at_its_deadline_or_cancelled),
        TEST(what_nobody_waits_for_is_not_received),
        TEST(a_request_without_a_place_goes_to_the_next),
        TEST(both_tables_have_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
