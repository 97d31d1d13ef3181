/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a simulated cluster that agree on views as in production: src/cluster/agree*.c, with
 * libraft inside, on every node, over messages that are late, lost, and cut off with the links. Of
 * some worlds, drawn from a generator of its own. view.c has the stand-in of the others; sim-views
 * has the voting alone, for hours of time.
 *
 * Its clock runs faster than the world's: an election is as long as a transfer that breaks, not as
 * long as ten loads. Nothing in it knows: what is promised is promised of any clock.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cluster/agree_internal.h"

#define FLIGHTS      512u
#define NODES        8u
#define STORED       (64u << 10)
#define EPOCHS       4096u
#define TERMS        4096u
#define TRAVEL_US    300u /* of a message, at most */
#define LATE_US      8000u
#define LATE_PERCENT 2u
#define PAUSED_US    1000u    /* a paused node's channel keeps them: looked at again */
#define ADOPTS_US    3000u    /* its lanes take a view so late, at most */
#define JOINS_US     20000u   /* who was not let in asks again */
#define GAP_US       150000u  /* between what happens to the voting alone */
#define CHANGES      16u      /* of that, at most */
#define DEAD_US      3000000u /* by the voting's clock, as all below */
#define BEGIN_US     UINT64_C(1000000)
#define COLD_PERCENT 25u /* of worlds begin without a view, and with the load */
/* Nothing changed for so long, and most of those that vote run: somebody leads, and has told. */
#define DECIDES_US UINT64_C(40000000)

struct flight {
    uint8_t *bytes; /* NULL: free */
    uint32_t from, to, count;
};

struct agreer {
    struct agree *agree; /* NULL: it does not run */
    uint64_t due_us;     /* by the world's clock */
    uint64_t adopts_us;  /* its lanes take what is known; NEVER: they have */
    uint64_t lease_us;   /* by the world's clock; 0: none */
    uint64_t known;      /* the latest epoch that it knew in this life */
    bool leads;
    bool leaves;
    bool seated;   /* of the list, or let in */
    bool was_bare; /* it lost what it kept, and does not vote again yet */
    uint8_t stored[STORED];
    size_t stored_bytes;
};

struct agreeing {
    struct random random;
    uint64_t scale; /* its clock is so many times as fast */
    uint64_t base_us, begin_us;
    uint32_t listed;
    uint32_t loss_percent;
    uint64_t left;       /* changes to come */
    uint64_t same_since; /* by the world's clock: nobody began or ceased to run, or be heard */
    uint32_t same;       /* what that was */
    bool alone;          /* before the world begins: messages take no time */
    struct agreer nodes[NODES];
    struct flight flights[FLIGHTS];
    struct agreed_set views[EPOCHS]; /* by epoch */
    uint32_t leaders[TERMS];         /* by term: who led, and one */
};

static uint64_t below(struct agreeing *a, uint64_t bound)
{
    return random_below(&a->random, bound);
}

/* Of the world's time, the voting's; and when the world must look if the voting must at a time. */
static uint64_t own_us(const struct world *world)
{
    const struct agreeing *a = world->agreeing;

    return a->base_us + (world->now_us - a->begin_us) * a->scale;
}

static uint64_t world_us(const struct world *world, uint64_t own)
{
    const struct agreeing *a = world->agreeing;

    if (own == UINT64_MAX) {
        return WORLD_NEVER;
    }
    return own <= a->base_us ? world->now_us
                             : a->begin_us + (own - a->base_us + a->scale - 1) / a->scale;
}

static struct agreer *agreer_of(const struct world *world, uint32_t rank)
{
    return &world->agreeing->nodes[rank];
}

/* ---- messages, what is kept ----------------------------------------------- */

static struct world *the_world; /* whose voting runs: its callbacks know a node alone */

static uint32_t rank_of(const void *context)
{
    return (uint32_t)((const struct agreer *)context - the_world->agreeing->nodes);
}

