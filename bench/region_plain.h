/* SPDX-License-Identifier: Apache-2.0 */
/* A plain connection over the loopback: a request of 64 bytes says how many come back. Each side
 * spins, or sleeps in the kernel until something comes. */
#ifndef BENCH_REGION_PLAIN_H
#define BENCH_REGION_PLAIN_H

#include <stdint.h>
#include <sys/types.h>

#define PLAIN_BYTES    64      /* of a request */
#define PLAIN_SPIN_US  2000    /* who spins and hears nothing sleeps after this */
#define PLAIN_YIELD_US 50      /* who yields does so often */
#define PLAIN_MOST     1048576 /* bytes of a piece that the server sends */
#define PLAIN_STEP     131072 /* most that is taken at once: as nodes do, it stays in near caches */

/* How a side waits. */
enum plain_way {
    PLAIN_SPINS,
    PLAIN_YIELDS, /* spins, and offers its core to others now and then, as lanes of nodes do */
    PLAIN_SLEEPS
};

struct plain {
    enum plain_way way;
    int fd;
    pid_t pid; /* of the server */
};

/* How this side waits, and how the server does, on its core. */
void plain_open(struct plain *plain, enum plain_way way, enum plain_way server_way, int core);
/* As many bytes come; then they are taken, at once or in pieces. */
void plain_ask(const struct plain *plain, uint64_t count);
void plain_take(const struct plain *plain, void *bytes, uint64_t count);
void plain_close(struct plain *plain);

#endif
