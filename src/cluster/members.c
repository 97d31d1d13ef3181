/* SPDX-License-Identifier: Apache-2.0 */
/* See members.h. */
#include "cluster/members.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/blake.h"
#include "base/hash.h"
#include "cluster/address.h"

static nigh_status fail(char *why, size_t why_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static nigh_status fail(char *why, size_t why_bytes, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_bytes, format, args);
    va_end(args);
    return NIGH_INVALID;
}

/* Nobody's so far. */
static nigh_status add_address(struct members *members, const char *address, char *why,
                               size_t why_bytes)
{
    if (members->count == LIMIT_NODES) {
        return fail(why, why_bytes, "the list of members names more than %d", LIMIT_NODES);
    }
    for (uint32_t rank = 0; rank < members->count; rank++) {
        if (strcmp(members->addresses[rank], address) == 0) {
            return fail(why, why_bytes, "%s stands twice in the list of members", address);
        }
    }
    memcpy(members->addresses[members->count++], address, strlen(address) + 1);
    return NIGH_OK;
}

/* As somebody wrote it, in whatever spelling. */
static nigh_status add_written(struct members *members, const char *from, size_t length, char *why,
                               size_t why_bytes)
{
    char written[MEMBERS_ADDRESS_BYTES], address[MEMBERS_ADDRESS_BYTES];

    if (length >= sizeof(written)) {
        return fail(why, why_bytes, "an address in the list of members is longer than %d bytes",
                    MEMBERS_ADDRESS_BYTES - 1);
    }
    memcpy(written, from, length);
    written[length] = '\0';
    if (!address_spell(written, address)) {
        return fail(why, why_bytes, "\"%s\" in the list of members is not host:port or [ipv6]:port",
                    written);
    }
    if (address_is_any(address)) {
        return fail(why, why_bytes,
                    "\"%s\" in the list of members is every address of a machine, and none that "
                    "other nodes can reach: give the one that they reach it by",
                    written);
    }
    return add_address(members, address, why, why_bytes);
}

static nigh_status read_list(const char *list, struct members *members, char *why, size_t why_bytes)
{
    for (;;) {
        size_t skip = strspn(list, " \t\r\n");
        size_t length = strcspn(list + skip, ",");
        size_t kept = length;
        nigh_status status;

        while (kept > 0 && isspace((unsigned char)list[skip + kept - 1])) {
            kept--;
        }
        status = add_written(members, list + skip, kept, why, why_bytes);
        if (status != NIGH_OK) {
            return status;
        }
        list += skip + length;
        if (*list == '\0') {
            return NIGH_OK;
        }
        list++;
    }
}

static nigh_status find_self(const char *self, struct members *members, char *why, size_t why_bytes)
{
    char *end, address[MEMBERS_ADDRESS_BYTES];
    bool is_address = address_spell(self, address);
    unsigned long rank;

    for (members->self = 0; members->self < members->count; members->self++) {
        if (is_address && strcmp(members->addresses[members->self], address) == 0) {
            return NIGH_OK;
        }
    }
    errno = 0;
    rank = strtoul(self, &end, 10);
    if (isdigit((unsigned char)self[0]) && *end == '\0' && errno == 0 && rank < members->count) {
        members->self = (uint32_t)rank;
        return NIGH_OK;
    }
    return fail(why, why_bytes,
                "\"%s\" is not among the members; give one of their addresses as it stands there, "
                "or a rank from 0 to %u%s",
                self, members->count - 1,
                is_address ? "; to join them by the address of one of them, it needs --state" : "");
}

/* What each rank is hashed with, and the list's epoch: of what the list says alone. */
static void derive(struct members *members)
{
    uint8_t digest[20];

    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        members->seeds[rank] = hash_u64(HASH_K1 ^ rank);
    }
    members->listed = members->count;
    blake_id20(members->addresses, members->count * sizeof(members->addresses[0]), digest);
    memcpy(&members->epoch, digest, sizeof(members->epoch));
}

nigh_status members_parse(const char *list, const char *self, struct members *members, char *why,
                          size_t why_bytes)
{
    struct members *made = calloc(1, sizeof(*made));
    nigh_status status;

    if (made == NULL) {
        return NIGH_NO_RESOURCES;
    }
    status = read_list(list, made, why, why_bytes);
    if (status == NIGH_OK) {
        status = find_self(self, made, why, why_bytes);
    }
    if (status == NIGH_OK) {
        derive(made);
        *members = *made;
    }
    free(made);
    return status;
}

