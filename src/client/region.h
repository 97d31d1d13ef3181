/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: what region.c (handles), region_change.c, region_io.c (bytes) and region_map.c share.
 * For libnigh alone. */
#ifndef CLIENT_REGION_H
#define CLIENT_REGION_H

#include "client/client_internal.h"
#include "client/op.h"

/* All that NIGH_LOCK_LOST may come of: a node does not say which it was. */
#define REGION_LOCK_LOST_TEXT                                                                    \
    "the lock is lost: its term was over, as others had asked for it, or the region was freed, " \
    "or the node taken for dead"

struct nigh_region {
    nigh_client *client;
    struct list_node place; /* in client->regions, or ->closing */
    uint64_t number;
    uint32_t connection; /* that it was opened over */
    bool holds_lock;     /* or did: nigh_region_lock gave it */
    struct list ranges;  /* that are mapped (region_map.c); under the client's lock */
};

/* A question, so far without bytes; `region` NULL: of none that is open. */
void region_init(struct client_op *op, nigh_client *client, nigh_region *region,
                 enum session_region_what what, uint64_t timeout_us);

/* Whether a handle is good still, as far as is known here; says why not. */
nigh_status region_check(nigh_region *region, const char *call);

/* Whether there is an op for what is to be started; says why not. */
nigh_status region_check_op(nigh_region *region, const nigh_op *op, const char *call);

/* Whether one of this name can be, and be opened by this client; says why not. */
nigh_status region_check_open(nigh_client *client, const char *name, const void *out,
                              const char *call);

/* Opens one, with rights that there are. */
nigh_status region_open_named(nigh_client *client, const char *name, uint32_t access,
                              uint64_t timeout_us, nigh_region **out);

/* What a newer program asks for is not passed over: says why not. */
nigh_status region_check_spec(nigh_client *client, const nigh_region_spec *spec, const char *call);

/* Bits beyond it mean something else to the node. */
nigh_status region_check_where(nigh_client *client, nigh_region_where where, const char *call);

/* The question of an op is its own from here on: it is asked when there is room for it. */
void region_ask(struct client_op *op, const void *question, uint32_t count);

/* The op, an OPEN or a LOCK, is to open one: *handle, if it ends well. NIGH_NO_RESOURCES: there is
 * no memory, and it has ended with that. */
nigh_status region_opens(struct client_op *op, nigh_region **handle);

/* An op that closes one, which is nobody's from here on and freed with its end; or at once, where
 * there is nothing to be asked: then the op has ended with the status that is returned. */
nigh_status region_put_init(struct client_op *op, nigh_region *region);
/* The same to its end: how the node answered. */
nigh_status region_put(nigh_region *region);

/* Why an operation or a change has failed. */
nigh_status region_explain(const struct client_op *op, nigh_status status);

/* Runs a question to its end, and explains it. */
nigh_status region_run(struct client_op *op);

/* What is mapped of it is so no more. */
void region_unmap_all(nigh_region *region, bool is_child);

/* Tells the node of those whose op was given up before there was room for it. Locked. */
void regions_close_more(nigh_client *client);

/* The client has ended: so do its handles. */
void regions_end(nigh_client *client);

#endif
