/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The object service against its peers, in one run: rows to a JSON file, readable lines to standard
 * output.
 *
 *   bench-objects NIGHD OUT.json [GROUP...]     groups: floor get put index many
 *
 * Exits 0 when it ran, whether or not every target was met: a missed target is a row that says so.
 */
#include <stdio.h>
#include <string.h>

#include "objects.h"

static const struct {
    const char *name;
    void (*run)(void);
} groups[] = {
    {"floor", objects_floor}, {"get", objects_get},   {"put", objects_put},
    {"index", objects_index}, {"many", objects_many},
};

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return argc == 3;
}

int main(int argc, char **argv)
{
    int missed;

    if (argc < 3) {
        fprintf(stderr, "usage: bench-objects NIGHD OUT.json [floor|get|put|index|many...]\n");
        return 2;
    }
    bench_nighd_path = argv[1];
    bench_rows_open(argv[2]);
    printf("%d cores; client on core %d, spinning lane on core %d, sleeping lane on the client's "
           "core\n",
           bench_cores(), BENCH_CLIENT_CORE, BENCH_LANE_CORE % bench_cores());
    fflush(stdout);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        if (wanted(groups[i].name, argc, argv)) {
            printf("\n%s\n", groups[i].name);
            fflush(stdout); /* before processes are forked */
            groups[i].run();
        }
    }
    missed = bench_rows_close();
    printf("\n%d targets missed; rows in %s\n", missed, argv[2]);
    return 0;
}
