#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Objects in Python: put, get, views and writers as buffers, what is refused, listings, events."""
import gc
import os
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, other, raises, run_tests, wait_for, with_client  # noqa: E402

import nigh  # noqa: E402


@with_client()
def test_what_is_put_is_got(client):
    client.put("greeting", b"hello", b"meta")
    with client.get("greeting") as view:
        assert bytes(view) == b"hello" and len(view) == 5 and view.meta == b"meta"
        assert not view.released
    assert view.released
    client.put("greeting 2", bytearray(MIB))
    assert bytes(client.get("greeting 2", 0)) == bytes(MIB)


@with_client()
def test_nothing_is_an_object_too(client):
    client.put("empty", b"")
    with client.get("empty", 0) as view:
        assert len(view) == 0 and bytes(view) == b"" and view.meta == b""
    with client.create("empty 2", 0):
        pass
    assert bytes(client.get("empty 2", 0)) == b""


@with_client()
def test_ids_are_bytes_or_names(client):
    chance = nigh.random_id()
    client.put(chance, b"by id")
    view = client.get(chance, 0)
    assert view.id == chance and bytes(view) == b"by id"
    for wrong in (b"short", 7, None, bytearray(20)):
        with raises(TypeError, "20"):
            client.get(wrong, 0)
    for wrong in ("", "n" * 256, "a\0b"):
        with raises(nigh.InvalidError, "255"):
            client.contains(wrong)


@with_client()
def test_views_are_of_the_bytes_where_they_lie(client):
    """Two gets are the same memory, which is the node's, and nobody writes there."""
    client.put("big", os.urandom(4 * MIB))
    used = client.stats()["used_bytes"]
    views = [client.get("big", 0) for _ in range(3)]
    buffers = [memoryview(view) for view in views]
    assert all(buffer.readonly and buffer.nbytes == 4 * MIB for buffer in buffers)
    with raises(TypeError):
        buffers[0][0] = 1
    assert client.stats()["used_bytes"] == used
    assert client.stat("big")["holders"] == 3


@with_client()
def test_a_buffer_keeps_the_bytes(client):
    client.put("kept", b"x" * MIB)
    view = client.get("kept", 0)
    buffer = memoryview(view)[10:20]
    with raises(BufferError, "in use"):
        view.release()
    del view
    assert client.stat("kept")["holders"] == 1
    client.delete("kept")
    assert bytes(buffer) == b"x" * 10
    del buffer
    wait_for(lambda: client.stats()["objects_deleting"] == 0)


@with_client()
def test_released_views_give_no_buffer(client):
    client.put("gone", b"x")
    view = client.get("gone", 0)
    view.release()
    view.release()
    with raises(BufferError, "released"):
        memoryview(view)
    with raises(BufferError):
        view.meta
    with raises(BufferError):
        view.__enter__()


@with_client()
def test_a_view_that_is_left_by_an_exception_raises_no_other(client):
    client.put("left", b"x")
    with raises(ZeroDivisionError):
        with client.get("left", 0) as view:
            buffer = memoryview(view)
            1 / 0
    buffer.release()
    view.release()
    with raises(BufferError):
        with client.get("left", 0) as view:
            buffer = memoryview(view)
    buffer.release()


@with_client()
def test_writers_write_in_place(client):
    with client.create("made", 8, b"m") as writer:
        assert len(writer) == 8
        with memoryview(writer) as buffer:
            assert not buffer.readonly
            buffer[:4] = b"abcd"
        writer.write(b"efgh", 4)
        assert not client.contains("made")
    with client.get("made", 0) as view:
        assert bytes(view) == b"abcdefgh" and view.meta == b"m"
    with raises(nigh.ClosedError):
        writer.seal()
    with raises(BufferError, "sealed"):
        memoryview(writer)


@with_client()
def test_writes_lie_within_the_object(client):
    with client.create("bounds", 8) as writer:
        writer.write(b"", 8)
        writer.write(b"abcdefgh")
        with memoryview(writer) as buffer:
            writer.write(buffer[:6], 2)
            assert buffer == b"ababcdef"
        for data, at in ((b"x", 8), (b"123456789", 0), (b"x", 1 << 63)):
            with raises(ValueError, "within"):
                writer.write(data, at)
        with raises(OverflowError):
            writer.write(b"x", -1)


