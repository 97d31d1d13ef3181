#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Regions in Python: bytes, words, locks, barriers, mappings, changes, and handles that are closed."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, numpy, other, raises, run_tests, wait_for, with_client  # noqa: E402

import nigh  # noqa: E402


@with_client()
def test_bytes_are_written_and_read(client):
    with client.create_region("r", MIB) as region:
        assert region.read(0, 16) == bytes(16)
        region.write(5, b"hello")
        second = other(client).open_region("r")
        assert second.read(4, 7) == b"\0hello\0" and second.read(0, 0) == b""
        room = bytearray(5)
        second.read_into(5, room)
        assert room == b"hello"
        region.memset(0, 0x41, 6)
        assert second.read(0, 10) == b"AAAAAAello"
        region.copy(100, region, 0, 10)
        assert region.read(100, 10) == b"AAAAAAello"
        copy = client.create_region("copy", 4096)
        copy.copy(1, region, 5, 5)
        assert copy.read(0, 7) == b"\0Aello\0"
        with raises(nigh.InvalidError):
            region.read(MIB, 1)
        with raises(nigh.InvalidError):
            copy.copy(0, second, 0, 8)  # of another client
    with raises(nigh.ClosedError):
        region.read(0, 1)
    assert region.closed


@with_client()
def test_arrays_are_moved_without_bytes(client):
    np = numpy()
    region = client.create_region("r", MIB)
    array = np.arange(1000.0)
    region.write(0, array)
    room = np.zeros(1000)
    region.read_into(0, room)
    assert (room == array).all()
    with raises(TypeError):
        region.read_into(0, b"may not be written")


