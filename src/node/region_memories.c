/* SPDX-License-Identifier: Apache-2.0 */
/* See region_memories.h. Pieces have their turns in a ring: who asks for little does not wait for
 * who asks for much. */
#include "node/region_memories.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "memory/admission.h"
#include "memory/memfd.h"
#include "node/region_slabs.h"

/* One that the thread is at, or that the lane has not taken yet, or that is in use. */
struct piece {
    struct region_memory memory;
    struct list_node link;     /* in todo or ended */
    struct list_node all_link; /* in all */
    uint64_t done;             /* bytes of it that are there, */
    uint64_t mapped;           /* and that have an address, of their own */
    uint64_t owed;             /* of a gift: what of `memories->owed` is for it */
    struct region_slab *slab;  /* NULL: or they are of this */
    const uint8_t *from;       /* NULL: or copied from there */
    bool is_file, goes;
    bool is_gift;    /* what is in it is its giver's, and stays */
    bool takes_file; /* one of so many */
};

struct region_memories {
    uint64_t most_bytes;
    void (*wake)(void *context);
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct list all, todo, ended;
    uint64_t bytes; /* of all that are not gone, */
    uint32_t files; /* and how many of these are files, */
    uint32_t going; /* or are on their way out */
    _Atomic uint32_t ended_count;
    /* The thread's: what pieces that are begun have not taken of the system yet, and what it said
     * that it has for small ones, and when. */
    uint64_t owed, granted, granted_us;
    struct region_slabs slabs;
    pthread_t thread;
    bool started, stopping;
};

/* ---- a step of a piece: not locked ---------------------------------------- */

static nigh_status map_private(uint64_t bytes, void **address)
{
    *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*address == MAP_FAILED)
        return NIGH_OUT_OF_MEMORY;
    /* A child that wrote there would have a copy, and so, by turns, would a device. */
    (void)madvise(*address, bytes, MADV_DONTFORK);
    (void)madvise(*address, bytes, MADV_DONTDUMP);
    return NIGH_OK;
}

/* Its pages come as those of any other piece do. */
static nigh_status map_file(struct region_memory *memory, void **address)
{
    nigh_status status =
        memfd_create_sealed("nigh-region", memory->bytes, MEMFD_BARE | MEMFD_DATA, &memory->fd);

    if (status == NIGH_OK)
        status = memfd_map(memory->fd, memory->bytes, MEMFD_WRITABLE, address);
    return status;
}

static nigh_status map(struct region_memories *memories, struct piece *piece)
{
    uint64_t bytes = piece->memory.bytes;
    nigh_status status = admission_ask(bytes, memories->owed);
    void *address;

    if (status == NIGH_OK)
        status = piece->is_file ? map_file(&piece->memory, &address) : map_private(bytes, &address);
    if (status != NIGH_OK)
        return status;
    piece->memory.address = address;
    piece->mapped = bytes;
    memories->owed += bytes;
    return NIGH_OK;
}

/* ---- a step of what was given: not locked --------------------------------- */

/* A mapping keeps the file: no descriptor is needed any more. What is not there yet is to be had
 * like anything that is made; what is, is believed for that alone. */
static nigh_status map_gift(struct region_memories *memories, struct piece *piece)
{
    struct region_memory *memory = &piece->memory;
    uint64_t missing_bytes =
        memory->bytes - min_u64(memfd_present_bytes(memory->fd), memory->bytes);
    nigh_status status = admission_ask(missing_bytes, memories->owed);
    void *address;

    if (status == NIGH_OK)
        status = memfd_map(memory->fd, memory->bytes, MEMFD_WRITABLE, &address);
    if (status != NIGH_OK)
        return status == NIGH_DENIED ? NIGH_INVALID : status; /* it was sealed since */
    memory->address = address;
    piece->mapped = memory->bytes;
    piece->owed = missing_bytes;
    memories->owed += missing_bytes;
    fd_close(&memory->fd);
    return NIGH_OK;
}

