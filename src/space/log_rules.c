/* SPDX-License-Identifier: Apache-2.0 */
/* See log_rules.h. */
#include "space/log_rules.h"

#include "base/check.h"

static struct space_log_record *need(struct space_log_needs *needs, uint8_t kind)
{
    struct space_log_record *record = &needs->records[needs->count++];

    NIGH_ASSERT(needs->count <= SPACE_LOG_STEP_RECORDS);
    *record = (struct space_log_record){.kind = kind};
    return record;
}

/* ---- the home ------------------------------------------------------------- */

/* One node has it, or what it had is under way from it. */
static bool is_owned(const struct space_entry *entry, const struct space_work *work)
{
    switch ((enum space_home_state)entry->state) {
    case SPACE_HOME_DIRTY:
    case SPACE_HOME_RECALLING:
    case SPACE_HOME_SHARING:
    case SPACE_HOME_PASSING: return true;
    case SPACE_HOME_DEMOTING: return work->asker != SPACE_NOBODY;
    default: return false;
    }
}

/* The last bytes are here, and the log knows. */
static bool is_here(const struct space_entry *entry, const struct space_work *work)
{
    if (entry->state == SPACE_HOME_SHARING) {
        return (work->waits & ~space_bit(work->asker)) == 0;
    }
    return space_entry_is_readable(entry) || entry->state == SPACE_HOME_REBUILDING;
}

static bool brings_bytes(const struct space_message *event)
{
    return event->event == SPACE_HOME_WRITE_BACK || event->event == SPACE_HOME_BYTES;
}

static void need_owner(const struct space_home *home, const struct space_entry *entry, bool is_ours,
                       struct space_log_needs *needs)
{
    struct space_log_record *record = need(needs, SPACE_LOG_OWNED);

    record->seat = space_set_first(entry->seats);
    record->is_ours = is_ours;
    record->epoch = (struct space_epoch){home->term, entry->count};
}

void space_log_of_home(const struct space_home *home, const struct space_entry *entry_before,
                       const struct space_work *work_before, const struct space_entry *entry,
                       const struct space_work *work, const struct space_message *event,
                       struct space_log_needs *needs)
{
    uint8_t before = entry_before->state, state = entry->state;
    bool was_here = is_here(entry_before, work_before) || brings_bytes(event);

    needs->count = 0;
    if (event->event == SPACE_HOME_ALLOC) {
        need(needs, SPACE_LOG_ALLOC)->blocks = 1;
        return;
    }
    if (state == SPACE_HOME_FREED && before != SPACE_HOME_FREED) {
        need(needs, SPACE_LOG_FREE)->blocks = 1;
        return;
    }
    if (state == SPACE_HOME_LOST && before != SPACE_HOME_LOST) {
        (void)need(needs, SPACE_LOG_LOST);
        return;
    }
    /* Others are told not to keep it by what was claimed since the last record: who that was of
     * comes back, perhaps to a home that began anew on its log. */
    if (state == SPACE_HOME_AWAY && before != SPACE_HOME_AWAY && work->owner != SPACE_NOBODY) {
        struct space_log_record *record = need(needs, SPACE_LOG_OWNED);

        record->seat = work->owner;
        record->is_ours = work->is_ours;
        record->epoch = work->owned;
        return;
    }
    /* That nobody took it is news, too. */
    if (brings_bytes(event) || (before == SPACE_HOME_BARE && space_entry_is_readable(entry))) {
        (void)need(needs, SPACE_LOG_BACK);
    }
    if (is_owned(entry, work) &&
        (!is_owned(entry_before, work_before) || entry->count != entry_before->count)) {
        need_owner(home, entry, was_here, needs);
    }
}

/* ---- a node that caches --------------------------------------------------- */

/* What is here is of the right that the line is of now. */
static void need_copy(const struct space_line *line, bool is_logged, struct space_log_needs *needs)
{
    need(needs, is_logged ? SPACE_LOG_RENEWED : SPACE_LOG_COPY)->epoch = line->epoch;
}

void space_log_of_line(const struct space_cache *cache, const struct space_line *before,
                       const struct space_line *line, const struct space_message *event,
                       bool is_logged, struct space_log_needs *needs)
{
    bool is_new = line->state == SPACE_CACHE_DIRTY &&
                  (event->event == SPACE_CACHE_ADOPT ||
                   (event->event == SPACE_CACHE_OWN && event->seat != cache->home));
    /* As one that has it, not as one that passed it on; the home is to have it, too, before anybody
     * writes: so what no log has here needs none. */
    bool is_again = is_logged && event->event == SPACE_CACHE_RESTORE;

    needs->count = 0;
    if (is_new || is_again) {
        need_copy(line, is_logged, needs);
    } else if (line->state == SPACE_CACHE_HANDED && before->state != SPACE_CACHE_HANDED) {
        struct space_log_record *record;

        if (!is_logged) {
            need(needs, SPACE_LOG_COPY)->epoch = line->epoch;
        }
        record = need(needs, SPACE_LOG_HANDED);
        record->seat = line->handed_to;
        record->epoch = line->epoch;
    } else if (is_logged &&
               (line->state == SPACE_CACHE_INVALID || line->state == SPACE_CACHE_TO_DIRTY)) {
        (void)need(needs, SPACE_LOG_LEFT);
    }
}
