/* SPDX-License-Identifier: Apache-2.0 */
/* A home: who may change what, in which rounds, and what it makes of deaths and of what holders
 * tell. */
#include "region/home.h"

#include "region_fixture.h"
#include "support/support.h"

#define ROOM   8u
#define MAPPER 3u /* the holders are 1 and 2 */
#define SAID   64u

static const uint32_t nodes[] = {1, 2, 1, 2};
static const uint32_t absent[] = {1, 9};
static const uint32_t impossible[] = {1, UINT32_MAX};

static struct {
    struct region_home home;
    struct region_fixture now, next, held;
    struct region_message said[SAID]; /* and not looked at */
    uint32_t said_count;
    struct region_ask *answered; /* the last */
    nigh_status status;
    uint32_t answers;
    uint64_t handle;
    uint32_t lives[4]; /* which it is of each node, but for the first */
} world;

static void on_send(void *context, const struct region_message *message)
{
    (void)context;
    assert_true(world.said_count < SAID);
    world.said[world.said_count++] = *message;
}

static void on_answered(void *context, struct region_ask *ask, nigh_status status)
{
    (void)context;
    world.answered = ask;
    world.status = status;
    world.answers++;
}

static uint32_t on_incarnation(void *context, uint32_t rank)
{
    (void)context;
    return 1 + world.lives[rank];
}

static void begin(bool is_rebuilding)
{
    struct region_home_config config = {
        .version = region_fixture_version(0),
        .room = ROOM,
        .has_lease = true,
        .now = region_fixture_at(&world.now),
        .next = region_fixture_at(&world.next),
        .shell = {.send = on_send, .answered = on_answered, .incarnation = on_incarnation}};

    memset(&world, 0, sizeof(world));
    for (uint32_t rank = 0; rank < 4; rank++) {
        region_set_add(&config.alive, rank);
    }
    if (is_rebuilding) {
        region_set_add(&config.untold, 1);
        region_set_add(&config.untold, 2);
    }
    region_home_init(&world.home, &config);
}

/* Takes the first that was said; it must be this. */
static struct region_message hear(enum region_message_kind kind, uint32_t to)
{
    struct region_message message = world.said[0];

    assert_true(world.said_count > 0);
    assert_int_equal(message.kind, kind);
    assert_int_equal(message.peer, to);
    world.said_count--;
    memmove(world.said, world.said + 1, world.said_count * sizeof(message));
    return message;
}

static void take(const struct region_message *message)
{
    region_home_take(&world.home, message);
    assert_true(region_home_is_valid(&world.home));
}

/* It did what it was asked for, and has these chunks, with new handles. */
static void done(const struct region_message *asked, uint64_t chunks, nigh_status status)
{
    struct region_window handles[ROOM];
    struct region_message message = {.kind = REGION_DONE,
                                     .of = asked->kind,
                                     .peer = asked->peer,
                                     .status = status,
                                     .change = asked->change,
                                     .chunks = {.words = {chunks}},
                                     .handles = handles,
                                     .handle_count = ROOM};

    for (uint32_t n = 0; n < ROOM; n++) {
        handles[n].address = (chunks >> n & 1) != 0 ? ++world.handle : 0;
        handles[n].key = 0;
    }
    take(&message);
}

/* One that is asked does it. */
static void does(enum region_message_kind kind, uint32_t who, uint64_t chunks)
{
    struct region_message message = hear(kind, who);

    done(&message, chunks, NIGH_OK);
}

static void assert_answered(const struct region_ask *ask, nigh_status status)
{
    assert_ptr_equal(world.answered, ask);
    assert_int_equal(world.status, status);
    assert_int_equal(world.answers, 1);
    world.answers = 0;
}

/* Both do it: chunks 0 and 2 at 1, 1 and 3 at 2, or fewer. */
static void both_do(enum region_message_kind kind, uint64_t chunks)
{
    does(kind, 1, chunks & 5);
    does(kind, 2, chunks & 10);
}

static struct region_ask create_ask(uint32_t chunks)
{
    return (struct region_ask){
        .kind = REGION_ASK_CREATE,
        .uid = REGION_FIXTURE_OWNER,
        .gid = 100,
        .geometry = {.size_bytes = chunks * UINT64_C(8192), .chunk_bytes = 8192},
        .name = "tab",
        .name_bytes = 3,
        .other_rights = REGION_READ,
        .nodes = nodes,
        .node_count = chunks,
    };
}

/* Of chunk 1, from node 2 to node 1. */
static struct region_ask move_ask(void)
{
    return (struct region_ask){.kind = REGION_ASK_MOVE,
                               .uid = REGION_FIXTURE_OWNER,
                               .birth = region_fixture_version(1),
                               .chunk = 1,
                               .node = 1};
}

