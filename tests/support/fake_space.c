/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_space.h. */
#include "support/fake_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/fd.h"
#include "memory/memfd.h"

#define PLACES (LIMIT_REPLY_PLACES + 8)

static void need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "fake space: %s\n", what);
        abort();
    }
}

/* ---- memory --------------------------------------------------------------- */

struct fake_one *fake_space_of(struct fake_space *fake, uint32_t number)
{
    struct fake_one *one = number >= 1 && number <= FAKE_SPACES ? &fake->spaces[number - 1] : NULL;

    return one != NULL && one->is_there && one->opens > 0 ? one : NULL;
}

/* Of both homes: the other's behind those here. */
static uint64_t block_number(const struct fake_one *one, uint64_t address)
{
    uint64_t offset = address & ((UINT64_C(1) << 48) - 1);
    uint64_t block = offset >> one->home.shift;

    if (block >= FAKE_SPACE_BLOCKS || address >> 48 > FAKE_OTHER || address == 0) {
        return UINT64_MAX;
    }
    return (address >> 48) * FAKE_SPACE_BLOCKS + block;
}

_Atomic uint64_t *fake_space_block(struct fake_one *one, uint64_t address)
{
    uint64_t number = block_number(one, address);

    if (number == UINT64_MAX || one->is_freed[number]) {
        return NULL;
    }
    return number < FAKE_SPACE_BLOCKS
               ? space_bytes_of(&one->home, number)
               : one->other + (((number - FAKE_SPACE_BLOCKS) << one->home.shift) / 8);
}

/* Of the frame that is a block's in a test: the first of its set, which has but few. */
static struct space_head *head_of(struct fake_one *one, uint64_t address, uint64_t *frame)
{
    uint64_t set = space_set_of(&one->cache, space_hash(address, one->cache.shift));

    *frame = set * SPACE_WAYS;
    return &one->cache.sets[set].heads[0];
}

void fake_space_hide(struct fake_one *one, uint64_t address)
{
    uint64_t frame;
    struct space_head *head = head_of(one, address, &frame);

    space_word_hide(&head->word);
    space_view_fence();
}

void fake_space_show(struct fake_one *one, uint64_t address)
{
    uint64_t hash = space_hash(address, one->cache.shift), frame;
    struct space_head *head = head_of(one, address, &frame);
    struct space_set *set = &one->cache.sets[space_set_of(&one->cache, hash)];
    uint8_t bytes[LIMIT_SPACE_BLOCK_BYTES];
    uint32_t length = (uint32_t)one->cache.mask + 1;

    fake_space_hide(one, address);
    space_bytes_load(fake_space_block(one, address), 0, bytes, length);
    space_bytes_store(space_bytes_of(&one->cache, frame), 0, bytes, length);
    shared_store_relaxed(&head->tag, space_tag_of(&one->cache, address));
    shared_store_relaxed(&set->prints[0], space_print_of(hash));
    space_word_show(&head->word);
}

static void change(struct fake_one *one, uint64_t address, const void *bytes, uint32_t length)
{
    uint64_t number = block_number(one, address), frame;
    struct space_head *head = head_of(one, address, &frame);
    uint32_t offset = space_offset_of(&one->home, address);

    if (number < FAKE_SPACE_BLOCKS) {
        space_word_change(&one->home.words[number], space_bytes_of(&one->home, number), offset,
                          bytes, length);
        return;
    }
    space_bytes_store(fake_space_block(one, address), offset, bytes, length);
    if (space_word_is_shown(&head->word) &&
        shared_load_relaxed(&head->tag) == space_tag_of(&one->cache, address)) {
        fake_space_show(one, address);
    }
}

