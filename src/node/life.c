/* SPDX-License-Identifier: Apache-2.0 */
/* See life.h. */
#include "node/life.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOG_MODULE "node"
#include "base/log.h"

_Static_assert(SESSION_LIFE_ENDED == FUTEX_OWNER_DIED, "the kernel writes it");

/* What the kernel walks when the thread ends. In shared memory of its own: the memory of a process
 * that is killed because the machine has none left is taken from it before its threads end, but
 * only where it is private. */
struct life_list {
    struct robust_list_head head;
    struct robust_list entry; /* the only one */
};

struct life {
    struct session_node_page *page;
    struct life_list *list;
};

nigh_status life_create(struct session_node_page *page, struct life **out)
{
    struct life *life = calloc(1, sizeof(*life));
    void *memory;

    if (life == NULL)
        return NIGH_NO_RESOURCES;
    memory = mmap(NULL, sizeof(*life->list), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        free(life);
        return NIGH_NO_RESOURCES;
    }
    (void)madvise(memory, sizeof(*life->list), MADV_DONTFORK);
    life->page = page;
    life->list = memory;
    *out = life;
    return NIGH_OK;
}

void life_destroy(struct life *life)
{
    if (life == NULL)
        return;
    (void)munmap(life->list, sizeof(*life->list));
    free(life);
}

void life_begin(struct life *life)
{
    struct life_list *list = life->list;
    struct session_node_page *page = life->page;
    long thread = syscall(SYS_gettid);

    list->head.list.next = &list->entry;
    list->head.futex_offset = (const char *)&page->life - (const char *)&list->entry;
    list->head.list_op_pending = NULL;
    list->entry.next = &list->head.list;
    if (syscall(SYS_set_robust_list, &list->head, sizeof(list->head)) != 0) {
        LOG_WARN("clients will not hear of this node's death at once: set_robust_list is refused",
                 "errno=%d do=\"allow set_robust_list in the filter of system calls (seccomp)\"",
                 errno);
        shared_store_release(&page->life, 0);
        return;
    }
    /* In this order: what a former node left there is not to be taken for this one's end. */
    shared_store_release(&page->life, (uint32_t)thread);
    shared_store_release(&page->life_of, shared_load_relaxed(&page->incarnation));
}

void life_end(struct session_node_page *page)
{
    shared_store_release(&page->life, SESSION_LIFE_ENDED);
    shared_store_release(&page->life_of, shared_load_relaxed(&page->incarnation));
}
