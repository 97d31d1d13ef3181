/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes out of a text what is nobody else's business. A word stays only if nigh itself says it (it
 * stands among the constants of its programs), or if it is a plain number; every other one becomes
 * "~" and eight digits: of one report the same word is the same digits, and nothing tells which
 * word that was, since the digest is with a random salt that is kept nowhere. What is known to be
 * a name (redact_name) goes even where nigh says the word, too, and so does the value of a field
 * that has names.
 *
 * Secrets go in any case, also where names are kept: what stands behind "://" up to the "@", long
 * runs of hexadecimal digits, also in groups, a line from "password=" on, and private keys in PEM.
 * Control bytes, which a terminal would obey, become '?'. One thread.
 */
#ifndef CLI_REDACT_H
#define CLI_REDACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define REDACT_SALT_BYTES 16
#define REDACT_WORDS      65536 /* places for words; a power of two */
#define REDACT_NAMES      4096  /* places for names, full at three quarters: then all words go */
#define REDACT_SECRET_HEX 24    /* so many hexadecimal digits on end are taken for a secret */

struct redact {
    bool keeps_names;
    uint8_t salt[REDACT_SALT_BYTES];
    uint64_t words[REDACT_WORDS], names[REDACT_NAMES]; /* hashes; 0: a free place */
    uint32_t word_count, name_count;
    bool is_full;             /* there are more names than are known */
    uint64_t hashed, secrets; /* what was taken out */
};

/* False: no salt is to be had. */
bool redact_init(struct redact *redact, bool keeps_names);

/* What nigh says: the words of the texts, of four bytes at least, in some constants. */
void redact_learn(struct redact *redact, const char *text, size_t bytes);
/* ... and those of a program's constants (ELF, .rodata). False: it cannot be read. */
bool redact_learn_program(struct redact *redact, const char *path);

/* What is a name; "": nothing. */
void redact_name(struct redact *redact, const char *name);

/* Writes the text, without that, to `out`. text[bytes] is 0. */
void redact_write(struct redact *redact, const char *text, size_t bytes, FILE *out);

#endif
