/* SPDX-License-Identifier: Apache-2.0 */
/* See doctor.h: what a node has counted that tells of trouble, how full it is, and how its members
 * stand. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "cli/doctor.h"

/* With less than this share of it left for puts, the room on disk is called full. */
#define SPILL_FULL_SHARE 8

/* What is called nearly full, as share/prometheus/nigh.rules.yml has it: entries of the indexes,
 * pinned memory, in tenths; memory of its own for regions, for spaces: with less than this share
 * left. */
#define INDEX_FULL_TENTHS  9
#define PINNED_FULL_TENTHS 8
#define MEMORY_FULL_SHARE  16

/* One call of so many that ended badly is worth a look, from so many on. */
#define CALLS_BAD_SHARE 100
#define CALLS_BAD_LEAST 10

/* A life's number is the clock's eighth of a second since 2023-11-14, or above the last one. */
#define LIFE_EPOCH_S  UINT64_C(1700000000)
#define LIFE_A_SECOND 8
#define LIFE_SLACK_S  60 /* starts in a row, each of which has one more */

#define DATAGRAMS_US UINT64_C(60000000) /* after so long some of a member should have come */

/* ---- counts --------------------------------------------------------------- */

/* What was refused for want of memory since the node's start, and what keeps memory now. */
static void look_at_refusals(const struct doctor *doctor, const nigh_node_stats *stats)
{
    char pinned[BYTES_SIZE_TEXT], unsealed[BYTES_SIZE_TEXT];

    if (stats->out_of_memory == 0) {
        return;
    }
    bytes_format_size(stats->pinned_bytes, pinned);
    bytes_format_size(stats->unsealed_bytes, unsealed);
    doctor_find(
        doctor, DOCTOR_NOTE, "full",
        "nigh who shows who holds memory, nigh unpin lets go; nighd --memory and --spill give room",
        "requests for memory refused since the node's start: %llu (of puts, creates, or gets of "
        "what is not in memory), since what lay there was held by processes, pinned or unsealed, "
        "or they wanted more than there is, or the room on disk was full; now %s are pinned, %s "
        "unsealed",
        (unsigned long long)stats->out_of_memory, pinned, unsealed);
}

/* How full the room for files is, and the indexes. */
static void look_at_room(const struct doctor *doctor, const nigh_node_stats *stats)
{
    char used[BYTES_SIZE_TEXT], of[BYTES_SIZE_TEXT], left[BYTES_SIZE_TEXT];

    if (stats->spill_bytes > 0) {
        bool full = stats->spill_free_bytes == 0 ||
                    stats->spill_free_bytes < stats->spill_bytes / SPILL_FULL_SHARE;

        bytes_format_size(stats->spilled_bytes, used);
        bytes_format_size(stats->spill_bytes, of);
        bytes_format_size(stats->spill_free_bytes, left);
        doctor_find(doctor, full ? DOCTOR_NOTE : DOCTOR_GOOD, "spill",
                    full ? "make room on the disk of --spill, or nighd --spill-max, or a larger "
                           "disk; nigh rm what is not needed"
                         : "",
                    "%s of %s on disk, %s left for puts; the rest is kept for reading back", used,
                    of, left);
    }
    if (stats->index_full > 0) {
        doctor_find(doctor, DOCTOR_NOTE, "index", "nighd --max-objects; nigh rm what is not needed",
                    "requests refused because an index was full: %llu; %llu of %llu entries are "
                    "used, objects on disk included",
                    (unsigned long long)stats->index_full, (unsigned long long)stats->index_used,
                    (unsigned long long)stats->index_entries);
    } else if (stats->index_used > stats->index_entries / 10 * INDEX_FULL_TENTHS) {
        doctor_find(doctor, DOCTOR_NOTE, "index",
                    "nighd --max-objects, at the next full stop; nigh rm what is not needed",
                    "%llu of %llu entries of the indexes are used, objects on disk included: puts "
                    "are refused where one is full",
                    (unsigned long long)stats->index_used,
                    (unsigned long long)stats->index_entries);
    }
}

/* Whether little is left of what is beside the memory for objects; 0: there is none. */
static bool is_used_up(uint64_t used_bytes, uint64_t limit_bytes)
{
    return limit_bytes > 0 && (used_bytes >= limit_bytes ||
                               limit_bytes - used_bytes < limit_bytes / MEMORY_FULL_SHARE);
}