/* There is a region of two chunks, whose holders are 1 and 2; its mapper is told. */
static void make_region(void)
{
    struct region_ask ask = create_ask(2);

    begin(false);
    region_home_ask(&world.home, &ask);
    both_do(REGION_PREPARE, 3);
    both_do(REGION_COMMIT, 3);
    assert_int_equal(world.answers, 0);
    both_do(REGION_THAW, 3);
    assert_answered(&ask, NIGH_OK);
    take(&(struct region_message){.kind = REGION_MAP, .peer = MAPPER});
    assert_int_equal(hear(REGION_MAPPED, MAPPER).status, NIGH_OK);
    assert_int_equal(world.said_count, 0);
}

static void a_region_is_made_in_rounds(void **state)
{
    struct region_ask again = create_ask(2);

    (void)state;
    make_region();
    assert_int_equal(region_fixture_at(&world.now)->chunk_count, 2);
    assert_int_not_equal(region_fixture_at(&world.now)->chunks[0].handle.address, 0);
    assert_int_not_equal(region_fixture_at(&world.now)->chunks[1].handle.address, 0);
    region_home_ask(&world.home, &again);
    assert_answered(&again, NIGH_EXISTS);
    again.uid++;
    again.kind = REGION_ASK_FREE;
    again.birth = region_fixture_version(1);
    region_home_ask(&world.home, &again);
    assert_answered(&again, NIGH_DENIED);
}

/* Whether clients may map it stays as it was created, and who makes memory is told. */
static void what_is_to_be_mapped_is_made_so(void **state)
{
    struct region_ask ask = create_ask(2), move = move_ask();

    (void)state;
    begin(false);
    ask.is_mappable = true;
    region_home_ask(&world.home, &ask);
    for (uint32_t node = 1; node <= 2; node++) {
        struct region_message message = hear(REGION_PREPARE, node);

        assert_true(message.is_mappable);
        done(&message, node, NIGH_OK);
    }
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 3);
    assert_answered(&ask, NIGH_OK);
    assert_int_equal(region_fixture_at(&world.now)->flags, REGION_MAPPABLE);
    region_home_ask(&world.home, &move);
    assert_true(hear(REGION_PREPARE, 1).is_mappable);
}

/* Whose memory it is, is told where it is; it has one chunk, and stays as it is. */
static void what_is_donated_stays(void **state)
{
    struct region_ask ask = create_ask(1), move = move_ask();
    struct region_ask wide = create_ask(2), mapped = create_ask(1);
    struct region_ask resize = {.kind = REGION_ASK_RESIZE,
                                .uid = REGION_FIXTURE_OWNER,
                                .birth = region_fixture_version(3),
                                .geometry = {.size_bytes = 4096}};
    struct region_message message;

    (void)state;
    begin(false);
    wide.donation = mapped.donation = ask.donation = 77;
    mapped.is_mappable = true;
    region_home_ask(&world.home, &wide);
    assert_answered(&wide, NIGH_INVALID);
    region_home_ask(&world.home, &mapped);
    assert_answered(&mapped, NIGH_INVALID);
    region_home_ask(&world.home, &ask);
    message = hear(REGION_PREPARE, 1);
    assert_int_equal(message.donation, 77);
    done(&message, 1, NIGH_OK);
    does(REGION_COMMIT, 1, 1);
    does(REGION_THAW, 1, 1);
    assert_answered(&ask, NIGH_OK);
    assert_int_equal(region_fixture_at(&world.now)->flags, REGION_DONATED);
    move.chunk = 0;
    move.node = 2;
    move.birth = resize.birth = region_fixture_at(&world.now)->birth;
    region_home_ask(&world.home, &move);
    assert_answered(&move, NIGH_INVALID);
    region_home_ask(&world.home, &resize);
    assert_answered(&resize, NIGH_INVALID);
    assert_int_equal(region_fixture_at(&world.now)->chunk_count, 1);
}

/* Whose a chunk is, is said beside it: of who answered that it made it, which may be another than
 * lived when it was asked for. */
