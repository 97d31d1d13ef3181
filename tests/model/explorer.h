/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exhaustive explorer: runs a few threads of real code, whose shared words go through the seam
 * (tests/model/memory/shared.h), through every order of their steps and every behaviour of a memory
 * model, and checks what the scenario claims at each.
 *
 * Threads are coroutines. At each step the explorer saves everything (stacks, private memory,
 * simulated memory), tries each choice in turn, depth first, and does not go on from a state that
 * it has seen: a state is the simulated memory and, for each thread, the history of what it loaded,
 * which determines all the rest of it. States are kept as 64-bit hashes.
 *
 * Two memory models. EXPLORER_TSO: each thread has a first-in-first-out store buffer of unbounded
 * length that drains at any moment; that is x86. EXPLORER_WEAK: each word keeps the history of its
 * stores, and a load may read any of them that is not older than what the thread is bound to know;
 * acquire, release and fences bind. That is C11 without sequentially consistent accesses, in the
 * operational form of Kang et al. (POPL 2017) without promises; loads that are used as
 * explorer_use() may besides come late, after later relaxed stores, as on ARM.
 */
#ifndef TESTS_MODEL_EXPLORER_H
#define TESTS_MODEL_EXPLORER_H

#include <stdbool.h>
#include <stdint.h>

#define EXPLORER_THREADS 4

enum explorer_memory {
    EXPLORER_TSO,
    EXPLORER_WEAK
};

/*
 * Which operations are steps. EXPLORER_ALL_STEPS: every access to a shared word and every fence.
 * EXPLORER_FEW_STEPS: only those whose moment matters to others, see explorer.c; it comes to the
 * same and reaches farther.
 */
enum explorer_steps {
    EXPLORER_FEW_STEPS,
    EXPLORER_ALL_STEPS
};

/* What is explored. */
struct explorer_scenario {
    const char *name;
    /* Makes the world anew, with seam operations that act on real memory at once. */
    void (*set_up)(void);
    /* The threads; a NULL ends them. */
    void (*threads[EXPLORER_THREADS])(void);
    /* After all threads ended and all stores arrived: loads see the final values, stores are not
     * allowed. May explorer_fail(). NULL: nothing to say. */
    void (*end)(void);
};

struct explorer_report {
    uint64_t states;      /* distinct */
    uint64_t transitions; /* steps taken from a state to the next */
    uint64_t endings;     /* distinct states in which all is over */
    double ways;          /* sequences of steps from the start to an end */
    uint64_t microseconds;
    uint32_t words;    /* shared by at least two threads */
    uint32_t depth;    /* of the longest way */
    bool violated;     /* and then: */
    char message[200]; /* what was claimed and does not hold */
    char *trace;       /* the steps that led there, a line each; to be freed */
};

/* Explores a scenario to the end or to the first violation. */
void explorer_run(const struct explorer_scenario *scenario, enum explorer_memory memory,
                  enum explorer_steps steps, struct explorer_report *report);

/* In set_up: memory that one thread uses for itself and that production code changes. */
void explorer_private(void *memory, uint32_t size);

/* In set_up: what a trace calls a word. */
void explorer_name(const volatile void *word, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* In a thread or in end: what is claimed does not hold. */
void explorer_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * In a thread: from now until the thread's next release store or full fence, whenever it may read
 * the 64-bit word, it must find `expected`: the bytes of an object that it reads in place. Where
 * memory is weak the reading may come as late as the processor likes, so a relaxed store does not
 * end it; under TSO any store does.
 */
void explorer_use(const uint64_t *word, uint64_t expected, const char *what);

/* In a thread: lets the others go on, for as long as they like. */
void explorer_pause(void);

/* In a thread: 0 or 1, both tried. */
uint32_t explorer_choose(void);

/* In a thread: all it did so far comes to `summary`; its history is forgotten. */
void explorer_forget(uint64_t summary);

#endif
