/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who drives a lane and when it sleeps. See lane.h.
 *
 * The owner word is a lock of which only the lane's own thread is a waiter: others try, and go
 * their way when it is taken. The thread gives it up only while it sleeps in epoll, so a client's
 * thread of an embedded node finds it free exactly when waking the lane would cost a context
 * switch.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "base/futex.h"
#include "node/lane_internal.h"
#include "node/lane_offer.h"

#define LOG_MODULE "lane"
#include "base/log.h"

/* How often a lane that does not sleep looks at the front door's descriptors. */
#define LANE_POLL_US UINT64_C(50)
/* Turns that share one look at the clock. */
#define LANE_TURNS_A_CLOCK 8u

static bool lane_try_own(struct lane *lane)
{
    uint32_t expected = LANE_FREE;

    return atomic_compare_exchange_strong_explicit(&lane->owner, &expected, LANE_DRIVEN,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* The lane's own thread only: a guest's turn is bounded, so this ends. */
static void lane_own(struct lane *lane)
{
    if (lane_try_own(lane))
        return;
    while (atomic_exchange_explicit(&lane->owner, LANE_DRIVEN_WANTED, memory_order_acquire) !=
           LANE_FREE)
        (void)futex_wait(&lane->owner, LANE_DRIVEN_WANTED, FUTEX_FOREVER);
    /* Nobody else waits: the next release need not wake. */
    atomic_store_explicit(&lane->owner, LANE_DRIVEN, memory_order_relaxed);
}

static void lane_disown(struct lane *lane)
{
    if (atomic_exchange_explicit(&lane->owner, LANE_FREE, memory_order_release) ==
        LANE_DRIVEN_WANTED)
        futex_wake(&lane->owner, 1);
}

static void lane_take_events(struct lane *lane, const struct epoll_event *events, int n)
{
    const struct lane_front *front = lane->config.front;

    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 != 0 && front != NULL) {
            front->ready(front->context, events[i].data.u64, events[i].events);
            lane->front_due_us = 0; /* it may have a new deadline */
            lane->quiet_until_us = 0;
        }
    }
}

static bool lane_has_resting(const struct lane *lane)
{
    return atomic_load_explicit(&lane->resting, memory_order_relaxed) != 0;
}

/* A guest drives the lane, or did until a moment ago. */
static bool lane_has_guest(const struct lane *lane, uint64_t now_us)
{
    uint64_t guest_us = atomic_load_explicit(&lane->guest_us, memory_order_relaxed);

    return guest_us != 0 && now_us < guest_us + LANE_GUEST_US;
}

/* The thread may sleep on without a look at the lane. Deadlines are a guest's, too, but not while
 * it rests. */
static bool lane_may_doze(const struct lane *lane, uint64_t now_us)
{
    if (!lane_has_resting(lane))
        return lane_has_guest(lane, now_us);
    return now_us < atomic_load_explicit(&lane->guest_us, memory_order_relaxed) + LANE_REST_US &&
           now_us < atomic_load_explicit(&lane->rest_due_us, memory_order_relaxed);
}

static int lane_wait_once(struct lane *lane, struct epoll_event *events, uint64_t now_us,
                          uint64_t due_us)
{
    uint64_t wait_us = due_us > now_us ? due_us - now_us : 0;
    struct timespec timeout = {.tv_sec = (time_t)(wait_us / 1000000),
                               .tv_nsec = (long)(wait_us % 1000000) * 1000};
    int n = epoll_pwait2(lane->epoll_fd, events, LIMIT_EPOLL_EVENTS,
                         due_us == UINT64_MAX ? NULL : &timeout, NULL);

    if (n < 0 && (errno == ENOSYS || errno == EPERM)) {
        /* A sandbox that does not know the newer call: milliseconds, rounded up, have to do. */
        n = epoll_wait(lane->epoll_fd, events, LIMIT_EPOLL_EVENTS,
                       due_us == UINT64_MAX ? -1 : (int)min_u64(wait_us / 1000 + 1, INT32_MAX));
    }
    return n;
}

/* Waits for descriptors until due_us at most, with the lane given up meanwhile. While a guest is
 * there it only makes sure, now and then, that it still is: deadlines are the guest's, too. */
