"""Deliveries whose content cannot be read: they fail or wait by themselves, and those after them are sent."""

import re
from collections.abc import Callable, Iterator
from errno import EACCES, EIO
from pathlib import Path
from typing import Any

import pytest

from adapters.object_store import ObjectStore
from app.model.attachment import AttachmentKind, DeliveryState
from app.model.errors import CatalogError, DamagedError, GatewayError
from app.model.records import DeliveryRecord
from app.service.content.stored_content import opened
from tests.service.sending.test_changing import World, world
from tests.service.sending.test_deliveries import DATA_SET, FILE

__all__ = ["world"]

TABLE = b"a,b\n" + b"1,some text\n" * 1000
Fail = Callable[[World, str, pytest.MonkeyPatch], None]


def submitted(world: World, delivery_id: str, kind: AttachmentKind = FILE) -> DeliveryRecord:
    name, data = ("a.csv", TABLE) if kind is DATA_SET else ("a.bin", bytes(1000))
    delivery = world.deliveries.submit(world.submission(delivery_id, (kind, name, data))).delivery
    world.clock.advance(1)
    return delivery


def found(world: World, delivery_id: str) -> DeliveryRecord:
    record = world.context.catalog.delivery(delivery_id)
    assert record is not None
    return record


def path_of(world: World, name: str) -> Path:
    path = world.context.store.local_path(name)
    assert path is not None
    return Path(path)


def gone(world: World, name: str, _patch: pytest.MonkeyPatch) -> None:
    world.context.store.delete(name)


def shortened(world: World, name: str, _patch: pytest.MonkeyPatch) -> None:
    path_of(world, name).write_bytes(path_of(world, name).read_bytes()[:-1])


def altered(world: World, name: str, _patch: pytest.MonkeyPatch) -> None:
    data = bytearray(path_of(world, name).read_bytes())
    data[20:200] = bytes([255]) * 180
    path_of(world, name).write_bytes(data)


def raising(error: Exception) -> Fail:
    """Return what makes reading and opening one object raise an error."""

    def fail(world: World, name: str, patch: pytest.MonkeyPatch) -> None:
        read, open_ = ObjectStore.read, Path.open

        def reading(store: ObjectStore, asked: str, *more: Any) -> Iterator[memoryview]:
            if asked == name:
                raise error
            return read(store, asked, *more)

        def opening(path: Path, *how: Any) -> Any:
            if path == path_of(world, name):
                raise error
            return open_(path, *how)

        patch.setattr(ObjectStore, "read", reading)
        patch.setattr(Path, "open", opening)

    return fail


@pytest.mark.parametrize(
    ("kind", "fail", "why"),
    [
        (FILE, gone, "its content 'outgoing/d1/0' is gone"),
        (DATA_SET, gone, "its content 'outgoing/d1/data-set-0' is gone"),
        (FILE, shortened, "the object outgoing/d1/0 has 999 bytes, not 1000"),
        (DATA_SET, shortened, "the object outgoing/d1/data-set-0 has .* bytes, not"),
        (FILE, altered, "the object outgoing/d1/0 does not have the SHA-256 of what was stored"),
        (DATA_SET, altered, "the object outgoing/d1/data-set-0 does not have the SHA-256 of what was stored"),
        (FILE, raising(DamagedError("its disk fails")), "its disk fails"),
        (DATA_SET, raising(OSError(EIO, "Input/output error")), "data-set-0 cannot be read: .*Input/output error"),
    ],
)
def test_one_with_damaged_or_missing_content_fails_and_the_next_one_is_sent(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: AttachmentKind, fail: Fail, why: str
) -> None:
    bad = submitted(world, "d1", kind)
    submitted(world, "d2", kind)
    fail(world, bad.attachments[0].object_name, monkeypatch)
    world.step()
    assert [found(world, each).state for each in ("d1", "d2")] == [DeliveryState.FAILED, DeliveryState.SENT]
    assert re.search(why, found(world, "d1").reason or "")


@pytest.mark.parametrize(
    ("kind", "error", "why"),
    [
        (FILE, GatewayError("the store is away"), "the store is away"),
        (DATA_SET, OSError(EACCES, "Permission denied"), "cannot be read: [Errno 13] Permission denied"),
        (FILE, ZeroDivisionError("a fault of this program"), "ZeroDivisionError: a fault of this program"),
    ],
)
def test_one_whose_content_cannot_be_read_at_present_waits_and_is_reported(
    world: World, kind: AttachmentKind, error: Exception, why: str
) -> None:
    outbox = world.deliveries.outboxes["partner"]
    bad = submitted(world, "d1", kind)
    submitted(world, "d2", kind)
    with pytest.MonkeyPatch.context() as patch:
        raising(error)(world, bad.attachments[0].object_name, patch)
        world.step()
    first = found(world, "d1")
    assert (first.state, found(world, "d2").state) == (DeliveryState.QUEUED, DeliveryState.SENT)
    assert first.next_attempt_at > world.clock.now()
    assert why in (first.reason or "")
    assert why in outbox.status()["error"]
    world.clock.advance(10)
    world.step()
    assert found(world, "d1").state is DeliveryState.SENT
    assert outbox.status()["error"] is None


def test_one_whose_content_can_never_be_read_fails_after_its_attempts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = submitted(world, "d1")
    raising(GatewayError("away"))(world, bad.attachments[0].object_name, monkeypatch)
    for _ in range(3):  # the first one sends what comes before the content
        world.step()
        world.clock.advance(10)
    assert (found(world, "d1").state, found(world, "d1").reason) == (DeliveryState.FAILED, "away")
    assert world.deliveries.outboxes["partner"].status()["error"] is None


def test_a_catalog_that_fails_is_no_failure_of_a_delivery(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(world, "d1")

    def fail(*_: object) -> None:
        raise CatalogError("the catalog is away")

    outbox = world.deliveries.outboxes["partner"]
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "_settle_cut", fail)
        world.step()
    assert (found(world, "d1").state, found(world, "d1").reason) == (DeliveryState.SENDING, None)
    assert outbox.status()["error"] == "the catalog is away"
    world.step()
    assert found(world, "d1").state is DeliveryState.SENT
    world.step()
    assert outbox.status()["error"] is None


def test_opening_an_object_that_is_missing_is_a_key_error(tmp_path: Path) -> None:
    for store in (ObjectStore(tmp_path), ObjectStore("memory://")):
        with pytest.raises(KeyError), opened(store, "outgoing/none"):
            raise AssertionError
