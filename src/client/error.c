/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences: why an open failed, and why the calling thread's last call did. A failure costs a few
 * stores; whom memory is held by is asked only when somebody wants to read it.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "client/client_internal.h"
#include "client/error.h"
#include "client/look.h"
#include "client/pins.h"
#include "client/quota.h"

#define ERROR_HOLDERS 3 /* as many as a sentence bears */

/* With less than this share of it left for puts, the room on disk is called full. */
#define SPILL_FULL_SHARE 8

_Static_assert(CLIENT_TEXT_BYTES >= 256, "a sentence without holders fits");

/* In the heap: the thread-local memory of this library stands in what programs that dlopen it keep
 * free, and is a few words. */
static pthread_once_t error_once = PTHREAD_ONCE_INIT;
static pthread_key_t error_key;
static bool error_key_made;

static void error_make_key(void)
{
    error_key_made = pthread_key_create(&error_key, free) == 0;
}

void error_set_open(const char *format, ...)
{
    va_list arguments;
    char *text;

    (void)pthread_once(&error_once, error_make_key);
    if (!error_key_made) {
        return;
    }
    text = pthread_getspecific(error_key);
    if (text == NULL) {
        text = malloc(CLIENT_TEXT_BYTES);
        if (text == NULL || pthread_setspecific(error_key, text) != 0) {
            free(text);
            return;
        }
    }
    va_start(arguments, format);
    (void)vsnprintf(text, CLIENT_TEXT_BYTES, format, arguments);
    va_end(arguments);
}

const char *nigh_open_error(void)
{
    const char *text = NULL;

    (void)pthread_once(&error_once, error_make_key);
    if (error_key_made) {
        text = pthread_getspecific(error_key);
    }
    return text != NULL ? text : "";
}

static void error_write(nigh_client *client, nigh_status status, bool kept, const char *format,
                        va_list arguments)
{
    struct pins_thread *thread = pins_thread_of(client);

    if (thread != NULL) {
        thread->error = status;
        thread->error_wants_holders = false;
        thread->error_kept = kept;
        (void)vsnprintf(thread->error_text, sizeof(thread->error_text), format, arguments);
    }
}

nigh_status error_set(nigh_client *client, nigh_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    error_write(client, status, false, format, arguments);
    va_end(arguments);
    return status;
}

nigh_status error_explain(nigh_client *client, nigh_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    error_write(client, status, true, format, arguments);
    va_end(arguments);
    return status;
}

nigh_status error_note(nigh_client *client, nigh_status status)
{
    return error_note_memory(client, status, 0, 0);
}

nigh_status error_note_end(nigh_client *client, nigh_status status)
{
    struct pins_thread *thread = status != NIGH_OK ? pins_thread_of(client) : NULL;

    if (thread != NULL && thread->error == status) {
        thread->error_index_full = thread->error_index_full || thread->index_was_full;
        thread->index_was_full = false;
        thread->error_kept = false; /* told */
        return status;
    }
    return error_note(client, status);
}

void error_note_index_full(nigh_client *client)
{
    struct pins_thread *thread = pins_thread_of(client);

    if (thread != NULL) {
        thread->index_was_full = true;
    }
}

nigh_status error_note_memory(nigh_client *client, nigh_status status, uint32_t lane,
                              uint64_t bytes)
{
    struct pins_thread *thread;

    if (status == NIGH_OK || status == NIGH_FORKED) {
        return status;
    }
    thread = pins_thread_of(client);
    if (thread != NULL && thread->error_kept && thread->error == status) {
        thread->error_kept = false;
    } else if (thread != NULL) {
        thread->error = status;
        thread->error_kept = false;
        thread->error_wants_holders = status == NIGH_OUT_OF_MEMORY;
        thread->error_wanted_bytes = bytes;
        thread->error_wanted_lane = lane;
        thread->error_index_full = status == NIGH_LIMIT && thread->index_was_full;
        thread->index_was_full = false;
        thread->error_text[0] = '\0';
        if (status == NIGH_NODE_LOST) {
            (void)snprintf(thread->error_text, sizeof(thread->error_text),
                           "the node died or stopped while the operation was under way: it may or "
                           "may not have happened");
        } else if (status == NIGH_QUOTA) {
            quota_tell(client, bytes, thread->error_text, sizeof(thread->error_text));
        }
    }
    return status;
}

