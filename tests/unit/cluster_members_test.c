/* SPDX-License-Identifier: Apache-2.0 */
/* The list of members: every sentence about a wrong one, and where keys have their home. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cluster/address.h"
#include "cluster/members.h"
#include "support/support.h"

#define KEYS 200000u

static struct members *parse(const char *list, const char *self)
{
    struct members *members = calloc(1, sizeof(*members));
    char why[256] = "";
    nigh_status status = members_parse(list, self, members, why, sizeof(why));

    if (status != NIGH_OK) {
        fail_msg("\"%s\", \"%s\": %s", list, self, why);
    }
    return members;
}

static void a_list_is_read(void **state)
{
    (void)state;
    struct members *members =
        parse(" 10.0.0.1:7400 ,\tnode-2.rack_a:7400,\n[fe80::1%eth0]:65535,[::1]:1", "[::1]:1");

    assert_int_equal(members->count, 4);
    assert_int_equal(members->self, 3);
    assert_string_equal(members->addresses[0], "10.0.0.1:7400");
    assert_string_equal(members->addresses[1], "node-2.rack_a:7400");
    assert_string_equal(members->addresses[2], "[fe80::1%eth0]:65535");
    free(members);
    members = parse("a:1,b:2,c:3", "2");
    assert_int_equal(members->self, 2);
    free(members);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *list, *self, *why;
    } wrong[] = {
        {"", "0", "\"\" in the list of members is not host:port or [ipv6]:port"},
        {"a:1,", "0", "\"\" in the list of members is not host:port or [ipv6]:port"},
        {"a:1,,b:2", "0", "\"\" in the list of members is not host:port or [ipv6]:port"},
        {"a", "0", "\"a\" in the list of members is not host:port or [ipv6]:port"},
        {":1", "0", "\":1\" in the list of members is not host:port or [ipv6]:port"},
        {"a:", "0", "\"a:\" in the list of members is not host:port or [ipv6]:port"},
        {"a:0", "0", "\"a:0\" in the list of members is not host:port or [ipv6]:port"},
        {"a:65536", "0", "\"a:65536\" in the list of members is not host:port or [ipv6]:port"},
        {"a:99999999999999999999", "0",
         "\"a:99999999999999999999\" in the list of members is not host:port or [ipv6]:port"},
        {"a:-1", "0", "\"a:-1\" in the list of members is not host:port or [ipv6]:port"},
        {"a:+1", "0", "\"a:+1\" in the list of members is not host:port or [ipv6]:port"},
        {"a:1x", "0", "\"a:1x\" in the list of members is not host:port or [ipv6]:port"},
        {"*:1", "0", "\"*:1\" in the list of members is not host:port or [ipv6]:port"},
        {"::1:7400", "0", "\"::1:7400\" in the list of members is not host:port or [ipv6]:port"},
        {"[]:1", "0", "\"[]:1\" in the list of members is not host:port or [ipv6]:port"},
        {"[::1:1", "0", "\"[::1:1\" in the list of members is not host:port or [ipv6]:port"},
        {"[::1]x:1", "0", "\"[::1]x:1\" in the list of members is not host:port or [ipv6]:port"},
        {"[a]b]:1", "0", "\"[a]b]:1\" in the list of members is not host:port or [ipv6]:port"},
        {"a:1 b:2", "0", "\"a:1 b:2\" in the list of members is not host:port or [ipv6]:port"},
        {"a b:2", "0", "\"a b:2\" in the list of members is not host:port or [ipv6]:port"},
        {"a:1,b:1,a:1", "0", "a:1 stands twice in the list of members"},
        {"a:1,b:1", "c:1",
         "\"c:1\" is not among the members; give one of their addresses as it stands there, or a "
         "rank from 0 to 1; to join them by the address of one of them, it needs --state"},
        {"a:1,b:1", "2",
         "\"2\" is not among the members; give one of their addresses as it stands there, or a "
         "rank from 0 to 1"},
        {"a:1,b:1", "",
         "\"\" is not among the members; give one of their addresses as it stands there, or a "
         "rank from 0 to 1"},
        {"a:1", "-0",
         "\"-0\" is not among the members; give one of their addresses as it stands there, or a "
         "rank from 0 to 0"},
    };
    struct members members;

    for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
        char why[256] = "";

        memset(&members, 0x5a, sizeof(members));
        assert_int_equal(members_parse(wrong[n].list, wrong[n].self, &members, why, sizeof(why)),
                         NIGH_INVALID);
        assert_string_equal(why, wrong[n].why);
        assert_int_equal(members.count, 0x5a5a5a5a); /* untouched */
    }
}

