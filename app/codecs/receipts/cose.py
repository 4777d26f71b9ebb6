"""COSE_Sign1 of RFC 9052 with Ed25519: signing, and reading strictly.

Only the deterministic encoding of RFC 8949 is read: what is encoded again gives the same bytes. So nothing can be
hidden in a second key of a map, behind the end, or in another length, and nobody can change a byte that is not noticed.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

import cbor2
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

MOST_BYTES: Final = 1 << 20
"""The largest object that is read: a statement has a few thousand bytes, a proof 32 for each doubling of the log."""

ALGORITHM, CRITICAL, CONTENT_TYPE, KEY_ID, CLAIMS = 1, 2, 3, 4, 15
"""Labels of header parameters."""
EDDSA: Final = -8
ISSUER, SUBJECT, ISSUED_AT = 1, 2, 6
"""Keys of claims (RFC 8392)."""

_SIGN1: Final = 18
_OKP_ED25519: Final = {1: 1, -1: 6}
"""The required members of a COSE key: its type, and its curve."""


class Malformed(ValueError):
    """Bytes that are no COSE_Sign1 of the kind that is read here."""


class SignatureFailed(ValueError):
    """A signature that is not by one of the keys, or not of these bytes."""


class Sign1(NamedTuple):
    """A COSE_Sign1. `protected` has the bytes of the header that is signed, `header` what they say."""

    protected: bytes
    header: Mapping[Any, Any]
    unprotected: Mapping[Any, Any]
    payload: bytes | None
    signature: bytes

    def encoded(self) -> bytes:
        """Return its bytes."""
        return encode(cbor2.CBORTag(_SIGN1, [self.protected, dict(self.unprotected), self.payload, self.signature]))

    def verify(self, keys: Mapping[bytes, Ed25519PublicKey], payload: bytes | None = None) -> bytes:
        """Return the identifier of the key that has signed it, one of `keys`. A detached payload is given. Raises
        SignatureFailed."""
        key_id, signed = self.header.get(KEY_ID), self.payload if payload is None else payload
        if CRITICAL in self.header:
            raise SignatureFailed("its header has critical parameters, which are not known here")
        if self.header.get(ALGORITHM) != EDDSA:
            raise SignatureFailed(f"it is signed by the algorithm {self.header.get(ALGORITHM)!r}, not EdDSA ({EDDSA})")
        if not isinstance(key_id, bytes) or key_id not in keys:
            named = key_id.hex() if isinstance(key_id, bytes) else repr(key_id)
            given = ", ".join(each.hex() for each in keys) or "none"
            raise SignatureFailed(f"it is signed by the key {named}; the keys given are {given}")
        if signed is None:
            raise SignatureFailed("its payload is detached")
        try:
            keys[key_id].verify(self.signature, _to_be_signed(self.protected, signed))
        except InvalidSignature:
            raise SignatureFailed(f"the key {key_id.hex()} has not signed these bytes") from None
        return key_id


def sign(
    key: Ed25519PrivateKey, header: Mapping[Any, Any], payload: bytes, unprotected: Mapping[Any, Any] | None = None
) -> Sign1:
    """Return a payload with a header, signed. The algorithm and the identifier of the key come into the header."""
    whole = {ALGORITHM: EDDSA, KEY_ID: key_id(key.public_key()), **header}
    protected = encode(whole)
    return Sign1(protected, whole, unprotected or {}, payload, key.sign(_to_be_signed(protected, payload)))


def decode(given: bytes) -> Sign1:
    """Return the COSE_Sign1 that some bytes are. Raises Malformed."""
    found = decoded(given)
    if not isinstance(found, cbor2.CBORTag) or found.tag != _SIGN1:
        raise Malformed("it is no COSE_Sign1: the tag 18 is missing")
    parts = found.value
    if not isinstance(parts, list | tuple) or len(parts) != 4:
        raise Malformed("a COSE_Sign1 is an array of four")
    protected, unprotected, payload, signature = parts
    if not isinstance(protected, bytes) or not isinstance(unprotected, Mapping) or not isinstance(signature, bytes):
        raise Malformed("a COSE_Sign1 has a header in bytes, a map, a payload, and a signature in bytes")
    if payload is not None and not isinstance(payload, bytes):
        raise Malformed("the payload of a COSE_Sign1 is bytes, or null")
    header = decoded(protected)
    if not isinstance(header, Mapping):
        raise Malformed("the header of a COSE_Sign1 is a map")
    return Sign1(protected, header, unprotected, payload, signature)


def encode(value: object) -> bytes:
    """Return a value in the deterministic encoding of RFC 8949."""
    return cbor2.dumps(value, canonical=True)


def decoded(given: bytes) -> Any:
    """Return the value that some bytes are in the deterministic encoding. Raises Malformed."""
    if len(given) > MOST_BYTES:
        raise Malformed(f"it has {len(given):,} bytes; at most {MOST_BYTES:,} are read")
    try:
        value = cbor2.loads(given)
        is_same = encode(value) == given
    except (cbor2.CBORError, ValueError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise Malformed(f"it is no CBOR: {error}") from error
    if not is_same:
        raise Malformed("its CBOR is not in the deterministic encoding, or has bytes behind its end")
    return value


def private_key(pem: str) -> Ed25519PrivateKey:
    """Return the key in a PEM text. Raises ValueError, which shows nothing of it."""
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("it is no private key in PEM without a password") from None
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise ValueError("it is a private key of another algorithm than Ed25519")


def public_key(pem: bytes) -> Ed25519PublicKey:
    """Return the key in a PEM text. Raises ValueError."""
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("it is no public key in PEM") from None
    if isinstance(key, Ed25519PublicKey):
        return key
    raise ValueError("it is a public key of another algorithm than Ed25519")


def public_pem(key: Ed25519PublicKey) -> bytes:
    """Return a public key as a PEM text."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def key_id(key: Ed25519PublicKey) -> bytes:
    """Return the identifier of a key: its COSE key thumbprint (RFC 9679)."""
    return sha256(encode(_OKP_ED25519 | {-2: key.public_bytes_raw()})).digest()


def _to_be_signed(protected: bytes, payload: bytes) -> bytes:
    return encode(["Signature1", protected, b"", payload])
