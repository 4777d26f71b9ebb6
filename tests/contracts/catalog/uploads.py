"""Resumable uploads: limits, turns and pieces."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from app.model.uploads import (
    QuotaExceeded,
    TooManyUploads,
    UploadLimits,
    UploadPiece,
    UploadRecord,
    UploadSuperseded,
)
from app.ports import BadCursor, Catalog, UploadTotals
from tests.contracts.catalog.records import all_of

LIMITS = UploadLimits(6, 4, 100)


def _upload(number: int, owner: str = "key:a", length: int | None = None) -> UploadRecord:
    return UploadRecord(f"{number:032x}", owner, created_at=number, expires_at=1000, length=length)


class Uploads:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_an_upload_is_kept_as_it_was_begun(self, catalog: Catalog) -> None:
        begun = replace(
            _upload(1, length=7),
            file_name="ä.txt",
            content_type="text/plain",
            metadata="name YQ==",
            trace_parent="00-1",
        )
        catalog.add_upload(begun, LIMITS)
        assert catalog.upload(begun.id) == replace(begun, held=7)
        assert catalog.upload("0" * 32) is None
        assert catalog.upload_pieces(begun.id) == []
        assert catalog.upload_totals() == UploadTotals(1, 0)

    def test_numbers_of_uploads_are_limited(self, catalog: Catalog) -> None:
        for number in range(4):
            catalog.add_upload(_upload(number), LIMITS)
        with pytest.raises(
            TooManyUploads, match=r"are 4 uploads.*limits.resumable_uploads_a_client allows 4"
        ) as refused:
            catalog.add_upload(_upload(4), LIMITS)
        assert (refused.value.limit, refused.value.used) == (4, 4)
        for number in (5, 6):
            catalog.add_upload(_upload(number, "key:b"), LIMITS)
        with pytest.raises(TooManyUploads, match=r"there are 6 uploads.*limits.resumable_uploads allows"):
            catalog.add_upload(_upload(7, "key:c"), LIMITS)

    def test_bytes_of_an_owner_are_limited(self, catalog: Catalog) -> None:
        catalog.add_upload(_upload(1, length=60), LIMITS)
        with pytest.raises(QuotaExceeded) as refused:
            catalog.add_upload(_upload(2, length=41), LIMITS)
        assert (refused.value.limit, refused.value.used) == (100, 60)
        catalog.add_upload(_upload(3, "key:b", length=100), LIMITS)
        open_ended = _upload(4)
        catalog.add_upload(open_ended, LIMITS)
        reserved = catalog.reserve_upload(open_ended, 10, 50, 100)
        assert reserved.held == 40, "as much as the owner may have"
        with pytest.raises(QuotaExceeded):
            catalog.reserve_upload(reserved, 41, 50, 100)
        with pytest.raises(QuotaExceeded):
            catalog.add_upload(_upload(5, length=1), LIMITS)
        received = catalog.add_upload_piece(reserved, 5)
        assert (received.received, received.held) == (5, 40)
        assert catalog.reserve_upload(received, 0, 0, 100).held == 5
        catalog.add_upload(_upload(5, length=35), LIMITS)
        catalog.drop_upload(_upload(1).id)
        catalog.add_upload(_upload(6, length=60), LIMITS)

    def test_many_requests_hold_no_more_than_the_quota(self, catalog: Catalog) -> None:
        def begin(number: int) -> int:
            try:
                catalog.add_upload(_upload(number, length=30), UploadLimits(99, 99, 100))
            except QuotaExceeded:
                return 0
            return 1

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(begin, range(8))) == 3

    def test_only_the_newest_turn_changes_an_upload(self, catalog: Catalog) -> None:
        begun = _upload(1)
        catalog.add_upload(begun, LIMITS)
        first = catalog.add_upload_piece(catalog.take_upload(begun.id), 3)
        second = catalog.take_upload(begun.id)
        assert (first.turn, second.turn, second.received) == (1, 2, 3)
        for late in (begun, first):
            with pytest.raises(UploadSuperseded):
                catalog.add_upload_piece(late, 9)
            with pytest.raises(UploadSuperseded):
                catalog.change_upload(replace(late, length=9))
            with pytest.raises(UploadSuperseded):
                catalog.reserve_upload(late, 9, 9, 100)
        assert catalog.upload(begun.id) == second
        second = catalog.add_upload_piece(second, 4)
        assert catalog.upload_pieces(begun.id) == [UploadPiece(0, 3, 1), UploadPiece(3, 4, 2)]
        second = catalog.change_upload(replace(second, length=7, repr_digest="sha-256=:YQ==:"))
        assert second.is_complete
        assert catalog.change_upload(replace(second, is_checked=True)) == replace(second, is_checked=True)
        assert catalog.upload_totals() == UploadTotals(1, 7)
        with pytest.raises(KeyError):
            catalog.take_upload("0" * 32)

    def test_expired_uploads_go(self, catalog: Catalog) -> None:
        for number in (1, 2, 3):
            catalog.add_upload(_upload(number), LIMITS)
        first, second, third = (_upload(number).id for number in (1, 2, 3))
        held = catalog.take_upload(first)
        catalog.expire_upload(first, 500)
        catalog.expire_upload(second, 2000)
        assert [each.id for each in catalog.expired_uploads(499, 9)] == []
        assert [each.id for each in catalog.expired_uploads(500, 9)] == [first]
        assert catalog.add_upload_piece(held, 1).received == 1, "one that was sent may still be written to"
        catalog.expire_upload(first, 0)
        with pytest.raises(UploadSuperseded):
            catalog.add_upload_piece(held, 1)
        catalog.drop_upload(first)
        assert (catalog.upload(first), catalog.upload_pieces(first)) == (None, [])
        with pytest.raises(KeyError):
            catalog.add_upload_piece(held, 1)
        assert catalog.unknown_uploads([first, second, third, "x"]) == [first, "x"]
        assert sorted(each.id for each in catalog.expired_uploads(1000, 9)) == [second, third]
        assert len(catalog.expired_uploads(1000, 1)) == 1

    def test_uploads_are_listed_newest_first(self, catalog: Catalog) -> None:
        for number in range(5):
            catalog.add_upload(_upload(number, owner=("key:a", "key:b")[number % 2]), LIMITS)
        catalog.expire_upload(_upload(2).id, 3)

        def listed(owner: str | None) -> list[int]:
            return [each.created_at for each in all_of(lambda cursor: catalog.uploads(owner, 3, cursor, 2))]

        assert (listed(None), listed("key:a"), listed("key:b")) == ([4, 3, 1, 0], [4, 0], [3, 1])
        with pytest.raises(BadCursor):
            catalog.uploads(None, 3, "x", 2)
