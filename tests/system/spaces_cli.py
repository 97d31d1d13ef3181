#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nigh space: spaces of one node and of two, what is in them, who may what, and the line that says what is wrong."""
import glob
import json
import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cli_test import (CORRUPT, DENIED, EXISTS, FAILED, FULL, NOT_FOUND, OK, TIMEOUT, USAGE, fails, good, parsed,  # noqa: E402
                      run, write)
from cluster_cli import Cluster  # noqa: E402
from raw_session import wait_for  # noqa: E402
from regions_cli import SOMEBODY, Voter, within_reach  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
MEMORY = ("--space-memory", "32M")
LONGEST = "n" * 47


def space(*arguments, **more):
    return good("space", *arguments, **more)


def refused(expected, words, *arguments, **more):
    fails(expected, ["nigh space: ", *words], "space", *arguments, **more)


def allocate(*arguments, **more):
    return space("alloc", *arguments, **more).decode().rstrip("\n")


def like_of(name, **more):
    """What a space is like, without what was done to it."""
    told = parsed("space", "stat", name, **more)
    del told["here"]
    return told


def with_node(test):
    """Gives a test a node that serves spaces, and a folder of its own."""

    def wrapped():
        node = raw.Node(*MEMORY)
        assert node.ready
        with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
            test(node, folder)
        assert node.stop()[0] == 0

    wrapped.__name__ = test.__name__
    return wrapped


# ---- one node


@with_node
def test_what_is_written_is_read(node, folder):
    """Sizes on both sides of a block, and of a piece of the tool's, from a pipe and from a file."""
    assert space("create", "s", "4M", node=node) == b""
    for size in (1, 7, 511, 512, 513, MIB - 1, MIB, MIB + 9):
        data, address = os.urandom(size), allocate("s", str(size), node=node)
        assert space("read", "s", address, str(size), node=node) == bytes(size), "zeros at first"
        assert space("write", "s", address, node=node, data=data) == b""
        assert space("read", "s", address, str(size), node=node) == data
        with open(write(folder, "in", data[::-1]), "rb") as file:
            assert run("space", "write", "s", address, node=node, data=None, stdin=file)[0] == OK
        assert space("read", "s", address, str(size), node=node) == data[::-1]
        assert space("free", "s", address, node=node) == b""
        refused(NOT_FOUND, [f"nothing is allocated at {address}"], "read", "s", address, "1", node=node)
    again = allocate("s", "512", node=node)
    assert space("read", "s", again, "512", node=node) == bytes(512), "what was freed is zero when it is somebody's again"


@with_node
def test_parts_are_written_and_read(node, _):
    space("create", "s", "64K", "--block", "64", node=node)
    first = int(allocate("s", "200", node=node), 0)
    assert first % 64 == 0 and first >> 48 == 0
    space("write", "s", hex(first + 60), node=node, data=b"over a border")
    assert space("read", "s", str(first + 58), "17", node=node) == b"\0\0over a border\0\0"
    assert parsed("space", "write", "s", hex(first + 253), node=node, data=b"end") == {"name": "s", "size": 3}
    assert space("read", "s", hex(first + 252), "4", node=node) == b"\0end", "to the end of its last block"
    assert parsed("space", "write", "s", hex(first), node=node, data=b"") == {"name": "s", "size": 0}
    # What goes beyond what is allocated is not there.
    refused(NOT_FOUND, [f"nothing is allocated at {hex(first + 256)}"], "read", "s", hex(first + 250), "7", node=node)
    refused(NOT_FOUND, ["nothing is allocated"], "write", "s", hex(first + 250), node=node, data=b"x" * 7)
    refused(USAGE, ["no 2 bytes behind 0xffffffffffffffff"], "write", "s", "0xffffffffffffffff", node=node, data=b"xy")
    with open("/dev/full", "wb") as full:
        fails(FAILED, ["standard output"], "space", "read", "s", hex(first), "64", node=node, stdout=full)
    told = parsed("space", "alloc", "s", "65", node=node)
    assert told.keys() == {"name", "address", "size"} and (told["name"], told["size"]) == ("s", 65), told
    assert int(told["address"], 0) % 64 == 0
    space("free", "s", told["address"], node=node)
    refused(NOT_FOUND, ["nothing that was allocated begins at"], "free", "s", told["address"], node=node)
    refused(NOT_FOUND, ["nothing that was allocated begins at"], "free", "s", hex(first + 64), node=node)


