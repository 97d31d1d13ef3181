/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: how many bytes of pulls may be on their way to this lane at once, and whose.
 *
 * What there is (config.pull_bytes) is shared among the holders that are pulled from: one is asked
 * for more while it has less under way than is left after that. So a member that neglects what it
 * is asked for leaves half of it to the others, two leave a quarter, and pulls from others go past
 * those that wait for the neglected. Each holder has a line of its own; among lines the oldest goes
 * first, and one whose holder has nothing under way is not passed: it waits only for others.
 *
 * A single pull always goes. Where one other member lives there is nobody to share with; what was
 * admitted stays so when that changes.
 */
#include "base/check.h"
#include "object/exchange_admission.h"
#include "object/exchange_internal.h"
#include "object/exchange_pull.h"

void admission_init(struct exchange *exchange)
{
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        list_init(&exchange->admission.lines[rank]);
    }
    exchange->admission.others = exchange->config.members->count - 1;
}

void admission_member(struct exchange *exchange, uint32_t rank, bool is_dead)
{
    struct admission *admission = &exchange->admission;

    if (admission->is_dead[rank] != is_dead) {
        admission->is_dead[rank] = is_dead;
        admission->others = is_dead ? admission->others - 1 : admission->others + 1;
    }
}

static uint32_t holder_of(const struct pull *pull)
{
    return pull->answer.holders[pull->holder];
}

/* What a holder has under way, as far as that counts against it. */
static uint64_t share_of(const struct exchange *exchange, uint32_t rank)
{
    return exchange->admission.others > 1 ? exchange->admission.bytes[rank] : 0;
}

static bool fits(const struct exchange *exchange, const struct pull *pull, uint32_t rank)
{
    uint64_t now = exchange->counts.pull_bytes_now;

    return now == 0 || share_of(exchange, rank) + now + pull->bytes <= exchange->config.pull_bytes;
}

/* Whether nobody waits whom a pull from a holder would have to let go first. */
static bool may_pass(const struct exchange *exchange, uint32_t rank)
{
    const struct admission *admission = &exchange->admission;

    if (admission->count == 0) {
        return true;
    }
    if (!list_empty(&admission->lines[rank])) {
        return false;
    }
    for (uint32_t other = 0; other < exchange->config.members->count; other++) {
        if (share_of(exchange, other) == 0 && !list_empty(&admission->lines[other])) {
            return false;
        }
    }
    return true;
}

bool admission_take(struct exchange *exchange, struct pull *pull)
{
    uint32_t rank = holder_of(pull);

    if (pull->admitted) {
        return true;
    }
    if (!fits(exchange, pull, rank) || (!pull->is_next && !may_pass(exchange, rank))) {
        return false;
    }
    exchange->counts.pull_bytes_now += pull->bytes;
    exchange->admission.bytes[rank] += pull->bytes;
    pull->charged = rank;
    pull->admitted = true;
    pull->is_next = false;
    return true;
}

void admission_give(struct exchange *exchange, struct pull *pull)
{
    if (pull->admitted) {
        exchange->counts.pull_bytes_now -= pull->bytes;
        exchange->admission.bytes[pull->charged] -= pull->bytes;
        pull->admitted = false;
    }
}

void admission_move(struct exchange *exchange, struct pull *pull)
{
    if (pull->admitted) {
        exchange->admission.bytes[pull->charged] -= pull->bytes;
        pull->charged = holder_of(pull);
        exchange->admission.bytes[pull->charged] += pull->bytes;
    }
}

void admission_wait(struct exchange *exchange, struct pull *pull)
{
    struct list *line = &exchange->admission.lines[holder_of(pull)];

    if (pull->is_next) {
        list_push_front(line, &pull->place); /* somebody was faster: it keeps its place */
    } else {
        pull->number = ++exchange->admission.last_number;
        list_push_back(line, &pull->place);
    }
    pull->in_line = true;
    exchange->admission.count++;
}

void admission_leave(struct exchange *exchange, struct pull *pull)
{
    exchange->admission.count -= pull->in_line ? 1 : 0;
    pull->in_line = false;
}

struct pull *admission_next(const struct exchange *exchange)
{
    const struct admission *admission = &exchange->admission;
    struct pull *next = NULL;

    for (uint32_t rank = 0; admission->count > 0 && rank < exchange->config.members->count;
         rank++) {
        struct list_node *node = list_first(&admission->lines[rank]);
        struct pull *pull = node == NULL ? NULL : container_of(node, struct pull, place);

        if (pull == NULL || (share_of(exchange, rank) > 0 && !fits(exchange, pull, rank))) {
            continue;
        }
        if (next == NULL || pull->number < next->number) {
            next = pull;
        }
    }
    return next != NULL && fits(exchange, next, holder_of(next)) ? next : NULL;
}

bool admission_is_valid(const struct exchange *exchange)
{
    uint64_t bytes[LIMIT_NODES] = {0};
    uint32_t count = 0;

    for (uint32_t n = 0; n < exchange->pulls_used; n++) {
        const struct pull *pull = &exchange->pulls[n];

        if (pull->state != PULL_FREE) {
            count += pull->in_line ? 1 : 0;
            bytes[pull->charged] += pull->admitted ? pull->bytes : 0;
        }
    }
    for (uint32_t rank = 0; rank < LIMIT_NODES; rank++) {
        if (bytes[rank] != exchange->admission.bytes[rank]) {
            return false;
        }
    }
    return count == exchange->admission.count;
}
