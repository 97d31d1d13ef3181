/* SPDX-License-Identifier: Apache-2.0 */
/* What a Redis server answers and publishes, and what may stand in its address. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/redis_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct outside_news drops[OUTSIDE_DROPS];
    struct outside_news news = {0};
    struct redis_address address;
    nigh_status status;
    char *text;

    if (count < 1) {
        return 0;
    }
    for (int op = OUTSIDE_BEGIN; op < OUTSIDE_OPS; op++) {
        if (redis_take_answer((enum outside_op)op, bytes, count, &news) == REDIS_FINE) {
            NIGH_ASSERT(news.answer.holder_count <= DIRECTORY_HOLDERS);
        }
    }
    NIGH_ASSERT(redis_take_owed(bytes, count, drops) <= OUTSIDE_DROPS);
    (void)redis_take_error((const char *)bytes, count, &status);
    (void)redis_take_message(bytes, count, &news);
    text = calloc(1, count + 1);
    NIGH_ASSERT(text != NULL);
    memcpy(text, bytes, count);
    if (redis_address_parse(text, &address)) {
        NIGH_ASSERT(address.host[0] != '\0');
    }
    free(text);
    return 0;
}
