/* SPDX-License-Identifier: Apache-2.0 */
/* The words for how objects travel (nigh_transfer): those of nighd --transfer, and of benchmarks.
 */
#ifndef NODE_TRANSFER_NAMES_H
#define NODE_TRANSFER_NAMES_H

#include "nigh/node.h"

/* By their numbers. */
static const char *const transfer_names[] = {
    [NIGH_TRANSFER_AUTO] = "auto",           [NIGH_TRANSFER_TWO_SIDED] = "two-sided",
    [NIGH_TRANSFER_ONE_SIDED] = "one-sided", [NIGH_TRANSFER_PUSH] = "push",
    [NIGH_TRANSFER_REGISTER] = "register",
};

#define TRANSFER_NAMES      (sizeof(transfer_names) / sizeof(transfer_names[0]))
#define TRANSFER_NAMES_TEXT "auto, two-sided, one-sided, push or register" /* for people */

_Static_assert(TRANSFER_NAMES == NIGH_TRANSFER_REGISTER + 1, "each has a word");

#endif
