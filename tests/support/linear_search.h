/* SPDX-License-Identifier: Apache-2.0 */
/* The search of linear.h, in one word's operations, which are sorted by their beginning. */
#ifndef TESTS_LINEAR_SEARCH_H
#define TESTS_LINEAR_SEARCH_H

#include "support/linear.h"

/* *stuck: see there; NULL where the word is fine. */
struct linear_result linear_search(const struct linear_op **ops, size_t count, linear_model model,
                                   uint64_t initial, uint64_t budget_steps,
                                   const struct linear_op **stuck);

#endif