@with_node
def test_an_address_is_a_number(node, _):
    """With digits in front of which a zero says nothing."""
    space("create", "s", "64K", node=node)
    address = int(allocate("s", "8", node=node), 0)
    space("write", "s", f"0{address}", node=node, data=b"as it is")
    for same in (str(address), f"00{address}", hex(address), f"0X{address:08X}"):
        assert space("read", "s", same, "8", node=node) == b"as it is", same
    space("free", "s", f"0{address}", node=node)


@with_node
def test_what_nobody_is_told_of_is_freed(node, _):
    """On a full disk, where standard output is closed, and where nobody reads any more: there is room for one alone."""
    space("create", "s", "4K", node=node)
    read, closed = os.pipe()
    os.close(read)
    for more in ((), ("--json",), ("--on", "0"), ("--align", "512")):
        with open("/dev/full", "wb") as full:
            refused(FAILED, ["s: standard output: No space left", "free again"], "alloc", "s", "3K", *more, node=node, stdout=full)
        refused(FAILED, ["standard output", "free again"], "alloc", "s", "3K", *more, node=node,
                preexec_fn=lambda: os.close(1), stdout=None)
        refused(FAILED, ["Broken pipe", "free again"], "alloc", "s", "3K", *more, node=node, stdout=closed)
        assert like_of("s", node=node)["used_size"] == 0, more
    os.close(closed)
    allocate("s", "3K", node=node)


def checksum(data):
    """CRC32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def spoil(directory, is_later):
    """Makes the batches of the logs there ones of a later format, or damages them (src/space/log_format.c)."""
    for path in glob.glob(os.path.join(directory, "rank-0", "*", "[il]*")):
        with open(path, "rb+") as file:
            batch = bytearray(file.read(4096))
            (size,) = struct.unpack_from("<I", batch, 12)
            batch[8:10] = b"\x63\0"
            if is_later:
                struct.pack_into("<I", batch, 4, checksum(batch[8:size]))
            file.seek(0)
            file.write(batch if size else b"")


def test_a_log_that_cannot_be_used_is_said():
    """The node has answered: its exit codes are not those of one that is not there."""
    for is_later, code, words in ((False, CORRUPT, "damaged"), (True, FAILED, "of another version of nighd")):
        with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
            node = raw.Node(*MEMORY, "--log-dir", folder)
            assert node.ready
            space("create", "s", "64K", "--durability", "sync", node=node)
            assert node.stop()[0] == 0
            spoil(folder, is_later)
            node = raw.Node(*MEMORY, "--log-dir", folder)
            assert node.ready
            for arguments in (("read", "s", "512", "1"), ("alloc", "s", "1")):
                refused(code, ["s: ", words, "nighd's log", "--log-dir"], *arguments, node=node)
            assert node.stop()[0] == 0


@with_node
def test_memory_is_had_at_multiples(node, _):
    """Also in a home that is cut up; what is left in front is somebody's next; and where none is free that is said."""
    space("create", "s", "64K", node=node)
    at = [int(allocate("s", "512", "--align", size, node=node), 0) for size in ("1", "4K", "32K", "16K")]
    assert [address % 4096 for address in at[1:]] == [0, 0, 0] and at[2] % (32 * KIB) == at[3] % (16 * KIB) == 0, at
    refused(FULL, ["at such an address"], "alloc", "s", "512", "--align", "64K", node=node)
    refused(FULL, ["at such an address"], "alloc", "s", "512", "--align", "1G", node=node)
    singles = [allocate("s", "512", node=node) for _ in range(127 - 4)]
    refused(FULL, ["at such an address"], "alloc", "s", "512", "--align", "512", node=node)
    for address in singles:
        if int(address, 0) // 512 % 8 != 0:
            space("free", "s", address, node=node)
    refused(FULL, ["at such an address"], "alloc", "s", "512", "--align", "4K", node=node)
    for _ in range(16):
        address = int(allocate("s", "1K", "--align", "2K", node=node), 0)
        assert address % 2048 == 0 and address % 4096 != 0, hex(address)
    refused(FULL, ["at such an address"], "alloc", "s", "1K", "--align", "2K", node=node)


