/* SPDX-License-Identifier: Apache-2.0 */
/* See agreed.h. */
#include "cluster/agreed.h"

#include <string.h>

struct agreed_set agreed_all(uint32_t count)
{
    struct agreed_set set = {{0}};

    for (uint32_t rank = 0; rank < count; rank++) {
        agreed_put(&set, rank, true);
    }
    return set;
}

uint32_t agreed_size(const struct agreed_set *set)
{
    uint32_t size = 0;

    for (uint32_t n = 0; n < AGREED_WORDS; n++) {
        size += (uint32_t)__builtin_popcountll(set->words[n]);
    }
    return size;
}

/* Whether all of a set are below count. */
static bool is_within(const struct agreed_set *set, uint32_t count)
{
    struct agreed_set all = agreed_all(count);

    for (uint32_t n = 0; n < AGREED_WORDS; n++) {
        if ((set->words[n] & ~all.words[n]) != 0) {
            return false;
        }
    }
    return true;
}

static bool contains(const struct agreed_set *set, const struct agreed_set *part)
{
    for (uint32_t n = 0; n < AGREED_WORDS; n++) {
        if ((part->words[n] & ~set->words[n]) != 0) {
            return false;
        }
    }
    return true;
}

void agreed_init(struct agreed *agreed, uint32_t count)
{
    *agreed = (struct agreed){.epoch = 1, .active = 1};
    agreed->in = agreed->wary = agreed_all(count);
}

nigh_status agreed_apply(struct agreed *agreed, uint32_t count,
                         const struct agreed_command *command)
{
    if (command->kind != AGREED_SET && command->kind != AGREED_ACTIVATE) {
        return NIGH_INVALID;
    }
    if (command->kind == AGREED_SET &&
        (agreed_size(&command->in) == 0 || !is_within(&command->in, count))) {
        return NIGH_INVALID;
    }
    if (command->epoch != agreed->epoch) {
        return NIGH_BUSY;
    }
    if (command->kind == AGREED_ACTIVATE) {
        agreed->active = agreed->epoch;
        agreed->wary = agreed->in;
        return NIGH_OK;
    }
    agreed->epoch++;
    agreed->in = command->in;
    for (uint32_t n = 0; n < AGREED_WORDS; n++) {
        agreed->wary.words[n] |= agreed->in.words[n];
    }
    return NIGH_OK;
}

/* ---- seats ---------------------------------------------------------------- */

bool agreed_is_address(const char address[AGREED_ADDRESS_BYTES])
{
    size_t length = strnlen(address, AGREED_ADDRESS_BYTES);

    if (length == 0 || length == AGREED_ADDRESS_BYTES) {
        return false;
    }
    for (size_t n = 0; n < AGREED_ADDRESS_BYTES; n++) {
        if (n < length ? address[n] <= ' ' || address[n] > '~' : address[n] != '\0') {
            return false;
        }
    }
    return true;
}

uint32_t agreed_seat_of(const struct agreed_seats *seats, const char *address)
{
    for (uint32_t n = 0; n < seats->count; n++) {
        if (strcmp(seats->addresses[n], address) == 0) {
            return n;
        }
    }
    return AGREED_SEATS;
}

nigh_status agreed_seat(struct agreed_seats *seats, uint32_t most,
                        const struct agreed_command *command)
{
    if (command->kind != AGREED_SEAT || !agreed_is_address(command->address)) {
        return NIGH_INVALID;
    }
    if (command->epoch != seats->count || agreed_seat_of(seats, command->address) != AGREED_SEATS) {
        return NIGH_BUSY;
    }
    if (seats->count >= most || seats->count >= AGREED_SEATS) {
        return NIGH_NO_RESOURCES;
    }
    memcpy(seats->addresses[seats->count++], command->address, AGREED_ADDRESS_BYTES);
    return NIGH_OK;
}

size_t agreed_seats_bytes(const struct agreed_seats *seats)
{
    return sizeof(seats->count) + seats->count * AGREED_ADDRESS_BYTES;
}

void agreed_seats_write(const struct agreed_seats *seats, uint8_t *out)
{
    memcpy(out, seats, agreed_seats_bytes(seats));
}

bool agreed_seats_read(const uint8_t *bytes, size_t count, uint32_t most,
                       struct agreed_seats *seats)
{
    uint64_t taken;

    memset(seats, 0, sizeof(*seats));
    if (count < sizeof(taken)) {
        return false;
    }
    memcpy(&taken, bytes, sizeof(taken));
    if (taken > most || taken > AGREED_SEATS ||
        count != sizeof(taken) + taken * AGREED_ADDRESS_BYTES) {
        return false;
    }
    for (uint64_t n = 0; n < taken; n++) {
        char address[AGREED_ADDRESS_BYTES];

        memcpy(address, bytes + sizeof(taken) + n * sizeof(address), sizeof(address));
        if (!agreed_is_address(address) || agreed_seat_of(seats, address) != AGREED_SEATS) {
            return false;
        }
        memcpy(seats->addresses[seats->count++], address, sizeof(address));
    }
    return true;
}

/* ---- views ---------------------------------------------------------------- */

bool agreed_is_valid(const struct agreed *agreed, uint32_t count)
{
    return agreed->epoch > 0 && agreed->active > 0 && agreed->active <= agreed->epoch &&
           agreed_size(&agreed->in) > 0 && is_within(&agreed->wary, count) &&
           contains(&agreed->wary, &agreed->in) &&
           (agreed->active < agreed->epoch || agreed_same(&agreed->wary, &agreed->in));
}

bool agreed_is_older(const struct agreed *agreed, const struct agreed *other)
{
    return other->epoch > agreed->epoch ||
           (other->epoch == agreed->epoch && other->active > agreed->active);
}
