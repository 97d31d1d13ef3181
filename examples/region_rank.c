/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region rank: PageRank of a graph, by processes at all nodes. The ranks of all vertices lie in a
 * region that is spread over the nodes; each process has a part of the vertices, reads the ranks of
 * all, and writes those of its own. (LITE-Graph of SOSP'17.)
 *
 *   examples/three-nodes build/release build/release/examples/example-region_rank
 *   example-region_rank [OPTIONS] [SOCKET...]    sockets of nodes; else those of $NIGH_SOCKETS
 *
 *   cc region_rank.c $(pkg-config --cflags --libs nigh) -lm -o example-region_rank
 *
 * The region has the ranks twice: in each iteration one half is read, the other written, and a
 * barrier parts it from the next. The same is computed by one process in its own memory, and the
 * ranks have to be the same.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <nigh/nigh.h>
#include <nigh/region.h>

enum {
    WORKERS_MAX = 64,
    NODES_MAX = 16
};

#define VERTICES_MAX (UINT64_C(1) << 31)
#define EDGES_MAX    (UINT64_C(1) << 33)
#define BLOCK_BYTES  (UINT64_C(1) << 18) /* of one read or write */
#define SECOND_US    UINT64_C(1000000)
#define TIMEOUT_US   (60 * SECOND_US)
#define PATIENCE_S   30.0 /* for a cluster that was just formed */
#define DAMPING      0.85
#define TOLERANCE    1e-9
#define BARRIER      1
#define GRACE_S      10 /* for those who wait to hear that one of them died */

static struct {
    uint64_t vertices, edges, iterations, workers;
    const char *file;
    int json, kill;
    const char *sockets[NODES_MAX];
    uint32_t nodes;
} options = {.vertices = 100000, .edges = 1000000, .iterations = 10, .workers = 3};

/* The graph by where edges go: sources[begin[v]] to sources[begin[v + 1]] are of edges to v. */
static uint64_t *begin;
static uint32_t *sources;
static uint32_t *out; /* edges from a vertex */

static char region_name[NIGH_REGION_NAME_BYTES];

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "region_rank: %s: %s\n", what, why);
    exit(1);
}

static void check(nigh_status status, const char *what)
{
    if (status != NIGH_OK) {
        fail(what, nigh_status_string(status));
    }
}

static void *allocate(uint64_t count, uint64_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);

    if (memory == NULL) {
        fail("memory", strerror(errno));
    }
    return memory;
}

/* ---- the graph ------------------------------------------------------------ */

struct edge {
    uint32_t from, to;
};

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

/* R-MAT (Chakrabarti, Zhan, Faloutsos, 2004): a few vertices have most of the edges. */
static struct edge draw_edge(uint64_t *seed)
{
    uint64_t from = 0, to = 0;

    for (uint64_t side = 1; side < options.vertices; side *= 2) {
        uint64_t part = draw(seed) >> 32 & 0xffff;

        from = from * 2 + (part >= 49807);                                /* 0.76 */
        to = to * 2 + ((part >= 37356 && part < 49807) || part >= 62259); /* 0.57, 0.19 */
    }
    return (struct edge){.from = (uint32_t)(from % options.vertices),
                         .to = (uint32_t)(to % options.vertices)};
}

static struct edge *make_edges(void)
{
    struct edge *edges = allocate(options.edges, sizeof *edges);
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

    for (uint64_t n = 0; n < options.edges; n++) {
        edges[n] = draw_edge(&seed);
    }
    return edges;
}

/* A line of two vertices, and nothing else. */
static bool read_edge(const char *line, struct edge *edge)
{
    uint64_t from, to;
    int end = 0;

    if (sscanf(line, "%" SCNu64 " %" SCNu64 " %n", &from, &to, &end) != 2 || line[end] != 0 ||
        from >= VERTICES_MAX || to >= VERTICES_MAX) {
        return false;
    }
    *edge = (struct edge){(uint32_t)from, (uint32_t)to};
    return true;
}

