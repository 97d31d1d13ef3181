/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every conformance test over the provider that this program is linked with, once in each of
 * its variants. $NIGH_TEST=pattern runs only the tests whose names, such as
 * "test_a_write_lands (seed 2)", match.
 */
#include "conformance/world.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define VARIANTS_MAX 16u
#define TESTS_MAX    2048u
#define NAME_BYTES   128u

static uint32_t variant_numbers[VARIANTS_MAX];
static struct CMUnitTest tests[TESTS_MAX];
static char names[TESTS_MAX][NAME_BYTES];
static size_t test_count;

static void add_test(const struct CMUnitTest *test, uint32_t variant, const char *pattern)
{
    NIGH_ASSERT(test_count < TESTS_MAX);
    (void)snprintf(names[test_count], NAME_BYTES, "%s (%s)", test->name,
                   world_provider.variant_names[variant]);
    if (pattern != NULL && fnmatch(pattern, names[test_count], 0) != 0)
        return;
    tests[test_count] = *test;
    tests[test_count].name = names[test_count];
    tests[test_count].initial_state = &variant_numbers[variant];
    test_count++;
}

static void add_tests(const struct world_tests *list, uint32_t variant)
{
    for (size_t i = 0; i < list->count; i++)
        add_test(&list->tests[i], variant, getenv("NIGH_TEST"));
}

static void add_variant(uint32_t variant)
{
    static const struct world_tests *const lists[] = {
        &connect_tests, &message_tests,  &onesided_tests, &atomic_tests,
        &post_tests,    &refusal_tests,  &failure_tests,  &destroy_tests,
        &stock_tests,   &progress_tests, &words_tests,    &loop_tests,
    };

    variant_numbers[variant] = variant;
    for (size_t list = 0; list < ARRAY_LENGTH(lists); list++)
        add_tests(lists[list], variant);
    if (world_provider.sleeps)
        add_tests(&sleep_tests, variant);
    if (world_provider.threads) {
        add_tests(&thread_tests, variant);
        add_tests(&words_thread_tests, variant);
    }
    if (world_provider.cut != NULL)
        add_tests(&cut_tests, variant);
}

int main(void)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* what is known is said, should we be killed */
    NIGH_ASSERT(world_provider.variants <= VARIANTS_MAX);
    if (world_provider.missing != NULL && world_provider.missing() != NULL) {
        (void)printf("1..0 # SKIP %s\n", world_provider.missing());
        return 0;
    }
    for (uint32_t variant = 0; variant < world_provider.variants; variant++)
        add_variant(variant);
    if (test_count == 0) {
        (void)fprintf(stderr, "not ok: no test matches NIGH_TEST: %s\n", getenv("NIGH_TEST"));
        return 1;
    }
    return _cmocka_run_group_tests("conformance", tests, test_count, NULL, NULL);
}
