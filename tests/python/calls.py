#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls and services in Python: replies, statuses, what goes unanswered, deadlines, a service that ends."""
import gc
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from node import MIB, child_of, in_child, other, raises, run_tests, wait_for, with_client  # noqa: E402

import nigh  # noqa: E402


class Server:
    """A thread that serves a name with a function, by a client of its own."""

    def __init__(self, client, name, answer):
        self.client = other(client)
        self.service = self.client.register(name)
        self.raised = []
        self.thread = threading.Thread(target=self.run, args=[answer])
        self.thread.start()

    def run(self, answer):
        try:
            nigh.serve(self.service, answer)
        except BaseException as error:
            self.raised.append(error)

    def stop(self):
        """The client goes with the last that hangs on it."""
        self.service.close()
        self.thread.join()
        self.client.close()


@with_client()
def test_calls_are_answered(client):
    server = Server(client, "turn", lambda request: request.bytes[::-1])
    assert client.call("turn", b"abc") == b"cba"
    assert client.call("turn") == b""
    assert client.call("turn", memoryview(bytearray(8192)), rank=0, idempotent=True, urgent=True) == bytes(8192)
    pending = [client.call_start("turn", bytes([n])) for n in range(20)]
    wait_for(lambda: client.poll() >= 0 and all(each.done() for each in pending))
    assert [each.result() for each in pending] == [bytes([n]) for n in range(20)]
    server.stop()
    with raises(nigh.NotFoundError):
        client.call("turn", timeout=5)


@with_client()
def test_requests_say_whose_they_are(client):
    seen = []
    server = Server(client, "who", lambda request: seen.append((request.uid, request.rank, request.one_way)))
    assert client.call("who", b"x") == b""
    assert client.call("who", b"x", one_way=True) == b""
    wait_for(lambda: len(seen) == 2)
    assert seen == [(os.getuid(), 0, False), (os.getuid(), 0, True)]
    server.stop()


@with_client()
def test_statuses_are_raised(client):
    def refuse(request):
        raise nigh.DeniedError("not you")

    server = Server(client, "refuse", refuse)
    try:
        client.call("refuse")
        raise AssertionError
    except nigh.DeniedError as error:
        assert error.answered
    server.stop()
    try:
        client.call("refuse")
        raise AssertionError
    except nigh.NotFoundError as error:
        assert not error.answered and "service" in str(error)
    try:
        client.stat("refuse")
        raise AssertionError
    except nigh.NotFoundError as error:
        assert "service" not in str(error), error  # that was the call's sentence


@with_client()
def test_errors_of_no_status_are_answered(client):
    """And the server goes on."""
    class Own(nigh.Error):
        status = 7

    errors = {b"": nigh.Error("nobody's"), b"own": Own("mine"), b"pending": nigh.PendingError("no end")}

    def refuse(request):
        raise errors[request.bytes]

    server = Server(client, "refuse", refuse)
    for request in errors:
        try:
            client.call("refuse", request, timeout=20)
            raise AssertionError
        except nigh.CanceledError as error:
            assert error.answered
    server.stop()
    assert not server.raised


@with_client()
def test_a_server_that_raises_is_heard_of(client):
    server = Server(client, "wrong", lambda request: 1 / 0)
    with raises(nigh.CanceledError):
        client.call("wrong")
    server.stop()
    assert isinstance(server.raised[0], ZeroDivisionError)


@with_client()
def test_answers_that_cannot_be_sent_are_heard_of(client):
    """By both sides; whoever serves may go on with the next."""
    answers = [bytes(8193), "text", b"short"]
    server = Server(client, "much", lambda request: answers[request.bytes[0]])
    for number, kind in ((0, ValueError), (1, TypeError)):
        try:
            client.call("much", bytes([number]), timeout=20)
            raise AssertionError
        except nigh.CanceledError as error:
            assert error.answered
        server.thread.join()
        assert isinstance(server.raised.pop(), kind)
        server.thread = threading.Thread(target=server.run, args=[lambda request: answers[request.bytes[0]]])
        server.thread.start()
    assert client.call("much", b"\2", timeout=20) == b"short"
    server.stop()
    assert not server.raised


@with_client()
def test_calls_of_all_nodes(client):
    """Of the one that there is."""
    server = Server(client, "all", lambda request: request.bytes * 2)
    told = client.multicast("all", b"four")
    assert told["value"] == {0: b"fourfour"} and told["answered"] == 1 and told["status"] == 0 and not told["errors"]
    told = client.multicast("all", b"four", ranks=[0], reduce="sum_u64", size=8)
    assert told["value"] == b"fourfour"
    told = client.multicast("all", b"", reduce="none")
    assert told["value"] == b"" and told["answered"] == 1
    with raises(ValueError, "reduce"):
        client.multicast("all", reduce="product")
    with raises(nigh.InvalidError):
        client.multicast("all", ranks=[0, 0])
    server.stop()
    told = client.multicast("all", b"x", timeout=20)
    assert told["status"] == nigh.NotFoundError.status and told["answered"] == 0 and told["errors"][0]["rank"] == 0

