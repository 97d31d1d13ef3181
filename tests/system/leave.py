#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A node that leaves: what only it held is at the others when it is killed, it takes nothing new, and who may say so."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cluster_cli import EXISTS, FAILED, OK, Member  # noqa: E402
from cluster_views import Voters  # noqa: E402
from raw_session import Node, Session, free_ports, wait_for  # noqa: E402
from replicas import DEAD_MS, LOOK_S, MIB, Five, bytes_of, kill  # noqa: E402

OBJECTS = 20
ANOTHER, DENIED = 4321, 5  # a uid; an exit code


class Apart(Five):
    """Each node has flags, and a folder, of its own."""

    def __init__(self, flags, nodes):
        super().__init__(nodes=0)
        self.folders = [os.path.join(self.folder.name, f"own{rank}") for rank in range(nodes)]
        self.join = ",".join(f"127.0.0.1:{port}" for port in free_ports(nodes))
        for rank, folder in enumerate(self.folders):
            os.mkdir(folder, 0o700)
            self.members.append(Member(self.folder.name, rank, self.join, os.path.join(self.folder.name, "key"),
                                       "--dead-ms", str(DEAD_MS), *flags(rank, folder)))


class Another:
    """Another uid. The program itself, and its library, must be within its reach, and so must the sockets."""

    def __init__(self, cluster):
        if os.geteuid() != 0:
            raise raw.Skipped("only root can become another uid")
        self.folder = tempfile.TemporaryDirectory()
        self.program = shutil.copy(os.environ["NIGH"], self.folder.name)
        library = shutil.copy(os.path.join(os.environ["NIGH_BUILD"], "src", "client", "libnigh.so.0"), self.folder.name)
        for path in (self.folder.name, self.program, library, cluster.folder.name):
            os.chmod(path, 0o755)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.folder.cleanup()

    def run(self, member, *arguments, data=b""):
        """Its exit code, and all that it said."""
        ran = subprocess.run([self.program, "--socket", member.path, *arguments], input=data, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, user=ANOTHER, group=ANOTHER,
                             extra_groups=[], env={"LD_LIBRARY_PATH": self.folder.name})
        return ran.returncode, ran.stdout


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
        assert code == FAILED and "nigh leave --undo" in said, said
        kill(members[0])
        for n in range(OBJECTS):
            wait_for(lambda n=n: members[1 + n % 2].run("get", f"{n}")[:2] == (OK, bytes_of(f"{n}")), LOOK_S)


def test_a_home_that_left_is_replaced():
    """Where nodes agree on views: what it had, and where things are, is known without it, and again when it is back."""
    cluster = Voters(3)
    wait_for(cluster.agrees, 30)
    for rank in range(3):
        cluster.put(rank, rank * 1000, OBJECTS, 2000)
    done = cluster.nigh(2, "leave", "--json")
    left = json.loads(done.stdout)
    assert done.returncode == OK and left["safe"]["objects"] == OBJECTS and left["alone"]["objects"] == 0, done
    cluster.kill(2)
    wait_for(lambda: cluster.agrees(out=(2,)), 40)
    for rank in range(2):
        for other in range(3):
            cluster.get_all(rank, other * 1000, OBJECTS, 2000)
    # Every key has a home: names are claimed by one alone, and deletes are over when they say so.
    for n in range(OBJECTS):
        assert cluster.nigh(n % 2, "put", f"name {n}", "-", input=b"first").returncode == OK
        assert cluster.nigh(1 - n % 2, "put", f"name {n}", "-", input=b"second").returncode == EXISTS
        assert cluster.nigh(1 - n % 2, "rm", f"name {n}").returncode == OK
    cluster.back(2)
    wait_for(cluster.agrees, 40)
    for other in range(3):
        cluster.get_all(2, other * 1000, OBJECTS, 2000)
    assert cluster.nigh(2, "put", "new", "-", input=b"x").returncode == OK, "that it left is not kept"
    cluster.close()


