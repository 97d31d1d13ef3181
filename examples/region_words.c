/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region words: how often each word is in a text, by processes at all nodes. The text lies in a
 * region that is spread over the nodes, and so does what mappers have for reducers, and what these
 * have found. (LITE-MR of SOSP'17.)
 *
 *   examples/three-nodes build/release build/release/examples/example-region_words
 *   example-region_words [OPTIONS] [SOCKET...]    sockets of nodes; else those of $NIGH_SOCKETS
 *
 *   cc region_words.c $(pkg-config --cflags --libs nigh) -o example-region_words
 *
 * A worker maps its part of the text: it counts the words that begin there, in as many heaps as
 * there are workers, by the words' hashes. How large each is it says in the plan, a region of its
 * own, by which the first process makes the region of the heaps and says where each goes. When all
 * heaps are written a worker reduces those of its hashes to one. The first process reads these, and
 * compares them with what one process counts in its own memory: they are the same, word by word.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nigh/nigh.h>
#include <nigh/region.h>

enum {
    WORKERS_MAX = 64,
    NODES_MAX = 16,
    WORD_MAX = 64 /* of a word; what is longer is taken for its first bytes */
};

#define TEXT_MAX    (UINT64_C(1) << 36)
#define BLOCK_BYTES (UINT64_C(1) << 18) /* of one read or write */
#define VOCABULARY  50000u              /* words of a text that is made up */
#define SECOND_US   UINT64_C(1000000)
#define TIMEOUT_US  (120 * SECOND_US)
#define PATIENCE_S  30.0 /* for a cluster that was just formed */
#define BARRIER     1
#define GRACE_S     10 /* for those who wait to hear that one of them died */

static struct {
    uint64_t bytes, workers;
    const char *file;
    int json, kill;
    const char *sockets[NODES_MAX];
    uint32_t nodes;
} options = {.bytes = 16 << 20, .workers = 3};

static char *text; /* of the first process, which is forked before it is there */
static char base_name[32];

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "region_words: %s: %s\n", what, why);
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

/* ---- counts --------------------------------------------------------------- */

struct count {
    uint64_t times;
    uint8_t length; /* 0: nobody's */
    char word[WORD_MAX];
};

/* By hash, with linear probing; at most half full. */
struct counts {
    struct count *places;
    uint64_t room, used;
};

