/* SPDX-License-Identifier: Apache-2.0 */
/* A pair that a client is given by a node that does as it is told (support/fake_node.h). */
#ifndef CLIENT_PAIR_H
#define CLIENT_PAIR_H

#include <string.h>
#include <sys/socket.h>

#include "base/blake.h"
#include "base/fd.h"
#include "base/hash.h"
#include "client/client_internal.h"
#include "memory/memfd.h"
#include "memory/pair.h"
#include "nigh/nigh.h"
#include "support/fake_node.h"
#include "support/support.h"

/* A pair with who serves this name, or (SESSION_PAIR_SERVES) calls it, and does nothing. The client
 * has taken it; the other ends are in fds. */
static inline void give_pair(struct fake_node *fake, nigh_client *client, const char *name,
                             uint32_t flags, int fds[2])
{
    struct session_pair told = {
        .header = {.magic = SESSION_MAGIC, .kind = SESSION_PAIR}, .flags = flags, .serial = 1};
    uint8_t id[LIMIT_ID_BYTES];
    struct pair_memory *memory;
    int bell[2], given[2];
    void *mapped;

    blake_id20(name, strlen(name), id);
    told.hash = hash_load64(id);
    assert_int_equal(memfd_create_sealed("pair", sizeof(*memory), 0, &fds[0]), NIGH_OK);
    assert_int_equal(memfd_map(fds[0], sizeof(*memory), MEMFD_WRITABLE, &mapped), NIGH_OK);
    memory = mapped;
    shared_store_relaxed(&memory->requests.open.value, PAIR_OPEN);
    memfd_unmap(mapped, sizeof(*memory));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bell), 0);
    given[0] = fds[0];
    given[1] = bell[0];
    fake_node_lock(fake);
    assert_int_equal(fd_send_message(fake->socket_fd, &told, sizeof(told), given, 2), NIGH_OK);
    fake_node_unlock(fake);
    fd_close(&bell[0]);
    fds[1] = bell[1];
    client->socket_seen_us = 0; /* it is time to look there */
    assert_int_equal(nigh_poll(client), 0);
    assert_non_null(atomic_load(&client->pairs));
}

#endif
