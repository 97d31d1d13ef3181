#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nigh region and nigh bench region: regions of one node and of two, what is in them, who may what, and the line that says
what is wrong."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cli_test import (DENIED, EXISTS, FAILED, FULL, NOT_FOUND, OK, TIMEOUT, USAGE, fails, good, parsed, read,  # noqa: E402
                      run, with_node, write)
from cluster_cli import Cluster, Member  # noqa: E402
from raw_session import free_ports, wait_for  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SOMEBODY = 4321  # a uid that is neither root's nor the node's


def region(*arguments, **more):
    return good("region", *arguments, **more)


def refused(expected, words, *arguments, **more):
    fails(expected, ["nigh region: ", *words], "region", *arguments, **more)


def become_somebody():
    os.setgroups([])
    os.setgid(SOMEBODY)
    os.setuid(SOMEBODY)


@contextlib.contextmanager
def within_reach(folder):
    """The program, and its library, where another uid may read them."""
    saved = dict(os.environ)
    os.chmod(folder, 0o755)
    for path in (saved["NIGH"], os.path.join(os.environ["NIGH_BUILD"], "src", "client", "libnigh.so.0")):
        os.chmod(shutil.copy(path, folder), 0o755)
    os.environ.update({"NIGH": os.path.join(folder, "nigh"), "LD_LIBRARY_PATH": folder})
    try:
        yield {"preexec_fn": become_somebody}
    finally:
        os.environ.clear()
        os.environ.update(saved)


# ---- one node


@with_node
def test_what_is_written_is_read(node, folder):
    """Sizes on both sides of a piece of the tool's and of a chunk, from a pipe and from a file."""
    for number, size in enumerate((1, 4096, MIB - 1, MIB, 3 * MIB + 7)):
        name, data = f"region {number}", os.urandom(size)
        assert region("create", name, str(size), "--chunk", "256K", node=node) == b""
        assert region("read", name, node=node) == bytes(size), "zeros at first"
        assert region("write", name, node=node, data=data) == b""
        assert region("read", name, node=node) == data
        with open(write(folder, "in", data[::-1]), "rb") as file:
            assert run("region", "write", name, node=node, data=None, stdin=file)[0] == OK
        assert region("read", name, node=node) == data[::-1]
        region("rm", name, node=node)


@with_node
def test_parts_are_written_and_read(node, folder):
    region("create", "r", "64K", "--chunk", "4K", node=node)
    region("write", "r", "--offset", "4090", node=node, data=b"over a border")
    assert region("read", "r", "--offset", "4088", "--size", "17", node=node) == b"\0\0over a border\0\0"
    assert region("read", "r", "--offset", "65530", node=node) == bytes(6)
    assert region("read", "r", "--size", "0", node=node) == b""
    assert region("read", "r", "--offset", "64K", node=node) == b"", "its end"
    assert parsed("region", "write", "r", "--offset", "65533", node=node, data=b"end") == {
        "name": "r", "offset": 65533, "size": 3}
    assert region("read", "r", "--offset", "65532", node=node) == b"\0end"
    region("write", "r", node=node, data=b"")

    refused(USAGE, ["has 65536 bytes", "--offset 65537"], "read", "r", "--offset", "65537", node=node)
    refused(USAGE, ["has 16 bytes from there on", "--size 17"], "read", "r", "--offset", "65520", "--size", "17", node=node)
    refused(USAGE, ["has 65536 bytes"], "write", "r", "--offset", "65537", node=node)
    refused(USAGE, ["--json"], "read", "r", "--json", node=node)


@with_node
def test_what_is_too_much_is_said(node, folder):
    """Of a file nothing is written then; of a pipe, whose end is not seen, what fits."""
    region("create", "r", "10", node=node)
    with open(write(folder, "in", b"x" * 9), "rb") as file:
        refused(FULL, ["9 bytes", "region 8", "nothing is written"], "write", "r", "--offset", "2", node=node, data=None,
                stdin=file)
    assert region("read", "r", node=node) == bytes(10)
    with open(write(folder, "in", b"##12345678"), "rb") as file:
        os.lseek(file.fileno(), 2, os.SEEK_SET)
        assert run("region", "write", "r", "--offset", "2", node=node, data=None, stdin=file)[0] == OK, "as much as is left"
    assert region("read", "r", node=node) == b"\0\00012345678"
    refused(FULL, ["more than the region", "9 bytes are written"], "write", "r", "--offset", "1", node=node, data=b"y" * 10)
    refused(FULL, ["more than the region", "1 byte is written"], "write", "r", "--offset", "9", node=node, data=b"yy")
    region("write", "r", node=node, data=b"\0\0")
    refused(FULL, ["more than the region", "8 bytes are written"], "write", "r", "--offset", "2", node=node, data=b"y" * 9)
    assert region("read", "r", node=node) == b"\0\0" + b"y" * 8
    reading, writing = os.pipe()
    os.write(writing, b"z")
    refused(TIMEOUT, ["the time was up before standard input ended", "0 bytes"], "write", "r", "--timeout", "2s",
            node=node, data=None, stdin=reading)
    os.close(writing)
    os.close(reading)
    with open("/dev/full", "wb") as full:
        fails(1, ["standard output"], "region", "read", "r", node=node, stdout=full)


