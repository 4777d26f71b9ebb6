"""`python -m release.build`: build what is released from the last commit, with its proofs, in dist/release.

The same commit gives the same bytes in any folder, at any time and for any user, by the same versions of Python and
zlib: files are those of the commit and no others, archives are sorted, and times are the commit's. Wheels are built
from the source distributions, so these are complete.

With RELEASE_KEY_FILE, the statement of provenance is signed. Without, nothing is: a key that is made by the way would
look like a proof and be none.
"""

import argparse
import gzip
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from release.keys import HOW_TO_MAKE, PRIVATE, KeyFileError, private_key
from release.provenance import BUNDLE, STATEMENT, SUMS, Origin, checksums, digests, sign, statement

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "dist" / "release"
DISTRIBUTIONS = (".", "clients/python")
"""The folders of which each makes a source distribution and a wheel."""
CONTENTS = ("sbom.cdx.json", "licences.md")
"""What `.ci/sbom` writes."""
LOCKS = ("requirements.lock", "requirements-pipeline.lock")
"""Which versions users install."""
RESOLVED = ("requirements.lock", "requirements-sbom.lock")
"""What decides on the versions of the tools and of the contents."""
BUILDER = "RELEASE_BUILDER"
"""The variable of the environment with the URI of who builds."""
BY_HAND = "urn:attachment-gateway:builder:by-hand"


class BuildError(Exception):
    """A release cannot be built."""


def build(key: ec.EllipticCurvePrivateKey | None, contents: Path | None) -> None:
    """Build a release in dist/release, with the lists of contents in a folder, or with new ones."""
    if changed := _git("status", "--porcelain").decode().rstrip():
        raise BuildError(f"a release is built from a commit; commit these first, or remove them:\n{changed}")
    builder = os.environ.get(BUILDER) or BY_HAND
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", builder):
        raise BuildError(f"{BUILDER} is no URI: {builder}")
    commit, time = _git("log", "-1", "--format=%H %ct").decode().split()
    with TemporaryDirectory(prefix="release-") as temporary:
        source, made = Path(temporary, "source"), Path(temporary, "made")
        made.mkdir()
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
            archive.extractall(source, filter="data")
        _build_distributions(source, made, int(time))
        _pack_chart(source / "helm", made, int(time))
        if contents is None:
            contents = Path(temporary, "contents")
            _list_contents(contents)
        for name in CONTENTS:
            shutil.copyfile(contents / name, made / name)
        for name in LOCKS:
            shutil.copyfile(source / name, made / name)
        locks = {name: sha256((source / name).read_bytes()).hexdigest() for name in RESOLVED}
        tools = {
            "python": platform.python_version(),
            "setuptools": version("setuptools"),
            "zlib": zlib.ZLIB_RUNTIME_VERSION,
        }
        _write_proofs(made, Origin(commit, int(time), builder, locks, tools), key)
        if TARGET.exists():
            shutil.rmtree(TARGET)
        shutil.copytree(made, TARGET, copy_function=shutil.copyfile)


def _write_proofs(folder: Path, origin: Origin, key: ec.EllipticCurvePrivateKey | None) -> None:
    artifacts = digests(folder)
    stated = statement(artifacts, origin)
    (folder / SUMS).write_bytes(checksums(artifacts))
    (folder / STATEMENT).write_bytes(stated)
    if key is not None:
        (folder / BUNDLE).write_bytes(sign(stated, key))


def _build_distributions(source: Path, made: Path, time: int) -> None:
    """Build a source distribution of each folder, and a wheel of each source distribution."""
    for folder in DISTRIBUTIONS:
        _call_backend("build_sdist", source / folder, made, time)
    for path in made.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            files = {each.name: file.read() for each in archive if (file := archive.extractfile(each)) is not None}
            archive.extractall(source / "unpacked", filter="data")
        _write_archive(path, files, time)
        _call_backend("build_wheel", source / "unpacked" / path.name.removesuffix(".tar.gz"), made, time)


def _call_backend(hook: str, folder: Path, made: Path, time: int) -> None:
    """Call setuptools as pip does. Modes of files in wheels follow from the mask."""
    script = f"import sys; from setuptools.build_meta import {hook}; {hook}(sys.argv[1])"
    command = [sys.executable, "-I", "-c", script, str(made)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    done = subprocess.run(command, cwd=folder, env=environment, umask=0o022, capture_output=True, check=False)
    if done.returncode:
        raise BuildError(f"setuptools failed:\n{(done.stdout + done.stderr).decode().strip()}")


def _pack_chart(folder: Path, made: Path, time: int) -> None:
    """Pack a chart as `helm package` lays it out, which itself writes the time at which it runs into the package."""
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    files = {
        f"{chart['name']}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    _write_archive(made / f"{chart['name']}-{chart['version']}.tgz", files, time)


def _write_archive(path: Path, files: Mapping[str, bytes], time: int) -> None:
    """Write a tar.gz in which only names, contents and one time differ from those of others."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)  # of user 0, with the mode 0644
            entry.size, entry.mtime = len(content), time
            archive.addfile(entry, io.BytesIO(content))


def _list_contents(folder: Path) -> None:
    """Let `.ci/sbom` list what the image contains. It needs a package index, and says itself what fails."""
    if subprocess.run([".ci/sbom", sys.executable, folder], cwd=ROOT, stdout=sys.stderr, check=False).returncode:
        raise BuildError("the contents could not be listed")


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise BuildError(f"git {arguments[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Build a release and list it; return 1 if that fails."""
    parser = argparse.ArgumentParser(prog="python -m release.build", description="Build what is released.")
    parser.add_argument("--contents", type=Path, help=f"a folder with {' and '.join(CONTENTS)}; without, they are made")
    options = parser.parse_args(arguments)
    try:
        key = private_key()
        build(key, options.contents)
    except (BuildError, KeyFileError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in sorted(TARGET.iterdir()):
        print(path.relative_to(ROOT))
    if key is None:
        print(
            f"{STATEMENT} is not signed, since {PRIVATE} names no key. A workflow signs it with cosign. To sign it "
            f"yourself, make a key once, and name it in {PRIVATE}:\n{HOW_TO_MAKE}",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
