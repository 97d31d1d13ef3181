/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node whose peer has the cluster's key and says anything.
 *
 * One real exchange with its store, links and directory, over the simulated fabric; at the other
 * end a channel of production code whose user is the fuzzer: replies of any kind to calls that were
 * made, calls and messages that nobody asked for, bulk messages with any numbers, READs of
 * anything, links that break at any moment, raw frames. Most of it is nearly right, so that it
 * comes far. Meanwhile clients of the node put, get, delete and release.
 *
 * What must hold after each step: the invariants of store, directory, links and exchange, and no
 * loop without end (tests/unit/object_exchange_hostile_test.c runs the same with random bytes). A
 * get brings bytes that lie as a client here put them, or whose sums are some that the peer said.
 * At the end, with the peer dead: every operation has ended, nothing is held.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "fabric/sim/sim.h"
#include "fuzz_input.h"
#include "memory/extent_internal.h"
#include "memory/memfd.h"
#include "memory/pin.h"
#include "object/exchange_internal.h"
#include "object/exchange_link.h"
#include "object/exchange_probe.h"
#include "object/exchange_pull.h"
#include "object/exchange_push.h"
#include "object/exchange_replicas.h"
#include "object/exchange_serve.h"

#define TREE_BYTES  4096u /* objects from here on go by trees */
#define KEYS        6u
#define MAX_KEYS    24u
#define VERSIONS    3u
#define OPS         48u
#define PINS        16u
#define REQUESTS    8u
#define CALLS       6u
#define PAYLOAD     1024u
#define FRAME       (PAYLOAD + (uint32_t)sizeof(struct rpc_header))
#define RECEIVES    64u
#define SENDS       64u
#define BULKS       6u
#define PROBE_BYTES 1000u /* of which the fuzz's receives take some */
#define BULK        (512u + (uint32_t)sizeof(struct wire_chunk))
#define WINDOW      (600u + (uint32_t)sizeof(struct wire_chunk))
#define REGION      (160u * 1024)
#define TOLD        4096u
#define STEPS       600u
#define EXTENTS     4u
#define ENTRIES     64u
#define POOL        0u
#define CLUSTER     UINT64_C(0x706f6f6c)
#define PATTERN     0xa5
#define GET_MOST_US 2000000u
#define SETTLE_US   30000000u
#define VAIN        50u
#define CHECK_EVERY 32u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

enum op_kind {
    OP_FREE = 0,
    OP_CREATE,
    OP_SEAL,
    OP_GET,
    OP_DELETE,
    OP_OTHER
};

struct op {
    enum op_kind kind;
    bool ended;
    uint32_t key;
    uint64_t data_size;
    uint64_t deadline_us;
    struct session_cqe cqe;
};

/* A request of the node that the peer has not answered. */
struct asked {
    uint64_t call; /* 0: none */
    uint16_t method;
    uint32_t bytes;
    uint8_t payload[PAYLOAD];
};

/* An endpoint of the peer, and the memory that it needs. */
struct side {
    struct fabric_endpoint *endpoint;
    bool established;
    uint8_t receives[RECEIVES][FRAME];
    uint8_t sends[SENDS][FRAME];
    bool busy[SENDS];
};

static struct {
    struct fuzz_input input;
    uint64_t now_us;
    struct sim *sim;
    /* The node. */
    struct members members;
    struct extent_set *set;
    void *index_memory;
    struct store *store;
    struct fabric *fabric;
    struct exchange *exchange;
    void *session;
    _Atomic uint64_t quota_used;
    struct op ops[OPS];
    uint32_t pins[PINS]; /* number + 1; 0: none */
    /* The peer. */
    struct fabric *peer;
    struct fabric_memory *memory;
    struct fabric_memory *open; /* of `windows` */
    struct link_peer info;
    uint32_t serial;
    struct side sides[LINK_BULK + 1];
    struct rpc *rpc;
    bool rpc_ended;
    struct asked asked[CALLS];
    uint32_t one_ways[WIRE_REPLICA_COUNT + 1]; /* that the node said, by method */
    bool announced;                            /* what the peer holds, on this link */
    bool polite;                               /* it makes no mistakes for a while */
    uint64_t tag;                              /* of the last PULL */
    uint64_t serve;                            /* of the last answer to one of the peer's */
    struct fabric_remote remote;               /* of the same */
    struct wire_sums told[TOLD];
    uint32_t told_count;
    /* What the peer's READs bring, and what the node may READ there. */
    uint8_t region[REGION];
    /* Where the node may write. */
    uint8_t windows[WIRE_WINDOWS][WINDOW];
    uint32_t imms[64]; /* what it said that it wrote */
    uint64_t imm_bytes[64];
    uint32_t imm_count;
} fuzz;

/* Of all runs: what came of it. */
static struct {
    uint64_t copies, large_copies, own; /* gets that brought these */
    uint64_t breaks;                    /* links that the node ended */
} counts;

/* ---- objects of the peer --------------------------------------------------- */

static struct directory_key key_of(uint32_t key)
{
    struct directory_key made = {.pool = CLUSTER};

    memset(made.id, (int)(key + 1), 4);
    made.id[0] = (uint8_t)(key * 41);
    return made;
}

static struct directory_object object_of(uint32_t key, uint32_t version)
{
    static const uint32_t sizes[] = {0, 1, 100, 300, 900, 1001, 4096, 5000, 8192, 20000, 70000};
    uint32_t n = key * VERSIONS + version;

    return (struct directory_object){
        .birth = {.counter = 1 + version, .incarnation = 1, .rank = 1},
        .data_size = sizes[n % ARRAY_LENGTH(sizes)],
        .meta_size = n % 5 == 4 ? 24 : 0,
    };
}

/* What was said of sums is remembered: a get may bring bytes that fit any of it. */
static void tell(const struct wire_sums *sums)
{
    if (fuzz.told_count < TOLD) {
        fuzz.told[fuzz.told_count++] = *sums;
    }
}

static bool was_told(uint32_t data_crc, uint32_t tail_crc)
{
    for (uint32_t n = 0; n < fuzz.told_count; n++) {
        if (fuzz.told[n].data_crc == data_crc && fuzz.told[n].tail_crc == tail_crc) {
            return true;
        }
    }
    return fuzz.told_count == TOLD;
}

static uint64_t content_of(const struct directory_object *object)
{
    return index_meta_offset(object->data_size) + object->meta_size + object->name_size;
}

static struct wire_sums sums_of(const struct directory_object *object)
{
    return (struct wire_sums){
        .data_crc = exchange_crc(0, fuzz.region, object->data_size),
        .tail_crc = exchange_crc(0, fuzz.region + index_meta_offset(object->data_size),
                                 exchange_tail_bytes(object)),
        .known = 1,
    };
}

/* One in some is wrong. */
static bool dice(uint32_t one_in)
{
    return !fuzz.polite && fuzz_byte(&fuzz.input) % one_in == one_in - 1;
}

/* ---- the peer's channel ---------------------------------------------------- */

static void break_side(enum link_endpoint kind)
{
    struct side *side = &fuzz.sides[kind];

    fabric_endpoint_destroy(fuzz.peer, side->endpoint);
    side->endpoint = NULL;
    side->established = false;
    memset(side->busy, 0, sizeof(side->busy));
    if (kind == LINK_CONTROL && fuzz.rpc != NULL) {
        fuzz.rpc_ended = true;
        rpc_end(fuzz.rpc, NIGH_PEER_LOST, fuzz.now_us);
    }
}

