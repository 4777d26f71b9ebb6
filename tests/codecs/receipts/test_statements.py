"""Statements, heads and receipts: read by an independent library, changed in each bit, and forked."""

from functools import cache

import pytest
import scitt_cose
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from scitt_cose import merkle as independent_merkle

from app.codecs.receipts import cose, merkle, statements
from app.codecs.receipts.cose import Malformed, Sign1
from app.codecs.receipts.statements import Proof, ReceiptInvalid
from tests.codecs.receipts.test_merkle import Log

ENTRIES = [b'{"subject": "%d"}' % number for number in range(300)]
KEY, NEXT = (Ed25519PrivateKey.from_private_bytes(bytes([each]) * 32) for each in (1, 2))
KEYS = statements.key_ring([KEY.public_key(), NEXT.public_key()])
ISSUER, NAME = "https://gateway.example", "urn:uuid:0f0e0d0c-0b0a-4908-8706-050403020100"


@cache
def log() -> Log:
    return Log(ENTRIES)


@cache
def forked() -> Log:
    """A log that has another statement in place of the 201st."""
    return Log([*ENTRIES[:200], b"forged", *ENTRIES[201:]])


def head(size: int, key: Ed25519PrivateKey = KEY, of: Log | None = None, name: str = NAME) -> Sign1:
    return statements.signed_head(key, ISSUER, name, size, merkle.root(size, (of or log()).node), 1_700_000_000)


def signed(index: int, size: int, older: int | None = None, key: Ed25519PrivateKey = KEY) -> bytes:
    proof = None if older is None else Proof(older, merkle.consistency_path(older, size, log().node))
    path = merkle.inclusion_path(index, size, log().node)
    receipt = statements.receipt(head(size, key), size, index, path, proof)
    return statements.transparent_statement(key, ISSUER, f"attachment {index}", ENTRIES[index], receipt)


def continued(older: int, newer: int, of: Log | None = None) -> bytes:
    path = merkle.consistency_path(older, newer, (of or log()).node)
    return statements.with_consistency(head(newer, of=of), newer, Proof(older, path))


def test_an_independent_library_agrees() -> None:
    """scitt-cose reads what is written here; what it writes is read here, and its proofs are the same."""
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    entries = [each.hex() for each in ENTRIES]
    for index, size in ((0, 1), (0, 300), (299, 300), (128, 257)):
        given = signed(index, size, older=1)
        parsed = scitt_cose.parse_signed_statement(given, public_key_pem=pem)
        assert parsed["signature_verified"] is True
        assert (parsed["issuer"], parsed["subject"]) == (ISSUER, f"attachment {index}")
        assert parsed["payload"] == ENTRIES[index]
        (receipt,) = scitt_cose.extract_receipts(given)
        found = scitt_cose.verify_receipt(receipt, leaf_entry_hex=entries[index], log_public_key_pem=pem)
        assert found.ok, found.errors
        assert (found.issuer, found.subject, found.iat) == (ISSUER, NAME, 1_700_000_000)
        assert found.root == independent_merkle.merkle_root(entries[:size])
        other = scitt_cose.verify_receipt(receipt, leaf_entry_hex=entries[index - 1] + "00", log_public_key_pem=pem)
        assert not other.ok
    for older, newer in ((1, 300), (255, 257), (256, 300), (300, 300)):
        path = [each.hex() for each in merkle.consistency_path(older, newer, log().node)]
        assert path == independent_merkle.consistency_proof(entries, older, newer)


def test_what_a_statement_proves() -> None:
    old = statements.with_consistency(head(100), 100, None)
    verified = statements.verify_statement(signed(7, 300, 100, NEXT), KEYS, [old])
    assert (verified.statement, verified.place, verified.head.size, verified.proved) == (ENTRIES[7], 7, 300, 100)
    assert statements.verify_statement(signed(7, 300, 100, NEXT), KEYS).proved is None, "nothing was compared"
    assert verified.statement_key == verified.head.key_id == cose.key_id(NEXT.public_key())
    assert statements.verify_head(continued(100, 300), KEYS, [old]).size == 300
    assert signed(7, 300, 100, NEXT) == signed(7, 300, 100, NEXT)