static void lane_wait(struct lane *lane, uint64_t now_us, uint64_t due_us)
{
    struct epoll_event events[LIMIT_EPOLL_EVENTS];
    bool watched = lane->config.fabric == NULL || lane->fabric_watched;
    uint64_t doze_us = LANE_GUEST_US;
    int n;

    atomic_store(&lane->sleep_until_us, due_us);
    /* Left to a guest that rose meanwhile: it may not have seen that this thread sleeps. */
    if (!watched && atomic_load(&lane->resting) == 0)
        due_us = min_u64(due_us, now_us + LANE_GUEST_US);
    lane_disown(lane);
    n = lane_wait_once(lane, events, now_us, due_us);
    while (n == 0) {
        now_us = clock_now_us(&clock_monotonic);
        if (!lane_may_doze(lane, now_us))
            break;
        doze_us = min_u64(2 * doze_us, LANE_DOZE_US);
        due_us = now_us + doze_us;
        if (lane_has_resting(lane)) /* its deadlines are this thread's */
            due_us =
                min_u64(due_us, atomic_load_explicit(&lane->rest_due_us, memory_order_relaxed));
        atomic_store_explicit(&lane->sleep_until_us, due_us, memory_order_relaxed);
        n = lane_wait_once(lane, events, now_us, due_us);
    }
    lane_own(lane);
    if (n < 0 && errno != EINTR)
        LOG_ERROR("epoll_pwait2 failed",
                  "errno=%d do=\"have it looked into (nigh support); the lane tries again\"",
                  errno);
    lane_take_events(lane, events, n);
}

/* False: there is something to poll already. *due_us: brought forward while a guest looks at the
 * fabric. */
static bool lane_arm(struct lane *lane, uint64_t now_us, uint64_t *due_us)
{
    if (lane->config.fabric == NULL)
        return true;
    if (lane_has_guest(lane, now_us)) {
        *due_us = min_u64(*due_us, now_us + LANE_GUEST_US);
        /* One that rests armed before this thread's turn, which may have taken what wakes it. */
        return !lane_has_resting(lane) || fabric_arm(lane->config.fabric);
    }
    lane_watch_fabric(lane, !lane_has_resting(lane));
    return fabric_arm(lane->config.fabric);
}

/* A guest that stays has the lane, as it has said itself: who starts something need not ring for
 * the thread, which would take the processor from the guest where both have one, each time. */
static bool lane_is_guests(const struct lane *lane, uint64_t now_us)
{
    return lane->config.fabric != NULL && !lane->fabric_watched && !lane_has_resting(lane) &&
           lane_has_guest(lane, now_us);
}

/* Looks once more, and sleeps if there was nothing. Whether it slept: then it has just looked at
 * the descriptors, too. */
static bool lane_sleep(struct lane *lane)
{
    _Atomic uint32_t *asleep = &lane->config.page->lane[lane->config.number].asleep;
    uint64_t now_us;
    bool slept = false;

    shared_store_relaxed(asleep, SESSION_ASLEEP);
    shared_fence(); /* said before the last look: a client that comes later rings */
    now_us = clock_now_us(&clock_monotonic);
    if (!lane_turn(lane, now_us)) {
        uint64_t due_us = UINT64_MAX;

        if (lane_arm(lane, now_us, &due_us) &&
            !atomic_load_explicit(&lane->stop, memory_order_acquire)) {
            if (lane_is_guests(lane, now_us))
                shared_store_relaxed(asleep, SESSION_ASLEEP_HAS_GUEST);
            lane_count(&lane->counters.sleeps, 1);
            lane_wait(lane, now_us, min_u64(due_us, lane_due_us(lane)));
            slept = true;
        }
    }
    shared_store_relaxed(asleep, 0);
    return slept;
}

void lane_poll(struct lane *lane)
{
    struct epoll_event events[LIMIT_EPOLL_EVENTS];

    lane_take_events(lane, events, epoll_wait(lane->epoll_fd, events, LIMIT_EPOLL_EVENTS, 0));
}

static void lane_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static void lane_offer_processor(struct lane_offer *offer)
{
    uint64_t from_us = clock_now_us(&clock_monotonic);

    (void)sched_yield();
    lane_offer_made(offer, from_us, clock_now_us(&clock_monotonic));
}

