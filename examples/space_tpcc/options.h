/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the command line. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdint.h>

#include "store.h"

enum {
    NODES_MAX = 16
};

struct options {
    uint32_t warehouses, items, customers, workers;
    uint64_t transactions; /* of each worker */
    uint64_t lock_us, seed;
    enum death death; /* of the first worker, half-way */
    int json;
    const char *sockets[NODES_MAX];
    uint32_t nodes;
};

extern struct options options;

/* Ends the process where it is only asked for help, or where they cannot be. */
void options_take(int argc, char **argv);

#endif
