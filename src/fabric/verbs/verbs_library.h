/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of libibverbs and librdmacm that the provider makes, as one table: filled from the
 * machine's libraries, or by a test with its own. The calls on the data path (post, poll, notify)
 * are not in it: verbs.h dispatches them through the context.
 */
#ifndef FABRIC_VERBS_VERBS_LIBRARY_H
#define FABRIC_VERBS_VERBS_LIBRARY_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* X(result, name, symbol, arguments) */
#define VERBS_CALLS(X)                                                                          \
    X(struct ibv_device **, get_device_list, ibv_get_device_list, (int *count))                 \
    X(void, free_device_list, ibv_free_device_list, (struct ibv_device * *list))                \
    X(const char *, get_device_name, ibv_get_device_name, (struct ibv_device * device))         \
    X(struct ibv_context *, open_device, ibv_open_device, (struct ibv_device * device))         \
    X(int, close_device, ibv_close_device, (struct ibv_context * context))                      \
    X(int, query_device, ibv_query_device,                                                      \
      (struct ibv_context * context, struct ibv_device_attr * attr))                            \
    X(int, query_port, ibv_query_port,                                                          \
      (struct ibv_context * context, uint8_t port, struct ibv_port_attr * attr))                \
    X(int, query_gid, ibv_query_gid,                                                            \
      (struct ibv_context * context, uint8_t port, int index, union ibv_gid *gid))              \
    X(struct ibv_pd *, alloc_pd, ibv_alloc_pd, (struct ibv_context * context))                  \
    X(int, dealloc_pd, ibv_dealloc_pd, (struct ibv_pd * pd))                                    \
    X(struct ibv_mr *, reg_mr, ibv_reg_mr,                                                      \
      (struct ibv_pd * pd, void *address, size_t bytes, int access))                            \
    X(int, dereg_mr, ibv_dereg_mr, (struct ibv_mr * mr))                                        \
    X(struct ibv_comp_channel *, create_comp_channel, ibv_create_comp_channel,                  \
      (struct ibv_context * context))                                                           \
    X(int, destroy_comp_channel, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel)) \
    X(struct ibv_cq *, create_cq, ibv_create_cq,                                                \
      (struct ibv_context * context, int entries, void *cq_context,                             \
       struct ibv_comp_channel *channel, int vector))                                           \
    X(int, destroy_cq, ibv_destroy_cq, (struct ibv_cq * cq))                                    \
    X(int, get_cq_event, ibv_get_cq_event,                                                      \
      (struct ibv_comp_channel * channel, struct ibv_cq * *cq, void **cq_context))              \
    X(void, ack_cq_events, ibv_ack_cq_events, (struct ibv_cq * cq, unsigned count))             \
    X(struct ibv_qp *, create_qp, ibv_create_qp,                                                \
      (struct ibv_pd * pd, struct ibv_qp_init_attr * attr))                                     \
    X(int, modify_qp, ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr * attr, int mask)) \
    X(int, destroy_qp, ibv_destroy_qp, (struct ibv_qp * qp))                                    \
    X(struct ibv_srq *, create_srq, ibv_create_srq,                                             \
      (struct ibv_pd * pd, struct ibv_srq_init_attr * attr))                                    \
    X(int, modify_srq, ibv_modify_srq,                                                          \
      (struct ibv_srq * srq, struct ibv_srq_attr * attr, int mask))                             \
    X(int, destroy_srq, ibv_destroy_srq, (struct ibv_srq * srq))                                \
    X(int, get_async_event, ibv_get_async_event,                                                \
      (struct ibv_context * context, struct ibv_async_event * event))                           \
    X(void, ack_async_event, ibv_ack_async_event, (struct ibv_async_event * event))             \
    X(struct rdma_event_channel *, create_event_channel, rdma_create_event_channel, (void))     \
    X(void, destroy_event_channel, rdma_destroy_event_channel,                                  \
      (struct rdma_event_channel * channel))                                                    \
    X(int, create_id, rdma_create_id,                                                           \
      (struct rdma_event_channel * channel, struct rdma_cm_id * *id, void *context,             \
       enum rdma_port_space space))                                                             \
    X(int, destroy_id, rdma_destroy_id, (struct rdma_cm_id * id))                               \
    X(int, set_option, rdma_set_option,                                                         \
      (struct rdma_cm_id * id, int level, int option, void *value, size_t bytes))               \
    X(int, bind_addr, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr * address))      \
    X(int, listen, rdma_listen, (struct rdma_cm_id * id, int backlog))                          \
    X(uint16_t, get_src_port, rdma_get_src_port, (struct rdma_cm_id * id))                      \
    X(int, resolve_addr, rdma_resolve_addr,                                                     \
      (struct rdma_cm_id * id, struct sockaddr * source, struct sockaddr * address,             \
       int timeout_ms))                                                                         \
    X(int, resolve_route, rdma_resolve_route, (struct rdma_cm_id * id, int timeout_ms))         \
    X(int, init_qp_attr, rdma_init_qp_attr,                                                     \
      (struct rdma_cm_id * id, struct ibv_qp_attr * attr, int *mask))                           \
    X(int, connect, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param * param))     \
    X(int, establish, rdma_establish, (struct rdma_cm_id * id))                                 \
    X(int, accept, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param * param))       \
    X(int, reject, rdma_reject, (struct rdma_cm_id * id, const void *data, uint8_t bytes))      \
    X(int, disconnect, rdma_disconnect, (struct rdma_cm_id * id))                               \
    X(int, get_cm_event, rdma_get_cm_event,                                                     \
      (struct rdma_event_channel * channel, struct rdma_cm_event * *event))                     \
    X(int, ack_cm_event, rdma_ack_cm_event, (struct rdma_cm_event * event))

#define VERBS_CALL_POINTER(result, name, symbol, arguments) result(*name) arguments;

struct verbs_library {
    VERBS_CALLS(VERBS_CALL_POINTER)
};

/* The machine's libraries, opened once a process and never closed. NULL: `missing` (static) says
 * which library or symbol there is not. Any thread. */
const struct verbs_library *verbs_library_open(const char **missing);

#endif
