/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A voter whose peers have the key and say anything: messages of Raft with any numbers, entries and
 * flags, leases, hints, words of who kept what, and raw bytes, between ticks; most times after its
 * list has begun. And any bytes as what it kept. What must hold: no crash, what is agreed only
 * grows, who kept nothing says nothing of Raft, and whatever it keeps it can begin with again.
 *
 * Raft takes its voters at their word: one that lies may have views decided that are none.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/agree_internal.h"
#include "fuzz_input.h"

#define COUNT  6u
#define RANKS  (COUNT + 2u) /* with seats for those who join */
#define STEPS  256u
#define STORED (256u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static struct {
    struct agree *agree;
    struct fuzz_input input;
    uint64_t now_us;
    uint8_t stored[STORED];
    size_t stored_bytes;
    uint8_t last[AGREE_MESSAGE_BYTES]; /* that it sent */
    uint32_t last_bytes;
} fuzz;

static uint64_t below(uint64_t bound)
{
    return fuzz_number(&fuzz.input) % bound;
}

static void on_send(void *context, uint32_t rank, const void *bytes, uint32_t count)
{
    (void)context;
    NIGH_ASSERT(rank < RANKS && count <= AGREE_MESSAGE_BYTES);
    NIGH_ASSERT(fuzz.agree == NULL || !fuzz.agree->is_bare || *(const uint8_t *)bytes >= AGREE_ASK);
    memcpy(fuzz.last, bytes, count);
    fuzz.last_bytes = count;
}

static nigh_status on_store(void *context, const void *bytes, size_t count)
{
    (void)context;
    NIGH_ASSERT(count <= STORED);
    memcpy(fuzz.stored, bytes, count);
    fuzz.stored_bytes = count;
    return NIGH_OK;
}

static void on_seated(void *context, const char *address, nigh_status status, uint32_t rank,
                      const struct agreed_roster *seats)
{
    (void)context;
    NIGH_ASSERT(status != NIGH_OK ||
                (rank >= COUNT && rank < COUNT + seats->count && address[0] != '\0'));
}

static void on_forgot(void *context, uint32_t rank, nigh_status status)
{
    (void)context;
    NIGH_ASSERT(status != NIGH_OK || rank >= COUNT);
}

static nigh_status begin(uint32_t self)
{
    struct agree_config config = {.self = self,
                                  .listed = COUNT,
                                  .count = RANKS,
                                  .cluster = 7,
                                  .dead_us = 3000000,
                                  .seed = 1,
                                  .send = on_send,
                                  .store = on_store,
                                  .seated = on_seated,
                                  .forgot = on_forgot};
    char why[AGREE_WHY_BYTES];
    nigh_status status;

    fuzz.agree = NULL;
    status = agree_create(&config, fuzz.stored, fuzz.stored_bytes, fuzz.now_us, &fuzz.agree, why);
    if (status == NIGH_OK) {
        agree_opened(fuzz.agree, fuzz.now_us);
    }
    return status;
}

/* A roster whose head can be one; its bytes. */
static size_t some_roster(uint8_t *bytes)
{
    struct agreed_roster_head head = {.changes = below(8), .seats = below(3), .names = below(3)};
    size_t count = sizeof(head);

    memcpy(bytes, &head, sizeof(head));
    for (uint64_t n = 0; n < head.seats; n++) {
        memset(bytes + count, 0, AGREED_ADDRESS_BYTES);
        bytes[count] = n == 0 && below(4) > 0 ? 'a' : (uint8_t)below(256); /* 0: struck off */
        count += AGREED_ADDRESS_BYTES;
    }
    for (uint64_t n = 0; n < head.names; n++) {
        struct agreed_name_record record = {.rank = (uint32_t)below(8)};

        fuzz_fill(&fuzz.input, (uint8_t *)record.name, below(3));
        memcpy(bytes + count, &record, sizeof(record));
        count += sizeof(record);
    }
    return count;
}

/* Who votes, or what is nearly that. */
static struct agree_conf some_conf(uint64_t index)
{
    struct agree_conf conf = {.index = index, .count = (uint32_t)below(AGREE_SERVERS + 2)};

    for (uint32_t n = 0; n < AGREE_SERVERS; n++) {
        conf.servers[n] =
            (struct agree_server){.rank = (uint16_t)below(RANKS + 1), .role = (uint16_t)below(4)};
    }
    return conf;
}

