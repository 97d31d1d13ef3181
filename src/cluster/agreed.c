/* SPDX-License-Identifier: Apache-2.0 */
/* See agreed.h. */
#include "cluster/agreed.h"

#include <string.h>

#include "base/check.h"

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

bool agreed_meets(const struct agreed_set *one, const struct agreed_set *other)
{
    for (uint32_t n = 0; n < AGREED_WORDS; n++) {
        if ((one->words[n] & other->words[n]) != 0) {
            return true;
        }
    }
    return false;
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

/* ---- who there is --------------------------------------------------------- */

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

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool agreed_is_name(const char *text)
{
    size_t length = 0;

    while (length < AGREED_NAME_BYTES && text[length] != '\0') {
        char c = text[length++];

        if (!is_letter(c) &&
            (length == 1 || !((c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))) {
            return false;
        }
    }
    return length > 0 && length < AGREED_NAME_BYTES;
}

/* Nothing lies behind the end of a text. */
static bool is_empty_behind(const char *text, size_t bytes)
{
    for (size_t n = strnlen(text, bytes); n < bytes; n++) {
        if (text[n] != '\0') {
            return false;
        }
    }
    return true;
}

uint32_t agreed_seat_of(const struct agreed_roster *roster, const char *address)
{
    for (uint32_t n = 0; address[0] != '\0' && n < roster->count; n++) {
        if (strcmp(roster->addresses[n], address) == 0) {
            return n;
        }
    }
    return AGREED_SEATS;
}

uint32_t agreed_rank_of(const struct agreed_roster *roster, const char *name)
{
    for (uint32_t rank = 0; name[0] != '\0' && rank < LIMIT_NODES; rank++) {
        if (strcmp(roster->names[rank], name) == 0) {
            return rank;
        }
    }
    return LIMIT_NODES;
}

nigh_status agreed_seat(struct agreed_roster *roster, uint32_t most,
                        const struct agreed_command *command)
{
    if (command->kind != AGREED_SEAT || !agreed_is_address(command->address)) {
        return NIGH_INVALID;
    }
    if (command->epoch != roster->count ||
        agreed_seat_of(roster, command->address) != AGREED_SEATS) {
        return NIGH_BUSY;
    }
    if (roster->count >= most || roster->count >= AGREED_SEATS) {
        return NIGH_NO_RESOURCES;
    }
    memcpy(roster->addresses[roster->count++], command->address, AGREED_ADDRESS_BYTES);
    roster->changes++;
    return NIGH_OK;
}

bool agreed_is_struck(const struct agreed_roster *roster, uint32_t listed, uint32_t rank)
{
    return rank >= listed && rank - listed < roster->count &&
           roster->addresses[rank - listed][0] == '\0';
}

struct agreed_set agreed_struck(const struct agreed_roster *roster, uint32_t listed)
{
    struct agreed_set set = {{0}};

    for (uint32_t n = 0; n < roster->count && listed + n < LIMIT_NODES; n++) {
        agreed_put(&set, listed + n, agreed_is_struck(roster, listed, listed + n));
    }
    return set;
}

nigh_status agreed_forget(struct agreed_roster *roster, const struct agreed *agreed,
                          uint32_t listed, const struct agreed_command *command)
{
    uint64_t rank = command->epoch;
    char *address;

    if (command->kind != AGREED_FORGET || !agreed_is_address(command->address) || rank < listed ||
        rank >= LIMIT_NODES || rank - listed >= roster->count) {
        return NIGH_INVALID;
    }
    address = roster->addresses[rank - listed];
    if (memcmp(address, command->address, AGREED_ADDRESS_BYTES) != 0) {
        return NIGH_INVALID;
    }
    if (agreed_has(&agreed->in, (uint32_t)rank) || agreed_has(&agreed->wary, (uint32_t)rank)) {
        return NIGH_BUSY;
    }
    memset(address, 0, AGREED_ADDRESS_BYTES);
    memset(roster->names[rank], 0, AGREED_NAME_BYTES);
    roster->changes++;
    return NIGH_OK;
}

nigh_status agreed_name(struct agreed_roster *roster, uint32_t listed,
                        const struct agreed_command *command)
{
    const char *name = command->address;

    if (command->kind != AGREED_NAME || command->epoch >= listed + roster->count ||
        agreed_is_struck(roster, listed, (uint32_t)command->epoch) ||
        !is_empty_behind(name, sizeof(command->address)) ||
        (name[0] != '\0' && !agreed_is_name(name))) {
        return NIGH_INVALID;
    }
    if (strcmp(roster->names[command->epoch], name) == 0) {
        return NIGH_BUSY;
    }
    if (agreed_rank_of(roster, name) != LIMIT_NODES) {
        return NIGH_EXISTS;
    }
    memcpy(roster->names[command->epoch], name, AGREED_NAME_BYTES);
    roster->changes++;
    return NIGH_OK;
}

static uint64_t names_of(const struct agreed_roster *roster)
{
    uint64_t names = 0;

    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        names += roster->names[rank][0] != '\0' ? 1 : 0;
    }
    return names;
}

size_t agreed_roster_bytes(const struct agreed_roster *roster)
{
    return sizeof(struct agreed_roster_head) + roster->count * AGREED_ADDRESS_BYTES +
           names_of(roster) * sizeof(struct agreed_name_record);
}

void agreed_roster_write(const struct agreed_roster *roster, uint8_t *out)
{
    struct agreed_roster_head head = {
        .changes = roster->changes, .seats = roster->count, .names = names_of(roster)};

    memcpy(out, &head, sizeof(head));
    out += sizeof(head);
    memcpy(out, roster->addresses, roster->count * AGREED_ADDRESS_BYTES);
    out += roster->count * AGREED_ADDRESS_BYTES;
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        struct agreed_name_record record = {.rank = rank};

        if (roster->names[rank][0] != '\0') {
            memcpy(record.name, roster->names[rank], sizeof(record.name));
            memcpy(out, &record, sizeof(record));
            out += sizeof(record);
        }
    }
}

