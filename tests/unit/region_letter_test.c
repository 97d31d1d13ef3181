/* SPDX-License-Identifier: Apache-2.0 */
/* Letters between the machines of regions: each kind comes as it went, and nothing else is read. */
#include "region/letter.h"

#include <stdlib.h>

#include "region_fixture.h"
#include "support/support.h"

#define NAME "tab"

static struct region_letter letter;
static uint8_t bytes[REGION_LETTER_BYTES], again[REGION_LETTER_BYTES];
static const struct region_window handles[REGION_FIXTURE_ROOM] = {[1] = {51, 7}, [3] = {53, 0}};

/* Of each kind one that has all that it may have. */
static struct region_message make(enum region_message_kind kind,
                                  const struct region_descriptor *descriptor)
{
    struct region_message message = {.kind = kind, .change = region_fixture_version(9)};

    switch (kind) {
    case REGION_PREPARE:
        message.geometry = descriptor->geometry;
        message.is_move = message.is_mappable = true;
        break;
    case REGION_COPY:
        message.source =
            (struct region_place){.node = 4, .incarnation = 6, .handle = {.address = 77, .key = 3}};
        message.is_move = true;
        break;
    case REGION_FREEZE: message.is_move = true; break;
    case REGION_THAW: message.base = region_fixture_version(8); break;
    case REGION_DONE:
        message.of = REGION_FREEZE;
        message.status = NIGH_BUSY;
        break;
    case REGION_COMMIT:
    case REGION_SETTLE:
    case REGION_HELD:
    case REGION_MAPPED: message.descriptor = descriptor; break;
    case REGION_MAP:
    case REGION_UNMAP:
    case REGION_CHANGED:
    case REGION_HOLD: break;
    case REGION_CLAIM:
    case REGION_GRANT:
    case REGION_RECALL:
        message.base = region_fixture_version(8);
        message.lock = (struct region_lock_word){
            .number = 1ull << 40, .serial = 5, .mode = REGION_LOCK_SHARED};
        message.lock.is_held = message.lock.is_dirty = kind == REGION_CLAIM;
        break;
    case REGION_ARRIVED:
    case REGION_PASSED:
    case REGION_KNOWN:
    case REGION_NOTED:
        message.base = region_fixture_version(8);
        message.barrier = (struct region_barrier_word){.number = 7, .round = 3, .is_broken = true};
        if (kind == REGION_KNOWN) {
            message.barrier.round = 0;
            message.barrier.latest = 4;
            message.barrier.is_part = true;
            region_set_add(&message.ranks, 5);
            region_set_add(&message.ranks, LIMIT_NODES - 1);
        }
        if (kind == REGION_ARRIVED) {
            message.barrier.latest = 4;
            message.barrier.count = 5;
            message.barrier.parties = 6;
            message.barrier.is_part = true;
        }
        message.barrier.ask = kind == REGION_ARRIVED || kind == REGION_PASSED ? 1ull << 33 : 0;
        message.barrier.is_answer = kind == REGION_PASSED;
        break;
    case REGION_KINDS: break;
    }
    if (kind == REGION_DONE || kind == REGION_HELD) {
        message.handles = handles;
        message.handle_count = REGION_FIXTURE_ROOM;
    }
    if (kind <= REGION_COPY || kind == REGION_DONE || kind == REGION_HELD || kind == REGION_HOLD) {
        region_chunks_add(&message.chunks, 1);
        region_chunks_add(&message.chunks, 3);
    }
    return message;
}

static size_t encode(const struct region_message *message)
{
    return region_letter_encode(message, NAME, sizeof(NAME) - 1, bytes);
}

static nigh_status read_again(const struct region_message *message)
{
    return region_letter_decode(bytes, encode(message), &letter);
}

