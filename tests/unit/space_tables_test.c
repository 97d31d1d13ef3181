/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of spaces: each is whole, and docs/spaces.md has them as they are, and diagrams of
 * them. Says what the page should have with NIGH_PRINT=1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "space/home.h"
#include "support/support.h"

#define PAGE_BYTES (256u << 10)

/* One side, as its functions show it. */
struct side {
    const char *mark; /* in the page, before and behind */
    uint8_t states, events;
    const char *(*state_name)(uint8_t state);
    const char *(*state_what)(uint8_t state);
    const char *(*event_name)(uint8_t event);
    const char *(*event_what)(uint8_t event);
    enum space_from (*from)(uint8_t event);
    bool (*has_bytes)(uint8_t event);
    const struct space_row *(*row)(uint8_t state, uint8_t event);
};

static const struct side cache_side = {
    .mark = "cache",
    .states = SPACE_CACHE_STATES,
    .events = SPACE_CACHE_EVENTS,
    .state_name = space_cache_state_name,
    .state_what = space_cache_state_what,
    .event_name = space_cache_event_name,
    .event_what = space_cache_event_what,
    .from = space_cache_event_from,
    .has_bytes = space_cache_event_has_bytes,
    .row = space_cache_row,
};

static const struct side home_side = {
    .mark = "home",
    .states = SPACE_HOME_STATES,
    .events = SPACE_HOME_EVENTS,
    .state_name = space_home_state_name,
    .state_what = space_home_state_what,
    .event_name = space_home_event_name,
    .event_what = space_home_event_what,
    .from = space_home_event_from,
    .has_bytes = space_home_event_has_bytes,
    .row = space_home_row,
};

static char *page, *made;
static size_t made_bytes;