static void look_at_memories(const struct doctor *doctor, const nigh_node_stats *stats)
{
    char used[BYTES_SIZE_TEXT], of[BYTES_SIZE_TEXT];

    if (stats->pinned_bytes > stats->memory_bytes / 10 * PINNED_FULL_TENTHS) {
        bytes_format_size(stats->pinned_bytes, used);
        bytes_format_size(stats->memory_bytes, of);
        doctor_find(doctor, DOCTOR_NOTE, "pinned",
                    "nigh ls shows what is pinned, nigh unpin lets go; fewer replicas, or a larger "
                    "nighd --memory",
                    "%s of %s are pinned, or kept as replicas, and make no room for puts", used,
                    of);
    }
    if (is_used_up(stats->region_memory_bytes, stats->region_memory_limit_bytes)) {
        bytes_format_size(stats->region_memory_bytes, used);
        bytes_format_size(stats->region_memory_limit_bytes, of);
        doctor_find(doctor, DOCTOR_NOTE, "regions",
                    "nigh region ls and nigh region rm, or a larger nighd --region-memory",
                    "%s of %s for regions are used: others that should lie here are refused", used,
                    of);
    }
    if (is_used_up(stats->space_memory_bytes, stats->space_memory_limit_bytes)) {
        bytes_format_size(stats->space_memory_bytes, used);
        bytes_format_size(stats->space_memory_limit_bytes, of);
        doctor_find(doctor, DOCTOR_NOTE, "spaces",
                    "none where no more are to be made; else nigh space rm, or a larger nighd "
                    "--space-memory at all nodes that serve spaces",
                    "%s of %s for spaces are used: another one is refused", used, of);
    }
}

static bool are_many(uint64_t bad, uint64_t begun)
{
    return bad >= CALLS_BAD_LEAST && bad > begun / CALLS_BAD_SHARE;
}

/* Some calls end badly always; many of them do where services are too slow, or too few. */
static void look_at_calls(const struct doctor *doctor, const nigh_node_stats *stats)
{
    unsigned long long begun = stats->calls_begun;

    if (are_many(stats->calls_busy, begun)) {
        doctor_find(doctor, DOCTOR_NOTE, "calls",
                    "more servers of the name, or fewer calls at once (nigh top shows those under "
                    "way; nigh_service_seconds of nighd --http how long services take)",
                    "calls refused since the node's start, as too many were under way: %llu; %llu "
                    "were begun here",
                    (unsigned long long)stats->calls_busy, begun);
    }
    if (are_many(stats->calls_timed_out, begun)) {
        doctor_find(doctor, DOCTOR_NOTE, "slow calls",
                    "nigh_service_seconds and nigh_call_seconds of nighd --http: if both are as "
                    "long it is the service, else the way to it; or give calls more time",
                    "calls that their deadline ended since the node's start: %llu; %llu were begun "
                    "here",
                    (unsigned long long)stats->calls_timed_out, begun);
    }
}

/* Counts since the node's start of which one is worth a look. */
static const struct {
    size_t offset;
    const char *subject, *remedy, *text;
} troubles[] = {
    {offsetof(nigh_node_stats, spill_failures), "spill files",
     "see to the disk of nighd --spill: full, failing, or ulimit -f; the node's log has the error",
     "writes and reads of spill files that failed"},
    {offsetof(nigh_node_stats, pulls_failed), "pulls",
     "a larger quota of the pool that they are of, or other rights (its section in nighd's "
     "configuration); where checksums is said too, what is said there",
     "objects of other nodes that were not fetched, as the pool's quota or rights here refused "
     "them memory, or no node had right bytes of them"},
    {offsetof(nigh_node_stats, loans_overdue), "loans",
     "nigh nodes, and nigh doctor at who borrowed: it stands still, or is not reached",
     "objects lent to a node that was not heard of any more"},
    {offsetof(nigh_node_stats, checksum_failures), "checksums",
     "have the memory and the network card of both machines tested; the node's log names the "
     "other",
     "objects that came from other nodes with wrong bytes, and were asked for anew"},
    {offsetof(nigh_node_stats, expelled), "expelled",
     "the node's log says which process, and why: 'session expelled'; one that pins too much "
     "should release what it has read",
     "clients that were expelled"},
    {offsetof(nigh_node_stats, announcements_refused), "homes",
     "nighd --max-objects at the other nodes: each keeps places for 1/N of all names",
     "objects for which their home had no room: other nodes do not find these"},
    {offsetof(nigh_node_stats, claims_refused), "claims",
     "nighd --version at all nodes: the same; else somebody who has the cluster key misuses it",
     "claims of other nodes that were not theirs to make"},
    {offsetof(nigh_node_stats, shares_refused), "shares",
     "fewer requests at once from one node; nigh top there shows who asks",
     "requests of other nodes beyond their share"},
    {offsetof(nigh_node_stats, call_memory_refused), "call memory",
     "nighd --call-memory, or a larger limit of the control group",
     "times that memory for calls was refused, or not to be had"},
    {offsetof(nigh_node_stats, datagrams_refused), "strangers",
     "let nobody but the nodes reach the control port (UDP too), and give all the same key, and "
     "the same --join, in the same order, each its own --member",
     "datagrams that were not of this cluster"},
    {offsetof(nigh_node_stats, suspicions_refuted), "slow",
     "give nighd processors of its own (no CPU limit, not swapped out), or a larger --dead-ms",
     "times that other nodes suspected this one to be dead, and were wrong"},
};

