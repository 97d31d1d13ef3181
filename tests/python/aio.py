#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nigh.aio: many gets, calls and locks that wait at once, events, a service, what is cancelled, a node that dies."""
import asyncio
import functools
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import child_of, other, raises, run_tests, wait_for, with_client  # noqa: E402

import nigh  # noqa: E402
import nigh.aio  # noqa: E402


def with_loop(test):
    """Runs a coroutine with an asynchronous client of a node, and another client of it; it has a minute."""

    @with_client()
    @functools.wraps(test)
    def wrapped(client):
        async def run():
            waiter = nigh.aio.Client(other(client))
            try:
                await asyncio.wait_for(test(waiter, client), 60)
            finally:
                waiter.close()

        asyncio.run(run())
    return wrapped


@with_loop
async def test_gets_wait_without_a_thread(waiter, client):
    tasks = [asyncio.ensure_future(waiter.get(f"o{number}")) for number in range(100)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    for number in reversed(range(100)):
        client.put(f"o{number}", bytes([number]))
    views = await asyncio.gather(*tasks)
    assert [bytes(view)[0] for view in views] == list(range(100))
    view = await waiter.get("o1", 0)
    assert bytes(view) == b"\1"


@with_loop
async def test_gets_have_deadlines(waiter, client):
    with raises(TimeoutError):
        await waiter.get("never", 0.05)
    with raises(TimeoutError):
        await waiter.get("never", 0)
    client.put("there", b"x")
    views = await waiter.get_many(["there", "never"], 0.05)
    assert bytes(views[0]) == b"x" and views[1] is None


@with_loop
async def test_what_is_cancelled_leaves_nothing(waiter, client):
    task = asyncio.ensure_future(waiter.get("never"))
    await asyncio.sleep(0)
    task.cancel()
    with raises(asyncio.CancelledError):
        await task
    wait_for(lambda: client.stats()["waiting"] == 0)
    with raises(asyncio.TimeoutError):
        await asyncio.wait_for(waiter.get("never"), 0.05)
    client.put("never", b"x")
    while client.stat("never")["holders"] > 0:
        await asyncio.sleep(0.01)  # what the node had begun comes, and goes back


@with_loop
async def test_puts_wait_for_memory(waiter, client):
    """As long as it takes somebody to let go."""
    client.put("held", bytes(40 << 20))
    view = client.get("held", 0)
    with raises(nigh.OutOfMemoryError):
        await waiter.put("next", bytes(40 << 20), timeout=0.05)
    task = asyncio.ensure_future(waiter.put("next", bytes(40 << 20)))
    await asyncio.sleep(0)
    assert not task.done()
    view.release()
    await task
    assert client.contains("next") and not client.contains("held")

@with_loop
async def test_events_come(waiter, client):
    seen = []

    async def watch():
        async for event in waiter.events():
            seen.append(event)
            if len(seen) == 300:
                return

    task = asyncio.ensure_future(watch())
    while not seen:
        client.put(nigh.random_id(), b"x")
        await asyncio.sleep(0.01)
    while not task.done():
        client.put(nigh.random_id(), b"x")
        await asyncio.sleep(0)
    await task
    assert all(event.kind == "sealed" and event.size == 1 for event in seen)


@with_loop
async def test_a_second_iterator_of_events_takes_over(waiter, client):
    """The first ends, and does not end the second's events as it does so."""
    first = waiter.events()
    task = asyncio.ensure_future(first.__anext__())
    await asyncio.sleep(0)
    client.put("one", b"1")
    assert (await task).size == 1
    waiting = asyncio.ensure_future(first.__anext__())
    await asyncio.sleep(0)
    second = waiter.events()
    task = asyncio.ensure_future(second.__anext__())
    with raises(StopAsyncIteration):
        await asyncio.wait_for(waiting, 20)
    client.put("two", b"22")
    assert (await asyncio.wait_for(task, 20)).size == 2
    await first.aclose()
    client.put("three", b"333")
    assert (await asyncio.wait_for(second.__anext__(), 20)).size == 3
    await second.aclose()


@with_loop
async def test_close_ends_what_waits(waiter, client):
    mine = nigh.aio.Client(other(client))
    get = asyncio.ensure_future(mine.get("never"))
    events = mine.events()
    news = asyncio.ensure_future(events.__anext__())
    while client.stats()["waiting"] == 0:
        await asyncio.sleep(0)
    mine.close()
    with raises(nigh.ClosedError, "closed"):
        await asyncio.wait_for(get, 20)
    with raises(StopAsyncIteration):
        await asyncio.wait_for(news, 20)
    with raises(nigh.ClosedError):
        await mine.get("never")
    wait_for(lambda: client.stats()["waiting"] == 0)


@with_client()
def test_close_behind_the_loop(client):
    """What waited there is given up, and nobody hears of it."""
    mine = []

    async def begin():
        mine.append(nigh.aio.Client(other(client)))
        mine.append(asyncio.ensure_future(mine[0].get("never")))
        mine.append(asyncio.ensure_future(mine[0].events().__anext__()))
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()
    for task in mine[1:]:
        task._log_destroy_pending = False  # they are left behind on purpose
    mine[0].close()
    assert mine[0].client.closed
    wait_for(lambda: client.stats()["waiting"] == 0)


class Busy:
    """A client of which something ends at each look."""

    def __init__(self, client):
        self.client, self.looks = client, 0

    def __getattr__(self, name):
        return getattr(self.client, name)

    def poll(self):
        self.looks += 1
        assert self.looks < 10000
        return self.client.poll() + 1


@with_client()
def test_a_look_leaves_the_loop_its_turns(client):
    async def run():
        busy = Busy(other(client))
        mine = nigh.aio.Client(busy)
        before = busy.looks
        for _ in range(10):
            await asyncio.sleep(0)
        assert before < busy.looks < 1000  # it goes on, and so does this
        mine.close()

    asyncio.run(run())


@with_loop
async def test_who_may_wait(waiter, client):
    """One task, for what is its client's."""
    foreign = client.get_start(["never"])
    with raises(ValueError, "another client's"):
        await waiter.wait(foreign)
    foreign.cancel()
    pending = waiter.client.get_start(["late"])
    assert pending.client is waiter.client
    task = asyncio.ensure_future(waiter.wait(pending))
    await asyncio.sleep(0)
    with raises(ValueError, "another task"):
        await waiter.wait(pending)
    client.put("late", b"x")
    view, = await task
    assert bytes(view) == b"x" and pending.client is None
    with raises(nigh.CanceledError):
        await waiter.wait(pending)


@with_loop
async def test_services_and_calls(waiter, client):
    async def answer(request):
        if request.bytes == b"fail":
            raise nigh.BusyError("not now")
        if request.bytes == b"own":
            raise nigh.Error("of no status that there is")
        await asyncio.sleep(0)
        return request.bytes[::-1]

    task = asyncio.ensure_future(waiter.serve("turn", answer))
    caller = nigh.aio.Client(other(client))
    while True:
        try:
            assert await caller.call("turn", b"abc") == b"cba"
            break
        except nigh.NotFoundError:
            await asyncio.sleep(0.01)
    replies = await asyncio.gather(*(caller.call("turn", str(number).encode()) for number in range(50)))
    assert replies == [str(number)[::-1].encode() for number in range(50)]
    try:
        await caller.call("turn", b"fail")
        raise AssertionError
    except nigh.BusyError as error:
        assert error.answered
    with raises(nigh.CanceledError):
        await caller.call("turn", b"own")
    assert await caller.call("turn", b"abc") == b"cba"
    task.cancel()
    with raises(asyncio.CancelledError):
        await task
    caller.close()


@with_loop
async def test_answers_that_cannot_be_sent_are_heard_of(waiter, client):
    task = asyncio.ensure_future(waiter.serve("much", lambda request: bytes(8193)))
    caller = nigh.aio.Client(other(client))
    while True:
        try:
            await caller.call("much", timeout=20)
            raise AssertionError
        except nigh.CanceledError as error:
            assert error.answered
            break
        except nigh.NotFoundError:
            await asyncio.sleep(0.01)
    with raises(ValueError, "8192"):
        await task
    caller.close()


@with_loop
async def test_regions_are_read_and_locked(waiter, client):
    region = waiter.client.create_region("r", 1 << 20)
    await asyncio.gather(*(waiter.wait(region.write(8 * n, bytes([n]) * 8, start=True)) for n in range(100)))
    assert await waiter.wait(region.read(8, 8, start=True)) == b"\1" * 8
    olds = await asyncio.gather(*(waiter.wait(region.fetch_add(4096, start=True)) for _ in range(50)))
    assert sorted(olds) == list(range(50))
    held = await waiter.wait(region.lock(1, start=True))
    second = asyncio.ensure_future(waiter.wait(region.lock(1, start=True)))
    await asyncio.sleep(0)
    assert not second.done()
    held.close()
    (await second).close()


@with_client("--hold")
def test_who_serves_hears_that_the_node_began_anew(client):
    """And serves on with the same client."""
    async def run():
        waiter = nigh.aio.Client(other(client))

        async def call():
            while True:
                try:
                    return await asyncio.to_thread(client.call, "s", b"x", timeout=1)
                except (nigh.NotFoundError, nigh.NodeLostError, nigh.TimeoutError):
                    await asyncio.sleep(0.01)

        def answer(request):
            request.reply(b"by itself")

        for _ in range(2):
            task = asyncio.ensure_future(waiter.serve("s", answer))
            assert await call() == b"by itself" and await call() == b"by itself"
            os.kill(child_of(client.node.process.pid), signal.SIGKILL)
            with raises(nigh.ClosedError):
                await asyncio.wait_for(task, 20)
        waiter.close()

    asyncio.run(run())


@with_loop
async def test_a_node_that_dies_ends_what_waits(waiter, client):
    tasks = [asyncio.ensure_future(waiter.get("never")) for _ in range(3)]
    tasks.append(asyncio.ensure_future(waiter.serve("s", lambda request: None)))
    await asyncio.sleep(0)
    client.node.process.kill()
    for task in tasks:
        with raises(nigh.NodeLostError):
            await task
    client.node.process.wait()
    client.node.stop = lambda: (0, "")


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
