/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which records a step of the protocol needs, at a block's home and at a node that has it: what a
 * step says leaves the node once those are durable, and all before them of that block
 * (docs/spaces.md, durability). Writes and atomics themselves are not steps: they are WRITE at the
 * home and COPY or CHANGE elsewhere, before they are applied. Pure.
 */
#ifndef SPACE_LOG_RULES_H
#define SPACE_LOG_RULES_H

#include "space/home.h"
#include "space/log_format.h"

#define SPACE_LOG_STEP_RECORDS 2u

/* In this order. Address, and the bytes of BACK and COPY, all of the block as it is then, are the
 * caller's. */
struct space_log_needs {
    uint32_t count;
    struct space_log_record records[SPACE_LOG_STEP_RECORDS];
};

/*
 * Of a step at the home that took `event`, and was not STALE or REFUSED. `entry` and `work` are as
 * they are behind it, `entry_before` and `work_before` as they were.
 */
void space_log_of_home(const struct space_home *home, const struct space_entry *entry_before,
                       const struct space_work *work_before, const struct space_entry *entry,
                       const struct space_work *work, const struct space_message *event,
                       struct space_log_needs *needs);

/*
 * Of a step at a node that caches it. `is_logged`: the log has a copy of this block, since the line
 * was last INVALID or its copy was given up; COPY makes it so, and LEFT not.
 */
void space_log_of_line(const struct space_cache *cache, const struct space_line *before,
                       const struct space_line *line, const struct space_message *event,
                       bool is_logged, struct space_log_needs *needs);

#endif
