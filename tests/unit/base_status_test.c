/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes: each has a name and a sentence of its own, and errno values map to them. */
#include "base/check.h"
#include "base/status.h"
#include "support/support.h"

#include <errno.h>
#include <string.h>

static void names_and_sentences_come_from_the_table(void **state)
{
    (void)state;
    assert_string_equal(nigh_status_name(NIGH_OK), "NIGH_OK");
    assert_string_equal(nigh_status_string(NIGH_OK), "success");
    assert_string_equal(nigh_status_name(NIGH_NOT_FOUND), "NIGH_NOT_FOUND");
    assert_non_null(strstr(nigh_status_string(NIGH_EXISTS), "a service of this name"));
    assert_string_equal(nigh_status_string(NIGH_TIMEOUT), "the deadline passed");
}

static void codes_are_dense_and_distinct(void **state)
{
    (void)state;
    for (int code = NIGH_STATUS_LOWEST; code <= 0; code++) {
        assert_string_not_equal(nigh_status_name((nigh_status)code), "NIGH_UNKNOWN");
        assert_string_not_equal(nigh_status_string((nigh_status)code), "unknown status");
        for (int other = NIGH_STATUS_LOWEST; other < code; other++)
            assert_string_not_equal(nigh_status_string((nigh_status)code),
                                    nigh_status_string((nigh_status)other));
    }
}

static void foreign_codes_are_unknown(void **state)
{
    (void)state;
    static const int foreign[] = {1, NIGH_STATUS_LOWEST - 1, 1 << 30, -(1 << 30)};
    for (size_t i = 0; i < ARRAY_LENGTH(foreign); i++) {
        assert_string_equal(nigh_status_name((nigh_status)foreign[i]), "NIGH_UNKNOWN");
        assert_string_equal(nigh_status_string((nigh_status)foreign[i]), "unknown status");
    }
}

static void errno_values_have_codes(void **state)
{
    (void)state;
    static const struct {
        int error;
        nigh_status status;
    } cases[] = {
        {0, NIGH_OK},
        {EINVAL, NIGH_INVALID},
        {ENAMETOOLONG, NIGH_INVALID},
        {ENOENT, NIGH_NOT_FOUND},
        {EEXIST, NIGH_EXISTS},
        {EACCES, NIGH_DENIED},
        {EPERM, NIGH_DENIED},
        {EAGAIN, NIGH_BUSY},
        {EWOULDBLOCK, NIGH_BUSY},
        {EADDRINUSE, NIGH_BUSY},
        {EMSGSIZE, NIGH_LIMIT},
        {ENOSPC, NIGH_DISK},
        {EIO, NIGH_DISK},
        {ETIMEDOUT, NIGH_TIMEOUT},
        {ECANCELED, NIGH_CANCELED},
        {EPIPE, NIGH_CLOSED},
        {ECONNRESET, NIGH_CLOSED},
        {ECONNREFUSED, NIGH_UNREACHABLE},
        {EPROTO, NIGH_PROTOCOL},
        {ENOSYS, NIGH_UNSUPPORTED},
        {ENOMEM, NIGH_NO_RESOURCES},
        {EMFILE, NIGH_NO_RESOURCES},
        {ENOBUFS, NIGH_NO_RESOURCES},
        {123456, NIGH_NO_RESOURCES},
        {-1, NIGH_NO_RESOURCES},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(status_from_errno(cases[i].error), cases[i].status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sentences_come_from_the_table),
        cmocka_unit_test(codes_are_dense_and_distinct),
        cmocka_unit_test(foreign_codes_are_unknown),
        cmocka_unit_test(errno_values_have_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
