/* SPDX-License-Identifier: Apache-2.0 */
/* See node_spaces.h. */
#include "node_spaces.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "memory/space_record.h"

#define NAMES      4u /* of spaces, of all clients */
#define ALL_RIGHTS (SESSION_SPACE_READ | SESSION_SPACE_WRITE)

/* By the low bits of a file's number, less 1. */
enum file_kind {
    FILE_CACHE,
    FILE_HOME,
    FILE_WINDOW
};

/* ---- questions ------------------------------------------------------------ */

static uint64_t put_name(struct fuzz_input *input, uint8_t *at)
{
    uint8_t shape = fuzz_byte(input);

    memset(at, 's', LIMIT_SPACE_NAME_BYTES + 2);
    at[0] = (uint8_t)('a' + shape % NAMES);
    if ((shape & 0xf0) == 0xf0) {
        at[shape % 3] = shape;
        return fuzz_byte(input) % (LIMIT_SPACE_NAME_BYTES + 2u);
    }
    return 1;
}

static uint64_t put_make(struct fuzz_input *input, uint8_t *at)
{
    uint8_t shape = fuzz_byte(input);
    struct session_space_make make = {.home_bytes = UINT64_C(4096) << shape % 8,
                                      .block_bytes = 64u << shape / 8 % 8,
                                      .group_rights = shape / 16 % 4,
                                      .other_rights = shape / 64 % 4};

    if (shape % 8 == 7) {
        make.home_bytes = fuzz_number(input);
        make.cache_bytes = fuzz_number(input);
        fuzz_patch(input, &make, sizeof(make));
    }
    memcpy(at, &make, sizeof(make));
    return sizeof(make) + put_name(input, at + sizeof(make));
}

void spaces_make_question(struct fuzz_input *input, const struct client_spaces *spaces,
                          uint8_t *places, struct session_sqe *sqe)
{
    /* What lets others be asked for comes more often. */
    static const uint8_t whats[] = {
        SESSION_SPACE_CREATE, SESSION_SPACE_OPEN,   SESSION_SPACE_WINDOW,     SESSION_SPACE_CREATE,
        SESSION_SPACE_OPEN,   SESSION_SPACE_CLOSE,  SESSION_SPACE_DELETE,     SESSION_SPACE_STAT,
        SESSION_SPACE_LIST,   SESSION_SPACE_WINDOW, SESSION_SPACE_WINDOW_END, SESSION_SPACE_COUNT};
    uint8_t shape = fuzz_byte(input);
    uint64_t place = shape / 16 % LIMIT_OWN_PLACES * LIMIT_CALL_BYTES;
    struct session_space_id id = {.number = spaces->number, .argument = 1 + shape % 3};

    memset(sqe, 0, sizeof(*sqe));
    sqe->op = SESSION_OP_SPACE;
    sqe->name_size = whats[shape % ARRAY_LENGTH(whats)];
    sqe->offset = SESSION_OWN_PLACE | place;
    sqe->argument = UINT64_C(1) << fuzz_byte(input) % 25;
    switch ((enum session_space_what)sqe->name_size) {
    case SESSION_SPACE_CREATE: sqe->data_size = put_make(input, places + place); break;
    case SESSION_SPACE_OPEN:
        id.number = (shape & 0x40) != 0 ? spaces->birth : 0;
        sqe->data_size = put_name(input, places + place);
        break;
    case SESSION_SPACE_DELETE:
    case SESSION_SPACE_COUNT:
    case SESSION_SPACE_STAT: sqe->data_size = put_name(input, places + place); break;
    case SESSION_SPACE_WINDOW_END: id.number = spaces->files[FILE_WINDOW]; break;
    default: break;
    }
    if ((shape & 0xc0) == 0xc0)
        fuzz_patch(input, &id, sizeof(id));
    memcpy(sqe->id, &id, sizeof(sqe->id));
    if ((shape & 0xc0) == 0x80)
        fuzz_patch(input, sqe, sizeof(*sqe));
}

static void check_rights(const struct world_peer *who, const struct session_space_stat *stat,
                         uint32_t wanted)
{
    uint32_t rights = stat->other_rights | (who->uid == stat->gid ? stat->group_rights : 0);

    if (who->uid == stat->uid || who->uid == 0)
        rights = ALL_RIGHTS;
    NIGH_ASSERT(stat->rights != 0 && (stat->rights & ~rights) == 0);
    NIGH_ASSERT((stat->rights & wanted) == wanted);
    NIGH_ASSERT(stat->name[LIMIT_SPACE_NAME_BYTES] == 0 && stat->name[0] != 0);
}

