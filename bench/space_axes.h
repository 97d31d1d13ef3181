/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GAM's micro-benchmark (Cai et al., PVLDB 11(11), section 6.1) on nodes of a space: each reads and
 * writes words, of which so many lie at another node's home, so many are of what all nodes use, so
 * many are read, and so many lie where the last one does.
 */
#ifndef BENCH_SPACE_AXES_H
#define BENCH_SPACE_AXES_H

#include "space_nodes.h"

/* Of a home: half is everybody's, and of the other half each node has a part. */
#define AXES_PART_BLOCKS 1024u
#define AXES_HOME_BLOCKS ((SPACE_NODES_MOST + SPACE_NODES_MOST) * AXES_PART_BLOCKS)

enum axis {
    AXIS_REMOTE, /* another node's home */
    AXIS_SHARED, /* used by all nodes */
    AXIS_READS,  /* the others are writes */
    AXIS_SPACE,  /* another word of the last block */
    AXIS_TIME,   /* the last word again */
    AXES
};

struct axes {
    uint32_t nodes;
    uint32_t percent[AXES];
};

struct axes_result {
    double ops_s; /* of all nodes together */
    double hits;  /* of the first node's reads of others' homes and its own: nobody was asked */
};

/* Once, for as many nodes as there are: homes[rank] is for axes_run. */
void axes_prepare(struct space_nodes *nodes, uint32_t space, nigh_space_address *homes);

/* For about so long, on the first axes->nodes nodes. */
void axes_run(struct space_nodes *nodes, uint32_t space, const nigh_space_address *homes,
              const struct axes *axes, uint32_t milliseconds, struct axes_result *result);

/* The first node alone reads of the second's home: how much of it is found here, and of how much
 * exact LRU of `frames` blocks would have been, of the same trace. */
struct axes_hits {
    double ours, lru;
};

void axes_replay(struct space_nodes *nodes, uint32_t space, nigh_space_address area,
                 uint32_t blocks, uint32_t frames, const struct axes *axes,
                 struct axes_hits *result);

#endif
