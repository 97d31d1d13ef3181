/* SPDX-License-Identifier: Apache-2.0 */
/* See redis_lane.h. */
#include "node/redis_lane.h"

#include <stdlib.h>

#include "base/check.h"

#define REDIS_PUSHES 1024u /* news of a lane that are no answers, at most */
#define REDIS_NEWS   (OUTSIDE_ASKS + REDIS_PUSHES)

bool redis_lane_init(struct redis_lane *lane)
{
    pthread_mutex_init(&lane->lock, NULL);
    lane->asks = calloc(OUTSIDE_ASKS, sizeof(*lane->asks));
    lane->news = calloc(REDIS_NEWS, sizeof(*lane->news));
    return lane->asks != NULL && lane->news != NULL;
}

void redis_lane_fini(struct redis_lane *lane)
{
    pthread_mutex_destroy(&lane->lock);
    free(lane->asks);
    free(lane->news);
}

bool redis_lane_ask(struct redis_lane *lane, const struct outside_ask *ask)
{
    bool taken;

    pthread_mutex_lock(&lane->lock);
    taken = lane->life != 0 && ask->life == lane->life && lane->under_way < OUTSIDE_ASKS;
    if (taken) {
        lane->asks[(lane->ask_head + lane->ask_count++) % OUTSIDE_ASKS] = *ask;
        lane->under_way++;
    }
    pthread_mutex_unlock(&lane->lock);
    return taken;
}

/* With the lock held. */
static void note_waiting(struct redis_lane *lane)
{
    atomic_store(&lane->waiting, lane->news_count + (lane->missed ? 1u : 0u));
}

bool redis_lane_take(struct redis_lane *lane, struct outside_news *news)
{
    bool any = true;

    if (atomic_load_explicit(&lane->waiting, memory_order_acquire) == 0)
        return false;
    pthread_mutex_lock(&lane->lock);
    if (lane->news_count > 0) {
        *news = lane->news[lane->news_head];
        lane->news_head = (lane->news_head + 1) % REDIS_NEWS;
        lane->news_count--;
        if (news->kind == OUTSIDE_ANSWER)
            lane->under_way--;
        else
            lane->pushes--;
    } else {
        any = lane->missed;
        lane->missed = false;
        *news = (struct outside_news){.kind = OUTSIDE_MISSED};
    }
    note_waiting(lane);
    pthread_mutex_unlock(&lane->lock);
    return any;
}

bool redis_lane_has_news(const struct redis_lane *lane)
{
    return atomic_load_explicit(&lane->waiting, memory_order_relaxed) > 0;
}

uint32_t redis_lane_life(const struct redis_lane *lane)
{
    return atomic_load_explicit(&lane->life_now, memory_order_acquire);
}

/* With the lock held. */
static void put_news(struct redis_lane *lane, const struct outside_news *news)
{
    if (news->kind != OUTSIDE_ANSWER && lane->pushes == REDIS_PUSHES) {
        lane->missed = true;
    } else {
        NIGH_ASSERT(lane->news_count < REDIS_NEWS);
        lane->news[(lane->news_head + lane->news_count++) % REDIS_NEWS] = *news;
        lane->pushes += news->kind != OUTSIDE_ANSWER ? 1 : 0;
    }
    note_waiting(lane);
}

void redis_lane_tell(struct redis_lane *lane, const struct outside_news *news)
{
    pthread_mutex_lock(&lane->lock);
    put_news(lane, news);
    pthread_mutex_unlock(&lane->lock);
}

void redis_lane_set_life(struct redis_lane *lane, bool alive)
{
    pthread_mutex_lock(&lane->lock);
    lane->life = alive ? ++lane->lives : 0;
    atomic_store(&lane->life_now, lane->life);
    pthread_mutex_unlock(&lane->lock);
}

/* With the lock held. */
static struct outside_ask pop_ask(struct redis_lane *lane)
{
    struct outside_ask ask = lane->asks[lane->ask_head];

    lane->ask_head = (lane->ask_head + 1) % OUTSIDE_ASKS;
    lane->ask_count--;
    return ask;
}

bool redis_lane_next_ask(struct redis_lane *lane, struct outside_ask *ask)
{
    bool any;

    pthread_mutex_lock(&lane->lock);
    any = lane->ask_count > 0;
    if (any)
        *ask = pop_ask(lane);
    pthread_mutex_unlock(&lane->lock);
    return any;
}

struct outside_news redis_lane_lost(const struct outside_ask *ask)
{
    return (struct outside_news){.kind = OUTSIDE_ANSWER,
                                 .use = ask->use,
                                 .round = ask->round,
                                 .token = ask->token,
                                 .status = NIGH_PEER_LOST};
}

void redis_lane_fail_asks(struct redis_lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    while (lane->ask_count > 0) {
        struct outside_ask ask = pop_ask(lane);
        struct outside_news news = redis_lane_lost(&ask);

        put_news(lane, &news);
    }
    pthread_mutex_unlock(&lane->lock);
}
