/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Region log: processes at all nodes append records to one log, which lies in a region that is
 * spread over them. No process serves it; whoever appends or reads does so where the bytes lie.
 * (LITE-Log of SOSP'17.)
 *
 *   examples/three-nodes build/release build/release/examples/example-region_log
 *   example-region_log [OPTIONS] [SOCKET...]     sockets of nodes; else those of $NIGH_SOCKETS
 *
 *   cc region_log.c $(pkg-config --cflags --libs nigh) -o example-region_log
 *
 * Byte 0 of the region is the tail, how many slots were reserved. From SLOTS_OFFSET on lie slots of
 * one size: a commit word, and a record. To append is three operations:
 *
 *   fetch_add of the tail       the slot is this writer's
 *   write of the record         with its slot's number and a checksum
 *   compare_swap of the commit  from OPEN to COMMITTED: now it is in the log
 *
 * A writer that dies before the third would stop all readers: one that has waited for a slot as
 * long as the deadline swaps its word from OPEN to ABANDONED. Only one of both swaps succeeds, so
 * that all readers agree, and a writer that was only slow sees that it lost, and appends again.
 *
 * A commit word changes once, so readers may take it from a plain read of many slots if it is not
 * OPEN; of one that is they ask by atomics. The bytes beside it in the same read may be of before:
 * where the checksum says so, the slot is read again, which finds what was written before its word.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nigh/nigh.h>
#include <nigh/region.h>

enum {
    WRITERS_MAX = 64,
    NODES_MAX = 16
};

enum {
    OPEN = 0,
    COMMITTED = 1,
    ABANDONED = 2
}; /* a commit word */

#define TAIL_OFFSET  UINT64_C(0)
#define SLOTS_OFFSET UINT64_C(4096)
#define BYTES_MAX    (UINT64_C(1) << 20) /* of a record's payload */
#define LOG_MAX      (UINT64_C(1) << 40)
#define READ_BYTES   (UINT64_C(1) << 20) /* of one read of many slots */
#define SECOND_US    UINT64_C(1000000)

#define SEQUENCE_FACTOR UINT64_C(0xd6e8feb86659fd93) /* in a checksum; odd */

#define TIMEOUT_US (30 * SECOND_US)
#define PATIENCE_S 30.0 /* for a cluster that was just formed */

struct record {
    uint64_t commit;   /* written by swaps alone */
    uint64_t checksum; /* of all that follows */
    uint64_t sequence; /* the number of the slot */
    uint64_t number;   /* of the writer's records */
    uint32_t writer;
    uint32_t length;    /* of the payload */
    uint64_t payload[]; /* in whole words, the last one filled up by zeros */
};

/* What a writer and a reader have to say; lies in memory that the processes share. */
struct writer_report {
    double begin_s, end_s;
    _Atomic uint64_t committed;
    uint64_t lost;   /* slots that a reader took from it */
    uint64_t digest; /* of what it was told is committed */
};

struct reader_report {
    double begin_s, end_s;
    uint64_t committed[WRITERS_MAX], total, abandoned, again;
    uint64_t digest;  /* of what was in which slot */
    uint64_t content; /* of what was in all, whatever their order */
};

static struct shared {
    atomic_bool writers_done;
    struct writer_report writers[WRITERS_MAX];
    struct reader_report readers[NODES_MAX];
} * shared;

static struct {
    uint64_t records, bytes, writers, deadline_ms;
    int kill, stall, follow, json;
    const char *sockets[NODES_MAX];
    uint32_t nodes;
} options = {.records = 30000, .bytes = 1024, .writers = 3, .deadline_ms = 500};

static char log_name[NIGH_REGION_NAME_BYTES];

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "region_log: %s: %s\n", what, why);
    exit(1);
}

static void check(nigh_status status, const char *what)
{
    if (status != NIGH_OK) {
        fail(what, nigh_status_string(status));
    }
}

/* ---- records -------------------------------------------------------------- */

static uint64_t payload_words(void)
{
    return (options.bytes + 7) / 8;
}

static uint64_t slot_bytes(void)
{
    return sizeof(struct record) + payload_words() * 8;
}

/* How many slots there are: each writer may lose one. */
static uint64_t slots(void)
{
    return options.records + options.writers;
}