/* Lines of two numbers, "from to"; what is empty, or begins with #, is not looked at. */
static struct edge *read_edges(void)
{
    FILE *file = fopen(options.file, "r");
    uint64_t room = 1024, count = 0, most = 0;
    struct edge *edges = allocate(room, sizeof *edges);
    size_t line_room = 0;
    char *line = NULL;

    if (file == NULL) {
        fail(options.file, strerror(errno));
    }
    while (getline(&line, &line_room, file) >= 0) {
        if (line[0] == '#' || line[strspn(line, " \t\r\n")] == 0) {
            continue;
        }
        if (count == EDGES_MAX) {
            fail(options.file, "there are too many edges");
        }
        if (count == room) {
            room *= 2;
            edges = realloc(edges, room * sizeof *edges);
            if (edges == NULL) {
                fail("memory", strerror(errno));
            }
        }
        if (!read_edge(line, &edges[count])) {
            fail(options.file, "a line is not of two vertices");
        }
        most = edges[count].from > most ? edges[count].from : most;
        most = edges[count].to > most ? edges[count].to : most;
        count++;
    }
    if (ferror(file)) {
        fail(options.file, strerror(errno));
    }
    free(line);
    fclose(file);
    if (count == 0) {
        fail(options.file, "there are no edges");
    }
    options.edges = count;
    options.vertices = most + 1;
    return edges;
}

static void make_graph(void)
{
    struct edge *edges = options.file != NULL ? read_edges() : make_edges();
    uint64_t *at;

    begin = allocate(options.vertices + 1, sizeof *begin);
    sources = allocate(options.edges, sizeof *sources);
    out = allocate(options.vertices, sizeof *out);
    for (uint64_t n = 0; n < options.edges; n++) {
        begin[edges[n].to + 1]++;
        out[edges[n].from]++;
    }
    for (uint64_t v = 0; v < options.vertices; v++) {
        begin[v + 1] += begin[v];
    }
    at = allocate(options.vertices, sizeof *at);
    memcpy(at, begin, options.vertices * sizeof *at);
    for (uint64_t n = 0; n < options.edges; n++) {
        sources[at[edges[n].to]++] = edges[n].from;
    }
    free(at);
    free(edges);
}

/* Of vertices from `from` to `to`; what has no edges out gives to all. */
static void rank_some(const double *ranks, double *next, uint64_t from, uint64_t to)
{
    double idle = 0, base;

    for (uint64_t v = 0; v < options.vertices; v++) {
        idle += out[v] == 0 ? ranks[v] : 0;
    }
    base = (1 - DAMPING + DAMPING * idle) / (double)options.vertices;
    for (uint64_t v = from; v < to; v++) {
        double sum = 0;

        for (uint64_t n = begin[v]; n < begin[v + 1]; n++) {
            sum += ranks[sources[n]] / out[sources[n]];
        }
        next[v] = base + DAMPING * sum;
    }
}

/* ---- the region ----------------------------------------------------------- */

static nigh_client *open_client(uint64_t node)
{
    nigh_client_options client_options = {.struct_size = sizeof client_options,
                                          .socket_path = options.sockets[node],
                                          .name = "region_rank"};
    nigh_client *client;

    if (nigh_client_open(&client_options, &client) != NIGH_OK) {
        fail(options.sockets[node], nigh_open_error());
    }
    return client;
}

/* The members have not agreed yet on who is there. */
static bool may_pass(nigh_status status, double begin_s)
{
    bool passes = (status == NIGH_NO_QUORUM || status == NIGH_BUSY || status == NIGH_TIMEOUT) &&
                  now_s() - begin_s < PATIENCE_S;

    if (passes) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return passes;
}

static nigh_region *open_ranks(nigh_client *client)
{
    double begin_s = now_s();
    nigh_region *region;
    nigh_status status;

    do {
        status = nigh_region_open(client, region_name, NIGH_REGION_ALL, TIMEOUT_US, &region);
    } while (may_pass(status, begin_s));
    check(status, "open the region");
    return region;
}

