/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriber: prints what happens to the objects of the pool: what is there already, then what is
 * sealed, deleted, evicted, spilled, or dropped because another node had the id first.
 *
 *   example-subscriber [COUNT]         so many events, else without end; the node: $NIGH_SOCKET
 *
 *   cc subscriber.c $(pkg-config --cflags --libs nigh) -o example-subscriber
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nigh/nigh.h>

#define EVENTS_MAX 1000000000u

static const char *const kinds[] = {
    [NIGH_EVENT_SEALED] = "sealed",     [NIGH_EVENT_DELETED] = "deleted",
    [NIGH_EVENT_EVICTED] = "evicted",   [NIGH_EVENT_SPILLED] = "spilled",
    [NIGH_EVENT_OVERFLOW] = "overflow", [NIGH_EVENT_CONFLICT] = "conflict"};

/* An event has an id. The name is asked for: what is gone by then has none to tell. */
static void show(nigh_client *client, const nigh_event *event)
{
    bool known = (size_t)event->kind < sizeof kinds / sizeof *kinds && kinds[event->kind] != NULL;
    nigh_object_info info;

    if (event->kind == NIGH_EVENT_OVERFLOW) {
        printf("overflow: %llu events were lost; nigh_list tells what there is\n",
               (unsigned long long)event->data_size);
        fflush(stdout);
        return;
    }
    printf("%s id:", known ? kinds[event->kind] : "unknown");
    for (int i = 0; i < NIGH_ID_BYTES; i++) {
        printf("%02x", event->id.bytes[i]);
    }
    printf(" %llu bytes", (unsigned long long)event->data_size);
    if (event->kind == NIGH_EVENT_SEALED && nigh_stat(client, &event->id, &info) == NIGH_OK) {
        printf(" %s", info.name);
    }
    putchar('\n');
    fflush(stdout);
}

/* COUNT; what is no number from 1 up ends the program, or it would end well having done nothing. */
static unsigned parse_count(const char *text)
{
    char *end;
    unsigned long count = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || count < 1 || count > EVENTS_MAX) {
        fprintf(stderr, "subscriber: COUNT is a number from 1 to %u, not '%s'\n", EVENTS_MAX, text);
        exit(2);
    }
    return (unsigned)count;
}

static void usage(FILE *to)
{
    fprintf(to, "usage: example-subscriber [COUNT]\n"
                "Prints COUNT events of the objects of the pool; without it, until it is ended.\n"
                "At the node $NIGH_SOCKET.\n");
}

int main(int argc, char **argv)
{
    nigh_client_options options = {.struct_size = sizeof options, .flags = NIGH_OPEN_READ_ONLY};
    nigh_client *client;
    nigh_status status;
    unsigned count;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    count = argc > 1 ? parse_count(argv[1]) : 0;
    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fprintf(stderr, "subscriber: %s\n", nigh_open_error());
        return 1;
    }
    status = nigh_subscribe(client, NIGH_SUBSCRIBE_REPLAY | NIGH_SUBSCRIBE_CONFLICTS);
    for (unsigned seen = 0; status == NIGH_OK && (count == 0 || seen < count); seen++) {
        nigh_event event;

        status = nigh_next_event(client, NIGH_FOREVER, &event);
        if (status == NIGH_OK) {
            show(client, &event);
        }
    }
    if (status != NIGH_OK) {
        fprintf(stderr, "subscriber: %s\n", nigh_status_string(status));
    }
    nigh_client_close(client);
    return status == NIGH_OK ? 0 : 1;
}
