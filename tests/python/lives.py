#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long things live in Python: clients that are closed, threads, children of fork, signals, nodes that die."""
import gc
import os
import pickle
import random
import select
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, Skipped, child_of, halt, in_child, other, raises, run_tests, wait_for, with_client  # noqa: E402

import nigh  # noqa: E402


def in_four(work):
    """Threads, each with a number of its own, until all have ended."""
    threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@with_client()
def test_a_closed_client_refuses(client):
    second = other(client)
    assert not second.closed
    second.close()
    second.close()
    assert second.closed
    for call in (lambda: second.put("x", b""), lambda: second.get("x", 0), lambda: second.contains("x"),
                 second.stats, second.fileno, second.poll, lambda: second.get_start(["x"]),
                 lambda: second.call("x"), lambda: second.register("x"), lambda: second.open_region("x"),
                 lambda: second.open_space("x"), lambda: second.list_some(0)):
        with raises(nigh.ClosedError, "closed"):
            call()
    with raises(RuntimeError):
        second.__init__(client.node.path)
    never = nigh.Client.__new__(nigh.Client)
    for shut in (second, never):
        with raises(nigh.ClosedError, "closed"), shut:
            raise AssertionError("it was entered")
    with raises(TypeError, "never opened"):
        pickle.dumps(never)


@with_client()
def test_a_pickled_client_opens_another(client):
    sessions = client.stats()["sessions"]
    second = nigh.Client(client.node.path, read_only=True, name="again")
    third = pickle.loads(pickle.dumps(second))
    assert isinstance(third, nigh.Client) and client.stats()["sessions"] == sessions + 2
    second.close()
    client.put("x", b"abc")
    assert bytes(third.get("x", 0)) == b"abc"
    with raises(nigh.DeniedError):
        third.put("y", b"")
    third.close()


@with_client()
def test_a_session_ends_with_its_last_view(client):
    sessions = client.stats()["sessions"]
    second = other(client)
    second.put("x", b"abc")
    view = second.get("x", 0)
    writer = second.create("y", 4 * MIB)
    buffer = memoryview(view)
    second.close()
    assert bytes(buffer) == b"abc"
    assert client.stats()["sessions"] == sessions + 1
    writer.write(b"1234")
    writer.seal()
    assert client.contains("y")
    del view
    assert bytes(buffer) == b"abc"
    del buffer
    wait_for(lambda: client.stats()["sessions"] == sessions)


@with_client()
def test_a_client_that_is_forgotten_is_closed(client):
    sessions = client.stats()["sessions"]
    second = other(client)
    second.put("x", b"")
    region = second.create_region("r", 4096)
    del second
    assert client.stats()["sessions"] == sessions + 1
    del region
    gc.collect()
    wait_for(lambda: client.stats()["sessions"] == sessions)


@with_client()
def test_children_have_none_of_it(client):
    client.put("x", b"abc")
    view = client.get("x", 0)
    writer = client.create("made", 16)
    region = client.create_region("r", 4096, mappable=True)
    mapping = region.map()
    service = client.register("s")
    memory = client.alloc_bulk(4096)
    pending = client.get_start(["never"])
    caller = other(client)
    call = caller.call_start("s", b"x")
    request = service.receive(20)

    def child():
        for call in (lambda: client.get("x", 0), lambda: client.put("y", b""), writer.seal, request.reply,
                     lambda: region.read(0, 8), lambda: service.receive(0), pending.result, pending.wait):
            with raises(nigh.ForkedError, "child"):
                call()
        assert not pending.done()
        for buffer in (view, mapping):
            with raises(BufferError, "parent"):
                memoryview(buffer)
        for buffer in (writer, memory):
            with raises(BufferError, "child"):
                memoryview(buffer)
        own = other(client)
        assert bytes(own.get("x", 0)) == b"abc"
        own.close()

    in_child(child)
    # And what a child lets go of is the parent's still.
    in_child(lambda: [thing.close() for thing in (client, region, service)])
    assert bytes(view) == b"abc"
    writer.seal()
    region.write(0, b"12345678")
    assert bytes(memoryview(mapping)[:8]) == b"12345678"
    request.reply(b"still")
    wait_for(lambda: caller.poll() >= 0 and call.done())
    assert call.result() == b"still"
    pending.cancel()