static void make_memory(struct fake_one *one)
{
    uint32_t block_bytes = one->stat.block_bytes;

    one->cache_bytes = space_view_cache_bytes(FAKE_SPACE_SETS, block_bytes);
    one->home_bytes = space_view_home_bytes(FAKE_SPACE_BLOCKS, block_bytes);
    need(memfd_create_sealed("fake-cache", one->cache_bytes, 0, &one->cache_fd) == NIGH_OK &&
             memfd_map(one->cache_fd, one->cache_bytes, MEMFD_WRITABLE, &one->cache_memory) ==
                 NIGH_OK &&
             memfd_create_sealed("fake-home", one->home_bytes, 0, &one->home_fd) == NIGH_OK &&
             memfd_map(one->home_fd, one->home_bytes, MEMFD_WRITABLE, &one->home_memory) == NIGH_OK,
         "memory");
    space_view_make_cache(one->cache_memory, FAKE_SPACE_SETS, block_bytes, &one->cache);
    space_view_make_home(one->home_memory, FAKE_SPACE_BLOCKS, block_bytes, 0, &one->home);
    for (uint64_t n = 0; n < FAKE_SPACE_BLOCKS; n++) {
        space_word_show(&one->home.words[n]);
    }
    one->other = calloc(FAKE_SPACE_BLOCKS, block_bytes);
    need(one->other != NULL, "memory");
    one->next_block = 1;
}

/* ---- locks ---------------------------------------------------------------- */

static bool may_hold(const struct fake_space *fake, uint32_t space, uint64_t block, uint32_t window,
                     bool alone)
{
    for (uint32_t n = 0; n < fake->holder_count; n++) {
        const struct fake_holder *holder = &fake->holders[n];

        if (holder->space == space && holder->block == block && holder->window != window &&
            (alone || holder->alone)) {
            return false;
        }
    }
    return true;
}

static void drop(struct fake_space *fake, uint32_t n)
{
    const struct fake_holder *holder = &fake->holders[n];

    space_consumer_drop(&fake->windows[holder->window].consumer, holder->kept);
    fake->holders[n] = fake->holders[--fake->holder_count];
}

static struct fake_holder *find_holder(struct fake_space *fake, uint32_t space, uint64_t block,
                                       uint32_t window)
{
    for (uint32_t n = 0; n < fake->holder_count; n++) {
        struct fake_holder *holder = &fake->holders[n];

        if (holder->window == window && holder->space == space && holder->block == block) {
            return holder;
        }
    }
    return NULL;
}

static bool let_go(struct fake_space *fake, uint32_t space, uint64_t block, uint32_t window)
{
    struct fake_holder *holder = find_holder(fake, space, block, window);

    if (holder != NULL) {
        drop(fake, (uint32_t)(holder - fake->holders));
    }
    return holder != NULL;
}

static void let_go_all(struct fake_space *fake, uint32_t space)
{
    for (uint32_t n = fake->holder_count; n-- > 0;) {
        if (fake->holders[n].space == space) {
            drop(fake, n);
        }
    }
}

static bool may_leave(const struct fake_space *fake, const struct fake_holder *holder)
{
    return holder->leaves && fake->windows[holder->window].consumer.head >= holder->until;
}

/* Locks of others that are only kept are let go; true: some are, soon. */
static bool want(struct fake_space *fake, uint32_t space, uint64_t block, uint32_t window)
{
    bool any = false;

    for (uint32_t n = 0; n < fake->holder_count; n++) {
        struct fake_holder *holder = &fake->holders[n];
        struct space_consumer *consumer = &fake->windows[holder->window].consumer;

        if (holder->space == space && holder->block == block && holder->window != window) {
            holder->leaves =
                holder->leaves || space_consumer_want(consumer, holder->kept, &holder->until);
            any = any || may_leave(fake, holder);
        }
    }
    return any;
}

/* True: somebody's lock is let go. */
static bool let_leave(struct fake_space *fake)
{
    bool any = false;

    for (uint32_t n = fake->holder_count; n-- > 0;) {
        if (may_leave(fake, &fake->holders[n])) {
            drop(fake, n);
            any = true;
        }
    }
    return any;
}

/* A word of the window that none of its locks has. */
static uint32_t free_word(const struct fake_space *fake, uint32_t window)
{
    uint32_t word = 0;

    for (uint32_t n = 0; n < fake->holder_count; n++) {
        if (fake->holders[n].window == window && fake->holders[n].kept == word) {
            word++;
            n = UINT32_MAX; /* from the first on */
        }
    }
    return word;
}

/* ---- records -------------------------------------------------------------- */

static bool kind_is_asked(uint32_t kind)
{
    return kind >= SPACE_RECORD_READ && kind <= SPACE_RECORD_FREE;
}

