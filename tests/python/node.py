# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: nodes, clients of theirs, and what ought to be raised."""
import contextlib
import functools
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "system"))
import raw_session  # noqa: E402
from raw_session import Skipped, halt, run_tests, wait_for  # noqa: E402,F401

import nigh  # noqa: E402

MIB = 1 << 20


def with_client(*flags, memory="64M"):
    """Gives a test a client of a node of its own; both are whole afterwards."""

    def give(test):
        @functools.wraps(test)
        def wrapped():
            node = raw_session.Node("--lanes", "1", *flags, memory=memory)  # one object may have nearly all
            assert node.ready
            client = nigh.Client(node.path, name="test")
            client.node = node
            test(client)
            client.close()
            code, said = node.stop()
            assert code == 0, said
        return wrapped
    return give


def other(client, **more):
    """Another client of the same node."""
    return nigh.Client(client.node.path, **more)


def child_of(pid):
    """The node that nighd --hold keeps; 0: there is none now."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = file.read().split()
    return int(children[0]) if children else 0


def in_child(what):
    """Runs a function in a child of fork; it ends well."""
    pid = os.fork()
    if pid == 0:
        try:
            what()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@contextlib.contextmanager
def raises(kind, *words):
    """The block raises just this, and its text has these words."""
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise AssertionError(f"no {kind.__name__}")


def numpy():
    try:
        import numpy as found
    except ImportError as error:
        raise Skipped("no numpy (python3-numpy)") from error
    return found
