/* SPDX-License-Identifier: Apache-2.0 */
/* See crossover.h. */
#include "object/crossover.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define FIRST_SHIFT 12u                 /* class 0 is that of 4 KiB */
#define FRESH       UINT64_C(4096)      /* a class that was not noted for so long is forgotten */
#define NONE_BYTES  (UINT64_C(1) << 20) /* none up to here: there is none */
#define HYSTERESIS  8u                  /* moves by less than an eighth are not made */

void crossover_init(struct crossover *crossover, uint64_t least_bytes)
{
    memset(crossover, 0, sizeof(*crossover));
    crossover->least_bytes = least_bytes;
    crossover->bytes = least_bytes > CROSSOVER_FIRST_BYTES ? least_bytes : CROSSOVER_FIRST_BYTES;
}

uint64_t crossover_bytes(const struct crossover *crossover)
{
    return crossover->bytes;
}

/* ---- classes -------------------------------------------------------------- */

static uint32_t class_of(uint64_t bytes)
{
    uint32_t number = 0;

    while (number + 1 < CROSSOVER_CLASSES && bytes >> (FIRST_SHIFT + 1 + number) != 0) {
        number++;
    }
    return number;
}

static bool is_measured(const struct crossover *crossover, enum crossover_path path,
                        uint32_t number)
{
    const struct crossover_class *class = &crossover->classes[path][number];

    return class->count >= CROSSOVER_ENOUGH && crossover->noted - class->noted < FRESH;
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double median_of(const uint32_t *values, uint32_t count)
{
    uint32_t sorted[CROSSOVER_WINDOW];

    memcpy(sorted, values, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_u32);
    return (sorted[(count - 1) / 2] + (double)sorted[count / 2]) / 2;
}

/* ---- probes --------------------------------------------------------------- */

static uint64_t class_floor(uint32_t number)
{
    return UINT64_C(1) << (FIRST_SHIFT + number);
}

/* So that what is sent is read: near the crossover, or down to the next class that was only sent.
 */
static uint64_t probe_down(const struct crossover *crossover)
{
    uint64_t bytes =
        crossover->bytes == CROSSOVER_NONE ? NONE_BYTES : crossover->bytes / CROSSOVER_PROBE_REACH;

    for (uint32_t n = class_of(bytes) + 1; n-- > 0;) {
        if (is_measured(crossover, CROSSOVER_TWO_SIDED, n) &&
            !is_measured(crossover, CROSSOVER_ONE_SIDED, n)) {
            bytes = bytes < class_floor(n) ? bytes : class_floor(n);
            break;
        }
    }
    return bytes < crossover->least_bytes ? crossover->least_bytes : bytes;
}

/* So that what is read is sent: near the crossover, or up to the next class that was only read. */
static uint64_t probe_up(const struct crossover *crossover)
{
    uint64_t bytes = crossover->bytes * CROSSOVER_PROBE_REACH;

    for (uint32_t n = class_of(bytes); n < CROSSOVER_CLASSES && class_floor(n) <= NONE_BYTES; n++) {
        if (is_measured(crossover, CROSSOVER_ONE_SIDED, n) &&
            !is_measured(crossover, CROSSOVER_TWO_SIDED, n)) {
            return bytes > class_floor(n + 1) ? bytes : class_floor(n + 1);
        }
    }
    return bytes;
}

uint64_t crossover_next(struct crossover *crossover)
{
    uint64_t every = crossover->settled ? CROSSOVER_PROBE : CROSSOVER_PROBE_FIRST;
    uint64_t probe = crossover->asked++ / every;

    if (crossover->asked % every != 0) {
        return crossover->bytes;
    }
    /* By turns; without a crossover nothing is read. */
    return probe % 2 == 0 || crossover->bytes == CROSSOVER_NONE ? probe_down(crossover)
                                                                : probe_up(crossover);
}

/* ---- what each path costs -------------------------------------------------- */

/* A size that was measured on both paths, and what each took. */
struct point {
    double kib;
    double took_us[CROSSOVER_PATHS];
    uint32_t number; /* of its class */
};

static double kib_of(const struct crossover_class *class)
{
    return median_of(class->kib, class->count);
}

static double took_of(const struct crossover_class *class)
{
    return median_of(class->took_us, class->count);
}

/* Microseconds a KiB around a class, by the line to the next class that was measured; 0: unknown.
 */
static double slope_at(const struct crossover *crossover, enum crossover_path path, uint32_t number)
{
    const struct crossover_class *here = &crossover->classes[path][number];

    for (uint32_t far = 1; far < CROSSOVER_CLASSES; far++) {
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t n = side == 0 ? number + far : number - far; /* below 0: very large */
            const struct crossover_class *other;
            double each;

            if (n >= CROSSOVER_CLASSES || !is_measured(crossover, path, n)) {
                continue;
            }
            other = &crossover->classes[path][n];
            if (kib_of(other) == kib_of(here)) {
                continue; /* on either side of the border between them: that is no line */
            }
            each = (took_of(other) - took_of(here)) / (kib_of(other) - kib_of(here));
            return each > 0 ? each : 0;
        }
    }
    return 0;
}

