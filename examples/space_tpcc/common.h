/* SPDX-License-Identifier: Apache-2.0 */
/* What all of it needs: a clock, and an end with words. */
#ifndef COMMON_H
#define COMMON_H

#include <stdint.h>

double now_s(void);
int64_t today_us(void);

/* Says so, and ends the process with status 1. */
_Noreturn void fail(const char *what, const char *why);

/* Zeroed; fails where there is none. */
void *memory_of(uint64_t bytes);

#endif