@with_client()
def test_what_is_not_sealed_is_given_up(client):
    writer = client.create("dropped", 64)
    del writer
    with raises(ZeroDivisionError):
        with client.create("failed", 4 * MIB) as writer:
            buffer = memoryview(writer)
            1 / 0
    with raises(BufferError, "sealed"):
        memoryview(writer)
    assert client.stats()["unsealed_bytes"] >= 4 * MIB  # somebody may write to it still
    buffer.release()
    client.create("aborted", 64).abort()
    for name in ("dropped", "failed", "aborted"):
        assert not client.contains(name)
    wait_for(lambda: client.stats()["unsealed_bytes"] < 4 * MIB)


@with_client()
def test_what_may_be_written_is_not_sealed(client):
    writer = client.create("written", 8)
    buffer = memoryview(writer)
    with raises(BufferError, "in use"):
        writer.seal()
    with raises(BufferError, "in use"):
        writer.abort()
    buffer.release()
    writer.seal()
    assert client.contains("written")


@with_client()
def test_errors_say_what_they_are(client):
    with raises(TimeoutError, "deadline"):
        client.get("nobody", 0)
    with raises(nigh.TimeoutError):
        client.get("nobody", 0.01)
    client.put("there", b"x")
    try:
        client.put("there", b"x")
    except nigh.ExistsError as error:
        assert isinstance(error, FileExistsError) and isinstance(error, nigh.Error)
        assert error.status == -3 and error.name == "NIGH_EXISTS" and not error.answered
        assert str(error) and not str(error).startswith("'")
    with raises(KeyError):
        client.delete("nobody")
    try:
        client.stat("nobody")
    except nigh.NotFoundError as error:
        assert not str(error).startswith("'"), str(error)
    with raises(MemoryError):
        client.create("larger than all", 1 << 40)
    with raises(ConnectionError):
        nigh.Client("/nowhere/at/all")
    with raises(nigh.QuotaError):
        other(client, quota=MIB).put("much", bytes(8 * MIB))
    with raises(nigh.DeniedError):
        other(client, read_only=True).put("mine", b"x")


@with_client()
def test_arguments_are_looked_at(client):
    with raises(ValueError, "timeout"):
        client.get("x", -1)
    with raises(ValueError, "timeout"):
        client.get("x", float("nan"))
    with raises(TypeError):
        client.get("x", "soon")
    with raises(OverflowError):
        client.create("x", -1)
    with raises(OverflowError):
        client.create("x", 1 << 64)
    with raises(TypeError):
        client.create("x", 1.5)
    with raises(TypeError):
        client.put("x", "text is not bytes")
    with raises(ValueError, "metadata"):
        client.put("x", b"", bytes(65537))
    with raises(ValueError, "replicas"):
        client.put("x", b"", replicas=9)
    with raises(BufferError):
        client.put("x", memoryview(b"abcdef")[::2])
    for wrong in ("a name", bytes(20)):
        with raises(TypeError, "sequence"):
            client.get_many(wrong, 0)
    for replicas in (-1, 1 << 32, (1 << 32) + 1):
        with raises(OverflowError):
            client.put("x", b"", replicas=replicas)
        with raises(OverflowError):
            client.create("x", 1, replicas=replicas)
        with raises(OverflowError):
            client.put_many([("x", b"")], replicas=replicas)
        with raises(OverflowError):
            client.replicate("x", replicas)
        with raises(OverflowError):
            client.subscribe(replicas)
        with raises(OverflowError):
            other(client, spin_us=replicas)
    assert not client.contains("x")


