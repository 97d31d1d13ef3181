/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node for tests of the client: a thread that speaks the session protocol, over real sockets and
 * memory files, and does as it is told: refuse, answer rubbish, fall silent, die, come back.
 *
 * It serves one session at a time, never evicts and trusts its client: what a real node guards
 * against is tested with the real node. A test's hook sees each submission first, on the node's
 * thread; it does not assert, it records.
 */
#ifndef TESTS_FAKE_NODE_H
#define TESTS_FAKE_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory/session.h"
#include "object/index_writer.h"

#define FAKE_LANES_MAX    4
#define FAKE_EXTENTS      8
#define FAKE_EXTENT_BYTES LIMIT_EXTENT_BYTES_MIN
#define FAKE_HELD_MAX     512

/* What the hook wants to be done with a submission. */
enum fake_action {
    FAKE_SERVE,  /* as a node does */
    FAKE_ANSWER, /* complete it with *cqe as it is (the cookie is filled in) */
    FAKE_RAW,    /* complete it with *cqe, cookie and all */
    FAKE_KEEP    /* no completion */
};

struct fake_node;

typedef enum fake_action fake_hook(void *context, struct fake_node *fake, uint32_t lane,
                                   const struct session_sqe *sqe, struct session_cqe *cqe);

/* What else the node's thread does, each time that it looks: when it is to look again at the
 * latest. Locked, as the next. */
typedef uint64_t fake_turn(void *context, struct fake_node *fake, uint64_t now_us);

/* The descriptor behind the number of a SPACE_ASK; -1: there is none. */
typedef int fake_file(void *context, uint64_t number);

struct fake_options {
    uint32_t lanes; /* 0: 1 */
    fake_hook *hook;
    fake_turn *turn; /* may be NULL, as the next */
    fake_file *file;
    void *context;         /* of all three */
    int32_t refuse;        /* status of every welcome */
    const char *sentence;  /* with it */
    uint16_t version;      /* of the welcome; 0: the right one */
    uint32_t closes_first; /* connections that it closes as they come */
    bool silent;           /* takes connections and answers nothing */
    bool forget_sessions;  /* resuming is refused */
    bool read_only;        /* nobody may write */
    bool bad_welcome;      /* numbers that cannot be */
    uint64_t lease_bytes;  /* 0: as asked, from 256 KiB; 1: never */
    uint32_t bulks_lost; /* so many questions for memory that it made are answered NIGH_NOT_FOUND */
    uint32_t late_grants;    /* so many questions for extents are answered with the next one */
    uint16_t rights;         /* SESSION_HAS_*, SESSION_DROPS_* */
    bool keeps_donations;    /* and says nothing */
    int32_t donation_status; /* of what it answers */
    bool begins_anew;        /* as another life, before it answers a donation */
    uint32_t spin_us;
};

struct fake_held {
    uint32_t lane;
    uint32_t cookie;
    uint8_t id[LIMIT_ID_BYTES];
    uint64_t deadline_us;
};

struct fake_lane {
    struct index_writer writer;
    int index_fd, index_read_fd;
    void *index_memory;
    uint64_t index_bytes;
    uint32_t sq_head, cq_tail, event_tail;
    int doorbell;
};

struct fake_node {
    struct fake_options options;
    char path[LIMIT_SOCKET_PATH_BYTES + 1];
    pthread_t thread;
    pthread_mutex_t lock; /* held by the node's thread while it works */
    _Atomic bool stop;
    int control_fd; /* eventfd: look now */
    int listen_fd, socket_fd;
    int page_fd, page_read_fd;
    struct session_node_page *page;
    int session_fd;
    void *memory;
    uint64_t memory_bytes;
    int extent_fds[FAKE_EXTENTS], extent_read_fds[FAKE_EXTENTS];
    uint8_t *arena;
    uint64_t bump;
    struct fake_lane lane[FAKE_LANES_MAX];
    struct fake_held held[FAKE_HELD_MAX];
    uint32_t held_count;
    struct session_extent late[4]; /* not answered yet */
    uint32_t late_count;
    uint64_t session; /* 0: none */
    bool attached;    /* its rings are served */
    /* Counted for tests. */
    _Atomic uint32_t hellos, resumes, submissions, extents_asked, cancels, leases, lease_closes,
        aborts, seals;
    _Atomic uint32_t last_flags; /* of the last hello */
    _Atomic uint32_t donations, drops;
    struct session_donation donated, dropped; /* the last ones; under the lock */
};

/* Starts one; the socket is in the test's folder. Fails the test when it cannot. */
void fake_node_start(struct fake_node *fake, const struct fake_options *options);
void fake_node_stop(struct fake_node *fake);

/* The socket is cut without a word, as a killed node's; connections are taken again at once, or,
 * with `gone`, refused until fake_node_return. */
void fake_node_die(struct fake_node *fake, bool gone);
void fake_node_return(struct fake_node *fake);

/* The node's last message, then the end. */
void fake_node_say_bye(struct fake_node *fake, int32_t status, const char *sentence);

/* Changes an option while it runs. */
void fake_node_lock(struct fake_node *fake);
void fake_node_unlock(struct fake_node *fake);

/* The node's thread looks now. */
void fake_node_look(struct fake_node *fake);

/* Completes something by hand, as the node's thread would. Locked. */
void fake_node_complete(struct fake_node *fake, uint32_t lane, const struct session_cqe *cqe);
/* Says the number of the last donation, which is how many there were. Locked. */
void fake_node_donated(struct fake_node *fake);
/* Sends an event. Locked. */
void fake_node_event(struct fake_node *fake, uint32_t lane, const struct session_event *event);
/* Makes what is held complete: every submission with this cookie. Locked. */
void fake_node_wake(struct fake_node *fake);

/* A sealed object, as another process would have put it. Not locked. */
void fake_node_seal(struct fake_node *fake, const uint8_t id[LIMIT_ID_BYTES], const void *data,
                    uint64_t size);

/* How many pin words of the session are set: chunks and lanes. */
uint32_t fake_node_pins(struct fake_node *fake);

#endif
