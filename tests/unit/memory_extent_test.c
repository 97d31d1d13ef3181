/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of extents: made whole or not at all, given, retired, and found again by a later node. */
#include "support/support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "memory/admission.h"
#include "memory/extent.h"
#include "memory/memfd.h"

#define MIB    (UINT64_C(1) << 20)
#define EXTENT LIMIT_EXTENT_BYTES_MIN

#define OWNER extent_owner(2, 1000)
#define OTHER extent_owner(2, 1001)

static char why[ADMISSION_SENTENCE_BYTES];

static struct extent_set *set_ok(uint64_t memory, uint32_t lanes)
{
    struct extent_options options = {
        .memory_bytes = memory, .extent_bytes = EXTENT, .lanes = lanes, .huge = EXTENT_HUGE_NEVER};
    struct extent_set *set = NULL;

    if (extent_set_create(&options, &set, why, sizeof(why)) != NIGH_OK)
        fail_msg("%s", why);
    return set;
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

/* Lines of /proc/self/maps that name an extent, and the address space that the process has. */
static int mapped_extents(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        n += strstr(line, "memfd:nigh-extent-") != NULL;
    fclose(maps);
    return n;
}

static uint64_t address_bytes(void)
{
    static struct admission_facts facts;

    assert_int_equal(admission_read("", &facts), NIGH_OK);
    return facts.address_used_bytes;
}

static void test_create_is_whole(void **state)
{
    int before = open_descriptors();
    struct extent_set *set = set_ok(17 * MIB, 2);
    uint32_t present = 0;

    (void)state;
    assert_int_equal(set->memory_bytes, 20 * MIB); /* five extents for each lane */
    assert_int_equal(set->extent_bytes, EXTENT);
    assert_int_equal(UINT64_C(1) << set->extent_shift, EXTENT);
    assert_int_equal((uintptr_t)set->arena % MEMFD_HUGE_BYTES, 0);
    assert_false(set->any_huge);
    assert_false(set->all_huge);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct extent *at = &set->extents[i];
        unsigned char map[EXTENT / 4096];
        struct stat st;
        uint64_t bytes;

        if (!at->present)
            continue;
        present++;
        assert_int_equal(at->lane, i / (LIMIT_EXTENTS / 2));
        assert_true(extent_is_free(set, i));
        assert_int_equal(memfd_size(at->fd, &bytes), NIGH_OK);
        assert_int_equal(bytes, EXTENT);
        assert_int_equal(fstat(at->fd, &st), 0);
        assert_int_equal((uint64_t)st.st_blocks * 512, EXTENT); /* no touch will want a page */
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(fcntl(at->fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        assert_int_equal(fcntl(at->read_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        assert_int_equal(mincore(extent_bytes_at(set, i * EXTENT), EXTENT, map), 0);
        for (size_t page = 0; page < sizeof(map); page++)
            assert_true(map[page] & 1);
        memset(extent_bytes_at(set, i * EXTENT), (int)i, EXTENT);
    }
    assert_int_equal(present, 10);
    assert_int_equal(extent_free_count(set, 0), 5);
    assert_int_equal(extent_free_count(set, 1), 5);
    assert_int_equal(open_descriptors(), before + 20);
    extent_set_destroy(set);
    extent_set_destroy(NULL);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(mapped_extents(), 0);
}

static void test_sizes(void **state)
{
    struct extent_options options = {.memory_bytes = 64 * MIB, .lanes = 1, .huge = 2};
    const uint64_t wrong[] = {3 * MIB, MIB, 2 * LIMIT_EXTENT_BYTES_MAX};
    struct extent_set *set = NULL;

    (void)state;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OK);
    assert_int_equal(set->extent_bytes, LIMIT_EXTENT_BYTES_MIN);
    extent_set_destroy(set);
    set = NULL;
    options.memory_bytes = 600 * MIB;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OK);
    assert_int_equal(set->extent_bytes, 4 * MIB);
    assert_int_equal(set->memory_bytes, 600 * MIB);
    extent_set_destroy(set);
    set = NULL;

    for (size_t i = 0; i < 3; i++) {
        options.extent_bytes = wrong[i];
        assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
        assert_non_null(strstr(why, "choose a power of two"));
    }
    options.extent_bytes = 0;
    options.memory_bytes = LIMIT_MEMORY_BYTES_MIN - 1;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
    options.memory_bytes = 64 * MIB;
    options.lanes = 3;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
    options.lanes = 2 * LIMIT_LANES;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
    options.lanes = 0;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
    options.lanes = 1;
    options.extent_bytes = EXTENT;
    options.memory_bytes = (LIMIT_EXTENTS + 1) * EXTENT;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "choose larger extents"));
    options.memory_bytes = UINT64_MAX;
    options.extent_bytes = LIMIT_EXTENT_BYTES_MAX;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
    options.memory_bytes = 100 * MIB * MIB; /* larger extents there are not */
    options.extent_bytes = 0;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_INVALID);
    assert_non_null(strstr(why, "100.0 TiB of memory are more than a node can have (64.0 TiB)"));
    assert_non_null(strstr(why, "this machine has"));
    assert_null(set);
}