@with_client()
def test_puts_of_many(client):
    client.put_many([(f"o{n}", bytes([n % 256]) * n, b"m" if n % 2 else None) for n in range(300)])
    view = client.get("o299", 0)
    assert bytes(view) == b"\x2b" * 299 and view.meta == b"m" and client.stat("o7")["name"] == "o7"
    assert client.put_many([]) is None
    client.put("there", b"")
    try:
        client.put_many([("new", b"x"), ("there", b"y"), (nigh.random_id(), bytearray(MIB))])
        raise AssertionError
    except nigh.ExistsError as error:
        assert error.statuses == [0, -3, 0]
    assert bytes(client.get("new", 0)) == b"x"
    for wrong in ([b"x"], [("x",)], [("x", "text")], ["xy"], 7):
        with raises(TypeError):
            client.put_many(wrong)
    client.put_many([(f"m{number}", b"x") for number in range(3000)])
    assert all(bytes(view) == b"x" for view in client.get_many([f"m{number}" for number in range(3000)], 0))
    array = bytearray(8 * MIB)
    pending = client.put_many([("goes on", array)], start=True)
    with raises(BufferError):
        array.clear()
    wait_for(lambda: client.poll() >= 0 and pending.done())
    assert pending.result() is None
    array.clear()
    assert len(client.get("goes on", 0)) == 8 * MIB

@with_client()
def test_gets_of_many(client):
    for number in range(5):
        client.put(f"o{number}", bytes([number]))
    views = client.get_many(["o0", "none", "o3", "o0"], 0)
    assert [None if view is None else bytes(view) for view in views] == [b"\0", None, b"\3", b"\0"]
    assert client.get_many([], 0) == []
    del views
    assert client.stat("o0")["holders"] == 0


