#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""In the guest: what nodes over RDMA do when the world below them fails. Links that go down and up during gets, shortly
and for longer than the device tries; devices that are removed under load, the only one, and one of two; a holder whose
process stands still and dies, and one whose whole host is gone. Every get ends once, with the right bytes or by its
deadline; nodes find each other again; the kernel keeps nothing. TAP."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import nighd
from checks import check_all, counted, kept
from nighd import LINK_DOWN, MIB, SLOW, digest, wait_for, write

SILENT = "a member is lost"
HOSTS = os.environ["RDMA_GUEST_HOSTS"].split()
SECOND = HOSTS[3]  # the other device of the first node
GETS = 3  # at once
LARGE = 6 * MIB
TWICE = 5  # objects that two nodes have
TRIES = 5  # to lose something of a get
SPREAD = 6  # objects of a node with two lanes: their names are of both
GET_SECONDS = 20  # of a get that has to come
VAIN_SECONDS = 10  # of one that may not
LATE = 40  # after its deadline a get is not waited for longer: something hangs
SHORT_SECONDS = 0.5
LONG_SECONDS = 5  # seven tries of 0.27 s are over, and the control connections' patience
LIES = 2  # rank of the node that only gets
LANES = (2, 1, 1)  # of each node: the first has a device for each
ENDS = 3  # a rail has three connections, and the first one of a link another, for regions


def net(*words):
    subprocess.run(words, check=True, timeout=SLOW)


def cut(number, seconds):
    """The link of a host, at its other end: its own, when down, was seen to silence rxe of Linux 6.1 for good."""
    net("ip", "link", "set", f"b{number}", "down")
    time.sleep(seconds)
    net("ip", "link", "set", f"b{number}", "up")


def queue_pairs(number):
    """What the kernel has of one device, beside the one of its own."""
    shown = json.loads(subprocess.run(["rdma", "-j", "resource", "show"], check=True, stdout=subprocess.PIPE).stdout)
    return max(0, sum(device.get("qp", 0) for device in shown if device["ifname"] == f"rxe{number}") - 1)


def device_there(number):
    return os.path.exists(f"/sys/class/infiniband/rxe{number}")


