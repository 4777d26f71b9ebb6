"""The keys of a release: ECDSA on the curve P-256, in PEM files that variables of the environment name.

Neither a key nor the path of its file is printed.
"""

import os
import stat
from getpass import getpass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

PRIVATE = "RELEASE_KEY_FILE"
PUBLIC = "RELEASE_PUBLIC_KEY_FILE"
HOW_TO_MAKE = """\
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-256-cbc -out release.key
    openssl pkey -in release.key -pubout -out release.pub"""


class KeyFileError(Exception):
    """There is no usable key in a file."""


def private_key() -> ec.EllipticCurvePrivateKey | None:
    """Return the key that signs; None where no variable names one. Asks for the passphrase of an encrypted key."""
    if (text := _read(PRIVATE, is_secret=True)) is None:
        return None
    password = getpass("Passphrase of the release key: ").encode() if b"ENCRYPTED" in text else None
    try:
        key = load_pem_private_key(text, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(f"the file that {PRIVATE} names has no private key, or the passphrase is wrong") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise KeyFileError(f"the key that {PRIVATE} names is not one of the curve P-256; make one:\n{HOW_TO_MAKE}")
    return key


def public_key() -> ec.EllipticCurvePublicKey:
    """Return the key that a release is verified by."""
    if (text := _read(PUBLIC, is_secret=False)) is None:
        raise KeyFileError(f"{PUBLIC} has to name the file with the public key of the release")
    try:
        key = load_pem_public_key(text)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise KeyFileError(f"the file that {PUBLIC} names has no public key of the curve P-256")
    return key


def _read(variable: str, *, is_secret: bool) -> bytes | None:
    if not (name := os.environ.get(variable)):
        return None
    try:
        with Path(name).expanduser().open("rb") as file:
            if is_secret and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise KeyFileError(f"others may read the file that {variable} names: chmod 600 it")
            return file.read()
    except OSError as error:
        raise KeyFileError(f"the file that {variable} names cannot be read: {error.strerror}") from None
