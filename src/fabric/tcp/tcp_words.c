/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FABRIC_CAN_WORDS: what peers WRITE is stored by words, each aligned one at once, and a READ of
 * one word is a load.
 *
 * The kernel would not do: it copies what is in a packet, which ends anywhere, and what it copied
 * of a word can be seen before the rest is here. So a WRITE comes through the staging buffer, and
 * the first bytes of a word whose others are not here yet wait with the endpoint. Other operations,
 * which nobody looks at before they are told of, go straight to their place.
 */
#include "fabric/tcp/tcp_internal.h"

#include <string.h>

static bool is_aligned(const void *place)
{
    return (uintptr_t)place % TCP_WORD_BYTES == 0;
}

/* Two words at once: so a long WRITE takes a fifth of the time that single words take. Each is one
 * movaps (volatile, and the compilers make no two of it), of 16 aligned bytes. */
typedef uint64_t word_pair __attribute__((vector_size(2 * TCP_WORD_BYTES)));

#define PAIRS_BYTES (4 * sizeof(word_pair))

/* Whether the processor promises that such a store is seen whole or not at all. Of an aligned word
 * all do that nigh is built for. Of 16 bytes Intel (SDM, volume 3A, 9.1.1) and AMD (APM, volume 2,
 * 7.3.2) do where there is AVX, also for movaps; without it Intel says that an SSE store may be
 * several accesses, and not that none is of less than a word, though none was ever seen to be. Arm
 * does with LSE2, which is not looked for. Where nobody promises, words are stored one by one. */
static bool has_pairs(void)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) /* to which a pair is a race */
    return __builtin_cpu_supports("avx") != 0;
#else
    return false;
#endif
}

/* Four pairs after the other, from a place of aligned pairs on; how many bytes. */
static uint64_t store_pairs(uint8_t *place, const uint8_t *bytes, uint64_t count)
{
    uint64_t done = 0;

    for (; done + PAIRS_BYTES <= count; done += PAIRS_BYTES) {
        volatile word_pair *to = (volatile word_pair *)(void *)(place + done);
        word_pair pairs[4];

        memcpy(pairs, bytes + done, sizeof(pairs));
        to[0] = pairs[0];
        to[1] = pairs[1];
        to[2] = pairs[2];
        to[3] = pairs[3];
    }
    return done;
}

static void store(uint8_t *place, const uint8_t *bytes, uint64_t count)
{
    while (count > 0) {
        uint64_t done = 0, word;

        if (has_pairs() && (uintptr_t)place % sizeof(word_pair) == 0)
            done = store_pairs(place, bytes, count);
        if (done == 0 && count >= TCP_WORD_BYTES && is_aligned(place)) {
            memcpy(&word, bytes, TCP_WORD_BYTES);
            __atomic_store_n((uint64_t *)(void *)place, word, __ATOMIC_RELAXED);
            done = TCP_WORD_BYTES;
        } else if (done == 0) {
            __atomic_store_n(place, *bytes, __ATOMIC_RELAXED);
            done = 1;
        }
        place += done;
        bytes += done;
        count -= done;
    }
}

/* How many of the last bytes before `end`, of `count`, begin a word that lies in the WRITE and ends
 * among the `left` that are still to come. */
static uint32_t begun(const uint8_t *end, uint64_t count, uint64_t left)
{
    uint32_t bytes = (uint32_t)((uintptr_t)end % TCP_WORD_BYTES);

    return bytes <= count && TCP_WORD_BYTES - bytes <= left ? bytes : 0;
}

bool tcp_words_take(struct fabric_endpoint *endpoint, const uint8_t *bytes, uint64_t count)
{
    struct tcp_incoming *in = &endpoint->in;
    uint64_t together = in->held + count;
    uint8_t *place =
        tcp_memory_reach(endpoint->tcp, in->frame.key, in->frame.address + in->done - in->held,
                         together, FABRIC_REMOTE_WRITE);
    uint32_t keep;

    if (place == NULL)
        return false;
    in->done += count;
    in->left -= count;
    if (in->held > 0) {
        uint32_t more = (uint32_t)min_u64(count, TCP_WORD_BYTES - in->held);

        memcpy(in->word + in->held, bytes, more);
        in->held += more;
        if (in->held < TCP_WORD_BYTES)
            return true;
        store(place, in->word, TCP_WORD_BYTES);
        place += TCP_WORD_BYTES;
        bytes += more;
        count -= more;
    }
    keep = begun(place + count, count, in->left);
    store(place, bytes, count - keep);
    memcpy(in->word, bytes + (count - keep), keep);
    in->held = keep;
    return true;
}

bool tcp_words_load(const void *place, uint64_t bytes, uint64_t *word)
{
    if (bytes != TCP_WORD_BYTES || !is_aligned(place))
        return false;
    *word = __atomic_load_n((const uint64_t *)place, __ATOMIC_SEQ_CST);
    return true;
}
