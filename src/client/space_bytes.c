/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: bytes, and the order in which they are seen. Reads look at the thread's own writes and at
 * what the node has mapped for it, and ask only for what is not there; writes go into the thread's
 * window. What lies in several blocks is cut: no record is of more than one.
 */
#include "client/error.h"
#include "client/space.h"

/* ---- read ----------------------------------------------------------------- */

static nigh_status ask_bytes(nigh_space *space, struct client_window *window, uint64_t address,
                             void *bytes, uint32_t length, uint64_t deadline_us)
{
    struct space_question question = {
        .kind = SPACE_RECORD_READ, .address = address, .length = length};

    space_producer_count(&window->producer, space->mapped.number, SPACE_COUNT_MISSES);
    return window_ask(space, window, &question, deadline_us, NULL, bytes);
}

/* Reads what is here, by the lease that the node had before the read. */
static inline bool is_here(nigh_space *space, struct client_window *window, uint64_t address,
                           void *bytes, uint32_t length)
{
    uint64_t until_us = space_until_us(space);

    return likely(space_producer_read(&window->producer, &space->mapped, address, bytes, length) ==
                  SPACE_READ) &&
           likely(space_was_current(until_us));
}

/* ... and counts what was. */
static inline bool read_here(nigh_space *space, struct client_window *window, uint64_t address,
                             void *bytes, uint32_t length)
{
    if (!is_here(space, window, address, bytes, length)) {
        return false;
    }
    space_producer_count(&window->producer, space->mapped.number, SPACE_COUNT_HITS);
    return true;
}

/* A read of several blocks: what is left of it. */
struct range {
    uint64_t address;
    uint8_t *bytes;
    uint64_t size;
    uint64_t fetched; /* up to this its blocks are here or on their way; 0: no more than are here */
};

/* Says which blocks come next, as far ahead as may be, once half of that is read: whatever is not
 * here by its turn is asked for then. */
static void fetch_ahead(nigh_space *space, struct client_window *window, struct range *range)
{
    uint64_t block_bytes = space->mapped.cache.mask + 1;
    uint64_t block = range->address & ~space->mapped.cache.mask;
    uint64_t last = (range->address + range->size - 1) & ~space->mapped.cache.mask;
    uint64_t ahead = range->fetched < block ? block : range->fetched;
    uint64_t most = min_u64(block + LIMIT_SPACE_FETCHES * block_bytes, last + block_bytes);
    bool has_said = false;

    if (!space->client->fetches || ahead - block > LIMIT_SPACE_FETCHES / 2 * block_bytes) {
        return;
    }
    for (; ahead < most; ahead += block_bytes) {
        uint8_t byte;

        if (!is_here(space, window, ahead, &byte, 1)) {
            if (!space_producer_say(&window->producer, SPACE_RECORD_FETCH, &space->mapped, ahead)) {
                break;
            }
            has_said = true;
        }
    }
    range->fetched = ahead;
    if (has_said) {
        window_ring(space->client, window);
    }
}

/* The clock is asked for what is not here alone. */
static nigh_status read_range(nigh_space *space, struct client_window *window, struct range *range,
                              uint64_t timeout_us)
{
    uint64_t deadline_us = 0;

    while (range->size > 0) {
        uint32_t length = space_piece(&space->mapped.cache, range->address, range->size);

        if (range->fetched != 0) {
            fetch_ahead(space, window, range);
        }
        if (!read_here(space, window, range->address, range->bytes, length)) {
            nigh_status status;

            if (deadline_us == 0) {
                deadline_us = op_deadline_us(timeout_us);
            }
            if (range->fetched == 0 && range->size > length) {
                fetch_ahead(space, window, range);
            }
            status = ask_bytes(space, window, range->address, range->bytes, length, deadline_us);
            if (status != NIGH_OK) {
                return status;
            }
        }
        range->address += length;
        range->bytes += length;
        range->size -= length;
    }
    return NIGH_OK;
}

nigh_status nigh_space_read(nigh_space *space, nigh_space_address address, void *bytes,
                            uint64_t size, uint64_t timeout_us)
{
    struct client_window *window;
    struct range range;
    nigh_status status =
        space_begin(space, NIGH_SPACE_READ, timeout_us, "nigh_space_read", &window);

    if (unlikely(status != NIGH_OK) || unlikely(size == 0)) {
        return status;
    }
    if (unlikely(address == 0 || bytes == NULL || size > UINT64_MAX - address)) {
        return space_check_range(space, address, bytes, size, "nigh_space_read");
    }
    if (likely(size <= space->mapped.cache.mask + 1 - (address & space->mapped.cache.mask)) &&
        likely(read_here(space, window, address, bytes, (uint32_t)size))) {
        return NIGH_OK;
    }
    range = (struct range){.address = address, .bytes = (uint8_t *)bytes, .size = size};
    return read_range(space, window, &range, timeout_us);
}

