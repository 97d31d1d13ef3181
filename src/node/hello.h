/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first message of a client: from bytes that anyone may have sent to a hello that may be acted
 * upon, or to a refusal in words. Pure: no I/O, no state.
 */
#ifndef NODE_HELLO_H
#define NODE_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "memory/session.h"
#include "nigh/status.h"

#define HELLO_SENTENCE_BYTES sizeof(((struct session_welcome *)0)->sentence)

/*
 * Reads a hello. Messages longer than this version's are taken, what is behind passed over.
 * NIGH_PROTOCOL: no hello. NIGH_VERSION: no common version. NIGH_INVALID: unknown flags, a name
 * that is not terminated, or not valid. On failure `sentence` says what is wrong and what helps.
 * Any thread.
 */
nigh_status hello_read(const void *bytes, size_t size_bytes, struct session_hello *hello,
                       uint16_t *version, char sentence[HELLO_SENTENCE_BYTES]);

#endif
