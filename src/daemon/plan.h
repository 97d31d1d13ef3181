/* SPDX-License-Identifier: Apache-2.0 */
/* nighd --check: what would be done with these options, and what would stand in its way. It changes
 * nothing. */
#ifndef DAEMON_PLAN_H
#define DAEMON_PLAN_H

#include <stddef.h>

#include "node/settings.h"

/* Prints what would be done to standard output. */
void plan_print(const struct node_settings *settings);

/* Fails as a start would on what is at the socket's path, NIGH_BUSY where something answers; `why`,
 * a string already, says so. */
nigh_status plan_look_at_socket(const struct node_settings *settings, char *why, size_t why_bytes);

#endif
