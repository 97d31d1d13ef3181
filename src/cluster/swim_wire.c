/* SPDX-License-Identifier: Apache-2.0 */
/* See swim_wire.h. Digests are BLAKE2b (libsodium), as those of the handshake. */
#include "cluster/swim_wire.h"

#include <endian.h>
#include <sodium.h>
#include <string.h>

#include "base/check.h"

void swim_wire_init(struct swim_wire *wire, uint64_t cluster, uint32_t self, uint32_t count,
                    const uint8_t cluster_key[AUTH_KEY_BYTES])
{
    static const char label[] = "nigh membership";

    wire->cluster = cluster;
    wire->self = self;
    wire->count = count;
    crypto_generichash(wire->key, sizeof(wire->key), (const uint8_t *)label, sizeof(label),
                       cluster_key, AUTH_KEY_BYTES);
}

static void put_mac(const struct swim_wire *wire, const uint8_t *bytes, size_t size_bytes,
                    uint8_t mac[SWIM_WIRE_MAC])
{
    crypto_generichash(mac, SWIM_WIRE_MAC, bytes, size_bytes, wire->key, sizeof(wire->key));
}

size_t swim_wire_encode(const struct swim_wire *wire, const struct swim_message *message,
                        uint8_t *out)
{
    struct swim_wire_head head = {
        .magic = htole32(SWIM_WIRE_MAGIC),
        .version = SWIM_WIRE_VERSION,
        .kind = (uint8_t)message->kind,
        .count = (uint8_t)message->count,
        .cluster = htole64(wire->cluster),
        .incarnation = htole64(message->incarnation),
        .sequence = htole64(message->sequence),
        .from = htole16((uint16_t)message->from),
        .to = htole16((uint16_t)message->to),
        .target = htole16((uint16_t)message->target),
    };
    size_t size_bytes = sizeof(head);

    NIGH_ASSERT(message->count <= LIMIT_SWIM_UPDATES);
    memcpy(out, &head, sizeof(head));
    for (uint32_t n = 0; n < message->count; n++) {
        const struct swim_update *update = &message->updates[n];
        struct swim_wire_update put = {
            .incarnation = htole64(update->incarnation),
            .rank = htole16((uint16_t)update->rank),
            .from = htole16((uint16_t)update->from),
            .state = (uint8_t)update->state,
        };

        memcpy(out + size_bytes, &put, sizeof(put));
        size_bytes += sizeof(put);
    }
    put_mac(wire, out, size_bytes, out + size_bytes);
    return size_bytes + SWIM_WIRE_MAC;
}

/* No node has 0: of what nobody has heard of there is nothing to say. */
static bool is_incarnation(uint64_t incarnation)
{
    return SWIM_NODE_INCARNATION(incarnation) != 0 && incarnation <= SWIM_INCARNATION_LAST;
}

static bool read_update(const struct swim_wire *wire, const uint8_t *bytes,
                        struct swim_update *update)
{
    struct swim_wire_update got;

    memcpy(&got, bytes, sizeof(got));
    *update = (struct swim_update){
        .incarnation = le64toh(got.incarnation),
        .rank = le16toh(got.rank),
        .from = le16toh(got.from),
        .state = (enum swim_state)got.state,
    };
    return got.state < SWIM_STATES && update->rank < wire->count && update->from < wire->count &&
           is_incarnation(update->incarnation) && got.reserved[0] == 0 && got.reserved[1] == 0 &&
           got.reserved[2] == 0;
}

static bool read_head(const struct swim_wire *wire, const struct swim_wire_head *head,
                      struct swim_message *message)
{
    message->kind = (enum swim_kind)head->kind;
    message->from = le16toh(head->from);
    message->to = le16toh(head->to);
    message->target = le16toh(head->target);
    message->incarnation = le64toh(head->incarnation);
    message->sequence = le64toh(head->sequence);
    message->count = head->count;
    return head->kind < SWIM_KINDS && head->reserved == 0 && head->reserved2 == 0 &&
           message->from < wire->count && message->from != wire->self &&
           message->to == wire->self && message->target < wire->count &&
           is_incarnation(message->incarnation);
}

/* What is worth a look at the digest at all: whole, of this protocol and of this list. */
static nigh_status check_outside(const struct swim_wire *wire, const struct swim_wire_head *head,
                                 size_t size_bytes)
{
    if (le32toh(head->magic) != SWIM_WIRE_MAGIC || head->count > LIMIT_SWIM_UPDATES ||
        size_bytes !=
            sizeof(*head) + head->count * sizeof(struct swim_wire_update) + SWIM_WIRE_MAC) {
        return NIGH_PROTOCOL;
    }
    return head->version == SWIM_WIRE_VERSION && le64toh(head->cluster) == wire->cluster
               ? NIGH_OK
               : NIGH_VERSION;
}

nigh_status swim_wire_decode(const struct swim_wire *wire, const uint8_t *bytes, size_t size_bytes,
                             struct swim_message *message)
{
    struct swim_wire_head head;
    struct swim_message got;
    uint8_t mac[SWIM_WIRE_MAC];
    const uint8_t *at = bytes + sizeof(head);
    nigh_status status;

    if (size_bytes < sizeof(head) + SWIM_WIRE_MAC) {
        return NIGH_PROTOCOL;
    }
    memcpy(&head, bytes, sizeof(head));
    status = check_outside(wire, &head, size_bytes);
    if (status != NIGH_OK) {
        return status;
    }
    put_mac(wire, bytes, size_bytes - SWIM_WIRE_MAC, mac);
    if (sodium_memcmp(mac, bytes + size_bytes - SWIM_WIRE_MAC, SWIM_WIRE_MAC) != 0) {
        return NIGH_DENIED;
    }
    if (!read_head(wire, &head, &got)) {
        return NIGH_PROTOCOL;
    }
    for (uint32_t n = 0; n < got.count; n++, at += sizeof(struct swim_wire_update)) {
        if (!read_update(wire, at, &got.updates[n])) {
            return NIGH_PROTOCOL;
        }
    }
    memcpy(message, &got,
           offsetof(struct swim_message, updates) + got.count * sizeof(got.updates[0]));
    return NIGH_OK;
}
