/* SPDX-License-Identifier: Apache-2.0 */
/* See views_world.h. */
#include "views_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "cluster/agree_internal.h"

#define VIEWS_BEGIN_US UINT64_C(1000000)
#define LINES          60u /* of the trace that a failure is told with */
#define LINE_BYTES     160u

static struct views_world *the_world;

static uint32_t rank_of(const struct views_world *world, const void *context)
{
    return (uint32_t)((const struct views_node *)context - world->nodes);
}

uint32_t views_home(const struct agreed_set *set, uint32_t key)
{
    uint64_t best = 0;
    uint32_t home = UINT32_MAX;

    for (uint32_t rank = 0; rank < VIEWS_NODES; rank++) {
        uint64_t weight = hash_mix(hash_u64(rank + 1), hash_u64(1000 + key)) | 1;

        if (agreed_has(set, rank) && weight > best) {
            best = weight;
            home = rank;
        }
    }
    return home;
}

/* ---- saying --------------------------------------------------------------- */

/* What was said last, where a failure is told of. */
static char lines[LINES][LINE_BYTES];
static uint32_t line_count;

void views_say(const struct views_world *world, const char *format, ...)
{
    char *line = lines[line_count++ % LINES];
    int length = snprintf(line, LINE_BYTES, "# %12.3f ms  ",
                          (double)(world->now_us - VIEWS_BEGIN_US) / 1000);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line + length, LINE_BYTES - (size_t)length, format, args);
    va_end(args);
    trace_add(world->heard, line + length);
}

static void say_view(const struct views_world *world, const struct agreed *agreed)
{
    char nodes[8 * VIEWS_NODES] = "";
    size_t length = 0;

    for (uint32_t rank = 0; rank < world->count; rank++) {
        if (agreed_has(&agreed->in, rank))
            length += (size_t)snprintf(nodes + length, sizeof(nodes) - length, " %u", rank);
    }
    views_say(world, "view %llu is agreed on: nodes%s", (unsigned long long)agreed->epoch, nodes);
}

static void say_what_changed(struct views_world *world, uint32_t rank,
                             const struct agree_look *seen)
{
    struct views_node *node = &world->nodes[rank];

    if (node->said_leads != (seen->leader == rank)) {
        node->said_leads = seen->leader == rank;
        views_say(world, "node %u %s", rank, node->said_leads ? "leads" : "leads no more");
    }
    if (node->said_lease != seen->has_lease) {
        node->said_lease = seen->has_lease;
        views_say(world, "node %u has %s lease", rank, node->said_lease ? "a" : "no");
    }
    if (seen->agreed.active > world->said_active) {
        world->said_active = seen->agreed.active;
        views_say(world, "view %llu is active", (unsigned long long)world->said_active);
    }
}

/* ---- messages, disks ------------------------------------------------------ */

/* Who leads says how far is decided. */
static void check_told(struct views_world *world, const struct views_node *node, const void *bytes)
{
    struct agree_head head;

    memcpy(&head, bytes, sizeof(head));
    if (head.kind == RAFT_IO_APPEND_ENTRIES && node->begun != 0 && head.numbers[3] >= node->begun) {
        world->broken = "a decision is told before it is kept";
    }
}

static void on_send(void *context, uint32_t rank, const void *bytes, uint32_t count)
{
    struct views_world *world = the_world;
    uint32_t from = rank_of(world, context);

    world->sent++;
    /* A node would cut it (node/views_parts.h), and a channel refuse it whole. */
    if (count > CALLS_PAYLOAD) {
        world->broken = "a message is longer than a channel for calls carries";
        return;
    }
    check_told(world, context, bytes);
    if (world->loses_kind != 0 && *(const uint8_t *)bytes == world->loses_kind) {
        world->lost_of_kind++;
        return;
    }
    if (world->cut[from][rank] || random_below(&world->random, 1000) < world->loss_permille) {
        world->lost++;
        return;
    }
    for (uint32_t n = 0; n < VIEWS_MESSAGES; n++) {
        struct views_message *message = &world->messages[n];

        if (message->at_us == 0) {
            message->at_us = world->now_us + 1 + random_below(&world->random, world->delay_us);
            message->from = from;
            message->to = rank;
            message->count = count;
            memcpy(message->bytes, bytes, count);
            return;
        }
    }
    world->lost++;
}

