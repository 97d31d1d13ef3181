#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""nigh support: what somebody needs who is to help is in the report, and no key, password, name or byte of what is kept."""
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import raw_session as raw  # noqa: E402
from cli_test import EXISTS, FAILED, OK, USAGE, fails, good, read, run, write  # noqa: E402

KEY = "5ec2e7" * 10 + "beef"
OBJECT, REGION, SPACE, POOL, PASSWORD = "quarterly-bonus", "blackmail", "kompromat", "harem", "sesame77"


def start(folder):
    """A node with all that may be named, and with things in it."""
    key, password = write(folder, "cluster.key", KEY.encode()), write(folder, "password", PASSWORD.encode())
    os.chmod(key, 0o600)
    os.chmod(password, 0o600)
    config = write(folder, "nighd.conf", f"[node]\n# {PASSWORD}, as everywhere\nspace-memory = 64M\n[pool {POOL}]\n"
                                         f"mode = 0600\n".encode())
    http, port = raw.free_ports(2)
    node = raw.Node("--config", config, "--cluster-key", key, "--member", f"{socket.gethostname()}:{port}", "--listen",
                    f"127.0.0.1:{port}", "--state", os.path.join(folder, "votes"), "--http", f"127.0.0.2:{http}")
    assert node.ready
    good("put", OBJECT, "-", node=node, data=b"velvet hippopotamus")
    good("region", "create", REGION, "64K", "--timeout", "20s", node=node)
    good("space", "create", SPACE, "1M", "--timeout", "20s", node=node)
    return node


def secrets(folder):
    return [KEY, PASSWORD, OBJECT, REGION, SPACE, POOL, socket.gethostname(), os.path.basename(folder), "velvet",
            "127.0.0.1"]


def expect_without(text, words):
    for word in words:
        assert re.search(r"(?<![A-Za-z])" + re.escape(word), text) is None, (word, text[max(0, text.find(word) - 200):][:400])


def test_what_is_in_it_and_what_is_not():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node, report = start(folder), os.path.join(folder, "report.txt")
        # A log with all of it, as one that another program writes to may have.
        log = write(folder, "log", "".join(
            f'time=2026-11-30T01:05:28.941933Z level=warn module=node msg="a member is lost" rank=1 address={word} why="{word}"\n'
            for word in [*secrets(folder), "redis://user:" + PASSWORD + "@zanzibar:6379", "id:" + "ab" * 20]).encode())
        said = good("support", "--output", report, "--log", log, node=node).decode()
        text = read(report).decode()
        assert stat.S_IMODE(os.stat(report).st_mode) == 0o600
        for part in ("versions", "nigh doctor", "nigh nodes", "nigh top", "metrics", "options of the node", "memory of the machine",
                     "limits of the node", "log"):
            assert f"\n== {part}\n" in text and f"bytes  {part}\n" in said, part
        # It is of use: findings, numbers, options and what happened are there.
        assert '"finding": "answers; ' in text and '"subject": "huge pages"' in text
        assert '"objects": 1,' in text and "\nnigh_objects 1\n" in text, text
        assert "\nmemory=\"" in text and '\nspace-memory="64M"\n' in text and "\nMemTotal: " in text
        assert "Max open files" in text
        assert 'level=warn module=node msg="a member is lost" rank=1' in text
        expect_without(text, [*secrets(folder), "zanzibar", "abab"])
        assert "keys and passwords" in said and "Look through it before you send it." in said
        assert "what objects and regions hold or are called, what spaces hold" in said
        assert "(hosts, nodes, users, pools, spaces, files, addresses) became ~" in said
        removed = int(re.search(r"\((\d+) found", said)[1])
        assert removed >= 4 and re.search(r"^[1-9]\d* words", said, re.M), said
        fails(EXISTS, ["--output"], "support", "--output", report, node=node)
        # The same word is the same digits in one report, and other ones in the next.
        member = re.findall(r'"address": "(~[0-9a-f]{8})"', text)
        assert len(member) == 1 and f'nigh_member_up{{rank="0",address="{member[0]}"}} 1' in text, member
        assert member[0] not in good("support", "--output", "-", node=node).decode()
        assert node.stop()[0] == 0


