/* SPDX-License-Identifier: Apache-2.0 */
/* See trace.h. */
#include "trace.h"

#include "support/support.h"

#include <stdio.h>
#include <string.h>

void trace_add(struct trace *trace, const char *line)
{
    size_t length = strlen(line);
    bool wanted = false;

    for (size_t n = 0; trace != NULL && trace->words[n] != NULL; n++)
        wanted = wanted || strstr(line, trace->words[n]) != NULL;
    if (!wanted)
        return;
    if (length + 2 > sizeof(trace->text) - trace->length) {
        trace->overflows = true;
        return;
    }
    memcpy(trace->text + trace->length, line, length);
    memcpy(trace->text + trace->length + length, "\n", 2);
    trace->length += length + 1;
}

static void print(const char *title, const char *text)
{
    printf("# %s\n", title);
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1)
        printf("#   %.*s\n", (int)(end - text), text);
}

void trace_assert(const struct trace *trace, const char *expected, ...)
{
    char text[TRACE_BYTES];
    va_list args;

    va_start(args, expected);
    (void)vsnprintf(text, sizeof(text), expected, args);
    va_end(args);
    if (trace->overflows || strcmp(trace->text, text) != 0) {
        print("what happened:", trace->text);
        print("what was to happen:", text);
        fail_msg("the trace is another%s", trace->overflows ? ", and longer" : "");
    }
}
