/* SPDX-License-Identifier: Apache-2.0 */
/* What a node counts, as Prometheus reads it (text format 0.0.4). */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include <stdio.h>

#include "nigh/object.h"

/* Each counter and gauge of the node with its help and type: counters end in _total, times are in
 * seconds. */
void metrics_print_stats(FILE *file, const nigh_node_stats *stats);

/* The members as this node sees them, by rank and address: nigh_member_up, nigh_member_incarnation.
 */
void metrics_print_nodes(FILE *file, const nigh_node_info *nodes, size_t count);

/* What was measured of each link: nigh_link_crossover_bytes, +Inf where everything is sent. */
void metrics_print_links(FILE *file, const nigh_link_info *links, size_t count);

#endif
