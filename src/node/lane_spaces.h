/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces, as lane 0 serves them: what the files of lane_space*.c share. It joins the registry of
 * spaces and their engines (src/space) with memory, links, views and sessions. For no one else; all
 * of it is the lane's driver's.
 */
#ifndef NODE_LANE_SPACES_H
#define NODE_LANE_SPACES_H

#include "base/list.h"
#include "node/lane_internal.h"
#include "node/region_memories.h"
#include "node/space_logs.h"
#include "space/engine.h"
#include "space/registry.h"
#include "space/windows.h"

/* One of the two memories of a space at this node. */
struct space_piece {
    struct region_memory *memory; /* NULL: being made, or none */
    struct fabric_memory *at;     /* its registration; NULL: there is no fabric */
    bool is_making;
    uint64_t wanted; /* bytes that are not asked for yet */
};

struct lane_spaces;
struct space_here;

/* For the ends of what an engine sent. */
struct space_sent {
    struct space_here *here;
    uint32_t cookie;
};

/* A space, from when memory for it is asked for to when all of that is gone. */
struct space_here {
    struct list_node link; /* in lane_spaces.here */
    struct lane_spaces *at;
    uint32_t place; /* of the registry, while it is not replaced */
    uint64_t birth;
    struct space_piece pieces[2]; /* by enum space_memory */
    nigh_status status;           /* of their making */
    struct space_engine *engine;  /* NULL: not yet, or not any more */
    struct space_log_here *log;   /* NULL: it has none, or not yet, or not any more */
    nigh_status failed;           /* of the log: it is to be left, and why; NIGH_OK: it is not */
    struct space_view views[2];
    struct space_site sites[LIMIT_SPACE_SEATS]; /* of who has joined */
    uint64_t joined;                            /* whose messages go, and are taken */
    uint64_t partners;                          /* who has joined, ever, and may come back */
    uint64_t left; /* of these, who may be in a view that is not known here yet */
    uint64_t left_us[LIMIT_SPACE_SEATS]; /* when the link of each of them went */
    uint64_t members;                    /* as the engine knows */
    bool has_members;
    bool is_deleted;   /* nobody is served any more */
    bool is_forgotten; /* it goes when nothing that was sent is under way */
    bool is_replaced;  /* the place is another's */
    uint32_t under_way;
    struct space_sent sent[LIMIT_SPACE_SEATS];
};

/* What a session waits for. */
struct space_asked {
    enum session_space_what what; /* 0: nothing */
    bool is_begun;                /* CREATE, DELETE: the registry has it, by its place here */
    bool is_told;                 /* nobody waits any more */
    uint32_t slot, begun, cookie;
    uint64_t deadline_us, argument, place;
    uint64_t again_us;      /* not before */
    struct space_info info; /* DELETE: its birth alone; OPEN: its id, and a birth, or 0 */
};

#define SPACE_ASKED (2u * LIMIT_SPACE_MAKES)

/* What a session has open. */
struct space_opened {
    uint32_t number; /* 0: nothing */
    uint32_t uses;   /* of this place */
    uint32_t count;  /* how often it was opened */
    uint32_t rights;
    uint32_t place; /* of the registry, */
    uint64_t birth; /* while it has this there */
};

struct space_window_here {
    uint32_t number; /* 0: none */
    uint32_t uses;
    int fd;
    void *memory;
    uint32_t window;                /* of space_windows */
    uint64_t (*seen)[SPACE_COUNTS]; /* its `counts`, as they were last looked at */
};

struct lane_space_session {
    struct space_opened opened[LIMIT_SPACES];
    struct space_window_here windows[LIMIT_SESSION_WINDOWS];
};

/* What clients of this node say that they did to a space. */
struct space_counted {
    uint64_t birth;
    uint64_t sums[SPACE_COUNTS];
};

struct lane_spaces {
    struct lane *lane;
    struct space_registry *registry;
    struct space_windows *windows;
    struct region_memories *memories;
    struct space_logs *logs; /* NULL: this node keeps none */
    bool has_failed;         /* of something here */
    uint8_t self;
    uint64_t lease_us; /* until then; UINT64_MAX: for ever; 0: it has none */
    bool is_out;       /* it had no lease, or is in no view: what it had others take for lost */
    bool is_ending;    /* there are no links any more */
    bool has_said;     /* something to a link, since the turn began */
    bool is_awake;     /* an engine has more to do */
    uint64_t in, wary, epoch;              /* of the view */
    uint64_t linked;                       /* links at rail 0, */
    struct link *links[LIMIT_SPACE_SEATS]; /* of those that serve spaces */
    uint64_t cuts;                         /* links that are to be broken */
    nigh_status cut_why[LIMIT_SPACE_SEATS];
    uint32_t window_count;
    uint32_t remakes; /* how often it has begun anew */
    struct list here;
    struct space_here *places[LIMIT_SPACES];
    uint64_t empty; /* places that were forgotten without ever having anything here */
    struct space_asked asked[SPACE_ASKED];
    struct lane_space_session **sessions;       /* by slot; NULL: it has opened nothing */
    struct space_counted counted[LIMIT_SPACES]; /* by place of the registry */
    bool has_counted;                           /* all windows were looked at in this turn */
};

