/* SPDX-License-Identifier: Apache-2.0 */
/* What nighd takes for a request (daemon/http_request.h), and what it tells of its numbers
 * (daemon/metrics.h). */
#include <stdlib.h>
#include <string.h>

#include "daemon/http_request.h"
#include "daemon/metrics.h"
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
        {"GET / HTTP/1.1\r\n\r\nHost: x\r\n", 200, "/", false},
        {"GET /metrics HTTP/1.0\n\n", 200, "/metrics", false},
        {"HEAD / HTTP/1.1\r\n\r\n", 200, "/", true},
        {"GET /metrics?a=b HTTP/1.1\r\n\r\n", 200, "/metrics", false},
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
    memcpy(text + 5 + HTTP_PATH_BYTES - 1, " HTTP/1.1\n\n", 11);
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
    assert_non_null(strstr(text, "\nnigh_member_up{rank=\"0\",address=\"a\\\"\\\\b\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_member_up{rank=\"1\",address=\"[::1]:5\"} 0\n"));
    assert_non_null(strstr(text, "\nnigh_member_leaving{rank=\"0\",address=\"a\\\"\\\\b\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_member_leaving{rank=\"1\",address=\"[::1]:5\"} 0\n"));
    assert_non_null(strstr(text, "\nnigh_member_in_view{rank=\"0\",address=\"a\\\"\\\\b\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_member_in_view{rank=\"1\",address=\"[::1]:5\"} 0\n"));
    assert_non_null(strstr(text, "\nnigh_member_dead{rank=\"1\",address=\"[::1]:5\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_link_crossover_bytes{rank=\"1\",rail=\"2\"} 32768\n"));
    assert_non_null(strstr(text, "\nnigh_link_crossover_bytes{rank=\"1\",rail=\"3\"} +Inf\n"));
    assert_non_null(strstr(text, "\nnigh_link_calls_written{rank=\"1\",rail=\"2\"} 1\n"));
    assert_non_null(strstr(text, "\nnigh_link_calls_written{rank=\"1\",rail=\"3\"} 0\n"));
    assert_null(strstr(text, "rail=\"4\""));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read),
        cmocka_unit_test(long_ones_are_refused),
        cmocka_unit_test(numbers_are_told),
        cmocka_unit_test(members_and_links_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
