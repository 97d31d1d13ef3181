/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex of pthreads between two processes, of which the other takes it again and again. */
#ifndef BENCH_SPACE_OTHERS_H
#define BENCH_SPACE_OTHERS_H

#include <stdbool.h>

void others_open(void);
/* Whether the other process takes it, too, on core 1. */
void others_contend(bool contends);
void others_lock(void);
void others_unlock(void);
void others_close(void);

#endif