/* Whether all of a range has something mapped there. */
static bool is_mapped(uint8_t *address, uint64_t bytes)
{
    unsigned char pages[LIMIT_BULK_STEP / LIMIT_REGION_UNIT_BYTES + 1];

    return mincore(address, bytes, pages) == 0;
}

/* Of whole pages. What was mapped here is sound: it lacks pages. */
static nigh_status populate_gift(const struct piece *piece, uint8_t *from, uint64_t bytes)
{
    uint64_t before = (uintptr_t)from % LIMIT_REGION_UNIT_BYTES;

    if (madvise(from - before, before + bytes, MADV_POPULATE_WRITE) == 0)
        return NIGH_OK;
    return piece->mapped > 0 || (errno == ENOMEM && is_mapped(from - before, before + bytes))
               ? NIGH_OUT_OF_MEMORY
               : NIGH_INVALID;
}

/* Each step is asked for as if nothing of it were there: whoever has the file may have torn pages
 * out since, nothing that can be looked at is sure not to be the donor's to say (mincore trusts the
 * file's mode), and memory that was only read has pages that count as there, and are nobody's. */
static nigh_status touch_gift(struct region_memories *memories, struct piece *piece)
{
    uint64_t bytes = min_u64(piece->memory.bytes - piece->done, LIMIT_BULK_STEP);
    uint64_t others_owed = memories->owed - piece->owed, left = piece->owed;
    nigh_status status = admission_ask(bytes, others_owed);

    if (status == NIGH_OK)
        status = populate_gift(piece, piece->memory.address + piece->done, bytes);
    if (status == NIGH_OK) {
        piece->done += bytes;
        left -= min_u64(left, bytes);
    } else {
        left = 0;
    }
    memories->owed = others_owed + left;
    piece->owed = left;
    return status;
}

/* To ask the system takes longer than to make a page: it is asked for many at once, if it has so
 * many, and again in a moment. */
static nigh_status ask_for_small(struct region_memories *memories, uint64_t bytes)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);

    if (bytes > memories->granted || now_us - memories->granted_us > LIMIT_REGION_GRANT_US) {
        memories->granted_us = now_us;
        memories->granted = LIMIT_REGION_SLAB_BYTES;
        if (admission_ask(memories->granted, memories->owed) != NIGH_OK) {
            memories->granted = 0;
            return admission_ask(bytes, memories->owed);
        }
    }
    memories->granted -= bytes;
    return NIGH_OK;
}

static nigh_status make_small(struct region_memories *memories, struct piece *piece)
{
    struct region_slab_piece at;
    nigh_status status = ask_for_small(memories, piece->memory.bytes);

    if (status == NIGH_OK)
        status = region_slabs_take(&memories->slabs, piece->memory.bytes, &at);
    if (status == NIGH_OK) {
        piece->memory.address = at.address;
        piece->slab = at.slab;
    }
    return status;
}

static nigh_status make_some(struct region_memories *memories, struct piece *piece)
{
    uint64_t bytes = min_u64(piece->memory.bytes - piece->done, LIMIT_BULK_STEP);

    if (madvise(piece->memory.address + piece->done, bytes, MADV_POPULATE_WRITE) != 0) {
        memories->owed -= piece->memory.bytes - piece->done;
        return NIGH_OUT_OF_MEMORY;
    }
    if (piece->from != NULL)
        memcpy(piece->memory.address + piece->done, piece->from + piece->done, bytes);
    piece->done += bytes;
    memories->owed -= bytes;
    return NIGH_OK;
}

/* True: it is all there, or it failed. */
static bool make_step(struct region_memories *memories, struct piece *piece)
{
    nigh_status *status = &piece->memory.status;

    if (piece->is_gift) {
        *status = piece->memory.fd >= 0 ? map_gift(memories, piece) : touch_gift(memories, piece);
        return *status != NIGH_OK || piece->done == piece->memory.bytes;
    }
    if (piece->memory.bytes <= LIMIT_REGION_SLAB_PIECE && !piece->is_file) {
        *status = make_small(memories, piece);
        return true;
    }
    *status = piece->mapped == 0 ? map(memories, piece) : make_some(memories, piece);
    return *status != NIGH_OK || piece->done == piece->memory.bytes;
}