void doctor_look_at_counts(const struct doctor *doctor, const nigh_node_stats *stats)
{
    look_at_room(doctor, stats);
    look_at_refusals(doctor, stats);
    look_at_memories(doctor, stats);
    look_at_calls(doctor, stats);
    for (size_t i = 0; i < ARRAY_LENGTH(troubles); i++) {
        uint64_t count;

        memcpy(&count, (const char *)stats + troubles[i].offset, sizeof count);
        if (count > 0) {
            doctor_find(doctor, DOCTOR_NOTE, troubles[i].subject, troubles[i].remedy,
                        "%s since the node's start: %llu", troubles[i].text,
                        (unsigned long long)count);
        }
    }
    if (stats->replicas_missing > 0) {
        doctor_find(doctor, DOCTOR_NOTE, "replicas",
                    "start the nodes that are not up, or others: each replica needs a node of its "
                    "own with room for it",
                    "%llu of %llu replicas that were asked for are on no node",
                    (unsigned long long)stats->replicas_missing,
                    (unsigned long long)stats->replicas_wanted);
    }
    if (stats->space_blocks_lost > 0) {
        doctor_find(doctor, DOCTOR_NOTE, "blocks",
                    "write them anew: reads of them fail until then; a durable space (nighd "
                    "--log-dir) would have had them in its log",
                    "%llu blocks of spaces, of homes here, are lost",
                    (unsigned long long)stats->space_blocks_lost);
    }
    if (stats->view_seats > 0 && stats->view_seats_free == 0) {
        doctor_find(doctor, DOCTOR_NOTE, "ranks",
                    "a new cluster with nighd --ranks 256: ranks are not given again",
                    "no rank is left for another node that would join: %llu were given",
                    (unsigned long long)stats->view_seats);
    }
}

/* ---- members -------------------------------------------------------------- */

const char *doctor_refusal_remedy(nigh_status refused)
{
    switch (refused) {
    case NIGH_DENIED:
        return "copy the file of nighd --cluster-key from one machine to all, and start anew those "
               "that had another";
    case NIGH_INVALID:
        return "start all nodes with the same --join, in the same order, each with its own "
               "--member, and all with --state or none";
    case NIGH_VERSION:
        return "install the same release of nighd on all machines (nighd --version), and start "
               "anew those that were of another";
    case NIGH_UNSUPPORTED:
        return "start all nodes with the same --fabric; with auto, each machine with RDMA or none "
               "(nigh doctor there)";
    case NIGH_NOT_FOUND: return "start all nodes with the same --directory, word for word";
    case NIGH_EXISTS:
        return "stop one of the two processes of that rank: each needs a --member of its own";
    default:
        return "start all nodes with the same key, list, --fabric and version, each with its own "
               "--member; nigh nodes shows which";
    }
}

/* Counts those of which something is so, and names the first. */
struct some {
    size_t count;
    const nigh_node_info *first;
};

static void add(struct some *some, bool is_so, const nigh_node_info *node)
{
    if (is_so) {
        some->first = some->count == 0 ? node : some->first;
        some->count++;
    }
}

static void find_some(const struct doctor *doctor, const struct some *some, const char *subject,
                      const char *remedy, const char *text)
{
    if (some->count > 0) {
        char address[4 * sizeof some->first->address];

        bytes_printable(some->first->address, strlen(some->first->address), address,
                        sizeof address);
        doctor_find(doctor, DOCTOR_NOTE, subject, remedy, "node %u (%s)%s %s", some->first->rank,
                    address, some->count > 1 ? ", and others," : "", text);
    }
}

/* Who has more lanes than this node: a peer has as many links as the one of the two that has more
 * lanes. One that has fewer finds out itself. */
