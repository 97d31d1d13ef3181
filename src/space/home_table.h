/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of a block's home, as a table; see cache_table.h.
 *
 *   EVENT(name, from, has bytes, what)   DO(name, becomes, what)   STATE(name, what, a cell an
 * event)
 */
#ifndef SPACE_HOME_TABLE_H
#define SPACE_HOME_TABLE_H

/* clang-format off */
#define SPACE_HOME_TABLE(EVENT, DO, STATE)                                                              \
    EVENT(READ,         SPACE_HERE,   0, "a client of the home reads")                                  \
    EVENT(WRITE,        SPACE_HERE,   0, "a client's write is to be applied, or its atomic done")       \
    EVENT(LOCK_READ,    SPACE_HERE,   0, "a client wants to hold the block, to read")                   \
    EVENT(LOCK_WRITE,   SPACE_HERE,   0, "a client wants to hold the block alone")                      \
    EVENT(UNLOCK,       SPACE_HERE,   0, "a client lets go")                                            \
    EVENT(FREE,         SPACE_HERE,   0, "the block is freed")                                          \
    EVENT(ALLOC,        SPACE_HERE,   0, "it is used again, and its bytes are new")                     \
    EVENT(YIELD,        SPACE_HERE,   0, "what waited here has had its turn")                           \
    EVENT(ASK_READ,     SPACE_A_NODE, 0, "a node wants to read")                                        \
    EVENT(ASK_WRITE,    SPACE_A_NODE, 0, "a node wants to write")                                       \
    EVENT(ASK_ATOMIC,   SPACE_A_NODE, 0, "a node wants an atomic done here")                            \
    EVENT(ACK,          SPACE_A_NODE, 0, "I gave up my copy, as you said")                              \
    EVENT(BYTES,        SPACE_A_NODE, 1, "here are the bytes; I go on reading")                         \
    EVENT(GOT,          SPACE_A_NODE, 0, "another gave me what I asked for")                            \
    EVENT(EVICT,        SPACE_A_NODE, 0, "I give up my copy")                                           \
    EVENT(WRITE_BACK,   SPACE_A_NODE, 1, "I give it up, and here are the bytes")                        \
    EVENT(CLAIM_SHARED, SPACE_A_NODE, 0, "in this new term: I have it, to read")                        \
    EVENT(CLAIM_DIRTY,  SPACE_A_NODE, 0, "in this new term: I have it, to write")                       \
    EVENT(CLAIM_LEFT,   SPACE_A_NODE, 0, "in this new term: I gave it up, to you or to `whom`, and have the bytes") \
    EVENT(REBUILD,      SPACE_HERE,   0, "a term begins")                                               \
    EVENT(REBUILT,      SPACE_HERE,   0, "all have said what they have")                                \
                                                                                                        \
    DO(no,            0,                                "impossible")                                   \
    DO(wait,          STAY,                             "waits in the queue")                           \
    DO(read_here,     STAY,                             "done, or waits for who holds it alone")        \
    DO(write_here,    STAY,                             "done, or waits for who holds it")              \
    DO(lock_read,     STAY,                             "held, or waits: for who holds it alone, or in the queue") \
    DO(lock_write,    STAY,                             "held, or waits")                               \
    DO(unlock,        STAY,                             "the last one: who waits is next")              \
    DO(free_here,     STAY | TO(FREED),                  "done, or waits for who holds it")              \
    DO(free_lost,     TO(FREED),                         "done")                                         \
    DO(alloc,         TO(UNSHARED),                     "done")                                         \
    DO(yield,         STAY,                             "who waits is next")                            \
    DO(gone,          STAY,                             "there is no such block")                       \
    DO(clear,         STAY | TO(CLEARING),              "INVALIDATE to all who share it; or waits")     \
    DO(fetch,         TO(DEMOTING),              "FETCH_SHARED to the owner")                    \
    DO(recall,        TO(RECALLING),             "FETCH_INVALIDATE to the owner")                \
    DO(share,         STAY | TO(SHARED),                "SHARE; or waits")                              \
    DO(own,           STAY | TO(DIRTY),                 "OWN; or waits")                                \
    DO(perform,       STAY,                             "ATOMIC_DONE; or waits")                        \
    DO(own_shared,    STAY | TO(GRANTING) | TO(DIRTY),  "INVALIDATE to all others who share it, or at once UPGRADE; or waits") \
    DO(forward_read,  TO(SHARING),                      "READ_FORWARD to the owner")                    \
    DO(forward_write, TO(PASSING),                      "WRITE_FORWARD to the owner")                   \
    DO(queue_ask,       STAY,                             "waits in the queue")                           \
    DO(refuse,        STAY,                             "REFUSE")                                       \
    DO(cleared,       STAY | TO(UNSHARED), "the last one: ATOMIC_DONE, or wakes; then who waits is next") \
    DO(granted,       STAY | TO(DIRTY), "the last one: OWN, or UPGRADE; then who waits is next") \
    DO(cleared_left,  STAY | TO(UNSHARED), "RELEASE; and as ACK") \
    DO(granted_left,  STAY | TO(DIRTY), "RELEASE; and as ACK") \
    DO(demoted,       TO(SHARED),                "wakes; RELEASE to who gave it up; then who waits is next") \
    DO(shared_bytes,  STAY | TO(SHARED), "with GOT, too: who waits is next")             \
    DO(shared_got,    STAY | TO(SHARED), "with BYTES, too: who waits is next")           \
    DO(shared_back,   TO(SHARED),                "SHARE, RELEASE; then who waits is next")       \
    DO(shared_left,   STAY,                             "RELEASE, when all is done")                    \
    DO(passed,        TO(DIRTY),                 "RELEASE to who had it; then who waits is next") \
    DO(passed_back,   TO(DIRTY),                 "OWN, RELEASE; then who waits is next")         \
    DO(recalled,      TO(UNSHARED),              "RELEASE; ATOMIC_DONE, or wakes; then who waits is next") \
    DO(left,          STAY | TO(UNSHARED),              "RELEASE")                                      \
    DO(left_too,      STAY, "RELEASE, when the bytes are here") \
    DO(came_back,     TO(UNSHARED),                     "RELEASE")                                      \
    DO(rebuild,       TO(REBUILDING),                   "what was under way is forgotten")              \
    DO(rebuild_bare,  TO(BARE),                         "likewise; the bytes here are not good")        \
    DO(rebuild_sharing, TO(REBUILDING) | TO(BARE),      "likewise; they are good, once BYTES came")     \
    DO(stay,          STAY,                             "nothing")                                      \
    DO(rebuild_gone,  STAY,                             "nothing")                                      \
    DO(free_away,     TO(FREED),                        "done; RELEASE to who gave it up")              \
    DO(away,          STAY,                             "it is not to be had now")                      \
    DO(claimed_gone,  STAY,                             "RELEASE")                                      \
    DO(claimed_shared, STAY,                            "noted")                                        \
    DO(claimed_dirty, TO(CLAIMED),                      "noted")                                        \
    DO(claimed_left,  STAY,                             "noted")                                        \
    DO(rebuilt,       TO(UNSHARED) | TO(SHARED), "RELEASE to who gave it up; then who waits is next") \
    DO(rebuilt_owned, TO(DIRTY),                 "RELEASE to who gave it up; then who waits is next") \
    DO(rebuilt_bare,  TO(DEMOTING) | TO(UNSHARED) | TO(AWAY) | TO(LOST), "FETCH_SHARED to one who shares it; or RESTORE to who had it last, and gave it up; or RELEASE to others who gave it up, and it is here, as who had it last never took it; or away, or lost") \
                                                                                                        \
