/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See letter.h. Behind the head is what the kind has, in the order of `fields`; then the name, and
 * then the descriptor, to the end. Little-endian, without gaps.
 */
#include "region/letter.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

/* Of the head. */
enum {
    AT_KIND = 0,
    AT_OF = 1, /* of a DONE */
    AT_FLAGS = 2,
    AT_NAME = 3,   /* its length */
    AT_STATUS = 4, /* without its sign */
    AT_CHANGE = 8,
};

_Static_assert(AT_CHANGE + 24 == REGION_LETTER_HEAD_BYTES, "the head has no gaps");

#define FLAG_MOVE       1u
#define FLAG_DESCRIPTOR 2u
#define FLAG_MAPPABLE   4u
#define FLAG_DONATED    8u

/* Of a lock. */
#define LOCK_HELD  1u
#define LOCK_DIRTY 2u

/* Of a barrier. */
#define BARRIER_PART   1u
#define BARRIER_BROKEN 2u
#define BARRIER_ANSWER 4u

/* What a kind has. */
#define HAS_BASE      1u
#define HAS_CHUNKS    2u
#define HAS_GEOMETRY  4u
#define HAS_SOURCE    8u
#define HAS_HANDLES   16u
#define MAY_MOVE      32u
#define MAY_FAIL      64u
#define MAY_DESCRIBE  128u
#define MUST_DESCRIBE 256u
#define NEEDS_CHANGE  512u  /* its version is one */
#define NEEDS_CHUNKS  1024u /* there is one, at least */
#define HAS_LOCK      2048u
#define HAS_BARRIER   4096u
#define MAY_BE_MAPPED 8192u
#define HAS_RANKS     16384u

static const uint32_t fields[] = {
    [REGION_PREPARE] =
        NEEDS_CHANGE | HAS_CHUNKS | HAS_GEOMETRY | MAY_MOVE | NEEDS_CHUNKS | MAY_BE_MAPPED,
    [REGION_FREEZE] = NEEDS_CHANGE | HAS_CHUNKS | MAY_MOVE | NEEDS_CHUNKS,
    [REGION_COPY] = NEEDS_CHANGE | HAS_CHUNKS | HAS_SOURCE | MAY_MOVE | NEEDS_CHUNKS,
    [REGION_COMMIT] = NEEDS_CHANGE | MAY_MOVE | MUST_DESCRIBE,
    [REGION_THAW] = NEEDS_CHANGE | HAS_BASE | MAY_MOVE,
    [REGION_SETTLE] = NEEDS_CHANGE | MAY_DESCRIBE,
    [REGION_DONE] = HAS_CHUNKS | HAS_HANDLES | MAY_FAIL | NEEDS_CHANGE,
    [REGION_HELD] = HAS_CHUNKS | HAS_HANDLES | MAY_DESCRIBE,
    [REGION_MAP] = 0,
    [REGION_MAPPED] = MAY_FAIL | MAY_DESCRIBE,
    [REGION_UNMAP] = 0,
    [REGION_CHANGED] = 0,
    [REGION_HOLD] = HAS_CHUNKS | NEEDS_CHANGE | NEEDS_CHUNKS,
    [REGION_CLAIM] = HAS_BASE | HAS_LOCK,
    [REGION_GRANT] = HAS_BASE | HAS_LOCK | MAY_FAIL,
    [REGION_RECALL] = HAS_BASE | HAS_LOCK,
    [REGION_ARRIVED] = HAS_BASE | HAS_BARRIER,
    [REGION_PASSED] = HAS_BASE | HAS_BARRIER | MAY_FAIL,
    [REGION_KNOWN] = HAS_BASE | HAS_BARRIER | HAS_RANKS,
    [REGION_NOTED] = HAS_BASE | HAS_BARRIER | MAY_FAIL,
};

_Static_assert(sizeof(fields) / sizeof(fields[0]) == REGION_KINDS, "each kind has its own");

static bool has(enum region_message_kind kind, uint32_t field)
{
    return (fields[kind] & field) != 0;
}

/* ---- writing -------------------------------------------------------------- */

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    bytes_put_u64(at, value);
    return at + 8;
}

static uint8_t *put_version(uint8_t *at, const struct region_version *version)
{
    at = put_u64(at, version->epoch);
    at = put_u64(at, version->incarnation);
    return put_u64(at, version->counter);
}

