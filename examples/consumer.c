/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consumer: waits for the frames of example-producer, sums each where it lies, and releases it. Any
 * number may run at once.
 *
 *   example-consumer [COUNT]         the node: $NIGH_SOCKET
 *
 *   cc consumer.c $(pkg-config --cflags --libs nigh) -o example-consumer
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nigh/nigh.h>

#define FRAMES_MAX 1000000000u

static nigh_status consume(nigh_client *client, unsigned number)
{
    nigh_status status;
    nigh_view view;
    double sum = 0;
    char name[32];
    nigh_id id;

    snprintf(name, sizeof name, "frame/%u", number);
    nigh_id_from_name(name, &id);
    /* Comes back as soon as the frame is sealed. */
    status = nigh_get(client, &id, 1, 10000000, &view);
    if (status != NIGH_OK) {
        return status;
    }
    for (uint64_t i = 0; i < view.data_size / sizeof(double); i++) {
        sum += ((const double *)view.data)[i];
    }
    printf("consumer: %s has %llu bytes, sum %.0f\n", name, (unsigned long long)view.data_size,
           sum);
    return nigh_release(client, &view);
}

/* COUNT; what is no number from 1 up ends the program, or it would end well having done nothing. */
static unsigned parse_count(const char *text)
{
    char *end;
    unsigned long count = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || count < 1 || count > FRAMES_MAX) {
        fprintf(stderr, "consumer: COUNT is a number from 1 to %u, not '%s'\n", FRAMES_MAX, text);
        exit(2);
    }
    return (unsigned)count;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-consumer [COUNT]\n"
                "Waits for COUNT frames (default 10) of example-producer, and sums each where\n"
                "it lies. At the node $NIGH_SOCKET.\n");
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options, .flags = NIGH_OPEN_READ_ONLY};
    nigh_client *client;
    unsigned count;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    count = argc > 1 ? parse_count(argv[1]) : 10;
    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "consumer: %s\n", nigh_open_error());
        return 1;
    }
    for (unsigned number = 0; number < count; number++) {
        nigh_status status = consume(client, number);

        if (status != NIGH_OK) {
            fprintf(stderr, "consumer: frame %u: %s\n", number, nigh_status_string(status));
            nigh_client_close(client);
            return 1;
        }
    }
    nigh_client_close(client);
    return 0;
}
