/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the internet as text: "1.2.3.4:5", "[::1]:5", "[fe80::1%eth0]:5". Numeric only; no
 * resolver.
 */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include <sys/socket.h>

#include "fabric/fabric.h"

struct address {
    struct sockaddr_storage storage;
    socklen_t bytes;
};

/* Splits "host:port", "[host]:port" at the last colon. False: not of that form, or too long. */
bool address_split(const char *text, char host[FABRIC_ADDRESS_BYTES], char port[8]);
/* A numeric address with a port. NIGH_INVALID. */
nigh_status address_parse(const char *text, struct address *address);
void address_format(const struct address *address, char text[FABRIC_ADDRESS_BYTES]);
bool address_is_loopback(const struct address *address);
/* The peer of a socket, for the log. */
void address_peer(int fd, char text[FABRIC_ADDRESS_BYTES]);

#endif