/* A wish beyond what the machine has is refused as it is, before anything is reserved, and never
 * made smaller in silence. */
static void test_more_than_there_is(void **state)
{
    static struct admission_facts facts;
    struct extent_options options = {.lanes = 1, .huge = EXTENT_HUGE_NEVER};
    struct extent_set *set = NULL;
    int before = open_descriptors();
    uint64_t addresses, started_us;

    (void)state;
    assert_int_equal(admission_read("", &facts), NIGH_OK);
    addresses = address_bytes();
    /* More than there is at all: what is available changes while others run. */
    options.memory_bytes = facts.memory_total_bytes + 512 * MIB;
    options.memory_bytes -= options.memory_bytes % (256 * MIB);
    started_us = support_now_us();
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OUT_OF_MEMORY);
    assert_true(support_now_us() - started_us < 10000000);
    assert_non_null(strstr(why, "ask for less memory"));
    assert_null(set);
    assert_int_equal(open_descriptors(), before);
    assert_true(address_bytes() - addresses < 64 * MIB);

    /* What comes besides counts too. */
    options.memory_bytes = 16 * MIB;
    options.besides_bytes = facts.memory_total_bytes;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OUT_OF_MEMORY);
    options.besides_bytes = UINT64_MAX;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OUT_OF_MEMORY);
    assert_null(set);
}

static void test_huge_pages(void **state)
{
    static struct admission_facts facts;
    struct extent_options options = {
        .memory_bytes = 16 * MIB, .extent_bytes = EXTENT, .lanes = 1, .huge = EXTENT_HUGE_REQUIRED};
    struct extent_set *set = NULL;
    nigh_status status;

    (void)state;
    assert_int_equal(admission_read("", &facts), NIGH_OK);
    status = extent_set_create(&options, &set, why, sizeof(why));
    if (admission_huge_free_bytes(&facts) < 16 * MIB) {
        assert_int_equal(status, NIGH_OUT_OF_MEMORY);
        assert_non_null(strstr(why, "vm.nr_hugepages"));
    } else {
        assert_int_equal(status, NIGH_OK);
        assert_true(set->all_huge);
        memset(set->arena, 1, 16 * MIB);
        extent_set_destroy(set);
    }
    options.huge = EXTENT_HUGE_WHERE_GRANTED;
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OK);
    assert_int_equal(set->memory_bytes, 16 * MIB);
    memset(set->arena, 1, 16 * MIB);
    extent_set_destroy(set);
}

static void log_keep(void *context, enum log_level level, const char *line, size_t length)
{
    (void)length;
    if (level == LOG_LEVEL_WARN)
        snprintf(context, LOG_LINE_BYTES, "%s", line);
}

static void test_plain_pages_are_said_aloud(void **state)
{
    static struct admission_facts facts;
    char line[LOG_LINE_BYTES] = "";
    struct log_sink sink = {log_keep, line};
    struct extent_options options = {.memory_bytes = 16 * MIB, .extent_bytes = EXTENT, .lanes = 1};
    struct extent_set *set = NULL;

    (void)state;
    assert_int_equal(admission_read("", &facts), NIGH_OK);
    if (admission_huge_free_bytes(&facts) >= 16 * MIB) {
        SUPPORT_SKIP("the machine has huge pages free");
    }
    log_set_sink(&sink);
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OK);
    log_set_sink(NULL);
    assert_non_null(strstr(line, "huge pages are not granted"));
    assert_non_null(strstr(line, "wanted_pages=8"));
    extent_set_destroy(set);
}

