"""What the numbering of messages on arrival asks when it begins again."""

from typing import Any

import pytest

from app.model.records import Checkpoint
from app.ports import Catalog
from tests.contracts.catalog.records import State, attachment, message


class Numbering:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_what_was_learnt_of_a_source_is_kept_by_subject(self, catalog: Catalog) -> None:
        assert catalog.counting("quay") == {}
        catalog.learn_counting("quay", {"A.B": "one", "": "other", "odd\0\ud800": "three"})
        catalog.learn_counting("crane", {"A.B": "theirs"})
        catalog.learn_counting("quay", {"A.B": "two"})
        catalog.learn_counting("quay", {})
        assert catalog.counting("quay") == {"A.B": "two", "": "other", "odd\0\ud800": "three"}
        assert catalog.counting("crane") == {"A.B": "theirs"}

    def test_the_subjects_learnt_last_are_kept(self, catalog: Catalog) -> None:
        for at in range(0, 25_000, 5_000):
            catalog.learn_counting("quay", {str(number): "rule" for number in range(at, at + 5_000)})
            catalog.learn_counting("quay", {"0": "newest"})
        kept = catalog.counting("quay")
        assert len(kept) <= 20_000
        assert set(map(str, range(15_000, 25_000))) <= set(kept)
        assert kept["0"] == "newest"

    @pytest.mark.parametrize("state", State)
    def test_open_headers_are_those_of_attachments_being_received(self, catalog: Catalog, state: State) -> None:
        def of(number: int, message_id: str, **changes: Any) -> Any:
            return attachment(number, **{"message_id": message_id, **changes})

        catalog.checkpoint(
            Checkpoint(
                attachments=[
                    of(1, "m1", state=state),
                    of(2, "m2"),
                    of(3, "m2", state=State.FINISHED),
                    of(4, "m4", source="crane"),
                    attachment(5),
                ],
                messages=[message(1, "a1"), message(2, "a2", "a3"), message(4, "a4", source="crane"), message(9)],
            )
        )
        found = {number.to_bytes(size, "big"): 2 for number, size in ((2, 24), (2, 16), (3, 16))}
        if state is State.RECEIVING:
            found |= {bytes(15) + b"\1": 1, bytes(23) + b"\1": 1}
        assert catalog.open_correl_ids("quay") == found

    def test_an_application_message_that_is_not_announced_is_found_by_its_header(self, catalog: Catalog) -> None:
        own = b"h" * 16 + bytes(8)
        catalog.checkpoint(Checkpoint(messages=[message(1, header_correl_id=own), message(2, message_correl_id=own)]))
        catalog.checkpoint(Checkpoint(messages=[message(3, header_correl_id=b"x" * 24)]))
        assert catalog.messages_by_correl_id("quay", [own[:20]]) == {own[:20]: message(1, header_correl_id=own)}
        assert catalog.messages_by_correl_id("quay", [bytes(20)]) == {}