/* What it would begin with, if it were killed now: a snapshot is of what was decided. */
static void check_stored(struct views_world *world, const struct views_node *node)
{
    const struct agree_log *log = node->agree != NULL ? &node->agree->log : NULL;

    if (log != NULL && log->begun != 0 && log->begun <= log->snapshot_index) {
        world->broken = "a snapshot is kept before what it decides";
    }
}

static nigh_status on_store(void *context, const void *bytes, size_t count)
{
    struct views_node *node = context;

    check_stored(the_world, node);
    if (node->disk_fails || count > sizeof(node->stored)) {
        return NIGH_DISK;
    }
    memcpy(node->stored, bytes, count);
    node->stored_bytes = count;
    node->stores++;
    node->begun = node->agree != NULL ? node->agree->log.begun : 0;
    return NIGH_OK;
}

/* ---- who joins ------------------------------------------------------------ */

static void on_seated(void *context, const char *address, nigh_status status, uint32_t rank,
                      const struct agreed_roster *seats)
{
    struct views_world *world = the_world;
    struct views_joiner *joiner = &world->joiners[strtoul(address, NULL, 10)];

    (void)context;
    if (status != NIGH_OK) {
        views_say(world, "%s does not join: %s", address, nigh_status_name(status));
        joiner->refused += status == NIGH_NO_RESOURCES;
        joiner->unanswered += status == NIGH_NO_QUORUM;
        return;
    }
    if (agreed_has(&world->struck, rank)) {
        return; /* it heard late of what is over */
    }
    if (strcmp(seats->addresses[rank - world->listed], address) != 0) {
        world->broken = "who joined is not in its seat";
    }
    if (joiner->rank != AGREE_NOBODY && joiner->rank != rank) {
        world->broken = "who joined was told two ranks";
    }
    if (world->seated[rank] != 0 && &world->joiners[world->seated[rank] - 1] != joiner) {
        world->broken = "two who joined have one rank";
    }
    world->seated[rank] = (uint32_t)(joiner - world->joiners) + 1;
    if (joiner->rank != rank)
        views_say(world, "%s joins as node %u", address, rank);
    joiner->rank = rank;
    joiner->told++;
}

static void on_forgot(void *context, uint32_t rank, nigh_status status)
{
    struct views_world *world = the_world;

    (void)context;
    if (rank < VIEWS_NODES) {
        world->answers[rank]++;
        world->forgotten[rank] = status;
    }
    if (status == NIGH_OK) {
        agreed_put(&world->told, rank, true);
    }
}

void views_forget(struct views_world *world, uint32_t rank, uint32_t via)
{
    the_world = world;
    views_say(world, "node %u is asked to strike off node %u", via, rank);
    (void)agree_forget(world->nodes[via].agree, rank, world->now_us);
    world->nodes[via].due_us = world->now_us;
}

/* Its address may join again, as somebody else. */
static void strike(struct views_world *world, uint32_t rank)
{
    views_say(world, "node %u is struck off", rank);
    agreed_put(&world->struck, rank, true);
    world->strikes++;
    for (uint32_t n = 0; n < VIEWS_JOINERS; n++) {
        if (world->joiners[n].rank == rank) {
            world->joiners[n] = (struct views_joiner){.rank = AGREE_NOBODY};
        }
    }
}

void views_join(struct views_world *world, uint32_t joiner, uint32_t via)
{
    char address[AGREED_ADDRESS_BYTES];

    the_world = world;
    snprintf(address, sizeof(address), "%u.example:7000", joiner);
    views_say(world, "%s asks node %u for a seat", address, via);
    world->joiners[joiner].asks = true;
    (void)agree_join(world->nodes[via].agree, address, world->now_us);
    world->nodes[via].due_us = world->now_us;
}

