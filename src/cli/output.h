/* SPDX-License-Identifier: Apache-2.0 */
/* Where `nigh get` writes: standard output, a stream that is open, a device or pipe, or a file. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli/cli.h"

/*
 * Writes the bytes to the file `output` (NULL: standard output) and returns an exit code. A plain
 * file, also behind links, is complete or untouched, and keeps its mode; no other file is left
 * behind, by SIGINT, SIGTERM and SIGHUP neither.
 */
int cli_output_write(struct cli *cli, const char *output, const void *data, uint64_t size_bytes);

/* NULL, "/dev/stdout" and what else names standard output. */
bool cli_output_is_standard(const char *output);

#endif