@with_node
def test_what_a_space_is_like(node, _):
    assert parsed("space", "create", "s", "64K", "--cache", "32K", "--block", "128", "--group", "rw", "--others", "r",
                  node=node) == {"name": "s", "home_size": 64 * KIB}
    like = {"name": "s", "access": "rw", "home_size": 64 * KIB, "cache_size": 32 * KIB, "used_size": 0, "block_size": 128,
            "uid": os.geteuid(), "gid": os.getegid(), "group_access": "rw", "other_access": "r-", "durability": "none",
            "nodes": [0]}
    assert like_of("s", node=node) == like
    allocate("s", "129", node=node)
    assert like_of("s", node=node) == {**like, "used_size": 256}
    assert space("stat", "s", node=node).decode().splitlines()[:8] == [
        "s", "  home      64.0 KiB at each node, of which 256 B are allocated here", "  cache     32.0 KiB at each node",
        "  block     128 bytes", f"  owner     uid {os.geteuid()}, gid {os.getegid()}",
        "  rights    owner rw, group rw, others r-", "  nodes     0", "  durable   none"]
    space("create", LONGEST, "1K", node=node)
    like = parsed("space", "stat", LONGEST, node=node)
    assert (like["home_size"], like["cache_size"], like["block_size"], like["group_access"]) == (KIB, KIB, 512, "--")
    # What is said of a name does not reach a terminal as it is.
    space("create", "\x1b[31mred\nno", "1K", node=node)
    text = space("stat", "\x1b[31mred\nno", node=node).decode()
    assert "red" in text.splitlines()[0] and "\x1b" not in text, text
    refused(NOT_FOUND, [], "stat", "\x1b[32mred\nno", node=node)
    space("create", "--", "-x", "1K", node=node)
    assert space("stat", "--", "-x", node=node).decode().splitlines()[0] == "-x"
    space("rm", "--", "-x", node=node)


@with_node
def test_what_was_done_to_a_space_is_counted(node, _):
    """Of each by itself; what a client counted stays when it has gone, and goes with the space."""
    space("create", "s", "64K", node=node)
    space("create", "t", "64K", node=node)
    none = dict.fromkeys(("reads", "hits", "misses", "locks", "locks_kept", "writes", "atomics", "asks", "invalidations",
                          "evictions", "messages", "block_bytes"), 0)
    assert parsed("space", "stat", "s", node=node)["here"] == none
    assert "  here      0 reads, of which 0 hits, 0 misses" in space("stat", "s", node=node).decode().splitlines()
    address = allocate("s", "4K", node=node)
    space("write", "s", address, node=node, data=bytes(4 * KIB))
    for _ in range(3):
        space("read", "s", address, "4K", node=node)
    here = parsed("space", "stat", "s", node=node)["here"]
    # Eight blocks of 512 bytes, in this node's home, where a read finds them.
    assert here == {**none, "reads": 24, "hits": 24, "hit_percent": 100, "writes": 8}, here
    assert "  here      24 reads, of which 24 hits (100.00 %), 0 misses" in space("stat", "s", node=node).decode().splitlines()
    assert parsed("space", "stat", "t", node=node)["here"] == none
    numbers = parsed("top", "--once", node=node)
    assert (numbers["space_client_reads"], numbers["space_hits"]) == (24, 24), numbers
    line = next(line for line in good("top", "--once", node=node).decode().splitlines() if line.startswith("spaces "))
    assert "24 reads" in line and "100.00 % hits" in line, line
    space("rm", "s", node=node)
    space("create", "s", "64K", node=node)
    assert parsed("space", "stat", "s", node=node)["here"] == none


