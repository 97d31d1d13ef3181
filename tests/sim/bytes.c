/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What objects are made of. Every put has a serial, and its bytes follow from it: so the bytes of a
 * get tell of which put they are, and all of them must be of that one. The name is the key's.
 */
#include "world.h"

#include <string.h>

#include "base/hash.h"

/* ---- keys ----------------------------------------------------------------- */

void bytes_id(const struct world *world, uint32_t key, uint8_t id[LIMIT_ID_BYTES])
{
    uint64_t mixed = hash_u64(key + 1);

    if (world->keys_a_pool > 0) {
        memcpy(id, world->ids[key % world->keys_a_pool], LIMIT_ID_BYTES);
        return;
    }
    memset(id, 0, LIMIT_ID_BYTES);
    memcpy(id, &mixed, sizeof(mixed));
    memcpy(id + 8, &key, sizeof(key));
}

uint32_t bytes_key(struct world *world, uint32_t pool, const uint8_t id[LIMIT_ID_BYTES])
{
    for (uint32_t n = 0; n < world->keys_a_pool; n++) {
        if (memcmp(world->ids[n], id, LIMIT_ID_BYTES) == 0) {
            return pool * world->keys_a_pool + n;
        }
    }
    world_fail(world, "an id that nobody ever put");
}

static const char *name_of(const struct world *world, uint32_t key)
{
    return world->keys_a_pool > 0 ? world->names[key % world->keys_a_pool] : "";
}

uint32_t bytes_name_size(const struct world *world, uint32_t key)
{
    return (uint32_t)strlen(name_of(world, key));
}

/* ---- bytes ---------------------------------------------------------------- */

/* The first word of an object is its serial; the others follow from it and from their place. */
static uint64_t word_at(uint32_t serial, uint64_t place)
{
    return place == 0 ? serial : (serial * HASH_K0) ^ (place * HASH_K1);
}

void bytes_fill(struct world *world, uint8_t *to, uint32_t serial)
{
    const struct world_put *put = &world->puts[serial];
    uint64_t words = put->data_size / 8;
    uint8_t *tail = to + index_meta_offset(put->data_size);

    for (uint64_t n = 0; n < words; n++) {
        uint64_t word = word_at(serial, n);

        memcpy(to + n * 8, &word, sizeof(word));
    }
    for (uint64_t n = words * 8; n < put->data_size; n++) {
        to[n] = (uint8_t)(serial + n);
    }
    memset(tail, (int)(serial & 0xff), put->meta_size);
    memcpy(tail + put->meta_size, name_of(world, put->key), bytes_name_size(world, put->key));
}

bool bytes_hold(const struct world *world, const uint8_t *from, uint32_t serial)
{
    const struct world_put *put = &world->puts[serial];
    const uint8_t *tail = from + index_meta_offset(put->data_size);
    uint64_t words = put->data_size / 8, wrong = 0;

    for (uint64_t n = 0; n < words; n++) {
        uint64_t word;

        memcpy(&word, from + n * 8, sizeof(word));
        wrong |= word ^ word_at(serial, n);
    }
    for (uint64_t n = words * 8; n < put->data_size; n++) {
        wrong |= from[n] ^ (uint8_t)(serial + n);
    }
    for (uint32_t n = 0; n < put->meta_size; n++) {
        wrong |= tail[n] ^ (uint8_t)serial;
    }
    return wrong == 0 && memcmp(tail + put->meta_size, name_of(world, put->key),
                                bytes_name_size(world, put->key)) == 0;
}

uint32_t bytes_glance(struct world *world, uint32_t node, uint32_t key, const uint8_t *bytes,
                      const struct bytes_shape *shape)
{
    const struct world_put *put;
    uint64_t serial;

    memcpy(&serial, bytes, sizeof(serial));
    WORLD_CHECK(world, serial > 0 && serial <= world->put_count,
                "node %u, key %u: bytes of no put at all", node, key);
    put = &world->puts[serial];
    WORLD_CHECK(world,
                put->key == key && put->data_size == shape->data_size &&
                    put->meta_size == shape->meta_size,
                "node %u, key %u: bytes of another object (put %u)", node, key, (uint32_t)serial);
    WORLD_CHECK(world, shape->name_size == bytes_name_size(world, key),
                "node %u, key %u: a name of %u bytes", node, key, shape->name_size);
    return (uint32_t)serial;
}

uint32_t bytes_serial(struct world *world, uint32_t node, uint32_t key, const uint8_t *bytes,
                      const struct bytes_shape *shape)
{
    uint32_t serial = bytes_glance(world, node, key, bytes, shape);

    WORLD_CHECK(world, bytes_hold(world, bytes, serial),
                "node %u, key %u: some bytes are not of put %u", node, key, serial);
    world->totals->checked_bytes += shape->data_size + shape->meta_size + shape->name_size;
    return serial;
}
