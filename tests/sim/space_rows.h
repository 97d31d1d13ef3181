/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows of the protocol's tables engines have stepped into: pairs of a state and an event, of
 * a home and of a cache. The steps are wrapped where the program is linked.
 */
#ifndef TESTS_SIM_SPACE_ROWS_H
#define TESTS_SIM_SPACE_ROWS_H

#include <stdint.h>

/* Rows that there are, and of these what was stepped into since the program began. */
struct space_rows {
    uint32_t rows, seen;
};

void space_rows_count(struct space_rows *home, struct space_rows *cache);

/* Names those that nobody stepped into, as comments of TAP. */
void space_rows_print(void);

#endif
