/* SPDX-License-Identifier: Apache-2.0 */
/* See http_request.h. Header fields are not looked at: nothing here depends on any. */
#include "daemon/http_request.h"

#include <string.h>

/* Where the head ends: an empty line. */
static bool has_ended(const char *bytes, size_t count)
{
    return memmem(bytes, count, "\r\n\r\n", 4) != NULL || memmem(bytes, count, "\n\n", 2) != NULL;
}

static bool is_method(const char *bytes, size_t count, const char *method)
{
    return count == strlen(method) && memcmp(bytes, method, count) == 0;
}

static int take_target(const char *target, size_t count, struct http_request *request)
{
    const char *query = memchr(target, '?', count);

    count = query != NULL ? (size_t)(query - target) : count;
    if (count == 0 || target[0] != '/')
        return 400;
    if (count > HTTP_PATH_BYTES)
        return 414;
    for (size_t n = 0; n < count; n++) {
        if (target[n] <= ' ' || target[n] >= 0x7f)
            return 400;
    }
    memcpy(request->path, target, count);
    request->path[count] = '\0';
    return 200;
}

int http_request_parse(const char *bytes, size_t count, struct http_request *request)
{
    const char *line_end, *target, *version;
    size_t left;

    if (!has_ended(bytes, count))
        return count >= HTTP_HEAD_BYTES ? 431 : 0;
    line_end = memchr(bytes, '\n', count);
    target = memchr(bytes, ' ', (size_t)(line_end - bytes));
    if (target == NULL)
        return 400;
    left = (size_t)(line_end - ++target);
    version = memchr(target, ' ', left);
    if (version == NULL || line_end - version < 9 || memcmp(version, " HTTP/", 6) != 0)
        return 400;
    if (memcmp(version + 6, "1.", 2) != 0)
        return 505;
    request->is_head = is_method(bytes, (size_t)(target - 1 - bytes), "HEAD");
    if (!request->is_head && !is_method(bytes, (size_t)(target - 1 - bytes), "GET"))
        return 405;
    return take_target(target, (size_t)(version - target), request);
}
