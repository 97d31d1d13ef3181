/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counter service: counters by name, added to by typed calls; and who calls it.
 *
 *   example-counter_service serve [COUNT]     so many requests, else without end; the node:
 *                                             $NIGH_SOCKET
 *   example-counter_service add NAME NUMBER   at any node of the cluster that serves it
 *
 *   cc counter_service.c $(pkg-config --cflags --libs nigh) -o example-counter_service
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nigh/nigh.h>

#define COUNTERS 64

struct add {
    char name[32];
    uint64_t number;
};

struct added {
    uint64_t total;
};

/* The same line at both ends; another struct takes another version. */
NIGH_TYPED_CALL(counter_add, "counter.add", 1, struct add, struct added);

static struct add counters[COUNTERS];

/* What a request says is looked at: its name need not end. */
static nigh_status add(const struct add *add, struct added *added)
{
    if (memchr(add->name, 0, sizeof add->name) == NULL || add->name[0] == '\0') {
        return NIGH_INVALID;
    }
    for (size_t n = 0; n < COUNTERS; n++) {
        if (counters[n].name[0] == '\0') {
            memcpy(counters[n].name, add->name, sizeof add->name);
        }
        if (strcmp(counters[n].name, add->name) == 0) {
            counters[n].number += add->number;
            added->total = counters[n].number;
            return NIGH_OK;
        }
    }
    return NIGH_LIMIT;
}

static nigh_status serve(nigh_client *client, unsigned long count)
{
    static char buffer[NIGH_CALL_BYTES];
    nigh_service *service;
    nigh_request request;
    struct added added = {0};
    struct add wanted;
    nigh_status status = counter_add_register(client, NULL, &service);

    if (status != NIGH_OK) {
        return status;
    }
    printf("serving counter.add\n");
    fflush(stdout);
    status = counter_add_receive(service, &request, buffer, &wanted, NIGH_FOREVER);
    for (unsigned long n = 1; status == NIGH_OK && n != count; n++) {
        status = counter_add_reply_receive(&request, add(&wanted, &added), &added, buffer, &wanted,
                                           NIGH_FOREVER);
    }
    if (status == NIGH_OK) {
        (void)counter_add_reply(&request, add(&wanted, &added), &added);
    }
    return status;
}

static nigh_status call(nigh_client *client, const char *name, const char *number)
{
    struct add wanted = {.number = strtoull(number, NULL, 10)};
    struct added added;
    nigh_status status;

    (void)snprintf(wanted.name, sizeof wanted.name, "%s", name);
    status = counter_add_call(client, NIGH_ANY_RANK, &wanted, &added, 5000000);
    if (status == NIGH_OK) {
        printf("%llu\n", (unsigned long long)added.total);
    }
    return status;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-counter_service serve [COUNT]\n"
                "       example-counter_service add NAME NUMBER\n"
                "Serves counters, for COUNT requests or until it is ended; or adds NUMBER to\n"
                "the counter NAME, at any node of the cluster that is served. At the node\n"
                "$NIGH_SOCKET.\n");
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options};
    nigh_client *client;
    nigh_status status;
    int serves = argc > 1 && strcmp(argv[1], "serve") == 0;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (!serves && (argc != 4 || strcmp(argv[1], "add") != 0)) {
        usage(stderr);
        return 2;
    }
    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "counter_service: %s\n", nigh_open_error());
        return 1;
    }
    status = serves ? serve(client, argc > 2 ? strtoul(argv[2], NULL, 10) : 0)
                    : call(client, argv[2], argv[3]);
    if (status != NIGH_OK) {
        char why[256] = "";

        (void)nigh_client_error(client, why, sizeof why);
        fprintf(stderr, "counter_service: %s\n", why[0] != '\0' ? why : nigh_status_string(status));
    }
    nigh_client_close(client);
    return status == NIGH_OK ? 0 : 1;
}