static inline bool lane_spaces_has_link(const struct lane_spaces *at, uint8_t seat)
{
    return seat < LIMIT_SPACE_SEATS && at->links[seat] != NULL;
}

/* ---- lane_spaces.c -------------------------------------------------------- */

/* Whether this node has heard from all members which spaces there are, as far as it can tell. */
bool lane_spaces_know_all(const struct lane_spaces *at);
/* Whether this node may serve its clients now. */
bool lane_spaces_serve(const struct lane_spaces *at);
/* Who takes part in a space, as far as known here, may be another by now. */
void lane_spaces_go_on(struct lane_spaces *at);
/* The link of one that has joined is down. */
void lane_space_note_left(const struct lane_spaces *at, struct space_here *here, uint8_t seat);
/* Links that are to be broken are. */
void lane_spaces_cut(struct lane_spaces *at, uint8_t seat, nigh_status why);

/* ---- lane_space_memory.c -------------------------------------------------- */

/* The registry's shell: */
void lane_space_make(void *context, uint32_t place, const struct space_info *info);
void lane_space_joined(void *context, uint32_t place, uint8_t seat, const struct space_site *site);
void lane_space_left(void *context, uint32_t place, uint8_t seat);
void lane_space_deleted(void *context, uint32_t place, const struct space_info *info);
void lane_space_forgotten(void *context, uint32_t place);
/* Memory that was made, and what may go. True: something has happened. */
bool lane_spaces_memory_turn(struct lane_spaces *at);
void lane_spaces_memory_fini(struct lane_spaces *at);
/* A letter that says that a space is gone: what was sent of it before has ended when that has. */
void lane_space_says_gone(struct lane_spaces *at, uint64_t birth, link_done **done, void **context);
struct space_here *lane_space_by_birth(const struct lane_spaces *at, uint64_t birth);
/* All members take what it had for lost: it begins anew, in other memory. Or it takes no part: its
 * memory goes all the same. */
void lane_space_replace(struct lane_spaces *at, struct space_here *here);

/* ---- lane_space_log.c ------------------------------------------------------ */

/* Begins one, of a space whose memory is there; lane_spaces_log_turn tells how that ended. */
nigh_status lane_space_open_log(struct space_here *here, const struct space_info *info);
bool lane_space_is_log_busy(const struct space_here *here);
/* What the engine of a space that has a log is given beside. */
void lane_space_use_log(struct space_here *here, const struct space_info *info,
                        struct space_engine_config *config);
/* False: not yet: what is under way has to end. The engine is gone by then. */
bool lane_space_end_log(struct space_here *here);
/* What was done to files. True: something has happened. */
bool lane_spaces_log_turn(struct lane_spaces *at);
nigh_status lane_spaces_open_logs(struct lane_spaces *at);
void lane_spaces_close_logs(struct lane_spaces *at);
/* The node stops: what was appended is written, and nothing is under way any more. */
void lane_space_stop_log(struct space_here *here);

/* ---- lane_space_counts.c -------------------------------------------------- */

/* Takes what a window's words have grown by: before the window goes. */
void lane_space_count_window(struct lane_spaces *at, const struct lane_space_session *session,
                             const struct space_window_here *window);
/* The same of all windows of the session, of what it has open: before it has it no more. Of a place
 * where nothing is open (number 0) what they say is passed over: before it has something there. */
void lane_space_count_opened(struct lane_spaces *at, const struct lane_space_session *session,
                             const struct space_opened *opened);
/* Of a space that is known. */
void lane_space_counts(struct lane_spaces *at, uint32_t place, struct session_space_counts *counts);
/* Of all of them. */
void lane_space_add_counts(struct lane_spaces *at, nigh_node_stats *stats);

/* ---- lane_space_sessions.c ------------------------------------------------ */

/* space_windows_shell: */
struct space_engine *lane_space_find(void *context, uint32_t slot, uint32_t number, bool *may_write,
                                     nigh_status *why);
void lane_space_broken(void *context, uint32_t slot);
/* What is here of a space is lost, and nothing is held there any more: who has it open has to open
 * it anew. */
void lane_space_close_all(struct lane_spaces *at, uint64_t birth);
/* Of the registry. */
void lane_space_answered(void *context, uint32_t number, nigh_status status);
/* True: something went on. */
bool lane_spaces_asked_turn(struct lane_spaces *at);
uint64_t lane_spaces_asked_due_us(const struct lane_spaces *at);

#endif
