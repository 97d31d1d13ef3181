/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells one state of the world of space_world.h from another, and states as bytes.
 *
 * States that are each other's image, by other names of nodes or blocks, are one: the least hash
 * of all images is theirs. Of epochs it matters which are equal, and which is the next of which.
 */
#include <string.h>

#include "base/hash.h"
#include "space_world.h"
#include "support/support.h"

#define TERMS  6u
#define COUNTS 256u

/* One way to name nodes and blocks: who is at a place, and at which place somebody is. */
struct naming {
    uint8_t nodes[NODES], blocks[BLOCKS];
    uint8_t places[NODES], block_places[BLOCKS];
};

/* Writes a state to bytes, or reads one from there. */
struct stream {
    uint8_t *at;
    bool is_load;
    const struct naming *naming;
    uint8_t (*counts)[TERMS][COUNTS]; /* by block; NULL: as they are */
};

/* A field, and what is written of it. */
#define PUT(field, value)                     \
    do {                                      \
        if (stream->is_load) {                \
            (field) = *stream->at++;          \
        } else {                              \
            *stream->at++ = (uint8_t)(value); \
        }                                     \
    } while (0)

static uint8_t place_of(const struct stream *stream, uint8_t seat)
{
    return seat < NODES ? stream->naming->places[seat] : seat;
}

static uint8_t places_of(const struct stream *stream, uint64_t seats)
{
    uint8_t out = 0;

    for (; seats != 0; seats &= seats - 1) {
        out |= (uint8_t)(1u << place_of(stream, space_set_first(seats)));
    }
    return out;
}

/* Where each block has a frame its number is the block's. */
static uint8_t frame_of(const struct stream *stream, uint32_t frame)
{
    return rules.frames == 1 || frame >= BLOCKS ? (uint8_t)frame
                                                : stream->naming->block_places[frame];
}

static uint8_t count_of(const struct stream *stream, uint32_t block, uint32_t term, uint32_t count)
{
    return stream->counts == NULL || term >= TERMS ? (uint8_t)count
                                                   : stream->counts[block][term][count];
}

static void walk_down(struct stream *stream)
{
    uint8_t a = place_of(stream, now.down[0]), b = place_of(stream, now.down[1]);

    PUT(now.down[0], a < b ? a : b);
    PUT(now.down[1], a < b ? b : a);
}

static void walk_term(struct stream *stream)
{
    PUT(now.term.home.term, now.term.home.term);
    PUT(now.term.home.before, now.term.home.before);
    PUT(now.term.home.members, places_of(stream, now.term.home.members));
    PUT(now.term.home.remembers, now.term.home.remembers);
    PUT(now.term.waits, places_of(stream, now.term.waits));
    PUT(now.term.is_open, now.term.is_open);
    PUT(now.term.home.anew, places_of(stream, now.term.home.anew));
    PUT(now.restarts, now.restarts);
    PUT(now.is_reset, now.is_reset);
    PUT(now.opening, now.opening);
    PUT(now.is_lossy, now.is_lossy);
    PUT(now.dead, places_of(stream, now.dead));
    PUT(now.unseen, places_of(stream, now.unseen));
    PUT(now.crashes, now.crashes);
    PUT(now.home_crashes, now.home_crashes);
    PUT(now.breaks, now.breaks);
    walk_down(stream);
}

static void walk_work(struct stream *stream, uint32_t block)
{
    struct space_work *work = &now.works[block];

    PUT(work->waits, places_of(stream, work->waits));
    PUT(work->leaving, places_of(stream, work->leaving));
    PUT(work->left, places_of(stream, work->left));
    PUT(work->frame, frame_of(stream, work->frame));
    PUT(work->asker, place_of(stream, work->asker));
    PUT(work->ask, work->ask);
    PUT(work->owner, place_of(stream, work->owner));
    PUT(work->leaver, place_of(stream, work->leaver));
    PUT(work->left_to, place_of(stream, work->left_to));
    PUT(work->is_ours, work->is_ours);
    PUT(work->owned.term, work->owned.term);
    PUT(work->owned.count, count_of(stream, block, work->owned.term, work->owned.count));
    PUT(work->left_by.term, work->left_by.term);
    PUT(work->left_by.count, count_of(stream, block, work->left_by.term, work->left_by.count));
    PUT(work->queued, work->queued);
    for (uint32_t n = 0; n < work->queued; n++) {
        uint8_t seat;

        PUT(work->queue[n], place_of(stream, work->queue[n]));
        seat = work->queue[n];
        PUT(work->asks[seat], work->asks[seat]);
        PUT(work->frames[seat], frame_of(stream, work->frames[seat]));
    }
}