static void take_opened(struct client_spaces *spaces, const struct world_peer *who,
                        const struct session_sqe *sqe, const struct session_cqe *cqe,
                        const uint8_t *at)
{
    struct session_space_opened opened;
    struct session_space_id id = {0};

    memcpy(&id, sqe->id, sizeof(sqe->id));
    memcpy(&opened, at, sizeof(opened));
    check_rights(who, &opened.stat, (uint32_t)id.argument);
    NIGH_ASSERT(id.number == 0 || opened.stat.birth == id.number);
    NIGH_ASSERT(cqe->generation != 0 && cqe->generation <= UINT32_MAX);
    spaces->number = (uint32_t)cqe->generation;
    spaces->files[FILE_CACHE] = opened.cache_file;
    spaces->files[FILE_HOME] = opened.home_file;
}

void spaces_take_answer(struct client_spaces *spaces, const struct world_peer *who,
                        const struct session_sqe *sqe, const struct session_cqe *cqe,
                        const uint8_t *places)
{
    const uint8_t *at = session_place_at((uint8_t *)(uintptr_t)places, sqe->offset, cqe->data_size);
    struct session_space_stat stat;
    struct session_space_counts counts;
    struct session_space_page page;

    if (sqe->op != SESSION_OP_SPACE || cqe->status != NIGH_OK || at == NULL)
        return;
    switch ((enum session_space_what)sqe->name_size) {
    case SESSION_SPACE_CREATE:
        NIGH_ASSERT(cqe->generation != 0);
        spaces->birth = cqe->generation;
        break;
    case SESSION_SPACE_OPEN: take_opened(spaces, who, sqe, cqe, at); break;
    case SESSION_SPACE_STAT:
        memcpy(&stat, at, sizeof(stat));
        check_rights(who, &stat, 0);
        break;
    case SESSION_SPACE_COUNT:
        memcpy(&counts, at, sizeof(counts));
        NIGH_ASSERT(counts.hits <= counts.reads && counts.kept <= counts.locks);
        break;
    case SESSION_SPACE_LIST:
        memcpy(&page, at, sizeof(page));
        NIGH_ASSERT(page.count <= SESSION_SPACE_PAGE);
        for (uint32_t n = 0; n < page.count; n++)
            check_rights(who, &page.spaces[n], 0);
        break;
    case SESSION_SPACE_WINDOW: spaces->files[FILE_WINDOW] = cqe->generation; break;
    default: break;
    }
}

/* ---- files ---------------------------------------------------------------- */

uint64_t spaces_file_number(struct fuzz_input *input, const struct client_spaces *spaces)
{
    uint8_t shape = fuzz_byte(input);

    return shape % 4 < ARRAY_LENGTH(spaces->files) ? spaces->files[shape % 4] + shape / 64
                                                   : fuzz_number(input);
}