static void end(struct fake_window *window, const struct space_record *record, nigh_status status,
                uint64_t value, const void *bytes)
{
    if (kind_is_asked(record->kind)) {
        space_consumer_reply(&window->consumer, record, status, value, bytes,
                             bytes != NULL ? record->length : 0);
        return;
    }
    if (status != NIGH_OK && record->kind != SPACE_RECORD_FETCH) {
        space_consumer_fail(&window->consumer, record, status);
    }
    space_consumer_done(&window->consumer, record->number);
}

static void do_atomic(struct fake_one *one, struct fake_window *window,
                      const struct space_record *record)
{
    _Atomic uint64_t *block = fake_space_block(one, record->address);
    uint64_t old, new;

    space_bytes_load(block, space_offset_of(&one->home, record->address), &old, 8);
    new = record->kind == SPACE_RECORD_ADD        ? old + record->operands[0]
          : record->kind == SPACE_RECORD_EXCHANGE ? record->operands[0]
          : old == record->operands[0]            ? record->operands[1]
                                                  : old;
    change(one, record->address, &new, 8);
    end(window, record, NIGH_OK, old, NULL);
}

static void do_alloc(const struct fake_space *fake, struct fake_one *one,
                     struct fake_window *window, const struct space_record *record)
{
    uint64_t blocks = (record->operands[0] + one->home.mask) >> one->home.shift;
    uint64_t rank = record->address >> 48;
    uint64_t align = max_u64(record->operands[1] >> one->home.shift, 1);
    uint64_t at;

    if (!atomic_load(&fake->aligns_none)) {
        one->next_block = (one->next_block + align - 1) & ~(align - 1);
    }
    at = one->next_block << one->home.shift;
    if (rank > FAKE_OTHER) {
        end(window, record, NIGH_PEER_LOST, 0, NULL);
    } else if (blocks + one->next_block > FAKE_SPACE_BLOCKS) {
        end(window, record, NIGH_OUT_OF_MEMORY, 0, NULL);
    } else {
        one->next_block += blocks;
        end(window, record, NIGH_OK, rank << 48 | at, NULL);
    }
}

static void do_bytes(struct fake_one *one, struct fake_window *window,
                     const struct space_record *record)
{
    uint8_t bytes[LIMIT_SPACE_BLOCK_BYTES];
    _Atomic uint64_t *block = fake_space_block(one, record->address);

    if (record->kind == SPACE_RECORD_READ) {
        space_bytes_load(block, space_offset_of(&one->home, record->address), bytes,
                         record->length);
        end(window, record, NIGH_OK, 0, bytes);
        return;
    }
    space_consumer_bytes(&window->consumer, record, bytes);
    change(one, record->address, bytes, record->length);
    end(window, record, NIGH_OK, 0, NULL);
}

static void give_lock(struct fake_space *fake, struct fake_window *window,
                      const struct space_record *record, uint64_t block, bool alone)
{
    uint32_t number = (uint32_t)(window - fake->windows);
    bool keeps = !atomic_load(&fake->keeps_no_locks);
    uint32_t kept;

    (void)let_go(fake, record->space, block, number); /* it had kept it */
    kept = free_word(fake, number);
    need(fake->holder_count < sizeof(fake->holders) / sizeof(fake->holders[0]), "holders");
    need(kept < LIMIT_SPACE_HOLDS, "words of kept locks");
    fake->holders[fake->holder_count++] = (struct fake_holder){
        .window = number, .space = record->space, .block = block, .alone = alone, .kept = kept};
    space_consumer_grant(&window->consumer, kept, !keeps);
    end(window, record, NIGH_OK, keeps ? kept + 1 : 0, NULL);
}

/* False: it waits. */
static bool do_lock(struct fake_space *fake, struct fake_window *window,
                    const struct space_record *record, uint64_t now_us, uint64_t until_us)
{
    struct fake_one *one = fake_space_of(fake, record->space);
    uint64_t block = space_block_of(&one->home, record->address);
    uint32_t number = (uint32_t)(window - fake->windows);
    bool alone =
        record->kind == SPACE_RECORD_LOCK_WRITE || record->kind == SPACE_RECORD_TRY_LOCK_WRITE;
    bool tries =
        record->kind == SPACE_RECORD_TRY_LOCK_READ || record->kind == SPACE_RECORD_TRY_LOCK_WRITE;

    if (may_hold(fake, record->space, block, number, alone)) {
        give_lock(fake, window, record, block, alone);
        return true;
    }
    if (want(fake, record->space, block, number) && now_us < until_us) {
        return false;
    }
    if (tries || now_us >= until_us) {
        end(window, record, tries ? NIGH_BUSY : NIGH_TIMEOUT, 0, NULL);
        return true;
    }
    return false;
}

