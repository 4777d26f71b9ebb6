"""A release: the same bytes from any folder, and a check that finds each change of each file."""

import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple
from zipfile import ZipFile

import httpx
import pytest
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app.testing.waiting import until
from release.provenance import BUNDLE, PROOFS, STATEMENT, SUMS, SignatureError, open_bundle, sign
from release.verify import problems
from tests.support.chart import FOLDER as CHART
from tests.support.chart import helm
from tests.support.mosquitto import free_port

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
NAMES = ("attachment_gateway", "attachment_gateway_client")
FOLDERS = ("app", "adapters", "clients", "helm", "release")
FILES = (
    *(".gitignore", "attachment_gateway.py", "LICENSE", "MANIFEST.in", "Makefile", "README.md", "pyproject.toml"),
    *("requirements.lock", "requirements-pipeline.lock", "requirements-sbom.lock"),
)
COMMITTED = "2026-01-02T03:04:05+00:00"
BITS = 10
"""How many bits of each file are turned, one at a time."""


class Built(NamedTuple):
    """A release that was built in two folders; only the build in the first one had a key."""

    folders: tuple[Path, Path]
    said: tuple[str, str]
    """What the builds printed."""
    key: ec.EllipticCurvePrivateKey
    key_file: Path
    public_file: Path

    @property
    def release(self) -> Path:
        return self.folders[0] / "dist" / "release"

    def problems(self) -> list[str]:
        return problems(self.release, self.key.public_key())


def environment(**variables: str) -> dict[str, str]:
    unwanted = ("PYTHON", "PIP_", "MAKE", "MFLAGS", "RELEASE", "GIT_", "SOURCE_DATE_EPOCH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"} | variables


