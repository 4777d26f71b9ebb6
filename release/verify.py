"""`python -m release.verify FOLDER`: check that a release is whole, unchanged and signed by a key. It needs no network.

The key is the public one that RELEASE_PUBLIC_KEY_FILE names. Take it from where you trust it, never from the folder
itself. All that is wrong is printed, a line for each file, and the exit status is then 1.
"""

import sys
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from release.keys import KeyFileError, public_key
from release.provenance import BUNDLE, STATEMENT, SUMS, SignatureError, checksums, described, open_bundle, subjects


def problems(folder: Path, key: ec.EllipticCurvePublicKey) -> list[str]:
    """Return what is wrong in the folder of a release, each with the name of the file."""
    try:
        stated = open_bundle((folder / BUNDLE).read_bytes(), key)
    except FileNotFoundError:
        return [f"{BUNDLE}: is missing, so nothing is proved"]
    except SignatureError as error:
        return [f"{BUNDLE}: {error}"]
    artifacts = subjects(stated)
    # The proofs beside the bundle follow from what it has signed.
    expected = {
        **artifacts,
        STATEMENT: sha256(stated).hexdigest(),
        SUMS: sha256(checksums(artifacts)).hexdigest(),
    }
    found = {path.name for path in folder.iterdir()}
    wrong = dict.fromkeys(expected.keys() - found, "is missing")
    wrong |= dict.fromkeys(found - expected.keys() - {BUNDLE}, "is not listed: the release does not have it")
    for name in expected.keys() & found:
        path = folder / name
        if not path.is_file() or sha256(path.read_bytes()).hexdigest() != expected[name]:
            wrong[name] = "was changed"
    return [f"{name}: {what}" for name, what in sorted(wrong.items())]


def main(arguments: list[str]) -> int:
    """Print what is wrong, or what was verified; return 1 if anything is wrong, 2 if nothing could be checked."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    try:
        wrong = problems(folder, public_key())
    except KeyFileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {folder} cannot be read: {error.strerror}", file=sys.stderr)
        return 2
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    stated = (folder / STATEMENT).read_bytes()
    print(f"verified: {len(subjects(stated))} artifacts, {described(stated)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