@with_client()
def test_a_child_that_ends_as_python_does(client):
    """All that it inherited is taken apart there; the parent's is whole."""
    client.put("x", b"abc")
    view = client.get("x", 0)
    pid = os.fork()
    if pid == 0:
        client.node.folder._finalizer.detach()  # the folder is the parent's
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert bytes(view) == b"abc" and client.stat("x")["holders"] == 1


@with_client()
def test_threads_share_a_client(client):
    """Each puts, and gets what the others put."""
    count, each = 8, 50
    wrong = []

    def work(number):
        try:
            for turn in range(each):
                client.put(f"{number}/{turn}", bytes([number]) * (1000 + turn))
                peer = (number + 1) % count
                with client.get(f"{peer}/{turn}", 20) as view:
                    assert bytes(view) == bytes([peer]) * (1000 + turn)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


@with_client()
def test_threads_take_things_apart_under_each_other(client):
    """Clients, views, buffers, writers, regions and what is under way, each used, closed and dropped by whoever comes: calls
    end well or say that it is closed, bytes are never others, and nothing is left."""
    sessions = client.stats()["sessions"]
    for number in range(20):
        client.put(f"o{number}", bytes([number]) * 4096)
    client.create_region("r", 4096)
    until, shared, wrong = time.monotonic() + 3, [other(client) for _ in range(4)], []

    def make(chance, thing):
        if isinstance(thing, nigh.View):
            number = int.from_bytes(bytes(memoryview(thing)[:1]), "little")
            assert bytes(thing) == bytes([number]) * 4096
            return memoryview(thing)
        if not isinstance(thing, nigh.Client):
            return other(client)
        return chance.choice((lambda: thing.get(f"o{chance.randrange(20)}", 0), lambda: thing.get_start(["never"]),
                              lambda: thing.create(nigh.random_id(), 100), lambda: thing.open_region("r"),
                              lambda: thing.put(nigh.random_id(), b"x")))()

    def work(seed):
        chance = random.Random(seed)
        while time.monotonic() < until and not wrong:
            try:
                thing = chance.choice(shared)
                if chance.random() < 0.5:
                    shared.append(make(chance, thing))
                if len(shared) > 100:
                    shared.pop(chance.randrange(50))
                if isinstance(thing, nigh.Region):
                    assert len(thing.read(0, 8)) == 8
                elif chance.random() < 0.05:
                    for name in ("close", "release", "seal", "cancel"):
                        getattr(thing, name, lambda: None)()
            except (nigh.Error, BufferError, ValueError, IndexError):
                pass  # another thread was there before
            except BaseException as error:
                wrong.append(error)

    in_four(work)
    assert not wrong, wrong
    shared.clear()
    gc.collect()
    wait_for(lambda: client.stats()["sessions"] == sessions)


@with_client()
def test_who_waits_lets_others_run(client):
    """A get that waits has not got the interpreter's lock."""
    got = []
    thread = threading.Thread(target=lambda: got.append(bytes(client.get("late", 20))))
    thread.start()
    wait_for(lambda: client.stats()["waiting"] > 0)
    client.put("late", b"now")
    thread.join()
    assert got == [b"now"]


@with_client()
def test_close_ends_what_waits(client):
    """In other threads; and the session with it. A region goes on."""
    sessions = client.stats()["sessions"]
    second, taker = other(client), other(client)
    region = second.create_region("r", 4096)
    service = second.register("s")
    second.subscribe()
    events = taker.events()
    ended = []

    def wait(what):
        try:
            what()
            ended.append("came")
        except nigh.ClosedError as error:
            ended.append(str(error))

    calls = [lambda: second.get("never"), second.next_event, service.receive,
             lambda: nigh.serve(service, lambda request: None), lambda: list(events)]
    threads = [threading.Thread(target=wait, args=[what]) for what in calls]
    for thread in threads:
        thread.start()
    wait_for(lambda: client.stats()["waiting"] > 0)
    second.close()
    taker.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(ended) == len(calls) and ended.count("came") == 2, ended
    assert all("closed" in said for said in ended if said != "came"), ended
    assert service.closed
    assert region.read(0, 8) == bytes(8)
    region.close()
    wait_for(lambda: client.stats()["sessions"] == sessions)