static void on_send(void *context, uint32_t rank, const void *bytes, uint32_t count)
{
    struct world *world = the_world;
    struct agreeing *a = world->agreeing;
    uint64_t us = 1 + below(a, below(a, 100) < LATE_PERCENT ? LATE_US : TRAVEL_US);

    world->totals->agree_messages++;
    if (!a->alone && !world->calm && below(a, 100) < a->loss_percent) {
        return;
    }
    for (uint32_t n = 0; n < FLIGHTS; n++) {
        struct flight *flight = &a->flights[n];

        if (flight->bytes == NULL) {
            flight->bytes = malloc(count);
            NIGH_ASSERT(flight->bytes != NULL);
            memcpy(flight->bytes, bytes, count);
            flight->from = rank_of(context);
            flight->to = rank;
            flight->count = count;
            if (!a->alone) {
                world_at(world, us, EVENT_AGREE_MESSAGE, n, 0, 0);
            }
            return;
        }
    }
}

static nigh_status on_store(void *context, const void *bytes, size_t count)
{
    struct agreer *agreer = context;

    NIGH_ASSERT(count <= sizeof(agreer->stored));
    memcpy(agreer->stored, bytes, count);
    agreer->stored_bytes = count;
    return NIGH_OK;
}

static void on_seated(void *context, const char *address, nigh_status status, uint32_t rank,
                      const struct agreed_roster *seats)
{
    struct world *world = the_world;
    struct agreeing *a = world->agreeing;

    (void)context;
    (void)seats;
    if (status != NIGH_OK) {
        return; /* it asks again */
    }
    WORLD_CHECK(world, rank < world->node_count && strtoul(address, NULL, 10) == rank,
                "who joins as node %lu is told the rank %u", strtoul(address, NULL, 10), rank);
    if (!a->nodes[rank].seated) {
        world_say(world, "node %u is let in", rank);
        a->nodes[rank].seated = true;
        world->totals->agree_joins++;
    }
}

static void on_forgot(void *context, uint32_t rank, nigh_status status)
{
    (void)context;
    (void)status;
    world_fail(the_world, "node %u is struck off, and nobody asked for it", rank);
}

static void make_agree(struct world *world, uint32_t rank, uint64_t now_us)
{
    struct agreeing *a = world->agreeing;
    struct agreer *agreer = &a->nodes[rank];
    struct agree_config config = {
        .self = rank,
        .listed = a->listed,
        .count = world->node_count,
        .cluster = 7,
        .dead_us = DEAD_US,
        .joins = rank >= a->listed,
        .seed = random_u64(&a->random),
        .context = agreer,
        .send = on_send,
        .store = on_store,
        .seated = on_seated,
        .forgot = on_forgot,
    };
    char why[AGREE_WHY_BYTES];

    the_world = world;
    WORLD_CHECK(world,
                agree_create(&config, agreer->stored, agreer->stored_bytes, now_us, &agreer->agree,
                             why) == NIGH_OK,
                "node %u cannot vote: %s", rank, why);
    agree_opened(agreer->agree, now_us);
    agreer->due_us = world->now_us;
    agreer->adopts_us = WORLD_NEVER;
    agreer->lease_us = 0;
    agreer->known = 0;
    agreer->leads = agreer->leaves = false;
}

/* ---- before the world begins ---------------------------------------------- */

/* The list begins, and all of it have a lease: nobody is in the way. */
static void begin_alone(struct world *world)
{
    struct agreeing *a = world->agreeing;
    uint64_t now_us = BEGIN_US;
    uint32_t leases = 0;

    a->alone = true;
    for (uint32_t rank = 0; rank < a->listed; rank++) {
        make_agree(world, rank, now_us);
    }
    while (leases < a->listed) {
        NIGH_ASSERT(now_us < BEGIN_US + DECIDES_US);
        now_us += 10000;
        for (uint32_t n = 0; n < FLIGHTS; n++) {
            struct flight flight = a->flights[n];

            if (flight.bytes != NULL) {
                a->flights[n].bytes = NULL;
                if (a->nodes[flight.to].agree != NULL) {
                    agree_hear(a->nodes[flight.to].agree, flight.from, flight.bytes, flight.count,
                               now_us);
                }
                free(flight.bytes);
            }
        }
        leases = 0;
        for (uint32_t rank = 0; rank < a->listed; rank++) {
            struct agree_look look;

            (void)agree_tick(a->nodes[rank].agree, now_us);
            agree_look(a->nodes[rank].agree, now_us, &look);
            agree_adopted(a->nodes[rank].agree, look.agreed.epoch, now_us);
            leases += look.has_lease && look.agreed.active == look.agreed.epoch ? 1 : 0;
        }
    }
    /* What is under way is lost. */
    for (uint32_t n = 0; n < FLIGHTS; n++) {
        free(a->flights[n].bytes);
        a->flights[n].bytes = NULL;
    }
    a->alone = false;
    a->base_us = now_us;
}

