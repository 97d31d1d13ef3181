/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anything from a peer of the tcp provider: rubbish, half frames, frames that are nearly right. It
 * costs the endpoint and nothing else: every post and receive completes once, and no byte changes
 * but those that the peer may write, nor a word that it may do atomics on by anything else.
 *
 * Input: steps, each a byte and what it wants (see step()). A first byte that is odd greets first.
 */
#include "fuzz_input.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "fabric/tcp/tcp_internal.h"

#define ZONE_BYTES 4096u
#define AREA_BYTES 16384u
#define ZONE_BYTE  0xa5u
#define DEPTH      8u
#define MOST_BYTES 8192u /* of one step */
#define MOST_STEPS 64u
#define MOST_POLLS 256u
#define START_US   1000000u

enum {
    AREA_READ = 0, /* may be read by the peer */
    AREA_WRITE,    /* and written */
    AREA_LOCAL,    /* ours: receives land here */
    AREA_WORDS,    /* the peer may do atomics: each word stays eight times one byte */
    AREAS
};

#define AREAS_SAID AREA_WORDS /* those before it are what frames of any kind may name */
#define ONES       UINT64_C(0x0101010101010101)

static const uint32_t rights[AREAS] = {
    FABRIC_REMOTE_READ,
    FABRIC_LOCAL_WRITE | FABRIC_REMOTE_READ | FABRIC_REMOTE_WRITE | FABRIC_REMOTE_ATOMIC,
    FABRIC_LOCAL_WRITE,
    FABRIC_LOCAL_WRITE | FABRIC_REMOTE_ATOMIC,
};

struct area {
    _Alignas(64) uint8_t before[ZONE_BYTES];
    uint8_t bytes[AREA_BYTES];
    uint8_t after[ZONE_BYTES];
};

struct scene {
    struct fabric *fabric;
    struct fabric_memory *memories[AREAS];
    struct fabric_endpoint *endpoint; /* once it was requested */
    int peer;
    bool established, disconnected;
    uint64_t now_us;
    uint32_t posted, received;        /* posts and receives so far */
    uint64_t post_ends, receive_ends; /* bits: the tag has completed */
};

static struct area areas[AREAS];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void try_pure(const uint8_t *data, size_t size_bytes)
{
    uint8_t bytes[TCP_PREAMBLE_BYTES] = {0}, again[TCP_PREAMBLE_BYTES];
    struct tcp_preamble preamble;
    struct tcp_frame frame;

    memcpy(bytes, data, min_size(size_bytes, sizeof(bytes)));
    if (tcp_preamble_read(bytes, &preamble) == NIGH_OK)
        NIGH_ASSERT(preamble.private_bytes <= FABRIC_PRIVATE_BYTES);
    if (tcp_frame_read(bytes, &frame) != NIGH_OK)
        return;
    NIGH_ASSERT(frame.bytes <= LIMIT_FABRIC_MESSAGE);
    tcp_frame_write(&frame, again);
    NIGH_ASSERT(memcmp(bytes, again, TCP_FRAME_BYTES) == 0);
}

/* ---- our side ---- */

static void take_completion(struct scene *scene, const struct fabric_completion *completion)
{
    bool is_receive = completion->op == FABRIC_RECV;
    uint64_t *ends = is_receive ? &scene->receive_ends : &scene->post_ends;
    uint64_t bit = UINT64_C(1) << completion->tag;

    NIGH_ASSERT(completion->endpoint == scene->endpoint && scene->endpoint != NULL);
    NIGH_ASSERT(completion->tag < (is_receive ? scene->received : scene->posted));
    NIGH_ASSERT((*ends & bit) == 0);
    *ends |= bit;
}

static void post_receive(struct scene *scene)
{
    struct fabric_receive receive = {.tag = scene->received};

    receive.slice = (struct fabric_slice){areas[AREA_LOCAL].bytes + 512 * (scene->received % 32),
                                          512, scene->memories[AREA_LOCAL]};
    if (scene->received < 64 && scene->endpoint != NULL &&
        fabric_post_receive(scene->fabric, scene->endpoint, &receive, NULL) == NIGH_OK)
        scene->received++;
}

