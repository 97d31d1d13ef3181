/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a configuration file of nighd: they are read, or refused in one line; what is read
 * gives settings that are within their bounds. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct daemon_options options;
    static struct node_settings settings;
    char why[OPTIONS_WHY_BYTES] = "";
    nigh_status status;

    daemon_options_init(&options);
    status = config_parse((const char *)data, size_bytes, "fuzz.ini", &options, why, sizeof(why));
    if (status != NIGH_OK) {
        NIGH_ASSERT(strncmp(why, "fuzz.ini", 8) == 0);
        for (const char *c = why; *c != '\0'; c++)
            NIGH_ASSERT(*c != '\n' && *c != '\x1b');
        return 0;
    }
    NIGH_ASSERT(options.pool_count <= LIMIT_CONFIG_POOLS);
    if (daemon_options_resolve(&options, 2, &settings, why, sizeof(why)) != NIGH_OK) {
        NIGH_ASSERT(why[0] != '\0');
        return 0;
    }
    NIGH_ASSERT(settings.lanes >= 1 && settings.lanes <= LIMIT_LANES);
    NIGH_ASSERT(settings.max_sessions >= 1 && settings.max_sessions <= LIMIT_SESSIONS);
    NIGH_ASSERT(settings_entries_a_lane(&settings) <= LIMIT_INDEX_ENTRIES);
    return 0;
}
