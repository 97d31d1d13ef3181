#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that joined and are gone for good are struck off: another at the same address joins anew, with a new rank; who
comes back is told, and ends; who lives, is of the list, or asks in a minority or as another uid is refused."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_join import Joiners  # noqa: E402

OK, FAILED, USAGE, NOT_FOUND, DENIED, TIMEOUT = 0, 1, 2, 3, 5, 7  # exit codes of nigh
STRUCK = 6  # of nighd
ANOTHER = 65534  # a uid


def forget(cluster, rank, whom, *more):
    done = cluster.nigh(rank, "forget", whom, *more)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def forget_for_good(cluster, rank, whom):
    """It was heard just now: refused for two seconds. What is said at the end."""
    said = ""

    def is_done():
        nonlocal said
        code, said = forget(cluster, rank, whom)
        assert code in (OK, FAILED, TIMEOUT), (code, said)
        assert code != FAILED or "lives" in said, said
        return code == OK

    wait_for(is_done, 60)
    return said


def ended(cluster, rank):
    """Its exit code."""
    process = cluster.processes[rank]
    code = process.wait(60)
    raw.Node.running.remove(process)
    cluster.processes[rank] = None
    return code


def test_a_machine_that_is_set_up_anew_joins_as_another():
    cluster = Joiners(1, 3)
    cluster.names = {1: "db"}
    cluster.join_by(1, 0)
    cluster.join_by(2, 1)
    wait_for(cluster.agrees, 30)
    wait_for(lambda: cluster.names_at(2) == {1: "db"}, 30)
    cluster.put(0, 0, 20, 2000)
    cluster.put(1, 1000, 20, 2000)
    cluster.kill(1)
    said = forget_for_good(cluster, 2, cluster.ports[1])
    assert "nobody's any more, and what only that node held is lost" in said, said
    wait_for(lambda: all(cluster.ranks_of(rank) == {cluster.ports[0]: 0, cluster.ports[2]: 2} for rank in (0, 2)), 30)
    wait_for(cluster.agrees, 30)
    cluster.get_all(2, 0, 20, 2000)
    code, said = forget(cluster, 0, "1", "--json")  # it is, already
    assert code == OK and json.loads(said) == {"rank": 1, "forgotten": True}, (code, said)
    code, said = forget(cluster, 0, "db")
    assert code == NOT_FOUND and "no node is called db" in said, (code, said)
    code, said = forget(cluster, 0, cluster.ports[1])
    assert code == NOT_FOUND and "no node has the address" in said, (code, said)
    # Its disk is empty; its address and its name are what they were.
    old = cluster.state(1) + ".old"
    os.rename(cluster.state(1), old)
    cluster.join_by(1, 2)
    now = {cluster.ports[0]: 0, cluster.ports[2]: 2, cluster.ports[1]: 3}
    wait_for(lambda: all(cluster.ranks_of(rank) == now for rank in range(3)), 30)
    wait_for(cluster.agrees, 30)
    wait_for(lambda: all(cluster.names_at(rank) == {3: "db"} for rank in range(3)), 30)
    cluster.get_all(1, 0, 20, 2000)
    cluster.put(1, 2000, 20, 2000)
    cluster.get_all(0, 2000, 20, 2000)
    # What it was is remembered, at who was started again, too, and in what it keeps of who there is.
    for rank in range(3):
        cluster.kill(rank)
    for rank in range(3):
        cluster.start(rank)
    for rank in range(3):
        cluster.wait_ready(rank)
    wait_for(cluster.agrees, 40)
    wait_for(lambda: all(cluster.ranks_of(rank) == now for rank in range(3)), 30)
    # The disk turns up again.
    cluster.kill(1)
    ran = subprocess.run(cluster.command(1, state=old), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    said = ran.stderr.decode()
    assert ran.returncode == STRUCK and "was struck off its cluster (nigh forget)" in said, ran
    assert f"remove what it kept in {old} (--state) and start it again" in said, said
    assert "refused a node that was struck off" in cluster.log(0), cluster.log(0)[-3000:]
    cluster.back(1)
    wait_for(cluster.agrees, 40)
    cluster.close()


def test_of_one_that_left_nothing_is_said_to_be_lost():
    cluster = Joiners(1, 3)
    shown = cluster.nigh(0, "nodes").stdout.decode()
    assert f" {cluster.ports[0]}  (this node, which is alone)" in shown, shown
    for rank in (1, 2):
        cluster.join_by(rank, 0)
    wait_for(cluster.agrees, 30)
    cluster.put(1, 0, 10, 2000)
    assert cluster.nigh(1, "leave").returncode == OK
    cluster.processes[1].terminate()
    assert ended(cluster, 1) == 0
    wait_for(lambda: cluster.agrees(out=(1,)) and cluster.list(0)[1]["life"] == "left", 30)
    located = cluster.nigh(0, "locate", "nowhere")
    assert located.returncode == NOT_FOUND, located
    assert f"node 1 ({cluster.ports[1]}) is dead, and may have it" in located.stderr.decode(), located
    said = forget_for_good(cluster, 0, "1")
    assert "It had left: nothing is lost of what it handed over" in said, said
    cluster.get_all(2, 0, 10, 2000)
    said = cluster.nigh(0, "locate", "nowhere").stderr.decode()
    assert "nowhere: no such object in your pool, on this node or another" in said, said
    cluster.close()


def test_who_comes_back_from_a_long_absence_ends():
    """It stood still, and runs on as what it was."""
    cluster = Joiners(1, 3)
    cluster.join_by(1, 0)
    cluster.join_by(2, 0)
    wait_for(cluster.agrees, 30)
    cluster.stop(1)
    forget_for_good(cluster, 0, "1")
    wait_for(lambda: 1 not in cluster.ranks_of(2).values(), 30)
    cluster.stop(1, False)
    assert ended(cluster, 1) == STRUCK
    assert "was struck off its cluster (nigh forget)" in cluster.log(1), cluster.log(1)[-3000:]
    wait_for(cluster.agrees, 30)
    cluster.put(2, 0, 10, 2000)
    cluster.get_all(0, 0, 10, 2000)
    cluster.close()


def test_who_is_not_struck_off():
    cluster = Joiners(3, 4)
    cluster.join_by(3, 0)
    wait_for(cluster.agrees, 30)
    for rank in range(4):
        code, said = forget(cluster, rank, "3")
        assert code == FAILED and "lives" in said and "nigh leave" in said, (rank, code, said)
    code, said = forget(cluster, 3, "7")
    assert code == NOT_FOUND and "no node was ever given this rank" in said, (code, said)
    code, said = forget(cluster, 3, "9")
    assert code == NOT_FOUND, (code, said)
    for arguments in ((), ("a", "b")):
        assert cluster.nigh(0, "forget", *arguments).returncode == USAGE
    cluster.kill(2)
    wait_for(lambda: cluster.agrees(out=(2,)), 30)
    code, said = forget(cluster, 3, cluster.ports[2])
    assert code == FAILED and "the list of members keeps whom it names" in said, (code, said)
    cluster.kill(3)
    cluster.kill(1)
    wait_for(lambda: cluster.stats(0)["view_quorum"] == 0, 30)
    code, said = forget(cluster, 0, "3")
    assert code == FAILED and "cut off from most voters" in said, (code, said)
    cluster.back(1)
    wait_for(lambda: cluster.stats(0)["view_quorum"] == 1, 30)
    if os.geteuid() == 0:
        refuse_another_uid(cluster)
    forget_for_good(cluster, 0, "3")
    cluster.close()


def refuse_another_uid(cluster):
    with tempfile.TemporaryDirectory() as folder:
        # The program itself, and its library, must be within reach of another uid, and so must the socket.
        program = shutil.copy(os.environ["NIGH"], folder)
        library = shutil.copy(os.path.join(os.environ["NIGH_BUILD"], "src", "client", "libnigh.so.0"), folder)
        for path in (folder, program, library, cluster.folder.name):
            os.chmod(path, 0o755)
        ran = subprocess.run([program, "--socket", cluster.socket(0), "forget", "3"], capture_output=True, check=False,
                             user=ANOTHER, group=ANOTHER, extra_groups=[], env={"LD_LIBRARY_PATH": folder}, timeout=60)
    assert ran.returncode == DENIED and b"only root" in ran.stderr, ran


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
