/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a simulated run says, as prose that a test compares with what was to happen: those lines
 * that have one of some words in them, without their times. So a test asserts what its scenario is
 * about, and other lines may change.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define TRACE_BYTES 4096u

struct trace {
    const char *const *words; /* of which a line has one to be kept; ended by NULL */
    bool overflows;
    size_t length;
    char text[TRACE_BYTES];
};

/* A line is said. NULL: nobody listens. */
void trace_add(struct trace *trace, const char *line);

/* That just these lines were kept, each ended by a line feed; else the test fails, and prints both.
 */
void trace_assert(const struct trace *trace, const char *expected, ...)
    __attribute__((format(printf, 2, 3)));

#endif