static void write_made(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void write_made(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    made_bytes += (size_t)vsnprintf(made + made_bytes, PAGE_BYTES - made_bytes, format, list);
    va_end(list);
    assert_true(made_bytes < PAGE_BYTES);
}

static void write_becomes(const struct side *side, uint8_t state, const struct space_row *row)
{
    bool is_first = true;
    bool stays = (row->becomes & (1u << side->states | 1u << state)) != 0;

    if (stays) {
        write_made("itself");
        is_first = false;
    }
    for (uint8_t s = 0; s < side->states; s++) {
        if ((row->becomes & 1u << s) != 0 && s != state) {
            write_made("%s%s", is_first ? "" : ", ", side->state_name(s));
            is_first = false;
        }
    }
}

static void write_tables(const struct side *side)
{
    static const char *const froms[] = {"its own node", "the home", "a node"};

    made_bytes = 0;
    write_made("| event | from | |\n|---|---|---|\n");
    for (uint8_t e = 0; e < side->events; e++) {
        write_made("| %s | %s%s | %s |\n", side->event_name(e), froms[side->from(e)],
                   side->has_bytes(e) ? ", with bytes" : "", side->event_what(e));
    }
    write_made("\n| state | event | what is done | becomes |\n|---|---|---|---|\n");
    for (uint8_t s = 0; s < side->states; s++) {
        bool is_first = true;

        for (uint8_t e = 0; e < side->events; e++) {
            const struct space_row *row = side->row(s, e);

            if (row == NULL) {
                continue;
            }
            if (is_first) {
                write_made("| **%s**: %s ", side->state_name(s), side->state_what(s));
            } else {
                write_made("| ");
            }
            write_made("| %s | %s | ", side->event_name(e), row->what);
            write_becomes(side, s, row);
            write_made(" |\n");
            is_first = false;
        }
    }
}

/* An arrow for each two states, with all events that lead from one to the other. */
static void write_arrow(const struct side *side, uint8_t from, uint8_t to)
{
    bool is_first = true;

    for (uint8_t e = 0; e < side->events; e++) {
        const struct space_row *row = side->row(from, e);

        if (row == NULL || from == to || (row->becomes & 1u << to) == 0) {
            continue;
        }
        if (is_first) {
            write_made("    %s --> %s: ", side->state_name(from), side->state_name(to));
        }
        write_made("%s%s", is_first ? "" : ", ", side->event_name(e));
        is_first = false;
    }
    write_made("%s", is_first ? "" : "\n");
}

static void write_diagram(const struct side *side)
{
    made_bytes = 0;
    write_made("```mermaid\nstateDiagram-v2\n");
    for (uint8_t from = 0; from < side->states; from++) {
        for (uint8_t to = 0; to < side->states; to++) {
            write_arrow(side, from, to);
        }
    }
    write_made("```\n");
}

static int read_page(void **state)
{
    const char *root = getenv("NIGH_SOURCE");
    char path[1024];
    size_t bytes;
    FILE *file;

    (void)state;
    page = calloc(1, PAGE_BYTES);
    made = calloc(1, PAGE_BYTES);
    snprintf(path, sizeof(path), "%s/docs/spaces.md", root != NULL ? root : ".");
    file = fopen(path, "r");
    if (file == NULL || page == NULL || made == NULL) {
        return 1;
    }
    bytes = fread(page, 1, PAGE_BYTES - 1, file);
    fclose(file);
    return bytes > 0 ? 0 : 1;
}

static int free_page(void **state)
{
    (void)state;
    free(page);
    free(made);
    return 0;
}

/* What was made. */
static void claim_page_has(const struct side *side, const char *what)
{
    char mark[64];
    const char *at, *end;

    snprintf(mark, sizeof(mark), "<!-- %s: %s -->\n\n", what, side->mark);
    if (getenv("NIGH_PRINT") != NULL) {
        printf("%s%s\n<!-- end -->\n", mark, made);
    }
    at = strstr(page, mark);
    assert_non_null(at);
    at += strlen(mark);
    end = strstr(at, "\n<!-- end -->");
    assert_non_null(end);
    assert_int_equal((size_t)(end - at), made_bytes);
    assert_memory_equal(at, made, made_bytes);
}

static void the_page_has_the_table_of_caches(void **state)
{
    (void)state;
    write_tables(&cache_side);
    claim_page_has(&cache_side, "table");
}

static void the_page_has_the_table_of_homes(void **state)
{
    (void)state;
    write_tables(&home_side);
    claim_page_has(&home_side, "table");
}

static void the_page_has_their_diagrams(void **state)
{
    (void)state;
    write_diagram(&cache_side);
    claim_page_has(&cache_side, "diagram");
    write_diagram(&home_side);
    claim_page_has(&home_side, "diagram");
}

static void claim_is_whole(const struct side *side)
{
    uint32_t entered = 1; /* where all begins */

    for (uint8_t s = 0; s < side->states; s++) {
        bool is_left = false;

        assert_true(strlen(side->state_name(s)) > 0 && strlen(side->state_what(s)) > 0);
        for (uint8_t e = 0; e < side->events; e++) {
            const struct space_row *row = side->row(s, e);

            if (row != NULL) {
                assert_true(row->becomes != 0 && strlen(row->what) > 0);
                entered |= row->becomes;
                is_left |= (row->becomes & ~(1u << side->states | 1u << s)) != 0;
            }
        }
        assert_true(is_left);
        assert_null(side->row(s, side->events));
    }
    for (uint8_t e = 0; e < side->events; e++) {
        bool is_taken = false;

        assert_true(strlen(side->event_name(e)) > 0 && strlen(side->event_what(e)) > 0);
        for (uint8_t s = 0; s < side->states; s++) {
            is_taken |= side->row(s, e) != NULL;
        }
        assert_true(is_taken);
    }
    assert_int_equal(entered & ((1u << side->states) - 1), (1u << side->states) - 1);
    assert_string_equal(side->state_name(side->states), "?");
    assert_string_equal(side->event_name(side->events), "?");
}

static void every_state_is_entered_and_left_and_every_event_taken(void **state)
{
    (void)state;
    claim_is_whole(&cache_side);
    claim_is_whole(&home_side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_the_table_of_caches),
        cmocka_unit_test(the_page_has_the_table_of_homes),
        cmocka_unit_test(the_page_has_their_diagrams),
        cmocka_unit_test(every_state_is_entered_and_left_and_every_event_taken),
    };

    return cmocka_run_group_tests(tests, read_page, free_page);
}