static void post(enum link_endpoint kind, const void *head, uint32_t head_bytes, const void *bytes,
                 uint32_t count)
{
    struct side *side = &fuzz.sides[kind];
    struct fabric_slice slice = {.bytes = head_bytes + count, .memory = fuzz.memory};
    struct fabric_work work = {
        .op = FABRIC_SEND, .flags = FABRIC_SIGNALLED, .slices = &slice, .slice_count = 1};
    uint32_t n = 0;

    while (n < SENDS && side->busy[n]) {
        n++;
    }
    if (!side->established || n == SENDS) {
        return;
    }
    memcpy(side->sends[n], head, head_bytes);
    if (count > 0) {
        memcpy(side->sends[n] + head_bytes, bytes, count);
    }
    slice.address = side->sends[n];
    work.tag = n;
    side->busy[n] = fabric_post(fuzz.peer, side->endpoint, &work, NULL) == NIGH_OK;
}

/* The node's staging memory for the peer; NULL: it has none. */
static struct push_staging *staging(void)
{
    struct list_node *node = list_first(&fuzz.exchange->live);

    return node == NULL ? NULL : container_of(node, struct exchange_link, place)->staging;
}

/* A window that the node has granted to a pull, and where nothing has come. */
static bool window_of(uint64_t tag, struct wire_window *window)
{
    const struct push_staging *there = staging();

    for (uint32_t n = 0; there != NULL && n < BULKS; n++) {
        struct fabric_remote remote = fabric_memory_remote(
            fuzz.fabric, there->memory, there->bytes + (size_t)n * there->stride);

        if (there->windows[n].state == PUSH_GRANTED && there->windows[n].tag == tag) {
            *window = (struct wire_window){.address = remote.address,
                                           .bytes = WINDOW,
                                           .key = remote.key,
                                           .imm = there->windows[n].serial << 12 | n};
            return true;
        }
    }
    return false;
}

/* Writes head and bytes to a window, as one message. */
static void push(enum link_endpoint kind, const struct wire_window *window, const void *head,
                 uint32_t head_bytes, const void *bytes, uint32_t count)
{
    struct side *side = &fuzz.sides[kind];
    struct fabric_slice slice = {.bytes = head_bytes + count, .memory = fuzz.memory};
    struct fabric_work work = {.op = FABRIC_WRITE_IMM,
                               .flags = FABRIC_SIGNALLED,
                               .slices = &slice,
                               .slice_count = 1,
                               .remote = {.address = window->address, .key = window->key},
                               .imm = window->imm};
    uint32_t n = 0;

    while (n < SENDS && side->busy[n]) {
        n++;
    }
    if (!side->established || n == SENDS) {
        return;
    }
    memcpy(side->sends[n], head, head_bytes);
    if (count > 0) {
        memcpy(side->sends[n] + head_bytes, bytes, count);
    }
    slice.address = side->sends[n];
    work.tag = n;
    side->busy[n] = fabric_post(fuzz.peer, side->endpoint, &work, NULL) == NIGH_OK;
}

static void on_send(void *context, const struct rpc_header *header, const struct rpc_piece *pieces,
                    uint32_t count)
{
    uint8_t payload[PAYLOAD];
    uint32_t bytes = 0;

    (void)context;
    for (uint32_t n = 0; n < count; n++) {
        memcpy(payload + bytes, pieces[n].data, pieces[n].bytes);
        bytes += pieces[n].bytes;
    }
    post(LINK_CONTROL, header, sizeof(*header), payload, bytes);
}

static void on_request(void *context, const struct rpc_request *request, uint64_t now_us)
{
    (void)context;
    (void)now_us;
    if (request->method == WIRE_PULL && request->bytes >= sizeof(struct wire_pull)) {
        struct wire_pull pull;

        memcpy(&pull, request->payload, sizeof(pull));
        fuzz.tag = pull.tag;
    }
    if (request->method == WIRE_LOCATE && request->bytes >= sizeof(struct wire_locate)) {
        struct wire_locate locate;

        memcpy(&locate, request->payload, sizeof(locate));
        fuzz.tag = locate.tag;
    }
    if (request->method == WIRE_PROBE && request->bytes == sizeof(struct wire_probe)) {
        struct wire_probe probe;

        memcpy(&probe, request->payload, sizeof(probe));
        if (probe.way == WIRE_STREAM) {
            fuzz.tag = probe.tag;
        }
    }
    if (request->call == 0 && request->method <= WIRE_REPLICA_COUNT) {
        fuzz.one_ways[request->method]++;
    }
    for (uint32_t n = 0; n < CALLS && request->call != 0; n++) {
        struct asked *asked = &fuzz.asked[n];

        if (asked->call == 0) {
            asked->call = request->call;
            asked->method = request->method;
            asked->bytes = request->bytes;
            memcpy(asked->payload, request->payload, request->bytes);
            return;
        }
    }
}

static void on_canceled(void *context, uint64_t call)
{
    (void)context;
    for (uint32_t n = 0; n < CALLS; n++) {
        if (fuzz.asked[n].call == call) {
            fuzz.asked[n].call = 0;
        }
    }
}

static void on_reply(void *context, nigh_status status, const uint8_t *payload, uint32_t bytes,
                     uint64_t now_us)
{
    (void)context;
    (void)now_us;
    if (status == NIGH_OK && bytes >= sizeof(struct wire_pulled) && payload[0] == WIRE_PULLED) {
        struct wire_pulled pulled;

        memcpy(&pulled, payload, sizeof(pulled));
        fuzz.serve = pulled.serve;
        if (pulled.way == WIRE_LOAN && bytes >= sizeof(pulled) + sizeof(struct wire_piece)) {
            struct wire_piece piece;

            memcpy(&piece, payload + sizeof(pulled), sizeof(piece));
            fuzz.remote = (struct fabric_remote){.address = piece.address, .key = piece.key};
        }
    }
}

static void make_channel(void)
{
    struct rpc_config config = {
        .requests = REQUESTS,
        .calls = CALLS,
        .queue = 8,
        .payload_bytes = PAYLOAD,
        .epoch = fuzz.members.epoch,
        .shell = {NULL, on_send, on_request, on_canceled},
    };

    rpc_destroy(fuzz.rpc);
    fuzz.rpc_ended = false;
    fuzz.announced = false;
    memset(fuzz.asked, 0, sizeof(fuzz.asked));
    NIGH_ASSERT(rpc_create(&config, &fuzz.rpc) == NIGH_OK);
}

/* ---- the peer's endpoints -------------------------------------------------- */

static void post_receive(struct side *side, uint32_t number)
{
    struct fabric_receive receive = {
        .tag = number,
        .slice = {.address = side->receives[number], .bytes = FRAME, .memory = fuzz.memory}};

    (void)fabric_post_receive(fuzz.peer, side->endpoint, &receive, NULL);
}

static void take_endpoint(enum link_endpoint kind, struct fabric_endpoint *endpoint)
{
    struct side *side = &fuzz.sides[kind];
    uint32_t count = kind == LINK_CONTROL
                         ? rpc_receives(&(struct rpc_config){.requests = REQUESTS, .calls = CALLS})
                         : BULKS;

    break_side(kind);
    side->endpoint = endpoint;
    if (kind == LINK_CONTROL) {
        make_channel();
    }
    for (uint32_t n = 0; n < count; n++) {
        post_receive(side, n);
    }
}