static bool do_known(struct fake_space *fake, struct fake_window *window,
                     const struct space_record *record, uint64_t now_us, uint64_t until_us)
{
    struct fake_one *one = fake_space_of(fake, record->space);
    uint32_t number = (uint32_t)(window - fake->windows);

    switch (record->kind) {
    case SPACE_RECORD_FENCE:
    case SPACE_RECORD_FETCH: /* nothing comes here but what a test shows */
    case SPACE_RECORD_FLUSH: end(window, record, NIGH_OK, 0, NULL); return true;
    case SPACE_RECORD_ALLOC: do_alloc(fake, one, window, record); return true;
    case SPACE_RECORD_FREE:
        one->is_freed[block_number(one, record->address)] = true;
        if (record->address >> 48 == 0) {
            space_word_hide(&one->home.words[block_number(one, record->address)]);
        }
        end(window, record, NIGH_OK, 0, NULL);
        return true;
    case SPACE_RECORD_UNLOCK:
        end(window, record,
            let_go(fake, record->space, space_block_of(&one->home, record->address), number)
                ? NIGH_OK
                : NIGH_INVALID,
            0, NULL);
        return true;
    case SPACE_RECORD_READ:
    case SPACE_RECORD_WRITE: do_bytes(one, window, record); return true;
    case SPACE_RECORD_ADD:
    case SPACE_RECORD_EXCHANGE:
    case SPACE_RECORD_SWAP: do_atomic(one, window, record); return true;
    default: return do_lock(fake, window, record, now_us, until_us);
    }
}

static bool needs_block(uint32_t kind)
{
    return kind != SPACE_RECORD_FENCE && kind != SPACE_RECORD_FLUSH && kind != SPACE_RECORD_ALLOC;
}

/* Whether one before it, of the same window, that waits has to be first. */
static bool is_behind(struct fake_space *fake, const struct fake_window *window, uint32_t kept,
                      const struct space_record *record)
{
    struct fake_one *one = fake_space_of(fake, record->space);
    bool whole = record->kind != SPACE_RECORD_WRITE && record->kind != SPACE_RECORD_READ &&
                 record->kind != SPACE_RECORD_FETCH &&
                 !(record->kind >= SPACE_RECORD_ADD && record->kind <= SPACE_RECORD_SWAP) &&
                 record->kind != SPACE_RECORD_ALLOC;

    for (uint32_t n = 0; n < kept; n++) {
        const struct space_record *before = &window->kept[n];

        if (whole || (before->kind == SPACE_RECORD_FENCE && record->kind != SPACE_RECORD_READ) ||
            (one != NULL && space_block_of(&one->home, before->address) ==
                                space_block_of(&one->home, record->address))) {
            return true;
        }
    }
    return false;
}

/* True: it has ended. `kept`: so many before it wait. */
static bool carry_out(struct fake_space *fake, struct fake_window *window, uint32_t kept,
                      const struct space_record *record, uint64_t now_us, uint64_t until_us)
{
    struct fake_one *one = fake_space_of(fake, record->space);
    int32_t fails = atomic_load(&fake->fails);

    if (is_behind(fake, window, kept, record) ||
        (atomic_load(&fake->keeps) >> record->kind & 1) != 0 ||
        (one != NULL && needs_block(record->kind) && atomic_load(&fake->keeps_block) != 0 &&
         space_block_of(&one->home, record->address) == atomic_load(&fake->keeps_block))) {
        return false;
    }
    if (fails != NIGH_OK && (atomic_load(&fake->fails_kinds) >> record->kind & 1) != 0) {
        end(window, record, (nigh_status)fails, 0, NULL);
    } else if (one == NULL && record->kind != SPACE_RECORD_FENCE &&
               record->kind != SPACE_RECORD_FLUSH) {
        end(window, record, NIGH_CLOSED, 0, NULL);
    } else if (needs_block(record->kind) && fake_space_block(one, record->address) == NULL) {
        end(window, record, NIGH_NOT_FOUND, 0, NULL);
    } else {
        return do_known(fake, window, record, now_us, until_us);
    }
    return true;
}