static uint8_t *put_handle(uint8_t *at, struct region_window handle)
{
    at = put_u64(at, handle.address);
    bytes_put_u32(at, handle.key);
    return at + 4;
}

static bool is_said(const struct region_message *message, uint32_t chunk)
{
    return region_chunks_has(&message->chunks, chunk) &&
           !region_window_is_none(message->handles[chunk]);
}

/* Those of chunks that are said to be there, and none behind the last. */
static uint8_t *put_handles(uint8_t *at, const struct region_message *message)
{
    uint8_t *count_at = at;
    uint32_t count = 0;

    for (uint32_t n = 0; n < message->handle_count; n++) {
        if (is_said(message, n)) {
            count = n + 1;
        }
    }
    bytes_put_u16(count_at, (uint16_t)count);
    at += 2;
    for (uint32_t n = 0; n < count; n++) {
        at = put_handle(at, is_said(message, n) ? message->handles[n] : REGION_NO_WINDOW);
    }
    return at;
}

static uint8_t *put_lock(uint8_t *at, const struct region_lock_word *lock)
{
    at = put_u64(at, lock->number);
    at = put_u64(at, lock->serial);
    *at++ = (uint8_t)lock->mode;
    *at++ = (uint8_t)((lock->is_held ? LOCK_HELD : 0) | (lock->is_dirty ? LOCK_DIRTY : 0));
    return at;
}

static uint8_t *put_barrier(uint8_t *at, const struct region_barrier_word *barrier)
{
    at = put_u64(at, barrier->number);
    at = put_u64(at, barrier->round);
    at = put_u64(at, barrier->latest);
    at = put_u64(at, barrier->ask);
    bytes_put_u32(at, barrier->count);
    bytes_put_u32(at + 4, barrier->parties);
    at[8] = (uint8_t)((barrier->is_part ? BARRIER_PART : 0) |
                      (barrier->is_broken ? BARRIER_BROKEN : 0) |
                      (barrier->is_answer ? BARRIER_ANSWER : 0));
    return at + 9;
}

static bool is_donated(const struct region_message *message)
{
    return has(message->kind, MAY_BE_MAPPED) && message->donation != 0;
}

static uint8_t *put_fields(uint8_t *at, const struct region_message *message)
{
    if (has(message->kind, HAS_BASE)) {
        at = put_version(at, &message->base);
    }
    for (uint32_t n = 0; n < REGION_CHUNK_WORDS && has(message->kind, HAS_CHUNKS); n++) {
        at = put_u64(at, message->chunks.words[n]);
    }
    if (has(message->kind, HAS_GEOMETRY)) {
        at = put_u64(at, message->geometry.size_bytes);
        at = put_u64(at, message->geometry.chunk_bytes);
    }
    if (is_donated(message)) {
        at = put_u64(at, message->donation);
    }
    if (has(message->kind, HAS_SOURCE)) {
        bytes_put_u32(at, message->source.node);
        bytes_put_u32(at + 4, message->source.incarnation);
        at = put_handle(at + 8, message->source.handle);
    }
    if (has(message->kind, HAS_LOCK)) {
        at = put_lock(at, &message->lock);
    }
    if (has(message->kind, HAS_BARRIER)) {
        at = put_barrier(at, &message->barrier);
    }
    for (uint32_t n = 0; n < REGION_SET_WORDS && has(message->kind, HAS_RANKS); n++) {
        at = put_u64(at, message->ranks.words[n]);
    }
    return has(message->kind, HAS_HANDLES) ? put_handles(at, message) : at;
}

static uint8_t flags_of(const struct region_message *message)
{
    bool moves = has(message->kind, MAY_MOVE) && message->is_move;
    bool is_mappable = has(message->kind, MAY_BE_MAPPED) && message->is_mappable;

    return (uint8_t)((moves ? FLAG_MOVE : 0) | (is_mappable ? FLAG_MAPPABLE : 0) |
                     (is_donated(message) ? FLAG_DONATED : 0) |
                     (message->descriptor != NULL ? FLAG_DESCRIPTOR : 0));
}

