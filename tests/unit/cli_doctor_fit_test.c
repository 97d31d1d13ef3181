/* SPDX-License-Identifier: Apache-2.0 */
/* What nigh doctor says of what a node is told and the machine may not have, or that does not
 * outlive the node: its disks, its keeper, its lives, its sessions; on machines that are folders.
 */
#include "cli/doctor.h"

#include "base/check.h"
#include "support/doctor.h"

#define CONFIG "/etc/nigh/nighd.conf"

/* ---- what there is for it ------------------------------------------------- */

/* The findings of what a process was started with. */
static void look_at_process(const char *words, size_t bytes)
{
    static struct setup setup;
    struct doctor doctor = begun();

    put_bytes("/proc/77/cmdline", words, bytes);
    assert_true(setup_read_process(root, 77, &setup));
    doctor_look_at_fit(&doctor, &setup);
}

static void nodes_without_a_keeper_are_said(void **state)
{
    static const char words[] = "nighd\0--memory\0"
                                "1G";
    static const char held[] = "nighd\0--hold\0--memory\0"
                               "1G";
    static const char bare[] = "HOME=/\0NO_NOTIFY_SOCKET=1";
    static const char told[] = "HOME=/\0NOTIFY_SOCKET=@0001\0TERM=x";
    static const char kept_env[] = "FDSTORE=64\0NOTIFY_SOCKET=@0001\0TERM=x";

    (void)state;
    look_at_process(words, sizeof(words)); /* who may not read that does not know */
    expect_none("keeper");
    put_bytes("/proc/77/environ", bare, sizeof(bare));
    look_at_process(words, sizeof(words));
    expect(DOCTOR_NOTE, "keeper", "nobody keeps", "nighd --hold");
    look_at_process(held, sizeof(held));
    expect(DOCTOR_GOOD, "keeper", "is kept", NULL);
    put_bytes("/proc/77/environ", told, sizeof(told)); /* as of a unit that stores nothing, too */
    look_at_process(words, sizeof(words));
    expect(DOCTOR_GOOD, "keeper", "if it was told to", NULL);
    assert_int_equal(kept_count, 1);
    put_bytes("/proc/77/environ", kept_env, sizeof(kept_env));
    look_at_process(words, sizeof(words));
    expect(DOCTOR_GOOD, "keeper", "is kept", NULL);
    assert_int_equal(kept_count, 1);
}

static void look_at_fit_of(const char *config, bool is_live)
{
    static struct setup setup;
    struct doctor doctor = begun();

    put(CONFIG, config);
    assert_true(setup_read_file(root, CONFIG, &setup));
    setup.is_live = is_live;
    doctor_look_at_fit(&doctor, &setup);
}

static void nodes_that_remember_nothing_are_said(void **state)
{
    static const char bare[] = "nighd\0--join\0a:1,b:1";
    static const char held[] = "nighd\0--hold\0--join\0a:1,b:1";

    (void)state;
    look_at_fit_of("[node]\nmemory = 1G\n", false); /* it is alone */
    assert_int_equal(kept_count, 0);
    look_at_fit_of("[node]\njoin = a:1,b:1\n", false);
    expect_none("lives"); /* whether somebody keeps it is not known */
    expect(DOCTOR_NOTE, "agreement", "no regions and no spaces", "--state DIR");
    look_at_fit_of("[node]\njoin = a:1,b:1\n", true);
    expect_none("agreement"); /* it tells that itself */
    look_at_fit_of("[node]\njoin = a:1,b:1\nspill = /no/such/place\ndirectory = redis://a:1\n",
                   false);
    assert_int_equal(kept_count, 0);
    look_at_fit_of("[node]\njoin = a:1,b:1\nstate = /no/such/place\n", false);
    assert_int_equal(kept_count, 0);
    look_at_process(bare, sizeof(bare)); /* whose surroundings may not be read */
    expect_none("lives");
    put("/proc/77/environ", "HOME=/");
    look_at_process(bare, sizeof(bare));
    expect(DOCTOR_NOTE, "lives", "after --dead-ms only", "--state DIR");
    look_at_process(held, sizeof(held));
    expect_none("lives");
}

static void disks_without_room_are_said(void **state)
{
    struct doctor_disk disk = {.free_bytes = 64 << 20};
    struct doctor doctor = begun();

    (void)state;
    doctor_look_at_disk(&doctor, "a", "/a", &disk, 64 << 20, "it is lost");
    expect(DOCTOR_GOOD, "a", "the disk of /a has 64.0 MiB left", NULL);
    disk.free_bytes--;
    doctor_look_at_disk(&doctor, "b", "/b", &disk, 64 << 20, "it is lost");
    expect(DOCTOR_NOTE, "b", "63.9 MiB left, and 64.0 MiB may be wanted: when it is full, it is",
           "make room");
    disk.free_bytes = 1000;
    doctor_look_at_disk(&doctor, "c", "/c", &disk, 1, "it is lost");
    expect(DOCTOR_BAD, "c", "the disk of /c is full: it is lost", "make room");
    disk = (struct doctor_disk){.free_bytes = UINT64_C(1) << 40, .takes_no_file = true};
    doctor_look_at_disk(&doctor, "d", "/d", &disk, 1, "it is lost");
    expect(DOCTOR_BAD, "d", "takes no more files", "df -i");
}

