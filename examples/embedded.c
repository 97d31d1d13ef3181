/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedded: a node inside this process (no nighd, nothing to install), a client of it, and an
 * object. With a path as argument other processes may attach to it while the program waits for the
 * end of its input.
 *
 *   example-embedded [SOCKET]
 *
 *   cc embedded.c $(pkg-config --cflags --libs nigh-node) -o example-embedded
 */
#include <stdio.h>
#include <string.h>

#include <nigh/nigh.h>
#include <nigh/node.h>

static void usage(FILE *to)
{
    fprintf(to, "usage: example-embedded [SOCKET]\n"
                "Starts a node in this process, and puts an object into it and gets it. With\n"
                "SOCKET others may attach there, until standard input ends.\n");
}

int main(int argc, char **argv)
{
    nigh_node_options options = {.struct_size = sizeof options,
                                 .memory_bytes = 64 << 20,
                                 .socket_path = argc > 1 ? argv[1] : NULL};
    static const char text[] = "an object in a node in a process";
    nigh_client *client;
    nigh_node *node;
    nigh_view view;
    nigh_id id;
    int failed = 1;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (nigh_node_start(&options, &node) != NIGH_OK) {
        fprintf(stderr, "embedded: %s\n", nigh_node_start_error());
        return 1;
    }
    if (nigh_node_client(node, NULL, &client) != NIGH_OK) {
        fprintf(stderr, "embedded: %s\n", nigh_open_error());
        nigh_node_stop(node);
        return 1;
    }
    nigh_id_from_name("greeting", &id);
    if (nigh_put(client, &id, text, strlen(text), &(nigh_create_options){.name = "greeting"}) ==
            NIGH_OK &&
        nigh_get(client, &id, 1, 0, &view) == NIGH_OK) {
        printf("%.*s\n", (int)view.data_size, (const char *)view.data);
        nigh_release(client, &view);
        failed = 0;
    }
    if (argc > 1) {
        fprintf(stderr, "embedded: listening on %s until the end of input\n", argv[1]);
        while (getchar() != EOF) {
        }
    }
    nigh_client_close(client);
    nigh_node_stop(node);
    return failed;
}
