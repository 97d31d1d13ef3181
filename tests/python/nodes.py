#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two nodes and a client of each: what one puts the other gets, calls go there, and it is told which nodes there are."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, numpy, raises, run_tests, wait_for  # noqa: E402
from cluster_cli import Cluster  # noqa: E402  (node says where it lies)

import nigh  # noqa: E402


def with_nodes(test):
    """Gives a test a client of each of two nodes that have met."""

    def wrapped():
        cluster = Cluster()
        with cluster as members:
            cluster.wait_met()
            clients = [nigh.Client(member.path) for member in members]
            test(*clients)
            for client in clients:
                client.close()
    wrapped.__name__ = test.__name__
    return wrapped


@with_nodes
def test_what_one_puts_the_other_gets(here, there):
    np = numpy()
    there.put("small", b"hello", b"meta")
    there.put_array("large", np.arange(MIB))
    view = here.get("small", 20)
    assert bytes(view) == b"hello" and view.meta == b"meta"
    assert (here.get_array("large", 20) == np.arange(MIB)).all()
    with raises(nigh.TimeoutError):
        here.get("none", 0.05)
    late = here.get_start(["late"])
    there.put("late", b"x")
    wait_for(lambda: here.poll() >= 0 and late.done())
    assert bytes(late.result()[0]) == b"x"


@with_nodes
def test_copies_are_counted(here, there):
    here.put("once", b"x")
    wait_for(lambda: here.where("once") == [0])
    there.put("no copy", b"abc")
    view = here.get("no copy", 20, no_copy=True)
    assert bytes(view) == b"abc"
    del view
    assert here.replicate("once", 2, 20) == 2
    wait_for(lambda: here.where("once") == [0, 1])
    here.put("twice", b"x", replicas=2, timeout=20)
    wait_for(lambda: there.where("twice") == [0, 1])
    assert [node["rank"] for node in here.nodes()] == [0, 1] and here.nodes()[0]["is_self"]
    assert there.nodes()[1]["is_self"] and there.nodes()[0]["state"] == "up"


@with_nodes
def test_calls_go_to_the_other(here, there):
    service = there.register("who")
    thread = threading.Thread(target=nigh.serve, args=[service, lambda request: bytes([request.rank]) + request.bytes])
    thread.start()
    assert here.call("who", b"x", rank=1, timeout=20) == b"\0x"
    assert there.call("who", b"x", timeout=20) == b"\1x"
    told = here.multicast("who", b"y", ranks=[1], timeout=20)
    assert list(told["value"]) == [1] and told["answered"] == 1
    service.close()
    thread.join()


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
