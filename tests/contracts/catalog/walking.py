"""Pages of lists while rows come and go."""

import pytest

from app.ports import Catalog
from tests.support.walking import Walked

LASTING = 3_000


class Walking:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    @pytest.fixture
    def bounded_pages(self) -> None:
        """Nothing; inheritors make pages read so few rows that they end early here."""

    @pytest.mark.usefixtures("bounded_pages")
    def test_pages_are_complete_and_without_repeats_while_rows_come_and_go(self, catalog: Catalog) -> None:
        walked = Walked(catalog, LASTING)
        assert all(walked.lasting.values())
        with walked.changing():
            faults = [fault for name in walked.lasting for fault in walked.faults(name, 200)]
        assert faults == []
        assert walked.came