void agreeing_choose(struct world *world)
{
    struct agreeing *a = calloc(1, sizeof(*a));

    NIGH_ASSERT(a != NULL && world->node_count <= NODES);
    world->agreeing = a;
    random_init(&a->random, world->options.seed ^ HASH_K0 ^ HASH_K1);
    a->scale = world->options.nodes != 0 ? 1 : UINT64_C(16) << below(a, 3);
    a->begin_us = a->same_since = world->now_us;
    a->base_us = BEGIN_US;
    a->listed = world->node_count;
    if (world->options.nodes == 0 && world->node_count > 2 && below(a, 2) == 0) {
        a->listed--; /* the last joins */
    }
    for (uint32_t rank = 0; rank < a->listed; rank++) {
        a->nodes[rank].seated = true;
    }
    a->loss_percent = below(a, 2) == 0 ? 0 : (uint32_t)below(a, 10);
    if (world->options.nodes != 0 || below(a, 100) >= COLD_PERCENT) {
        begin_alone(world);
    }
    if (world->options.nodes == 0) {
        a->left = 1 + below(a, CHANGES);
        world_at(world, below(a, GAP_US), EVENT_AGREE, 0, 0, 0);
    }
    world->totals->agree_worlds++;
}

void agreeing_fini(struct world *world)
{
    struct agreeing *a = world->agreeing;

    for (uint32_t rank = 0; a != NULL && rank < world->node_count; rank++) {
        the_world = world;
        agree_destroy(a->nodes[rank].agree);
    }
    for (uint32_t n = 0; a != NULL && n < FLIGHTS; n++) {
        free(a->flights[n].bytes);
    }
    free(a);
    world->agreeing = NULL;
}

/* ---- what must hold ------------------------------------------------------- */

static void say_view(struct world *world, const struct agreed *agreed)
{
    char nodes[64] = "";
    size_t length = 0;

    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        if (agreed_has(&agreed->in, rank)) {
            length += (size_t)snprintf(nodes + length, sizeof(nodes) - length, " %u", rank);
        }
    }
    world_say(world, "view %llu is agreed on: nodes%s", (unsigned long long)agreed->epoch, nodes);
}

/* Who lives and is taken out is as one that was thought dead. */
static void look_who_is_out(struct world *world, const struct agreed *agreed)
{
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        if (world->nodes[rank].alive && !agreed_has(&agreed->in, rank)) {
            world->was_forgetful = true;
            world->totals->agree_out++;
        }
    }
}

static void check_view(struct world *world, uint32_t rank, const struct agreed *agreed)
{
    struct agreeing *a = world->agreeing;

    WORLD_CHECK(world, agreed->epoch >= a->nodes[rank].known,
                "node %u knows of view %llu, and knew of %llu", rank,
                (unsigned long long)agreed->epoch, (unsigned long long)a->nodes[rank].known);
    a->nodes[rank].known = agreed->epoch;
    if (agreed->epoch == 0) {
        return;
    }
    NIGH_ASSERT(agreed->epoch < EPOCHS);
    if (agreed_size(&a->views[agreed->epoch]) == 0) {
        a->views[agreed->epoch] = agreed->in;
        world->totals->agree_views++;
        world->totals->views++;
        say_view(world, agreed);
        look_who_is_out(world, agreed);
    }
    WORLD_CHECK(world, agreed_same(&a->views[agreed->epoch], &agreed->in), "two views %llu",
                (unsigned long long)agreed->epoch);
}

