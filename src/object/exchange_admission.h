/* SPDX-License-Identifier: Apache-2.0 */
/* What pulls are admitted with (exchange_admission.c). For the exchange alone. */
#ifndef OBJECT_EXCHANGE_ADMISSION_H
#define OBJECT_EXCHANGE_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"

struct exchange;
struct pull;

struct admission {
    uint32_t others;                /* members but this one that are not dead */
    bool is_dead[LIMIT_NODES];      /* nobody has that rank, or it is dead */
    uint64_t bytes[LIMIT_NODES];    /* admitted, by the holder's rank */
    struct list lines[LIMIT_NODES]; /* pulls that wait, by the same, in order */
    uint32_t count;                 /* of those */
    uint64_t last_number;
};

void admission_init(struct exchange *exchange);
/* A member is dead, or is there (again). */
void admission_member(struct exchange *exchange, uint32_t rank, bool is_dead);
/* Admits the bytes of a pull, whose holder is chosen. False: it has to wait. */
bool admission_take(struct exchange *exchange, struct pull *pull);
void admission_give(struct exchange *exchange, struct pull *pull);
/* The pull has another holder, perhaps: its bytes are in that one's share now. */
void admission_move(struct exchange *exchange, struct pull *pull);
/* It stands in line from here on, in no other list; and no more. */
void admission_wait(struct exchange *exchange, struct pull *pull);
void admission_leave(struct exchange *exchange, struct pull *pull);
/* The first of those that wait, if it would be admitted now. */
struct pull *admission_next(const struct exchange *exchange);
bool admission_is_valid(const struct exchange *exchange);

#endif
