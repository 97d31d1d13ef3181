/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often what is read is in a space's cache: the frames and hints that nodes have, against exact
 * LRU of as many frames that hears of every read, over traces of a seed.
 */
#ifndef BENCH_SPACE_HITS_H
#define BENCH_SPACE_HITS_H

#include <stdint.h>

enum hits_kind {
    HITS_GAM,  /* any block, all alike; with probability `space` another place of the last block,
                  with  `time` the same place again (GAM's benchmark, Cai et al., VLDB 2018) */
    HITS_ZIPF, /* Zipf's law of 0.99 */
    HITS_SCAN, /* the same, and one read in three is of a walk over all blocks */
    HITS_LOOP, /* all blocks one after the other, again and again */
    HITS_SPAN  /* the same of as many blocks as there are frames, or `cached` percent of that */
};

struct hits_trace {
    const char *name;
    enum hits_kind kind;
    uint32_t space, time; /* percent */
    uint32_t cached;      /* frames, in percent of the blocks */
};

struct hits_result {
    double ours, lru; /* of all reads behind a first pass */
};

/* Of every thread's reads a hint is left, of which a ring keeps the last; threads take turns at
 * random. Exits where there is no memory. */
void hits_replay(const struct hits_trace *trace, struct hits_result *result);

#endif