@with_node
def test_what_a_region_is_like(node, folder):
    assert parsed("region", "create", "r", "10K", "--chunk", "4K", "--group", "rw", "--others", "r", node=node) == {
        "name": "r", "size": 10 * KIB}
    like = {"name": "r", "size": 10 * KIB, "chunk_size": 4 * KIB, "uid": os.geteuid(), "gid": os.getegid(),
            "group_access": "rw-", "other_access": "r--", "mappable": False, "users": [], "donated": False, "chunks": [0, 0, 0]}
    assert parsed("region", "stat", "r", node=node) == like
    assert region("stat", "r", node=node).decode().splitlines() == [
        "r", "  size      10240 bytes, 3 chunks of 4.0 KiB", f"  owner     uid {os.geteuid()}, gid {os.getegid()}",
        "  rights    owner rwm, group rw-, others r--", "  chunks    0 to 2 on node 0"]
    region("create", "plain", "1", node=node)
    like = parsed("region", "stat", "plain", node=node)
    assert (like["size"], like["group_access"], like["other_access"], like["chunks"]) == (1, "---", "---", [0])
    assert "  chunk     0 on node 0" in region("stat", "plain", node=node).decode().splitlines()
    region("create", "mapped", "1", "--mappable", node=node)
    assert parsed("region", "stat", "mapped", node=node)["mappable"] is True
    assert "  mappable  by clients of a chunk's node" in region("stat", "mapped", node=node).decode().splitlines()
    refused(USAGE, ["resize takes no --mappable"], "resize", "mapped", "2", "--mappable", node=node)
    # What is said of a name does not reach a terminal as it is.
    region("create", "\x1b[31mred\nno", "1", node=node)
    text = region("stat", "\x1b[31mred\nno", node=node).decode()
    assert "red" in text.splitlines()[0] and "\x1b" not in text, text
    refused(NOT_FOUND, ["no such region"], "stat", "\x1b[32mred\nno", node=node)


@with_node
def test_regions_are_listed(node, folder):
    """By name, with all that stat says; a name is a line, whatever is in it; nothing, where there is nothing."""
    assert parsed("region", "ls", node=node) == [] and region("ls", node=node) == b""
    names = [f"name {number * 7 % 150:03}" for number in range(150)] + ["a\nb", "\x7f", "\u00e9"]
    for name in names:
        region("create", name, "9K", "--chunk", "4K", "--group", "r", node=node)
    regions = parsed("region", "ls", node=node)
    assert [item["name"] for item in regions] == sorted(names, key=os.fsencode)
    for item in regions[::50]:
        stat = parsed("region", "stat", item["name"], node=node)
        assert item == {**stat, "access": "rwm", "home": 0}
    assert region("ls", "nothing", node=node) == b"", "no head where there is nothing"
    lines = region("ls", node=node).decode().splitlines()
    assert lines[0].split() == ["SIZE", "CHUNKS", "OWNER", "YOU", "GROUP", "OTHERS", "NODES", "NAME"]
    assert lines[2].split() == ["9.0", "KiB", "3", str(os.geteuid()), "rwm", "r--", "---", "0", "name", "000"], lines[2]
    assert len(lines) == 1 + len(names)
    refused(TIMEOUT, ["the time was up"], "ls", "--timeout", "0", node=node)
    code, printed, _ = run("region", "ls", "--json", "--timeout", "0", node=node)
    assert code == TIMEOUT and json.loads(printed)[-1]["exit_code"] == TIMEOUT, printed


@with_node
def test_those_of_a_prefix_are_listed(node, folder):
    """All of them, and no other, wherever in the list they begin."""
    names = ["a", "a\x01", "aa", "ab", "ab\xff".encode("latin-1"), "ac", b"\x80", b"\x80z", "b" * 64, "\x01", "\x01x"]
    names = [name if isinstance(name, bytes) else name.encode() for name in names]
    for name in names:
        region("create", name, "1", node=node)
    for prefix in (b"", b"a", b"a\x01", b"ab", b"ab\xff", b"\x80", b"\x01", b"b", b"b" * 64, b"b" * 65, b"c", b"\xff"):
        lines = region("ls", prefix, node=node).splitlines()[1:]
        expected = sorted(name for name in names if name.startswith(prefix))
        assert len(lines) == len(expected), (prefix, lines)
        for line, name in zip(lines, expected):
            assert not name.isalnum() or line.endswith(b"  " + name), (prefix, lines)
    assert [item["name"] for item in parsed("region", "ls", "ab", node=node)][0] == "ab"
    # JSON is UTF-8: of what is none, the bytes are there, too, and nothing of what is.
    found = parsed("region", "ls", node=node)
    assert sorted(bytes.fromhex(item["name_hex"]) if "name_hex" in item else item["name"].encode() for item in found) == sorted(
        names), found
    assert [item["name"] for item in found if "name_hex" in item] == ["ab\ufffd", "\ufffd", "\ufffdz"], found
    assert parsed("region", "stat", b"ab\xff", node=node)["name_hex"] == "6162ff"
    assert parsed("region", "rm", b"ab\xff", node=node) == [{"name": "ab\ufffd", "name_hex": "6162ff", "status": "NIGH_OK"}]