nigh_status nigh_space_get(nigh_space *space, nigh_space_address address, uint64_t timeout_us,
                           uint64_t *value)
{
    if (unlikely(space != NULL && address % 8 != 0)) {
        return error_set(space->client, NIGH_INVALID,
                         "nigh_space_get: a word lies at a multiple of 8");
    }
    return nigh_space_read(space, address, value, sizeof(*value), timeout_us);
}

/* What is put, and got, is whole: so it lies in one block. */
static nigh_status check_whole(const nigh_space *space, nigh_space_address address, uint64_t size,
                               const char *call)
{
    uint64_t block = space->mapped.cache.mask + 1;

    if (size == 0 || size > block - (address & space->mapped.cache.mask)) {
        return error_set(space->client, NIGH_INVALID,
                         "%s: a value has bytes, and lies in one block of %llu", call,
                         (unsigned long long)block);
    }
    return NIGH_OK;
}

nigh_status nigh_space_get_bytes(nigh_space *space, nigh_space_address address, void *bytes,
                                 uint64_t size, uint64_t timeout_us)
{
    nigh_status status =
        space == NULL ? NIGH_INVALID : check_whole(space, address, size, "nigh_space_get_bytes");

    return status == NIGH_OK ? nigh_space_read(space, address, bytes, size, timeout_us) : status;
}

/* ---- write ---------------------------------------------------------------- */

static nigh_status write_piece(nigh_space *space, struct client_window *window, uint64_t address,
                               const uint8_t *bytes, uint32_t length, uint64_t timeout_us,
                               uint64_t *deadline_us, uint64_t *ticket)
{
    while (
        !space_producer_write(&window->producer, &space->mapped, address, bytes, length, ticket)) {
        nigh_status status;

        if (*deadline_us == 0) {
            *deadline_us = op_deadline_us(timeout_us);
        }
        status = window_wait_room(space, window, *deadline_us);
        if (status != NIGH_OK) {
            return status;
        }
    }
    return NIGH_OK;
}

/* Of no bytes: it is done. `deadline_us`: 0 as long as the clock was not asked. */
static nigh_status write_all(nigh_space *space, struct client_window *window, uint64_t address,
                             const uint8_t *bytes, uint64_t size, uint64_t timeout_us,
                             uint64_t deadline_us, nigh_space_ticket *ticket)
{
    nigh_status status = NIGH_OK;

    *ticket = (nigh_space_ticket){.first = 1, .last = 0, .buffer = window->serial};
    while (size > 0 && status == NIGH_OK) {
        uint32_t length = space_piece(&space->mapped.cache, address, size);

        status = write_piece(space, window, address, bytes, length, timeout_us, &deadline_us,
                             &ticket->last);
        if (ticket->first == 1) { /* no record is there */
            ticket->first = ticket->last;
        }
        address += length;
        bytes += length;
        size -= length;
    }
    window_ring(space->client, window);
    return status;
}

nigh_status nigh_space_write_with(nigh_space *space, nigh_space_address address, const void *bytes,
                                  uint64_t size, uint64_t timeout_us, nigh_space_ticket *ticket)
{
    struct client_window *window;
    nigh_space_ticket made;
    nigh_status status =
        space_begin(space, NIGH_SPACE_WRITE, timeout_us, "nigh_space_write", &window);

    if (unlikely(status != NIGH_OK)) {
        return status;
    }
    if (unlikely(size > 0 && (address == 0 || bytes == NULL || size > UINT64_MAX - address))) {
        return space_check_range(space, address, bytes, size, "nigh_space_write");
    }
    status = write_all(space, window, address, (const uint8_t *)bytes, size, timeout_us, 0, &made);
    if (status == NIGH_OK && ticket != NULL) {
        *ticket = made;
    }
    return status;
}

nigh_status nigh_space_write(nigh_space *space, nigh_space_address address, const void *bytes,
                             uint64_t size, uint64_t timeout_us)
{
    return nigh_space_write_with(space, address, bytes, size, timeout_us, NULL);
}

/* A store fence, and the write: one deadline, and no clock where nothing is under way. */
static nigh_status put_behind(nigh_space *space, nigh_space_address address, const void *bytes,
                              uint64_t size, uint64_t timeout_us, const char *call)
{
    struct client_window *window;
    nigh_space_ticket made;
    uint64_t deadline_us = 0;
    nigh_status status = space_begin(space, NIGH_SPACE_WRITE, timeout_us, call, &window);

    if (status == NIGH_OK && (address == 0 || bytes == NULL || size > UINT64_MAX - address)) {
        return space_check_range(space, address, bytes, size, call);
    }
    if (status == NIGH_OK && !space_producer_is_empty(&window->producer)) {
        deadline_us = op_deadline_us(timeout_us);
        status = window_say(space, window, SPACE_RECORD_FENCE, 0, deadline_us);
    }
    return status == NIGH_OK ? write_all(space, window, address, (const uint8_t *)bytes, size,
                                         timeout_us, deadline_us, &made)
                             : status;
}