static void walk_entry(struct stream *stream, uint32_t block)
{
    struct space_entry *entry = &now.entries[block];

    PUT(entry->seats, places_of(stream, entry->seats));
    PUT(entry->count, count_of(stream, block, now.term.home.term, entry->count));
    PUT(entry->state, entry->state);
    PUT(entry->holds, entry->holds);
    PUT(now.home_last[block], now.home_last[block]);
    walk_work(stream, block);
    if (rules.logs) {
        struct home_log *log = &now.home_logs[block];

        PUT(log->state, log->state);
        PUT(log->is_last, log->is_last);
        PUT(log->owner, place_of(stream, log->owner));
        PUT(log->is_ours, log->is_ours);
        PUT(log->term, log->term);
        PUT(log->count, count_of(stream, block, log->term, log->count));
    }
}

static void walk_copy_log(struct stream *stream, uint32_t node, uint32_t block)
{
    struct copy_log *log = &now.copy_logs[node - 1][block];

    if (!rules.logs) {
        return;
    }
    PUT(log->is_here, log->is_here);
    PUT(log->is_last, log->is_last);
    PUT(log->handed_to,
        log->handed_to == 0 ? 0 : place_of(stream, (uint8_t)(log->handed_to - 1)) + 1);
    PUT(log->is_logged, log->is_logged);
    PUT(log->term, log->term);
    PUT(log->count, count_of(stream, block, log->term, log->count));
}

static void walk_line(struct stream *stream, uint32_t node, uint32_t block)
{
    struct space_line *line = &now.lines[node - 1][block];
    struct frame *frame = &now.frames[node - 1][block];

    PUT(frame->is_last, frame->is_last);
    PUT(frame->used, frame->used == 0 ? 0 : stream->naming->block_places[frame->used - 1] + 1);
    PUT(line->state, line->state);
    PUT(line->is_away, line->is_away);
    PUT(line->is_homes, line->is_homes);
    PUT(line->is_restored, line->is_restored);
    PUT(line->wants_read, line->wants_read);
    PUT(line->wants_write, line->wants_write);
    PUT(line->holds, line->holds);
    PUT(line->owed, line->owed);
    PUT(line->owed_whom, place_of(stream, line->owed_whom));
    PUT(line->owed_frame, frame_of(stream, line->owed_frame));
    PUT(line->handed_to, place_of(stream, line->handed_to));
    PUT(line->frame, space_line_has_frame(line) ? frame_of(stream, line->frame) : 0);
    PUT(line->epoch.term, line->epoch.term);
    PUT(line->epoch.count, count_of(stream, block, line->epoch.term, line->epoch.count));
}

static void walk_clients(struct stream *stream, uint32_t node, uint32_t block)
{
    struct clients *clients = &now.clients[node][block];

    PUT(clients->wishes[0], clients->wishes[0]);
    PUT(clients->wishes[1], clients->wishes[1]);
    PUT(clients->readers, clients->readers);
    PUT(clients->is_alone, clients->is_alone);
    PUT(clients->is_done, clients->is_done);
}

/* What is released from before a term says no epoch. */
static bool says_nothing(const struct note *note, uint32_t to)
{
    if (note->is_term || note->epoch_term == 0) {
        return true;
    }
    if (to == HOME) {
        return note->event == SPACE_HOME_ASK_READ || note->event == SPACE_HOME_ASK_WRITE ||
               note->event == SPACE_HOME_ASK_ATOMIC;
    }
    return (note->event == SPACE_CACHE_RELEASE &&
            now.lines[to - 1][note->block].epoch.term != note->epoch_term) ||
           note->event == SPACE_CACHE_REFUSE || note->event == SPACE_CACHE_ATOMIC_DONE;
}

