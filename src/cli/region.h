/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of nigh region share. */
#ifndef CLI_REGION_H
#define CLI_REGION_H

#include "cli/cli.h"
#include "base/json.h"

/* Options of its own: the last is the highest. */
enum {
    REGION_CHUNK = 1,
    REGION_ON = 2,
    REGION_SPREAD = 4,
    REGION_GROUP = 8,
    REGION_OTHERS = 16,
    REGION_OFFSET = 32,
    REGION_SIZE = 64,
    REGION_NEAR = 128,
    REGION_MAPPABLE = 256
};

enum {
    REGION_RIGHTS_TEXT = 4 /* "rw-" */
};

/* What one `nigh region` is to do. */
struct region_job {
    const char *name; /* of the region; of ls what names begin with, or "" */
    char **words;     /* behind it: as many as the action takes; then NULL */
    uint32_t given;   /* REGION_* */
    uint64_t chunk_size, offset, size;
    const char *node; /* --on */
    const char *near; /* --near */
    uint32_t group_access, other_access;
    uint64_t deadline_us; /* of --timeout */
    uint64_t begun_us;    /* until when a node is waited for that has just begun */
};

/* Opens the client, and the region for this, or says why not. The exit code. */
int cli_region_open(struct cli *cli, const struct region_job *job, uint32_t access,
                    nigh_region **region);

/* The same of one whose client is open, and nothing is said. A node that has just begun, and serves
 * no region yet, is waited for, as what NIGH_NO_QUORUM says has not happened. */
nigh_status cli_region_try_open(struct cli *cli, const struct region_job *job, uint32_t access,
                                nigh_region **region);

/* Waits a moment where that is how it ended, to try again (*again_us: when; 0: not yet). False: the
 * end is *status. */
bool cli_region_waits(const struct region_job *job, nigh_status *status, uint64_t *again_us);

/* Says why it was not opened, where that is left to the caller: nothing was done. The exit code. */
int cli_region_not_open(struct cli *cli, const struct region_job *job, uint32_t access,
                        nigh_status status);

/* How long the next operation may take. */
uint64_t cli_region_timeout_us(const struct cli *cli, const struct region_job *job);

/* Says that something of the region failed that needs these rights (0: none). The exit code. */
int cli_region_failed(struct cli *cli, const struct region_job *job, uint32_t access,
                      nigh_status status);

/* What a word says, as a size, or as NIGH_REGION_* in letters; `what`: whose word it is. */
int cli_region_parse_size(const struct cli *cli, const char *what, const char *text,
                          uint64_t *size);
int cli_region_parse_rights(const struct cli *cli, const char *what, const char *text,
                            uint32_t *access);

/* Rights as letters; what is known of a region, as members of an object. */
const char *cli_region_format_rights(uint32_t access, char text[REGION_RIGHTS_TEXT]);
void cli_region_info_json(struct json *json, const nigh_region_info *info);

/* The actions. Exit codes. */
int cli_region_create(struct cli *cli, const struct region_job *job);
int cli_region_resize(struct cli *cli, const struct region_job *job);
int cli_region_move(struct cli *cli, const struct region_job *job);
int cli_region_chmod(struct cli *cli, const struct region_job *job);
int cli_region_rm(struct cli *cli, const struct region_job *job);
int cli_region_ls(struct cli *cli, const struct region_job *job);
int cli_region_stat(struct cli *cli, const struct region_job *job);
int cli_region_read(struct cli *cli, const struct region_job *job);
int cli_region_write(struct cli *cli, const struct region_job *job);

#endif