static struct fabric_endpoint_options options_of(enum link_endpoint kind)
{
    return (struct fabric_endpoint_options){
        .sends = SENDS, .receives = RECEIVES, .context = &fuzz.sides[kind]};
}

static void accept_request(const struct fabric_event *event)
{
    struct auth_token token;
    struct fabric_endpoint_options options;

    memcpy(&token, event->private_data, sizeof(token));
    options = options_of((enum link_endpoint)token.kind);
    if (token.kind > LINK_BULK ||
        fabric_accept(fuzz.peer, event->endpoint, &options, NULL, 0) != NIGH_OK) {
        fabric_reject(fuzz.peer, event->endpoint);
        return;
    }
    take_endpoint((enum link_endpoint)token.kind, event->endpoint);
}

/* The peer dials, mostly with a token that is good. */
static void dial(enum link_endpoint kind)
{
    struct fabric_endpoint_options options = options_of(kind);
    struct fabric_endpoint *endpoint;
    struct auth_token token = {
        .kind = (uint8_t)kind,
        .rank = 1,
        .incarnation = fuzz.info.incarnation,
        .target_incarnation = 1,
        .serial = ++fuzz.serial,
    };

    if (dice(16)) {
        fuzz_patch(&fuzz.input, &token, sizeof(token));
    }
    auth_token_sign(&token, fuzz.info.session);
    break_side(kind);
    if (fabric_connect(fuzz.peer, "0:0", &options, &token, sizeof(token), &endpoint) == NIGH_OK) {
        take_endpoint(kind, endpoint);
    }
}

static void on_event(const struct fabric_event *event)
{
    struct side *side = event->context;

    if (event->kind == FABRIC_REQUEST) {
        accept_request(event);
    } else if (side != NULL && side->endpoint == event->endpoint) {
        if (event->kind == FABRIC_ESTABLISHED) {
            side->established = true;
        } else {
            break_side((enum link_endpoint)(side - fuzz.sides));
        }
    }
}

static void on_completion(const struct fabric_completion *completion)
{
    struct side *side = completion->context;

    if (side == NULL || side->endpoint != completion->endpoint) {
        return;
    }
    if (completion->op == FABRIC_SEND || completion->op == FABRIC_WRITE_IMM) {
        side->busy[completion->tag] = false;
    } else if (completion->op == FABRIC_RECV && completion->status == NIGH_OK) {
        if (completion->has_imm && fuzz.imm_count < ARRAY_LENGTH(fuzz.imms)) {
            fuzz.imms[fuzz.imm_count] = completion->imm;
            fuzz.imm_bytes[fuzz.imm_count++] = completion->bytes;
        }
        if (side == &fuzz.sides[LINK_CONTROL] && !fuzz.rpc_ended) {
            (void)rpc_receive(fuzz.rpc, side->receives[completion->tag],
                              (uint32_t)completion->bytes, fuzz.now_us);
        }
        if (side->endpoint == completion->endpoint) {
            post_receive(side, (uint32_t)completion->tag);
        }
    }
}

static bool peer_turn(void)
{
    struct fabric_completion completions[32];
    struct fabric_event event;
    uint32_t count = fabric_poll(fuzz.peer, completions, 32, fuzz.now_us);

    for (uint32_t n = 0; n < count; n++) {
        on_completion(&completions[n]);
    }
    if (fuzz.rpc != NULL && !fuzz.rpc_ended) {
        (void)rpc_tick(fuzz.rpc, fuzz.now_us);
    }
    if (fabric_next_event(fuzz.peer, &event)) {
        on_event(&event);
        return true;
    }
    return count > 0;
}

/* ---- what the peer says ---------------------------------------------------- */

static struct directory_object some_object(uint32_t key)
{
    struct directory_object object =
        object_of(key, fuzz.polite ? 0 : fuzz_byte(&fuzz.input) % VERSIONS);

    if (dice(12)) {
        /* The same birth, in other clothes: as long together, sometimes. */
        uint64_t data = object.data_size & ~UINT64_C(7);

        object.meta_size += 8;
        object.data_size = data >= 8 ? data - 8 : data;
    }
    if (dice(24)) {
        object.data_size = fuzz_number(&fuzz.input) % (2 * LIMIT_OBJECT_BYTES);
    }
    if (dice(24)) {
        fuzz_patch(&fuzz.input, &object, sizeof(object));
    }
    return object;
}

static struct wire_sums some_sums(const struct directory_object *object)
{
    struct wire_sums sums = {0};

    if (content_of(object) <= REGION && object->data_size <= REGION) {
        sums = sums_of(object);
    }
    if (dice(12)) {
        sums.known = 0;
    }
    if (dice(16)) {
        fuzz_patch(&fuzz.input, &sums, sizeof(sums));
    }
    tell(&sums);
    return sums;
}

/* The key that a request is about. */
static uint32_t key_in(const struct asked *asked)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        struct directory_key made = key_of(key);

        if (asked->bytes >= sizeof(made) && memcmp(asked->payload, &made, sizeof(made)) == 0) {
            return key;
        }
    }
    return 0;
}

static uint32_t make_located(uint32_t key, uint8_t *out)
{
    struct wire_located located = {
        .state = dice(8) ? fuzz_byte(&fuzz.input) : DIRECTORY_KNOWN,
        .holder_count = 1 + (dice(8) ? fuzz_byte(&fuzz.input) : 0),
        .holders = {1, 1, 0, 7},
        .object = some_object(key),
    };

    memcpy(out, &located, sizeof(located));
    return sizeof(located);
}

/* What the node pulls under a key; NULL: nothing. */
static const struct pull *pull_under(uint32_t key)
{
    struct directory_key name = key_of(key);

    for (uint32_t n = 0; n < fuzz.exchange->pulls_used; n++) {
        const struct pull *pull = &fuzz.exchange->pulls[n];

        if (pull->state != PULL_FREE && memcmp(&pull->key, &name, sizeof(name)) == 0) {
            return pull;
        }
    }
    return NULL;
}

/* An object that is begun at the node already, told of anew: of other sizes, and as long. */
static void tell_otherwise(const struct pull *pull, struct wire_pulled *pulled)
{
    if (pull->has_memory && dice(2)) {
        pulled->object = pull->begun;
        if (dice(2)) {
            pulled->object.data_size = fuzz_number(&fuzz.input);
        } else {
            pulled->object.meta_size = fuzz_byte(&fuzz.input);
        }
    }
    pulled->bytes = pull->content;
}

/* Where an object's bytes lie, from an offset on, in one piece or two; and other things. */
static uint32_t make_pieces(struct wire_pulled *pulled, uint64_t from, struct wire_piece *pieces)
{
    uint64_t left = pulled->bytes > from ? pulled->bytes - from : 0;
    struct fabric_remote remote =
        fabric_memory_remote(fuzz.peer, fuzz.memory, fuzz.region + from % REGION);
    uint32_t count = 0;

    if (pulled->partial == 1) {
        left = left > 0 ? fuzz_number(&fuzz.input) % (left + 1) : 0;
    }
    while (left > 0 && count < 2) {
        uint64_t bytes = count == 0 && dice(2) ? 1 + fuzz_number(&fuzz.input) % left : left;

        pieces[count++] = (struct wire_piece){remote.address, bytes, remote.key, 0};
        remote.address += bytes;
        left -= bytes;
    }
    pulled->from = from;
    pulled->pieces = count;
    if (count > 0 && dice(12)) {
        fuzz_patch(&fuzz.input, pieces, count * sizeof(*pieces));
    }
    return count * (uint32_t)sizeof(*pieces);
}

