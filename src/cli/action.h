/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs of several actions, `nigh VERB ACTION NAME WORD... [OPTION...]`: which of them is asked
 * for, and whether its words and options are such as it takes. */
#ifndef CLI_ACTION_H
#define CLI_ACTION_H

#include <stddef.h>

#include "cli/cli.h"
#include "base/json.h"

struct cli_action {
    const char *name;
    const char *arguments, *help; /* as --help has them */
    const char *words;            /* that it takes */
    int least, most;              /* of them; INT_MAX: each is a name */
    uint32_t options;             /* of the verb's own */
};

struct cli_actions {
    const char *verb;
    const char *takes;              /* it, as is said where none of them is named */
    const struct cli_action *first; /* of `count`, so many bytes from each to the next: */
    size_t count, stride;           /* each begins what the verb has of one */
    unsigned name_bytes;            /* most of the name of what they are about */
    uint32_t own;                   /* all the verb's own options: bits, as no common one is */
    const struct option *options;   /* with the common ones */
    /* One of its own: CLI_OK, or an exit code. */
    int (*take)(const struct cli *cli, uint32_t option, void *job);
};

/* What was asked for. */
struct cli_asked {
    const struct cli_action *action; /* NULL: for help, which was given */
    uint32_t given;                  /* of the verb's own options */
    const char *name;                /* the first word; "": none */
    char **words;                    /* behind it, until NULL */
};

/* CLI_OK, or an exit code: it was said what is wrong. `job` is for `take`. */
int cli_take_action(struct cli *cli, const struct cli_actions *actions, int argc, char **argv,
                    void *job, struct cli_asked *asked);

/* Does it to each name; one that fails keeps none from being tried. `act` returns an exit code,
 * having said what failed, and added its element where `json` is open. The first failure's. */
typedef int (*cli_act_on)(struct cli *cli, const void *job, const char *name, struct json *json);
int cli_act_on_each(struct cli *cli, const void *job, const char *name, char **words,
                    cli_act_on act);

#endif
