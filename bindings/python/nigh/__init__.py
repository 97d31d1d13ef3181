# SPDX-License-Identifier: Apache-2.0
"""Objects, shared in place by all processes of a machine and pulled between machines: libnigh for Python.

    import nigh

    with nigh.Client() as client:
        client.put("greeting", b"hello")
        with client.get("greeting") as view:
            print(bytes(view))

An id is 20 bytes, or a name (str). Times are seconds; None waits for ever, 0 not for what is not there. Regions, spaces and calls are
of the same client. What is not said here is said in docs/python.md."""
from __future__ import annotations

import collections
import contextlib
import functools
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Union

from . import _native, _pickles
from ._native import (MASTER, READ, WRITE, Bulk, BusyError, CanceledError, ClosedError, CorruptError, DeniedError, DiskError,
                      ElsewhereError, Error, ExistsError, ExpelledError, ForkedError, InUseError, InvalidError, LeavingError,
                      LimitError, LockLostError, Mapping, NoQuorumError, NoResourcesError, NodeLostError, NotFoundError,
                      NotSealedError, OutOfMemoryError, OverloadedError, PeerLostError, Pending, PendingError, ProtocolError,
                      QuotaError, Region, Request, Service, Space, StaleError, TooFewError, UnreachableError,
                      UnsupportedError, VersionError, View, Writer)
from ._native import OverflowError as OverflowError, TimeoutError as TimeoutError  # which hide Python's: not in __all__

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy
    import numpy.typing

_native._check_interpreter()

Id: TypeAlias = Union[bytes, str]

__all__ = ["Bulk", "BusyError", "CanceledError", "Client", "ClosedError", "CorruptError", "DeniedError", "DiskError",
           "ElsewhereError", "Error", "Event", "ExistsError", "ExpelledError", "ForkedError", "Id", "InUseError",
           "InvalidError", "LeavingError", "LimitError", "LockLostError", "MASTER", "Mapping", "NoQuorumError",
           "NoResourcesError", "NodeLostError", "NotFoundError", "NotSealedError", "OutOfMemoryError", "OverloadedError",
           "PeerLostError", "Pending", "PendingError", "ProtocolError", "QuotaError", "READ", "Region", "Request", "Service",
           "Space", "StaleError", "TooFewError", "UnreachableError", "UnsupportedError", "VersionError", "View", "WRITE",
           "Writer", "random_id", "serve"]


def random_id() -> bytes:
    """An id that nobody else has."""
    return os.urandom(20)


class Event(NamedTuple):
    """What happened to an object: `kind` is "sealed", "deleted", "evicted", "spilled", "conflict", or "overflow": so many
    events (`size`) were lost, as nobody took them."""
    kind: str
    id: bytes
    size: int
    meta_size: int


_KINDS = {getattr(_native, "NIGH_EVENT_" + kind.upper()): kind
          for kind in ("sealed", "deleted", "evicted", "spilled", "overflow", "conflict")}


def _event(told: tuple[int, bytes, int, int]) -> Event:
    kind, id, size, meta_size = told
    return Event(_KINDS.get(kind, f"event-{kind}"), id, size, meta_size)


