#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""guest_killed.py OPTION...: boots two guests (with these options of tools/rdma-guest), joined by a segment, each with a
node of killed.py. Passes on what the survivor says, and does what it asks for: stops the peer's virtual machine, kills
it, boots another. TAP."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
IN_GUEST, IN_BOTH = os.path.join(HERE, "in_guest.sh"), os.path.join(HERE, "killed.py")
READY = os.path.join(HERE, "..", "..", "tools", "rdma-guest-build"), "--ready"
SECONDS = 120  # for the new peer to end in


class Guest:
    """What it prints goes to the file output; None: to a pipe."""

    def __init__(self, options, output, *command):
        self.process = subprocess.Popen([IN_GUEST, "-n", "1", *options, IN_BOTH, *command], text=True,
                                        stdin=subprocess.DEVNULL, stdout=output or subprocess.PIPE,
                                        stderr=subprocess.STDOUT if output else None)

    def signal_machine(self, number):
        """To qemu, the only child of tools/rdma-guest."""
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            qemu, = file.read().split()
        os.kill(int(qemu), number)
        return qemu

    def freeze(self):
        qemu = self.signal_machine(signal.SIGSTOP)
        while not is_stopped(qemu):
            time.sleep(0.01)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


def is_stopped(pid):
    """All its threads: its processors are some of them."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "T":
                return False
    return True


class Outside:
    def __init__(self, folder, port, options):
        self.folder, self.port, self.options = folder, port, [*options, "-w", folder]
        self.said = open(os.path.join(folder, "said"), "w+", encoding="utf-8", errors="replace")
        self.survivor = Guest([*self.options, "--segment", f"listen:{port}"], None, "survivor", folder)
        self.peer, self.life = None, 0
        self.boot()

    def boot(self):
        self.life += 1
        self.peer = Guest([*self.options, "--first", "2", "--segment", f"connect:{self.port}"], self.said, "peer",
                          self.folder, str(self.life))

    def tell(self, name, text):
        """Whole, or not at all."""
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def do(self, words):
        verb, answer = words.split()[0], ""
        if verb == "freeze":
            self.peer.freeze()
        elif verb == "thaw":
            self.peer.signal_machine(signal.SIGCONT)
        elif verb == "kill":
            self.peer.signal_machine(signal.SIGKILL)
            answer = str(self.peer.process.wait())
        elif verb == "boot":
            self.boot()
        elif verb == "end":
            self.tell("over", "")
            answer = str(self.peer.process.wait(timeout=SECONDS))
        self.tell(words.replace(" ", "-"), answer)

    def follow(self):
        for line in self.survivor.process.stdout:
            if line.startswith("!"):
                self.do(line[1:].strip())
            else:
                print(line, end="", flush=True)
        return self.survivor.process.wait()

    def tell_of_peer(self):
        self.said.seek(0)
        for line in self.said:
            print("# peer: " + line, end="")

    def end(self):
        for guest in (self.survivor, self.peer):
            guest.end()
        self.said.close()


def main():
    if subprocess.run(READY, check=False).returncode != 0:
        print("1..0 # SKIP no guest: make test-rdma sets it up")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Bound, and not listened at: the port is qemu's, which shares it, and nobody else's.
    with socket.socket() as kept, tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        outside = Outside(folder, kept.getsockname()[1], sys.argv[1:])
        try:
            status = outside.follow()
            if status != 0:
                outside.tell_of_peer()
            return status
        finally:
            outside.end()


sys.exit(main())
