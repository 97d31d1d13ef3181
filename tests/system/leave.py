#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A node that leaves: what only it held is at the others when it is killed, and it takes nothing new."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_cli import FAILED, OK  # noqa: E402
from raw_session import wait_for  # noqa: E402
from replicas import LOOK_S, Five, bytes_of, kill  # noqa: E402

OBJECTS = 20


def test_what_only_it_held_is_at_the_others():
    cluster = Five(nodes=3)
    with cluster as members:
        cluster.wait_met()
        for member in members[1:]:
            member.good("put", f"a pool of {member.path}", "-", data=b"x")
        for n in range(OBJECTS):
            members[0].good("put", f"{n}", "-", data=bytes_of(f"{n}"))
        left = members[0].parsed("leave")
        assert left["safe"]["objects"] == OBJECTS and left["alone"]["objects"] == 0, left
        code, _, said = members[0].run("put", "new", "-", data=b"x")
        assert code == FAILED and "leave" in said, said
        kill(members[0])
        for n in range(OBJECTS):
            wait_for(lambda n=n: members[1 + n % 2].run("get", f"{n}")[:2] == (OK, bytes_of(f"{n}")), LOOK_S)


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
