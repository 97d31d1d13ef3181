/* SPDX-License-Identifier: Apache-2.0 */
/* See redis_words.h. */
#include "cluster/redis_words.h"

#include <ctype.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "cluster/address.h"

#define OWED_BYTES (sizeof(struct directory_key) + sizeof(struct birth))

/* ---- addresses ------------------------------------------------------------ */

static bool take_part(char *out, size_t room, const char *from, size_t count)
{
    if (count >= room) {
        return false;
    }
    memcpy(out, from, count);
    out[count] = '\0';
    return true;
}

/* [[user]:password@]: what is before the last @ of the authority. NULL: it is too long, or has a
 * blank or a control character, where whoever reads the address in a text takes it for ended. */
static const char *take_user(const char *text, size_t count, struct redis_address *address)
{
    const char *at = memrchr(text, '@', count);
    const char *colon;
    size_t user;

    if (at == NULL) {
        return text;
    }
    for (const char *c = text; c < at; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            return NULL;
        }
    }
    colon = memchr(text, ':', (size_t)(at - text));
    user = colon == NULL ? (size_t)(at - text) : (size_t)(colon - text);
    if (!take_part(address->user, sizeof(address->user), text, user)) {
        return NULL;
    }
    if (colon != NULL && !take_part(address->password, sizeof(address->password), colon + 1,
                                    (size_t)(at - colon) - 1)) {
        return NULL;
    }
    return at + 1;
}

static bool take_number(const char *text, size_t count, uint32_t most, uint32_t *number)
{
    uint32_t value = 0;

    if (count == 0 || count > 5) {
        return false;
    }
    for (size_t n = 0; n < count; n++) {
        if (text[n] < '0' || text[n] > '9') {
            return false;
        }
        value = 10 * value + (uint32_t)(text[n] - '0');
    }
    *number = value;
    return value <= most;
}

/* host, host:port, [address]:port. */
static bool take_host(const char *text, size_t count, struct redis_address *address)
{
    const char *end = text + count;
    const char *colon = memrchr(text, ':', count);
    uint32_t port = 6379;

    if (count > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', count);

        if (close == NULL || (close + 1 != end && close[1] != ':')) {
            return false;
        }
        colon = close + 1 != end ? close + 1 : NULL;
        text++;
        count = (size_t)(close - text);
    } else {
        count = colon != NULL ? (size_t)(colon - text) : count;
    }
    if (colon != NULL && !take_number(colon + 1, (size_t)(end - colon) - 1, UINT16_MAX, &port)) {
        return false;
    }
    address->port = (uint16_t)port;
    return count > 0 && port != 0 && take_part(address->host, sizeof(address->host), text, count);
}

static bool parse_tcp(const char *text, struct redis_address *address)
{
    const char *slash = strrchr(text, '/');
    const char *end = slash != NULL ? slash : text + strlen(text);
    const char *host = take_user(text, (size_t)(end - text), address);

    if (slash != NULL && slash[1] != '\0' &&
        !take_number(slash + 1, strlen(slash + 1), 99999, &address->database)) {
        return false;
    }
    return host != NULL && take_host(host, (size_t)(end - host), address);
}

bool redis_address_parse(const char *text, struct redis_address *address)
{
    memset(address, 0, sizeof(*address));
    if (strncmp(text, "redis://", 8) == 0) {
        return parse_tcp(text + 8, address);
    }
    if (strncmp(text, "unix://", 7) == 0) {
        const char *path = take_user(text + 7, strlen(text + 7), address);

        return path != NULL && path[0] == '/' && path[1] != '\0' &&
               take_part(address->host, sizeof(address->host), path, strlen(path));
    }
    return false;
}

void redis_address_show(const struct redis_address *address, char *text, size_t bytes)
{
    bool is_bare = strchr(address->host, ':') == NULL;

    if (address->host[0] == '/') {
        (void)snprintf(text, bytes, "unix://%s", address->host);
    } else {
        (void)snprintf(text, bytes, "redis://%s%s%s:%u/%" PRIu32, is_bare ? "" : "[", address->host,
                       is_bare ? "" : "]", address->port, address->database);
    }
}

void redis_name(const uint8_t key[AUTH_KEY_BYTES], char name[REDIS_NAME_BYTES])
{
    static const char label[] = "nigh directory";
    uint8_t digest[16];
    char text[2 * 8 + 1];

    crypto_generichash(digest, sizeof(digest), (const uint8_t *)label, sizeof(label), key,
                       AUTH_KEY_BYTES);
    bytes_hex(digest, 8, text);
    (void)snprintf(name, REDIS_NAME_BYTES, "nigh:%s:", text);
}

