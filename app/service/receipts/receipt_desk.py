"""Receipts for clients: statements with the newest proof, and tree heads, read from the catalog by any process."""

from typing import NamedTuple

from app.codecs.receipts import cose, merkle
from app.codecs.receipts.cose import Sign1
from app.codecs.receipts.merkle import Node
from app.codecs.receipts.statements import Proof, TreeHead, receipt, transparent_statement, with_consistency
from app.codecs.receipts.statements import head_of as described
from app.model.receipt_records import KeptHead
from app.ports import Catalog
from app.service.receipts.receipt_keys import SigningKey
from app.settings import ReceiptSettings


class NoReceipts(Exception):
    """There is no receipt, or no head, with the reason. If it `may_come`, asking again helps."""

    def __init__(self, why: str, *, may_come: bool) -> None:
        super().__init__(why)
        self.may_come = may_come


class LaterHead(ValueError):
    """A head that a client has is not in the log: the log is shorter."""


class FoundStatement(NamedTuple):
    """A statement in the log, with its place."""

    place: int
    statement: bytes


class ReceiptDesk:
    """Answers for receipts. Without `settings` no new ones are made, and none is signed."""

    def __init__(self, catalog: Catalog, settings: ReceiptSettings | None) -> None:
        self._catalog, self._settings = catalog, settings
        self._key = None if settings is None else SigningKey(settings)

    @property
    def are_made(self) -> bool:
        """Whether receipts are made."""
        return self._settings is not None

    def statement(self, subject: str) -> FoundStatement | None:
        """Return the newest statement about a subject."""
        found = self._catalog.receipt_statement(subject)
        return None if found is None else FoundStatement(*found)

    def transparent(self, subject: str, found: FoundStatement, since: int | None = None) -> bytes:
        """Return a statement, signed, with the receipt of the newest head, and with the proof that this continues the
        tree of `since` leaves. Raises NoReceipts, LaterHead, and GatewayError if the key cannot be read."""
        settings, kept = self._needed(), self._newest()
        if found.place >= kept.size:
            raise NoReceipts("its receipt is being made", may_come=True)
        node = self._node()
        path = merkle.inclusion_path(found.place, kept.size, node)
        sealed = receipt(_signed(kept), kept.size, found.place, path, _proof(kept.size, since, node))
        assert self._key is not None
        return transparent_statement(self._key.current(), settings.issuer, subject, found.statement, sealed)

    def head(self, since: int | None = None) -> bytes:
        """Return the newest tree head, with the proof that it continues the tree of `since` leaves. Raises NoReceipts
        and LaterHead."""
        kept = self._newest()
        return with_consistency(_signed(kept), kept.size, _proof(kept.size, since, self._node()))

    def described(self) -> TreeHead:
        """Return what the newest head says. Raises NoReceipts."""
        return described(_signed(self._newest()))

    def public_key(self) -> bytes:
        """Return the public key that verifies what is signed now, in PEM. Raises NoReceipts and GatewayError."""
        self._needed()
        assert self._key is not None
        return cose.public_pem(self._key.current().public_key())

    def _needed(self) -> ReceiptSettings:
        if self._settings is None:
            raise NoReceipts("this gateway makes no receipts: the settings have no [receipts]", may_come=False)
        return self._settings

    def _newest(self) -> KeptHead:
        if (kept := self._catalog.receipt_head()) is None:
            self._needed()
            raise NoReceipts("the log has no statement yet", may_come=True)
        return kept

    def _node(self) -> Node:
        known: dict[merkle.Tile, bytes] = {}

        def tile(level: int, number: int) -> bytes:
            if (level, number) not in known:
                known[level, number] = self._catalog.receipt_tile(level, number)
            return known[level, number]

        return merkle.nodes_of(tile)


def _signed(kept: KeptHead) -> Sign1:
    return Sign1(kept.protected, cose.decoded(kept.protected), {}, kept.root, kept.signature)


def _proof(size: int, since: int | None, node: Node) -> Proof | None:
    """Return the proof that a tree continues one of `since` leaves, if that is asked for."""
    if since is None:
        return None
    if since > size:
        raise LaterHead(f"the log has {size:,} statements, fewer than the {since:,} of that head")
    return Proof(since, merkle.consistency_path(since, size, node))
