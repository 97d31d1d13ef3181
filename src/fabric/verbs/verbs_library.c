/* SPDX-License-Identifier: Apache-2.0 */
/* See verbs_library.h. */
#include "fabric/verbs/verbs_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define LIBRARY_VERBS "libibverbs.so.1"
#define LIBRARY_CM    "librdmacm.so.1"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct verbs_library library;
static const char *absent; /* NULL: all is there */

struct call {
    const char *symbol;
    void **pointer;
};

/* POSIX has it that a function's address may lie in a void *. */
#define CALL(result, name, symbol, arguments) {#symbol, (void **)&library.name},

static void open_libraries(void)
{
    static const struct call calls[] = {VERBS_CALLS(CALL)};
    void *verbs = dlopen(LIBRARY_VERBS, RTLD_NOW | RTLD_LOCAL);
    void *cm = verbs != NULL ? dlopen(LIBRARY_CM, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (verbs == NULL || cm == NULL) {
        absent = verbs == NULL ? LIBRARY_VERBS : LIBRARY_CM;
        return;
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        *calls[i].pointer =
            dlsym(strncmp(calls[i].symbol, "rdma_", 5) == 0 ? cm : verbs, calls[i].symbol);
        if (*calls[i].pointer == NULL) {
            absent = calls[i].symbol;
            return;
        }
    }
}

const struct verbs_library *verbs_library_open(const char **missing)
{
    (void)pthread_once(&once, open_libraries);
    if (absent != NULL) {
        *missing = absent;
        return NULL;
    }
    return &library;
}