/* Equal addresses are equal text, at every node. */
static void an_address_has_one_spelling(void **state)
{
    static const struct {
        const char *written, *spelled;
    } same[] = {
        {"127.0.0.1:7470", "127.0.0.1:7470"},
        {"127.1:7470", "127.0.0.1:7470"},
        {"2130706433:7470", "127.0.0.1:7470"},
        {"0x7f.0.1:07470", "127.0.0.1:7470"},
        {"0177.0.0.1:7470", "127.0.0.1:7470"},
        {"[127.0.0.1]:7470", "127.0.0.1:7470"},
        {"[::ffff:127.0.0.1]:7470", "127.0.0.1:7470"},
        {"[::FFFF:7f00:1]:7470", "127.0.0.1:7470"},
        {"[0:0::1]:7470", "[::1]:7470"},
        {"[FE80:0::1%eth0]:7470", "[fe80::1%eth0]:7470"},
        {"[::0102:0304]:7470", "[::1.2.3.4]:7470"},
        {"Node-1.example:7470", "Node-1.example:7470"}, /* nothing is looked up */
    };
    static const char *const wrong[] = {"1.2.3.4", "a:0", "[::1:1", "::1:1", "*:1", "", ":1"};
    struct members *one;
    char out[ADDRESS_BYTES], why[256], longest[ADDRESS_BYTES + 1];

    (void)state;
    for (size_t n = 0; n < sizeof(same) / sizeof(same[0]); n++) {
        assert_true(address_spell(same[n].written, out));
        assert_string_equal(out, same[n].spelled);
        assert_true(address_is_spelled(out));
        assert_int_equal(address_is_spelled(same[n].written),
                         strcmp(same[n].written, same[n].spelled) == 0);
        assert_true(members_names("a:1, 10.0.0.1:7470", "10.1:7470"));
        assert_true(members_names(same[n].written, same[n].spelled));
    }
    for (size_t n = 0; n < sizeof(wrong) / sizeof(wrong[0]); n++) {
        assert_false(address_spell(wrong[n], out));
        assert_false(address_is_any(wrong[n]));
    }
    memset(longest, 'a', sizeof(longest)); /* the number of the host would become longer, too */
    memcpy(longest + ADDRESS_BYTES - 2, ":1", 3);
    assert_false(address_spell(longest, out));
    one = parse("127.1:7470,[0::1]:7471", "[::1]:7471");
    assert_string_equal(one->addresses[0], "127.0.0.1:7470");
    assert_string_equal(one->addresses[1], "[::1]:7471");
    assert_int_equal(one->self, 1);
    free(one);
    one = calloc(1, sizeof(*one));
    assert_int_equal(members_parse("127.0.0.1:1,127.1:1", "0", one, why, sizeof(why)),
                     NIGH_INVALID);
    assert_string_equal(why, "127.0.0.1:1 stands twice in the list of members");
    assert_int_equal(members_parse("127.0.0.1:1,0:1", "0", one, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "\"0:1\" in the list of members is every address of a machine"));
    free(one);
}

/* One listens on all addresses of a machine, and reaches one. */
static void all_addresses_are_none(void **state)
{
    static const char *const any[] = {
        "0.0.0.0:1", "0:1", "0x0:1", "[::]:1", "[0::0]:1", "[::%2]:1", "[::ffff:0.0.0.0]:1"};
    static const char *const one[] = {"0.0.0.1:1", "[::1]:1", "zero:1"};

    (void)state;
    for (size_t n = 0; n < sizeof(any) / sizeof(any[0]); n++) {
        assert_true(address_is_any(any[n]));
    }
    for (size_t n = 0; n < sizeof(one) / sizeof(one[0]); n++) {
        assert_false(address_is_any(one[n]));
    }
}

/* "n0:1,n1:1,..." */
static char *list_of(uint32_t count)
{
    char *list = calloc(count, 16);
    char *at = list;

    for (uint32_t n = 0; n < count; n++) {
        at += sprintf(at, "%sn%u:1", n == 0 ? "" : ",", n);
    }
    return list;
}

