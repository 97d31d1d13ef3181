/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the head of an HTTP request, as they come: refused, or a path that can be printed;
 * the same however they are cut. */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "daemon/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct http_request request = {0}, early = {0};
    size_t count = size_bytes < HTTP_HEAD_BYTES ? size_bytes : HTTP_HEAD_BYTES;
    int code = http_request_parse((const char *)data, count, &request);

    NIGH_ASSERT(code == 0 || code == 200 || (code >= 400 && code <= 505));
    NIGH_ASSERT(code != 0 || count < HTTP_HEAD_BYTES);
    if (code == 200) {
        NIGH_ASSERT(request.path[0] == '/');
        for (const char *c = request.path; *c != '\0'; c++)
            NIGH_ASSERT(*c > ' ' && *c < 0x7f);
    }
    for (size_t cut = 0; cut < count; cut++) {
        int sooner = http_request_parse((const char *)data, cut, &early);

        if (sooner == 0)
            continue;
        NIGH_ASSERT(sooner == code && strcmp(early.path, request.path) == 0);
        break;
    }
    return 0;
}
