/* SPDX-License-Identifier: Apache-2.0 */
/* See welcome.h. A head, the addresses of all that were given a rank, none for those that were
 * struck off since, and a proof by the session's key. */
#include "cluster/welcome.h"

#include <string.h>

#include "base/check.h"

#define WELCOME_MAGIC UINT32_C(0x5748474e) /* "NGHW" */

/* All numbers little-endian. */
struct head {
    uint32_t magic;
    uint32_t bytes; /* of all of it */
    int32_t status;
    uint32_t rank;
    uint32_t listed;
    uint32_t ranks;   /* that there are */
    uint32_t present; /* of which so many are or were somebody's: their addresses follow */
    uint32_t reserved;
};

_Static_assert(sizeof(struct head) == WELCOME_HEAD_BYTES, "the head is on the wire");

uint32_t welcome_write(const struct auth *auth, nigh_status status, uint32_t rank,
                       const struct members *members, const struct agreed_roster *roster,
                       uint8_t *out)
{
    struct head head = {.magic = WELCOME_MAGIC, .status = (int32_t)status};
    uint32_t bytes = sizeof(head);

    if (status == NIGH_OK) {
        head.rank = rank;
        head.listed = members->listed;
        head.ranks = members->count;
        head.present = members->listed + (uint32_t)roster->count;
        memcpy(out + bytes, members->addresses, members->listed * sizeof(members->addresses[0]));
        bytes += members->listed * MEMBERS_ADDRESS_BYTES;
        memcpy(out + bytes, roster->addresses, roster->count * sizeof(roster->addresses[0]));
        bytes += (uint32_t)roster->count * MEMBERS_ADDRESS_BYTES;
    }
    head.bytes = bytes + AUTH_PROOF_BYTES;
    memcpy(out, &head, sizeof(head));
    auth_prove(auth, false, out, bytes, out + bytes);
    return head.bytes;
}

uint32_t welcome_bytes(const uint8_t bytes[WELCOME_HEAD_BYTES])
{
    struct head head;

    memcpy(&head, bytes, sizeof(head));
    return head.magic == WELCOME_MAGIC && head.bytes >= sizeof(head) + AUTH_PROOF_BYTES &&
                   head.bytes <= WELCOME_BYTES_MAX
               ? head.bytes
               : 0;
}

nigh_status welcome_read(const struct auth *auth, const uint8_t *bytes, uint32_t count,
                         nigh_status *said, struct members *members)
{
    uint8_t proof[AUTH_PROOF_BYTES];
    struct head head;

    if (count < WELCOME_HEAD_BYTES || welcome_bytes(bytes) != count) {
        return NIGH_PROTOCOL;
    }
    memcpy(&head, bytes, sizeof(head));
    auth_prove(auth, false, bytes, count - AUTH_PROOF_BYTES, proof);
    if (!auth_is_proof(proof, bytes + count - AUTH_PROOF_BYTES)) {
        return NIGH_PROTOCOL;
    }
    *said = (nigh_status)head.status;
    if (head.status != NIGH_OK) {
        return head.status < 0 ? NIGH_OK : NIGH_PROTOCOL;
    }
    if (head.present > LIMIT_NODES ||
        count != sizeof(head) + head.present * MEMBERS_ADDRESS_BYTES + AUTH_PROOF_BYTES) {
        return NIGH_PROTOCOL;
    }
    return members_make((const char(*)[MEMBERS_ADDRESS_BYTES])(bytes + sizeof(head)), head.listed,
                        head.present, head.ranks, head.rank, members);
}