static uint64_t slot_offset(uint64_t slot)
{
    return SLOTS_OFFSET + slot * slot_bytes();
}

/* How many of the records are this writer's. */
static uint64_t share_of(uint64_t writer)
{
    return options.records / options.writers + (writer < options.records % options.writers);
}

/* Of all but where it is. */
static uint64_t content_of(const struct record *record)
{
    const uint64_t *words = &record->number;
    uint64_t count = (sizeof *record - offsetof(struct record, number)) / 8 + payload_words();
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (uint64_t i = 0; i < count; i++) {
        sum = (sum ^ words[i]) * UINT64_C(0x100000001b3);
        sum ^= sum >> 29;
    }
    return sum;
}

static uint64_t checksum_of(const struct record *record)
{
    return content_of(record) + record->sequence * SEQUENCE_FACTOR;
}

/* What a record that is whole adds to a digest of records in any order. */
static uint64_t digest_of(const struct record *record)
{
    uint64_t content = record->checksum - record->sequence * SEQUENCE_FACTOR;

    content = (content ^ content >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return content ^ content >> 29;
}

/* A record of this writer for a slot, to be committed. */
static void fill_record(struct record *record, uint64_t slot, uint32_t writer, uint64_t number)
{
    uint64_t word = (uint64_t)writer << 48 ^ number;

    *record = (struct record){
        .sequence = slot, .number = number, .writer = writer, .length = (uint32_t)options.bytes};
    for (uint64_t i = 0; i < payload_words(); i++) {
        word = word * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        record->payload[i] = word;
    }
    if (options.bytes % 8 != 0) {
        memset((char *)record->payload + options.bytes, 0, 8 - options.bytes % 8);
    }
    record->checksum = checksum_of(record);
}

static bool is_whole(const struct record *record, uint64_t slot)
{
    return record->sequence == slot && record->length == options.bytes &&
           record->writer < options.writers && record->checksum == checksum_of(record);
}

static void *allocate(uint64_t bytes)
{
    void *memory = calloc(1, bytes);

    if (memory == NULL) {
        fail("memory", strerror(errno));
    }
    return memory;
}

/* ---- the region ----------------------------------------------------------- */

static nigh_client *open_client(uint64_t node)
{
    nigh_client_options client_options = {.struct_size = sizeof client_options,
                                          .socket_path = options.sockets[node],
                                          .name = "region_log"};
    nigh_client *client;

    if (nigh_client_open(&client_options, &client) != NIGH_OK) {
        fail(options.sockets[node], nigh_open_error());
    }
    return client;
}

/* The members have not agreed yet on who is there. */
static bool may_pass(nigh_status status, double begin_s)
{
    return (status == NIGH_NO_QUORUM || status == NIGH_BUSY || status == NIGH_TIMEOUT) &&
           now_s() - begin_s < PATIENCE_S;
}

static nigh_region *open_log(nigh_client *client)
{
    double begin_s = now_s();
    nigh_region *region;
    nigh_status status;

    while (
        may_pass(status = nigh_region_open(client, log_name, NIGH_REGION_ALL, TIMEOUT_US, &region),
                 begin_s)) {
        pause_briefly();
    }
    check(status, "open the region");
    return region;
}

static void create_log(void)
{
    nigh_region_spec spec = {.struct_size = sizeof spec,
                             .name = log_name,
                             .size = slot_offset(slots()),
                             .where = NIGH_REGION_SPREAD};
    nigh_client *client = open_client(0);
    double begin_s = now_s();
    nigh_region *region;
    nigh_status status;

    snprintf(log_name, sizeof log_name, "log-%ld-%.9f", (long)getpid(), begin_s);
    while (may_pass(status = nigh_region_create(client, &spec, TIMEOUT_US, &region), begin_s)) {
        pause_briefly();
    }
    if (status == NIGH_EXISTS) { /* an earlier try, of which this was not known */
        region = open_log(client);
    } else {
        check(status, "create the region");
    }
    nigh_region_close(region);
    nigh_client_close(client); /* no child has a part of it */
}

static void free_log(void)
{
    nigh_client *client = open_client(0);
    nigh_region *region = open_log(client);

    check(nigh_region_free(region, TIMEOUT_US), "free the region");
    nigh_region_close(region);
    nigh_client_close(client);
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

/* A word that is changed by atomics is read by them. */
static uint64_t read_word(nigh_region *region, uint64_t offset)
{
    double begin_s = now_s();
    uint64_t value;

    while (is_to_try_again(nigh_region_fetch_add(region, offset, 0, TIMEOUT_US, &value),
                           "read a word", begin_s)) {
    }
    return value;
}

/* ---- writers -------------------------------------------------------------- */

static uint64_t reserve(nigh_region *region)
{
    double begin_s = now_s();
    uint64_t slot;

    while (is_to_try_again(nigh_region_fetch_add(region, TAIL_OFFSET, 1, TIMEOUT_US, &slot),
                           "reserve a slot", begin_s)) {
    }
    if (slot >= slots()) {
        fail("reserve a slot", "the log is full");
    }
    return slot;
}

/* From behind the commit word on. */
static void write_record(nigh_region *region, const struct record *record, uint64_t size)
{
    uint64_t skipped = sizeof record->commit, at = slot_offset(record->sequence) + skipped;
    const char *bytes = (const char *)record + skipped;
    double begin_s = now_s();

    while (is_to_try_again(nigh_region_write(region, at, bytes, size - skipped, TIMEOUT_US),
                           "write a record", begin_s)) {
    }
}

/* A slot's word becomes this if it is OPEN; what it was before. */
static uint64_t swap_word(nigh_region *region, uint64_t slot, uint64_t state)
{
    uint64_t at = slot_offset(slot), old;
    double begin_s = now_s();

    while (is_to_try_again(nigh_region_compare_swap(region, at, OPEN, state, TIMEOUT_US, &old),
                           "commit a record, or give up on it", begin_s)) {
    }
    return old;
}

/* Whether it is in the log; else a reader has waited for too long. */
static bool commit(nigh_region *region, uint64_t slot)
{
    return swap_word(region, slot, COMMITTED) == OPEN;
}

/* Stands still until a reader has given up on the slot. */
static void stand_still(nigh_region *region, uint64_t slot)
{
    double begin_s = now_s();

    while (read_word(region, slot_offset(slot)) == OPEN) {
        if (now_s() - begin_s > PATIENCE_S) {
            fail("a writer that stood still", "no reader gave up on it");
        }
        pause_briefly();
    }
}

static void append(nigh_region *region, struct record *record, uint32_t writer, uint64_t number)
{
    bool is_half_way = number == share_of(writer) / 2;
    bool stalls = options.stall && is_half_way && writer == options.writers - 1;
    uint64_t slot;

    do {
        slot = reserve(region);
        fill_record(record, slot, writer, number);
        if (options.kill && is_half_way && writer == 0) {
            write_record(region, record, slot_bytes() / 2 / 8 * 8);
            raise(SIGKILL);
        }
        write_record(region, record, slot_bytes());
        if (stalls) {
            stand_still(region, slot);
            stalls = false;
        }
        if (commit(region, slot)) {
            shared->writers[writer].digest += digest_of(record);
            return;
        }
        shared->writers[writer].lost++;
    } while (true);
}

static void run_writer(uint64_t writer)
{
    struct writer_report *report = &shared->writers[writer];
    nigh_client *client = open_client(writer % options.nodes);
    nigh_region *region = open_log(client);
    struct record *record = allocate(slot_bytes());

    report->begin_s = now_s();
    for (uint64_t number = 0; number < share_of(writer); number++) {
        append(region, record, (uint32_t)writer, number);
        atomic_fetch_add(&report->committed, 1);
        report->end_s = now_s();
    }
    free(record);
    nigh_region_close(region);
    nigh_client_close(client);
}

/* ---- readers -------------------------------------------------------------- */

/* What became of a slot that was reserved and not committed when it was read. */
static uint64_t settle(nigh_region *region, uint64_t slot)
{
    double begin_s = now_s();
    uint64_t state;

    while ((state = read_word(region, slot_offset(slot))) == OPEN) {
        if ((now_s() - begin_s) * 1e3 >= (double)options.deadline_ms) {
            state = swap_word(region, slot, ABANDONED);
            return state == OPEN ? ABANDONED : state;
        }
        pause_briefly();
    }
    return state;
}

/* A record that is committed: the next one of its writer, or something is wrong. */
static void take_record(struct reader_report *report, const struct record *record)
{
    if (record->number != report->committed[record->writer]) {
        fail("a record is missing, there twice, or not in order", log_name);
    }
    report->committed[record->writer]++;
    report->total++;
    report->digest ^= record->checksum;
    report->content += digest_of(record);
}

static void read_some(nigh_region *region, uint64_t slot, void *to, uint64_t count)
{
    uint64_t at = slot_offset(slot), bytes = count * slot_bytes();
    double begin_s = now_s();

    while (is_to_try_again(nigh_region_read(region, at, to, bytes, TIMEOUT_US), "read slots",
                           begin_s)) {
    }
}

static void take_slot(nigh_region *region, struct reader_report *report, uint64_t slot,
                      struct record *record)
{
    uint64_t state = record->commit;

    if (state == OPEN) {
        state = settle(region, slot);
    }
    report->digest = report->digest * 31 + state;
    if (state == ABANDONED) {
        report->abandoned++;
        return;
    }
    if (state != COMMITTED) {
        fail("a commit word", "has a value that it cannot have");
    }
    if (!is_whole(record, slot)) {
        report->again++;
        read_some(region, slot, record, 1);
        if (!is_whole(record, slot)) {
            fail("a committed record", "is not whole");
        }
    }
    take_record(report, record);
}

/* Reads the slots that are reserved and not yet read; where the next one is. */
static uint64_t read_slots(nigh_region *region, struct reader_report *report, uint64_t at,
                           uint64_t tail, char *buffer, uint64_t batch)
{
    uint64_t count = tail - at < batch ? tail - at : batch;

    read_some(region, at, buffer, count);
    for (uint64_t i = 0; i < count; i++) {
        take_slot(region, report, at + i, (struct record *)(void *)(buffer + i * slot_bytes()));
    }
    return at + count;
}

static void run_reader(uint64_t node)
{
    uint64_t batch = slot_bytes() < READ_BYTES ? READ_BYTES / slot_bytes() : 1, at = 0, tail = 0;
    struct reader_report *report = &shared->readers[node];
    nigh_client *client = open_client(node);
    nigh_region *region = open_log(client);
    char *buffer = allocate(batch * slot_bytes());
    bool is_last = false;

    report->begin_s = now_s();
    while (at < tail || !is_last) {
        if (at == tail) {
            is_last = atomic_load(&shared->writers_done); /* before the tail is read */
            tail = read_word(region, TAIL_OFFSET);
            tail = tail < slots() ? tail : slots();
        }
        if (at < tail) {
            at = read_slots(region, report, at, tail, buffer, batch);
        } else if (!is_last) {
            pause_briefly();
        }
    }
    report->end_s = now_s();
    free(buffer);
    nigh_region_close(region);
    nigh_client_close(client);
}

/* ---- processes ------------------------------------------------------------ */

static pid_t start(void (*run)(uint64_t), uint64_t number)
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
        run(number);
        _exit(0);
    }
    return pid;
}

