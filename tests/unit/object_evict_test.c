/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eviction policy keeps what docs/eviction.md promises: bounds, order, what a hint is worth,
 * what history changes, what happens to kept entries, and that it resists scans where LRU does not.
 * The comparisons replay the traces of bench/ against the policies there.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "../../bench/evict_replay.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "object/evict.h"

#define KIB    UINT64_C(1024)
#define MIB    (UINT64_C(1) << 20)
#define GIB    (UINT64_C(1) << 30)
#define GUARD  64
#define MARGIN 0x5c

/* A policy and its storage, between guards. */
struct bed {
    struct evict evict;
    uint8_t *memory;
    size_t bytes;
};

static void bed_init(struct bed *bed, uint32_t max_entries, uint64_t capacity_bytes)
{
    bed->bytes = evict_storage_bytes(max_entries);
    bed->memory = aligned_alloc(CACHE_LINE, align_up_u64(bed->bytes + GUARD, CACHE_LINE));
    assert_non_null(bed->memory);
    memset(bed->memory, MARGIN, bed->bytes + GUARD);
    assert_int_equal(evict_init(&bed->evict, max_entries, capacity_bytes, bed->memory), NIGH_OK);
}

static void bed_fini(struct bed *bed)
{
    assert_true(evict_is_valid(&bed->evict));
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(bed->memory[bed->bytes + i], MARGIN);
    }
    free(bed->memory);
}

/* Entries first to first + count - 1, each of size_bytes, hashed by their number. */
static void admit(struct bed *bed, uint32_t first, uint32_t count, uint64_t size_bytes)
{
    for (uint32_t entry = first; entry < first + count; entry++) {
        evict_admit(&bed->evict, entry, size_bytes, entry);
    }
}

static uint32_t next_victim(struct bed *bed)
{
    uint32_t victim = UINT32_MAX;

    assert_int_equal(evict_victims(&bed->evict, 1, 1, &victim), 1);
    return victim;
}

/* Evicts the next victims, each expected to be the one before plus one. */
static void evict_run(struct bed *bed, uint32_t first, uint32_t count)
{
    for (uint32_t entry = first; entry < first + count; entry++) {
        assert_int_equal(next_victim(bed), entry);
        evict_evicted(&bed->evict, entry);
    }
}

/* Entries first to first + count - 1 are in main, in this order, and their use is long past. */
static void settle(struct bed *bed, uint32_t first, uint32_t count)
{
    for (uint32_t entry = first; entry < first + count; entry++) {
        evict_refresh(&bed->evict, entry);
        bed->evict.marks[entry] = EVICT_MAIN;
    }
}

/* A full store of 1,000 objects that evicts already: on trial 1 to 100 and 0, of which 1 is the
 * next to go and only that one goes before main's; in main 101 to 999, in this order. */
static void fill(struct bed *bed)
{
    bed_init(bed, 2000, 1000 * 4 * KIB);
    admit(bed, 101, 899, 4 * KIB);
    settle(bed, 101, 899);
    admit(bed, 1, 100, 4 * KIB);
    admit(bed, 0, 1, 4 * KIB);
    assert_int_equal(evict_where(&bed->evict, 1), EVICT_SMALL);
    assert_int_equal(evict_where(&bed->evict, 0), EVICT_YOUNG);
}

/* ---- bounds ---- */

static void storage_is_at_most_23_bytes_an_entry_and_128(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 10000; n++) {
        assert_true(evict_storage_bytes(n) <= 23 * (size_t)n + 128);
    }
    assert_true(evict_storage_bytes(LIMIT_INDEX_ENTRIES) <= 23 * (size_t)LIMIT_INDEX_ENTRIES + 128);
}

static void init_refuses_what_it_cannot_serve(void **state)
{
    static _Alignas(CACHE_LINE) uint8_t storage[4096];
    struct evict evict;

    (void)state;
    assert_int_equal(evict_init(&evict, 0, MIB, storage), NIGH_INVALID);
    assert_int_equal(evict_init(&evict, LIMIT_INDEX_ENTRIES + 1, MIB, storage), NIGH_INVALID);
    assert_int_equal(evict_init(&evict, 10, LIMIT_GRANULE_BYTES - 1, storage), NIGH_INVALID);
    assert_int_equal(evict_init(&evict, 10, MIB, storage + 8), NIGH_INVALID);
    assert_int_equal(evict_init(&evict, 10, MIB, storage), NIGH_OK);
}

