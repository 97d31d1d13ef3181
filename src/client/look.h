/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds memory (look.c). For libnigh alone. */
#ifndef CLIENT_LOOK_H
#define CLIENT_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/nigh.h"

/* nigh_holders, and the largest object that `lane` could make room for; 0: an older node. */
nigh_status look_holders_and_most(nigh_client *client, uint32_t lane, nigh_holder *holders,
                                  size_t n, size_t *count, uint64_t *most_bytes);

#endif