def test_what_was_created_before_is_sealed_and_handed_over():
    """Of the session protocol: created, the node leaves, sealed; what is created later is refused."""
    cluster = Five("--lanes", "1", nodes=2)
    with cluster as members:
        cluster.wait_met()
        members[1].good("put", "a pool", "-", data=b"x")
        session, oid, data = Session(members[0].path), b"\x15" * 20, b"created before"
        assert session.call(raw.OP_CREATE, oid=oid, data_size=len(data))[1] == "NIGH_OK"
        fields = session.fields(session.completions())
        number, inside = divmod(fields[2], session.welcome.extent_bytes)
        _, fd = session.extent(number, 1)
        os.pwrite(fd, data, inside)
        os.close(fd)

        code, printed, _ = members[0].run("leave", "--timeout", "1s", "--json")
        assert (code, json.loads(printed)["unsealed"]) == (7, 1), (code, printed)
        assert session.call(raw.OP_CREATE, oid=b"\x16" * 20, data_size=1)[1] == "NIGH_LEAVING"
        assert session.call(raw.OP_LEASE, argument=1 << 16)[1] == "NIGH_LEAVING"
        assert session.call(raw.OP_SEAL, oid=oid, data_size=len(data), ref=fields[7])[1] == "NIGH_OK"
        left = members[0].parsed("leave")
        assert left["safe"]["objects"] == 1 and left["unsealed"] == 0, left
        kill(members[0])
        wait_for(lambda: members[1].run("get", "id:" + oid.hex())[:2] == (OK, data), LOOK_S)


def test_looking_changes_nothing_and_undo_takes_puts_again():
    cluster = Five(nodes=2)
    with cluster as members:
        cluster.wait_met()
        members[1].good("put", "a pool", "-", data=b"x")
        members[0].good("put", "kept", "-", data=bytes_of("kept"))
        assert members[0].parsed("leave", "--look")["leaving"] is False
        members[0].good("put", "taken", "-", data=b"x")
        assert members[0].good("leave", "--look") == b"the node does not leave\n"

        assert members[0].parsed("leave")["safe"]["objects"] == 2
        looked = members[0].parsed("leave", "--look")
        assert looked["leaving"] is True and looked["safe"]["objects"] == 2, looked
        assert members[1].names()["kept"] is False, "it counts as what was put there"
        assert members[0].run("put", "refused", "-", data=b"x")[0] == FAILED

        assert members[0].parsed("leave", "--undo")["leaving"] is False
        members[0].good("put", "taken again", "-", data=b"x")
        wait_for(lambda: members[1].names().get("kept", True), LOOK_S)  # a copy, or it has been evicted
        assert members[0].good("get", "kept") == bytes_of("kept")
        assert members[0].parsed("leave")["safe"]["objects"] == 3, "and it may leave again"


def test_all_nodes_tell_who_leaves():
    """While it leaves, and not any more once that was undone, or it was started again."""
    cluster = Five(nodes=2)
    with cluster as members:
        cluster.wait_met()
        assert b"leaving" not in members[1].good("nodes")
        for end in (lambda: members[0].good("leave", "--undo"), lambda: (members[0].end(), members[0].start())):
            members[0].good("leave")
            wait_for(lambda: all(member.states() == ["leaving", "up"] for member in members), LOOK_S)
            assert [b"leaving" in line for line in members[1].good("nodes").splitlines()] == [False, True, False]
            end()
            wait_for(lambda: all(member.states() == ["up", "up"] for member in members), LOOK_S)


def left(member, *arguments):
    """The exit code of a leave, and what it says in JSON."""
    code, printed, _ = member.run("leave", "--json", *arguments)
    return code, json.loads(printed)


def test_members_that_are_full_take_nothing():
    """What has no room anywhere stays, and it is said why; it goes when there is room."""
    cluster = Five("--lanes", "1", nodes=2)
    with cluster as members:
        cluster.wait_met()
        members[0].good("put", "large", "-", data=bytes(24 * MIB))
        fills = 0
        while members[1].numbers()["evictions"] == 0:
            members[1].good("put", f"fill {fills}", "-", data=bytes(8 * MIB))
            fills += 1
        evicted = members[1].numbers()["evictions"]
        code, said = left(members[0])
        assert (code, said["stuck"]["objects"], said["why"]["no room"]) == (FAILED, 1, 1), (code, said)
        assert said["alone"]["objects"] == 1 and said["safe"]["objects"] == 0, said
        assert members[1].numbers()["evictions"] == evicted, "nothing makes room for it"
        assert members[0].good("get", "large") == bytes(24 * MIB)

        members[1].run("rm", *[f"fill {n}" for n in range(fills)])
        wait_for(lambda: left(members[0])[0] == OK, 60)
        kill(members[0])
        wait_for(lambda: members[1].run("get", "large")[:2] == (OK, bytes(24 * MIB)), LOOK_S)


