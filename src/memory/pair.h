/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair: memory of two processes through which one calls a service of the other (docs/session.md,
 * "Pairs"). Two halves of one make: requests go through the first, replies through the second. Each
 * half has one writer and one reader, processes that trust one another with nothing.
 *
 * Pure: memory in, memory out. What the other side can write is copied out before it is checked,
 * and no index, length or bound of one's own is read back from there: the writer and the reader
 * below are private. Neither waits, and neither wakes anybody. One thread at a time.
 */
#ifndef MEMORY_PAIR_H
#define MEMORY_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "memory/shared.h"

#define PAIR_INLINE_BYTES 96u /* a record of so many lies in its entry, wholly */

/* What a record is, beside its bytes. Of a reader: a copy, of which only `bytes` is checked. */
struct pair_record {
    uint16_t tag;         /* of the call: the caller's, and the same in its reply */
    uint16_t flags;       /* PAIR_* */
    uint32_t nonce;       /* of the call, likewise: a tag is used again */
    uint32_t bytes;       /* at most LIMIT_CALL_BYTES */
    int32_t value;        /* request: room for the reply; reply: a status */
    uint64_t deadline_us; /* request: of the machine's clock; UINT64_MAX: none. Reply: the bytes
                             that it would have had */
};

#define PAIR_ONE_WAY 1u

struct pair_entry {
    _Atomic uint32_t commit;          /* writer, last: the record's number and one */
    _Atomic uint32_t withdrawn;       /* writer: 1: its caller has given up */
    struct pair_record record;        /* writer */
    uint8_t bytes[PAIR_INLINE_BYTES]; /* writer */
};

_Static_assert(sizeof(struct pair_record) == 24, "a record is shared");
_Static_assert(sizeof(struct pair_entry) == 128, "an entry is two cache lines");

/* A word alone on two cache lines, which processors fetch together. */
struct pair_word {
    _Atomic uint32_t value;
    uint32_t reserved[31];
};

struct pair_half {
    struct pair_word head;   /* reader: records taken, ever */
    struct pair_word asleep; /* reader: 1: it wants to be woken */
    struct pair_word open;   /* reader: PAIR_OPEN: it has taken the pair */
    uint8_t reserved[4096 - 3 * sizeof(struct pair_word)];
    struct pair_entry entries[LIMIT_PAIR_ENTRIES];
    uint8_t data[LIMIT_PAIR_DATA_BYTES]; /* writer: longer bytes, in the order of the records */
};

#define PAIR_OPEN 1u

struct pair_memory {
    struct pair_half requests; /* writer: the caller */
    struct pair_half replies;  /* writer: the server */
};

_Static_assert(sizeof(struct pair_memory) % 4096 == 0, "a pair is whole pages");
_Static_assert((LIMIT_PAIR_ENTRIES & (LIMIT_PAIR_ENTRIES - 1)) == 0, "entries wrap by a mask");
_Static_assert(LIMIT_PAIR_DATA_BYTES % 128 == 0 &&
                   (LIMIT_PAIR_DATA_BYTES & (LIMIT_PAIR_DATA_BYTES - 1)) == 0,
               "bytes wrap by a mask");

/* Who writes a half. Private. */
struct pair_writer {
    struct pair_half *half;
    uint32_t tail;                         /* records written, ever */
    uint32_t head;                         /* of them taken, as was last seen */
    uint32_t data_tail;                    /* bytes of `data` used, ever */
    uint32_t data_head;                    /* free again, ever */
    uint32_t data_end[LIMIT_PAIR_ENTRIES]; /* data_tail behind each record */
};

/* Who reads it. Private. */
struct pair_reader {
    struct pair_half *half;
    uint32_t head;
    uint32_t data_head;
};

enum pair_answer {
    PAIR_NONE,  /* nothing there; no room */
    PAIR_DONE,  /* written; read */
    PAIR_BROKEN /* the other side wrote what cannot be */
};

/* Bytes of `data` that a record of so many takes. */
static inline uint32_t pair_data_bytes(uint32_t bytes)
{
    return bytes <= PAIR_INLINE_BYTES ? 0 : (bytes + 63) & ~63u;
}

void pair_begin_writer(struct pair_writer *writer, struct pair_half *half);
void pair_begin_reader(struct pair_reader *reader, struct pair_half *half);

/*
 * Writes a record and its bytes (at most LIMIT_CALL_BYTES). *number: for pair_withdraw. When it has
 * returned PAIR_DONE the caller asks pair_wants_bell.
 */
enum pair_answer pair_write(struct pair_writer *writer, const struct pair_record *record,
                            const void *bytes, uint32_t *number);

/* Whether the reader sleeps, and is to be woken by who called; true once a sleep. */
bool pair_wants_bell(const struct pair_writer *writer);

/* Says that nobody waits for the answer to this request, if it is still there to be read. */
void pair_withdraw(const struct pair_writer *writer, uint32_t number);

/* Whether there is a record. Any thread. Both lines of its entry come at once where the other
 * processor has them: one after the other takes twice as long. */
static inline bool pair_is_readable(const struct pair_half *half, uint32_t head)
{
    const struct pair_entry *entry = &half->entries[head & (LIMIT_PAIR_ENTRIES - 1)];

    __builtin_prefetch(&entry->bytes[PAIR_INLINE_BYTES - 1]);
    return shared_load_acquire(&entry->commit) == head + 1;
}

/* Takes the next record; its bytes go to `bytes`, which has LIMIT_CALL_BYTES. It is the writer's
 * again before the return. */
enum pair_answer pair_read(struct pair_reader *reader, struct pair_record *record, void *bytes,
                           bool *withdrawn);

#endif