static void chunks_are_of_the_life_that_made_them(void **state)
{
    struct region_ask ask = create_ask(2), move;
    struct region_message prepare, copy, commit;

    (void)state;
    begin(false);
    region_home_ask(&world.home, &ask);
    world.lives[1] = 4;
    both_do(REGION_PREPARE, 3);
    commit = hear(REGION_COMMIT, 1);
    assert_int_equal(commit.descriptor->chunks[0].incarnation, 5);
    assert_int_equal(commit.descriptor->chunks[1].incarnation, 1);
    done(&commit, 1, NIGH_OK);
    does(REGION_COMMIT, 2, 2);
    both_do(REGION_THAW, 3);
    assert_answered(&ask, NIGH_OK);
    assert_true(region_descriptor_is_valid(region_fixture_at(&world.now)));
    move = move_ask();
    region_home_ask(&world.home, &move);
    prepare = hear(REGION_PREPARE, 1);
    done(&prepare, 1, NIGH_OK);
    does(REGION_FREEZE, 2, 2);
    copy = hear(REGION_COPY, 1);
    done(&copy, 3, NIGH_OK);
    commit = hear(REGION_COMMIT, 1);
    assert_int_equal(commit.descriptor->chunks[1].incarnation, 5);
    assert_int_equal(region_fixture_at(&world.now)->chunks[1].incarnation, 1); /* until then */
    done(&commit, 3, NIGH_OK);
    region_home_dead(&world.home, 1);
    assert_int_equal(region_fixture_at(&world.now)->chunks[0].incarnation, 0);
}

static void what_cannot_be_made_is_nowhere(void **state)
{
    struct region_ask ask = create_ask(2);
    struct region_message message;

    (void)state;
    begin(false);
    region_home_ask(&world.home, &ask);
    message = hear(REGION_PREPARE, 1);
    done(&message, 0, NIGH_OUT_OF_MEMORY);
    does(REGION_PREPARE, 2, 2);
    does(REGION_THAW, 1, 0);
    message = hear(REGION_THAW, 2);
    assert_true(region_version_is_none(&message.base));
    done(&message, 0, NIGH_OK);
    assert_answered(&ask, NIGH_OUT_OF_MEMORY);
    assert_true(region_home_is_idle(&world.home));
}

/* More chunks than there is room for are refused where nobody makes any. */
static void without_room_there_are_no_chunks(void **state)
{
    static const uint32_t many[ROOM + 1] = {1, 2, 1, 2, 1, 2, 1, 2, 1};
    struct region_ask ask = create_ask(ROOM + 1);

    (void)state;
    begin(false);
    ask.nodes = many;
    region_home_ask(&world.home, &ask);
    assert_answered(&ask, NIGH_NO_RESOURCES);
    assert_true(region_home_is_idle(&world.home));
}

static void what_cannot_be_is_refused(void **state)
{
    struct region_ask ask = create_ask(2);

    (void)state;
    begin(false);
#define REFUSED(change, expected)                      \
    do {                                               \
        ask = create_ask(2);                           \
        change;                                        \
        region_home_ask(&world.home, &ask);            \
        assert_answered(&ask, expected);               \
        assert_true(region_home_is_idle(&world.home)); \
    } while (0)
    REFUSED(ask.kind = REGION_ASK_MOVE, NIGH_NOT_FOUND);
    REFUSED(ask.node_count = 0, NIGH_INVALID);
    REFUSED(ask.name_bytes = 0, NIGH_INVALID);
    REFUSED(ask.name = "a\0b", NIGH_INVALID);
    REFUSED(ask.geometry.chunk_bytes = 100, NIGH_INVALID);
    REFUSED(ask.other_rights = 8, NIGH_INVALID);
    REFUSED(ask.nodes = absent, NIGH_PEER_LOST);
    REFUSED(ask.nodes = impossible, NIGH_PEER_LOST);
#undef REFUSED
}

static void a_grant_freezes_nothing_and_a_revoke_all(void **state)
{
    struct region_ask ask = {.kind = REGION_ASK_GRANT,
                             .uid = REGION_FIXTURE_OWNER,
                             .birth = region_fixture_version(1),
                             .user = 7,
                             .give = REGION_READ | REGION_MASTER};
    struct region_ask revoke = ask;

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    both_do(REGION_COMMIT, 3);
    assert_answered(&ask, NIGH_OK);
    hear(REGION_CHANGED, MAPPER);
    revoke.give = 0;
    revoke.take = REGION_MASTER;
    revoke.uid = 7; /* a master by now */
    region_home_ask(&world.home, &revoke);
    assert_true(region_chunks_has(&world.said[0].chunks, 0));
    does(REGION_HOLD, MAPPER, 0);
    both_do(REGION_FREEZE, 3);
    both_do(REGION_COMMIT, 3);
    assert_int_equal(world.answers, 0);
    both_do(REGION_THAW, 3);
    assert_answered(&revoke, NIGH_OK);
    region_home_ask(&world.home, &revoke);
    assert_answered(&revoke, NIGH_DENIED);
}

