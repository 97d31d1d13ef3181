/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See link.h. The endpoint of a link for spaces: messages, and the bytes that are written before
 * them, in one order.
 *
 * Each message takes a receive of the peer, of which both sides count the same:
 * LIMIT_SPACE_RECEIVES at the begin, then those that the peer says are there again. That goes with
 * the next message, and alone when more than half are owed. Of such two are never on their way at
 * once, as they would tell of more than all: one receive more is enough for them. Who has no credit
 * while nothing is on its way is owed half or less, so there is one. Who sends without one finds no
 * receive, which ends the link, or takes that of its own news.
 *
 * Receives are owed when what lay in them is read, and posted before the chain that tells of them:
 * links_flush.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/link_internal.h"

#define LOG_MODULE "link"
#include "base/log.h"

#define SPACE_MAGIC    0x53u
#define SPACE_RECEIVES (LIMIT_SPACE_RECEIVES + 1u)
#define SPACE_WORDS    (SPACE_RECEIVES + LIMIT_SPACE_SENDS + 1u)
#define SPACE_POSTS    (2u * LIMIT_SPACE_SENDS + 1u) /* two of a message, and credits alone */
#define SPACE_CREDITS  UINT64_MAX                    /* the tag of those */

enum link_space_kind {
    SPACE_MESSAGE = 1, /* with what was written before it */
    SPACE_NEWS         /* credits alone */
};

_Static_assert((int)LINK_READS + LIMIT_BULK_ENDPOINTS - 1 <= (int)LINK_SPACES,
               "kinds of endpoints are on the wire");
_Static_assert(SPACE_POSTS <= LIMIT_FABRIC_DEPTH, "an endpoint has room for them");
_Static_assert(LINK_SPACE_SLICES <= LIMIT_FABRIC_SLICES, "they are one WRITE");
_Static_assert(LIMIT_SPACE_SENDS > LINK_SIGNAL_EVERY, "what is not signalled leaves places free");

/* ---- memory --------------------------------------------------------------- */

static uint64_t words_bytes(void)
{
    return (SPACE_WORDS * sizeof(struct link_space_word) + 63) & ~UINT64_C(63);
}

uint64_t link_space_bytes(void)
{
    return sizeof(struct link_space) + words_bytes() +
           LIMIT_SPACE_SENDS * sizeof(struct link_space_send) +
           SPACE_RECEIVES * (sizeof(struct link_early) + sizeof(uint32_t));
}

static struct link_space_word *word_of(const struct link_space *space, uint64_t number)
{
    return &space->words[SPACE_RECEIVES + number % LIMIT_SPACE_SENDS];
}

static struct link_space_word *news_word(const struct link_space *space)
{
    return &space->words[SPACE_WORDS - 1];
}

static struct link_space_send *send_of(const struct link_space *space, uint64_t number)
{
    return &space->sends[number % LIMIT_SPACE_SENDS];
}

static nigh_status make(struct link *link)
{
    struct link_space *space = calloc(1, sizeof(*space));

    if (space == NULL) {
        return NIGH_NO_RESOURCES;
    }
    link->space = space;
    space->words = aligned_alloc(64, words_bytes());
    space->sends = calloc(LIMIT_SPACE_SENDS, sizeof(*space->sends));
    space->early = calloc(SPACE_RECEIVES, sizeof(*space->early));
    space->over = calloc(SPACE_RECEIVES, sizeof(*space->over));
    if (space->words == NULL || space->sends == NULL || space->early == NULL ||
        space->over == NULL) {
        return NIGH_NO_RESOURCES;
    }
    link->sides[LINK_SPACES].early = space->early;
    link->sides[LINK_SPACES].over = space->over;
    return fabric_memory_register(link->links->config.fabric, space->words, words_bytes(),
                                  FABRIC_HOST, FABRIC_LOCAL_WRITE, &space->registration);
}

nigh_status link_space_prepare(struct link *link)
{
    nigh_status status = NIGH_OK;

    if (!link_has(link, LINK_SPACES)) {
        link_space_fini(link);
    } else if (link->space == NULL) {
        status = make(link);
    }
    if (status != NIGH_OK) {
        link_space_fini(link);
    }
    return status;
}