/* An answer that serves: as it was asked, mostly. */
static uint32_t make_pulled(const struct asked *asked, uint32_t key, uint8_t *out)
{
    struct directory_object object = some_object(key);
    struct wire_pulled pulled = {
        .state = WIRE_PULLED,
        .way = WIRE_LOAN,
        .serve = 1 + fuzz_byte(&fuzz.input) % 3,
    };
    struct wire_piece pieces[2];
    uint32_t bytes = sizeof(pulled);
    uint64_t from = 0;

    if (asked->method == WIRE_PULL && asked->bytes >= sizeof(struct wire_pull)) {
        struct wire_pull pull;

        memcpy(&pull, asked->payload, sizeof(pull));
        pulled.way = pull.way;
        pulled.serve = pull.serve == 0 || dice(12) ? pulled.serve : pull.serve;
        from = pull.way == WIRE_LOAN && !dice(12) ? pull.tag : 0;
        if (!dice(12)) {
            object = object_of(key, (uint32_t)(pull.birth.counter - 1) % VERSIONS);
        }
    }
    if (asked->method == WIRE_LOCATE && asked->bytes >= sizeof(struct wire_locate)) {
        struct wire_locate locate;

        memcpy(&locate, asked->payload, sizeof(locate));
        pulled.way = locate.credits > 0 && dice(2) ? WIRE_STREAM : WIRE_LOAN;
        if (locate.way == WIRE_PUSH && locate.credits > 0 && !dice(8)) {
            pulled.way = WIRE_PUSH;
        }
    }
    pulled.object = object;
    pulled.bytes = content_of(&object);
    pulled.sums = some_sums(&object);
    pulled.partial = dice(4) ? 1 : 0;
    if (dice(6) && pull_under(key) != NULL) {
        tell_otherwise(pull_under(key), &pulled);
    }
    if ((pulled.way == WIRE_STREAM || pulled.way == WIRE_PUSH) && pulled.bytes <= PAYLOAD - bytes) {
        pulled.way = WIRE_INLINE;
    }
    if (dice(12)) {
        pulled.way = 1 + fuzz_byte(&fuzz.input) % 4;
    }
    if (pulled.way == WIRE_LOAN) {
        uint32_t added = make_pieces(&pulled, from, pieces);

        memcpy(out + bytes, pieces, added);
        bytes += added;
    }
    if (dice(12)) {
        fuzz_patch(&fuzz.input, &pulled, sizeof(pulled));
        tell(&pulled.sums);
    }
    if (pulled.way == WIRE_INLINE && pulled.bytes <= PAYLOAD - sizeof(pulled)) {
        bytes = sizeof(pulled);
        memcpy(out + bytes, fuzz.region, pulled.bytes);
        bytes += (uint32_t)pulled.bytes;
    }
    memcpy(out, &pulled, sizeof(pulled));
    return bytes;
}

/* Others that are to be asked. */
static uint32_t make_sent_on(uint32_t key, uint8_t *out)
{
    uint32_t bytes = make_located(key, out);
    uint32_t state = WIRE_SENT_ON;

    memcpy(out, &state, sizeof(state));
    return bytes;
}

static uint32_t make_reply(const struct asked *asked, uint8_t *out)
{
    uint32_t key = key_in(asked);

    switch (asked->method) {
    case WIRE_LOCATE: return dice(3) ? make_located(key, out) : make_pulled(asked, key, out);
    case WIRE_PULL: return dice(8) ? make_sent_on(key, out) : make_pulled(asked, key, out);
    case WIRE_DONE: {
        struct directory_object object = some_object(fuzz_byte(&fuzz.input) % KEYS);
        struct wire_sums sums = some_sums(&object);

        memcpy(out, &sums, sizeof(sums));
        return sizeof(sums);
    }
    case WIRE_ANNOUNCE:
        for (uint32_t n = 0; n < asked->bytes / sizeof(struct wire_announce); n++) {
            out[n] = dice(4) ? (uint8_t)-fuzz_byte(&fuzz.input) : 0;
        }
        return asked->bytes / (uint32_t)sizeof(struct wire_announce);
    case WIRE_REPLICAS: {
        uint32_t count = asked->bytes / (uint32_t)sizeof(struct wire_replica);

        for (uint32_t n = 0; n < count; n++) {
            struct wire_replica_state state = {.status = dice(4) ? -(int32_t)fuzz_byte(&fuzz.input)
                                                                 : NIGH_OK,
                                               .wanted = fuzz_byte(&fuzz.input),
                                               .held = fuzz_byte(&fuzz.input) % 10,
                                               .flags = dice(4),
                                               .why = -(int32_t)dice(32)};

            memcpy(out + n * sizeof(state), &state, sizeof(state));
        }
        return count * (uint32_t)sizeof(struct wire_replica_state);
    }
    default: return 0;
    }
}

static nigh_status some_status(void)
{
    return (nigh_status) - (int)(fuzz_byte(&fuzz.input) % 20);
}

static void say_reply(struct asked *asked)
{
    uint8_t payload[PAYLOAD] = {0};
    struct rpc_piece piece = {.data = payload};
    nigh_status status;

    if (asked->call == 0 || fuzz.rpc_ended) {
        return;
    }
    piece.bytes = make_reply(asked, payload);
    if (dice(24)) {
        piece.bytes = fuzz_byte(&fuzz.input);
    }
    status = dice(8) ? some_status() : NIGH_OK;
    rpc_reply(fuzz.rpc, asked->call, status, &piece, 1);
    asked->call = 0;
}

/* Windows of the peer's, as many as it says, mostly. */
static uint32_t make_windows(uint32_t count, uint8_t *out)
{
    struct wire_window windows[WIRE_WINDOWS];

    count = count < WIRE_WINDOWS ? count : WIRE_WINDOWS;
    for (uint32_t n = 0; n < count; n++) {
        struct fabric_remote remote = fabric_memory_remote(fuzz.peer, fuzz.open, fuzz.windows[n]);

        windows[n] = (struct wire_window){
            .address = remote.address, .bytes = WINDOW, .key = remote.key, .imm = n};
    }
    if (count > 0 && dice(8)) {
        fuzz_patch(&fuzz.input, windows, count * sizeof(*windows));
    }
    memcpy(out, windows, count * sizeof(*windows));
    return count * (uint32_t)sizeof(*windows);
}

