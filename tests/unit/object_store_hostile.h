/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that send anything, driven by bytes: from a generator in the unit test, from the fuzzer
 * in the fuzz target; in half of the lives other nodes do as the bytes say, too. After every run
 * the store's books must be right, every submission ended at most once, no byte under a pin
 * changed, every claim's home told of its end, and what is on disk be readable. Asserts with
 * NIGH_ASSERT.
 */
#ifndef OBJECT_STORE_HOSTILE_H
#define OBJECT_STORE_HOSTILE_H

#include <stddef.h>
#include <stdint.h>

struct hostile;

/* Memory and index are made once and used for every run. */
struct hostile *hostile_create(void);
void hostile_destroy(struct hostile *hostile);

/* What the runs came to, so that a test can tell that they did anything. */
struct hostile_counts {
    uint64_t submissions;
    uint64_t ended_well; /* with NIGH_OK */
    uint64_t seals;
    uint64_t pins;
    uint64_t evictions;
    uint64_t spills;
    uint64_t restarts;
    uint64_t claims;    /* granted */
    uint64_t copies;    /* of other nodes' objects */
    uint64_t read_back; /* from disk, in the end */
};

/* One life of a store: as many steps as the bytes are good for. */
void hostile_run(struct hostile *hostile, const uint8_t *bytes, size_t size_bytes,
                 struct hostile_counts *counts);

#endif