class Alarm(Exception):
    pass


def alarm(*_):
    raise Alarm


@with_client()
def test_signals_end_waits(client):
    """As Ctrl-C does: what waits for ever hears of it, and nothing of it is left."""
    region = client.create_region("r", 4096)
    held = region.lock(1)
    service = client.register("s")
    client.put("much", bytes(40 * MIB))
    view = client.get("much", 0)
    client.subscribe()  # to nothing that comes
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        for call in (lambda: client.get("never"), lambda: client.get_many(["never"]), lambda: region.lock(1),
                     lambda: region.barrier(1, 2), service.receive, lambda: client.call("s", b"x"),
                     client.next_event, client.get_start(["never"]).wait, lambda: client.put("more", bytes(40 * MIB), timeout=None),
                     lambda: client.create("more", 40 * MIB, timeout=None)):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with raises(Alarm):
                call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    held.close()
    view.release()
    wait_for(lambda: client.stats()["waiting"] == 0)
    assert not client.contains("more")


@with_client()
def test_what_goes_on_ends_by_itself(client):
    """done() takes in what came, wait() waits for it; also what others of the client wait for meanwhile."""
    region = client.create_region("r", 4096)
    service = client.register("s")  # which takes nothing
    pending = region.read(0, 8, start=True)
    wait_for(pending.done)
    assert pending.result() == bytes(8) and pending.done() and pending.wait()
    get, call = client.get_start(["never"], 0.3), client.call_start("s", b"", timeout=0.3)
    wait_for(lambda: get.done() and call.done())
    assert get.result() == [None] and not service.closed
    with raises(nigh.TimeoutError):
        call.result()
    pending = client.get_start(["late"])
    assert not pending.done() and not pending.wait(0) and not pending.wait(timeout=0.06)
    with raises(ValueError):
        pending.wait(-1)
    got, until = [], time.monotonic() + 20
    threads = [threading.Thread(target=lambda: got.append(bytes(client.get("late", 20)))),
               threading.Thread(target=lambda: got.append(pending.wait(20))),
               threading.Thread(target=lambda: [client.poll() for _ in iter(pending.done, True)])]
    for thread in threads:
        thread.start()
    other(client).put("late", b"now")
    while not pending.done():
        assert time.monotonic() < until
    view, = pending.result()
    for thread in threads:
        thread.join()
    assert sorted(got, key=str) == [True, b"now"] and bytes(view) == b"now"
    # Whoever has armed the descriptor is to hear of what comes, and polls.
    client.arm()
    pending = client.get_start(["later"])
    other(client).put("later", b"")
    wait_for(lambda: select.select([client], [], [], 0)[0] != [])
    assert not pending.done()
    wait_for(lambda: client.poll() >= 0 and pending.done())


@with_client()
def test_results_are_taken_under_who_waits(client):
    """Each is taken while others wait for it, and may be about to read what it failed with."""

    def child():  # which would crash
        own, until, wrong = other(client), time.monotonic() + 3, []
        shared = [own.call_start("s", b"", timeout=0)]

        def work(seed):
            chance = random.Random(seed)
            while time.monotonic() < until and not wrong:
                pending = shared[0]
                try:
                    if not pending.wait(chance.choice((0, 0.001, 1))):
                        continue
                    shared[0] = chance.choice((lambda: own.call_start("s", b"", timeout=chance.random() / 100),
                                               lambda: own.multicast("s", b"", timeout=0.01, start=True)))()
                    pending.result()
                except nigh.Error:
                    pass
                except BaseException as error:
                    wrong.append(error)

        in_four(work)
        assert not wrong, wrong
        own.close()

    in_child(child)