/* Whether it ended well; killed: whether that is how it was to end. */
static bool ended_well(pid_t pid, bool is_to_die)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return is_to_die ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
}

static bool run_processes(void)
{
    pid_t writers[WRITERS_MAX], readers[NODES_MAX];
    bool is_well = true;

    for (uint64_t i = 0; i < options.writers; i++) {
        writers[i] = start(run_writer, i);
    }
    for (uint32_t i = 0; options.follow && i < options.nodes; i++) {
        readers[i] = start(run_reader, i);
    }
    for (uint64_t i = 0; i < options.writers; i++) {
        is_well &= ended_well(writers[i], options.kill && i == 0);
    }
    atomic_store(&shared->writers_done, true);
    for (uint32_t i = 0; i < options.nodes; i++) {
        if (!options.follow) {
            readers[i] = start(run_reader, i);
        }
    }
    for (uint32_t i = 0; i < options.nodes; i++) {
        is_well &= ended_well(readers[i], false);
    }
    return is_well;
}

/* Of all that the writers were told is committed. */
static uint64_t written_digest(void)
{
    uint64_t digest = 0;

    for (uint64_t writer = 0; writer < options.writers; writer++) {
        digest += shared->writers[writer].digest;
    }
    return digest;
}

/* Each reader has found what the writers were told is committed, no more and no less, and all have
 * found the same. */