def test_names_are_kept_when_asked_for():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node, report = start(folder), os.path.join(folder, "report.txt")
        log = write(folder, "log", f'msg="x" why="{KEY}" at=redis://user:{PASSWORD}@elsewhere:6379\n'.encode())
        said = json.loads(good("support", "--names", "--json", "--output", report, "--log", log, node=node))
        text = read(report).decode()
        assert said["file"] == report and said["names"] is True and said["words_hashed"] == 0 and said["secrets_removed"] >= 2
        assert [part["part"] for part in said["parts"]][-1] == "log" and all(part["bytes"] > 0 for part in said["parts"])
        assert socket.gethostname() in text and folder in text and "@elsewhere:6379" in text
        assert f'space="{SPACE}"' in text, "as its metrics have it"
        expect_without(text, [KEY, PASSWORD, OBJECT, REGION, "velvet"])
        os.unlink(report)
        said = good("support", "--names", "--output", report, node=node).decode()
        assert "Not in it: what objects and regions hold or are called, what spaces hold" in said
        assert "it has the names of hosts, nodes, users, pools, spaces, files and addresses" in said and "spaces are called" not in said
        assert node.stop()[0] == 0


def test_passwords_of_a_file_that_nighd_refuses():
    """With blanks, or so long that the value is cut."""
    for value in ("redis://usr:abc 123456 state x9@zanzibar:6379/0", "unix://usr:abc 123456 state@x9@zanzibar",
                  "redis:/usr:abc 123456 state@zanzibar", "redis://usr:abc 123456 state " + "123456" * 50 + "@host",
                  "redis://usr:abc 123456 state " + "123456" * 100 + "=123456"):
        with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
            config = write(folder, "nighd.conf", f"[node]\ndirectory = {value}\n".encode())
            env = {"NIGH_SOCKET": os.path.join(folder, "none")}
            text = good("support", "--names", "--output", "-", "--config", config, env=env).decode()
            part = text.split("\n== options of the node\n")[1].split("\n== ")[0]
            assert "directory=\"" in part and "://<removed>" in part, part
            assert ("@zanzibar" in part) == ("zanzibar" in value), part
            for word in ("usr", "abc", "123456", "state", "x9"):
                assert word not in part, (word, part)


def test_the_log_that_the_node_writes_to():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        with open(os.path.join(folder, "log"), "wb") as log:
            node = subprocess.Popen([os.environ["NIGHD"], "--memory", "64M", "--socket", os.path.join(folder, "sock")], stderr=log)
        raw.Node.running.append(node)
        raw.wait_for(lambda: os.path.exists(os.path.join(folder, "sock")))
        text = good("support", "--output", "-", "--socket", os.path.join(folder, "sock")).decode()
        assert 'msg="node started"' in text.split("\n== log\n")[1]
        expect_without(text, [os.path.basename(folder)])
        # What its options are is read, and what they name is not in the way of the doctor.
        assert '\nmemory="64M"\n' in text
        node.terminate()
        assert node.wait(timeout=60) == 0