/* An entry that changes who votes, of the term that the head has, and behind what it says. */
static size_t some_change(uint8_t bytes[AGREE_MESSAGE_BYTES])
{
    struct agree_conf conf = some_conf(1);
    struct raft_configuration configuration;
    struct raft_buffer encoded;
    struct agree_entry_head entry = {.term = 1 + below(2), .type = RAFT_CHANGE};
    struct agree_head head;

    conf.count %= AGREE_SERVERS + 1;
    for (uint32_t n = 0; n < AGREE_SERVERS; n++) {
        conf.servers[n].rank %= RANKS;
        conf.servers[n].role %= 3;
    }
    if (conf.count == 0 || agree_conf_make(fuzz.agree, &conf, &configuration) != 0) {
        return 0;
    }
    NIGH_ASSERT(raft_configuration_encode(&configuration, &encoded) == 0);
    raft_configuration_close(&configuration);
    memcpy(&head, bytes, sizeof(head));
    head.entries = 1;
    memcpy(bytes, &head, sizeof(head));
    entry.bytes = (uint32_t)encoded.len;
    memcpy(bytes + sizeof(head), &entry, sizeof(entry));
    memcpy(bytes + sizeof(head) + sizeof(entry), encoded.base, encoded.len);
    raft_free(encoded.base);
    return sizeof(entry) + entry.bytes;
}

static size_t some_snapshot(uint8_t *bytes, uint64_t index)
{
    struct agree_conf conf = some_conf(index);
    struct agreed agreed;

    agreed_init(&agreed, COUNT);
    agreed.epoch = agreed.active = 1 + below(4);
    memcpy(bytes, &conf, sizeof(conf));
    memcpy(bytes + sizeof(conf), &agreed, sizeof(agreed));
    return sizeof(conf) + sizeof(agreed) + some_roster(bytes + sizeof(conf) + sizeof(agreed));
}

/* Of directories: its own, and some others'. */
static void some_tokens(uint64_t tokens[AGREE_VOTERS])
{
    for (uint32_t n = 0; n < AGREE_VOTERS; n++) {
        tokens[n] = below(3);
    }
    tokens[0] = below(2) == 0 ? fuzz.agree->log.tokens[0] : tokens[0];
}

/* All of its list say that they kept nothing. */
static void let_begin(void)
{
    struct agree_head head = {.kind = AGREE_KNOWN, .flags = AGREE_FLAG_BARE};
    uint64_t tokens[AGREE_VOTERS] = {fuzz.agree->log.tokens[0], 1, 2, 3, 4};
    uint8_t bytes[sizeof(head) + sizeof(tokens)];

    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), tokens, sizeof(tokens));
    for (uint32_t rank = 1; rank < AGREE_VOTERS; rank++) {
        agree_hear(fuzz.agree, rank, bytes, sizeof(bytes), fuzz.now_us);
    }
    fuzz.now_us += BEGIN_WAIT_US;
    (void)agree_tick(fuzz.agree, fuzz.now_us);
    NIGH_ASSERT(!fuzz.agree->is_bare);
}

