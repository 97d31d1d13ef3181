/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of the cluster benchmark: read, checked, and what stands for those not given. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "node/transfer_names.h"

#define MOST_BYTES (UINT64_C(1) << 30) /* MPI counts in ints */

const char flags_usage[] =
    "usage: mpirun -n RANKS bench-cluster [FLAG...] OUT.json\n"
    "  --transfer WAY     how objects travel: auto (by size), two-sided, one-sided, push or "
    "register "
    "(auto)\n"
    "  --fabric NAME      what joins the nodes: tcp, verbs or auto (tcp)\n"
    "  --sizes LIST       e.g. 64,4K,1M (64 B to 64 MiB by fours)\n"
    "  --rounds N         that count, after one to warm up (11)\n"
    "  --window N         gets under way at once (16)\n"
    "  --interface NAME   whose IPv4 address the nodes use (on one machine lo, else the first "
    "other); of\n"
    "                     several, as eth0,eth1, the ranks take one after the other\n"
    "  --lanes N          of each node, a power of two (1)\n"
    "  --spin-us N        before a node or who waits for it sleeps (50 with two cores a rank, else "
    "0)\n"
    "  --timeout-s N      longest wait for a get, or for another rank (120)\n";

enum {
    FLAG_TRANSFER = 1,
    FLAG_FABRIC,
    FLAG_SIZES,
    FLAG_ROUNDS,
    FLAG_WINDOW,
    FLAG_INTERFACE,
    FLAG_LANES,
    FLAG_SPIN_US,
    FLAG_TIMEOUT_S
};

static const struct option options[] = {
    {"transfer", required_argument, NULL, FLAG_TRANSFER},
    {"fabric", required_argument, NULL, FLAG_FABRIC},
    {"sizes", required_argument, NULL, FLAG_SIZES},
    {"rounds", required_argument, NULL, FLAG_ROUNDS},
    {"window", required_argument, NULL, FLAG_WINDOW},
    {"interface", required_argument, NULL, FLAG_INTERFACE},
    {"lanes", required_argument, NULL, FLAG_LANES},
    {"spin-us", required_argument, NULL, FLAG_SPIN_US},
    {"timeout-s", required_argument, NULL, FLAG_TIMEOUT_S},
    {NULL, 0, NULL, 0},
};

void flags_size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;

    while (unit < 3 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, "%llu %s", (unsigned long long)bytes, units[unit]);
}

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint32_t *number)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < least ||
        value > most) {
        return false;
    }
    *number = (uint32_t)value;
    return true;
}

/* "64", "64 B", "4K", "4 KiB" ...; advances *text to behind it. */
static bool parse_size(const char **text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    unsigned long long value;
    const char *unit;
    char *end;

    if (**text < '0' || **text > '9') {
        return false;
    }
    errno = 0;
    value = strtoull(*text, &end, 10);
    end += *end == ' ' ? 1 : 0;
    unit = *end == '\0' ? NULL : strchr(units, *end);
    if (unit != NULL) {
        int shift = 10 * (int)(unit - units + 1);

        if (value > MOST_BYTES >> shift) {
            return false;
        }
        value <<= shift;
        end += 1;
        end += *end == 'i' ? 1 : 0;
    }
    end += *end == 'B' ? 1 : 0;
    *text = end;
    *bytes = value;
    return errno == 0 && value > 0 && value <= MOST_BYTES;
}

static bool parse_sizes(const char *text, struct flags *flags)
{
    flags->size_count = 0;
    for (;;) {
        if (flags->size_count == CLUSTER_MAX_SIZES ||
            !parse_size(&text, &flags->sizes[flags->size_count])) {
            return false;
        }
        flags->size_count++;
        if (*text == '\0') {
            return true;
        }
        if (*text++ != ',') {
            return false;
        }
    }
}

/* Which of the names it is; *name lives as long as the program. */
static bool parse_name(const char *text, const char *const *names, size_t count, uint32_t *number,
                       const char **name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *number = i;
            *name = names[i];
            return true;
        }
    }
    return false;
}

/* By their numbers. */
static const char *const fabrics[] = {
    [NIGH_FABRIC_TCP] = "tcp", [NIGH_FABRIC_VERBS] = "verbs", [NIGH_FABRIC_AUTO] = "auto"};

static bool parse_one(int flag, const char *value, struct flags *flags)
{
    switch (flag) {
    case FLAG_TRANSFER:
        return parse_name(value, transfer_names, TRANSFER_NAMES, &flags->transfer,
                          &flags->transfer_name);
    case FLAG_FABRIC:
        return parse_name(value, fabrics, sizeof fabrics / sizeof fabrics[0], &flags->fabric,
                          &flags->fabric_name);
    case FLAG_SIZES: return parse_sizes(value, flags);
    case FLAG_ROUNDS: return parse_number(value, 1, CLUSTER_MAX_ROUNDS, &flags->rounds);
    case FLAG_WINDOW: return parse_number(value, 1, CLUSTER_MAX_WINDOW, &flags->window);
    case FLAG_LANES: return parse_number(value, 1, 64, &flags->lanes);
    case FLAG_SPIN_US: return parse_number(value, 0, 1000000, &flags->spin_us);
    case FLAG_TIMEOUT_S: return parse_number(value, 1, 86400, &flags->timeout_s);
    default: flags->interface = value; return value[0] != '\0';
    }
}

bool flags_parse(int argc, char **argv, struct flags *flags, char *why, size_t why_bytes)
{
    int flag, index = 0;

    *flags = (struct flags){.transfer_name = transfer_names[NIGH_TRANSFER_AUTO],
                            .fabric_name = fabrics[NIGH_FABRIC_TCP],
                            .rounds = 11,
                            .window = 16,
                            .lanes = 1,
                            .spin_us = UINT32_MAX,
                            .timeout_s = 120};
    for (uint64_t bytes = 64; bytes <= UINT64_C(64) << 20; bytes *= 4) {
        flags->sizes[flags->size_count++] = bytes;
    }
    opterr = 0;
    while ((flag = getopt_long(argc, argv, ":", options, &index)) != -1) {
        if (flag == ':') {
            snprintf(why, why_bytes, "%s needs a value", argv[optind - 1]);
            return false;
        }
        if (flag == '?' && optopt != 0) {
            snprintf(why, why_bytes, "no flag is called \"-%c\"", optopt);
            return false;
        }
        if (flag == '?') {
            snprintf(why, why_bytes, "no flag is called \"%s\"", argv[optind - 1]);
            return false;
        }
        if (!parse_one(flag, optarg, flags)) {
            snprintf(why, why_bytes, "--%s cannot be \"%s\"", options[index].name, optarg);
            return false;
        }
    }
    if (optind + 1 != argc) {
        snprintf(why, why_bytes, "one file for the rows must be named");
        return false;
    }
    flags->out = argv[optind];
    return true;
}
