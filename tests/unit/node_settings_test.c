/* SPDX-License-Identifier: Apache-2.0 */
/* What a node may be started with: defaults, and each wrong option with its sentence. */
#include "support/support.h"

#include <string.h>

#include "node/settings.h"

static nigh_node_options good_options(void)
{
    return (nigh_node_options){.struct_size = sizeof(nigh_node_options),
                               .memory_bytes = UINT64_C(1) << 30,
                               .spin_us = SETTINGS_SPIN_DEFAULT};
}

static void defaults_follow_memory_and_cores(void **state)
{
    const struct {
        uint64_t memory;
        uint32_t cores, lanes, spin;
        uint64_t objects;
    } cases[] = {
        {UINT64_C(16) << 20, 1, 1, 0, 65536},      {UINT64_C(1) << 30, 2, 1, 50, 262144},
        {UINT64_C(1) << 40, 5, 2, 50, 1048576},    {UINT64_C(1) << 30, 16, 8, 50, 262144},
        {UINT64_C(1) << 30, 1000, 64, 50, 262144},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nigh_node_options options = good_options();
        static struct node_settings settings;
        char why[256];

        options.memory_bytes = cases[i].memory;
        assert_int_equal(settings_resolve(&options, cases[i].cores, &settings, why, sizeof(why)),
                         NIGH_OK);
        assert_int_equal(settings.lanes, cases[i].lanes);
        assert_int_equal(settings.spin_us, cases[i].spin);
        assert_int_equal(settings.max_objects, cases[i].objects);
        assert_int_equal(settings.call_memory_bytes, cases[i].memory / 4);
        assert_int_equal(settings.region_memory_bytes, cases[i].memory / 2);
        assert_int_equal(settings.max_sessions, LIMIT_SESSIONS);
        assert_int_equal(settings.max_pins, LIMIT_LANE_PINS);
        assert_int_equal(settings.socket_mode, 0666);
        assert_string_equal(settings.socket_path, "");
    }
}

static void lanes_that_would_starve_their_clients_do_not_spin(void **state)
{
    nigh_node_options options = good_options();
    static struct node_settings settings;
    char why[256];

    (void)state;
    options.lanes = 2;
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_int_equal(settings.spin_us, 0);
    options.spin_us = 30; /* unless somebody asks for it */
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_int_equal(settings.spin_us, 30);
}

#define WRONG(field, value, reason)                                                  \
    do {                                                                             \
        nigh_node_options options = good_options();                                  \
        char why[256] = "";                                                          \
        options.field = (value);                                                     \
        assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), \
                         NIGH_INVALID);                                              \
        if (strstr(why, reason) == NULL)                                             \
            fail_msg("\"%s\" does not say \"%s\"", why, reason);                     \
    } while (0)

static void each_wrong_option_has_its_sentence(void **state)
{
    static struct node_settings settings;
    static const nigh_pool_options twice[] = {{.name = "a", .mode = 0600},
                                              {.name = "a", .mode = 0600}};
    char long_path[200];

    (void)state;
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    WRONG(struct_size, 8, "struct_size");
    WRONG(memory_bytes, 0, "memory");
    WRONG(memory_bytes, 1 << 20, "least is 16");
    WRONG(space_memory_bytes, 24 * 1024 - 1, "the least that one takes is 24.0 KiB");
    WRONG(extent_bytes, 3 << 20, "power of two");
    WRONG(extent_bytes, 1 << 20, "power of two");
    WRONG(lanes, 3, "1, 2, 4");
    WRONG(lanes, 128, "up to 64");
    WRONG(spin_us, LIMIT_SPIN_US + 1, "too long");
    WRONG(max_objects, UINT64_C(1) << 40, "too many");
    WRONG(max_sessions, LIMIT_SESSIONS + 1, "most is 1024");
    WRONG(max_pins, LIMIT_LANE_PINS + 1, "most is 8192");
    WRONG(huge_pages, 3, "huge pages");
    WRONG(transfer_path, 5, "transfer path");
    WRONG(fabric, 3, "fabric");
    WRONG(fabric_addresses, "10.0.0.1,", "no IPv4 address");
    WRONG(fabric_addresses, "10.0.0.1,rxe1", "\"rxe1\" is no IPv4 address");
    WRONG(fabric_addresses, "10.0.0.1,100.100.100.1000", "no IPv4 address");
    WRONG(fabric_addresses, "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5", "at most 4");
    WRONG(fabric_tos, 256, "above 255");
    WRONG(fabric_ack_timeout, 7, "8 to 20");
    WRONG(fabric_ack_timeout, 21, "8 to 20");
    WRONG(fabric_retries, 8, "most is 7");
    WRONG(fabric_queue_pairs, 5, "most is 4");
    WRONG(fanout, 256, "most is 255");
    WRONG(shared_receives, 7, "8 to 8192");
    WRONG(shared_receives, 8193, "8 to 8192");
    WRONG(socket_mode, 01777, "mode");
    WRONG(socket_path, "", "empty");
    WRONG(socket_path, long_path, "199 bytes; the most is 107");
    WRONG(spill_bytes, 5, "spill directory");
    WRONG(pool_count, LIMIT_CONFIG_POOLS + 1, "pools");
    WRONG(pool_count, 1, "no pools");
    {
        nigh_node_options options = good_options();
        char why[256];

        options.pools = twice;
        options.pool_count = 2;
        assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_INVALID);
        assert_non_null(strstr(why, "twice"));
    }
}