static uint64_t hash_of(const char *word, uint64_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (uint64_t n = 0; n < length; n++) {
        hash = (hash ^ (uint8_t)word[n]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

static struct counts make_counts(void)
{
    return (struct counts){.places = allocate(1024, sizeof(struct count)), .room = 1024};
}

static struct count *place_of(const struct counts *counts, const char *word, uint64_t length)
{
    uint64_t at = hash_of(word, length) & (counts->room - 1);

    while (counts->places[at].length != 0 && (counts->places[at].length != length ||
                                              memcmp(counts->places[at].word, word, length) != 0)) {
        at = (at + 1) & (counts->room - 1);
    }
    return &counts->places[at];
}

static void grow(struct counts *counts)
{
    struct counts more = {.room = 2 * counts->room, .used = counts->used};

    more.places = allocate(more.room, sizeof(struct count));
    for (uint64_t n = 0; n < counts->room; n++) {
        const struct count *count = &counts->places[n];

        if (count->length != 0) {
            *place_of(&more, count->word, count->length) = *count;
        }
    }
    free(counts->places);
    *counts = more;
}

static void add(struct counts *counts, const char *word, uint64_t length, uint64_t times)
{
    struct count *count;

    if (2 * counts->used >= counts->room) {
        grow(counts);
    }
    count = place_of(counts, word, length);
    if (count->length == 0) {
        count->length = (uint8_t)length;
        memcpy(count->word, word, length);
        counts->used++;
    }
    count->times += times;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= 9 && c <= 13) || c == 0;
}

/* The words that begin from `from` on and before `to`; into `heaps` heaps, by their hashes. */
static void count_words(const char *bytes, uint64_t from, uint64_t to, uint64_t end,
                        struct counts *heaps, uint64_t heap_count)
{
    uint64_t at = from;

    while (at > 0 && at < end && !is_space(bytes[at - 1]) && !is_space(bytes[at])) {
        at++; /* it began before */
    }
    while (at < to) {
        uint64_t length = 0;

        while (at + length < end && length < WORD_MAX && !is_space(bytes[at + length])) {
            length++;
        }
        if (length > 0) {
            add(&heaps[hash_of(bytes + at, length) % heap_count], bytes + at, length, 1);
        }
        at += length > 0 ? length : 1;
        while (length == WORD_MAX && at < end && !is_space(bytes[at])) {
            at++;
        }
    }
}

/* A heap as bytes: of each word how often it is there, its length and itself. */
static uint64_t packed_bytes(const struct counts *counts)
{
    uint64_t bytes = 0;

    for (uint64_t n = 0; n < counts->room; n++) {
        bytes += counts->places[n].length != 0 ? 9u + counts->places[n].length : 0;
    }
    return bytes;
}

static void pack(const struct counts *counts, char *to)
{
    for (uint64_t n = 0; n < counts->room; n++) {
        const struct count *count = &counts->places[n];

        if (count->length != 0) {
            memcpy(to, &count->times, 8);
            to[8] = (char)count->length;
            memcpy(to + 9, count->word, count->length);
            to += 9 + count->length;
        }
    }
}

static void unpack(struct counts *counts, const char *from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        uint64_t times, length = bytes - at > 9 ? (uint8_t)from[at + 8] : 0;

        if (length == 0 || length > WORD_MAX || length > bytes - at - 9) {
            fail("a heap", "is not whole");
        }
        memcpy(&times, from + at, 8);
        add(counts, from + at + 9, length, times);
        at += 9 + length;
    }
}

/* ---- the text ------------------------------------------------------------- */

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

/* The word of a rank: the more frequent, the shorter. */
static uint64_t spell(uint64_t rank, char word[16])
{
    static const char *const parts[] = {"an", "be", "co", "di", "er", "fu", "ga", "hi",
                                        "in", "ko", "la", "mu", "no", "or", "pa", "ri"};
    uint64_t length = 0;

    do {
        memcpy(word + length, parts[rank % 16], 2);
        length += 2;
        rank /= 16;
    } while (rank > 0);
    return length;
}

/* Zipf's law, near enough: the rank of a word is a power of the vocabulary, evenly drawn. */
static void make_text(void)
{
    static uint32_t ranks[65536];
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15), at = 0;
    double rank = 1, step = 1;

    for (int n = 0; n < 16; n++) { /* the 65536th root of the vocabulary, by Newton's roots */
        double root = n == 0 ? VOCABULARY : step, half = root;

        for (int i = 0; i < 60; i++) {
            half = (half + root / half) / 2;
        }
        step = half;
    }
    for (uint32_t n = 0; n < 65536; n++, rank *= step) {
        ranks[n] = (uint32_t)rank - 1;
    }
    while (at < options.bytes) {
        char word[16];
        uint64_t length = spell(ranks[draw(&seed) >> 48], word), left = options.bytes - at;

        memcpy(text + at, word, length < left ? length : left);
        if (length < left) {
            text[at + length] = ' ';
        }
        at += length + 1;
    }
}

static void read_text(void)
{
    FILE *file = fopen(options.file, "r");

    if (file == NULL || fread(text, 1, options.bytes, file) != options.bytes) {
        fail(options.file, file == NULL ? strerror(errno) : "cannot be read");
    }
    fclose(file);
}

/* How long it is has to be known to all. */
static void look_at_file(void)
{
    FILE *file = options.file == NULL ? NULL : fopen(options.file, "r");
    long bytes = -1;

    if (options.file == NULL) {
        return;
    }
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        bytes = ftell(file);
    }
    if (bytes <= 0) {
        fail(options.file, file == NULL ? strerror(errno) : "is empty, or has no end");
    }
    fclose(file);
    options.bytes = (uint64_t)bytes;
}

