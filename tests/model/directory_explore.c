/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every interleaving of a small cluster around one key: a home's directory (the production code)
 * and three members that claim, seal, pull, evict, delete and wait, over links that break and with
 * lives that end, all in every order, up to small numbers of each.
 *
 * Members do what the exchange does: they announce what they hold when a link comes up, drop what
 * is refused, answer a drop, and tell everything again when news were lost that their queue had no
 * room for. Messages of one link stay in order; a link that breaks loses them.
 *
 * True, everywhere: a birth whose delete has ended is never known again; a delete ends once; who
 * waits is told of every other holder that is known; the key is granted to one member at a time,
 * and nobody else's birth is admitted before its own. When nothing is under way: every delete has
 * ended, every claim is granted or over, the directory knows exactly what members hold and claim,
 * and no tombstone is left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its state is what is explored. */
#include "../../src/cluster/directory.c"
#include "../../src/cluster/directory_changes.c"
#include "../../src/cluster/directory_claims.c"
#include "../../src/cluster/directory_deletes.c"
#include "../../src/cluster/directory_entries.c"
#include "support/support.h"

#define MEMBERS 3u
#define BIRTHS  2u
#define QUEUE   6u
#define KEYS    8u
#define NONE    0u

/* How often each may happen. */
struct budget {
    uint8_t seals, pulls, evictions, deletes, waits, breaks, deaths, losses, claims;
};

enum message_kind {
    SAY_ANNOUNCE = 1,
    SAY_COPY,
    SAY_FORGET,
    SAY_DELETE,
    SAY_WAIT,
    SAY_CLAIM,
    SAY_HELD, /* a claim that was granted before */
    SAY_DROPPED,
    SAY_ANNOUNCING,
    SAY_ANNOUNCED,
    TELL_FOUND,
    TELL_DROP,
    TELL_REFUSED,
    TELL_GRANTED,
    TELL_TAKEN,
    TELL_NOT_YET
};

struct message {
    uint8_t kind, birth;
};

struct queue {
    uint8_t count;
    struct message messages[QUEUE];
};

/* How far a member is that tells everything again. */
enum telling {
    TELLING_NOTHING = 0,
    TELLING_BEGUN,
    TELLING_TOLD
};

struct member {
    uint8_t birth; /* that it holds; NONE */
    uint8_t is_copy;
    uint8_t pulling; /* a birth; NONE */
    uint8_t knows;   /* a birth that it may pull */
    uint8_t waits;
    uint8_t claim; /* a birth that it is about to seal; NONE */
    uint8_t granted;
    uint8_t link_up;
    uint8_t over;    /* its life ended, and the home has not seen its link since */
    uint8_t full;    /* its queue of news is: the next is lost */
    uint8_t lost;    /* some were: it has to tell everything again */
    uint8_t telling; /* enum telling */
    struct queue to_home, from_home;
};

/* All but the directory. Bytes only, so that equal states have equal bytes. */
struct cluster {
    struct budget left;
    struct member members[MEMBERS];
    uint8_t sealed;                 /* births so far */
    uint8_t pending, ended, births; /* deletes: bits of tickets; births: bits deleted for good */
    uint8_t ticket_births[4], tickets;
    uint8_t granted;  /* births that were claimed */
    uint8_t overflow; /* a queue was full: not explored further */
};

static struct cluster now;
static struct directory *home;
static const struct directory_key key = {.pool = 1};

struct saved {
    struct cluster cluster;
    uint8_t head[offsetof(struct directory, changes)];
    uint8_t tail[sizeof(struct directory) - offsetof(struct directory, first_change)];
    uint8_t entries[KEYS * (sizeof(struct entry) + SETS * sizeof(uint64_t))];
    uint32_t heads[KEYS];
};

static void save(struct saved *saved)
{
    saved->cluster = now;
    memcpy(saved->head, home, sizeof(saved->head));
    memcpy(saved->tail, (uint8_t *)home + offsetof(struct directory, first_change),
           sizeof(saved->tail));
    memcpy(saved->entries, home->entries, sizeof(saved->entries));
    memcpy(saved->heads, home->heads, sizeof(saved->heads));
}

