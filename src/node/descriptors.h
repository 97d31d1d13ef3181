/* SPDX-License-Identifier: Apache-2.0 */
/* How many file descriptors a node needs, and seeing to it that it may have them. */
#ifndef NODE_DESCRIPTORS_H
#define NODE_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/settings.h"

struct descriptors {
    uint64_t own;       /* memory, indexes that are there from the start, lanes */
    uint64_t members;   /* connections of all other nodes, if they have as many lanes as this one,
                           whatever they want for regions */
    uint64_t wishes;    /* more, if they want as many for READs as there can be */
    uint64_t sessions;  /* as many as may come, pools, and what memory that passed on left behind */
    uint64_t strangers; /* places of connections that have not said who they are */
};

void descriptors_count(const struct node_settings *settings, struct descriptors *count);

/*
 * Raises the soft limit of RLIMIT_NOFILE to the hard one (`may_raise`: an embedding program's
 * limits are its own). Too few for the rest is a warning in the log.
 * NIGH_NO_RESOURCES: too few for the node itself and the members of its list; `why` says how many,
 * and what helps.
 */
nigh_status descriptors_provide(const struct node_settings *settings, bool may_raise, char *why,
                                size_t why_bytes);

#endif
