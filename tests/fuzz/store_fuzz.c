/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target of the object store: bytes become submissions of four sessions, pins, rubbish in
 * shared memory, disk failures, ends of sessions and restarts. What must hold is in the driver
 * (tests/unit/object_store_hostile.c).
 */
#include <stddef.h>
#include <stdint.h>

#include "../unit/object_store_hostile.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    static struct hostile *hostile;
    struct hostile_counts counts = {0};

    if (hostile == NULL) {
        hostile = hostile_create();
    }
    hostile_run(hostile, bytes, size_bytes, &counts);
    return 0;
}