/* A payload of a method; nearly right. */
static uint32_t make_request(uint16_t method, uint8_t *out)
{
    uint32_t key = fuzz_byte(&fuzz.input) % (KEYS + 1);
    struct directory_key name = key_of(key);

    switch (method) {
    case WIRE_ANNOUNCE: {
        struct wire_announce said = {
            .key = name, .object = some_object(key % KEYS), .flags = fuzz_byte(&fuzz.input) % 32};

        memcpy(out, &said, sizeof(said));
        return sizeof(said);
    }
    case WIRE_LOCATE: {
        struct wire_locate said = {.key = name,
                                   .crossover_bytes = fuzz_number(&fuzz.input),
                                   .wait = dice(2),
                                   .only = dice(4),
                                   .credits = fuzz_byte(&fuzz.input) % (BULKS + 2),
                                   .way = dice(2) ? WIRE_PUSH : 0,
                                   .tag = fuzz_byte(&fuzz.input)};

        memcpy(out, &said, sizeof(said));
        return sizeof(said) +
               make_windows(said.way == WIRE_PUSH ? said.credits : 0, out + sizeof(said));
    }
    case WIRE_FOUND: {
        struct wire_found said = {.key = name};
        uint8_t located[sizeof(said.located)];

        (void)make_located(key % KEYS, located);
        memcpy(&said.located, located, sizeof(located));
        memcpy(out, &said, sizeof(said));
        return sizeof(said);
    }
    case WIRE_DELETE: {
        struct wire_delete said = {.key = name, .gone = dice(2), .had = dice(4)};

        memcpy(out, &said, sizeof(said));
        return sizeof(said);
    }
    case WIRE_PULL:
    case WIRE_DROP: {
        struct wire_pull said = {.key = name,
                                 .birth = object_of(key % KEYS, 0).birth,
                                 .way = 1 + fuzz_byte(&fuzz.input) % 4,
                                 .credits = fuzz_byte(&fuzz.input) % (BULKS + 2),
                                 .tag = fuzz_byte(&fuzz.input),
                                 .serve = dice(3) ? fuzz.serve : 0,
                                 .flags = fuzz_byte(&fuzz.input) % 4};
        const struct pull *pull = pull_under(key % KEYS);
        struct store_sight sight;

        if (pull != NULL && !dice(4)) {
            said.birth = pull->begun.birth;
            said.way = WIRE_LOAN;
            said.flags = WIRE_PULL_SENT;
        }

        if (!dice(4) && store_see(fuzz.store, POOL, name.id, hash_id20(name.id), &sight)) {
            said.birth = sight.birth;
        }
        memcpy(out, &said, sizeof(said));
        return method == WIRE_DROP
                   ? sizeof(struct wire_drop)
                   : sizeof(said) +
                         make_windows(said.way == WIRE_PUSH ? said.credits : 0, out + sizeof(said));
    }
    case WIRE_MORE:
    case WIRE_STOP:
    case WIRE_DONE: {
        struct wire_more said = {.serve = dice(8) ? fuzz_number(&fuzz.input) : fuzz.serve,
                                 .credits = fuzz_byte(&fuzz.input) % (BULKS + 2)};

        memcpy(out, &said, sizeof(said));
        return sizeof(said) +
               make_windows(method == WIRE_MORE && dice(2) ? said.credits : 0, out + sizeof(said));
    }
    case WIRE_UNWAIT: memcpy(out, &name, sizeof(name)); return sizeof(name);
    case WIRE_PROBE: {
        struct wire_probe said = {.bytes = (uint32_t)fuzz_number(&fuzz.input),
                                  .way = dice(2) ? WIRE_LOAN : WIRE_STREAM,
                                  .credits = fuzz_byte(&fuzz.input) % (BULKS + 2),
                                  .tag = EXCHANGE_PROBE_NUMBER};

        memcpy(out, &said, sizeof(said));
        return sizeof(said);
    }
    case WIRE_REPLICAS:
    case WIRE_REPLICATE: {
        struct wire_replica said = {.key = name,
                                    .object = some_object(key % KEYS),
                                    .wanted = fuzz_byte(&fuzz.input) % 10,
                                    .flags = fuzz_byte(&fuzz.input) % 8};

        _Static_assert(sizeof(struct wire_replicate) == sizeof(said), "both are alike");
        memcpy(out, &said, sizeof(said));
        return sizeof(said);
    }
    case WIRE_REPLICA_COUNT: {
        struct wire_replica_count said = {.key = name,
                                          .birth = object_of(key % KEYS, 0).birth,
                                          .wanted = fuzz_byte(&fuzz.input) % 10,
                                          .held = fuzz_byte(&fuzz.input) % 10,
                                          .flags = dice(4),
                                          .why = -(int32_t)dice(32)};

        memcpy(out, &said, sizeof(said));
        return sizeof(said);
    }
    default: return 0;
    }
}

static void say_request(bool waits)
{
    uint16_t method = fuzz_byte(&fuzz.input) % (WIRE_REPLICA_COUNT + 2);
    uint8_t payload[PAYLOAD] = {0};
    struct rpc_piece piece = {.data = payload};

    if (fuzz.rpc == NULL || fuzz.rpc_ended) {
        return;
    }
    piece.bytes = make_request(method, payload);
    if (dice(16) && piece.bytes > 0) {
        fuzz_patch(&fuzz.input, payload, piece.bytes);
    }
    if (dice(24)) {
        piece.bytes = fuzz_byte(&fuzz.input);
    }
    if (waits) {
        (void)rpc_call(fuzz.rpc, method, &piece, 1, fuzz.now_us + 1000000, fuzz.now_us, on_reply,
                       NULL, NULL);
    } else {
        (void)rpc_one_way(fuzz.rpc, method, &piece, 1, fuzz.now_us);
    }
}

/* A message where it is expected, mostly. */
static void say_message(const struct wire_chunk *chunk)
{
    bool has_bytes =
        chunk->bytes <= WINDOW - sizeof(*chunk) && chunk->offset <= REGION - chunk->bytes;
    const uint8_t *bytes = has_bytes ? fuzz.region + chunk->offset : NULL;
    struct wire_window window = {0};

    if (!window_of(fuzz.tag, &window) || dice(24)) {
        has_bytes = has_bytes && chunk->bytes <= BULK - sizeof(*chunk);
        post(LINK_BULK, chunk, sizeof(*chunk), bytes, has_bytes ? chunk->bytes : 0);
        return;
    }
    if (dice(24)) {
        fuzz_patch(&fuzz.input, &window, sizeof(window));
    }
    push(dice(48) ? LINK_CONTROL : LINK_BULK, &window, chunk, sizeof(*chunk), bytes,
         has_bytes ? chunk->bytes : 0);
}

/* A message of a stream: the next that the node expects, mostly. */
static void say_bulk(void)
{
    struct pull *pull = pull_of_tag(fuzz.exchange, fuzz.tag);
    uint32_t room = (pull != NULL && pull->pushes ? WINDOW : BULK) - sizeof(struct wire_chunk);
    struct wire_chunk chunk = {.tag = fuzz.tag};
    struct directory_object object = object_of(0, 0);

    if (pull != NULL) {
        uint64_t left = pull->content - pull->received;

        object = pull->answer.object;
        chunk.offset = pull->received;
        chunk.bytes = (uint32_t)(left < room ? left : room);
        chunk.flags = chunk.bytes == left ? WIRE_LAST : 0;
    }
    if (dice(16)) {
        chunk.flags = fuzz_byte(&fuzz.input) % 2;
    }
    if ((chunk.flags & WIRE_LAST) != 0) {
        chunk.unused = pull != NULL && pull->credits > 0 ? pull->credits - 1 : 0;
        chunk.unused = dice(4) ? fuzz_byte(&fuzz.input) % 16 : chunk.unused;
        chunk.sums = some_sums(&object);
    }
    if (dice(16)) {
        fuzz_patch(&fuzz.input, &chunk, sizeof(chunk));
        tell(&chunk.sums);
    }
    say_message(&chunk);
}

static void announce_all(void)
{
    struct wire_announce said[KEYS];
    struct rpc_piece piece = {.data = said, .bytes = sizeof(said)};

    if (fuzz.announced || fuzz.rpc == NULL || fuzz.rpc_ended ||
        !fuzz.sides[LINK_CONTROL].established) {
        return;
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        said[key] = (struct wire_announce){
            .key = key_of(key), .object = object_of(key, 0), .flags = WIRE_REPEAT};
    }
    fuzz.announced = rpc_call(fuzz.rpc, WIRE_ANNOUNCE, &piece, 1, UINT64_MAX, fuzz.now_us, on_reply,
                              NULL, NULL) == NIGH_OK;
    (void)rpc_one_way(fuzz.rpc, WIRE_ANNOUNCED, NULL, 0, fuzz.now_us);
}

