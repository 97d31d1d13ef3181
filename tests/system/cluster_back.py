#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Members that are killed and come back: who joined keeps its rank over a crash, and decides when the first is gone; who
lost its directory, or is started with other words, begins no cluster of its own."""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from raw_session import wait_for  # noqa: E402
from cluster_join import Joiners, refused  # noqa: E402


def test_who_joined_decides_when_the_first_is_gone():
    """Three that began as one: the first is killed for good, and the others go on; a fourth votes in its place, so that another
    may be killed; back with what it kept, the first has no vote, and harms nobody. One that leaves hands its vote on."""
    cluster = Joiners(1, 4)
    for rank in (1, 2):
        cluster.join_by(rank, 0)
    wait_for(lambda: cluster.agrees() and all(cluster.voters(rank) == [0, 1, 2] for rank in range(3)), 60)
    cluster.put(1, 0, 40, 2000)
    cluster.kill(0)
    wait_for(lambda: cluster.agrees(out=(0,)), 60)
    cluster.put(2, 1000, 40, 2000)
    cluster.get_all(1, 1000, 40, 2000)
    cluster.by[3] = 2
    cluster.start(3)
    cluster.wait_ready(3)
    wait_for(lambda: cluster.agrees(out=(0,)) and cluster.voters(3) == [1, 2, 3], 90)
    assert b"  votes" in cluster.nigh(3, "nodes").stdout
    cluster.kill(1)
    wait_for(lambda: cluster.agrees(out=(0, 1)), 60)
    cluster.get_all(3, 1000, 40, 2000)
    cluster.back(0)
    wait_for(lambda: cluster.agrees(out=(1,)), 60)
    cluster.back(1)
    wait_for(lambda: cluster.agrees() and all(cluster.voters(rank) == [1, 2, 3] for rank in range(4)), 60)
    done = cluster.nigh(3, "leave")
    assert done.returncode == 0, done
    wait_for(lambda: cluster.voters(0) == [0, 1, 2], 30)
    cluster.kill(3)
    wait_for(lambda: cluster.agrees(out=(3,)), 60)
    cluster.get_all(0, 1000, 40, 2000)
    cluster.close()


def test_its_rank_outlives_it():
    """Killed, it comes back as the same, also without what it remembers; its home has moved meanwhile."""
    cluster = Joiners(3, 5)
    cluster.join_by(3, 1)
    cluster.join_by(4, 3)
    wait_for(cluster.agrees, 30)
    cluster.put(4, 0, 40, 2000)
    cluster.put(0, 1000, 40, 2000)
    before = cluster.incarnations(0)
    cluster.kill(3)
    wait_for(lambda: cluster.agrees(out=(3,)), 30)
    cluster.get_all(0, 0, 40, 2000)
    cluster.back(3)
    wait_for(cluster.agrees, 30)
    for rank in range(3):
        after = cluster.incarnations(rank)
        assert after[3] > before[3] and all(after[other] == before[other] for other in (0, 1, 2, 4)), (before, after)
    cluster.lose(4)
    wait_for(lambda: cluster.agrees(out=(4,)), 30)
    cluster.by[4] = 2
    cluster.back(4)
    wait_for(cluster.agrees, 30)
    assert cluster.ranks_of(4) == {address: rank for rank, address in enumerate(cluster.ports)}
    cluster.get_all(4, 1000, 40, 2000)
    # All at once: the list is with those that have it, and what they joined is with the others.
    for rank in range(5):
        cluster.kill(rank)
    for rank in range(5):
        cluster.start(rank)
    for rank in range(5):
        cluster.wait_ready(rank)
    wait_for(cluster.agrees, 40)
    cluster.close()


def test_who_joined_begins_no_cluster():
    """Started again without --join: what it kept says that it is a member of another's. A whole list of one that joined by one
    of it is no other."""
    cluster = Joiners(1, 3)
    cluster.join_by(1, 0)
    wait_for(cluster.agrees, 30)
    cluster.kill(1)
    assert "views" not in os.listdir(cluster.state(1)), "two do not vote"
    said = refused(cluster, 1, options=["--member", cluster.ports[1]])
    assert f"--join {cluster.ports[0]} --member {cluster.ports[1]}" in said and "--state" in said, said
    assert "views" not in os.listdir(cluster.state(1))
    cluster.back(1)
    wait_for(cluster.agrees, 30)
    cluster.close()
    cluster = Joiners(2, 2)
    for rank in range(2):  # anew: the second of the list asks the first which rank it has
        cluster.kill(rank)
        shutil.rmtree(cluster.state(rank))
    cluster.start(0)
    cluster.listed = 1
    cluster.back(1)
    cluster.wait_ready(0)
    wait_for(cluster.agrees, 30)
    cluster.kill(1)
    cluster.listed = 2
    cluster.back(1)
    wait_for(cluster.agrees, 30)
    cluster.close()


def test_one_of_the_list_that_lost_its_directory_begins_nothing():
    """The only one of its list, and one of three: with the words that it was started with, and by the address of another. A
    cluster lives: it is let in anew, and votes again."""
    for listed in (1, 3):
        cluster = Joiners(listed, 3)
        for rank in range(listed, 3):
            cluster.join_by(rank, 0)
        wait_for(lambda: cluster.agrees() and all(cluster.voters(rank) == [0, 1, 2] for rank in range(3)), 60)
        cluster.put(1, 0, 40, 2000)
        for told, is_out in ((False, True), (True, False), (True, True), (False, False)):
            epoch, began, lets = (cluster.stats(1)["view_epoch"], cluster.log(0).count("the list begins"),
                                  cluster.log(0).count("is let in anew"))
            cluster.lose(0)
            if is_out:
                wait_for(lambda: cluster.agrees(out=(0,)), 30)
            cluster.told = {0} if told else set()
            cluster.by[0] = 2
            cluster.back(0)
            wait_for(lambda: cluster.log(0).count("is let in anew") == lets + 1, 60)
            wait_for(lambda: cluster.agrees() and all(cluster.voters(rank) == [0, 1, 2] for rank in range(3)), 60)
            assert cluster.log(0).count("the list begins") == began and cluster.stats(0)["view_epoch"] >= epoch
            cluster.get_all(0, 0, 40, 2000)
        cluster.kill(1)  # its vote counts
        wait_for(lambda: cluster.agrees(out=(1,)), 60)
        cluster.get_all(0, 0, 40, 2000)
        cluster.close()


def test_a_list_begins_when_all_of_it_kept_nothing():
    """One that is not there may know of a cluster. All of them that lost what they kept are a new one."""
    cluster = Joiners(3, 3)
    for rank in range(3):
        cluster.lose(rank)
    cluster.start(0)
    cluster.start(1)
    for rank in range(2):
        wait_for(lambda: "waits_for=2" in cluster.log(rank), 30)
        assert cluster.stats(rank)["view_quorum"] == 0
    cluster.back(2)
    wait_for(cluster.agrees, 30)
    cluster.close()


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
