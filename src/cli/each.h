/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that do one thing to each NAME: parses the names, opens the client, runs `act` for each,
 * keeps the first failure's code. */
#ifndef CLI_EACH_H
#define CLI_EACH_H

#include "cli/cli.h"
#include "base/json.h"

/* Acts on one name; returns an exit code, having said what failed, and added its element where
 * there is one also then. `json` is an open array when cli->json is set. */
typedef int (*cli_act)(struct cli *cli, const char *name, const nigh_id *id, struct json *json);

/* For a verb whose options have been taken: argv[optind ..] are the names. */
int cli_each(struct cli *cli, int argc, char **argv, uint32_t open_flags, cli_act act);

/* The same for a verb that has common options only. */
int cli_each_plain(struct cli *cli, int argc, char **argv, uint32_t open_flags, cli_act act);

#define EACH_AT_ONCE 256 /* names of one call */

/* Acts on many names in one call; statuses[i] says how each ended, unless it is left as it was:
 * then what is returned goes for it. */
typedef nigh_status (*cli_act_at_once)(struct cli *cli, const nigh_id *ids, size_t n,
                                       nigh_status *statuses);

/* Says what there is to say of one, ids[place] of that call; returns an exit code. */
typedef int (*cli_tell)(struct cli *cli, const char *name, size_t place, nigh_status status);

/* As cli_each_plain, for what may wait: many names wait no longer than one. */
int cli_each_at_once(struct cli *cli, int argc, char **argv, uint32_t open_flags,
                     cli_act_at_once act, cli_tell tell);

/*
 * An array element {"name": ..., "status": ...} when cli->json is set; of what failed, with what
 * was said of it.
 */
void cli_each_report(struct cli *cli, struct json *json, const char *name, nigh_status status,
                     int exit_code);

#endif
