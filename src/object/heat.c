/* SPDX-License-Identifier: Apache-2.0 */
/* See heat.h. */
#include "object/heat.h"

#include <string.h>

#include "base/hash.h"

bool heat_is_watched(const struct heat *heat, uint64_t now_us)
{
    return heat->looked_us != 0 && now_us - heat->looked_us < HEAT_WATCH_US;
}

static void halve(struct heat *heat)
{
    heat->seen /= 2;
    for (uint32_t n = 0; n < HEAT_PLACES; n++) {
        heat->places[n].uses /= 2;
    }
}

void heat_look(struct heat *heat, uint64_t now_us)
{
    if (!heat_is_watched(heat, now_us)) {
        memset(heat, 0, sizeof(*heat));
        heat->halved_us = now_us;
    }
    heat->looked_us = now_us > 0 ? now_us : 1;
    while (now_us - heat->halved_us >= HEAT_HALF_US) {
        heat->halved_us += HEAT_HALF_US;
        halve(heat);
    }
}

static bool is_same(const struct heat_key *a, const struct heat_key *b)
{
    return a->entry == b->entry && a->pool == b->pool && a->generation == b->generation;
}

void heat_note(struct heat *heat, const struct heat_key *key)
{
    struct heat_place *place =
        &heat->places[hash_u64((uint64_t)key->pool << 32 | key->entry) % HEAT_PLACES];

    heat->seen++;
    if (place->uses == 0) {
        *place = (struct heat_place){.key = *key, .uses = 1};
    } else if (is_same(&place->key, key)) {
        place->uses++;
    } else {
        place->uses--;
    }
}

uint32_t heat_top(const struct heat *heat, struct heat_place *top, uint32_t capacity)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < HEAT_PLACES; n++) {
        const struct heat_place *place = &heat->places[n];
        uint32_t at;

        if (place->uses == 0 || (count == capacity && place->uses <= top[count - 1].uses)) {
            continue;
        }
        count += count < capacity ? 1 : 0;
        for (at = count - 1; at > 0 && top[at - 1].uses < place->uses; at--) {
            top[at] = top[at - 1];
        }
        top[at] = *place;
    }
    return count;
}