static void start_who_joined(struct views_world *world)
{
    for (uint32_t n = 0; n < VIEWS_JOINERS; n++) {
        struct views_joiner *joiner = &world->joiners[n];

        if (joiner->rank != AGREE_NOBODY && !joiner->started) {
            joiner->started = true;
            views_start(world, joiner->rank);
        }
    }
}

struct agreed_set views_everybody(const struct views_world *world)
{
    struct agreed_set set = agreed_all(world->listed);

    for (uint32_t n = 0; n < VIEWS_JOINERS; n++) {
        if (world->joiners[n].rank != AGREE_NOBODY) {
            agreed_put(&set, world->joiners[n].rank, true);
        }
    }
    return set;
}

/* ---- lanes ---------------------------------------------------------------- */

static void look(const struct views_world *world, uint32_t rank, struct agree_look *seen)
{
    agree_look(world->nodes[rank].agree, world->now_us, seen);
}

/* As docs/views.md has it for a lane: what it had as of the active view it keeps, the rest waits.
 */
static void adopt(struct views_world *world, uint32_t rank, const struct agreed *agreed)
{
    struct views_node *node = &world->nodes[rank];
    bool keeps = node->adopted.epoch >= agreed->active;
    bool is_active = agreed->active == agreed->epoch;

    for (uint32_t key = 0; key < VIEWS_KEYS; key++) {
        node->serves[key] =
            views_home(&agreed->in, key) == rank && (is_active || (keeps && node->serves[key]));
    }
    node->adopted = *agreed;
}

static void look_after_lanes(struct views_world *world, uint32_t rank)
{
    struct views_node *node = &world->nodes[rank];
    struct agree_look seen;

    look(world, rank, &seen);
    if (!agreed_is_older(&node->adopted, &seen.agreed)) {
        node->adopts_us = 0;
    } else if (node->adopts_us == 0) {
        node->adopts_us = world->now_us + random_below(&world->random, 20000);
    } else if (world->now_us >= node->adopts_us) {
        adopt(world, rank, &seen.agreed);
        views_say(world, "node %u adopts view %llu", rank, (unsigned long long)seen.agreed.epoch);
        node->adopts_us = 0;
        agree_adopted(node->agree, seen.agreed.epoch, world->now_us);
        node->due_us = world->now_us;
    }
}

bool views_has_lease(const struct views_world *world, uint32_t rank)
{
    struct agree_look seen;

    if (world->nodes[rank].agree == NULL) {
        return false;
    }
    look(world, rank, &seen);
    return seen.has_lease;
}

bool views_serves(const struct views_world *world, uint32_t rank, uint32_t key)
{
    const struct views_node *node = &world->nodes[rank];
    struct agree_look seen;

    if (node->agree == NULL || node->paused || !node->serves[key]) {
        return false; /* who stands still serves nobody; when it goes on it looks at its clock */
    }
    look(world, rank, &seen);
    return seen.has_lease && seen.agreed.epoch == node->adopted.epoch;
}

/* ---- invariants ----------------------------------------------------------- */

static void check_view(struct views_world *world, const struct agreed *agreed)
{
    if (agreed->epoch == 0) {
        return;
    }
    if (agreed->epoch >= VIEWS_EPOCHS) {
        world->broken = "too many views";
        return;
    }
    if (agreed_size(&world->views[agreed->epoch]) == 0) {
        say_view(world, agreed);
        world->views[agreed->epoch] = agreed->in;
        world->epochs = max_u64(world->epochs, agreed->epoch);
    } else if (!agreed_same(&world->views[agreed->epoch], &agreed->in)) {
        world->broken = "two views of one epoch";
    }
}

/* By a lease a node knows which ranks are nobody's: what those have that joined before is not
 * absent. */
static void check_seats(struct views_world *world, uint32_t rank, const struct agree_look *seen)
{
    if (seen->has_lease && seen->seats < world->nodes[rank].joined) {
        world->broken = "a lease without knowing who joined before";
    }
}