@with_client()
def test_what_goes_on_ends_with_its_client(client):
    """What has come before does not, nor what a region begins later, which goes on."""
    sessions = client.stats()["sessions"]
    client.put("x", b"abc")
    second = other(client)
    region = second.create_region("r", 4096)
    came, pending, waited = second.get_start(["x"]), second.get_start(["never"]), second.get_start(["never"])
    wait_for(came.done)
    told = []
    thread = threading.Thread(target=lambda: told.append(waited.wait()))
    thread.start()
    second.close()
    thread.join(20)
    assert told == [True] and pending.done() and pending.wait(0)
    for each in (pending, waited):
        with raises(nigh.ClosedError, "closed"):
            each.result()
        with raises(nigh.CanceledError):
            each.result()
    assert bytes(came.result()[0]) == b"abc"
    read = region.read(0, 8, start=True)
    assert read.wait(20) and read.result() == bytes(8)
    region.close()
    wait_for(lambda: client.stats()["sessions"] == sessions)


@with_client()
def test_a_handler_may_fork(client):
    """What waits is the parent's: the child hears so, and the parent waits on."""
    children = []

    def fork(*_):
        children.append(os.fork())

    before = signal.signal(signal.SIGALRM, fork)
    putter = threading.Timer(0.5, lambda: client.put("late", b"now"))
    try:
        putter.start()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            got = bytes(client.get("late"))
        except nigh.ForkedError:
            got = None
        if children == [0]:
            os._exit(0 if got is None else 1)
        assert got == b"now"
        ended = []
        wait_for(lambda: ended.append(os.waitpid(children[0], os.WNOHANG)) or ended[-1][0] != 0)
        assert ended.pop() == (children.pop(), 0)
    finally:
        signal.signal(signal.SIGALRM, before)
        if children and children[0] > 0:
            os.kill(children[0], signal.SIGKILL)
        putter.join()


@with_client()
def test_a_node_that_dies_is_heard_of(client):
    second = other(client)
    second.put("x", b"abc")
    view = second.get("x", 0)
    pending = other(client).get_start(["never"])
    failed = []

    def wait():
        try:
            second.get("never", 20)
        except nigh.NodeLostError as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: client.stats()["waiting"] > 0)
    client.node.process.kill()
    thread.join()
    assert failed
    wait_for(pending.done)
    with raises(nigh.NodeLostError):
        pending.result()
    with raises(ConnectionError):
        second.put("y", b"")
    assert bytes(view) == b"abc"
    client.node.process.wait()
    client.node.stop = lambda: (0, "")


@with_client("--hold")
def test_a_get_that_cannot_begin_keeps_nothing(client):
    """What was here it has already as it finds that there is no node to ask for the rest. It says what became of each, and so
    does a put."""
    client.put("x", b"abc")
    holder = client.node.process.pid
    os.kill(holder, signal.SIGSTOP)  # which begins no other
    try:
        os.kill(child_of(holder), signal.SIGKILL)
        lost = nigh.NodeLostError.status
        for call, statuses in ((lambda: client.get_many(["x", "never"]), None), (lambda: client.get_start(["x", "never"]), None),
                               (lambda: client.put_many([("y", b"1"), ("z", b"2")]), [lost, lost])):
            try:
                call()
                raise AssertionError
            except nigh.NodeLostError as error:
                assert len(error.statuses) == 2 and lost in error.statuses, error.statuses
                assert statuses in (None, error.statuses), error.statuses
    finally:
        os.kill(holder, signal.SIGCONT)

    def holders():
        try:
            return client.stat("x")["holders"]
        except nigh.NodeLostError:
            return None

    wait_for(lambda: holders() is not None)
    wait_for(lambda: holders() == 0)


