/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that clients sent and that the node does not take: they are closed, each message's by
 * a thread of their own, as to close one may wait for who serves what is behind it (a file of
 * FUSE), or for long (the last descriptor of much memory). A uid whose descriptors are not closed
 * yet costs itself: while there is no room for more, its are not received (fd.h).
 *
 * One thread; those that close go on, and end, by themselves.
 */
#ifndef NODE_DISPOSALS_H
#define NODE_DISPOSALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

struct disposals;

/* `own_uid` is bounded by the whole alone, as root is. NIGH_NO_RESOURCES. */
nigh_status disposals_create(uint32_t own_uid, struct disposals **disposals);

/* Waits for nobody. NULL is allowed. */
void disposals_destroy(struct disposals *disposals);

/* Whether one more message's may be taken over from this uid. */
bool disposals_has_room(struct disposals *disposals, uint32_t uid);

/* Takes over `count` descriptors, LIMIT_DISPOSAL_FDS at most, where there is room. */
void disposals_close(struct disposals *disposals, uint32_t uid, const int *fds, size_t count);

#endif