size_t region_letter_encode(const struct region_message *message, const char *name,
                            uint8_t name_bytes, uint8_t *out)
{
    bool describes = message->descriptor != NULL;
    uint8_t *at = out + REGION_LETTER_HEAD_BYTES;

    NIGH_ASSERT(name_bytes > 0 && name_bytes <= LIMIT_REGION_NAME_BYTES);
    out[AT_KIND] = (uint8_t)message->kind;
    out[AT_OF] = message->kind == REGION_DONE ? (uint8_t)message->of : 0;
    out[AT_FLAGS] = flags_of(message);
    out[AT_NAME] = name_bytes;
    bytes_put_u32(out + AT_STATUS, (uint32_t)-message->status);
    (void)put_version(out + AT_CHANGE, &message->change);
    at = put_fields(at, message);
    memcpy(at, name, name_bytes);
    at += name_bytes;
    if (describes) {
        at += region_descriptor_encode(message->descriptor, at);
    }
    return (size_t)(at - out);
}

/* ---- reading -------------------------------------------------------------- */

/* What is left of it; `is_wrong`: more was wanted than there is, which is 0, or what there is
 * cannot be. */
struct reader {
    const uint8_t *at;
    size_t left;
    bool is_wrong;
};

static const uint8_t *take(struct reader *reader, size_t count)
{
    const uint8_t *at = reader->at;

    if (reader->left < count) {
        reader->is_wrong = true;
        return NULL;
    }
    reader->at += count;
    reader->left -= count;
    return at;
}

static uint64_t take_u64(struct reader *reader)
{
    const uint8_t *at = take(reader, 8);

    return at == NULL ? 0 : bytes_get_u64(at);
}

static uint32_t take_u32(struct reader *reader)
{
    const uint8_t *at = take(reader, 4);

    return at == NULL ? 0 : bytes_get_u32(at);
}

static struct region_version take_version(struct reader *reader)
{
    struct region_version version;

    version.epoch = take_u64(reader);
    version.incarnation = take_u64(reader);
    version.counter = take_u64(reader);
    return version;
}

static struct region_window take_handle(struct reader *reader)
{
    struct region_window handle = {.address = take_u64(reader)};

    handle.key = take_u32(reader);
    return handle;
}

static void take_handles(struct reader *reader, struct region_letter *letter)
{
    const uint8_t *at = take(reader, 2);
    uint32_t count = at == NULL ? 0 : bytes_get_u16(at);

    if (count > LIMIT_REGION_CHUNKS) {
        reader->is_wrong = true;
        return;
    }
    for (uint32_t n = 0; n < count; n++) {
        letter->handles[n] = take_handle(reader);
    }
    letter->message.handles = letter->handles;
    letter->message.handle_count = count;
}

static void take_head(struct reader *reader, struct region_letter *letter)
{
    struct region_message *message = &letter->message;
    const uint8_t *head = take(reader, AT_CHANGE);

    if (head == NULL) {
        return;
    }
    message->kind = head[AT_KIND];
    message->of = head[AT_OF];
    message->is_move = (head[AT_FLAGS] & FLAG_MOVE) != 0;
    message->is_mappable = (head[AT_FLAGS] & FLAG_MAPPABLE) != 0;
    message->donation = (head[AT_FLAGS] & FLAG_DONATED) != 0; /* read later, if there is one */
    message->descriptor = (head[AT_FLAGS] & FLAG_DESCRIPTOR) != 0 ? &letter->descriptor : NULL;
    letter->name_bytes = head[AT_NAME];
    message->status = (nigh_status)(int32_t)(0u - bytes_get_u32(head + AT_STATUS));
    message->change = take_version(reader);
    /* What is answered to a client, or another node, is a status that they know. */
    if ((head[AT_FLAGS] & ~(FLAG_MOVE | FLAG_DESCRIPTOR | FLAG_MAPPABLE | FLAG_DONATED)) != 0 ||
        message->kind >= REGION_KINDS ||
        bytes_get_u32(head + AT_STATUS) > (uint32_t)-NIGH_STATUS_LOWEST ||
        message->status == NIGH_PENDING || letter->name_bytes == 0 ||
        letter->name_bytes > LIMIT_REGION_NAME_BYTES) {
        reader->is_wrong = true;
    }
}

static void take_lock(struct reader *reader, struct region_lock_word *lock)
{
    const uint8_t *at;

    lock->number = take_u64(reader);
    lock->serial = take_u64(reader);
    at = take(reader, 2);
    if (at == NULL || at[0] > REGION_LOCK_EXCLUSIVE || (at[1] & ~(LOCK_HELD | LOCK_DIRTY)) != 0) {
        reader->is_wrong = true;
        return;
    }
    lock->mode = (enum region_lock_mode)at[0];
    lock->is_held = (at[1] & LOCK_HELD) != 0;
    lock->is_dirty = (at[1] & LOCK_DIRTY) != 0;
}