@with_node
def test_spaces_are_listed(node, _):
    """By name, with all that stat says; a name is a line, whatever is in it; nothing, where there is nothing."""
    assert parsed("space", "ls", node=node) == [] and space("ls", node=node) == b""
    names = [f"name {number * 7 % 59:02}" for number in range(59)] + ["a\nb", "\x7f", "\u00e9", LONGEST]
    names = [name.encode() for name in names] + [b"ab\xff"]
    for name in names:
        space("create", name, "1K", node=node)
    found = parsed("space", "ls", node=node)
    assert [bytes.fromhex(item["name_hex"]) if "name_hex" in item else item["name"].encode() for item in found] == sorted(names)
    for item in found[::9]:
        assert "name_hex" in item or item == like_of(item["name"], node=node)
    refused(FULL, [], "create", "one more", "1K", node=node)
    lines = space("ls", node=node).decode(errors="replace").splitlines()
    assert lines[0].split() == ["HOME", "CACHE", "BLOCK", "OWNER", "YOU", "GROUP", "OTHERS", "NODES", "NAME"], lines[0]
    assert lines[-1].split() and len(lines) == 1 + len(names)
    line = next(line for line in lines if line.endswith("  name 00"))
    assert line.split() == ["1.0", "KiB", "1.0", "KiB", "512", str(os.geteuid()), "rw", "--", "--", "0", "name", "00"], line
    for prefix in (b"", b"name", b"name 1", b"a", b"ab\xff", b"\x7f", LONGEST.encode(), b"nothing", b"n" * 60):
        lines = space("ls", prefix, node=node).splitlines()[1:]
        assert len(lines) == len([name for name in names if name.startswith(prefix)]), (prefix, lines)
    refused(TIMEOUT, [], "ls", "--timeout", "0", node=node)
    code, printed, _ = run("space", "ls", "--json", "--timeout", "0", node=node)
    assert code == TIMEOUT and b'"exit_code"' in printed, printed


@with_node
def test_others_may_what_they_were_given(node, folder):
    if os.geteuid() != 0:
        return
    with within_reach(folder) as somebody:
        somebody["node"] = node
        for name, rights in (("none", ()), ("read", ("--others", "r")), ("all", ("--others", "wr"))):
            space("create", name, "4K", *rights, node=node)
        at = {name: allocate(name, "8", node=node) for name in ("none", "read", "all")}
        for name in ("none", "read"):
            space("write", name, at[name], node=node, data=b"mine")
        assert [item["name"] for item in parsed("space", "ls", **somebody)] == ["all", "read"], "nor is it told of the other"
        assert [item["access"] for item in parsed("space", "ls", **somebody)] == ["rw", "r-"]
        for arguments in (("stat", "none"), ("read", "none", at["none"], "4"), ("write", "none", at["none"]),
                          ("alloc", "none", "8"), ("free", "none", at["none"]), ("rm", "none")):
            refused(DENIED, ["none: "], *arguments, data=b"his!", **somebody)
        for arguments in (("write", "read", at["read"]), ("alloc", "read", "8"), ("free", "read", at["read"]), ("rm", "read")):
            refused(DENIED, ["read: "], *arguments, data=b"his!", **somebody)
        assert space("read", "read", at["read"], "4", **somebody) == b"mine"
        assert space("read", "none", at["none"], "4", node=node) == b"mine"
        space("write", "all", at["all"], data=b"his!", **somebody)
        assert space("read", "all", at["all"], "4", node=node) == b"his!"
        space("free", "all", at["all"], **somebody)
        refused(DENIED, ["all: "], "rm", "all", **somebody)
        space("create", "his", "4K", **somebody)
        assert parsed("space", "stat", "his", node=node)["uid"] == SOMEBODY
        assert [item["name"] for item in parsed("space", "ls", node=node)] == ["all", "his", "none", "read"], "root hears of all"
        space("rm", "his", node=node)