static void walk_note(struct stream *stream, struct note *note, uint32_t to)
{
    bool is_silent = stream->counts != NULL && says_nothing(note, to);

    PUT(note->is_term, note->is_term);
    PUT(note->event, note->event);
    PUT(note->whom, note->whom == 0 ? 0 : place_of(stream, (uint8_t)(note->whom - 1)) + 1);
    PUT(note->why, note->why);
    PUT(note->block, note->is_term ? 0 : stream->naming->block_places[note->block]);
    PUT(note->term, note->term);
    PUT(note->epoch_term, note->epoch_term);
    PUT(note->count, is_silent ? 0 : count_of(stream, note->block, note->epoch_term, note->count));
    PUT(note->frame, note->bytes != BYTES_NONE && to == HOME
                         ? stream->naming->block_places[note->frame]
                         : frame_of(stream, note->frame));
    PUT(note->bytes, note->bytes);
    PUT(note->from_frame, note->from_frame);
    PUT(note->is_last, note->is_last);
}

static void walk_node(struct stream *stream, uint32_t node)
{
    if (node != HOME) {
        struct space_member *member = &now.members[node - 1];

        PUT(member->cache.term, member->cache.term);
        PUT(member->cache.self, place_of(stream, member->cache.self));
        PUT(member->cache.is_open, member->cache.is_open);
        PUT(member->writes, member->writes);
        PUT(now.since[node], now.since[node]);
        PUT(now.opened[node], now.opened[node]);
        PUT(member->has_claimed, member->has_claimed);
    }
    for (uint32_t b = 0; b < rules.blocks; b++) {
        uint32_t block = stream->naming->blocks[b];

        walk_clients(stream, node, block);
        if (node == HOME) {
            walk_entry(stream, block);
        } else {
            walk_line(stream, node, block);
            walk_copy_log(stream, node, block);
        }
    }
    for (uint32_t n = 0; n <= rules.caches; n++) {
        uint32_t to = stream->naming->nodes[n];
        struct channel *channel = &now.channels[node][to];

        PUT(channel->count, channel->count);
        for (uint32_t k = 0; k < channel->count; k++) {
            walk_note(stream, &channel->notes[k], to);
        }
    }
}

static void walk(struct stream *stream)
{
    walk_term(stream);
    for (uint32_t n = 0; n <= rules.caches; n++) {
        walk_node(stream, stream->naming->nodes[n]);
    }
}

/* ---- epochs --------------------------------------------------------------- */

static void note_counts(bool seen[BLOCKS][TERMS][COUNTS], uint8_t most[BLOCKS][TERMS],
                        uint32_t block, uint32_t term, uint32_t count)
{
    if (term < TERMS) {
        seen[block][term][count] = true;
        most[block][term] = count > most[block][term] ? (uint8_t)count : most[block][term];
    }
}

/* From 0 on; the next of one stays the next, and all else is two further on. */
static void number_counts(const bool *seen, uint32_t most, uint8_t *counts)
{
    uint32_t last = COUNTS;
    uint8_t number = 0;

    for (uint32_t n = 0; n <= most; n++) {
        if (seen[n]) {
            number = last == COUNTS ? 0 : (uint8_t)(number + (n == last + 1 ? 1 : 2));
            counts[n] = number;
            last = n;
        }
    }
}

static void find_counts(uint8_t counts[BLOCKS][TERMS][COUNTS])
{
    static bool seen[BLOCKS][TERMS][COUNTS];
    uint8_t most[BLOCKS][TERMS] = {{0}};

    for (uint32_t b = 0; b < rules.blocks; b++) {
        note_counts(seen, most, b, now.term.home.term, now.entries[b].count);
        note_counts(seen, most, b, now.works[b].owned.term, now.works[b].owned.count);
        note_counts(seen, most, b, now.works[b].left_by.term, now.works[b].left_by.count);
        note_counts(seen, most, b, now.home_logs[b].term, now.home_logs[b].count);
        for (uint32_t n = 0; n < rules.caches; n++) {
            note_counts(seen, most, b, now.lines[n][b].epoch.term, now.lines[n][b].epoch.count);
            note_counts(seen, most, b, now.copy_logs[n][b].term, now.copy_logs[n][b].count);
        }
    }
    for (uint32_t from = 0; from <= rules.caches; from++) {
        for (uint32_t to = 0; to <= rules.caches; to++) {
            for (uint32_t n = 0; n < now.channels[from][to].count; n++) {
                const struct note *note = &now.channels[from][to].notes[n];

                if (!says_nothing(note, to)) {
                    note_counts(seen, most, note->block, note->epoch_term, note->count);
                }
            }
        }
    }
    for (uint32_t b = 0; b < rules.blocks; b++) {
        for (uint32_t t = 0; t < TERMS; t++) {
            number_counts(seen[b][t], most[b][t], counts[b][t]);
            memset(seen[b][t], 0, most[b][t] + 1u);
        }
    }
}

