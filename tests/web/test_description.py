"""The OpenAPI document, as programs take it that check it and that make clients of it.

They are run by uv and npx, which fetch them; where there is no network, or no npm, the tests are skipped and say so.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import StringConstraints, TypeAdapter, ValidationError

from app.model.patterns import SENTENCES, worded
from app.web.api import create_app
from tests.support.fetched import UV, ran
from tests.web.stock import Stock


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("described")
    stock = Stock(folder / "data")
    path = folder / "openapi.json"
    path.write_text(json.dumps(create_app(stock.gateway).openapi()))
    yield path
    stock.close()


def test_it_is_valid(document: Path) -> None:
    tool = ("tool", "run", "--from", "openapi-spec-validator==0.9.0", "openapi-spec-validator")
    said = ran(UV, *tool, "--schema", "3.1", document, folder=document.parent)
    assert "OK" in said


def test_a_python_client_can_be_made(document: Path) -> None:
    tool = ("tool", "run", "--from", "openapi-python-client==0.29.1", "openapi-python-client")
    made = document.parent / "client"
    said = ran(
        UV, *tool, "generate", "--path", document, "--output-path", made, "--meta", "none", folder=document.parent
    )
    assert "WARNING" not in said, said
    assert (made / "api/attachments/get_attachment_content.py").exists()


@pytest.mark.skipif(shutil.which("npx") is None, reason="npm is missing: openapi-typescript is not tried")
def test_types_for_typescript_can_be_made(document: Path) -> None:
    ran("npx", "--yes", "openapi-typescript@7.13.0", document, "-o", "types.d.ts", folder=document.parent)
    assert "get_attachment_content" in (document.parent / "types.d.ts").read_text()


def test_texts_that_do_not_match_a_pattern_are_refused_in_words(document: Path) -> None:
    """pydantic shows the pattern itself. Every pattern of a request has a sentence in its place."""
    patterns = set(_values(json.loads(document.read_text()), "pattern"))
    assert patterns
    assert patterns <= SENTENCES.keys()
    for pattern, sentence in SENTENCES.items():
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)]).validate_python("\0")
        assert worded(caught.value.errors()[0]["msg"]) == sentence


def _values(value: object, key: str) -> Iterator[str]:
    """Yield the texts under a key, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get(key), str):
            yield value[key]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _values(each, key)
