/* SPDX-License-Identifier: Apache-2.0 */
/* What others take for the round trip that bench-rpc measures, between the same two cores. */
#ifndef BENCH_RPC_PEERS_H
#define BENCH_RPC_PEERS_H

#include <stdint.h>

/* Programs of others that measure themselves: they start, connect, and bounce messages of `bytes`
 * for `calls` round trips, of which this is the mean, in ns. */
double peer_ucx(const char *transports, uint32_t bytes, uint32_t calls, int here, int there);
double peer_libfabric(uint32_t bytes, uint32_t calls, int here, int there);

/* nng's request and reply over TCP. The server ends with its process. */
void peer_nng_serve(int port);
void peer_nng_open(int port);
void peer_nng_call(uint32_t bytes);

#endif
