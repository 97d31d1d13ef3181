/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of a fuzzed node (node_fuzz.c) does with spaces: it asks for them, right and wrong,
 * and says in its window what a client would, and what none would. It looks at what it gets: nobody
 * is shown a space that is not for him.
 */
#ifndef TESTS_FUZZ_NODE_SPACES_H
#define TESTS_FUZZ_NODE_SPACES_H

#include "fuzz_input.h"
#include "memory/session.h"
#include "memory/session_space.h"
#include "memory/space_window.h"
#include "node_world.h"

struct client_spaces {
    uint32_t number;   /* of the space that was opened last; 0: none */
    uint64_t birth;    /* of what was made last; 0: nothing was */
    uint64_t files[3]; /* as was said last: a cache's, a home's, a window's */
    uint64_t address;  /* that was allocated last */
    enum space_record_kind asked;
    struct space_window *window; /* NULL: none */
    struct space_producer producer;
};

/* A question, put into the lane's places, and the submission of it. */
void spaces_make_question(struct fuzz_input *input, const struct client_spaces *spaces,
                          uint8_t *places, struct session_sqe *sqe);

/* What that came to, right after it was said. */
void spaces_take_answer(struct client_spaces *spaces, const struct world_peer *who,
                        const struct session_sqe *sqe, const struct session_cqe *cqe,
                        const uint8_t *places);

/* Which file to ask for. */
uint64_t spaces_file_number(struct fuzz_input *input, const struct client_spaces *spaces);

/* A file that came. */
void spaces_take_file(struct fuzz_input *input, struct client_spaces *spaces,
                      const struct world *world, const struct world_peer *who, uint64_t number,
                      int fd);

/* Something is said in the window, if there is one. */
void spaces_say(struct fuzz_input *input, struct client_spaces *spaces);

/* Its session is over, or another's. */
void spaces_forget(struct client_spaces *spaces);

#endif