void link_space_fini(struct link *link)
{
    struct link_space *space = link->space;

    if (space == NULL) {
        return;
    }
    fabric_memory_deregister(link->links->config.fabric, space->registration);
    free(space->words);
    free(space->sends);
    free(space->early);
    free(space->over);
    free(space);
    link->space = NULL;
    link->sides[LINK_SPACES].early = NULL;
    link->sides[LINK_SPACES].over = NULL;
}

struct fabric_endpoint_options link_space_options(struct link_side *side)
{
    return (struct fabric_endpoint_options){.sends = SPACE_POSTS,
                                            .receives = SPACE_RECEIVES,
                                            .context = side,
                                            .inline_bytes = sizeof(struct link_space_word)};
}

uint32_t link_space_receives(void)
{
    return SPACE_RECEIVES;
}

struct fabric_receive link_space_receive(const struct link_side *side, uint32_t number)
{
    const struct link_space *space = side->link->space;

    return (struct fabric_receive){.tag = number,
                                   .slice = {.address = &space->words[number],
                                             .bytes = sizeof(struct link_space_word),
                                             .memory = space->registration}};
}

void link_space_begin(struct link *link)
{
    struct link_space *space = link->space;

    space->ended = space->posted = space->asked = 0;
    space->credits = LIMIT_SPACE_RECEIVES;
    space->owed = 0;
    space->telling = false;
    link->sides[LINK_SPACES].unsignalled = 0;
    link->sides[LINK_SPACES].early_count = 0;
}

/* ---- posts ---------------------------------------------------------------- */

/* What the peer is told of with the next head. */
static uint16_t take_owed(struct link_space *space)
{
    uint32_t owed = space->owed;

    space->owed = 0;
    return (uint16_t)owed;
}

/* Those of messages that somebody waits for the end of, and else one in LINK_SIGNAL_EVERY. */
static uint32_t signal_flags(struct link_side *side, bool is_awaited)
{
    if (!is_awaited && ++side->unsignalled < LINK_SIGNAL_EVERY) {
        return FABRIC_SOLICITED;
    }
    side->unsignalled = 0;
    return FABRIC_SOLICITED | FABRIC_SIGNALLED;
}

/* How many bytes it has. A device need not come for few of them. */
static uint64_t post(struct link_side *side, struct fabric_work *work)
{
    uint64_t bytes = 0;

    for (uint32_t n = 0; n < work->slice_count; n++) {
        bytes += work->slices[n].bytes;
    }
    if (bytes <= min_u64(sizeof(struct link_space_word),
                         side->link->links->config.fabric->caps.inline_bytes)) {
        work->flags |= FABRIC_INLINE;
    }
    link_add_to_chain(side, work);
    return bytes;
}

static void post_word(struct link_side *side, struct link_space_word *word, uint32_t flags,
                      uint64_t tag)
{
    struct fabric_slice slice = {.address = word,
                                 .bytes = sizeof(word->head) + word->head.bytes,
                                 .memory = side->link->space->registration};
    struct fabric_work work = {
        .op = FABRIC_SEND, .flags = flags, .tag = tag, .slices = &slice, .slice_count = 1};

    word->head.magic = SPACE_MAGIC;
    word->head.credits = take_owed(side->link->space);
    (void)post(side, &work);
}

/* The first that waits; there is a credit. What it is written with goes first, in one chain with
 * it. */
static void post_next(struct link_side *side)
{
    struct link_space *space = side->link->space;
    struct links_counters *counters = &side->link->links->counters;
    uint64_t number = space->posted++;
    const struct link_space_send *send = send_of(space, number);
    struct link_space_word *word = word_of(space, number);
    struct fabric_work work = {.op = FABRIC_WRITE,
                               .tag = number,
                               .slices = send->slices,
                               .slice_count = send->slice_count,
                               .remote = send->remote};
    uint32_t flags = signal_flags(side, send->done != NULL);

    space->credits--;
    counters->space_messages++;
    link_chain_room(side, 2);
    if (work.slice_count > 0) {
        counters->space_write_bytes += post(side, &work);
    }
    word->head = (struct link_space_head){.kind = SPACE_MESSAGE, .bytes = send->bytes};
    post_word(side, word, flags, number);
}