static void restore(const struct saved *saved)
{
    now = saved->cluster;
    memcpy(home, saved->head, sizeof(saved->head));
    memcpy((uint8_t *)home + offsetof(struct directory, first_change), saved->tail,
           sizeof(saved->tail));
    memcpy(home->entries, saved->entries, sizeof(saved->entries));
    memcpy(home->heads, saved->heads, sizeof(saved->heads));
}

/* ---- what was reached ----------------------------------------------------- */

static uint64_t *seen;
static uint64_t seen_mask, seen_count, transitions, quiet_states;
static char trace[64][48];
static uint32_t depth, deepest;

static uint64_t hash_bytes(const void *bytes, size_t count, uint64_t hash)
{
    const uint8_t *at = bytes;

    for (size_t n = 0; n < count; n++) {
        hash = hash_mix(hash ^ at[n] ^ HASH_K0, HASH_K1 + n);
    }
    return hash;
}

static uint64_t state_hash(void)
{
    uint64_t hash = hash_bytes(&now, sizeof(now), 1), sum = 0;

    for (uint32_t n = 0; n < home->used; n++) {
        struct entry *entry = entry_at(home, n);
        uint64_t bits[] = {entry->object.birth.counter,
                           entry->ticket,
                           entry->tombstone,
                           entry->in_use,
                           entry->told,
                           entry->sets[0],
                           entry->sets[1],
                           entry->sets[2]};

        sum += entry->used ? hash_bytes(bits, sizeof(bits), 7) : 0;
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        uint64_t bits[] = {home->announced[rank], home->ever[rank], home->dead[rank]};

        hash = hash_bytes(bits, sizeof(bits), hash);
    }
    return hash_mix(hash ^ HASH_K2, sum ^ HASH_K3) | 1;
}

/* False: it was reached before. */
static bool reach(uint64_t hash)
{
    uint64_t at = hash_u64(hash) & seen_mask;

    while (seen[at] != 0) {
        if (seen[at] == hash) {
            return false;
        }
        at = (at + 1) & seen_mask;
    }
    seen[at] = hash;
    seen_count++;
    return true;
}

static void claim(bool holds, const char *what)
{
    if (!holds) {
        for (uint32_t n = 0; n < depth; n++) {
            print_message("# %2u %s\n", n, trace[n]);
        }
        fail_msg("%s", what);
    }
}

/* ---- messages ------------------------------------------------------------- */

static struct directory_object object_of(uint8_t birth)
{
    return (struct directory_object){.birth = {.counter = birth, .incarnation = 1}};
}

static void push(struct queue *queue, enum message_kind kind, uint8_t birth)
{
    if (queue->count == QUEUE) {
        now.overflow = 1;
        return;
    }
    queue->messages[queue->count++] = (struct message){.kind = (uint8_t)kind, .birth = birth};
}

static struct message pop(struct queue *queue)
{
    struct message message = queue->messages[0];

    queue->count--;
    memmove(queue->messages, queue->messages + 1, sizeof(message) * (QUEUE - 1));
    queue->messages[QUEUE - 1] = (struct message){0};
    return message;
}

static void say(uint32_t rank, enum message_kind kind, uint8_t birth)
{
    if (now.members[rank].link_up) {
        push(&now.members[rank].to_home, kind, birth);
    }
}

/* Of a birth that it holds, or holds no longer. */
static void say_news(uint32_t rank, enum message_kind kind, uint8_t birth)
{
    struct member *member = &now.members[rank];

    if (member->link_up && member->full) {
        member->full = 0;
        member->lost = 1;
    } else {
        say(rank, kind, birth);
    }
}

static void tell(uint32_t rank, enum message_kind kind, uint8_t birth)
{
    if (now.members[rank].link_up) {
        push(&now.members[rank].from_home, kind, birth);
    }
}

static void on_found(void *context, uint32_t rank, const struct directory_key *told,
                     const struct directory_answer *answer)
{
    (void)context;
    (void)told;
    claim(answer->holder_count > 0, "told of nobody");
    tell(rank, TELL_FOUND, (uint8_t)answer->object.birth.counter);
}

static bool on_drop(void *context, uint32_t rank, const struct directory_key *told,
                    const struct birth *birth)
{
    (void)context;
    (void)told;
    tell(rank, TELL_DROP, (uint8_t)birth->counter);
    return true;
}

