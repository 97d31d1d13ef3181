/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See regions.h. What goes to members, and comes from them.
 *
 * Letters wait in a queue a member until its channel has room; to this node itself, until its next
 * turn, as machines do not call each other. What does not fit the queue is lost, as what a link
 * loses that breaks: then a walk through all names, on both sides, says again what the other's
 * machines wait for, and ends with TOLD, if nothing more was lost. A VIEW has its receiver begin
 * one. So it goes when a link comes up, and when both sides have come to go by the same view; until
 * then nothing is said but which view that is, and nothing heard: what is dropped so is said again
 * by the walk of who said it, as that begins when it has heard that both go by the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "region/regions_internal.h"

bool regions_is_near(const struct regions *regions, uint32_t rank)
{
    const struct regions_peer *peer = rank < regions->config.nodes ? &regions->peers[rank] : NULL;

    return peer != NULL && peer->is_up && regions_is_alive(regions, rank) &&
           peer->epoch == regions->epoch && regions->epoch != 0;
}

/* ---- what goes ------------------------------------------------------------ */

void regions_forget_letters(struct regions *regions, uint32_t rank)
{
    struct regions_peer *peer = &regions->peers[rank];
    struct list_node *node;

    while ((node = list_pop_front(&peer->letters)) != NULL) {
        free(container_of(node, struct regions_letter, link));
    }
    peer->count = peer->again = 0;
}

static void note_busy(struct regions *regions, uint32_t rank)
{
    struct regions_peer *peer = &regions->peers[rank];

    if (!list_is_linked(&peer->link)) {
        list_push_back(&regions->busy, &peer->link);
    }
}

/* False: there is no room, or no memory. */
static bool enqueue(struct regions *regions, uint32_t rank, enum regions_frame frame,
                    const uint8_t *bytes, uint32_t size_bytes)
{
    struct regions_peer *peer = &regions->peers[rank];
    bool is_again = regions->says_again;
    bool is_full = !is_again && peer->count - peer->again >= REGIONS_LETTERS;
    struct regions_letter *letter = is_full ? NULL : malloc(sizeof(*letter) + size_bytes);

    if (letter == NULL) {
        return false;
    }
    *letter =
        (struct regions_letter){.frame = frame, .is_again = is_again, .size_bytes = size_bytes};
    memcpy(letter->bytes, bytes, size_bytes);
    list_push_back(&peer->letters, &letter->link);
    peer->count++;
    peer->again += is_again ? 1 : 0;
    note_busy(regions, rank);
    return true;
}

static void say(struct regions *regions, const char *name, uint8_t name_bytes,
                const struct region_message *message)
{
    uint32_t rank = message->peer;
    size_t size_bytes;

    if (!regions_is_near(regions, rank)) {
        return; /* the walk that is to come says it again */
    }
    size_bytes = region_letter_encode(message, name, name_bytes, regions->frame);
    regions->counts.letters++;
    if (!enqueue(regions, rank, REGIONS_LETTER, regions->frame, (uint32_t)size_bytes)) {
        regions->peers[rank].has_lost = true;
        note_busy(regions, rank);
        regions->counts.again++;
    }
}

void regions_say(struct region *region, const struct region_message *message)
{
    say(region->regions, region->name, region->name_bytes, message);
}

void regions_send_view(struct regions *regions, uint32_t rank)
{
    uint8_t said[8];

    bytes_put_u64(said, regions->epoch);
    regions_forget_letters(regions, rank); /* of another view, or of a link that was */
    regions->peers[rank].owes_view = !enqueue(regions, rank, REGIONS_VIEW, said, sizeof(said));
    note_busy(regions, rank);
}

void regions_begin_walk(struct regions *regions, uint32_t rank)
{
    struct regions_peer *peer = &regions->peers[rank];

    peer->walks = regions_is_near(regions, rank);
    peer->has_lost = false;
    peer->cursor = 0;
    note_busy(regions, rank);
}

