/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that joins: it has the address of a member, the cluster's key, and an address of its own.
 * One member after the other is asked, once the way a node says hello (cluster/auth.h), and answers
 * with our rank and who the others are. That is kept in the state directory, since ranks are
 * stable: the next start asks nobody.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "cluster/address.h"
#include "cluster/welcome.h"
#include "node/members_file.h"
#include "node/node_internal.h"
#include "node/peers_internal.h"

#define LOG_MODULE "node"
#include "base/log.h"

#define JOIN_WITHIN_US UINT64_C(30000000) /* of all members together */
#define JOIN_EACH_US   UINT64_C(15000000) /* of one: longer than it may take to decide */
#define JOIN_HELLO_US  UINT64_C(2000000)  /* of that, to be reached and to say who it is */
#define JOIN_REST_US   UINT64_C(250000)   /* before all are asked again */

/* ---- waiting -------------------------------------------------------------- */

/* How long something is waited for. */
struct patience {
    uint64_t until_us;
    int stop_fd; /* readable as soon as the process is told to stop; -1: it is not looked for */
};

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

/* The process is to end, and waits for nothing but us: it has blocked the signals until the node is
 * there (nighd), and takes them then. */
static bool is_told_to_stop(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* Tells of signals that are pending, and leaves them so. -1: waits go on to their end. */
static int open_stop_fd(void)
{
    sigset_t set;

    stop_signals(&set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Whether the descriptor is ready (-1: none is) before the time is over, or a stop ends it. */
static bool await(int fd, short events, const struct patience *patience)
{
    for (;;) {
        uint64_t now_us = clock_now_us(&clock_monotonic);
        struct pollfd at[2] = {{.fd = fd, .events = events},
                               {.fd = patience->stop_fd, .events = POLLIN}};
        int ready;

        if (now_us >= patience->until_us) {
            return false;
        }
        ready = poll(at, 2, (int)((patience->until_us - now_us) / 1000 + 1));
        if (ready != 0 && !(ready < 0 && errno == EINTR)) {
            return at[0].revents != 0 && at[1].revents == 0;
        }
    }
}

/* ---- asking one member ---------------------------------------------------- */

/* A connection; -1: errno says why not. */
static int dial(const char *address, const struct patience *patience)
{
    struct sockaddr_storage to;
    socklen_t bytes, error_bytes = sizeof(int);
    int fd, error = 0;

    if (peers_look_up(address, false, &to, &bytes) != NIGH_OK) {
        errno = EHOSTUNREACH;
        return -1;
    }
    fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (connect(fd, (struct sockaddr *)&to, bytes) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            error = ETIMEDOUT;
            if (await(fd, POLLOUT, patience)) {
                (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
            }
        }
    }
    if (error != 0) {
        fd_close(&fd);
        errno = error;
    }
    return fd;
}

static bool send_all(int fd, struct auth *auth, const struct patience *patience)
{
    const uint8_t *bytes;
    uint32_t count;

    while ((count = auth_output(auth, &bytes)) > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);

        if (sent > 0) {
            auth_sent(auth, (uint32_t)sent);
        } else if ((errno != EAGAIN && errno != EINTR) || !await(fd, POLLOUT, patience)) {
            return false;
        }
    }
    return true;
}

/* Bytes that came; 0: none do. */
static size_t receive(int fd, uint8_t *bytes, size_t most, const struct patience *patience)
{
    for (;;) {
        ssize_t got = recv(fd, bytes, most, 0);

        if (got > 0) {
            return (size_t)got;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR) || !await(fd, POLLIN, patience)) {
            return 0;
        }
    }
}

/* Proves that both have the key; what came behind that is a part of the welcome. */
static nigh_status shake_hands(int fd, struct auth *auth, uint8_t *welcome, uint32_t *have,
                               const struct patience *patience)
{
    while (auth->state == AUTH_WAITS) {
        uint8_t bytes[4096];
        uint32_t taken;
        size_t count;

        if (!send_all(fd, auth, patience)) {
            return NIGH_PEER_LOST;
        }
        count = receive(fd, bytes, sizeof(bytes), patience);
        if (count == 0) {
            return NIGH_PEER_LOST;
        }
        taken = auth_input(auth, bytes, (uint32_t)count);
        *have = (uint32_t)count - taken;
        memcpy(welcome, bytes + taken, *have);
    }
    (void)send_all(fd, auth, patience);
    return auth->state == AUTH_DONE ? NIGH_OK : auth->status;
}

static nigh_status read_welcome(int fd, const struct auth *auth, uint8_t *welcome, uint32_t have,
                                const struct patience *patience, struct members *members)
{
    uint32_t wanted = WELCOME_HEAD_BYTES;
    nigh_status said = NIGH_OK, status;

    /* A part of it may have come with the handshake. */
    while (wanted == WELCOME_HEAD_BYTES || have < wanted) {
        size_t count;

        if (wanted == WELCOME_HEAD_BYTES && have >= wanted) {
            wanted = welcome_bytes(welcome);
            if (wanted < have) {
                return NIGH_PROTOCOL;
            }
            continue;
        }
        count = receive(fd, welcome + have, wanted - have, patience);
        if (count == 0) {
            return NIGH_PEER_LOST;
        }
        have += (uint32_t)count;
    }
    status = welcome_read(auth, welcome, have, &said, members);
    return status == NIGH_OK ? said : status;
}

/* How one member answered. NIGH_OUT_OF_MEMORY: this node could not ask it, which no member says. */
static nigh_status ask(const struct node_settings *settings, const char *address,
                       const struct patience *patience, struct members *members, char *why,
                       size_t why_bytes)
{
    struct auth_identity self = {.rank = AUTH_JOINER, .incarnation = 1};
    struct auth_offer offer = {.lanes = 1};
    uint8_t nonce[AUTH_NONCE_BYTES];
    struct auth *auth = malloc(sizeof(*auth));
    uint8_t *welcome = malloc(WELCOME_BYTES_MAX + 4096);
    nigh_status status = NIGH_OUT_OF_MEMORY;
    const struct patience hello = {
        .until_us = min_u64(patience->until_us, clock_now_us(&clock_monotonic) + JOIN_HELLO_US),
        .stop_fd = patience->stop_fd};
    uint32_t have = 0;
    int fd = -1;

    if (auth == NULL || welcome == NULL || random_system_fill(nonce, sizeof(nonce)) != NIGH_OK) {
        snprintf(why, why_bytes, "%s: it was not asked", address);
        goto done;
    }
    fd = dial(address, &hello);
    if (fd < 0) {
        snprintf(why, why_bytes, "%s: %s", address, strerror(errno));
        status = NIGH_PEER_LOST;
        goto done;
    }
    memcpy(offer.member, settings->joins_as, sizeof(offer.member));
    auth_begin(auth, true, settings->cluster_key, &self, &offer, UINT32_MAX, nonce);
    status = shake_hands(fd, auth, welcome, &have, &hello);
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "%s: %s", address,
                 auth->state == AUTH_REFUSED ? auth->why : "it said nothing");
        goto done;
    }
    status = read_welcome(fd, auth, welcome, have, patience, members);
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "%s: %s", address, nigh_status_string(status));
    }