static void end_delete(uint64_t ticket)
{
    claim((now.pending & 1u << ticket) != 0, "a delete that was not pending ended");
    claim((now.ended & 1u << ticket) == 0, "a delete ended twice");
    now.pending &= (uint8_t) ~(1u << ticket);
    now.ended |= (uint8_t)(1u << ticket);
    now.births |= (uint8_t)(1u << now.ticket_births[ticket]);
}

static void on_deleted(void *context, uint64_t ticket, nigh_status status)
{
    (void)context;
    (void)status;
    end_delete(ticket);
}

static uint8_t known_birth(void)
{
    struct entry *entry = directory_find(home, &key, NULL);

    return entry != NULL && is_known(home, entry) ? (uint8_t)entry->object.birth.counter : NONE;
}

static void home_deletes(uint32_t rank)
{
    uint8_t ticket = now.tickets++;
    nigh_status status;

    now.ticket_births[ticket] = known_birth();
    now.pending |= (uint8_t)(1u << ticket);
    status = directory_delete(home, rank, &key, ticket, 0);
    if (status == NIGH_OK) {
        end_delete(ticket);
    } else if (status != NIGH_PENDING) {
        now.pending &= (uint8_t) ~(1u << ticket);
    }
}

/* Nobody was to come before who had the key to itself. */
static void home_admits(uint32_t rank, const struct message *message)
{
    struct directory_object object = object_of(message->birth);
    bool is_copy = message->kind == SAY_COPY;
    nigh_status status = directory_announce(home, rank, &key, &object, is_copy, 0);

    claim(is_copy || status != NIGH_EXISTS || (now.granted & 1u << message->birth) == 0,
          "what was claimed is refused");
    if (status != NIGH_OK) {
        tell(rank, TELL_REFUSED, message->birth);
    }
}

static void home_grants(uint32_t rank, const struct message *message)
{
    struct directory_object object = object_of(message->birth);
    nigh_status status =
        directory_claim(home, rank, &key, &object.birth, message->kind == SAY_HELD);

    if (status == NIGH_OK) {
        now.granted |= (uint8_t)(1u << message->birth);
    }
    tell(rank,
         status == NIGH_OK     ? TELL_GRANTED
         : status == NIGH_BUSY ? TELL_NOT_YET
                               : TELL_TAKEN,
         message->birth);
}

static void home_takes(uint32_t rank)
{
    struct message message = pop(&now.members[rank].to_home);
    struct directory_object object = object_of(message.birth);
    struct directory_answer answer;

    switch ((enum message_kind)message.kind) {
    case SAY_ANNOUNCE:
    case SAY_COPY: home_admits(rank, &message); break;
    case SAY_CLAIM:
    case SAY_HELD: home_grants(rank, &message); break;
    case SAY_FORGET: directory_forget(home, rank, &key, &object.birth); break;
    case SAY_DELETE: home_deletes(rank); break;
    case SAY_WAIT:
        directory_locate(home, rank, &key, true, &answer);
        if (answer.state == DIRECTORY_KNOWN) {
            tell(rank, TELL_FOUND, (uint8_t)answer.object.birth.counter);
        }
        break;
    case SAY_DROPPED: directory_dropped(home, rank, &key, &object.birth, NIGH_OK); break;
    case SAY_ANNOUNCING: directory_announcing(home, rank, UINT64_MAX); break;
    case SAY_ANNOUNCED: directory_announced(home, rank, UINT64_MAX); break;
    default: claim(false, "no such message"); break;
    }
}

static void member_takes(uint32_t rank)
{
    struct member *member = &now.members[rank];
    struct message message = pop(&member->from_home);

    switch ((enum message_kind)message.kind) {
    case TELL_FOUND:
        member->knows = message.birth;
        member->waits = 0;
        break;
    case TELL_DROP:
        member->birth = member->birth == message.birth ? NONE : member->birth;
        say(rank, SAY_DROPPED, message.birth);
        break;
    case TELL_REFUSED: member->birth = member->birth == message.birth ? NONE : member->birth; break;
    case TELL_GRANTED: member->granted |= member->claim == message.birth; break;
    case TELL_TAKEN:
        member->granted = member->granted && member->claim != message.birth;
        member->claim = member->claim == message.birth ? NONE : member->claim;
        break;
    case TELL_NOT_YET:
        if (member->claim == message.birth && !member->granted) {
            say_news(rank, SAY_CLAIM, message.birth);
        }
        break;
    default: claim(false, "no such message"); break;
    }
}

