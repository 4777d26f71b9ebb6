"""Pairs of keys for receipts."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


def write_key(private: Path, public: Path, seed: int) -> None:
    """Write the two files of a pair of keys, which a seed determines; they replace what is there."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
