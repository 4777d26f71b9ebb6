"""Generated pages are up to date with the code, and the lists that they are made of are complete."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from app.model.attachment import DeliveryState
from docs.generate import FOLDER, PAGES
from docs.references import EVENTS, QUARANTINED_ATTACHMENTS, QUARANTINED_MESSAGES

ROOT = FOLDER.parent
RECEIVING = (
    *("app/assembly", "app/capture", "app/cli/journal_command.py", "app/codecs", "app/dataset", "app/framing"),
    *("app/model", "app/service", "adapters"),
)
SENDING = {
    *("encode.py", "packet_writer.py", "structure_writing.py", "sas_bodies.py"),
    *("rendezvous_bodies.py", "upload_conversion.py"),
}
"""Modules whose codes are errors of an upload."""

CALLS = {"InvalidInputError", "Contradiction", "Refused", "RefusedEntry", "refuse", "_refuse", "refused", "unreadable"}
OF_SENDING_ALONE = {"no-data-set", "too-large", "too-long"}


def calls(*places: str) -> Iterator[tuple[Path, str, list[str]]]:
    """Every call: its module, the name that is called, and the constants among its first two arguments."""
    for place in places:
        path = ROOT / place
        for module in [path] if path.is_file() else path.rglob("*.py"):
            for name, words in calls_of(module):
                yield module, name, words


@cache
def calls_of(module: Path) -> list[tuple[str, list[str]]]:
    """The calls of a module, by the name that is called. Only of modules that have such a name at all."""
    text = module.read_text()
    if not any(name in text for name in (*CALLS, "NewEvent")):
        return []
    return [
        (
            getattr(node.func, "id", getattr(node.func, "attr", "")),
            [str(each.value) for each in node.args[:2] if isinstance(each, ast.Constant)],
        )
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    ]


def codes() -> set[str]:
    """Every code with which received messages and attachments are refused, by the code of this project."""
    found = {
        word
        for module, name, words in calls(*RECEIVING)
        if name in CALLS and module.name not in SENDING
        for word in words
        if re.fullmatch(r"[a-z]+(-[a-z]+)+", word)
    }
    return found - OF_SENDING_ALONE


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run: python -m docs.generate"


def test_every_code_of_quarantine_is_explained() -> None:
    explained = {**QUARANTINED_MESSAGES, **QUARANTINED_ATTACHMENTS}
    assert len(explained) == len(QUARANTINED_MESSAGES) + len(QUARANTINED_ATTACHMENTS)
    assert list(QUARANTINED_MESSAGES) == sorted(QUARANTINED_MESSAGES)
    assert list(QUARANTINED_ATTACHMENTS) == sorted(QUARANTINED_ATTACHMENTS)
    of_constants = {
        "aborted",
        "bad-mq-image",
        "damaged-message",
        "damaged-part",
        "damaged-content",
        "parts-gone",
        "content-lost",
        "doubtful-content",
        "doubtful-count",
        "doubtful-size",
        "framing-failed",
        "no-envelope",
        "retention",
        "unwritable",
    }
    assert codes() | of_constants == set(explained)


def test_every_event_is_explained() -> None:
    made = {word for _, name, words in calls("app", "adapters") if name == "NewEvent" for word in words[:1]}
    assert made | {f"delivery.{state}" for state in DeliveryState} == set(EVENTS)


def defined(name: str, text: str) -> bool:
    """Whether a text defines this function, class or method (`Class.method`)."""
    outer, _, inner = name.rpartition(".")
    if outer and not re.search(rf"^\s*class {outer.rpartition('.')[2]}\b", text, re.MULTILINE):
        return False
    return re.search(rf"^\s*(?:async )?(?:def|class) {inner}\b|^\s*{inner}\b.* = ", text, re.MULTILINE) is not None


def test_the_ways_through_the_code_name_files_and_functions_that_exist() -> None:
    page = (FOLDER / "architecture.md").read_text()
    code = {path: path.read_text() for folder in ("app", "adapters") for path in (ROOT / folder).rglob("*.py")}
    ways = re.findall(r"^## Follow (?:a|an) (\w+)$(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)
    assert [way for way, _ in ways] == ["message", "upload", "download", "batch"]
    for way, steps in ways:
        for step in re.split(r"\n(?=\d+\. )", steps):
            places = [(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\((\.\./[\w/.]+\.py)\)", step)]
            assert all(place in code for place in places), f"follow a {way}: {step}"
            for name in re.findall(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)*)`", step):
                if "." in name or "_" in name.strip("_"):
                    known = name.partition(".")[0][0].isupper() or "." not in name
                    assert not known or any(defined(name, text) for text in code.values()), f"follow a {way}: {name}"