def checkout(folder: Path) -> None:
    """Make a repository with what is released, in one commit; beside it is what no release may have."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    who = ("-c", "user.name=Someone", "-c", "user.email=someone@example.org")
    dates = {"GIT_AUTHOR_DATE": COMMITTED, "GIT_COMMITTER_DATE": COMMITTED}
    for arguments in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "--message", "All")):
        subprocess.run(["git", *arguments], cwd=folder, env=environment(**dates), check=True)
    (folder / "app" / "of_this_machine.pyc").touch()


def make(folder: Path, variables: dict[str, str], *arguments: str, umask: int = 0o022) -> subprocess.Popen[str]:
    command = ["make", "--no-print-directory", f"BIN={Path(sys.executable).parent}", *arguments]
    given = environment(**variables)
    return subprocess.Popen(command, cwd=folder, env=given, umask=umask, stdout=PIPE, stderr=PIPE, text=True)


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run a registry of images and charts, and return its URL; skip the test where there is none."""
    if (program := shutil.which("docker-registry")) is None:
        pytest.skip("docker-registry is not installed")
    port = free_port()
    (folder / "registry.yml").write_text(
        json.dumps(
            {
                "version": "0.1",
                "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
                "http": {"addr": f"127.0.0.1:{port}"},
            }
        )
    )
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(folder / "registry.yml")], stdout=log, stderr=log)
    try:
        until(lambda: _answers(port))
        yield f"oci://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v2/").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build in two folders at once, as different users in different places would."""
    top = tmp_path_factory.mktemp("release")
    key = ec.generate_private_key(ec.SECP256R1())
    key_file, public_file = top / "private-place.key", top / "release.pub"
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    key_file.chmod(0o600)
    public_file.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    contents = top / "contents"
    contents.mkdir()
    (contents / "sbom.cdx.json").write_text('{"bomFormat": "CycloneDX", "specVersion": "1.6"}\n')
    (contents / "licences.md").write_text("# Licences\n")
    folders = top / "one", top / "another" / "place"
    checkout(folders[0])
    subprocess.run(["git", "clone", "--quiet", *folders], env=environment(), umask=0o077, check=True)
    for folder in folders:
        (folder / ".venv").mkdir()
        (folder / ".venv" / "run.done").touch()
    arguments = ("release", f"ARGS=--contents {contents}")
    builds = (
        make(folders[0], {"RELEASE_KEY_FILE": str(key_file), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1"}, *arguments),
        make(folders[1], {"TZ": "America/Lima", "PYTHONHASHSEED": "2"}, *arguments, umask=0o077),
    )
    said = [build.communicate() for build in builds]
    assert [build.returncode for build in builds] == [0, 0], said
    return Built(folders, ("".join(said[0]), "".join(said[1])), key, key_file, public_file)


def contents(release: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in release.iterdir()}


def test_two_builds_of_a_commit_are_equal(built: Built) -> None:
    signed, unsigned = (contents(folder / "dist" / "release") for folder in built.folders)
    bundle = signed.pop(BUNDLE)
    assert signed == unsigned
    assert bundle == sign(unsigned[STATEMENT], built.key)
    distributions = {f"{name}-{VERSION}{kind}" for name in NAMES for kind in ("-py3-none-any.whl", ".tar.gz")}
    chart = f"attachment-gateway-{VERSION}.tgz"
    locks = {"requirements.lock", "requirements-pipeline.lock"}
    assert unsigned.keys() == {*distributions, *locks, chart, "sbom.cdx.json", "licences.md", SUMS, STATEMENT}


def test_archives_have_the_files_of_the_commit_and_nothing_of_the_machine(built: Built) -> None:
    time = int(datetime.fromisoformat(COMMITTED).timestamp())
    for path in (*built.release.glob("*.tar.gz"), *built.release.glob("*.tgz")):
        with tarfile.open(path) as archive:
            entries = archive.getmembers()
        assert [each.name for each in entries] == sorted(each.name for each in entries)
        assert {(each.uid, each.gid, each.uname, each.gname, each.mode, each.mtime) for each in entries} == {
            (0, 0, "", "", 0o644, time)
        }
        assert not [each.name for each in entries if re.search(r"\.pyc$|-\d[^/]*/tests/", each.name)]
    for path in built.release.glob("*.whl"):
        entries_of_wheel = ZipFile(path).infolist()
        assert {each.date_time for each in entries_of_wheel} == {(2026, 1, 2, 3, 4, 4)}  # in steps of two seconds
        assert {stat.S_IMODE(each.external_attr >> 16) & 0o111 for each in entries_of_wheel} == {0}
        packed = {each.filename for each in entries_of_wheel if not re.search(r"\.dist-info/|\.md$", each.filename)}
        tops = {name.partition("/")[0] for name in packed}
        source = built.folders[0] / ("clients/python/src" if "client" in path.name else "")
        listed = subprocess.run(
            ["git", "ls-files", *tops], cwd=source, capture_output=True, text=True, check=True
        ).stdout
        assert {name for name in listed.split() if not name.endswith(".md")} == packed


def test_the_chart_is_the_one_of_the_folder(built: Built) -> None:
    archive = built.release / f"attachment-gateway-{VERSION}.tgz"
    packed, loose = helm().Chart.load_archive(archive.read_bytes()), helm().Chart.load(str(CHART))
    assert (packed.name, packed.version, packed.values) == (loose.name, loose.version, loose.values)
    assert packed.templates == loose.templates


def test_the_chart_comes_from_a_registry_as_it_was_pushed(built: Built, tmp_path: Path) -> None:
    archive = built.release / f"attachment-gateway-{VERSION}.tgz"
    with registry(tmp_path) as place, helm().RegistryClient(plain_http=True) as client:
        client.push(archive, f"{place}/charts", plain_http=True)
        assert client.tags(f"{place.removeprefix('oci://')}/charts/attachment-gateway") == [VERSION]
        (tmp_path / "pulled").mkdir()
        client.pull(
            f"{place}/charts/attachment-gateway", version=VERSION, destination=tmp_path / "pulled", plain_http=True
        )
    (pulled,) = (tmp_path / "pulled").iterdir()
    assert pulled.read_bytes() == archive.read_bytes()


def test_the_statement_says_what_was_built_of_what(built: Built) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=built.folders[0], capture_output=True, text=True, check=True
    )
    text = (built.release / STATEMENT).read_text()
    found = json.loads(text)
    assert (found["_type"], found["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    artifacts = {name: content for name, content in contents(built.release).items() if name not in PROOFS}
    assert {each["name"]: each["digest"] for each in found["subject"]} == {
        name: {"sha256": sha256(content).hexdigest()} for name, content in artifacts.items()
    }
    dependencies = {
        each["name"]: each["digest"] for each in found["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    assert dependencies["source"] == {"gitCommit": head.stdout.strip()}
    lock = (ROOT / "requirements.lock").read_bytes()
    assert dependencies["requirements.lock"] == {"sha256": sha256(lock).hexdigest()}
    assert found["predicate"]["runDetails"]["builder"]["id"] == "urn:attachment-gateway:builder:by-hand"
    assert str(built.folders[0].parent) not in text


def test_others_can_verify_it(built: Built) -> None:
    """The checksums by coreutils, and the envelope by its specification: what cosign does with a key."""
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=built.release, check=True)
    envelope = json.loads((built.release / BUNDLE).read_bytes())["dsseEnvelope"]
    payload, kind = b64decode(envelope["payload"]), envelope["payloadType"].encode()
    assert payload == (built.release / STATEMENT).read_bytes()
    signed = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(payload)).encode(), payload])
    signature = b64decode(envelope["signatures"][0]["sig"])
    built.key.public_key().verify(signature, signed, ec.ECDSA(hashes.SHA256()))


@contextmanager
def replaced(path: Path, content: bytes | None) -> Iterator[None]:
    """Give a file another content, or none, for a while."""
    before = path.read_bytes() if path.exists() else None
    try:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)


@contextmanager
def turned(path: Path, bit: int) -> Iterator[None]:
    """Turn a bit of a file for a while."""

    def turn() -> None:
        with path.open("r+b") as file:
            file.seek(bit // 8)
            (byte,) = file.read(1)
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))

    turn()
    try:
        yield
    finally:
        turn()


def names(found: list[str]) -> list[str]:
    return [line.partition(": ")[0] for line in found]


def test_each_bit_of_each_file_counts(built: Built) -> None:
    draw = random.Random()
    for name, content in contents(built.release).items():
        last = len(content) * 8 - 1
        for bit in {0, last, *(draw.randint(0, last) for _ in range(BITS))}:
            with turned(built.release / name, bit):
                assert names(built.problems()) == [name], f"bit {bit}"
    assert built.problems() == []


def test_each_byte_of_the_bundle_counts(built: Built) -> None:
    """Also those that are not signed, such as spaces."""
    bundle, draw = (built.release / BUNDLE).read_bytes(), random.Random()
    for at, byte in enumerate(bundle):
        changed = bundle[:at] + bytes([byte ^ 1 << draw.randrange(8)]) + bundle[at + 1 :]
        with pytest.raises(SignatureError):
            open_bundle(changed, built.key.public_key())


def test_what_is_missing_or_was_added_is_named(built: Built) -> None:
    for name in contents(built.release):
        with replaced(built.release / name, None):
            (line,) = built.problems()
            assert line.startswith(f"{name}: is missing")
    with replaced(built.release / "extra.whl", b"unlisted"):
        assert built.problems() == ["extra.whl: is not listed: the release does not have it"]


def test_all_that_is_wrong_is_named_at_once(built: Built) -> None:
    wheel, sums = f"attachment_gateway-{VERSION}-py3-none-any.whl", (built.release / SUMS).read_bytes()
    with (
        replaced(built.release / wheel, b"another wheel"),
        replaced(built.release / SUMS, sums.replace(sums[:64], sha256(b"another wheel").hexdigest().encode())),
        replaced(built.release / "licences.md", None),
    ):
        assert built.problems() == [f"{SUMS}: was changed", f"{wheel}: was changed", "licences.md: is missing"]


def test_a_bundle_of_another_key_or_format_proves_nothing(built: Built) -> None:
    path = built.release / BUNDLE
    stated = (built.release / STATEMENT).read_bytes()
    with replaced(path, sign(stated, ec.generate_private_key(ec.SECP256R1()))):
        assert built.problems() == [f"{BUNDLE}: is not signed by this key, or was changed"]
    keyless = json.loads(path.read_bytes())
    keyless["verificationMaterial"] = {"certificate": {"rawBytes": ""}}
    with replaced(path, json.dumps(keyless).encode()):
        assert built.problems() == [f"{BUNDLE}: is signed without a key: cosign verifies it"]
    for content in (b"", b"[]", b"{}", b"\xff", b'{"verificationMaterial": {}, "dsseEnvelope": {"payload": 1}}'):
        with replaced(path, content):
            assert built.problems() == [f"{BUNDLE}: is no bundle of this format"]


def test_make_verify_prints_what_holds_and_what_does_not(built: Built) -> None:
    folder, key = built.folders[0], {"RELEASE_PUBLIC_KEY_FILE": str(built.public_file)}
    done = make(folder, key, "verify")
    out, err = done.communicate()
    assert (done.returncode, err) == (0, "")
    assert re.fullmatch(r"verified: 9 artifacts, commit [0-9a-f]{40}, built by urn:\S+by-hand\n", out)
    with replaced(built.release / "licences.md", b"changed"):
        done = make(folder, key, "verify")
        assert (done.communicate()[1].splitlines()[0], done.returncode) == ("licences.md: was changed", 2)
    done = make(folder, {}, "verify")
    said = "error: RELEASE_PUBLIC_KEY_FILE has to name the file with the public key of the release"
    assert (done.communicate()[1].splitlines()[0], done.returncode) == (said, 2)
    done = make(folder, key, "verify", f"RELEASE={built.folders[1]}/dist/release")
    assert done.communicate()[1].startswith(f"{BUNDLE}: is missing, so nothing is proved\n")


def test_a_build_without_a_key_says_how_to_make_one_and_with_one_does_not_print_it(built: Built) -> None:
    with_key, without = built.said
    assert f"dist/release/{BUNDLE}" in with_key
    assert built.key_file.name not in with_key
    assert "PRIVATE KEY" not in with_key
    assert f"dist/release/{BUNDLE}" not in without
    assert "openssl genpkey" in without


def refusal(built: Built, **variables: str) -> str:
    done = make(built.folders[1], variables, "release")
    _, err = done.communicate()
    assert done.returncode == 2
    assert built.key_file.name not in err
    return err


def test_a_key_that_is_no_good_is_refused_before_anything_is_built(built: Built, tmp_path: Path) -> None:
    open_file = tmp_path / "open.key"
    shutil.copy(built.key_file, open_file)
    open_file.chmod(0o640)
    assert "others may read the file that RELEASE_KEY_FILE names" in refusal(built, RELEASE_KEY_FILE=str(open_file))
    public = tmp_path / "public.key"
    shutil.copy(built.public_file, public)
    public.chmod(0o600)
    assert "RELEASE_KEY_FILE names has no private key" in refusal(built, RELEASE_KEY_FILE=str(public))
    missing = refusal(built, RELEASE_KEY_FILE=str(built.key_file.with_name("private-place.key.old")))
    assert "the file that RELEASE_KEY_FILE names cannot be read: No such file or directory" in missing


def test_what_is_not_committed_is_not_released(built: Built) -> None:
    with replaced(built.folders[1] / "app" / "forgotten.py", b"VALUE = 1\n"):
        assert "a release is built from a commit" in (said := refusal(built))
        assert "?? app/forgotten.py" in said


def test_the_workflow_builds_with_make_and_signs_where_no_code_of_the_project_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = workflow["jobs"]
    steps = {
        name: "\n".join(str(step.get("run") or step["uses"]) for step in job["steps"]) for name, job in jobs.items()
    }
    assert "make release " in steps["build"]
    assert f"cosign attest-blob --yes --statement {STATEMENT} --bundle {BUNDLE}" in steps["sign"]
    assert f"sha256sum --check --strict {SUMS}" in steps["sign"]
    privileged = {name for name, job in jobs.items() if "permissions" in job}
    assert privileged == {"sign", "publish", "publish-images"}
    assert workflow["permissions"] == {"contents": "read"}
    assert not [name for name in privileged if re.search(r"\bmake |python|\.ci/|actions/checkout", steps[name])]
    assert set(jobs["publish"]["strategy"]["matrix"]["distribution"]) == set(NAMES)
