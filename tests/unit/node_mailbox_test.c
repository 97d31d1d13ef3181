/* SPDX-License-Identifier: Apache-2.0 */
/* Mailboxes between lanes: order, bound, and two threads at it. */
#include "support/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "node/mailbox.h"

static struct mailbox *new_box(void)
{
    struct mailbox *box = aligned_alloc(CACHE_LINE, sizeof(*box));

    assert_non_null(box);
    memset(box, 0, sizeof(*box));
    return box;
}

static void messages_come_in_order(void **state)
{
    struct mailbox *box = new_box();
    struct mailbox_message message = {0};

    (void)state;
    assert_false(mailbox_take(box, &message));
    for (uint32_t i = 0; i < 3; i++) {
        message.number = i;
        assert_true(mailbox_put(box, &message));
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(mailbox_take(box, &message));
        assert_int_equal(message.number, i);
    }
    assert_false(mailbox_take(box, &message));
    free(box);
}

static void a_full_box_refuses(void **state)
{
    struct mailbox *box = new_box();
    struct mailbox_message message = {0};

    (void)state;
    for (uint32_t i = 0; i < LIMIT_MAILBOX; i++)
        assert_true(mailbox_put(box, &message));
    assert_false(mailbox_put(box, &message));
    assert_true(mailbox_take(box, &message));
    assert_true(mailbox_put(box, &message));
    free(box);
}

#define MESSAGES 200000u

static void *put_all(void *argument)
{
    struct mailbox *box = argument;

    for (uint32_t i = 0; i < MESSAGES;) {
        struct mailbox_message message = {.number = i, .status = (int32_t)i, .lane = ~i};

        i += mailbox_put(box, &message) ? 1 : 0;
    }
    return NULL;
}

static void nothing_is_lost_or_torn_between_threads(void **state)
{
    struct mailbox *box = new_box();
    pthread_t putter;
    uint32_t next = 0, torn = 0;

    (void)state;
    assert_int_equal(pthread_create(&putter, NULL, put_all, box), 0);
    while (next < MESSAGES) {
        struct mailbox_message message;

        if (!mailbox_take(box, &message))
            continue;
        torn += message.number != next || message.status != (int32_t)next || message.lane != ~next;
        next++;
    }
    pthread_join(putter, NULL);
    assert_int_equal(torn, 0);
    free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_in_order),
        cmocka_unit_test(a_full_box_refuses),
        cmocka_unit_test(nothing_is_lost_or_torn_between_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