def test_each_bit_counts() -> None:
    """No bit of a statement with its receipt and proofs, nor of a head, can be changed."""
    old = statements.with_consistency(head(5), 5, None)
    for given, verify in (
        (signed(3, 7, 5), statements.verify_statement),
        (continued(5, 7), statements.verify_head),
    ):
        verify(given, KEYS, [old])
        for at in range(len(given) * 8):
            changed = bytearray(given)
            changed[at // 8] ^= 1 << at % 8
            with pytest.raises(ReceiptInvalid):
                verify(bytes(changed), KEYS, [old])
        for end in range(len(given)):
            with pytest.raises(ReceiptInvalid):
                verify(given[:end], KEYS, [old])
        with pytest.raises(ReceiptInvalid):
            verify(given + b"\0", KEYS, [old])


def test_each_bit_of_the_key_counts() -> None:
    given, raw = signed(7, 300), KEY.public_key().public_bytes_raw()
    for at in range(256):
        changed = bytearray(raw)
        changed[at // 8] ^= 1 << at % 8
        other = Ed25519PublicKey.from_public_bytes(bytes(changed))
        with pytest.raises(ReceiptInvalid, match="the keys given are"):
            statements.verify_statement(given, statements.key_ring([other]))
        with pytest.raises(ReceiptInvalid, match="has not signed"):  # also where it has the identifier of the key
            statements.verify_statement(given, {cose.key_id(KEY.public_key()): other})


@pytest.mark.parametrize(
    ("older", "given", "why"),
    [
        pytest.param(lambda: head(250, of=forked()), lambda: continued(250, 300), "does not continue", id="forked"),
        pytest.param(lambda: head(300, of=forked()), lambda: continued(100, 300), "different roots", id="same size"),
        pytest.param(lambda: head(250), lambda: continued(250, 300, forked()), "does not continue", id="newer forked"),
        pytest.param(lambda: head(250), lambda: continued(100, 300), "no proof that it continues", id="no proof"),
        pytest.param(lambda: head(250), lambda: continued(100, 200), "the log was cut", id="cut"),
        pytest.param(lambda: head(100, name="urn:x"), lambda: continued(100, 200), "of the log", id="other log"),
    ],
)
def test_a_forked_log_is_found(older, given, why: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ReceiptInvalid, match=why):
        statements.verify_head(given(), KEYS, [older().encoded()])


def test_statements_of_others_are_refused() -> None:
    receipt = statements.receipt(head(300), 300, 7, merkle.inclusion_path(7, 300, log().node))
    larger = statements.receipt(head(299), 300, 7, merkle.inclusion_path(7, 300, log().node))
    attached = cose.decode(receipt)._replace(payload=merkle.root(300, log().node)).encoded()
    cases = {
        "not signed these bytes": statements.transparent_statement(KEY, ISSUER, "x", ENTRIES[8], receipt),
        "the statement is by": statements.transparent_statement(KEY, "another", "x", ENTRIES[7], receipt),
        "has not signed": statements.transparent_statement(KEY, ISSUER, "x", ENTRIES[7], larger),
        "detached": statements.transparent_statement(KEY, ISSUER, "x", ENTRIES[7], attached),
        "more or less than one receipt": cose.sign(KEY, cose.decode(signed(7, 300)).header, ENTRIES[7]).encoded(),
    }
    header = dict(cose.decode(signed(7, 300)).header)
    for why, changes in (("content type", {cose.CONTENT_TYPE: "text/plain"}), ("critical", {cose.CRITICAL: [395]})):
        cases[why] = cose.sign(KEY, header | changes, ENTRIES[7], {statements.RECEIPTS: [receipt]}).encoded()
    for why, given in cases.items():
        with pytest.raises(ReceiptInvalid, match=why):
            statements.verify_statement(given, KEYS)


@pytest.mark.parametrize(
    "given", ["", "00", "d28440a0f640", "d28443a10126a0f640ff", "9f01ff", "d2845f4100ffa0f640", "5b" + "ff" * 8]
)
def test_other_bytes_are_refused(given: str) -> None:
    with pytest.raises((Malformed, ReceiptInvalid)):
        statements.verify_statement(bytes.fromhex(given), KEYS)