static void an_empty_policy_offers_nothing(void **state)
{
    struct bed bed;
    uint32_t victims[4];

    (void)state;
    bed_init(&bed, 4, MIB);
    assert_int_equal(evict_victims(&bed.evict, 4, UINT64_MAX, victims), 0);
    admit(&bed, 0, 2, KIB);
    assert_int_equal(evict_victims(&bed.evict, 0, UINT64_MAX, victims), 0);
    assert_int_equal(evict_victims(&bed.evict, 4, 0, victims), 0);
    assert_int_equal(evict_victims(&bed.evict, 4, UINT64_MAX, victims), 2);
    assert_int_equal(evict_victims(&bed.evict, 4, UINT64_MAX, victims), 0);
    bed_fini(&bed);
}

static void offers_end_at_the_count_or_at_the_bytes(void **state)
{
    struct bed bed;
    uint32_t victims[100];

    (void)state;
    fill(&bed);
    assert_int_equal(evict_victims(&bed.evict, 7, UINT64_MAX, victims), 7);
    assert_int_equal(evict_victims(&bed.evict, 100, 12 * KIB, victims), 3);
    assert_int_equal(evict_victims(&bed.evict, 100, 12 * KIB + 1, victims), 4);
    assert_int_equal(evict_bytes(&bed.evict, EVICT_OFFERED), 14 * 4 * KIB);
    bed_fini(&bed);
}

static uint64_t count_hits(const struct bed *bed)
{
    uint64_t hits = 0;

    for (uint32_t entry = 0; entry < bed->evict.max_entries; entry++) {
        hits += (bed->evict.marks[entry] >> 3) & 3;
    }
    return hits;
}

/* With every object in use, a call gives up looking, and still names one. */
static void a_call_passes_over_a_bounded_number_and_names_one(void **state)
{
    enum {
        N = 100 * LIMIT_EVICT_SCAN
    };
    struct bed bed;

    (void)state;
    bed_init(&bed, N, N * 4 * KIB);
    admit(&bed, 0, N, 4 * KIB);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t entry = 0; entry < N; entry++) {
            evict_touch(&bed.evict, entry);
        }
    }
    for (uint32_t round = 0; round < 20; round++) {
        uint64_t before = count_hits(&bed);
        uint32_t victim = next_victim(&bed);
        uint64_t passed = before - count_hits(&bed);

        /* An entry leaves trial with up to two hits fewer. */
        assert_true(passed <= 2 * LIMIT_EVICT_SCAN);
        evict_evicted(&bed.evict, victim);
    }
    bed_fini(&bed);
}

/* ---- order ---- */

static void unused_newcomers_go_first_in_first_out(void **state)
{
    struct bed bed;

    (void)state;
    fill(&bed);
    /* Trial shrinks to its target, then keeps it: main is next. */
    evict_run(&bed, 1, 1);
    evict_run(&bed, 101, 3);
    admit(&bed, 1000, 50, 4 * KIB);
    evict_run(&bed, 2, 50);
    bed_fini(&bed);
}

/* What is put and not yet read is what somebody is about to read: the latest of it stays. */
static void without_any_use_the_latest_stay(void **state)
{
    struct bed bed;
    uint64_t used = 0;
    uint32_t oldest = 0;

    (void)state;
    bed_init(&bed, 64, 96 * MIB);
    for (uint32_t entry = 0; entry < 40; entry++) {
        for (; used + 4 * MIB > 96 * MIB; used -= 4 * MIB) {
            evict_run(&bed, oldest++, 1);
        }
        admit(&bed, entry, 1, 4 * MIB);
        used += 4 * MIB;
    }
    assert_int_equal(oldest, 40 - 24);
    assert_int_equal(evict_bytes(&bed.evict, EVICT_MAIN), 0);
    bed_fini(&bed);
}

