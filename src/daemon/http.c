/* SPDX-License-Identifier: Apache-2.0 */
/* See http.h. One thread, one poll: a connection reads its head, then writes its answer, and ends.
 */
#include "daemon/http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "daemon/http_peer.h"
#include "daemon/http_request.h"
#include "daemon/metrics.h"
#include "daemon/page.h"
#include "daemon/picture.h"
#include "fabric/address.h"
#include "nigh/client.h"

#define LOG_MODULE "http"
#include "base/log.h"

#define ACCEPT_PAUSE_US UINT64_C(100000)
#define ASK_TIMEOUT_US  UINT64_C(2000000) /* to attach to the node */
#define PICTURE_US      UINT64_C(100000)  /* one is not made more often, whoever asks */

struct connection {
    int fd; /* -1: not in use */
    uint64_t deadline_us;
    size_t have; /* of the head */
    char head[HTTP_HEAD_BYTES];
    char *answer; /* NULL: it is still asking */
    size_t answer_bytes, sent;
};

struct http {
    int listen_fd;
    int stop_fd;
    pthread_t thread;
    bool runs;
    char socket_path[LIMIT_SOCKET_PATH_BYTES + 1];
    nigh_client *client; /* NULL: not attached */
    uint64_t accept_us;  /* not before this: there was no descriptor for who connects */
    struct connection connections[HTTP_CONNECTIONS];
    struct picture picture;
    uint64_t made_us; /* when that was whole */
    enum {
        PICTURE_NONE,
        PICTURE_NUMBERS,
        PICTURE_ALL
    } has; /* what is in it */
};

#define TYPE_TEXT    "text/plain; charset=utf-8"
#define TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_JSON    "application/json"

/*
 * The page loads and asks its own node alone, and nobody else's page loads, asks or frames it.
 * data: is for the icon, so that no browser asks for one.
 */
#define HTTP_POLICY                                                                              \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "         \
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "   \
    "'none'\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n" \
    "Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"

/* ---- answers -------------------------------------------------------------- */

static const char *words_of(int code)
{
    switch (code) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 414: return "URI Too Long";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "HTTP Version Not Supported";
    }
}

/* A session that ended is opened again. */
static nigh_status attach(struct http *http)
{
    nigh_client_options options = {.struct_size = sizeof(options),
                                   .socket_path = http->socket_path,
                                   .name = "nighd http",
                                   .timeout_us = ASK_TIMEOUT_US,
                                   .flags = NIGH_OPEN_READ_ONLY};

    return http->client != NULL ? NIGH_OK : nigh_client_open(&options, &http->client);
}

static void detach(struct http *http)
{
    nigh_client_close(http->client);
    http->client = NULL;
}

/* Root, and the uid of the node, see all. */
static struct asker find_asker(int fd)
{
    struct asker asker = {0};

    asker.is_known = http_peer_uid(fd, &asker.uid);
    asker.sees_all = asker.is_known && (asker.uid == 0 || asker.uid == geteuid());
    return asker;
}

/* Asks the node, unless that was just done: then the same is printed again, as who asks now may see
 * it. */
static nigh_status make_picture(struct http *http, bool has_all)
{
    struct picture *picture = &http->picture;
    nigh_status status;

    if (http->has >= (has_all ? PICTURE_ALL : PICTURE_NUMBERS) &&
        clock_now_us(&clock_monotonic) - http->made_us < PICTURE_US)
        return NIGH_OK;
    http->has = PICTURE_NONE;
    status = attach(http);
    if (status == NIGH_OK)
        status = has_all ? picture_ask_all(picture, http->client)
                         : picture_ask_numbers(picture, http->client);
    if (status != NIGH_OK)
        detach(http);
    else
        http->has = has_all ? PICTURE_ALL : PICTURE_NUMBERS;
    http->made_us = clock_now_us(&clock_monotonic);
    return status;
}

static int print_metrics(struct http *http, const struct asker *asker, FILE *file)
{
    const struct picture *picture = &http->picture;
    nigh_status status = make_picture(http, false);

    if (status != NIGH_OK) {
        fprintf(file, "the node does not answer: %s\n", nigh_status_string(status));
        return 503;
    }
    metrics_print_stats(file, &picture->stats);
    metrics_print_nodes(file, picture->nodes, picture->node_count);
    metrics_print_links(file, picture->links, picture->link_count);
    metrics_print_pools(file, picture, asker);
    metrics_print_times(file, picture->times);
    metrics_print_spaces(file, picture, asker);
    return 200;
}

