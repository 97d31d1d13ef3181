/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of nodes and servers as text, and the one spelling of each that is compared and kept:
 * of numbers the usual one, 127.0.0.1 for 127.1 and 0x7f000001, [::1] for [0:0::1], 127.0.0.1 for
 * [::ffff:127.0.0.1], port 80 for 080. A name stays as it is: nothing is looked up.
 *
 * Pure; any thread.
 */
#ifndef CLUSTER_ADDRESS_H
#define CLUSTER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "cluster/agreed.h"

#define ADDRESS_BYTES AGREED_ADDRESS_BYTES

/* "host:port" or "[ipv6]:port", the port a number from 1 to 65535. */
bool address_is(const char *text);

/* Its one spelling. False: it is no address, or longer than there is room for. */
bool address_spell(const char *text, char out[ADDRESS_BYTES]);

/* Whether it is spelled so. */
bool address_is_spelled(const char *text);

/* Whether its host is all addresses of a machine (0.0.0.0, [::]): one listens there, and nobody can
 * be reached. */
bool address_is_any(const char *text);

/* The one spelling of a host alone, without brackets. False: there is no room. */
bool address_spell_host(const char *host, char *out, size_t room);

#endif