static void a_hint_on_trial_promotes_and_a_hint_to_the_young_does_not(void **state)
{
    struct bed bed;

    (void)state;
    fill(&bed);
    admit(&bed, 1000, 200, 4 * KIB);
    assert_int_equal(evict_where(&bed.evict, 2), EVICT_SMALL);
    assert_int_equal(evict_where(&bed.evict, 1199), EVICT_YOUNG);
    evict_touch(&bed.evict, 2);
    evict_touch(&bed.evict, 1199);
    assert_int_equal(next_victim(&bed), 1);
    evict_evicted(&bed.evict, 1);
    assert_int_equal(next_victim(&bed), 3);
    evict_evicted(&bed.evict, 3);
    assert_int_equal(evict_where(&bed.evict, 2), EVICT_MAIN);
    /* Once it is on trial, the burst at its birth has left nothing. */
    admit(&bed, 1200, 100, 4 * KIB);
    assert_int_equal(evict_where(&bed.evict, 1199), EVICT_SMALL);
    for (uint32_t victim = 0; victim != 1199;) {
        victim = next_victim(&bed);
        evict_evicted(&bed.evict, victim);
    }
    bed_fini(&bed);
}

static void what_is_fetched_again_soon_goes_to_main(void **state)
{
    struct bed bed;

    (void)state;
    fill(&bed);
    admit(&bed, 1000, 10, 4 * KIB);
    evict_run(&bed, 1, 2);
    evict_admit(&bed.evict, 1, 4 * KIB, 1);
    assert_int_equal(evict_where(&bed.evict, 1), EVICT_MAIN);
    /* In another entry too: the id's hash counts, not the number. */
    evict_admit(&bed.evict, 1500, 4 * KIB, 2);
    assert_int_equal(evict_where(&bed.evict, 1500), EVICT_MAIN);
    bed_fini(&bed);
}

/* Where an object goes that comes back after `others` of its size went. */
static enum evict_place place_after(uint32_t others)
{
    struct bed bed;
    enum evict_place place;

    fill(&bed);
    evict_run(&bed, 1, 1);
    for (uint32_t i = 0; i < others; i++) {
        admit(&bed, 1000 + i, 1, 4 * KIB);
        evict_evicted(&bed.evict, next_victim(&bed));
    }
    evict_admit(&bed.evict, 1, 4 * KIB, 1);
    place = evict_where(&bed.evict, 1);
    bed_fini(&bed);
    return place;
}

static void history_reaches_back_nine_tenths_of_the_capacity(void **state)
{
    (void)state;
    assert_int_equal(place_after(890), EVICT_MAIN);
    assert_int_equal(place_after(910), EVICT_YOUNG);
}

static void what_main_gave_up_proves_itself_anew_and_shortens_trial(void **state)
{
    struct bed bed;
    uint64_t before;

    (void)state;
    fill(&bed);
    evict_run(&bed, 1, 1);
    evict_admit(&bed.evict, 1, 4 * KIB, 1);
    before = bed.evict.small_target;
    assert_true(before > bed.evict.small_target_min);
    assert_int_equal(evict_where(&bed.evict, 500), EVICT_MAIN);
    evict_evicted(&bed.evict, 500);
    evict_admit(&bed.evict, 500, 4 * KIB, 500);
    assert_int_equal(evict_where(&bed.evict, 500), EVICT_YOUNG);
    assert_true(bed.evict.small_target < before);
    bed_fini(&bed);
}

static void a_missed_object_lengthens_the_trial_once(void **state)
{
    struct bed bed;
    uint64_t before;

    (void)state;
    fill(&bed);
    before = bed.evict.small_target;
    evict_run(&bed, 1, 1);
    evict_missed(&bed.evict, 77777);
    evict_missed(&bed.evict, 2);
    assert_int_equal(bed.evict.small_target, before);
    evict_missed(&bed.evict, 1);
    assert_int_equal(bed.evict.small_target - before, 4 * KIB / LIMIT_GRANULE_BYTES);
    evict_missed(&bed.evict, 1);
    /* When it is put again, it is known as before, and has had its say. */
    evict_admit(&bed.evict, 1, 4 * KIB, 1);
    assert_int_equal(evict_where(&bed.evict, 1), EVICT_MAIN);
    assert_int_equal(bed.evict.small_target - before, 4 * KIB / LIMIT_GRANULE_BYTES);
    bed_fini(&bed);
}