/* Whatever the disk of this test has: of folders that are to be made it is the one above. */
static void disks_of_all_directories_are_looked_at(void **state)
{
    static const struct {
        const char *config;
        bool is_live, is_wanting;
    } cases[] = {
        {"[node]\nspill = /data/spill\nspill-max = 4096P\n", false, true},
        {"[node]\nspill = /data/spill\n", false, false},
        {"[node]\nlog-dir = /data\nspace-memory = 4096P\n", false, true},
        {"[node]\nlog-dir = /data\nspace-memory = 8192P\n", false, true}, /* twice: too many */
    };

    (void)state;
    put("/data/x", "");
    look_at_fit_of("[node]\nstate = /data/state\nlog-dir = /data/log\nspill = /data/spill\n",
                   false);
    assert_int_equal(kept_count, 3);
    assert_string_equal(kept[0].subject, "state disk");
    assert_string_equal(kept[1].subject, "log disk");
    assert_string_equal(kept[2].subject, "spill disk");
    look_at_fit_of("[node]\nspill = /data/spill\nspill-max = 4096P\n", true);
    assert_int_equal(kept_count, 1);
    assert_string_equal(kept[0].subject, "spill disk");    /* which may be full of other files */
    assert_null(strstr(kept[0].finding, "may be wanted")); /* a node that runs counts that itself */
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        look_at_fit_of(cases[i].config, cases[i].is_live);
        assert_int_equal(kept_count, 1);
        assert_int_equal(strstr(kept[0].finding, "may be wanted") != NULL ||
                             kept[0].severity == DOCTOR_BAD,
                         cases[i].is_wanting || kept[0].severity == DOCTOR_BAD);
    }
}

/* What lies there already is not wanted again. */
static void files_of_a_node_that_stands_still_are_its_room(void **state)
{
    static char bytes[1 << 20];
    static struct setup setup;
    uint64_t none, some;

    (void)state;
    memset(bytes, 1, sizeof(bytes));
    put("/data/in/x", "");
    none = doctor_held_bytes(root, &setup, "/data");
    put_bytes("/data/in/spill", bytes, sizeof(bytes));
    some = doctor_held_bytes(root, &setup, "/data");
    assert_in_range(some - none, sizeof(bytes), 2 * sizeof(bytes));
    setup.is_live = true; /* it counts on what is free */
    assert_int_equal(doctor_held_bytes(root, &setup, "/data"), 0);
    assert_int_equal(doctor_held_bytes(root, &setup, "/none"), 0);
}

static void another_time_namespace_is_said(void **state)
{
    static const char words[] = "nighd\0--memory\0"
                                "1G";

    (void)state;
    put("/proc/self/ns/time", "");
    put("/proc/77/x", "");
    look_at_process(words, sizeof(words));
    expect_none("time");
    put("/proc/77/ns/time", "");
    look_at_process(words, sizeof(words));
    expect(DOCTOR_NOTE, "time", "(process 77) is in another time namespace", "unshare");
}

static void sessions_that_are_nearly_all_used_are_said(void **state)
{
    static struct setup setup;
    nigh_node_stats stats = {.sessions = 7};
    struct doctor doctor = begun();

    (void)state;
    put(CONFIG, "[node]\nmax-sessions = 9\nmax-sessions = 8\n");
    assert_true(setup_read_file(root, CONFIG, &setup));
    doctor_look_at_sessions(&doctor, &setup, &stats);
    stats.sessions = 896;
    doctor_look_at_sessions(&doctor, NULL, &stats);
    assert_int_equal(kept_count, 0);
    stats.sessions = 897;
    doctor_look_at_sessions(&doctor, NULL, &stats);
    expect(DOCTOR_NOTE, "sessions", "897 of 1024 sessions", "nigh who");
    stats.sessions = 8;
    doctor_look_at_sessions(&doctor, &setup, &stats);
    expect(DOCTOR_NOTE, "sessions", "8 of 8 sessions", "--max-sessions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nodes_without_a_keeper_are_said, begin),
        cmocka_unit_test_setup(nodes_that_remember_nothing_are_said, begin),
        cmocka_unit_test_setup(disks_without_room_are_said, begin),
        cmocka_unit_test_setup(disks_of_all_directories_are_looked_at, begin),
        cmocka_unit_test_setup(files_of_a_node_that_stands_still_are_its_room, begin),
        cmocka_unit_test_setup(another_time_namespace_is_said, begin),
        cmocka_unit_test_setup(sessions_that_are_nearly_all_used_are_said, begin),
    };

    return cmocka_run_group_tests_name("cli-doctor-fit", tests, NULL, NULL);
}