def test_gets_of_many_fail_whatever_their_order():
    """One that is not there in time does not hide that another cannot be read."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        @with_client("--spill", folder, memory="32M")
        def test(client):
            for number in range(60):
                client.put(f"o{number}", os.urandom(MIB), timeout=20)
            wait_for(lambda: any(info["state"] == "spilled" for info in client.list()))
            wait_for(lambda: not any(name.endswith(".writing") for name in os.listdir(folder)))
            damaged = set()
            for name in os.listdir(folder):
                if name.endswith(".object") and os.path.getsize(os.path.join(folder, name)) > MIB:
                    with open(os.path.join(folder, name), "r+b") as file:
                        damaged.add(file.read(40)[20:])
                        file.seek(700000)
                        file.write(b"other bytes")
            first, second = [info["id"] for info in client.list() if info["state"] == "spilled" and info["id"] in damaged][:2]
            for ids in (["none", first], [second, "none"]):
                try:
                    client.get_many(ids, 2)
                    raise AssertionError
                except nigh.CorruptError as error:
                    late, corrupt = nigh.TimeoutError.status, nigh.CorruptError.status
                    assert error.statuses == ([late, corrupt] if ids[0] == "none" else [corrupt, late])

        test()


@with_client()
def test_gets_that_go_on(client):
    pending = client.get_start(["later"])
    assert not pending.done()
    with raises(nigh.PendingError):
        pending.result()
    other(client).put("later", b"x")
    wait_for(lambda: client.poll() >= 0 and pending.done())
    view, = pending.result()
    assert bytes(view) == b"x"
    with raises(nigh.CanceledError):
        pending.result()
    pending = client.get_start(["later"])
    pending.cancel()
    with raises(nigh.CanceledError):
        pending.result()
    client.get_start(["never"])  # and is dropped
    del view
    wait_for(lambda: client.stat("later")["holders"] == 0)


@with_client()
def test_objects_are_managed(client):
    client.put("named", b"123456789")
    client.pin("named")
    info = client.stat("named")
    assert info["name"] == "named" and info["size"] == 9 and info["state"] == "sealed" and info["pinned"]
    assert client.checksum("named") == 0xe3069283
    client.unpin("named")
    for number in range(200):
        client.put(f"o{number}", b"")
    assert {info["name"] for info in client.list()} == {"named", *(f"o{number}" for number in range(200))}
    client.delete("named")
    assert not client.contains("named")
    client.put("victim", bytes(8 * MIB))
    assert client.evict(8 * MIB) >= 8 * MIB
    client.put("held", b"x")
    view = client.get("held", 0)
    holder, = client.who("held")
    assert holder["pid"] == os.getpid() and holder["name"] == "test" and holder["views"] == 1
    del view
    assert client.who("held") == []
    client.set_quota(MIB)
    with raises(nigh.QuotaError):
        client.create("over the quota", 8 * MIB)
    node, = client.nodes()
    assert node["is_self"] and node["rank"] == 0 and node["state"] == "up"


@with_client()
def test_events(client):
    client.put("before", b"123")
    events = client.events(replay=True)
    assert next(events)[::2] == ("sealed", 3)
    maker = other(client)
    maker.put("after", b"4567", b"m")
    event = next(events)
    assert event.kind == "sealed" and event.size == 4 and event.meta_size == 1
    assert event.id == client.stat("after")["id"]
    maker.delete("after")
    assert next(events).kind == "deleted"
    assert client.next_event(0) is None
    events.close()
    with raises(nigh.NotFoundError):
        client.next_event(0)


@with_client()
def test_a_second_iterator_of_events_takes_over(client):
    first = client.events()
    client.put("one", b"1")
    assert next(first).size == 1
    second = client.events()
    client.put("two", b"22")
    assert next(second).size == 2
    first.close()
    client.put("three", b"333")
    assert next(second).size == 3
    third = client.events()
    with raises(StopIteration):
        next(second)
    third.close()


@with_client()
def test_no_event_is_lost_to_an_iterator_that_ends(client):
    """One that waits as another takes over has the next event, and leaves it to that."""
    maker = other(client)
    events = client.events()
    for number in range(5):
        lost = []
        thread = threading.Thread(target=lambda events=events: lost.extend(events))
        thread.start()
        time.sleep(0.02)  # it is to wait: else there is nothing to see
        events = client.events()
        maker.put(f"first {number}", b"1")
        thread.join()
        maker.put(f"second {number}", b"22")
        assert [next(events).size for _ in range(2)] == [1, 2] and not lost


@with_client()
def test_an_iterator_of_events_that_nobody_asks_ends(client):
    """And with it what it has subscribed to."""
    events = client.events()
    assert client.next_event(0) is None
    del events
    gc.collect()
    with raises(nigh.NotFoundError, "subscribe"):
        client.next_event(0)


@with_client()
def test_what_has_no_name_in_utf_8_is_listed(client):
    client.put("n\u00e4me \U0001f600", b"x")
    info, = client.list()
    assert info["name"] == "n\u00e4me \U0001f600"


@with_client()
def test_names_of_any_bytes_are_listed_and_asked_for(client):
    """Also those that are no UTF-8, which Python has as it has names of files; and a listing of them ends."""
    names = [bytes([0xff, 0x30 + number // 10, 0x30 + number % 10]).decode("utf-8", "surrogateescape") for number in range(70)]
    client.put(names[0], b"x")
    info, = client.list()
    assert info["name"] == names[0] and bytes(client.get(info["name"], 0)) == b"x"
    client.put_many([(names[1], b"y")])
    assert client.stat(names[1])["name"] == names[1]
    for name in names:
        client.create_region(name, 4096).close()
    assert [info["name"] for info in client.regions()] == names
    client.open_region(names[7], nigh.READ | nigh.MASTER).free()
    client.register(names[2]).close()
    for wrong in ("a\0b", "n" * 256):
        for call in (client.register, client.call, client.multicast, client.open_region, client.open_space):
            with raises(nigh.InvalidError, "255"):
                call(wrong)
    with raises(nigh.InvalidError, "255"):
        client.create_region("a\0b", 4096)
    with raises(UnicodeEncodeError):
        client.register("\ud800")


@with_client()
def test_a_listing_that_is_in_part_is_told(client):
    """What some nodes did not tell is said when all is told that there is."""
    class Half(nigh.Client):
        def regions_some(self, after):
            error = nigh.PeerLostError("in part")
            error.found = ([{"name": "a"}], True) if after is None else ([{"name": "b"}], False)
            raise error

    found = []
    with raises(nigh.PeerLostError, "in part"):
        for info in Half(client.node.path).regions():
            found.append(info["name"])
    assert found == ["a", "b"]


@with_client()
def test_sockets_are_paths(client):
    with nigh.Client(pathlib.Path(client.node.path)) as second:
        assert not second.contains("x")
    with nigh.Client(os.fsencode(client.node.path)) as second:
        assert not second.contains("x")
    with raises(TypeError):
        nigh.Client(7)


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
