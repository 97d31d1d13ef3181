/* SPDX-License-Identifier: Apache-2.0 */
/* What nigh doctor says of where the library and the package for Python are installed, on machines
 * that are folders. */
#include "cli/doctor.h"

#include <stdlib.h>

#include "support/doctor.h"

#define MAPS(path)                                                     \
    "7f0000000000-7f0000001000 r-xp 00000000 08:01 1  /usr/bin/nigh\n" \
    "7f0000002000-7f0000003000 r-xp 00000000 08:01 2  " path "\n"

static void look_at_install(void)
{
    struct doctor doctor = begun();

    doctor_look_at_install(&doctor);
}

static int begin_bare(void **state)
{
    assert_int_equal(unsetenv("LD_LIBRARY_PATH") | unsetenv("PYTHONPATH"), 0);
    return begin(state);
}

static void a_library_that_programs_do_not_find_is_said(void **state)
{
    static const char none[] = "libc.so.6\0/lib/libc.so.6";
    static const char listed[] = "libc.so.6\0/lib/libc.so.6\0libnigh.so.0\0"
                                 "/opt/nigh/lib/libnigh.so.0\0libz.so.1";

    (void)state;
    put("/proc/self/maps", "7f0000000000-7f0000001000 r-xp 00000000 08:01 1  /usr/bin/nigh\n");
    look_at_install(); /* a static one */
    assert_int_equal(kept_count, 0);
    put("/proc/self/maps", MAPS("/opt/nigh/lib/libnigh.so.0.1.0"));
    look_at_install();
    expect(DOCTOR_NOTE, "loader", "does not look for libnigh in /opt/nigh/lib", "ldconfig");
    put_bytes("/etc/ld.so.cache", none, sizeof(none));
    look_at_install();
    expect(DOCTOR_NOTE, "loader", "does not look", "LD_LIBRARY_PATH");
    assert_int_equal(setenv("LD_LIBRARY_PATH", "/opt/nigh:/opt/nigh/lib/x::/opt/nigh/lib", 1), 0);
    look_at_install();
    expect(DOCTOR_GOOD, "loader", "has /opt/nigh/lib", NULL);
    assert_int_equal(unsetenv("LD_LIBRARY_PATH"), 0);
    put("/opt/nigh/lib/libnigh.so.0.1.0", "");
    put("/opt/nigh/lib/libnigh.so.0", ""); /* not that one: another, older one */
    put_bytes("/etc/ld.so.cache", listed, sizeof(listed));
    look_at_install();
    expect(DOCTOR_NOTE, "loader", "/opt/nigh/lib/libnigh.so.0, which is not what this has",
           "remove one");
    put("/proc/self/maps", MAPS("/opt/nigh/lib/libnigh.so.0"));
    look_at_install();
    expect(DOCTOR_GOOD, "loader", "programs find /opt/nigh/lib/libnigh.so.0", NULL);
    put("/proc/self/maps", MAPS("/usr/lib/libnigh.so.0.1.0"));
    put_bytes("/etc/ld.so.cache", none, sizeof(none));
    look_at_install();
    expect(DOCTOR_GOOD, "loader", "programs find /usr/lib/libnigh", NULL);
    assert_int_equal(kept_count, 1);
}

static void folders_are_the_same_by_any_name(void **state)
{
    (void)state;
    put("/proc/self/maps", MAPS("/opt/nigh/lib/libnigh.so.0.1.0"));
    put("/opt/nigh/lib/libnigh.so.0.1.0", "");
    assert_int_equal(setenv("LD_LIBRARY_PATH", "/opt:/opt/nigh/bin/../lib/", 1), 0);
    put("/opt/nigh/bin/x", "");
    look_at_install();
    expect(DOCTOR_GOOD, "loader", "has /opt/nigh/lib", NULL);
    assert_int_equal(unsetenv("LD_LIBRARY_PATH"), 0);
}

