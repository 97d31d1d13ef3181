/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an echo is not. Each says a line for each request that it has: "had BYTES".
 *
 *   odd-service answer NAME STATUS      serves it, and answers this status and "why"
 *   odd-service hold NAME               serves it, and answers nothing
 *   odd-service flood NAME RANK COUNT   so many calls at once; ends when they have
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nigh/nigh.h"

enum {
    CALLS_MOST = 120
};

static nigh_client *client;

static int fail(const char *what)
{
    char why[256] = "";

    (void)nigh_client_error(client, why, sizeof why);
    (void)fprintf(stderr, "odd-service: %s: %s\n", what, why);
    return 1;
}

static int serve(const char *name, const char *answer)
{
    static char buffer[NIGH_CALL_BYTES];
    nigh_service *service;
    nigh_request request;

    if (nigh_service_register(client, name, NULL, &service) != NIGH_OK)
        return fail("register");
    (void)puts("serving");
    (void)fflush(stdout);
    while (nigh_receive(service, &request, buffer, NIGH_FOREVER) == NIGH_OK) {
        (void)printf("had %.*s%s\n", (int)request.size, (const char *)request.bytes,
                     request.is_one_way != 0 ? ", one-way" : "");
        (void)fflush(stdout);
        if (answer != NULL)
            (void)nigh_call_reply(&request, (nigh_status)atoi(answer), "why", 3);
    }
    return fail("receive");
}

static int flood(const char *name, uint32_t rank, uint32_t count)
{
    static nigh_call_spec specs[CALLS_MOST];
    static nigh_op calls[CALLS_MOST];

    for (uint32_t n = 0; n < count && n < CALLS_MOST; n++) {
        specs[n] = (nigh_call_spec){.struct_size = sizeof specs[n],
                                    .service = name,
                                    .rank = rank,
                                    .request = "flood",
                                    .request_bytes = 5};
        if (nigh_call_start(client, &specs[n], NIGH_FOREVER, &calls[n]) != NIGH_OK)
            return fail("call");
    }
    for (uint32_t n = 0; n < count && n < CALLS_MOST; n++)
        (void)nigh_wait(client, &calls[n], NIGH_FOREVER);
    return 0;
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options};

    if (argc < 3 || nigh_client_open(&options, &client) != NIGH_OK)
        return 2;
    if (strcmp(argv[1], "flood") == 0 && argc == 5)
        return flood(argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
    return serve(argv[2], argc > 3 ? argv[3] : NULL);
}
