"""The examples of docs/formats.md are what the formats are."""

import re
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from app.tables.write import FORMATS
from tests.support.tables import pupils
from tests.tables.out.making import made

PAGE = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
EXAMPLES = dict(re.findall(r"^`format=([^`]+)`.*?^```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("query", EXAMPLES)
def test_an_example_is_what_comes(query: str) -> None:
    name, *options = query.split("&")
    chosen: dict[str, Any] = dict(option.split("=") for option in options)
    if "columns" in chosen:
        chosen["columns"] = (chosen["columns"],)
    data = made(pupils(), name, **chosen)
    if name == "sas":
        with zipfile.ZipFile(BytesIO(data)) as archive:
            data = archive.read("data.sas")
    assert data.decode().replace("\r\n", "\n") == EXAMPLES[query]


@pytest.mark.parametrize("known", FORMATS.values(), ids=lambda known: known.name)
def test_the_table_of_formats_is_whole(known: Any) -> None:
    assert f"| `{known.name}` | `{known.media_type}` | `{known.extension}` |" in PAGE
    defaults = re.search(rf"^\|[^|]*`{known.name}`[^|]*\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert defaults
    assert (defaults[1], *re.findall(r"`(\w+)`", defaults[2])) == known.missing
    for option, row in re.findall(r"^\| `(dates|names|blank|rename)` \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE):
        listed = f"`{known.name}`" in row
        assert (not listed if row.startswith("all") else listed) == (option in known.options), option
