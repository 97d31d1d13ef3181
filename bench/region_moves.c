/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of a region that move while a client at each node reads and writes checksummed records
 * (region_fire.h), and while scripts kill and stop what is below: bench/region-moves-run, and the
 * test tests/system/region_moves.py.
 *
 *   region-moves NAME SEED CHUNKS CHUNK_BYTES SOCKET...
 *
 * It does what lines of its standard input say, and ends with that:
 *
 *   plain        nothing moves
 *   moves N      N chunks more move, wherever they are, to any other node
 *   faults       chunks move without end, and one process more has the lock for as long as it may
 *   avoid RANK   chunks, but the last two, keep away from this node
 *   avoid none
 *   kill-holder  who has the lock is killed, and another one begun
 *   stop-holder  who has it stands still, until others have written under it; then it goes on
 *
 * Again and again it says how far it is, "at N N N N moves N avoided N killed N stopped N lost N":
 * operations that ended well at each node; chunks that moved; whether they keep away; holders that
 * were killed, that stood still, and locks that were handed on before they were let go. At last it
 * says what was found, as one JSON object. Exit 0: all as it should be; 1: it is not; 2: something
 * else.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region_fire.h"

#define SAY_MS      20
#define LINES_BYTES 4096
#define STOP_WRITES 3u /* of others, while who had the lock stands still */

static const char *const mode_names[FIRE_MODES] = {"plain", "moving", "faults"};
static const char *const kind_names[FIRE_KINDS] = {
    "read", "write", "read under a lock", "write under a lock", "lock", "unlock", "move"};

static struct {
    pid_t clients[FIRE_NODES], mover, holder;
    uint32_t holders_begun, killed, stopped, stopped_at;
    bool is_to_die, is_to_stop, is_stopped;
} processes;

static _Noreturn void fail(const char *what, const char *why)
{
    fprintf(stderr, "region-moves: %s: %s\n", what, why);
    exit(2);
}

/* ---- who moves chunks ----------------------------------------------------- */

struct mover {
    nigh_client *client;
    nigh_region *region;
    uint64_t random;
    uint32_t ranks[FIRE_CHUNKS];
    uint32_t number; /* of the move */
};

static void look_where(struct mover *mover)
{
    nigh_region_info info = {.struct_size = sizeof info};

    if (nigh_region_stat(mover->region, FIRE_PATIENCE_US, &info) == NIGH_OK) {
        for (uint32_t n = 0; n < fire->chunks; n++) {
            mover->ranks[n] = info.ranks[n];
        }
    }
}

static nigh_status move(struct mover *mover, uint32_t chunk, uint32_t rank)
{
    uint64_t begun_ns = fire_now_ns();
    nigh_status status;

    atomic_store(&fire->move_begun[chunk], ++mover->number);
    status = nigh_region_move(mover->region, chunk, rank, FIRE_PATIENCE_US);
    atomic_store(&fire->move_ended[chunk], mover->number);
    fire_ended(FIRE_MOVE, status);
    if (status == NIGH_OK) {
        mover->ranks[chunk] = rank;
        atomic_fetch_add(&fire->moves, 1);
        if (atomic_load(&fire->mode) == FIRE_MOVING) {
            fire_time(&fire->move_times, fire_now_ns() - begun_ns);
        }
    } else {
        atomic_store(&fire->pauses[mover->number % FIRE_MOVES], 0);
        fire_breathe(1);
        look_where(mover);
    }
    return status;
}

static bool keeps_away(uint32_t chunk, uint32_t rank)
{
    return rank == atomic_load(&fire->avoid) && chunk + FIRE_LOST < fire->chunks;
}

/* Moves what is where it is not to be; whether there was any. */
static bool move_away(struct mover *mover, nigh_status *status)
{
    for (uint32_t chunk = 0; chunk < fire->chunks; chunk++) {
        if (keeps_away(chunk, mover->ranks[chunk])) {
            *status = move(mover, chunk, (mover->ranks[chunk] + 1) % fire->nodes);
            return true;
        }
    }
    return false;
}