/* Those that wait, and then what is new. True: something has ended. */
static bool look_at_window(struct fake_space *fake, struct fake_window *window, uint64_t now_us)
{
    uint32_t kept = 0;
    bool ended = false;
    struct space_record record;

    for (uint32_t n = 0; n < window->kept_count; n++) {
        if (carry_out(fake, window, kept, &window->kept[n], now_us, window->until_us[n])) {
            ended = true;
            continue;
        }
        window->kept[kept] = window->kept[n];
        window->until_us[kept++] = window->until_us[n];
    }
    window->kept_count = kept;
    for (;;) {
        enum space_window_answer answer = space_consumer_take(&window->consumer, &record);
        uint64_t until_us;

        need(answer != SPACE_WINDOW_BROKEN, "a window is broken");
        if (answer != SPACE_WINDOW_TAKEN) {
            break;
        }
        until_us = clock_deadline_us(now_us, record.timeout_us);
        atomic_fetch_add(&fake->said[record.kind], 1);
        if (carry_out(fake, window, window->kept_count, &record, now_us, until_us)) {
            ended = true;
            continue;
        }
        window->kept[window->kept_count] = record;
        window->until_us[window->kept_count++] = until_us;
    }
    return ended;
}

uint64_t fake_space_turn(void *context, struct fake_node *node, uint64_t now_us)
{
    struct fake_space *fake = context;
    uint64_t next_us = UINT64_MAX;
    bool again = !atomic_load(&fake->stands);

    (void)node;
    let_go_all(fake, atomic_exchange(&fake->lets_go, 0));
    while (again) {
        again = false;
        for (uint32_t n = 0; n < fake->window_count; n++) {
            struct fake_window *window = &fake->windows[n];

            if (!window->has_ended && look_at_window(fake, window, now_us)) {
                space_consumer_wake(&window->consumer);
                again = true; /* others may wait for it */
            }
        }
        again = let_leave(fake) || again;
    }
    for (uint32_t n = 0; n < fake->window_count; n++) {
        for (uint32_t i = 0; i < fake->windows[n].kept_count; i++) {
            next_us = min_u64(next_us, fake->windows[n].until_us[i]);
        }
    }
    return atomic_load(&fake->stands) || atomic_load(&fake->keeps) != 0 ? UINT64_MAX : next_us;
}

/* ---- questions ------------------------------------------------------------ */

static struct fake_one *find(struct fake_space *fake, const char *name)
{
    for (uint32_t n = 0; n < FAKE_SPACES; n++) {
        if (fake->spaces[n].is_there && strcmp(fake->spaces[n].stat.name, name) == 0) {
            return &fake->spaces[n];
        }
    }
    return NULL;
}

static nigh_status create(struct fake_space *fake, const uint8_t *bytes, uint64_t count,
                          uint64_t *birth)
{
    struct session_space_make make;
    char name[LIMIT_SPACE_NAME_BYTES + 1] = {0};

    memcpy(&make, bytes, sizeof(make));
    memcpy(name, bytes + sizeof(make), count - sizeof(make));
    if (find(fake, name) != NULL) {
        return NIGH_EXISTS;
    }
    for (uint32_t n = 0; n < FAKE_SPACES; n++) {
        struct fake_one *one = &fake->spaces[n];

        if (one->is_there) {
            continue;
        }
        one->is_there = true;
        one->stat = (struct session_space_stat){
            .id = 77 + n,
            .birth = 99 + n,
            .home_bytes = make.home_bytes,
            .cache_bytes = make.cache_bytes != 0 ? make.cache_bytes : make.home_bytes,
            .seats = 3,
            .block_bytes = make.block_bytes != 0 ? make.block_bytes : LIMIT_SPACE_BLOCK_DEFAULT,
            .durability = make.durability,
            .uid = 1000,
            .gid = 1001,
            .group_rights = make.group_rights,
            .other_rights = make.other_rights,
            .rights = SESSION_SPACE_READ | SESSION_SPACE_WRITE};
        memcpy(one->stat.name, name, sizeof(name));
        make_memory(one);
        *birth = atomic_load(&fake->says_no_birth) ? 0 : one->stat.birth;
        if (atomic_load(&fake->makes_anew)) {
            one->stat.birth += 1000;
        }
        return NIGH_OK;
    }
    return NIGH_LIMIT;
}