@with_node
def test_a_size_changes(node, folder):
    region("create", "r", "6K", "--chunk", "4K", node=node)
    region("write", "r", node=node, data=b"x" * 6 * KIB)
    assert parsed("region", "resize", "r", "4097", node=node) == {"name": "r", "size": 4097}
    assert region("read", "r", node=node) == b"x" * 4097
    region("resize", "r", "9K", node=node)
    assert region("read", "r", node=node) == b"x" * 4097 + bytes(9 * KIB - 4097), "what was cut off is zero"
    assert len(parsed("region", "stat", "r", node=node)["chunks"]) == 3
    region("resize", "r", "1", node=node)
    assert region("read", "r", node=node) == b"x"
    assert parsed("region", "stat", "r", node=node)["chunks"] == [0]
    region("resize", "r", str(128 * 4 * KIB), "--on", "0", node=node)
    assert parsed("region", "stat", "r", node=node)["chunks"] == [0] * 128
    refused(FULL, ["chunks have 4.0 KiB", "128 at most", "512.0 KiB, and no more"], "resize", "r", str(128 * 4 * KIB + 1),
            node=node)
    assert parsed("region", "stat", "r", node=node)["size"] == 128 * 4 * KIB


@with_node
def test_rights_change(node, folder):
    region("create", "r", "4K", node=node)
    for change, key, access in (("g+rw", "group_access", "rw-"), ("g-w", "group_access", "r--"), ("o+m", "other_access", "--m"),
                                ("o-rwm", "other_access", "---")):
        assert parsed("region", "chmod", "r", change, node=node) == {"name": "r", "changed": change}
        assert parsed("region", "stat", "r", node=node)[key] == access, change
    for change, access in ((f"u:{SOMEBODY}+rw", "rw-"), (f"u:{SOMEBODY}+m", "rwm"), (f"u:{SOMEBODY}-rw", "--m")):
        region("chmod", "r", change, node=node)
        assert parsed("region", "stat", "r", node=node)["users"] == [{"uid": SOMEBODY, "access": access}], change
    assert f"  user      uid {SOMEBODY} --m" in region("stat", "r", node=node).decode().splitlines()
    region("chmod", "r", f"u:{SOMEBODY}-m", node=node)
    assert parsed("region", "stat", "r", node=node)["users"] == []
    for number in range(16):
        region("chmod", "r", f"u:{SOMEBODY + number}+r", node=node)
    refused(FULL, ["16 users"], "chmod", "r", f"u:{SOMEBODY + 16}+r", node=node)
    region("chmod", "r", f"u:{SOMEBODY}+w", node=node)
    refused(USAGE, [f"user {os.geteuid()}'s own"], "chmod", "r", f"u:{os.geteuid()}-w", node=node)


@with_node
def test_others_may_what_they_were_given(node, folder):
    if os.geteuid() != 0:
        return
    with within_reach(folder) as somebody:
        somebody["node"] = node
        region("create", "r", "4", node=node)
        region("write", "r", node=node, data=b"mine")
        refused(DENIED, [f"user {SOMEBODY} may not read it"], "read", "r", **somebody)
        refused(DENIED, [f"user {SOMEBODY} has no rights to it"], "stat", "r", **somebody)
        refused(DENIED, [f"--near r: user {SOMEBODY} has no rights to it"], "create", "x", "4", "--near", "r", **somebody)
        assert parsed("region", "ls", **somebody) == [], "nor is it told that there is one"
        region("chmod", "r", "o+r", node=node)
        assert region("read", "r", **somebody) == b"mine"
        refused(DENIED, [f"user {SOMEBODY} may not write it"], "write", "r", data=b"his!", **somebody)
        region("chmod", "r", f"u:{SOMEBODY}+w", node=node)
        region("write", "r", data=b"his!", **somebody)
        region("chmod", "r", "o-r", node=node)
        assert parsed("region", "stat", "r", **somebody)["users"] == [{"uid": SOMEBODY, "access": "-w-"}], "to write is enough"
        assert [item["access"] for item in parsed("region", "ls", **somebody)] == ["-w-"]
        assert region("read", "r", node=node) == b"his!"
        for arguments in (("chmod", "r", "o+r"), ("resize", "r", "8"), ("rm", "r"), ("move", "r", "0", "0")):
            refused(DENIED, [f"user {SOMEBODY} is no master of it"], *arguments, **somebody)
        region("chmod", "r", f"u:{SOMEBODY}+m", node=node)
        region("rm", "r", **somebody)
        region("create", "r", "4", **somebody)
        assert parsed("region", "stat", "r", **somebody)["uid"] == SOMEBODY
        assert [item["uid"] for item in parsed("region", "ls", node=node)] == [SOMEBODY], "root is told of all"
        region("rm", "r", node=node)
        assert parsed("region", "ls", **somebody) == []