static nigh_status move_any(struct mover *mover)
{
    uint32_t chunk = fire_random(&mover->random, fire->chunks);
    uint32_t rank = fire_random(&mover->random, fire->nodes);
    nigh_status status = NIGH_OK;

    if (move_away(mover, &status)) {
        return status;
    }
    atomic_store(&fire->avoided, atomic_load(&fire->avoid) != FIRE_NO_NODE);
    if (mover->ranks[chunk] == NIGH_REGION_LOST || mover->ranks[chunk] == rank ||
        keeps_away(chunk, rank)) {
        return NIGH_OK;
    }
    return move(mover, chunk, rank);
}

static bool is_to_move(void)
{
    uint32_t mode = atomic_load(&fire->mode);

    return mode == FIRE_FAULTS ||
           (mode == FIRE_MOVING && atomic_load(&fire->moves) < atomic_load(&fire->goal));
}

static void run_mover(uint32_t number)
{
    struct mover mover = {.random = fire->seed ^ 0x5555};
    bool is_open = fire_open(number, NIGH_REGION_ALL, &mover.client, &mover.region);

    look_where(&mover);
    while (is_open && atomic_load(&fire->mode) != FIRE_OVER) {
        if (!is_to_move()) {
            fire_breathe(1);
        } else if (fire_is_of_client(move_any(&mover))) {
            nigh_client_close(mover.client);
            is_open = fire_open(number, NIGH_REGION_ALL, &mover.client, &mover.region);
        }
    }
    if (is_open) {
        nigh_client_close(mover.client);
    }
}

/* ---- processes ------------------------------------------------------------ */

static pid_t start(void (*run)(uint32_t), uint32_t number)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0) {
        fail("fork", strerror(errno));
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(2);
        }
        run(number);
        _exit(0);
    }
    return pid;
}

static void start_holder(void)
{
    processes.holder = start(fire_holder, ++processes.holders_begun);
}

static bool ended_well(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
}

/* Whoever has the lock now may not have it when the signal comes: then it dies, or stands still, as
 * it waits. */
static void see_to_holder(void)
{
    bool holds = atomic_load(&fire->holding) == processes.holder;

    if (processes.is_stopped) {
        uint32_t written = atomic_load(&fire->locked.acknowledged) - processes.stopped_at;

        if (written >= STOP_WRITES) {
            (void)kill(processes.holder, SIGCONT);
            processes.is_stopped = false;
            processes.stopped++;
        }
    } else if (holds && processes.is_to_stop) {
        (void)kill(processes.holder, SIGSTOP);
        processes.stopped_at = atomic_load(&fire->locked.acknowledged);
        processes.is_stopped = true;
        processes.is_to_stop = false;
    } else if (holds && processes.is_to_die) {
        (void)kill(processes.holder, SIGKILL);
        (void)ended_well(processes.holder);
        atomic_store(&fire->holding, 0);
        processes.is_to_die = false;
        processes.killed++;
        start_holder();
    }
}

/* ---- what is said --------------------------------------------------------- */

static void say_progress(void)
{
    printf("at");
    for (uint32_t n = 0; n < fire->nodes; n++) {
        printf(" %" PRIu64, atomic_load(&fire->clients[n].ended_well));
    }
    printf(" moves %" PRIu64 " avoided %" PRIu32 " killed %" PRIu32 " stopped %" PRIu32
           " lost %" PRIu64 "\n",
           atomic_load(&fire->moves), atomic_load(&fire->avoided), processes.killed,
           processes.stopped, atomic_load(&fire->lock_losses));
    (void)fflush(stdout);
}

static void say_times(const char *what, const struct fire_times *times)
{
    printf("\"%s\": {\"count\": %" PRIu64
           ", \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}, ",
           what, atomic_load(&times->count), fire_quantile(times, 0.5) / 1e3,
           fire_quantile(times, 0.99) / 1e3, (double)atomic_load(&times->most) / 1e3);
}

/* Of those moves beside which an operation on their chunk was under way. */
static void say_pauses(void)
{
    static struct fire_times pauses;

    for (uint32_t n = 0; n < FIRE_MOVES; n++) {
        uint64_t ns = atomic_load(&fire->pauses[n]);

        if (ns > 0) {
            fire_time(&pauses, ns);
        }
    }
    say_times("pauses", &pauses);
}