static int print_page(struct http *http, const struct asker *asker, FILE *file)
{
    nigh_status status = make_picture(http, true);

    if (status != NIGH_OK) {
        page_print_failure(file, status);
        return 503;
    }
    page_print(file, &http->picture, asker);
    return 200;
}

/* The body of what is asked for, and its type; what it says where it is refused. */
static int print_body(struct http *http, int fd, const char *path, FILE *file, const char **type)
{
    const struct page_file *page = page_find(path);
    struct asker asker;

    if (page != NULL) {
        *type = page->type;
        fwrite(page->bytes, 1, page->count, file);
        return 200;
    }
    if (strcmp(path, "/metrics") != 0 && strcmp(path, "/page.json") != 0) {
        fputs("there are / and /metrics\n", file);
        return 404;
    }
    asker = find_asker(fd);
    if (strcmp(path, "/metrics") == 0) {
        *type = TYPE_METRICS;
        return print_metrics(http, &asker, file);
    }
    *type = TYPE_JSON;
    return print_page(http, &asker, file);
}

static void print_refusal(int code, FILE *file)
{
    if (code == 421)
        fputs("ask for localhost, 127.0.0.1 or [::1]\n", file);
}

/* Head and body in one piece of memory. False: there is none. */
static bool make_answer(struct http *http, struct connection *connection, int code,
                        const struct http_request *request)
{
    const char *type = TYPE_TEXT;
    char *body = NULL;
    size_t body_bytes = 0;
    FILE *file = open_memstream(&body, &body_bytes);
    bool is_whole;

    if (file == NULL)
        return false;
    if (code == 200)
        code = print_body(http, connection->fd, request->path, file, &type);
    else
        print_refusal(code, file);
    is_whole = fclose(file) == 0;
    file = is_whole ? open_memstream(&connection->answer, &connection->answer_bytes) : NULL;
    if (file != NULL) {
        fprintf(file,
                "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                "Connection: close\r\n" HTTP_POLICY "%s\r\n",
                code, words_of(code), type, body_bytes, code == 405 ? "Allow: GET, HEAD\r\n" : "");
        if (!request->is_head)
            fwrite(body, 1, body_bytes, file);
        is_whole = fclose(file) == 0;
    }
    free(body);
    return file != NULL && is_whole;
}

/* ---- connections ---------------------------------------------------------- */

static void end(struct connection *connection)
{
    close(connection->fd);
    free(connection->answer);
    *connection = (struct connection){.fd = -1};
}

static void accept_one(struct http *http)
{
    int fd = accept4(http->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    for (size_t n = 0; fd >= 0 && n < HTTP_CONNECTIONS; n++) {
        struct connection *connection = &http->connections[n];

        if (connection->fd < 0) {
            connection->fd = fd;
            connection->deadline_us =
                clock_now_us(&clock_monotonic) + HTTP_PATIENCE_MS * UINT64_C(1000);
            return;
        }
    }
    if (fd >= 0)
        close(fd);
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        http->accept_us = clock_now_us(&clock_monotonic) + ACCEPT_PAUSE_US;
}

/* False: it is over. */
static bool read_head(struct http *http, struct connection *connection)
{
    struct http_request request = {0};
    ssize_t n = recv(connection->fd, connection->head + connection->have,
                     sizeof(connection->head) - connection->have, 0);
    int code;

    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    connection->have += (size_t)n;
    code = http_request_parse(connection->head, connection->have, &request);
    return code == 0 || make_answer(http, connection, code, &request);
}

static bool write_answer(struct connection *connection)
{
    ssize_t n = send(connection->fd, connection->answer + connection->sent,
                     connection->answer_bytes - connection->sent, MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    connection->sent += (size_t)n;
    if (connection->sent < connection->answer_bytes)
        return true;
    (void)shutdown(connection->fd, SHUT_WR);
    return false;
}

static void serve(struct http *http, struct connection *connection)
{
    bool goes_on = connection->answer == NULL ? read_head(http, connection) : true;

    if (goes_on && connection->answer != NULL)
        goes_on = write_answer(connection);
    if (!goes_on)
        end(connection);
}

/* ---- the thread ----------------------------------------------------------- */

/* What is waited for: the stop, the listener, and those that are connected. */
struct waits {
    struct pollfd polls[HTTP_CONNECTIONS + 2];
    struct connection *whose[HTTP_CONNECTIONS + 2];
    nfds_t count;
    int left_ms; /* the least of anybody's patience; -1: nobody is there */
};

static void wait_until(struct waits *waits, uint64_t now_us, uint64_t at_us)
{
    int ms = now_us < at_us ? (int)((at_us - now_us + 999) / 1000) : 0;

    waits->left_ms = waits->left_ms < 0 || ms < waits->left_ms ? ms : waits->left_ms;
}

/* Nobody takes from the listener while all places are in use, or there was no descriptor. */
static void set_waits(struct http *http, struct waits *waits)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);
    bool rests = now_us < http->accept_us;

    waits->count = 2;
    waits->left_ms = -1;
    for (size_t n = 0; n < HTTP_CONNECTIONS; n++) {
        struct connection *connection = &http->connections[n];

        if (connection->fd < 0)
            continue;
        waits->whose[waits->count] = connection;
        waits->polls[waits->count++] = (struct pollfd){
            .fd = connection->fd, .events = connection->answer != NULL ? POLLOUT : POLLIN};
        wait_until(waits, now_us, connection->deadline_us);
    }
    if (rests)
        wait_until(waits, now_us, http->accept_us);
    rests = rests || waits->count == HTTP_CONNECTIONS + 2;
    waits->polls[0] = (struct pollfd){.fd = http->stop_fd, .events = POLLIN};
    waits->polls[1] = (struct pollfd){.fd = rests ? -1 : http->listen_fd, .events = POLLIN};
}

