/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the crash tests share: objects whose every byte follows from their id, so that any process
 * can tell whether what it reads is right; clients; and the node's accounting.
 *
 * Functions return false, or a status, instead of failing the test, unless they say so: children
 * use them too.
 */
#ifndef TESTS_CRASH_WORLD_H
#define TESTS_CRASH_WORLD_H

#include "nigh/nigh.h"
#include "support/node_fixture.h"
#include "support/support.h"

#define CRASH_META_BYTES 24u

/* The id of object `serial` of a kind; its size stands in the id. */
nigh_id crash_id(uint32_t kind, uint64_t serial, uint32_t size_bytes);
uint32_t crash_size(const nigh_id *id);

/* Options of a create of it: its metadata lies in `meta`. */
void crash_options(const nigh_id *id, uint32_t flags, uint8_t meta[CRASH_META_BYTES],
                   nigh_create_options *options);

/* Writes its bytes, or the first `size_bytes` of them. */
void crash_fill(const nigh_id *id, void *data, uint64_t size_bytes);

/* Whether a view shows it, whole: sizes, bytes, metadata. */
bool crash_is_right(const nigh_id *id, const nigh_view *view);

/* Puts it, by nigh_put. */
nigh_status crash_put(nigh_client *client, const nigh_id *id, uint32_t flags);

/* Gets it, looks at every byte, releases it. NIGH_CORRUPT: wrong bytes. */
nigh_status crash_check(nigh_client *client, const nigh_id *id, uint64_t timeout_us);

/* Opens a client of the node; spin_us as in nigh_client_options. NULL after printing why. */
nigh_client *crash_open(const struct node_fixture *node, const char *name, uint32_t spin_us);

/* Whether the node's accounting is `was` again in all that a dead session may have changed;
 * `memory`: used bytes and objects too. */
bool crash_settled(nigh_client *client, const nigh_node_stats *was, bool memory);

/* Deletes all objects of the client's pool; fails the test when somebody holds one. */
void crash_delete_all(nigh_client *client);

/* Prints what differs. */
void crash_print_difference(nigh_client *client, const nigh_node_stats *was);

#endif
