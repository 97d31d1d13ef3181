# SPDX-License-Identifier: Apache-2.0
"""Objects, shared in place by all processes of a machine and pulled between machines: libnigh for Python.

    import nigh

    with nigh.Client() as client:
        client.put("greeting", b"hello")
        with client.get("greeting") as view:
            print(bytes(view))

An id is 20 bytes, or a name (str). Times are seconds; None waits for ever, 0 does not wait."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Union

from . import _native, _pickles
from ._native import *  # noqa: F401,F403  the exceptions, one for each status
from ._native import View, Writer

if TYPE_CHECKING:
    from typing import TypeAlias

Id: TypeAlias = Union[bytes, str]

__all__ = ["Client", "Event", "Id", "View", "Writer", "random_id", *(
    name for name in vars(_native) if name.endswith("Error"))]


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
    kind, *rest = told
    return Event(_KINDS.get(kind, f"event-{kind}"), *rest)


class Client(_native.Client):
    """A client of this machine's node. Any thread may use it; a child process opens its own."""

    def put_object(self, id: Id, value: Any, **more: Any) -> None:
        """Puts what get_object gives again. What offers its bytes to pickle's protocol 5, as numpy arrays do, is copied once,
        into the object, and not there."""
        pickled = _pickles.Pickled(value)
        with self.create(id, pickled.size, meta=_pickles.META, **more) as writer:
            with memoryview(writer) as bytes_:
                pickled.write(bytes_)

    def get_object(self, id: Id, timeout: float | None = None) -> Any:
        """What was put: arrays of it are over the object's bytes, read-only, and keep them there. A pickle is a program: who
        may put into the pool decides what it does here."""
        view = self.get(id, timeout)
        if view.meta != _pickles.META:
            raise ValueError("the object was not put by put_object")
        return _pickles.load(memoryview(view))

    def list(self) -> Iterator[dict[str, Any]]:
        """What is known of each object of the pool. Objects that come or go meanwhile may be missed."""
        cursor = 0
        while True:
            cursor, infos = self.list_some(cursor)
            if not infos:
                return
            yield from infos

    def events(self, replay: bool = False) -> Iterator[Event]:
        """What happens to objects of the pool from here on, for ever; with `replay` first what is sealed already."""
        self.subscribe(_native.NIGH_SUBSCRIBE_CONFLICTS | (_native.NIGH_SUBSCRIBE_REPLAY if replay else 0))
        try:
            while True:
                told = self.next_event(None)
                if told is not None:
                    yield _event(told)
        finally:
            if not self.closed:
                self.unsubscribe()
