/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node as nighd starts it: nigh/node.h, and what only a daemon needs besides.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nigh/node.h"
#include "node/keeper.h"
#include "node/settings.h"

#define NODE_WHY_BYTES 512 /* why a node did not start: one sentence with a remedy */

/*
 * Starts a node with settings that settings_resolve has checked. With a keeper (NULL: none; it
 * outlives the node) what a former node left is taken over, and what this one must leave is stored.
 * On failure nothing is left, and `why` says what is wrong. NIGH_BUSY: another node is on the
 * socket. NIGH_OUT_OF_MEMORY, NIGH_DENIED, NIGH_NOT_FOUND (the socket's directory),
 * NIGH_NO_RESOURCES, NIGH_INVALID; NIGH_VERSION: what a former node left has another format, and is
 * left alone.
 */
nigh_status node_start(const struct node_settings *settings, struct keeper *keeper,
                       nigh_node **node, char *why, size_t why_bytes);

/* Whether the node was struck off its cluster (settings.on_struck): `why` says so in a sentence,
 * with a remedy. */
bool node_is_struck(const nigh_node *node, char *why, size_t why_bytes);

/* Stops a node. goes_on: what its keeper has is for another node, and clients may come back to it;
 * else this is nigh_node_stop. */
void node_stop(nigh_node *node, bool goes_on);

#endif
