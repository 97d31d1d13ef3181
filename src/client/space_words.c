/* SPDX-License-Identifier: Apache-2.0 */
/* Spaces: words that are changed at once, blocks that are locked, and memory that is had and given
 * back. Each is a question to the lane, but of a lock that was kept; which blocks it holds the
 * thread keeps itself. */
#include <string.h>

#include "client/error.h"
#include "client/space.h"

/* ---- words ---------------------------------------------------------------- */

static nigh_status change_word(nigh_space *space, const struct space_question *question,
                               uint64_t timeout_us, uint64_t *old, const char *call)
{
    struct client_window *window;
    nigh_status status = space_begin(space, NIGH_SPACE_ALL, timeout_us, call, &window);

    if (status != NIGH_OK) {
        return status;
    }
    if (question->address == 0 || question->address % 8 != 0) {
        return error_set(space->client, NIGH_INVALID,
                         "%s: a word lies at a multiple of 8, and none at 0", call);
    }
    return window_ask(space, window, question, op_deadline_us(timeout_us), old, NULL);
}

nigh_status nigh_space_fetch_add(nigh_space *space, nigh_space_address address, uint64_t add,
                                 uint64_t timeout_us, uint64_t *old)
{
    struct space_question question = {
        .kind = SPACE_RECORD_ADD, .address = address, .length = 8, .operands = {add, 0}};

    return change_word(space, &question, timeout_us, old, "nigh_space_fetch_add");
}

nigh_status nigh_space_exchange(nigh_space *space, nigh_space_address address, uint64_t value,
                                uint64_t timeout_us, uint64_t *old)
{
    struct space_question question = {
        .kind = SPACE_RECORD_EXCHANGE, .address = address, .length = 8, .operands = {value, 0}};

    return change_word(space, &question, timeout_us, old, "nigh_space_exchange");
}

nigh_status nigh_space_compare_swap(nigh_space *space, nigh_space_address address,
                                    uint64_t expected, uint64_t value, uint64_t timeout_us,
                                    uint64_t *old)
{
    struct space_question question = {
        .kind = SPACE_RECORD_SWAP, .address = address, .length = 8, .operands = {expected, value}};

    return change_word(space, &question, timeout_us, old, "nigh_space_compare_swap");
}

/* ---- locks ---------------------------------------------------------------- */

static bool is_open(const nigh_client *client, const struct client_window *window, uint32_t number)
{
    LIST_FOREACH(at, &client->space_memories)
    {
        const struct space_memory *memory = container_of(at, struct space_memory, place);

        if (memory->connection == window->connection && memory->mapped.number == number) {
            return true;
        }
    }
    return false;
}

/* What it held of spaces that were closed was let go as they were. */
static void forget_closed(nigh_client *client, struct client_window *window)
{
    client_lock(client);
    for (uint32_t n = window->hold_count; n-- > 0;) {
        if (!is_open(client, window, window->holds[n].space)) {
            window->holds[n] = window->holds[--window->hold_count];
        }
    }
    client_unlock(client);
}

/* Whether the thread has locked it before, of late: else it is not worth keeping, and who locked it
 * to write hides it from those who read. */
static bool is_locked_again(struct client_window *window, const nigh_space *space, uint64_t block)
{
    uint64_t hash = space_hash(block, space->mapped.cache.shift);
    uint64_t *last = &window->locked[space_note_of(&space->mapped, hash)];
    bool is_again = *last == block;

    *last = block;
    return is_again;
}

/* Has a lock again that it kept, as long as the node's lease stands: else others may go on without
 * it. Asks nobody. */