uint64_t redis_digest(const struct redis_address *address, const uint8_t key[AUTH_KEY_BYTES])
{
    struct redis_address spelled = {.port = address->port, .database = address->database};
    char text[REDIS_HOST_BYTES + 32];
    uint8_t digest[16];
    uint64_t number;

    if (!address_spell_host(address->host, spelled.host, sizeof(spelled.host))) {
        memcpy(spelled.host, address->host, sizeof(spelled.host));
    }
    for (char *at = spelled.host; spelled.host[0] != '/' && *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    redis_address_show(&spelled, text, sizeof(text));
    crypto_generichash(digest, sizeof(digest), (const uint8_t *)text, strlen(text), key,
                       AUTH_KEY_BYTES);
    memcpy(&number, digest, sizeof(number));
    return number != 0 ? number : 1;
}

/* ---- what is asked -------------------------------------------------------- */

static const char *const op_names[OUTSIDE_OPS] = {
    [OUTSIDE_NOTHING] = "beat",  [OUTSIDE_BEGIN] = "begin",   [OUTSIDE_END] = "end",
    [OUTSIDE_TELL] = "tell",     [OUTSIDE_CLAIM] = "claim",   [OUTSIDE_FORGET] = "forget",
    [OUTSIDE_LOCATE] = "locate", [OUTSIDE_DELETE] = "delete", [OUTSIDE_DROPPED] = "dropped",
    [OUTSIDE_OWED] = "owed",     [OUTSIDE_DEAD] = "dead",
};

static void add(struct redis_call *call, const void *bytes, size_t count)
{
    call->arguments[call->count] = bytes;
    call->bytes[call->count++] = count;
}

/* Numbers lie one behind the other in the call's text. */
static void add_number(struct redis_call *call, size_t *at, uint64_t number)
{
    int count = snprintf(call->text + *at, sizeof(call->text) - *at, "%" PRIu64, number);

    add(call, call->text + *at, (size_t)count);
    *at += (size_t)count + 1;
}

/* The last two or three, which differ by question. */
static void add_subject(struct redis_call *call, size_t *at, const struct outside_ask *ask)
{
    if (ask->op == OUTSIDE_DEAD) {
        add_number(call, at, ask->rank);
        add_number(call, at, ask->number);
        return;
    }
    if (ask->op == OUTSIDE_END) {
        add_number(call, at, ask->cursor);
        return;
    }
    if (ask->op == OUTSIDE_NOTHING || ask->op == OUTSIDE_BEGIN || ask->op == OUTSIDE_OWED) {
        return;
    }
    add(call, &ask->key, sizeof(ask->key));
    if (ask->op == OUTSIDE_DELETE) {
        add_number(call, at, ask->number);
    } else {
        add(call, &ask->object, sizeof(ask->object));
    }
    add_number(call, at, hash_id20(ask->key.id) >> 58);
}

void redis_call_make(struct redis_call *call, const struct redis_caller *caller,
                     const struct outside_ask *ask)
{
    bool flag = ask->op == OUTSIDE_DROPPED ? ask->status == NIGH_IN_USE : ask->flag;
    size_t at = 0;

    call->count = 0;
    add(call, op_names[ask->op], strlen(op_names[ask->op]));
    add(call, caller->epoch, strlen(caller->epoch));
    add_number(call, &at, caller->rank);
    add_number(call, &at, caller->incarnation);
    add_number(call, &at, caller->lane);
    add_number(call, &at, caller->lanes);
    add_number(call, &at, ask->round);
    add_number(call, &at, flag ? 1 : 0);
    add_number(call, &at, ask->alive);
    add_subject(call, &at, ask);
}

/* ---- what is answered ----------------------------------------------------- */

static bool take_status(char letter, nigh_status *status)
{
    switch (letter) {
    case '0': *status = NIGH_OK; return true;
    case 'B': *status = NIGH_BUSY; return true;
    case 'E': *status = NIGH_EXISTS; return true;
    case 'N': *status = NIGH_NOT_FOUND; return true;
    case 'P': *status = NIGH_PENDING; return true;
    case 'U': *status = NIGH_IN_USE; return true;
    default: return false;
    }
}

/* "A", "Y", or "K", an object, and ranks of two bytes. */
static bool take_located(const uint8_t *bytes, size_t count, struct directory_answer *answer)
{
    size_t head = 1 + sizeof(answer->object);

    memset(answer, 0, sizeof(*answer));
    if (count == 1 && (bytes[0] == 'A' || bytes[0] == 'Y')) {
        answer->state = bytes[0] == 'A' ? DIRECTORY_ABSENT : DIRECTORY_NOT_YET;
        return true;
    }
    if (count < head || bytes[0] != 'K' || (count - head) % 2 != 0 ||
        (count - head) / 2 > DIRECTORY_HOLDERS) {
        return false;
    }
    memcpy(&answer->object, bytes + 1, sizeof(answer->object));
    answer->state = DIRECTORY_KNOWN;
    for (const uint8_t *at = bytes + head; at < bytes + count; at += 2) {
        answer->holders[answer->holder_count++] = at[0] | (uint32_t)at[1] << 8;
    }
    return true;
}

static bool take_cursor(const uint8_t *bytes, size_t count, uint64_t *cursor)
{
    *cursor = 0;
    if (count == 0 || count > 20) {
        return false;
    }
    for (size_t n = 0; n < count; n++) {
        uint64_t before = *cursor;

        *cursor = 10 * *cursor + (uint64_t)(bytes[n] - '0');
        if (bytes[n] < '0' || bytes[n] > '9' || before > UINT64_MAX / 10 ||
            *cursor / 10 != before) {
            return false;
        }
    }
    return true;
}

enum redis_verdict redis_take_answer(enum outside_op op, const void *bytes, size_t count,
                                     struct outside_news *news)
{
    const uint8_t *rest = (const uint8_t *)bytes + 1;
    bool good;

    if (count == 0) {
        return REDIS_NONSENSE;
    }
    if (count == 1 && (rest[-1] == 'S' || rest[-1] == 'G')) {
        return rest[-1] == 'S' ? REDIS_STALE : REDIS_FORGOTTEN;
    }
    good = take_status((char)rest[-1], &news->status);
    if (op == OUTSIDE_LOCATE) {
        good = good && news->status == NIGH_OK && take_located(rest, count - 1, &news->answer);
    } else if (op == OUTSIDE_END) {
        good = good && news->status == NIGH_OK && take_cursor(rest, count - 1, &news->cursor);
    } else if (op == OUTSIDE_OWED) {
        good = good && (count - 1) % OWED_BYTES == 0 && (count - 1) / OWED_BYTES <= OUTSIDE_DROPS;
    } else {
        good = good && count == 1;
    }
    good = good && (news->status != NIGH_PENDING || op == OUTSIDE_DELETE);
    return good ? REDIS_FINE : REDIS_NONSENSE;
}

static void take_drop(const uint8_t *bytes, struct outside_news *news)
{
    *news = (struct outside_news){.kind = OUTSIDE_DROP};
    memcpy(&news->key, bytes, sizeof(news->key));
    memcpy(&news->birth, bytes + sizeof(news->key), sizeof(news->birth));
}

uint32_t redis_take_owed(const void *bytes, size_t count, struct outside_news drops[OUTSIDE_DROPS])
{
    uint32_t drop = 0;

    for (size_t at = 1; at + OWED_BYTES <= count && drop < OUTSIDE_DROPS; at += OWED_BYTES) {
        take_drop((const uint8_t *)bytes + at, &drops[drop++]);
    }
    return drop;
}

static bool begins(const char *text, size_t count, const char *with)
{
    return count >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

enum redis_verdict redis_take_error(const char *text, size_t count, nigh_status *status)
{
    *status = NIGH_PROTOCOL;
    if (begins(text, count, "OOM")) {
        *status = NIGH_LIMIT; /* told again later */
        return REDIS_FINE;
    }
    if (begins(text, count, "BUSY") || begins(text, count, "TRYAGAIN")) {
        *status = NIGH_BUSY;
        return REDIS_FINE;
    }
    /* Of one key, or of this question: another may do better. */
    return begins(text, count, "WRONGTYPE") || begins(text, count, "ERR") ? REDIS_NONSENSE
                                                                          : REDIS_STALE;
}

bool redis_take_message(const void *bytes, size_t count, struct outside_news *news)
{
    const uint8_t *from = bytes;

    *news = (struct outside_news){.kind = OUTSIDE_FOUND};
    if (count == 1 + sizeof(news->key) && from[0] == 'F') {
        memcpy(&news->key, from + 1, sizeof(news->key));
        return true;
    }
    if (count == 1 + OWED_BYTES && from[0] == 'D') {
        take_drop(from + 1, news);
        return true;
    }
    news->kind = OUTSIDE_DELETED;
    return count > 2 && from[0] == 'X' && take_status((char)from[1], &news->status) &&
           (news->status == NIGH_OK || news->status == NIGH_IN_USE) &&
           take_cursor(from + 2, count - 2, &news->number);
}