static void create_ranks(void)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = region_name,
                             .size = 2 * options.vertices * sizeof(double),
                             .where = NIGH_REGION_SPREAD};
    nigh_client *client = open_client(0);
    double begin_s = now_s();
    nigh_region *region;
    nigh_status status;

    snprintf(region_name, sizeof region_name, "ranks-%ld-%.9f", (long)getpid(), begin_s);
    do {
        status = nigh_region_create(client, &spec, TIMEOUT_US, &region);
    } while (may_pass(status, begin_s));
    if (status != NIGH_EXISTS) { /* by a try of which this was not known */
        check(status, "create the region");
        nigh_region_close(region);
    }
    nigh_client_close(client); /* no child has a part of it */
}

/* A process's way to the region: bytes pass through memory that its node reads and writes. */
struct way {
    nigh_client *client;
    nigh_region *region;
    nigh_bulk *bulk;
    void *block;
};

static struct way open_way(uint64_t node)
{
    struct way way = {.client = open_client(node)};

    way.region = open_ranks(way.client);
    check(nigh_bulk_alloc(way.client, BLOCK_BYTES, NIGH_BULK_READ | NIGH_BULK_WRITE, &way.block,
                          &way.bulk),
          "memory of the node");
    return way;
}

static void close_way(struct way *way)
{
    nigh_region_close(way->region);
    (void)nigh_bulk_close(way->bulk, TIMEOUT_US);
    nigh_client_close(way->client);
}

static uint64_t offset_of(uint64_t iteration, uint64_t vertex)
{
    return (iteration % 2 * options.vertices + vertex) * sizeof(double);
}

/* A node that has no lease for a moment, as others take longer to say that it is there, says so at
 * once: of an atomic nothing was done, and bytes may be moved again. */
static bool is_to_try_again(nigh_status status, const char *what, double begin_s)
{
    if (status == NIGH_NO_QUORUM && now_s() - begin_s < PATIENCE_S) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        return true;
    }
    check(status, what);
    return false;
}

static void move_ranks(const struct way *way, uint64_t iteration, double *ranks, uint64_t from,
                       uint64_t to, bool writes)
{
    uint64_t most = BLOCK_BYTES / sizeof(double);

    for (uint64_t v = from; v < to; v += most) {
        nigh_bulk_part part = {.bulk = way->bulk,
                               .size = (to - v < most ? to - v : most) * sizeof(double)};

        uint64_t at = offset_of(iteration, v);
        double begin_s = now_s();
        nigh_status status;

        if (writes) {
            memcpy(way->block, ranks + v, part.size);
        }
        do {
            status = writes ? nigh_region_write_from(way->region, at, &part, TIMEOUT_US)
                            : nigh_region_read_into(way->region, at, &part, TIMEOUT_US);
        } while (is_to_try_again(status, writes ? "write ranks" : "read ranks", begin_s));
        if (!writes) {
            memcpy(ranks + v, way->block, part.size);
        }
    }
}

/* Whose process or node dies is waited for by nobody. */
static void meet(const struct way *way)
{
    uint32_t parties = (uint32_t)options.workers;
    double begin_s = now_s();
    nigh_status status;

    do {
        status = nigh_region_barrier(way->region, BARRIER, parties, TIMEOUT_US);
        if (status == NIGH_PEER_LOST) {
            fail("wait for the others", "one of them died");
        }
    } while (is_to_try_again(status, "wait for the others", begin_s));
}

/* ---- workers -------------------------------------------------------------- */

/* The vertex that a worker's part begins with; edges are what takes the time. */
static uint64_t first_of(uint64_t worker)
{
    uint64_t edge = options.edges / options.workers * worker, low = 0, high = options.vertices;

    while (worker < options.workers && low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (begin[middle] < edge) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return worker == 0 ? 0 : worker == options.workers ? options.vertices : low;
}

static void run_worker(uint64_t worker)
{
    struct way way = open_way(worker % options.nodes);
    uint64_t from = first_of(worker), to = first_of(worker + 1);
    double *ranks = allocate(options.vertices, sizeof *ranks);
    double *next = allocate(options.vertices, sizeof *next);

    for (uint64_t v = from; v < to; v++) {
        next[v] = 1.0 / (double)options.vertices;
    }
    move_ranks(&way, 0, next, from, to, true);
    for (uint64_t n = 0; n < options.iterations; n++) {
        meet(&way); /* all have written this, and read what is written next */
        move_ranks(&way, n, ranks, 0, options.vertices, false);
        if (options.kill && worker == options.workers - 1) {
            raise(SIGKILL);
        }
        rank_some(ranks, next, from, to);
        move_ranks(&way, n + 1, next, from, to, true);
    }
    meet(&way); /* nobody ends while another waits for it */
    free(ranks);
    free(next);
    close_way(&way);
}

static void start(uint64_t worker)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0) {
        fail("fork", strerror(errno));
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        run_worker(worker);
        _exit(0);
    }
}