/* All chunks have new handles then, though no right and no byte has changed. */
static void a_fence_freezes_all(void **state)
{
    (void)state;
    make_region();
    region_home_fence(&world.home);
    assert_false(world.home.is_fenced);
    does(REGION_HOLD, MAPPER, 0);
    both_do(REGION_FREEZE, 3);
    region_home_fence(&world.home); /* what is written by now is not all behind the first */
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 3);
    assert_false(world.home.is_fenced);
    hear(REGION_CHANGED, MAPPER);
    does(REGION_HOLD, MAPPER, 0);
    both_do(REGION_FREEZE, 3);
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 3);
    assert_true(world.home.is_fenced);
    assert_int_equal(world.answers, 0);
}

/* One that a holder could not do is done again. */
static void a_fence_is_done_in_the_end(void **state)
{
    struct region_message freeze;

    (void)state;
    make_region();
    region_home_fence(&world.home);
    does(REGION_HOLD, MAPPER, 0);
    freeze = hear(REGION_FREEZE, 1);
    done(&freeze, 1, NIGH_BUSY);
    freeze = hear(REGION_FREEZE, 2);
    done(&freeze, 2, NIGH_OK);
    both_do(REGION_THAW, 3);
    assert_false(world.home.is_fenced);
    hear(REGION_CHANGED, MAPPER);
    does(REGION_HOLD, MAPPER, 0);
    both_do(REGION_FREEZE, 3);
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 3);
    assert_true(world.home.is_fenced);
}

static void a_move_in_rounds(void **state)
{
    struct region_ask ask = move_ask();
    struct region_message message;
    uint64_t lent;

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    does(REGION_PREPARE, 1, 1);
    take(&(struct region_message){.kind = REGION_MAP, .peer = 0});
    does(REGION_HOLD, MAPPER, 0);
    assert_true(world.said[0].is_move);
    does(REGION_FREEZE, 2, 2);
    lent = world.handle;
    message = hear(REGION_COPY, 1);
    assert_int_equal(message.source.node, 2);
    assert_int_equal(message.source.handle.address, lent);
    done(&message, 3, NIGH_OK);
    does(REGION_COMMIT, 1, 3);
    assert_int_equal(world.said_count, 1); /* none thaws while one has yet to commit */
    does(REGION_COMMIT, 2, 2);
    does(REGION_THAW, 1, 3);
    does(REGION_THAW, 2, 0);
    assert_answered(&ask, NIGH_OK);
    hear(REGION_CHANGED, MAPPER);
    assert_int_equal(hear(REGION_MAPPED, 0).descriptor->chunks[1].node, 1); /* not before */
    ask.chunk = 0;
    region_home_ask(&world.home, &ask);
    assert_answered(&ask, NIGH_EXISTS);
    ask.chunk = 2;
    region_home_ask(&world.home, &ask);
    assert_answered(&ask, NIGH_INVALID);
}

/* For their sake alone: whoever does not is refused at the holders. */
static void mappers_are_asked_to_stand_still(void **state)
{
    struct region_ask ask = {
        .kind = REGION_ASK_FREE, .uid = REGION_FIXTURE_OWNER, .birth = region_fixture_version(1)};
    struct region_message held;

    (void)state;
    make_region();
    take(&(struct region_message){.kind = REGION_MAP, .peer = 0});
    take(&(struct region_message){.kind = REGION_MAP, .peer = 2}); /* a holder, too */
    hear(REGION_MAPPED, 0);
    hear(REGION_MAPPED, 2);
    region_home_ask(&world.home, &ask);
    assert_true(region_home_is_holding(&world.home));
    hear(REGION_HOLD, 0);
    held = hear(REGION_HOLD, 2);
    assert_int_equal(held.chunks.words[0], 3);
    hear(REGION_HOLD, MAPPER);
    assert_int_equal(world.said_count, 0);
    region_home_link(&world.home, MAPPER);
    hear(REGION_HOLD, MAPPER); /* again */
    take(&(struct region_message){.kind = REGION_UNMAP, .peer = 0});
    done(&held, 0, NIGH_OUT_OF_MEMORY); /* has no say in it */
    assert_true(region_home_is_holding(&world.home));
    region_home_held(&world.home);
    assert_false(region_home_is_holding(&world.home));
    both_do(REGION_FREEZE, 3);
    both_do(REGION_COMMIT, 0);
    both_do(REGION_THAW, 0);
    assert_answered(&ask, NIGH_OK);
}

