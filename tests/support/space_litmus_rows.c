/* SPDX-License-Identifier: Apache-2.0 */
/* The table of litmus tests; see space_litmus.h. */
#include "support/space_litmus.h"

enum {
    X,
    Y,
    Z
};

#define W(variable, value)            \
    {                                 \
        LITMUS_WRITE, variable, value \
    }
#define R(variable)              \
    {                            \
        LITMUS_READ, variable, 0 \
    }
#define S                        \
    {                            \
        LITMUS_STORE_FENCE, 0, 0 \
    }
#define F                  \
    {                      \
        LITMUS_FENCE, 0, 0 \
    }
#define FLUSH              \
    {                      \
        LITMUS_FLUSH, 0, 0 \
    }
#define PUT(variable, value)        \
    {                               \
        LITMUS_PUT, variable, value \
    }
#define GET(variable)           \
    {                           \
        LITMUS_GET, variable, 0 \
    }
#define ADD(variable, value)        \
    {                               \
        LITMUS_ADD, variable, value \
    }
#define SWAP(variable, value)            \
    {                                    \
        LITMUS_EXCHANGE, variable, value \
    }
#define SWAP_ZERO(variable, value)        \
    {                                     \
        LITMUS_SWAP_ZERO, variable, value \
    }
#define TRY(variable)                \
    {                                \
        LITMUS_TRY_LOCK, variable, 0 \
    }
#define LOCK(variable)                 \
    {                                  \
        LITMUS_LOCK_WRITE, variable, 0 \
    }
#define LOCK_READ(variable)           \
    {                                 \
        LITMUS_LOCK_READ, variable, 0 \
    }
#define UNLOCK(variable)           \
    {                              \
        LITMUS_UNLOCK, variable, 0 \
    }
#define TELL              \
    {                     \
        LITMUS_TELL, 0, 1 \
    }
#define HEAR              \
    {                     \
        LITMUS_HEAR, 0, 0 \
    }

#define SAW(thread, read, value) \
    {                            \
        1, thread, read, value   \
    }
#define ENDS(variable, value) \
    {                         \
        2, 0, variable, value \
    }

