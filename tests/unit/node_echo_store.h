/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that only echoes: it completes every submission at once and keeps nothing. For tests of
 * what stands in front of the store; linked in place of the real one.
 */
#ifndef TESTS_NODE_ECHO_STORE_H
#define TESTS_NODE_ECHO_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "object/store.h"

struct store {
    struct store_config config;
    uint32_t submitted[LIMIT_SESSIONS];
    _Atomic uint64_t ticks;
    _Atomic uint64_t due_us;
    bool hold; /* keep submissions without completing them */
    struct session_sqe last;
    uint32_t pools_to_fail; /* so many store_pool_add fail from now on */
    uint64_t pools;         /* a bit for each that was added */
};

#endif