/* ---- images --------------------------------------------------------------- */

static uint64_t hash_stream(const uint8_t *bytes, uint32_t count)
{
    uint64_t hash = HASH_K2 ^ count;

    for (uint32_t n = 0; n < count; n += 8) {
        hash = hash_mix(hash ^ hash_load64(bytes + n) ^ HASH_K0, HASH_K1 + hash);
    }
    return hash | 1;
}

static void name(struct naming *naming, const uint8_t *nodes, bool is_swapped)
{
    for (uint32_t n = 0; n <= rules.caches; n++) {
        naming->nodes[n] = nodes[n];
        naming->places[nodes[n]] = (uint8_t)n;
    }
    for (uint32_t b = 0; b < rules.blocks; b++) {
        naming->blocks[b] = is_swapped ? (uint8_t)(rules.blocks - 1 - b) : (uint8_t)b;
        naming->block_places[naming->blocks[b]] = (uint8_t)b;
    }
}

static uint64_t hash_image(const uint8_t *nodes, bool is_swapped, void *counts)
{
    static uint8_t bytes[STATE_BYTES + 8];
    struct naming naming;
    struct stream stream = {.at = bytes, .naming = &naming, .counts = counts};
    uint32_t count;

    name(&naming, nodes, is_swapped);
    walk(&stream);
    count = (uint32_t)(stream.at - bytes);
    assert_true(count <= STATE_BYTES);
    memset(stream.at, 0, 8);
    return hash_stream(bytes, count);
}

/* Something of a node that does not depend on names: images differ in the order of equals only. */
static uint32_t look_of(uint32_t node)
{
    uint32_t look = 0;

    for (uint32_t b = 0; b < rules.blocks; b++) {
        const struct space_line *line = &now.lines[node - 1][b];
        const struct clients *clients = &now.clients[node][b];

        look += (uint32_t)(hash_mix(line->state * 64u + clients->wishes[0] + HASH_K3,
                                    HASH_K1 + line->holds) &
                           0xffffff);
    }
    look = look * 16 + now.channels[HOME][node].count;
    return look * 16 + now.channels[node][HOME].count;
}

uint64_t world_hash(void)
{
    static const uint8_t orders[6][NODES] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 1, 3, 2},
                                             {0, 3, 1, 2}, {0, 2, 3, 1}, {0, 3, 2, 1}};
    static uint8_t counts[BLOCKS][TERMS][COUNTS];
    uint32_t looks[NODES] = {0};
    uint64_t least = UINT64_MAX;

    find_counts(counts);
    for (uint32_t n = 1; n <= rules.caches; n++) {
        looks[n] = look_of(n);
    }
    for (uint32_t n = 0; n < (rules.caches == 3 ? 6u : rules.caches == 2 ? 2u : 1u); n++) {
        bool is_sorted = true;

        for (uint32_t k = 1; k < rules.caches; k++) {
            is_sorted &= looks[orders[n][k]] <= looks[orders[n][k + 1]];
        }
        for (uint32_t swap = 0; swap < rules.blocks && is_sorted; swap++) {
            uint64_t hash = hash_image(orders[n], swap != 0, counts);

            least = hash < least ? hash : least;
        }
    }
    return least;
}

static const struct naming *as_they_are(void)
{
    static struct naming naming;
    static const uint8_t nodes[NODES] = {0, 1, 2, 3};

    name(&naming, nodes, false);
    return &naming;
}

uint32_t world_save(uint8_t bytes[STATE_BYTES])
{
    struct stream stream = {.at = bytes, .naming = as_they_are()};

    walk(&stream);
    return (uint32_t)(stream.at - bytes);
}

void world_load(const uint8_t *bytes)
{
    struct stream stream = {
        .at = (uint8_t *)(uintptr_t)bytes, .is_load = true, .naming = as_they_are()};

    memset(&now, 0, sizeof(now));
    walk(&stream);
    now.term.home.self = HOME;
    now.term.home.since = now.opened;
    now.term.home.is_durable = rules.logs;
    for (uint32_t n = 0; n < rules.caches; n++) {
        now.members[n].cache.home = HOME;
    }
}