/* Of one that dies the others hear at their next barrier, if it ever came to one; else this process
 * ends, and they with it. */
static void run_workers(void)
{
    for (uint64_t n = 0; n < options.workers; n++) {
        start(n);
    }
    for (uint64_t n = 0; n < options.workers; n++) {
        int status = 0;

        while (wait(&status) < 0 && errno == EINTR) {
        }
        if (status != 0) {
            nanosleep(&(struct timespec){.tv_sec = GRACE_S}, NULL);
            fail("a worker", "did not end well");
        }
    }
}

/* ---- the same, alone ------------------------------------------------------ */

static double *rank_alone(void)
{
    double *ranks = allocate(options.vertices, sizeof *ranks);
    double *next = allocate(options.vertices, sizeof *next);

    for (uint64_t v = 0; v < options.vertices; v++) {
        ranks[v] = 1.0 / (double)options.vertices;
    }
    for (uint64_t n = 0; n < options.iterations; n++) {
        double *before = ranks;

        rank_some(ranks, next, 0, options.vertices);
        ranks = next;
        next = before;
    }
    free(next);
    return ranks;
}

/* What is in the region, which goes. */
static double *take_ranks(void)
{
    double *ranks = allocate(options.vertices, sizeof *ranks);
    struct way way = open_way(0);

    move_ranks(&way, options.iterations, ranks, 0, options.vertices, false);
    check(nigh_region_free(way.region, TIMEOUT_US), "free the region");
    close_way(&way);
    return ranks;
}

/* All ranks are 1 together, if none is lost on its way. */
static double sum_of(const double *ranks)
{
    double sum = 0;

    for (uint64_t v = 0; v < options.vertices; v++) {
        sum += ranks[v];
    }
    return sum;
}

/* Of all their bits: each sum is made in the same order, so they are the same to the last one. */
static uint64_t digest_of(const double *ranks)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);

    for (uint64_t v = 0; v < options.vertices; v++) {
        uint64_t bits;

        memcpy(&bits, &ranks[v], sizeof bits);
        digest = (digest ^ bits) * UINT64_C(0x100000001b3);
        digest ^= digest >> 29;
    }
    return digest;
}

static double largest_difference(const double *one, const double *other)
{
    double most = 0;

    for (uint64_t v = 0; v < options.vertices; v++) {
        most = fmax(most, fabs(one[v] - other[v]));
    }
    return most;
}

/* ---- words of the command line -------------------------------------------- */

static void usage(FILE *to)
{
    fprintf(to,
            "usage: example-region_rank [OPTIONS] [SOCKET...]\n"
            "PageRank of a graph by processes at all nodes, whose ranks lie in a region; compared\n"
            "with one process's.\n"
            "SOCKET: of a node, up to %d; none: those of $NIGH_SOCKETS (examples/three-nodes).\n"
            "  --vertices N    of a graph that is made up (default 100000)\n"
            "  --edges N       of it (default 1000000)\n"
            "  --graph FILE    or of lines \"from to\", numbers from 0 on\n"
            "  --iterations N  (default 10; 1 to 1000)\n"
            "  --workers N     processes (default 3; 1 to %d)\n"
            "  --kill          the last worker dies in the first iteration: the others say so\n"
            "  --json          one JSON object\n"
            "Exit status: 0: the ranks are the same; 1: they are not, or something failed; 2: "
            "usage.\n",
            NODES_MAX, WORKERS_MAX);
}

static void refuse(const char *why, const char *word)
{
    fprintf(stderr, "region_rank: %s%s (--help says more)\n", why, word);
    exit(2);
}