static bool readers_agree(void)
{
    const struct reader_report *first = &shared->readers[0];
    bool is_well = first->content == written_digest();

    if (!is_well) {
        fprintf(stderr, "region_log: what is in the log is not what was appended\n");
    }

    for (uint32_t node = 0; node < options.nodes; node++) {
        const struct reader_report *reader = &shared->readers[node];

        for (uint64_t writer = 0; writer < options.writers; writer++) {
            uint64_t expected = atomic_load(&shared->writers[writer].committed);

            if (reader->committed[writer] != expected) {
                fprintf(stderr,
                        "region_log: the reader at node %" PRIu32 " found %" PRIu64
                        " records of writer %" PRIu64 ", which committed %" PRIu64 "\n",
                        node, reader->committed[writer], writer, expected);
                is_well = false;
            }
        }
        if (reader->digest != first->digest || reader->abandoned != first->abandoned) {
            fprintf(stderr, "region_log: the readers at nodes 0 and %" PRIu32 " do not agree\n",
                    node);
            is_well = false;
        }
    }
    return is_well;
}

/* ---- figures -------------------------------------------------------------- */

/* The same records appended to memory of this process: seconds, and their digest. */
static double time_memory(uint64_t *digest)
{
    char *memory = allocate(slots() * slot_bytes());
    double begin_s = now_s(), seconds;
    _Atomic uint64_t tail = 0;

    for (uint64_t writer = 0; writer < options.writers; writer++) {
        for (uint64_t number = 0; number < share_of(writer); number++) {
            uint64_t slot = atomic_fetch_add(&tail, 1);
            struct record *record = (struct record *)(void *)(memory + slot * slot_bytes());

            fill_record(record, slot, (uint32_t)writer, number);
            record->commit = COMMITTED;
            *digest += digest_of(record);
        }
    }
    seconds = now_s() - begin_s;
    free(memory);
    return seconds;
}

