/* SPDX-License-Identifier: Apache-2.0 */
/* See space_rows.h. */
#include "space_rows.h"

#include <stdbool.h>
#include <stdio.h>

#include "space/cache.h"
#include "space/home.h"

enum space_result __real_space_cache_step(const struct space_cache *cache, struct space_line *line,
                                          const struct space_message *event, struct space_out *out);
enum space_result __wrap_space_cache_step(const struct space_cache *cache, struct space_line *line,
                                          const struct space_message *event, struct space_out *out);
enum space_result __real_space_home_step(const struct space_home *home, struct space_entry *entry,
                                         struct space_work *work, const struct space_message *event,
                                         struct space_out *out);
enum space_result __wrap_space_home_step(const struct space_home *home, struct space_entry *entry,
                                         struct space_work *work, const struct space_message *event,
                                         struct space_out *out);

static bool of_caches[SPACE_CACHE_STATES][SPACE_CACHE_EVENTS];
static bool of_homes[SPACE_HOME_STATES][SPACE_HOME_EVENTS];

enum space_result __wrap_space_cache_step(const struct space_cache *cache, struct space_line *line,
                                          const struct space_message *event, struct space_out *out)
{
    of_caches[line->state][event->event] = true;
    return __real_space_cache_step(cache, line, event, out);
}

enum space_result __wrap_space_home_step(const struct space_home *home, struct space_entry *entry,
                                         struct space_work *work, const struct space_message *event,
                                         struct space_out *out)
{
    of_homes[entry->state][event->event] = true;
    return __real_space_home_step(home, entry, work, event, out);
}

void space_rows_count(struct space_rows *home, struct space_rows *cache)
{
    *home = *cache = (struct space_rows){0};
    for (uint8_t state = 0; state < SPACE_HOME_STATES; state++) {
        for (uint8_t event = 0; event < SPACE_HOME_EVENTS; event++) {
            home->rows += space_home_row(state, event) != NULL;
            home->seen += space_home_row(state, event) != NULL && of_homes[state][event];
        }
    }
    for (uint8_t state = 0; state < SPACE_CACHE_STATES; state++) {
        for (uint8_t event = 0; event < SPACE_CACHE_EVENTS; event++) {
            cache->rows += space_cache_row(state, event) != NULL;
            cache->seen += space_cache_row(state, event) != NULL && of_caches[state][event];
        }
    }
}

void space_rows_print(void)
{
    for (uint8_t state = 0; state < SPACE_HOME_STATES; state++) {
        for (uint8_t event = 0; event < SPACE_HOME_EVENTS; event++) {
            if (space_home_row(state, event) != NULL && !of_homes[state][event]) {
                printf("# not seen at a home: %s, %s\n", space_home_state_name(state),
                       space_home_event_name(event));
            }
        }
    }
    for (uint8_t state = 0; state < SPACE_CACHE_STATES; state++) {
        for (uint8_t event = 0; event < SPACE_CACHE_EVENTS; event++) {
            if (space_cache_row(state, event) != NULL && !of_caches[state][event]) {
                printf("# not seen at a cache: %s, %s\n", space_cache_state_name(state),
                       space_cache_event_name(event));
            }
        }
    }
}
