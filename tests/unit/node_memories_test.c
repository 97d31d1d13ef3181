/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of regions, and what it asks the system for, which is this test: it grants what it is told
 * to grant. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/admission.h"
#include "memory/memfd.h"
#include "node/region_memories.h"
#include "support/support.h"

#define STEP    LIMIT_BULK_STEP
#define SIZE    (4 * STEP)
#define MOST    (UINT64_C(1) << 40)
#define WAIT_MS 20000

/* The thread's questions: how many, what they were for, and when it does not get any more. */
static struct {
    _Atomic uint64_t has;
    _Atomic uint32_t count;
    _Atomic uint64_t bytes, owed; /* of the last one, */
    _Atomic uint64_t most_owed;   /* and of any */
    void (*meanwhile)(uint32_t n);
} asked;

/* In place of that of the library, which asks the system. */
nigh_status admission_ask(uint64_t bytes, uint64_t owed)
{
    uint32_t n = atomic_fetch_add(&asked.count, 1);
    bool has = owed <= atomic_load(&asked.has) && bytes <= atomic_load(&asked.has) - owed;

    atomic_store(&asked.bytes, bytes);
    atomic_store(&asked.owed, owed);
    if (owed > atomic_load(&asked.most_owed))
        atomic_store(&asked.most_owed, owed);
    if (asked.meanwhile != NULL)
        asked.meanwhile(n);
    return has ? NIGH_OK : NIGH_OUT_OF_MEMORY;
}

static struct region_memories *memories;

static void nobody(void *context)
{
    (void)context;
}

static void begin(uint64_t has)
{
    atomic_store(&asked.has, has);
    atomic_store(&asked.count, 0);
    atomic_store(&asked.most_owed, 0);
    asked.meanwhile = NULL;
    assert_int_equal(region_memories_create(MOST, nobody, NULL, &memories), NIGH_OK);
}

static void end(void)
{
    region_memories_destroy(memories);
}

static int a_file(uint64_t bytes, bool is_there)
{
    int fd;

    assert_int_equal(memfd_create_sealed("gift", bytes, is_there ? 0 : MEMFD_BARE, &fd), NIGH_OK);
    return fd;
}

static void give(int fd, uint8_t *address)
{
    struct region_gift gift = {.bytes = SIZE, .fd = fd, .address = address};
    struct region_memory *memory;

    assert_int_equal(region_memories_offer(memories, &gift, &memory), NIGH_OK);
    region_memories_begin(memories, memory, NULL, 0);
}

static nigh_status ended(void)
{
    struct region_memory *memory;
    nigh_status status;

    assert_true(SUPPORT_WAIT((memory = region_memories_take(memories)) != NULL, WAIT_MS));
    status = memory->status;
    region_memories_unmake(memories, memory);
    assert_true(SUPPORT_WAIT(region_memories_bytes(memories) == 0, WAIT_MS));
    return status;
}

/* What is not there has to be had. */
static void memory_of_this_process_is_asked_for(void **state)
{
    void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    unsigned char is_there;

    (void)state;
    assert_ptr_not_equal(at, MAP_FAILED);
    begin(STEP - 1);
    give(-1, at);
    assert_int_equal(ended(), NIGH_OUT_OF_MEMORY);
    assert_int_equal(atomic_load(&asked.bytes), STEP);
    assert_int_equal(mincore(at, 1, &is_there), 0);
    assert_false(is_there & 1);
    atomic_store(&asked.has, SIZE);
    give(-1, at);
    assert_int_equal(ended(), NIGH_OK);
    end();
    assert_int_equal(munmap(at, SIZE), 0);
}

static int torn;
static _Atomic bool is_torn;

/* The first question is for the whole file, which is there. */
static void tear(uint32_t n)
{
    if (n == 0)
        atomic_store(&is_torn, memfd_punch(torn, SIZE) == NIGH_OK);
}

/* It was there when it was asked for, and is not any more: that is had like anything else. */
static void what_is_torn_out_meanwhile_is_asked_for(void **state)
{
    (void)state;
    begin(STEP / 2);
    torn = a_file(SIZE, true);
    asked.meanwhile = tear;
    give(dup(torn), NULL);
    assert_int_equal(ended(), NIGH_OUT_OF_MEMORY);
    assert_true(atomic_load(&is_torn));
    assert_int_equal(memfd_present_bytes(torn), 0);
    end();
    assert_int_equal(close(torn), 0);
}

static pthread_mutex_t both = PTHREAD_MUTEX_INITIALIZER;

static void wait_for_both(uint32_t n)
{
    if (n == 0) {
        (void)pthread_mutex_lock(&both);
        (void)pthread_mutex_unlock(&both);
    }
}

/* There is nothing left behind the first question. */
static void take_all(uint32_t n)
{
    if (n == 0)
        atomic_store(&asked.has, 0);
}

/* Who has been granted some has it: of two that take all there is, one gets it. */
static void what_is_granted_is_owed_until_it_is_taken(void **state)
{
    struct region_memory *memory;
    nigh_status first, second;

    (void)state;
    begin(SIZE + STEP);
    asked.meanwhile = wait_for_both;
    (void)pthread_mutex_lock(&both);
    give(a_file(SIZE, false), NULL);
    give(a_file(SIZE, false), NULL);
    (void)pthread_mutex_unlock(&both);
    assert_true(SUPPORT_WAIT((memory = region_memories_take(memories)) != NULL, WAIT_MS));
    first = memory->status;
    region_memories_unmake(memories, memory);
    second = ended();
    assert_int_equal(first, NIGH_OUT_OF_MEMORY); /* at once */
    assert_int_equal(second, NIGH_OK);
    assert_int_equal(atomic_load(&asked.most_owed), SIZE);
    end();
}

static void what_is_over_is_owed_nothing(void **state)
{
    (void)state;
    begin(SIZE);
    asked.meanwhile = take_all;
    give(a_file(SIZE, false), NULL);
    assert_int_equal(ended(), NIGH_OUT_OF_MEMORY);
    assert_int_equal(atomic_load(&asked.count), 2);
    atomic_store(&asked.has, SIZE);
    for (uint32_t n = 0; n < 2; n++) {
        give(a_file(SIZE, false), NULL);
        assert_int_equal(ended(), NIGH_OK);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_this_process_is_asked_for),
        cmocka_unit_test(what_is_torn_out_meanwhile_is_asked_for),
        cmocka_unit_test(what_is_granted_is_owed_until_it_is_taken),
        cmocka_unit_test(what_is_over_is_owed_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