static void a_move_whose_source_dies_is_given_up(void **state)
{
    struct region_ask ask = move_ask();

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    does(REGION_PREPARE, 1, 1);
    does(REGION_HOLD, MAPPER, 0);
    hear(REGION_FREEZE, 2);
    region_home_dead(&world.home, 2);
    does(REGION_THAW, 1, 1);
    assert_answered(&ask, NIGH_PEER_LOST);
    hear(REGION_CHANGED, MAPPER);
    does(REGION_COMMIT, 1, 1); /* that chunk 1 is lost */
    hear(REGION_CHANGED, MAPPER);
    assert_int_equal(region_fixture_at(&world.now)->chunks[1].node, REGION_NOBODY);
    assert_int_equal(region_fixture_at(&world.now)->chunks[0].node, 1);
    region_home_ask(&world.home, &ask);
    assert_answered(&ask, NIGH_PEER_LOST);
}

static void sizes(void **state)
{
    struct region_ask ask = {.kind = REGION_ASK_RESIZE,
                             .uid = REGION_FIXTURE_OWNER,
                             .birth = region_fixture_version(1),
                             .geometry = {.size_bytes = 8192 * 3},
                             .nodes = nodes,
                             .node_count = 1};
    struct region_message message;

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    message = hear(REGION_PREPARE, 1);
    assert_int_equal(message.chunks.words[0], 4);
    done(&message, 4, NIGH_OK);
    both_do(REGION_COMMIT, 7);
    both_do(REGION_THAW, 7);
    assert_answered(&ask, NIGH_OK);
    hear(REGION_CHANGED, MAPPER);
    ask.geometry.size_bytes = 8192 + 1; /* chunk 1 gets shorter, chunk 2 goes */
    region_home_ask(&world.home, &ask);
    assert_int_equal(world.said[0].chunks.words[0], 6);
    does(REGION_HOLD, MAPPER, 0);
    assert_int_equal(world.said[0].chunks.words[0], 4);
    assert_int_equal(world.said[1].chunks.words[0], 2);
    both_do(REGION_FREEZE, 7);
    both_do(REGION_COMMIT, 7);
    both_do(REGION_THAW, 3);
    assert_answered(&ask, NIGH_OK);
    assert_int_equal(region_fixture_at(&world.now)->chunk_count, 2);
}

static void free_ends_it_for_all(void **state)
{
    struct region_ask ask = {
        .kind = REGION_ASK_FREE, .uid = REGION_FIXTURE_OWNER, .birth = region_fixture_version(1)};

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    does(REGION_HOLD, MAPPER, 0);
    both_do(REGION_FREEZE, 3);
    assert_true(region_descriptor_is_freed(world.said[0].descriptor));
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 0);
    assert_answered(&ask, NIGH_OK);
    assert_true(region_version_is_none(&world.said[0].change));
    hear(REGION_CHANGED, MAPPER);
    take(&(struct region_message){.kind = REGION_MAP, .peer = MAPPER});
    assert_int_equal(hear(REGION_MAPPED, MAPPER).status, NIGH_NOT_FOUND);
    assert_true(region_home_is_idle(&world.home));
}

/* What is committed, and waits at a holder, without end perhaps, gives way to a free, which all
 * hear of that it was told to, the former holder, too. Others wait behind it. */
static void a_free_passes_what_is_to_be_opened(void **state)
{
    struct region_ask move = move_ask(), grants[LIMIT_REGION_ASKS - 1], stranger = move_ask(),
                      ask = move_ask();

    (void)state;
    ask.kind = stranger.kind = REGION_ASK_FREE;
    stranger.uid++;
    make_region();
    region_home_ask(&world.home, &move);
    does(REGION_PREPARE, 1, 1);
    for (uint32_t n = 0; n < LIMIT_REGION_ASKS - 1; n++) { /* with the stranger's: all places */
        grants[n] = move_ask();
        grants[n].kind = REGION_ASK_GRANT;
        region_home_ask(&world.home, &grants[n]);
    }
    region_home_ask(&world.home, &stranger);
    does(REGION_HOLD, MAPPER, 0);
    does(REGION_FREEZE, 2, 2);
    does(REGION_COPY, 1, 3);
    does(REGION_COMMIT, 1, 3);
    does(REGION_COMMIT, 2, 2);
    hear(REGION_THAW, 1);
    hear(REGION_THAW, 2);
    assert_int_equal(world.said_count, 0);
    region_home_ask(&world.home, &ask);
    assert_answered(&move, NIGH_BUSY);
    does(REGION_HOLD, MAPPER, 0);
    does(REGION_FREEZE, 1, 3);
    assert_true(region_descriptor_is_freed(world.said[0].descriptor));
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 0);
    hear(REGION_CHANGED, MAPPER);
    assert_int_equal(world.answers,
                     LIMIT_REGION_ASKS + 1); /* who waited behind it hears that there is nothing */
    assert_int_equal(world.status, NIGH_NOT_FOUND);
    assert_true(region_home_is_idle(&world.home));
}

