"""Pairs of keys for receipts, and what receipts prove by other libraries."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import scitt_cose
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from deltalake import DeltaTable

from app.model.attachment import AttachmentKind


def write_key(private: Path, public: Path, seed: int) -> None:
    """Write the two files of a pair of keys, which a seed determines; they replace what is there."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def verified(receipt: bytes, public: bytes) -> dict[str, Any]:
    """Return the statement that a receipt proves, by a library that shares no code with the gateway."""
    parsed = scitt_cose.parse_signed_statement(receipt, public_key_pem=public)
    assert (parsed["signature_verified"], parsed["issuer"]) == (True, "gateway")
    (proof,) = scitt_cose.extract_receipts(receipt)
    found = scitt_cose.verify_receipt(proof, leaf_entry_hex=parsed["payload"].hex(), log_public_key_pem=public)
    assert found.ok, found.errors
    said: dict[str, Any] = json.loads(parsed["payload"])
    assert said["subject"] == parsed["subject"]
    return said


def assert_version_added(said: Mapping[str, Any], tables: Path, kind: str, observations: int | None) -> None:
    """Assert that the table that a statement names has the rows of its attachment in the version that it names, and not
    in the one before, as deltalake alone reads it."""
    name, version = said["table"]["name"], said["table"]["version"]
    assert (name == "files") == (kind != AttachmentKind.DATA_SET.word)
    assert (said["subject"] in _attachments_in(tables, name, version)) == (observations != 0)
    assert said["subject"] not in _attachments_in(tables, name, version - 1)


@cache
def _attachments_in(tables: Path, name: str, version: int) -> set[str]:
    if version < 0:
        return set()
    return {*DeltaTable(tables / name, version).to_pyarrow_table(columns=["attachment"])["attachment"].to_pylist()}
