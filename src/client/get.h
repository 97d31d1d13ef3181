/* SPDX-License-Identifier: Apache-2.0 */
/* A look for an object without the lane (get.c). For libnigh alone. */
#ifndef CLIENT_GET_H
#define CLIENT_GET_H

#include <stdatomic.h>
#include <stdint.h>

#include "memory/index.h"
#include "nigh/nigh.h"

/* Finds and pins without the lane; NULL when there is no hit. *word: to clear when done. */
const struct index_entry *get_peek(nigh_client *client, const nigh_id *id,
                                   enum index_answer *answer, _Atomic uint64_t **word,
                                   uint32_t *number);

#endif