/* ---- limits of the process, in a child that sets them ---- */

/* 0: refused with the sentence, and nothing left. */
static int child_refused(int resource, rlim_t limit, const char *sentence)
{
    struct extent_options options = {
        .memory_bytes = 16 * MIB, .extent_bytes = EXTENT, .lanes = 1, .huge = EXTENT_HUGE_NEVER};
    struct extent_set *set = NULL;
    int before = open_descriptors();

    if (setrlimit(resource, &(struct rlimit){limit, RLIM_INFINITY}) != 0 &&
        setrlimit(resource, &(struct rlimit){limit, limit}) != 0)
        return 1;
    if (extent_set_create(&options, &set, why, sizeof(why)) != NIGH_NO_RESOURCES)
        return 2;
    if (strstr(why, sentence) == NULL)
        return 3;
    return set == NULL && open_descriptors() == before && mapped_extents() == 0 ? 0 : 4;
}

static int child_address_space(void *argument)
{
    (void)argument;
    return child_refused(RLIMIT_AS, 1024 * MIB, "LimitAS");
}

static int child_files(void *argument)
{
    (void)argument;
    return child_refused(RLIMIT_NOFILE, 70, "LimitNOFILE");
}

static int child_file_size(void *argument)
{
    (void)argument;
    return child_refused(RLIMIT_FSIZE, MIB, "LimitFSIZE");
}

/* Descriptors that are used up though the limit looks fine: some extents are made, then undone. */
static int child_partly(void *argument)
{
    int fd = open("/dev/null", O_RDONLY);

    (void)argument;
    while (fd >= 0 && fd < 85)
        fd = dup(fd);
    return fd == 85 ? child_refused(RLIMIT_NOFILE, 100, "the kernel refused memory") : 5;
}

static void test_limits_of_the_process(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    /* A sanitizer's shadow is beyond any limit on address space. */
    (void)child_address_space;
#else
    assert_int_equal(support_join(support_fork(child_address_space, NULL), 20000), 0);
#endif
    assert_int_equal(support_join(support_fork(child_files, NULL), 20000), 0);
    assert_int_equal(support_join(support_fork(child_file_size, NULL), 20000), 0);
    assert_int_equal(support_join(support_fork(child_partly, NULL), 20000), 0);
}

/* ---- giving ---- */

static void test_take(void **state)
{
    struct extent_set *set = set_ok(32 * MIB, 2);
    uint32_t base = extent_lane_first(set, 1), first = 99;

    (void)state;
    assert_int_equal(base, LIMIT_EXTENTS / 2);
    assert_int_equal(extent_take(set, 1, OWNER, 9, &first), NIGH_OUT_OF_MEMORY);
    assert_int_equal(first, 99);
    assert_int_equal(extent_take(set, 1, OWNER, 2, &first), NIGH_OK);
    assert_int_equal(first, base);
    /* A newcomer begins at the other end: what is between stays in one piece. */
    assert_int_equal(extent_take(set, 1, OTHER, 2, &first), NIGH_OK);
    assert_int_equal(first, base + 6);
    assert_int_equal(extent_free_count(set, 1), 4);
    assert_int_equal(extent_free_count(set, 0), 8);
    assert_int_equal(extent_take(set, 1, OTHER, 5, &first), NIGH_OUT_OF_MEMORY);
    extent_take_at(set, 1, OTHER, base + 3, 1);
    assert_int_equal(extent_take(set, 1, OTHER, 2, &first), NIGH_OK);
    assert_int_equal(first, base + 4);
    assert_int_equal(extent_take(set, 1, OWNER, 1, &first), NIGH_OK);
    assert_int_equal(first, base + 2);
    assert_int_equal(extent_free_count(set, 1), 0);
    assert_int_equal(extent_take(set, 1, OWNER, 1, &first), NIGH_OUT_OF_MEMORY);
    assert_int_equal(atomic_load(&set->extents[base + 1].owner), OWNER);
    assert_int_equal(atomic_load(&set->extents[base + 5].owner), OTHER);
    extent_set_destroy(set);
}

