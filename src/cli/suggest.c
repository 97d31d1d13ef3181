/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb that somebody meant: the nearest by typing mistakes, or the one that does what another
 * tool's verb does. Says nothing where nothing is near: a wrong guess is worse than none.
 */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "cli/cli.h"

enum {
    WORD_BYTES = 16, /* longer than every verb and every other word for one, and their mistakes */
    FAR = 1000
};

/* What other tools call it. */
static const struct {
    const char *word, *verb;
} others[] = {
    {"add", "put"},   {"store", "put"},    {"cat", "get"},       {"read", "get"},
    {"fetch", "get"}, {"list", "ls"},      {"dir", "ls"},        {"info", "stat"},
    {"show", "stat"}, {"delete", "rm"},    {"del", "rm"},        {"remove", "rm"},
    {"lock", "pin"},  {"unlock", "unpin"}, {"holders", "who"},   {"status", "top"},
    {"stats", "top"}, {"check", "doctor"}, {"members", "nodes"}, {"peers", "nodes"},
};

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Letters to change, add, leave out, or exchange with their neighbour (Damerau's four mistakes). */
static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned d[WORD_BYTES + 1][WORD_BYTES + 1];

    if (n > WORD_BYTES || m > WORD_BYTES) {
        return FAR;
    }
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = (unsigned)(i + j);
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
                            d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[n][m];
}

const char *cli_nearest_verb(const char *word)
{
    /* One mistake in a short word, two in one of five letters or more. */
    unsigned best = strlen(word) < 5 ? 2 : 3;
    const char *nearest = NULL;

    for (const struct cli_verb *verb = cli_verbs; verb->name != NULL; verb++) {
        unsigned far = distance(word, verb->name);

        if (far < best && far < strlen(verb->name)) {
            best = far;
            nearest = verb->name;
        }
    }
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        if (best > 0 && strcmp(word, others[i].word) == 0) {
            nearest = others[i].verb;
        }
    }
    return nearest;
}
