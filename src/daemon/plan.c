/* SPDX-License-Identifier: Apache-2.0 */
/* See plan.h. */
#include "daemon/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "daemon/options.h"
#include "memory/admission.h"
#include "memory/extent.h"
#include "memory/index.h"
#include "memory/session.h"
#include "node/listen.h"

/* Nothing tells a flag of the same path from it: then both say so. */
static bool plan_is_of_environment(const struct node_settings *settings)
{
    const char *socket = getenv("NIGH_SOCKET");

    return socket != NULL && strcmp(socket, settings->socket_path) == 0;
}

/* Every lane has whole extents: more than was asked for, where lanes are many and memory is little.
 * What can be no node's is shown as it was asked for; the start says why. */
static uint64_t plan_memory_bytes(const struct node_settings *settings)
{
    struct extent_options options = {.memory_bytes = settings->memory_bytes,
                                     .extent_bytes = settings->extent_bytes,
                                     .lanes = settings->lanes};
    uint64_t memory_bytes = settings->memory_bytes;
    char why[OPTIONS_WHY_BYTES];

    (void)extent_set_plan(&options, &memory_bytes, why, sizeof(why));
    return memory_bytes;
}

/* What the node would take, and what there is: of the machine, or of the control group. */
static void plan_print_memory(const struct node_settings *settings, uint64_t memory_bytes)
{
    static struct admission_facts facts;
    uint64_t index_bytes = (settings->pool_count + 1) * (uint64_t)settings->lanes *
                           index_size_bytes(settings_entries_a_lane(settings));
    char objects[BYTES_SIZE_TEXT], indexes[BYTES_SIZE_TEXT], session[BYTES_SIZE_TEXT];

    bytes_format_size(memory_bytes, objects);
    bytes_format_size(index_bytes, indexes);
    bytes_format_size(session_file_bytes(settings->lanes), session);
    printf("memory        %s for objects, %s for indexes, %s a session", objects, indexes, session);
    if (admission_read("", &facts) == NIGH_OK) {
        uint64_t free_bytes = min_u64(facts.memory_available_bytes, facts.cgroup.available_bytes);
        char available[BYTES_SIZE_TEXT];

        bytes_format_size(free_bytes, available);
        printf("; %s%s can be had here", free_bytes < memory_bytes + index_bytes ? "only " : "",
               available);
    }
    putchar('\n');
}

static void plan_print_pool(const struct pool_rules *pool)
{
    char quota[BYTES_SIZE_TEXT];

    bytes_format_size(pool->quota_bytes, quota);
    printf("pool          %s: owner %u, group %u, mode %04o%s%s%s\n", pool->name, pool->owner_uid,
           pool->group_gid, pool->mode, pool->strict ? ", strict" : "",
           pool->quota_bytes != 0 ? ", quota " : "", pool->quota_bytes != 0 ? quota : "");
}

static void plan_print_spaces(const struct node_settings *settings)
{
    char most[BYTES_SIZE_TEXT];

    bytes_format_size(settings->space_memory_bytes, most);
    if (settings->space_memory_bytes != 0 && settings->clustered && settings->state_dir[0] == '\0')
        puts("spaces        none: --space-memory is for nothing in a cluster without --state");
    else if (settings->space_memory_bytes != 0)
        printf("spaces        up to %s of them lie here, beside that%s%s\n", most,
               settings->space_log_dir[0] != '\0' ? "; logs in " : "", settings->space_log_dir);
}

/* What sessions share of regions, and how. */
static void plan_print_shares(const struct node_settings *settings)
{
    char rate[BYTES_SIZE_TEXT];

    static const char *const priorities[] = {[NIGH_REGION_QOS_SOFTWARE] = "software",
                                             [NIGH_REGION_QOS_NONE] = "none",
                                             [NIGH_REGION_QOS_SEPARATE] = "separate"};

    bytes_format_size(settings->session_rate_bytes, rate);
    printf("priorities    of regions: %s", priorities[settings->region_qos]);
    if (settings->session_rate_bytes != 0)
        printf("; a session up to %s a second", rate);
    if (settings->session_rate_ops != 0)
        printf("; a session up to %llu operations a second",
               (unsigned long long)settings->session_rate_ops);
    putchar('\n');
}

void plan_print(const struct node_settings *settings)
{
    uint64_t memory_bytes = plan_memory_bytes(settings);
    char quota[BYTES_SIZE_TEXT], largest[BYTES_SIZE_TEXT];

    printf("socket        %s (mode %04o)%s\n", settings->socket_path, settings->socket_mode,
           plan_is_of_environment(settings) ? ", as NIGH_SOCKET says" : "");
    plan_print_memory(settings, memory_bytes);
    bytes_format_size(memory_bytes / settings->lanes, largest);
    printf("largest object %s, a lane's share of the memory\n", largest);
    printf("lanes         %u, spinning %u us\n", settings->lanes, settings->spin_us);
    printf("objects       %llu a pool\n", (unsigned long long)settings->max_objects);
    printf("sessions      %u, each up to %u pins held by a lane", settings->max_sessions,
           settings->max_pins);
    bytes_format_size(settings->session_quota_bytes, quota);
    printf("%s%s\n", settings->session_quota_bytes != 0 ? ", quota " : "",
           settings->session_quota_bytes != 0 ? quota : "");
    bytes_format_size(settings->call_memory_bytes, largest);
    printf("calls         bring up to %s of memory, beside that\n", largest);
    bytes_format_size(settings->region_memory_bytes, largest);
    printf("regions       up to %s of them lie here, beside that\n", largest);
    plan_print_spaces(settings);
    plan_print_shares(settings);
    printf("when full     %s%s\n", settings->spill_dir[0] != '\0' ? "spill to " : "evict",
           settings->spill_dir);
    if (settings->joins_as[0] != '\0')
        printf("cluster       joins that of %s, as %s; a lost node is dead after %u ms\n",
               settings->members.addresses[0], settings->joins_as, settings->dead_ms);
    else if (settings->clustered)
        printf("cluster       rank %u of %u nodes, as %s; a lost node is dead after %u ms\n",
               settings->members.self, settings->members.count,
               settings->members.addresses[settings->members.self], settings->dead_ms);
    if (settings->has_directory) {
        char where[REDIS_HOST_BYTES + 32];

        redis_address_show(&settings->directory, where, sizeof(where));
        printf("directory     at %s\n", where);
    }
    for (uint32_t i = 0; i < settings->pool_count; i++)
        plan_print_pool(&settings->pools[i]);
}

nigh_status plan_look_at_socket(const struct node_settings *settings, char *why, size_t why_bytes)
{
    nigh_status status = listen_look(settings->socket_path, why, why_bytes);
    size_t length = strlen(why);

    if (status != NIGH_OK && plan_is_of_environment(settings))
        snprintf(why + length, why_bytes - length, " (NIGH_SOCKET leads there)");
    return status;
}
