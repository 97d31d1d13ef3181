# SPDX-License-Identifier: Apache-2.0
"""The names of pyarrow.plasma over nigh, for programs that used it (docs/from-plasma.md says what differs).

    import nigh.plasma as plasma

    client = plasma.connect("/run/nigh/nigh.sock")
    object_id = client.put({"a": 1})
    value = client.get(object_id)

Times are milliseconds here, -1 for ever, as they were. What create gives is used no more, nor arrays over it, once it is
sealed: seal says BufferError while there are such arrays."""
from __future__ import annotations

import collections
import contextlib
import gc
import os
import select
import subprocess
import sys
import tempfile
import time
import weakref
from typing import Any, Callable, Iterator, Sequence

from . import (Client, Event, ExistsError, InUseError, NotFoundError, NotSealedError, OutOfMemoryError, QuotaError, View, Writer,
               _event, _native, random_id)

PlasmaObjectExists = ExistsError
PlasmaObjectNotFound = NotFoundError
PlasmaObjectNonexistent = NotFoundError
PlasmaStoreFull = OutOfMemoryError, QuotaError  # for `except`


class ObjectNotAvailable:
    """What get gives in place of a value that did not come in time."""


class ObjectID:
    """An id of 20 bytes."""

    __slots__ = ("_bytes",)

    def __init__(self, object_id: bytes) -> None:
        if not isinstance(object_id, bytes) or len(object_id) != 20:
            raise ValueError("Object ID must by 20 bytes, is " + repr(object_id))
        self._bytes = object_id

    @staticmethod
    def from_random() -> ObjectID:
        return ObjectID(random_id())

    def binary(self) -> bytes:
        return self._bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectID) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"ObjectID({self._bytes.hex()})"

    def __reduce__(self) -> Any:
        return ObjectID, (self._bytes,)


def _seconds(timeout_ms: int) -> float | None:
    return None if timeout_ms < 0 else timeout_ms / 1000


_os: Any = os  # that it has eventfd, which is new in 3.10, not all checkers know
_TOLD = "sealed", "deleted", "evicted", "overflow"  # what notifications are of