/* No address has two seats, and what is struck off stays so. */
static void check_struck(struct views_world *world, const struct agreed_roster *roster)
{
    struct agreed_set struck = agreed_struck(roster, world->listed);

    for (uint32_t n = 0; n < roster->count; n++) {
        if (roster->addresses[n][0] != '\0' && agreed_seat_of(roster, roster->addresses[n]) != n) {
            world->broken = "an address with two seats";
        }
    }
    for (uint32_t rank = 0; rank < world->count; rank++) {
        if (agreed_has(&world->struck, rank) && !agreed_has(&struck, rank) &&
            roster->changes >= world->struck_changes) {
            world->broken = "a rank that was struck off is somebody's";
        }
        if (agreed_has(&struck, rank) && !agreed_has(&world->struck, rank)) {
            strike(world, rank);
            world->struck_changes = roster->changes;
        }
    }
}

/* By what a voter has applied, which is of one moment. */
static void check_view_of_struck(struct views_world *world, uint32_t rank)
{
    const struct agree *agree = world->nodes[rank].agree;
    struct agreed_set struck = agreed_struck(&agree->roster, world->listed);

    if (agree_votes(agree) && agreed_meets(&agree->applied.wary, &struck)) {
        world->broken = "a view with somebody who is struck off";
    }
    if (agreed_has(&world->struck, rank) && views_has_lease(world, rank)) {
        world->broken = "a lease of somebody who is struck off";
    }
}

/* A roster of so many changes is one. */
static void check_roster(struct views_world *world, struct views_node *node)
{
    const struct agreed_roster *roster = agree_roster(node->agree);
    uint64_t hash;

    if (roster->changes + 1 == node->checked) {
        return;
    }
    node->checked = roster->changes + 1;
    check_struck(world, roster);
    hash = (uint64_t)crc32c(0, roster, sizeof(*roster)) + 1;
    if (roster->changes >= VIEWS_CHANGES) {
        world->broken = "too many changes of who there is";
    } else if (world->rosters[roster->changes] == 0) {
        world->rosters[roster->changes] = hash;
    } else if (world->rosters[roster->changes] != hash) {
        world->broken = "two rosters of as many changes";
    }
}

static void check_leader(struct views_world *world, uint32_t rank, struct agree *agree)
{
    uint64_t term = agree->raft.current_term;

    if (raft_state(&agree->raft) != RAFT_LEADER) {
        return;
    }
    if (term >= VIEWS_TERMS) {
        world->broken = "too many terms";
    } else if (world->leaders[term] == 0) {
        world->leaders[term] = rank + 1;
    } else if (world->leaders[term] != rank + 1) {
        world->broken = "two leaders of one term";
    }
}

static void check_decided(struct views_world *world, const struct agree_conf *conf)
{
    uint32_t hash = crc32c(0, conf, sizeof(*conf)) | 1;

    if (conf->index == 0) {
        return;
    }
    if (conf->index >= VIEWS_INDEXES) {
        world->broken = "too many entries";
    } else if (world->confs[conf->index] == 0) {
        world->confs[conf->index] = hash;
    } else if (world->confs[conf->index] != hash) {
        world->broken = "two decisions of who votes in one";
    }
}

/* Those of a log: one follows the other, and one at most is not decided. */
static void check_steps(struct views_world *world, const struct agree *agree)
{
    const struct agree_log *log = &agree->log;
    struct agree_conf before = {0}, conf;
    uint32_t undecided = 0;

    for (uint32_t n = 0; n < log->count; n++) {
        const struct agree_entry *entry = &log->entries[n];

        if (entry->head.type != RAFT_CHANGE) {
            continue;
        }
        if (!agree_conf_decode(agree, entry->data, entry->head.bytes, log->first + n, &conf)) {
            world->broken = "who votes is not to be read";
        } else if (before.index != 0 && !agree_conf_is_step(&before, &conf)) {
            world->broken = "two changes of who votes in one";
        }
        before = conf;
        undecided += log->first + n > world->decided ? 1 : 0;
    }
    if (undecided > 1) {
        world->broken = "two changes of who votes at once";
    }
}

