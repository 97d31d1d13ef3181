/* SPDX-License-Identifier: Apache-2.0 */
/* What nighd takes for a request (daemon/http_request.h), what it tells of its numbers
 * (daemon/metrics.h), and whom (daemon/page.h, daemon/picture.h). */
#include <stdlib.h>
#include <string.h>

#include "daemon/http_request.h"
#include "daemon/metrics.h"
#include "daemon/page.h"
#include "daemon/picture.h"
#include "support/support.h"

static int parse(const char *text, struct http_request *request)
{
    return http_request_parse(text, strlen(text), request);
}

static void requests_are_read(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *path;
        bool is_head;
    } cases[] = {
        {"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, "/metrics", false},
        {"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 421, NULL, false},
        {"GET / HTTP/1.1\r\nA: b\r\nhOST:\t127.0.0.9:80 \r\nC: d\r\n\r\n", 200, "/", false},
        {"GET / HTTP/1.1\nHost: [::1]:7707\n\n", 200, "/", false},
        {"GET / HTTP/1.1\r\nHost: localhost.x\r\n\r\n", 421, NULL, false},
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1.x\r\n\r\n", 421, NULL, false},
        {"GET / HTTP/1.1\r\nHost: localhost:1x\r\n\r\n", 421, NULL, false},
        {"GET / HTTP/1.1\r\nHost: localhost:\r\n\r\n", 421, NULL, false},
        {"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", 421, NULL, false},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 421, NULL, false},
        {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, NULL, false},
        {"GET / HTTP/1.1\r\nHost: x\r\nHost: localhost\r\n\r\n", 400, NULL, false},
        {"GET / HTTP/1.0\r\n\r\nHost: x\r\n", 200, "/", false},
        {"GET / HTTP/1.1\r\n\r\nHost: localhost\r\n", 400, NULL, false},
        {"GET / HTTP/1.1\r\nHosts: localhost\r\n\r\n", 400, NULL, false},
        {"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400, NULL, false},
        {"GET / HTTP/1.0\r\nHost\t: x\r\n\r\n", 400, NULL, false},
        {"GET / HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n", 400, NULL, false},
        {"GET /metrics HTTP/1.0\n\n", 200, "/metrics", false},
        {"HEAD / HTTP/1.0\r\n\r\n", 200, "/", true},
        {"GET /metrics?a=b HTTP/1.0\r\n\r\n", 200, "/metrics", false},
        {"GET / HTTP/1.1\r\nHost: x\r\n", 0, NULL, false},
        {"GET / HT", 0, NULL, false},
        {"POST / HTTP/1.1\r\n\r\n", 405, NULL, false},
        {"get / HTTP/1.1\r\n\r\n", 405, NULL, false},
        {"GET metrics HTTP/1.1\r\n\r\n", 400, NULL, false},
        {"GET /a\tb HTTP/1.1\r\n\r\n", 400, NULL, false},
        {"GET / HTTP/2.0\r\n\r\n", 505, NULL, false},
        {"GET /\r\n\r\n", 400, NULL, false},
        {"GET / FTP/1.1\r\n\r\n", 400, NULL, false},
        {"\r\n\r\n", 400, NULL, false},
        {"GET  HTTP/1.1\r\n\r\n", 400, NULL, false},
        {" / HTTP/1.1\r\n\r\n", 405, NULL, false},
    };

    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        struct http_request request = {0};

        assert_int_equal(parse(cases[n].text, &request), cases[n].code);
        if (cases[n].code == 200) {
            assert_string_equal(request.path, cases[n].path);
            assert_int_equal(request.is_head, cases[n].is_head);
        }
    }
}

static void long_ones_are_refused(void **state)
{
    char text[HTTP_HEAD_BYTES];
    struct http_request request;

    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(http_request_parse(text, sizeof text - 1, &request), 0);
    assert_int_equal(http_request_parse(text, sizeof text, &request), 431);
    memcpy(text, "GET /", 5);
    memcpy(text + 5 + HTTP_PATH_BYTES - 1, " HTTP/1.0\n\n", 11);
    assert_int_equal(http_request_parse(text, 5 + HTTP_PATH_BYTES - 1 + 11, &request), 200);
    assert_int_equal(strlen(request.path), HTTP_PATH_BYTES);
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    memcpy(text + 5 + HTTP_PATH_BYTES, " HTTP/1.1\n\n", 11);
    assert_int_equal(http_request_parse(text, 5 + HTTP_PATH_BYTES + 11, &request), 414);
}

static char *printed(void (*print)(FILE *))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    print(file);
    (void)fclose(file);
    return text;
}

static void print_stats(FILE *file)
{
    nigh_node_stats stats = {.seals = 7, .objects = 3, .uptime_us = 1000002, .nodes_reached = 4};

    metrics_print_stats(file, &stats);
}

