/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric over RDMA verbs: reliable connections, set up by rdma_cm, on one device.
 *
 * libibverbs and librdmacm are not linked: they are opened when a fabric is made, and a machine
 * that has none of them, or no device that would do, is told so in one sentence. docs/verbs.md says
 * what states an endpoint goes through and who may do what in each.
 */
#ifndef FABRIC_VERBS_VERBS_H
#define FABRIC_VERBS_VERBS_H

#include "fabric/fabric.h"

struct verbs_library;

#define VERBS_WHY_BYTES  200
#define VERBS_ADDRESSES  4 /* in one fabric's options, at most */
#define VERBS_NAME_BYTES 64

/* Zero-fill and set. */
struct verbs_options {
    const struct verbs_library *library; /* NULL: the machine's */
    const char *device;                  /* "mlx5_0"; NULL: the one of `address`, or the first */
    const char *address;   /* "10.0.0.1": ours, in which dials start; NULL: any of the device.
                              "10.0.0.1,10.0.1.1": of several devices, the first of which is taken;
                              when one is lost, the next that will do */
    uint32_t keepalive_ms; /* silence after which a peer is probed; 0: 5000 */
    uint64_t piece_bytes;  /* most bytes of one work request; 0: the device's own limit */
    uint32_t vector;       /* of its completion queues, modulo the device's number of them */

    /* How packets travel; bounds are in base/limits.h. docs/tuning.md says what to set when. */
    uint32_t tos;         /* of packets, RoCE and iWARP: DSCP << 2, and ECN; 0: the system's */
    uint32_t ack_timeout; /* the device waits 4.096 us << this; 0: as rdma_cm has it, at most 16 */
    uint32_t retries;     /* of a packet until the connection is lost; 0: 7 */
};

/*
 * NIGH_INVALID: an option is beyond its bounds; `why` says which. NIGH_UNSUPPORTED: there is no
 * library, no device, or none that would do: `why` says which and what is wrong with it, for the
 * log and for `doctor`. NIGH_NO_RESOURCES. options may be NULL.
 */
nigh_status verbs_create(const struct verbs_options *options, char why[VERBS_WHY_BYTES],
                         struct fabric **fabric);

/* The device that a fabric of verbs_create began at, or has now. */
const char *verbs_device_name(const struct fabric *fabric);

#endif