/* ---- what happens --------------------------------------------------------- */

static void announce_own(uint32_t rank)
{
    struct member *member = &now.members[rank];

    if (member->birth != NONE) {
        say(rank, member->is_copy ? SAY_COPY : SAY_ANNOUNCE, member->birth);
    }
    if (member->claim != NONE) {
        say(rank, member->granted ? SAY_HELD : SAY_CLAIM, member->claim);
    }
}

static void hold(uint32_t rank, uint8_t birth, bool is_copy)
{
    now.members[rank].birth = birth;
    now.members[rank].is_copy = is_copy;
    now.members[rank].waits = 0;
    say_news(rank, is_copy ? SAY_COPY : SAY_ANNOUNCE, birth);
}

static void connect_link(uint32_t rank)
{
    struct member *member = &now.members[rank];

    member->link_up = 1;
    member->over = 0;
    directory_member_up(home, rank, UINT64_MAX);
    announce_own(rank);
    say(rank, SAY_ANNOUNCED, NONE);
    if (member->waits) {
        say(rank, SAY_WAIT, NONE);
    }
}

static void break_link(uint32_t rank)
{
    struct member *member = &now.members[rank];

    member->link_up = 0;
    member->full = member->lost = 0;
    member->telling = TELLING_NOTHING;
    memset(&member->to_home, 0, sizeof(member->to_home));
    memset(&member->from_home, 0, sizeof(member->from_home));
}

static bool spend(uint8_t *left)
{
    if (*left == 0) {
        return false;
    }
    --*left;
    return true;
}

static bool somebody_else_holds(uint32_t rank, uint8_t birth)
{
    bool held = false;

    for (uint32_t n = 0; n < MEMBERS; n++) {
        held = held || (n != rank && birth != NONE && now.members[n].birth == birth);
    }
    return held;
}

enum action {
    HOME_TAKES,
    MEMBER_TAKES,
    SEAL,
    PULL,
    PULLED,
    EVICT,
    DELETE,
    WAIT,
    CLAIM,
    SEAL_CLAIMED,
    GIVE_UP,
    BREAK,
    CONNECT,
    DIE,
    FILL,
    TELL_AGAIN,
    ACTIONS
};

static const char *const names[ACTIONS] = {"home takes from",
                                           "takes",
                                           "seals",
                                           "pulls",
                                           "has pulled",
                                           "evicts",
                                           "deletes",
                                           "waits",
                                           "claims",
                                           "seals what it claimed",
                                           "gives its claim up",
                                           "loses its link",
                                           "connects",
                                           "dies",
                                           "has a full queue",
                                           "tells on"};

/* What is announced in one call waits for the answer to the last. */
static bool is_announcing(const struct member *member)
{
    bool is = false;

    for (uint32_t n = 0; n < member->to_home.count; n++) {
        uint8_t kind = member->to_home.messages[n].kind;

        is =
            is || kind == SAY_ANNOUNCE || kind == SAY_COPY || kind == SAY_CLAIM || kind == SAY_HELD;
    }
    for (uint32_t n = 0; n < member->from_home.count; n++) {
        is = is || member->from_home.messages[n].kind >= TELL_REFUSED;
    }
    return is;
}

/* A step of telling everything again; news may come in between. */
static bool tell_on(uint32_t rank)
{
    struct member *member = &now.members[rank];

    switch ((enum telling)member->telling) {
    case TELLING_NOTHING:
        if (!member->lost) {
            return false;
        }
        member->lost = 0;
        member->telling = TELLING_BEGUN;
        say(rank, SAY_ANNOUNCING, NONE);
        break;
    case TELLING_BEGUN:
        if (is_announcing(member)) {
            return false;
        }
        member->telling = TELLING_TOLD;
        announce_own(rank);
        break;
    case TELLING_TOLD:
        member->telling = TELLING_NOTHING;
        say(rank, SAY_ANNOUNCED, NONE);
        break;
    }
    return true;
}