/* A message whose head can be one. */
static void say_something(uint32_t from)
{
    struct agree_head head = {0};
    uint8_t bytes[AGREE_MESSAGE_BYTES];
    uint64_t tokens[AGREE_VOTERS];
    size_t count = sizeof(head);

    head.kind =
        below(2) == 0 ? AGREE_ASK + (uint8_t)below(10) : RAFT_IO_APPEND_ENTRIES + (uint8_t)below(6);
    head.flags = (uint8_t)below(64);
    for (uint32_t n = 0; n < 4; n++) {
        head.numbers[n] = below(8);
    }
    if (below(4) == 0 && fuzz.last_bytes >= sizeof(head)) {
        memcpy(&head.numbers[0], fuzz.last + 8, sizeof(head.numbers[0])); /* its own nonce */
    }
    memcpy(bytes, &head, sizeof(head));
    if (head.kind == AGREE_GRANT) {
        struct agree_news news;

        agreed_init(&news.agreed, COUNT);
        news.agreed.epoch = 1 + below(4);
        news.agreed.active = 1 + below(4);
        news.agreed.in.words[0] = below(128);
        news.conf = some_conf(below(8));
        memcpy(bytes + count, &news, sizeof(news));
        count += sizeof(news);
    }
    if (head.kind == RAFT_IO_APPEND_ENTRIES) {
        count += some_change(bytes);
    }
    if (head.kind == RAFT_IO_INSTALL_SNAPSHOT) {
        count += some_snapshot(bytes + count, head.numbers[3]);
    }
    if (head.kind == AGREE_JOIN) {
        memset(bytes + count, 0, AGREED_ADDRESS_BYTES);
        fuzz_fill(&fuzz.input, bytes + count, below(4));
        count += AGREED_ADDRESS_BYTES;
    }
    if (head.kind == AGREE_SEATED || head.kind == AGREE_ROSTER) {
        count += some_roster(bytes + count);
    }
    if (head.kind == AGREE_KNOWN) {
        some_tokens(tokens);
        memcpy(bytes + count, tokens, sizeof(tokens));
        count += sizeof(tokens);
    }
    if (head.kind == AGREE_NAME) {
        memset(bytes + count, 0, AGREED_NAME_BYTES);
        fuzz_fill(&fuzz.input, bytes + count, below(4));
        count += AGREED_NAME_BYTES;
    }
    agree_hear(fuzz.agree, from, bytes, count, fuzz.now_us);
}

static void step(void)
{
    uint32_t from = 1 + (uint32_t)below(RANKS); /* RANKS: none of them */
    uint8_t raw[128];
    size_t count = below(sizeof(raw));

    switch (below(8)) {
    case 6: (void)agree_forget(fuzz.agree, (uint32_t)below(RANKS + 1), fuzz.now_us); break;
    case 5: (void)agree_join(fuzz.agree, below(2) == 0 ? "a:1" : "b:1", fuzz.now_us); break;
    case 0:
        fuzz_fill(&fuzz.input, raw, count);
        agree_hear(fuzz.agree, from, raw, count, fuzz.now_us);
        break;
    case 1: agree_adopted(fuzz.agree, below(8), fuzz.now_us); break;
    case 2: agree_dead(fuzz.agree, from, fuzz.now_us); break;
    case 3:
        fuzz.now_us += below(3000000);
        (void)agree_tick(fuzz.agree, fuzz.now_us);
        break;
    default: say_something(from); break;
    }
}

/* Messages of Raft are read whole or refused; what is read is freed as libraft would. */
static void read_raft(void)
{
    struct raft_message message = {.server_id = 2};
    uint8_t bytes[1024];
    size_t count = sizeof(struct agree_head) + below(sizeof(bytes) - sizeof(struct agree_head));

    fuzz_fill(&fuzz.input, bytes, count);
    bytes[0] = (uint8_t)(1 + bytes[0] % 6);
    bytes[2] %= 8; /* entries */
    bytes[3] = 0;
    if (agree_decode(fuzz.agree, bytes, count, &message) != NIGH_OK) {
        return;
    }
    agree_discard(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct agree_look look, before = {0};

    fuzz.input = (struct fuzz_input){.bytes = data, .left = size_bytes};
    fuzz.now_us = 1000000;
    fuzz.stored_bytes = fuzz.last_bytes = 0;
    if (below(4) == 0) { /* what it kept is anything */
        fuzz.stored_bytes = below(512);
        fuzz_fill(&fuzz.input, fuzz.stored, fuzz.stored_bytes);
        if (begin(0) == NIGH_OK) {
            agree_destroy(fuzz.agree);
        }
        fuzz.stored_bytes = 0;
    }
    NIGH_ASSERT(begin(0) == NIGH_OK);
    if (below(4) > 0) {
        let_begin();
    }
    for (uint32_t n = 0; n < STEPS && fuzz.input.left > 0; n++) {
        step();
        read_raft();
        agree_look(fuzz.agree, fuzz.now_us, &look);
        NIGH_ASSERT(!agreed_is_older(&look.agreed, &before.agreed));
        NIGH_ASSERT(look.agreed.epoch == 0 || agreed_is_valid(&look.agreed, RANKS));
        before = look;
    }
    agree_destroy(fuzz.agree);
    NIGH_ASSERT(begin(0) == NIGH_OK);
    agree_destroy(fuzz.agree);
    return 0;
}