static void *http_main(void *argument)
{
    struct http *http = argument;
    struct waits waits;

    for (;;) {
        set_waits(http, &waits);
        if (poll(waits.polls, waits.count, waits.left_ms) < 0 && errno != EINTR) {
            LOG_WARN("nothing is answered over HTTP any more: its thread cannot wait, and ended",
                     "errno=%d do=\"free memory if errno is 12, and start the node again\"", errno);
            return NULL;
        }
        if (waits.polls[0].revents != 0)
            return NULL;
        for (nfds_t n = 2; n < waits.count; n++) {
            struct connection *connection = waits.whose[n];

            if (clock_now_us(&clock_monotonic) >= connection->deadline_us)
                end(connection);
            else if (waits.polls[n].revents != 0)
                serve(http, connection);
        }
        if (waits.polls[1].revents != 0)
            accept_one(http);
    }
}

/* ---- start, stop ---------------------------------------------------------- */

static int listen_at(const struct address *address)
{
    int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;

    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
                    bind(fd, (const struct sockaddr *)&address->storage, address->bytes) != 0 ||
                    listen(fd, HTTP_CONNECTIONS) != 0)) {
        int why = errno;

        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static nigh_status status_of(int error)
{
    switch (error) {
    case EADDRINUSE: return NIGH_BUSY;
    case EACCES:
    case EPERM: return NIGH_DENIED;
    case EADDRNOTAVAIL: return NIGH_INVALID;
    default: return NIGH_NO_RESOURCES;
    }
}

nigh_status http_listen(const char *text, struct http **out, char *why, size_t why_bytes)
{
    struct http *http = calloc(1, sizeof(*http));
    struct address address;
    nigh_status status;

    if (http == NULL) {
        (void)snprintf(why, why_bytes, "no memory to answer over HTTP");
        return NIGH_NO_RESOURCES;
    }
    for (size_t n = 0; n < HTTP_CONNECTIONS; n++)
        http->connections[n].fd = -1;
    http->listen_fd = http->stop_fd = -1;
    if (address_parse(text, &address) != NIGH_OK || !address_is_loopback(&address)) {
        (void)snprintf(why, why_bytes, "http: %s is no address of the loopback", text);
        http_stop(http);
        return NIGH_INVALID;
    }
    http->listen_fd = listen_at(&address);
    if (http->listen_fd >= 0)
        http->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (http->stop_fd < 0) {
        status = status_of(errno);
        (void)snprintf(why, why_bytes, "http: cannot listen at %s: %s", text, strerror(errno));
        http_stop(http);
        return status;
    }
    *out = http;
    return NIGH_OK;
}

nigh_status http_start(struct http *http, const char *socket_path)
{
    (void)snprintf(http->socket_path, sizeof(http->socket_path), "%s", socket_path);
    http->runs = pthread_create(&http->thread, NULL, http_main, http) == 0;
    return http->runs ? NIGH_OK : NIGH_NO_RESOURCES;
}

void http_stop(struct http *http)
{
    if (http == NULL)
        return;
    if (http->runs) {
        (void)eventfd_write(http->stop_fd, 1);
        (void)pthread_join(http->thread, NULL);
    }
    detach(http);
    for (size_t n = 0; n < HTTP_CONNECTIONS; n++) {
        if (http->connections[n].fd >= 0)
            end(&http->connections[n]);
    }
    if (http->listen_fd >= 0)
        close(http->listen_fd);
    if (http->stop_fd >= 0)
        close(http->stop_fd);
    free(http);
}