static void a_missed_object_of_main_or_of_long_ago_moves_nothing(void **state)
{
    struct bed bed;
    uint64_t before;

    (void)state;
    fill(&bed);
    before = bed.evict.small_target;
    evict_evicted(&bed.evict, 500);
    evict_missed(&bed.evict, 500);
    assert_int_equal(bed.evict.small_target, before);
    evict_run(&bed, 1, 1);
    for (uint32_t i = 0; i < 910; i++) {
        admit(&bed, 1000 + i, 1, 4 * KIB);
        evict_evicted(&bed.evict, next_victim(&bed));
    }
    evict_missed(&bed.evict, 1);
    assert_int_equal(bed.evict.small_target, before);
    bed_fini(&bed);
}

/* However large what was missed is, and however much: a step each, and main keeps its least. */
static void misses_move_the_border_by_bounded_steps(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, 2000, 4 * GIB);
    for (uint32_t entry = 0; entry < 1000; entry++) {
        uint64_t before = bed.evict.small_target;

        admit(&bed, entry, 1, entry % 2 == 0 ? GIB : 64 * GIB);
        evict_evicted(&bed.evict, entry);
        evict_missed(&bed.evict, entry);
        assert_in_range(bed.evict.small_target - before, 0, bed.evict.capacity / 160);
        assert_true(bed.evict.small_target <= bed.evict.capacity * 19 / 20);
    }
    bed_fini(&bed);
}

/* 1 GiB in 4 GiB: more than trial's 10 %, and yet not the next to go. */
static void a_large_object_gets_the_trial_of_a_small_one(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed, 8192, 4 * GIB);
    admit(&bed, 0, 4096, MIB);
    settle(&bed, 1024, 3072);
    for (uint32_t freed = 0; freed < 1024; freed++) {
        evict_evicted(&bed.evict, next_victim(&bed));
    }
    evict_admit(&bed.evict, 5000, GIB, 5000);
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t victim = next_victim(&bed);

        assert_int_not_equal(victim, 5000);
        evict_evicted(&bed.evict, victim);
        admit(&bed, 6000 + i, 1, MIB);
    }
    for (uint32_t i = 0; evict_where(&bed.evict, 5000) != EVICT_FREE; i++) {
        assert_true(i < 100);
        evict_evicted(&bed.evict, next_victim(&bed));
        admit(&bed, 7000 + i, 1, MIB);
    }
    bed_fini(&bed);
}

static void a_refreshed_object_outlives_the_trial(void **state)
{
    struct bed bed;

    (void)state;
    fill(&bed);
    admit(&bed, 1000, 10, 4 * KIB);
    assert_int_equal(evict_where(&bed.evict, 1009), EVICT_YOUNG);
    evict_refresh(&bed.evict, 1009);
    assert_int_equal(evict_where(&bed.evict, 1009), EVICT_MAIN);
    evict_refresh(&bed.evict, 1);
    evict_run(&bed, 2, 5);
    bed_fini(&bed);
}

static void resizing_moves_the_border_with_the_capacity(void **state)
{
    struct bed bed;

    (void)state;
    fill(&bed);
    evict_resize(&bed.evict, 100 * 4 * KIB);
    assert_true(evict_is_valid(&bed.evict));
    assert_int_equal(bed.evict.small_target * LIMIT_GRANULE_BYTES, 10 * 4 * KIB);
    bed.evict.small_target *= 3;
    evict_resize(&bed.evict, 10000 * 4 * KIB);
    assert_true(evict_is_valid(&bed.evict));
    assert_int_equal(bed.evict.small_target * LIMIT_GRANULE_BYTES, 3000 * 4 * KIB);
    bed_fini(&bed);
}

/* ---- kept entries ---- */

