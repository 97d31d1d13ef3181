/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects of a lane are used most of late: an estimate, for who looks on (docs/page.md), and
 * for nothing that is decided.
 *
 * A table by hash, a majority vote in each place (Boyer and Moore): a use of the one that stands
 * there counts up, one of another counts down, and who comes to a place at zero has it. Counts are
 * halved now and then, so that what was used long ago goes. Constant time, no memory but its own;
 * who is used much is found, unless one that is used more has its place.
 *
 * Pure: no clock. One thread.
 */
#ifndef OBJECT_HEAT_H
#define OBJECT_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#define HEAT_PLACES   512u
#define HEAT_HALF_US  UINT64_C(10000000)
#define HEAT_WATCH_US UINT64_C(30000000) /* nobody has looked for so long: nothing is counted */

/* An object: its pool, its entry there, and which life of that. */
struct heat_key {
    uint32_t pool;
    uint32_t entry;
    uint64_t generation;
};

struct heat_place {
    struct heat_key key;
    uint64_t uses; /* 0: nobody's */
};

struct heat {
    uint64_t looked_us; /* 0: nobody has looked */
    uint64_t halved_us;
    uint64_t seen; /* uses of all, halved as the others are */
    struct heat_place places[HEAT_PLACES];
};

/* Somebody looks: from here on uses are counted. After a pause it begins anew. */
void heat_look(struct heat *heat, uint64_t now_us);

/* Whether somebody does. */
bool heat_is_watched(const struct heat *heat, uint64_t now_us);

/* An object was used. */
void heat_note(struct heat *heat, const struct heat_key *key);

/* Those used most, most first; how many they are. */
uint32_t heat_top(const struct heat *heat, struct heat_place *top, uint32_t capacity);

#endif
