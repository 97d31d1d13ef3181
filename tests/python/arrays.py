#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""numpy arrays and pickles as objects: without a copy, read-only, and checked where they are read."""
import os
import pickle
import re
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, Skipped, numpy, other, raises, run_tests, wait_for, with_client  # noqa: E402

import nigh  # noqa: E402

META = b"nigh.pickle5\x00\x01"
LARGE, LARGE_LEAST = 1024 * MIB, 512 * MIB


def address_of(array):
    return array.__array_interface__["data"][0]


def mappings_of(array):
    """The lines of this process's map that an array lies in."""
    first, found = address_of(array), []
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in map(str.split, maps):
            begin, end = (int(word, 16) for word in line[0].split("-"))
            if begin < first + array.nbytes and first < end:
                found.append(line)
    return found


def number_in(path, pattern):
    """Of a file of the system's; None: it has none."""
    try:
        with open(path, encoding="ascii") as file:
            number = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return None
    return number and int(number[1])


def free_bytes():
    """What this machine has to give, and who runs the test may have."""
    free = number_in("/proc/meminfo", r"^MemAvailable: *(\d+)") * 1024
    most, used = (number_in(f"/sys/fs/cgroup/memory.{name}", r"^(\d+)$") for name in ("max", "current"))
    return free if most is None or used is None else min(free, max(most - used, 0))


def memory_of(pid):
    """What a process has that is not shared memory, and all that it has mapped and seen, in bytes."""
    return [number_in(f"/proc/{pid}/smaps_rollup", rf"^{name}: *(\d+)") * 1024 for name in ("Pss_Anon", "Rss")]


@with_client(memory="128M")
def test_an_array_comes_back(client):
    np = numpy()
    arrays = [np.arange(12.0).reshape(3, 4), np.asfortranarray(np.arange(12).reshape(3, 4)), np.arange(20)[::2],
              np.array(7, "<i2"), np.zeros((0, 3)), np.array(["a", "bc"]), np.array([True, False]),
              np.array(["2024-01-01"], "datetime64[D]"), np.array([3, 4], "m8[25s]"), np.array([5], "<M8[ns]"), np.zeros(2, "m8"),
              np.arange(6).reshape(1, 2, 3).astype(">u4"),
              np.random.default_rng(1).random((100, 100))[3:50, 7:9]]
    for number, array in enumerate(arrays):
        client.put_array(f"a{number}", array)
        got = client.get_array(f"a{number}", 0)
        assert got.shape == array.shape and got.dtype == array.dtype, (got, array)
        assert (got == array).all() and not got.flags.writeable
        del got
        assert client.stat(f"a{number}")["holders"] == 0


@with_client(memory="128M")
def test_an_array_is_not_copied(client):
    """By its address, by what the node has, and by how it is mapped."""
    np = numpy()
    client.put_array("big", np.ones(4 * MIB))
    used = client.stats()["used_bytes"]
    first, second = client.get_array("big", 0), client.get_array("big", 0)
    assert address_of(first) == address_of(second)
    view = client.get("big", 0)
    assert address_of(first) == address_of(np.frombuffer(view, np.uint8))
    assert client.stats()["used_bytes"] == used
    with raises(ValueError, "read-only"):
        first[0] = 2
    with raises(ValueError):
        first.flags.writeable = True
    for line in mappings_of(first):
        assert line[1] == "r--s", line


def test_a_large_array_is_not_copied():
    """A GiB, or a quarter of what is free: by its address, by what the node has, and by what either process has."""
    np = numpy()
    size = min(LARGE, free_bytes() // 4) // MIB * MIB
    if size < LARGE_LEAST:
        raise Skipped(f"{free_bytes() // MIB} MiB of memory are free, and {4 * LARGE_LEAST // MIB} are needed")

    @with_client(memory=f"{size // MIB * 5 // 4}M")
    def measure(client):
        # What the system gives as zeros takes no memory until it is written: a page each, of these.
        ones = np.zeros(size, np.uint8)
        ones[::size // 8] = 1
        client.put_array("large", ones)
        del ones
        node = client.node.process.pid
        with other(client) as reader:
            used = client.stats()["used_bytes"]
            assert size <= used < size + size // 64, used
            before = {pid: memory_of(pid) for pid in ("self", node)}
            got = reader.get_array("large", 0)
            assert memory_of("self")[1] - before["self"][1] < size // 16
            assert got[::4096].sum() == 8  # each page is seen, where it lies
            private, seen = memory_of("self")
            assert private - before["self"][0] < size // 16 and seen - before["self"][1] < size + size // 16
            assert memory_of(node)[0] - before[node][0] < size // 16
            assert client.stats()["used_bytes"] == used
            again = reader.get_array("large", 0)
            assert got.nbytes == size and address_of(again) == address_of(got)
            lines = mappings_of(got)
            assert lines and all(line[1] == "r--s" and line[5].startswith("/memfd:nigh-extent") for line in lines), lines
            del got, again

    measure()


@with_client()
def test_arrays_keep_the_bytes(client):
    np = numpy()
    client.put_array("kept", np.arange(1000))
    part = client.get_array("kept", 0)[10:20]
    client.delete("kept")
    assert (part == np.arange(10, 20)).all()
    assert client.stats()["objects_deleting"] == 1
    del part
    wait_for(lambda: client.stats()["objects_deleting"] == 0)
    client.put_array("held", np.arange(1000))
    view = client.get("held", 0)
    array = np.frombuffer(view, np.int64)
    with raises(BufferError):
        view.release()
    del array
    view.release()


@with_client()
def test_arrays_that_are_none_of_numbers_are_refused(client):
    np = numpy()
    told = np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [4], "itemsize": 8})
    for wrong in (np.array([object()]), np.zeros(2, "i4,f8"), [1, {}], np.zeros(2, told), np.zeros(2, "<m8[0s]"),
                  np.ma.masked_array([1, 2, 3], mask=[False, True, False])):
        with raises(ValueError):
            client.put_array("wrong", wrong)
    assert not client.contains("wrong")
    client.put_array("list", [1, 2, 3])
    assert client.get_array("list", 0).tolist() == [1, 2, 3]


