/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of the exchange: sizes, bounds, times. What they are for is in docs/transfer.md. */
#ifndef OBJECT_EXCHANGE_FIGURES_H
#define OBJECT_EXCHANGE_FIGURES_H

#include <stdint.h>

#include "object/crossover.h"
#include "object/exchange_wire.h"

struct members;

#define EXCHANGE_QUEUE      8u    /* places of a link for calls that wait for a credit */
#define EXCHANGE_WAITS      512u  /* such places that all links of the lane share */
#define EXCHANGE_PAYLOAD    8448u /* an object of 8 KiB comes inline */
#define EXCHANGE_BULK_BYTES (32768u + (uint32_t)sizeof(struct wire_chunk))
#define EXCHANGE_WINDOW_BYTES \
    ((UINT32_C(1) << 18) + (uint32_t)sizeof(struct wire_chunk)) /* that a holder writes into */
#define EXCHANGE_CROSSOVER CROSSOVER_FIRST_BYTES
#define EXCHANGE_CHUNK     (UINT64_C(1) << 20) /* of one READ */
#define EXCHANGE_WINDOW    8u                  /* READs of one pull under way */
#define EXCHANGE_READS     64u                 /* of one link; and of each endpoint for regions */
#define EXCHANGE_WRITES    64u                 /* and atomics, of each endpoint for regions */
#define EXCHANGE_STREAM    8u                  /* messages granted to one pull at once */
#define EXCHANGE_OFFER     4u /* messages granted with a LOCATE, which may bring none */
#define EXCHANGE_KEYS      (1u << 20)
#define EXCHANGE_LENT      4096u /* chains of serves by object; a power of two */
#define EXCHANGE_DECLINES  64u   /* of a link, not said yet; more than it has calls under way */
#define EXCHANGE_PIECES    64u   /* of a loan that one reply tells; the rest is asked for again */
#define EXCHANGE_RUNS      64u   /* of such pieces that a lane keeps for the next loans */
/* Calls of a link that wait for no delete: a home may not answer those before it was told what is
 * news here, which takes a call. */
#define EXCHANGE_UNERASED 2u
#define EXCHANGE_SLICES   3u /* of a message: its head, and bytes that lie in two extents */

#define EXCHANGE_CALL_US     UINT64_C(2000000) /* deadline of a call to another exchange */
#define EXCHANGE_ERASE_US    UINT64_C(5000000) /* a delete waits for other nodes at most */
#define EXCHANGE_PAUSE_US    UINT64_C(1000)    /* before a pull tries again; doubled each time */
#define EXCHANGE_PAUSE_MAX   UINT64_C(100000)
#define EXCHANGE_ASK_US      UINT64_C(500000)  /* a waiting pull asks its home again */
#define EXCHANGE_AGAIN_US    UINT64_C(1000000) /* before a full home is told again; doubled */
#define EXCHANGE_AGAIN_MAX   UINT64_C(60000000)
#define EXCHANGE_CONFLICT_US UINT64_C(1000000) /* between lines of the log of what was dropped */
#define EXCHANGE_RENEW_US    UINT64_C(1000000) /* a puller says that it still reads */
#define EXCHANGE_LOAN_US     UINT64_C(10000000)
#define EXCHANGE_SUM_BYTES   (UINT64_C(1) << 18) /* summed for one loan in one turn */
#define EXCHANGE_TURN_PULLS  64u                 /* steps of pulls in one turn */
#define EXCHANGE_SPOILT \
    3u /* answers of other bytes, or of what cannot be read, before a pull gives up */
#define EXCHANGE_LOOKS   10u /* looks for such holders while a loan lasts */
#define EXCHANGE_CROWDED 4u  /* this part of a loan's time it has while other pulls wait for it */
#define EXCHANGE_SILENCE \
    3u /* times as long as loans last, a holder may do nothing for a transfer */

/* What a link keeps receives for, and how much news, by the number of members, which is the same at
 * all of them: with many peers each says less. */
struct exchange_window {
    uint32_t members; /* up to so many */
    uint32_t requests, calls, bulk_receives, announcements;
    uint32_t users; /* calls of everybody that the channel for calls has under way */
};

const struct exchange_window *exchange_window_of(const struct members *members);

#endif
