#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nigh.plasma: what a program did with pyarrow.plasma, by the same names."""
import os
import pickle
import select
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, numpy, raises, run_tests, wait_for, with_client  # noqa: E402

import nigh.plasma as plasma  # noqa: E402


def with_plasma(test):
    @with_client()
    def wrapped(client):
        connected = plasma.connect(client.node.path)
        test(connected, plasma.connect(client.node.path))
        connected.disconnect()

    wrapped.__name__ = test.__name__
    return wrapped


@with_plasma
def test_plasma_values(client, second):
    value = {"a": 1, "b": [2, "three"]}
    object_id = client.put(value)
    assert isinstance(object_id, plasma.ObjectID) and second.get(object_id) == value
    mine = plasma.ObjectID(b"m" * 20)
    assert client.put(7, mine) == mine and mine.binary() == b"m" * 20
    assert second.get([object_id, mine]) == [value, 7]
    with raises(plasma.PlasmaObjectExists):
        client.put(8, mine)
    none = plasma.ObjectID.from_random()
    assert second.get([mine, none], timeout_ms=10) == [7, plasma.ObjectNotAvailable]
    assert second.get(none, timeout_ms=0) is plasma.ObjectNotAvailable
    with raises(ValueError, "20 bytes"):
        plasma.ObjectID(b"short")


@with_plasma
def test_plasma_arrays(client, second):
    np = numpy()
    object_id = client.put(np.arange(MIB))
    got = second.get(object_id)
    assert (got == np.arange(MIB)).all() and not got.flags.writeable
    target = plasma.ObjectID.from_random()
    buffer = client.create(target, 80)
    array = np.frombuffer(buffer, np.float64)
    array[:] = 3
    with raises(BufferError):
        client.seal(target)
    with raises(BufferError):
        client.abort(target)  # and it may be tried again
    del array
    client.seal(target)
    with raises(ValueError):
        buffer[0] = 1  # it is sealed
    read, = second.get_buffers([target])
    assert (np.frombuffer(read, np.float64) == 3).all()


@with_plasma
def test_plasma_buffers(client, second):
    object_id = plasma.ObjectID.from_random()
    buffer = client.create(object_id, 5, b"meta")
    with raises(plasma.PlasmaObjectExists):
        second.create(object_id, 5)
    buffer[:] = b"hello"
    assert not second.contains(object_id)
    held = pickle.PickleBuffer(buffer)  # has a buffer of the memoryview itself
    with raises(BufferError):
        client.seal(object_id)
    held.release()
    piece = buffer[1:]
    for end in (client.seal, client.abort):
        with raises(BufferError):
            end(object_id)
    buffer[0], piece[0] = b"hi"  # both are usable still
    buffer[:] = b"hello"
    del piece
    assert client.list()[object_id]["state"] == "created"
    client.seal(object_id)
    assert second.contains(object_id)
    read, = second.get_buffers([object_id])
    assert bytes(read) == b"hello"
    assert second.get_buffers([object_id, plasma.ObjectID.from_random()], 0, with_meta=True) == [
        (b"meta", b"hello"), (None, None)]
    assert second.get_metadata([object_id]) == [b"meta"]
    assert client.hash(object_id) == second.hash(object_id)
    info = client.list()[object_id]
    assert info["data_size"] == 5 and info["metadata_size"] == 4 and info["state"] == "sealed"
    aborted = plasma.ObjectID.from_random()
    client.create(aborted, 5)
    client.abort(aborted)
    assert aborted not in client.list()
    with raises(plasma.PlasmaObjectNotFound):
        client.seal(aborted)
    raw = client.put_raw_buffer(b"raw", metadata=b"m")
    assert bytes(second.get_buffers([raw])[0]) == b"raw"


@with_plasma
def test_plasma_management(client, second):
    object_id = client.put_raw_buffer(bytes(8 * MIB))
    assert client.evict(8 * MIB) >= 8 * MIB and not client.contains(object_id)
    object_id = client.put_raw_buffer(b"x")
    held, = second.get_buffers([object_id])
    assert client.list()[object_id]["ref_count"] == 1
    made = plasma.ObjectID.from_random()
    client.create(made, 8)
    client.delete([made, plasma.ObjectID.from_random(), object_id])
    assert not client.contains(object_id) and bytes(held) == b"x"
    client.abort(made)
    assert client.store_capacity() >= 48 * MIB and "memory_bytes" in client.debug_string()
    with raises(plasma.PlasmaStoreFull):
        client.create(plasma.ObjectID.from_random(), 1 << 40)
    client.set_client_options("small", MIB)
    with raises(plasma.PlasmaStoreFull):
        client.create(plasma.ObjectID.from_random(), 8 * MIB)


@with_plasma
def test_plasma_notifications(client, second):
    second.subscribe()
    object_id = client.put_raw_buffer(b"abc", metadata=b"m")
    assert second.get_next_notification() == (object_id, 3, 1)
    client.delete([object_id])
    assert second.get_next_notification() == (object_id, -1, -1)


@with_plasma
def test_plasma_notifications_have_a_descriptor(client, second):
    """It is readable as long as there are any, whether they came before it was asked for, or while another was taken."""
    def is_readable(seconds):
        return bool(select.select([second.fileno()], [], [], seconds)[0])

    second.subscribe()
    assert not is_readable(0)
    ids = [client.put_raw_buffer(bytes(n)) for n in range(3)]
    watched = second.fileno()
    for n in range(3):
        assert select.select([watched], [], [], 20)[0]
        assert second.get_next_notification() == (ids[n], n, 0)
    assert not select.select([watched], [], [], 0)[0]
    later = client.put_raw_buffer(b"later")
    assert select.select([watched], [], [], 20)[0]
    assert second.get_next_notification() == (later, 5, 0)
    assert second.fileno() == watched and not is_readable(0)


def test_a_plasma_store_that_is_not_there_leaves_no_descriptors():
    before, daemon = len(os.listdir("/proc/self/fd")), os.environ["NIGHD"]
    os.environ["NIGHD"] = "/nowhere/nighd"
    try:
        with raises(FileNotFoundError):
            with plasma.start_plasma_store(64 * MIB):
                pass
    finally:
        os.environ["NIGHD"] = daemon
    assert len(os.listdir("/proc/self/fd")) == before


def test_plasma_store_is_started():
    with plasma.start_plasma_store(64 * MIB) as (path, process):
        client = plasma.connect(path)
        object_id = client.put("x")
        assert client.get(object_id) == "x"
        client.disconnect()
        assert process.poll() is None
    assert process.poll() == 0
    wait_for(lambda: not os.path.exists(path))
    with raises(plasma._native.UnreachableError):
        plasma.connect(path, num_retries=1)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