/* From the first one's begin to the last one's end. */
static double append_seconds(void)
{
    double begin_s = shared->writers[0].begin_s, end_s = 0;

    for (uint64_t i = 0; i < options.writers; i++) {
        const struct writer_report *writer = &shared->writers[i];

        begin_s = writer->begin_s < begin_s ? writer->begin_s : begin_s;
        end_s = writer->end_s > end_s ? writer->end_s : end_s;
    }
    return end_s - begin_s;
}

static double read_seconds(void)
{
    double begin_s = shared->readers[0].begin_s, end_s = 0;

    for (uint32_t i = 0; i < options.nodes; i++) {
        const struct reader_report *reader = &shared->readers[i];

        begin_s = reader->begin_s < begin_s ? reader->begin_s : begin_s;
        end_s = reader->end_s > end_s ? reader->end_s : end_s;
    }
    return end_s - begin_s;
}

static void print_rate(const char *what, uint64_t records, double seconds)
{
    double rate = seconds > 0 ? (double)records / seconds : 0;

    printf(options.json ? ", \"%s\": {\"records\": %" PRIu64
                          ", \"records_per_s\": %.0f, \"mib_per_s\": %.2f}"
                        : "%-8s %12" PRIu64 " %14.0f %12.2f\n",
           what, records, rate, rate * (double)options.bytes / 1048576);
}

static void report(double memory_s, uint64_t memory_digest)
{
    uint64_t committed = shared->readers[0].total, abandoned = shared->readers[0].abandoned;
    uint64_t again = 0, lost = 0;

    for (uint32_t i = 0; i < options.nodes; i++) {
        again += shared->readers[i].again;
    }
    for (uint64_t i = 0; i < options.writers; i++) {
        lost += shared->writers[i].lost;
    }
    printf(options.json ? "{\"nodes\": %" PRIu32 ", \"writers\": %" PRIu64 ", \"bytes\": %" PRIu64
                          ", \"committed\": %" PRIu64 ", \"abandoned\": %" PRIu64
                          ", \"lost\": %" PRIu64 ", \"read_again\": %" PRIu64
                        : "%" PRIu32 " nodes, %" PRIu64 " writers, records of %" PRIu64
                          " bytes: %" PRIu64 " committed, %" PRIu64 " slots abandoned, %" PRIu64
                          " appended again, %" PRIu64 " read again\n",
           options.nodes, options.writers, options.bytes, committed, abandoned, lost, again);
    if (!options.json) {
        printf("%-8s %12s %14s %12s\n", "", "RECORDS", "RECORDS/s", "MiB/s");
    }
    print_rate("append", committed, append_seconds());
    print_rate("read", committed * options.nodes, read_seconds());
    print_rate("memory", options.records, memory_s);
    if (options.json) {
        printf(", \"digest\": \"%016" PRIx64 "\", \"written_digest\": \"%016" PRIx64
               "\", \"memory_digest\": \"%016" PRIx64 "\"}\n",
               shared->readers[0].content, written_digest(), memory_digest);
    } else {
        printf("append: all writers; read: a reader at each node, all of them; memory: the same "
               "records in memory of one process\n");
    }
}

