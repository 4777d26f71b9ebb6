"""Generated pages are up to date with the code."""

import pytest

from docs.generate import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run: python -m docs.generate"
