/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory outside of the nodes: what the exchange of a lane asks of it, and what it says. The
 * lane never waits: it asks, and takes the answers and the news when it has its turn.
 *
 * A life of a directory begins when it is reached (again), or when it has lost what it knew. In
 * each the lane tells it all that it holds once more: BEGIN, what it holds, END.
 */
#ifndef CLUSTER_OUTSIDE_H
#define CLUSTER_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/directory.h"

#define OUTSIDE_ASKS  1024u /* of a lane under way at most */
#define OUTSIDE_DROPS 64u   /* drops that one answer names */

enum outside_op {
    OUTSIDE_NOTHING = 0,
    OUTSIDE_BEGIN,   /* what was told before is in doubt until END */
    OUTSIDE_END,     /* `cursor`: 0, then what came back, until that is 0 */
    OUTSIDE_TELL,    /* object is held here; `flag`: a copy. As directory_announce */
    OUTSIDE_CLAIM,   /* `flag`: held. As directory_claim */
    OUTSIDE_FORGET,  /* of its birth */
    OUTSIDE_LOCATE,  /* `flag`: tell me when it is there (FOUND), for some seconds */
    OUTSIDE_DELETE,  /* `flag`: the asker has none. PENDING: DELETED follows, with `number` */
    OUTSIDE_DROPPED, /* of its birth, with `status` */
    OUTSIDE_OWED,    /* DROPs that were not answered; status BUSY: there are more */
    OUTSIDE_DEAD,    /* rank, up to incarnation `number`; status BUSY: there is more to sweep */
    OUTSIDE_OPS
};

struct outside_ask {
    enum outside_op op;
    bool flag;
    uint32_t life;  /* that the asker knows: in another it is not asked */
    uint32_t round; /* grows with every BEGIN of the asker's; comes back */
    uint32_t use;   /* whose question it is: the asker's to choose; comes back */
    uint64_t token; /* the same */
    uint32_t rank;
    uint32_t alive;  /* members that are not dead, as the asker knows */
    uint64_t number; /* of a delete; incarnation */
    uint64_t cursor;
    nigh_status status;
    struct directory_key key;
    struct directory_object object;
};

enum outside_kind {
    OUTSIDE_ANSWER = 1, /* to each ask one: PEER_LOST when the directory was lost meanwhile */
    OUTSIDE_FOUND,      /* key: somebody else has it now */
    OUTSIDE_DROP,       /* key, object.birth: drop it, and say DROPPED */
    OUTSIDE_DELETED,    /* number, status */
    OUTSIDE_MISSED      /* there was no room for news: ask OWED */
};

struct outside_news {
    enum outside_kind kind;
    uint32_t use;
    uint32_t round;
    uint64_t token;
    nigh_status status;
    uint64_t number;
    uint64_t cursor;
    struct directory_key key;
    struct birth birth;
    struct directory_answer answer;
};

/* Functions are for the thread that drives the lane; none of them blocks. */
struct outside {
    void *context;
    /* False: it cannot be asked now. */
    bool (*ask)(void *context, uint32_t lane, const struct outside_ask *ask);
    bool (*take)(void *context, uint32_t lane, struct outside_news *news);
    bool (*has_news)(void *context, uint32_t lane);
    /* The life that it is in; 0: it is not reached. */
    uint32_t (*life)(void *context, uint32_t lane);
};

#endif
