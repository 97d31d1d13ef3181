/* SPDX-License-Identifier: Apache-2.0 */
/* See chance.h. */
#include "chance.h"

#include <string.h>

struct chance chance_of(uint64_t seed, uint64_t number)
{
    struct chance chance = {seed * UINT64_C(0x9e3779b97f4a7c15) ^
                            (number + 1) * UINT64_C(0xd6e8feb86659fd93)};

    (void)chance_between(&chance, 0, 1);
    return chance;
}

/* splitmix64 (Steele et al., OOPSLA 2014). */
static uint64_t next(struct chance *chance)
{
    uint64_t value = chance->state += UINT64_C(0x9e3779b97f4a7c15);

    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

uint64_t chance_between(struct chance *chance, uint64_t low, uint64_t high)
{
    return low + next(chance) % (high - low + 1);
}

bool chance_percent(struct chance *chance, uint64_t percent)
{
    return chance_between(chance, 1, 100) <= percent;
}

uint64_t chance_nurand(struct chance *chance, uint64_t a, uint64_t c, uint64_t low, uint64_t high)
{
    uint64_t any = chance_between(chance, 0, a) | chance_between(chance, low, high);

    return (any + c) % (high - low + 1) + low;
}

void chance_letters(struct chance *chance, char *text, uint64_t low, uint64_t high)
{
    uint64_t length = chance_between(chance, low, high);

    memset(text, 0, high);
    for (uint64_t i = 0; i < length; i++) {
        text[i] = (char)('a' + chance_between(chance, 0, 25));
    }
}

void chance_digits(struct chance *chance, char *text, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        text[i] = (char)('0' + chance_between(chance, 0, 9));
    }
}

void chance_data(struct chance *chance, char text[50])
{
    static const char original[8] = "ORIGINAL";

    chance_letters(chance, text, 26, 50);
    if (chance_percent(chance, 10)) {
        memcpy(text + chance_between(chance, 0, 26 - sizeof original), original, sizeof original);
    }
}

void chance_shuffle(struct chance *chance, uint32_t *numbers, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t other = chance_between(chance, 0, i);

        numbers[i] = numbers[other];
        numbers[other] = (uint32_t)i + 1;
    }
}

void last_name(uint64_t number, char text[16])
{
    static const char *const syllables[] = {"BAR", "OUGHT", "ABLE",  "PRI",   "PRES",
                                            "ESE", "ANTI",  "CALLY", "ATION", "EING"};
    const uint64_t parts[] = {number / 100 % 10, number / 10 % 10, number % 10};
    char *to = text;

    memset(text, 0, 16);
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(syllables[parts[i]]);

        memcpy(to, syllables[parts[i]], length);
        to += length;
    }
}