static void each_kind_comes_as_it_went(void **state)
{
    struct region_fixture fixture;
    const struct region_descriptor *descriptor = region_fixture_make(&fixture, 5);

    (void)state;
    for (uint32_t kind = REGION_PREPARE; kind < REGION_KINDS; kind++) {
        struct region_message message = make(kind, descriptor);
        const struct region_message *read = &letter.message;
        size_t size_bytes = encode(&message);

        memset(&letter, 0xaa, sizeof(letter));
        assert_int_equal(region_letter_decode(bytes, size_bytes, &letter), NIGH_OK);
        assert_int_equal(read->kind, kind);
        assert_int_equal(read->of, message.of);
        assert_int_equal(read->status, message.status);
        assert_int_equal(read->is_move, message.is_move);
        assert_int_equal(read->is_mappable, message.is_mappable);
        assert_true(region_version_equal(&read->change, &message.change));
        assert_true(region_version_equal(&read->base, &message.base));
        assert_memory_equal(&read->chunks, &message.chunks, sizeof(read->chunks));
        assert_memory_equal(&read->geometry, &message.geometry, sizeof(read->geometry));
        assert_int_equal(read->source.node, message.source.node);
        assert_int_equal(read->source.incarnation, message.source.incarnation);
        assert_true(region_window_equal(read->source.handle, message.source.handle));
        assert_int_equal(read->lock.number, message.lock.number);
        assert_int_equal(read->lock.serial, message.lock.serial);
        assert_int_equal(read->lock.mode, message.lock.mode);
        assert_int_equal(read->lock.is_held, message.lock.is_held);
        assert_int_equal(read->lock.is_dirty, message.lock.is_dirty);
        assert_memory_equal(&read->barrier, &message.barrier, sizeof(read->barrier));
        assert_memory_equal(&read->ranks, &message.ranks, sizeof(read->ranks));
        assert_int_equal(read->handle_count, message.handles != NULL ? 4 : 0);
        assert_int_equal(letter.name_bytes, 3);
        assert_memory_equal(letter.name, NAME, sizeof(NAME));
        assert_true((read->descriptor != NULL) == (message.descriptor != NULL));
        assert_int_equal(region_letter_encode(read, letter.name, letter.name_bytes, again),
                         size_bytes);
        assert_memory_equal(again, bytes, size_bytes);
        assert_int_equal(region_letter_room(&letter), message.descriptor != NULL   ? 5
                                                      : read->chunks.words[0] != 0 ? 4
                                                                                   : 0);
    }
}