static void there_are_bounds(void **state)
{
    (void)state;
    struct members *members = calloc(1, sizeof(*members));
    char *list = list_of(LIMIT_NODES);
    char why[256] = "", address[120];

    assert_int_equal(members_parse(list, "255", members, why, sizeof(why)), NIGH_OK);
    free(list);
    list = list_of(LIMIT_NODES + 1);
    assert_int_equal(members_parse(list, "0", members, why, sizeof(why)), NIGH_INVALID);
    assert_string_equal(why, "the list of members names more than 256");
    free(list);

    memset(address, 'a', sizeof(address));
    memcpy(address + MEMBERS_ADDRESS_BYTES - 3, ":1", 3);
    assert_int_equal(members_parse(address, "0", members, why, sizeof(why)), NIGH_OK);
    memset(address, 'a', sizeof(address));
    memcpy(address + MEMBERS_ADDRESS_BYTES - 2, ":1", 3);
    assert_int_equal(members_parse(address, "0", members, why, sizeof(why)), NIGH_INVALID);
    assert_string_equal(why, "an address in the list of members is longer than 79 bytes");
    free(members);
}

static void equal_lists_have_equal_epochs(void **state)
{
    (void)state;
    static const char *const others[] = {"a:1,b:2", "b:2,a:1,c:3", "a:1,b:2,c:4",
                                         "a:1,b:2,c:3,d:4"};
    struct members *one = parse("a:1,b:2,c:3", "0");
    struct members *two = parse(" a:1 , b:2,c:3 ", "c:3");

    assert_true(one->epoch == two->epoch);
    assert_int_not_equal(one->self, two->self);
    free(two);
    for (size_t n = 0; n < sizeof(others) / sizeof(others[0]); n++) {
        two = parse(others[n], "0");
        assert_true(one->epoch != two->epoch);
        free(two);
    }
    free(one);
}

static uint64_t key_hash(uint32_t n, bool raw)
{
    uint8_t id[20] = {0};

    memcpy(id, &n, sizeof(n)); /* counters are the worst ids that people choose */
    return raw ? n : hash_id20(id);
}

/* Whoever asks, the same; about the same number of keys each. */
static void homes_are_the_same_everywhere_and_balanced(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 3, 7, 100};

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        uint32_t count = sizes[s], counts[100] = {0}, least = UINT32_MAX, most = 0;
        char *list = list_of(count), self[16];
        struct members *one = parse(list, "0"), *other;

        snprintf(self, sizeof(self), "%u", count - 1);
        other = parse(list, self);
        for (uint32_t n = 0; n < KEYS; n++) {
            uint32_t home = members_home(one, key_hash(n, false));

            assert_true(home < count);
            assert_int_equal(home, members_home(other, key_hash(n, false)));
            counts[home]++;
        }
        for (uint32_t rank = 0; rank < count; rank++) {
            least = counts[rank] < least ? counts[rank] : least;
            most = counts[rank] > most ? counts[rank] : most;
        }
        print_message("# %u nodes: least %.1f %%, most %.1f %% of an even share\n", count,
                      100.0 * least * count / KEYS, 100.0 * most * count / KEYS);
        assert_true(least * (uint64_t)count * 100 > KEYS * UINT64_C(85));
        assert_true(most * (uint64_t)count * 100 < KEYS * UINT64_C(115));
        free(one);
        free(other);
        free(list);
    }
}

/* The list is static; that a shorter one would move only what the last rank had is how rendezvous
 * hashing works, and what a cluster that is started anew with one more node counts on. */
static void only_the_keys_of_a_removed_rank_move(void **state)
{
    (void)state;
    char *longer = list_of(9), *shorter = list_of(8);
    struct members *before = parse(longer, "0"), *after = parse(shorter, "0");
    uint32_t moved = 0;

    for (uint32_t n = 0; n < KEYS; n++) {
        uint32_t home = members_home(before, key_hash(n, false));

        if (home == 8) {
            moved++;
            assert_true(members_home(after, key_hash(n, false)) < 8);
        } else {
            assert_int_equal(home, members_home(after, key_hash(n, false)));
        }
    }
    assert_true(moved > KEYS / 9 * 85 / 100 && moved < KEYS / 9 * 115 / 100);
    free(longer);
    free(shorter);
    free(before);
    free(after);
}

static void one_node_is_its_own_home(void **state)
{
    (void)state;
    struct members members;

    members_alone(&members);
    assert_int_equal(members.count, 1);
    assert_int_equal(members.self, 0);
    assert_int_equal(members_home(&members, 0), 0);
    assert_int_equal(members_home(&members, UINT64_MAX), 0);
    assert_int_equal(members_home(&members, key_hash(1, true)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_read),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(an_address_has_one_spelling),
        cmocka_unit_test(all_addresses_are_none),
        cmocka_unit_test(there_are_bounds),
        cmocka_unit_test(equal_lists_have_equal_epochs),
        cmocka_unit_test(homes_are_the_same_everywhere_and_balanced),
        cmocka_unit_test(only_the_keys_of_a_removed_rank_move),
        cmocka_unit_test(one_node_is_its_own_home),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
