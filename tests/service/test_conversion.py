"""Conversions: their processes, their limits, and how they end."""

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ByteSize

from app.model.errors import LimitExceeded
from app.service.conversion import Busy, Conversions, Slot, SlotUse, finished
from app.settings import Limits
from app.tables.write import OptionError

QUICK = Limits(conversions=1, conversions_waiting=0, conversion_memory=ByteSize(64 << 20))


def process_id() -> Generator[bytes, None, int]:
    yield b"x"
    return os.getpid()


def allocating(how: str) -> Generator[bytes, None, int]:
    yield b""
    return len(bytes(1 << 30)) if how == "python" else pa.allocate_buffer(1 << 30).size


def hiding() -> Generator[bytes, None, None]:
    """What a reader makes of want of memory."""
    yield b""
    try:
        bytes(1 << 30)
    except MemoryError:
        raise ValueError("the file is damaged") from None


def computing() -> Generator[bytes, None, None]:
    yield b""
    while True:
        pass


def refusing() -> Generator[bytes, None, None]:
    yield b""
    raise OptionError("columns", "there is no such variable")


def ending() -> Generator[bytes, None, None]:
    yield b""
    os._exit(3)


def converted(work: Callable[[Conversions], Awaitable[Any]], limits: Limits = QUICK) -> Any:
    async def run() -> Any:
        pool = Conversions(limits)
        try:
            return await work(pool)
        finally:
            await pool.close()

    return asyncio.run(run())


async def result(pool: Conversions, function: Callable[..., Any], *given: Any) -> Any:
    async with pool.slot() as slot:
        return await slot.within_time(lambda: finished(slot.run(function, *given)))


def test_processes_are_used_again() -> None:
    async def twice(pool: Conversions) -> list[int]:
        return [await result(pool, process_id) for _ in range(2)]

    first, second = converted(twice)
    assert first == second != os.getpid()


@pytest.mark.parametrize("how", ["python", "arrow"])
def test_memory_is_limited(how: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        converted(lambda pool: result(pool, allocating, how))
    assert caught.value.limit == "conversion_memory"


def test_want_of_memory_is_found_behind_other_errors() -> None:
    with pytest.raises(LimitExceeded):
        converted(lambda pool: result(pool, hiding))


def test_time_is_limited() -> None:
    with pytest.raises(LimitExceeded) as caught:
        converted(
            lambda pool: result(pool, computing), QUICK.model_copy(update={"conversion_time": timedelta(seconds=1)})
        )
    assert caught.value.limit == "conversion_time"


def test_errors_keep_their_class() -> None:
    with pytest.raises(OptionError) as caught:
        converted(lambda pool: result(pool, refusing))
    assert (caught.value.option, caught.value.why) == ("columns", "there is no such variable")


def test_a_process_that_ends_is_replaced() -> None:
    async def both(pool: Conversions) -> int:
        with pytest.raises(Exception, match="ended with exit code 3"):
            await result(pool, ending)
        return int(await result(pool, process_id))

    assert converted(both)


def test_a_forced_stop_leaves_no_error_that_nobody_retrieved() -> None:
    complaints: list[dict[str, Any]] = []

    async def stopped(pool: Conversions) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        running = asyncio.create_task(result(pool, computing))
        while not _is_busy(pool):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        del running
        await asyncio.sleep(0.5)
        gc.collect()
        await asyncio.sleep(0)

    converted(stopped)
    gc.collect()
    assert not complaints


def test_more_than_may_wait_are_refused_and_cancelling_frees_the_slot() -> None:
    async def crowded(pool: Conversions) -> int:
        running = asyncio.create_task(result(pool, computing))
        while not _is_busy(pool):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        with pytest.raises(Busy):
            await result(pool, process_id)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return int(await result(pool, process_id))

    assert converted(crowded)


async def held(pool: Conversions, use: SlotUse, who: str, stack: AsyncExitStack) -> bool:
    """Enter a slot if it is free at once."""
    entering = asyncio.create_task(stack.enter_async_context(pool.slot(use, who)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    if not entering.done():
        entering.cancel()
    return not isinstance((await asyncio.gather(entering, return_exceptions=True))[0], asyncio.CancelledError)


@pytest.mark.parametrize("conversions", [1, 2, 3])
def test_downloads_leave_a_slot_for_uploads_and_queries_have_their_own(conversions: int) -> None:
    async def crowded(pool: Conversions) -> None:
        async with AsyncExitStack() as stack:
            downloads = [await held(pool, SlotUse.DOWNLOAD, str(n), stack) for n in range(4)]
            assert sum(downloads) == max(1, conversions - 1)
            uploads = [await held(pool, SlotUse.UPLOAD, str(n), stack) for n in range(4)]
            assert sum(uploads) == conversions - sum(downloads)
            assert [await held(pool, SlotUse.QUERY, who, stack) for who in "aabbc"] == [True, False, True, False, False]

    converted(crowded, QUICK.model_copy(update={"conversions": conversions, "conversions_waiting": 1}))


@pytest.mark.parametrize("use", list(SlotUse))
def test_a_place_goes_to_the_caller_with_the_fewest(use: SlotUse) -> None:
    """However many one caller has waiting, another waits for at most one of them."""

    async def crowded(pool: Conversions) -> list[str]:
        order: list[str] = []

        async def work(who: str) -> None:
            async with pool.slot(use, who):
                order.append(who)
                await asyncio.sleep(0)

        await asyncio.gather(*(work(who) for who in ["greedy"] * 20 + ["first", "second"]))
        return order

    order = converted(crowded, QUICK.model_copy(update={"conversions_waiting": 64}))
    assert len(order) == 22
    assert max(order.index("first"), order.index("second")) <= 3, order


def test_the_newest_of_whom_most_waits_is_refused() -> None:
    async def crowded(pool: Conversions) -> tuple[list[str], list[str]]:
        served: list[str] = []
        refused: list[str] = []

        async def enter(name: str) -> None:
            try:
                async with pool.slot(SlotUse.QUERY, name[0]):
                    served.append(name)
            except Busy:
                refused.append(name)

        async with pool.slot(SlotUse.QUERY, "a"), pool.slot(SlotUse.QUERY, "b"):
            tasks = []
            for name in ("a1", "a2", "a3", "b1", "c1", "c2"):
                tasks.append(asyncio.create_task(enter(name)))
                await asyncio.sleep(0)
            async with pool.slot(SlotUse.DOWNLOAD, "a"):  # waiting queries take no place of downloads
                pass
        await asyncio.gather(*tasks)
        return sorted(served), refused

    served, refused = converted(crowded, QUICK.model_copy(update={"conversions_waiting": 3}))
    assert (served, refused) == (["a1", "b1", "c1"], ["a3", "a2", "c2"])


def _is_busy(pool: Conversions) -> bool:
    return bool(pool._places._held)


def test_a_slot_that_has_ended_converts_no_more() -> None:
    async def late(pool: Conversions) -> Slot:
        async with pool.slot() as slot:
            pass
        return slot

    slot = converted(late)
    with pytest.raises(Exception, match="was ended"):
        slot.check()


STOPPED = """
import asyncio, time
from app.service.conversion import Conversions, conversion_pool
from app.settings import Limits

async def stop() -> None:
    conversions = Conversions(Limits())
    conversions.warm()
    await conversions.close()

conversion_pool._Worker = lambda memory: time.sleep(3600)
asyncio.run(stop())
"""


@pytest.mark.process
def test_the_end_does_not_wait_for_a_process_that_is_being_prepared() -> None:
    subprocess.run([sys.executable, "-c", STOPPED], check=True, timeout=60)
