/* SPDX-License-Identifier: Apache-2.0 */
/* What a node counts, as Prometheus reads it (text format 0.0.4). */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include <stdio.h>

#include "daemon/picture.h"
#include "nigh/object.h"

/* Each counter and gauge of the node with its help and type: counters end in _total, times are in
 * seconds. */
void metrics_print_stats(FILE *file, const nigh_node_stats *stats);

/* The members as this node sees them, by rank and address: nigh_member_up, nigh_member_incarnation.
 */
void metrics_print_nodes(FILE *file, const nigh_node_info *nodes, size_t count);

/* What was measured of each link: nigh_link_crossover_bytes, +Inf where everything is sent. */
void metrics_print_links(FILE *file, const nigh_link_info *links, size_t count);

/* Bytes and objects by pool and state, of pools that who asks may know; the others' sums have no
 * name. */
void metrics_print_pools(FILE *file, const struct picture *picture, const struct asker *asker);

/* How long calls took: histograms. */
void metrics_print_times(FILE *file, const struct session_show_times times[SESSION_TIMES]);

/* Reads and hits of each space that who asks may know. */
void metrics_print_spaces(FILE *file, const struct picture *picture, const struct asker *asker);

#endif
