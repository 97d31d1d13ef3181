# SPDX-License-Identifier: Apache-2.0
"""Gets and events for asyncio: no thread waits for them.

    client = nigh.aio.Client(nigh.Client())
    view = await client.get("greeting")
    async for event in client.events(): ...
    client.close()

The loop watches the client's descriptor; what came is taken in on the loop's own thread."""
from __future__ import annotations

import asyncio
from typing import AsyncIterator, Sequence

from . import Client as _Client
from . import Event, Id, TimeoutError, View, _event, _native


class Client:
    """Over a nigh.Client, which nobody else polls or takes events of meanwhile. Of the loop that runs when it is made."""

    def __init__(self, client: _Client) -> None:
        self.client = client
        self._loop = asyncio.get_running_loop()
        self._waits: dict[object, asyncio.Future[None]] = {}
        self._news: asyncio.Event | None = None
        self._loop.add_reader(client.fileno(), self._look)
        self._look()

    def close(self) -> None:
        """Gives up what waits, and closes the client."""
        if not self.client.closed:
            self._loop.remove_reader(self.client.fileno())
        for pending, future in self._waits.items():
            pending.cancel()
            future.cancel()
        self._waits.clear()
        self.client.close()

    def _look(self) -> None:
        """All that has come is taken in; then the descriptor says when there is more."""
        self.client.arm()
        while self.client.poll() > 0:
            pass
        for pending in [pending for pending in self._waits if pending.done()]:
            future = self._waits.pop(pending)
            if not future.done():
                future.set_result(None)
        if self._news is not None:
            self._news.set()

    async def get_many(self, ids: Sequence[Id], timeout: float | None = None) -> list[View | None]:
        pending = self.client.get_start(ids, timeout)
        if not pending.done():
            future = self._loop.create_future()
            self._waits[pending] = future
            self._look()  # it may have ended before the descriptor was armed
            try:
                await future
            except asyncio.CancelledError:
                self._waits.pop(pending, None)
                pending.cancel()
                raise
        return pending.result()

    async def get(self, id: Id, timeout: float | None = None) -> View:
        view, = await self.get_many([id], timeout)
        if view is None:
            raise TimeoutError("the deadline passed")
        return view

    async def events(self, replay: bool = False) -> AsyncIterator[Event]:
        """As nigh.Client.events."""
        self.client.subscribe(_native.NIGH_SUBSCRIBE_CONFLICTS | (_native.NIGH_SUBSCRIBE_REPLAY if replay else 0))
        self._news = asyncio.Event()
        try:
            while True:
                self._news.clear()
                self.client.arm()
                while (told := self.client.next_event(0)) is not None:
                    yield _event(told)
                await self._news.wait()
        finally:
            self._news = None
            if not self.client.closed:
                self.client.unsubscribe()