static void few_kept_entries_are_offered_again_while_others_are_left(void **state)
{
    struct bed bed;
    uint32_t victims[64];
    bool pinned[2000] = {false};

    (void)state;
    fill(&bed);
    assert_int_equal(evict_victims(&bed.evict, 64, UINT64_MAX, victims), 64);
    for (uint32_t i = 0; i < 64; i++) {
        pinned[victims[i]] = true;
        evict_kept(&bed.evict, victims[i]);
    }
    for (uint32_t round = 0; round < 10; round++) {
        uint32_t again = 0;

        assert_int_equal(evict_victims(&bed.evict, 40, UINT64_MAX, victims), 40);
        for (uint32_t i = 0; i < 40; i++) {
            if (pinned[victims[i]]) {
                again++;
                evict_kept(&bed.evict, victims[i]);
            } else {
                evict_evicted(&bed.evict, victims[i]);
            }
        }
        assert_int_equal(again, 10);
    }
    bed_fini(&bed);
}

static void calls_for_one_victim_each_get_past_pinned_ones(void **state)
{
    struct bed bed;
    uint32_t pinned[8];
    uint32_t again = 0;

    (void)state;
    fill(&bed);
    for (uint32_t i = 0; i < 8; i++) {
        pinned[i] = next_victim(&bed);
        evict_kept(&bed.evict, pinned[i]);
    }
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t victim = next_victim(&bed);
        bool is_pinned = false;

        for (uint32_t k = 0; k < 8; k++) {
            is_pinned = is_pinned || victim == pinned[k];
        }
        again += is_pinned;
        (is_pinned ? evict_kept : evict_evicted)(&bed.evict, victim);
    }
    assert_in_range(again, 90, 102);
    bed_fini(&bed);
}

static void with_everything_kept_each_is_offered_once_a_round(void **state)
{
    enum {
        N = 1000,
        BATCH = 64
    };
    struct bed bed;
    uint32_t offered[N] = {0};
    uint32_t victims[BATCH];
    uint32_t calls = 0;

    (void)state;
    bed_init(&bed, N, N * 4 * KIB);
    admit(&bed, 0, N, 4 * KIB);
    while (!evict_only_kept_left(&bed.evict)) {
        uint32_t count = evict_victims(&bed.evict, BATCH, UINT64_MAX, victims);

        assert_true(count > 0);
        assert_true(++calls <= 2 * N / BATCH);
        for (uint32_t i = 0; i < count; i++) {
            evict_kept(&bed.evict, victims[i]);
        }
    }
    for (uint32_t calls_left = N / BATCH; calls_left > 0; calls_left--) {
        assert_int_equal(evict_victims(&bed.evict, BATCH, UINT64_MAX, victims), BATCH);
        for (uint32_t i = 0; i < BATCH; i++) {
            assert_int_equal(offered[victims[i]]++, 0);
            evict_kept(&bed.evict, victims[i]);
        }
    }
    bed_fini(&bed);
}

static void a_kept_entry_that_was_used_meanwhile_goes_to_main(void **state)
{
    struct bed bed;
    uint32_t victim;

    (void)state;
    fill(&bed);
    victim = next_victim(&bed);
    evict_kept(&bed.evict, victim);
    assert_int_equal(evict_where(&bed.evict, victim), EVICT_PARKED);
    evict_touch(&bed.evict, victim);
    for (uint32_t i = 0; evict_where(&bed.evict, victim) == EVICT_PARKED; i++) {
        assert_true(i < 8);
        assert_int_not_equal(next_victim(&bed), victim);
    }
    assert_int_equal(evict_where(&bed.evict, victim), EVICT_MAIN);
    bed_fini(&bed);
}

static void an_offered_entry_may_wait_for_its_answer(void **state)
{
    struct bed bed;
    uint32_t slow;

    (void)state;
    fill(&bed);
    slow = next_victim(&bed);
    for (uint32_t i = 0; i < 998; i++) {
        uint32_t victim = next_victim(&bed);

        assert_int_not_equal(victim, slow);
        evict_evicted(&bed.evict, victim);
    }
    evict_touch(&bed.evict, slow);
    assert_int_equal(evict_where(&bed.evict, slow), EVICT_OFFERED);
    evict_kept(&bed.evict, slow);
    bed_fini(&bed);
}

/* ---- entries that come and go ---- */