@with_client()
def test_a_node_that_stands_still_ends_waits(client):
    """Also what copies, and what has more than a time: three seconds after that. Its bytes are the caller's then."""
    late, much = nigh.TimeoutError.status, bytearray(4 * MIB)
    calls = {"get": lambda: client.get("never", 0.3), "put": lambda: client.put("x", much, timeout=0.3),
             "small": lambda: client.put("y", b"1", timeout=0.3), "create": lambda: client.create("z", 4 * MIB, timeout=0.3),
             "claim": lambda: client.put("claim", b"1", exclusive=True),
             "many": lambda: client.put_many([("p", much), ("q", b"1")], timeout=0.3),
             "more": lambda: client.put_many([(f"m{n}", b"1") for n in range(33)], timeout=0.7)}
    least = {"claim": 1, "more": 1.4}  # a time and one more, beside the three seconds
    ended = {}

    def wait(name):
        begin = time.monotonic()
        try:
            calls[name]()
        except nigh.TimeoutError as error:
            ended[name] = time.monotonic() - begin, getattr(error, "statuses", None)

    threads = [threading.Thread(target=wait, args=[name], daemon=True) for name in calls]
    halt(client.node.process)
    try:
        for thread in threads:
            thread.start()
        until = time.monotonic() + 20
        for thread in threads:
            thread.join(until - time.monotonic())
        assert set(ended) == set(calls), ended
    finally:
        os.kill(client.node.process.pid, signal.SIGCONT)
    assert all(3 + least.get(name, 0.3) < took < 15 for name, (took, _) in ended.items()), ended
    assert ended["many"][1] == [late, late], ended
    much += b"may be of another size: nobody has a buffer over it"
    # What is late comes to nothing that stays, and the client goes on.
    client.put("after", b"abc", timeout=20)
    wait_for(lambda: client.stats()["unsealed_bytes"] == 0)
    assert bytes(client.get("after", 20)) == b"abc"


IN_ANOTHER = """
import _xxsubinterpreters as interpreters
another = interpreters.create()
for _ in range(2):
    try:
        interpreters.run_string(another, "import nigh")
    except interpreters.RunFailedError as error:
        assert "main interpreter" in str(error) and "ImportError" in str(error), error
    else:
        raise AssertionError("it was imported")
    import nigh
interpreters.destroy(another)
assert isinstance(nigh.random_id(), bytes) and issubclass(nigh.ClosedError, nigh.Error)
"""


def test_subinterpreters_do_not_import_it():
    """Neither before the main interpreter does nor after, and it is none the worse for it."""
    try:
        import _xxsubinterpreters  # noqa: F401
    except ImportError as error:
        raise Skipped("no _xxsubinterpreters, of Python 3.11") from error
    subprocess.run([sys.executable, "-c", IN_ANOTHER], check=True, timeout=60)


HOLDS = """
import sys
import nigh
client = nigh.Client(sys.argv[1])
view, writer = client.get("x"), client.create("y", 4 << 20)
print("held", flush=True)
sys.stdin.read()
"""


@with_client()
def test_a_process_that_is_killed_holds_nothing(client):
    client.put("x", b"abc")
    process = subprocess.Popen([sys.executable, "-c", HOLDS, client.node.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    assert client.stat("x")["holders"] == 1 and client.stats()["unsealed_bytes"] >= 4 * MIB
    process.kill()
    process.communicate()
    wait_for(lambda: client.stat("x")["holders"] == 0 and client.stats()["unsealed_bytes"] == 0)
    client.put("y", b"another's now")


@with_client()
def test_what_a_client_keeps_of_its_own_is_collected(client):
    """Each is kept by its client, and keeps it; and so does what has a buffer, or a handle, of it."""
    sessions = client.stats()["sessions"]
    client.put("x", b"abc")
    client.create_region("r", 4096, mappable=True)

    def request_of(client):
        service = client.register("s")
        client.call("s", b"x", one_way=True)
        return service.receive(20)

    makers = [lambda mine: mine.get("x", 0), lambda mine: memoryview(mine.get("x", 0)), lambda mine: mine.create("y", 8),
              lambda mine: mine.get_start(["never"]), lambda mine: mine.open_region("r"),
              lambda mine: mine.open_region("r").map(), lambda mine: mine.open_region("r").read(0, 8, start=True),
              lambda mine: mine.register("t"), lambda mine: mine.register("u").receive_start(),
              lambda mine: mine.alloc_bulk(4096), request_of]
    for make in makers:
        mine = other(client)
        mine.kept = make(mine)
        del mine
        gc.collect()
        wait_for(lambda: client.stats()["sessions"] == sessions)
    assert client.stat("x")["holders"] == 0


@with_client()
def test_readers_that_are_collected_as_cycles_let_go(client):
    client.put("x", b"abc")
    view = client.get("x", 0)
    cycle = [memoryview(view)]
    cycle.append(cycle)
    del view, cycle
    gc.collect()
    assert client.stat("x")["holders"] == 0


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
