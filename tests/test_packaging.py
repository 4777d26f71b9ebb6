"""What is shipped beside the code: locks, the chart, links between documents."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from app.settings import Settings

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
LOCKED_EXTRAS = {
    "requirements.lock": ["embedded", "postgresql", "tables"],
    "requirements-pipeline.lock": ["embedded", "postgresql", "pipeline"],
    "requirements-dev.lock": ["embedded", "postgresql", "pipeline", "testing", "dev"],
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


@pytest.mark.parametrize("name", ["requirements-mq.lock", "requirements-java.lock", "requirements-sbom.lock"])
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


VERSION = PROJECT["version"]
PAGES = ["README.md", "Dockerfile", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def chart(key: str) -> str:
    (found,) = re.findall(rf'^{key}: "?([^"\n]+)"?$', (ROOT / "helm" / "Chart.yaml").read_text(), re.MULTILINE)
    return str(found)


def test_the_chart_starts_the_image_that_the_documents_build() -> None:
    assert chart("version") == chart("appVersion") == VERSION
    assert re.findall(r"^ +tag: (.*)$", (ROOT / "helm" / "values.yaml").read_text(), re.MULTILINE) == ['""', '""']
    built = {
        (page, name)
        for page in PAGES
        for line in (ROOT / page).read_text().splitlines()
        if "docker build" in line
        for name in re.findall(r" -t (\S+)", line)
    }
    names = {name.strip("`") for _, name in built}
    assert names == {f"attachment-gateway:{VERSION}", f"attachment-gateway-pipeline:{VERSION}"}
    tags = {
        (page, tag)
        for page in [*PAGES, "deploy/compose.yaml"]
        for tag in re.findall(r"attachment-gateway(?:-pipeline)?:([0-9][^\s`\"]*)", (ROOT / page).read_text())
    }
    assert {tag for _, tag in tags} == {VERSION}, tags


def test_no_page_installs_the_package_from_an_index() -> None:
    """It is in none: what is installed is the checkout, or the wheel that `make wheel` builds."""
    wheels = set()
    for page in [*PAGES, "docs/gateway.toml"]:
        text = (ROOT / page).read_text()
        assert not re.search(r"attachment-gateway\[|pip install attachment-gateway", text), page
        wheels |= set(re.findall(r"attachment_gateway-\S+\.whl", text))
    assert wheels == {f"attachment_gateway-{VERSION}-py3-none-any.whl"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as `make wheel` builds it, made of a copy so that nothing is built in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("app", "adapters"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, folder)
    recipe = ["make", "--no-print-directory", "wheel", f"BIN={Path(sys.executable).parent}", f"VENV={folder}"]
    (folder / "requirements.lock").touch()
    (folder / "run.done").touch()
    done = subprocess.run(recipe, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"dist/attachment_gateway-{VERSION}-py3-none-any.whl\n"
    return folder / done.stdout.strip()


def test_a_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    packed = set(ZipFile(wheel).namelist())
    listed = subprocess.run(
        ["git", "ls-files", "app", "adapters"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("this is no checkout of git")
    # The client library is a package of its own there.
    assert {name.removeprefix("app/client/") for name in listed if not name.endswith(".md")} - packed == set()


def test_a_wheel_works_by_itself(wheel: Path, tmp_path: Path) -> None:
    """Installed into a folder of its own, which comes before the checkout, it runs the demo through all adapters."""
    installed = tmp_path / "installed"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
    ]
    subprocess.run([*pip, "--no-index", "--no-deps", "--target", str(installed), str(wheel)], check=True)
    environment = {"PYTHONPATH": str(installed), "PATH": os.defpath, "TMPDIR": str(tmp_path)}
    where = [sys.executable, "-c", "import app, adapters; print(app.__file__, adapters.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.count(str(installed)) == 2
    demo = [f"{installed}/bin/attachment-gateway", "demo", "--once"]
    done = subprocess.run(demo, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("equal, ")) == (0, 3), done.stderr