static uint64_t number_of(const char *word, uint64_t least, uint64_t most)
{
    char *end;

    errno = 0;
    uint64_t value = strtoull(word, &end, 10);

    if (errno != 0 || word[0] < '0' || word[0] > '9' || *end != 0 || value < least ||
        value > most) {
        refuse("no such number here: ", word);
    }
    return value;
}

static void add_socket(const char *path)
{
    if (options.nodes == NODES_MAX) {
        refuse("too many sockets: ", path);
    }
    options.sockets[options.nodes++] = path;
}

static void take_sockets(char **words, int count)
{
    char *list = getenv("NIGH_SOCKETS");

    for (int i = 0; i < count; i++) {
        add_socket(words[i]);
    }
    if (count == 0 && list != NULL) {
        for (char *word = strtok(list, " "); word != NULL; word = strtok(NULL, " ")) {
            add_socket(word);
        }
    }
    if (options.nodes == 0) {
        refuse("no socket of a node is given, nor $NIGH_SOCKETS", "");
    }
}

static void take_options(int argc, char **argv)
{
    const struct option known[] = {{"vertices", required_argument, NULL, 'v'},
                                   {"edges", required_argument, NULL, 'e'},
                                   {"graph", required_argument, NULL, 'g'},
                                   {"iterations", required_argument, NULL, 'i'},
                                   {"workers", required_argument, NULL, 'w'},
                                   {"help", no_argument, NULL, 'h'},
                                   {"json", no_argument, &options.json, 1},
                                   {"kill", no_argument, &options.kill, 1},
                                   {0}};
    bool is_made = false;
    int found;

    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (found) {
        case 0: break;
        case 'v':
            options.vertices = number_of(optarg, 1, VERTICES_MAX);
            is_made = true;
            break;
        case 'e':
            options.edges = number_of(optarg, 1, EDGES_MAX);
            is_made = true;
            break;
        case 'g': options.file = optarg; break;
        case 'i': options.iterations = number_of(optarg, 1, 1000); break;
        case 'w': options.workers = number_of(optarg, 1, WORKERS_MAX); break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (is_made && options.file != NULL) {
        refuse("--vertices and --edges are of a graph that is made up, not of --graph ",
               options.file);
    }
    take_sockets(argv + optind, argc - optind);
}

static void report(double together_s, double alone_s, double difference, const uint64_t digests[2])
{
    printf(options.json
               ? "{\"vertices\": %" PRIu64 ", \"edges\": %" PRIu64 ", \"iterations\": %" PRIu64
                 ", \"workers\": %" PRIu64 ", \"nodes\": %" PRIu32
                 ", \"together_s\": %.3f, \"alone_s\": %.3f, \"difference\": %.3g"
                 ", \"digest\": \"%016" PRIx64 "\", \"alone_digest\": \"%016" PRIx64 "\"}\n"
               : "%" PRIu64 " vertices, %" PRIu64 " edges, %" PRIu64 " iterations: %" PRIu64
                 " processes at %" PRIu32 " nodes %.3f s, one process alone %.3f s; the ranks "
                 "differ by %.3g at most\n",
           options.vertices, options.edges, options.iterations, options.workers, options.nodes,
           together_s, alone_s, difference, digests[0], digests[1]);
}

int main(int argc, char **argv)
{
    double begin_s, together_s, alone_s, difference;
    double *together, *alone;

    take_options(argc, argv);
    make_graph();
    create_ranks();
    begin_s = now_s();
    run_workers();
    together_s = now_s() - begin_s;
    together = take_ranks();
    begin_s = now_s();
    alone = rank_alone();
    alone_s = now_s() - begin_s;
    difference = largest_difference(together, alone);
    report(together_s, alone_s, difference, (uint64_t[]){digest_of(together), digest_of(alone)});
    if (!(difference <= TOLERANCE)) {
        fail("the ranks", "are not the same");
    }
    if (!(fabs(sum_of(together) - 1) <= 1e-6)) {
        fail("the ranks", "are not 1 together");
    }
    free(together);
    free(alone);
    free(begin);
    free(sources);
    free(out);
    return 0;
}
