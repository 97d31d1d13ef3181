/* SPDX-License-Identifier: Apache-2.0 */
/* Services of an embedded node: their handlers are this process's, and the node calls them. */
#include <stdlib.h>

#include "client/calls.h"

struct nigh_service {
    nigh_client *client;
    struct list_node place; /* in client->services */
    struct session_service session;
    void (*handler)(void *context, const nigh_request *request);
    void *context;
};

static void on_request(void *context, const struct session_request *came)
{
    nigh_service *service = context;
    nigh_request request = {
        .service = service,
        .bytes = came->bytes,
        .size = came->count,
        .rank = came->rank,
        .uid = came->uid,
        .is_one_way = came->id == 0,
        .timeout_us = came->left_us == UINT64_MAX ? NIGH_FOREVER : came->left_us,
        .opaque = {came->id, came->lane},
    };

    service->handler(service->context, &request);
}

nigh_status nigh_service_register(nigh_client *client, const char *name,
                                  const nigh_service_options *options, nigh_service **out)
{
    nigh_status status = client_check(client);
    nigh_service *service;
    uint64_t hash;

    if (status != NIGH_OK) {
        return error_note(client, status);
    }
    if (options == NULL || options->struct_size < sizeof(*options) || options->handler == NULL ||
        out == NULL || calls_hash(name, &hash) != NIGH_OK) {
        return error_set(client, NIGH_INVALID, "nigh_service_register: no name, or no handler");
    }
    if (client->driver == NULL) {
        return error_set(client, NIGH_UNSUPPORTED,
                         "nigh_service_register: only a client of an embedded node can serve");
    }
    service = calloc(1, sizeof(*service));
    if (service == NULL) {
        return error_note(client, NIGH_NO_RESOURCES);
    }
    service->client = client;
    service->handler = options->handler;
    service->context = options->context;
    service->session = (struct session_service){
        .hash = hash, .slot = client->slot, .handler = on_request, .context = service};
    status = (nigh_status)client->driver->serve(client->driver->context, &service->session);
    if (status != NIGH_OK) {
        free(service);
        return status == NIGH_EXISTS
                   ? error_set(client, status, "this node has a service of this name already")
                   : error_note(client, status);
    }
    client_lock(client);
    list_push_back(&client->services, &service->place);
    client_unlock(client);
    *out = service;
    return NIGH_OK;
}

void nigh_service_unregister(nigh_service *service)
{
    nigh_client *client;

    if (service == NULL) {
        return;
    }
    client = service->client;
    if (atomic_load_explicit(&client->guard->word, memory_order_relaxed) == GUARD_CHILD) {
        return; /* it is the parent's */
    }
    client_lock(client);
    list_remove(&service->place);
    client_unlock(client);
    client->driver->unserve(client->driver->context, &service->session);
    free(service);
}

void serve_end(nigh_client *client)
{
    while (!list_empty(&client->services)) {
        nigh_service_unregister(container_of(list_first(&client->services), nigh_service, place));
    }
}

nigh_status nigh_call_reply(const nigh_request *request, nigh_status status, const void *bytes,
                            size_t size)
{
    const struct session_driver *driver;
    nigh_client *client;
    int answered;

    if (request == NULL || request->service == NULL || size > NIGH_CALL_BYTES ||
        (bytes == NULL && size > 0) || status > NIGH_OK || status < NIGH_STATUS_LOWEST ||
        status == NIGH_PENDING) {
        return NIGH_INVALID;
    }
    if (request->is_one_way != 0) {
        return NIGH_NOT_FOUND;
    }
    client = request->service->client;
    driver = client->driver;
    answered = driver->reply(driver->context, (uint32_t)request->opaque[1], request->opaque[0],
                             (int)status, bytes, (uint32_t)size);
    if (answered != SESSION_REPLY_ELSEWHERE) {
        return (nigh_status)answered;
    }
    return calls_reply_later(client, (uint32_t)request->opaque[1], request->opaque[0], status,
                             bytes, (uint32_t)size);
}