static void stale_hints_are_harmless(void **state)
{
    struct bed bed;

    (void)state;
    fill(&bed);
    evict_touch(&bed.evict, 2000);
    evict_touch(&bed.evict, UINT32_MAX);
    evict_touch(&bed.evict, 1500);
    assert_int_equal(evict_where(&bed.evict, 1500), EVICT_FREE);
    assert_int_equal(evict_where(&bed.evict, 2000), EVICT_FREE);
    /* A freed entry's late hint leaves nothing to its next object. */
    evict_forget(&bed.evict, 1);
    evict_touch(&bed.evict, 1);
    evict_admit(&bed.evict, 1, 4 * KIB, 77777);
    assert_int_equal(evict_where(&bed.evict, 1), EVICT_YOUNG);
    evict_touch(&bed.evict, 1);
    assert_true(evict_is_valid(&bed.evict));
    bed_fini(&bed);
}

static void of_a_forgotten_object_nothing_is_remembered(void **state)
{
    struct bed bed;

    (void)state;
    fill(&bed);
    evict_forget(&bed.evict, 1);
    evict_admit(&bed.evict, 1, 4 * KIB, 1);
    assert_int_equal(evict_where(&bed.evict, 1), EVICT_YOUNG);
    /* Also when it was offered and then deleted. */
    assert_int_equal(next_victim(&bed), 2);
    evict_forget(&bed.evict, 2);
    evict_admit(&bed.evict, 2, 4 * KIB, 2);
    assert_int_equal(evict_where(&bed.evict, 2), EVICT_YOUNG);
    bed_fini(&bed);
}

/* A slower policy's view of the same calls, to compare with. */
struct model {
    enum evict_place place[512]; /* of it only FREE, OFFERED, and neither */
    uint64_t size[512];
};

static uint64_t step_at_random(struct bed *bed, struct model *model, uint64_t *random)
{
    uint32_t entry = (uint32_t)(support_random(random) % 512);
    uint64_t kind = support_random(random) % 100;
    enum evict_place place = evict_where(&bed->evict, entry);
    uint32_t victims[32];
    uint32_t count;

    assert_int_equal(place == EVICT_FREE, model->place[entry] == EVICT_FREE);
    assert_int_equal(place == EVICT_OFFERED, model->place[entry] == EVICT_OFFERED);
    if (kind < 40) {
        evict_touch(&bed->evict, entry + (uint32_t)(kind == 0) * 1000);
    } else if (kind < 42 && place != EVICT_FREE) {
        evict_refresh(&bed->evict, entry);
    } else if (kind < 43) {
        evict_missed(&bed->evict, support_random(random) % 2048);
    } else if (kind < 44) {
        evict_resize(&bed->evict, (1 + support_random(random) % 64) * MIB);
    } else if (kind < 60) {
        count = evict_victims(&bed->evict, (uint32_t)(support_random(random) % 32),
                              support_random(random) % (8 * MIB), victims);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(model->place[victims[i]], EVICT_MAIN);
            model->place[victims[i]] = EVICT_OFFERED;
            kind = kind * 31 + victims[i];
        }
    } else if (place == EVICT_FREE) {
        model->place[entry] = EVICT_MAIN;
        model->size[entry] = UINT64_C(1) << (support_random(random) % 31);
        evict_admit(&bed->evict, entry, model->size[entry], support_random(random) % 2048);
    } else if (place == EVICT_OFFERED && kind < 80) {
        model->place[entry] = EVICT_MAIN;
        evict_kept(&bed->evict, entry);
    } else {
        model->place[entry] = EVICT_FREE;
        (kind % 2 ? evict_evicted : evict_forget)(&bed->evict, entry);
    }
    return kind;
}

static uint64_t run_at_random(uint64_t seed, uint32_t steps)
{
    struct bed bed;
    struct model model = {0};
    uint64_t digest = 0;

    bed_init(&bed, 512, 16 * MIB);
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t bytes = 0;

        digest = hash_u64(digest ^ step_at_random(&bed, &model, &seed));
        if (i % 16 != 0) {
            continue;
        }
        assert_true(evict_is_valid(&bed.evict));
        for (uint32_t place = EVICT_YOUNG; place < EVICT_PLACES; place++) {
            bytes += evict_bytes(&bed.evict, (enum evict_place)place);
        }
        for (uint32_t entry = 0; entry < 512; entry++) {
            if (model.place[entry] != EVICT_FREE) {
                bytes -= align_up_u64(model.size[entry], LIMIT_GRANULE_BYTES);
            }
        }
        assert_int_equal(bytes, 0);
    }
    bed_fini(&bed);
    return digest;
}