static void check_leader(struct world *world, uint32_t rank)
{
    struct agreeing *a = world->agreeing;
    struct agreer *agreer = &a->nodes[rank];
    bool leads = agreer->agree->running && !agreer->agree->failed &&
                 raft_state(&agreer->agree->raft) == RAFT_LEADER;
    uint64_t term;

    if (leads) {
        term = agreer->agree->raft.current_term;
        NIGH_ASSERT(term < TERMS);
        WORLD_CHECK(world, a->leaders[term] == 0 || a->leaders[term] == rank + 1,
                    "nodes %u and %u lead in term %llu", a->leaders[term] - 1, rank,
                    (unsigned long long)term);
        a->leaders[term] = rank + 1;
    }
    if (leads != agreer->leads) {
        world_say(world, "node %u %s", rank, leads ? "leads" : "leads no more");
        world->totals->agree_elections += leads ? 1 : 0;
        world->totals->agree_deposed += leads ? 0 : 1;
    }
    agreer->leads = leads;
}

/* Who runs and is heard by all, as a number; 0: somebody runs that is not heard, or is slow. */
static uint32_t who_runs(const struct world *world)
{
    uint32_t alive = 0;

    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        const struct world_node *node = &world->nodes[rank];

        alive |= node->alive ? 1u << rank : 0;
        if (node->alive && (node->paused || node->slow_us > 0)) {
            return 0;
        }
        for (uint32_t n = 0; n < world->node_count; n++) {
            if (node->alive && world->nodes[n].alive && world->cut[rank * world->node_count + n]) {
                return 0;
            }
        }
    }
    return alive;
}

static bool is_majority(const struct world *world, uint32_t alive)
{
    const struct agreeing *a = world->agreeing;
    const struct agree_conf *latest = NULL;
    uint32_t votes = 0, here = 0;

    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        const struct agree *agree = a->nodes[rank].agree;

        if (agree != NULL && (latest == NULL || agree->own.index > latest->index)) {
            latest = &agree->own;
        }
    }
    for (uint32_t n = 0; latest != NULL && n < latest->count; n++) {
        const struct agree_server *server = &latest->servers[n];

        if (server->role == RAFT_VOTER) {
            votes++;
            here += (alive >> server->rank & 1) != 0 && !a->nodes[server->rank].was_bare;
        }
    }
    return votes > 0 && 2 * here > votes;
}

static void check_decides(struct world *world)
{
    struct agreeing *a = world->agreeing;
    uint32_t runs = who_runs(world);

    if (runs != a->same || runs == 0) {
        a->same = runs;
        a->same_since = world->now_us;
        return;
    }
    if ((world->now_us - a->same_since) * a->scale < DECIDES_US) {
        return;
    }
    a->same_since = world->now_us;
    if (!is_majority(world, runs)) {
        return;
    }
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        const struct agreer *agreer = &a->nodes[rank];

        WORLD_CHECK(world, !world->nodes[rank].alive || agreer->lease_us > world->now_us,
                    "most run and hear each other, and node %u has no lease", rank);
    }
    world->totals->agree_calms++;
}

/* ---- a node --------------------------------------------------------------- */

bool agreeing_has_lease(const struct world *world, uint32_t rank)
{
    return agreer_of(world, rank)->lease_us > world->now_us;
}

static void tell_lanes(struct world *world, uint32_t rank, const struct agree_look *look)
{
    struct agreer *agreer = agreer_of(world, rank);
    struct world_node *node = &world->nodes[rank];
    bool lease = look->has_lease && look->agreed.epoch == node->adopted.epoch;

    agreer->lease_us =
        lease ? world->agreeing->begin_us +
                    (look->lease_us - world->agreeing->base_us) / world->agreeing->scale
              : 0;
    lease = lease && agreer->lease_us > world->now_us;
    if (lease != node->has_lease) {
        world_say(world, "node %u has %s lease", rank, lease ? "a" : "no");
        world->totals->agree_lapses += lease ? 0 : 1;
        view_lease(world, rank, lease);
        view_check(world);
    }
}

