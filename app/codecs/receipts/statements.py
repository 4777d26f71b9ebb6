"""Signed statements, tree heads, and receipts: COSE receipts (RFC 9942) in the form of SCITT (RFC 9943).

A *statement* is a JSON object in bytes, and the entry of a leaf of the log. As a *transparent statement* it is the
payload of a COSE_Sign1, whose unprotected header has one receipt. A *receipt* is the signature of a tree head, with the
proof that the statement is in that tree; the root is its detached payload. A *tree head* is the same signature with its
root attached. Both may have a proof that the tree continues an older one. The signed header of a head tells the size of
the tree, too: the proofs name it, but nothing in them binds it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from app.codecs.receipts import cose
from app.codecs.receipts.cose import CLAIMS, CONTENT_TYPE, ISSUED_AT, ISSUER, SUBJECT, Malformed, Sign1, SignatureFailed
from app.codecs.receipts.merkle import HASH_BYTES, ProofFailed, check_consistency, leaf_hash, root_of_inclusion

RECEIPTS, STRUCTURE, PROOFS = 394, 395, 396
"""Labels of header parameters (RFC 9942)."""
RFC9162_SHA256: Final = 1
INCLUSION, CONSISTENCY = -1, -2
TREE_SIZE: Final = -65537
"""The claim with the size of the tree, a number for private use."""
STATEMENT_TYPE: Final = "application/vnd.attachment-gateway.statement+json"
TRANSPARENT_STATEMENT_TYPE: Final = "application/scitt-statement+cose"
"""The media type of a transparent statement by RFC 9943, for those who get it without asking."""
COSE_TYPE: Final = 'application/cose; cose-type="cose-sign1"'


class ReceiptInvalid(ValueError):
    """A receipt or a tree head that does not hold, with the reason."""


class TreeHead(NamedTuple):
    """A signed tree head: the log and its issuer, the size and root of its tree, and when (s) and by which key it was
    signed."""

    issuer: str
    log: str
    size: int
    root: bytes
    signed_at: int
    key_id: bytes


class Proof(NamedTuple):
    """The proof that a tree continues one of `older` leaves."""

    older: int
    path: Sequence[bytes]


class Verified(NamedTuple):
    """What a transparent statement has proved: the statement, its place in the log, and the head that has it. `proved`
    is the size of the older tree that this one was found to continue by the proof of the receipt; None for none."""

    statement: bytes
    statement_key: bytes
    place: int
    head: TreeHead
    proved: int | None


def signed_head(key: Ed25519PrivateKey, issuer: str, log: str, size: int, root: bytes, signed_at: int) -> Sign1:
    """Return a tree head, signed; `signed_at` is in seconds."""
    claims = {ISSUER: issuer, SUBJECT: log, ISSUED_AT: signed_at, TREE_SIZE: size}
    return cose.sign(key, {STRUCTURE: RFC9162_SHA256, CLAIMS: claims}, root)


def with_consistency(head: Sign1, size: int, proof: Proof | None) -> bytes:
    """Return the bytes of a tree head, with the proof that it continues an older one if there is one."""
    return head._replace(unprotected=_proofs(size, None, proof)).encoded()


def transparent_statement(key: Ed25519PrivateKey, issuer: str, subject: str, statement: bytes, receipt: bytes) -> bytes:
    """Return a statement about a subject, signed, with its receipt. The same key gives the same bytes."""
    header = {CONTENT_TYPE: STATEMENT_TYPE, CLAIMS: {ISSUER: issuer, SUBJECT: subject}}
    return cose.sign(key, header, statement, {RECEIPTS: [receipt]}).encoded()


def receipt(head: Sign1, size: int, index: int, path: Sequence[bytes], proof: Proof | None = None) -> bytes:
    """Return the receipt of a leaf in the tree of a head."""
    return head._replace(payload=None, unprotected=_proofs(size, (index, path), proof)).encoded()


def _proofs(size: int, inclusion: tuple[int, Sequence[bytes]] | None, proof: Proof | None) -> dict[int, Any]:
    found = {}
    if inclusion is not None:
        index, path = inclusion
        found[INCLUSION] = [cose.encode([size, index, list(path)])]
    if proof is not None:
        found[CONSISTENCY] = [cose.encode([proof.older, size, list(proof.path)])]
    return {PROOFS: found} if found else {}


# --- verification ---------------------------------------------------------------------------------------------------


def key_ring(keys: Sequence[Ed25519PublicKey]) -> dict[bytes, Ed25519PublicKey]:
    """Return keys by their identifiers."""
    return {cose.key_id(key): key for key in keys}


def is_head(given: bytes) -> bool:
    """Tell whether some bytes are a tree head rather than a transparent statement. Raises ReceiptInvalid if they are
    neither."""
    try:
        return STRUCTURE in cose.decode(given).header
    except Malformed as error:
        raise ReceiptInvalid(str(error)) from error


def verify_statement(given: bytes, keys: Mapping[bytes, Ed25519PublicKey], older: Sequence[bytes] = ()) -> Verified:
    """Return what a transparent statement proves by these keys alone. Its log must continue that of each of the `older`
    heads. Raises ReceiptInvalid."""
    try:
        signed = cose.decode(given)
        statement_key = signed.verify(keys)
        claims = _claims(signed)
        if signed.header.get(CONTENT_TYPE) != STATEMENT_TYPE:
            raise ReceiptInvalid(f"it has the content type {signed.header.get(CONTENT_TYPE)!r}, not {STATEMENT_TYPE!r}")
        (sealed,) = _only(signed.unprotected, RECEIPTS, "receipt")
        inner = cose.decode(sealed)
        if inner.payload is not None:
            raise ReceiptInvalid("the root of a receipt is detached")
        size, index, path = _proof(inner, INCLUSION, "proof of inclusion")
        statement = signed.payload or b""
        head = _head(inner, root_of_inclusion(leaf_hash(statement), index, size, path), keys)
        if head.size != size:
            raise ReceiptInvalid(f"the proof is of a tree of {size} leaves, and the signed head has {head.size}")
        if claims[ISSUER] != head.issuer:
            raise ReceiptInvalid(f"the statement is by {claims[ISSUER]!r}, and its receipt by {head.issuer!r}")
        return Verified(statement, statement_key, index, head, _continued(inner, head, keys, older))
    except (Malformed, ProofFailed, SignatureFailed) as error:
        raise ReceiptInvalid(str(error)) from error


def verify_head(given: bytes, keys: Mapping[bytes, Ed25519PublicKey], older: Sequence[bytes] = ()) -> TreeHead:
    """Return the tree head that some bytes are by these keys alone. It must continue each of the `older` ones. Raises
    ReceiptInvalid."""
    try:
        signed = cose.decode(given)
        if signed.payload is None or len(signed.payload) != HASH_BYTES:
            raise ReceiptInvalid(f"the payload of a tree head is a root of {HASH_BYTES} bytes")
        head = _head(signed, signed.payload, keys)
        _continued(signed, head, keys, older)
    except (Malformed, ProofFailed, SignatureFailed) as error:
        raise ReceiptInvalid(str(error)) from error
    return head


def _head(signed: Sign1, root: bytes, keys: Mapping[bytes, Ed25519PublicKey]) -> TreeHead:
    """Return the head with a root, if it is signed."""
    if signed.header.get(STRUCTURE) != RFC9162_SHA256:
        raise ReceiptInvalid(f"the log has the structure {signed.header.get(STRUCTURE)!r}, not RFC9162_SHA256 (1)")
    signed.verify(keys, root)
    return head_of(signed._replace(payload=root))


def head_of(signed: Sign1) -> TreeHead:
    """Return what a tree head says, without looking at its signature. Raises ReceiptInvalid if it is none."""
    claims, root, key = _claims(signed), signed.payload, signed.header.get(cose.KEY_ID)
    size, at = claims.get(TREE_SIZE), claims.get(ISSUED_AT)
    if type(size) is not int or type(at) is not int or size < 0 or root is None or not isinstance(key, bytes):
        raise ReceiptInvalid("the header of a tree head has no size, no time or no key")
    return TreeHead(claims[ISSUER], claims[SUBJECT], size, root, at, key)


def _claims(signed: Sign1) -> Mapping[Any, Any]:
    claims = signed.header.get(CLAIMS)
    if not isinstance(claims, Mapping) or not all(isinstance(claims.get(each), str) for each in (ISSUER, SUBJECT)):
        raise ReceiptInvalid("the signed header names no issuer or no subject")
    return claims


def _continued(
    signed: Sign1, head: TreeHead, keys: Mapping[bytes, Ed25519PublicKey], older: Sequence[bytes]
) -> int | None:
    """Return the size of the older tree that this one continues by its proof, None if no head of such a tree was given.
    Raises ReceiptInvalid unless this tree continues that of each older head."""
    proofs = signed.unprotected.get(PROOFS)
    has_proof = isinstance(proofs, Mapping) and CONSISTENCY in proofs
    before, newer, path = _proof(signed, CONSISTENCY, "proof of consistency") if has_proof else (None, head.size, ())
    if newer != head.size:
        raise ReceiptInvalid(f"the proof of consistency is of a tree of {newer} leaves, and the head has {head.size}")
    proved: int | None = None
    for each in older:
        old = verify_head(each, keys)
        if (old.issuer, old.log) != (head.issuer, head.log):
            raise ReceiptInvalid(
                f"the older head is of the log {old.log} of {old.issuer!r}, and this one is of {head.log} of "
                f"{head.issuer!r}"
            )
        if old.size > head.size:
            raise ReceiptInvalid(
                f"the older head has {old.size} leaves, and this one {head.size}: give the newer one as what is "
                "verified, or the log was cut"
            )
        if old.size == head.size:
            check_consistency(old.size, old.root, head.size, head.root, ())
        elif old.size and old.size != before:
            raise ReceiptInvalid(
                f"it has no proof that it continues the head of {old.size} leaves: fetch it again with this head"
            )
        elif old.size:
            check_consistency(old.size, old.root, head.size, head.root, path)
            proved = before
    return proved


def _only(unprotected: Mapping[Any, Any], label: int, what: str) -> Sequence[Any]:
    """Return the one item of the list at a label, which is all that is there."""
    found = unprotected.get(label)
    if len(unprotected) != 1 or not isinstance(found, list | tuple) or len(found) != 1 or type(found[0]) is not bytes:
        raise ReceiptInvalid(f"the unprotected header has more or less than one {what}")
    return found


def _proof(signed: Sign1, kind: int, what: str) -> tuple[int, int, Sequence[bytes]]:
    """Return the two numbers and the path of the one proof of a kind."""
    proofs = signed.unprotected.get(PROOFS)
    if len(signed.unprotected) != 1 or not isinstance(proofs, Mapping) or not {INCLUSION, CONSISTENCY} >= {*proofs}:
        raise ReceiptInvalid("the unprotected header has something else than proofs")
    (coded,) = _only({kind: proofs.get(kind)}, kind, what)
    match cose.decoded(coded):
        case [first, second, [*path]] if type(first) is type(second) is int and {*map(type, path)} <= {bytes}:
            return first, second, path
    raise ReceiptInvalid(f"the {what} is not two numbers and a path of hashes")
