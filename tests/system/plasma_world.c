/* SPDX-License-Identifier: Apache-2.0 */
/* See plasma_world.h. */
#include "plasma_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nigh_client *plasma_open(const struct node_fixture *node, const char *name, uint64_t quota_bytes)
{
    nigh_client_options options = {.struct_size = sizeof(options),
                                   .socket_path = node->socket,
                                   .name = name,
                                   .quota_bytes = quota_bytes};
    nigh_client *client = NULL;

    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fail_msg("open: %s", nigh_open_error());
    }
    return client;
}

nigh_client *plasma_try_open(const struct node_fixture *node, const char *name)
{
    nigh_client_options options = {
        .struct_size = sizeof(options), .socket_path = node->socket, .name = name};
    nigh_client *client = NULL;

    return nigh_client_open(&options, &client) == NIGH_OK ? client : NULL;
}

nigh_id plasma_id(uint32_t number)
{
    nigh_id id = {{'p'}};

    memcpy(id.bytes + 1, &number, sizeof(number));
    return id;
}

static uint8_t plasma_byte(size_t at, uint32_t number)
{
    return (uint8_t)(number * 131 + at * 7 + (at >> 8));
}

void plasma_fill(void *data, size_t size, uint32_t number)
{
    uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++) {
        bytes[i] = plasma_byte(i, number);
    }
}

bool plasma_is_filled(const void *data, size_t size, uint32_t number)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != plasma_byte(i, number)) {
            return false;
        }
    }
    return true;
}

nigh_status plasma_put(nigh_client *client, uint32_t number, size_t size)
{
    nigh_id id = plasma_id(number);
    uint8_t *data = malloc(size + 1);
    nigh_status status;

    if (data == NULL) {
        return NIGH_NO_RESOURCES;
    }
    plasma_fill(data, size, number);
    status = nigh_put(client, &id, data, size, NULL);
    free(data);
    return status;
}

void plasma_check(nigh_client *client, uint32_t number, size_t size)
{
    nigh_id id = plasma_id(number);
    nigh_view view;

    assert_int_equal(nigh_get(client, &id, 1, 20000000, &view), NIGH_OK);
    assert_int_equal(view.data_size, size);
    assert_true(plasma_is_filled(view.data, size, number));
    assert_int_equal(nigh_release(client, &view), NIGH_OK);
}

static int plasma_putter_body(void *context)
{
    const struct plasma_putter *putter = context;
    nigh_client *client = plasma_try_open(putter->node, "putter");
    nigh_node_stats stats = {.struct_size = sizeof stats};

    if (client == NULL) {
        return 1;
    }
    if (!SUPPORT_WAIT(nigh_stats(client, &stats) == NIGH_OK && stats.waiting >= putter->waiting,
                      20000)) {
        return 2;
    }
    for (uint32_t i = putter->first; i < putter->first + putter->count; i++) {
        if (plasma_put(client, i, putter->size) != NIGH_OK) {
            return 3;
        }
    }
    nigh_client_close(client);
    return 0;
}

pid_t plasma_fork_putter(struct plasma_putter *putter)
{
    return support_fork(plasma_putter_body, putter);
}

nigh_node_stats plasma_stats(nigh_client *client)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};

    assert_int_equal(nigh_stats(client, &stats), NIGH_OK);
    return stats;
}

bool plasma_is_listed(nigh_client *client, uint32_t number, nigh_object_state *state)
{
    nigh_object_info infos[64];
    nigh_id id = plasma_id(number);
    uint64_t cursor = 0;
    size_t count;

    do {
        assert_int_equal(nigh_list(client, &cursor, infos, 64, &count), NIGH_OK);
        for (size_t i = 0; i < count; i++) {
            if (memcmp(&infos[i].id, &id, sizeof(id)) == 0) {
                if (state != NULL) {
                    *state = infos[i].state;
                }
                return true;
            }
        }
    } while (count > 0);
    return false;
}
