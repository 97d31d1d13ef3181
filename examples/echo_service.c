/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Echo service: serves a name from this process, and answers each request with its own bytes.
 *
 *   example-echo_service [NAME [COUNT]]     so many requests, else without end; "echo"; the node:
 *                                           $NIGH_SOCKET
 *   nigh call echo hello                    calls it
 *
 *   cc echo_service.c $(pkg-config --cflags --libs nigh) -o example-echo_service
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nigh/nigh.h>

static nigh_status serve(nigh_service *service, unsigned long count)
{
    static char buffer[NIGH_CALL_BYTES];
    nigh_request request;
    nigh_status status = nigh_receive(service, &request, buffer, NIGH_FOREVER);

    for (unsigned long n = 1; status == NIGH_OK && n != count; n++) {
        status = nigh_reply_receive(&request, NIGH_OK, request.bytes, request.size, buffer,
                                    NIGH_FOREVER);
    }
    if (status == NIGH_OK) {
        (void)nigh_call_reply(&request, NIGH_OK, request.bytes, request.size);
    }
    return status;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-echo_service [NAME [COUNT]]\n"
                "Serves NAME (default echo), and answers COUNT requests, or each until it is\n"
                "ended, with their own bytes. At the node $NIGH_SOCKET.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "echo";
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_service *service;
    nigh_client *client;
    nigh_status status;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "echo_service: %s\n", nigh_open_error());
        return 1;
    }
    status = nigh_service_register(client, name, NULL, &service);
    if (status == NIGH_OK) {
        printf("serving %s\n", name);
        fflush(stdout);
        status = serve(service, count);
    }
    if (status != NIGH_OK) {
        char why[256] = "";

        (void)nigh_client_error(client, why, sizeof why);
        fprintf(stderr, "echo_service: %s\n", why[0] != '\0' ? why : nigh_status_string(status));
    }
    nigh_client_close(client);
    return status == NIGH_OK ? 0 : 1;
}