struct told {
    struct extent_set *set;
    char text[512];
};

static void tell(void *context, uint32_t extent, uint64_t owner)
{
    struct told *told = context;
    size_t n = strlen(told->text);

    snprintf(told->text + n, sizeof(told->text) - n, "%u:%s%s ", extent,
             told->set->extents[extent].present ? "" : "gone ",
             owner == EXTENT_NO_OWNER                              ? "free"
             : atomic_load(&told->set->extents[extent].owner) == 0 ? "given"
                                                                   : "late");
}

static void test_move(void **state)
{
    struct extent_set *set = set_ok(16 * MIB, 1);
    struct told told = {.set = set};
    uint32_t first;
    struct stat st;
    char *client;
    int kept;

    (void)state;
    set->changed = tell;
    set->changed_context = &told;
    assert_int_equal(extent_take(set, 0, OWNER, 2, &first), NIGH_OK);
    memset(extent_bytes_at(set, 0), 'a', 2 * EXTENT);
    /* A writer that keeps its mapping for ever. */
    kept = dup(set->extents[0].fd);
    assert_int_equal(memfd_map(kept, EXTENT, MEMFD_WRITABLE, (void **)&client), NIGH_OK);

    assert_int_equal(extent_move(set, 0, 8), NIGH_OK);
    assert_string_equal(told.text, "0:given 1:given 0:gone given 8:free ");
    assert_false(set->extents[0].present);
    assert_int_equal(atomic_load(&set->extents[0].owner), EXTENT_NO_OWNER);
    assert_true(extent_is_dormant(set, 0, OWNER));
    assert_true(extent_is_free(set, 8));
    assert_int_equal(extent_free_count(set, 0), 7);
    assert_int_equal(((char *)extent_bytes_at(set, EXTENT))[0], 'a'); /* its neighbour */
    memset(extent_bytes_at(set, 8 * EXTENT), 'b', EXTENT);

    /* The writer has neither its old bytes nor those of whom the memory belongs to now. */
    assert_int_equal(fstat(kept, &st), 0);
    assert_int_equal(st.st_blocks, 0);
    memset(client, 'c', EXTENT);
    assert_int_equal(((char *)extent_bytes_at(set, 8 * EXTENT))[17], 'b');

    /* Memory that comes back is the owner's at once, and what the writer has mapped. */
    told.text[0] = '\0';
    assert_int_equal(extent_move(set, 8, 0), NIGH_OK);
    assert_string_equal(told.text, "8:gone free 0:given ");
    assert_int_equal(atomic_load(&set->extents[0].owner), OWNER);
    assert_true(extent_is_unused(set, 8));
    assert_int_equal(set->lane[0].dormant, 0);
    assert_int_equal(extent_free_count(set, 0), 6);
    ((char *)extent_bytes_at(set, 0))[99] = 'd';
    assert_int_equal(client[99], 'd');
    memfd_unmap(client, EXTENT);
    close(kept);
    extent_set_destroy(set);
}

/* What nobody had goes as it is, and its number is anybody's again. */
static void test_free_memory_moves(void **state)
{
    struct extent_set *set = set_ok(16 * MIB, 1);
    int count = open_descriptors(), maps = mapped_extents(), fd = set->extents[3].fd;
    struct told told = {.set = set};

    (void)state;
    set->changed = tell;
    set->changed_context = &told;
    strcpy(extent_bytes_at(set, 3 * EXTENT + 5), "nobody's");
    assert_int_equal(extent_move(set, 3, 8), NIGH_OK);
    assert_string_equal(told.text, "3:gone free 8:free ");
    assert_string_equal(extent_bytes_at(set, 8 * EXTENT + 5), "nobody's");
    assert_int_equal(set->extents[8].fd, fd);
    assert_int_equal(extent_unused(set, 0), 3);
    assert_int_equal(set->lane[0].longest_run, 5);
    assert_int_equal(extent_move(set, 8, 3), NIGH_OK);
    assert_int_equal(set->lane[0].longest_run, 8);
    assert_int_equal(open_descriptors(), count);
    assert_int_equal(mapped_extents(), maps);
    extent_set_destroy(set);
    assert_int_equal(mapped_extents(), 0);
}