static void post(struct scene *scene, uint8_t what)
{
    struct fabric_slice slices[2] = {
        {areas[AREA_LOCAL].bytes + 100, what, scene->memories[AREA_LOCAL]},
        {areas[AREA_LOCAL].bytes + 4096, 4 * (uint64_t)what, scene->memories[AREA_LOCAL]}};
    struct fabric_work work = {.op = (enum fabric_op)(what % FABRIC_OPS),
                               .flags = FABRIC_SIGNALLED | (what & FABRIC_FENCE),
                               .tag = scene->posted,
                               .slices = slices,
                               .slice_count = 2,
                               .remote = {.address = what, .key = what}};

    if (work.op == FABRIC_FETCH_ADD || work.op == FABRIC_COMPARE_SWAP) {
        slices[0].bytes = 8;
        work.slice_count = 1;
    }
    if (scene->posted < 64 && scene->endpoint != NULL &&
        fabric_post(scene->fabric, scene->endpoint, &work, NULL) == NIGH_OK)
        scene->posted++;
}

static void take_event(struct scene *scene, const struct fabric_event *event)
{
    const struct fabric_endpoint_options depths = {.sends = DEPTH, .receives = DEPTH};

    switch (event->kind) {
    case FABRIC_REQUEST:
        NIGH_ASSERT(scene->endpoint == NULL);
        scene->endpoint = event->endpoint;
        (void)fabric_accept(scene->fabric, event->endpoint, &depths, "yes", 3);
        for (uint32_t i = 0; i < DEPTH / 2; i++)
            post_receive(scene);
        break;
    case FABRIC_ESTABLISHED:
        NIGH_ASSERT(!scene->established && !scene->disconnected);
        scene->established = true;
        break;
    case FABRIC_DISCONNECTED:
        NIGH_ASSERT(scene->endpoint == event->endpoint && !scene->disconnected);
        scene->disconnected = true;
        break;
    }
}

static void poll_once(struct scene *scene)
{
    struct fabric_completion completions[16];
    struct fabric_event event;
    uint32_t count = fabric_poll(scene->fabric, completions, 16, ++scene->now_us);

    for (uint32_t i = 0; i < count; i++)
        take_completion(scene, &completions[i]);
    while (fabric_next_event(scene->fabric, &event))
        take_event(scene, &event);
    if (fabric_arm(scene->fabric))
        scene->now_us += 1000;
}

/* Takes memory away from the peer, and gives it back under another key. */
static void renew(struct scene *scene, uint8_t which)
{
    uint32_t i = which % AREA_LOCAL;

    fabric_memory_deregister(scene->fabric, scene->memories[i]);
    NIGH_ASSERT(fabric_memory_register(scene->fabric, areas[i].bytes, AREA_BYTES, FABRIC_HOST,
                                       rights[i], &scene->memories[i]) == NIGH_OK);
}

/* ---- the peer ---- */

