/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of nigh call share. */
#ifndef CLI_CALL_H
#define CLI_CALL_H

#include "cli/cli.h"

/* Calls many nodes, and prints what each of them said. The exit code. */
int cli_call_many(struct cli *cli, nigh_multicast_spec *spec, uint64_t timeout_us);

#endif