done:
    fd_close(&fd);
    free(welcome);
    free(auth);
    return status;
}

/* ---- joining -------------------------------------------------------------- */

/* Another member would say the same. */
static bool is_final(nigh_status status)
{
    return status == NIGH_OK || status == NIGH_DENIED || status == NIGH_VERSION ||
           status == NIGH_NO_RESOURCES || status == NIGH_INVALID || status == NIGH_UNSUPPORTED ||
           status == NIGH_EXISTS || status == NIGH_NOT_FOUND || status == NIGH_OUT_OF_MEMORY;
}

static const char *remedy(nigh_status status)
{
    switch (status) {
    case NIGH_DENIED: return "give the key of that cluster (--cluster-key)";
    case NIGH_NO_RESOURCES:
        return "no rank is left for who joins, those of nodes that were struck off not being given "
               "again; how many there are is said where the cluster is started (--ranks)";
    case NIGH_OUT_OF_MEMORY:
        return "the operating system refused this node the memory, or the random numbers, to ask "
               "with";
    case NIGH_NOT_FOUND: return "nobody joins nodes whose directory is kept by a server";
    case NIGH_UNSUPPORTED: return "its nodes agree on no views: start them with --state";
    case NIGH_EXISTS: return "this node's address (--member) is that node's own";
    case NIGH_INVALID: return "this node's address (--member) is none that members can reach";
    case NIGH_VERSION: return "its version of nigh is another";
    default: return "no member answered; are they started, and can this machine reach them?";
    }
}

/* Each of them once: how the last of those that were asked answered. */
static nigh_status ask_each(const struct node_settings *settings, const struct patience *patience,
                            struct members *found, char *why, size_t why_bytes)
{
    nigh_status status = NIGH_PEER_LOST;

    for (uint32_t n = 0; n < settings->members.count && !is_final(status) && !is_told_to_stop();
         n++) {
        const struct patience each = {
            .until_us = min_u64(patience->until_us, clock_now_us(&clock_monotonic) + JOIN_EACH_US),
            .stop_fd = patience->stop_fd};

        status = ask(settings, settings->members.addresses[n], &each, found, why, why_bytes);
    }
    return status;
}

static nigh_status ask_members(const struct node_settings *settings, struct members *found,
                               char *why, size_t why_bytes)
{
    struct patience all = {.until_us = clock_now_us(&clock_monotonic) + JOIN_WITHIN_US,
                           .stop_fd = open_stop_fd()};
    nigh_status status = NIGH_PEER_LOST;
    char last[256] = "";

    while (!is_final(status) && !is_told_to_stop() &&
           clock_now_us(&clock_monotonic) < all.until_us) {
        status = ask_each(settings, &all, found, last, sizeof(last));
        if (!is_final(status)) {
            const struct patience rest = {.until_us = clock_now_us(&clock_monotonic) + JOIN_REST_US,
                                          .stop_fd = all.stop_fd};

            (void)await(-1, 0, &rest);
        }
    }
    fd_close(&all.stop_fd);
    if (status != NIGH_OK) {
        snprintf(why, why_bytes, "cannot join as %s (%s): %s", settings->joins_as, last,
                 is_told_to_stop() ? "it was told to stop" : remedy(status));
    }
    return status == NIGH_OUT_OF_MEMORY ? NIGH_NO_RESOURCES : status;
}