/* A pool without sessions: nobody can have its numbers mapped, and descriptors go. */
static void test_forget(void **state)
{
    int count = open_descriptors();
    struct extent_set *set = set_ok(128 * MIB, 64);
    struct told told = {.set = set};
    uint32_t first = extent_lane_first(set, 63);

    (void)state;
    set->changed_context = &told;
    for (uint32_t i = 0; i < 62; i++) {
        assert_int_equal(extent_unused(set, 63), first + i + 1);
        extent_take_at(set, 63, i % 2 ? OWNER : extent_owner(3, 1000), first + i, 1);
        assert_int_equal(extent_move(set, first + i, first + i + 1), NIGH_OK);
    }
    extent_take_at(set, 63, OWNER, first + 62, 1);
    assert_int_equal(extent_move(set, first + 62, first + 63), NIGH_OK);
    assert_int_equal(extent_unused(set, 63), LIMIT_EXTENTS);
    set->changed = tell;
    extent_forget(set, 62, 3);
    extent_forget(set, 63, 4);
    assert_int_equal(extent_unused(set, 63), LIMIT_EXTENTS);
    extent_forget(set, 63, 3);
    assert_int_equal(strncmp(told.text, "4032:gone free 4034:gone free ", 30), 0);
    assert_int_equal(extent_unused(set, 63), first);
    assert_true(extent_is_dormant(set, first + 1, OWNER));
    assert_int_equal(set->lane[63].dormant, 32);
    assert_int_equal(open_descriptors(), count + 2 * (64 + 32));
    extent_set_destroy(set);
    assert_int_equal(open_descriptors(), count);
}