class Node(nighd.Node):
    hosts = HOSTS[:3]

    def __init__(self, folder, rank, *flags):
        self.rank = rank
        super().__init__(folder, rank, *flags)


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.digests = {}
        with open(os.open(os.path.join(folder, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("00112233" * 8 + "\n")
        flags = ["--memory", "96M", "--fabric", "verbs", "--log-level", "debug", "--lanes"]
        self.nodes = [Node(folder, rank, *flags, str(LANES[rank]),
                           *(["--fabric-addresses", f"{HOSTS[0]},{SECOND}"] if rank == 0 else [])) for rank in range(3)]

    def alive(self):
        return [node for node in self.nodes if node.process.poll() is None]

    def rails(self, node):
        """Of one that lives, to all others that do."""
        return sum(max(LANES[node.rank], LANES[other.rank]) for other in self.alive() if other is not node)

    def ends(self, node):
        """Connections that these have."""
        return self.rails(node) * ENDS + len(self.alive()) - 1

    def joined(self):
        return all(node.numbers()["links_up"] == self.rails(node) for node in self.alive())

    def count(self, text):
        """How often nodes said that, ever."""
        return sum(node.said().count(text) for node in self.nodes)

    def put(self, holder, name, size=LARGE):
        path = os.path.join(self.folder, "in")
        self.digests[name] = write(path, size, name)
        self.nodes[holder].good("put", name, path)
        os.unlink(path)

    def begin(self, names, seconds=GET_SECONDS):
        return [(name, self.nodes[LIES].begin("get", name, "-o", os.path.join(self.folder, name), "--timeout",
                                              f"{seconds}s")) for name in names]

    def end(self, gets):
        """Statuses; each get has ended, and what it brought is right."""
        codes = []
        for name, get in gets:
            said = get.communicate(timeout=GET_SECONDS + LATE)[1]
            path = os.path.join(self.folder, name)
            if get.returncode == 0:
                assert digest(path) == self.digests[name], f"{name}: other bytes"
                os.unlink(path)
            else:
                assert said, f"{name}: {get.returncode}, and not a word"
                assert not os.path.exists(path), f"{name}: {get.returncode}, and a file"
            codes.append(get.returncode)
        print(f"# gets ended with {codes}", flush=True)
        return codes

    def load(self, holder, name, seconds=GET_SECONDS):
        """Gets that are under way: the holder has lent something."""
        names = [f"{name}-{n}" for n in range(GETS)]
        for each in names:
            self.put(holder, each)
        before = self.nodes[LIES].numbers()["pulled_bytes_one_sided"]
        gets = self.begin(names, seconds)
        wait_for(lambda: self.nodes[holder].numbers()["loans"] > 0 or
                 self.nodes[LIES].numbers()["pulled_bytes_one_sided"] > before)
        return gets

    def expect_again(self, holder, name):
        wait_for(self.joined, 2 * SLOW)
        self.put(holder, name, MIB)
        assert self.end(self.begin([name])) == [0]


def sent_again():
    """Times that a device waited in vain for an answer."""
    return sum(counted(device, "completer_retry_err") for device in os.listdir("/sys/class/infiniband"))


def check_a_short_loss_of_the_link(cluster):
    """In the middle of gets: they are late, and nothing else comes of it. Not looked at is a loss beside which the machine
    itself stood still for so long that nodes were taken for silent."""
    for number in range(TRIES):
        again, downs, silent = sent_again(), cluster.count(LINK_DOWN), cluster.count(SILENT)
        gets = cluster.load(0, f"short-{number}")
        cut(1, SHORT_SECONDS)
        codes = cluster.end(gets)
        if cluster.count(SILENT) > silent:
            wait_for(cluster.joined, 2 * SLOW)
            continue
        assert codes == [0] * GETS, codes
        assert cluster.count(LINK_DOWN) == downs, "a link went down"
        if sent_again() > again:
            return
    raise AssertionError("nothing was lost, or more than that")


def check_a_long_loss_of_the_link(cluster):
    gets, downs = cluster.load(0, "long", VAIN_SECONDS), cluster.count(LINK_DOWN)
    cut(1, LONG_SECONDS)
    cluster.end(gets)
    assert cluster.count(LINK_DOWN) > downs, "no link went down"
    cluster.expect_again(0, "after-long")
    ends = sum(cluster.ends(node) for node in cluster.nodes)
    wait_for(lambda: kept()["qp"] == ends + len(HOSTS) and kept()["cm_id"] == ends + sum(LANES), 2 * SLOW)


@contextlib.contextmanager
def removing(*words):
    """Whoever removes a device waits until nobody has it any more, in the kernel, where no signal ends it: who waits there
    is told of, and not waited for."""
    deleting = subprocess.Popen(words)
    yield
    try:
        deleting.wait(timeout=SLOW)
    except subprocess.TimeoutExpired:
        with open("/proc/sysrq-trigger", "w", encoding="ascii") as file:
            file.write("w")
        raise


def remove(number):
    begun = time.monotonic()
    with removing("rdma", "link", "delete", f"rxe{number}"):
        pass
    print(f"# rxe{number} was removed in {time.monotonic() - begun:.1f} s", flush=True)


def ticks(node):
    with open(f"/proc/{node.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def check_the_only_device_goes_under_load(cluster):
    node = cluster.nodes[1]
    gets = cluster.load(1, "only", VAIN_SECONDS)
    remove(2)
    cluster.end(gets)
    wait_for(lambda: "the RDMA device is lost" in node.said() and "there is no RDMA device" in node.said())
    node.good("ls")  # what is local goes on
    before = ticks(node)
    time.sleep(1)
    used = ticks(node) - before
    assert used < 0.5 * os.sysconf("SC_CLK_TCK"), f"it spins without a device: {used} ticks in a second"
    net("rdma", "link", "add", "rxe2", "type", "rxe", "netdev", "h2")
    cluster.expect_again(1, "after-only")
    assert node.said().count("there is no RDMA device") == 1 and "is there again" in node.said()


def check_lanes_are_spread_over_devices(cluster):
    """A device for each lane; what they are asked for comes by both, as the kernel's queue pairs and packets say."""
    wait_for(cluster.joined, 2 * SLOW)
    second = cluster.rails(cluster.nodes[0]) * ENDS // LANES[0]
    first = cluster.ends(cluster.nodes[0]) - second
    assert (queue_pairs(1), queue_pairs(4)) == (first, second), (queue_pairs(1), queue_pairs(4), first, second)
    before = [counted(f"rxe{number}", "sent_pkts") for number in (1, 4)]
    names = [f"spread-{n}" for n in range(SPREAD)]
    copy = os.path.join(cluster.folder, "copy")
    for name in names:
        cluster.put(0, name, MIB // 4)
        cluster.nodes[LIES].good("get", name, "-o", copy, "--timeout", f"{2 * SLOW}s")
        assert digest(copy) == cluster.digests[name], f"{name}: other bytes"
    after = [counted(f"rxe{number}", "sent_pkts") for number in (1, 4)]
    print(f"# packets of the two devices: {before}, then {after}", flush=True)
    assert all(late > early + 100 for early, late in zip(before, after)), (before, after)


def check_one_of_two_devices_goes_under_load(cluster):
    """Its lane moves to the other's, and what is asked for meanwhile comes."""
    wanted = cluster.ends(cluster.nodes[0])
    gets = cluster.load(0, "two")
    remove(1)
    assert 0 in cluster.end(gets), "no get went on"
    assert not device_there(1)
    cluster.expect_again(0, "after-two")
    assert queue_pairs(4) == wanted, (queue_pairs(4), wanted)
    # The other way round: the first is there again, and the second goes, with both lanes.
    gets = cluster.load(0, "back", VAIN_SECONDS)
    net("rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "h1")
    remove(4)
    cluster.end(gets)
    cluster.expect_again(0, "after-back")
    assert queue_pairs(1) == wanted, (queue_pairs(1), wanted)


def put_twice(cluster, name):
    """At the second node, and some of it at the first, too. Names differ in their homes: what the second is the home of
    nobody else knows of, and it is waited for."""
    names = [f"{name}-{n}" for n in range(TWICE)] + [f"{name}-once"]
    for each in names:
        cluster.put(1, each, MIB)
    for each in names[:-1]:
        cluster.nodes[0].good("get", each, "-o", os.path.join(cluster.folder, "copy"), "--timeout", f"{2 * SLOW}s")
    return names


def expect_the_other_serves(codes):
    assert codes[-1] != 0, "it came from nowhere"
    assert 0 in codes, "no other holder served"


def check_a_holder_that_stands_still_and_dies(cluster):
    """What another has comes from there; what nobody else has is waited for until the deadline."""
    names = put_twice(cluster, "held")
    cluster.nodes[1].process.send_signal(signal.SIGSTOP)
    gets = cluster.begin(names, VAIN_SECONDS)
    time.sleep(SHORT_SECONDS)
    cluster.nodes[1].end(signal.SIGKILL)
    expect_the_other_serves(cluster.end(gets))


def check_a_host_that_is_gone(cluster):
    """Nothing of it is heard any more, and then the devices vanish, RDMA's and the network's; what its node kept is nobody's. Not
    the network's first: rxe of Linux 6.1 may then keep what rdma_cm sends for good, and with it who destroys an identifier."""
    cluster.nodes[1].start()
    wait_for(cluster.joined, 2 * SLOW)
    names = put_twice(cluster, "gone")
    net("ip", "link", "set", "b2", "down")
    with removing("rdma", "link", "delete", "rxe2"):
        gets = cluster.begin(names, VAIN_SECONDS)
    net("ip", "link", "del", "h2")
    codes = cluster.end(gets)
    assert not device_there(2)
    expect_the_other_serves(codes)
    cluster.nodes[1].good("ls")  # it lives, alone
    assert cluster.nodes[1].end(signal.SIGTERM) == 0


def check_nothing_is_left(cluster):
    for node in cluster.alive():
        assert node.end(signal.SIGTERM) == 0, node.said()
    for node in cluster.nodes:
        assert "ERROR: AddressSanitizer" not in node.said() and "level=fatal" not in node.said(), node.said()
    left = kept()
    assert left["cm_id"] == 0 and left["mr"] == 0, left


CHECKS = (check_lanes_are_spread_over_devices, check_a_short_loss_of_the_link, check_a_long_loss_of_the_link,
          check_the_only_device_goes_under_load, check_one_of_two_devices_goes_under_load, check_a_holder_that_stands_still_and_dies,
          check_a_host_that_is_gone, check_nothing_is_left)


def main():
    print(f"1..{len(CHECKS)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        cluster = Cluster(folder)
        try:
            wait_for(cluster.joined, 2 * SLOW)
            return check_all(CHECKS, lambda: [node.fate() for node in cluster.nodes], cluster)
        finally:
            for node in cluster.alive():
                node.process.send_signal(signal.SIGCONT)
                node.end(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