static bool end_claim(uint32_t rank, bool seal)
{
    struct member *member = &now.members[rank];
    uint8_t birth = member->claim;

    if (birth == NONE || (seal && !member->granted)) {
        return false;
    }
    member->claim = NONE;
    member->granted = 0;
    if (seal) {
        hold(rank, birth, false);
    } else {
        say_news(rank, SAY_FORGET, birth);
    }
    return true;
}

/* Carries it out; false: it cannot happen now. */
static bool act(enum action action, uint32_t rank)
{
    struct member *member = &now.members[rank];
    uint8_t birth = member->birth;

    switch (action) {
    case HOME_TAKES:
        if (member->to_home.count == 0) {
            return false;
        }
        home_takes(rank);
        return true;
    case MEMBER_TAKES:
        if (member->from_home.count == 0) {
            return false;
        }
        member_takes(rank);
        return true;
    case SEAL:
        if (birth != NONE || member->claim != NONE || member->over || now.sealed == BIRTHS ||
            !spend(&now.left.seals)) {
            return false;
        }
        hold(rank, ++now.sealed, false);
        return true;
    case PULL:
        if (birth != NONE || member->pulling != NONE || !somebody_else_holds(rank, member->knows) ||
            !spend(&now.left.pulls)) {
            return false;
        }
        member->pulling = member->knows;
        member->knows = NONE;
        return true;
    case PULLED: /* whether or not its holder has it still */
        if (member->pulling == NONE) {
            return false;
        }
        if (birth == NONE && member->claim == NONE) {
            hold(rank, member->pulling, true);
        }
        member->pulling = NONE;
        return true;
    case EVICT:
        if (birth == NONE || !spend(&now.left.evictions)) {
            return false;
        }
        member->birth = NONE;
        say_news(rank, SAY_FORGET, birth);
        return true;
    case DELETE:
        if (!member->link_up || !spend(&now.left.deletes)) {
            return false;
        }
        member->birth = NONE; /* its own goes first */
        say(rank, SAY_DELETE, NONE);
        return true;
    case WAIT:
        if (birth != NONE || member->waits || !member->link_up || !spend(&now.left.waits)) {
            return false;
        }
        member->waits = 1;
        say(rank, SAY_WAIT, NONE);
        return true;
    case CLAIM:
        if (birth != NONE || member->claim != NONE || member->over || now.sealed == BIRTHS ||
            !spend(&now.left.claims)) {
            return false;
        }
        member->claim = ++now.sealed;
        say_news(rank, SAY_CLAIM, member->claim);
        return true;
    case SEAL_CLAIMED:
    case GIVE_UP: return end_claim(rank, action == SEAL_CLAIMED);
    case BREAK:
        if (!member->link_up || !spend(&now.left.breaks)) {
            return false;
        }
        break_link(rank);
        return true;
    case CONNECT:
        if (member->link_up) {
            return false;
        }
        connect_link(rank);
        return true;
    case DIE:
        if (member->over || !spend(&now.left.deaths)) {
            return false;
        }
        break_link(rank);
        memset(member, 0, sizeof(*member));
        member->over = 1;
        directory_member_dead(home, rank);
        return true;
    case FILL:
        if (!member->link_up || member->full || !spend(&now.left.losses)) {
            return false;
        }
        member->full = 1;
        return true;
    case TELL_AGAIN: return tell_on(rank);
    case ACTIONS: break;
    }
    return false;
}

/* ---- what is claimed ------------------------------------------------------ */

static void check_always(void)
{
    uint8_t known = known_birth();
    struct entry *entry = directory_find(home, &key, NULL);
    uint32_t granted = 0;

    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        granted += now.members[rank].granted;
    }
    claim(granted <= 1, "two have the key to themselves");
    claim(directory_is_valid(home), "the directory is not valid");
    claim(known == NONE || (now.births & 1u << known) == 0, "a deleted birth is known again");
    for (uint32_t rank = 0; entry != NULL && rank < MEMBERS; rank++) {
        claim(!set_has(home, entry, SET_WAITERS, rank) ||
                  (entry->sets[0] & ~(UINT64_C(1) << rank)) == 0,
              "one waits, and was not told");
    }
}

