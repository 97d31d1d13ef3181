/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the explorer's two halves share: explorer.c searches, explorer_memory.c is the memory that
 * the threads see. For these two files only.
 */
#ifndef TESTS_MODEL_EXPLORER_MACHINE_H
#define TESTS_MODEL_EXPLORER_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "explorer.h"
#include "memory/shared.h"

#define WORDS    256 /* that a scenario touches */
#define SHARED   48  /* of them, by more than one thread */
#define MESSAGES 192 /* stores to shared words in one execution */
#define BUFFERED 48  /* stores in one thread's buffer */
#define WATCHES  4   /* explorer_use at a time, a thread */
#define LOGGED   4096
#define NOBODY   UINT32_MAX
#define NO_WORD  UINT32_MAX

enum operation_kind {
    OPERATION_LOAD,
    OPERATION_STORE,
    OPERATION_FENCE,
    OPERATION_COMPARE_EXCHANGE,
    OPERATION_EXCHANGE,
    OPERATION_ADD,
    OPERATION_PAUSE,
    OPERATION_CHOOSE,
    OPERATION_FLUSH, /* a choice only: the oldest buffered store arrives */
    OPERATION_USE    /* in the log only */
};

struct operation {
    enum operation_kind kind;
    uint32_t word;
    enum seam_order order;
    uint64_t value;
    uint64_t expected;
};

/* What a thread is bound to know: for each shared word the oldest store that it may still read. */
struct view {
    uint8_t at[SHARED];
};

/* A store to a shared word, in weak memory. */
struct message {
    uint64_t value;
    uint8_t word;
    uint8_t time; /* among the stores to the word; 0 would be the initial value */
    struct view view;
};

/* explorer_use. */
struct watch {
    uint64_t expected;
    const char *what;
    uint8_t word;
};

struct buffered {
    uint64_t value;
    uint8_t word;
};

struct thread {
    jmp_buf context;
    uint8_t *stack_low;
    bool started;
    bool finished;
    struct operation pending;
    uint64_t result;
    uint64_t history; /* hash of what it loaded and was told */
    struct watch watches[WATCHES];
    uint32_t watch_count;
    struct buffered buffer[BUFFERED]; /* TSO */
    uint32_t buffer_count;
    struct view current, acquired, released; /* weak */
};

struct state {
    struct thread threads[EXPLORER_THREADS];
    /* The last value of each word less its initial one: so a word that is met late is right in
     * states that were saved before. */
    uint64_t changes[WORDS];
    uint8_t last[SHARED]; /* weak: time of the last store */
    struct view fences;   /* weak: what full fences have in common */
    uint32_t log_count;
    uint32_t message_count;
    struct message messages[MESSAGES];
};

struct word {
    const volatile void *address;
    uint32_t size;
    uint32_t readers; /* bits of threads, ever */
    uint32_t writers;
    uint32_t shared; /* its number among the shared, or NO_WORD */
    uint64_t initial;
    char name[32];
};

struct logged {
    struct operation operation;
    uint64_t result;
    uint8_t thread;
    bool stale; /* weak: a newer store was there */
};

struct machine {
    enum explorer_memory memory;
    enum explorer_steps steps;
    uint32_t thread_count;
    uint32_t running; /* the thread whose operation is carried out, or NOBODY */
    bool inside;      /* its own code runs */
    bool exploring;   /* operations are simulated */
    bool abandoned;   /* this pass: a word turned out to be shared */
    bool violated;
    char message[200];
    struct word words[WORDS];
    uint32_t word_count;
    uint32_t shared_count;
    uint8_t word_of_shared[SHARED];
    struct state state;
    struct logged log[LOGGED];
};

extern struct machine machine;

/* A way to go on. */
struct choice {
    uint8_t thread;
    enum operation_kind kind;
    uint32_t pick; /* LOAD: the time of the store to read; CHOOSE: the answer */
};

/* Hands an operation of the running thread to the search; returns its result. */
uint64_t machine_perform(enum operation_kind kind, uint32_t word, enum seam_order order,
                         uint64_t value, uint64_t expected);
/* Gives up this pass, from a thread; does not return. */
_Noreturn void machine_abandon(void);

/* Forgets everything. */
void memory_reset(void);
/* Takes the words' real contents as initial and starts to simulate. */
void memory_begin(void);
/* The hash of the state, the same for states that cannot be told apart. */
uint64_t memory_hash(void);
/* All ways to go on. */
uint32_t memory_choices(struct choice *choices, uint32_t room);
/* Goes one; true when the thread is to be resumed. */
bool memory_apply(const struct choice *choice);
/* The running thread returned. */
void memory_thread_ends(void);
/* The log as text. */
char *memory_trace(void);

#endif
