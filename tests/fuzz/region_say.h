/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzzers of regions have peers say: letters as machines would write them, of a region of few
 * chunks and one name, with anything in them; and some that were spoilt on the way. */
#ifndef TESTS_FUZZ_REGION_SAY_H
#define TESTS_FUZZ_REGION_SAY_H

#include <string.h>

#include "fuzz_input.h"
#include "region/letter.h"

/* Memory for a descriptor of as many chunks as there can be. */
struct region_say_room {
    _Alignas(struct region_descriptor) uint8_t
        bytes[sizeof(struct region_descriptor) + LIMIT_REGION_CHUNKS * sizeof(struct region_chunk)];
};

struct region_say {
    struct fuzz_input input;
    struct region_say_room made;
};

static inline struct region_descriptor *region_say_at(struct region_say_room *room)
{
    return (struct region_descriptor *)(void *)room->bytes;
}

static inline uint32_t region_say_below(struct region_say *say, uint32_t bound)
{
    return fuzz_byte(&say->input) % bound;
}

static inline struct region_version region_say_version(struct region_say *say)
{
    uint32_t kind = region_say_below(say, 16);
    struct region_version version = {
        .epoch = 3, .incarnation = 7, .counter = region_say_below(say, 8)};

    version.epoch += kind == 0 ? 1 : 0;
    version.incarnation += kind == 1 ? 1 : 0;
    return version;
}

static inline struct region_geometry region_say_geometry(struct region_say *say)
{
    uint64_t chunk_bytes = region_say_below(say, 8) == 0 ? 8192 : 4096;
    uint64_t size_bytes = 1 + region_say_below(say, 6) * UINT64_C(4096);

    size_bytes += region_say_below(say, 2) * UINT64_C(4095);
    return (struct region_geometry){.size_bytes = size_bytes, .chunk_bytes = chunk_bytes};
}

/* At nodes 1 and 2; NULL: it would be none. */
static inline const struct region_descriptor *region_say_descriptor(struct region_say *say,
                                                                    const char *name)
{
    struct region_descriptor *made = region_say_at(&say->made);

    memset(&say->made, 0, sizeof(say->made));
    made->version = region_say_version(say);
    made->birth = (struct region_version){
        .epoch = 3, .incarnation = 7, .counter = 1 + region_say_below(say, 2)};
    made->geometry = region_say_geometry(say);
    made->name_bytes = (uint8_t)strlen(name);
    memcpy(made->name, name, made->name_bytes);
    made->uid = region_say_below(say, 3);
    made->other_rights = region_say_below(say, 2) == 0 ? REGION_ALL : REGION_READ;
    made->flags = region_say_below(say, 8) == 0 ? REGION_FREED : 0;
    made->chunk_count = made->flags != 0 ? 0 : region_geometry_chunks(&made->geometry);
    for (uint32_t n = 0; n < made->chunk_count; n++) {
        made->chunks[n].node = 1 + region_say_below(say, 2);
        made->chunks[n].handle.address = region_say_below(say, 3);
        made->chunks[n].incarnation = 6 + region_say_below(say, 3);
    }
    return region_descriptor_is_valid(made) ? made : NULL;
}

/* A letter of a region of this name, perhaps spoilt; `change`: a DONE of this kind in this change.
 * How many bytes, at most REGION_LETTER_BYTES. */
static inline size_t region_say(struct region_say *say, const char *name,
                                const struct region_version *change, enum region_message_kind of,
                                uint8_t *bytes)
{
    struct region_window handles[LIMIT_REGION_CHUNKS] = {0};
    struct region_message message = {.kind = region_say_below(say, REGION_KINDS)};
    uint32_t patches;
    size_t size_bytes;

    message.of = region_say_below(say, REGION_DONE);
    message.is_move = region_say_below(say, 2) == 0;
    message.is_mappable = message.is_move && region_say_below(say, 4) == 0;
    message.change = region_say_version(say);
    message.base = region_say_version(say);
    message.donation =
        message.is_move ? 0 : message.base.counter / 2; /* inputs stay what they are */
    message.geometry = region_say_geometry(say);
    message.handles = handles;
    message.handle_count = region_say_below(say, LIMIT_REGION_CHUNKS + 1);
    message.chunks.words[0] = fuzz_byte(&say->input);
    message.source.node = region_say_below(say, 4);
    message.source.incarnation = 6 + message.source.node % 3; /* likewise */
    message.source.handle.address = region_say_below(say, 4);
    if (message.kind == REGION_DONE && region_say_below(say, 4) == 0) {
        message.status = NIGH_OUT_OF_MEMORY;
    }
    if (message.kind == REGION_DONE && change != NULL) {
        message.change = *change;
        message.of = of;
    }
    message.barrier.number = region_say_below(say, 2);
    message.barrier.round = region_say_below(say, 4);
    message.barrier.is_broken = region_say_below(say, 8) == 0;
    if (message.kind == REGION_ARRIVED) {
        message.barrier.latest = message.barrier.round + region_say_below(say, 2);
        message.barrier.count = region_say_below(say, 4);
        message.barrier.parties = region_say_below(say, 4);
        message.barrier.is_part = region_say_below(say, 4) != 0;
        message.barrier.ask = message.barrier.is_part ? 1 + message.change.counter : 0;
    }
    if (message.kind == REGION_PASSED) {
        message.barrier.ask = 1 + message.change.counter; /* inputs stay what they are */
        message.barrier.is_answer = message.barrier.round > 1;
    }
    if (message.kind == REGION_KNOWN) {
        message.barrier.latest = message.barrier.round;
        message.barrier.round = 0;
        message.barrier.is_part = region_say_below(say, 4) != 0;
        message.ranks.words[0] = region_say_below(say, 8); /* of nodes that there are */
        message.ranks.words[1] = region_say_below(say, 16) == 0;
    }
    message.lock.number = region_say_below(say, 3);
    message.lock.serial = region_say_below(say, 8);
    message.lock.mode = (enum region_lock_mode)region_say_below(say, 3);
    message.lock.is_held = message.kind == REGION_CLAIM && region_say_below(say, 2) == 0;
    message.lock.is_dirty = message.kind == REGION_CLAIM && region_say_below(say, 8) == 0;
    for (uint32_t n = 0; n < 8; n++) {
        handles[n].address = 1 + region_say_below(say, 4);
    }
    if (message.kind >= REGION_COMMIT && message.kind != REGION_THAW &&
        message.kind != REGION_DONE && message.kind < REGION_HOLD) {
        message.descriptor = region_say_descriptor(say, name);
        message.status =
            message.kind == REGION_MAPPED && message.descriptor == NULL ? NIGH_NOT_FOUND : NIGH_OK;
    }
    size_bytes = region_letter_encode(&message, name, (uint8_t)strlen(name), bytes);
    patches = region_say_below(say, 8) == 0 ? 1 + region_say_below(say, 3) : 0;
    for (; patches > 0; patches--) {
        fuzz_patch(&say->input, bytes, size_bytes);
    }
    return size_bytes;
}

#endif
