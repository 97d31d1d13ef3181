/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric in simulation: many nodes in one process, a virtual clock, one seed.
 *
 * The seed decides how long everything takes, what overtakes what (within the contract: posts of
 * one endpoint start in order, but READs and atomics act and finish late, and their data is taken
 * from the target, and lands, in pieces at moments of the seed's choosing), which connections
 * break, and when. The same seed and the same calls give the same run, byte for byte; sim_digest
 * shows it.
 *
 * Single-threaded. Nodes are numbers; each has fabrics (one a lane) that listen under the address
 * "node:lane" (e.g. "3:0").
 */
#ifndef FABRIC_SIM_SIM_H
#define FABRIC_SIM_SIM_H

#include "fabric/fabric.h"

struct sim;

#define SIM_NODES 4096 /* node numbers are below this */

/* After so long without a word from its peer an end fails (NIGH_TIMEOUT). */
#define SIM_KEEPALIVE_US 3000000u

/* Times in microseconds, chances in parts of a million. Zero-fill and set; zero means none. */
struct sim_options {
    uint64_t seed;
    uint32_t latency_min_us; /* one way; 0: 1 */
    uint32_t latency_max_us; /* 0: 20 */
    uint32_t bytes_a_us;     /* of an endpoint, each way; 0: 1000 (1 GB/s) */
    uint32_t late_read_ppm;  /* READs and atomics that finish much later than their turn */
    uint32_t late_read_us;   /* up to how much later; 0: 5000 */
    uint32_t break_ppm;      /* endpoints that break, a message */
    uint32_t stall_ppm;      /* messages that hold their endpoint up */
    uint32_t stall_us;       /* for up to so long; 0: 10000 */
    uint32_t refuse_ppm;     /* connects that fail */
    /* After fabric_endpoint_destroy nothing lands (rule c of the loans). 1: a READ whose endpoint
     * was only disconnected may still land later. Always so: this knob makes it likely. */
    uint32_t late_landing_ppm;
    /* 1: words are not whole, as over devices whose WRITEs tear them: fabrics are not
     * FABRIC_CAN_WORDS, and what a READ or WRITE moves is cut at any byte. */
    uint32_t torn_words;
};

nigh_status sim_create(const struct sim_options *options, struct sim **sim);
void sim_destroy(struct sim *sim);

/* A fabric of a node's lane. It is destroyed by fabric_destroy, before the sim. NIGH_LIMIT: no such
 * number; NIGH_EXISTS: the lane has one; NIGH_NO_RESOURCES. */
nigh_status sim_fabric(struct sim *sim, uint32_t node, uint32_t lane, struct fabric **fabric);

uint64_t sim_now_us(const struct sim *sim);

/* The time of the next thing that will happen by itself; UINT64_MAX: nothing will. */
uint64_t sim_next_us(const struct sim *sim);

/* Moves the clock to `until_us` (not back), and carries out everything due by then. What nodes see
 * of it they see in their next fabric_poll. */
void sim_advance(struct sim *sim, uint64_t until_us);

/* Chance of the run's own generator: for what a test decides. Uniform below `bound` (not 0). */
uint64_t sim_random(struct sim *sim, uint64_t bound);

/*
 * A node dies: every endpoint of its fabrics fails at its peers after a delay (a connection reset
 * or, at the seed's choice, silence until their keep-alive), its memory is touched no more, its
 * fabrics must be destroyed by the caller. It may come back with new fabrics.
 */
void sim_crash(struct sim *sim, uint32_t node);

/* A paused node's fabrics make no progress and it serves nothing (on offloaded wires its memory
 * would still be read: the seed decides for each pause). */
void sim_pause(struct sim *sim, uint32_t node, bool paused);

/* Cuts what two nodes say to each other (silence; endpoints fail by keep-alive), or heals it. */
void sim_cut(struct sim *sim, uint32_t a, uint32_t b, bool cut);

/* The same one way: what `from` says does not reach `to`, which hears silence; the other way all
 * goes on. READs need both ways. */
void sim_cut_way(struct sim *sim, uint32_t from, uint32_t to, bool cut);

/* A slow link: its rate divided, its latency multiplied by `factor` (1: as before). */
void sim_slow(struct sim *sim, uint32_t a, uint32_t b, uint32_t factor);

/* A node's own link to all others is limited: so many bytes a microsecond leave it, and come to it,
 * whoever they are for or from (0: no limit). What is small goes between the pieces of what is
 * large. */
void sim_limit(struct sim *sim, uint32_t node, uint32_t bytes_a_us);

/* Each message that a node is sent, or that is written there, holds its endpoint up for so long:
 * what it costs to take it, whatever its size. READs do not. */
void sim_message_costs(struct sim *sim, uint32_t node, uint32_t us);

/* What happened so far, in one number: equal for equal runs. */
uint64_t sim_digest(const struct sim *sim);

/* Events carried out so far. */
uint64_t sim_events(const struct sim *sim);

#endif
