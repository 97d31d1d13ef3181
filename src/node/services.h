/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services of a node: which names are taken, and, of an embedded one, the handlers, for all of
 * its lanes.
 *
 * Any thread of the process adds and removes one, and returns when every lane has heard of it; so
 * after services_remove no handler of it runs, nor will. A lane looks once a turn whether there is
 * news, with one load, and takes a copy of its own: no lane waits for another.
 */
#ifndef NODE_SERVICES_H
#define NODE_SERVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/session.h"
#include "nigh/status.h"
#include "rpc/calls.h"

struct services;

/* kick: makes a lane turn soon; any thread. NIGH_NO_RESOURCES. */
nigh_status services_create(uint32_t lanes, void (*kick)(void *context, uint32_t lane),
                            void *context, struct services **services);

/* No thread is in it, and no lane runs. NULL is allowed. */
void services_destroy(struct services *services);

/* Any thread but one that drives a lane. `service` stays as it is until services_remove has
 * returned. NIGH_EXISTS: there is one of this hash; NIGH_LIMIT. */
nigh_status services_add(struct services *services, const struct session_service *service);
void services_remove(struct services *services, const struct session_service *service);

/* Takes a name for a service that a session serves through its lane, which alone knows it; by that
 * lane. As services_add, and NIGH_LIMIT for one session's beyond LIMIT_SESSION_SERVICES. */
nigh_status services_claim(struct services *services, uint64_t hash, uint32_t slot);
void services_disclaim(struct services *services, uint64_t hash);

/* The session that serves a name through its lane. False: none does. Any thread. */
bool services_find(struct services *services, uint64_t hash, uint32_t *slot);

/* How many names are taken. Any thread. */
uint32_t services_count(struct services *services);

/* Whether a lane has news to take. By its driver, as the rest. */
bool services_have_news(const struct services *services, uint32_t lane);

/* The services that there are: LIMIT_SERVICES places. Their tags are the session_service. */
uint32_t services_read(struct services *services, uint32_t lane, struct calls_service *out);

/* The lane goes by what it has read. */
void services_taken(struct services *services, uint32_t lane);

#endif
