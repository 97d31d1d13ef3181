/* SPDX-License-Identifier: Apache-2.0 */
/* See redis_session.h. */
#include "cluster/redis_session.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"

void redis_session_init(struct redis_session *session, bool has_password, bool has_database)
{
    memset(session, 0, sizeof(*session));
    session->has_password = has_password;
    session->has_database = has_database;
    session->pause_us = REDIS_PAUSE_US;
}

static enum redis_step close_all(struct redis_session *session, uint64_t now_us)
{
    session->lost = false;
    session->begun = false;
    session->step = REDIS_NOTHING;
    session->due_us = clock_deadline_us(now_us, session->pause_us);
    session->pause_us = min_u64(2 * session->pause_us, REDIS_PAUSE_MAX);
    return REDIS_CLOSE;
}

static enum redis_step begin(struct redis_session *session, enum redis_step step, uint64_t now_us)
{
    session->step = step;
    session->begun = true;
    session->due_us = clock_deadline_us(now_us, REDIS_STEP_US);
    return step;
}

static enum redis_step turn_up(struct redis_session *session, uint64_t now_us)
{
    if (now_us >= clock_deadline_us(session->heard_us, REDIS_SILENT_US)) {
        return close_all(session, now_us);
    }
    if (now_us >= session->beat_us) {
        session->beat_us = clock_deadline_us(now_us, REDIS_BEAT_US);
        return REDIS_BEAT;
    }
    return REDIS_NOTHING;
}

enum redis_step redis_session_turn(struct redis_session *session, uint64_t now_us)
{
    if (session->lost) {
        return close_all(session, now_us);
    }
    if (session->step == REDIS_NOTHING) {
        return now_us < session->due_us ? REDIS_NOTHING : begin(session, REDIS_CONNECT, now_us);
    }
    if (session->step == REDIS_UP && session->begun) {
        return turn_up(session, now_us);
    }
    if (session->step == REDIS_UP) {
        session->begun = true;
        session->heard_us = now_us;
        session->beat_us = clock_deadline_us(now_us, REDIS_BEAT_US);
        session->pause_us = REDIS_PAUSE_US;
        return REDIS_UP;
    }
    if (!session->begun) {
        return begin(session, session->step, now_us);
    }
    return now_us < session->due_us ? REDIS_NOTHING : close_all(session, now_us);
}

uint64_t redis_session_due_us(const struct redis_session *session)
{
    if (session->lost || (session->step != REDIS_NOTHING && !session->begun)) {
        return 0;
    }
    if (session->step == REDIS_UP) {
        return min_u64(session->beat_us, clock_deadline_us(session->heard_us, REDIS_SILENT_US));
    }
    return session->due_us;
}

void redis_session_done(struct redis_session *session, uint64_t now_us)
{
    if (session->step == REDIS_NOTHING || session->step == REDIS_UP || !session->begun) {
        return;
    }
    session->heard_us = now_us;
    session->step = (enum redis_step)(session->step + 1);
    if (session->step == REDIS_AUTH && !session->has_password) {
        session->step = REDIS_SELECT;
    }
    if (session->step == REDIS_SELECT && !session->has_database) {
        session->step = REDIS_LOAD;
    }
    session->begun = false;
}

void redis_session_heard(struct redis_session *session, uint64_t now_us)
{
    session->heard_us = now_us;
}

void redis_session_lost(struct redis_session *session)
{
    session->lost = session->lost || session->step != REDIS_NOTHING;
}
