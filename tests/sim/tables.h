/* SPDX-License-Identifier: Apache-2.0 */
/* Large tables of many worlds, one after the other (tables.c). */
#ifndef TESTS_SIM_TABLES_H
#define TESTS_SIM_TABLES_H

#include <stdbool.h>

#define TABLES_ANEW 16u /* every so many seeds the tables are the machine's, and unmapped */

/* Whether those that are made from now on are kept for others when they are given back. */
void tables_keep(bool keep);

#endif