/* ---- regions -------------------------------------------------------------- */

/* A process's way to them: bytes pass through memory that its node reads and writes. */
struct way {
    nigh_client *client;
    nigh_bulk *bulk;
    void *block;
};

static struct way open_way(uint64_t node)
{
    nigh_client_options client_options = {.struct_size = sizeof client_options,
                                          .socket_path = options.sockets[node],
                                          .name = "region_words"};
    struct way way = {0};

    if (nigh_client_open(&client_options, &way.client) != NIGH_OK) {
        fail(options.sockets[node], nigh_open_error());
    }
    check(nigh_bulk_alloc(way.client, BLOCK_BYTES, NIGH_BULK_READ | NIGH_BULK_WRITE, &way.block,
                          &way.bulk),
          "memory of the node");
    return way;
}

static void close_way(struct way *way)
{
    (void)nigh_bulk_close(way->bulk, TIMEOUT_US);
    nigh_client_close(way->client);
}

/* The members have not agreed yet on who is there; or, `waits`, nobody has made it yet. */
static bool may_pass(nigh_status status, double begin_s, bool waits)
{
    bool passes = (status == NIGH_NO_QUORUM || status == NIGH_BUSY || status == NIGH_TIMEOUT ||
                   (waits && status == NIGH_NOT_FOUND)) &&
                  now_s() - begin_s < PATIENCE_S;

    if (passes) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return passes;
}

static const char *name_of(const char *what, char name[NIGH_REGION_NAME_BYTES])
{
    snprintf(name, NIGH_REGION_NAME_BYTES, "%s %s", what, base_name);
    return name;
}

static nigh_region *open_region(const struct way *way, const char *what)
{
    char name[NIGH_REGION_NAME_BYTES];
    double begin_s = now_s();
    nigh_region *region;
    nigh_status status;

    do {
        status = nigh_region_open(way->client, name_of(what, name), NIGH_REGION_ALL, TIMEOUT_US,
                                  &region);
    } while (may_pass(status, begin_s, true));
    check(status, what);
    return region;
}

static nigh_region *create_region(const struct way *way, const char *what, uint64_t bytes)
{
    char name[NIGH_REGION_NAME_BYTES];
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = name_of(what, name),
                             .size = bytes > 0 ? bytes : 1,
                             .where = NIGH_REGION_SPREAD};
    double begin_s = now_s();
    nigh_region *region;
    nigh_status status;

    do {
        status = nigh_region_create(way->client, &spec, TIMEOUT_US, &region);
    } while (may_pass(status, begin_s, false));
    if (status == NIGH_EXISTS) { /* by a try of which this was not known */
        return open_region(way, what);
    }
    check(status, what);
    return region;
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

static void move_bytes(const struct way *way, nigh_region *region, uint64_t offset, char *bytes,
                       uint64_t count, bool writes)
{
    for (uint64_t at = 0; at < count; at += BLOCK_BYTES) {
        nigh_bulk_part part = {.bulk = way->bulk,
                               .size = count - at < BLOCK_BYTES ? count - at : BLOCK_BYTES};

        double begin_s = now_s();
        nigh_status status;

        if (writes) {
            memcpy(way->block, bytes + at, part.size);
        }
        do {
            status = writes ? nigh_region_write_from(region, offset + at, &part, TIMEOUT_US)
                            : nigh_region_read_into(region, offset + at, &part, TIMEOUT_US);
        } while (is_to_try_again(status, writes ? "write" : "read", begin_s));
        if (!writes) {
            memcpy(bytes + at, way->block, part.size);
        }
    }
}

/* All workers, and the first process. Whose process or node dies is waited for by nobody. */
static void meet(nigh_region *region)
{
    double begin_s = now_s();
    nigh_status status;

    do {
        status = nigh_region_barrier(region, BARRIER, (uint32_t)options.workers + 1, TIMEOUT_US);
        if (status == NIGH_PEER_LOST) {
            fail("wait for the others", "one of them died");
        }
    } while (is_to_try_again(status, "wait for the others", begin_s));
}

