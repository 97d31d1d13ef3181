/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tells one state of the world of region_world.h from another.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "region_world.h"
#include "support/support.h"

#define INTERNED 65536u

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return hash_mix(hash ^ value ^ HASH_K0, HASH_K1 + hash);
}

static uint64_t mix_version(uint64_t hash, const struct region_version *version)
{
    return mix(hash, version->epoch << 32 | version->counter);
}

static uint64_t mix_descriptor(uint64_t hash, const struct region_descriptor *descriptor)
{
    hash = mix_version(mix_version(hash, &descriptor->version), &descriptor->birth);
    hash = mix(hash, descriptor->flags | (uint64_t)descriptor->other_rights << 8 |
                         descriptor->geometry.size_bytes << 16);
    for (uint32_t n = 0; n < descriptor->chunk_count; n++) {
        hash = mix(mix(hash, descriptor->chunks[n].node), descriptor->chunks[n].handle.address);
    }
    return hash;
}

static uint64_t mix_message(uint64_t hash, const struct letter *letter)
{
    const struct region_message *message = &letter->message;

    hash =
        mix(hash, (uint64_t)message->kind | (uint64_t)message->of << 8 |
                      (uint64_t)(uint32_t)message->status << 16 | message->chunks.words[0] << 56);
    hash = mix_version(mix_version(hash, &message->change), &message->base);
    hash = mix(hash, (uintptr_t)message->descriptor); /* interned */
    hash = mix(hash, message->source.handle.address);
    return mix(mix(hash, letter->handles[0].address), letter->handles[1].address);
}

static uint64_t mix_set(uint64_t hash, const struct region_set *set)
{
    return mix(hash, set->words[0]);
}

static uint64_t mix_home(uint64_t hash, const struct region_home *home)
{
    const struct region_change *change = &home->change;

    hash = mix(hash, (uint64_t)home->state | (uint64_t)change->round << 8 |
                         (uint64_t)home->ask_count << 16 | (uint64_t)home->must_settle << 24 |
                         (uint64_t)home->has_losses << 25 | (uint64_t)change->is_aborted << 26 |
                         (uint64_t)(uint32_t)change->status << 32);
    hash = mix_set(mix_set(mix_set(hash, &home->mappers), &home->wants), &home->held);
    hash = mix_set(mix_set(hash, &home->config.alive), &home->config.untold);
    hash = mix_set(mix_set(hash, &change->nodes), &change->waits);
    hash = mix(hash, change->made.words[0] | change->frozen.words[0] << 8);
    hash = mix(hash, change->source.handle.address);
    hash = mix_version(hash, &home->config.version);
    hash = mix_descriptor(hash, home->config.now);
    return change->round == REGION_ROUND_NONE ? hash : mix_descriptor(hash, home->config.next);
}

static uint64_t mix_holder(uint64_t hash, uint32_t k)
{
    const struct region_holder *holder = &now.holders[k];

    hash = mix_descriptor(hash, holder->config.kept);
    hash =
        mix(hash, (uint64_t)holder->config.has_lease | (uint64_t)holder->is_unsettled << 1 |
                      (uint64_t)holder->request.is_open << 2 | (uint64_t)holder->request.kind << 8 |
                      (uint64_t)(uint32_t)holder->request.status << 32);
    hash = mix_version(hash, &holder->request.change);
    hash = mix_version(hash, &holder->config.home);
    for (uint32_t n = 0; n < CHUNKS; n++) {
        const struct region_slot *slot = &now.slots[k][n];
        const struct memory *memory = &now.memories[k][n];

        hash = mix(hash, (uint64_t)slot->state | (uint64_t)slot->goal << 8 |
                             (uint64_t)slot->full << 16 | (uint64_t)memory->exists << 17 |
                             (uint64_t)memory->is_over << 18 | (uint64_t)memory->is_writable << 19 |
                             (uint64_t)memory->value << 20 |
                             (uint64_t)now.pending[k][n].is_pending << 28 |
                             (uint64_t)memory->was_open << 29);
        hash = mix_version(mix(mix(hash, slot->handle.address), memory->handle), &slot->made_in);
        if (now.pending[k][n].is_pending) {
            hash = mix(hash, now.pending[k][n].act.source.handle.address);
        }
    }
    return hash;
}

/* How many answers of the home are to come until one is of since the operation began: it matters as
 * long as no region is known. */
