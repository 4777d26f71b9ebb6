"""What proves a release: checksums, a statement of provenance, and the signature of that statement.

The statement is in-toto's, with SLSA's provenance as predicate. Its subjects are the artifacts with their SHA-256. The
signature is a DSSE envelope by ECDSA on the curve P-256, in a bundle of Sigstore, so that cosign verifies it, too. The
same artifacts and the same key give the same bytes.

    https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
    https://slsa.dev/spec/v1.0/provenance
    https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
    https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SUMS = "SHA256SUMS"
STATEMENT = "provenance.json"
BUNDLE = "provenance.sigstore.json"
PROOFS = (SUMS, STATEMENT, BUNDLE)
"""The files of a release that are no artifacts."""

_BUILD_TYPE = "urn:attachment-gateway:make-release:1"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"


class Origin(NamedTuple):
    """What a release was built of, with what, and by whom."""

    commit: str
    time: int
    """When the commit was made, in seconds since 1970."""
    builder: str
    """A URI."""
    locks: Mapping[str, str]
    """The names of lock files, and their SHA-256."""
    tools: Mapping[str, str]
    """The versions of what decides on the bytes of archives."""


class SignatureError(ValueError):
    """A bundle has no valid signature by the key."""


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by name."""
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def checksums(artifacts: Mapping[str, str]) -> bytes:
    """Return the lines that `sha256sum --check` reads."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(artifacts.items())).encode()


def statement(artifacts: Mapping[str, str], origin: Origin) -> bytes:
    """Return the statement of provenance of artifacts."""
    sources = [{"name": "source", "digest": {"gitCommit": origin.commit}}]
    locks = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(origin.locks.items())]
    return _json(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(artifacts.items())],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": _BUILD_TYPE,
                    "externalParameters": {"commit": origin.commit},
                    "internalParameters": {"SOURCE_DATE_EPOCH": origin.time, **origin.tools},
                    "resolvedDependencies": sources + locks,
                },
                "runDetails": {"builder": {"id": origin.builder}},
            },
        }
    )


def subjects(stated: bytes) -> dict[str, str]:
    """Return the artifacts of a statement, with their SHA-256."""
    return {each["name"]: each["digest"]["sha256"] for each in json.loads(stated)["subject"]}


def described(stated: bytes) -> str:
    """Return the commit and the builder that a statement names."""
    predicate = json.loads(stated)["predicate"]
    commit = predicate["buildDefinition"]["externalParameters"]["commit"]
    return f"commit {commit}, built by {predicate['runDetails']['builder']['id']}"


def sign(stated: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the bundle with a statement and its signature."""
    signature = key.sign(_encoded(stated), ec.ECDSA(hashes.SHA256(), deterministic_signing=True))
    return _bundle(stated, signature, key.public_key())


def open_bundle(bundle: bytes, key: ec.EllipticCurvePublicKey) -> bytes:
    """Return the statement in a bundle. Raises SignatureError unless the key signed it and each byte is as it was."""
    try:
        found = json.loads(bundle)
        if "certificate" in found["verificationMaterial"]:
            raise SignatureError("is signed without a key: cosign verifies it")
        envelope = found["dsseEnvelope"]
        stated = b64decode(envelope["payload"])
        signature = b64decode(envelope["signatures"][0]["sig"])
        key.verify(signature, _encoded(stated), ec.ECDSA(hashes.SHA256()))
    except (ValueError, KeyError, TypeError, LookupError) as error:
        raise error if isinstance(error, SignatureError) else SignatureError("is no bundle of this format") from error
    except InvalidSignature:
        raise SignatureError("is not signed by this key, or was changed") from None
    if bundle != _bundle(stated, signature, key):
        raise SignatureError("was changed beside what is signed")
    return stated


def _bundle(stated: bytes, signature: bytes, key: ec.EllipticCurvePublicKey) -> bytes:
    encoded = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _json(
        {
            "mediaType": _BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": _base64(sha256(encoded).digest())}, "tlogEntries": []},
            "dsseEnvelope": {
                "payloadType": _PAYLOAD_TYPE,
                "payload": _base64(stated),
                "signatures": [{"sig": _base64(signature)}],
            },
        }
    )


def _encoded(stated: bytes) -> bytes:
    """Return what is signed of a statement: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD_TYPE), _PAYLOAD_TYPE.encode(), len(stated), stated)


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
