"""What is shipped beside the code: locks, the chart, links between documents."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from app.settings import Settings

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED_EXTRAS = {
    "requirements.lock": ["embedded", "postgresql", "tables"],
    "requirements-pipeline.lock": ["embedded", "postgresql", "pipeline"],
    "requirements-dev.lock": ["embedded", "postgresql", "pipeline", "dev"],
}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(extras: list[str]) -> set[str]:
    requirements = [
        *PROJECT["dependencies"],
        *(one for extra in extras for one in PROJECT["optional-dependencies"][extra]),
    ]
    return {normalised(re.split(r"[\[<>=!~ ]", one)[0]) for one in requirements}


@pytest.mark.parametrize("name", LOCKED_EXTRAS)
def test_a_lock_pins_everything_with_hashes_and_names_no_index(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.findall(r"^([A-Za-z0-9_.-]+)==[^\n]*((?:\n    [^\n]*)*)", text, re.MULTILINE)
    assert wanted(LOCKED_EXTRAS[name]) <= {normalised(entry) for entry, _ in entries}
    assert all("--hash=sha256:" in rest for _, rest in entries)
    assert "://" not in text
    assert not re.search(r"^--|file:", text, re.MULTILINE)


def test_the_locks_agree() -> None:
    pins = [set(re.findall(r"^(\S+==\S+)", (ROOT / name).read_text(), re.MULTILINE)) for name in LOCKED_EXTRAS]
    assert pins[0] < pins[1] < pins[2]


def test_the_chart_knows_every_section_of_the_configuration() -> None:
    schema = json.loads((ROOT / "helm" / "values.schema.json").read_text())
    # `data` is the chart's own: the volume.
    assert set(schema["properties"]["settings"]["properties"]) == set(Settings.model_fields) - {"data"}


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/adr/index.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = [link for link in re.findall(r"\]\(([^)#]+)", path.read_text()) if "://" not in link]
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []
