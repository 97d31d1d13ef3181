/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the stand-in share: the device (fake_verbs.c) and rdma_cm (fake_cm.c). */
#ifndef TESTS_FABRIC_FAKE_INTERNAL_H
#define TESTS_FABRIC_FAKE_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "fabric/fake_verbs.h"

#define FAKE_EVENT_KINDS 32
#define FAKE_DEVICES     2

struct fake_faults {
    bool late_reads, is_cut, odd_flush, lose_flush, refuse_memory, refuse_queues, keep_memory,
        no_gid, link_local, late_established, no_options, is_taken, no_srq, no_last_word, glob;
    bool overrun; /* the next completion finds no room */
    bool lost[FAKE_EVENT_KINDS];
    uint32_t lead; /* number of the device that routes lead through, and 1; 0: their own */
    uint32_t reads[FAKE_DEVICES]; /* that it serves of one queue pair; 0: as many as any */
    struct {
        uint32_t after;
        int error; /* 0: none */
    } calls[FAKE_VERBS_CALLS];
    enum ibv_wc_status end_status; /* of the next work request; 0: its own */
    uint32_t refuse_after;
    int refuse_error;
    enum ibv_port_state port;
    enum ibv_mtu mtu;
};

struct fake {
    pthread_mutex_t mutex;
    struct fake_faults faults;
    struct fake_verbs_counts counts;
    struct fake_verbs_given given;
    struct list contexts, memories, queues, completions, ids, srqs;
    uint32_t pds, cqs, channels, cm_channels, cm_events, next_qp, next_key;
    uint16_t next_port;
    struct ibv_device devices[FAKE_DEVICES];
    struct ibv_context cm_contexts[FAKE_DEVICES]; /* that rdma_cm's identifiers show */
    bool is_absent[FAKE_DEVICES];                 /* the device was removed */
};

extern struct fake fake;

void fake_lock(void);
void fake_unlock(void);

/* The errno of a call that is to be refused; 0: it is not. errno is set to it. */
int fake_refusal(enum fake_verbs_call call);

/* The device of one of the stand-in's own addresses; FAKE_DEVICES: it is not there, or not ours. */
uint32_t fake_device_of(const struct sockaddr *address);

/* Whether it is an iWARP device's. */
static inline bool fake_is_iwarp(const struct ibv_context *context)
{
    return context->device->transport_type == IBV_TRANSPORT_IWARP;
}

/* An iWARP kernel brings a queue pair up by itself. */
void fake_queue_join(uint32_t qp_number, uint32_t peer_qp);

/* A queue pair has had a message, which is as good as ESTABLISHED. */
void fake_cm_heard(uint32_t qp_number);

/* Identifiers that are on a device. */
uint32_t fake_cm_held(uint32_t device);

/* Whether a queue pair is of the side that dialled. */
bool fake_cm_dialled(uint32_t qp_number);

/* The calls of rdma_cm, for the table. */
extern const struct verbs_library fake_cm_calls;

#endif