def test_fewer_stay_than_copies_were_asked_for():
    """It ends and says so: of these the others have what there can be. With one more node it ends well."""
    cluster = Five(nodes=3)
    with cluster as members:
        cluster.wait_met()
        for member in members:
            member.good("put", f"a pool of {member.path}", "-", data=b"x")
        for n in range(OBJECTS):
            members[0].good("put", f"{n}", "-", "--replicas", f"{2 + n % 2}", data=bytes_of(f"{n}"))
        kill(members[2])
        wait_for(lambda: members[0].parsed("nodes")[2]["state"] == "dead", 30)
        begun = time.monotonic()
        code, said = left(members[0])
        assert (code, said["stuck"]["objects"], said["why"]["nobody"]) == (FAILED, OBJECTS, OBJECTS), (code, said)
        assert time.monotonic() - begun < 30, "it does not wait for its --timeout"
        assert (said["safe"]["objects"], said["alone"]["objects"], said["waiting"]["objects"]) == (1, 0, 0), said
        _, printed, told = members[0].run("leave")
        assert f"nothing is lost with this node, but {OBJECTS} objects have fewer copies" in told, told
        assert f"{OBJECTS}: no other node is up that stays and has none" in printed.decode(), printed
        for n in range(OBJECTS):
            assert members[1].good("get", f"{n}") == bytes_of(f"{n}")


def test_a_pool_that_nobody_else_has_stays():
    """Until somebody of its uid was at another node."""
    cluster = Five(nodes=2)
    with cluster as members, Another(cluster) as another:
        cluster.wait_met()
        assert another.run(members[0], "put", "kept", "-", data=bytes_of("kept"))[0] == OK
        code, said = left(members[0])
        assert (code, said["stuck"]["objects"], said["why"]["no pool"]) == (FAILED, 1, 1), (code, said)
        _, printed, said = members[0].run("leave")
        assert "no other node that is up has the pool" in printed.decode() + said, (printed, said)
        assert another.run(members[0], "get", "kept") == (OK, bytes_of("kept"))
        assert another.run(members[1], "ls")[0] == OK
        wait_for(lambda: left(members[0])[0] == OK, 60)
        kill(members[0])
        wait_for(lambda: another.run(members[1], "get", "kept") == (OK, bytes_of("kept")), LOOK_S)


def test_what_is_on_disk_is_handed_over():
    cluster = Apart(lambda rank, folder: [["--memory", "64M", "--spill", folder, "--spill-max", "1G"], []][rank > 0],
                    nodes=2)
    with cluster as members:
        cluster.wait_met()
        members[1].good("put", "a pool", "-", data=b"x")
        for n in range(OBJECTS):
            members[0].good("put", f"{n}", "-", data=bytes_of(f"{n}") * 600)
        assert members[0].numbers()["spills"] > 0 and members[0].numbers()["evictions"] == 0
        code, said = left(members[0])
        assert (code, said["safe"]["objects"], said["alone"]["objects"]) == (OK, OBJECTS, 0), (code, said)
        kill(members[0])
        for n in range(OBJECTS):
            wait_for(lambda n=n: members[1].run("get", f"{n}")[:2] == (OK, bytes_of(f"{n}") * 600), LOOK_S)


def test_a_node_that_is_alone_does_not_leave():
    node = Node()
    for arguments in (("leave",), ("leave", "--undo"), ("leave", "--look")):
        ran = subprocess.run([os.environ["NIGH"], "--socket", node.path, *arguments], capture_output=True, check=False)
        assert ran.returncode == FAILED and b"alone" in ran.stderr, (arguments, ran)
    subprocess.run([os.environ["NIGH"], "--socket", node.path, "put", "x", "-"], input=b"x", check=True)
    assert node.stop()[0] == 0


def test_another_uid_may_look_and_nothing_else():
    cluster = Five(nodes=2)
    with cluster as members, Another(cluster) as another:
        cluster.wait_met()

        def run(*arguments):
            code, said = another.run(members[0], *arguments)
            return code, said.decode()

        code, said = run("leave")
        assert code == DENIED and "only root" in said, (code, said)
        assert members[0].parsed("leave", "--look")["leaving"] is False
        members[0].good("leave")
        code, said = run("leave", "--undo")
        assert code == DENIED and "only root" in said, (code, said)
        code, said = run("leave", "--look", "--json")
        assert code == OK and json.loads(said)["leaving"] is True, (code, said)


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
