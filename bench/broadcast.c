/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object at many nodes at once: puts it at the first of the nodes whose sockets are named, gets
 * it at all others, and says when each had it, in milliseconds, a line a node; then it is deleted.
 * bench/broadcast-run makes the nodes.
 *
 *   bench-broadcast NAME BYTES TIMEOUT_MS SOCKET SOCKET...
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nigh/nigh.h"

#define MOST    256
#define LOOK_NS 300000 /* between looks at all of them */

struct getter {
    nigh_client *client;
    nigh_op op;
    nigh_view view;
    bool has_ended;
    double took_ms;
};

static struct getter getters[MOST];
static int count;

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void fail(const char *what, nigh_status status)
{
    fprintf(stderr, "bench-broadcast: %s: %s\n", what, nigh_status_string(status));
    exit(1);
}

static void check(const char *what, nigh_status status)
{
    if (status != NIGH_OK)
        fail(what, status);
}

static nigh_client *open_at(const char *socket)
{
    nigh_client_options options = {
        .struct_size = sizeof(options), .socket_path = socket, .name = "broadcast"};
    nigh_client *client = NULL;

    check(socket, nigh_client_open(&options, &client));
    return client;
}

static void put_one(nigh_client *client, const nigh_id *id, uint64_t bytes)
{
    uint8_t *data = malloc(bytes);

    if (data == NULL)
        fail("memory", NIGH_OUT_OF_MEMORY);
    for (uint64_t n = 0; n < bytes; n++)
        data[n] = (uint8_t)(n * 131 >> 7 ^ n);
    check("put", nigh_put(client, id, data, bytes, NULL));
    free(data);
}

static void get_everywhere(const nigh_id *id, uint64_t timeout_us)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    double begin_ms = now_ms();
    int left = count;

    for (int n = 0; n < count; n++)
        check("get", nigh_get_start(getters[n].client, id, 1, timeout_us, &getters[n].view,
                                    &getters[n].op));
    while (left > 0) {
        for (int n = 0; n < count; n++) {
            struct getter *getter = &getters[n];

            if (getter->has_ended)
                continue;
            (void)nigh_poll(getter->client);
            if (nigh_op_status(&getter->op) == NIGH_PENDING)
                continue;
            getter->took_ms = now_ms() - begin_ms;
            getter->has_ended = true;
            left--;
        }
        (void)nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv)
{
    nigh_client *source;
    nigh_status status;
    nigh_id id;

    if (argc < 6 || argc > MOST) {
        fprintf(stderr, "usage: bench-broadcast NAME BYTES TIMEOUT_MS SOCKET SOCKET...\n");
        return 2;
    }
    check(argv[1], nigh_id_from_name(argv[1], &id));
    source = open_at(argv[4]);
    for (int n = 5; n < argc; n++)
        getters[count++].client = open_at(argv[n]);
    put_one(source, &id, strtoull(argv[2], NULL, 10));
    get_everywhere(&id, strtoull(argv[3], NULL, 10) * 1000);
    for (int n = 0; n < count; n++) {
        check(argv[5 + n], getters[n].view.status);
        printf("%.3f\n", getters[n].took_ms);
        check("release", nigh_release(getters[n].client, &getters[n].view));
        nigh_client_close(getters[n].client);
    }
    (void)nigh_delete(source, &id, 1, &status);
    nigh_client_close(source);
    return 0;
}
