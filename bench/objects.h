/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of the object benchmark; each writes its rows. The client measures on core 0. */
#ifndef BENCH_OBJECTS_H
#define BENCH_OBJECTS_H

#include "harness.h"

#define BENCH_CLIENT_CORE 0
#define BENCH_LANE_CORE   1
#define BENCH_SPIN_US     50

void objects_floor(void);     /* shared-memory ping-pong: what two cores can do at best */
void objects_get(void);       /* get + release against Redis GET; from 1 KiB to 1 GiB */
void objects_put(void);       /* put against Redis SET and memcpy; spinning and sleeping lanes */
void objects_put_large(void); /* its part of 4 MiB; the caller is on the client's core */
void objects_index(void);     /* ten million objects */
void objects_many(void);      /* 256 idle sessions; 100 sessions that pin while eviction runs */

#endif
