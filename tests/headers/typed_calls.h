/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nigh/typed.h makes, compiled by tools/check-headers as C and as C++: the header alone makes
 * nothing. TYPED_WRONG: what must not compile, 1: a type that is too large, 2: a tail that is; in
 * C++ also 3: a type that is not its bytes.
 */
#ifndef TESTS_TYPED_CALLS_H
#define TESTS_TYPED_CALLS_H

#include "nigh/typed.h"

struct typed_ask {
    uint32_t number;
    char name[20];
};

struct typed_most {
    unsigned char bytes[NIGH_TYPED_BYTES];
};

NIGH_TYPED_CALL(typed_plain, "plain", 1, struct typed_ask, double);
NIGH_TYPED_CALL(typed_large, "large", 7, struct typed_most, struct typed_most);
NIGH_TYPED_CALL_TAILS(typed_tailed, "tailed", 2, struct typed_ask, 100, uint8_t,
                      NIGH_TYPED_BYTES - 1);

#if defined(TYPED_WRONG) && TYPED_WRONG == 1
struct typed_larger {
    unsigned char bytes[NIGH_TYPED_BYTES + 1];
};
NIGH_TYPED_CALL(typed_wrong, "wrong", 1, int, struct typed_larger);
#elif defined(TYPED_WRONG) && TYPED_WRONG == 2
NIGH_TYPED_CALL_TAILS(typed_wrong, "wrong", 1, struct typed_most, 1, int, 0);
#elif defined(TYPED_WRONG)
struct typed_owner {
    ~typed_owner()
    {
        *at = 0;
    }
    int *at;
};
NIGH_TYPED_CALL(typed_wrong, "wrong", 1, typed_owner, int);
#endif

nigh_status typed_uses(nigh_client *client);

nigh_status typed_uses(nigh_client *client)
{
    struct typed_ask ask = {1, "C"};
    double told = 0;

    return typed_plain_call(client, NIGH_ANY_RANK, &ask, &told, 1000);
}

#endif