class Client(_native.Client):
    """A client of this machine's node. Any thread may use it; a child process opens its own."""

    _reader: object = None  # the iterator of events whose turn it is
    _left: collections.deque[Event]  # what one has taken whose turn it was no more

    if not TYPE_CHECKING:  # the hints are those of _native
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            self._left = collections.deque()
            self._opened_with = arguments, more

    def __reduce__(self) -> Any:
        """A pickle of a client opens another, with the same arguments, where it is loaded: in a process of multiprocessing,
        for one."""
        if "_opened_with" not in vars(self):
            raise TypeError("a client that was never opened cannot be pickled")
        arguments, more = vars(self)["_opened_with"]
        return functools.partial(type(self), **more), arguments

    def put_object(self, id: Id, value: Any, **more: Any) -> None:
        """Puts what get_object gives again. What offers its bytes to pickle's protocol 5, as numpy arrays do, is copied once,
        into the object."""
        pickled = _pickles.Pickled(value)
        with self.create(id, pickled.size, meta=_pickles.META, **more) as writer:
            pickled.write(writer)

    def get_object(self, id: Id, timeout: float | None = None) -> Any:
        """What was put: arrays of it are over the object's bytes, read-only, and keep them there. A pickle is a program: who
        may put into the pool decides what it does here."""
        return self.value_of(self.get(id, timeout))

    @staticmethod
    def value_of(view: View) -> Any:
        """The same of a view that one has."""
        if view.meta != _pickles.META:
            raise ValueError("the object was not put by put_object")
        data: Any = view  # a buffer, which not all checkers know
        return _pickles.load(memoryview(data))

    def put_array(self, id: Id, array: numpy.typing.ArrayLike, **more: Any) -> None:
        """Puts an array of numbers: its bytes are the object, its shape and type the object's metadata."""
        from . import _arrays
        meta, data = _arrays.taken_apart(array)
        self.put(id, data, meta=meta, **more)

    def get_array(self, id: Id, timeout: float | None = None) -> numpy.ndarray[Any, Any]:
        """An array that was put by put_array, or a pickle-free program of another language: over the object's bytes,
        read-only; it keeps them there."""
        from . import _arrays
        return _arrays.put_together(self.get(id, timeout))

    def list(self) -> Iterator[dict[str, Any]]:
        """What is known of each object of the pool. Objects that come or go meanwhile may be missed."""
        cursor = 0
        while True:
            cursor, infos = self.list_some(cursor)
            if not infos:
                return
            yield from infos

    def events(self, replay: bool = False) -> Iterator[Event]:
        """What happens to objects of the pool from here on, until the client is closed; with `replay` first what is sealed
        already. A client has one such iterator at a time: where another is asked for, the one before ends."""
        self.subscribe(_native.NIGH_SUBSCRIBE_CONFLICTS | (_native.NIGH_SUBSCRIBE_REPLAY if replay else 0))
        mine = self._reader = object()
        events = self._events(mine)
        next(events)  # it has begun, and so its end is heard of, also where nobody asks it for one
        return events

    def _events(self, mine: object) -> Iterator[Event]:
        try:
            yield Event("", b"", 0, 0)
            while self._reader is mine:
                yield from self._all_left(mine)
                try:
                    told = self.next_event(0.5)  # and then it may be another's turn
                except _native.ClosedError:
                    if self.closed:
                        return
                    raise
                if told is not None:
                    self._left.append(_event(told))
                    yield from self._all_left(mine)
        finally:
            if self._reader is mine:
                self._reader = None
                self._left.clear()
                if not self.closed:
                    with contextlib.suppress(Error):  # with its node, it may be
                        self.unsubscribe()

    def _all_left(self, mine: object) -> Iterator[Event]:
        while self._reader is mine:
            try:
                event = self._left.popleft()
            except IndexError:
                return
            yield event

    def regions(self) -> Iterator[dict[str, Any]]:
        """What each region of the cluster is like that this user has any right to, by name. PeerLostError at the end: some
        nodes did not tell of theirs."""
        return _all(self.regions_some)

    def spaces(self) -> Iterator[dict[str, Any]]:
        """What each space of the cluster is like that this user has any right to, by name."""
        return _all(self.spaces_some)


def _all(some: Callable[[str | None], tuple[list[dict[str, Any]], bool]]) -> Iterator[dict[str, Any]]:
    """Of nodes that told; then PeerLostError where some did not."""
    after: str | None = None
    lost: Error | None = None
    more = True
    while more:
        try:
            found, more = some(after)
        except _native.PeerLostError as error:
            lost = error
            rest: tuple[list[dict[str, Any]], bool] = getattr(error, "found", ([], False))
            found, more = rest
        yield from found
        more = more and bool(found)
        after = found[-1]["name"] if found else None
    if lost is not None:
        raise lost


_GRACE = 5.0  # seconds that a node which died has to begin anew
_PAUSE = 0.05  # before it is asked again


def _receive(service: Service) -> Request:
    """The next request. Where the node dies that waits, the next one says what became of the service."""
    until: float | None = None
    while True:
        try:
            return service.receive()
        except _native.NodeLostError:
            until = time.monotonic() + _GRACE if until is None else until
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE)


def serve(service: Service, answer: Callable[[Request], bytes | None]) -> None:
    """Answers requests of a service with what a function says of each, until the service is closed: bytes, or None, which is an
    empty answer unless the function has answered (request.reply). What the function raises is the answer where that is a
    nigh.Error, as its status; anything else is raised here, and the caller is told that the call was cancelled; so is an
    answer that cannot be sent, as one of more than 8192 bytes. A service ends with its node: where another begins within five
    seconds, that is ClosedError here, and it is to be registered again; else NodeLostError, and the client has ended, too."""
    while True:
        try:
            request = _receive(service)
        except _native.ClosedError:
            if service.closed:
                return
            raise  # the node began anew, and knows no service
        _answer(request, answer)


_STATUSES = frozenset(each.status for each in vars(_native).values() if isinstance(each, type) and issubclass(each, Error)
                      and each not in (Error, _native.PendingError))


def _answer_of(error: Error) -> int:
    """The status that a service answers with: one that there is, and an end, whatever a program made of nigh.Error."""
    return error.status if error.status in _STATUSES else _native.CanceledError.status


def _answer(request: Request, answer: Callable[[Request], bytes | None]) -> None:
    try:
        said = answer(request)
    except Error as error:
        _refuse(request, _answer_of(error))
    except BaseException:
        _refuse(request, _native.CanceledError.status)
        raise
    else:
        _reply(request, said)


def _refuse(request: Request, status: int) -> None:
    with contextlib.suppress(_native.NodeLostError):  # and the caller's call with it: the next receive says so
        request.reply(status=status)


def _reply(request: Request, said: bytes | None) -> None:
    """What cannot be sent is raised, and its caller told that the call was cancelled."""
    try:
        request.reply(b"" if said is None else said)
    except _native.NodeLostError:
        pass
    except BaseException as error:
        if said is None and isinstance(error, _native.ClosedError):
            return  # who says nothing has answered
        with contextlib.suppress(Error):  # it was answered
            request.reply(status=_native.CanceledError.status)
        raise
