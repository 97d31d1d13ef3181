/* SPDX-License-Identifier: Apache-2.0 */
/* See hello.h. */
#include "node/hello.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "node/pool.h"

/* What every version has at the same place: enough to refuse in words. */
#define HELLO_BYTES_MIN (offsetof(struct session_hello, version_max) + sizeof(uint16_t))

static nigh_status hello_negotiate(const struct session_hello *hello, uint16_t *version,
                                   char *sentence)
{
    uint16_t newest = hello->version_max < SESSION_VERSION_MAX ? hello->version_max
                                                               : (uint16_t)SESSION_VERSION_MAX;

    if (hello->version_min > hello->version_max) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the client's range of session versions, %u to %u, is empty; reinstall libnigh",
                 hello->version_min, hello->version_max);
        return NIGH_PROTOCOL;
    }
    if (newest < SESSION_VERSION_MIN || newest < hello->version_min) {
        snprintf(
            sentence, HELLO_SENTENCE_BYTES,
            "this node speaks session versions %u to %u, the client %u to %u; install the same "
            "release of nigh on both sides",
            SESSION_VERSION_MIN, SESSION_VERSION_MAX, hello->version_min, hello->version_max);
        return NIGH_VERSION;
    }
    *version = newest;
    return NIGH_OK;
}

static nigh_status hello_check_fields(const struct session_hello *hello, char *sentence)
{
    uint32_t unknown =
        hello->flags & ~(SESSION_HELLO_READ_ONLY | SESSION_HELLO_RESUME | SESSION_HELLO_LOW);

    if (unknown != 0) {
        snprintf(sentence, HELLO_SENTENCE_BYTES, "the hello has unknown flags (0x%x)", unknown);
        return NIGH_INVALID;
    }
    if (memchr(hello->pool, 0, sizeof(hello->pool)) == NULL ||
        memchr(hello->name, 0, sizeof(hello->name)) == NULL) {
        snprintf(sentence, HELLO_SENTENCE_BYTES, "a name in the hello is not terminated");
        return NIGH_INVALID;
    }
    if (hello->pool[0] != '\0' && !pool_name_is_valid(hello->pool)) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the pool's name is not valid; use letters, digits, '-', '_' and '.'");
        return NIGH_INVALID;
    }
    return NIGH_OK;
}

nigh_status hello_read(const void *bytes, size_t size_bytes, struct session_hello *out,
                       uint16_t *version, char sentence[HELLO_SENTENCE_BYTES])
{
    struct session_hello hello = {0};
    char printable[LIMIT_CLIENT_NAME_BYTES + 1];
    uint16_t chosen = 0;
    nigh_status status;

    memcpy(&hello, bytes, size_bytes < sizeof(hello) ? size_bytes : sizeof(hello));
    if (size_bytes < HELLO_BYTES_MIN || hello.header.magic != SESSION_MAGIC ||
        hello.header.kind != SESSION_HELLO) {
        snprintf(sentence, HELLO_SENTENCE_BYTES,
                 "the first message is not a hello of nigh; connect with libnigh");
        return NIGH_PROTOCOL;
    }
    status = hello_negotiate(&hello, &chosen, sentence);
    if (status == NIGH_OK && size_bytes < sizeof(hello)) {
        snprintf(sentence, HELLO_SENTENCE_BYTES, "the hello is too short: %zu bytes instead of %zu",
                 size_bytes, sizeof(hello));
        status = NIGH_PROTOCOL;
    }
    if (status == NIGH_OK)
        status = hello_check_fields(&hello, sentence);
    if (status != NIGH_OK)
        return status;
    /* The name is shown on terminals and in logs. */
    bytes_printable(hello.name, strlen(hello.name), printable, sizeof(printable));
    memset(hello.name, 0, sizeof(hello.name));
    memcpy(hello.name, printable, strlen(printable));
    *out = hello;
    *version = chosen;
    return NIGH_OK;
}