/* Goes on with a walk as long as half of the queue is free. */
static bool walk(struct regions *regions, uint32_t rank)
{
    struct regions_peer *peer = &regions->peers[rank];
    uint8_t said[8];

    if (peer->has_lost && peer->count == 0) {
        peer->owes_view = rank != regions->config.self; /* it says again what it waits for, too */
        regions_begin_walk(regions, rank);
    }
    if (peer->owes_view) {
        regions_send_view(regions, rank);
        regions_begin_walk(regions, rank);
    }
    if (peer->owes_view) {
        return true;
    }
    for (uint32_t n = 0; n < REGIONS_A_TURN && peer->walks && !peer->has_lost; n++) {
        if (peer->count >= REGIONS_LETTERS / 2) {
            return false; /* until its channel has room again */
        }
        if (peer->cursor < regions->count) {
            regions->says_again = true;
            regions_say_again(regions->all[peer->cursor++], rank);
            regions->says_again = false;
            continue;
        }
        bytes_put_u64(said, regions->epoch);
        peer->walks = !enqueue(regions, rank, REGIONS_TOLD, said, sizeof(said));
    }
    return peer->walks && !peer->has_lost;
}

/* Hands on what waits; to this node itself no more than there is now. */
static bool flush(struct regions *regions, uint32_t rank)
{
    const struct regions_shell *shell = &regions->config.shell;
    struct regions_peer *peer = &regions->peers[rank];
    bool is_self = rank == regions->config.self;

    for (uint32_t left = peer->count; left > 0 && peer->count > 0; left--) {
        struct list_node *node = list_first(&peer->letters);
        struct regions_letter *letter = container_of(node, struct regions_letter, link);

        if (is_self ? regions_receive(regions, rank, letter->frame, letter->bytes,
                                      letter->size_bytes) == NIGH_NO_RESOURCES
                    : !shell->send(shell->context, rank, letter->frame, letter->bytes,
                                   letter->size_bytes)) {
            regions->is_short = regions->is_short || is_self;
            return false;
        }
        list_remove(node);
        peer->count--;
        peer->again -= letter->is_again ? 1 : 0;
        free(letter);
    }
    return is_self && peer->count > 0;
}

bool regions_turn(struct regions *regions)
{
    bool more = false;

    regions->is_short = false;
    LIST_FOREACH_SAFE(node, &regions->busy)
    {
        struct regions_peer *peer = container_of(node, struct regions_peer, link);
        uint32_t rank = (uint32_t)(peer - regions->peers);

        more = walk(regions, rank) || more;
        more = flush(regions, rank) || more;
        if (peer->count == 0 && !peer->walks && !peer->has_lost && !peer->owes_view) {
            list_remove(node);
        }
    }
    return more;
}

bool regions_are_short(const struct regions *regions)
{
    return regions->is_short;
}

/* ---- what comes ----------------------------------------------------------- */

static nigh_status take_epoch(struct regions *regions, uint32_t rank, enum regions_frame frame,
                              uint64_t epoch)
{
    struct regions_peer *peer = &regions->peers[rank];

    if (frame == REGIONS_VIEW) {
        if (epoch < peer->epoch) {
            return NIGH_PROTOCOL;
        }
        peer->epoch = epoch;
        regions_begin_walk(regions, rank);
        return NIGH_OK;
    }
    if (epoch != regions->epoch || !regions_is_near(regions, rank)) {
        return NIGH_OK; /* it will be told anew */
    }
    peer->has_told = true;
    for (uint32_t n = regions->count; n > 0; n--) {
        struct region *region = regions->all[n - 1];

        if (region->home != NULL) {
            region_home_told(region->home, rank);
            regions_tidy(region);
        }
    }
    return NIGH_OK;
}

/* Whether who says so of a barrier waits for an answer. */
static bool knows_anything(const struct region_message *message)
{
    const struct region_barrier_word *word = &message->barrier;

    return word->is_part || word->is_broken || word->latest != 0 ||
           !region_set_is_empty(&message->ranks);
}

/* There is no room for one more name: who wants one here is told so, and who asks what has been
 * done already if nothing is here. What is held elsewhere, or was prepared here, cannot be. */
