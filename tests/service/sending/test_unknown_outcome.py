"""Submissions for which the catalog fails, before or after it has recorded the delivery."""

from typing import Any

import pytest

from app.model.attachment import DeliveryState
from app.model.errors import CatalogError
from app.service.sending.delivery_creation import drop_abandoned_uploads
from tests.service.sending.test_changing import World, world

__all__ = ["world"]


def break_catalog(world: World, patch: pytest.MonkeyPatch, *, is_written: bool, is_back: bool = True) -> None:
    """Have the catalog fail when a delivery is added, and until it is back, when it is asked for one."""
    catalog = world.context.catalog
    add, ask = catalog.add_delivery, catalog.is_delivery_recorded

    def adding(*given: Any) -> None:
        if is_written:
            add(*given)
        raise CatalogError("the connection broke")

    def asking(delivery_id: str) -> bool:
        if not is_back:
            raise CatalogError("the catalog is away")
        return ask(delivery_id)

    patch.setattr(catalog, "add_delivery", adding)
    patch.setattr(catalog, "is_delivery_recorded", asking)


def test_one_that_was_recorded_is_accepted_and_sent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    break_catalog(world, monkeypatch, is_written=True)
    assert world.submitted(10).state is DeliveryState.QUEUED
    assert world.objects() == ["outgoing/d1/0"]
    world.step()
    assert world.now().state is DeliveryState.SENT
    assert world.told() == ["queued", "sending", "sent"]


def test_one_that_was_not_recorded_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    break_catalog(world, monkeypatch, is_written=False)
    with pytest.raises(CatalogError, match="the connection broke"):
        world.submitted(10)
    assert world.objects() == []


@pytest.mark.parametrize("is_written", [True, False])
def test_one_of_which_nothing_is_known_keeps_its_content(
    world: World, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    with monkeypatch.context() as patch:
        break_catalog(world, patch, is_written=is_written, is_back=False)
        with pytest.raises(CatalogError, match="the catalog is away"):
            world.submitted(10)
    assert world.objects() == ["outgoing/d1/0"]
    drop_abandoned_uploads(world.context)
    assert world.objects() == (["outgoing/d1/0"] if is_written else [])
    world.step()
    delivery = world.context.catalog.delivery("d1")
    assert (delivery and delivery.state) == (DeliveryState.SENT if is_written else None)