static void answer(struct fake_node *node, const struct session_sqe *sqe, const void *bytes,
                   size_t count, struct session_cqe *cqe)
{
    memcpy(node->arena + sqe->offset, bytes, count);
    cqe->offset = sqe->offset;
    cqe->data_size = count;
}

static void answer_list(struct fake_space *fake, const char *after, const struct session_sqe *sqe,
                        struct session_cqe *cqe)
{
    struct session_space_page page = {.count = 0};

    for (uint32_t n = 0; n < FAKE_SPACES; n++) {
        if (fake->spaces[n].is_there && strcmp(fake->spaces[n].stat.name, after) > 0) {
            page.spaces[page.count++] = fake->spaces[n].stat;
        }
    }
    answer(fake->node, sqe, &page, sizeof(page), cqe);
}

static void answer_open(struct fake_space *fake, struct fake_one *one,
                        const struct session_sqe *sqe, struct session_cqe *cqe)
{
    uint32_t number = (uint32_t)(one - fake->spaces) + 1;
    struct session_space_opened opened = {
        .stat = one->stat, .cache_file = number * 2, .home_file = number * 2 + 1};

    one->opens++;
    cqe->generation = number;
    cqe->flags = SESSION_CQE_OPENED;
    answer(fake->node, sqe, &opened, sizeof(opened), cqe);
}

#define FIRST_WINDOW 1000u

static nigh_status make_window(struct fake_space *fake, struct session_cqe *cqe)
{
    struct fake_window *window = &fake->windows[fake->window_count];

    if (fake->window_count == FAKE_WINDOWS) {
        return NIGH_LIMIT;
    }
    need(memfd_create_sealed("fake-window", sizeof(*window->memory), 0, &window->fd) == NIGH_OK &&
             memfd_map(window->fd, sizeof(*window->memory), MEMFD_WRITABLE,
                       (void **)&window->memory) == NIGH_OK,
         "window");
    space_consumer_init(&window->consumer, window->memory);
    cqe->generation = FIRST_WINDOW + fake->window_count++;
    cqe->flags = SESSION_CQE_MAPPED;
    return NIGH_OK;
}

static int hollow_file(struct fake_space *fake)
{
    if (fake->hollow_fd < 0) {
        need(memfd_create_sealed("fake-hollow", SPACE_VIEW_PAGE, 0, &fake->hollow_fd) == NIGH_OK,
             "hollow file");
    }
    return fake->hollow_fd;
}

int fake_space_file(void *context, uint64_t number)
{
    struct fake_space *fake = context;

    if (atomic_load(&fake->loses_files)) {
        return -1;
    }
    if (number >= FIRST_WINDOW) {
        return number - FIRST_WINDOW < fake->window_count ? fake->windows[number - FIRST_WINDOW].fd
                                                          : -1;
    }
    if (number < 2 || number / 2 > FAKE_SPACES) {
        return -1;
    }
    if (atomic_load(&fake->hollow) > 0) {
        atomic_fetch_sub(&fake->hollow, 1);
        if (atomic_load(&fake->deletes_hollow)) {
            fake->spaces[number / 2 - 1].stat.name[0] = '\0';
        }
        return hollow_file(fake);
    }
    return number % 2 == 0 && !atomic_load(&fake->swaps_files)
               ? fake->spaces[number / 2 - 1].cache_fd
               : fake->spaces[number / 2 - 1].home_fd;
}

/* Of what has a number. */
static nigh_status answer_numbered(struct fake_space *fake, const struct session_sqe *sqe,
                                   struct session_cqe *cqe)
{
    uint64_t number;
    struct fake_one *one;

    memcpy(&number, sqe->id, sizeof(number));
    switch (sqe->name_size) {
    case SESSION_SPACE_WINDOW: return make_window(fake, cqe);
    case SESSION_SPACE_WINDOW_END:
        if (number < FIRST_WINDOW || number - FIRST_WINDOW >= fake->window_count) {
            return NIGH_INVALID;
        }
        fake->windows[number - FIRST_WINDOW].has_ended = true;
        return NIGH_OK;
    default:
        one = fake_space_of(fake, (uint32_t)number);
        if (one == NULL) {
            return NIGH_INVALID;
        }
        if (--one->opens == 0) {
            let_go_all(fake, (uint32_t)number);
        }
        return NIGH_OK;
    }
}

