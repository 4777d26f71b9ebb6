"""What is shipped beside the code: locks, the chart, links between documents."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from app.settings import Settings
from tests.support.forked_gateway import ForkedGateway
from tests.support.mosquitto import free_port

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
CLIENT = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]
FOLDERS = ("app", "adapters", "clients/python/src/attachment_gateway_client")
LOCKED_EXTRAS = {
    "requirements.lock": ["postgresql", "tables"],
    "requirements-pipeline.lock": ["postgresql", "pipeline"],
    "requirements-dev.lock": ["postgresql", "pipeline", "testing", "dev"],
}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(extras: list[str]) -> set[str]:
    requirements = [
        *PROJECT["dependencies"],
        *(one for extra in extras for one in PROJECT["optional-dependencies"][extra]),
    ]
    found = {normalised(re.split(r"[\[<>=!~ ]", one)[0]) for one in requirements}
    return found - {CLIENT["name"], PROJECT["name"]}  # of this repository: there is no hash of them


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


def test_the_extra_all_has_every_purpose() -> None:
    (all_of_them,) = PROJECT["optional-dependencies"]["all"]
    named = re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", all_of_them)
    assert named is not None
    assert set(named[1].split(",")) == PROJECT["optional-dependencies"].keys() - {"all", "dev", "mq", "testing"}


@pytest.mark.parametrize("name", ["requirements-mq.lock", "requirements-java.lock", "requirements-sbom.lock"])
def test_what_is_installed_by_the_way_has_hashes_too(name: str) -> None:
    entries = (ROOT / name).read_text().count("==")
    assert 0 < entries <= (ROOT / name).read_text().count("--hash=sha256:")


def docker_stages() -> dict[str, list[str]]:
    """The instructions of each stage of the Dockerfile, the last one as "" where it has no name."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    stages: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if not stages and line.startswith("ARG "):
            continue  # before all stages
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


