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
    assert_int_equal(three.members, 2 * (3 + 4 * 3)); /* control, regions; three for each rail */
    assert_int_equal(three.wishes, 2 * 4 * 3);        /* peers may want to read over three more */
    assert_int_equal(alone.wishes, 0);
    assert_int_equal(three.strangers - alone.strangers,
                     LIMIT_PEER_HANDSHAKES + 4 * LIMIT_FABRIC_HALF_OPEN);
    assert_int_equal(three.own, alone.own);
    settings = settings_of(64, 256);
    descriptors_count(&settings, &many);
    assert_int_equal(many.members, 255 * (3 + 3 * 64));
    settings.fabric_queue_pairs = 4;
    descriptors_count(&settings, &many);
    assert_int_equal(many.members, 255 * (3 + 6 * 64));
    assert_int_equal(many.wishes, 0);
}

/* One that says --region-qos separate, or --fabric-queue-pairs, has these connections at its peers,
 * too: what they need does not depend on who says it. */
static void what_peers_want_is_counted(void **state)
{
    struct node_settings settings = settings_of(4, 3);
    struct descriptors one, all;

    (void)state;
    descriptors_count(&settings, &one);
    settings.region_qos = NIGH_REGION_QOS_SEPARATE;
    settings.fabric_queue_pairs = LIMIT_BULK_ENDPOINTS;
    descriptors_count(&settings, &all);
    assert_int_equal(one.members + one.wishes, all.members + all.wishes);
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
        cmocka_unit_test(what_peers_want_is_counted),
        cmocka_unit_test(too_few_for_the_list_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
