/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and texts, as TPC-C has them (clauses 2.1.5, 2.1.6, 4.3.2). One thread each. */
#ifndef CHANCE_H
#define CHANCE_H

#include <stdbool.h>
#include <stdint.h>

struct chance {
    uint64_t state;
};

struct chance chance_of(uint64_t seed, uint64_t number);

/* Any of low to high, all alike. */
uint64_t chance_between(struct chance *chance, uint64_t low, uint64_t high);
bool chance_percent(struct chance *chance, uint64_t percent);

/* NURand(a, low, high), with the constant c: some far more often than others. */
uint64_t chance_nurand(struct chance *chance, uint64_t a, uint64_t c, uint64_t low, uint64_t high);

/* Letters, or digits, `low` to `high` of them, into a text of `high` bytes. */
void chance_letters(struct chance *chance, char *text, uint64_t low, uint64_t high);
void chance_digits(struct chance *chance, char *text, uint64_t count);

/* Letters, of which one in ten has ORIGINAL somewhere (4.3.3.1). */
void chance_data(struct chance *chance, char text[50]);

/* Numbers in any order, each once: 1 to count. */
void chance_shuffle(struct chance *chance, uint32_t *numbers, uint64_t count);

/* The last name of a number below NAMES (4.3.2.3). */
void last_name(uint64_t number, char text[16]);

#endif