/* Cut anywhere, longer, or with any bit turned: none, or another that is written as it came. */
static void nothing_else_is_read(void **state)
{
    struct region_fixture fixture;
    const struct region_descriptor *descriptor = region_fixture_make(&fixture, 2);

    (void)state;
    for (uint32_t kind = REGION_PREPARE; kind < REGION_KINDS; kind++) {
        struct region_message message = make(kind, descriptor);
        size_t size_bytes = encode(&message);

        for (size_t n = 0; n < size_bytes; n++) {
            uint8_t *cut = malloc(n > 0 ? n : 1); /* its own, so that reading behind it is seen */

            memcpy(cut, bytes, n);
            assert_int_equal(region_letter_decode(cut, n, &letter), NIGH_PROTOCOL);
            free(cut);
        }
        bytes[size_bytes] = 0;
        assert_int_equal(region_letter_decode(bytes, size_bytes + 1, &letter), NIGH_PROTOCOL);
        for (size_t bit = 0; bit < 8 * size_bytes; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (region_letter_decode(bytes, size_bytes, &letter) == NIGH_OK) {
                assert_int_equal(
                    region_letter_encode(&letter.message, letter.name, letter.name_bytes, again),
                    size_bytes);
                assert_memory_equal(again, bytes, size_bytes);
            }
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

/* Of one chunk, which is not moved: flagged, and behind the geometry. */
static void what_is_donated_comes_as_it_went(void **state)
{
    struct region_message message = {
        .kind = REGION_PREPARE,
        .change = region_fixture_version(9),
        .geometry = {.size_bytes = 4000, .chunk_bytes = 4096},
        .donation = UINT64_C(0x123456789a),
    };
    size_t size_bytes;

    (void)state;
    region_chunks_add(&message.chunks, 0);
    size_bytes = encode(&message);
    assert_int_equal(region_letter_decode(bytes, size_bytes, &letter), NIGH_OK);
    assert_int_equal(letter.message.donation, message.donation);
    assert_int_equal(region_letter_encode(&letter.message, NAME, 3, again), size_bytes);
    assert_memory_equal(again, bytes, size_bytes);
    for (size_t n = 0; n < size_bytes; n++)
        assert_int_equal(region_letter_decode(bytes, n, &letter), NIGH_PROTOCOL);
    message.donation = 0;
    assert_int_equal(encode(&message), size_bytes - 8);
    bytes[2] |= 8; /* and there is none */
    assert_int_equal(region_letter_decode(bytes, size_bytes - 8, &letter), NIGH_PROTOCOL);
}

static void what_cannot_be_donated_is_refused(void **state)
{
    const struct region_message message = {
        .kind = REGION_PREPARE,
        .change = region_fixture_version(9),
        .geometry = {.size_bytes = 4096, .chunk_bytes = 4096},
        .chunks = {.words = {1}},
        .donation = 7,
    };
    struct region_message other = message;
    size_t size_bytes;

    (void)state;
    assert_int_equal(read_again(&message), NIGH_OK);
    other.is_move = true;
    assert_int_equal(read_again(&other), NIGH_PROTOCOL);
    other = message;
    other.is_mappable = true;
    assert_int_equal(read_again(&other), NIGH_PROTOCOL);
    other = message;
    other.geometry.size_bytes = 4097;
    assert_int_equal(read_again(&other), NIGH_PROTOCOL);
    other = message;
    other.kind = REGION_FREEZE; /* which has none */
    size_bytes = encode(&other);
    assert_int_equal(region_letter_decode(bytes, size_bytes, &letter), NIGH_OK);
    bytes[2] |= 8;
    assert_int_equal(region_letter_decode(bytes, size_bytes, &letter), NIGH_PROTOCOL);
}

static void assert_refused(struct region_message message)
{
    assert_int_equal(read_again(&message), NIGH_PROTOCOL);
}

static void what_no_machine_says_is_refused(void **state)
{
    struct region_fixture fixture;
    struct region_descriptor *descriptor = region_fixture_make(&fixture, 2);
    struct region_message prepare = make(REGION_PREPARE, descriptor),
                          freeze = make(REGION_FREEZE, descriptor),
                          copy = make(REGION_COPY, descriptor),
                          commit = make(REGION_COMMIT, descriptor),
                          mapped = make(REGION_MAPPED, descriptor),
                          done = make(REGION_DONE, descriptor),
                          claim = make(REGION_CLAIM, descriptor),
                          grant = make(REGION_GRANT, descriptor),
                          arrived = make(REGION_ARRIVED, descriptor),
                          passed = make(REGION_PASSED, descriptor),
                          known = make(REGION_KNOWN, descriptor),
                          noted = make(REGION_NOTED, descriptor);

    (void)state;
    assert_refused(prepare); /* chunks behind the region's end */
    freeze.chunks = (struct region_chunks){0};
    assert_refused(freeze);
    copy.source.handle = REGION_NO_WINDOW;
    assert_refused(copy);
    copy.source =
        (struct region_place){.node = LIMIT_NODES, .incarnation = 6, .handle = {.address = 1}};
    assert_refused(copy);
    copy.source = (struct region_place){.node = 4, .handle = {.address = 1}};
    assert_refused(copy); /* of no incarnation */
    commit.change = (struct region_version){0};
    assert_refused(commit);
    commit = make(REGION_COMMIT, descriptor);
    commit.descriptor = NULL;
    assert_refused(commit);
    mapped.status = NIGH_NOT_FOUND;
    assert_refused(mapped);
    mapped = make(REGION_MAPPED, descriptor);
    mapped.descriptor = NULL;
    assert_refused(mapped);
    done.of = REGION_DONE;
    assert_refused(done);
    done = make(REGION_DONE, descriptor);
    done.status = NIGH_PENDING; /* which ends nothing */
    assert_refused(done);
    done.status = NIGH_STATUS_LOWEST - 1; /* which nobody could answer with */
    assert_refused(done);
    claim.lock.mode = REGION_LOCK_NONE; /* and has it */
    assert_refused(claim);
    claim = make(REGION_CLAIM, descriptor);
    claim.lock.mode = (enum region_lock_mode)3;
    assert_refused(claim);
    claim = make(REGION_CLAIM, descriptor);
    claim.base = (struct region_version){0};
    assert_refused(claim);
    grant.lock.is_dirty = true;
    assert_refused(grant);
    grant = make(REGION_GRANT, descriptor);
    grant.status = NIGH_LOCK_LOST; /* and gives it */
    assert_refused(grant);
    arrived.barrier.round = 5; /* later than the latest */
    assert_refused(arrived);
    arrived = make(REGION_ARRIVED, descriptor);
    arrived.barrier.ask = 0; /* who takes part has asked */
    assert_refused(arrived);
    arrived = make(REGION_ARRIVED, descriptor);
    arrived.barrier.is_part = false; /* and nobody else has */
    assert_refused(arrived);
    passed.barrier.count = 1;
    assert_refused(passed);
    passed = make(REGION_PASSED, descriptor);
    passed.barrier.ask = 0; /* it is to nobody who asked */
    assert_refused(passed);
    passed = make(REGION_PASSED, descriptor);
    passed.barrier.round = 0; /* and answers nothing */
    assert_refused(passed);
    known.barrier.round = 1; /* it is nobody's that counts there */
    assert_refused(known);
    noted.barrier.is_part = true;
    assert_refused(noted);
    noted = make(REGION_NOTED, descriptor);
    noted.barrier.is_answer = true;
    assert_refused(noted);
    noted = make(REGION_NOTED, descriptor);
    noted.status = NIGH_INVALID; /* what was known is noted, or there is no room, or no region */
    assert_refused(noted);
    descriptor->name[0] = 'T'; /* of another region */
    assert_refused(make(REGION_SETTLE, descriptor));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_comes_as_it_went),
        cmocka_unit_test(nothing_else_is_read),
        cmocka_unit_test(what_is_donated_comes_as_it_went),
        cmocka_unit_test(what_cannot_be_donated_is_refused),
        cmocka_unit_test(what_no_machine_says_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
