/* SPDX-License-Identifier: Apache-2.0 */
/* Why a call has failed, for nigh_client_error (error.c). For libnigh alone. */
#ifndef CLIENT_ERROR_H
#define CLIENT_ERROR_H

#include <stdint.h>

#include "nigh/nigh.h"

/* The sentence for nigh_open_error. */
__attribute__((format(printf, 1, 2))) void error_set_open(const char *format, ...);

/* Remembers a failure of the calling thread for nigh_client_error; returns `status`. */
__attribute__((format(printf, 3, 4))) nigh_status error_set(nigh_client *client, nigh_status status,
                                                            const char *format, ...);

/* The same from below the call that will return the status: its error_note leaves the sentence. */
__attribute__((format(printf, 3, 4))) nigh_status
error_explain(nigh_client *client, nigh_status status, const char *format, ...);

/* Remembers an ordinary failure (the table's sentence will do); returns `status`. */
nigh_status error_note(nigh_client *client, nigh_status status);

/* The same of what ends with a status that one of its steps may have noted, and better. */
nigh_status error_note_end(nigh_client *client, nigh_status status);

/* That the failure which is noted next is the full index's, if it is NIGH_LIMIT. */
void error_note_index_full(nigh_client *client);

/* The same of a call that wanted `bytes` of a lane's memory. */
nigh_status error_note_memory(nigh_client *client, nigh_status status, uint32_t lane,
                              uint64_t bytes);

#endif