static void post_waiting(struct link_side *side)
{
    struct link_space *space = side->link->space;

    while (space->credits > 0 && space->posted < space->asked && !side->link->failed) {
        post_next(side);
    }
}

/* Its end says that it arrived: until then no other is sent. */
static void tell_credits(struct link_side *side)
{
    struct link_space *space = side->link->space;

    if (space->telling || side->link->failed || space->owed <= LIMIT_SPACE_RECEIVES / 2) {
        return;
    }
    space->telling = true;
    side->link->links->counters.space_credits++;
    news_word(space)->head = (struct link_space_head){.kind = SPACE_NEWS};
    post_word(side, news_word(space), FABRIC_SOLICITED | FABRIC_SIGNALLED, SPACE_CREDITS);
}

/* ---- what is asked of it -------------------------------------------------- */

/* What the fabric would refuse, which would cost the link. */
static bool is_message_valid(const struct links *links, const struct link_message *message)
{
    const struct fabric_caps *caps = &links->config.fabric->caps;
    uint64_t most = caps->message_bytes;

    if (message->count == 0 || message->count > LIMIT_SPACE_MESSAGE ||
        message->slice_count > LINK_SPACE_SLICES || message->slice_count > caps->slices) {
        return false;
    }
    for (uint32_t n = 0; n < message->slice_count; n++) {
        const struct fabric_slice *slice = &message->slices[n];

        if (slice->memory == NULL || slice->bytes > most) {
            return false;
        }
        most -= slice->bytes;
    }
    return true;
}

nigh_status link_space_send(struct link *link, const struct link_message *message, link_done *done,
                            void *context)
{
    struct link_space *space = link->space;
    struct link_space_send *send;

    if (!link_has(link, LINK_SPACES)) {
        return NIGH_UNSUPPORTED;
    }
    if (!is_message_valid(link->links, message)) {
        return NIGH_INVALID;
    }
    if (!link_carries(link, LINK_SPACES)) {
        return NIGH_PEER_LOST;
    }
    if (link_space_room(link) == 0) {
        return NIGH_BUSY;
    }
    send = send_of(space, space->asked);
    *send = (struct link_space_send){.done = done,
                                     .context = context,
                                     .remote = message->remote,
                                     .slice_count = (uint8_t)message->slice_count,
                                     .bytes = (uint8_t)message->count};
    for (uint32_t n = 0; n < message->slice_count; n++) {
        send->slices[n] = message->slices[n];
    }
    memcpy(word_of(space, space->asked)->bytes, message->bytes, message->count);
    link->links->config.fabric->counts.copied_bytes += message->count;
    space->asked++;
    post_waiting(&link->sides[LINK_SPACES]);
    return NIGH_OK;
}

uint32_t link_space_room(const struct link *link)
{
    const struct link_space *space = link->space;

    if (!link_carries(link, LINK_SPACES)) {
        return 0;
    }
    return LIMIT_SPACE_SENDS - (uint32_t)(space->asked - space->ended);
}

/* ---- ends ----------------------------------------------------------------- */

/* It is nobody's number any more. */
static void end_next(struct link_space *space, nigh_status status, uint64_t now_us)
{
    struct link_space_send send = *send_of(space, space->ended++);

    if (send.done != NULL) {
        send.done(send.context, status, now_us);
    }
}

static void on_sent(struct link_side *side, const struct fabric_completion *completion,
                    uint64_t now_us)
{
    struct link_space *space = side->link->space;
    bool is_news = completion->tag == SPACE_CREDITS;

    if (completion->status != NIGH_OK) {
        /* Its memory is not free before the endpoint is gone: that ends it. */
        link_fail(side->link, completion->status);
        return;
    }
    if (is_news) {
        space->telling = false;
        tell_credits(side);
        return;
    }
    while (space->ended <= completion->tag) {
        end_next(space, NIGH_OK, now_us);
    }
}