def test_a_file_that_the_node_may_not_write_is_no_log():
    """It may have a name for a file (O_PATH) that only who asks for the report may read."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        write(folder, "secret", b"level=warn msg=\"a member is lost\"\n")
        for flags in (os.O_PATH, os.O_RDONLY):
            secret = os.open(os.path.join(folder, "secret"), flags)
            node = subprocess.Popen([os.environ["NIGHD"], "--memory", "64M", "--socket", os.path.join(folder, "sock")], stderr=secret)
            os.close(secret)
            raw.Node.running.append(node)
            raw.wait_for(lambda: os.path.exists(os.path.join(folder, "sock")))
            text = good("support", "--output", "-", "--socket", os.path.join(folder, "sock")).decode()
            assert text.split("\n== log\n")[1].startswith("none: "), (flags, text[-300:])
            node.terminate()
            assert node.wait(timeout=60) == 0


def words_of(data):
    """Of six letters and more, as they stand."""
    return {word.lower() for word in re.findall(rb"(?<![A-Za-z0-9])[A-Za-z]{6,}(?![A-Za-z0-9])", data)}


def test_what_only_the_page_says():
    """What a browser is given lies in nighd, too, and nigh does not say it."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        page = os.path.join(os.environ["NIGH_SOURCE"], "src", "daemon", "page")
        files = [read(os.path.join(page, name)) for name in ("page.js", "page.css", "index.html")]
        known = read("/proc/meminfo") + read("/proc/self/limits")
        nigh = os.environ["NIGH"]
        for program in (os.environ["NIGHD"], nigh, os.path.join(os.path.dirname(nigh), "..", "client", "libnigh.so")):
            text = read(program)
            for file in files:
                text = text.replace(file, b"")
            known += text
        known = known.lower()
        lone = sorted(word for word in words_of(files[0]) if word not in known)
        assert lone
        with open(os.path.join(folder, "said"), "wb") as said:
            node = subprocess.Popen([os.environ["NIGHD"], "--memory", "64M", "--socket", os.path.join(folder, "sock")], stderr=said)
        raw.Node.running.append(node)
        raw.wait_for(lambda: os.path.exists(os.path.join(folder, "sock")))
        log = write(folder, "log", b"member " + b" ".join(lone) + b"\n")
        text = good("support", "--output", "-", "--socket", os.path.join(folder, "sock"), "--log", log).decode()
        assert re.search(r"\n== log\nmember( ~[0-9a-f]{8})+\n$", text), (lone, text[-400:])
        node.terminate()
        assert node.wait(timeout=60) == 0


def drip(listener):
    """Answers without end, a byte at a time."""
    connection, _ = listener.accept()
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nnigh_objects 1\n")
        for _ in range(600):
            connection.sendall(b"#")
            time.sleep(0.1)
    except OSError:
        pass
    connection.close()


def test_metrics_that_do_not_end():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        config = write(folder, "nighd.conf", f"[node]\nhttp = 127.0.0.1:{port}\n".encode())
        begun = time.monotonic()
        text = good("support", "--output", "-", "--config", config, env={"NIGH_SOCKET": os.path.join(folder, "none")}).decode()
        assert time.monotonic() - begun < 30, "not as long as it goes on"
        metrics = text.split("\n== metrics\n")[1].split("\n== ")[0]
        assert metrics.startswith("nigh_objects 1\n") and "it did not end in time" in metrics, metrics[-100:]


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def test_a_verb_that_does_not_end():
    """Here: nigh doctor stands still while it waits for a node that does."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        node, report = raw.Node(), os.path.join(folder, "report")
        raw.halt(node.process)
        begun = time.monotonic()
        support = subprocess.Popen([os.environ["NIGH"], "support", "--output", report, "--socket", node.path, "--timeout", "1s"],
                                   stdout=subprocess.DEVNULL)
        raw.Node.running.append(support)

        def verbs():
            return [child for child in children_of(support.pid) if b"\0doctor\0" in read(f"/proc/{child}/cmdline")]

        raw.wait_for(verbs, 60)
        (verb,) = verbs()
        os.kill(verb, signal.SIGSTOP)
        assert support.wait(timeout=100) == OK
        raw.Node.running.remove(support)
        assert time.monotonic() - begun >= 20 and not os.path.exists(f"/proc/{verb}")
        text = read(report).decode()
        assert "it did not end in time" in text.split("\n== nigh doctor\n")[1].split("\n== ")[0]
        assert "\n== log\n" in text
        node.process.send_signal(signal.SIGCONT)
        assert node.stop()[0] == 0


def test_a_node_with_a_network_of_its_own():
    """Who listens at its port here is another program."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        port, path = listener.getsockname()[1], os.path.join(folder, "sock")
        with open(os.path.join(folder, "said"), "wb") as said:
            node = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh", os.environ["NIGHD"],
                                     "--memory", "64M", "--socket", path, "--http", str(port)], stderr=said)
        raw.Node.running.append(node)
        try:
            raw.wait_for(lambda: os.path.exists(path) or node.poll() is not None)
            if node.poll() is not None:
                raise raw.Skipped("no network of its own is to be had")
            listener.settimeout(0.1)
            text = good("support", "--output", "-", "--socket", path).decode()
            assert "none: the node has a network of its own" in text.split("\n== metrics\n")[1]
            try:
                listener.accept()
                raise AssertionError("another program was asked")
            except TimeoutError:
                pass
        finally:
            node.terminate()
            node.wait(timeout=60)


