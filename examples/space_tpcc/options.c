/* SPDX-License-Identifier: Apache-2.0 */
/* See options.h. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "database.h"

#define TRANSACTIONS_MAX UINT64_C(1000000)

struct options options = {.warehouses = 3,
                          .items = 10000,
                          .customers = 300,
                          .workers = 3,
                          .transactions = 1000,
                          .lock_us = 50000,
                          .seed = 1};

static const char *const deaths[] = {
    [DEATH_NONE] = "none",           [DEATH_LOCKED] = "locked",   [DEATH_MARKED] = "marked",
    [DEATH_COMMITTED] = "committed", [DEATH_APPLIED] = "applied", [DEATH_ANY] = "any"};

static void usage(FILE *to)
{
    fprintf(
        to,
        "usage: example-space_tpcc [OPTIONS] [SOCKET...]\n"
        "Terminals at all nodes do TPC-C's New-Orders and Payments on tables in a space; then\n"
        "it is looked whether these are consistent. Beside it, threads of one process.\n"
        "SOCKET: of a node, up to %d; none: those of $NIGH_SOCKETS (examples/three-nodes).\n"
        "  --warehouses W    (default 3; 1 to %d), which go round the nodes\n"
        "  --items N         (default 10000; 100 to %d, which is the specification's)\n"
        "  --customers N     of a district (default 300; 10 to %d, likewise)\n"
        "  --workers N       terminals, which go round the warehouses (default 3; 1 to %d)\n"
        "  --transactions N  of each (default 1000; 1 to 1000000)\n"
        "  --lock-ms MS      for which a lock of another node is waited for (default 50; 1 to\n"
        "                    10000); then the transaction is aborted, and begun again\n"
        "  --seed N          of all that is random (default 1)\n"
        "  --kill WHERE      the first terminal dies half-way, in a transaction that has its\n"
        "                    locks: locked; has marked its rows: marked; is committed, and has\n"
        "                    written none of them: committed; half of them: applied; or at any\n"
        "                    moment of some milliseconds, by the seed: any\n"
        "  --json            one JSON object\n"
        "Each node takes part with some 16 MB for each warehouse of its own, and as much again\n"
        "for others' rows (nighd --space-memory); with the specification's sizes 130 MB.\n"
        "Exit status: 0: the database is as it should be; 1: it is not, or something failed; "
        "2: usage.\n",
        NODES_MAX, WAREHOUSES_MAX, ITEMS, CUSTOMERS, WORKERS_MAX);
}

static void refuse(const char *why, const char *word)
{
    fprintf(stderr, "space_tpcc: %s%s (--help says more)\n", why, word);
    exit(2);
}

static uint64_t number_of(const char *word, uint64_t least, uint64_t most)
{
    char *end;

    errno = 0;
    uint64_t value = strtoull(word, &end, 10);

    if (errno != 0 || word[0] < '0' || word[0] > '9' || *end != 0 || value < least ||
        value > most) {
        refuse("no such number here: ", word);
    }
    return value;
}

static enum death death_of(const char *word)
{
    for (size_t i = 1; i < sizeof deaths / sizeof deaths[0]; i++) {
        if (strcmp(word, deaths[i]) == 0) {
            return (enum death)i;
        }
    }
    refuse("nobody dies so: ", word);
    return DEATH_NONE;
}

static void add_socket(const char *path)
{
    if (options.nodes == NODES_MAX) {
        refuse("too many sockets: ", path);
    }
    options.sockets[options.nodes++] = path;
}

static void take_sockets(char **words, int count)
{
    char *list = getenv("NIGH_SOCKETS");

    for (int i = 0; i < count; i++) {
        add_socket(words[i]);
    }
    if (count == 0 && list != NULL) {
        for (char *word = strtok(list, " "); word != NULL; word = strtok(NULL, " ")) {
            add_socket(word);
        }
    }
    if (options.nodes == 0) {
        refuse("no socket of a node is given, nor $NIGH_SOCKETS", "");
    }
}

static void take_option(int option)
{
    switch (option) {
    case 0: break;
    case 'w': options.warehouses = (uint32_t)number_of(optarg, 1, WAREHOUSES_MAX); break;
    case 'i': options.items = (uint32_t)number_of(optarg, 100, ITEMS); break;
    case 'c': options.customers = (uint32_t)number_of(optarg, 10, CUSTOMERS); break;
    case 'n': options.workers = (uint32_t)number_of(optarg, 1, WORKERS_MAX); break;
    case 't': options.transactions = number_of(optarg, 1, TRANSACTIONS_MAX); break;
    case 'l': options.lock_us = number_of(optarg, 1, 10000) * 1000; break;
    case 's': options.seed = number_of(optarg, 0, UINT32_MAX); break;
    case 'k': options.death = death_of(optarg); break;
    case 'h': usage(stdout); exit(0);
    default: usage(stderr); exit(2);
    }
}

void options_take(int argc, char **argv)
{
    const struct option known[] = {{"warehouses", required_argument, NULL, 'w'},
                                   {"items", required_argument, NULL, 'i'},
                                   {"customers", required_argument, NULL, 'c'},
                                   {"workers", required_argument, NULL, 'n'},
                                   {"transactions", required_argument, NULL, 't'},
                                   {"lock-ms", required_argument, NULL, 'l'},
                                   {"seed", required_argument, NULL, 's'},
                                   {"kill", required_argument, NULL, 'k'},
                                   {"help", no_argument, NULL, 'h'},
                                   {"json", no_argument, &options.json, 1},
                                   {0}};
    int found;

    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        take_option(found);
    }
    take_sockets(argv + optind, argc - optind);
}
