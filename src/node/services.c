/* SPDX-License-Identifier: Apache-2.0 */
/* See node/services.h. */
#include "node/services.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct services {
    uint32_t lanes;
    void (*kick)(void *context, uint32_t lane);
    void *context;
    _Atomic uint64_t version; /* written locked */
    pthread_mutex_t lock;
    pthread_cond_t taken;
    const struct session_service *all[LIMIT_SERVICES];
    uint32_t count;
    struct {
        uint64_t hash;
        uint32_t slot;
    } claims[LIMIT_SERVICES];
    uint32_t claim_count;
    _Atomic uint64_t seen[LIMIT_LANES]; /* each by its lane */
    uint64_t read[LIMIT_LANES];         /* likewise */
};

nigh_status services_create(uint32_t lanes, void (*kick)(void *context, uint32_t lane),
                            void *context, struct services **out)
{
    struct services *services = calloc(1, sizeof(*services));

    if (services == NULL)
        return NIGH_NO_RESOURCES;
    services->lanes = lanes;
    services->kick = kick;
    services->context = context;
    (void)pthread_mutex_init(&services->lock, NULL);
    (void)pthread_cond_init(&services->taken, NULL);
    *out = services;
    return NIGH_OK;
}

void services_destroy(struct services *services)
{
    if (services == NULL)
        return;
    (void)pthread_cond_destroy(&services->taken);
    (void)pthread_mutex_destroy(&services->lock);
    free(services);
}

/* Waits until every lane goes by what there is now. Locked. */
static void tell_lanes(struct services *services)
{
    uint64_t version = atomic_load_explicit(&services->version, memory_order_relaxed) + 1;

    atomic_store_explicit(&services->version, version, memory_order_release);
    for (uint32_t lane = 0; lane < services->lanes; lane++)
        services->kick(services->context, lane);
    for (uint32_t lane = 0; lane < services->lanes; lane++) {
        while (atomic_load_explicit(&services->seen[lane], memory_order_acquire) < version)
            (void)pthread_cond_wait(&services->taken, &services->lock);
    }
}

/* Whether one more name may be taken. Locked. */
static nigh_status may_take(const struct services *services, uint64_t hash)
{
    for (uint32_t n = 0; n < services->count; n++) {
        if (services->all[n]->hash == hash)
            return NIGH_EXISTS;
    }
    for (uint32_t n = 0; n < services->claim_count; n++) {
        if (services->claims[n].hash == hash)
            return NIGH_EXISTS;
    }
    return services->count + services->claim_count == LIMIT_SERVICES ? NIGH_LIMIT : NIGH_OK;
}

nigh_status services_claim(struct services *services, uint64_t hash, uint32_t slot)
{
    uint32_t mine = 0;
    nigh_status status;

    (void)pthread_mutex_lock(&services->lock);
    status = may_take(services, hash);
    for (uint32_t n = 0; n < services->claim_count; n++)
        mine += services->claims[n].slot == slot;
    if (status == NIGH_OK && mine == LIMIT_SESSION_SERVICES)
        status = NIGH_LIMIT;
    if (status == NIGH_OK) {
        services->claims[services->claim_count].hash = hash;
        services->claims[services->claim_count++].slot = slot;
    }
    (void)pthread_mutex_unlock(&services->lock);
    return status;
}

void services_disclaim(struct services *services, uint64_t hash)
{
    (void)pthread_mutex_lock(&services->lock);
    for (uint32_t n = 0; n < services->claim_count; n++) {
        if (services->claims[n].hash == hash) {
            services->claims[n] = services->claims[--services->claim_count];
            break;
        }
    }
    (void)pthread_mutex_unlock(&services->lock);
}

bool services_find(struct services *services, uint64_t hash, uint32_t *slot)
{
    bool found = false;

    (void)pthread_mutex_lock(&services->lock);
    for (uint32_t n = 0; n < services->claim_count && !found; n++) {
        found = services->claims[n].hash == hash;
        *slot = services->claims[n].slot;
    }
    (void)pthread_mutex_unlock(&services->lock);
    return found;
}

uint32_t services_count(struct services *services)
{
    uint32_t count;

    (void)pthread_mutex_lock(&services->lock);
    count = services->count + services->claim_count;
    (void)pthread_mutex_unlock(&services->lock);
    return count;
}

nigh_status services_add(struct services *services, const struct session_service *service)
{
    nigh_status status;

    (void)pthread_mutex_lock(&services->lock);
    status = may_take(services, service->hash);
    if (status == NIGH_OK) {
        services->all[services->count++] = service;
        tell_lanes(services);
    }
    (void)pthread_mutex_unlock(&services->lock);
    return status;
}

void services_remove(struct services *services, const struct session_service *service)
{
    (void)pthread_mutex_lock(&services->lock);
    for (uint32_t n = 0; n < services->count; n++) {
        if (services->all[n] == service) {
            services->all[n] = services->all[--services->count];
            tell_lanes(services);
            break;
        }
    }
    (void)pthread_mutex_unlock(&services->lock);
}

bool services_have_news(const struct services *services, uint32_t lane)
{
    return atomic_load_explicit(&services->version, memory_order_acquire) !=
           atomic_load_explicit(&services->seen[lane], memory_order_relaxed);
}

uint32_t services_read(struct services *services, uint32_t lane, struct calls_service *out)
{
    uint32_t count;

    (void)pthread_mutex_lock(&services->lock);
    services->read[lane] = atomic_load_explicit(&services->version, memory_order_relaxed);
    count = services->count;
    for (uint32_t n = 0; n < count; n++) {
        out[n].hash = services->all[n]->hash;
        out[n].tag = (void *)(uintptr_t)services->all[n];
    }
    (void)pthread_mutex_unlock(&services->lock);
    return count;
}

void services_taken(struct services *services, uint32_t lane)
{
    (void)pthread_mutex_lock(&services->lock);
    atomic_store_explicit(&services->seen[lane], services->read[lane], memory_order_release);
    (void)pthread_cond_broadcast(&services->taken);
    (void)pthread_mutex_unlock(&services->lock);
}
