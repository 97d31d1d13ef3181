/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producer: makes frames of numbers in place, one every PERIOD, and seals them under "frame/0",
 * "frame/1", ...; example-consumer reads them where they lie.
 *
 *   example-producer [COUNT [PERIOD_MS]]         the node: $NIGH_SOCKET
 *
 *   cc producer.c $(pkg-config --cflags --libs nigh) -o example-producer
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nigh/nigh.h>

#define FRAME_NUMBERS (1u << 20)
#define FRAMES_MAX    1000000000u
#define PERIOD_MAX_MS 3600000u

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

/* What is no number in these bounds ends the program, or it would end well having done nothing. */
static unsigned parse(const char *name, const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < least || number > most) {
        fprintf(stderr, "producer: %s is a number from %u to %u, not '%s'\n", name, least, most,
                text);
        exit(2);
    }
    return (unsigned)number;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-producer [COUNT [PERIOD_MS]]\n"
                "Makes COUNT frames of numbers (default 10), one every PERIOD_MS (default 100),\n"
                "and seals them as frame/0, frame/1, ... At the node $NIGH_SOCKET.\n");
}

int main(int argc, char **argv)
{
    unsigned count, period_ms;
    nigh_client *client;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    count = argc > 1 ? parse("COUNT", argv[1], 1, FRAMES_MAX) : 10;
    period_ms = argc > 2 ? parse("PERIOD_MS", argv[2], 0, PERIOD_MAX_MS) : 100;
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
        poll(NULL, 0, (int)period_ms);
    }
    nigh_client_close(client);
    return 0;
}
