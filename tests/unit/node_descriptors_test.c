/* SPDX-License-Identifier: Apache-2.0 */
/* What a node counts of descriptors, and what it does when they are too few. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "node/descriptors.h"
#include "support/support.h"

static struct node_settings settings_of(uint32_t lanes, uint32_t members)
{
    static struct node_settings settings;

    memset(&settings, 0, sizeof(settings));
    settings.lanes = lanes;
    settings.max_sessions = 100;
    settings.clustered = members > 1;
    settings.members.count = members;
    return settings;
}

static void each_member_and_lane_counts(void **state)
{
    struct node_settings settings = settings_of(4, 1);
    struct descriptors alone, three, many;

    (void)state;
    descriptors_count(&settings, &alone);
    assert_int_equal(alone.members, 0);
    settings = settings_of(4, 3);
    descriptors_count(&settings, &three);
    assert_int_equal(three.members, 2 * (1 + 4 * 4)); /* control, and four for each rail */
    assert_int_equal(three.strangers - alone.strangers,
                     LIMIT_PEER_HANDSHAKES + 4 * LIMIT_FABRIC_HALF_OPEN);
    assert_int_equal(three.own, alone.own);
    settings = settings_of(64, 256);
    descriptors_count(&settings, &many);
    assert_int_equal(many.members, 255 * 257);
    settings.fabric_queue_pairs = 4;
    descriptors_count(&settings, &many);
    assert_int_equal(many.members, 255 * (257 + 3 * 64));
    settings.region_qos = NIGH_REGION_QOS_SEPARATE;
    descriptors_count(&settings, &many);
    assert_int_equal(many.members, 255 * (257 + 4 * 64));
}

static void too_few_for_the_list_is_refused(void **state)
{
    struct node_settings settings = settings_of(4, 3);
    struct descriptors count;
    struct rlimit limit, before;
    char why[512] = "", number[32];
    uint64_t needed;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    descriptors_count(&settings, &count);
    needed = count.own + count.members;
    limit = (struct rlimit){.rlim_cur = needed - 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(descriptors_provide(&settings, false, why, sizeof(why)), NIGH_NO_RESOURCES);
    snprintf(number, sizeof(number), "needs %llu file", (unsigned long long)needed);
    assert_non_null(strstr(why, number));
    assert_non_null(strstr(why, "3 members"));
    assert_non_null(strstr(why, "soft limit"));
    /* A node that is alone goes on, and the log says it. */
    settings.clustered = false;
    assert_int_equal(descriptors_provide(&settings, false, why, sizeof(why)), NIGH_OK);
    settings.clustered = true;
    /* What may be raised is. */
    assert_int_equal(descriptors_provide(&settings, true, why, sizeof(why)), NIGH_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
    limit = (struct rlimit){.rlim_cur = needed, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(descriptors_provide(&settings, false, why, sizeof(why)), NIGH_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_and_lane_counts),
        cmocka_unit_test(too_few_for_the_list_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