static void say_statuses(uint32_t mode)
{
    bool first_kind = true;

    printf("\"%s\": {", mode_names[mode]);
    for (uint32_t kind = 0; kind < FIRE_KINDS; kind++) {
        bool first = true;

        for (int status = 0; status < FIRE_STATUSES; status++) {
            uint64_t count = atomic_load(&fire->statuses[mode][kind][status]);

            if (count > 0) {
                printf("%s", first && !first_kind ? "}, " : "");
                if (first) {
                    printf("\"%s\": {", kind_names[kind]);
                }
                printf("%s\"%s\": %" PRIu64, first ? "" : ", ",
                       nigh_status_name((nigh_status)-status), count);
                first = first_kind = false;
            }
        }
    }
    printf("%s}", first_kind ? "" : "}");
}

static bool say_all(bool are_well)
{
    uint64_t begun = 0, ended = 0;

    for (uint32_t n = 0; n < fire->nodes; n++) {
        begun += atomic_load(&fire->clients[n].begun);
        ended += atomic_load(&fire->clients[n].ended);
    }
    are_well = are_well && begun == ended && atomic_load(&fire->wrong) == 0 &&
               atomic_load(&fire->stale) == 0 && atomic_load(&fire->twice) == 0 &&
               atomic_load(&fire->undocumented) == 0;
    printf("{\"is_well\": %s, \"seed\": %" PRIu64 ", \"moves\": %" PRIu64 ", \"begun\": %" PRIu64
           ", \"ended\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"lost\": %" PRIu64
           ", \"twice\": %" PRIu64 ", \"undocumented\": %" PRIu64 ", \"torn\": %" PRIu64
           ", \"late\": %" PRIu64 ", \"locked_writes\": %" PRIu32 ", \"locks_lost\": %" PRIu64
           ", \"holders_killed\": %" PRIu32 ", \"holders_stopped\": %" PRIu32 ", ",
           are_well ? "true" : "false", fire->seed, atomic_load(&fire->moves), begun, ended,
           atomic_load(&fire->wrong), atomic_load(&fire->stale), atomic_load(&fire->twice),
           atomic_load(&fire->undocumented), atomic_load(&fire->torn), atomic_load(&fire->late),
           atomic_load(&fire->locked.acknowledged), atomic_load(&fire->lock_losses),
           processes.killed, processes.stopped);
    for (uint32_t mode = 0; mode < FIRE_MODES; mode++) {
        say_times(mode_names[mode], &fire->times[mode]);
    }
    say_times("move", &fire->move_times);
    say_pauses();
    printf("\"statuses\": {");
    for (uint32_t mode = 0; mode < FIRE_MODES; mode++) {
        printf("%s", mode > 0 ? ", " : "");
        say_statuses(mode);
    }
    printf("}}\n");
    return are_well;
}

/* ---- what is asked for ---------------------------------------------------- */

static void carry_out(const char *line)
{
    uint64_t number = 0;
    uint32_t rank = 0;

    if (sscanf(line, "moves %" SCNu64, &number) == 1) {
        atomic_store(&fire->goal, atomic_load(&fire->moves) + number);
        atomic_store(&fire->mode, FIRE_MOVING);
    } else if (sscanf(line, "avoid %" SCNu32, &rank) == 1) {
        atomic_store(&fire->avoid, rank);
        atomic_store(&fire->avoided, 0);
    } else if (strcmp(line, "avoid none") == 0) {
        atomic_store(&fire->avoid, FIRE_NO_NODE);
    } else if (strcmp(line, "plain") == 0) {
        atomic_store(&fire->mode, FIRE_PLAIN);
    } else if (strcmp(line, "faults") == 0) {
        atomic_store(&fire->mode, FIRE_FAULTS);
    } else if (strcmp(line, "kill-holder") == 0) {
        processes.is_to_die = true;
    } else if (strcmp(line, "stop-holder") == 0) {
        processes.is_to_stop = true;
    } else {
        fail("no such line", line);
    }
}