/* Each number once, with its help and its type before it. */
static void numbers_are_told(void **state)
{
    char *text = printed(print_stats);
    uint32_t lines = 0, fields = 0;

    (void)state;
    for (const char *c = text; (c = strchr(c, '\n')) != NULL; c++) {
        lines++;
    }
#define COUNT(name, help) \
    fields++;             \
    assert_non_null(strstr(text, help));
    NIGH_NODE_STATS_TABLE(COUNT)
#undef COUNT
    assert_int_equal(lines, 3 * fields);
    assert_non_null(strstr(text, "# TYPE nigh_seals_total counter\nnigh_seals_total 7\n"));
    assert_non_null(strstr(text, "# TYPE nigh_objects gauge\nnigh_objects 3\n"));
    /* A node that goes is not reached any more. */
    assert_non_null(strstr(text, "# TYPE nigh_nodes_reached gauge\nnigh_nodes_reached 4\n"));
    assert_non_null(
        strstr(text, "# TYPE nigh_uptime_seconds gauge\nnigh_uptime_seconds 1.000002\n"));
    free(text);
}

static void print_cluster(FILE *file)
{
    const nigh_node_info nodes[] = {{.rank = 0,
                                     .state = NIGH_NODE_IS_UP,
                                     .leaving = 1,
                                     .is_self = 1,
                                     .incarnation = 4,
                                     .address = "a\"\\b",
                                     .view = NIGH_NODE_IN_VIEW},
                                    {.rank = 1,
                                     .state = NIGH_NODE_IS_DEAD,
                                     .address = "[::1]:5",
                                     .view = NIGH_NODE_OUT_OF_VIEW}};
    const nigh_link_info links[] = {
        {.rank = 1, .rail = 2, .crossover_bytes = 32768, .calls = NIGH_LINK_CALLS_WRITTEN},
        {.rank = 1, .rail = 3, .crossover_bytes = NIGH_NO_CROSSOVER, .calls = NIGH_LINK_CALLS_SENT},
        {.rank = 1, .rail = 4}};

    metrics_print_nodes(file, nodes, 2);
    metrics_print_links(file, links, 3);
}

static void members_and_links_are_told(void **state)
{
    char *text = printed(print_cluster);

    (void)state;
    assert_non_null(strstr(text, "\nnigh_member_up{rank=\"0\",address=\"a\\\"\\\\\\\\b\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_member_up{rank=\"1\",address=\"[::1]:5\"} 0\n"));
    assert_non_null(
        strstr(text, "\nnigh_member_leaving{rank=\"0\",address=\"a\\\"\\\\\\\\b\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_member_leaving{rank=\"1\",address=\"[::1]:5\"} 0\n"));
    assert_non_null(
        strstr(text, "\nnigh_member_in_view{rank=\"0\",address=\"a\\\"\\\\\\\\b\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_member_in_view{rank=\"1\",address=\"[::1]:5\"} 0\n"));
    assert_non_null(strstr(text, "\nnigh_member_dead{rank=\"1\",address=\"[::1]:5\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_link_crossover_bytes{rank=\"1\",rail=\"2\"} 32768\n"));
    assert_non_null(strstr(text, "\nnigh_link_crossover_bytes{rank=\"1\",rail=\"3\"} +Inf\n"));
    assert_non_null(strstr(text, "\nnigh_link_calls_written{rank=\"1\",rail=\"2\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_link_calls_written{rank=\"1\",rail=\"3\"} 0\n"));
    assert_null(strstr(text, "rail=\"4\""));
    free(text);
}

/* ---- who is told what ---- */

#define OWNER 7

const struct page_file page_files[PAGE_FILES] = {{.path = "/"}, {.path = "/a"}, {.path = "/b"}};

static struct picture picture;
static struct asker asker;

static void add_pool(uint32_t number, const char *name, uint32_t uid, uint32_t mode)
{
    picture.is_pool[number] = true;
    picture.pools[number] =
        (struct session_show_pool){.pool = number, .bytes = 1000, .uid = uid, .mode = mode};
    (void)snprintf(picture.pools[number].name, sizeof(picture.pools[number].name), "%s", name);
}

static struct session_show_transfer moved(uint32_t pool, const char *name, uint8_t flags)
{
    struct session_show_transfer transfer = {
        .pool = pool, .flags = flags, .bytes = 4242, .done_bytes = 4242};

    (void)snprintf(transfer.name, sizeof(transfer.name), "%s", name);
    return transfer;
}

/* A pool of one user, one that everybody may read, one that lane 0 has not told of, and one of
 * another user; objects and transfers of them. */