/* All that is asked is answered, and all streams get the next of what they expect. */
static void be_polite(void)
{
    fuzz.polite = true;
    announce_all();
    for (uint32_t n = 0; n < CALLS; n++) {
        say_reply(&fuzz.asked[n]);
    }
    for (uint32_t n = 0; n < fuzz.exchange->pulls_used; n++) {
        struct pull *pull = &fuzz.exchange->pulls[n];

        if (pull->state == PULL_STREAMING && pull->credits > 0) {
            fuzz.tag = pull_tag(fuzz.exchange, pull);
            say_bulk();
        }
    }
    fuzz.polite = false;
}

/* A READ of what the node lends, or does not. */
static void say_read(void)
{
    struct side *side = &fuzz.sides[LINK_BULK];
    struct fabric_slice slice = {.address = side->receives[RECEIVES - 1],
                                 .bytes = 1 + fuzz_byte(&fuzz.input),
                                 .memory = fuzz.memory};
    struct fabric_work work = {.op = FABRIC_READ,
                               .flags = FABRIC_SIGNALLED,
                               .slices = &slice,
                               .slice_count = 1,
                               .remote = fuzz.remote};

    if (dice(16)) {
        work.remote.address ^= fuzz_number(&fuzz.input);
    }
    if (dice(16)) {
        work.remote.key ^= fuzz_byte(&fuzz.input);
    }
    if (side->established) {
        (void)fabric_post(fuzz.peer, side->endpoint, &work, NULL);
    }
}

static void say_raw(void)
{
    uint8_t frame[64];
    enum link_endpoint kind = dice(2) ? LINK_BULK : LINK_CONTROL;
    uint32_t bytes = fuzz_byte(&fuzz.input) % sizeof(frame);

    fuzz_fill(&fuzz.input, frame, bytes);
    if (bytes > 0) {
        post(kind, frame, bytes, NULL, 0);
    }
}

static void peer_up(void)
{
    fuzz.info.rank = 1;
    fuzz.info.incarnation += dice(4);
    fuzz.info.dials = !dice(2);
    fuzz.info.lanes = 1;
    fuzz.info.session[0]++;
    fuzz.serial = 0;
    memcpy(fuzz.info.addresses[0], "1:0", 4);
    NIGH_ASSERT(exchange_peer_up(fuzz.exchange, &fuzz.info, fuzz.now_us) == NIGH_OK);
    if (!fuzz.info.dials) {
        dial(LINK_CONTROL);
        dial(LINK_BULK);
    }
}

/* ---- clients of the node --------------------------------------------------- */

static struct session_lane *session_lane(void)
{
    return session_lane_of(fuzz.session, 0);
}

static void on_complete(void *context, uint32_t session, const struct session_cqe *cqe)
{
    struct op *op = &fuzz.ops[cqe->cookie % OPS];

    (void)context;
    (void)session;
    NIGH_ASSERT(cqe->cookie < OPS && op->kind != OP_FREE && !op->ended);
    op->ended = true;
    op->cqe = *cqe;
}

static void on_store_event(void *context, uint32_t session, const struct session_event *event)
{
    (void)context;
    (void)session;
    (void)event;
}

static void on_expel(void *context, uint32_t session, const char *why)
{
    (void)context;
    (void)session;
    (void)why;
    NIGH_ASSERT(!"expelled");
}

static uint64_t on_wall(void *context)
{
    (void)context;
    return fuzz.now_us * 1000;
}

static struct op *submit(struct op *op, enum op_kind kind, uint32_t key, struct session_sqe sqe)
{
    for (uint32_t n = 0; op == NULL && n < OPS; n++) {
        op = fuzz.ops[n].kind == OP_FREE ? &fuzz.ops[n] : NULL;
    }
    if (op == NULL) {
        return NULL;
    }
    op->kind = kind;
    op->key = key;
    op->ended = false;
    op->deadline_us = fuzz.now_us + sqe.argument;
    op->data_size = kind == OP_CREATE ? sqe.data_size : op->data_size;
    sqe.cookie = (uint32_t)(op - fuzz.ops);
    memcpy(sqe.id, key_of(key).id, LIMIT_ID_BYTES);
    store_submit(fuzz.store, 0, &sqe, fuzz.now_us);
    return op;
}

static void create_some(uint32_t key, uint8_t how)
{
    (void)submit(NULL, OP_CREATE, key,
                 (struct session_sqe){.op = SESSION_OP_CREATE,
                                      .flags = how % 4 == 3 ? SESSION_FLAG_EXCLUSIVE : 0,
                                      .data_size = (uint64_t)how * 301,
                                      .argument = 1000});
}

static void client_step(void)
{
    uint8_t what = fuzz_byte(&fuzz.input);
    uint32_t key = what / 8 % KEYS;

    switch (what % 8) {
    case 0: create_some(key, fuzz_byte(&fuzz.input)); break;
    case 1:
        (void)submit(NULL, OP_DELETE, key, (struct session_sqe){.op = SESSION_OP_DELETE});
        break;
    case 2:
        (void)submit(NULL, OP_OTHER, key,
                     (struct session_sqe){.op = SESSION_OP_CANCEL,
                                          .argument = fuzz_byte(&fuzz.input) % OPS});
        break;
    case 3:
        (void)submit(NULL, OP_OTHER, key,
                     (struct session_sqe){.op = SESSION_OP_EVICT, .argument = 100000});
        break;
    default:
        (void)submit(NULL, OP_GET, key,
                     (struct session_sqe){.op = SESSION_OP_GET,
                                          .flags = what % 8 == 7 ? SESSION_FLAG_NO_COPY : 0,
                                          .argument = what % 8 == 4 ? 3000 : GET_MOST_US});
        break;
    }
}

static void created(struct op *op)
{
    if (op->cqe.status != NIGH_OK) {
        op->kind = OP_FREE;
        return;
    }
    memset(extent_bytes_at(fuzz.set, op->cqe.offset), PATTERN, op->data_size);
    (void)submit(op, OP_SEAL, op->key,
                 (struct session_sqe){.op = SESSION_OP_SEAL, .ref = op->cqe.ref, .argument = 1000});
}

/* What was got lies as it was put here, or fits sums that the peer said. */
static void check_bytes(const struct op *op)
{
    const uint8_t *bytes = extent_bytes_at(fuzz.set, op->cqe.offset);
    struct directory_key key = key_of(op->key);
    struct store_sight sight;

    if (!store_see(fuzz.store, POOL, key.id, hash_id20(key.id), &sight) ||
        sight.offset != op->cqe.offset) {
        return; /* deleted meanwhile */
    }
    NIGH_ASSERT(sight.data_size == op->cqe.data_size && sight.meta_size == op->cqe.meta_size);
    if (sight.is_copy) {
        counts.copies++;
        counts.large_copies += sight.data_size > PAYLOAD;
        NIGH_ASSERT(sight.has_crc && exchange_crc(0, bytes, sight.data_size) == sight.data_crc);
        NIGH_ASSERT(
            was_told(sight.data_crc, exchange_crc(0, bytes + index_meta_offset(sight.data_size),
                                                  (uint64_t)sight.meta_size + sight.name_size)));
        return;
    }
    counts.own++;
    for (uint64_t n = 0; n < sight.data_size; n++) {
        NIGH_ASSERT(bytes[n] == PATTERN);
    }
}