class _Watch:
    """The descriptor of notifications: readable when there may be one, also where that was taken in already."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._told: collections.deque[Event] = collections.deque()
        self._bell = _os.eventfd(0, _os.EFD_CLOEXEC | _os.EFD_NONBLOCK)
        self._end = weakref.finalize(self, os.close, self._bell)
        self._epoll = select.epoll()
        self._epoll.register(client.fileno(), select.EPOLLIN)
        self._epoll.register(self._bell, select.EPOLLIN)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def arm(self) -> None:
        """Whatever came is taken in, as what is there when the client is armed makes its descriptor readable no more."""
        self._client.arm()
        while (told := self._client.next_event(0)) is not None:
            if (event := _event(told)).kind in _TOLD:
                self._told.append(event)
        if self._told:
            _os.eventfd_write(self._bell, 1)
        else:
            with contextlib.suppress(BlockingIOError):
                _os.eventfd_read(self._bell)

    def take(self) -> Event | None:
        return self._told.popleft() if self._told else None

    def close(self) -> None:
        self._epoll.close()
        self._end()


def _uses_of(buffer: memoryview) -> int:
    """Larger than that of a lone memoryview where there are slices of it, which its release does not tell."""
    return sum(sys.getrefcount(each) for each in gc.get_referents(buffer))


_ALONE = _uses_of(memoryview(b""))


class PlasmaClient:
    def __init__(self, store_socket_name: str) -> None:
        self.store_socket_name = store_socket_name
        self._client = Client(store_socket_name)
        self._writers: dict[bytes, tuple[Writer, memoryview]] = {}
        self._watch: _Watch | None = None

    # ---- write

    def create(self, object_id: ObjectID, data_size: int, metadata: bytes = b"") -> memoryview:
        """A buffer to be written, until seal."""
        # Plasma took the id at once; here that is EXCLUSIVE.
        writer: Any = self._client.create(object_id.binary(), data_size, metadata, exclusive=True)
        self._writers[object_id.binary()] = writer, memoryview(writer)
        return self._writers[object_id.binary()][1]

    def _end(self, object_id: ObjectID, end: Callable[[Writer], None]) -> None:
        """Seals or aborts what was created. While there is an array, or a slice, over it that is BufferError: what create gave
        may be used on, and it may be tried again."""
        if object_id.binary() not in self._writers:
            raise NotFoundError("this client has not created it, or it is sealed")
        writer, buffer = self._writers.pop(object_id.binary())
        try:
            if _uses_of(buffer) > _ALONE:
                raise BufferError("there are slices of the object's buffer")
            buffer.release()
            end(writer)
        except BufferError:
            self._writers[object_id.binary()] = writer, buffer
            raise

    def seal(self, object_id: ObjectID) -> None:
        self._end(object_id, Writer.seal)

    def abort(self, object_id: ObjectID) -> None:
        self._end(object_id, Writer.abort)

    def create_and_seal(self, object_id: ObjectID, data: Any, metadata: bytes = b"") -> None:
        self._client.put(object_id.binary(), data, metadata, exclusive=True)

    def put_raw_buffer(self, value: Any, object_id: ObjectID | None = None, metadata: bytes = b"",
                       memcopy_threads: int = 1) -> ObjectID:
        object_id = ObjectID.from_random() if object_id is None else object_id
        self.create_and_seal(object_id, value, metadata)
        return object_id

    def put(self, value: Any, object_id: ObjectID | None = None, memcopy_threads: int = 1,
            serialization_context: Any = None) -> ObjectID:
        if serialization_context is not None:
            raise ValueError("values are pickled: there is no serialization context")
        object_id = ObjectID.from_random() if object_id is None else object_id
        self._client.put_object(object_id.binary(), value, exclusive=True)
        return object_id

    # ---- read

    def _views(self, object_ids: Sequence[ObjectID], timeout_ms: int) -> list[View | None]:
        return self._client.get_many([each.binary() for each in object_ids], _seconds(timeout_ms))

    def get_buffers(self, object_ids: Sequence[ObjectID], timeout_ms: int = -1, with_meta: bool = False) -> list[Any]:
        """Buffers, None for what did not come; with_meta: pairs of metadata and buffer."""
        views: list[Any] = [*self._views(object_ids, timeout_ms)]
        if not with_meta:
            return [None if view is None else memoryview(view) for view in views]
        return [(None, None) if view is None else (view.meta, memoryview(view)) for view in views]

    def get_metadata(self, object_ids: Sequence[ObjectID], timeout_ms: int = -1) -> list[bytes | None]:
        return [None if view is None else view.meta for view in self._views(object_ids, timeout_ms)]

    def get(self, object_ids: Any, timeout_ms: int = -1, serialization_context: Any = None) -> Any:
        """The value of one id, or a list of those of several; ObjectNotAvailable for what did not come."""
        if serialization_context is not None:
            raise ValueError("values are pickled: there is no serialization context")
        if isinstance(object_ids, ObjectID):
            return self.get([object_ids], timeout_ms)[0]
        return [ObjectNotAvailable if view is None else self._client.value_of(view)
                for view in self._views(object_ids, timeout_ms)]

    def contains(self, object_id: ObjectID) -> bool:
        return self._client.contains(object_id.binary())

    def hash(self, object_id: ObjectID) -> bytes:
        """CRC32C of the data."""
        return self._client.checksum(object_id.binary()).to_bytes(4, "little")

    # ---- manage

    def evict(self, num_bytes: int) -> int:
        return self._client.evict(num_bytes)

    def delete(self, object_ids: Sequence[ObjectID]) -> None:
        """Those that are held go at their last release; those that there are not, or not yet, are passed over."""
        for each in object_ids:
            with contextlib.suppress(NotFoundError, InUseError, NotSealedError):
                self._client.delete(each.binary())

    def _holders(self, object_id: bytes) -> int:
        """Which a listing does not tell."""
        try:
            holders: int = self._client.stat(object_id)["holders"]
        except NotFoundError:
            return 0
        return holders

    def list(self) -> dict[ObjectID, dict[str, Any]]:
        return {ObjectID(info["id"]): {"data_size": info["size"], "metadata_size": info["meta_size"],
                                       "ref_count": self._holders(info["id"]), "create_time": int(info["created"]),
                                       "construct_duration": 0,
                                       "state": "created" if info["state"] == "created" else "sealed"}
                for info in self._client.list()}

    def store_capacity(self) -> int:
        return self._client.stats()["memory_bytes"]

    def debug_string(self) -> str:
        return "\n".join(f"{name} {value}" for name, value in self._client.stats().items())

    def subscribe(self) -> None:
        self._client.subscribe()

    def get_next_notification(self) -> tuple[ObjectID, int, int]:
        """The id, the size of data and of metadata; of what is deleted or evicted both are -1. nigh.OverflowError: some were
        lost, as nobody took them: list tells what there is."""
        event = self._next()
        while event is None or event.kind not in _TOLD:
            event = self._next()
        if event.kind == "overflow":
            raise _native.OverflowError(f"{event.size or 'some'} notifications were lost")
        return (ObjectID(event.id), event.size, event.meta_size) if event.kind == "sealed" else (ObjectID(event.id), -1, -1)

    def _next(self) -> Event | None:
        event = None if self._watch is None else self._watch.take()
        if event is None:
            told = self._client.next_event(None)
            event = None if told is None else _event(told)
        if self._watch is not None:
            self._watch.arm()
        return event

    def fileno(self) -> int:
        """Readable when a notification may have come; after subscribe."""
        if self._watch is None:
            self._watch = _Watch(self._client)
        self._watch.arm()
        return self._watch.fileno()

    def set_client_options(self, client_name: str, limit_output_memory: int) -> None:
        """The quota; a client is named when it is opened."""
        self._client.set_quota(limit_output_memory)

    def disconnect(self) -> None:
        self._writers.clear()
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._client.close()


def connect(store_socket_name: str, num_retries: int = -1) -> PlasmaClient:
    """Tries so many times (-1: 50), a tenth of a second apart."""
    tries = 50 if num_retries < 0 else max(num_retries, 1)
    while True:
        try:
            return PlasmaClient(store_socket_name)
        except _native.UnreachableError:
            tries -= 1
            if tries == 0:
                raise
            time.sleep(0.1)


@contextlib.contextmanager
def start_plasma_store(plasma_store_memory: int, use_valgrind: bool = False, use_profiler: bool = False,
                       plasma_directory: str | None = None, use_hugepages: bool = False,
                       external_store: str | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A node of its own as long as the block runs: its socket, and its process. ($NIGHD says where nighd is.)"""
    if use_valgrind or use_profiler or plasma_directory is not None or external_store is not None:
        raise ValueError("nighd has none of these; see docs/from-plasma.md")
    with tempfile.TemporaryDirectory(prefix="nigh-") as folder:
        path = os.path.join(folder, "nigh.sock")
        ready, tell = os.pipe()
        with os.fdopen(ready) as pipe:
            try:
                process = subprocess.Popen(
                    [os.environ.get("NIGHD", "nighd"), "--memory", str(plasma_store_memory), "--socket", path,
                     "--huge", "require" if use_hugepages else "auto", "--ready-fd", str(tell)], pass_fds=[tell])
            finally:
                os.close(tell)
            try:
                if pipe.readline() != "ready\n":
                    raise RuntimeError(f"nighd ended with {process.wait()}")
                pipe.close()
                yield path, process
            finally:
                process.terminate()
                process.wait()