/*                                            READ       WRITE       LOCK_READ  LOCK_WRITE  UNLOCK  FREE       ALLOC  YIELD  ASK_READ      ASK_WRITE      ASK_ATOMIC ACK    BYTES         GOT         EVICT        WRITE_BACK   CLAIM_SHARED    CLAIM_DIRTY    CLAIM_LEFT    REBUILD          REBUILT */ \
    STATE(UNSHARED,   "the bytes are here",   read_here, write_here, lock_read, lock_write, unlock, free_here, no,    yield, share,        own,           perform,   no,    no,           no,         no,          no,          no,             no,            no,           rebuild,         no)            \
    STATE(SHARED,     "here, and at some, to read", read_here, clear, lock_read, clear,     unlock, clear,     no,    yield, share,        own_shared,    clear,     no,    no,           no,         left,        no,          no,             no,            no,           rebuild,         no)            \
    STATE(DIRTY,      "one node has it",      fetch,     recall,     fetch,     recall,     no,     recall,    no,    no,    forward_read, forward_write, recall,    no,    no,           no,         no,          came_back,   no,             no,            no,           rebuild_bare,    no)            \
    STATE(LOST,       "nobody has it any more", gone,    gone,       gone,      gone,       no,     free_lost, no,    yield, refuse,       refuse,        refuse,    no,    no,           no,         no,          no,          no,             no,            claimed_gone,           rebuild_gone,            stay)          \
    STATE(AWAY,       "who had it last is gone, and may come back with it", away, away, away, away,  no,  free_away, no,   yield, refuse,       refuse,        refuse,    no,    no,           no,         no,          no,          no,             no,            no,           rebuild_bare,    no)            \
    STATE(FREED,      "it is not in use",     gone,      gone,       gone,      gone,       no,     gone,      alloc, yield, refuse,       refuse,        refuse,    no,    no,           no,         no,          no,          no,             no,            claimed_gone,           rebuild_gone,            stay)          \
    STATE(CLEARING,   "to UNSHARED: copies are given up", read_here, wait, wait, wait,      no,     wait,      no,    no,    queue_ask,      queue_ask,       queue_ask,   cleared, no,           no,         cleared_left,  no,          no,             no,            no,           rebuild,         no)            \
    STATE(RECALLING,  "to UNSHARED: the owner gives it up", wait, wait, wait,   wait,       no,     wait,      no,    no,    queue_ask,      queue_ask,       queue_ask,   no,    no,           no,         no,          recalled,    no,             no,            no,           rebuild_bare,    no)            \
    STATE(DEMOTING,   "to SHARED: a node tells the bytes", wait, wait, wait,    wait,       no,     wait,      no,    no,    queue_ask,      queue_ask,       queue_ask,   no,    demoted,      no,         left_too,        recalled,    no,             no,            no,           rebuild_bare,    no)            \
    STATE(SHARING,    "to SHARED: the owner gives another a copy", wait, wait, wait, wait,  no,     wait,      no,    no,    queue_ask,      queue_ask,       queue_ask,   no,    shared_bytes, shared_got, shared_left, shared_back, no,             no,            no,           rebuild_sharing, no)            \
    STATE(GRANTING,   "to DIRTY: copies are given up", read_here, wait, wait,   wait,       no,     wait,      no,    no,    queue_ask,      queue_ask,       queue_ask,   granted, no,           no,         granted_left,  no,          no,             no,            no,           rebuild,         no)            \
    STATE(PASSING,    "to DIRTY: the owner gives it to another", wait, wait, wait, wait,    no,     wait,      no,    no,    queue_ask,      queue_ask,       queue_ask,   no,    no,           passed,     no,          passed_back, no,             no,            no,           rebuild_bare,    no)            \
    STATE(REBUILDING, "a new term: the bytes here are good", wait, wait, wait,  wait,       unlock, wait,      no,    no,    no,           no,            no,        no,    no,           no,         no,          no,          claimed_shared, no,            claimed_left,           rebuild,         rebuilt)       \
    STATE(BARE,       "a new term: they are not", wait,  wait,       wait,      wait,       no,     wait,      no,    no,    no,           no,            no,        no,    no,           no,         no,          no,          claimed_shared, claimed_dirty, claimed_left, rebuild_bare,    rebuilt_bare)  \
    STATE(CLAIMED,    "a new term: one node has it", wait, wait,     wait,      wait,       no,     wait,      no,    no,    no,           no,            no,        no,    no,           no,         no,          no,          no,             no,            claimed_left, rebuild_bare,    rebuilt_owned)
/* clang-format on */

#endif