/* One that is struck off has no address: no two of those are the same one's. */
static bool read_seats(const uint8_t *bytes, uint64_t seats, struct agreed_roster *roster)
{
    for (uint64_t n = 0; n < seats; n++) {
        char address[AGREED_ADDRESS_BYTES];

        memcpy(address, bytes + n * sizeof(address), sizeof(address));
        if (address[0] == '\0'
                ? !is_empty_behind(address, sizeof(address))
                : !agreed_is_address(address) || agreed_seat_of(roster, address) != AGREED_SEATS) {
            return false;
        }
        memcpy(roster->addresses[roster->count++], address, sizeof(address));
    }
    return true;
}

static bool read_names(const uint8_t *bytes, uint64_t names, uint32_t listed,
                       struct agreed_roster *roster)
{
    uint64_t least = 0, ranks = min_u64(listed + roster->count, LIMIT_NODES);

    for (uint64_t n = 0; n < names; n++) {
        struct agreed_name_record record;

        memcpy(&record, bytes + n * sizeof(record), sizeof(record));
        if (record.rank < least || record.rank >= ranks ||
            agreed_is_struck(roster, listed, record.rank) ||
            !is_empty_behind(record.name, sizeof(record.name)) || !agreed_is_name(record.name) ||
            agreed_rank_of(roster, record.name) != LIMIT_NODES) {
            return false;
        }
        memcpy(roster->names[record.rank], record.name, sizeof(record.name));
        least = (uint64_t)record.rank + 1;
    }
    return true;
}

bool agreed_roster_read(const uint8_t *bytes, size_t count, uint32_t listed, uint32_t most,
                        struct agreed_roster *roster)
{
    struct agreed_roster_head head;
    size_t addresses;

    memset(roster, 0, sizeof(*roster));
    if (count < sizeof(head)) {
        return false;
    }
    memcpy(&head, bytes, sizeof(head));
    if (head.seats > most || head.seats > AGREED_SEATS || head.names > LIMIT_NODES ||
        count != sizeof(head) + head.seats * AGREED_ADDRESS_BYTES +
                     head.names * sizeof(struct agreed_name_record)) {
        return false;
    }
    roster->changes = head.changes;
    addresses = sizeof(head) + head.seats * AGREED_ADDRESS_BYTES;
    return read_seats(bytes + sizeof(head), head.seats, roster) &&
           read_names(bytes + addresses, head.names, listed, roster);
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
