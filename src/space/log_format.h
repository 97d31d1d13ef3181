/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space's log as bytes: records, and batches of them, which is what is written at once
 * (docs/spaces.md, durability). Of a batch all is believed, or nothing: one checksum is over all of
 * it, and it says of which space, which life and which generation it is, and which records it has.
 * So what is torn, what is left of an earlier use of the file, and what a client put into bytes of
 * its own that looks like a batch is told from one that is good.
 *
 * Pure: bytes in, bytes out; any bytes may be handed in. Numbers are little-endian.
 */
#ifndef SPACE_LOG_FORMAT_H
#define SPACE_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "space/message.h"

#define SPACE_LOG_FORMAT 1u

/* Batches begin at multiples of this: what is durable is never written once more, as what shares a
 * sector or a page with it would have to. */
#define SPACE_LOG_SECTOR 4096u

#define SPACE_LOG_HEAD_BYTES   64u /* of a batch */
#define SPACE_LOG_RECORD_BYTES 32u /* of a record, before its bytes */

/* RECORD(name, has bytes, what) */
/* clang-format off */
#define SPACE_LOG_TABLE(RECORD)                                                                     \
    RECORD(NOTHING,    0, "none")                                                                   \
    RECORD(IMAGE,      0, "an image begins: of which geometry, and from which record on its log is") \
    RECORD(IMAGE_END,  0, "it is whole; and which record is the last that it may know of")         \
    RECORD(TERM,       0, "the home has begun this term")                                           \
    RECORD(ALLOC,      0, "at home: so many blocks are in use, and zero")                           \
    RECORD(FREE,       0, "at home: so many blocks are not in use")                                 \
    RECORD(WRITE,      1, "at home: these bytes of a block, which has its last ones here")          \
    RECORD(BACK,       1, "at home: the last bytes of the block are here, and these")               \
    RECORD(OWNED,      0, "at home: `seat` is given the block, by this right; of the bytes here, or not") \
    RECORD(LOST,       0, "at home: nobody has the block's last bytes any more")                    \
    RECORD(COPY,       1, "of another's block: what this node has by this right: all of it")        \
    RECORD(CHANGE,     1, "of another's block: these bytes of that copy, by this right")            \
    RECORD(RENEWED,    0, "of another's block: the copy that this node has is of this right now")   \
    RECORD(HANDED,     0, "of another's block: the copy is given to `seat`; it was of this right")  \
    RECORD(LEFT,       0, "of another's block: the copy is not needed any more")                    \
    RECORD(MEMBER,     0, "at home: `seat` has this life, from that term on, and was a member when the last term opened, or not")
/* clang-format on */

#define SPACE_LOG_KIND(name, has_bytes, what) SPACE_LOG_##name,
enum space_log_kind {
    SPACE_LOG_TABLE(SPACE_LOG_KIND) SPACE_LOG_KINDS
};
#undef SPACE_LOG_KIND

struct space_log_record {
    uint8_t kind; /* enum space_log_kind */
    uint8_t seat; /* OWNED, HANDED, MEMBER */
    /* OWNED: the bytes that it is given are those of the last BACK, WRITE or ALLOC; MEMBER: it was
     * one. */
    bool is_ours;
    /* Of the block; IMAGE and IMAGE_END: a record's number; MEMBER: a life. */
    uint64_t address;
    /* TERM: the term; IMAGE: its count: frames; MEMBER: the first term open with that life. */
    struct space_epoch epoch;
    /* WRITE, CHANGE: where in the block; ALLOC: how many blocks of the same malloc are before it;
     * IMAGE: bytes of a block. */
    uint32_t offset;
    /* ALLOC, FREE: in a row; BACK, OWNED and LOST in an image: of the malloc whose first block it
     * is; IMAGE: of the home memory. */
    uint32_t blocks;
    uint32_t length; /* of the bytes; they lie behind the record in a batch */
    const uint8_t *bytes;
};

/* What batches say that they are of. */
struct space_log_name {
    uint64_t identity;   /* of the space, and of which node's part of it: the caller's */
    uint64_t life;       /* random: another with each start, and nothing that a client knows */
    uint64_t generation; /* of an image, and of the log behind it; grows */
    bool is_image;
};

const char *space_log_kind_name(uint8_t kind);
const char *space_log_kind_what(uint8_t kind);
bool space_log_kind_has_bytes(uint8_t kind);

/* What a record takes in a batch: a multiple of 8. */
uint32_t space_log_record_bytes(const struct space_log_record *record);

/* Writes a record there, which has room for it. */
void space_log_put_record(uint8_t *out, const struct space_log_record *record);

/*
 * The head, before records of `size_bytes` in all (head included), of which the first one has the
 * number `first`; and zeros up to the next sector. Returns the bytes of the batch.
 */
uint32_t space_log_seal_batch(uint8_t *bytes, uint32_t size_bytes,
                              const struct space_log_name *name, uint64_t first, uint32_t records);

/* A batch that was read. */
struct space_log_batch {
    const uint8_t *bytes; /* its records */
    uint32_t size_bytes;
    uint32_t records; /* at least one */
    uint64_t first;   /* the number of the first one */
    uint32_t whole;   /* bytes from its head to where the next one may begin */
    struct space_log_name name;
};

/* What a head says that its batch takes, to a multiple of a sector; 0: it is no head. Nothing else
 * is looked at. */
uint32_t space_log_batch_bytes(const uint8_t head[SPACE_LOG_HEAD_BYTES]);

/*
 * A batch at the beginning of these bytes. NIGH_NOT_FOUND: none, or not all of it, or torn.
 * NIGH_VERSION: a later format. What it is of is for the caller to compare.
 */
nigh_status space_log_open_batch(const uint8_t *bytes, size_t size_bytes,
                                 struct space_log_batch *batch);

/* The same space and life, generation and sort. */
bool space_log_name_equal(const struct space_log_name *a, const struct space_log_name *b);

/*
 * The record at *at, 0 at first, which moves on; its bytes lie in the batch. False: there is none
 * any more, or what is there is no record: then *at is not the batch's end.
 */
bool space_log_next_record(const struct space_log_batch *batch, uint32_t *at,
                           struct space_log_record *record);

#endif
