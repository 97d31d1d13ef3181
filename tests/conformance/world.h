/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the conformance tests see of a provider: some fabrics in one process, the ends of their
 * endpoints with everything that was completed on them, memory to send and receive, and progress
 * until a condition holds, within a bound.
 *
 * The tests are written against fabric.h and know no provider; world_tcp.c and world_sim.c say how
 * one is made, how its time goes on, and in which variants the tests are run over it. All of a
 * world is driven by the test's own thread, unless a fabric is asleep: then nobody drives it.
 */
#ifndef TESTS_CONFORMANCE_WORLD_H
#define TESTS_CONFORMANCE_WORLD_H

#include "support/support.h"

#include "fabric/fabric.h"

#define WORLD_FABRICS  8
#define WORLD_ENDS     64
#define WORLD_AREAS    64
#define WORLD_REQUESTS 64
#define WORLD_LOG      4096 /* completions kept of one end */

/* The two fabrics that every world begins with. */
#define ALICE 0u
#define BOB   1u

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

#define ALL_RIGHTS \
    (FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC)

struct world;

/* A provider, and how the tests run over it. One is linked to each test program. */
struct world_provider {
    uint32_t variants;
    const char *const *variant_names;
    bool threads;                 /* fabrics may be driven by a thread each */
    bool sleeps;                  /* there is a descriptor to sleep on */
    bool ends;                    /* go_on knows when nothing will ever happen */
    const char *(*missing)(void); /* what this machine lacks for it; NULL: nothing ever */
    void (*open)(struct world *world);
    void (*close)(struct world *world);
    nigh_status (*fabric)(struct world *world, uint32_t node, uint32_t lane,
                          struct fabric **fabric);
    void (*listen_address)(uint32_t node, uint32_t lane, char address[FABRIC_ADDRESS_BYTES]);
    uint64_t (*now_us)(struct world *world);
    /* Time goes on: as it does by itself, or up to a moment at once. False: nothing will happen. */
    bool (*go_on)(struct world *world);
    void (*go_to)(struct world *world, uint64_t until_us);
    /* ALICE and BOB hear nothing of each other any more; NULL: cannot be done. */
    void (*cut)(struct world *world);
};

extern const struct world_provider world_provider;

/* Memory of a fabric, with bytes of nobody before and behind it that must stay as they are. */
struct world_area {
    struct world *world;
    uint32_t fabric;
    uint8_t *block;
    uint8_t *bytes; /* aligned to 4096 */
    uint64_t size;
    struct fabric_memory *memory; /* NULL: not registered (any more) */
};

/* An endpoint as its owner sees it. It stays readable after end_destroy. */
struct world_end {
    struct world *world;
    uint32_t fabric;
    struct fabric_endpoint *endpoint;   /* NULL: destroyed */
    uint32_t established, disconnected; /* events of each kind */
    nigh_status status;                 /* of DISCONNECTED */
    uint32_t private_bytes;             /* of ESTABLISHED */
    uint8_t private_data[FABRIC_PRIVATE_BYTES];
    struct fabric_completion *log;
    uint32_t logged;
};

struct world_request {
    uint32_t fabric;
    struct fabric_endpoint *endpoint;
    uint32_t private_bytes;
    uint8_t private_data[FABRIC_PRIVATE_BYTES];
    bool taken;
    bool disconnected;
    nigh_status status;
};

struct world {
    uint32_t variant;
    void *own; /* the provider's */
    uint32_t fabric_count;
    struct fabric *fabrics[WORLD_FABRICS];
    char addresses[WORLD_FABRICS][FABRIC_ADDRESS_BYTES];
    bool asleep[WORLD_FABRICS]; /* not polled */
    uint32_t poll_count;        /* completions taken at once */
    struct world_end *ends[WORLD_ENDS];
    uint32_t end_count;
    struct world_area *areas[WORLD_AREAS];
    uint32_t area_count;
    struct world_request requests[WORLD_REQUESTS];
    uint32_t request_count;
    uint32_t strays;     /* completions and events of endpoints that are destroyed or unknown */
    uint64_t seen;       /* completions and events taken */
    uint64_t polls;      /* rounds of world_step */
    uint64_t skew_us;    /* world_tcp.c: how far the clock was put forward */
    uint64_t turn_bytes; /* payload of one endpoint in one poll, at most */
};

/* cmocka's set-up and teardown: *state points to a variant's number, then to the world. Two fabrics
 * of two nodes, both listening. The teardown fails when something came that nobody waited for. */
int world_setup(void **state);
int world_teardown(void **state);

/* One more fabric, listening; returns its number. */
uint32_t world_add(struct world *world, uint32_t node, uint32_t lane);

/* Whether the provider does what this bit of fabric_caps.ops says. When it does not, that is
 * printed, and the posts that need it have to be refused (F67). */
bool world_can(struct world *world, uint32_t op);

/* Whether posts act while nobody does anything: in real time, by the device's own doing. */
bool world_acts_by_itself(const struct world *world);

/* An address where nobody listens. */
void world_nowhere(struct world *world, char address[FABRIC_ADDRESS_BYTES]);

/* Ends a fabric before the world does. */
void world_drop(struct world *world, uint32_t fabric);

/* ---- progress ---- */

struct world_bound {
    uint64_t polls_left;
    uint64_t end_us; /* of the real clock */
    uint32_t idle;
};

struct world_bound world_bound_start(void);