/* Until the end of the input. */
static void do_as_told(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char lines[LINES_BYTES];
    size_t length = 0;
    ssize_t got = 1;

    while (got > 0) {
        char *end;

        if (poll(&input, 1, SAY_MS) > 0) {
            got = read(STDIN_FILENO, lines + length, sizeof lines - 1 - length);
            length += got > 0 ? (size_t)got : 0;
        }
        while ((end = memchr(lines, '\n', length)) != NULL) {
            *end = 0;
            carry_out(lines);
            length -= (size_t)(end + 1 - lines);
            memmove(lines, end + 1, length);
        }
        see_to_holder();
        say_progress();
    }
}

/* ---- all of it ------------------------------------------------------------ */

/* Where members have just changed it may have been made by an earlier try. */
static void create_region(void)
{
    nigh_client_options options = {
        .struct_size = sizeof options, .socket_path = fire->sockets[0], .name = "region-moves"};
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = fire->name,
                             .size = fire_region_bytes(),
                             .chunk_size = fire->chunk_bytes,
                             .where = NIGH_REGION_SPREAD};
    nigh_client *client;
    nigh_region *region;
    nigh_status status;

    if (nigh_client_open(&options, &client) != NIGH_OK) {
        fail(fire->sockets[0], nigh_open_error());
    }
    while ((status = nigh_region_create(client, &spec, FIRE_PATIENCE_US, &region)) ==
               NIGH_NO_QUORUM ||
           status == NIGH_BUSY || status == NIGH_TIMEOUT) {
        fire_breathe(5);
    }
    nigh_client_close(client); /* no child has a part of it */
    if (status != NIGH_OK && status != NIGH_EXISTS) {
        fail("create the region", nigh_status_name(status));
    }
}

static void free_region(void)
{
    nigh_client *client;
    nigh_region *region;

    atomic_store(&fire->mode, FIRE_PLAIN); /* to open it */
    if (fire_open(0, NIGH_REGION_ALL, &client, &region)) {
        (void)nigh_region_free(region, FIRE_PATIENCE_US);
        nigh_client_close(client);
    }
}

static uint64_t number_of(const char *word, uint64_t most)
{
    char *end;

    errno = 0;
    uint64_t value = strtoull(word, &end, 10);

    if (errno != 0 || word[0] < '0' || word[0] > '9' || *end != '\0' || value > most) {
        fail(word, "is no such number");
    }
    return value;
}

static void take_words(int argc, char **argv)
{
    if (argc < 7 || argc > 5 + FIRE_NODES) {
        fail("usage", "region-moves NAME SEED CHUNKS CHUNK_BYTES SOCKET...");
    }
    fire = mmap(NULL, sizeof *fire, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fire == MAP_FAILED) {
        fail("memory", strerror(errno));
    }
    fire->name = argv[1];
    fire->seed = number_of(argv[2], UINT64_MAX);
    fire->chunks = (uint32_t)number_of(argv[3], UINT32_MAX);
    fire->chunk_bytes = number_of(argv[4], UINT64_MAX);
    fire->sockets = argv + 5;
    fire->nodes = (uint32_t)argc - 5;
    fire->avoid = FIRE_NO_NODE;
    if (fire->chunks <= FIRE_LOST || fire->chunks > FIRE_CHUNKS ||
        fire->chunk_bytes * fire->chunks < 4 * FIRE_BYTES * FIRE_SLOTS * fire->nodes) {
        fail("usage", "so many chunks, or so small ones, cannot be");
    }
}

int main(int argc, char **argv)
{
    bool are_well = true;

    take_words(argc, argv);
    create_region();
    for (uint32_t n = 0; n < fire->nodes; n++) {
        processes.clients[n] = start(fire_client, n);
    }
    processes.mover = start(run_mover, 0);
    start_holder();
    do_as_told();
    atomic_store(&fire->mode, FIRE_OVER);
    (void)kill(processes.holder, SIGCONT);
    for (uint32_t n = 0; n < fire->nodes; n++) {
        are_well = ended_well(processes.clients[n]) && are_well;
    }
    are_well = ended_well(processes.mover) && are_well;
    are_well = ended_well(processes.holder) && are_well;
    free_region();
    return say_all(are_well) ? 0 : 1;
}