@with_node
def test_a_region_goes(node, folder):
    region("create", "r", "1M", node=node)
    refused(EXISTS, ["r: a region of this name exists already"], "create", "r", "1M", node=node)
    assert parsed("region", "rm", "r", node=node) == [{"name": "r", "status": "NIGH_OK"}]
    for arguments in (("stat", "r"), ("read", "r"), ("write", "r"), ("move", "r", "0", "0"), ("chmod", "r", "o+r"),
                      ("resize", "r", "1"), ("rm", "r")):
        refused(NOT_FOUND, ["r: no such region"], *arguments, node=node)
    code, printed, _ = run("region", "rm", "r", "--json", node=node)
    assert code == NOT_FOUND and b'"error"' in printed and b'"exit_code"' in printed, printed
    region("create", "r", "1M", node=node)
    refused(TIMEOUT, ["r: the time was up"], "stat", "r", "--timeout", "0", node=node)
    code, _, said = run("region", "rm", "r", "--timeout", "0", node=node)
    assert code == TIMEOUT and "the time was up" in said and "may have happened" not in said, "it was not open yet"


@with_node
def test_many_regions_go(node, folder):
    """Each is tried, a line says each that fails, and the first failure is the exit code; a wrong name keeps all."""
    for name in ("a", "b", "c", "d", "e"):
        region("create", name, "4K", node=node)
    refused(USAGE, ["1 to 64 bytes"], "rm", "a", "", "b", node=node)
    refused(USAGE, ["1 to 64 bytes"], "rm", "a", "n" * 65, node=node)
    assert len(parsed("region", "ls", node=node)) == 5, "nothing was done"
    assert run("region", "rm", "a", "b", node=node) == (OK, b"", "")
    code, printed, said = run("region", "rm", "c", "a", "d", "gone", node=node)
    assert (code, printed) == (NOT_FOUND, b"") and said.splitlines() == [
        "nigh region: a: no such region", "nigh region: gone: no such region"], (code, said)
    assert [item["name"] for item in parsed("region", "ls", node=node)] == ["e"]
    code, printed, _ = run("region", "rm", "--json", "d", "e", node=node)
    assert code == NOT_FOUND and json.loads(printed) == [
        {"name": "d", "status": "NIGH_NOT_FOUND", "error": "d: no such region", "exit_code": NOT_FOUND},
        {"name": "e", "status": "NIGH_OK"}], printed
    assert parsed("region", "ls", node=node) == []


def test_memory_of_regions_has_an_end():
    node = raw.Node("--region-memory", "8M")
    assert node.ready
    assert run("region", "create", "large", "64M", node=node)[0] == FULL
    region("create", "r", "6M", node=node)
    assert run("region", "create", "another", "6M", node=node)[0] == FULL
    assert run("region", "resize", "r", "64M", node=node)[0] == FULL
    assert parsed("region", "stat", "r", node=node)["size"] == 6 * MIB
    region("rm", "r", node=node)
    region("create", "another", "6M", node=node)
    assert node.stop()[0] == 0


