/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of a node that caches a block, as a table: what can happen to it (EVENT), what is done
 * (DO) and what may come of it, and for each state what each event does. `no` is a hole: nobody who
 * keeps to the protocol is there. All else is made of this: enumerations, names, dispatch, and the
 * tables of docs/spaces.md.
 *
 *   EVENT(name, from, has bytes, what)   DO(name, becomes, what)   STATE(name, what, a cell an
 * event)
 */
#ifndef SPACE_CACHE_TABLE_H
#define SPACE_CACHE_TABLE_H

/* clang-format off */
#define SPACE_CACHE_TABLE(EVENT, DO, STATE)                                                             \
    EVENT(READ,             SPACE_HERE,     0, "a client reads")                                        \
    EVENT(WRITE,            SPACE_HERE,     0, "a client's write is to be applied")                     \
    EVENT(ATOMIC,           SPACE_HERE,     0, "a client's atomic is to be done")                       \
    EVENT(LOCK_READ,        SPACE_HERE,     0, "a client wants to hold the block, to read")             \
    EVENT(LOCK_WRITE,       SPACE_HERE,     0, "a client wants to hold the block alone")                \
    EVENT(UNLOCK,           SPACE_HERE,     0, "a client lets go")                                      \
    EVENT(EVICT,            SPACE_HERE,     0, "the frame is wanted for another block")                 \
    EVENT(EVICT_AT_ONCE,    SPACE_HERE,     0, "the same, and nothing reads what lies in it")           \
    EVENT(SHARE,            SPACE_A_NODE,   1, "here it is, to read")                                   \
    EVENT(OWN,              SPACE_A_NODE,   1, "here it is, to read and write")                         \
    EVENT(UPGRADE,          SPACE_THE_HOME, 0, "what you have you may write")                           \
    EVENT(INVALIDATE,       SPACE_THE_HOME, 0, "give up your copy")                                     \
    EVENT(FETCH_SHARED,     SPACE_THE_HOME, 0, "give me the bytes, go on reading")                      \
    EVENT(FETCH_INVALIDATE, SPACE_THE_HOME, 0, "give me the bytes, and give it up")                     \
    EVENT(READ_FORWARD,     SPACE_THE_HOME, 0, "give `whom` and me the bytes, go on reading")           \
    EVENT(WRITE_FORWARD,    SPACE_THE_HOME, 0, "give it to `whom`")                                     \
    EVENT(RELEASE,          SPACE_THE_HOME, 0, "what you gave up is not needed any more")               \
    EVENT(REFUSE,           SPACE_THE_HOME, 0, "there is no such block, or it is away")                 \
    EVENT(ATOMIC_DONE,      SPACE_THE_HOME, 0, "your atomic is done; its result")                       \
    EVENT(RESTORE,          SPACE_THE_HOME, 0, "read what you gave up again, and give me the bytes")    \
    EVENT(ADOPT,            SPACE_HERE,     0, "the home has begun a term")                             \
    EVENT(OPEN,             SPACE_HERE,     0, "the home has heard all, and serves")                    \
                                                                                                        \
    DO(no,             0,                             "impossible")                                     \
    DO(wait,           STAY,                          "waits")                                          \
    DO(ask_read,       STAY | TO(TO_SHARED),          "waits; ASK_READ, if the home is open")           \
    DO(ask_write,      STAY | TO(TO_DIRTY),           "waits; ASK_WRITE, if the home is open")          \
    DO(ask_atomic,     STAY | TO(AT_HOME),            "waits; ASK_ATOMIC, if the home is open")         \
    DO(ask_upgrade,    STAY | TO(UPGRADING),          "waits; ASK_WRITE, if nobody here holds it and the home is open") \
    DO(read_hit,       STAY,                          "done, or waits for who holds it alone")          \
    DO(write_hit,      STAY,                          "done, or waits for who holds it")                \
    DO(lock_read,      STAY,                          "held, or waits: for who holds it alone, for a writer here, as another node waits, or until a term is open, if it was given back as that began") \
    DO(lock_write,     STAY,                          "held, or waits for who holds it")                \
    DO(unlock_shared,  STAY | TO(INVALID),            "the last one: what the home was owed comes first, then who waits here") \
    DO(unlock_dirty,   STAY | TO(SHARED) | TO(WRITING_BACK) | TO(HANDED), "the last one: what the home was owed comes first, then who waits here") \
    DO(evict,          STAY | TO(EVICTING),           "EVICT, unless it is held")                       \
    DO(evict_at_once,  STAY | TO(FRAMELESS),          "EVICT, and the frame is free, unless it is held") \
    DO(evict_dirty,    STAY | TO(WRITING_BACK),       "WRITE_BACK, unless it is held")                  \
    DO(keep,           STAY,                          "not now")                                        \
    DO(take_shared,    TO(SHARED),                    "GOT to the home, if another gave it; wakes")     \
    DO(take_dirty,     TO(DIRTY),                     "GOT to the home, if another gave it; wakes")     \
    DO(take_upgrade,   TO(DIRTY),                     "wakes")                                          \
    DO(invalidate,     STAY | TO(INVALID),            "ACK; owed, while it is held")                    \
    DO(invalidate_on,  TO(TO_DIRTY),                  "ACK; the bytes will come with the right")        \
    DO(demote,         STAY | TO(SHARED),             "BYTES; owed, while it is held alone")            \
    DO(tell_bytes,     STAY,                          "BYTES: the home lost its own")                   \
    DO(write_back,     STAY | TO(WRITING_BACK),       "WRITE_BACK; owed, while it is held")             \
    DO(share_on,       STAY | TO(SHARED),             "SHARE to whom, BYTES; owed, while it is held alone") \
    DO(hand_on,        STAY | TO(HANDED),             "OWN to whom; owed, while it is held")            \
    DO(pass_over,      STAY,                          "nothing: what was said already answers it")      \
    DO(released,       TO(INVALID),                   "the frame is free; wakes")                       \
    DO(refused,        TO(INVALID),                   "all that waits ends")                            \
    DO(atomic_done,    TO(INVALID),                   "the atomic ends; wakes")                         \
    DO(keep_away,      STAY,                          "it is kept; all that waits ends")                \
    DO(restored,       TO(SHARED),                    "BYTES; wakes")                                   \
    DO(stay,           STAY,                          "nothing")                                        \
    DO(claim_shared,   TO(SHARED),                    "CLAIM_SHARED; nothing is owed any more")         \
    DO(claim_dirty,    STAY,                          "CLAIM_DIRTY; nothing is owed any more")          \
    DO(claim_left,     STAY,                          "CLAIM_LEFT")                                     \
    DO(forget,         TO(INVALID),                   "nothing: nothing of it is here")                 \
    DO(lend,           TO(LENT),                      "the frame waits for what may be under way")      \
    DO(doubt,          TO(INVALID),                   "the atomic ends, in doubt")                      \
    DO(go_on,          STAY,                          "wakes")                                          \
    DO(get_back,       TO(INVALID),                   "the frame is free; wakes")                       \
                                                                                                        \