static void any_sequence_of_calls_keeps_the_invariants(void **state)
{
    uint64_t seed = support_seed() | 1;
    uint64_t end_us = support_now_us() + support_budget_ms(500) * 1000;

    (void)state;
    do {
        run_at_random(seed, 20000);
        seed = hash_u64(seed) | 1;
    } while (support_now_us() < end_us);
}

static void the_same_calls_give_the_same_answers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        assert_int_equal(run_at_random(seed, 5000), run_at_random(seed, 5000));
    }
    assert_int_not_equal(run_at_random(1, 5000), run_at_random(2, 5000));
}

static void the_checker_sees_damage(void **state)
{
    struct bed bed;
    struct evict saved;

    (void)state;
    fill(&bed);
    saved = bed.evict;
    bed.evict.queues[EVICT_MAIN].granules++;
    assert_false(evict_is_valid(&bed.evict));
    bed.evict = saved;
    bed.evict.queues[EVICT_SMALL].count--;
    assert_false(evict_is_valid(&bed.evict));
    bed.evict = saved;
    bed.evict.small_target = bed.evict.capacity;
    assert_false(evict_is_valid(&bed.evict));
    bed.evict = saved;
    bed.evict.nodes[500].toward_tail = 700;
    assert_false(evict_is_valid(&bed.evict));
    bed.evict.nodes[500].toward_tail = 499;
    bed.evict.marks[500] = EVICT_FREE;
    assert_false(evict_is_valid(&bed.evict));
    bed.evict.marks[500] = EVICT_MAIN;
    bed_fini(&bed);
}

/* ---- against LRU, with half of the hits hinted ---- */

static const struct workload *find_workload(const char *name)
{
    for (uint32_t i = 0; i < EVICT_WORKLOADS; i++) {
        if (strcmp(evict_workloads[i].name, name) == 0) {
            return &evict_workloads[i];
        }
    }
    fail_msg("no trace %s", name);
    return NULL;
}

/* Misses of production over misses of LRU; those that no policy avoids, an object's first use, are
 * not counted. */
static double against_lru(const struct workload *workload, uint32_t percent)
{
    struct trace trace;
    struct replay_result lru;
    struct replay_result nigh;
    double first_uses = 0;

    trace_init(&trace, workload, percent, 1);
    for (uint32_t object = 0; object < trace.objects; object++) {
        first_uses += 1.0 / trace.length;
    }
    replay(&trace, evict_policies[EVICT_BASELINE], 50, 1, &lru);
    replay(&trace, evict_policies[EVICT_PRODUCTION], 50, 1, &nigh);
    trace_fini(&trace);
    return (nigh.objects - first_uses) / (lru.objects - first_uses);
}

static void a_scan_costs_far_fewer_hits_than_with_lru(void **state)
{
    const struct workload *scan = find_workload("scan");

    (void)state;
    assert_true(against_lru(scan, 5) < 0.75);
    assert_true(against_lru(scan, 20) < 0.65);
    assert_true(against_lru(scan, 60) < 0.60);
}

static void a_loop_larger_than_memory_hits_where_lru_does_not(void **state)
{
    const struct workload *loop = find_workload("loop");

    (void)state;
    assert_true(against_lru(loop, 67) < 0.70);
    assert_true(against_lru(loop, 91) < 0.40);
}

static void bursts_at_creation_do_not_count_as_use(void **state)
{
    (void)state;
    assert_true(against_lru(find_workload("burst"), 5) < 0.70);
}

static void no_trace_is_much_worse_than_with_lru(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < EVICT_WORKLOADS; i++) {
        for (uint32_t c = 0; c < ARRAY_LENGTH(evict_workloads[i].percent); c++) {
            struct trace trace;
            struct replay_result lru;
            struct replay_result nigh;

            trace_init(&trace, &evict_workloads[i], evict_workloads[i].percent[c], 1);
            replay(&trace, evict_policies[EVICT_BASELINE], 50, 1, &lru);
            replay(&trace, evict_policies[EVICT_PRODUCTION], 50, 1, &nigh);
            trace_fini(&trace);
            assert_true(nigh.objects <= 1.25 * lru.objects);
        }
    }
}