/* What the socket does not take is not said. */
static void say(struct scene *scene, const void *bytes, size_t count)
{
    (void)send(scene->peer, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_bytes(struct scene *scene, struct fuzz_input *input, size_t count)
{
    uint8_t bytes[MOST_BYTES];

    count = min_size(count, sizeof(bytes));
    fuzz_fill(input, bytes, count);
    say(scene, bytes, count);
}

static void say_greeting(struct scene *scene)
{
    const struct tcp_preamble preamble = {
        .kind = TCP_PREAMBLE_CONNECT, .private_bytes = 2, .private_data = "hi"};
    uint8_t bytes[TCP_PREAMBLE_BYTES];

    tcp_preamble_write(&preamble, bytes);
    say(scene, bytes, sizeof(bytes));
}

/* A frame with a key and an address that are likely to be right, and some of its payload. */
static void say_frame(struct scene *scene, struct fuzz_input *input)
{
    uint8_t bytes[TCP_FRAME_BYTES], which = fuzz_byte(input), shift = fuzz_byte(input);
    uint32_t area = which % AREAS_SAID;
    struct fabric_remote remote =
        fabric_memory_remote(scene->fabric, scene->memories[area], areas[area].bytes);
    struct tcp_frame frame = {.kind = (enum tcp_frame_kind)(1 + which / AREAS_SAID % 9),
                              .key = remote.key,
                              .imm = shift,
                              .address = remote.address + 64 * (uint64_t)shift};

    frame.bytes = (uint32_t)fuzz_number(input);
    frame.ack = fuzz_byte(input);
    if (frame.kind == TCP_FRAME_FETCH_ADD || frame.kind == TCP_FRAME_COMPARE_SWAP)
        frame.bytes = frame.kind == TCP_FRAME_FETCH_ADD ? 8 : 16;
    if (frame.kind == TCP_FRAME_REFUSED) {
        frame.status = NIGH_DENIED;
        frame.of_read = (shift & 1) != 0;
        frame.bytes = 0;
    }
    if (frame.kind == TCP_FRAME_ACK)
        frame.bytes = 0;
    tcp_frame_write(&frame, bytes);
    if (which >= 240)
        fuzz_patch(input, bytes, sizeof(bytes));
    say(scene, bytes, sizeof(bytes));
    say_bytes(scene, input, tcp_frame_payload(&frame));
}

/* What is wrong with a WRITE or an atomic. */
enum flaw {
    FLAW_NONE = 0,
    FLAW_BEFORE,     /* begins before the registration */
    FLAW_BEHIND,     /* ends behind it */
    FLAW_WRAP,       /* goes round the end of addresses */
    FLAW_RIGHT,      /* of memory that is not open to it */
    FLAW_MISALIGNED, /* an atomic; WRITEs may */
    FLAW_KEY,
    FLAW_LENGTH, /* longer than the registration, or than operands are */
    FLAWS
};

static void spoil(struct tcp_frame *frame, enum flaw flaw, uint8_t how)
{
    uint64_t start = frame->address;

    switch (flaw) {
    case FLAW_BEFORE: frame->address = start - 1 - how; break;
    case FLAW_BEHIND: frame->address = start + AREA_BYTES - how % 8; break;
    case FLAW_WRAP: frame->address = UINT64_MAX - how % 8; break;
    case FLAW_MISALIGNED: frame->address = start + 8 * (uint64_t)how + 1 + how % 7; break;
    case FLAW_KEY: frame->key ^= 1u << how % 32; break;
    case FLAW_LENGTH:
        frame->bytes =
            tcp_frame_is_atomic(frame) ? frame->bytes ^ (1u << how % 8) : AREA_BYTES + 1 + how;
        break;
    default: frame->address = start + 8 * (uint64_t)how; break;
    }
}

/* A WRITE or an atomic that is right, or wrong in one way; its bytes come in two parts. An atomic
 * leaves words as they are meant to be; a WRITE, or what is not aligned, would not. */
static void say_one_sided(struct scene *scene, struct fuzz_input *input)
{
    static const enum tcp_frame_kind kinds[] = {TCP_FRAME_WRITE, TCP_FRAME_WRITE_IMM,
                                                TCP_FRAME_FETCH_ADD, TCP_FRAME_COMPARE_SWAP};
    uint8_t what = fuzz_byte(input), how = fuzz_byte(input), cut = fuzz_byte(input);
    struct tcp_frame frame = {.kind = kinds[what % 4], .bytes = 9 + what};
    enum flaw flaw = (enum flaw)(what / 4 % FLAWS);
    bool is_atomic = tcp_frame_is_atomic(&frame);
    uint32_t area = is_atomic == (flaw != FLAW_RIGHT) ? AREA_WORDS : AREA_WRITE;
    const uint64_t operands[2] = {frame.kind == TCP_FRAME_FETCH_ADD ? ONES : ZONE_BYTE * ONES,
                                  (ZONE_BYTE + 1u) * ONES};
    uint8_t bytes[TCP_FRAME_BYTES + 512];
    size_t count = TCP_FRAME_BYTES;
    struct fabric_remote remote;

    if (flaw == FLAW_RIGHT && is_atomic)
        area = how % 2 == 0 ? AREA_READ : AREA_LOCAL;
    remote = fabric_memory_remote(scene->fabric, scene->memories[area], areas[area].bytes);
    frame.key = remote.key;
    frame.address = remote.address;
    if (is_atomic)
        frame.bytes = frame.kind == TCP_FRAME_FETCH_ADD ? 8 : 16;
    spoil(&frame, flaw, how);
    tcp_frame_write(&frame, bytes);
    count += min_size(frame.bytes, sizeof(bytes) - count);
    for (size_t i = TCP_FRAME_BYTES; i < count; i++)
        bytes[i] = is_atomic ? ((const uint8_t *)operands)[(i - TCP_FRAME_BYTES) % 16] : (uint8_t)i;
    say(scene, bytes, min_size(cut, count));
    if (cut % 2 == 0)
        poll_once(scene);
    say(scene, bytes + min_size(cut, count), count - min_size(cut, count));
}

static void listen_to_all(struct scene *scene)
{
    uint8_t bytes[MOST_BYTES];

    for (uint32_t i = 0; i < MOST_STEPS; i++) {
        if (recv(scene->peer, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0)
            return;
        poll_once(scene);
    }
}

static void step(struct scene *scene, struct fuzz_input *input)
{
    uint8_t what = fuzz_byte(input);

    switch (what % 16) {
    case 0: say_bytes(scene, input, fuzz_byte(input)); break;
    case 1: say_greeting(scene); break;
    case 2:
    case 3: post(scene, fuzz_byte(input)); break;
    case 4: post_receive(scene); break;
    case 5: renew(scene, fuzz_byte(input)); break;
    case 6: listen_to_all(scene); break;
    case 7: (void)shutdown(scene->peer, SHUT_WR); break;
    case 8:
        if (scene->endpoint != NULL && what == 8)
            fabric_disconnect(scene->fabric, scene->endpoint);
        break;
    case 9: scene->now_us += LIMIT_FABRIC_HANDSHAKE_US / 2; break;
    case 10:
    case 11:
    case 12:
    case 13: say_frame(scene, input); break;
    case 14: say_one_sided(scene, input); break;
    default: poll_once(scene); break;
    }
}

/* ---- one input ---- */

static void begin(struct scene *scene)
{
    struct fabric_endpoint *endpoint;
    int pair[2];

    memset(scene, 0, sizeof(*scene));
    memset(areas, ZONE_BYTE, sizeof(areas));
    scene->now_us = START_US;
    NIGH_ASSERT(tcp_create(NULL, &scene->fabric) == NIGH_OK);
    for (uint32_t i = 0; i < AREAS; i++)
        NIGH_ASSERT(fabric_memory_register(scene->fabric, areas[i].bytes, AREA_BYTES, FABRIC_HOST,
                                           rights[i], &scene->memories[i]) == NIGH_OK);
    NIGH_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    scene->peer = pair[1];
    /* As the listener does it. */
    endpoint = tcp_endpoint_make(tcp_of(scene->fabric), pair[0], TCP_INCOMING);
    NIGH_ASSERT(endpoint != NULL);
    tcp_endpoint_watch(endpoint, EPOLLIN);
    tcp_endpoint_set_patience(endpoint, LIMIT_FABRIC_HANDSHAKE_US);
}

static bool is_over(const struct scene *scene)
{
    uint64_t posts = scene->posted == 64 ? UINT64_MAX : (UINT64_C(1) << scene->posted) - 1;
    uint64_t receives = scene->received == 64 ? UINT64_MAX : (UINT64_C(1) << scene->received) - 1;

    if (scene->endpoint == NULL)
        return tcp_of(scene->fabric)->endpoint_count == 0;
    return scene->disconnected && scene->post_ends == posts && scene->receive_ends == receives;
}

static bool is_untouched(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != ZONE_BYTE)
            return false;
    }
    return true;
}

static bool are_whole(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != bytes[i / 8 * 8])
            return false;
    }
    return true;
}