static void take_barrier(struct reader *reader, struct region_barrier_word *barrier)
{
    const uint8_t *flags;

    barrier->number = take_u64(reader);
    barrier->round = take_u64(reader);
    barrier->latest = take_u64(reader);
    barrier->ask = take_u64(reader);
    barrier->count = take_u32(reader);
    barrier->parties = take_u32(reader);
    flags = take(reader, 1);
    if (flags == NULL || (*flags & ~(BARRIER_PART | BARRIER_BROKEN | BARRIER_ANSWER)) != 0) {
        reader->is_wrong = true;
        return;
    }
    barrier->is_part = (*flags & BARRIER_PART) != 0;
    barrier->is_broken = (*flags & BARRIER_BROKEN) != 0;
    barrier->is_answer = (*flags & BARRIER_ANSWER) != 0;
}

static void take_fields(struct reader *reader, struct region_letter *letter)
{
    struct region_message *message = &letter->message;

    if (has(message->kind, HAS_BASE)) {
        message->base = take_version(reader);
    }
    for (uint32_t n = 0; n < REGION_CHUNK_WORDS && has(message->kind, HAS_CHUNKS); n++) {
        message->chunks.words[n] = take_u64(reader);
    }
    if (has(message->kind, HAS_GEOMETRY)) {
        message->geometry.size_bytes = take_u64(reader);
        message->geometry.chunk_bytes = take_u64(reader);
    }
    if (is_donated(message)) {
        message->donation = take_u64(reader);
        reader->is_wrong = reader->is_wrong || message->donation == 0;
    }
    if (has(message->kind, HAS_SOURCE)) {
        message->source.node = take_u32(reader);
        message->source.incarnation = take_u32(reader);
        message->source.handle = take_handle(reader);
    }
    if (has(message->kind, HAS_LOCK)) {
        take_lock(reader, &message->lock);
    }
    if (has(message->kind, HAS_BARRIER)) {
        take_barrier(reader, &message->barrier);
    }
    for (uint32_t n = 0; n < REGION_SET_WORDS && has(message->kind, HAS_RANKS); n++) {
        message->ranks.words[n] = take_u64(reader);
    }
    if (has(message->kind, HAS_HANDLES)) {
        take_handles(reader, letter);
    }
}

/* The name, and the descriptor, which is of that name. */
static bool take_rest(struct reader *reader, struct region_letter *letter)
{
    const uint8_t *name = take(reader, letter->name_bytes);
    const struct region_descriptor *descriptor = &letter->descriptor;

    if (name == NULL || memchr(name, 0, letter->name_bytes) != NULL) {
        return false;
    }
    memcpy(letter->name, name, letter->name_bytes);
    if (letter->message.descriptor == NULL) {
        return reader->left == 0;
    }
    return region_descriptor_decode(reader->at, reader->left, LIMIT_REGION_CHUNKS,
                                    &letter->descriptor) == NIGH_OK &&
           descriptor->name_bytes == letter->name_bytes &&
           memcmp(descriptor->name, letter->name, sizeof(letter->name)) == 0;
}

/* ---- what can be ---------------------------------------------------------- */

static bool can_be_done(enum region_message_kind of)
{
    return of <= REGION_SETTLE || of == REGION_HOLD;
}

static bool is_change_sound(const struct region_message *message)
{
    bool needs = has(message->kind, NEEDS_CHANGE);

    if (message->kind == REGION_DONE ? !can_be_done(message->of) : message->of != 0) {
        return false;
    }
    return (!needs || !region_version_is_none(&message->change)) &&
           (has(message->kind, MAY_FAIL) || message->status == NIGH_OK) &&
           (has(message->kind, MAY_MOVE) || !message->is_move) &&
           (has(message->kind, MAY_BE_MAPPED) || (!message->is_mappable && message->donation == 0));
}

static bool is_descriptor_sound(const struct region_message *message)
{
    bool describes = message->descriptor != NULL;

    if (message->kind == REGION_MAPPED) {
        return describes == (message->status == NIGH_OK);
    }
    return describes ? has(message->kind, MAY_DESCRIBE | MUST_DESCRIBE)
                     : !has(message->kind, MUST_DESCRIBE);
}