static void release(uint32_t n)
{
    if (fuzz.pins[n] != 0) {
        pin_clear(&session_lane()->pin_entry[fuzz.pins[n] - 1]);
        fuzz.pins[n] = 0;
    }
}

static void got(struct op *op)
{
    op->kind = OP_FREE;
    if (op->cqe.status != NIGH_OK) {
        return;
    }
    check_bytes(op);
    release(fuzz.now_us % PINS);
    fuzz.pins[fuzz.now_us % PINS] = op->cqe.pin + 1;
}

static bool settle_ops(void)
{
    bool any = false;

    for (uint32_t n = 0; n < OPS; n++) {
        struct op *op = &fuzz.ops[n];

        if (op->kind == OP_FREE || !op->ended) {
            NIGH_ASSERT(op->kind != OP_GET || fuzz.now_us <= op->deadline_us + 3000);
            continue;
        }
        any = true;
        switch (op->kind) {
        case OP_CREATE: created(op); break;
        case OP_GET: got(op); break;
        default: op->kind = OP_FREE; break;
        }
    }
    return any;
}

/* ---- time ------------------------------------------------------------------ */

/* All of the store is looked at now and then: that is what a run spends its time on. */
static void check(uint32_t step)
{
    NIGH_ASSERT(exchange_is_valid(fuzz.exchange));
    NIGH_ASSERT(step % CHECK_EVERY != 0 || store_is_valid(fuzz.store));
}

/* Turns until nothing is left to do at this time. */
static void turns(void)
{
    bool worked = true;

    sim_advance(fuzz.sim, fuzz.now_us);
    for (uint32_t n = 0; worked; n++) {
        NIGH_ASSERT(n < 2000); /* it goes round and round */
        worked = exchange_turn(fuzz.exchange, fuzz.now_us);
        (void)store_tick(fuzz.store, fuzz.now_us);
        worked = settle_ops() || worked;
        worked = peer_turn() || worked;
        sim_advance(fuzz.sim, fuzz.now_us);
    }
}

/* At most 1 ms passes between turns: a node that is awake is not later. What wants a turn at once
 * does something in it, or the node would spin. */
static void pass(uint64_t us)
{
    uint64_t end_us = fuzz.now_us + us;
    uint32_t vain = 0;

    while (fuzz.now_us < end_us) {
        uint64_t next = sim_next_us(fuzz.sim), due = exchange_due_us(fuzz.exchange);

        vain = due <= fuzz.now_us ? vain + 1 : 0;
        NIGH_ASSERT(vain < VAIN);
        next = due < next ? due : next;
        next = next > fuzz.now_us + 20 ? next : fuzz.now_us + 20;
        next = next < fuzz.now_us + 1000 ? next : fuzz.now_us + 1000;
        fuzz.now_us = next < end_us ? next : end_us;
        turns();
    }
}

static void fuzz_step(void)
{
    uint8_t what = fuzz_byte(&fuzz.input);

    switch (what % 32) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5: client_step(); break;
    case 6:
    case 7:
    case 8:
    case 9:
    case 10: say_reply(&fuzz.asked[fuzz_byte(&fuzz.input) % CALLS]); break;
    case 11:
    case 12:
    case 13: say_request(true); break;
    case 14:
    case 15: say_request(false); break;
    case 16:
    case 17:
    case 18: say_bulk(); break;
    case 19: say_read(); break;
    case 20: release(fuzz_byte(&fuzz.input) % PINS); break;
    case 21: pass(fuzz_byte(&fuzz.input)); break;
    case 22: pass((uint64_t)fuzz_byte(&fuzz.input) * 256); break;
    case 23: turns(); break;
    case 24:
        switch (fuzz_byte(&fuzz.input) % 16) {
        case 0: break_side(LINK_CONTROL); break;
        case 1: break_side(LINK_BULK); break;
        case 2: exchange_peer_lost(fuzz.exchange, 1, fuzz.now_us); break;
        case 3: exchange_peer_dead(fuzz.exchange, 1, fuzz.now_us); break;
        case 4:
        case 5: peer_up(); break;
        case 6: dial(LINK_CONTROL); break;
        case 7: dial(LINK_BULK); break;
        case 8: say_raw(); break;
        case 9: pass(1500000); break;
        default: pass(30); break;
        }
        break;
    case 25:
    case 26:
    case 27:
        for (uint32_t n = what / 8; n > 0; n--) {
            be_polite();
            pass(30);
        }
        break;
    default: pass(200); break;
    }
}

/* ---- a run ----------------------------------------------------------------- */

static struct extent_set *make_set(void)
{
    struct extent_set *set = aligned_alloc(_Alignof(struct extent_set), sizeof(*set));
    void *arena;

    NIGH_ASSERT(set != NULL);
    NIGH_ASSERT(memfd_reserve(LIMIT_EXTENTS * LIMIT_EXTENT_BYTES_MIN, &arena) == NIGH_OK);
    memset(set, 0, sizeof(*set));
    set->arena = arena;
    set->extent_bytes = LIMIT_EXTENT_BYTES_MIN;
    set->extent_shift = (uint32_t)__builtin_ctzll(LIMIT_EXTENT_BYTES_MIN);
    set->lanes = 1;
    extent_set_begin(set);
    for (uint32_t n = 0; n < EXTENTS; n++) {
        NIGH_ASSERT(extent_make(set, n, false) == NIGH_OK);
        set->memory_bytes += LIMIT_EXTENT_BYTES_MIN;
    }
    return set;
}

/* Making memory takes longer than a run: it is used again, as if it were new. */
static void take_set(void)
{
    static struct extent_set *set;

    if (set != NULL && set->lane[0].used != EXTENTS) {
        extent_set_destroy(set);
        set = NULL;
    }
    if (set == NULL) {
        set = make_set();
    }
    for (uint32_t n = 0; n < EXTENTS; n++) {
        atomic_store(&set->extents[n].owner, EXTENT_NO_OWNER);
    }
    set->lane[0].used = EXTENTS;
    extent_recount(set, 0);
    fuzz.set = set;
}

static void make_store(void)
{
    uint64_t bytes = index_size_bytes(ENTRIES);
    struct store_config config = {
        .extents = fuzz.set,
        .lanes = 1,
        .incarnation = 1,
        .max_blocks = 1024,
        .spill_bytes = UINT64_MAX,
        .max_lane_pins = LIMIT_LANE_PINS,
        .wall_ns = on_wall,
        .shell = {.complete = on_complete, .event = on_store_event, .expel = on_expel},
    };
    struct store_pool_config pool = {.pool = POOL, .owner_uid = 1000};
    struct store_session_config session = {
        .session_id = 1,
        .pool = POOL,
        .uid = 1000,
        .pid = 1000,
        .name = "fuzz",
        .may_write = true,
        .quota_used = &fuzz.quota_used,
    };

    fuzz.index_memory = aligned_alloc(4096, bytes);
    fuzz.session = calloc(1, session_memory_bytes(1));
    NIGH_ASSERT(fuzz.index_memory != NULL && fuzz.session != NULL);
    memset(fuzz.index_memory, 0, bytes);
    index_format(fuzz.index_memory, POOL, 0, 1, ENTRIES, &pool.index);
    NIGH_ASSERT(store_create(&config, &fuzz.store) == NIGH_OK);
    NIGH_ASSERT(store_pool_add(fuzz.store, &pool) == NIGH_OK);
    session.front = session_front_of(fuzz.session);
    session.lane = session_lane_of(fuzz.session, 0);
    session.chunks = session_chunks_of(fuzz.session, 1);
    NIGH_ASSERT(store_session_open(fuzz.store, &session) == NIGH_OK);
}

