"""What is shipped beside the code: locks, the chart, links between documents."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from app.settings import Settings

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
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


@pytest.mark.parametrize("name", ["requirements-mq.lock", "requirements-java.lock"])
def test_what_is_installed_by_the_way_has_hashes_too(name: str) -> None:
    entries = (ROOT / name).read_text().count("==")
    assert 0 < entries <= (ROOT / name).read_text().count("--hash=sha256:")


def docker_stages() -> dict[str, list[str]]:
    """The instructions of each stage of the Dockerfile, the last one as "" where it has no name."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    stages: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if line.startswith("FROM "):
            stages[line.partition(" AS ")[2]] = instructions = [line]
        else:
            instructions.append(line)
    return stages


def test_what_the_image_copies_is_sent_to_its_build() -> None:
    copied = {
        source
        for instructions in docker_stages().values()
        for line in instructions
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    sent = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    assert copied == sent
    assert [source for source in copied if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("stage", ["gateway", "pipeline"])
def test_an_image_runs_as_nobody_special_from_a_locked_build(stage: str) -> None:
    stages = docker_stages()
    instructions = stages[stage]
    assert instructions.index("USER 10001:10001") > max(
        place for place, line in enumerate(instructions) if line.startswith(("RUN ", "COPY "))
    )
    build = next(line for line in instructions if line.startswith("COPY --from=")).split("=")[1].split()[0]
    for line in stages[build]:
        if " pip install" in line or "/pip install" in line:
            assert "--require-hashes" in line or "--no-index" in line
    folders = [line.split()[1] for line in instructions if line.startswith(("VOLUME", "WORKDIR"))]
    assert set(folders) == {"/var/lib/gateway"}


def test_all_images_share_one_build_and_differ_in_its_lock() -> None:
    stages = docker_stages()
    builds = [name for name, instructions in stages.items() if any(" -m venv " in line for line in instructions)]
    assert builds == ["build"]
    assert "ARG LOCK=requirements.lock" in stages["build"]
    assert '"/src/$LOCK"' in next(line for line in stages["build"] if "--require-hashes" in line)
    command = "docker build --target pipeline --build-arg LOCK=requirements-pipeline.lock"
    assert command in (ROOT / "Dockerfile").read_text()
    assert command in (ROOT / "docs" / "spark.md").read_text()


def test_what_is_shipped_has_a_license_and_types() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert [name for name in PROJECT["license-files"] if not (ROOT / name).is_file()] == []
    assert "Copyright 2026 The attachment gateway authors" in (ROOT / "LICENSE").read_text()
    assert [folder for folder in ("app", "adapters") if not (ROOT / folder / "py.typed").is_file()] == []


def test_every_pattern_of_package_data_has_a_file() -> None:
    patterns = SETUPTOOLS["package-data"]["*"]
    found = {
        pattern: [path for top in ("app", "adapters") for path in (ROOT / top).rglob(pattern)] for pattern in patterns
    }
    assert [pattern for pattern, files in found.items() if not files] == []


def test_each_check_is_a_hook_before_a_commit() -> None:
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    checks = [re.sub(r" \.$", "", line.strip()) for line in recipe[1].replace("$(BIN)", ".venv/bin").splitlines()]
    hooks = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert [hook.removesuffix(" --force-exclude") for hook in hooks] == checks


def test_the_architecture_page_names_every_folder() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    folders = [path.parent.name for path in (ROOT / "app").glob("*/__init__.py")]
    assert folders
    assert [name for name in folders if f"`{name}`" not in page] == []


def test_the_chart_knows_every_section_of_the_configuration() -> None:
    schema = json.loads((ROOT / "helm" / "values.schema.json").read_text())
    # The chart's own: the volume, and what pods there are.
    own = {"data", "assembler"}
    assert set(schema["properties"]["settings"]["properties"]) == set(Settings.model_fields) - own


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/index.md", "docs/architecture.md", "docs/adr/index.md"],
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = [link for link in re.findall(r"\]\(([^)#]+)", path.read_text()) if "://" not in link]
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []
