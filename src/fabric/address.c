/* SPDX-License-Identifier: Apache-2.0 */
/* See address.h. */
#include "fabric/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define PORT_DIGITS 5u

bool address_split(const char *text, char host[FABRIC_ADDRESS_BYTES], char port[8])
{
    size_t length = strnlen(text, FABRIC_ADDRESS_BYTES);
    const char *colon = length < FABRIC_ADDRESS_BYTES ? strrchr(text, ':') : NULL;
    size_t host_length, digits;
    bool is_bracketed;
    unsigned number = 0;

    if (colon == NULL || colon == text)
        return false;
    host_length = (size_t)(colon - text);
    is_bracketed = text[0] == '[';
    if (is_bracketed != (text[host_length - 1] == ']') || (is_bracketed && host_length < 3))
        return false;
    if (!is_bracketed && memchr(text, ':', host_length) != NULL)
        return false; /* an IPv6 address needs its brackets */
    digits = strlen(colon + 1);
    if (digits == 0 || digits > PORT_DIGITS || strspn(colon + 1, "0123456789") != digits)
        return false;
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (unsigned)(colon[1 + i] - '0');
    if (number > UINT16_MAX)
        return false;
    memcpy(port, colon + 1, digits + 1);
    memcpy(host, text + is_bracketed, host_length - 2 * (size_t)is_bracketed);
    host[host_length - 2 * (size_t)is_bracketed] = '\0';
    return true;
}

nigh_status address_parse(const char *text, struct address *address)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    char host[FABRIC_ADDRESS_BYTES], port[8];
    struct addrinfo *found = NULL;

    /* The C library takes "*" for no host at all. */
    if (!address_split(text, host, port) || strspn(port, "0") == strlen(port) ||
        strcmp(host, "*") == 0 || getaddrinfo(host, port, &hints, &found) != 0)
        return NIGH_INVALID;
    memset(address, 0, sizeof(*address));
    memcpy(&address->storage, found->ai_addr, found->ai_addrlen);
    address->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return NIGH_OK;
}

void address_format(const struct address *address, char text[FABRIC_ADDRESS_BYTES])
{
    char host[FABRIC_ADDRESS_BYTES - 10], port[8];
    bool is_v6 = address->storage.ss_family == AF_INET6;

    if (getnameinfo((const struct sockaddr *)&address->storage, address->bytes, host, sizeof(host),
                    port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        text[0] = '\0';
        return;
    }
    (void)snprintf(text, FABRIC_ADDRESS_BYTES, is_v6 ? "[%s]:%s" : "%s:%s", host, port);
}

void address_peer(int fd, char text[FABRIC_ADDRESS_BYTES])
{
    struct address address = {.bytes = sizeof(address.storage)};

    text[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&address.storage, &address.bytes) == 0)
        address_format(&address, text);
}

bool address_is_loopback(const struct address *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->storage;

    return address->storage.ss_family == AF_INET
               ? ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
               : IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) != 0;
}