static void make_exchange(uint8_t how)
{
    char why[128];
    struct exchange_config config = {
        .members = &fuzz.members,
        .fabric = fuzz.fabric,
        .store = fuzz.store,
        .extents = fuzz.set,
        .lanes = 1,
        .incarnation = 1,
        .max_keys = MAX_KEYS,
        .requests = REQUESTS,
        .calls = CALLS,
        .queue = 16,
        .payload_bytes = PAYLOAD,
        .bulk_receives = BULKS,
        .shared_bulk = how / 10 % 2 * BULKS,
        .bulk_bytes = BULK,
        .chunk_bytes = 4096,
        .pull_bytes = how % 2 == 0 ? 0 : 30000,
        .fanout = 1,
        .tree_bytes = TREE_BYTES,
        .window_bytes = WINDOW,
        .path = (enum exchange_path)(how / 2 % 5),
        .loan_us = 1000000,
        .probe_bytes = how / 20 % 2 * PROBE_BYTES,
        .seed = how,
    };

    NIGH_ASSERT(members_parse("n0:1,n1:1", "0", &fuzz.members, why, sizeof(why)) == NIGH_OK);
    NIGH_ASSERT(exchange_create(&config, &fuzz.exchange) == NIGH_OK);
    NIGH_ASSERT(exchange_pool_add(fuzz.exchange, POOL, CLUSTER) == NIGH_OK);
}

static void begin(void)
{
    uint8_t how = fuzz_byte(&fuzz.input);
    struct sim_options options = {.seed = how + 1,
                                  .latency_max_us = 5,
                                  .late_read_ppm = how % 4 == 3 ? 300000 : 0,
                                  .late_landing_ppm = 600000};

    fuzz.now_us = 1000000;
    NIGH_ASSERT(sim_create(&options, &fuzz.sim) == NIGH_OK);
    sim_advance(fuzz.sim, fuzz.now_us);
    NIGH_ASSERT(sim_fabric(fuzz.sim, 0, 0, &fuzz.fabric) == NIGH_OK);
    NIGH_ASSERT(sim_fabric(fuzz.sim, 1, 0, &fuzz.peer) == NIGH_OK);
    NIGH_ASSERT(fabric_listen(fuzz.fabric, "0:0") == NIGH_OK);
    NIGH_ASSERT(fabric_listen(fuzz.peer, "1:0") == NIGH_OK);
    NIGH_ASSERT(fabric_memory_register(fuzz.peer, &fuzz, sizeof(fuzz), FABRIC_HOST,
                                       FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ,
                                       &fuzz.memory) == NIGH_OK);
    NIGH_ASSERT(fabric_memory_register(fuzz.peer, fuzz.windows, sizeof(fuzz.windows), FABRIC_HOST,
                                       FABRIC_LOCAL_WRITE | FABRIC_REMOTE_WRITE,
                                       &fuzz.open) == NIGH_OK);
    for (uint32_t n = 0; n < REGION; n++) {
        fuzz.region[n] = (uint8_t)(n * 7 + n / 256);
    }
    take_set();
    make_store();
    make_exchange(how);
    peer_up();
    pass(200);
}

static bool is_pending(void)
{
    for (uint32_t n = 0; n < OPS; n++) {
        if (fuzz.ops[n].kind != OP_FREE) {
            return true;
        }
    }
    return false;
}

static bool is_nothing_moved(void)
{
    const struct exchange_stats *now = &fuzz.exchange->counts;

    /* A replica that is lacking is tried for as long as the peer says that it has one. */
    uint32_t making = fuzz.exchange->replication->making_count;

    return now->pulls_now <= making && (making > 0 || now->pull_bytes_now == 0) &&
           now->loans_now == 0;
}

/* Turns until `done` and every operation has ended. */
static void settle_until(bool (*done)(void))
{
    for (uint64_t end_us = fuzz.now_us + SETTLE_US; fuzz.now_us < end_us; fuzz.now_us += 25000) {
        turns();
        for (uint32_t n = 0; n < PINS; n++) {
            release(n);
        }
        if (!is_pending() && done()) {
            return;
        }
    }
    NIGH_ASSERT(!"something is held for ever");
}

static bool is_idle(void)
{
    return exchange_is_idle(fuzz.exchange);
}

/* The peer lives on, and says nothing more: what it could hold up is not held up for ever. */
static void settle_silently(void)
{
    settle_until(is_nothing_moved);
}

/* The peer is dead: all that was held for it, and all that waits for it, ends. */
static void settle(void)
{
    exchange_peer_dead(fuzz.exchange, 1, fuzz.now_us);
    break_side(LINK_CONTROL);
    break_side(LINK_BULK);
    settle_until(is_idle);
}

static bool is_strange(const uint8_t *id)
{
    for (uint32_t key = 0; key < KEYS; key++) {
        if (memcmp(key_of(key).id, id, LIMIT_ID_BYTES) == 0) {
            return false;
        }
    }
    return true;
}

/* What the peer had made a replica here, under ids that nobody knows; or a copy again, since. */
static void drop_strangers(void)
{
    struct store_sight sight;
    uint32_t cursor = 0;

    while (store_next(fuzz.store, POOL, &cursor, &sight)) {
        if (sight.entry != UINT32_MAX && !sight.is_claim &&
            (sight.replicas > 0 || is_strange(sight.id))) {
            (void)store_drop(fuzz.store, POOL, sight.id, sight.hash, &sight.birth, false,
                             fuzz.now_us);
        }
    }
}

static void check_nothing_is_held(void)
{
    nigh_node_stats stats = {0};

    for (uint32_t key = 0; key < KEYS; key++) {
        (void)submit(NULL, OP_DELETE, key, (struct session_sqe){.op = SESSION_OP_DELETE});
    }
    drop_strangers();
    for (uint32_t n = 0; n < 400 && (n == 0 || stats.used_bytes != 0); n++) {
        fuzz.now_us += 25000;
        turns();
        stats = (nigh_node_stats){0};
        store_stats(fuzz.store, &stats);
    }
    NIGH_ASSERT(stats.unsealed_bytes == 0 && stats.used_bytes == 0);
}

static void end(void)
{
    counts.breaks += links_counters(fuzz.exchange->links)->downs;
    exchange_destroy(fuzz.exchange);
    break_side(LINK_CONTROL);
    break_side(LINK_BULK);
    rpc_destroy(fuzz.rpc);
    fabric_destroy(fuzz.fabric);
    fabric_destroy(fuzz.peer);
    sim_destroy(fuzz.sim);
    store_destroy(fuzz.store);
    free(fuzz.index_memory);
    free(fuzz.session);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    memset(&fuzz, 0, sizeof(fuzz));
    fuzz.input = (struct fuzz_input){bytes, size_bytes};
    begin();
    for (uint32_t step = 0; step < STEPS && fuzz.input.left > 0; step++) {
        fuzz_step();
        check(step);
    }
    if (size_bytes % 4 == 2) {
        settle_silently();
    }
    if (size_bytes % 8 != 7) { /* else it stops in the middle of everything */
        settle();
        check(0);
        check_nothing_is_held();
    }
    end();
    return 0;
}