@with_node
def test_spaces_go(node, _):
    """Each is tried, a line says each that fails, and the first failure is the exit code; a wrong name keeps all."""
    for name in ("a", "b", "c", "d", "e"):
        space("create", name, "4K", node=node)
    refused(EXISTS, ["a: "], "create", "a", "8K", node=node)
    assert parsed("space", "stat", "a", node=node)["home_size"] == 4 * KIB
    refused(USAGE, ["1 to 47 bytes"], "rm", "a", "", "b", node=node)
    refused(USAGE, ["1 to 47 bytes"], "rm", "a", LONGEST + "n", node=node)
    assert len(parsed("space", "ls", node=node)) == 5, "nothing was done"
    assert run("space", "rm", "a", "b", node=node) == (OK, b"", "")
    code, printed, said = run("space", "rm", "c", "a", "d", "gone", node=node)
    assert (code, printed) == (NOT_FOUND, b"") and [line.split(":")[1] for line in said.splitlines()] == [" a", " gone"], said
    code, printed, _ = run("space", "rm", "--json", "d", "e", node=node)
    told = json.loads(printed)
    assert code == NOT_FOUND and [(item["name"], item["status"]) for item in told] == [
        ("d", "NIGH_NOT_FOUND"), ("e", "NIGH_OK")] and told[0]["exit_code"] == NOT_FOUND and "exit_code" not in told[1], told
    assert parsed("space", "ls", node=node) == []
    for arguments in (("stat", "a"), ("read", "a", "512", "1"), ("write", "a", "512"), ("alloc", "a", "1"), ("free", "a", "512"),
                      ("rm", "a")):
        refused(NOT_FOUND, ["a: "], *arguments, node=node)
    space("create", "a", "4K", node=node)
    refused(TIMEOUT, ["a: the time was up"], "stat", "a", "--timeout", "0", node=node)


def test_memory_of_spaces_has_an_end():
    """Whoever makes a space where one was has its memory: as it goes it is waited for."""
    node = raw.Node("--space-memory", "8M")
    assert node.ready
    refused(FULL, ["s: "], "create", "s", "64M", node=node)
    for _ in range(4):
        space("create", "s", "5M", "--cache", "1M", node=node)
        refused(FULL, ["another: "], "create", "another", "5M", "--cache", "1M", node=node)
        address = allocate("s", "4M", node=node)
        refused(FULL, ["not so many free blocks"], "alloc", "s", "2M", node=node)
        space("write", "s", address, node=node, data=b"x" * 4 * MIB)
        space("rm", "s", node=node)
    wait_for(lambda: parsed("top", "--once", node=node)["space_memory_bytes"] == 0)
    assert node.stop()[0] == 0


def test_a_node_without_spaces_says_so():
    node = raw.Node()
    assert node.ready
    for arguments in (("create", "s", "1M"), ("ls",), ("stat", "s"), ("rm", "s")):
        code, _, said = run("space", *arguments, node=node)
        assert code not in (OK, USAGE) and said, (arguments, code, said)
    assert node.stop()[0] == 0


def test_a_cluster_without_state_says_so():
    with Cluster(*MEMORY).wait_met() as (a, _):
        code, _, said = a.run("space", "create", "s", "1M")
        assert code not in (OK, USAGE) and "a cluster without --state" in said, (code, said)
        assert "this node serves no spaces" in a.said(), a.said()


