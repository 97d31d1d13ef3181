/* SPDX-License-Identifier: Apache-2.0 */
/* See address.h. What is a number is what getaddrinfo takes for one. */
#include "cluster/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether these bytes may stand in a name or an IPv4 address (or, in brackets, an IPv6 address with
 * its scope). What one dials is one node: no wildcard. */
static bool is_host(const char *from, const char *to, bool bracketed)
{
    for (const char *at = from; at < to; at++) {
        if (!isalnum((unsigned char)*at) && strchr(bracketed ? ":.%-_" : ".-_", *at) == NULL) {
            return false;
        }
    }
    return to > from;
}

bool address_is(const char *text)
{
    const char *colon = strrchr(text, ':');
    unsigned long port;
    char *end;

    if (colon == NULL || colon == text || !isdigit((unsigned char)colon[1])) {
        return false;
    }
    errno = 0;
    port = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || errno != 0 || port == 0 || port > 65535) {
        return false;
    }
    if (text[0] == '[') {
        return colon[-1] == ']' && colon - text > 3 && is_host(text + 1, colon - 1, true);
    }
    /* No colon: an IPv6 address without brackets leaves open what is the port. */
    return is_host(text, colon, false);
}

/* ---- hosts ---------------------------------------------------------------- */

struct number {
    bool is_v4, is_v6;
    struct in_addr v4;
    struct in6_addr v6;
    const char *scope; /* with its '%', in the text; "" */
};

static struct number read_number(const char *host)
{
    struct number number = {.scope = strchr(host, '%')};
    char text[INET6_ADDRSTRLEN];
    size_t length;

    number.is_v4 = inet_aton(host, &number.v4) != 0;
    number.scope = number.scope != NULL ? number.scope : host + strlen(host);
    length = (size_t)(number.scope - host);
    if (number.is_v4 || length >= sizeof(text)) {
        return number;
    }
    memcpy(text, host, length);
    text[length] = '\0';
    number.is_v6 = inet_pton(AF_INET6, text, &number.v6) == 1;
    if (number.is_v6 && IN6_IS_ADDR_V4MAPPED(&number.v6)) {
        memcpy(&number.v4, &number.v6.s6_addr[12], sizeof(number.v4));
        number.is_v4 = true;
    }
    return number;
}

bool address_spell_host(const char *host, char *out, size_t room)
{
    struct number number = read_number(host);
    char text[INET6_ADDRSTRLEN] = "";

    if (number.is_v4) {
        (void)inet_ntop(AF_INET, &number.v4, text, sizeof(text));
        return (size_t)snprintf(out, room, "%s", text) < room;
    }
    if (number.is_v6) {
        (void)inet_ntop(AF_INET6, &number.v6, text, sizeof(text));
        return (size_t)snprintf(out, room, "%s%s", text, number.scope) < room;
    }
    return (size_t)snprintf(out, room, "%s", host) < room;
}

/* ---- addresses ------------------------------------------------------------ */

/* Takes it apart; the host without brackets. */
static bool split(const char *text, char host[ADDRESS_BYTES], unsigned long *port)
{
    const char *colon = strrchr(text, ':');
    bool is_bracketed = text[0] == '[';
    size_t length;

    if (strlen(text) >= ADDRESS_BYTES || !address_is(text)) {
        return false;
    }
    length = (size_t)(colon - text) - (is_bracketed ? 2 : 0);
    memcpy(host, text + (is_bracketed ? 1 : 0), length);
    host[length] = '\0';
    *port = strtoul(colon + 1, NULL, 10);
    return true;
}

bool address_spell(const char *text, char out[ADDRESS_BYTES])
{
    char host[ADDRESS_BYTES], spelled[ADDRESS_BYTES];
    unsigned long port;

    if (!split(text, host, &port) || !address_spell_host(host, spelled, sizeof(spelled))) {
        return false;
    }
    return snprintf(out, ADDRESS_BYTES, strchr(spelled, ':') != NULL ? "[%s]:%lu" : "%s:%lu",
                    spelled, port) < (int)ADDRESS_BYTES;
}

bool address_is_spelled(const char *text)
{
    char spelled[ADDRESS_BYTES];

    return address_spell(text, spelled) && strcmp(spelled, text) == 0;
}

bool address_is_any(const char *text)
{
    char host[ADDRESS_BYTES];
    struct number number;
    unsigned long port;

    if (!split(text, host, &port)) {
        return false;
    }
    number = read_number(host);
    return number.is_v4 ? number.v4.s_addr == htonl(INADDR_ANY)
                        : number.is_v6 && IN6_IS_ADDR_UNSPECIFIED(&number.v6);
}