@with_client()
def test_calls_bring_memory(client):
    """Of which the service pulls some, and pushes into it: more than a call has bytes."""
    def answer(request):
        told, = request.bulks
        assert told == (MIB, 3)
        with raises(IndexError):
            request.pull(1, local)
        request.pull(0, local, size=3)
        request.pull(0, local, offset=MIB - 3, local_offset=3)
        request.push(0, local, offset=1000, size=6)
        with raises(nigh.InvalidError):
            request.push(0, local, offset=MIB - 3, size=6)
        return b"done"

    server = Server(client, "move", answer)
    local = server.client.alloc_bulk(4096)
    memory = client.alloc_bulk(MIB)
    assert len(memory) == MIB
    buffer = memoryview(memory)
    buffer[:3], buffer[-3:] = b"abc", b"xyz"
    assert client.call("move", bulks=[memory]) == b"done"
    assert bytes(buffer[1000:1006]) == b"abcxyz"
    with raises(TypeError, "alloc_bulk"):
        client.call("move", bulks=[memory, b"bytes"])
    class Claims:
        """Of a class that it is not: there is no memory behind it."""
        __class__ = property(lambda self: nigh.Bulk)

    assert isinstance(Claims(), nigh.Bulk)
    with raises(TypeError, "alloc_bulk"):
        client.call("move", bulks=[Claims()])
    with raises(ValueError, "at most 8"):
        client.call("move", bulks=[memory] * 9)
    memory.close()
    assert bytes(buffer[:3]) == b"abc"
    with raises(nigh.ClosedError):
        client.call("move", bulks=[memory])
    with raises(BufferError, "closed"):
        memoryview(memory)
    buffer.release()
    server.stop()
    assert not server.raised


@with_client()
def test_memory_of_an_ended_call_is_out_of_the_collectors_sight(client):
    """Closing it takes its time, and others run meanwhile."""
    server = Server(client, "ends", lambda request: b"")

    def child():  # which would crash
        own, is_done = other(client), threading.Event()

        def collect():
            while not is_done.is_set():
                gc.collect()

        collector = threading.Thread(target=collect)
        collector.start()
        for _ in range(20):
            with own.alloc_bulk(4096) as first, own.alloc_bulk(4096) as second:
                pending = own.call_start("ends", bulks=[first, second], timeout=20)
            del first, second
            wait_for(lambda: own.poll() >= 0 and pending.done())
            assert pending.result() == b""
        is_done.set()
        collector.join()
        own.close()

    in_child(child)
    server.stop()


@with_client()
def test_requests_by_hand(client):
    service = client.register("hand")
    with raises(nigh.ExistsError):
        client.register("hand")
    with raises(nigh.TimeoutError):
        service.receive(0)
    with raises(nigh.TimeoutError):
        service.receive(0.05)
    caller = other(client)
    pending = caller.call_start("hand", b"one")
    request = service.receive(20)
    assert request.bytes == b"one" and request.timeout is None
    with raises(ValueError):
        request.reply(bytes(8193))
    for status in (1, nigh.PendingError.status):
        with raises(ValueError):
            request.reply(status=status)
    request.reply(b"first")
    with raises(nigh.ClosedError):
        request.reply(b"second")
    wait_for(lambda: caller.poll() >= 0 and pending.done())
    assert pending.result() == b"first"


class Number:
    """A whole number that does something as it is asked which."""

    def __init__(self, value, what):
        self.value, self.what = value, what

    def __index__(self):
        self.what()
        return self.value


@with_client()
def test_arguments_may_answer_the_request(client):
    """What a number's own method does meanwhile is seen, and the service that closes with its last request is not used."""
    caller = other(client)
    memory = caller.alloc_bulk(4096)
    for name in ("reply", "pull", "push"):
        service = client.register(name)
        local = client.alloc_bulk(4096)
        pending = caller.call_start(name, b"x", bulks=[memory], timeout=20)
        request = service.receive(20)
        service.close()
        number = Number(0, request.reply)
        with raises(nigh.ClosedError, "answered"):
            if name == "reply":
                request.reply(status=number)
            else:
                getattr(request, name)(0, local, size=number)
        wait_for(lambda: caller.poll() >= 0 and pending.done())
        assert pending.result() == b""
        del request, number
        client.register(name).close()


@with_client()
def test_requests_that_are_dropped_are_answered(client):
    service = client.register("drop")
    caller = other(client)
    pending = caller.call_start("drop", b"x")
    service.receive(20)
    wait_for(lambda: caller.poll() >= 0 and pending.done())
    try:
        pending.result()
        raise AssertionError
    except nigh.CanceledError as error:
        assert error.answered


