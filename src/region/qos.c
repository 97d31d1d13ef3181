/* SPDX-License-Identifier: Apache-2.0 */
/* See qos.h. */
#include "region/qos.h"

#include "base/check.h"

#define SECOND_US UINT64_C(1000000)

void qos_init(struct qos *qos, enum qos_policy policy, uint64_t now_us)
{
    *qos = (struct qos){.policy = policy, .period_us = now_us, .looked_us = now_us};
}

void qos_window_init(struct qos_window *window, uint64_t most_bytes)
{
    *window = (struct qos_window){.most_bytes = most_bytes, .best_us = {UINT64_MAX, UINT64_MAX}};
}

/* ---- the three policies --------------------------------------------------- */

static void limit(struct qos *qos, uint64_t per_second)
{
    uint64_t free_ns = qos->is_limited ? qos->low.free_ns : 0;

    rate_init(&qos->low, max_u64(per_second, LIMIT_QOS_LOW_LEAST), LIMIT_QOS_PERIOD_US);
    qos->low.free_ns = free_ns; /* what was had too early is not forgotten */
    qos->is_limited = true;
}

/* By what a period of `past_us` was like. */
static void decide(struct qos *qos, uint64_t past_us)
{
    uint64_t load = qos->high_us * LIMIT_QOS_LOAD_UNIT / past_us;
    bool is_late = 2 * qos->answers_late > qos->answers;
    uint64_t had = qos->low_bytes * SECOND_US / past_us;

    if (load < LIMIT_QOS_LOAD_LIGHT) {
        qos->is_limited = false;
    } else if (load >= LIMIT_QOS_LOAD_HIGH || is_late) {
        limit(qos, (qos->is_limited ? qos->low.per_second : had) / 2);
    } else if (qos->is_limited && qos->low.per_second >= LIMIT_QOS_LOW_MOST) {
        qos->is_limited = false;
    } else if (qos->is_limited) {
        limit(qos, qos->low.per_second + qos->low.per_second / 4);
    }
}

/* Time goes on. */
static void look(struct qos *qos, uint64_t now_us)
{
    uint64_t past_us = now_us - qos->period_us;

    qos->high_us += qos->high_under_way * (now_us - qos->looked_us);
    qos->looked_us = now_us;
    if (qos->policy != QOS_SOFTWARE || past_us < LIMIT_QOS_PERIOD_US)
        return;
    decide(qos, past_us);
    qos->period_us = now_us;
    qos->high_us = qos->low_bytes = 0;
    qos->answers = qos->answers_late = 0;
}

/* ---- what is next --------------------------------------------------------- */

bool qos_may_low(struct qos *qos, uint64_t now_us)
{
    look(qos, now_us);
    return !qos->is_limited || rate_may(&qos->low, now_us);
}

enum qos_class qos_next(struct qos *qos, const struct qos_window *window, bool high_waits,
                        bool low_waits, uint64_t now_us)
{
    bool low_may = low_waits && (qos == NULL || qos_may_low(qos, now_us));

    if (high_waits && !(low_may && window->run_bytes >= LIMIT_QOS_RUN))
        return QOS_HIGH;
    return low_may ? QOS_LOW : QOS_CLASSES;
}

/* ---- what goes, and comes back -------------------------------------------- */

void qos_posted(struct qos *qos, struct qos_window *window, enum qos_class class, uint64_t charge,
                uint64_t now_us)
{
    window->under_way_bytes += charge;
    window->run_bytes = class == QOS_LOW ? 0 : window->run_bytes + charge;
    if (qos == NULL)
        return;
    look(qos, now_us);
    if (class == QOS_HIGH) {
        qos->high_under_way++;
        return;
    }
    qos->low_bytes += charge;
    if (qos->is_limited)
        rate_take(&qos->low, charge, now_us);
}

void qos_ended(struct qos *qos, struct qos_window *window, enum qos_class class, uint64_t charge,
               uint64_t now_us)
{
    NIGH_ASSERT(window->under_way_bytes >= charge);
    window->under_way_bytes -= charge;
    look(qos, now_us);
    if (class == QOS_HIGH) {
        NIGH_ASSERT(qos->high_under_way > 0);
        qos->high_under_way--;
    }
}

void qos_answered(struct qos *qos, struct qos_window *window, uint64_t took_us, uint64_t now_us)
{
    uint64_t best_us;

    if (now_us - window->best_since_us >= LIMIT_QOS_BEST_US) {
        window->best_us[1] = window->best_us[0]; /* the way may have become longer for good */
        window->best_us[0] = UINT64_MAX;
        window->best_since_us = now_us;
    }
    window->best_us[0] = min_u64(window->best_us[0], took_us);
    best_us = min_u64(window->best_us[0], window->best_us[1]);
    qos->answers++;
    qos->answers_late += took_us > 2 * best_us + LIMIT_QOS_LATE_US;
}
