#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Spaces in Python: memory, bytes, words, order, locks, of several threads and clients."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, other, raises, run_tests, with_client  # noqa: E402

import nigh  # noqa: E402

SPACES = ("--space-memory", "32M")


@with_client(*SPACES)
def test_what_is_written_is_read(client):
    space = client.create_space("s", 4 * MIB)
    assert space.block_size == 512
    address = space.alloc(2000)
    assert space.read(address, 2000) == bytes(2000)
    space.write(address + 500, b"across a border")
    assert space.read(address + 500, 15) == b"across a border"  # one's own at once
    space.flush()
    second = other(client).open_space("s")
    assert second.read(address + 499, 17) == b"\0across a border\0"
    space.free(address)
    with raises(nigh.NotFoundError):
        second.read(address, 1)
    space.close()
    with raises(nigh.ClosedError):
        space.read(address, 1)


@with_client(*SPACES)
def test_words(client):
    space = client.create_space("s", 4 * MIB)
    address = space.alloc(64, rank=0)
    assert space.fetch_add(address, 5) == 0 and space.fetch_add(address) == 5 and space.fetch_add(address, -1) == 6
    assert space.fetch_add(address, (1 << 64) - 1) == 5 and space.fetch_add(address, -(1 << 63)) == 4
    for much in ((1 << 70) + 5, 1 << 64, -(1 << 63) - 1):
        with raises(OverflowError):
            space.fetch_add(address, much)
    with raises(TypeError):
        space.fetch_add(address, 1.5)
    assert space.fetch_add(address, (1 << 63) + 1) == (1 << 63) + 4
    assert space.exchange(address, 9) == 5
    assert space.compare_swap(address, 8, 1) == 9 and space.compare_swap(address, 9, 1) == 9
    assert space.get(address) == 1
    space.put(address, (1 << 64) - 1)
    assert space.get(address) == (1 << 64) - 1
    with raises(OverflowError):
        space.put(address, 1 << 64)
    with raises(nigh.InvalidError):
        space.fetch_add(address + 4)


@with_client(*SPACES)
def test_values_are_put_whole_and_in_order(client):
    """A reader that sees the flag sees what was written before it."""
    space = client.create_space("s", 4 * MIB)
    address = space.alloc(4096)
    wrong = []

    def read():
        handle = other(client).open_space("s", nigh.READ)
        seen = 0
        while seen < 200:
            seen = handle.get(address)
            value = int.from_bytes(handle.read(address + 1024, 8), "little")
            bytes_ = handle.get_bytes(address + 2048, 24)
            if value < seen or bytes_ != bytes_[:1] * 24:
                wrong.append((seen, value, bytes_))
                return

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(1, 201):
        space.write(address + 1024, number.to_bytes(8, "little"))
        space.put_bytes(address + 2048, bytes([number]) * 24)
        space.put(address, number)
    thread.join()
    assert not wrong, wrong


@with_client(*SPACES)
def test_locks_exclude(client):
    space = client.create_space("s", 4 * MIB)
    address = space.alloc(64)

    def add(mine):
        handle = mine.open_space("s")
        for _ in range(50):
            handle.lock(address, 8)
            number = int.from_bytes(handle.read(address, 8), "little") + 1
            handle.write(address, number.to_bytes(8, "little"))
            handle.unlock(address, 8)
        handle.flush()

    threads = [threading.Thread(target=add, args=[other(client)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int.from_bytes(space.read(address, 8), "little") == 200
    space.lock(address)
    second = other(client).open_space("s")
    with raises(nigh.BusyError):
        second.lock(address, wait=False)
    with raises(nigh.TimeoutError):
        second.lock(address, shared=True, timeout=0.05)
    space.unlock(address)
    space.fence()
    second.lock(address, shared=True)
    space.lock(address, shared=True, wait=False)
    with raises(nigh.InvalidError):
        space.unlock(address + 4096)


@with_client(*SPACES)
def test_memory_is_placed(client):
    space = client.create_space("s", 4 * MIB, block_size=64)
    assert space.block_size == 64
    address = space.alloc(100, alignment=4096)
    assert address % 4096 == 0 and address >> 48 == 0
    near = space.alloc(100, near=address)
    assert near != address
    with raises(nigh.OutOfMemoryError):
        space.alloc(1 << 30)
    with raises(ValueError):
        space.alloc(1, rank=1 << 16)
    with raises(nigh.InvalidError):
        space.alloc(1, rank=64)
    space.store_fence()
    space.fence()


@with_client(*SPACES)
def test_spaces_are_looked_at_and_deleted(client):
    for number in range(3):
        client.create_space(f"s{number}", MIB, cache_size=MIB, other_access=nigh.READ).close()
    assert [info["name"] for info in client.spaces()] == ["s0", "s1", "s2"]
    info = client.stat_space("s1")
    assert info["home_size"] == MIB and info["other_access"] == nigh.READ and info["durability"] == "none"
    assert info["ranks"] == [0] and info["access"] == 3
    with raises(nigh.ExistsError):
        client.create_space("s1", MIB)
    client.delete_space("s1")
    with raises(nigh.NotFoundError):
        client.open_space("s1")
    with raises(ValueError, "durability"):
        client.create_space("d", MIB, durability="always")
    read = client.open_space("s2", nigh.READ)
    with raises(nigh.DeniedError):
        read.alloc(64)


@with_client()
def test_a_node_that_serves_none_says_so(client):
    with raises(NotImplementedError, "--space-memory"):
        client.create_space("s", MIB)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