static bool take_kept(nigh_space *space, struct client_window *window, uint64_t block,
                      bool is_alone, uint32_t *kept)
{
    uint64_t until_us = space_until_us(space);

    *kept = space_producer_find_kept(&window->producer, &space->mapped, block, is_alone);
    if (*kept == SPACE_NO_KEPT || window->asks || !space_producer_is_empty(&window->producer) ||
        !space_producer_take_kept(&window->producer, *kept)) {
        return false;
    }
    if (likely(space_was_current(until_us))) {
        return true;
    }
    if (!space_producer_keep(&window->producer, *kept) &&
        space_producer_say(&window->producer, SPACE_RECORD_UNLOCK, &space->mapped, block)) {
        window_ring(space->client, window);
    }
    return false;
}

/* When a call gives up: known once it has to wait, as most that lock what is kept do not. */
struct patience {
    uint64_t timeout_us, deadline_us; /* deadline_us: 0: not known yet */
};

static uint64_t deadline_of(struct patience *patience)
{
    if (patience->deadline_us == 0) {
        patience->deadline_us = op_deadline_us(patience->timeout_us);
    }
    return patience->deadline_us;
}

static nigh_status ask_for_lock(nigh_space *space, struct client_window *window,
                                const struct space_question *question, struct patience *patience,
                                uint32_t *kept)
{
    uint64_t block = space_block_of(&space->mapped.cache, question->address), value = 0;
    bool is_alone =
        question->kind == SPACE_RECORD_LOCK_WRITE || question->kind == SPACE_RECORD_TRY_LOCK_WRITE;
    nigh_status status;

    if (take_kept(space, window, block, is_alone, kept)) {
        space_producer_count(&window->producer, space->mapped.number, SPACE_COUNT_KEPT);
        return NIGH_OK;
    }
    status = window_ask(space, window, question, deadline_of(patience), &value, NULL);
    if (status == NIGH_OK) {
        space_producer_count(&window->producer, space->mapped.number, SPACE_COUNT_LOCKS);
        /* Noted in any case: a lock that was let go here, unheard, has its word no more. */
        *kept = space_producer_note_lock(&window->producer, &space->mapped, block, is_alone, value);
        if (!is_locked_again(window, space, block)) {
            *kept = SPACE_NO_KEPT;
        }
    }
    return status;
}

/* Lets go of one. Whose place it had has another then, or none. */
static nigh_status let_go(nigh_space *space, struct client_window *window, struct space_hold *hold,
                          struct patience *patience)
{
    nigh_status status = NIGH_OK;

    if (hold->kept == SPACE_NO_KEPT || window->asks ||
        !space_producer_is_of(&window->producer, hold->kept, hold->space, hold->block) ||
        !space_producer_keep(&window->producer, hold->kept)) {
        hold->kept = SPACE_NO_KEPT;
        status = window_say(space, window, SPACE_RECORD_UNLOCK, hold->block, deadline_of(patience));
    }
    if (status == NIGH_OK) {
        *hold = window->holds[--window->hold_count];
    }
    return status;
}

/* Blocks from the lowest address on: all who lock several have them in this order, and none waits
 * for another in a circle. */
struct range {
    uint64_t begin;       /* the first byte */
    uint64_t first, last; /* blocks */
    uint64_t size;        /* of a block */
};

static nigh_status make_range(nigh_space *space, uint64_t address, uint64_t length,
                              const char *call, struct range *range)
{
    uint64_t last;

    if (address == 0 || length == 0 || __builtin_add_overflow(address, length - 1, &last)) {
        return error_set(space->client, NIGH_INVALID, "%s: %s", call,
                         address == 0  ? "nothing is at address 0"
                         : length == 0 ? "a range has bytes"
                                       : "the range ends behind all addresses");
    }
    range->begin = address;
    range->size = nigh_space_block_size(space);
    range->first = space_block_of(&space->mapped.cache, address);
    range->last = space_block_of(&space->mapped.cache, last);
    return NIGH_OK;
}

static bool is_within(const struct space_hold *hold, const nigh_space *space,
                      const struct range *range)
{
    return hold->space == space->mapped.number && hold->block >= range->first &&
           hold->block <= range->last;
}