@with_client()
def test_calls_have_deadlines(client):
    service = client.register("slow")
    with raises(nigh.TimeoutError):
        client.call("slow", b"x", timeout=0.05)
    caller = other(client)
    pending = caller.call_start("slow", b"y", timeout=0.5)
    request = service.receive(20)
    while request.bytes != b"y":
        request = service.receive(20)
    assert 0 < request.timeout <= 0.5
    wait_for(lambda: caller.poll() >= 0 and pending.done())
    with raises(nigh.TimeoutError):
        pending.result()
    request.reply(b"too late")  # is nobody's error
    with raises(nigh.InvalidError):
        client.call("slow", bytes(8193))
    with raises(ValueError, "rank"):
        client.call("slow", rank=(1 << 32) - 1)
    with raises(TypeError):
        client.call(b"slow")


@with_client("--hold")
def test_a_service_that_ended_with_its_node_is_told(client):
    """Whoever serves hears of it, as nobody calls there any more."""
    service = client.register("s")
    first = child_of(client.node.process.pid)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: child_of(client.node.process.pid) not in (0, first))

    def has_ended():
        try:
            service.receive(0)
        except (nigh.TimeoutError, nigh.NodeLostError):
            return False
        except nigh.ClosedError:
            return True

    wait_for(has_ended)
    assert not service.closed
    with raises(nigh.ClosedError):
        nigh.serve(service, lambda request: None)
    service.close()
    client.register("s").close()


@with_client("--hold")
def test_who_serves_hears_that_the_node_began_anew(client):
    """And not that it died, whether that was while it waited or while it answered; it registers the name again."""
    killed = []

    def answer(request):
        if request.bytes == b"kill":
            killed.append(child_of(client.node.process.pid))
            os.kill(killed[0], signal.SIGKILL)
            wait_for(lambda: not os.path.exists(f"/proc/{killed[0]}"))
            raise nigh.BusyError("which nobody hears")
        return request.bytes

    for data in (b"kill", None):
        server = Server(client, "s", answer)
        if data is None:
            os.kill(child_of(client.node.process.pid), signal.SIGKILL)
        else:
            other(client).call("s", data, one_way=True)
        server.thread.join(20)
        assert not server.thread.is_alive() and [type(each) for each in server.raised] == [nigh.ClosedError], server.raised
        assert not server.service.closed
        server.stop()
        killed.clear()

        def serves():
            try:
                return client.call("s", b"x", timeout=1) == b"x"
            except (nigh.NotFoundError, nigh.NodeLostError, nigh.TimeoutError):
                return False

        server = Server(client, "s", answer)
        wait_for(serves)
        server.stop()
        assert not server.raised


@with_client()
def test_who_serves_hears_that_there_is_no_node(client):
    server = Server(client, "s", lambda request: request.bytes)
    client.node.process.kill()
    server.thread.join(20)
    assert [type(each) for each in server.raised] == [nigh.NodeLostError]
    server.stop()
    client.node.process.wait()
    client.node.stop = lambda: (0, "")


@with_client()
def test_who_answers_by_itself_serves_on(client):
    def answer(request):
        request.reply(request.bytes[::-1])
        return b"again" if request.bytes == b"twice" else None

    server = Server(client, "s", answer)
    for _ in range(3):
        assert client.call("s", b"abc", timeout=20) == b"cba"
    assert client.call("s", b"twice", timeout=20) == b"eciwt"
    server.thread.join(20)
    assert [type(each) for each in server.raised] == [nigh.ClosedError], "there are two answers"
    server.stop()


@with_client()
def test_a_service_ends_with_its_client(client):
    """Also one that has always something to do."""
    mine = other(client)
    services = [mine.register(name) for name in ("now", "later")]
    for name in ("now", "later"):
        for _ in range(2):
            client.call(name, b"x", one_way=True)
    assert all(service.receive(20).one_way for service in services)
    mine.close()
    for service, receive in zip(services, (lambda service: service.receive(20), nigh.Service.receive_start)):
        with raises(nigh.ClosedError, "closed"):
            receive(service)
        assert service.closed


@with_client()
def test_a_service_ends_with_its_last_request(client):
    service = client.register("ends")
    caller = other(client)
    pending = caller.call_start("ends", b"x")
    request = service.receive(20)
    service.close()
    with raises(nigh.ClosedError):
        service.receive(0)
    request.reply(b"still")
    wait_for(lambda: caller.poll() >= 0 and pending.done())
    assert pending.result() == b"still"
    del request
    with raises(nigh.NotFoundError):
        caller.call("ends")
    client.register("ends").close()


if __name__ == "__main__":
    sys.exit(run_tests(globals()))