/* Appends to text[*length ..); what does not fit is cut. */
__attribute__((format(printf, 4, 5))) static void
error_append(char *text, size_t size_bytes, size_t *length, const char *format, ...)
{
    va_list arguments;
    int wanted;

    if (*length + 1 >= size_bytes) {
        return;
    }
    va_start(arguments, format);
    wanted = vsnprintf(text + *length, size_bytes - *length, format, arguments);
    va_end(arguments);
    if (wanted > 0) {
        *length = min_size(*length + (size_t)wanted, size_bytes - 1);
    }
}

/* Why so much can never be had, whoever holds what; false: it could. */
static bool error_tell_too_large(const nigh_client *client, const nigh_node_stats *stats,
                                 uint64_t wanted_bytes, char *text, size_t size_bytes)
{
    uint64_t lane_bytes = stats->memory_bytes / client->lanes;
    char wanted[BYTES_SIZE_TEXT], has[BYTES_SIZE_TEXT], most[BYTES_SIZE_TEXT];
    size_t length = 0;

    if (wanted_bytes <= lane_bytes) {
        return false;
    }
    bytes_format_size(wanted_bytes, wanted);
    bytes_format_size(stats->memory_bytes, has);
    bytes_format_size(lane_bytes, most);
    error_append(text, size_bytes, &length, "out of memory: ");
    /* Too much by a few bytes is not said to be as much as there is. */
    if (strcmp(wanted, most) == 0) {
        error_append(text, size_bytes, &length, "%" PRIu64 " B more than ",
                     wanted_bytes - lane_bytes);
    } else if (wanted_bytes > stats->memory_bytes && strcmp(wanted, has) == 0) {
        error_append(text, size_bytes, &length, "%" PRIu64 " B more than ",
                     wanted_bytes - stats->memory_bytes);
    }
    error_append(text, size_bytes, &length,
                 "%s were asked for, and the node has %s for objects in all", wanted, has);
    if (client->lanes > 1) {
        error_append(text, size_bytes, &length,
                     ", %s of it for any one object (it has %" PRIu32 " lanes)", most,
                     client->lanes);
    }
    return true;
}

/* That the room for files is full too; false: it is not. */
static bool error_tell_spill(const nigh_node_stats *stats, uint64_t wanted_bytes, char *text,
                             size_t size_bytes, size_t *length)
{
    char disk[BYTES_SIZE_TEXT], of[BYTES_SIZE_TEXT];

    if (stats->spill_bytes == 0 ||
        stats->spill_free_bytes >= max_u64(wanted_bytes, stats->spill_bytes / SPILL_FULL_SHARE)) {
        return false;
    }
    bytes_format_size(stats->spill_bytes, of);
    if (stats->spilled_bytes == 0) { /* somebody else's files, or a bound that is too low */
        bytes_format_size(stats->spill_free_bytes, disk);
        error_append(text, size_bytes, length,
                     "; there is no room on disk either: %s of %s may be used, and the rest is for "
                     "reading back (make room on the disk of --spill; --spill-max)",
                     disk, of);
        return true;
    }
    bytes_format_size(stats->spilled_bytes, disk);
    error_append(text, size_bytes, length,
                 "; the room on disk is full as well: %s of %s, and the rest is for reading back "
                 "(--spill-max; nigh rm)",
                 disk, of);
    return true;
}

/* "a fixed limit is reached: the index was full, ...". */
static void error_tell_limit(nigh_client *client, char *text, size_t size_bytes)
{
    nigh_node_stats stats = {.struct_size = sizeof stats};
    size_t length = 0;

    error_append(text, size_bytes, &length, "%s", nigh_status_string(NIGH_LIMIT));
    if (nigh_stats(client, &stats) == NIGH_OK) {
        error_append(text, size_bytes, &length,
                     ": the index was full, and %" PRIu64 " of %" PRIu64
                     " entries are used, objects on disk included; start the node with a higher "
                     "--max-objects, or delete some (nigh rm)",
                     stats.index_used, stats.index_entries);
    }
}

/* "out of memory: 960 MiB of 1.0 GiB are used: 60 MiB pinned (nigh ls shows which; nigh unpin), pid
 * 4711 (trainer) 840 MiB in 3 objects, ...; 500 MiB were asked for, and 40 MiB at most can be had
 * in one piece". What is used and not named may be evicted, is leased, or another pool's. */