/* clang-format off */
const struct litmus_row litmus_rows[] = {
    /* The classical ones, each with no fences, store fences and full fences between all ops. */
    {"SB", "aaf", "aaf",
     {{W(X, 1), R(Y)}, {W(Y, 1), R(X)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    {"SB+rfi", "aaf", "aaf",
     {{W(X, 1), R(X), R(Y)}, {W(Y, 1), R(Y), R(X)}},
     {SAW(0, 0, 1), SAW(0, 1, 0), SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"MP", "aff", "fff",
     {{W(X, 1), W(Y, 1)}, {R(Y), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"LB", "fff", "fff",
     {{R(X), W(Y, 1)}, {R(Y), W(X, 1)}},
     {SAW(0, 0, 1), SAW(1, 0, 1)}},
    {"S", "aff", "fff",
     {{W(X, 2), W(Y, 1)}, {R(Y), W(X, 1)}},
     {SAW(1, 0, 1), ENDS(X, 2)}},
    {"R", "aaf", "aaf",
     {{W(X, 1), W(Y, 1)}, {W(Y, 2), R(X)}},
     {SAW(1, 0, 0), ENDS(Y, 2)}},
    {"2+2W", "aff", "fff",
     {{W(X, 1), W(Y, 2)}, {W(Y, 1), W(X, 2)}},
     {ENDS(X, 1), ENDS(Y, 1)}},
    {"WRC", "fff", "fff",
     {{W(X, 1)}, {R(X), W(Y, 1)}, {R(Y), R(X)}},
     {SAW(1, 0, 1), SAW(2, 0, 1), SAW(2, 1, 0)}},
    {"IRIW", "fff", "fff",
     {{W(X, 1)}, {W(Y, 1)}, {R(X), R(Y)}, {R(Y), R(X)}},
     {SAW(2, 0, 1), SAW(2, 1, 0), SAW(3, 0, 1), SAW(3, 1, 0)}},
    {"RWC", "aaf", "aaf",
     {{W(X, 1)}, {R(X), R(Y)}, {W(Y, 1), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0), SAW(2, 0, 0)}},
    {"W+RWC", "aaf", "aaf",
     {{W(X, 1), W(Y, 1)}, {R(Y), R(Z)}, {W(Z, 1), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0), SAW(2, 0, 0)}},
    {"ISA2", "aff", "fff",
     {{W(X, 1), W(Y, 1)}, {R(Y), W(Z, 1)}, {R(Z), R(X)}},
     {SAW(1, 0, 1), SAW(2, 0, 1), SAW(2, 1, 0)}},
    {"CoRR", "fff", "fff",
     {{W(X, 1)}, {R(X), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"CoWR", "fff", "fff",
     {{W(X, 1), R(X)}, {W(X, 2)}},
     {SAW(0, 0, 2), ENDS(X, 1)}},
    {"CoWW", "fff", "fff",
     {{W(X, 1), W(X, 2)}, {R(X), R(X)}},
     {ENDS(X, 1)}},
    {"CoRW1", "fff", "fff",
     {{R(X), W(X, 1)}},
     {SAW(0, 0, 1)}},
    {"CoRW2", "fff", "fff",
     {{R(X), W(X, 1)}, {W(X, 2)}},
     {SAW(0, 0, 2), ENDS(X, 2)}},
    /* Told by another way: a full fence, or a flush, is what it needs, in a block, too. */
    {"MP+told", "aaf", "aaf",
     {{W(X, 1), TELL}, {HEAR, R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"MP+flush+told", "f--", "f--",
     {{W(X, 1), FLUSH, TELL}, {HEAR, R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"SB+flush", "f--", "f--",
     {{W(X, 1), FLUSH, R(Y)}, {W(Y, 1), FLUSH, R(X)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    {"SB+one fence", "a--", "a--",
     {{W(X, 1), F, R(Y)}, {W(Y, 1), R(X)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    /* The reader needs no fence. */
    {"MP+store fence", "f--", "f--",
     {{W(X, 1), S, W(Y, 1)}, {R(Y), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"MP+put+get", "f--", "f--",
     {{W(X, 1), PUT(Y, 1)}, {GET(Y), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"SB+put+get", "a--", "a--",
     {{PUT(X, 1), GET(Y)}, {PUT(Y, 1), GET(X)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    /* A store fence is of all that was written before it. */
    {"MP+two+store fence", "f--", "f--",
     {{W(X, 1), W(Z, 1), S, W(Y, 1)}, {R(Y), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    /* Atomics wait for their answer, and are no fence for what was written before. */
    {"SB+atomics", "f--", "f--",
     {{SWAP(X, 1), R(Y)}, {SWAP(Y, 1), R(X)}},
     {SAW(0, 1, 0), SAW(1, 1, 0)}},
    {"MP+atomic", "aff", "fff",
     {{W(X, 1), ADD(Y, 1)}, {R(Y), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"MP+atomics", "f--", "f--",
     {{ADD(X, 1), ADD(Y, 1)}, {ADD(Y, 2), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"2+2W+atomics", "f--", "f--",
     {{SWAP(X, 1), SWAP(Y, 2)}, {SWAP(Y, 1), SWAP(X, 2)}},
     {ENDS(X, 1), ENDS(Y, 1)}},
    {"two adds", "f--", "f--",
     {{ADD(X, 1)}, {ADD(X, 1)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    {"two swaps", "f--", "f--",
     {{SWAP(X, 1)}, {SWAP(X, 2)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    {"two compare-swaps", "f--", "f--",
     {{SWAP_ZERO(X, 1)}, {SWAP_ZERO(X, 2)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    {"MP+compare-swap", "aff", "fff",
     {{W(X, 1), SWAP_ZERO(Y, 1)}, {R(Y), R(X)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"write, add", "f--", "f--",
     {{W(X, 4), ADD(X, 1)}, {ADD(X, 2)}},
     {SAW(0, 0, 0)}},
    /* Locks, and unlocks, come behind all that was written. */
    {"MP+lock", "f--", "f--",
     {{LOCK(Y), W(X, 1), W(Y, 1), UNLOCK(Y)}, {LOCK_READ(Y), R(Y), R(X), UNLOCK(Y)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"two under a lock", "f--", "f--",
     {{LOCK(Z), W(X, 1), W(Y, 1), UNLOCK(Z)}, {LOCK_READ(Z), R(X), R(Y), UNLOCK(Z)}},
     {SAW(1, 0, 1), SAW(1, 1, 0)}},
    {"add under a lock", "f--", "f--",
     {{LOCK(X), R(X), W(X, 1), UNLOCK(X)}, {LOCK(X), R(X), W(X, 2), UNLOCK(X)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    {"two tries", "f--", "f--",
     {{TRY(Z), R(X), W(X, 1), UNLOCK(Z)}, {TRY(Z), R(X), W(X, 2), UNLOCK(Z)}},
     {SAW(0, 0, 1), SAW(1, 0, 1), SAW(0, 1, 0), SAW(1, 1, 0)}},
    {"MP+try", "f--", "f--",
     {{LOCK(Z), W(X, 1), W(Y, 1), UNLOCK(Z)}, {TRY(Z), R(Y), R(X), UNLOCK(Z)}},
     {SAW(1, 0, 1), SAW(1, 1, 1), SAW(1, 2, 0)}},
    {"reads under a lock", "f--", "f--",
     {{LOCK_READ(X), R(X), R(X), UNLOCK(X)}, {W(X, 1)}},
     {SAW(0, 0, 0), SAW(0, 1, 1)}},
    {"SB+locks between", "f--", "f--",
     {{W(X, 1), LOCK(Z), UNLOCK(Z), R(Y)}, {W(Y, 1), LOCK(Z), UNLOCK(Z), R(X)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
    {"SB+unlock", "a--", "f--",
     {{LOCK(Z), W(X, 1), UNLOCK(Z), R(Y)}, {W(Y, 1), F, R(X)}},
     {SAW(0, 0, 0), SAW(1, 0, 0)}},
};
/* clang-format on */

const uint32_t litmus_row_count = sizeof(litmus_rows) / sizeof(litmus_rows[0]);
