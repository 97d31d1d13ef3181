/* SPDX-License-Identifier: Apache-2.0 */
/* See crash_world.h. */
#include "crash/crash_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nigh_id crash_id(uint32_t kind, uint64_t serial, uint32_t size_bytes)
{
    nigh_id id = {{0}};

    memcpy(id.bytes, &kind, sizeof(kind));
    memcpy(id.bytes + 4, &serial, sizeof(serial));
    memcpy(id.bytes + 12, &size_bytes, sizeof(size_bytes));
    return id;
}

uint32_t crash_size(const nigh_id *id)
{
    uint32_t size_bytes;

    memcpy(&size_bytes, id->bytes + 12, sizeof(size_bytes));
    return size_bytes;
}

/* The 8 bytes at place `i` of the object whose seed is `seed`. */
static uint64_t crash_word(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + i) * UINT64_C(0x9e3779b97f4a7c15);

    return x ^ x >> 29;
}

static uint64_t crash_seed(const nigh_id *id)
{
    uint64_t a, b;

    memcpy(&a, id->bytes, sizeof(a));
    memcpy(&b, id->bytes + 8, sizeof(b));
    return (a ^ b << 17 ^ b >> 13) * UINT64_C(0xbf58476d1ce4e5b9);
}

void crash_fill(const nigh_id *id, void *data, uint64_t size_bytes)
{
    uint64_t seed = crash_seed(id);
    uint8_t *to = data;

    for (uint64_t at = 0; at < size_bytes; at += 8) {
        uint64_t word = crash_word(seed, at / 8);

        memcpy(to + at, &word, size_bytes - at < 8 ? size_bytes - at : 8);
    }
}

static bool crash_same(const nigh_id *id, const uint8_t *data, uint64_t size_bytes)
{
    uint64_t seed = crash_seed(id);

    for (uint64_t at = 0; at < size_bytes; at += 8) {
        uint64_t word = crash_word(seed, at / 8);

        if (memcmp(data + at, &word, size_bytes - at < 8 ? size_bytes - at : 8) != 0) {
            return false;
        }
    }
    return true;
}

/* Metadata: the id, and four bytes that no other metadata has. */
static void crash_meta(const nigh_id *id, uint8_t meta[CRASH_META_BYTES])
{
    memcpy(meta, id->bytes, sizeof(id->bytes));
    memcpy(meta + sizeof(id->bytes), "meta", 4);
}

void crash_options(const nigh_id *id, uint32_t flags, uint8_t meta[CRASH_META_BYTES],
                   nigh_create_options *options)
{
    crash_meta(id, meta);
    memset(options, 0, sizeof(*options));
    options->data_size = crash_size(id);
    options->meta = meta;
    options->meta_size = CRASH_META_BYTES;
    options->flags = flags;
    options->timeout_us = 10000000;
}

bool crash_is_right(const nigh_id *id, const nigh_view *view)
{
    uint8_t meta[CRASH_META_BYTES];

    crash_meta(id, meta);
    return view->data_size == crash_size(id) && view->meta_size == CRASH_META_BYTES &&
           memcmp(view->meta, meta, sizeof(meta)) == 0 &&
           crash_same(id, view->data, view->data_size);
}

nigh_status crash_put(nigh_client *client, const nigh_id *id, uint32_t flags)
{
    uint8_t meta[CRASH_META_BYTES];
    uint32_t size_bytes = crash_size(id);
    uint8_t *data = malloc(size_bytes + 1);
    nigh_create_options options;
    nigh_status status;

    if (data == NULL) {
        return NIGH_NO_RESOURCES;
    }
    crash_fill(id, data, size_bytes);
    crash_options(id, flags, meta, &options);
    status = nigh_put(client, id, data, size_bytes, &options);
    free(data);
    return status;
}

nigh_status crash_check(nigh_client *client, const nigh_id *id, uint64_t timeout_us)
{
    nigh_view view;
    nigh_status status = nigh_get(client, id, 1, timeout_us, &view);
    nigh_status released;

    if (status != NIGH_OK) {
        return status;
    }
    status = crash_is_right(id, &view) ? NIGH_OK : NIGH_CORRUPT;
    released = nigh_release(client, &view);
    return status == NIGH_OK ? released : status;
}

nigh_client *crash_open(const struct node_fixture *node, const char *name, uint32_t spin_us)
{
    nigh_client_options options = {.struct_size = sizeof(options),
                                   .socket_path = node->socket,
                                   .name = name,
                                   .timeout_us = 30000000,
                                   .spin_us = spin_us};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "# %s: %s\n", name, nigh_open_error());
        return NULL;
    }
    return client;
}

void crash_delete_all(nigh_client *client)
{
    nigh_object_info infos[64];
    size_t count;

    do {
        uint64_t cursor = 0;

        assert_int_equal(nigh_list(client, &cursor, infos, 64, &count), NIGH_OK);
        for (size_t i = 0; i < count; i++) {
            nigh_status status = NIGH_OK;

            (void)nigh_delete(client, &infos[i].id, 1, &status);
            assert_int_equal(status, NIGH_OK);
        }
    } while (count > 0);
}

/* What the death of a session must give back. `objects` and what they use come last; what others
 * lease they may have given back meanwhile, as who sleeps does. */
#define CRASH_FIELDS(X) \
    X(sessions) X(unsealed_bytes) X(objects_unsealed) X(objects_deleting) X(waiting)

bool crash_settled(nigh_client *client, const nigh_node_stats *was, bool memory)
{
    nigh_node_stats is = {.struct_size = sizeof is};

    if (nigh_stats(client, &is) != NIGH_OK) {
        return false;
    }
#define CRASH_FIELD_DIFFERS(field) is.field != was->field ||
    if (CRASH_FIELDS(CRASH_FIELD_DIFFERS) false) {
        return false;
    }
#undef CRASH_FIELD_DIFFERS
    return is.leased_bytes <= was->leased_bytes &&
           (!memory || (is.used_bytes - is.leased_bytes == was->used_bytes - was->leased_bytes &&
                        is.objects == was->objects));
}

void crash_print_difference(nigh_client *client, const nigh_node_stats *was)
{
    nigh_node_stats is = {.struct_size = sizeof is};

    if (nigh_stats(client, &is) != NIGH_OK) {
        printf("# the node does not answer\n");
        return;
    }
#define CRASH_PRINT(field) \
    printf("# " #field ": %" PRIu64 ", was %" PRIu64 "\n", is.field, was->field);
    CRASH_FIELDS(CRASH_PRINT)
    CRASH_PRINT(leased_bytes)
    CRASH_PRINT(used_bytes)
    CRASH_PRINT(objects)
#undef CRASH_PRINT
    fflush(stdout);
}