nigh_status nigh_space_put(nigh_space *space, nigh_space_address address, uint64_t value,
                           uint64_t timeout_us)
{
    if (space != NULL && (address == 0 || address % 8 != 0)) {
        return error_set(space->client, NIGH_INVALID,
                         "nigh_space_put: a word lies at a multiple of 8, and none at 0");
    }
    return put_behind(space, address, &value, sizeof(value), timeout_us, "nigh_space_put");
}

nigh_status nigh_space_put_bytes(nigh_space *space, nigh_space_address address, const void *bytes,
                                 uint64_t size, uint64_t timeout_us)
{
    nigh_status status =
        space == NULL ? NIGH_INVALID : check_whole(space, address, size, "nigh_space_put_bytes");

    return status == NIGH_OK
               ? put_behind(space, address, bytes, size, timeout_us, "nigh_space_put_bytes")
               : status;
}

/* ---- tickets -------------------------------------------------------------- */

/* Of one record it is known by itself; of several when all before the last one's end is. */
static bool is_done(const struct client_window *window, const nigh_space_ticket *ticket)
{
    if (ticket->first >= ticket->last) {
        return ticket->first > ticket->last ||
               space_producer_is_done(&window->producer, ticket->first);
    }
    return shared_load_acquire(&window->producer.window->head.value) > ticket->last;
}

static nigh_status begin_ticket(nigh_space *space, const nigh_space_ticket *ticket,
                                uint64_t timeout_us, const char *call,
                                struct client_window **window)
{
    nigh_status status = space_begin(space, 0, timeout_us, call, window);

    if (status == NIGH_OK && (ticket == NULL || ticket->buffer != (*window)->serial)) {
        return error_set(space->client, NIGH_INVALID, "%s: this thread has no such write", call);
    }
    return status;
}

nigh_status nigh_space_is_done(nigh_space *space, const nigh_space_ticket *ticket)
{
    struct client_window *window;
    nigh_status status = begin_ticket(space, ticket, 0, "nigh_space_is_done", &window);

    if (status != NIGH_OK) {
        return status;
    }
    return is_done(window, ticket) ? NIGH_OK : NIGH_PENDING;
}

static bool one_is_done(const struct client_window *window, uint64_t number)
{
    return space_producer_is_done(&window->producer, number);
}

static bool all_are_done(const struct client_window *window, uint64_t number)
{
    return shared_load_acquire(&window->producer.window->head.value) > number;
}

nigh_status nigh_space_wait(nigh_space *space, const nigh_space_ticket *ticket, uint64_t timeout_us)
{
    struct client_window *window;
    nigh_status status = begin_ticket(space, ticket, timeout_us, "nigh_space_wait", &window);

    if (status != NIGH_OK || is_done(window, ticket)) {
        return status;
    }
    return window_wait(space, window, ticket->first == ticket->last ? one_is_done : all_are_done,
                       ticket->last, op_deadline_us(timeout_us));
}

/* ---- fences --------------------------------------------------------------- */

nigh_status nigh_space_store_fence(nigh_space *space, uint64_t timeout_us)
{
    struct client_window *window;
    nigh_status status = space_begin(space, 0, timeout_us, "nigh_space_store_fence", &window);

    /* Where nothing is under way there is nothing to be ordered. */
    if (status != NIGH_OK || space_producer_is_empty(&window->producer)) {
        return status;
    }
    return window_say(space, window, SPACE_RECORD_FENCE, 0, op_deadline_us(timeout_us));
}

nigh_status nigh_space_fence(nigh_space *space, uint64_t timeout_us)
{
    struct client_window *window;
    nigh_status status = space_begin(space, 0, timeout_us, "nigh_space_fence", &window);

    if (status != NIGH_OK || space_producer_is_empty(&window->producer)) {
        return status;
    }
    return window_wait_empty(space, window, op_deadline_us(timeout_us));
}

nigh_status nigh_space_flush(nigh_space *space, uint64_t timeout_us, nigh_space_address *failed)
{
    struct space_question question = {.kind = SPACE_RECORD_FLUSH};
    struct client_window *window;
    uint64_t address;
    uint32_t count;
    nigh_status last;
    nigh_status status = space_begin(space, 0, timeout_us, "nigh_space_flush", &window);

    if (status == NIGH_OK) {
        status = window_ask(space, window, &question, op_deadline_us(timeout_us), NULL, NULL);
    }
    /* Of a log that failed some that were written before may be lost, and some refused since. */
    if (status != NIGH_OK && status != NIGH_DISK && status != NIGH_CORRUPT) {
        return status;
    }
    count = space_producer_failures(&window->producer, &last, &address);
    if (count == 0) {
        return status;
    }
    last = status != NIGH_OK ? status : last;
    if (failed != NULL) {
        *failed = address;
    }
    return space_say_lost(space->client, count, address,
                          last <= NIGH_OK && last >= NIGH_STATUS_LOWEST ? last : NIGH_PROTOCOL);
}