void link_space_end(struct link *link, nigh_status reason, uint64_t now_us)
{
    struct link_space *space = link->space;

    while (space != NULL && space->ended < space->asked) {
        /* That one was refused does not say that this was: it may have acted. */
        end_next(space, reason == NIGH_DENIED ? NIGH_PEER_LOST : reason, now_us);
    }
    if (space != NULL) {
        space->posted = space->asked;
    }
}

/* ---- what came ------------------------------------------------------------ */

/* A copy of what a receive brought: NIGH_PROTOCOL where the peer broke the rules, and nothing
 * changes. Nobody writes with an immediate here. */
static nigh_status read_word(const struct link_space *space, const struct link_early *came,
                             struct link_space_word *word)
{
    const struct link_space_head *head = &word->head;
    bool good;

    if (came->is_written || came->bytes < sizeof(*head) || came->bytes > sizeof(*word)) {
        return NIGH_PROTOCOL;
    }
    memcpy(word, &space->words[came->number], came->bytes);
    switch ((enum link_space_kind)head->kind) {
    case SPACE_MESSAGE: good = head->bytes > 0; break;
    case SPACE_NEWS: good = head->bytes == 0 && head->credits > LIMIT_SPACE_RECEIVES / 2; break;
    default: good = false; break;
    }
    return good && head->magic == SPACE_MAGIC && head->bytes == came->bytes - sizeof(*head) &&
                   head->credits <= LIMIT_SPACE_RECEIVES - space->credits
               ? NIGH_OK
               : NIGH_PROTOCOL;
}

static void take(struct link_side *side, const struct link_early *came, uint64_t now_us)
{
    struct link *link = side->link;
    struct link_space *space = link->space;
    const struct links_shell *shell = &link->links->config.shell;
    struct link_space_word word;

    if (read_word(space, came, &word) != NIGH_OK) {
        LOG_WARN("the peer broke the protocol of spaces' messages",
                 "rank=%u do=\"nothing: the link is made anew; if it comes again, run the same "
                 "nighd at all nodes\"",
                 link->rank);
        link_fail(link, NIGH_PROTOCOL);
        return;
    }
    link_receive_is_over(side, came->number);
    space->owed += word.head.kind != SPACE_NEWS;
    space->credits += word.head.credits;
    post_waiting(side);
    if (word.head.kind == SPACE_MESSAGE) {
        shell->spaced(shell->context, link, word.bytes, word.head.bytes, now_us);
    }
    tell_credits(side);
}

void link_space_take_early(struct link_side *side, uint64_t now_us)
{
    for (uint32_t n = 0; n < side->early_count && !side->link->failed; n++) {
        take(side, &side->early[n], now_us);
    }
    side->early_count = 0;
}

void link_space_complete(struct link_side *side, const struct fabric_completion *completion,
                         uint64_t now_us)
{
    struct link *link = side->link;
    struct link_early came = {.number = (uint32_t)completion->tag,
                              .bytes = (uint32_t)min_u64(completion->bytes, UINT32_MAX),
                              .is_written = completion->has_imm};

    if (completion->op != FABRIC_RECV) {
        on_sent(side, completion, now_us);
    } else if (completion->status != NIGH_OK) {
        link_fail(link, completion->status);
    } else if (link->up && !link->failed) {
        take(side, &came, now_us);
    } else if (!link->failed) {
        NIGH_ASSERT(side->early_count < SPACE_RECEIVES);
        side->early[side->early_count++] = came;
    }
}

/* ---- valid ---------------------------------------------------------------- */

bool link_space_is_valid(const struct link *link)
{
    const struct link_space *space = link->space;

    if (space == NULL) {
        return !link->up || !link_has(link, LINK_SPACES);
    }
    if (space->ended > space->posted || space->posted > space->asked ||
        space->asked - space->ended > LIMIT_SPACE_SENDS || space->credits > LIMIT_SPACE_RECEIVES ||
        space->owed > SPACE_RECEIVES) {
        return false;
    }
    /* Who has something to say, and may, has said it. */
    return link->failed || (link->up ? space->credits == 0 || space->posted == space->asked
                                     : space->ended == space->asked);
}