/* ---- the plan ------------------------------------------------------------- */

/* Of a heap: from which worker, for which; at last, of worker `workers`, what one has reduced. */
struct place {
    uint64_t bytes, offset;
};

static uint64_t place_offset(uint64_t from, uint64_t to)
{
    return (from * options.workers + to) * sizeof(struct place);
}

static uint64_t plan_bytes(void)
{
    return place_offset(options.workers + 1, 0);
}

static void write_plan(nigh_region *plan, uint64_t offset, const void *bytes, uint64_t count)
{
    double begin_s = now_s();

    while (is_to_try_again(nigh_region_write(plan, offset, bytes, count, TIMEOUT_US),
                           "write the plan", begin_s)) {
    }
}

static void read_plan(nigh_region *plan, uint64_t offset, void *bytes, uint64_t count)
{
    double begin_s = now_s();

    while (is_to_try_again(nigh_region_read(plan, offset, bytes, count, TIMEOUT_US),
                           "read the plan", begin_s)) {
    }
}

static void say_place(nigh_region *plan, uint64_t from, uint64_t to, uint64_t bytes)
{
    write_plan(plan, place_offset(from, to), &bytes, sizeof bytes);
}

static struct place ask_place(nigh_region *plan, uint64_t from, uint64_t to)
{
    struct place place;

    read_plan(plan, place_offset(from, to), &place, sizeof place);
    return place;
}

/* Where each heap goes, one behind the other; how much that is. What a worker reduces takes no more
 * than what it is reduced from. */
static uint64_t make_plan(nigh_region *plan)
{
    struct place *places = allocate(1, plan_bytes());
    uint64_t offset = 0, workers = options.workers;

    read_plan(plan, 0, places, plan_bytes());
    for (uint64_t n = 0; n < workers * workers; n++) {
        places[n].offset = offset;
        places[workers * workers + n % workers].bytes += places[n].bytes;
        offset += places[n].bytes;
    }
    for (uint64_t n = 0; n < workers; n++) {
        places[workers * workers + n].offset = offset;
        offset += places[workers * workers + n].bytes;
    }
    write_plan(plan, 0, places, plan_bytes());
    free(places);
    return offset;
}

/* ---- workers -------------------------------------------------------------- */

static uint64_t first_of(uint64_t worker)
{
    return worker == options.workers ? options.bytes : options.bytes / options.workers * worker;
}

/* The part, a byte before it and as much behind it as the last word may need. */
static void map(const struct way *way, nigh_region *words, uint64_t worker, struct counts *heaps)
{
    uint64_t from = first_of(worker), to = first_of(worker + 1);
    uint64_t before = from > 0 ? 1 : 0;
    uint64_t end = options.bytes - to < WORD_MAX ? options.bytes : to + WORD_MAX;
    char *part = allocate(1, before + end - from);

    move_bytes(way, words, from - before, part, before + end - from, false);
    count_words(part, before, before + to - from, before + end - from, heaps, options.workers);
    free(part);
}

static void write_heap(const struct way *way, nigh_region *heaps, const struct counts *counts,
                       struct place place)
{
    uint64_t bytes = packed_bytes(counts);
    char *packed = allocate(1, bytes);

    if (bytes > place.bytes) {
        fail("a heap", "has no room");
    }
    pack(counts, packed);
    move_bytes(way, heaps, place.offset, packed, bytes, true);
    free(packed);
}

static void read_heap(const struct way *way, nigh_region *heaps, struct counts *counts,
                      struct place place)
{
    char *packed = allocate(1, place.bytes);

    move_bytes(way, heaps, place.offset, packed, place.bytes, false);
    unpack(counts, packed, place.bytes);
    free(packed);
}

