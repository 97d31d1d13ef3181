/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces of a fake node (fake_node.h), which has them alone: home memory here, and memory of
 * another node, of which blocks are shown in the cache when a test says so. Windows are carried out
 * on plain memory, in order, but for what a test keeps: all of its kind, or what is of one block.
 *
 * A struct fake_space is the context of a fake node whose hook, turn and file are those below. All
 * that is not atomic is under the node's lock.
 */
#ifndef TESTS_FAKE_SPACE_H
#define TESTS_FAKE_SPACE_H

#include "memory/session.h"
#include "memory/space_window.h"
#include "support/fake_node.h"

#define FAKE_SPACES       2
#define FAKE_WINDOWS      (LIMIT_SESSION_WINDOWS + 8)
#define FAKE_SPACE_BLOCKS 64 /* of the home here, and of the other */
#define FAKE_SPACE_SETS   4
#define FAKE_OTHER        UINT64_C(1) /* the other node's rank; here it is 0 */

struct fake_window {
    int fd;
    bool has_ended;
    struct space_window *memory;
    struct space_consumer consumer;
    struct space_record kept[LIMIT_SPACE_TAKEN]; /* not carried out yet, oldest first */
    uint64_t until_us[LIMIT_SPACE_TAKEN];
    uint32_t kept_count;
};

struct fake_holder {
    uint32_t window, space;
    uint64_t block;
    bool alone;
    uint32_t kept; /* which of the window's words */
    bool leaves;   /* it was kept, and another wants it: it is let go behind `until` */
    uint64_t until;
};

struct fake_one {
    struct session_space_stat stat;
    uint32_t opens;
    bool is_there;
    int cache_fd, home_fd;
    void *cache_memory, *home_memory;
    uint64_t cache_bytes, home_bytes;
    struct space_view cache, home;
    _Atomic uint64_t *other; /* memory of the other node */
    uint64_t next_block;     /* that ALLOC gives, here and there */
    bool is_freed[2 * FAKE_SPACE_BLOCKS];
};

struct fake_space {
    struct fake_node *node;
    _Atomic bool stands;          /* looks at no window */
    _Atomic uint32_t keeps;       /* a bit of each SPACE_RECORD_* that is not carried out */
    _Atomic uint64_t keeps_block; /* nor what is of this one; 0: none */
    _Atomic int32_t fails;        /* with this */
    _Atomic uint32_t fails_kinds; /* a bit of each kind that does */
    _Atomic uint32_t keeps_whats; /* a bit of each SESSION_SPACE_* that is not answered */
    _Atomic int32_t status;       /* of questions; 0: as it is */
    _Atomic bool keeps_no_locks;  /* lets threads keep none */
    _Atomic uint32_t lets_go;     /* of the space of this number, of all locks, and tells nobody */
    _Atomic bool loses_files;     /* has none of what it said it has */
    _Atomic bool aligns_none;     /* it is older than alignments */
    _Atomic bool counts_none;     /* it is older than the question for numbers */
    _Atomic bool says_no_birth;   /* it is older than those of answers to CREATE */
    _Atomic bool makes_anew;      /* what it made is deleted at once, and made by somebody else */
    _Atomic uint32_t hollow;      /* of so many files it has let go as it gives them, */
    _Atomic bool deletes_hollow;  /* and of their spaces */
    _Atomic bool swaps_files;     /* gives that of the home for the cache's */
    int hollow_fd;
    _Atomic uint32_t said[SPACE_RECORD_KINDS], asked[SESSION_SPACE_WHATS];
    uint32_t kept_cookies[16], kept_whats[16], kept_count;
    struct fake_one spaces[FAKE_SPACES];
    struct fake_window windows[FAKE_WINDOWS];
    uint32_t window_count;
    struct fake_holder holders[256];
    uint32_t holder_count;
};

/* Clears it. Then the node is started with it. */
void fake_space_init(struct fake_space *fake);
/* After the node has stopped. */
void fake_space_fini(struct fake_space *fake);

enum fake_action fake_space_hook(void *context, struct fake_node *node, uint32_t lane,
                                 const struct session_sqe *sqe, struct session_cqe *cqe);
uint64_t fake_space_turn(void *context, struct fake_node *node, uint64_t now_us);
int fake_space_file(void *context, uint64_t number);

/* The space of a number that a client has. Locked. */
struct fake_one *fake_space_of(struct fake_space *fake, uint32_t number);

/* Where an address lies; NULL: nowhere. Locked. */
_Atomic uint64_t *fake_space_block(struct fake_one *one, uint64_t address);

/* A block of the other node is shown in the cache, or not any more. Locked. */
void fake_space_show(struct fake_one *one, uint64_t address);
void fake_space_hide(struct fake_one *one, uint64_t address);

/* So many of a kind were said; asked. */
uint32_t fake_space_said(struct fake_space *fake, enum space_record_kind kind);
uint32_t fake_space_asked(struct fake_space *fake, enum session_space_what what);

#endif
