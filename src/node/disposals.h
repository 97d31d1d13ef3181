/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that clients sent and that the node does not take: they are closed, each by a thread
 * of its own, as to close one may wait for who serves what is behind it (a file of FUSE), or for
 * long (the last descriptor of much memory). A uid whose descriptors are not closed yet costs
 * itself: while there is no room for more, its wait, and when enough do none is received (fd.h).
 *
 * One thread; those that close go on, and end, by themselves.
 */
#ifndef NODE_DISPOSALS_H
#define NODE_DISPOSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"

struct disposals;

/* `own_uid` is bounded by the whole alone, as root is. NIGH_NO_RESOURCES. */
nigh_status disposals_create(uint32_t own_uid, struct disposals **disposals);

/* Waits for nobody: what no thread can be had for is left open. NULL is allowed. */
void disposals_destroy(struct disposals *disposals);

/* Whether one more of this uid would be closed now; and whether it may be taken over at all. */
bool disposals_has_room(const struct disposals *disposals, uint32_t uid);
bool disposals_has_place(const struct disposals *disposals, uint32_t uid);

/* Takes over a descriptor for which there is a place. -1 is allowed. */
void disposals_close(struct disposals *disposals, uint32_t uid, int fd);

/* What waits is closed as far as there is room. True: some waits still. */
bool disposals_turn(struct disposals *disposals);

#endif