static nigh_status decline(struct regions *regions, const struct region_letter *letter)
{
    const struct region_message *message = &letter->message;
    struct region_message said = {
        .kind = REGION_DONE, .peer = message->peer, .change = message->change};

    switch (message->kind) {
    case REGION_HELD:
    case REGION_COPY:
    case REGION_COMMIT: return NIGH_NO_RESOURCES;
    case REGION_DONE:
    case REGION_UNMAP:
    case REGION_KINDS: return NIGH_OK;
    case REGION_CLAIM:
        said.kind = REGION_GRANT;
        said.status = message->lock.mode == REGION_LOCK_NONE ? NIGH_OK : NIGH_LIMIT;
        said.base = message->base;
        said.lock.number = message->lock.number;
        said.lock.serial = message->lock.serial;
        break;
    case REGION_ARRIVED:
    case REGION_KNOWN:
        if (!knows_anything(message)) {
            return NIGH_OK;
        }
        said.kind = message->kind == REGION_ARRIVED ? REGION_PASSED : REGION_NOTED;
        said.status = NIGH_LIMIT;
        said.base = message->base;
        said.barrier.number = message->barrier.number;
        said.barrier.ask = message->barrier.ask;
        break;
    case REGION_PASSED:
    case REGION_NOTED:
        said.kind = message->kind == REGION_PASSED ? REGION_ARRIVED : REGION_KNOWN;
        said.base = message->base;
        said.barrier.number = message->barrier.number;
        break;
    case REGION_GRANT:
    case REGION_RECALL:
    case REGION_MAPPED:
    case REGION_CHANGED:
    case REGION_HOLD: said.kind = REGION_UNMAP; break;
    case REGION_MAP:
        said.kind = REGION_MAPPED;
        said.status = NIGH_LIMIT;
        break;
    case REGION_PREPARE: said.status = NIGH_LIMIT; break;
    case REGION_FREEZE:
    case REGION_THAW:
    case REGION_SETTLE: break;
    }
    said.of = said.kind == REGION_DONE ? message->kind : 0;
    say(regions, letter->name, letter->name_bytes, &said);
    return NIGH_OK;
}

/* Nodes are looked up by their ranks from here on. */
static bool names_others(const struct regions *regions, const struct region_message *message)
{
    const struct region_descriptor *descriptor = message->descriptor;

    if (region_set_next(&message->ranks, regions->config.nodes) != LIMIT_NODES) {
        return true;
    }
    for (uint32_t n = 0; descriptor != NULL && n < descriptor->chunk_count; n++) {
        uint32_t node = descriptor->chunks[n].node;

        if (node != REGION_NOBODY && node >= regions->config.nodes) {
            return true;
        }
    }
    return false;
}

static nigh_status take_letter(struct regions *regions, uint32_t rank, const uint8_t *bytes,
                               uint32_t count)
{
    struct region_letter *letter = &regions->letter;
    nigh_status status = region_letter_decode(bytes, count, letter);
    struct region *region;

    if (status != NIGH_OK) {
        return status;
    }
    if (names_others(regions, &letter->message)) {
        return NIGH_PROTOCOL;
    }
    if (!regions_is_near(regions, rank)) {
        regions->counts.other_views++;
        return NIGH_OK;
    }
    letter->message.peer = rank;
    region = regions_get(regions, letter->name, letter->name_bytes, &status);
    if (region == NULL) {
        return status == NIGH_LIMIT ? decline(regions, letter) : status;
    }
    status = regions_take(region, &letter->message, region_letter_room(letter));
    regions_tidy(region);
    return status;
}

nigh_status regions_receive(struct regions *regions, uint32_t rank, enum regions_frame frame,
                            const uint8_t *bytes, uint32_t count)
{
    if (rank >= regions->config.nodes || !regions->peers[rank].is_up) {
        return NIGH_PROTOCOL;
    }
    switch (frame) {
    case REGIONS_VIEW:
    case REGIONS_TOLD:
        return count == 8 ? take_epoch(regions, rank, frame, bytes_get_u64(bytes)) : NIGH_PROTOCOL;
    case REGIONS_LETTER: return take_letter(regions, rank, bytes, count);
    }
    return NIGH_PROTOCOL;
}
