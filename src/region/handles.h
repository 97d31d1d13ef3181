/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the clients of one session hold of regions: numbers, each with the rights that it was opened
 * for. A number is a place and how often that was used, so one that is forged, closed or another
 * session's is none. What may be done with it is judged again whenever the region has another
 * version.
 *
 * It does not know where regions are, nor what is under way. One lane; memory is the caller's.
 */
#ifndef REGION_HANDLES_H
#define REGION_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "region/descriptor.h"

struct region_handle {
    void *region;                 /* whatever the caller keeps of it; NULL: the place is free */
    struct region_version birth;  /* of the region that was opened */
    struct region_version judged; /* the descriptor by which its rights were judged last */
    uint32_t asked, rights;       /* at its opening; of those, what it has */
    uint32_t uses;                /* of the place */
    uint32_t next_free;           /* number and one */
};

struct region_handles {
    struct region_handle *places;
    uint32_t room, used, free;
    uint32_t uid, gid; /* of the session */
};

/* `room` places, LIMIT_REGION_HANDLES at most. */
void region_handles_init(struct region_handles *handles, struct region_handle *places,
                         uint32_t room, uint32_t uid, uint32_t gid);

/*
 * A number for a region as a descriptor has it. NIGH_DENIED: the session's user has not all of
 * these rights; NIGH_INVALID: there are none such; NIGH_LIMIT: no place is left.
 */
nigh_status region_handles_open(struct region_handles *handles, void *region,
                                const struct region_descriptor *descriptor, uint32_t rights,
                                uint64_t *number);

/* NULL: it is not one that is open. */
struct region_handle *region_handles_find(struct region_handles *handles, uint64_t number);

/* NIGH_INVALID: it is not one that is open. */
nigh_status region_handles_close(struct region_handles *handles, uint64_t number);

/*
 * Whether a handle has all of some rights, by the region's descriptor as it is known now. At the
 * beginning of an operation, and before each part of it is posted. NIGH_DENIED; NIGH_NOT_FOUND: the
 * region that was opened is freed, another has its name, or it is none.
 */
nigh_status region_handles_judge(const struct region_handles *handles, struct region_handle *handle,
                                 const struct region_descriptor *descriptor, uint32_t rights);

#endif
