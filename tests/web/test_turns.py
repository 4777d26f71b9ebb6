"""Requests begin in turns: a client waits for few requests of each other address."""

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from app.web.server.fair_queue import A_ROUND, FairQueueMiddleware


class Requests:
    """Requests to an application that notes their addresses when they begin."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ask = FairQueueMiddleware(self._note)

    async def _note(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        self.begun.append(scope["client"][0] if scope["client"] else "none")

    def of(self, address: str | None) -> Coroutine[Any, Any, None]:
        return self._ask({"type": "http", "client": address and (address, 1)}, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, A_ROUND, 500])
def test_each_request_begins_once(count: int) -> None:
    requests = Requests()

    async def ask() -> None:
        await asyncio.gather(*(requests.of("a") for _ in range(count)))
        await requests.of(None)

    asyncio.run(ask())
    assert requests.begun == ["a"] * count + ["none"]


def test_a_client_waits_for_few_requests_of_each_other_address() -> None:
    requests = Requests()

    async def ask() -> None:
        many = [requests.of(address) for _ in range(300) for address in "abc"]
        await asyncio.gather(*many, requests.of("late"), requests.of("late"))

    asyncio.run(ask())
    first, second = (place for place, address in enumerate(requests.begun) if address == "late")
    assert first < 2 * A_ROUND
    assert second <= first + 4
    assert len(requests.begun) == 902


def test_the_loop_does_other_work_between_the_turns() -> None:
    requests = Requests()
    seen: list[int] = []

    async def look() -> None:
        while len(requests.begun) < 100:
            seen.append(len(requests.begun))
            await asyncio.sleep(0)

    async def ask() -> None:
        await asyncio.gather(look(), *(requests.of("a") for _ in range(100)))

    asyncio.run(ask())
    assert max(now - before for before, now in pairwise(seen)) <= A_ROUND


def test_a_request_that_is_cancelled_keeps_none_from_its_turn() -> None:
    requests = Requests()

    async def ask() -> None:
        waiting = [asyncio.create_task(requests.of("a")) for _ in range(100)]
        last = asyncio.create_task(requests.of("b"))
        await asyncio.sleep(0)
        for each in waiting[A_ROUND:]:
            each.cancel()
        await last
        await requests.of("c")

    asyncio.run(asyncio.wait_for(ask(), 10))
    assert requests.begun[-2:] == ["b", "c"]