/* True: nothing is left. */
static bool unmake_step(struct region_memories *memories, struct piece *piece)
{
    uint64_t bytes = min_u64(piece->mapped, LIMIT_BULK_STEP);

    if (piece->slab != NULL)
        region_slabs_give(&memories->slabs,
                          (struct region_slab_piece){piece->memory.address, piece->slab});
    if (bytes > 0) {
        piece->mapped -= bytes;
        if (piece->is_file)
            (void)memfd_punch_at(piece->memory.fd, piece->mapped, bytes);
        NIGH_ASSERT(munmap(piece->memory.address + piece->mapped, bytes) == 0);
    }
    if (piece->mapped == 0)
        fd_close(&piece->memory.fd);
    return piece->mapped == 0;
}

/* ---- the thread ----------------------------------------------------------- */

static void drop(struct region_memories *memories, struct piece *piece)
{
    list_remove(&piece->all_link);
    memories->bytes -= piece->memory.bytes;
    memories->files -= piece->takes_file;
    memories->going -= piece->goes;
    free(piece);
}

/* Locked, but for the steps. */
static void do_step(struct region_memories *memories, struct piece *piece)
{
    bool is_over;

    (void)pthread_mutex_unlock(&memories->lock);
    is_over = piece->goes ? unmake_step(memories, piece) : make_step(memories, piece);
    (void)pthread_mutex_lock(&memories->lock);
    if (!is_over) {
        list_push_back(&memories->todo, &piece->link);
    } else if (piece->goes) {
        drop(memories, piece);
    } else {
        list_push_back(&memories->ended, &piece->link);
        atomic_fetch_add_explicit(&memories->ended_count, 1, memory_order_release);
        memories->wake(memories->context);
    }
}

static void *run(void *context)
{
    struct region_memories *memories = context;

    (void)pthread_mutex_lock(&memories->lock);
    while (!memories->stopping) {
        struct list_node *node = list_pop_front(&memories->todo);

        if (node != NULL)
            do_step(memories, container_of(node, struct piece, link));
        else
            (void)pthread_cond_wait(&memories->changed, &memories->lock);
    }
    (void)pthread_mutex_unlock(&memories->lock);
    return NULL;
}

/* Nodes that have no regions have no such thread. */
static nigh_status start(struct region_memories *memories)
{
    sigset_t all, before;

    if (memories->started)
        return NIGH_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    memories->started = pthread_create(&memories->thread, NULL, run, memories) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!memories->started)
        return NIGH_NO_RESOURCES;
    (void)pthread_setname_np(memories->thread, "nigh-regions");
    return NIGH_OK;
}

/* ---- by the lane ---------------------------------------------------------- */

nigh_status region_memories_create(uint64_t most_bytes, void (*wake)(void *context), void *context,
                                   struct region_memories **out)
{
    struct region_memories *memories = calloc(1, sizeof(*memories));

    if (memories == NULL)
        return NIGH_NO_RESOURCES;
    memories->most_bytes = most_bytes;
    memories->wake = wake;
    memories->context = context;
    list_init(&memories->all);
    list_init(&memories->todo);
    list_init(&memories->ended);
    region_slabs_init(&memories->slabs);
    (void)pthread_mutex_init(&memories->lock, NULL);
    (void)pthread_cond_init(&memories->changed, NULL);
    *out = memories;
    return NIGH_OK;
}

void region_memories_destroy(struct region_memories *memories)
{
    if (memories == NULL)
        return;
    (void)pthread_mutex_lock(&memories->lock);
    memories->stopping = true;
    (void)pthread_cond_signal(&memories->changed);
    (void)pthread_mutex_unlock(&memories->lock);
    if (memories->started)
        (void)pthread_join(memories->thread, NULL);
    while (!list_empty(&memories->all)) {
        struct piece *piece = container_of(list_first(&memories->all), struct piece, all_link);

        while (!unmake_step(memories, piece)) {
        }
        drop(memories, piece);
    }
    region_slabs_fini(&memories->slabs);
    (void)pthread_cond_destroy(&memories->changed);
    (void)pthread_mutex_destroy(&memories->lock);
    free(memories);
}