/* It means the one that was: another with its name is not its to change. */
static void an_ask_is_of_one_region(void **state)
{
    struct region_ask ask = {
        .kind = REGION_ASK_FREE, .uid = REGION_FIXTURE_OWNER, .birth = region_fixture_version(1)};
    struct region_ask late = ask, again = create_ask(2);

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    region_home_ask(&world.home, &again);
    region_home_ask(&world.home, &late);
    does(REGION_HOLD, MAPPER, 0);
    both_do(REGION_FREEZE, 3);
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 0);
    assert_answered(&ask, NIGH_OK);
    hear(REGION_CHANGED, MAPPER);
    both_do(REGION_PREPARE, 3);
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 3);
    assert_int_equal(world.answers, 2);
    assert_ptr_equal(world.answered, &late);
    assert_int_equal(world.status, NIGH_NOT_FOUND);
    assert_int_equal(region_fixture_at(&world.now)->chunk_count, 2);
}

static void who_was_dead_within_a_change_has_lost_its_chunks(void **state)
{
    struct region_ask ask = {.kind = REGION_ASK_GRANT,
                             .uid = REGION_FIXTURE_OWNER,
                             .birth = region_fixture_version(1),
                             .user = 7,
                             .give = REGION_READ};

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    region_home_dead(&world.home, 2);
    region_home_alive(&world.home, 2);
    does(REGION_COMMIT, 1, 1);
    hear(REGION_COMMIT, 2); /* that one is not waited for */
    assert_answered(&ask, NIGH_OK);
    hear(REGION_CHANGED, MAPPER);
    does(REGION_COMMIT, 1, 1); /* that chunk 1 is lost */
    assert_int_equal(region_fixture_at(&world.now)->chunks[1].node, REGION_NOBODY);
    assert_int_equal(region_fixture_at(&world.now)->chunks[0].node, 1);
}

static void a_copy_that_is_not_there_is_none(void **state)
{
    struct region_ask ask = move_ask();

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    does(REGION_PREPARE, 1, 1);
    does(REGION_HOLD, MAPPER, 0);
    does(REGION_FREEZE, 2, 2);
    does(REGION_COPY, 1, 1); /* but has no chunk 1 */
    does(REGION_THAW, 1, 1);
    does(REGION_THAW, 2, 2);
    assert_answered(&ask, NIGH_BUSY);
    assert_int_equal(region_fixture_at(&world.now)->chunks[1].node, 2);
}

static void without_a_lease_nothing_is_begun_or_acknowledged(void **state)
{
    struct region_ask ask = {.kind = REGION_ASK_GRANT,
                             .uid = REGION_FIXTURE_OWNER,
                             .birth = region_fixture_version(1),
                             .user = 7,
                             .give = REGION_READ};

    (void)state;
    make_region();
    region_home_lease(&world.home, false);
    region_home_ask(&world.home, &ask);
    assert_answered(&ask, NIGH_NO_QUORUM);
    take(&(struct region_message){.kind = REGION_MAP, .peer = 0});
    assert_int_equal(world.said_count, 0);
    region_home_lease(&world.home, true);
    hear(REGION_MAPPED, 0);
    region_home_ask(&world.home, &ask);
    region_home_lease(&world.home, false);
    region_home_lease(&world.home, true); /* others may have decided meanwhile */
    both_do(REGION_COMMIT, 3);
    assert_answered(&ask, NIGH_NO_QUORUM);
}

/* Who keeps something else than the home thinks is told what there is. */
static void who_cannot_thaw_is_settled(void **state)
{
    struct region_ask ask = {.kind = REGION_ASK_GRANT,
                             .uid = REGION_FIXTURE_OWNER,
                             .birth = region_fixture_version(1),
                             .whose = REGION_OF_OTHERS,
                             .take = REGION_READ};
    struct region_message message;

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    does(REGION_HOLD, MAPPER, 0);
    both_do(REGION_FREEZE, 3);
    both_do(REGION_COMMIT, 3);
    does(REGION_THAW, 1, 1);
    message = hear(REGION_THAW, 2);
    done(&message, 2, NIGH_STALE);
    assert_answered(&ask, NIGH_OK);
    hear(REGION_CHANGED, MAPPER);
    both_do(REGION_SETTLE, 3);
    assert_int_not_equal(region_fixture_at(&world.now)->chunks[1].handle.address, 0);
}