/* The classes that were measured on both paths, each at one size: base + each * KiB. */
static uint32_t points_of(const struct crossover *crossover, struct point points[CROSSOVER_CLASSES])
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < CROSSOVER_CLASSES; n++) {
        struct point point = {.number = n};
        bool measured = true;

        for (uint32_t path = 0; path < CROSSOVER_PATHS; path++) {
            measured = measured && is_measured(crossover, (enum crossover_path)path, n);
        }
        if (!measured) {
            continue;
        }
        for (uint32_t path = 0; path < CROSSOVER_PATHS; path++) {
            point.kib += kib_of(&crossover->classes[path][n]) / CROSSOVER_PATHS;
        }
        for (uint32_t path = 0; path < CROSSOVER_PATHS; path++) {
            const struct crossover_class *class = &crossover->classes[path][n];

            point.took_us[path] =
                took_of(class) +
                slope_at(crossover, (enum crossover_path)path, n) * (point.kib - kib_of(class));
        }
        points[count++] = point;
    }
    return count;
}

/* ---- the crossover -------------------------------------------------------- */

/* How much slower a path is at a point than the better one, as a share of that. */
static double regret(const struct point *point, enum crossover_path path)
{
    double two_us = point->took_us[CROSSOVER_TWO_SIDED];
    double one_us = point->took_us[CROSSOVER_ONE_SIDED];
    double best_us = two_us < one_us ? two_us : one_us;

    return best_us > 0 ? point->took_us[path] / best_us - 1 : 0;
}

/* How many of the points are best sent; the rest are read. */
static uint32_t best_split(const struct point *points, uint32_t count)
{
    double least = 0;
    uint32_t best = 0;

    for (uint32_t split = 0; split <= count; split++) {
        double sum = 0;

        for (uint32_t n = 0; n < count; n++) {
            sum += regret(&points[n], n < split ? CROSSOVER_TWO_SIDED : CROSSOVER_ONE_SIDED);
        }
        if (split == 0 || sum < least) {
            least = sum;
            best = split;
        }
    }
    return best;
}

/* Where the paths' lines through two neighbours cross; KiB. */
static double crossing(const struct point *a, const struct point *b)
{
    double before = a->took_us[CROSSOVER_ONE_SIDED] - a->took_us[CROSSOVER_TWO_SIDED];
    double after = b->took_us[CROSSOVER_TWO_SIDED] - b->took_us[CROSSOVER_ONE_SIDED];

    if (before <= 0 || after <= 0 || b->kib <= a->kib) {
        return (a->kib + b->kib) / 2; /* noise: either would do */
    }
    return a->kib + (b->kib - a->kib) * before / (before + after);
}

/* What the points say. Beyond them nothing is known: the answer of before, at most as far. */
static uint64_t answer(const struct crossover *crossover, const struct point *points,
                       uint32_t count)
{
    uint32_t split = best_split(points, count);
    uint64_t low = class_floor(points[0].number);
    uint64_t high = class_floor(points[count - 1].number + 1);
    uint64_t now = crossover->bytes;

    if (split == 0) {
        return now < low ? now : low;
    }
    if (split < count) {
        return (uint64_t)(crossing(&points[split - 1], &points[split]) * 1024);
    }
    if (high > NONE_BYTES) {
        return CROSSOVER_NONE;
    }
    return now > high ? now : high;
}