/* Locked. */
static void have_done(struct region_memories *memories, struct piece *piece)
{
    list_push_back(&memories->todo, &piece->link);
    (void)pthread_cond_signal(&memories->changed);
}

/* Takes what a piece will, or is, to have; from then on it counts. */
static nigh_status add(struct region_memories *memories, const struct piece *given, bool begins,
                       struct region_memory **memory)
{
    struct piece *piece = calloc(1, sizeof(*piece));
    nigh_status status = piece == NULL ? NIGH_NO_RESOURCES : start(memories);

    if (status != NIGH_OK) {
        free(piece);
        return status;
    }
    *piece = *given;
    (void)pthread_mutex_lock(&memories->lock);
    if (piece->memory.bytes > memories->most_bytes - memories->bytes) {
        status = NIGH_OUT_OF_MEMORY;
    } else if (piece->takes_file && memories->files == LIMIT_REGION_FILES) {
        status = NIGH_LIMIT;
    } else {
        memories->bytes += piece->memory.bytes;
        memories->files += piece->takes_file;
        list_push_back(&memories->all, &piece->all_link);
        if (begins)
            have_done(memories, piece);
    }
    (void)pthread_mutex_unlock(&memories->lock);
    if (status != NIGH_OK)
        free(piece);
    else
        *memory = &piece->memory;
    return status;
}

nigh_status region_memories_make(struct region_memories *memories,
                                 const struct region_memory_wish *wish)
{
    struct piece piece = {
        .memory = {.bytes = wish->bytes, .fd = -1, .tag = wish->tag, .number = wish->number},
        .from = wish->from,
        .is_file = wish->is_file,
        .takes_file = wish->is_file,
    };
    struct region_memory *memory;

    return add(memories, &piece, true, &memory);
}

nigh_status region_memories_offer(struct region_memories *memories, const struct region_gift *gift,
                                  struct region_memory **memory)
{
    struct piece piece = {
        .memory = {.address = gift->address, .bytes = gift->bytes, .fd = gift->fd},
        .is_gift = true,
        .takes_file = gift->fd >= 0,
    };

    return add(memories, &piece, false, memory);
}

void region_memories_begin(struct region_memories *memories, struct region_memory *memory,
                           void *tag, uint32_t number)
{
    struct piece *piece = container_of(memory, struct piece, memory);

    NIGH_ASSERT(piece->is_gift);
    (void)pthread_mutex_lock(&memories->lock);
    memory->tag = tag;
    memory->number = number;
    have_done(memories, piece);
    (void)pthread_mutex_unlock(&memories->lock);
}

struct region_memory *region_memories_take(struct region_memories *memories)
{
    struct list_node *node;

    if (atomic_load_explicit(&memories->ended_count, memory_order_relaxed) == 0)
        return NULL;
    (void)pthread_mutex_lock(&memories->lock);
    node = list_pop_front(&memories->ended);
    if (node != NULL)
        atomic_fetch_sub_explicit(&memories->ended_count, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(&memories->lock);
    return node == NULL ? NULL : &container_of(node, struct piece, link)->memory;
}

void region_memories_unmake(struct region_memories *memories, struct region_memory *memory)
{
    struct piece *piece = container_of(memory, struct piece, memory);

    (void)pthread_mutex_lock(&memories->lock);
    piece->goes = true;
    memories->going++;
    have_done(memories, piece);
    (void)pthread_mutex_unlock(&memories->lock);
}

uint64_t region_memories_bytes(struct region_memories *memories)
{
    uint64_t bytes;

    (void)pthread_mutex_lock(&memories->lock);
    bytes = memories->bytes;
    (void)pthread_mutex_unlock(&memories->lock);
    return bytes;
}

bool region_memories_is_going(struct region_memories *memories)
{
    bool is_going;

    (void)pthread_mutex_lock(&memories->lock);
    is_going = memories->going > 0;
    (void)pthread_mutex_unlock(&memories->lock);
    return is_going;
}