/*                                             READ      WRITE        ATOMIC       LOCK_READ  LOCK_WRITE   UNLOCK  EVICT        EVICT_AT_ONCE  SHARE        OWN         UPGRADE       INVALIDATE     FETCH_SHARED FETCH_INVALIDATE READ_FORWARD WRITE_FORWARD RELEASE   REFUSE   ATOMIC_DONE  RESTORE   ADOPT         OPEN */ \
    STATE(INVALID,      "nothing is here",     ask_read, ask_write,   ask_atomic,  ask_read,  ask_write,   no,     no,          no,            no,          no,         no,           no,            no,          no,              no,          no,           no,       no,      no,          no,       stay,         go_on)  \
    STATE(SHARED,       "to read",             read_hit, ask_upgrade, ask_upgrade, lock_read, ask_upgrade, unlock_shared, evict,       evict_at_once, no,          no,         no,           invalidate,    tell_bytes,  no,              no,          no,           no,       no,      no,          no,       claim_shared, go_on)  \
    STATE(DIRTY,        "to read and write",   read_hit, write_hit,   write_hit,   lock_read, lock_write,  unlock_dirty, evict_dirty, no,            no,          no,         no,           no,            demote,      write_back,      share_on,    hand_on,      no,       no,      no,          no,       claim_dirty,  go_on)  \
    STATE(TO_SHARED,    "asked, to read",      wait,     wait,        wait,        wait,      wait,        no,     keep,        no,            take_shared, no,         no,           no,            no,          no,              no,          no,           no,       refused, no,          no,       lend,         no)     \
    STATE(TO_DIRTY,     "asked, to write",     wait,     wait,        wait,        wait,      wait,        no,     keep,        no,            no,          take_dirty, no,           no,            no,          no,              no,          no,           no,       refused, no,          no,       lend,         no)     \
    STATE(UPGRADING,    "to read; asked, to write", read_hit, wait,   wait,        wait,      wait,        no,     keep,        no,            no,          no,         take_upgrade, invalidate_on, no,          no,              no,          no,           no,       no,      no,          no,       claim_shared, no)     \
    STATE(AT_HOME,      "an atomic is asked for", wait,  wait,        wait,        wait,      wait,        no,     no,          no,            no,          no,         no,           no,            no,          no,              no,          no,           no,       refused, atomic_done, no,       doubt,        no)     \
    STATE(EVICTING,     "given up",            wait,     wait,        wait,        wait,      wait,        no,     keep,        no,            no,          no,         no,           pass_over,     no,          no,              no,          no,           released, no,      no,          restored, claim_left,   stay)       \
    STATE(FRAMELESS,    "given up, and the frame is another's", wait,     wait,        wait,        wait,      wait,        no,     no,          no,            no,          no,         no,           pass_over,     no,          no,              no,          no,           released, no,      no,          no,       forget,       no)       \
    STATE(WRITING_BACK, "given to the home",   wait,     wait,        wait,        wait,      wait,        no,     keep,        no,            no,          no,         no,           no,            pass_over,   pass_over,       pass_over,   pass_over,    released, no,      no,          restored, claim_left,   stay)    \
    STATE(HANDED,       "given to another",    wait,     wait,        wait,        wait,      wait,        no,     keep,        no,            no,          no,         no,           no,            no,          no,              no,          no,           released, keep_away,      no,          restored, claim_left,   stay)     \
    STATE(LENT,         "of an earlier term: bytes may come or go", wait, wait, wait, wait,   wait,        no,     keep,        no,            no,          no,         no,           no,            no,          no,              no,          no,           no,       no,      no,          no,       stay,         get_back)
/* clang-format on */

#endif