@with_client()
def test_metadata_that_lie_are_refused(client):
    numpy()
    head = struct.pack("<12scB", b"nigh.array\0\1", b"C", 1)
    eight = struct.pack("<Q", 8)
    wrong = [b"", b"x", b"nigh.array\0\1", head, head + eight, head + eight + b"|O", head + eight + b"nothing",
             head + struct.pack("<Q", 9) + b"|u1", head + struct.pack("<Q", 1 << 63) + b"|u1", head + eight + b"|V0",
             head + eight + b"i4,f8", head[:12] + b"X" + head[13:] + eight + b"|u1", head[:13] + b"\xff" + eight * 8,
             head + eight + b"\xff", head + eight + b"|u1" * 1000, b"nigh.array\0\2" + head[12:] + eight + b"|u1",
             *(head + struct.pack("<Q", 1) + text
               for text in (b"f8", b"float64", b"(8,)u1", b"2<f4", b"<f8,", b"<f8\n", b"<M8[]s]", b"<m8[0s]", b"<m8[s/2]",
                            b"<M8[s/-1]", b"<m8[s/0]"))]  # of the last a process dies in numpy 1.24
    for number, meta in enumerate(wrong):
        client.put(f"w{number}", bytes(8), meta)
        with raises(ValueError):
            client.get_array(f"w{number}", 0)
    client.put("right", bytes(8), head + eight + b"|u1")
    assert client.get_array("right", 0).tolist() == [0] * 8
    for number in range(len(wrong)):
        assert client.stat(f"w{number}")["holders"] == 0


@with_client(memory="128M")
def test_pickles_have_their_buffers_beside_them(client):
    np = numpy()
    value = {"a": np.arange(MIB), "b": [np.ones((3, 3)), "text"], "c": np.arange(10)[::3]}
    client.put_object("value", value)
    size = client.stat("value")["size"]
    assert 8 * MIB < size < 8 * MIB + 4096
    got = client.get_object("value", 0)
    assert (got["a"] == value["a"]).all() and (got["b"][0] == 1).all() and got["b"][1] == "text"
    assert (got["c"] == value["c"]).all()
    assert not got["a"].flags.writeable and address_of(got["a"]) % 64 == 0
    view = client.get("value", 0)
    begin = address_of(np.frombuffer(view, np.uint8))
    assert begin <= address_of(got["a"]) < begin + size
    only = got["b"][0]
    del got
    client.delete("value")
    assert (only == 1).all()


@with_client()
def test_any_value_goes(client):
    for number, value in enumerate((None, 7, "text", [1, (2, 3)], {"a": {1, 2}}, b"bytes", pickle.PickleBuffer(b"raw"))):
        client.put_object(f"v{number}", value)
        got = client.get_object(f"v{number}", 0)
        assert got == value or bytes(got) == b"raw"


@with_client()
def test_heads_that_lie_are_refused(client):
    magic = 0x35656c6b63697067
    body = pickle.dumps(1, protocol=5)
    wrong = [b"", b"short", struct.pack("<QQQ", 1, 0, 1) + b"x", struct.pack("<QQQ", magic, 0, 100),
             struct.pack("<QQQ", magic, 1 << 60, 1), struct.pack("<QQQ", magic, 0, (1 << 64) - 1),
             struct.pack("<QQQQQ", magic, 1, len(body), 0, 8) + body,
             struct.pack("<QQQQQ", magic, 1, len(body), 1 << 20, 8) + body,
             struct.pack("<QQQQQ", magic, 1, len(body), 40 + len(body), (1 << 64) - 1) + body]
    for number, data in enumerate(wrong):
        client.put(f"w{number}", data, META)
        with raises(ValueError):
            client.get_object(f"w{number}", 0)
    client.put("other", body)
    with raises(ValueError, "put_object"):
        client.get_object("other", 0)
    client.put("right", struct.pack("<QQQ", magic, 0, len(body)) + body, META)
    assert client.get_object("right", 0) == 1


@with_client()
def test_a_put_that_fails_leaves_nothing(client):
    class Wrong:
        def __reduce__(self):
            raise ZeroDivisionError

    with raises(ZeroDivisionError):
        client.put_object("wrong", [Wrong()])
    assert not client.contains("wrong")
    client.put_object("once", 1)
    with raises(nigh.ExistsError):
        client.put_object("once", 2)
    assert other(client).get_object("once", 0) == 1


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