static void take_window(struct client_spaces *spaces, int fd)
{
    void *memory =
        mmap(NULL, sizeof(struct space_window), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    NIGH_ASSERT(memory != MAP_FAILED);
    if (spaces->window != NULL)
        munmap(spaces->window, sizeof(struct space_window));
    spaces->window = memory;
    space_producer_init(&spaces->producer, spaces->window);
}

/* What others write cannot be written by who has it, whatever he does with the descriptor. */
static void look_at_view(const struct world *world, const struct world_peer *who, int fd)
{
    NIGH_ASSERT((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    NIGH_ASSERT(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    NIGH_ASSERT(world_may_read_space(world, fd, who->uid));
}

void spaces_take_file(struct fuzz_input *input, struct client_spaces *spaces,
                      const struct world *world, const struct world_peer *who, uint64_t number,
                      int fd)
{
    struct stat like;

    NIGH_ASSERT(fstat(fd, &like) == 0 && ftruncate(fd, 1) != 0 && ftruncate(fd, INT32_MAX) != 0);
    if ((number & 3) != FILE_WINDOW + 1) {
        look_at_view(world, who, fd);
        return;
    }
    NIGH_ASSERT(like.st_size == sizeof(struct space_window));
    take_window(spaces, fd);
    if (fuzz_byte(input) % 16 == 15)
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        fuzz_byte(input) % 8 * (off_t)SESSION_PAGE, SESSION_PAGE);
}

/* ---- windows -------------------------------------------------------------- */

static void hear(struct client_spaces *spaces)
{
    uint64_t value;

    if (space_producer_is_answered(&spaces->producer) && spaces->asked == SPACE_RECORD_ALLOC &&
        space_producer_answer(&spaces->producer, &value, NULL, 0) == NIGH_OK)
        spaces->address = value;
}

static uint64_t any_address(struct fuzz_input *input, const struct client_spaces *spaces)
{
    uint8_t shape = fuzz_byte(input);

    if (shape % 8 == 7)
        return fuzz_number(input);
    return spaces->address + shape / 8 * UINT64_C(64) + shape % 8 / 6;
}

static void say_write(struct fuzz_input *input, struct client_spaces *spaces,
                      const struct space_mapped *space)
{
    static const uint8_t bytes[LIMIT_SPACE_BLOCK_BYTES] = {0xa5};
    uint64_t address = any_address(input, spaces), ticket;
    uint32_t length = 1 + (uint32_t)fuzz_number(input) % LIMIT_SPACE_BLOCK_BYTES;

    (void)space_producer_write(&spaces->producer, space, address, bytes, length, &ticket);
}

static void say_ask(struct fuzz_input *input, struct client_spaces *spaces,
                    const struct space_mapped *space)
{
    enum space_record_kind kind =
        SPACE_RECORD_READ + fuzz_byte(input) % (SPACE_RECORD_KINDS - SPACE_RECORD_READ);
    uint64_t address = any_address(input, spaces);
    uint64_t operands[2] = {fuzz_number(input), fuzz_byte(input)};
    uint32_t length = kind == SPACE_RECORD_READ ? 1 + fuzz_byte(input) : 0;

    if (space_kind_is_atomic(kind))
        length = 8;
    if (!space_kind_is_asked(kind))
        (void)space_producer_say(&spaces->producer, kind, space, address);
    else if (space_producer_ask(&spaces->producer, kind, space, address, length, operands,
                                UINT64_C(1) << fuzz_byte(input) % 25))
        spaces->asked = kind;
}

/* A record that no client writes, or none at all. */
static void say_odd(struct fuzz_input *input, struct client_spaces *spaces)
{
    struct space_producer *producer = &spaces->producer;
    struct space_window *window = spaces->window;

    for (uint32_t n = 0; n < 6; n++)
        space_ring_store(window, producer->tail + n * 8, fuzz_number(input));
    space_ring_store(window, producer->tail,
                     space_word_of(fuzz_byte(input), fuzz_byte(input), (uint16_t)fuzz_number(input),
                                   spaces->number));
    producer->tail += (fuzz_byte(input) % 5 + UINT64_C(1)) * SPACE_GRANULE;
    shared_store_release(&window->tail.value, producer->tail);
}

/* Any word, also those that the lane writes. */
static void scribble(struct fuzz_input *input, struct client_spaces *spaces)
{
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)spaces->window;
    uint64_t at = fuzz_number(input) * 16 % (sizeof(struct space_window) / sizeof(*words));

    shared_store_release(&words[at], fuzz_number(input));
}

void spaces_say(struct fuzz_input *input, struct client_spaces *spaces)
{
    struct space_mapped space = {.number = spaces->number};
    uint8_t what = fuzz_byte(input) % 16;

    if (spaces->window == NULL)
        return;
    hear(spaces);
    switch (what) {
    case 0:
    case 1:
    case 2: say_write(input, spaces, &space); break;
    case 3:
        (void)space_producer_say(&spaces->producer, SPACE_RECORD_FENCE, &space,
                                 any_address(input, spaces));
        break;
    case 4:
        (void)space_producer_say(&spaces->producer, SPACE_RECORD_UNLOCK, &space,
                                 any_address(input, spaces));
        break;
    case 5:
        space_producer_hint(&spaces->producer, space.number, (uint32_t)fuzz_number(input));
        break;
    case 6: shared_store_release(&spaces->window->hint_count.value, fuzz_number(input)); break;
    case 7:
        shared_store_release(&spaces->window->asleep.value, (uint32_t)fuzz_number(input));
        break;
    case 8: say_odd(input, spaces); break;
    case 9: scribble(input, spaces); break;
    default: say_ask(input, spaces, &space); break;
    }
}

void spaces_forget(struct client_spaces *spaces)
{
    if (spaces->window != NULL)
        munmap(spaces->window, sizeof(struct space_window));
    memset(spaces, 0, sizeof(*spaces));
}