def test_a_program_with_a_node_in_it():
    """What it says, in its constants and on standard error, is nobody's business."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        path, program = os.path.join(folder, "sock"), os.path.join(os.environ["NIGH_BUILD"], "examples", "example-embedded")
        if not os.path.exists(program):
            raise raw.Skipped("the examples are not built")
        with open(os.path.join(folder, "said"), "wb") as said:
            node = subprocess.Popen([program, path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
        raw.wait_for(lambda: b"until the end" in read(os.path.join(folder, "said")))
        text = good("support", "--output", "-", "--socket", path).decode()
        assert text.split("\n== log\n")[1].startswith("none: "), text
        log = write(folder, "log", b"a greeting\n")
        text = good("support", "--output", "-", "--socket", path, "--log", log).decode()
        assert re.search(r"\n== log\na ~[0-9a-f]{8}\n", text), text
        node.communicate(timeout=60)
        assert node.returncode == 0


def test_a_program_that_is_not_nighd():
    """What only it says stays nobody's business, though it has a node."""
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        path, said = os.path.join(folder, "sock"), os.path.join(folder, "said")
        with open(said, "wb") as log:
            node = subprocess.Popen(["other", "--memory", "64M", "--socket", path], executable=os.environ["NIGHD"], stderr=log)
        raw.Node.running.append(node)
        raw.wait_for(lambda: b"node started" in read(said))
        nigh = os.environ["NIGH"]
        known = b"".join(read(file).lower() for file in (nigh, os.path.join(os.path.dirname(nigh), "..", "client", "libnigh.so")))
        helped = subprocess.run([os.environ["NIGHD"], "--help"], stdout=subprocess.PIPE, check=True).stdout
        lone = [word for word in re.findall(rb"[a-z]{4,}", helped) if word not in known]
        log = write(folder, "log", b" ".join(lone[:1]) + b"\n")
        text = good("support", "--output", "-", "--socket", path, "--log", log).decode()
        assert lone and re.search(r"\n== log\n~[0-9a-f]{8}\n$", text), (lone, text[-200:])
        assert good("support", "--output", "-", "--socket", path).decode().split("\n== log\n")[1].startswith("none: ")
        node.terminate()
        assert node.wait(timeout=60) == 0


def test_no_node():
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        env = {"NIGH_SOCKET": os.path.join(folder, "none")}
        config = write(folder, "nighd.conf", b"[node]\nmemory = 3G\ncluster-key = /no/such/key\n")
        text = good("support", "--output", "-", "--config", config, env=env).decode()
        assert 'memory="3G"' in text and '"subject": "cluster key"' in text and '"severity": "bad"' in text
        assert "== log\nnone: " in text and "journalctl" in text
        # Who became root is a name, too, where nigh says the word.
        assert re.search(r"\bhuge\b", text)
        assert not re.search(r"\bhuge\b", good("support", "--output", "-", env={**env, "SUDO_USER": "huge"}).decode())
        code, printed, _ = run("support", env=env, cwd=folder)
        made = [name for name in os.listdir(folder) if re.fullmatch(r"nigh-support-\d{8}-\d{6}\.txt", name)]
        assert code == OK and len(made) == 1 and made[0].encode() in printed
        fails(FAILED, ["--log"], "support", "--log", os.path.join(folder, "nothing"), env=env)
        for option in ("--log", "--config"):
            fails(FAILED, ["no file"], "support", option, folder, "--output", "-", env=env)
        fails(FAILED, [folder], "support", "--output", os.path.join(folder, "no", "such"), env=env)
        fails(USAGE, ["no argument"], "support", "x", env=env)
        with open("/dev/full", "wb") as full:
            assert run("support", "--output", "-", env=env, stdout=full)[0] == FAILED


if __name__ == "__main__":
    sys.exit(raw.run_tests(globals()))