static void error_tell_holders(nigh_client *client, uint32_t lane, uint64_t wanted_bytes,
                               char *text, size_t size_bytes)
{
    nigh_holder holders[ERROR_HOLDERS];
    nigh_node_stats stats = {.struct_size = sizeof stats};
    char bytes[BYTES_SIZE_TEXT], of[BYTES_SIZE_TEXT];
    uint64_t most_bytes = 0;
    size_t count = 0, length = 0;

    if (nigh_stats(client, &stats) != NIGH_OK || (stats.memory_bytes == 0 && wanted_bytes != 0) ||
        look_holders_and_most(client, lane, holders, ERROR_HOLDERS, &count, &most_bytes) !=
            NIGH_OK) {
        error_append(text, size_bytes, &length, "out of memory: %s",
                     nigh_status_string(NIGH_OUT_OF_MEMORY));
        return;
    }
    if (error_tell_too_large(client, &stats, wanted_bytes, text, size_bytes)) {
        return;
    }
    bytes_format_size(stats.used_bytes, bytes);
    bytes_format_size(stats.memory_bytes, of);
    error_append(text, size_bytes, &length, "out of memory: %s of %s are used", bytes, of);
    if (stats.pinned_bytes > 0) {
        bytes_format_size(stats.pinned_bytes, bytes);
        error_append(text, size_bytes, &length, ": %s pinned (nigh ls shows which; nigh unpin)",
                     bytes);
    }
    for (size_t i = 0; i < count && i < ERROR_HOLDERS; i++) {
        char name[4 * sizeof(holders[i].name) + 1];

        bytes_printable(holders[i].name, strnlen(holders[i].name, sizeof(holders[i].name)), name,
                        sizeof(name));
        bytes_format_size(holders[i].size_bytes, bytes);
        error_append(text, size_bytes, &length,
                     "%s pid %" PRId32 " (%s) %s in %" PRIu64 " object%s",
                     i == 0 && stats.pinned_bytes == 0 ? ":" : ",", holders[i].pid, name, bytes,
                     holders[i].views, holders[i].views == 1 ? "" : "s");
    }
    if (count > ERROR_HOLDERS) {
        error_append(text, size_bytes, &length, ", and %zu more", count - ERROR_HOLDERS);
    }
    if (count == 0 && stats.pinned_bytes == 0) {
        error_append(text, size_bytes, &length, ", held by no reader and not pinned");
        if (error_tell_spill(&stats, wanted_bytes, text, size_bytes, &length)) {
            return;
        }
        if (stats.spill_failures > 0) { /* a full disk, or files that may not be so large */
            error_append(text, size_bytes, &length,
                         "; %" PRIu64 " disk writes and reads failed so far (why: the node's log)",
                         stats.spill_failures);
        }
        if (wanted_bytes == 0) { /* a get: only its node knows how much it wanted */
            bytes_format_size(stats.memory_bytes / client->lanes, of);
            error_append(text, size_bytes, &length,
                         "; the object may be larger than the %s that this node has for any one",
                         of);
        }
    }
    /* As much, or more: somebody let go meanwhile, or it is not in one piece after all. */
    if (most_bytes != 0 && most_bytes < wanted_bytes) {
        (void)bytes_format_sizes(wanted_bytes, most_bytes, bytes, of);
        error_append(text, size_bytes, &length,
                     "; %s were asked for, and %s at most can be had in one piece", bytes, of);
    }
}

size_t nigh_client_error(nigh_client *client, char *text, size_t size_bytes)
{
    struct pins_thread *thread;
    const char *sentence;
    nigh_status status = client_look(client);
    size_t length;

    if (status == NIGH_INVALID || (text == NULL && size_bytes != 0)) {
        return 0;
    }
    sentence = "";
    if (status == NIGH_FORKED) {
        sentence = nigh_status_string(NIGH_FORKED);
    } else if ((thread = pins_thread_of(client)) != NULL && thread->error != NIGH_OK) {
        if (thread->error_wants_holders && status == NIGH_OK) {
            char told[CLIENT_TEXT_BYTES];

            error_tell_holders(client, thread->error_wanted_lane, thread->error_wanted_bytes, told,
                               sizeof(told));
            /* What the questions themselves left there is not the answer. */
            memcpy(thread->error_text, told, sizeof(told));
            thread->error = NIGH_OUT_OF_MEMORY;
            thread->error_wants_holders = false;
        }
        if (thread->error == NIGH_LIMIT && thread->error_index_full &&
            thread->error_text[0] == '\0' && status == NIGH_OK) {
            char told[CLIENT_TEXT_BYTES];

            error_tell_limit(client, told, sizeof(told));
            memcpy(thread->error_text, told, sizeof(told));
            thread->error = NIGH_LIMIT;
        }
        sentence = thread->error_text[0] != '\0' ? thread->error_text
                                                 : nigh_status_string((nigh_status)thread->error);
    }
    length = strlen(sentence);
    if (size_bytes > 0) {
        size_t fits = min_size(length, size_bytes - 1);

        memcpy(text, sentence, fits);
        text[fits] = '\0';
    }
    return length;
}
