/* SPDX-License-Identifier: Apache-2.0 */
/* See http_request.h. Of header fields only Host is looked at. A browser says there which name it
 * was led by: a page from elsewhere, whose name somebody points at the loopback, says its own. Who
 * says nothing, in HTTP/1.0, is no browser. */
#include "daemon/http_request.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

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

/* ---- Host ----------------------------------------------------------------- */

/* ":80", or nothing. */
static bool is_port(const char *text, size_t count)
{
    if (count == 0)
        return true;
    if (text[0] != ':' || count < 2 || count > 6)
        return false;
    for (size_t n = 1; n < count; n++) {
        if (text[n] < '0' || text[n] > '9')
            return false;
    }
    return true;
}

/* localhost, 127.0.0.0/8 or [::1], at any port: a tunnel may begin at another than ours. */
static bool is_own_host(const char *text, size_t count)
{
    static const char six[] = "[::1]", name[] = "localhost";
    const char *colon = memchr(text, ':', count);
    size_t length = colon != NULL ? (size_t)(colon - text) : count;
    char address[INET_ADDRSTRLEN] = "";
    struct in_addr in;

    if (count >= sizeof(six) - 1 && memcmp(text, six, sizeof(six) - 1) == 0)
        return is_port(text + sizeof(six) - 1, count - (sizeof(six) - 1));
    if (!is_port(text + length, count - length))
        return false;
    if (length == sizeof(name) - 1 && strncasecmp(text, name, length) == 0)
        return true;
    if (length == 0 || length >= sizeof(address))
        return false;
    memcpy(address, text, length);
    return inet_pton(AF_INET, address, &in) == 1 && ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The field of a line, if it is Host: 200, or why not. 0: it is another. */
static int take_field(const char *line, size_t count)
{
    static const char name[] = "host";
    const char *colon = memchr(line, ':', count);
    size_t length = colon != NULL ? (size_t)(colon - line) : 0;

    if (length > 0 && is_blank(line[length - 1]))
        return 400; /* whoever forwards it may take it for that field, or for none */
    if (length != sizeof(name) - 1 || strncasecmp(line, name, length) != 0)
        return 0;
    line += length + 1;
    count -= length + 1;
    while (count > 0 && is_blank(line[0])) {
        line++;
        count--;
    }
    while (count > 0 && is_blank(line[count - 1]))
        count--;
    return is_own_host(line, count) ? 200 : 421;
}

/* The fields behind the first line, to the empty one; `wants_host`: HTTP/1.1 has one. */
static int take_fields(const char *bytes, size_t count, bool wants_host)
{
    int found = 0;

    while (count > 0) {
        const char *end = memchr(bytes, '\n', count);
        size_t length = end != NULL ? (size_t)(end - bytes) : count;
        int code = take_field(bytes, length);

        if (length == 0 || (length == 1 && bytes[0] == '\r'))
            break;
        if (code == 400 || (code != 0 && found != 0))
            return 400; /* two */
        found = code != 0 ? code : found;
        length += end != NULL ? 1 : 0;
        bytes += length;
        count -= length;
    }
    return found != 0 ? found : wants_host ? 400 : 200;
}

/* ---- all ------------------------------------------------------------------ */

int http_request_parse(const char *bytes, size_t count, struct http_request *request)
{
    const char *line_end, *target, *version;
    size_t left;
    int code;

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
    code = take_target(target, (size_t)(version - target), request);
    left = count - (size_t)(line_end + 1 - bytes);
    return code == 200 ? take_fields(line_end + 1, left, version[8] != '0') : code;
}
