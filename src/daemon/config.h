/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file of nighd: an ini file with a section [node], whose keys are the options of
 * daemon/options.h, and sections [pool NAME]. Whatever it does not know is an error, with its line.
 *
 * Knows the file's form only; what values mean is options.c's. Start-up thread only.
 */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <stddef.h>

#include "daemon/options.h"

/*
 * Reads text (size_bytes, not terminated) into options. `name` is the file's, for messages.
 * NIGH_INVALID: `why` is "NAME:LINE: what is wrong".
 */
nigh_status config_parse(const char *text, size_t size_bytes, const char *name,
                         struct daemon_options *options, char *why, size_t why_bytes);

/* The same from a file. NIGH_NOT_FOUND, NIGH_DENIED, NIGH_INVALID; `why` says what is wrong. */
nigh_status config_read(const char *path, struct daemon_options *options, char *why,
                        size_t why_bytes);

#endif
