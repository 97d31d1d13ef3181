/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which spaces there are, as one node knows it; and who takes part in each (docs/spaces.md, "Which
 * spaces there are").
 *
 * Each node that serves spaces knows each space, and takes part in it if it has the room. Nodes
 * tell each other as a link comes up, and as a space is made or deleted, by letters (letter.h) over
 * the channel of blocks' messages. A space is known by its birth, a random number of its making:
 * a name that is used again is another space.
 *
 * Pure: no I/O, no clock, memory only at create. Links, memory and time are the shell's. Owned by
 * the lane's driver.
 */
#ifndef SPACE_REGISTRY_H
#define SPACE_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "nigh/status.h"
#include "space/letter.h"

/* What a node that was killed has of it when it is there again (docs/spaces.md, durability). */
enum space_durability {
    SPACE_DURABLE_NONE,
    SPACE_DURABLE_ASYNC,
    SPACE_DURABLE_SYNC
};

/* What a space is. */
struct space_info {
    uint64_t id;                      /* of its name: space_name_id */
    uint64_t birth;                   /* not 0 */
    uint64_t home_bytes, cache_bytes; /* at each node */
    uint32_t block_bytes;
    uint32_t durability;     /* enum space_durability */
    uint32_t uid, gid, mode; /* whose it is, and who may what: the node's to judge */
    uint32_t name_bytes;
    char name[LIMIT_SPACE_NAME_BYTES + 1]; /* terminated; any bytes */
};

uint64_t space_name_id(const char *name, uint32_t name_bytes);

/* Whether there can be such a space; its id is its name's. */
bool space_info_is_valid(const struct space_info *info);

/* Called by the registry. None of them calls it. `place`: of a space, below LIMIT_SPACES. */
struct space_registry_shell {
    void *context;
    /* Memory is to be had for it: space_registry_made follows. */
    void (*make)(void *context, uint32_t place, const struct space_info *info);
    /* That node has it, there, and was told that this one has: messages of its blocks may go, and
     * are taken. */
    void (*joined)(void *context, uint32_t place, uint8_t seat, const struct space_site *memory);
    /* The link to one that had joined is down. */
    void (*left)(void *context, uint32_t place, uint8_t seat);
    /* It is deleted: nothing of it is served, or sent, from here on. */
    void (*deleted)(void *context, uint32_t place, const struct space_info *info);
    /* No other node sends anything of it any more, nor writes to its memory, which may go. The
     * place is the shell's until space_registry_free. */
    void (*forgotten)(void *context, uint32_t place);
    /* An own ask has ended. */
    void (*answered)(void *context, uint32_t number, nigh_status status);
    /* Which of these seats keeps what may be called so: makes it, and deletes it. */
    uint8_t (*home)(void *context, uint64_t id, uint64_t seats);
};

struct space_registry;

/* NIGH_NO_RESOURCES. */
nigh_status space_registry_create(uint8_t self, const struct space_registry_shell *shell,
                                  struct space_registry **registry);
void space_registry_destroy(struct space_registry *registry);

/* A link to a node that serves spaces, too, is up, or down. */
void space_registry_link(struct space_registry *registry, uint8_t seat, bool is_up);

/* Without a lease this node makes and deletes nothing: it may not know of all nodes. */
void space_registry_lease(struct space_registry *registry, bool has_lease);

/* What was asked for by `make`: NIGH_OK, and where it is; or why there is none. */
void space_registry_made(struct space_registry *registry, uint32_t place, nigh_status status,
                         const struct space_site *memory);

/* Whether that is waited for. */
bool space_registry_is_making(const struct space_registry *registry, uint32_t place);

/* Whether it is waited for by who has it made: then nobody has it, if this node has not. */
bool space_registry_is_new(const struct space_registry *registry, uint32_t place);

/* One that this node took part in before it was started, as its log says. There are no links yet.
 * NIGH_EXISTS, NIGH_LIMIT. */
nigh_status space_registry_restore(struct space_registry *registry, const struct space_info *info);

/* One that was deleted before this node was started, as it kept: who takes it for alive hears so.
 * There are no links yet. */
void space_registry_bury(struct space_registry *registry, uint64_t birth);

/* What was made is of no use any more, and why: this node takes no part in it. There are no links.
 */
void space_registry_lose(struct space_registry *registry, uint32_t place, nigh_status why);

/* What was made is of no use any more: it is made anew. There are no links. */
void space_registry_remake(struct space_registry *registry, uint32_t place);

/* Of a place that was forgotten: nothing of it is left. */
void space_registry_free(struct space_registry *registry, uint32_t place);

/* The next letter to a node; false: there is none. It is so until space_registry_said. */
bool space_registry_next(struct space_registry *registry, uint8_t seat,
                         struct space_letter *letter);
void space_registry_said(struct space_registry *registry, uint8_t seat);

/* Nodes to which there may be something to say. */
uint64_t space_registry_to_say(const struct space_registry *registry);

/* NIGH_PROTOCOL: no node that keeps to it says this, and its link is to be broken. */
nigh_status space_registry_hear(struct space_registry *registry, uint8_t seat,
                                const struct space_letter *letter);

/* ---- asks of this node ---------------------------------------------------- */

/*
 * Has a space made, everywhere; info->birth is random. `number` is the caller's, and of no other
 * ask of this node that is under way. NIGH_OK: `answered` follows, perhaps within: NIGH_OK: all
 * nodes have it; NIGH_EXISTS; NIGH_LIMIT: there are LIMIT_SPACES; NIGH_NO_QUORUM; NIGH_PEER_LOST:
 * whoever was asked is gone, it may have been made; or why a node has no memory for it: then it is
 * deleted again. The same at once, and NIGH_OVERLOADED: LIMIT_SPACE_MAKES of this node are under
 * way; NIGH_INVALID.
 */
nigh_status space_registry_make(struct space_registry *registry, const struct space_info *info,
                                uint32_t number);

/* Has it deleted, everywhere. As above; NIGH_NOT_FOUND; NIGH_BUSY: it is being made. */
nigh_status space_registry_delete(struct space_registry *registry, uint64_t birth, uint32_t number);

/* ---- what is known -------------------------------------------------------- */

/* Of a place with a space that is not deleted; NULL. */
const struct space_info *space_registry_info(const struct space_registry *registry, uint32_t place);

/* Where a space of this name is; LIMIT_SPACES: nowhere. */
uint32_t space_registry_find(const struct space_registry *registry, uint64_t id);
uint32_t space_registry_find_birth(const struct space_registry *registry, uint64_t birth);

/* Whether this node has memory for it, and it is no more being made. NIGH_OK; NIGH_PENDING; or why
 * it has none. */
nigh_status space_registry_status(const struct space_registry *registry, uint32_t place);

/* Who takes part in it, this node among them, as links are now. */
uint64_t space_registry_seats(const struct space_registry *registry, uint32_t place);

/* Who has told that it takes no part. */
uint64_t space_registry_without(const struct space_registry *registry, uint32_t place);

/* Whether all with whom there are links have told whether they do. */
bool space_registry_is_settled(const struct space_registry *registry, uint32_t place);

/* Whether that node's messages of its blocks are to be taken. */
bool space_registry_has_joined(const struct space_registry *registry, uint32_t place, uint8_t seat);

uint32_t space_registry_count(const struct space_registry *registry);

/* Walks everything. */
bool space_registry_is_valid(const struct space_registry *registry);

#endif