bool members_names(const char *list, const char *address)
{
    char wanted[MEMBERS_ADDRESS_BYTES], text[MEMBERS_ADDRESS_BYTES], here[MEMBERS_ADDRESS_BYTES];

    if (!address_spell(address, wanted)) {
        return false;
    }
    while (*list != '\0') {
        size_t length;

        list += strspn(list, ", \t\r\n");
        length = strcspn(list, ", \t\r\n");
        if (length < sizeof(text)) {
            memcpy(text, list, length);
            text[length] = '\0';
            if (address_spell(text, here) && strcmp(here, wanted) == 0) {
                return true;
            }
        }
        list += length;
    }
    return false;
}

uint32_t members_ranks(uint32_t listed)
{
    uint32_t ranks = listed * 2 > MEMBERS_RANKS_LEAST ? listed * 2 : MEMBERS_RANKS_LEAST;

    ranks = ranks - listed > AGREED_SEATS ? listed + AGREED_SEATS : ranks;
    return ranks < LIMIT_NODES ? ranks : LIMIT_NODES;
}

nigh_status members_agree(struct members *members, uint32_t ranks, char *why, size_t why_bytes)
{
    if (ranks == 0) {
        ranks = members_ranks(members->listed);
    }
    if (ranks < members->listed || ranks > LIMIT_NODES || ranks - members->listed > AGREED_SEATS) {
        return fail(why, why_bytes,
                    "%u ranks (--ranks) are not within %u, which the list has, and %u: at most %u "
                    "may join, and there are at most %d in all",
                    ranks, members->listed,
                    members->listed + AGREED_SEATS < LIMIT_NODES ? members->listed + AGREED_SEATS
                                                                 : (uint32_t)LIMIT_NODES,
                    AGREED_SEATS, LIMIT_NODES);
    }
    members->count = ranks;
    members->epoch = hash_mix(members->epoch ^ HASH_K1, HASH_K2 ^ ranks);
    return NIGH_OK;
}

bool members_is_address(const char *text)
{
    return strlen(text) < MEMBERS_ADDRESS_BYTES && address_is(text);
}

/* Nobody has it, nor will. */
static bool add_gap(struct members *members, const char address[MEMBERS_ADDRESS_BYTES])
{
    static const char nothing[MEMBERS_ADDRESS_BYTES];

    if (memcmp(address, nothing, MEMBERS_ADDRESS_BYTES) != 0) {
        return false;
    }
    members->count++;
    return true;
}

/* Text that ends, nothing behind its end, nobody's so far; in the spelling that it was given in,
 * which of a seat of an earlier version may be another. */
static bool add_known(struct members *members, const char address[MEMBERS_ADDRESS_BYTES])
{
    char why[8];

    return agreed_is_address(address) && members_is_address(address) &&
           add_address(members, address, why, sizeof(why)) == NIGH_OK;
}

nigh_status members_make(const char (*addresses)[MEMBERS_ADDRESS_BYTES], uint32_t listed,
                         uint32_t present, uint32_t ranks, uint32_t self, struct members *members)
{
    struct members *made = calloc(1, sizeof(*made));
    nigh_status status = NIGH_INVALID;
    char why[8];

    if (made == NULL) {
        return NIGH_NO_RESOURCES;
    }
    if (listed == 0 || listed > present || present > ranks || ranks > LIMIT_NODES ||
        self >= present) {
        goto done;
    }
    while (made->count < listed && add_known(made, addresses[made->count])) {
    }
    if (made->count < listed) {
        goto done;
    }
    derive(made);
    while (made->count < present &&
           (add_gap(made, addresses[made->count]) || add_known(made, addresses[made->count]))) {
    }
    if (made->count == present && made->addresses[self][0] != '\0') {
        status = members_agree(made, ranks, why, sizeof(why));
    }
    if (status == NIGH_OK) {
        made->self = self;
        *members = *made;
    }

done:
    free(made);
    return status;
}

void members_alone(struct members *members)
{
    memset(members, 0, sizeof(*members));
    members->count = 1;
    derive(members);
}

uint64_t members_weight(const struct members *members, uint32_t rank, uint64_t key_hash)
{
    return hash_mix(members->seeds[rank] ^ HASH_K2, key_hash ^ HASH_K3);
}

uint32_t members_home(const struct members *members, uint64_t key_hash)
{
    struct agreed_set all = agreed_all(members->listed);

    return members_home_in(members, &all, key_hash);
}

uint32_t members_home_in(const struct members *members, const struct agreed_set *in,
                         uint64_t key_hash)
{
    uint64_t best = 0;
    uint32_t home = 0;

    for (uint32_t rank = 0; rank < members->count; rank++) {
        uint64_t weight = members_weight(members, rank, key_hash);

        if (weight > best && agreed_has(in, rank)) {
            best = weight;
            home = rank;
        }
    }
    return home;
}