/* What is gone before its one use is lost for good. LRU is not what to beat here: its misses are
 * none, or nearly all. */
static void a_consumer_finds_what_was_put(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < EVICT_STORES; i++) {
        for (uint32_t c = 0; c < ARRAY_LENGTH(evict_stores[i].percent); c++) {
            struct trace trace;
            struct replay_result lru;
            struct replay_result nigh;

            trace_init(&trace, &evict_stores[i], evict_stores[i].percent[c], 1);
            replay(&trace, evict_policies[EVICT_BASELINE], 50, 1, &lru);
            replay(&trace, evict_policies[EVICT_PRODUCTION], 50, 1, &nigh);
            trace_fini(&trace);
            assert_true(nigh.objects <= 1.10 * lru.objects + 0.025);
        }
    }
}

static void few_offers_are_wasted_on_pinned_objects(void **state)
{
    struct trace trace;
    struct replay_result result;

    (void)state;
    trace_init(&trace, find_workload("zipf-0.8"), 20, 1);
    replay(&trace, evict_policies[EVICT_PRODUCTION], 50, 1, &result);
    trace_fini(&trace);
    assert_true(result.offers > 0);
    assert_true(result.kept * 20 < result.offers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storage_is_at_most_23_bytes_an_entry_and_128),
        cmocka_unit_test(init_refuses_what_it_cannot_serve),
        cmocka_unit_test(an_empty_policy_offers_nothing),
        cmocka_unit_test(offers_end_at_the_count_or_at_the_bytes),
        cmocka_unit_test(a_call_passes_over_a_bounded_number_and_names_one),
        cmocka_unit_test(unused_newcomers_go_first_in_first_out),
        cmocka_unit_test(without_any_use_the_latest_stay),
        cmocka_unit_test(a_hint_on_trial_promotes_and_a_hint_to_the_young_does_not),
        cmocka_unit_test(what_is_fetched_again_soon_goes_to_main),
        cmocka_unit_test(history_reaches_back_nine_tenths_of_the_capacity),
        cmocka_unit_test(what_main_gave_up_proves_itself_anew_and_shortens_trial),
        cmocka_unit_test(a_missed_object_lengthens_the_trial_once),
        cmocka_unit_test(a_missed_object_of_main_or_of_long_ago_moves_nothing),
        cmocka_unit_test(misses_move_the_border_by_bounded_steps),
        cmocka_unit_test(a_large_object_gets_the_trial_of_a_small_one),
        cmocka_unit_test(a_refreshed_object_outlives_the_trial),
        cmocka_unit_test(resizing_moves_the_border_with_the_capacity),
        cmocka_unit_test(few_kept_entries_are_offered_again_while_others_are_left),
        cmocka_unit_test(calls_for_one_victim_each_get_past_pinned_ones),
        cmocka_unit_test(with_everything_kept_each_is_offered_once_a_round),
        cmocka_unit_test(a_kept_entry_that_was_used_meanwhile_goes_to_main),
        cmocka_unit_test(an_offered_entry_may_wait_for_its_answer),
        cmocka_unit_test(stale_hints_are_harmless),
        cmocka_unit_test(of_a_forgotten_object_nothing_is_remembered),
        cmocka_unit_test(any_sequence_of_calls_keeps_the_invariants),
        cmocka_unit_test(the_same_calls_give_the_same_answers),
        cmocka_unit_test(the_checker_sees_damage),
        cmocka_unit_test(a_scan_costs_far_fewer_hits_than_with_lru),
        cmocka_unit_test(a_loop_larger_than_memory_hits_where_lru_does_not),
        cmocka_unit_test(bursts_at_creation_do_not_count_as_use),
        cmocka_unit_test(no_trace_is_much_worse_than_with_lru),
        cmocka_unit_test(a_consumer_finds_what_was_put),
        cmocka_unit_test(few_offers_are_wasted_on_pinned_objects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