@with_node
def test_wrong_usage(node, folder):
    """It is said before the node is asked for anything; of the region that is there nothing changes."""
    region("create", "r", "8K", "--chunk", "4K", node=node)
    before = parsed("region", "stat", "r", node=node)
    cases = [
        ((), ["ls, or create, stat, read, write, move, chmod, resize or rm and a NAME"]),
        (("ls", "r", "s"), ["ls takes at most one PREFIX"]),
        (("rm",), ["rm takes at least one NAME"]),
        (("ls", "--on", "0"), ["ls takes no --on"]),
        (("rocket",), ["not 'rocket'"]),
        (("create", "x"), ["create takes a NAME and a SIZE"]),
        (("create",), ["create takes a NAME and a SIZE"]),
        (("stat", "r", "s"), ["stat takes a NAME"]),
        (("move", "r", "0"), ["a CHUNK and a NODE"]),
        (("chmod", "r"), ["u:1000+rw"]),
        (("create", "", "1"), ["1 to 64 bytes"]),
        (("create", "n" * 65, "1"), ["1 to 64 bytes"]),
        (("create", "x", "0"), ["a byte at least"]),
        (("resize", "r", "0"), ["a byte at least"]),
        (("create", "x", "much"), ["SIZE 'much'"]),
        (("create", "x", "-1"), ["-1"]),
        (("create", "x", "1", "--chunk", "4097"), ["a multiple of 4096", "4097"]),
        (("create", "x", "1", "--chunk", "0"), ["a multiple of 4096"]),
        (("create", "x", "1M", "--chunk", "4K"), ["128 chunks at most", "--chunk 4096"]),
        (("create", "x", "1", "--group", ""), ["--group", "r (read)"]),
        (("create", "x", "1", "--others", "rx"), ["--others", "'rx'"]),
        (("create", "x", "1", "--on", "0", "--spread"), ["not both"]),
        (("create", "x", "1", "--near", "r", "--spread"), ["not both"]),
        (("resize", "r", "1", "--near", "r"), ["resize takes no --near"]),
        (("create", "x", "1", "--on", "-1"), ["a rank or a name"]),
        (("stat", "r", "--spread"), ["stat takes no --spread"]),
        (("write", "r", "--size", "1"), ["write takes no --size"]),
        (("resize", "r", "1", "--chunk", "4K"), ["resize takes no --chunk"]),
        (("read", "r", "--offset", "x"), ["--offset 'x'"]),
        (("move", "r", "x", "0"), ["CHUNK 'x'"]),
        (("move", "r", "128", "0"), ["0 to 127"]),
        (("chmod", "r", "u:0"), ["u:USER, g or o"]),
        (("chmod", "r", "x+r"), ["u:USER, g or o"]),
        (("chmod", "r", "go+r"), ["u:USER, g or o"]),
        (("chmod", "r", "+r"), ["u:USER, g or o"]),
        (("chmod", "r", "u:+r"), ["u:USER, g or o"]),
        (("chmod", "r", "g+"), ["takes rights"]),
        (("chmod", "r", "g+x"), ["takes rights", "'x'"]),
    ]
    for arguments, words in cases:
        refused(USAGE, [*words, "try 'nigh region --help'"], *arguments, node=node)
    cases = [  # which are well said: --help does not know what there is
        (("move", "r", "2", "0"), ["no chunk 2", "last one is 1"]),
        (("chmod", "r", "u:no-such-user+r"), ["no user 'no-such-user'"]),
        (("chmod", "r", f"u:{2 ** 32 - 1}+r"), [f"no user '{2 ** 32 - 1}'"]),
        (("create", "x", "1", "--on", "9"), ["--on: there is no node 9 (nigh nodes)"]),
        (("resize", "r", "1M", "--on", "9"), ["--on: there is no node 9 (nigh nodes)"]),
        (("move", "r", "0", "9"), ["NODE: there is no node 9 (nigh nodes)"]),
    ]
    for arguments, words in cases:
        refused(USAGE, words, *arguments, node=node)
        assert "--help" not in run("region", *arguments, node=node)[2], arguments
    said = run("region", "--help")[1].decode()
    for flag in ("--chunk", "--on", "--spread", "--near", "--group", "--others", "--mappable", "--offset", "--size"):
        assert flag in said, (flag, said)
    for action in ("create", "ls", "stat", "read", "write", "move", "chmod", "resize", "rm"):
        alone = run("region", action, "--help")
        assert alone[0] == OK and alone == run("region", "--help", action) == run("region", "--json", action, "r", "--help"), action
        lines = alone[1].decode().splitlines()
        assert lines[0].startswith(f"usage: nigh region {action} [OPTION...]"), lines
        told = [line for line in lines if line in said.splitlines() and line.startswith("  ") and line[2] not in " -"]
        assert len(told) == 1 and told[0].split()[0] == action, (action, told)
        assert ("--chunk" in alone[1].decode()) == (action == "create") and "--timeout" in alone[1].decode(), action
    refused(NOT_FOUND, ["no node is called nobody"], "create", "x", "1", "--on", "nobody", node=node)
    refused(NOT_FOUND, ["no such region"], "stat", "x", node=node)
    assert parsed("region", "stat", "r", node=node) == before


# ---- nigh bench region


MEASURED = [(operation, size) for size in (64, 4 * KIB, 64 * KIB, MIB) for operation in ("read", "write")] + [
    ("read-into", MIB), ("write-from", MIB), ("add", 8)]


def measured(rows):
    assert all(row["count"] > 0 and 0 < row["median_us"] <= row["p99_us"] and row["mb_per_s"] > 0 for row in rows), rows
    return [(row["operation"], row["size_bytes"]) for row in rows]


@with_node
def test_a_region_is_measured(node, folder):
    """The node counts what is done, and has no region afterwards."""
    rows = parsed("bench", "region", node=node)
    numbers = parsed("top", "--once", node=node)
    assert measured(rows) == MEASURED, rows
    assert numbers["region_parts_here"] >= sum(row["count"] for row in rows), (numbers, rows)
    assert numbers["region_bytes_read"] >= sum(row["count"] * row["size_bytes"] for row in rows if "read" in row["operation"])
    assert numbers["region_chunks"] == 0, numbers
    wait_for(lambda: parsed("top", "--once", node=node)["region_memory_bytes"] == 0)  # a thread gives it back
    lines = good("bench", "region", "--size", "1000", node=node).decode().splitlines()
    assert [line.split()[:2] for line in lines] == [["OPERATION", "BYTES"]] + [
        [operation, "1000"] for operation in ("read", "write", "read-into", "write-from")], lines
    lines = good("bench", "region", "--size", "8K", "--timeout", "1s", node=node).decode().splitlines()
    assert len(lines) == 5 and {line.split()[1] for line in lines[1:]} == {str(8 * KIB)}, lines
    for arguments in (("--size", "0"), ("--size", str(MIB + 1)), ("--size", "2M"), ("--size", "8x"), ("--serve",),
                      ("--at-once", "2"), ("--offer",)):
        fails(USAGE, ["bench"], "bench", "region", *arguments, node=node)
    fails(USAGE, ["bench"], "bench", "objects", "--size", "8", node=node)
    fails(USAGE, ["bench"], "bench", "transfer", "--node", "0", node=node)
    assert run("bench", "region", "--node", "nobody", node=node)[:2] == (NOT_FOUND, b"")
    fails(USAGE, ["--node: there is no node 9 (nigh nodes)"], "bench", "region", "--node", "9", node=node)