static void as_many_wait_as_there_is_room_for(void **state)
{
    struct region_ask asks[LIMIT_REGION_ASKS + 2];

    (void)state;
    make_region();
    for (uint32_t n = 0; n < LIMIT_REGION_ASKS + 2; n++) {
        asks[n] = (struct region_ask){.kind = REGION_ASK_GRANT,
                                      .uid = REGION_FIXTURE_OWNER,
                                      .birth = region_fixture_version(1),
                                      .user = n,
                                      .give = REGION_ALL};
        region_home_ask(&world.home, &asks[n]);
    }
    assert_answered(&asks[LIMIT_REGION_ASKS + 1], NIGH_OVERLOADED);
    region_home_cancel(&world.home, &asks[3], NIGH_TIMEOUT);
    assert_answered(&asks[3], NIGH_TIMEOUT);
    region_home_cancel(&world.home, &asks[0], NIGH_TIMEOUT); /* under way: goes on */
    assert_answered(&asks[0], NIGH_TIMEOUT);
    both_do(REGION_COMMIT, 3);
    assert_int_equal(world.answers, 0);
    assert_int_equal(region_fixture_at(&world.now)->grant_count, 1);
    region_home_end(&world.home, NIGH_BUSY);
    assert_int_equal(world.answers, LIMIT_REGION_ASKS - 1);
    assert_int_equal(world.status, NIGH_BUSY);
}

static void what_was_not_answered_is_asked_again(void **state)
{
    struct region_ask ask = create_ask(2);
    struct region_message message;

    (void)state;
    begin(false);
    region_home_ask(&world.home, &ask);
    does(REGION_PREPARE, 1, 1);
    message = hear(REGION_PREPARE, 2);
    region_home_link(&world.home, 1);
    assert_int_equal(world.said_count, 0);
    region_home_link(&world.home, 2);
    does(REGION_PREPARE, 2, 2);
    does(REGION_COMMIT, 1, 1);
    done(&message, 2, NIGH_OK); /* of the round before */
    assert_int_equal(world.said_count, 1);
    does(REGION_COMMIT, 2, 2);
    message = hear(REGION_THAW, 1);
    message.change.counter++;
    done(&message, 1, NIGH_OK); /* of another change */
    does(REGION_THAW, 2, 2);
    assert_int_equal(world.answers, 0);
    message.change.counter--;
    done(&message, 1, NIGH_OK);
    assert_answered(&ask, NIGH_OK);
}

static void say_held(uint32_t who, uint64_t chunks, uint64_t version)
{
    struct region_descriptor *held = region_fixture_make(&world.held, 2);
    struct region_message message = {
        .kind = REGION_HELD, .peer = who, .chunks = {.words = {chunks}}, .descriptor = held};

    held->version.counter = version;
    held->version.epoch--;
    held->birth.epoch--;
    take(&message);
}

static void the_latest_that_holders_keep_is_settled_on(void **state)
{
    struct region_ask ask = {.kind = REGION_ASK_MOVE,
                             .uid = REGION_FIXTURE_OWNER,
                             .birth = {.epoch = 2, .incarnation = 7, .counter = 1},
                             .node = 2};

    (void)state;
    begin(true);
    region_home_ask(&world.home, &ask);
    take(&(struct region_message){.kind = REGION_MAP, .peer = MAPPER});
    say_held(1, 1, 6);
    region_home_told(&world.home, 1);
    assert_int_equal(world.said_count, 0); /* one has yet to tell */
    say_held(2, 2, 5);
    region_home_told(&world.home, 2);
    assert_int_equal(world.home.rebuilt_from.counter, 6);
    assert_int_equal(world.said[0].descriptor->version.epoch, 3);
    does(REGION_SETTLE, 1, 1);
    does(REGION_SETTLE, 2, 0); /* has not got it */
    does(REGION_COMMIT, 1, 1);
    assert_int_equal(region_fixture_at(&world.now)->chunks[1].node, REGION_NOBODY);
    assert_int_not_equal(region_fixture_at(&world.now)->chunks[0].handle.address, 0);
    assert_int_equal(hear(REGION_MAPPED, MAPPER).status, NIGH_OK);
    hear(REGION_PREPARE, 2); /* and then what was asked for */
}

/* A home that another has followed, and does not know it yet. */
static void what_a_later_home_committed_is_its_own(void **state)
{
    struct region_descriptor *held;

    (void)state;
    begin(true);
    held = region_fixture_make(&world.held, 2);
    held->version.epoch++;
    take(&(struct region_message){
        .kind = REGION_HELD, .peer = 1, .chunks = {.words = {1}}, .descriptor = held});
    region_home_told(&world.home, 1);
    region_home_told(&world.home, 2);
    assert_int_equal(world.said_count, 0);
    assert_true(region_home_is_idle(&world.home));
}

