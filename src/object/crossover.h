/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crossover of one link and direction: the size from which on it is faster to read an object
 * from its holder's memory than to have it sent.
 *
 * Learnt from transfers that are made anyway, and from probes when a link comes up. For each path
 * the times of recent transfers are kept by class of size (powers of two). Through the medians of
 * neighbouring classes go lines, a + b * bytes: what the path costs around there. The crossover
 * lies between the two classes where sending below and reading above costs least, and there where
 * the lines cross. It moves only as far as sizes were seen on both paths: what was never measured
 * keeps the answer of before. Some transfers take the other path, so that both stay measured: often
 * at first, then a bounded share. Those near the crossover, and, farther away, those of the next
 * class that lately took one path alone: who moves objects of one size only learns of them, too.
 *
 * What is taken often and what is taken now and then are seen over like spans of time: else a bad
 * moment fills the window of the one, which then leaves, and takes long to be seen again.
 *
 * Pure: no clock, no random. One thread.
 */
#ifndef OBJECT_CROSSOVER_H
#define OBJECT_CROSSOVER_H

#include <stdbool.h>
#include <stdint.h>

#define CROSSOVER_FIRST_BYTES UINT64_C(32768) /* until measured */
#define CROSSOVER_NONE        UINT64_MAX      /* it is never faster to read */
#define CROSSOVER_CLASSES     14u             /* from 4 KiB: class 0 ends below 8 KiB, ... */
#define CROSSOVER_WINDOW      15u             /* transfers of one class and path that count */
#define CROSSOVER_SPREAD      8u              /* a full window takes in one transfer in so many */
#define CROSSOVER_ENOUGH      7u              /* so many say something */
#define CROSSOVER_PROBE       32u             /* one transfer in so many looks at the other path */
#define CROSSOVER_PROBE_FIRST 4u              /* while too little is known */
#define CROSSOVER_PROBE_REACH 4u              /* sizes within this factor of it are near */

enum crossover_path {
    CROSSOVER_TWO_SIDED = 0,
    CROSSOVER_ONE_SIDED = 1,
    CROSSOVER_PATHS
};

/* Recent transfers of one class of sizes on one path. */
struct crossover_class {
    uint32_t took_us[CROSSOVER_WINDOW];
    uint32_t kib[CROSSOVER_WINDOW]; /* their sizes, rounded up */
    uint32_t count;                 /* of them: up to CROSSOVER_WINDOW */
    uint32_t next;
    uint64_t noted; /* when the last was: a count of transfers */
    uint64_t taken; /* when the last was taken into the window */
};

struct crossover {
    uint64_t least_bytes; /* it is never lower */
    uint64_t bytes;
    uint64_t asked;
    uint64_t noted;
    bool settled; /* both paths are measured near it */
    struct crossover_class classes[CROSSOVER_PATHS][CROSSOVER_CLASSES];
};

void crossover_init(struct crossover *crossover, uint64_t least_bytes);

/* From which size on the next transfer should be read: the crossover, or, to look at the other
 * path, something near it. */
uint64_t crossover_next(struct crossover *crossover);

/* The crossover as it is known; CROSSOVER_NONE. */
uint64_t crossover_bytes(const struct crossover *crossover);

/* A transfer of so many bytes took so long, from the first message to the last byte. */
void crossover_note(struct crossover *crossover, enum crossover_path path, uint64_t bytes,
                    uint64_t took_us);

/* Whether any size was measured on both paths: else the answer is the one of the beginning. */
bool crossover_is_known(const struct crossover *crossover);

/* What is known of a class of sizes on a path: medians of size and time, of so many transfers. 0:
 * too few, or too long ago; nothing is written. */
uint32_t crossover_point(const struct crossover *crossover, enum crossover_path path,
                         uint32_t number, uint32_t *kib, uint32_t *took_us);

/* Forgets what was noted, but not the answer: it is to be measured anew. */
void crossover_forget(struct crossover *crossover);

bool crossover_is_valid(const struct crossover *crossover);

#endif