static bool is_a_move(uint64_t from, uint64_t to)
{
    uint64_t little = from / HYSTERESIS;

    return from == CROSSOVER_NONE || to == CROSSOVER_NONE || to > from + little ||
           to < from - little;
}

/* Whether each size near the crossover that is transferred at all was measured on both paths. */
static bool is_settled(const struct crossover *crossover)
{
    uint64_t bytes = crossover->bytes == CROSSOVER_NONE ? NONE_BYTES : crossover->bytes;
    uint32_t last = class_of(bytes * CROSSOVER_PROBE_REACH - 1);

    for (uint32_t n = class_of(bytes / CROSSOVER_PROBE_REACH); n <= last; n++) {
        if (is_measured(crossover, CROSSOVER_TWO_SIDED, n) !=
            is_measured(crossover, CROSSOVER_ONE_SIDED, n)) {
            return false;
        }
    }
    return true;
}

static void decide(struct crossover *crossover)
{
    struct point points[CROSSOVER_CLASSES];
    uint32_t count = points_of(crossover, points);
    uint64_t bytes;

    if (count == 0) {
        return;
    }
    bytes = answer(crossover, points, count);
    bytes = bytes < crossover->least_bytes ? crossover->least_bytes : bytes;
    if (is_a_move(crossover->bytes, bytes)) {
        crossover->bytes = bytes;
    }
    crossover->settled = is_settled(crossover);
}

/* Of a class and path that is taken often, one in CROSSOVER_SPREAD transfers. */
static void take_in(const struct crossover *crossover, struct crossover_class *class,
                    uint64_t bytes, uint64_t took_us)
{
    uint64_t kib = (bytes + 1023) / 1024;

    if (class->count == CROSSOVER_WINDOW && crossover->noted - class->taken < CROSSOVER_SPREAD) {
        return;
    }
    class->took_us[class->next] = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
    class->kib[class->next] = kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX;
    class->next = (class->next + 1) % CROSSOVER_WINDOW;
    class->count += class->count < CROSSOVER_WINDOW ? 1 : 0;
    class->taken = crossover->noted;
}

void crossover_note(struct crossover *crossover, enum crossover_path path, uint64_t bytes,
                    uint64_t took_us)
{
    struct crossover_class *class = &crossover->classes[path][class_of(bytes)];

    NIGH_ASSERT(path < CROSSOVER_PATHS);
    take_in(crossover, class, bytes, took_us);
    class->noted = crossover->noted++;
    if (crossover->noted % CROSSOVER_ENOUGH == 0) {
        decide(crossover);
    }
}

bool crossover_is_known(const struct crossover *crossover)
{
    struct point points[CROSSOVER_CLASSES];

    return points_of(crossover, points) > 0;
}

uint32_t crossover_point(const struct crossover *crossover, enum crossover_path path,
                         uint32_t number, uint32_t *kib, uint32_t *took_us)
{
    const struct crossover_class *class = &crossover->classes[path][number];

    NIGH_ASSERT(path < CROSSOVER_PATHS && number < CROSSOVER_CLASSES);
    if (!is_measured(crossover, path, number)) {
        return 0;
    }
    *kib = (uint32_t)kib_of(class);
    *took_us = (uint32_t)took_of(class);
    return class->count;
}

void crossover_forget(struct crossover *crossover)
{
    memset(crossover->classes, 0, sizeof(crossover->classes));
    crossover->settled = false;
}

bool crossover_is_valid(const struct crossover *crossover)
{
    for (uint32_t path = 0; path < CROSSOVER_PATHS; path++) {
        for (uint32_t n = 0; n < CROSSOVER_CLASSES; n++) {
            const struct crossover_class *class = &crossover->classes[path][n];

            if (class->count > CROSSOVER_WINDOW || class->next >= CROSSOVER_WINDOW ||
                (class->count > 0 && class->noted >= crossover->noted)) {
                return false;
            }
        }
    }
    return crossover->bytes >= crossover->least_bytes;
}
