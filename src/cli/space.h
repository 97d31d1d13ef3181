/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of nigh space share. */
#ifndef CLI_SPACE_H
#define CLI_SPACE_H

#include "cli/cli.h"
#include "base/json.h"

/* Options of its own: the last is the highest. */
enum {
    SPACE_CACHE = 1,
    SPACE_BLOCK = 2,
    SPACE_GROUP = 4,
    SPACE_OTHERS = 8,
    SPACE_ON = 16,
    SPACE_DURABILITY = 32,
    SPACE_ALIGN = 64
};

/* What one `nigh space` is to do. */
struct space_job {
    const char *name; /* of the space; of ls what names begin with, or "" */
    char **words;     /* behind it: as many as the action takes; then NULL */
    uint64_t cache_size, block_size;
    uint64_t alignment; /* 0: none was asked for */
    nigh_space_durability durability;
    const char *node; /* --on */
    uint32_t group_access, other_access;
    uint64_t deadline_us; /* of --timeout */
};

/* Opens the client, and the space for this, or says why not. The exit code. */
int cli_space_open(struct cli *cli, const struct space_job *job, uint32_t access,
                   nigh_space **space);

/* How long the next step may take. */
uint64_t cli_space_timeout_us(const struct cli *cli, const struct space_job *job);

/* Says that something of the space failed. The exit code. */
int cli_space_failed(struct cli *cli, const struct space_job *job, nigh_status status);

/* What a word says, as a size, or an address; `what`: whose word it is. */
int cli_space_parse_size(const struct cli *cli, const char *what, const char *text, uint64_t *size);
int cli_space_parse_address(const struct cli *cli, const char *text, nigh_space_address *address);

/* The actions. Exit codes. */
int cli_space_create(struct cli *cli, const struct space_job *job);
int cli_space_ls(struct cli *cli, const struct space_job *job);
int cli_space_stat(struct cli *cli, const struct space_job *job);
int cli_space_alloc(struct cli *cli, const struct space_job *job);
int cli_space_free(struct cli *cli, const struct space_job *job);
int cli_space_read(struct cli *cli, const struct space_job *job);
int cli_space_write(struct cli *cli, const struct space_job *job);
int cli_space_rm(struct cli *cli, const struct space_job *job);

#endif