/* What its lanes have adopted: late, and all at once. */
static void look_after_lanes(struct world *world, uint32_t rank)
{
    struct agreeing *a = world->agreeing;
    struct agreer *agreer = &a->nodes[rank];
    struct world_node *node = &world->nodes[rank];
    struct agree_look look;

    agree_look(agreer->agree, own_us(world), &look);
    check_view(world, rank, &look.agreed);
    check_leader(world, rank);
    if (look.votes && !look.bare) {
        agreer->was_bare = false;
    }
    if (!agreed_is_older(&node->adopted, &look.agreed)) {
        agreer->adopts_us = WORLD_NEVER;
    } else if (agreer->adopts_us == WORLD_NEVER) {
        agreer->adopts_us = world->now_us + below(a, ADOPTS_US);
    } else if (agreer->adopts_us <= world->now_us) {
        agreer->adopts_us = WORLD_NEVER;
        view_adopt(world, rank, &look.agreed);
        agree_adopted(agreer->agree, look.agreed.epoch, own_us(world));
        agreer->due_us = world->now_us;
    }
    tell_lanes(world, rank, &look);
}

void agreeing_tick(struct world *world, uint32_t rank)
{
    struct agreer *agreer;

    if (world->agreeing == NULL) {
        return;
    }
    the_world = world;
    agreer = agreer_of(world, rank);
    if (agreer->due_us > world->now_us && agreer->adopts_us > world->now_us &&
        (agreer->lease_us == 0 || agreer->lease_us > world->now_us)) {
        return;
    }
    look_after_lanes(world, rank);
    agreer->due_us =
        max_u64(world_us(world, agree_tick(agreer->agree, own_us(world))), world->now_us + 1);
    look_after_lanes(world, rank);
    check_decides(world);
}

uint64_t agreeing_due_us(const struct world *world, uint32_t rank)
{
    const struct agreer *agreer;

    if (world->agreeing == NULL) {
        return WORLD_NEVER;
    }
    agreer = agreer_of(world, rank);
    return min_u64(min_u64(agreer->due_us, agreer->adopts_us),
                   agreer->lease_us != 0 ? agreer->lease_us : WORLD_NEVER);
}

void agreeing_arrive(struct world *world, uint32_t number)
{
    struct flight *flight = &world->agreeing->flights[number];
    struct agreer *agreer = agreer_of(world, flight->to);
    struct world_node *to = &world->nodes[flight->to];

    if (to->alive && to->paused) {
        world_at(world, PAUSED_US, EVENT_AGREE_MESSAGE, number, 0, 0);
        return;
    }
    the_world = world;
    if (to->alive && !world->cut[flight->from * world->node_count + flight->to]) {
        agree_hear(agreer->agree, flight->from, flight->bytes, flight->count, own_us(world));
        agreer->due_us = world->now_us;
        to->due_us = world->now_us;
    }
    free(flight->bytes);
    flight->bytes = NULL;
}

void agreeing_dead(struct world *world, uint32_t node, uint32_t other)
{
    if (world->agreeing != NULL) {
        the_world = world;
        agree_dead(agreer_of(world, node)->agree, other, own_us(world));
        agreer_of(world, node)->due_us = world->now_us;
    }
}

/* ---- lives ---------------------------------------------------------------- */

void agreeing_node_starts(struct world *world, uint32_t rank)
{
    struct agreer *agreer = agreer_of(world, rank);

    if (agreer->agree == NULL) {
        make_agree(world, rank, own_us(world));
    }
    agreer->due_us = world->now_us;
    if (world->now_us == world->begin_us) {
        agreer->adopts_us = world->now_us; /* its lanes are made with what is known */
    }
}

static uint32_t voters_of(const struct agree *agree)
{
    uint32_t votes = 0;

    for (uint32_t n = 0; n < agree->own.count; n++) {
        votes += agree->own.servers[n].role == RAFT_VOTER ? 1 : 0;
    }
    return votes;
}

static bool somebody_is_bare(const struct world *world)
{
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        if (agreer_of(world, rank)->was_bare) {
            return true;
        }
    }
    return false;
}