static void *lane_main(void *argument)
{
    struct lane *lane = argument;
    uint64_t spin_until_us = 0;
    struct lane_offer offer = {0};
    uint64_t poll_us = 0;
    uint64_t now_us = 0;
    uint32_t turns = 0;
    bool slept = false;

    if (lane->config.life != NULL)
        life_begin(lane->config.life);
    lane_own(lane);
    while (!atomic_load_explicit(&lane->stop, memory_order_acquire)) {
        bool worked;

        /* Asking the time costs as much as an idle turn: a few turns share an answer. */
        if (turns++ % LANE_TURNS_A_CLOCK == 0)
            now_us = clock_now_us(&clock_monotonic);
        worked = lane_turn(lane, now_us);
        if (worked)
            spin_until_us = now_us + lane->config.spin_us;
        /* A guest waits for the lane, and looks for what comes no less often. */
        if (lane_has_guest(lane, now_us))
            spin_until_us = 0;
        /* One that does not spin, and was woken for something, has likely done all of it: the look
         * before its sleep is the one that finds out. */
        if ((!worked || slept) && now_us >= spin_until_us) {
            slept = lane_sleep(lane);
            now_us = clock_now_us(&clock_monotonic);
            spin_until_us = lane_has_guest(lane, now_us) ? 0 : now_us + lane->config.spin_us;
            if (slept)
                poll_us = now_us + LANE_POLL_US;
            turns = 1;
            continue;
        }
        slept = false;
        if (now_us >= poll_us) {
            /* Others wait for doorbells alone, which say nothing that the sweep does not see. */
            if (lane->config.front != NULL)
                lane_poll(lane);
            poll_us = now_us + LANE_POLL_US;
            if (!worked && lane_offer_is_due(&offer, now_us, lane->taken))
                lane_offer_processor(&offer);
        }
        if (!worked)
            lane_relax();
    }
    lane_disown(lane);
    return NULL;
}

/* Where it is to be; anywhere, where the system does not have it there. */
static int lane_create_thread(struct lane *lane)
{
    pthread_attr_t attributes;
    int error = EINVAL;

    if (lane->config.cpus != NULL && pthread_attr_init(&attributes) == 0) {
        error =
            pthread_attr_setaffinity_np(&attributes, sizeof(*lane->config.cpus), lane->config.cpus);
        if (error == 0)
            error = pthread_create(&lane->thread, &attributes, lane_main, lane);
        (void)pthread_attr_destroy(&attributes);
        if (error != 0)
            LOG_WARN("a lane is not kept near its device",
                     "lane=%u errno=%d do=\"let the process use the processors of the device's "
                     "NUMA node (cpuset, taskset); else it is slower, no more\"",
                     lane->config.number, error);
    }
    return error == 0 ? 0 : pthread_create(&lane->thread, NULL, lane_main, lane);
}