/* Time goes on a little and every fabric that is awake is polled once. False: the bound is
 * reached, or nothing will ever happen. */
bool world_step(struct world *world, struct world_bound *bound);

/* Polls one fabric, and takes what there is. */
void world_poll(struct world *world, uint32_t fabric);

/* `steps` rounds, fewer when nothing will ever happen. */
void world_steps(struct world *world, uint32_t steps);

/* Lets so much of the world's time pass, in small pieces. */
void world_pass(struct world *world, uint64_t duration_us);

/* Progress until the condition holds; its value is whether it did within the bound. */
#define WORLD_UNTIL(world, condition)                                \
    ({                                                               \
        struct world_bound bound_ = world_bound_start();             \
        bool held_;                                                  \
        while (!(held_ = (condition)) && world_step(world, &bound_)) \
            ;                                                        \
        held_ || (condition);                                        \
    })

#define assert_comes(world, condition) assert_true(WORLD_UNTIL(world, condition))

/* ---- memory ---- */

/* Registered with `rights`, filled with zeros. */
struct world_area *world_area(struct world *world, uint32_t fabric, uint64_t size, uint32_t rights);

/* Filled with what follows from `seed`: no two seeds agree in many bytes. */
void area_fill(struct world_area *area, uint64_t offset, uint64_t bytes, uint64_t seed);
bool area_holds(const struct world_area *area, uint64_t offset, uint64_t bytes, uint64_t seed);
bool area_is(const struct world_area *area, uint64_t offset, uint64_t bytes, uint8_t value);

void area_deregister(struct world_area *area);

struct fabric_slice area_slice(const struct world_area *area, uint64_t offset, uint64_t bytes);
struct fabric_remote area_remote(const struct world_area *area, uint64_t offset);

uint64_t area_u64(const struct world_area *area, uint64_t offset);

/* ---- ends ---- */

/* An end without an endpoint. */
struct world_end *world_end(struct world *world, uint32_t fabric);

/* The end's own context and these depths. */
struct fabric_endpoint_options end_options(struct world_end *end, uint32_t sends,
                                           uint32_t receives);

/* Dials; fails the test unless that begins. */
struct world_end *world_dial(struct world *world, uint32_t from, const char *address,
                             const void *private_data, uint32_t private_bytes);

/* The next request at a fabric, waited for; fails the test when none comes. */
struct world_request *world_next_request(struct world *world, uint32_t fabric);

struct world_end *world_accept(struct world *world, struct world_request *request,
                               const void *private_data, uint32_t private_bytes);

/* Two connected ends; depths are for both. */
void world_join(struct world *world, uint32_t from, uint32_t to, struct world_end **at_from,
                struct world_end **at_to);
void world_join_deep(struct world *world, uint32_t from, uint32_t to, uint32_t depth,
                     struct world_end **at_from, struct world_end **at_to);

void end_disconnect(struct world_end *end);
void end_destroy(struct world_end *end);

/* One work, or one receive; the status is fabric_post's. */
nigh_status end_post(struct world_end *end, const struct fabric_work *work);
/* A signalled atomic, whose old value goes to `offset` of `here`. */
nigh_status end_post_atomic(struct world_end *end, enum fabric_op op, uint64_t tag,
                            const struct world_area *here, uint64_t offset,
                            struct fabric_remote remote, uint64_t operand, uint64_t compare);
nigh_status end_post_receive(struct world_end *end, uint64_t tag, struct fabric_slice slice);

/* The same, and fail the test unless it is taken. All signalled. */
void end_receive(struct world_end *end, uint64_t tag, const struct world_area *area,
                 uint64_t offset, uint64_t bytes);
void end_send(struct world_end *end, uint64_t tag, const struct world_area *area, uint64_t offset,
              uint64_t bytes);
void end_read(struct world_end *end, uint64_t tag, const struct world_area *area, uint64_t offset,
              struct fabric_remote remote, uint64_t bytes);
void end_write(struct world_end *end, uint64_t tag, const struct world_area *area, uint64_t offset,
               struct fabric_remote remote, uint64_t bytes);

/* How many posts (receives) of this tag completed so far, and the first of them or NULL. */
uint32_t end_count(const struct world_end *end, uint64_t tag);
uint32_t end_count_receives(const struct world_end *end, uint64_t tag);
const struct fabric_completion *end_find(const struct world_end *end, uint64_t tag);
const struct fabric_completion *end_find_receive(const struct world_end *end, uint64_t tag);

/* Waits for the completion of the post (receive), which must come once, and gives its status. */
nigh_status end_wait(struct world_end *end, uint64_t tag);
nigh_status end_wait_receive(struct world_end *end, uint64_t tag);

/* A post that fails at the target: waits until it completed with `status`, and both ends failed. */
void end_wait_refused(struct world_end *end, struct world_end *peer, uint64_t tag,
                      nigh_status status);

/* ---- lists of tests ---- */

struct world_tests {
    const struct CMUnitTest *tests;
    size_t count;
};

#define WORLD_TEST(function)                                   \
    {                                                          \
#function, function, world_setup, world_teardown, NULL \
    }

extern const struct world_tests connect_tests, message_tests, onesided_tests, atomic_tests,
    post_tests, refusal_tests, failure_tests, destroy_tests, stock_tests, progress_tests,
    words_tests, loop_tests;

/* For providers with a descriptor; whose fabrics may have a thread each; that can be cut. */
extern const struct world_tests sleep_tests, thread_tests, words_thread_tests, cut_tests;

#endif