static void run_worker(uint64_t worker)
{
    struct way way = open_way(worker % options.nodes);
    nigh_region *plan = open_region(&way, "plan"), *words = open_region(&way, "text"), *heaps;
    struct counts mine[WORKERS_MAX], all = make_counts();

    for (uint64_t n = 0; n < options.workers; n++) {
        mine[n] = make_counts();
    }
    meet(plan); /* the text is there */
    if (options.kill && worker == options.workers - 1) {
        raise(SIGKILL);
    }
    map(&way, words, worker, mine);
    for (uint64_t n = 0; n < options.workers; n++) {
        say_place(plan, worker, n, packed_bytes(&mine[n]));
    }
    meet(plan); /* all have said how much they have */
    meet(plan); /* there is room for it */
    heaps = open_region(&way, "heaps");
    for (uint64_t n = 0; n < options.workers; n++) {
        write_heap(&way, heaps, &mine[n], ask_place(plan, worker, n));
        free(mine[n].places);
    }
    meet(plan); /* all heaps are there */
    for (uint64_t n = 0; n < options.workers; n++) {
        read_heap(&way, heaps, &all, ask_place(plan, n, worker));
    }
    write_heap(&way, heaps, &all, ask_place(plan, options.workers, worker));
    say_place(plan, options.workers, worker, packed_bytes(&all));
    meet(plan); /* all is reduced */
    free(all.places);
    nigh_region_close(heaps);
    nigh_region_close(words);
    nigh_region_close(plan);
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

/* A thread that waits for all. Of one that dies the others hear at their next barrier, if it ever
 * came to one; else this process ends, and they with it. */
static void *watch(void *unused)
{
    for (uint64_t n = 0; n < options.workers; n++) {
        int status = 0;

        while (wait(&status) < 0 && errno == EINTR) {
        }
        if (status != 0) {
            nanosleep(&(struct timespec){.tv_sec = GRACE_S}, NULL);
            fail("a worker", "did not end well");
        }
    }
    return unused;
}

/* ---- the first process ---------------------------------------------------- */

/* What the workers have found; the seconds that they took, the text in place. */
static struct counts count_together(const struct way *way, nigh_region *plan, nigh_region *words,
                                    double *seconds)
{
    struct counts all = make_counts();
    nigh_region *heaps;
    double begin_s;

    move_bytes(way, words, 0, text, options.bytes, true);
    begin_s = now_s();
    meet(plan);
    meet(plan);
    heaps = create_region(way, "heaps", make_plan(plan));
    meet(plan);
    meet(plan);
    meet(plan);
    for (uint64_t n = 0; n < options.workers; n++) {
        read_heap(way, heaps, &all, ask_place(plan, options.workers, n));
    }
    *seconds = now_s() - begin_s;
    check(nigh_region_free(heaps, TIMEOUT_US), "free a region");
    nigh_region_close(heaps);
    return all;
}

/* Of the words and how often each is there, in any order. */
static uint64_t digest_of(const struct counts *counts)
{
    uint64_t digest = 0;

    for (uint64_t n = 0; n < counts->room; n++) {
        const struct count *count = &counts->places[n];

        if (count->length != 0) {
            uint64_t hash =
                hash_of(count->word, count->length) ^ count->times * UINT64_C(0x9e3779b97f4a7c15);

            digest += (hash ^ hash >> 31) * UINT64_C(0xd6e8feb86659fd93);
        }
    }
    return digest;
}

static bool are_the_same(const struct counts *one, const struct counts *other, uint64_t *words)
{
    *words = 0;
    for (uint64_t n = 0; n < one->room; n++) {
        const struct count *count = &one->places[n];

        if (count->length == 0) {
            continue;
        }
        *words += count->times;
        if (place_of(other, count->word, count->length)->times != count->times) {
            return false;
        }
    }
    return one->used == other->used;
}

/* ---- words of the command line -------------------------------------------- */

static void usage(FILE *to)
{
    fprintf(to,
            "usage: example-region_words [OPTIONS] [SOCKET...]\n"
            "How often each word is in a text, by processes at all nodes; the text, and what they\n"
            "have for each other, lie in regions. Compared with one process's.\n"
            "SOCKET: of a node, up to %d; none: those of $NIGH_SOCKETS (examples/three-nodes).\n"
            "  --bytes N    of a text that is made up (default 16777216)\n"
            "  --text FILE  or of this one; words are what is between white space,\n"
            "               and of a long one its first 64 bytes\n"
            "  --workers N  processes (default 3; 1 to %d)\n"
            "  --kill       the last worker dies as it maps: the others say so, and end\n"
            "  --json       one JSON object\n"
            "Exit status: 0: the counts are the same; 1: they are not, or something failed; 2: "
            "usage.\n",
            NODES_MAX, WORKERS_MAX);
}

static void refuse(const char *why, const char *word)
{
    fprintf(stderr, "region_words: %s%s (--help says more)\n", why, word);
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
    const struct option known[] = {{"bytes", required_argument, NULL, 'b'},
                                   {"text", required_argument, NULL, 't'},
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
        case 'b':
            options.bytes = number_of(optarg, 1, TEXT_MAX);
            is_made = true;
            break;
        case 't': options.file = optarg; break;
        case 'w': options.workers = number_of(optarg, 1, WORKERS_MAX); break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    if (is_made && options.file != NULL) {
        refuse("--bytes is of a text that is made up, not of --text ", options.file);
    }
    take_sockets(argv + optind, argc - optind);
    look_at_file();
}

static void report(uint64_t words, uint64_t different, double together_s, double alone_s,
                   const uint64_t digests[2])
{
    printf(options.json ? "{\"bytes\": %" PRIu64 ", \"words\": %" PRIu64 ", \"different\": %" PRIu64
                          ", \"workers\": %" PRIu64 ", \"nodes\": %" PRIu32
                          ", \"together_s\": %.3f, \"alone_s\": %.3f, \"digest\": \"%016" PRIx64
                          "\", \"alone_digest\": \"%016" PRIx64 "\"}\n"
                        : "%" PRIu64 " bytes, %" PRIu64 " words, %" PRIu64
                          " of them different: %" PRIu64 " processes at %" PRIu32
                          " nodes %.3f s, one process alone %.3f s; all counts are the same\n",
           options.bytes, words, different, options.workers, options.nodes, together_s, alone_s,
           digests[0], digests[1]);
}

int main(int argc, char **argv)
{
    struct counts together, alone = make_counts();
    pthread_t watcher;
    nigh_region *plan, *region;
    double together_s, alone_s, begin_s;
    struct way way;
    uint64_t words;

    take_options(argc, argv);
    snprintf(base_name, sizeof base_name, "%ld-%.6f", (long)getpid(), now_s());
    for (uint64_t n = 0; n < options.workers; n++) {
        start(n); /* none has a part of this process's client, or of the text */
    }
    if (pthread_create(&watcher, NULL, watch, NULL) != 0) {
        fail("a thread", strerror(errno));
    }
    way = open_way(0);
    plan = create_region(&way, "plan", plan_bytes());
    region = create_region(&way, "text", options.bytes);
    text = allocate(1, options.bytes);
    if (options.file != NULL) {
        read_text();
    } else {
        make_text();
    }
    together = count_together(&way, plan, region, &together_s);
    (void)pthread_join(watcher, NULL);
    begin_s = now_s();
    count_words(text, 0, options.bytes, options.bytes, &alone, 1);
    alone_s = now_s() - begin_s;
    if (!are_the_same(&alone, &together, &words)) {
        fail("the counts", "are not the same");
    }
    report(words, alone.used, together_s, alone_s,
           (uint64_t[]){digest_of(&together), digest_of(&alone)});
    check(nigh_region_free(region, TIMEOUT_US), "free a region");
    check(nigh_region_free(plan, TIMEOUT_US), "free a region");
    nigh_region_close(region);
    nigh_region_close(plan);
    close_way(&way);
    free(text);
    free(alone.places);
    free(together.places);
    return 0;
}
