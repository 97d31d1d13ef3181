/* SPDX-License-Identifier: Apache-2.0 */
/* A private Redis for the benchmark programs that compare with it. */
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define START_NS                                                                    \
    UINT64_C(60000000000) /* an emulated processor on a busy machine takes its time \
                           */

static void redis_start(struct bench_redis *redis, const char *address, int core)
{
    char port[16];
    const char *arguments[] = {"redis-server",
                               "--port",
                               port,
                               "--bind",
                               address,
                               "--protected-mode",
                               "no",
                               "--unixsocket",
                               redis->socket_path,
                               "--save",
                               "",
                               "--appendonly",
                               "no",
                               "--dir",
                               redis->directory,
                               NULL};
    uint64_t deadline = bench_now_ns() + START_NS;

    snprintf(port, sizeof port, "%d", redis->port);
    strcpy(redis->directory, "/tmp/nigh-redis-XXXXXX");
    if (mkdtemp(redis->directory) == NULL) {
        bench_fail("cannot make a temporary directory");
    }
    snprintf(redis->socket_path, sizeof redis->socket_path, "%s/redis.sock", redis->directory);
    redis->pid = bench_spawn(arguments, core);
    for (;;) {
        redisContext *context = redisConnectUnix(redis->socket_path);
        bool up = context != NULL && context->err == 0;

        redisFree(context);
        if (up) {
            return;
        }
        if (bench_now_ns() > deadline) {
            bench_fail("redis-server did not start");
        }
        poll(NULL, 0, 10);
    }
}

void bench_redis_start(struct bench_redis *redis, int core)
{
    redis->port = 0;
    redis_start(redis, "127.0.0.1", core);
}

void bench_redis_start_tcp(struct bench_redis *redis, const char *address, int core)
{
    redis->port = bench_free_port();
    redis_start(redis, address, core);
}

void bench_redis_stop(struct bench_redis *redis)
{
    bench_stop(redis->pid, redis->directory);
}