/* Lets go of what the thread holds of a range. */
static nigh_status let_go_of(nigh_space *space, struct client_window *window,
                             const struct range *range, uint64_t timeout_us)
{
    struct patience patience = {.timeout_us = timeout_us};
    nigh_status status = NIGH_OK;

    for (uint32_t n = window->hold_count; n-- > 0 && status == NIGH_OK;) {
        if (is_within(&window->holds[n], space, range)) {
            status = let_go(space, window, &window->holds[n], &patience);
        }
    }
    return status;
}

static bool holds_any(const struct client_window *window, const nigh_space *space,
                      const struct range *range)
{
    for (uint32_t n = 0; n < window->hold_count; n++) {
        if (is_within(&window->holds[n], space, range)) {
            return true;
        }
    }
    return false;
}

/* That it holds none of it, and may hold as many more. */
static nigh_status check_room(nigh_space *space, struct client_window *window,
                              const struct range *range, const char *call)
{
    uint64_t count = (range->last - range->first) / range->size + 1;

    if (count > LIMIT_SPACE_HOLDS - window->hold_count) {
        forget_closed(space->client, window);
    }
    if (count > LIMIT_SPACE_HOLDS - window->hold_count) {
        return error_set(space->client, NIGH_LIMIT,
                         "%s: a thread holds %d blocks at most; it holds %u, and asks for %llu",
                         call, LIMIT_SPACE_HOLDS, window->hold_count, (unsigned long long)count);
    }
    if (holds_any(window, space, range)) {
        return error_set(space->client, NIGH_INVALID, "%s: this thread holds %s already", call,
                         count == 1 ? "the block" : "one of the blocks");
    }
    return NIGH_OK;
}

static nigh_status lock_all(nigh_space *space, struct client_window *window,
                            const struct range *range, enum space_record_kind kind,
                            uint64_t timeout_us)
{
    struct patience patience = {.timeout_us = timeout_us};

    for (uint64_t block = range->first; block <= range->last; block += range->size) {
        struct space_hold hold = {.block = block, .space = space->mapped.number};
        struct space_question question = {.kind = kind, .address = max_u64(block, range->begin)};
        nigh_status status = ask_for_lock(space, window, &question, &patience, &hold.kept);

        if (status != NIGH_OK) {
            /* There is room to say so: a lock had waited for all that was said before it. */
            (void)let_go_of(space, window, range, LIMIT_NODE_GRACE_US);
            return status;
        }
        window->holds[window->hold_count++] = hold;
    }
    return NIGH_OK;
}

static nigh_status lock(nigh_space *space, const uint64_t where[2], enum space_record_kind kind,
                        uint32_t access, uint64_t timeout_us, const char *call)
{
    struct client_window *window;
    struct range range = {0};
    nigh_status status = space_begin(space, access, timeout_us, call, &window);

    if (status == NIGH_OK) {
        status = make_range(space, where[0], where[1], call, &range);
    }
    if (status == NIGH_OK) {
        status = check_room(space, window, &range, call);
    }
    return status == NIGH_OK ? lock_all(space, window, &range, kind, timeout_us) : status;
}

nigh_status nigh_space_lock_read(nigh_space *space, nigh_space_address address, uint64_t length,
                                 uint64_t timeout_us)
{
    return lock(space, (uint64_t[]){address, length}, SPACE_RECORD_LOCK_READ, NIGH_SPACE_READ,
                timeout_us, "nigh_space_lock_read");
}

nigh_status nigh_space_lock_write(nigh_space *space, nigh_space_address address, uint64_t length,
                                  uint64_t timeout_us)
{
    return lock(space, (uint64_t[]){address, length}, SPACE_RECORD_LOCK_WRITE, NIGH_SPACE_WRITE,
                timeout_us, "nigh_space_lock_write");
}

