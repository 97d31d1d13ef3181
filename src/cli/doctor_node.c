/* SPDX-License-Identifier: Apache-2.0 */
/* See doctor.h: what a node has counted that tells of trouble, and how its members stand. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "cli/doctor.h"

/* With less than this share of it left for puts, the room on disk is called full. */
#define SPILL_FULL_SHARE 8

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
        bool full = stats->spilled_bytes > 0 &&
                    stats->spill_free_bytes < stats->spill_bytes / SPILL_FULL_SHARE;

        bytes_format_size(stats->spilled_bytes, used);
        bytes_format_size(stats->spill_bytes, of);
        bytes_format_size(stats->spill_free_bytes, left);
        doctor_find(doctor, full ? DOCTOR_NOTE : DOCTOR_GOOD, "spill",
                    full ? "nighd --spill-max, or a larger disk; nigh rm what is not needed" : "",
                    "%s of %s on disk, %s left for puts; the rest is kept for reading back", used,
                    of, left);
    }
    if (stats->index_full > 0) {
        doctor_find(doctor, DOCTOR_NOTE, "index", "nighd --max-objects; nigh rm what is not needed",
                    "requests refused because an index was full: %llu; %llu of %llu entries are "
                    "used, objects on disk included",
                    (unsigned long long)stats->index_full, (unsigned long long)stats->index_used,
                    (unsigned long long)stats->index_entries);
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
     "let nobody but the nodes reach the control port (UDP too), and give all the same key",
     "datagrams that were not of this cluster"},
    {offsetof(nigh_node_stats, suspicions_refuted), "slow",
     "give nighd processors of its own (no CPU limit, not swapped out), or a larger --dead-ms",
     "times that other nodes suspected this one to be dead, and were wrong"},
};

void doctor_look_at_counts(const struct doctor *doctor, const nigh_node_stats *stats)
{
    look_at_room(doctor, stats);
    look_at_refusals(doctor, stats);
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

void doctor_look_at_members(const struct doctor *doctor, const nigh_node_info *nodes, size_t count,
                            const nigh_node_stats *stats)
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