static uint64_t answers_to_come(void)
{
    uint32_t left = now.client.op.fresh_from - now.mapping.answers;

    return now.client.op.is_cut || (int32_t)left < 0 ? 0 : left;
}

static uint64_t mix_client(uint64_t hash)
{
    const struct client *client = &now.client;
    const struct region_mapping *mapping = &now.mapping;

    hash = mix_descriptor(hash, mapping->config.now);
    if (mapping->hold.is_open) {
        hash = mix_version(mix(hash, mapping->hold.chunks.words[0] | mapping->hold.left << 8),
                           &mapping->hold.change);
    }
    hash = mix(hash, mapping->home | (uint64_t)mapping->is_gone << 32 |
                         (uint64_t)mapping->is_stale << 33 | (uint64_t)mapping->is_asked << 34 |
                         (uint64_t)client->is_busy << 35 | (uint64_t)client->is_write << 36 |
                         (uint64_t)client->last << 40 | (uint64_t)client->value << 48);
    if (client->is_busy) {
        hash =
            mix(hash, client->op.todo.words[0] | client->op.posted.words[0] << 8 |
                          (uint64_t)client->op.is_ending << 16 | (uint64_t)client->op.is_cut << 17 |
                          (uint64_t)(client->op.refused_at == mapping->answers) << 18 |
                          answers_to_come() << 20 | (uint64_t)client->op.tries << 24 |
                          (uint64_t)(uint32_t)client->op.status << 32);
    }
    for (uint32_t n = 0; n < CHUNKS; n++) {
        hash = mix(hash, client->least[n] | (uint64_t)client->begun[n] << 8 |
                             (uint64_t)client->flights[n].is_posted << 16);
        if (client->flights[n].is_posted) {
            hash = mix(mix(hash, client->flights[n].handle.address), client->flights[n].node);
        }
    }
    return hash;
}

uint64_t world_hash(void)
{
    uint64_t hash = 1, left;

    memcpy(&left, &now.left, sizeof(now.left));
    hash = mix(hash, left);
    for (uint32_t h = 0; h < HOMES; h++) {
        hash = mix_home(hash, &now.homes[h]);
    }
    for (uint32_t k = 0; k < HOLDERS; k++) {
        hash = mix_holder(hash, k);
    }
    hash = mix_client(hash);
    for (uint32_t from = 0; from < NODES; from++) {
        for (uint32_t to = 0; to < NODES; to++) {
            const struct queue *queue = &now.queues[from][to];

            hash = mix(hash, queue->count);
            for (uint32_t n = 0; n < queue->count; n++) {
                hash = mix_message(hash, &queue->letters[n]);
            }
        }
        hash = mix(hash, now.home_of[from] | (uint64_t)now.is_dead[from] << 8);
    }
    for (uint32_t n = 0; n < ASKS; n++) {
        hash = mix(hash, now.ask_states[n]);
    }
    hash =
        mix(hash, now.asked | (uint64_t)now.is_revoked << 8 | (uint64_t)now.is_checked << 9 |
                      (uint64_t)now.home << 10 | (uint64_t)now.knows_dead[0][0] << 12 |
                      (uint64_t)now.knows_dead[0][1] << 13 | (uint64_t)now.knows_dead[1][0] << 14 |
                      (uint64_t)now.knows_dead[1][1] << 15);
    return mix_version(mix(hash, now.last_handle), &now.acked) | 1;
}

_Static_assert(sizeof(struct budget) <= sizeof(uint64_t), "it is hashed as a word");

const struct region_descriptor *world_intern(const struct region_descriptor *descriptor)
{
    static union descriptor *interned[INTERNED];
    uint32_t at = (uint32_t)mix_descriptor(3, descriptor) % INTERNED;

    assert_true(descriptor->chunk_count <= CHUNKS);
    for (uint32_t n = 0; n < INTERNED; n++, at = (at + 1) % INTERNED) {
        if (interned[at] == NULL) {
            interned[at] = calloc(1, sizeof(*interned[at]));
            assert_non_null(interned[at]);
            region_descriptor_copy(&interned[at]->descriptor, descriptor);
            return &interned[at]->descriptor;
        }
        if (memcmp(interned[at], descriptor, region_descriptor_bytes(descriptor->chunk_count)) ==
            0) {
            return &interned[at]->descriptor;
        }
    }
    fail_msg("too many descriptors");
    return NULL;
}