@with_client()
def test_words(client):
    region = client.create_region("r", 4096)
    assert region.fetch_add(8, 5) == 0 and region.fetch_add(8) == 5 and region.fetch_add(8, -1) == 6
    assert region.fetch_add(8, (1 << 64) - 1) == 5 and region.fetch_add(8, -(1 << 63)) == 4
    for much in ((1 << 70) + 5, 1 << 64, -(1 << 63) - 1):
        with raises(OverflowError):
            region.fetch_add(8, much)
    with raises(TypeError):
        region.fetch_add(8, 1.5)
    assert region.fetch_add(8, (1 << 63) + 1) == (1 << 63) + 4
    assert region.compare_swap(8, 5, 7) == 5 and region.compare_swap(8, 5, 9) == 7
    assert int.from_bytes(region.read(8, 8), "little") == 7
    with raises(nigh.InvalidError):
        region.fetch_add(4)
    clients = [other(client) for _ in range(4)]

    def count(mine):
        handle = mine.open_region("r")
        for _ in range(100):
            handle.fetch_add(16)

    threads = [threading.Thread(target=count, args=[mine]) for mine in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert region.fetch_add(16, 0) == 400


@with_client()
def test_locks_are_handles(client):
    region = client.create_region("r", 4096)
    second = other(client).open_region("r")
    with region.lock(1) as held:
        held.write(0, b"under it")
        with raises(nigh.TimeoutError):
            second.lock(1, timeout=0.05)
        with raises(nigh.TimeoutError):
            second.lock(1, shared=True, timeout=0.05)
    with second.lock(1, shared=True) as held, region.lock(1, shared=True):
        assert held.read(0, 8) == b"under it"
    del held
    held = region.lock(2)
    del held
    second.lock(2, timeout=20).close()


@with_client()
def test_a_lock_that_is_lost_is_told(client):
    region = client.create_region("r", 4096)
    held = region.lock(1, term=0.01)
    taken = other(client).open_region("r").lock(1, timeout=20)
    with raises(nigh.LockLostError):
        held.write(0, b"x")
    with raises(nigh.LockLostError):
        held.close()
    held.close()
    taken.write(0, b"y")


@with_client()
def test_locks_that_are_asked_for_and_dropped_are_let_go(client):
    region = client.create_region("r", 4096)
    held = region.lock(1)
    pending = region.lock(1, start=True)
    assert not pending.done()
    held.close()
    wait_for(lambda: client.poll() >= 0 and pending.done())
    del pending  # which holds it
    region.lock(1, timeout=20).close()


@with_client()
def test_barriers(client):
    region = client.create_region("r", 4096)
    handles = [other(client).open_region("r") for _ in range(3)]
    went = []

    def arrive(handle):
        for turn in range(10):
            handle.barrier(1, 4, timeout=30)
            went.append(turn)

    threads = [threading.Thread(target=arrive, args=[handle]) for handle in handles]
    for thread in threads:
        thread.start()
    for turn in range(10):
        region.barrier(1, 4, timeout=30)
        went.append(turn)
    for thread in threads:
        thread.join()
    assert sorted(went) == sorted(list(range(10)) * 4)
    with raises(nigh.TimeoutError):
        region.barrier(1, 4, timeout=0.05)


@with_client()
def test_mappings_are_the_region(client):
    region = client.create_region("r", 3 * 4096, mappable=True)
    mapping = region.map(8, writable=True)
    assert len(mapping) == 3 * 4096 - 8
    buffer = memoryview(mapping)
    buffer[:5] = b"hello"
    assert region.read(8, 5) == b"hello"
    region.write(20, b"there")
    assert bytes(buffer[12:17]) == b"there"
    with raises(BufferError):
        mapping.release()
    region.close()
    assert bytes(buffer[:5]) == b"hello"  # it keeps the handle
    buffer.release()
    mapping.release()
    mapping.release()
    with raises(BufferError):
        memoryview(mapping)
    with raises(BufferError, "unmapped"), mapping:
        pass
    read = other(client).open_region("r", nigh.READ)
    with read.map(0, 16) as mapping, memoryview(mapping) as buffer:
        assert buffer.readonly
    with raises(nigh.DeniedError):
        read.map(0, 16, writable=True)
    with raises(nigh.UnsupportedError):
        client.create_region("plain", 4096).map()


@with_client()
def test_regions_are_changed_and_looked_at(client):
    region = client.create_region("r", 8192, chunk_size=4096, other_access=nigh.READ)
    info = region.stat()
    assert info["size"] == 8192 and info["chunk_size"] == 4096 and info["ranks"] == [0, 0] and info["uid"] == os.getuid()
    assert info["other_access"] == nigh.READ and info["users"] == {} and not info["mappable"]
    region.grant(4711, nigh.READ | nigh.WRITE)
    region.grant("others", take=nigh.READ)
    region.resize(3 * 4096)
    info = region.stat()
    assert info["users"] == {4711: 3} and info["other_access"] == 0 and info["ranks"] == [0, 0, 0]
    for whose in ("nobody", 1.5):
        with raises(ValueError):
            region.grant(whose, nigh.READ)
    for wrong in (-1, 1 << 32, (1 << 32) + 1):
        for call in (lambda: region.grant(wrong, nigh.READ), lambda: region.grant(4711, wrong),
                     lambda: region.grant(4711, 0, wrong), lambda: region.resize(3 * 4096, wrong),
                     lambda: region.move(wrong, 0), lambda: region.move(0, wrong), lambda: region.barrier(1, wrong),
                     lambda: client.open_region("r", wrong), lambda: client.create_region("w", 4096, where=wrong),
                     lambda: client.create_region("w", 4096, group_access=wrong), lambda: client.alloc_bulk(4096, wrong),
                     lambda: client.multicast("s", fan=wrong), lambda: client.open_space("s", wrong),
                     lambda: client.create_space("s", 1 << 20, block_size=wrong)):
            with raises(OverflowError):
                call()
    with raises(nigh.ExistsError):
        region.move(0, 0)
    with raises(nigh.ExistsError):
        client.create_region("r", 4096)
    with raises(nigh.NotFoundError):
        client.open_region("none")
    with raises(TypeError):
        client.create_region("w", 4096, where="somewhere")
    for number in range(70):
        client.create_region(f"more{number:02}", 4096).close()
    names = [info["name"] for info in client.regions()]
    assert names == [*(f"more{number:02}" for number in range(70)), "r"]
    region.free()
    with raises(nigh.NotFoundError):
        region.read(0, 1)


@with_client()
def test_a_write_that_goes_on_keeps_its_bytes(client):
    region = client.create_region("r", 16 * MIB)
    array = bytearray(os.urandom(8 * MIB))
    pending = region.write(0, array, start=True)
    with raises(BufferError):
        array.clear()  # as long as it is written from
    wait_for(lambda: client.poll() >= 0 and pending.done())
    assert pending.result() is None
    del pending
    copy = bytes(array)
    array.clear()
    assert region.read(0, 8 * MIB) == copy


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