static void check_raft(struct views_world *world, uint32_t rank)
{
    struct views_node *node = &world->nodes[rank];
    struct agree *agree = node->agree;
    const struct agree_log *log = &agree->log;
    uint64_t state = hash_mix(hash_mix(agree->raft.last_applied, log->first + log->count),
                              hash_mix(agree->log.term, agree->own.index));
    struct agree_conf conf;

    if (!agree->running || agree->failed || state == node->raft_checked) {
        return;
    }
    node->raft_checked = state;
    if (node->begun != 0 && agree->raft.last_applied >= node->begun) {
        world->broken = "a decision is seen before it is kept";
    }
    world->decided = max_u64(world->decided, agree->raft.last_applied);
    check_leader(world, rank, agree);
    agree_conf_decided(agree, &conf);
    check_decided(world, &conf);
    check_decided(world, &log->snapshot_conf);
    check_steps(world, agree);
}

static void check(struct views_world *world)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct agree_look seen;

        if (world->nodes[rank].agree != NULL) {
            look(world, rank, &seen);
            check_view(world, &seen.agreed);
            say_what_changed(world, rank, &seen);
            check_seats(world, rank, &seen);
            check_roster(world, &world->nodes[rank]);
            check_raft(world, rank);
        }
    }
    for (uint32_t rank = 0; rank < world->count; rank++) {
        if (world->nodes[rank].agree != NULL) {
            check_view_of_struck(world, rank);
        }
        if (agreed_has(&world->told, rank) && !agreed_has(&world->struck, rank)) {
            world->broken = "somebody was told of what was not decided";
        }
    }
    for (uint32_t key = 0; key < VIEWS_KEYS && world->broken == NULL; key++) {
        uint32_t served = 0;

        for (uint32_t rank = 0; rank < world->count; rank++) {
            served += views_serves(world, rank, key) ? 1 : 0;
        }
        if (served > 1) {
            world->broken = "a key with two homes that serve";
        }
    }
}

/* ---- events --------------------------------------------------------------- */

static bool runs(const struct views_world *world, uint32_t rank)
{
    return world->nodes[rank].agree != NULL && !world->nodes[rank].paused;
}

/* When the next thing happens. */
static uint64_t next_us(const struct views_world *world, struct views_message **message,
                        uint32_t *rank)
{
    uint64_t at_us = UINT64_MAX;

    *message = NULL;
    *rank = UINT32_MAX;
    for (uint32_t n = 0; n < VIEWS_MESSAGES; n++) {
        const struct views_message *one = &world->messages[n];

        if (one->at_us != 0 && one->at_us < at_us && !world->nodes[one->to].paused) {
            at_us = one->at_us;
            *message = (struct views_message *)one;
        }
    }
    for (uint32_t n = 0; n < world->count; n++) {
        const struct views_node *node = &world->nodes[n];
        uint64_t due_us =
            node->adopts_us != 0 ? min_u64(node->due_us, node->adopts_us) : node->due_us;

        if (runs(world, n) && due_us < at_us) {
            at_us = due_us;
            *message = NULL;
            *rank = n;
        }
    }
    return at_us;
}

static void step(struct views_world *world, struct views_message *message, uint32_t rank)
{
    struct views_node *node;

    if (message != NULL) {
        rank = message->to;
        message->at_us = 0;
    }
    node = &world->nodes[rank];
    if (!runs(world, rank)) {
        return;
    }
    if (message != NULL) {
        agree_hear(node->agree, message->from, message->bytes, message->count, world->now_us);
    }
    look_after_lanes(world, rank);
    node->due_us = agree_tick(node->agree, world->now_us);
    look_after_lanes(world, rank);
    start_who_joined(world);
}

bool views_run(struct views_world *world, uint64_t until_us)
{
    the_world = world;
    while (world->broken == NULL) {
        struct views_message *message;
        uint32_t rank;
        uint64_t at_us = next_us(world, &message, &rank);

        if (at_us > until_us) {
            world->now_us = until_us;
            break;
        }
        world->now_us = max_u64(world->now_us, at_us);
        world->events++;
        step(world, message, rank);
        check(world);
    }
    return world->broken == NULL;
}

