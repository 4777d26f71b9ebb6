"""Deliveries that retention removes while clients have them sent again."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.model.attachment import DeliveryState
from app.service.retention.removal import Remover, RetentionClock
from app.service.sending.delivery_creation import drop_abandoned_uploads
from tests.service.sending.test_changing import World, world
from tests.service.sending.test_deliveries import FILE

__all__ = ["world"]

YEARS = 5 * 365 * 86400.0


@pytest.fixture
def retaining(world: World) -> Remover:
    """Two old deliveries, and what removes them."""
    for each in ("d1", "d2"):
        delivery = world.deliveries.submit(world.submission(each, (FILE, "a.bin", b"abc"))).delivery
        world.deliveries.cancel(delivery)
    retaining = Remover(world.context, RetentionClock(world.clock))
    world.clock.advance(YEARS)
    return retaining


def dropped(world: World, what: str) -> float | None:
    return world.context.metrics.registry.get_sample_value(f"attachment_gateway_{what}_total", {"what": "deliveries"})


@pytest.mark.parametrize("method", ["drop_deliveries", "delete_all"])
def test_one_that_is_retried_at_that_moment_keeps_its_content(
    world: World, retaining: Remover, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    of: Any = world.context.catalog if method == "drop_deliveries" else world.context.store
    real = getattr(of, method)

    def retrying(these: Sequence[str], *more: Any) -> object:
        if (record := world.context.catalog.delivery("d1")) is not None:
            world.deliveries.retry(record)
        return real(these, *more)

    monkeypatch.setattr(of, method, retrying)
    retaining.drop_deliveries()
    left = world.context.catalog.delivery("d1")
    assert world.context.catalog.delivery("d2") is None
    assert world.objects() == ([] if left is None else ["outgoing/d1/0"])
    if method == "drop_deliveries":
        world.step()
        assert world.now().state is DeliveryState.SENT
        assert (dropped(world, "dropped"), dropped(world, "dropped_bytes")) == (1, 3)


def test_what_a_crash_leaves_of_them_is_removed_at_the_next_start(
    world: World, retaining: Remover, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(_names: Sequence[str]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(world.context.store, "delete_all", crash)
        with pytest.raises(KeyboardInterrupt):
            retaining.drop_deliveries()
    assert [world.context.catalog.delivery(each) for each in ("d1", "d2")] == [None, None]
    drop_abandoned_uploads(world.context)
    assert world.objects() == []
