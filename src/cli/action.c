/* SPDX-License-Identifier: Apache-2.0 */
/* See action.h. */
#include "cli/action.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

static const struct cli_action *find(const struct cli_actions *actions, const char *name)
{
    for (size_t n = 0; n < actions->count; n++) {
        const struct cli_action *action =
            (const void *)((const char *)actions->first + n * actions->stride);

        if (strcmp(action->name, name) == 0) {
            return action;
        }
    }
    return NULL;
}

static bool is_own(const struct cli_actions *actions, int option)
{
    return option > 0 && ((uint32_t)option & actions->own) == (uint32_t)option &&
           (option & (option - 1)) == 0;
}

/* Of the action that is named, wherever --help stands; 'h' is no option of its own. */
static bool is_helped(const struct cli_actions *actions, int option, int argc, char **argv)
{
    const struct cli_action *action = NULL;
    char verb[24];

    for (int n = 1; option == 'h' && action == NULL && n < argc; n++) {
        action = find(actions, argv[n]);
    }
    if (action == NULL) {
        return false;
    }
    (void)snprintf(verb, sizeof verb, "%s %s", actions->verb, action->name);
    cli_print_help(verb, action->arguments, "", action->help);
    return true;
}

/* The first word, and those behind it, where all are names. */
static int check_names(const struct cli *cli, const struct cli_actions *actions,
                       const struct cli_asked *asked, int words)
{
    int names = asked->action->most == INT_MAX ? words : asked->action->least > 0 ? 1 : 0;

    for (int n = 0; n < names; n++) {
        size_t bytes = strlen(n == 0 ? asked->name : asked->words[n - 1]);

        if (bytes == 0 || bytes > actions->name_bytes) {
            return cli_usage(cli, "the name of a %s has 1 to %u bytes", actions->verb,
                             actions->name_bytes);
        }
    }
    return CLI_OK;
}

/* Whether the words and options are those of the action. */
static int check(const struct cli *cli, const struct cli_actions *actions,
                 const struct cli_asked *asked, int words)
{
    const struct cli_action *action = asked->action;

    for (const struct option *option = actions->options; option->name != NULL; option++) {
        uint32_t given = asked->given & (uint32_t)option->val;

        if (is_own(actions, option->val) && (given & ~action->options) != 0) {
            return cli_usage(cli, "%s takes no --%s", action->name, option->name);
        }
    }
    if (words < action->least || words > action->most) {
        return cli_usage(cli, "%s takes %s", action->name, action->words);
    }
    return check_names(cli, actions, asked, words);
}

/* CLI_OK, and whether it was for help; or an exit code. */
static int take_options(struct cli *cli, const struct cli_actions *actions, int argc, char **argv,
                        void *job, uint32_t *given, bool *helped)
{
    int option, exit_code = CLI_OK;

    *helped = false;
    while ((option = cli_next_option(cli, argc, argv, ":" CLI_COMMON_SHORT, actions->options)) !=
           -1) {
        if (is_helped(actions, option, argc, argv)) {
            *helped = true;
            return CLI_OK;
        }
        if (is_own(actions, option)) {
            *given |= (uint32_t)option;
            exit_code = actions->take(cli, (uint32_t)option, job);
            if (exit_code != CLI_OK) {
                return exit_code;
            }
        } else if (cli_common_option(cli, option, &exit_code) != CLI_OK) {
            *helped = exit_code == CLI_OK;
            return exit_code;
        }
    }
    return CLI_OK;
}

int cli_take_action(struct cli *cli, const struct cli_actions *actions, int argc, char **argv,
                    void *job, struct cli_asked *asked)
{
    bool helped;
    int exit_code;

    *asked = (struct cli_asked){0};
    exit_code = take_options(cli, actions, argc, argv, job, &asked->given, &helped);
    if (exit_code != CLI_OK || helped) {
        return exit_code;
    }
    asked->action = argc > optind ? find(actions, argv[optind]) : NULL;
    if (asked->action == NULL) {
        return cli_usage(cli, "takes %s%s%s%s", actions->takes, argc > optind ? "; not '" : "",
                         argc > optind ? argv[optind] : "", argc > optind ? "'" : "");
    }
    asked->name = argc > optind + 1 ? argv[optind + 1] : "";
    asked->words = argv + min_size((size_t)optind + 2, (size_t)argc);
    return check(cli, actions, asked, argc - optind - 1);
}

int cli_act_on_each(struct cli *cli, const void *job, const char *name, char **words,
                    cli_act_on act)
{
    int exit_code = cli_open(cli, 0), first_failure = CLI_OK;
    struct json json = {0};

    if (exit_code != CLI_OK) {
        return exit_code;
    }
    if (cli->json) {
        json_array_open(&json, NULL);
    }
    for (; name != NULL; name = *words++) {
        exit_code = act(cli, job, name, &json);
        first_failure = first_failure == CLI_OK ? exit_code : first_failure;
    }
    if (cli->json) {
        json_array_close(&json);
    }
    return first_failure;
}