/* ---- words of the command line -------------------------------------------- */

static void usage(FILE *to)
{
    fprintf(to,
            "usage: example-region_log [OPTIONS] [SOCKET...]\n"
            "Processes at all nodes append to one log in a region; readers at each node check it.\n"
            "SOCKET: of a node, up to %d; none: those of $NIGH_SOCKETS (examples/three-nodes).\n"
            "  --records N    records of all writers (default 30000)\n"
            "  --payload B    bytes of one (default 1024; 1 to %" PRIu64 ")\n"
            "  --writers W    processes that append (default 3; 1 to %d)\n"
            "  --deadline MS  after which readers give up on a slot (default 500; 1 to 10000)\n"
            "  --follow       readers read while writers write, not after\n"
            "  --kill         the first writer dies half-way, with a slot that it reserved\n"
            "  --stall        the last writer stands still half-way until a reader has given up\n"
            "                 on its slot, and appends again (with --follow)\n"
            "  --json         one JSON object\n"
            "Exit status: 0: the log is as it should be; 1: it is not, or something failed; 2: "
            "usage.\n",
            NODES_MAX, BYTES_MAX, WRITERS_MAX);
}

static void refuse(const char *why, const char *word)
{
    fprintf(stderr, "region_log: %s%s (--help says more)\n", why, word);
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

static void check_options(void)
{
    if (options.records < options.writers) {
        refuse("fewer records than writers", "");
    }
    if (slots() > LOG_MAX / slot_bytes()) {
        refuse("so large a log cannot be", "");
    }
    if (options.stall && !options.follow) {
        refuse("--stall is for --follow: who stands still waits for a reader", "");
    }
    if (options.stall && options.kill && options.writers == 1) {
        refuse("one writer cannot die and stand still", "");
    }
}

static void take_options(int argc, char **argv)
{
    const struct option known[] = {
        {"records", required_argument, NULL, 'r'}, {"payload", required_argument, NULL, 'p'},
        {"writers", required_argument, NULL, 'w'}, {"deadline", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},          {"follow", no_argument, &options.follow, 1},
        {"kill", no_argument, &options.kill, 1},   {"stall", no_argument, &options.stall, 1},
        {"json", no_argument, &options.json, 1},   {0}};
    int found;

    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (found) {
        case 0: break;
        case 'r': options.records = number_of(optarg, 1, LOG_MAX); break;
        case 'p': options.bytes = number_of(optarg, 1, BYTES_MAX); break;
        case 'w': options.writers = number_of(optarg, 1, WRITERS_MAX); break;
        case 'd': options.deadline_ms = number_of(optarg, 1, 10000); break;
        case 'h': usage(stdout); exit(0);
        default: usage(stderr); exit(2);
        }
    }
    take_sockets(argv + optind, argc - optind);
    check_options();
}

int main(int argc, char **argv)
{
    uint64_t memory_digest = 0;
    double memory_s;
    bool is_well;

    take_options(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fail("memory", strerror(errno));
    }
    memory_s = time_memory(&memory_digest);
    create_log();
    is_well = run_processes();
    free_log();
    is_well =
        is_well && readers_agree() && (options.kill || shared->readers[0].content == memory_digest);
    if (!is_well) {
        fprintf(stderr, "region_log: the log is not as it should be\n");
        return 1;
    }
    report(memory_s, memory_digest);
    return 0;
}
