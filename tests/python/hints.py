#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The public interface of the Python package, as a program uses it that a type checker reads (tools/check-types): what it says is
of which kind, and what it says must not go (the checker is to say so, or the line's `type: ignore` is one too many). It is not
run; test_the_typed_program_has_all looks that nothing is missing from it."""
from __future__ import annotations

import subprocess
from typing import Any, AsyncIterator, Awaitable, Callable, ContextManager, Iterator, assert_type

import numpy

import nigh
import nigh.aio
import nigh.plasma
from nigh import Pending


def room_of(thing: nigh.View | nigh.Writer | nigh.Mapping | nigh.Bulk) -> memoryview:
    """Not all checkers know that these are buffers (PEP 688)."""
    data: Any = thing
    return memoryview(data)


def objects(client: nigh.Client, id: nigh.Id) -> None:
    assert_type(client.put(id, b"data", b"meta", timeout=1.5, exclusive=True, replicas=1, no_evict=True), None)
    client.put("from an array", numpy.ones(3))
    client.put("a number", 7)  # type: ignore[arg-type]
    client.put(7, b"data")  # type: ignore[arg-type]
    assert_type(client.put_many([("a", b"1"), (b"b" * 20, bytearray(2), b"meta")]), None)
    assert_type(client.put_many([("a", b"1")], start=True), Pending[None])
    with client.create("made", 100, meta=b"m", timeout=None) as writer:
        assert_type(writer, nigh.Writer)
        writer.write(b"data", 4)
        room_of(writer)[:4] = b"data"
        assert_type(writer.id, bytes)
        assert len(writer) == 100
    client.create("sealed", 1).seal()
    client.create("given up", 1).abort()
    with client.get(id, timeout=0, no_copy=True) as view:
        assert_type(view, nigh.View)
        assert_type((view.id, view.meta, view.released, len(view)), tuple[bytes, bytes, bool, int])
        client.put("from a view", view)
    view.release()
    assert_type(client.get_many(["a", b"b" * 20], 0), list[nigh.View | None])
    assert_type(client.get_start(["a"]), Pending[list[nigh.View | None]])
    client.get_many(["a"])[0].release()  # type: ignore[union-attr]
    client.put_array("array", numpy.ones((3, 4)), timeout=10)
    client.put_array("array of a list", [1, 2, 3])
    assert_type(client.get_array("array", 0), numpy.ndarray[Any, Any])
    client.put_object("value", {"a": 1})
    assert_type(client.get_object("value", timeout=0), Any)
    assert_type(client.value_of(view), Any)


def of_objects(client: nigh.Client, id: nigh.Id) -> None:
    assert_type(client.contains(id), bool)
    assert_type(client.stat(id), dict[str, Any])
    assert_type(client.checksum(id), int)
    assert_type(client.evict(1 << 20), int)
    assert_type(client.replicate(id, 2, timeout=1), int)
    assert_type(client.where(id), list[int])
    assert_type(client.who(id), list[dict[str, Any]])
    client.pin(id)
    client.unpin(id)
    client.delete(id)
    client.set_quota(1 << 20)
    for info in client.list():
        assert_type(info, dict[str, Any])
    assert_type(client.list_some(0), tuple[int, list[dict[str, Any]]])
    for event in client.events(replay=True):
        assert_type(event, nigh.Event)
        assert_type((event.kind, event.id, event.size, event.meta_size), tuple[str, bytes, int, int])


def by_hand(client: nigh.Client) -> None:
    client.subscribe(1)
    assert_type(client.next_event(0.5), tuple[int, bytes, int, int] | None)
    client.unsubscribe()
    client.arm()
    assert_type((client.fileno(), client.poll(), client.closed), tuple[int, int, bool])
    assert_type(client.stats(), dict[str, int])
    assert_type(client.nodes(), list[dict[str, Any]])
    pending = client.call_start("turn", b"abc")
    assert_type(pending, Pending[bytes])
    assert_type((pending.wait(timeout=5), pending.wait(), pending.done()), tuple[bool, bool, bool])
    assert_type(pending.result(), bytes)
    assert pending.client is client
    pending.cancel()


def regions(client: nigh.Client) -> None:
    client.create_region("r", 4096, chunk_size=4096, where=0, group_access=nigh.READ, mappable=True).close()
    region = client.open_region("r", nigh.READ | nigh.WRITE | nigh.MASTER, timeout=5)
    assert_type(region.read(0, 8), bytes)
    assert_type(region.read(0, 8, start=True), Pending[bytes])
    assert_type(region.read_into(0, bytearray(8)), None)
    region.read_into(0, numpy.zeros(8), start=True)
    region.read_into(0, "no room")  # type: ignore[call-overload]
    region.write(0, b"data", timeout=1)
    assert_type(region.write(0, numpy.ones(1), start=True), Pending[None])
    region.memset(0, 255, 8)
    region.copy(8, region, 0, 8)
    assert_type((region.fetch_add(0), region.fetch_add(0, -1, start=True)), tuple[int, Pending[int]])
    assert_type((region.compare_swap(0, 1, 2), region.compare_swap(0, 1, 2, start=True)), tuple[int, Pending[int]])
    with region.lock(1, shared=True, term=3.5) as held:
        assert_type(held, nigh.Region)
    assert_type(region.lock(1, timeout=1, start=True), Pending[nigh.Region])
    region.barrier(1, 2, timeout=1)
    with region.map(0, 4096, writable=True) as mapping:
        assert_type((len(mapping), room_of(mapping)[0]), tuple[int, int])
    mapping.release()
    region.grant("somebody", give=nigh.READ, take=nigh.WRITE)
    region.resize(8192, where="spread")
    region.move(0, 1)
    assert_type(region.stat(), dict[str, Any])
    region.free(timeout=1)
    assert_type(region.closed, bool)
    for info in client.regions():
        assert_type(info, dict[str, Any])
    assert_type(client.regions_some(None), tuple[list[dict[str, Any]], bool])


def spaces(client: nigh.Client) -> None:
    with client.create_space("s", 1 << 20, block_size=512, durability="sync") as space:
        assert_type(space, nigh.Space)
    space = client.open_space("s", nigh.READ)
    address = space.alloc(64, near=0, rank=None, alignment=64)
    assert_type((address, space.block_size, space.closed), tuple[int, int, bool])
    assert_type((space.read(address, 8), space.get_bytes(address, 8)), tuple[bytes, bytes])
    space.write(address, b"data")
    space.put_bytes(address, bytearray(4))
    space.store_fence()
    space.fence(timeout=None)
    space.flush()
    assert_type((space.fetch_add(address), space.exchange(address, 1), space.compare_swap(address, 1, 2)), tuple[int, int, int])
    space.put(address, 7)
    assert_type(space.get(address), int)
    space.lock(address, 8, shared=True, wait=False)
    space.unlock(address, 8)
    space.free(address)
    space.close()
    assert_type(client.stat_space("s"), dict[str, Any])
    for info in client.spaces():
        assert_type(info, dict[str, Any])
    assert_type(client.spaces_some("after"), tuple[list[dict[str, Any]], bool])
    client.delete_space("s")


def answer(request: nigh.Request) -> bytes | None:
    assert_type((request.bytes, request.rank, request.uid, request.one_way), tuple[bytes, int, int, bool])
    assert_type(request.timeout, float | None)
    assert_type(request.bulks, list[tuple[int, int]])
    return request.bytes or None


def calls(client: nigh.Client) -> None:
    with client.alloc_bulk(4096, nigh.READ) as bulk:
        assert_type((len(bulk), bulk.closed, room_of(bulk)), tuple[int, bool, memoryview])
    assert_type(client.call("turn", b"abc", rank=1, timeout=2, idempotent=True, urgent=True, bulks=[bulk]), bytes)
    client.call("turn", one_way=True)
    assert_type(client.multicast("all", b"x", ranks=[0, 1], reduce="sum_u64"), dict[str, Any])
    assert_type(client.multicast("all", b"x", start=True), Pending[dict[str, Any]])
    service = client.register("turn")
    assert_type(service, nigh.Service)
    assert_type(service.receive_start(timeout=1), Pending[nigh.Request])
    request = service.receive(timeout=1)
    assert_type(request.pull(0, bulk), None)
    assert_type(request.push(0, bulk, size=8, start=True), Pending[None])
    request.reply(b"reply", status=0)
    nigh.serve(service, answer)
    service.close()


def errors(client: nigh.Client) -> None:
    kinds: list[type[nigh.Error]] = [
        nigh.BusyError, nigh.CanceledError, nigh.ClosedError, nigh.CorruptError, nigh.DeniedError, nigh.DiskError,
        nigh.ElsewhereError, nigh.ExistsError, nigh.ExpelledError, nigh.ForkedError, nigh.InUseError, nigh.InvalidError,
        nigh.LeavingError, nigh.LimitError, nigh.LockLostError, nigh.NoQuorumError, nigh.NoResourcesError, nigh.NodeLostError,
        nigh.NotFoundError, nigh.NotSealedError, nigh.OutOfMemoryError, nigh.OverflowError, nigh.OverloadedError,
        nigh.PeerLostError, nigh.PendingError, nigh.ProtocolError, nigh.QuotaError, nigh.StaleError, nigh.TimeoutError,
        nigh.TooFewError, nigh.UnreachableError, nigh.UnsupportedError, nigh.VersionError]
    keys: list[type[KeyError]] = [nigh.NotFoundError]
    keys.append(nigh.ExistsError)  # type: ignore[arg-type]
    try:
        client.delete("nobody")
    except tuple(kinds) as error:
        assert_type((error.status, error.name, error.answered), tuple[int, str, bool])
        assert_type(error.statuses, list[int])


async def turned(request: nigh.Request) -> bytes | None:
    return request.bytes


async def waits(client: nigh.Client) -> None:
    waiter = nigh.aio.Client(client)
    assert_type(waiter.client, nigh.Client)
    assert_type(await waiter.get("a", timeout=1), nigh.View)
    assert_type(await waiter.get_many(["a", "b"]), list[nigh.View | None])
    await waiter.put("a", b"data", timeout=None)
    assert_type(await waiter.call("turn", b"abc", rank=1), bytes)
    assert_type(await waiter.wait(client.open_region("r").read(0, 8, start=True)), bytes)
    assert_type(await waiter.wait(client.open_region("r").lock(1, start=True)), nigh.Region)
    await waiter.wait(client.open_region("r").read(0, 8))  # type: ignore[arg-type]
    events: AsyncIterator[nigh.Event] = waiter.events(replay=True)
    async for event in events:
        assert_type(event.id, bytes)
    serving: Awaitable[None] = waiter.serve("turn", turned)
    await serving
    await waiter.serve("turn", answer)
    waiter.close()


def plasma() -> None:
    started: ContextManager[tuple[str, subprocess.Popen[bytes]]] = nigh.plasma.start_plasma_store(1 << 26)
    with started as (path, process):
        assert_type(process.pid, int)
    client = nigh.plasma.connect(path, num_retries=3)
    assert_type(client, nigh.plasma.PlasmaClient)
    id = nigh.plasma.ObjectID(b"x" * 20)
    assert_type(nigh.plasma.ObjectID.from_random().binary(), bytes)
    assert_type(client.create(id, 100, b"meta"), memoryview)
    client.seal(id)
    client.abort(id)
    client.create_and_seal(id, b"data", b"meta")
    assert_type((client.put_raw_buffer(b"data"), client.put({"a": 1})), tuple[nigh.plasma.ObjectID, nigh.plasma.ObjectID])
    assert_type(client.get(id, timeout_ms=10), Any)
    assert client.get(id) is not nigh.plasma.ObjectNotAvailable
    assert_type(client.get_buffers([id], with_meta=True), list[Any])
    assert_type(client.get_metadata([id]), list[bytes | None])
    assert_type((client.contains(id), client.hash(id), client.evict(1)), tuple[bool, bytes, int])
    client.delete([id])
    assert_type(client.list(), dict[nigh.plasma.ObjectID, dict[str, Any]])
    assert_type((client.store_capacity(), client.debug_string(), client.store_socket_name), tuple[int, str, str])
    client.subscribe()
    assert_type(client.get_next_notification(), tuple[nigh.plasma.ObjectID, int, int])
    assert_type(client.fileno(), int)
    client.set_client_options("name", 1 << 20)
    client.disconnect()
    gone: list[type[Exception]] = [nigh.plasma.PlasmaObjectExists, nigh.plasma.PlasmaObjectNotFound,
                                   nigh.plasma.PlasmaObjectNonexistent, *nigh.plasma.PlasmaStoreFull]
    assert gone


def main() -> None:
    with nigh.Client(None, pool="p", name="n", quota=0, timeout=5, prefault=0, read_only=False, spin_us=0,
                     low_priority=True) as client:
        uses: list[Callable[[nigh.Client], None]] = [by_hand, regions, spaces, calls, errors]
        for use in uses:
            use(client)
        objects(client, nigh.random_id())
        of_objects(client, "name")
        again: Iterator[dict[str, Any]] = client.list()
        assert list(again) == []
        client.close()
