/* SPDX-License-Identifier: Apache-2.0 */
/* What puts and creates want, and how it is had (put.c); how many nodes are to hold it
 * (replicate.c). For libnigh alone. */
#ifndef CLIENT_PUT_H
#define CLIENT_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/op.h"
#include "nigh/nigh.h"

/* Copies above this may put the lane to sleep, and are not made under the lock. */
#define PUT_LARGE_BYTES (UINT64_C(256) << 10)

/* What a create wants, checked. */
struct put_wish {
    nigh_id id;
    uint64_t data_size;
    uint64_t bytes; /* in memory */
    const void *meta;
    const char *name;
    uint32_t meta_size;
    uint16_t name_size;
    uint8_t flags;    /* NIGH_CREATE_*, but: */
    uint8_t replicas; /* nodes that are to hold it; 0: nobody says */
    uint32_t lane;
    uint64_t timeout_us;
};

/* Checks and reads what the caller wants: NIGH_INVALID, NIGH_DENIED, from the arguments alone. */
nigh_status put_read_wish(nigh_client *client, const nigh_id *id, uint64_t data_size,
                          const nigh_create_options *options, struct put_wish *wish);
/* The same, after client_check. */
nigh_status put_check(nigh_client *client, const nigh_id *id, uint64_t data_size,
                      const nigh_create_options *options, struct put_wish *wish);
void put_fill_create(const struct put_wish *wish, uint64_t timeout_us, struct session_sqe *sqe);
/* A SEAL of what a wish describes; `ref` of a created object, build_ns since a leased one was.
 * Locked, because it may ask for the next lease. */
void put_fill_seal(nigh_client *client, const struct put_wish *wish, uint64_t offset, uint64_t ref,
                   bool leased, uint64_t build_ns, struct session_sqe *sqe);
/* Copies the data. Not locked. */
void put_copy(nigh_client *client, uint32_t lane, uint8_t *to, const void *from,
              uint64_t size_bytes);
/* Copies metadata and name behind the data. */
void put_copy_tail(const struct put_wish *wish, uint8_t *data);
/* Memory of a wish: *offset, and leased or *ref. Waits; not locked. */
bool put_cut(nigh_client *client, const struct put_wish *wish, bool may_ask, uint64_t *offset);
nigh_status put_find_memory(nigh_client *client, const struct put_wish *wish, uint64_t *offset,
                            uint64_t *ref, bool *leased);
uint64_t put_now_ns(void);
/* One SEAL, as put_fill_seal made it. */
extern const struct op_kind seal_kind; /* u.one.extra: replicas, waited for to the op's deadline */

/* ---- replicate.c ---------------------------------------------------------- */

/* What follows a seal where several nodes are to hold the object. */
void replicate_fill(const nigh_id *id, uint32_t copies, uint64_t timeout_us,
                    struct session_sqe *sqe);
/* How long a put waits for that which waits so long for memory. */
uint64_t replicate_timeout_us(uint64_t timeout_us);
/* What a put ends with whose replicas ended so: a timeout of these is not one of the put. */
static inline nigh_status replicate_of_put(nigh_status status)
{
    return status == NIGH_TIMEOUT ? NIGH_TOO_FEW : status;
}

/* Leaves the sentence of what it ended with. */
nigh_status replicate_tell(nigh_client *client, nigh_status status, uint32_t copies, uint64_t made);
/* A seal after which so many nodes are to hold the object. */
void seal_replicates(struct client_op *op, const struct put_wish *wish);
/* The end of an op of seal_kind. */
nigh_status seal_told(const struct client_op *op, nigh_status status);

#endif