@pytest.mark.parametrize("stage", ["gateway", "pipeline"])
def test_an_image_is_of_one_base_and_its_labels_say_what_it_is(stage: str) -> None:
    """`make image-check` reads them from the image."""
    stages = docker_stages()
    bases = {name: instructions[0].split()[1] for name, instructions in stages.items()}
    assert set(bases.values()) == {"$BASE", "gateway"}
    (labels,) = [line for line in stages[stage] if line.startswith("LABEL ")]
    found = dict(re.findall(r'org\.opencontainers\.image\.([a-z.]+)="?([^" ]+)', labels))
    assert found.keys() >= {"title", "description"}
    assert (found["version"], found["licenses"]) == (VERSION, PROJECT["license"])
    assert (found["base.name"], found["revision"]) == ("$BASE", "$REVISION")
    assert stages[stage].index("ARG BASE") < stages[stage].index(labels)
    assert stages[stage].index("ARG REVISION") < stages[stage].index(labels)


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
    assert PROJECT["license"] == CLIENT["license"] == "Apache-2.0"
    assert (ROOT / "clients/python/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert [name for name in PROJECT["license-files"] if not (ROOT / name).is_file()] == []
    assert "Copyright 2026 The attachment gateway authors" in (ROOT / "LICENSE").read_text()
    assert [folder for folder in FOLDERS if not (ROOT / folder / "py.typed").is_file()] == []


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
    own = {"data", "assembler", "roles"}
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
    """It is in none yet: what is installed is the checkout, or a wheel, as `make wheel` or `make release` builds it."""
    wheels = set()
    for page in [*PAGES, "docs/gateway.toml"]:
        text = (ROOT / page).read_text()
        assert not re.search(r"attachment-gateway\[|pip install attachment-gateway", text), page
        wheels |= set(re.findall(r"attachment_gateway-\S+\.whl", text))
    assert wheels == {f"attachment_gateway-{VERSION}-py3-none-any.whl"}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The distributions as `make wheel` builds them, made of a copy so that nothing is built in the checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("app", "adapters", "clients"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("attachment_gateway.py", "pyproject.toml", "README.md", "LICENSE", "Makefile"):
        shutil.copy(ROOT / name, folder)
    recipe = ["make", "--no-print-directory", "wheel", f"BIN={Path(sys.executable).parent}", f"VENV={folder}"]
    (folder / "requirements.lock").touch()
    (folder / "run.done").touch()
    done = subprocess.run(recipe, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = {name: f"dist/{name}-{VERSION}-py3-none-any.whl" for name in DISTRIBUTIONS}
    assert done.stdout.split() == sorted(built.values())
    return {name: folder / path for name, path in built.items()}


DISTRIBUTIONS = {
    "attachment_gateway": ("app", "adapters", "attachment_gateway.py"),
    "attachment_gateway_client": ("clients/python/src",),
}
"""The distributions of this repository, and the folders of which each has every file."""


@pytest.mark.parametrize(("name", "folders"), DISTRIBUTIONS.items())
def test_a_wheel_holds_every_file_of_its_packages_and_no_other(
    wheels: dict[str, Path], name: str, folders: tuple[str, ...]
) -> None:
    packed = {each for each in ZipFile(wheels[name]).namelist() if not re.search(r"\.dist-info/|\.md$", each)}
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("this is no checkout of git")
    assert {each.removeprefix("clients/python/src/") for each in listed if not each.endswith(".md")} == packed


def install(folder: Path, *what: str) -> None:
    """Let pip install this into a folder, without what is needed besides, and without the settings of this machine."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    where = ["--root-user-action=ignore", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, *where, *what], env={"PIP_CONFIG_FILE": os.devnull, "PATH": os.defpath}, check=True)


@pytest.fixture(scope="module")
def apart(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which both distributions are installed from an index, which is made as docs/installing.md says."""
    folder, packed = tmp_path_factory.mktemp("apart") / "installed", wheels["attachment_gateway"].parent
    page, port = (ROOT / "docs" / "installing.md").read_text(), free_port()
    for command in re.findall(r"^(?:mkdir|cp) .*", page, re.MULTILINE):
        subprocess.run(command, shell=True, cwd=packed, check=True)
    (serve,) = re.findall(r"^python3 (.*) 8000$", page, re.MULTILINE)
    with subprocess.Popen([sys.executable, *serve.split(), str(port)], cwd=packed, stderr=subprocess.DEVNULL) as server:
        try:  # pip tries again where nothing answers yet
            install(folder, "--index-url", f"http://127.0.0.1:{port}/simple", PROJECT["name"], CLIENT["name"])
        finally:
            server.terminate()
    return folder


FOREIGN = "raise SystemExit('the code of others runs')\n"


def test_the_wheels_work_by_themselves(apart: Path, tmp_path: Path) -> None:
    """The gateway runs the demo through all adapters, and the client library, where others have such packages."""
    folder, environment = apart, {"PYTHONPATH": str(apart), "PATH": os.defpath, "TMPDIR": str(tmp_path)}
    script = "import app, adapters, attachment_gateway_client as c; print(app.__file__, adapters.__file__, c.__file__)"
    where = [sys.executable, "-c", script]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.count(str(folder)) == 3
    for name in ("app", "adapters"):  # scripts do not import from the current folder, but `python -c` does
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(FOREIGN)
    demo = [f"{folder}/bin/attachment-gateway", "demo", "--once"]
    done = subprocess.run(demo, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("equal, ")) == (0, 3), done.stderr


@pytest.fixture
def others(apart: Path, tmp_path: Path, package: str, how: str) -> Iterator[Path]:
    """A package of the same name as one of ours: where Python finds it."""
    first, kept = apart / package / "__init__.py", tmp_path / "kept.py"
    first.rename(kept)
    try:
        if how == "over ours":
            first.write_text(FOREIGN)
        elif how.endswith("before ours"):
            shutil.copy(kept, first)
        if how == "a package before ours":
            (tmp_path / "others" / package).mkdir(parents=True)
            (tmp_path / "others" / package / "__init__.py").write_text(FOREIGN)
            yield tmp_path / "others" / package
        elif how == "a module before ours":
            (tmp_path / "others").mkdir()
            (tmp_path / "others" / f"{package}.py").write_text(FOREIGN)
            yield tmp_path / "others" / f"{package}.py"
        else:
            yield apart / package
    finally:
        kept.replace(first)


@pytest.mark.parametrize("package", ["app", "adapters"])
@pytest.mark.parametrize(
    "how", ["a package before ours", "a module before ours", "over ours", "without a first module"]
)
def test_packages_of_others_are_named_and_none_of_their_code_runs(
    apart: Path, others: Path, tmp_path: Path, package: str
) -> None:
    environment = {"PYTHONPATH": f"{tmp_path}/others:{apart}", "PATH": os.defpath}
    program = [f"{apart}/bin/attachment-gateway", "--version"]
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    said, advice = done.stderr.splitlines()
    assert said == f"error: the package '{package}' is not the attachment gateway's: Python finds it in {others}"
    assert "pipx" in advice
    assert "uv tool" in advice


def test_the_client_depends_on_httpx_only_and_is_the_gateways_version() -> None:
    assert CLIENT["version"] == VERSION
    assert f"{CLIENT['name']}=={VERSION}" in PROJECT["dependencies"]
    assert [re.split("[<>=]", each)[0] for each in CLIENT["dependencies"]] == ["httpx"]
    assert set(CLIENT["dependencies"]) <= set(PROJECT["dependencies"])


def test_the_client_works_without_the_gateway(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Where only the client's wheel, httpx and what httpx needs are installed, it talks to a gateway."""
    folder = tmp_path / "installed"
    install(folder, "--no-index", str(wheels["attachment_gateway_client"]))
    for file in files_of("httpx"):
        if not (folder / file.name).exists():
            (folder / file.name).symlink_to(file)
    script = """
import importlib.util, sys
from attachment_gateway_client import Client, File, Problem

assert not any(map(importlib.util.find_spec, ("app", "adapters", "pydantic", "pyarrow")))
with Client(sys.argv[1]) as gateway:
    gateway.wait_for_delivery(gateway.send("there", File(b"hello", "hello.txt"))["id"])
    event = next(iter(gateway.events(after=0, type="attachment.finished")))
    gateway.fetch(event["subject"], sys.argv[2])
"""
    settings = "\n".join(
        f'[{kind}]\ntransport = "memory"\nqueue = "q"' for kind in ("sources.here", "destinations.there")
    )
    with ForkedGateway(tmp_path, settings) as gateway:
        gateway.await_source("here")
        command = [sys.executable, "-S", "-c", script, f"http://127.0.0.1:{gateway.port}", f"{tmp_path}/fetched"]
        environment = {"PYTHONPATH": str(folder), "PATH": os.defpath, "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fetched").read_bytes() == b"hello"


def files_of(name: str) -> list[Path]:
    """Return the modules and packages of a distribution, and of those that it needs."""
    found, names = [], [name]
    for each in names:
        distribution = metadata.distribution(each)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
        found += [Path(str(distribution.locate_file(top))) for top in sorted(tops)]
        needed = [one for one in distribution.requires or () if ";" not in one]
        names += [other for one in needed if (other := re.split(r"[^A-Za-z0-9_.-]", one)[0]) not in names]
    return found