/* Of a list that does not name it a node is no member without views, and joins with them. */
static void who_is_not_of_the_list_joins_where_views_are(void **state)
{
    static const uint8_t key[AUTH_KEY_BYTES] = {1};
    nigh_node_options options = good_options();
    static struct node_settings settings;
    char why[256] = "";

    (void)state;
    options.members = "a:1,b:1";
    options.member = "c:1";
    options.cluster_key = key;
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "\"c:1\" is not among the members"));
    options.state_dir = "/tmp/nowhere";
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_string_equal(settings.joins_as, "c:1");
    assert_true(settings.clustered);
    options.ranks = 9;
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "theirs to say"));
    options.member = "b:1";
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_string_equal(settings.joins_as, "");
    assert_int_equal(settings.members.count, 9);
    options.members = NULL; /* it begins a cluster */
    options.ranks = 0;
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_int_equal(settings.members.listed, 1);
    assert_true(settings.clustered);
    options.name = "db.1-a_B";
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_string_equal(settings.name, "db.1-a_B");
    options.name = "1b"; /* it could be a rank */
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "--name"));
    options.name = "db";
    options.state_dir = NULL;
    options.members = "b:1";
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "give --state"));
    options.name = NULL;
    options.members = NULL;
    options.state_dir = "/tmp/nowhere";
    options.ranks = 1; /* that nobody can join */
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_false(settings.clustered);
}

/* What others cannot reach is no address of a member, and one has one spelling. */
static void an_address_is_one_that_others_reach(void **state)
{
    static const uint8_t key[AUTH_KEY_BYTES] = {1};
    static const char *const anywhere[] = {"0.0.0.0:7470", "0:7470", "[::]:7470"};
    nigh_node_options options = good_options();
    static struct node_settings settings;
    char why[256] = "";

    (void)state;
    options.cluster_key = key;
    options.state_dir = "/tmp/nowhere";
    for (size_t n = 0; n < 2 * sizeof(anywhere) / sizeof(anywhere[0]);
         n++) { /* it begins a cluster, or joins */
        options.members = n % 2 == 0 ? NULL : "a:1";
        options.member = anywhere[n / 2];
        assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_INVALID);
        assert_non_null(strstr(why, "none that other nodes can reach"));
        assert_non_null(strstr(why, "--listen"));
    }
    options.members = "10.0.0.1:7470";
    options.member = "10.2:7470";
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_string_equal(settings.joins_as, "10.0.0.2:7470");
    options.member = "10.1:7470"; /* it is of the list */
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_string_equal(settings.joins_as, "");
}

static void an_older_program_has_a_smaller_struct(void **state)
{
    nigh_node_options options = good_options();
    static struct node_settings settings;
    char why[256];

    (void)state;
    options.struct_size = offsetof(nigh_node_options, pools);
    options.pool_count = 99; /* rubbish behind its end */
    assert_int_equal(settings_resolve(&options, 2, &settings, why, sizeof(why)), NIGH_OK);
    assert_int_equal(settings.pool_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_follow_memory_and_cores),
        cmocka_unit_test(lanes_that_would_starve_their_clients_do_not_spin),
        cmocka_unit_test(each_wrong_option_has_its_sentence),
        cmocka_unit_test(who_is_not_of_the_list_joins_where_views_are),
        cmocka_unit_test(an_address_is_one_that_others_reach),
        cmocka_unit_test(an_older_program_has_a_smaller_struct),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
