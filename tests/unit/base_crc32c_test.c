/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C against published values, and its parts against the whole. */
#include "base/check.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_value_is_right(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
    assert_int_equal(crc32c(0, NULL, 0), 0);
}

/* RFC 3720, appendix B.4. */
static void values_of_the_rfc_are_right(void **state)
{
    (void)state;
    uint8_t bytes[32];
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
}

/* Bit by bit, from the polynomial: independent of ISA-L and of its choice of instructions. */
static uint32_t slow_crc32c(const uint8_t *bytes, size_t size_bytes)
{
    uint32_t reg = UINT32_MAX;
    for (size_t i = 0; i < size_bytes; i++) {
        reg ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            reg = reg >> 1 ^ (reg & 1 ? 0x82f63b78 : 0);
    }
    return ~reg;
}

static void parts_make_the_whole_at_any_length_and_alignment(void **state)
{
    (void)state;
    static uint8_t bytes[5000];
    struct random random;
    random_init(&random, support_seed());
    random_fill(&random, bytes, sizeof(bytes));
    for (int round = 0; round < 300; round++) {
        size_t start = random_below(&random, 64);
        size_t size = random_below(&random, sizeof(bytes) - start + 1);
        size_t first = random_below(&random, size + 1);
        uint32_t expected = slow_crc32c(bytes + start, size);
        assert_int_equal(crc32c(0, bytes + start, size), expected);
        uint32_t part = crc32c(0, bytes + start, first);
        assert_int_equal(crc32c(part, bytes + start + first, size - first), expected);
    }
}

/*
 * More bytes than 32 bits count: one file of 16 MiB mapped 256 times in a row, and a page behind
 * them. The whole must be what its parts make.
 */
static void more_than_four_gigabytes_are_summed(void **state)
{
    (void)state;
    enum {
        COPY = 16 << 20,
        COPIES = 256,
        PAGE = 4096
    };
    const size_t size = (size_t)COPY * COPIES + PAGE;
    int fd = memfd_create("copies", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, COPY), 0);
    assert_int_equal(pwrite(fd, "start", 5, 0), 5);
    assert_int_equal(pwrite(fd, "end", 3, COPY - 3), 3);
    uint8_t *bytes =
        mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(bytes != MAP_FAILED);
    uint32_t expected = 0;
    for (size_t at = 0; at < size; at += COPY) {
        size_t part = min_size(COPY, size - at);
        assert_true(mmap(bytes + at, part, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == bytes + at);
        expected = crc32c(expected, bytes + at, part);
    }
    uint32_t whole = crc32c(0, bytes, size);
    munmap(bytes, size);
    close(fd);
    assert_int_equal(whole, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_value_is_right),
        cmocka_unit_test(values_of_the_rfc_are_right),
        cmocka_unit_test(parts_make_the_whole_at_any_length_and_alignment),
        cmocka_unit_test(more_than_four_gigabytes_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
