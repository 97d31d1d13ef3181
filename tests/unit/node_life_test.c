/* SPDX-License-Identifier: Apache-2.0 */
/* The word that says that a node has ended: who ends, and how, and what does not count as an end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memfd.h"
#include "node/life.h"
#include "support/support.h"

#define DEADLINE 20000

struct fixture {
    int fd;
    struct session_node_page *page;
    struct life *life;
    _Atomic bool stop;
    pthread_t thread;
};

static void *hold_it(void *argument)
{
    struct fixture *f = argument;

    life_begin(f->life);
    while (!atomic_load(&f->stop))
        support_breathe();
    return NULL;
}

static void make_page(struct fixture *f)
{
    void *memory;

    *f = (struct fixture){.fd = -1};
    assert_int_equal(memfd_create_sealed("page", sizeof(*f->page), 0, &f->fd), NIGH_OK);
    assert_int_equal(memfd_map(f->fd, sizeof(*f->page), MEMFD_WRITABLE, &memory), NIGH_OK);
    f->page = memory;
    shared_store_relaxed(&f->page->incarnation, 7);
}

static void drop_page(struct fixture *f)
{
    memfd_unmap(f->page, sizeof(*f->page));
    close(f->fd);
}

static void begin(struct fixture *f)
{
    assert_int_equal(life_create(f->page, &f->life), NIGH_OK);
    assert_int_equal(pthread_create(&f->thread, NULL, hold_it, f), 0);
    assert_true(SUPPORT_WAIT(shared_load_acquire(&f->page->life_of) == 7, DEADLINE));
    assert_true(shared_load_relaxed(&f->page->life) != 0);
    assert_false(session_node_ended(f->page));
}

static void end(struct fixture *f)
{
    atomic_store(&f->stop, true);
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    life_destroy(f->life);
}

static void *nothing(void *argument)
{
    return argument;
}

/* Only the end of the thread that holds it counts, and that at once. */
static void a_thread_that_ends(void **state)
{
    struct fixture f;
    pthread_t other;

    (void)state;
    make_page(&f);
    begin(&f);
    assert_int_equal(pthread_create(&other, NULL, nothing, NULL), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_false(session_node_ended(f.page));
    end(&f);
    assert_true(session_node_ended(f.page));
    drop_page(&f);
}

/* What a node before left there says nothing of the one that took the page over. */
static void a_page_that_goes_on(void **state)
{
    struct fixture f;

    (void)state;
    make_page(&f);
    shared_store_relaxed(&f.page->incarnation, 6);
    life_end(f.page);
    assert_true(session_node_ended(f.page));
    shared_store_relaxed(&f.page->incarnation, 7);
    assert_false(session_node_ended(f.page));
    begin(&f);
    end(&f);
    assert_true(session_node_ended(f.page));
    drop_page(&f);
}

/* ---- processes ---- */

struct process {
    struct session_node_page *page; /* plainly shared: a child inherits it */
    bool execs, forks;
    int told; /* the forked one's pid goes here */
};

static int be_a_node(void *argument)
{
    struct process *process = argument;
    struct fixture f = {.page = process->page};
    pid_t worker;

    alarm(60);
    if (life_create(f.page, &f.life) != NIGH_OK ||
        pthread_create(&f.thread, NULL, hold_it, &f) != 0 ||
        !SUPPORT_WAIT(shared_load_acquire(&f.page->life_of) == 7, DEADLINE))
        return 1;
    if (process->forks) {
        worker = fork();
        if (worker != 0 && write(process->told, &worker, sizeof(worker)) != sizeof(worker))
            return 2;
    }
    if (process->execs) {
        (void)execl("/bin/sleep", "sleep", "60", (char *)NULL);
        return 3;
    }
    (void)pause();
    return 0;
}

static struct session_node_page *share_page(void)
{
    struct session_node_page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(page != MAP_FAILED);
    shared_store_relaxed(&page->incarnation, 7);
    return page;
}

static void a_process_that_is_killed(void **state)
{
    struct process process = {.page = share_page()};
    pid_t child = support_fork(be_a_node, &process);

    (void)state;
    assert_true(SUPPORT_WAIT(shared_load_acquire(&process.page->life_of) == 7, DEADLINE));
    assert_false(session_node_ended(process.page));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(support_join(child, DEADLINE), -SIGKILL);
    assert_true(session_node_ended(process.page));
    munmap(process.page, sizeof(*process.page));
}

/* A child of it lives on, and has the same memory. */
static void a_process_that_forked(void **state)
{
    int told[2];
    struct process process = {.page = share_page(), .forks = true};
    pid_t child, worker;

    (void)state;
    assert_int_equal(pipe(told), 0);
    process.told = told[1];
    child = support_fork(be_a_node, &process);
    assert_int_equal(read(told[0], &worker, sizeof(worker)), sizeof(worker));
    assert_false(session_node_ended(process.page));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(support_join(child, DEADLINE), -SIGKILL);
    assert_true(session_node_ended(process.page));
    assert_int_equal(kill(worker, SIGKILL), 0);
    close(told[0]);
    close(told[1]);
    munmap(process.page, sizeof(*process.page));
}

static void a_process_that_becomes_another(void **state)
{
    struct process process = {.page = share_page(), .execs = true};
    pid_t child = support_fork(be_a_node, &process);

    (void)state;
    assert_true(SUPPORT_WAIT(session_node_ended(process.page), DEADLINE));
    assert_int_equal(kill(child, 0), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(support_join(child, DEADLINE), -SIGKILL);
    munmap(process.page, sizeof(*process.page));
}

/* What clients are given of the page cannot be written through, so nobody can end a node for
 * others. */
static void a_client_cannot_write_it(void **state)
{
    struct fixture f;
    void *memory;
    int fd;

    (void)state;
    make_page(&f);
    assert_int_equal(memfd_reopen_read_only(f.fd, &fd), NIGH_OK);
    assert_int_equal(memfd_map(fd, sizeof(*f.page), MEMFD_WRITABLE, &memory), NIGH_DENIED);
    assert_int_equal(memfd_map(fd, sizeof(*f.page), 0, &memory), NIGH_OK);
    assert_int_not_equal(mprotect(memory, sizeof(*f.page), PROT_READ | PROT_WRITE), 0);
    memfd_unmap(memory, sizeof(*f.page));
    close(fd);
    drop_page(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_ends),
        cmocka_unit_test(a_page_that_goes_on),
        cmocka_unit_test(a_process_that_is_killed),
        cmocka_unit_test(a_process_that_forked),
        cmocka_unit_test(a_process_that_becomes_another),
        cmocka_unit_test(a_client_cannot_write_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