static void a_move_from_who_lends_nothing_is_given_up(void **state)
{
    struct region_ask ask = move_ask();

    (void)state;
    make_region();
    region_home_ask(&world.home, &ask);
    does(REGION_PREPARE, 1, 1);
    does(REGION_HOLD, MAPPER, 0);
    does(REGION_FREEZE, 2, 0);
    does(REGION_THAW, 1, 1);
    does(REGION_THAW, 2, 2);
    assert_answered(&ask, NIGH_BUSY);
}

static void what_nobody_committed_is_settled_as_nothing(void **state)
{
    (void)state;
    begin(true);
    take(&(struct region_message){.kind = REGION_HELD, .peer = 1, .chunks = {.words = {1}}});
    region_home_told(&world.home, 1);
    region_home_dead(&world.home, 2);
    assert_null(world.said[0].descriptor);
    does(REGION_SETTLE, 1, 0);
    assert_true(region_home_is_idle(&world.home));
}

static void who_comes_back_is_settled(void **state)
{
    (void)state;
    make_region();
    take(&(struct region_message){.kind = REGION_HELD, .peer = 2, .chunks = {.words = {2}}});
    both_do(REGION_SETTLE, 3);
    hear(REGION_CHANGED, MAPPER);
    assert_int_equal(world.said_count, 0);
    region_home_dead(&world.home, 2);
    does(REGION_COMMIT, 1, 1);
    take(&(struct region_message){.kind = REGION_HELD, .peer = 2, .chunks = {.words = {2}}});
    hear(REGION_CHANGED, MAPPER);
    assert_int_equal(world.said_count, 0); /* the dead are not heard */
    region_home_alive(&world.home, 2);
    assert_int_equal(region_fixture_at(&world.now)->chunks[1].node, REGION_NOBODY);
}

/* Who is there again at once has nothing of it, and no view comes in which nobody would tell of it.
 */
static void with_its_last_chunk_a_region_is_gone(void **state)
{
    struct region_ask create = create_ask(2);

    (void)state;
    make_region();
    region_home_dead(&world.home, 2);
    does(REGION_COMMIT, 1, 1);
    hear(REGION_CHANGED, MAPPER);
    region_home_alive(&world.home, 2);
    region_home_dead(&world.home, 1);
    region_home_alive(&world.home, 1);
    hear(REGION_CHANGED, MAPPER);
    take(&(struct region_message){.kind = REGION_MAP, .peer = MAPPER});
    assert_int_equal(hear(REGION_MAPPED, MAPPER).status, NIGH_NOT_FOUND);
    assert_int_equal(world.said_count, 0);
    assert_true(region_home_is_idle(&world.home));
    region_home_ask(&world.home, &create);
    both_do(REGION_PREPARE, 3);
    both_do(REGION_COMMIT, 3);
    both_do(REGION_THAW, 3);
    assert_answered(&create, NIGH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_region_is_made_in_rounds),
        cmocka_unit_test(what_is_to_be_mapped_is_made_so),
        cmocka_unit_test(what_is_donated_stays),
        cmocka_unit_test(chunks_are_of_the_life_that_made_them),
        cmocka_unit_test(what_cannot_be_made_is_nowhere),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(without_room_there_are_no_chunks),
        cmocka_unit_test(a_grant_freezes_nothing_and_a_revoke_all),
        cmocka_unit_test(a_fence_freezes_all),
        cmocka_unit_test(a_fence_is_done_in_the_end),
        cmocka_unit_test(a_move_in_rounds),
        cmocka_unit_test(mappers_are_asked_to_stand_still),
        cmocka_unit_test(a_move_whose_source_dies_is_given_up),
        cmocka_unit_test(sizes),
        cmocka_unit_test(free_ends_it_for_all),
        cmocka_unit_test(a_free_passes_what_is_to_be_opened),
        cmocka_unit_test(an_ask_is_of_one_region),
        cmocka_unit_test(who_was_dead_within_a_change_has_lost_its_chunks),
        cmocka_unit_test(a_copy_that_is_not_there_is_none),
        cmocka_unit_test(without_a_lease_nothing_is_begun_or_acknowledged),
        cmocka_unit_test(who_cannot_thaw_is_settled),
        cmocka_unit_test(as_many_wait_as_there_is_room_for),
        cmocka_unit_test(what_was_not_answered_is_asked_again),
        cmocka_unit_test(the_latest_that_holders_keep_is_settled_on),
        cmocka_unit_test(what_a_later_home_committed_is_its_own),
        cmocka_unit_test(a_move_from_who_lends_nothing_is_given_up),
        cmocka_unit_test(what_nobody_committed_is_settled_as_nothing),
        cmocka_unit_test(who_comes_back_is_settled),
        cmocka_unit_test(with_its_last_chunk_a_region_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