/* Whoever was given a seat used one of them up: nobody takes one who cannot have it. */
static nigh_status may_join(struct nigh_node *node, char *why, size_t why_bytes)
{
    const struct node_settings *settings = &node->settings;
    const char *text =
        settings->listen_address[0] != '\0' ? settings->listen_address : settings->joins_as;
    char path[SETTINGS_PATH_BYTES + 16];
    struct sockaddr_storage address;
    socklen_t bytes;
    nigh_status status;
    int fd;

    snprintf(path, sizeof(path), "%s/" VIEWS_FILE, settings->state_dir);
    if (access(path, F_OK) == 0) {
        snprintf(
            why, why_bytes,
            "%.200s has the votes of a member that had its rank already, and nothing says that it "
            "is %s: give that member's address (--member), the whole list (--join), or another "
            "directory (--state)",
            path, settings->joins_as);
        return NIGH_INVALID;
    }
    status = views_file_try(&node->state_file, why, why_bytes);
    if (status != NIGH_OK) {
        return status;
    }
    status = peers_bind(text, &fd, &address, &bytes, why, why_bytes);
    fd_close(&fd);
    return status == NIGH_OK ? node_may_have_memory(node, why, why_bytes) : status;
}

/* Which rank we have: what is kept says it, or a member. */
static nigh_status join(struct nigh_node *node, struct members *found, char *why, size_t why_bytes)
{
    const struct node_settings *settings = &node->settings;
    nigh_status status = members_file_read(settings->state_dir, found, why, why_bytes);
    char joined_as[ADDRESS_BYTES];

    if (status == NIGH_NOT_FOUND) {
        LOG_INFO("joins a cluster", "address=%s by=%s", settings->joins_as,
                 settings->members.addresses[0]);
        status = may_join(node, why, why_bytes);
        if (status == NIGH_OK) {
            status = ask_members(settings, found, why, why_bytes);
        }
        if (status == NIGH_OK) {
            status = members_file_write(settings->state_dir, found, why, why_bytes);
        }
    } else if (status == NIGH_OK && (!address_spell(found->addresses[found->self], joined_as) ||
                                     strcmp(joined_as, settings->joins_as) != 0)) {
        snprintf(why, why_bytes,
                 "this node joined as %s, says what is kept in %.200s, and not as %s: give that "
                 "(--member), or another directory (--state)",
                 found->addresses[found->self], settings->state_dir, settings->joins_as);
        return NIGH_INVALID;
    }
    if (status == NIGH_OK) {
        LOG_INFO("is a member", "rank=%u of=%u address=%s", found->self, found->count,
                 settings->joins_as);
    }
    return status;
}

/* A node that is given all of the list, or begins one. With the directory of one that joined it
 * would begin a cluster beside that; one of the list may have joined by another of it, too. */
static nigh_status may_be_listed(const struct node_settings *settings, struct members *found,
                                 char *why, size_t why_bytes)
{
    nigh_status status = members_file_read(settings->state_dir, found, why, why_bytes);

    if (status == NIGH_NOT_FOUND || (status == NIGH_OK && found->epoch == settings->members.epoch &&
                                     found->self == settings->members.self)) {
        return NIGH_OK;
    }
    if (status == NIGH_OK) {
        snprintf(why, why_bytes,
                 "what is kept in %.200s is of a node that joined a cluster as %s: start it as "
                 "that, with the address of a member (--join %s --member %s), or name another "
                 "directory with --state",
                 settings->state_dir, found->addresses[found->self],
                 found->addresses[found->self == 0 ? found->listed - 1 : 0],
                 found->addresses[found->self]);
        status = NIGH_INVALID;
    }
    return status;
}

nigh_status node_join(struct nigh_node *node, char *why, size_t why_bytes)
{
    struct node_settings *settings = &node->settings;
    struct members *found;
    nigh_status status;

    if (!settings->clustered || settings->state_dir[0] == '\0') {
        return NIGH_OK;
    }
    found = malloc(sizeof(*found));
    if (found == NULL) {
        return NIGH_NO_RESOURCES;
    }
    status = views_file_open(&node->state_file, settings->state_dir, why, why_bytes);
    if (status == NIGH_OK && settings->joins_as[0] == '\0') {
        status = may_be_listed(settings, found, why, why_bytes);
    } else if (status == NIGH_OK) {
        status = join(node, found, why, why_bytes);
        if (status == NIGH_OK) {
            settings->members = *found;
        }
    }
    free(found);
    return status;
}
