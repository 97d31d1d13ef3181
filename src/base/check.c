/* SPDX-License-Identifier: Apache-2.0 */
/* The failing path of assertions. It allocates nothing and takes no lock: the heap may be what
 * broke. */
#include "base/check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/order.h"

#ifdef __SANITIZE_THREAD__
char order_of_rings;
#endif

static _Atomic(check_hook *) check_current_hook;

check_hook *check_set_hook(check_hook *hook)
{
    return atomic_exchange(&check_current_hook, hook);
}

/* Writes "FILE:LINE: assertion failed: EXPRESSION" with write(2) alone, from any context. */
static void check_print(const char *file, int line, const char *expression)
{
    char digits[12];
    char *first = digits + sizeof(digits);
    unsigned rest = line > 0 ? (unsigned)line : 0;
    do {
        *--first = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);

    static const char colon[] = ":", text[] = ": assertion failed: ", newline[] = "\n";
    struct iovec parts[] = {
        {(void *)file, strlen(file)},
        {(void *)colon, 1},
        {first, (size_t)(digits + sizeof(digits) - first)},
        {(void *)text, sizeof(text) - 1},
        {(void *)expression, strlen(expression)},
        {(void *)newline, 1},
    };
    /* Nothing can be done about a failed write: the process ends either way. */
    ssize_t ignored = writev(STDERR_FILENO, parts, ARRAY_LENGTH(parts));
    (void)ignored;
}

void check_failed(const char *file, int line, const char *expression)
{
    check_hook *hook = atomic_load(&check_current_hook);
    if (hook == NULL)
        check_print(file, line, expression);
    else
        hook(file, line, expression);
    abort();
}