nigh_status nigh_space_try_lock_read(nigh_space *space, nigh_space_address address, uint64_t length,
                                     uint64_t timeout_us)
{
    return lock(space, (uint64_t[]){address, length}, SPACE_RECORD_TRY_LOCK_READ, NIGH_SPACE_READ,
                timeout_us, "nigh_space_try_lock_read");
}

nigh_status nigh_space_try_lock_write(nigh_space *space, nigh_space_address address,
                                      uint64_t length, uint64_t timeout_us)
{
    return lock(space, (uint64_t[]){address, length}, SPACE_RECORD_TRY_LOCK_WRITE, NIGH_SPACE_WRITE,
                timeout_us, "nigh_space_try_lock_write");
}

nigh_status nigh_space_unlock(nigh_space *space, nigh_space_address address, uint64_t length,
                              uint64_t timeout_us)
{
    struct client_window *window;
    struct range range = {0};
    nigh_status status = space_begin(space, 0, timeout_us, "nigh_space_unlock", &window);

    if (status == NIGH_OK) {
        status = make_range(space, address, length, "nigh_space_unlock", &range);
    }
    if (status == NIGH_OK && !holds_any(window, space, &range)) {
        status = error_set(space->client, NIGH_INVALID,
                           "nigh_space_unlock: this thread does not hold %s",
                           range.first == range.last ? "the block" : "any of the blocks");
    }
    return status == NIGH_OK ? let_go_of(space, window, &range, timeout_us) : status;
}

/* ---- memory --------------------------------------------------------------- */

_Static_assert(NIGH_SPACE_ALIGN_MOST == UINT64_C(1) << LIMIT_SPACE_ALIGN_BITS, "it is public");

static nigh_status allocate(nigh_space *space, const struct space_question *question,
                            uint64_t timeout_us, nigh_space_address *address, const char *call)
{
    struct client_window *window;
    nigh_status status = space_begin(space, NIGH_SPACE_WRITE, timeout_us, call, &window);

    if (status != NIGH_OK) {
        return status;
    }
    if (question->operands[0] == 0 || address == NULL) {
        return error_set(space->client, NIGH_INVALID, "%s: %s", call,
                         address == NULL ? "there is no place for the address"
                                         : "no bytes are wanted");
    }
    return window_ask(space, window, question, op_deadline_us(timeout_us), address, NULL);
}

nigh_status nigh_space_alloc(nigh_space *space, uint64_t size, nigh_space_address near,
                             uint64_t timeout_us, nigh_space_address *address)
{
    struct space_question question = {
        .kind = SPACE_RECORD_ALLOC, .address = near, .operands = {size, 0}};

    return allocate(space, &question, timeout_us, address, "nigh_space_alloc");
}

nigh_status nigh_space_alloc_aligned(nigh_space *space, uint64_t size, uint64_t alignment,
                                     nigh_space_address near, uint64_t timeout_us,
                                     nigh_space_address *address)
{
    struct space_question question = {
        .kind = SPACE_RECORD_ALLOC, .address = near, .operands = {size, alignment}};
    nigh_space_address made = 0;
    nigh_status status;

    if (space != NULL && (!is_pow2(alignment) || alignment > NIGH_SPACE_ALIGN_MOST)) {
        return error_set(space->client, NIGH_INVALID,
                         "nigh_space_alloc_aligned: an alignment is a power of two, up to %llu, "
                         "not %llu",
                         (unsigned long long)NIGH_SPACE_ALIGN_MOST, (unsigned long long)alignment);
    }
    status = allocate(space, &question, timeout_us, address == NULL ? NULL : &made,
                      "nigh_space_alloc_aligned");
    if (status != NIGH_OK) {
        return status;
    }
    if (made % alignment != 0) {
        (void)nigh_space_free(space, made, LIMIT_NODE_GRACE_US);
        return error_set(space->client, NIGH_UNSUPPORTED,
                         "nigh_space_alloc_aligned: the node is older than this libnigh, and gives "
                         "memory at any block");
    }
    *address = made;
    return NIGH_OK;
}