/* Without a list, as in a small container: the loader's own are the C library's, too. */
static void the_folder_of_the_c_library_is_looked_at(void **state)
{
    (void)state;
    put("/proc/self/maps", MAPS("/usr/lib/x86_64-linux-gnu/libnigh.so.0.1.0"));
    look_at_install();
    expect(DOCTOR_NOTE, "loader", "does not look", "ldconfig");
    put("/proc/self/maps", MAPS("/usr/lib/x86_64-linux-gnu/libnigh.so.0.1.0")
                               MAPS("/usr/lib/x86_64-linux-gnu/libc.so.6"));
    look_at_install();
    expect(DOCTOR_GOOD, "loader", "programs find /usr/lib/x86_64", NULL);
}

static void all_of_the_list_are_looked_at(void **state)
{
    static const char listed[] = "libnigh.so.1\0/opt/new/libnigh.so.1\0libnigh.so.0\0"
                                 "/opt/nigh/lib/libnigh.so.0";

    (void)state;
    put("/proc/self/maps", MAPS("/opt/nigh/lib/libnigh.so.0"));
    put("/opt/nigh/lib/libnigh.so.0", "");
    put("/opt/new/libnigh.so.1", "");
    put_bytes("/etc/ld.so.cache", listed, sizeof(listed));
    look_at_install();
    expect(DOCTOR_GOOD, "loader", "programs find /opt/nigh/lib/libnigh.so.0", NULL);
}

static void a_package_that_python_does_not_find_is_said(void **state)
{
    (void)state;
    put("/proc/self/maps", MAPS("/opt/nigh/lib/x86_64-linux-gnu/libnigh.so.0.1.0"));
    put("/opt/nigh/lib/x86_64-linux-gnu/libnigh.so.0.1.0", "");
    put("/opt/nigh/lib/python3.11/dist-packages/nigh/__init__.py", "");
    look_at_install();
    expect_none("python"); /* there is none */
    put("/usr/bin/python3", "");
    look_at_install();
    expect(DOCTOR_NOTE, "python", "python3.11/dist-packages/nigh, where", "PYTHONPATH");
    assert_int_equal(setenv("PYTHONPATH", "/opt:/opt/nigh/lib/python3.11/dist-packages", 1), 0);
    look_at_install();
    expect(DOCTOR_GOOD, "python", "the package is /opt/nigh/lib/python3.11/dist-packages/nigh",
           NULL);
    assert_int_equal(unsetenv("PYTHONPATH"), 0);
    put("/usr/local/lib/python3.11/dist-packages/nigh/__init__.py", "");
    look_at_install();
    expect(DOCTOR_GOOD, "python", "the package is /usr/local/lib/python3.11", NULL);
    put("/proc/self/maps", MAPS("/usr/lib/libnigh.so.0.1.0"));
    put("/usr/lib/python3/dist-packages/nigh/__init__.py", "");
    look_at_install();
    expect(DOCTOR_GOOD, "python", "the package is /usr/lib/python3/dist-packages/nigh", NULL);
}

static void no_package_for_python_is_no_trouble(void **state)
{
    (void)state;
    put("/proc/self/maps", MAPS("/usr/lib/libnigh.so.0.1.0"));
    put("/usr/bin/python3", "");
    look_at_install();
    expect(DOCTOR_GOOD, "python", "no package nigh", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_library_that_programs_do_not_find_is_said, begin_bare),
        cmocka_unit_test_setup(folders_are_the_same_by_any_name, begin_bare),
        cmocka_unit_test_setup(the_folder_of_the_c_library_is_looked_at, begin_bare),
        cmocka_unit_test_setup(all_of_the_list_are_looked_at, begin_bare),
        cmocka_unit_test_setup(a_package_that_python_does_not_find_is_said, begin_bare),
        cmocka_unit_test_setup(no_package_for_python_is_no_trouble, begin_bare),
    };

    return cmocka_run_group_tests_name("cli-doctor-install", tests, NULL, NULL);
}