nigh_status lane_start(struct lane *lane)
{
    sigset_t all, before;
    char name[16];
    int error;

    atomic_store(&lane->stop, false);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    error = lane_create_thread(lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return NIGH_NO_RESOURCES;
    lane->started = true;
    snprintf(name, sizeof(name), "nigh-lane-%u", lane->config.number);
    (void)pthread_setname_np(lane->thread, name);
    return NIGH_OK;
}

void lane_stop(struct lane *lane)
{
    if (!lane->started)
        return;
    atomic_store_explicit(&lane->stop, true, memory_order_release);
    lane_kick(lane);
    pthread_join(lane->thread, NULL);
    lane->started = false;
}

/* When the lane's thread must look next at the latest: deadlines are a guest's, while it stays. One
 * that has just looked whether the guest is still there sleeps by a younger clock than the guest's,
 * and is not woken for that. */
static uint64_t lane_next_look_us(const struct lane *lane, uint64_t now_us)
{
    return lane_has_guest(lane, now_us) ? now_us + LANE_DOZE_US + LANE_GUEST_LATE_US
                                        : lane_due_us(lane);
}

/* The caller comes again: what other nodes send is its business. Or it does not. The lane's thread
 * sleeps meanwhile, as whoever has the lane may know. */
static void lane_note_guest(struct lane *lane, uint64_t now_us, bool stays)
{
    _Atomic uint32_t *asleep = &lane->config.page->lane[lane->config.number].asleep;

    if (stays) {
        atomic_store_explicit(&lane->guest_us, now_us, memory_order_relaxed);
        lane_watch_fabric(lane, false);
        shared_store_relaxed(asleep, SESSION_ASLEEP_HAS_GUEST);
    } else if (lane_has_resting(lane)) {
        shared_store_relaxed(asleep, SESSION_ASLEEP); /* nobody drives: that one sleeps, too */
    } else if (!lane->fabric_watched) {
        shared_store_relaxed(asleep, SESSION_ASLEEP);
        atomic_store_explicit(&lane->guest_us, 0, memory_order_relaxed);
        lane_watch_fabric(lane, true);
    }
}

/* Of a guest that stays, and found the lane taken: its thread, if it is that, leaves it the lane as
 * soon as it has nothing to do. Both would look for the same, and where they share a processor the
 * one would wait until the other's time is up. */
static void lane_ask_for(struct lane *lane, uint64_t now_us)
{
    if (now_us <= atomic_load_explicit(&lane->guest_us, memory_order_relaxed) + LANE_ASK_US)
        return;
    atomic_store_explicit(&lane->guest_us, now_us, memory_order_relaxed);
    (void)sched_yield();
}

/* Leaves the fabric to who sleeps on its descriptor, the thread or a guest that rests: the turn may
 * have taken what was to wake it, and the next message would wake nobody. One that found nothing
 * mostly has not. True: there is something to poll already. */
static bool lane_leave_fabric(struct lane *lane, bool worked)
{
    struct fabric *fabric = lane->config.fabric;

    return fabric != NULL && (worked || !fabric->is_armed) && !fabric_arm(fabric);
}

bool lane_drive(struct lane *lane, uint64_t now_us, bool stays)
{
    uint64_t sleep_until_us;
    bool worked, look_again;

    if (!lane_try_own(lane)) {
        if (stays)
            lane_ask_for(lane, now_us);
        return false;
    }
    worked = lane_turn(lane, now_us);
    look_again = worked && store_wants_turn(lane->store);
    if (lane->config.fabric != NULL)
        lane_note_guest(lane, now_us, stays);
    for (uint32_t i = 0; i < lane->open_count && !look_again; i++)
        look_again = shared_load_relaxed(lane->ready[i]) != 0;
    /* Of a guest's own window, which says more than a turn takes: it comes again. */
    look_again = look_again || (!stays && lane_spaces_have_work(lane));
    /* What is left, and a time nearer than the one the thread sleeps for, are the thread's. */
    sleep_until_us = atomic_load_explicit(&lane->sleep_until_us, memory_order_relaxed);
    if (!stays && sleep_until_us != 0 && lane_leave_fabric(lane, worked))
        look_again = true;
    look_again =
        sleep_until_us != 0 && (look_again || lane_next_look_us(lane, now_us) < sleep_until_us);
    if (look_again) /* 0: it was kicked, and has not slept since; once is enough */
        atomic_store_explicit(&lane->sleep_until_us, 0, memory_order_relaxed);
    lane_disown(lane);
    if (look_again) /* now that it finds the lane free */
        lane_kick(lane);
    return true;
}

int lane_rest(struct lane *lane, uint64_t now_us)
{
    _Atomic uint32_t *asleep = &lane->config.page->lane[lane->config.number].asleep;
    uint64_t due_us;
    bool look_again;

    if (lane->config.fabric == NULL || !lane_try_own(lane))
        return SESSION_REST_ELSEWHERE;
    shared_store_relaxed(asleep, SESSION_ASLEEP);
    shared_fence(); /* said before the last look: a client that comes later rings */
    look_again = !fabric_arm(lane->config.fabric);
    due_us = lane_due_us(lane);
    look_again |= due_us <= now_us;
    for (uint32_t i = 0; i < lane->open_count && !look_again; i++)
        look_again = shared_load_relaxed(lane->ready[i]) != 0;
    look_again = look_again || lane_spaces_have_work(lane);
    if (!look_again) {
        lane_watch_fabric(lane, false);
        atomic_store_explicit(&lane->guest_us, now_us, memory_order_relaxed);
        atomic_store_explicit(&lane->rest_due_us, due_us, memory_order_relaxed);
        atomic_fetch_add_explicit(&lane->resting, 1, memory_order_relaxed);
    }
    lane_disown(lane);
    return look_again ? SESSION_REST_LOOK_AGAIN : fabric_fd(lane->config.fabric);
}

/* It may not drive again, and the thread may sleep for long with the descriptor left to it. */
uint64_t lane_rise(struct lane *lane)
{
    uint64_t now_us = clock_now_us(&clock_monotonic);

    atomic_store_explicit(&lane->guest_us, now_us, memory_order_relaxed);
    atomic_fetch_sub(&lane->resting, 1);
    if (atomic_load(&lane->sleep_until_us) > now_us + LANE_DOZE_US &&
        atomic_exchange_explicit(&lane->sleep_until_us, 0, memory_order_relaxed) != 0)
        lane_kick(lane);
    return now_us;
}