static bool is_quiet(void)
{
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        const struct member *member = &now.members[rank];

        if (!member->link_up || member->to_home.count + member->from_home.count > 0 ||
            member->pulling != NONE || member->lost || member->telling != TELLING_NOTHING) {
            return false;
        }
    }
    return true;
}

static void check_quiet(void)
{
    struct entry *entry = directory_find(home, &key, NULL);
    struct directory_stats stats;

    quiet_states++;
    directory_stats(home, &stats);
    claim(now.pending == 0, "a delete does not end");
    claim(stats.tombstones == 0, "a tombstone is left");
    claim(directory_is_complete(home, UINT64_MAX), "it is not complete");
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        const struct member *member = &now.members[rank];
        bool held = entry != NULL && set_has(home, entry, SET_HOLDERS, rank);

        claim(held == (member->birth != NONE), "it does not know who holds what");
        claim(!held || entry->object.birth.counter == member->birth, "it knows another birth");
        claim(!member->waits || (entry != NULL && set_has(home, entry, SET_WAITERS, rank)),
              "it forgot who waits");
        claim(member->claim == NONE || member->granted, "a claim has no answer");
        claim((member->claim != NONE) == (entry != NULL && is_claimed_by(entry, rank)),
              "it does not know who claims");
    }
}

static void explore(uint64_t budget)
{
    struct saved *saved = malloc(sizeof(*saved));

    assert_non_null(saved);
    deepest = depth > deepest ? depth : deepest;
    save(saved);
    for (uint32_t choice = 0; choice < ACTIONS * MEMBERS && seen_count < budget; choice++) {
        enum action action = (enum action)(choice / MEMBERS);
        uint32_t rank = choice % MEMBERS;

        if (depth == sizeof(trace) / sizeof(trace[0])) {
            break;
        }
        if (act(action, rank)) {
            snprintf(trace[depth], sizeof(trace[0]), "%s%u %s",
                     action == HOME_TAKES ? "home: from " : "member ", rank, names[action]);
            depth++;
            transitions++;
            if (!now.overflow) {
                check_always();
                if (is_quiet()) {
                    check_quiet();
                }
                if (reach(state_hash())) {
                    explore(budget);
                }
            }
            depth--;
        }
        restore(saved);
    }
    free(saved);
}

/* ---- scenarios ------------------------------------------------------------ */

/* At the start. */
enum start {
    START_EMPTY,   /* no link is up */
    START_READY,   /* all links are up, and all has been announced: nothing */
    START_HOLDING, /* no link is up, and all members hold a birth: the home was started again */
    START_CLAIMED  /* no link is up, and one member has claimed: the same */
};

/* Returns whether all of it was explored within the budget of states. */
static bool scenario(const char *name, const struct budget *left, enum start start, uint64_t states)
{
    struct directory_config config = {
        .nodes = MEMBERS,
        .max_keys = KEYS,
        .shell = {.found = on_found, .drop = on_drop, .deleted = on_deleted}};
    uint64_t from_us = support_now_us();
    bool whole;

    memset(&now, 0, sizeof(now));
    now.left = *left;
    assert_int_equal(directory_create(&config, &home), NIGH_OK);
    seen_mask = round_up_pow2_u64(states * 2) - 1;
    seen = calloc(seen_mask + 1, sizeof(*seen));
    assert_non_null(seen);
    seen_count = transitions = quiet_states = 0;
    depth = deepest = 0;
    for (uint32_t rank = 0; start == START_READY && rank < MEMBERS; rank++) {
        connect_link(rank);
        home_takes(rank);
    }
    now.sealed = start == START_HOLDING;
    for (uint32_t rank = 0; start == START_HOLDING && rank < MEMBERS; rank++) {
        now.members[rank].birth = now.sealed;
        now.members[rank].is_copy = rank > 0;
    }
    if (start == START_CLAIMED) {
        now.members[0].claim = now.sealed = 1;
        now.members[0].granted = 1;
        now.granted = 1u << 1;
    }
    explore(states);
    whole = seen_count < states;
    print_message("# %s: %llu states, %llu steps, %llu quiet, depth %u, %s, %llu ms\n", name,
                  (unsigned long long)seen_count, (unsigned long long)transitions,
                  (unsigned long long)quiet_states, deepest, whole ? "all" : "budget spent",
                  (unsigned long long)((support_now_us() - from_us) / 1000));
    free(seen);
    directory_destroy(home);
    return whole;
}