static nigh_status answer_named(struct fake_space *fake, const struct session_sqe *sqe,
                                struct session_cqe *cqe)
{
    const uint8_t *bytes = fake->node->arena + sqe->offset;
    char name[LIMIT_SPACE_NAME_BYTES + 1] = {0};
    struct fake_one *one;
    uint64_t birth;

    if (sqe->name_size == SESSION_SPACE_CREATE) {
        return create(fake, bytes, sqe->data_size, &cqe->generation);
    }
    memcpy(name, bytes, min_u64(sqe->data_size, LIMIT_SPACE_NAME_BYTES));
    if (sqe->name_size == SESSION_SPACE_LIST) {
        answer_list(fake, name, sqe, cqe);
        return NIGH_OK;
    }
    one = find(fake, name);
    memcpy(&birth, sqe->id, sizeof(birth));
    if (one == NULL || (birth != 0 && birth != one->stat.birth)) {
        return NIGH_NOT_FOUND;
    }
    if (sqe->name_size == SESSION_SPACE_OPEN) {
        answer_open(fake, one, sqe, cqe);
    } else if (sqe->name_size == SESSION_SPACE_STAT) {
        answer(fake->node, sqe, &one->stat, sizeof(one->stat), cqe);
    } else if (sqe->name_size == SESSION_SPACE_COUNT) {
        struct session_space_counts counts = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11};

        if (atomic_load(&fake->counts_none)) {
            return NIGH_INVALID;
        }
        answer(fake->node, sqe, &counts, sizeof(counts), cqe);
    } else {
        one->stat.name[0] = '\0'; /* who has it open goes on */
    }
    return NIGH_OK;
}

enum fake_action fake_space_hook(void *context, struct fake_node *node, uint32_t lane,
                                 const struct session_sqe *sqe, struct session_cqe *cqe)
{
    struct fake_space *fake = context;
    uint32_t what = sqe->name_size;

    (void)lane;
    fake->node = node;
    if (sqe->op == SESSION_OP_CALL_LEASE) {
        cqe->lease_offset = 0;
        cqe->lease_bytes = (uint64_t)PLACES * LIMIT_CALL_BYTES;
        return FAKE_ANSWER;
    }
    if (sqe->op != SESSION_OP_SPACE) {
        return FAKE_SERVE;
    }
    atomic_fetch_add(&fake->asked[what], 1);
    if ((atomic_load(&fake->keeps_whats) >> what & 1) != 0) {
        need(fake->kept_count < 16, "kept");
        fake->kept_whats[fake->kept_count] = what;
        fake->kept_cookies[fake->kept_count++] = sqe->cookie;
        return FAKE_KEEP;
    }
    cqe->status = atomic_load(&fake->status);
    if (cqe->status == NIGH_OK) {
        bool is_numbered = what == SESSION_SPACE_CLOSE || what == SESSION_SPACE_WINDOW ||
                           what == SESSION_SPACE_WINDOW_END;

        cqe->status = is_numbered ? answer_numbered(fake, sqe, cqe) : answer_named(fake, sqe, cqe);
    }
    return FAKE_ANSWER;
}

uint32_t fake_space_said(struct fake_space *fake, enum space_record_kind kind)
{
    return atomic_load(&fake->said[kind]);
}

uint32_t fake_space_asked(struct fake_space *fake, enum session_space_what what)
{
    return atomic_load(&fake->asked[what]);
}

void fake_space_init(struct fake_space *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->hollow_fd = -1;
}

void fake_space_fini(struct fake_space *fake)
{
    for (uint32_t n = 0; n < FAKE_SPACES; n++) {
        struct fake_one *one = &fake->spaces[n];

        if (one->is_there) {
            memfd_unmap(one->cache_memory, one->cache_bytes);
            memfd_unmap(one->home_memory, one->home_bytes);
            fd_close(&one->cache_fd);
            fd_close(&one->home_fd);
            free((void *)one->other);
        }
    }
    fd_close(&fake->hollow_fd);
    for (uint32_t n = 0; n < fake->window_count; n++) {
        memfd_unmap(fake->windows[n].memory, sizeof(*fake->windows[n].memory));
        fd_close(&fake->windows[n].fd);
    }
}