static uint32_t chunks_end(const struct region_chunks *chunks)
{
    for (uint32_t n = REGION_CHUNK_WORDS; n > 0; n--) {
        if (chunks->words[n - 1] != 0) {
            return 64 * n - (uint32_t)__builtin_clzll(chunks->words[n - 1]);
        }
    }
    return 0;
}

static bool are_chunks_sound(const struct region_message *message)
{
    if (has(message->kind, NEEDS_CHUNKS) && region_chunks_is_empty(&message->chunks)) {
        return false;
    }
    if (message->kind == REGION_PREPARE &&
        (region_geometry_check(&message->geometry) != NIGH_OK ||
         chunks_end(&message->chunks) > region_geometry_chunks(&message->geometry))) {
        return false;
    }
    if (message->donation != 0 && (message->is_move || message->is_mappable ||
                                   region_geometry_chunks(&message->geometry) != 1)) {
        return false;
    }
    return message->kind != REGION_COPY ||
           (message->source.node < LIMIT_NODES && message->source.incarnation != 0 &&
            !region_window_is_none(message->source.handle));
}

/* Who has a lock says in which mode; only its node says more. A lock that is given is one. */
static bool is_lock_sound(const struct region_message *message)
{
    const struct region_lock_word *lock = &message->lock;

    if (message->kind == REGION_CLAIM) {
        return !region_version_is_none(&message->base) &&
               (lock->mode != REGION_LOCK_NONE || !lock->is_held);
    }
    return !lock->is_held && !lock->is_dirty &&
           (message->status == NIGH_OK || lock->mode == REGION_LOCK_NONE);
}

/* Up go arrivals, and to a home what was known; back comes what has passed, to who has asked. A
 * round never comes to its end. */
static bool is_barrier_sound(const struct region_message *message)
{
    const struct region_barrier_word *barrier = &message->barrier;
    bool has_arrivals = barrier->count != 0 || barrier->parties != 0;
    bool has_base = !region_version_is_none(&message->base);
    bool is_back = !barrier->is_part && !has_arrivals && barrier->latest == 0 &&
                   barrier->round < UINT64_MAX / 2;

    switch (message->kind) {
    case REGION_ARRIVED:
        return has_base && barrier->round <= barrier->latest && barrier->latest < UINT64_MAX / 2 &&
               barrier->is_part == (barrier->ask != 0) && !barrier->is_answer;
    case REGION_KNOWN:
        return has_base && barrier->round == 0 && !has_arrivals &&
               barrier->latest < UINT64_MAX / 2 && barrier->ask == 0 && !barrier->is_answer;
    case REGION_NOTED:
        return is_back && barrier->ask == 0 && !barrier->is_answer &&
               (message->status == NIGH_OK || message->status == NIGH_NOT_FOUND ||
                message->status == NIGH_LIMIT);
    case REGION_PASSED:
        return is_back && barrier->ask != 0 && (!barrier->is_answer || barrier->round != 0);
    default: return true;
    }
}

/* Handles are of chunks that are there, and the last one is one. */
static bool are_handles_sound(const struct region_message *message)
{
    uint32_t count = message->handle_count;

    for (uint32_t n = 0; n < count; n++) {
        if (!region_window_is_none(message->handles[n]) &&
            !region_chunks_has(&message->chunks, n)) {
            return false;
        }
    }
    return count == 0 || !region_window_is_none(message->handles[count - 1]);
}

nigh_status region_letter_decode(const uint8_t *bytes, size_t size_bytes,
                                 struct region_letter *letter)
{
    struct reader reader = {.at = bytes, .left = size_bytes};
    const struct region_message *message = &letter->message;

    memset(letter, 0, offsetof(struct region_letter, room));
    take_head(&reader, letter);
    if (reader.is_wrong) {
        return NIGH_PROTOCOL;
    }
    take_fields(&reader, letter);
    if (reader.is_wrong || !take_rest(&reader, letter) || !is_change_sound(message) ||
        !is_descriptor_sound(message) || !are_chunks_sound(message) ||
        !are_handles_sound(message) || !is_lock_sound(message) || !is_barrier_sound(message)) {
        return NIGH_PROTOCOL;
    }
    return NIGH_OK;
}

uint32_t region_letter_room(const struct region_letter *letter)
{
    const struct region_message *message = &letter->message;
    uint32_t room = chunks_end(&message->chunks);

    if (message->descriptor != NULL && message->descriptor->chunk_count > room) {
        room = message->descriptor->chunk_count;
    }
    return room;
}