@with_node
def test_wrong_usage(node, _):
    """It is said before the node is asked for anything; of the space that is there nothing changes."""
    space("create", "s", "8K", node=node)
    before = parsed("space", "stat", "s", node=node)
    cases = [
        ((), ["takes create, ls, stat, alloc, free, read, write or rm, and a NAME"]),
        (("rocket",), ["not 'rocket'"]),
        (("ls", "s", "t"), ["ls takes at most one PREFIX"]),
        (("rm",), ["rm takes at least one NAME"]),
        (("create",), ["create takes a NAME and a SIZE"]),
        (("create", "x"), ["create takes a NAME and a SIZE"]),
        (("create", "x", "1M", "2M"), ["create takes a NAME and a SIZE"]),
        (("stat", "s", "t"), ["stat takes a NAME"]),
        (("alloc", "s"), ["alloc takes a NAME and a SIZE"]),
        (("free", "s"), ["free takes a NAME and an ADDRESS"]),
        (("read", "s", "512"), ["read takes a NAME, an ADDRESS and a SIZE"]),
        (("write", "s"), ["write takes a NAME and an ADDRESS"]),
        (("create", "", "1M"), ["1 to 47 bytes"]),
        (("create", LONGEST + "n", "1M"), ["1 to 47 bytes"]),
        (("create", "x", "0"), ["SIZE '0'"]),
        (("create", "x", "much"), ["SIZE 'much'"]),
        (("create", "x", "-1"), ["-1"]),
        (("create", "x", "1000"), ["whole blocks of 512 bytes", "not 1000"]),
        (("create", "x", "512"), ["two at least"]),
        (("create", "x", "1T", "--cache", "1M"), ["less than 512 GiB", "larger blocks", "--block"]),
        (("create", "x", "512G"), ["less than 512 GiB"]),
        (("create", "x", "4T", "--block", "4K"), ["less than 4096 GiB in all; not"]),
        (("create", "x", "1M", "--block", "32"), ["from 64 to 4096, not '32'"]),
        (("create", "x", "1M", "--block", "8K"), ["from 64 to 4096, not '8K'"]),
        (("create", "x", "1M", "--block", "100"), ["a power of two", "not '100'"]),
        (("create", "x", "1M", "--block", "0"), ["--block '0'"]),
        (("create", "x", "1M", "--block", "4G"), ["--block"]),
        (("create", "x", "1M", "--block", "4294967808"), ["--block"]),
        (("create", "x", "1M", "--cache", "x"), ["--cache 'x'"]),
        (("create", "x", "1M", "--cache", "1P"), ["a cache has"]),
        (("create", "x", "1M", "--group", ""), ["--group", "r (read)"]),
        (("create", "x", "1M", "--others", "rx"), ["--others", "'rx'"]),
        (("create", "x", "1M", "--others", "w"), ["--others takes r or rw", "who may write may read, too"]),
        (("create", "x", "1M", "--group", "ww"), ["--group takes r or rw", "'ww'"]),
        (("create", "x", "1M", "--align", "4K"), ["create takes no --align"]),
        (("alloc", "s", "1", "--align", "3K"), ["a power of two", "not '3K'"]),
        (("alloc", "s", "1", "--align", "2G"), ["up to 1G", "not '2G'"]),
        (("alloc", "s", "1", "--align", "0"), ["--align '0'"]),
        (("create", "x", "1M", "--on", "0"), ["create takes no --on"]),
        (("ls", "--on", "0"), ["ls takes no --on"]),
        (("alloc", "s", "8", "--block", "64"), ["alloc takes no --block"]),
        (("alloc", "s", "0"), ["SIZE '0'"]),
        (("alloc", "s", "8", "--on", "9"), ["--on: there is no node 9 (nigh nodes)"]),
        (("alloc", "s", "8", "--on", "-1"), ["a rank or a name"]),
        (("read", "s", "x", "1"), ["'x' is not an address"]),
        (("read", "s", "0", "1"), ["'0' is not an address"]),
        (("read", "s", "-1", "1"), ["-1"]),
        (("read", "s", "0x10000000000000000", "1"), ["is not an address"]),
        (("read", "s", "512 ", "1"), ["is not an address"]),
        (("read", "s", " 512", "1"), ["' 512' is not an address"]),
        (("read", "s", " -1", "1"), ["' -1' is not an address"]),
        (("free", "s", "+512"), ["'+512' is not an address"]),
        (("read", "s", "0x", "1"), ["'0x' is not an address"]),
        (("read", "s", "0x-1", "1"), ["'0x-1' is not an address"]),
        (("read", "s", "5f", "1"), ["'5f' is not an address"]),
        (("read", "s", "0xffffffffffffffff", "5"), ["no 5 bytes behind 0xffffffffffffffff"]),
        (("read", "s", "512", "0"), ["SIZE '0'"]),
        (("read", "s", "512", "1", "--json"), ["--json"]),
        (("write", "s", ""), ["'' is not an address"]),
        (("free", "s", "0"), ["'0' is not an address"]),
    ]
    for arguments, words in cases:
        code, printed, said = run("space", *arguments, node=node)
        assert code == USAGE and (not printed or "--json" in arguments) and len(said.splitlines()) == 1 and said.startswith("nigh space: "), (
            arguments, code, said)
        assert all(word in said for word in words), (arguments, words, said)
    said = run("space", "--help")[1].decode()
    for flag in ("--cache", "--block", "--group", "--others", "--on"):
        assert flag in said, (flag, said)
    for action in ("create", "ls", "stat", "alloc", "free", "read", "write", "rm"):
        alone = run("space", action, "--help")
        assert alone[0] == OK and alone == run("space", "--help", action) == run("space", "--json", action, "s", "--help"), action
        lines = alone[1].decode().splitlines()
        assert lines[0].startswith(f"usage: nigh space {action} [OPTION...]"), lines
        told = [line for line in lines if line in said.splitlines() and line.startswith("  ") and line[2] not in " -"]
        assert len(told) == 1 and told[0].split()[0] == action, (action, told)
        assert ("--block" in alone[1].decode()) == (action == "create") and "--timeout" in alone[1].decode(), action
    refused(NOT_FOUND, ["no node is called nobody"], "alloc", "s", "8", "--on", "nobody", node=node)
    assert parsed("space", "stat", "s", node=node) == before and len(parsed("space", "ls", node=node)) == 1