static void end(struct scene *scene)
{
    close(scene->peer);
    for (uint32_t i = 0; i < MOST_POLLS && !is_over(scene); i++)
        poll_once(scene);
    NIGH_ASSERT(is_over(scene));
    if (scene->endpoint != NULL)
        fabric_endpoint_destroy(scene->fabric, scene->endpoint);
    NIGH_ASSERT(tcp_of(scene->fabric)->half_open == 0);
    fabric_destroy(scene->fabric);
    for (uint32_t i = 0; i < AREAS; i++) {
        NIGH_ASSERT(is_untouched(areas[i].before, ZONE_BYTES));
        NIGH_ASSERT(is_untouched(areas[i].after, ZONE_BYTES));
    }
    NIGH_ASSERT(is_untouched(areas[AREA_READ].bytes, AREA_BYTES));
    NIGH_ASSERT(are_whole(areas[AREA_WORDS].bytes, AREA_BYTES));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct fuzz_input input = {.bytes = data, .left = size_bytes};
    struct scene scene;

    try_pure(data, size_bytes);
    begin(&scene);
    if ((fuzz_byte(&input) & 1) != 0) {
        say_greeting(&scene);
        for (uint32_t i = 0; i < 4; i++)
            poll_once(&scene);
    }
    for (uint32_t i = 0; i < MOST_STEPS && input.left > 0; i++)
        step(&scene, &input);
    end(&scene);
    return 0;
}
