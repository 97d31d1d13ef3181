/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producer: makes frames of numbers in place, one every PERIOD, and seals them under "frame/0",
 * "frame/1", ...; example-consumer reads them where they lie.
 *
 *   example-producer [COUNT [PERIOD_MS]]         the node: $NIGH_SOCKET
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <nigh/nigh.h>

#define FRAME_NUMBERS (1u << 20)

/* Fills one object in place and seals it: no copy is made at any time. */
static nigh_status produce(nigh_client *client, unsigned number)
{
    nigh_create_options options = {.data_size = FRAME_NUMBERS * sizeof(double),
                                   .timeout_us = 1000000};
    nigh_writer writer;
    nigh_status status;
    char name[32];
    nigh_id id;

    snprintf(name, sizeof name, "frame/%u", number);
    options.name = name;
    nigh_id_from_name(name, &id);
    status = nigh_create(client, &id, &options, &writer);
    if (status != NIGH_OK) {
        return status;
    }
    for (unsigned i = 0; i < FRAME_NUMBERS; i++) {
        ((double *)writer.data)[i] = (double)number + i;
    }
    return nigh_seal(client, &writer);
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10;
    int period_ms = argc > 2 ? atoi(argv[2]) : 100;
    nigh_client *client;

    if (nigh_client_open(NULL, &client) != NIGH_OK) {
        fprintf(stderr, "producer: %s\n", nigh_open_error());
        return 1;
    }
    for (unsigned number = 0; number < count; number++) {
        nigh_status status = produce(client, number);

        if (status != NIGH_OK) {
            char text[512];

            nigh_client_error(client, text, sizeof text);
            fprintf(stderr, "producer: frame %u: %s (%s)\n", number, nigh_status_string(status),
                    text);
            nigh_client_close(client);
            return 1;
        }
        printf("producer: sealed frame/%u\n", number);
        fflush(stdout);
        poll(NULL, 0, period_ms);
    }
    nigh_client_close(client);
    return 0;
}