static void deletes_and_copies(void **state)
{
    (void)state;
    struct budget left = {.seals = 2, .pulls = 1, .deletes = 1, .waits = 1};

    assert_true(scenario("a delete beside a pull", &left, START_READY, 400000));
}

static void deletes_and_breaks(void **state)
{
    (void)state;
    struct budget left = {.seals = 1, .pulls = 1, .deletes = 1, .waits = 1, .breaks = 2};

    assert_true(scenario("a delete, and a link breaks", &left, START_READY, 1000000));
}

static void a_directory_that_is_rebuilt(void **state)
{
    (void)state;
    struct budget left = {.seals = 1, .pulls = 1, .deletes = 1, .breaks = 1};

    assert_true(scenario("a delete while members come", &left, START_EMPTY, 2000000));
}

static void a_home_that_was_started_again(void **state)
{
    (void)state;
    struct budget left = {.seals = 1, .deletes = 1, .waits = 1, .breaks = 1};

    assert_true(scenario("a delete in a new home", &left, START_HOLDING, 2000000));
}

static void news_that_are_lost(void **state)
{
    (void)state;
    struct budget left = {
        .seals = 1, .pulls = 1, .evictions = 1, .deletes = 1, .waits = 1, .losses = 1};

    scenario("news are lost", &left, START_READY, 1500000);
}

static void news_that_are_lost_before_a_link_is(void **state)
{
    (void)state;
    struct budget left = {.seals = 2, .evictions = 1, .deletes = 1, .breaks = 1, .losses = 1};

    scenario("news are lost, and a link breaks", &left, START_READY, 1500000);
}

static void deaths_and_evictions(void **state)
{
    (void)state;
    struct budget left = {
        .seals = 2, .pulls = 1, .evictions = 1, .deletes = 1, .waits = 1, .deaths = 1};

    scenario("a death", &left, START_READY, 1500000);
}

static void claims_beside_each_other(void **state)
{
    (void)state;
    struct budget left = {.claims = 2, .deletes = 1, .breaks = 1};

    assert_true(scenario("two claim", &left, START_READY, 3000000));
}

static void claims_beside_a_seal(void **state)
{
    (void)state;
    struct budget left = {.seals = 1, .claims = 1, .pulls = 1, .deletes = 1, .breaks = 1};

    assert_true(scenario("a claim beside a seal", &left, START_READY, 3000000));
}

static void claims_and_deaths(void **state)
{
    (void)state;
    struct budget left = {.claims = 2, .evictions = 1, .deaths = 1, .losses = 1};

    assert_true(scenario("a claim, and a death", &left, START_READY, 3000000));
}

static void claims_of_a_home_that_was_started_again(void **state)
{
    (void)state;
    struct budget left = {.claims = 1, .breaks = 1, .losses = 1};

    assert_true(scenario("a claim in a new home", &left, START_CLAIMED, 3000000));
}

static void all_of_it(void **state)
{
    (void)state;
    struct budget left = {.seals = 2,
                          .pulls = 2,
                          .evictions = 1,
                          .deletes = 2,
                          .waits = 2,
                          .breaks = 2,
                          .deaths = 1,
                          .losses = 2,
                          .claims = 2};

    scenario("all of it", &left, START_READY, 400000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deletes_and_copies),
        cmocka_unit_test(deletes_and_breaks),
        cmocka_unit_test(a_directory_that_is_rebuilt),
        cmocka_unit_test(a_home_that_was_started_again),
        cmocka_unit_test(news_that_are_lost),
        cmocka_unit_test(news_that_are_lost_before_a_link_is),
        cmocka_unit_test(deaths_and_evictions),
        cmocka_unit_test(claims_beside_each_other),
        cmocka_unit_test(claims_beside_a_seal),
        cmocka_unit_test(claims_and_deaths),
        cmocka_unit_test(claims_of_a_home_that_was_started_again),
        cmocka_unit_test(all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