/* Everything else is well, so that the others know all that was decided, and are most that vote. */
static bool may_lose(const struct world *world, uint32_t rank)
{
    const struct agreeing *a = world->agreeing;

    if (a->listed < 3) {
        return false;
    }
    for (uint32_t n = 0; n < a->listed; n++) {
        const struct agreer *agreer = &a->nodes[n];

        if (agreer->agree == NULL || agreer->was_bare || agreer->leaves ||
            voters_of(agreer->agree) < 3 || !agreeing_has_lease(world, n) ||
            (n != rank && world->nodes[n].paused)) {
            return false;
        }
    }
    return true;
}

void agreeing_node_ends(struct world *world, uint32_t rank, bool in_order)
{
    struct agreer *agreer;

    if (world->agreeing == NULL) {
        return;
    }
    the_world = world;
    agreer = agreer_of(world, rank);
    world->totals->agree_leaders_ended += agreer->leads ? 1 : 0;
    if (!in_order && !world->calm && below(world->agreeing, 5) == 0 && may_lose(world, rank)) {
        world_say(world, "node %u loses what it kept of the voting", rank);
        agreer->was_bare = true;
        agreer->stored_bytes = 0;
        world->totals->agree_lost++;
    }
    agree_destroy(agreer->agree);
    agreer->agree = NULL;
    agreer->leads = agreer->leaves = false;
    agreer->lease_us = 0;
    agreer->adopts_us = WORLD_NEVER;
}

/* Whether a node may start: who is not of the list asks a member that runs, until it is let in. */
bool agreeing_may_start(struct world *world, uint32_t rank)
{
    struct agreeing *a = world->agreeing;
    char address[AGREED_ADDRESS_BYTES];
    uint32_t via;

    if (a == NULL || a->nodes[rank].seated) {
        return true;
    }
    via = (uint32_t)below(a, world->node_count);
    if (world->nodes[via].alive && !world->nodes[via].paused) {
        the_world = world;
        snprintf(address, sizeof(address), "%u.example:7000", rank);
        (void)agree_join(a->nodes[via].agree, address, own_us(world));
        a->nodes[via].due_us = world->nodes[via].due_us = world->now_us;
    }
    world_at(world, 1 + below(a, JOINS_US), EVENT_RESTART, rank, 0, 0);
    return false;
}

/* ---- what happens to the voting alone ------------------------------------- */

/* A member wants to have no vote, or to have one again. */
void agreeing_happen(struct world *world)
{
    struct agreeing *a = world->agreeing;
    uint32_t rank = (uint32_t)below(a, world->node_count);
    struct agreer *agreer = &a->nodes[rank];

    if (world->calm || a->left == 0) {
        return;
    }
    a->left--;
    world_at(world, 1 + below(a, GAP_US), EVENT_AGREE, 0, 0, 0);
    /* One that left besides one that lost what it kept may be most of them. */
    if (!world->nodes[rank].alive || world->nodes[rank].paused || somebody_is_bare(world)) {
        return;
    }
    a->same_since = world->now_us; /* who leads may be on its way to let another lead */
    agreer->leaves = !agreer->leaves;
    world_say(world, "node %u %s", rank, agreer->leaves ? "is to leave" : "stays");
    world->totals->agree_leaves += agreer->leaves ? 1 : 0;
    the_world = world;
    agree_leave(agreer->agree, agreer->leaves, own_us(world));
    agreer->due_us = world->nodes[rank].due_us = world->now_us;
}

void agreeing_end(struct world *world)
{
    the_world = world;
    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        struct agreer *agreer = agreer_of(world, rank);

        if (agreer->agree != NULL && agreer->leaves) {
            agreer->leaves = false;
            agree_leave(agreer->agree, false, own_us(world));
        }
    }
}

bool agreeing_is_settled(const struct world *world)
{
    const struct agreed_set all = agreed_all(world->node_count);

    for (uint32_t rank = 0; rank < world->node_count; rank++) {
        const struct world_node *node = &world->nodes[rank];

        if (!node->alive || !agreeing_has_lease(world, rank) ||
            node->adopted.active != node->adopted.epoch ||
            node->adopted.epoch != world->nodes[0].adopted.epoch ||
            !agreed_same(&node->adopted.in, &all)) {
            return false;
        }
        for (uint32_t n = 0; n < node->lanes; n++) {
            if (!node->lane[n].exchange->views.is_settled) {
                return false;
            }
        }
    }
    return true;
}