@with_node
def test_a_measurement_of_a_region_ends_in_time(node, folder):
    """The rows share --timeout, and each has something in its part."""
    rows = parsed("bench", "region", "--timeout", "600ms", node=node)
    assert measured(rows) == MEASURED, rows
    took = sum(row["count"] * row["size_bytes"] / row["mb_per_s"] / 1e6 for row in rows)
    assert took <= 0.8, (took, rows)
    fails(TIMEOUT, ["the deadline passed"], "bench", "region", "--timeout", "0", node=node)
    assert parsed("top", "--once", node=node)["region_chunks"] == 0


@with_node
def test_a_measurement_that_is_interrupted_leaves_no_region(node, folder):
    for _ in range(5):
        with subprocess.Popen([os.environ["NIGH"], "bench", "region", "--json", "--socket", node.path],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as bench:
            printed = bench.stdout.readline() + bench.stdout.readline()  # a row is there
            bench.send_signal(signal.SIGINT)
            printed += bench.stdout.read()
        rows = json.loads(printed)
        assert parsed("top", "--once", node=node)["region_chunks"] == 0
        if bench.returncode != OK:  # else it was over before
            assert bench.returncode == rows[-1]["exit_code"] == FAILED and len(rows) < len(MEASURED), rows
            return
    assert False, "it was not interrupted"


def test_a_measurement_that_is_held_back_says_by_what():
    """A MiB is 128 operations, of which the node has one wait for the other."""
    node = raw.Node("--session-ops", "10")
    assert node.ready
    code, printed, said = run("bench", "region", node=node)
    assert (code, printed) == (TIMEOUT, b"") and "one was not done in 5 s" in said and "--session-ops" in said, (code, said)
    assert node.stop()[0] == 0


@with_node
def test_what_a_killed_measurement_left_is_freed(node, folder):
    """By the next run of the same user and machine, once its process is gone, and of no other."""

    def left():
        return {item["name"] for item in parsed("region", "ls", "nigh-bench-", node=node)}

    others = {"nigh-bench-", "nigh-bench-0123456789abcdef-1-1", "nigh-bench-x"}
    for name in others:
        region("create", name, "1", node=node)
    with subprocess.Popen([os.environ["NIGH"], "bench", "region", "--json", "--socket", node.path],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as bench:
        try:
            bench.stdout.readline()
            bench.stdout.readline()  # a row is there
            bench.send_signal(signal.SIGSTOP)
            own = left() - others
            assert len(own) == 1 and f"-{bench.pid}-" in own.copy().pop(), own
            machine = own.copy().pop().split("-")[2]
            others |= {f"nigh-bench-{machine}-{bench.pid}", f"nigh-bench-{machine}-{bench.pid}-1x", f"nigh-bench-{machine}-0-1"}
            again = f"nigh-bench-{machine}-{bench.pid}-1"  # of a process that had the number before
            for name in others - left() | {again}:
                region("create", name, "1", node=node)
            measure = ("bench", "region", "--size", "8", "--timeout", "10s")
            wait_for(lambda: run(*measure, node=node)[0] == OK and again not in left())
            assert left() == others | own, "it lives"
        finally:
            bench.kill()  # also where it stands still
    wait_for(lambda: run(*measure, node=node)[0] == OK and left() == others)


# ---- two nodes


class Voter(Member):
    """One that keeps state, in a directory of its own."""

    def __init__(self, folder, rank, join, key, *flags):
        super().__init__(folder, rank, join, key, "--state", os.path.join(folder, f"state{rank}"), *flags)


def voters():
    """Two nodes that agree on who is there; each has a lease."""
    cluster = Cluster(member=Voter).wait_met()
    for member in cluster.members:
        raw.wait_for(lambda: member.numbers()["view_quorum"] == 1)  # noqa: B023
    return cluster


def test_a_region_of_two_nodes():
    cluster = voters()
    with cluster as (a, b):
        cluster.wait_met()
        data = os.urandom(5 * MIB)
        a.good("region", "create", "r", "5M", "--chunk", "1M", "--spread")
        assert sorted(a.parsed("region", "stat", "r")["chunks"]) == [0, 0, 0, 1, 1]
        a.good("region", "write", "r", data=data)
        assert b.good("region", "read", "r") == data
        a.good("region", "create", "there", "1M", "--on", "1")
        assert b.parsed("region", "stat", "there")["chunks"] == [1]
        assert b.run("region", "create", "r", "1M")[0] == EXISTS, "a name is the cluster's"
        b.good("region", "create", "near", "5M", "--near", "r")
        assert b.parsed("region", "stat", "near")["chunks"] == b.parsed("region", "stat", "r")["chunks"]
        code, _, said = b.run("region", "create", "x", "5M", "--near", "nobody's")
        assert code == NOT_FOUND and "--near nobody's: no such region" in said, (code, said)


def test_nodes_that_agree_on_nothing_have_none():
    with Cluster().wait_met() as (a, _):
        for arguments in (("region", "create", "r", "1M"), ("region", "ls"), ("bench", "region")):
            code, _, said = a.run(*arguments)
            assert code not in (OK, USAGE) and "--state" in said and not a.run(*arguments)[1], (arguments, code, said)


def test_a_region_of_another_node_is_measured():
    """By its rank: all is done there, and nothing is left."""
    cluster = voters()
    with cluster as (a, b):
        cluster.wait_met()
        for rank, where, other in ((0, "region_parts_there", "region_parts_here"),
                                   (1, "region_parts_here", "region_parts_there")):
            before, rows = b.numbers(), b.parsed("bench", "region", "--node", str(rank))
            assert measured(rows) == MEASURED, rows
            assert b.numbers()[where] - before[where] >= sum(row["count"] for row in rows), (before, rows)
            assert b.numbers()[other] == before[other], (rank, before)
            raw.wait_for(lambda: a.numbers()["region_chunks"] == b.numbers()["region_chunks"] == 0)


def test_a_measurement_that_is_cut_off_says_what_may_be_left():
    """Nobody can tell whether its region was made, nor look."""
    with Three() as members:
        for member in members:  # of two, one may decide alone
            wait_for(lambda: member.numbers()["view_quorum"] == member.numbers()["view_votes"] == 1)  # noqa: B023
        a, b, c = members
        for member in (b, c):
            member.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: a.numbers()["view_quorum"] == 0)
            code, _, said = a.run("bench", "region", "--timeout", "2s")
            assert code not in (OK, USAGE) and "may be left: nigh region rm nigh-bench-" in said, (code, said)
        finally:
            for member in (b, c):
                member.process.send_signal(signal.SIGCONT)


def test_chunks_move():
    cluster = voters()
    with cluster as (a, b):
        cluster.wait_met()
        data = os.urandom(3 * MIB)
        a.good("region", "create", "r", "3M", "--chunk", "1M")
        a.good("region", "write", "r", data=data)
        assert b.parsed("region", "move", "r", "1", "1") == {"name": "r", "chunk": 1, "rank": 1}
        b.good("region", "move", "r", "1", "1")  # it is there
        raw.wait_for(lambda: a.parsed("region", "stat", "r")["chunks"] == [0, 1, 0])  # it hears of it in a moment
        lines = a.good("region", "stat", "r").decode().splitlines()
        assert lines[-3:] == ["  chunk     0 on node 0", "  chunk     1 on node 1", "  chunk     2 on node 0"], lines
        assert a.good("region", "read", "r") == b.good("region", "read", "r") == data
        # Who reads meanwhile waits for the copy, and sees nothing else.
        with contextlib.ExitStack() as readers:
            for _ in range(3):
                reader = readers.enter_context(b.begin("region", "read", "r"))
                reader.stdin.close()
                a.good("region", "move", "r", "0", "1")
                a.good("region", "move", "r", "0", "0")
                assert reader.stdout.read() == data and reader.wait(timeout=60) == OK
        a.good("region", "rm", "r")
        raw.wait_for(lambda: b.run("region", "stat", "r")[0] == NOT_FOUND)


def test_what_is_mapped_does_not_move():
    """It is said that a process has it."""
    cluster = voters()
    with cluster as (a, _):
        cluster.wait_met()
        a.good("region", "create", "r", "4K", "--mappable")
        with subprocess.Popen([os.environ["MAP_USER"], a.path, "r", "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as user:
            try:
                assert user.stdout.readline() == "NIGH_OK\n"
                print("map 0 0 3", file=user.stdin, flush=True)
                assert user.stdout.readline() == "NIGH_OK\n"
                code, _, said = a.run("region", "move", "r", "0", "1")
                assert code == FAILED and "r: a process has the chunk mapped" in said, (code, said)
            finally:
                user.kill()
        wait_for(lambda: a.run("region", "move", "r", "0", "1")[0] == OK)


@with_node
def test_what_is_donated_stays_as_it_is(node, _):
    """It is said why, whatever else is wrong with the wish."""
    with subprocess.Popen([os.environ["DONOR"], node.path, "d", "65536"], stdout=subprocess.PIPE) as donor:
        assert donor.stdout.readline() == b"NIGH_OK\n"
        donor.kill()
    assert parsed("region", "stat", "d-0", node=node)["donated"] is True
    refused(USAGE, ["d-0: its memory was donated"], "resize", "d-0", "1M", node=node)
    refused(USAGE, ["d-0: its memory was donated"], "move", "d-0", "0", "0", node=node)


def test_a_node_that_has_just_begun_is_waited_for():
    """What needs a lease goes on when there is one, and is said to have failed only afterwards."""
    with Three() as members:
        a, b, c = members
        for member in members:
            wait_for(lambda: member.numbers()["view_quorum"] == member.numbers()["view_votes"] == 1)  # noqa: B023
        wait_for(lambda: a.run("region", "create", "r", "8")[0] in (OK, EXISTS))
        for member in (b, c):
            member.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: a.numbers()["view_quorum"] == 0)
            code, _, said = a.run("region", "create", "x", "8", "--timeout", f"{raw.BUSY_TIMES}s")
            assert code == FAILED and "has just begun, or is cut off" in said and "may have happened" not in said, (code, said)
            with contextlib.ExitStack() as waiting:
                words = (("stat", "r"), ("rm", "gone"), ("create", "y", "8"), ("ls",))
                begun = [waiting.enter_context(a.begin("region", *line, "--timeout", "60s")) for line in words]
                for process in begun:
                    process.stdin.close()
                for _ in range(3):  # as long as such a command takes that does not wait
                    assert a.run("region", "ls", "--timeout", "0")[0] != OK
                ended = [process.poll() for process in begun]
                for member in (b, c):
                    member.process.send_signal(signal.SIGCONT)
                codes = [process.wait(timeout=120) for process in begun]
            assert ended == [None] * len(words) and codes[:2] == [OK, NOT_FOUND], (ended, codes)
        finally:
            for member in (b, c):
                member.process.send_signal(signal.SIGCONT)


class Three(Cluster):
    """Three voters: two go on without the third."""

    def __init__(self, *flags):  # pylint: disable=super-init-not-called
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-")
        join = ",".join(f"127.0.0.1:{port}" for port in free_ports(3, "127.0.0.1"))
        self.members = []
        for rank in range(3):
            key = os.path.join(self.folder.name, f"key{rank}")
            with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write("00112233" * 8 + "\n")
            self.members.append(Voter(self.folder.name, rank, join, key, *flags))


def test_which_chunk_is_lost_is_said():
    """Of those that were asked for, the first; the others are read and written."""
    with Three() as members:
        a, _, c = members
        for member in members:  # of two, one may decide alone
            wait_for(lambda: member.numbers()["view_quorum"] == member.numbers()["view_votes"] == 1)  # noqa: B023
        wait_for(lambda: a.run("region", "create", "r", "12K", "--chunk", "4K", "--spread")[0] in (OK, EXISTS))
        assert a.parsed("region", "stat", "r")["chunks"] == [0, 1, 2]
        c.end(signal.SIGKILL)
        wait_for(lambda: "chunk 2" in a.run("region", "read", "r", "--timeout", "5s")[2])
        said = "r: chunk 2, its bytes from 8192 on, was lost with its node (nigh region stat says which are)"
        for words, data in ((("read", "r"), b""), (("read", "r", "--offset", "9000", "--size", "1"), b""),
                            (("write", "r", "--offset", "4K"), bytes(8 * KIB))):
            code, _, told = a.run("region", *words, data=data)
            assert code == FAILED and told == f"nigh region: {said}\n", (words, code, told)
        a.good("region", "write", "r", data=b"x" * 8 * KIB)
        assert a.good("region", "read", "r", "--size", "8K") == b"x" * 8 * KIB


def listed(member, timeout="2s"):
    code, printed, said = member.run("region", "ls", "--json", "--timeout", timeout)
    return code, {item["name"]: item["home"] for item in json.loads(printed or b"[]") if "name" in item}, said


def test_a_list_without_a_node_is_in_part():
    """One that stands still, and is not taken for dead: what it is the home of lacks, and it is said so."""
    with Three("--dead-ms", "600000") as (a, b, c):
        for member in (a, b, c):
            wait_for(lambda: member.numbers()["view_quorum"] == 1 and  # noqa: B023
                     member.states() == ["up"] * 3)  # noqa: B023
        names = [f"r{number}" for number in range(30)]
        for name in names:  # a busy machine's leases end, for a moment
            wait_for(lambda: a.run("region", "create", name, "4K")[0] in (OK, EXISTS))  # noqa: B023
        wait_for(lambda: listed(b)[0] == OK)
        code, whole, said = listed(b)
        assert code == OK, said
        assert sorted(whole) == sorted(names) and set(whole.values()) == {0, 1, 2}, whole
        c.process.send_signal(signal.SIGSTOP)
        try:
            # Whoever leads may have been the one that stands still: for a moment there is no lease.
            wait_for(lambda: listed(b)[0] == FAILED and "in part" in listed(b)[2])
            code, part, said = listed(b)
            assert code == FAILED and "in part" in said, (code, said)
            assert part == {name: home for name, home in whole.items() if home != 2}, (part, whole)
            began = time.monotonic()
            for _ in range(4):  # each may wait for 5 seconds
                assert listed(b, "30s")[:2] == (FAILED, part)
            assert time.monotonic() - began < 15, "who was silent once is not waited for again"
        finally:
            c.process.send_signal(signal.SIGCONT)
        wait_for(lambda: listed(b)[:2] == (OK, whole))


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
