#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The small examples of regions: one that processes of a node have mapped, and memory that a process donates; as their first
lines say that they are run."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cli_test import FAILED, NOT_FOUND, OK, USAGE, good, with_node  # noqa: E402
from raw_session import wait_for  # noqa: E402
from regions_cli import voters  # noqa: E402

SKIPPED, COUNT = 77, 20000
EXAMPLES = os.path.join(os.environ["NIGH_BUILD"], "examples")


def begin(socket, name, *words):
    return subprocess.Popen([os.path.join(EXAMPLES, "example-region_" + name), *words], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "NIGH_SOCKET": socket})


def end(process):
    printed, said = process.communicate(timeout=120)
    return process.returncode, printed.decode(), said.decode()


def example(socket, name, *words):
    return end(begin(socket, name, *words))


@with_node
def test_what_is_counted_in_place_is_read(node, _):
    """No count is lost between processes, and the last is what the node reads."""
    counters = [begin(node.path, "mapped", "hits", str(COUNT)) for _ in range(3)]
    ends = [end(counter) for counter in counters]
    assert [(code, said) for code, _, said in ends] == [(OK, "")] * 3, ends
    assert int.from_bytes(good("region", "read", "hits", "--size", "8", node=node), "little") == 3 * COUNT, ends
    code, printed, said = example(node.path, "mapped", "hits", "1")
    assert (code, said) == (OK, "") and printed == (f"mapped: added 1 to the word in place, to {3 * COUNT + 1}; a read by the "
                                                    f"node then: {3 * COUNT + 1} (other processes count, too)\n"), printed
    good("region", "create", "plain", "8", node=node)
    code, printed, said = example(node.path, "mapped", "plain")
    assert code == FAILED and not printed and "NIGH_REGION_MAPPABLE" in said, said


def done(member, donor):
    """As the node says it, of what this process has."""
    wait_for(lambda: example(member.path, "donated", "--watch", "long")[0] == OK)
    code, printed, said = example(member.path, "donated", "--watch", "long")
    words = printed.split()
    assert (code, said) == (OK, "") and words[:4] + words[5:] == ["process", str(donor.pid), "has", "done", "of", "1000000"], printed
    return int(words[4])


def test_what_a_process_has_is_read_elsewhere():
    """While it goes on; until it frees the region, and beyond its own end where it does not."""
    cluster = voters()
    with cluster as (a, b):
        cluster.wait_met()
        for member in (a, b):  # one that joined is taken in in a moment
            wait_for(lambda: member.run("region", "ls")[0] == OK)  # noqa: B023
        code, printed, said = example(a.path, "donated", "short", "3", "0")
        assert (code, printed, said) == (OK, "donated: short\n", ""), (code, printed, said)
        assert a.run("region", "stat", "short")[0] == NOT_FOUND
        with begin(a.path, "donated", "long", "1000000", "5") as donor:
            try:
                first = done(b, donor)
                wait_for(lambda: done(b, donor) > first)
                code, _, said = example(a.path, "mapped", "long")
                assert code == FAILED and said, "it is not mapped for others"
            finally:
                donor.kill()
            donor.wait()
            last = done(b, donor)
            assert done(b, donor) == last > first
        b.good("region", "rm", "long")
        code, printed, said = example(b.path, "donated", "--watch", "long")
        assert code == FAILED and not printed and "no region of this name" in said, said


def test_a_region_of_another_node_is_not_mapped():
    cluster = voters()
    with cluster as (a, b):
        cluster.wait_met()
        wait_for(lambda: b.run("region", "ls")[0] == OK)
        a.good("region", "create", "there", "8", "--mappable")
        code, printed, said = example(b.path, "mapped", "there")
        assert code == FAILED and not printed and "there: " in said, said
        assert example(a.path, "mapped", "there")[0] == OK


def test_wrong_words_are_refused():
    for name, words in (("mapped", ()), ("mapped", ("x", "0")), ("mapped", ("x", "y")), ("mapped", ("x", "1", "2")),
                        ("donated", ()), ("donated", ("--watch",)), ("donated", ("--no",)), ("mapped", ("--no",)), ("donated", ("x", "-1")),
                        ("donated", ("x", "1", "3600001")), ("donated", ("--watch", "x", "1"))):
        code, printed, said = example("/nowhere", name, *words)
        assert code == USAGE and not printed and said.strip(), (name, words, code, printed, said)
    for name in ("mapped", "donated"):
        code, printed, said = example("/nowhere", name, "x")
        assert code == FAILED and not printed and "/nowhere" in said, (name, code, printed, said)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(EXAMPLES, "example-region_mapped")):
        print("skipped: examples are not built here", flush=True)
        sys.exit(SKIPPED)
    sys.exit(raw.run_tests(globals()))