void doctor_look_at_links(const struct doctor *doctor, const nigh_link_info *links, size_t count,
                          const nigh_node_stats *stats)
{
    const nigh_link_info *most = NULL;

    for (size_t i = 0; i < count; i++) {
        most = most == NULL || links[i].rail > most->rail ? &links[i] : most;
    }
    if (most != NULL && stats->lanes > 0 && most->rail >= stats->lanes) {
        doctor_find(doctor, DOCTOR_NOTE, "lanes",
                    "the same nighd --lanes at all nodes: links are as many as the node with most "
                    "lanes has, and each of them costs memory",
                    "this node has %llu lanes, node %u has more", (unsigned long long)stats->lanes,
                    most->rank);
    }
}

/* The number of the node's life tells when it began, or a life before, by the clock of then. */
void doctor_look_at_life(const struct doctor *doctor, uint32_t incarnation, uint64_t now_s)
{
    uint64_t began_s = LIFE_EPOCH_S + incarnation / LIFE_A_SECOND;

    if (began_s > now_s + LIFE_SLACK_S) {
        doctor_find(doctor, DOCTOR_NOTE, "clock",
                    "set the clock before nighd starts (systemd-timesyncd, chrony); with nighd "
                    "--state, --spill or a keeper (--hold, systemd) the next start is let in at "
                    "once all the same",
                    "the clock is %llu s behind the start of this node, or of one before it: it "
                    "went back, and a start that remembers no number is let in after --dead-ms",
                    (unsigned long long)(began_s - now_s));
    }
}

/* Without views, and without a server in their place, most of what nodes do together is missing. */
static void look_at_agreement(const struct doctor *doctor, size_t count,
                              const nigh_node_stats *stats, bool has_state)
{
    if (count > 1 && stats->view_epoch == 0 && stats->directory_servers == 0 && has_state) {
        doctor_find(doctor, DOCTOR_NOTE, "agreement",
                    "wait some seconds, where nodes were just started; else start those that vote, "
                    "the first ones of the list, and see whether they are reached from here",
                    "the nodes have not agreed yet: until then there are no regions and no spaces");
    } else if (count > 1 && stats->view_epoch == 0 && stats->directory_servers == 0) {
        doctor_find(doctor, DOCTOR_NOTE, "agreement",
                    "nighd --state DIR at all nodes, after all were stopped; where they have it, "
                    "wait some seconds, or start those that vote, the first ones of the list",
                    "the nodes agree on nothing: there are no regions and no spaces, and what a "
                    "dead node knew of where objects are is not found");
    } else if (count > 1 && stats->view_epoch > 0 && stats->space_memory_limit_bytes == 0) {
        doctor_find(doctor, DOCTOR_GOOD, "spaces", "",
                    "the node serves none (nighd --space-memory, where others do)");
    }
}

void doctor_look_at_members(const struct doctor *doctor, const nigh_node_info *nodes, size_t count,
                            const nigh_node_stats *stats, bool has_state)
{
    struct some outside = {0}, suspected = {0}, leaving = {0}, nameless = {0};
    size_t up = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_up = nodes[i].state == NIGH_NODE_IS_UP;

        up += is_up ? 1 : 0;
        add(&outside, is_up && nodes[i].view == NIGH_NODE_OUT_OF_VIEW, &nodes[i]);
        add(&suspected,
            is_up &&
                (nodes[i].life == NIGH_NODE_SUSPECTED || nodes[i].life == NIGH_NODE_FOUND_DEAD),
            &nodes[i]);
        add(&leaving, is_up && nodes[i].leaving != 0, &nodes[i]);
        add(&nameless, nodes[i].name_refused != NIGH_OK, &nodes[i]);
    }
    look_at_agreement(doctor, count, stats, has_state);
    find_some(doctor, &outside, "view",
              "if that stays for more than some seconds: nigh doctor there, and let it reach the "
              "nodes that vote (nigh nodes shows them)",
              "is up here, and out of the view that the nodes have agreed on");
    find_some(doctor, &suspected, "disagree",
              "nigh nodes at each: let all reach all, by TCP and by UDP at the control port, and "
              "see whether that machine stands still",
              "is up here, and other nodes hear nothing of it");
    find_some(doctor, &leaving, "leaving", "nigh leave --undo there, or stop it when it is done",
              "leaves: it takes no puts");
    find_some(doctor, &nameless, "name", "start it with a --name that no other node has",
              "has no name: another has the one it wants");
    if (up > 1 && stats->nodes_reached == 0 && stats->uptime_us > DATAGRAMS_US) {
        doctor_find(doctor, DOCTOR_NOTE, "datagrams",
                    "let UDP through between the nodes, at the number of the control port",
                    "no other node has answered a datagram: connections alone tell who is dead");
    }
}