/* No descriptor for fresh memory: the extent is as it was, though its bytes are gone. */
static void test_move_that_fails(void **state)
{
    struct extent_set *set = set_ok(16 * MIB, 1);
    struct rlimit before, none;
    uint32_t first;
    struct stat st;
    int small, saved;

    (void)state;
    assert_int_equal(extent_take(set, 0, OWNER, 1, &first), NIGH_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(extent_move(set, first, 8), NIGH_NO_RESOURCES);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(extent_is_unused(set, 8));
    assert_false(set->extents[first].lost);
    assert_int_equal(atomic_load(&set->extents[first].owner), OWNER);
    assert_int_equal(extent_free_count(set, 0), 7);
    assert_int_equal(fstat(set->extents[first].fd, &st), 0);
    assert_int_equal((uint64_t)st.st_blocks * 512, EXTENT); /* and populated */
    memset(extent_bytes_at(set, first * EXTENT), 1, EXTENT);

    /* Its own pages cannot be had again either: a smaller memfd stands for a full machine. */
    assert_int_equal(memfd_create_sealed("small", 4096, 0, &small), NIGH_OK);
    saved = dup(set->extents[first].fd);
    assert_int_equal(dup2(small, set->extents[first].fd), set->extents[first].fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(extent_move(set, first, 8), NIGH_NO_RESOURCES);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(set->extents[first].lost);
    assert_true(set->extents[first].present);
    assert_int_equal(atomic_load(&set->extents[first].owner), OWNER);
    close(saved);
    close(small);
    extent_set_destroy(set);
}

/* ---- who watches a lane's memory ---- */

struct watched {
    struct extent_set *set;
    char text[160];
    uint32_t refuse; /* the next so many that are made */
};

/* What is to go is there, byte for byte; what was made is there and nobody's. */
static nigh_status on_made(void *context, uint32_t extent)
{
    struct watched *watched = context;
    size_t length = strlen(watched->text);
    bool refuses = watched->refuse > 0;

    memset(extent_bytes_at(watched->set, extent * EXTENT), 'm', EXTENT);
    snprintf(watched->text + length, sizeof(watched->text) - length, "%u:%s ", extent,
             !atomic_load(&watched->set->extents[extent].owner) && !refuses ? "made" : "refused");
    watched->refuse -= refuses ? 1 : 0;
    return refuses ? NIGH_NO_RESOURCES : NIGH_OK;
}

static void on_goes(void *context, uint32_t extent)
{
    struct watched *watched = context;
    size_t length = strlen(watched->text);
    const char *bytes = extent_bytes_at(watched->set, extent * EXTENT);

    snprintf(watched->text + length, sizeof(watched->text) - length, "%u:goes with %c ", extent,
             bytes[EXTENT - 1]);
}

static void test_memory_is_watched(void **state)
{
    struct extent_set *set = set_ok(32 * MIB, 2);
    struct watched watched = {.set = set};
    struct extent_watch watch = {.context = &watched, .made = on_made, .goes = on_goes};
    uint32_t base = extent_lane_first(set, 1), first;

    (void)state;
    set->lane[1].watch = &watch;
    assert_int_equal(extent_take(set, 0, OWNER, 1, &first), NIGH_OK);
    assert_int_equal(extent_move(set, first, 8), NIGH_OK);
    assert_string_equal(watched.text, ""); /* another lane's */
    assert_int_equal(extent_take(set, 1, OWNER, 1, &first), NIGH_OK);
    memset(extent_bytes_at(set, first * EXTENT), 'o', EXTENT);
    assert_int_equal(extent_move(set, first, base + 8), NIGH_OK);
    assert_int_equal(first, base);
    assert_string_equal(watched.text, "2048:goes with o 2056:made ");

    /* What the watch does not take is not there; the old memory is, which it takes back. */
    watched.text[0] = '\0';
    watched.refuse = 1;
    assert_int_equal(extent_take(set, 1, OWNER, 1, &first), NIGH_OK);
    memset(extent_bytes_at(set, first * EXTENT), 'p', EXTENT);
    assert_int_equal(extent_move(set, first, base + 9), NIGH_NO_RESOURCES);
    assert_string_equal(watched.text, "2049:goes with p 2057:refused 2049:made ");
    assert_false(set->extents[first].lost);
    assert_false(set->extents[base + 9].present);
    assert_int_equal(set->lane[1].used, 9);
    assert_int_equal(atomic_load(&set->extents[first].owner), OWNER);

    /* It does not take that either: nobody uses it. */
    watched.refuse = 2;
    assert_int_equal(extent_move(set, first, base + 9), NIGH_NO_RESOURCES);
    assert_true(set->extents[first].lost);
    assert_int_equal(atomic_load(&set->extents[first].owner), OWNER);

    /* Nor what nobody has: it comes as it went, or is nobody's for good. */
    watched.text[0] = '\0';
    watched.refuse = 1;
    memset(extent_bytes_at(set, (base + 3) * EXTENT), 'q', EXTENT);
    assert_int_equal(extent_move(set, base + 3, base + 9), NIGH_NO_RESOURCES);
    assert_string_equal(watched.text, "2051:goes with q 2057:refused 2051:made ");
    assert_true(extent_is_free(set, base + 3));
    watched.refuse = 2;
    assert_int_equal(extent_move(set, base + 3, base + 9), NIGH_NO_RESOURCES);
    assert_true(set->extents[base + 3].lost);
    assert_false(extent_is_free(set, base + 3));
    assert_true(extent_is_unused(set, base + 9));
    extent_set_destroy(set);
}

/* ---- a later node ---- */

static void test_adopt(void **state)
{
    struct extent_set *set = set_ok(16 * MIB, 2), *later = NULL;
    uint32_t numbers[8], lanes[8], first, number;
    uint64_t owners[8];
    int fds[8], count, wrong, dormant;
    size_t n = 0;

    (void)state;
    assert_int_equal(extent_take(set, 1, OWNER, 2, &first), NIGH_OK);
    assert_int_equal(extent_move(set, first, first + 4), NIGH_OK);
    strcpy(extent_bytes_at(set, (first + 1) * EXTENT + 100), "left behind");
    for (uint32_t i = 0; i < set->count; i++) {
        if (!set->extents[i].present)
            continue;
        numbers[n] = i;
        fds[n] = dup(set->extents[i].fd);
        owners[n] = atomic_load(&set->extents[i].owner);
        lanes[n++] = set->extents[i].lane;
    }
    assert_int_equal(n, 8);
    dormant = dup(set->extents[first].fd);
    extent_set_destroy(set);
    count = open_descriptors();

    /* What does not fit is refused, and the descriptors stay the caller's. */
    number = numbers[3];
    numbers[3] = numbers[2];
    assert_int_equal(
        extent_set_adopt(EXTENT, 2, numbers, fds, owners, lanes, n, &later, why, sizeof(why)),
        NIGH_INVALID);
    numbers[3] = LIMIT_EXTENTS;
    assert_int_equal(
        extent_set_adopt(EXTENT, 2, numbers, fds, owners, lanes, n, &later, why, sizeof(why)),
        NIGH_INVALID);
    numbers[3] = number;
    assert_int_equal(
        extent_set_adopt(EXTENT, 1, numbers, fds, owners, lanes, n, &later, why, sizeof(why)),
        NIGH_INVALID);
    assert_int_equal(
        extent_set_adopt(2 * EXTENT, 2, numbers, fds, owners, lanes, n, &later, why, sizeof(why)),
        NIGH_PROTOCOL);
    wrong = fds[5];
    fds[5] = -1;
    assert_int_equal(
        extent_set_adopt(EXTENT, 2, numbers, fds, owners, lanes, n, &later, why, sizeof(why)),
        NIGH_PROTOCOL);
    fds[5] = wrong;
    assert_int_equal(
        extent_set_adopt(EXTENT, 2, numbers, fds, owners, lanes, 0, &later, why, sizeof(why)),
        NIGH_INVALID);
    assert_null(later);
    assert_int_equal(open_descriptors(), count);

    assert_int_equal(
        extent_set_adopt(EXTENT, 2, numbers, fds, owners, lanes, n, &later, why, sizeof(why)),
        NIGH_OK);
    assert_int_equal(later->memory_bytes, 16 * MIB);
    assert_string_equal(extent_bytes_at(later, (first + 1) * EXTENT + 100), "left behind");
    assert_int_equal(atomic_load(&later->extents[first + 1].owner), OWNER);
    assert_false(later->extents[first].present);
    assert_int_equal(extent_free_count(later, 0), 4);
    assert_int_equal(extent_free_count(later, 1), 3);
    /* The number that nobody told of does not come again; what is told of others counts. */
    assert_int_equal(extent_unused(later, 0), 4);
    assert_int_equal(extent_unused(later, 1), first + 5);
    assert_int_equal(
        extent_set_adopt_absent(later, first + 1, EXTENT_DORMANT, OWNER, later->extents[0].fd),
        NIGH_INVALID);
    assert_int_equal(extent_set_adopt_absent(later, first, EXTENT_UNKNOWN, 0, -1), NIGH_INVALID);
    assert_int_equal(extent_set_adopt_absent(later, first, EXTENT_DORMANT, 0, -1), NIGH_INVALID);
    assert_int_equal(extent_set_adopt_absent(later, first, EXTENT_UNUSED, OWNER, -1), NIGH_INVALID);
    assert_int_equal(extent_set_adopt_absent(later, first, EXTENT_DORMANT, OWNER, -1),
                     NIGH_PROTOCOL);
    assert_int_equal(extent_set_adopt_absent(later, first + 6, EXTENT_UNUSED, 0, -1), NIGH_OK);
    assert_int_equal(extent_unused(later, 1), first + 5);
    assert_int_equal(later->lane[1].used, 7);
    assert_int_equal(extent_set_adopt_absent(later, first, EXTENT_DORMANT, OWNER, dormant),
                     NIGH_OK);
    assert_int_equal(extent_move(later, first + 4, first), NIGH_OK);
    assert_int_equal(atomic_load(&later->extents[first].owner), OWNER);
    ((char *)extent_bytes_at(later, first * EXTENT))[7] = 'x';
    assert_int_equal(pread(later->extents[first].read_fd, why, 1, 7), 1);
    assert_int_equal(why[0], 'x');
    extent_set_destroy(later);
    assert_int_equal(open_descriptors(), count - 9);
}

/* A node that was killed while memory came back to its dormant number, or whose client wrote there,
 * leaves more pages than it may have. */
static void test_what_is_absent_is_emptied(void **state)
{
    struct extent_set *set = set_ok(16 * MIB, 1);
    int fds[3], present[1];
    uint32_t first;
    struct stat st;

    (void)state;
    assert_int_equal(extent_take(set, 0, OWNER, 1, &first), NIGH_OK);
    assert_int_equal(extent_move(set, first, 8), NIGH_OK);
    fds[0] = dup(set->extents[8].fd); /* present, under another name too */
    fds[1] = open("/dev/null", O_RDWR);
    fds[2] = set->extents[first].fd;
    present[0] = set->extents[8].fd;
    assert_int_equal(memfd_populate(fds[2], EXTENT), NIGH_OK);
    assert_int_equal(extent_empty_absent(fds, 3, present, 1), NIGH_OK);
    assert_int_equal(fstat(fds[2], &st), 0);
    assert_int_equal(st.st_blocks, 0);
    assert_int_equal(fstat(fds[0], &st), 0);
    assert_int_equal((uint64_t)st.st_blocks * 512, EXTENT);
    close(fds[0]);
    close(fds[1]);
    extent_set_destroy(set);
}

/* Mappings of extents whose file was told to prefer node 0. */
static int preferring_extents(void)
{
    FILE *maps = fopen("/proc/self/numa_maps", "r");
    char line[1024];
    int n = 0;

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        n += strstr(line, "memfd:nigh-extent-") != NULL && strstr(line, "prefer:0") != NULL;
    if (maps != NULL)
        fclose(maps);
    return n;
}

/* Each lane's memory from its NUMA node: where it is known, where the system has it, and what comes
 * in the place of what is retired, too. This machine may have one only. */
static void test_memory_is_near_its_lane(void **state)
{
    const int nodes[] = {0, NUMA_NONE}, far[] = {NUMA_NODES - 1, NUMA_NODES - 1};
    struct extent_options options = {.memory_bytes = 16 * MIB,
                                     .extent_bytes = EXTENT,
                                     .lanes = 2,
                                     .huge = EXTENT_HUGE_NEVER,
                                     .numa_nodes = nodes};
    struct extent_set *set;
    uint32_t first;

    (void)state;
    if (access("/proc/self/numa_maps", R_OK) != 0)
        SUPPORT_SKIP("a kernel that knows no NUMA nodes");
    set = set_ok(16 * MIB, 2);
    assert_int_equal(preferring_extents(), 0);
    assert_int_equal(extent_set_far_bytes(set), 0);
    extent_set_near(set, far);
    assert_int_equal(extent_set_far_bytes(set), 16 * MIB);
    extent_set_destroy(set);

    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OK);
    assert_int_equal(preferring_extents(), 4);
    assert_int_equal(extent_set_far_bytes(set), 0);
    assert_int_equal(extent_take(set, 0, OWNER, 1, &first), NIGH_OK);
    assert_int_equal(extent_move(set, first, 4), NIGH_OK);
    assert_int_equal(preferring_extents(), 4);
    assert_int_equal(extent_set_far_bytes(set), 0);
    extent_set_destroy(set);

    options.numa_nodes = far; /* there is none: it comes from anywhere, and that is known */
    assert_int_equal(extent_set_create(&options, &set, why, sizeof(why)), NIGH_OK);
    assert_true(set->told_refusal);
    assert_int_equal(extent_set_far_bytes(set), 16 * MIB);
    extent_set_destroy(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_is_whole),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_more_than_there_is),
        cmocka_unit_test(test_huge_pages),
        cmocka_unit_test(test_plain_pages_are_said_aloud),
        cmocka_unit_test(test_limits_of_the_process),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_free_memory_moves),
        cmocka_unit_test(test_forget),
        cmocka_unit_test(test_move_that_fails),
        cmocka_unit_test(test_memory_is_watched),
        cmocka_unit_test(test_adopt),
        cmocka_unit_test(test_what_is_absent_is_emptied),
        cmocka_unit_test(test_memory_is_near_its_lane),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
