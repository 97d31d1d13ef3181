# SPDX-License-Identifier: Apache-2.0
"""Gets, calls, services, events and whatever else takes its time, for asyncio: no thread waits for them.

    client = nigh.aio.Client(nigh.Client())
    view = await client.get("greeting")
    data = await client.wait(region.read(0, 4096, start=True))
    async for event in client.events(): ...
    client.close()

The loop watches the client's descriptor; what came is taken in on the loop's own thread."""
from __future__ import annotations

import asyncio
import inspect
from typing import Any, AsyncIterator, Awaitable, Callable, Sequence, TypeVar

from . import Client as _Client
from . import Error, Event, Id, Pending, Request, Service, TimeoutError, View, _answer_of, _event, _GRACE, _native, _PAUSE, _refuse, _reply

_T = TypeVar("_T")
_CLOSED = "the client is closed"
_TURNS = 16  # looks in a row, while what came goes on coming: the loop has others


class Client:
    """Over a nigh.Client, which nobody else polls or takes events of meanwhile. Of the loop that runs when it is made; its
    methods are for that loop's thread."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self._loop = asyncio.get_running_loop()
        self._waits: dict[Pending[Any], asyncio.Future[None]] = {}
        self._news: asyncio.Event | None = None
        self._error: Error | None = None
        self._is_due = False  # a look is
        self._fd: int | None = client.fileno()
        self._loop.add_reader(self._fd, self._look)
        self._look()

    def close(self) -> None:
        """Gives up what waits, which is ClosedError there, ends events, and closes the client. Also where the loop is closed
        already, of which nobody waits any more."""
        if self._error is None:
            self._error = _native.ClosedError(_CLOSED)
        is_over = self._loop.is_closed()
        self._stop_looking()
        for pending, future in self._waits.items():
            pending.cancel()
            if not is_over and not future.done():
                future.set_exception(_native.ClosedError(_CLOSED))
        self._waits.clear()
        if self._news is not None and not is_over:
            self._news.set()
        self.client.close()

    def _stop_looking(self) -> None:
        if self._fd is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._fd = None

    def _look_soon(self) -> None:
        """Once for all that begin to wait in this turn of the loop: some may have ended before the descriptor was armed."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """All that has come is taken in; then the descriptor says when there is more."""
        self._is_due = False
        if self._fd is None:
            return
        try:
            # Anew after whatever ended: who looked may have taken the bell that another was to ring.
            self.client.arm()
            for _ in range(_TURNS):
                if self.client.poll() == 0:
                    break
                self.client.arm()
            else:
                self._look_soon()
        except Error as error:
            self._fail(error)
        for pending in [pending for pending in self._waits if pending.done()]:
            future = self._waits.pop(pending)
            if not future.done():
                future.set_result(None)
        if self._news is not None:
            self._news.set()

    def _fail(self, error: Error) -> None:
        """The node is gone, and the descriptor says no more: what has not ended by that ends so."""
        self._error = error
        self._stop_looking()
        for pending, future in self._waits.items():
            if not pending.done() and not future.done():
                future.set_exception(error)

    async def wait(self, pending: Pending[_T]) -> _T:
        """What something comes to that was begun without waiting (start=True, get_start, call_start, receive_start), of this
        client: one task waits for it. Where that is cancelled, so is what it waits for."""
        if pending.client is not None and pending.client is not self.client:
            raise ValueError("what is waited for is another client's")
        if pending in self._waits:
            raise ValueError("another task waits for it already")
        if not pending.done():
            if self._error is not None:
                pending.cancel()
                raise self._error
            future = self._loop.create_future()
            self._waits[pending] = future
            self._look_soon()
            try:
                await future
            except BaseException:
                self._waits.pop(pending, None)
                pending.cancel()
                raise
        return pending.result()

    async def get_many(self, ids: Sequence[Id], timeout: float | None = None) -> list[View | None]:
        return await self.wait(self.client.get_start(ids, timeout))

    async def get(self, id: Id, timeout: float | None = None) -> View:
        view, = await self.get_many([id], timeout)
        if view is None:
            raise TimeoutError("the deadline passed")
        return view

    async def put(self, id: Id, data: Any, meta: Any = None, *, timeout: float | None = None, **more: Any) -> None:
        """As nigh.Client.put; by itself it waits for memory as long as it takes. The copy is made on the loop's thread."""
        await self.wait(self.client.put_many([(id, data, meta)], timeout=timeout, start=True, **more))

    async def call(self, service: str, request: Any = b"", **more: Any) -> bytes:
        """As nigh.Client.call."""
        return await self.wait(self.client.call_start(service, request, **more))

    async def _receive(self, service: Service) -> Request:
        """As that of nigh.serve."""
        until: float | None = None
        while True:
            try:
                return await self.wait(service.receive_start())
            except _native.NodeLostError:
                until = self._loop.time() + _GRACE if until is None else until
                if self._error is not None or self._loop.time() >= until:
                    raise
                await asyncio.sleep(_PAUSE)

    async def serve(self, name: str, answer: Callable[[Request], Awaitable[bytes | None] | bytes | None]) -> None:
        """Serves a name until the task is cancelled: one request after the other, with what a function, or a coroutine, says
        of each; as nigh.serve."""
        service = self.client.register(name)
        try:
            while True:
                request = await self._receive(service)
                try:
                    said: Any = answer(request)
                    if inspect.isawaitable(said):
                        said = await said
                except Error as error:
                    _refuse(request, _answer_of(error))
                except BaseException:
                    _refuse(request, _native.CanceledError.status)
                    raise
                else:
                    _reply(request, said)
                del request
        finally:
            service.close()

    async def events(self, replay: bool = False) -> AsyncIterator[Event]:
        """As nigh.Client.events; they begin with the first that is asked for."""
        self.client.subscribe(_native.NIGH_SUBSCRIBE_CONFLICTS | (_native.NIGH_SUBSCRIBE_REPLAY if replay else 0))
        mine = asyncio.Event()
        before, self._news = self._news, mine
        if before is not None:
            before.set()  # who waits there finds that it is another's turn
        try:
            while self._news is mine:
                self._look()
                mine.clear()
                if self.client.closed or isinstance(self._error, _native.ClosedError):
                    return
                if self._error is not None:
                    raise self._error
                while self._news is mine and not self.client.closed and (told := self.client.next_event(0)) is not None:
                    yield _event(told)
                if self._news is mine and not self.client.closed:
                    await mine.wait()
        finally:
            if self._news is mine:
                self._news = None
                if not self.client.closed and self._error is None:
                    self.client.unsubscribe()