static void paint(void)
{
    memset(&picture, 0, sizeof(picture));
    memset(&asker, 0, sizeof(asker));
    add_pool(2, "own", OWNER, 0600);
    add_pool(3, "common", 9, 0644);
    add_pool(4, "", OWNER, 0);
    add_pool(5, "nines", 9, 0640);
    for (uint32_t n = 0; n < 4; n++) {
        picture.objects[n].pool = 2 + n;
        (void)snprintf(picture.objects[n].name, sizeof(picture.objects[n].name), "hot-%u", 2 + n);
    }
    picture.object_count = 4;
    picture.now[0] = moved(2, "comes-2", SESSION_TRANSFER_NOW);
    picture.now[1] = moved(3, "comes-3", SESSION_TRANSFER_NOW);
    picture.past[0] = moved(2, "came-2", 0);
    picture.past[1] = moved(4, "came-4", 0);
    picture.past[2] = moved(5, "came-5", 0);
    picture.now_count = 2;
    picture.past_count = 3;
    picture.space_count = 2;
    picture.spaces[0].is_counted = picture.spaces[1].is_counted = true;
    picture.spaces[0].info = (nigh_space_info){.uid = OWNER, .name = "a\nb\xff\"\\"};
    picture.spaces[1].info = (nigh_space_info){.uid = 9, .name = "of-nine"};
}

static void print_picture(FILE *file)
{
    page_print(file, &picture, &asker);
}

static void print_numbers(FILE *file)
{
    metrics_print_pools(file, &picture, &asker);
    metrics_print_spaces(file, &picture, &asker);
}

static void has(void (*print)(FILE *), const char *words)
{
    char *text = printed(print);

    if (strstr(text, words) == NULL) {
        fail_msg("%s: not in %s", words, text);
    }
    free(text);
}

static void has_not(void (*print)(FILE *), const char *words)
{
    char *text = printed(print);

    if (strstr(text, words) != NULL) {
        fail_msg("%s: in %s", words, text);
    }
    free(text);
}

/* Of what he may not read nothing stands there by itself: neither names nor sizes. */
static void strangers_see_sums(void **state)
{
    (void)state;
    paint();
    has(print_picture, "\"pools_hidden\":{\"count\":3,\"bytes\":3000,");
    has(print_picture, "\"hottest_hidden\":3");
    has(print_picture, "\"comes-3\"");
    has(print_picture, "\"now_hidden\":1");
    has(print_picture, "\"past\":[],\"past_hidden\":3");
    has(print_picture, "\"spaces\":[],\"spaces_hidden\":2");
    has_not(print_picture, "-2\"");
    has_not(print_picture, "-4\"");
    has_not(print_picture, "-5\"");
    has_not(print_picture, "\"own\"");
    has(print_numbers, "nigh_pool_bytes{pool=\"common\"} 1000\n");
    has(print_numbers, "nigh_pool_bytes{pool=\"\"} 3000\n");
    has_not(print_numbers, "\"own\"");
    has_not(print_numbers, "space=");
    /* Nobody is uid 0 because the kernel did not say who he is. */
    picture.pools[2].uid = picture.spaces[0].info.uid = 0;
    has_not(print_picture, "-2\"");
    has(print_picture, "\"spaces_hidden\":2");
}

static void users_see_their_own(void **state)
{
    (void)state;
    paint();
    asker = (struct asker){.is_known = true, .uid = OWNER};
    has(print_picture, "\"hot-2\"");
    has(print_picture, "\"hottest_hidden\":2");
    has(print_picture, "\"comes-2\"");
    has(print_picture, "\"now_hidden\":0");
    has(print_picture, "\"came-2\"");
    has_not(print_picture, "-5\"");
    has_not(print_numbers, "nines");
    has(print_picture, "\"past_hidden\":2");
    has(print_picture, "\"spaces_hidden\":1");
    has_not(print_picture, "of-nine");
    asker.sees_all = true;
    has(print_picture, "of-nine");
    has(print_picture, "\"hot-5\"");
    has(print_picture, "\"spaces_hidden\":0");
    /* One that has no name yet is nobody's, and no series twice. */
    has(print_picture, "\"pools_hidden\":{\"count\":1,");
    has(print_numbers, "nigh_pool_bytes{pool=\"\"} 1000\n");
}

/* One byte that is no UTF-8 would have all of an answer refused. */
static void labels_are_quoted(void **state)
{
    (void)state;
    paint();
    asker.sees_all = true;
    has(print_numbers, "nigh_one_space_reads_total{space=\"a\\nb\\\\xff\\\"\\\\\\\\\"} 0\n");
    /* Another name, another label: one of four characters that say what that byte is told as. */
    picture.spaces[0].info = (nigh_space_info){.uid = OWNER, .name = "a\\xff"};
    has(print_numbers, "nigh_one_space_reads_total{space=\"a\\\\\\\\xff\"} 0\n");
    picture.spaces[0].info = (nigh_space_info){.uid = OWNER, .name = "a\nb\xff\"\\"};
    has(print_picture, "\"name\":\"a\\u000ab\\ufffd\\\"\\\\\",\"name_hex\":\"610a62ff225c\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read),  cmocka_unit_test(long_ones_are_refused),
        cmocka_unit_test(numbers_are_told),   cmocka_unit_test(members_and_links_are_told),
        cmocka_unit_test(strangers_see_sums), cmocka_unit_test(users_see_their_own),
        cmocka_unit_test(labels_are_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