nigh_status nigh_space_calloc(nigh_space *space, uint64_t count, uint64_t size,
                              nigh_space_address near, uint64_t timeout_us,
                              nigh_space_address *address)
{
    uint64_t bytes;

    if (space != NULL && __builtin_mul_overflow(count, size, &bytes)) {
        return error_set(space->client, NIGH_OUT_OF_MEMORY,
                         "nigh_space_calloc: no node has so many bytes");
    }
    return nigh_space_alloc(space, count * size, near, timeout_us, address);
}

nigh_status nigh_space_free(nigh_space *space, nigh_space_address address, uint64_t timeout_us)
{
    struct space_question question = {.kind = SPACE_RECORD_FREE, .address = address};
    struct client_window *window;
    nigh_status status =
        space_begin(space, NIGH_SPACE_WRITE, timeout_us, "nigh_space_free", &window);

    if (status != NIGH_OK || address == 0) {
        return status;
    }
    return window_ask(space, window, &question, op_deadline_us(timeout_us), NULL, NULL);
}

/* By way of a buffer of some blocks: neither range need fit the stack. */
static nigh_status copy(nigh_space *space, uint64_t to, uint64_t from, uint64_t size,
                        const struct client_op *until)
{
    uint8_t bytes[LIMIT_SPACE_BLOCK_BYTES];
    nigh_status status = NIGH_OK;

    for (uint64_t done = 0; done < size && status == NIGH_OK;) {
        uint64_t count = min_u64(size - done, sizeof(bytes));

        status = nigh_space_read(space, from + done, bytes, count, op_remaining_us(until));
        if (status == NIGH_OK) {
            status = nigh_space_write(space, to + done, bytes, count, op_remaining_us(until));
        }
        done += count;
    }
    /* Nobody is told of it before it is there. */
    return status == NIGH_OK ? nigh_space_flush(space, op_remaining_us(until), NULL) : status;
}

/* Whether its bytes are rather at the new address than at the old one, whose free ended so. What
 * was written by a node that is gone is only where logs are. */
static bool is_moved(const nigh_space *space, nigh_status status)
{
    switch (status) {
    case NIGH_OK:
    case NIGH_TIMEOUT:
    case NIGH_PEER_LOST:
    case NIGH_DISK:
    case NIGH_CORRUPT: return true;
    case NIGH_NODE_LOST:
    case NIGH_CLOSED:
    case NIGH_EXPELLED: return space->is_durable;
    default: return false;
    }
}

nigh_status nigh_space_realloc(nigh_space *space, uint64_t old_size, uint64_t size,
                               uint64_t timeout_us, nigh_space_address *address)
{
    struct client_op until = {.deadline_us = op_deadline_us(timeout_us)};
    nigh_space_address made;
    nigh_status status;

    if (space == NULL) {
        return NIGH_INVALID;
    }
    if (address == NULL) {
        return error_set(space->client, NIGH_INVALID,
                         "nigh_space_realloc: there is no place for the address");
    }
    if (*address == 0) {
        return nigh_space_alloc(space, size, 0, timeout_us, address);
    }
    if (size == 0) {
        status = nigh_space_free(space, *address, timeout_us);
        *address = status == NIGH_OK ? 0 : *address;
        return status;
    }
    status = nigh_space_alloc(space, size, *address, timeout_us, &made);
    if (status != NIGH_OK) {
        return status;
    }
    status = copy(space, made, *address, min_u64(old_size, size), &until);
    if (status == NIGH_OK) {
        status = nigh_space_free(space, *address, op_remaining_us(&until));
        /* What is wrong at the old one the next call says. */
        status = is_moved(space, status) ? NIGH_OK : status;
    }
    if (status != NIGH_OK) {
        (void)nigh_space_free(space, made, LIMIT_NODE_GRACE_US);
        return status;
    }
    *address = made;
    return NIGH_OK;
}
