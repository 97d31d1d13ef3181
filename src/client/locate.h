/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a set of objects each node holds: for nigh_locate, and for calls that go where most
 * of it is. */
#ifndef CLIENT_LOCATE_H
#define CLIENT_LOCATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/session.h"
#include "nigh/nigh.h"

#define LOCATE_AT_ONCE 32u /* questions of one op under way */

struct locality {
    uint64_t bytes[LIMIT_NODES];
    uint64_t objects[LIMIT_NODES];
    size_t found; /* ids that some node holds */
    uint32_t self;
    bool is_old; /* the node says no sizes */
};

/* What one WHERE has said. */
void locality_take(struct locality *locality, const struct session_cqe *cqe);

/* The nodes that hold something, best first: up to `capacity` of them; how many there are. */
size_t locality_rank(const struct locality *locality, nigh_location *places, size_t capacity);

/* The question about one id. */
void locality_ask(const nigh_id *id, struct session_sqe *sqe);

#endif
