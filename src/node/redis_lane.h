/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands between a lane and the thread that talks with a Redis server: the lane's questions,
 * and the news for it. The lane asks and takes, the thread does the rest; neither waits for the
 * other longer than a lock is held.
 */
#ifndef NODE_REDIS_LANE_H
#define NODE_REDIS_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/outside.h"

struct redis_lane {
    pthread_mutex_t lock;
    struct outside_ask *asks; /* rings */
    struct outside_news *news;
    uint32_t ask_head, ask_count;
    uint32_t news_head, news_count;
    uint32_t under_way; /* asked, and the answer not taken */
    uint32_t pushes;
    bool missed;
    uint32_t lives;
    uint32_t life;             /* 0: not reached */
    _Atomic uint32_t life_now; /* the same, for a look */
    _Atomic uint32_t waiting;  /* there are news, for a look */
};

/* Of one that is zeroed. False: no memory; it is to be ended all the same. */
bool redis_lane_init(struct redis_lane *lane);
void redis_lane_fini(struct redis_lane *lane);

/* As struct outside has them; whether a question was taken. */
bool redis_lane_ask(struct redis_lane *lane, const struct outside_ask *ask);
bool redis_lane_take(struct redis_lane *lane, struct outside_news *news);
bool redis_lane_has_news(const struct redis_lane *lane);
uint32_t redis_lane_life(const struct redis_lane *lane);

/* News, of which those that are no answers may be lost, which is told then. */
void redis_lane_tell(struct redis_lane *lane, const struct outside_news *news);
/* Its life begins or ends. */
void redis_lane_set_life(struct redis_lane *lane, bool alive);
/* The next question; false: there is none. */
bool redis_lane_next_ask(struct redis_lane *lane, struct outside_ask *ask);
/* What was asked and not sent is answered. */
void redis_lane_fail_asks(struct redis_lane *lane);
/* The answer to what is not answered. */
struct outside_news redis_lane_lost(const struct outside_ask *ask);

#endif