bool views_settled(const struct views_world *world, const struct agreed_set *in)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        const struct agreed *agreed = &world->nodes[rank].adopted;
        struct agree_look seen;

        if (!runs(world, rank) || !agreed_has(in, rank)) {
            continue;
        }
        look(world, rank, &seen);
        if (!seen.has_lease || seen.agreed.epoch != agreed->epoch ||
            agreed->active != agreed->epoch || !agreed_same(&agreed->in, in)) {
            return false;
        }
    }
    return true;
}

/* ---- life ----------------------------------------------------------------- */

void views_init(struct views_world *world, uint32_t count, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    line_count = 0;
    world->count = world->listed = count;
    for (uint32_t n = 0; n < VIEWS_JOINERS; n++) {
        world->joiners[n].rank = AGREE_NOBODY;
    }
    world->now_us = VIEWS_BEGIN_US;
    world->delay_us = 2000;
    world->dead_us = 3000000;
    random_init(&world->random, seed);
    the_world = world;
}

void views_start(struct views_world *world, uint32_t rank)
{
    struct views_node *node = &world->nodes[rank];
    struct agree_config config = {
        .self = rank,
        .listed = world->listed,
        .count = world->count,
        .cluster = 7,
        .dead_us = world->dead_us,
        .joins = node->joins,
        .seed = random_u64(&world->random),
        .context = node,
        .send = on_send,
        .store = on_store,
        .seated = on_seated,
        .forgot = on_forgot,
    };
    struct agreed_set everybody;
    char why[AGREE_WHY_BYTES];

    the_world = world;
    memcpy(config.name, node->name, sizeof(config.name));
    memset(&node->adopted, 0, sizeof(node->adopted));
    memset(node->serves, 0, sizeof(node->serves));
    node->adopts_us = 0;
    node->paused = false;
    node->checked = 0;
    node->raft_checked = 0;
    if (agree_create(&config, node->stored, node->stored_bytes, world->now_us, &node->agree, why) !=
        NIGH_OK) {
        fprintf(stderr, "# %s\n", why);
        abort();
    }
    agree_opened(node->agree, world->now_us);
    views_say(world, "node %u starts", rank);
    node->said_leads = node->said_lease = false;
    node->due_us = world->now_us;
    everybody = views_everybody(world);
    node->joined = agreed_size(&everybody) - world->listed;
}

void views_kill(struct views_world *world, uint32_t rank)
{
    if (world->nodes[rank].agree != NULL)
        views_say(world, "node %u dies", rank);
    agree_destroy(world->nodes[rank].agree);
    world->nodes[rank].agree = NULL;
}

void views_fini(struct views_world *world)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        views_kill(world, rank);
    }
}

struct agreed_set views_voters(const struct views_world *world)
{
    struct agreed_set none = {{0}};

    for (uint32_t rank = 0; rank < world->count; rank++) {
        const struct views_node *node = &world->nodes[rank];
        struct agree_look seen;

        if (runs(world, rank) && node->agree->leads && node->agree->ready) {
            look(world, rank, &seen);
            return seen.voters;
        }
    }
    return none;
}

void views_print(const struct views_world *world)
{
    for (uint32_t n = line_count > LINES ? line_count - LINES : 0; n < line_count; n++)
        fprintf(stderr, "%s\n", lines[n % LINES]);
    for (uint32_t rank = 0; rank < world->count; rank++) {
        const struct views_node *node = &world->nodes[rank];
        struct agree_look seen;

        if (node->agree == NULL) {
            fprintf(stderr, "# rank %u: dead\n", rank);
            continue;
        }
        look(world, rank, &seen);
        fprintf(stderr,
                "# rank %u: epoch %llu active %llu in %llx wary %llx adopted %llu lease %d leader "
                "%d term %llu failed %d voters %llx as of %llu leaves %d\n",
                rank, (unsigned long long)seen.agreed.epoch, (unsigned long long)seen.agreed.active,
                (unsigned long long)seen.agreed.in.words[0],
                (unsigned long long)seen.agreed.wary.words[0],
                (unsigned long long)node->adopted.epoch, seen.has_lease, (int)seen.leader,
                (unsigned long long)seen.term, seen.failed,
                (unsigned long long)seen.voters.words[0],
                (unsigned long long)agree_conf_known(node->agree)->index, node->agree->leaves);
    }
}