# ---- two nodes


class SpaceVoter(Voter):
    def __init__(self, folder, rank, join, key, *flags):
        super().__init__(folder, rank, join, key, *MEMORY, *flags)


def test_a_space_of_two_nodes():
    with Cluster(member=SpaceVoter).wait_met() as (a, b):
        for member in (a, b):
            wait_for(lambda: member.numbers()["view_quorum"] == 1)  # noqa: B023
        a.good("space", "create", "s", "1M")
        # The other hears of it in a moment.
        wait_for(lambda: b.run("space", "stat", "s")[0] == OK and b.parsed("space", "stat", "s")["nodes"] == [0, 1])
        assert b.run("space", "create", "s", "1M")[0] == EXISTS, "a name is the cluster's"
        for rank, (near, far) in enumerate(((a, b), (b, a))):
            address = near.good("space", "alloc", "s", "100K").decode().strip()
            assert int(address, 0) >> 48 == rank, "at the node that is asked"
            there = far.good("space", "alloc", "s", "100K", "--on", str(rank)).decode().strip()
            assert int(there, 0) >> 48 == rank
            aligned = far.good("space", "alloc", "s", "100", "--on", str(rank), "--align", "64K").decode().strip()
            assert int(aligned, 0) >> 48 == rank and int(aligned, 0) % (64 * KIB) == 0, aligned
            far.good("space", "free", "s", aligned)
            data = os.urandom(100 * KIB)
            far.good("space", "write", "s", address, data=data)
            assert near.good("space", "read", "s", address, "100K") == data
            # 200 blocks, which were cached to be written, are read where they are, and then taken away.
            before = far.parsed("space", "stat", "s")["here"]
            assert far.good("space", "read", "s", address, "100K") == data
            assert far.good("space", "read", "s", address, "100K") == data
            here = far.parsed("space", "stat", "s")["here"]
            assert here["reads"] - before["reads"] == 400 and here["hits"] - before["hits"] >= 200, (before, here)
            assert here["asks"] >= 200 and here["messages"] >= here["asks"] and here["block_bytes"] >= 100 * KIB, here
            near.good("space", "write", "s", address, data=data[::-1])
            assert far.parsed("space", "stat", "s")["here"]["invalidations"] >= 200
            assert far.good("space", "read", "s", address, "100K") == data[::-1]
            assert near.parsed("space", "stat", "s")["used_size"] == 200 * KIB
            far.good("space", "free", "s", address)
            assert near.run("space", "read", "s", address, "1")[0] == NOT_FOUND
        b.good("space", "rm", "s")
        wait_for(lambda: a.run("space", "stat", "s")[0] == NOT_FOUND)
        for member in (a, b):
            wait_for(lambda: member.numbers()["space_memory_bytes"] == 0)  # noqa: B023


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
