"""The check of receipts: each finished attachment has one that an independent library verifies, in a log that grew.

The roots of the signed tree heads, which are kept while faults occur, are compared with those that scitt-cose makes of
all statements in the end. So no statement was lost, changed, put in or taken out since.
"""

from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import httpx
import orjson
import scitt_cose

from tests.faults.traffic import DATA_SET, Attachment
from tests.support.receipts import write_key

WAITED = 30.0
"""Seconds without a further receipt after which those that are missing count as lost."""


class Head(NamedTuple):
    """A tree head that was fetched, with the log that it is of."""

    log: str
    size: int
    root: bytes


class Leaf(NamedTuple):
    """A verified statement, and its place in the log."""

    place: int
    statement: bytes


class Notes(NamedTuple):
    """What was found, with a note each."""

    lost: list[str]
    twice: list[str]
    wrong: list[str]


class ReceiptAudit:
    """The keys of a gateway's receipts, and the heads of its log that were seen."""

    def __init__(self, folder: Path) -> None:
        self._private, public = folder / "receipts.pem", folder / "receipts.pub.pem"
        write_key(self._private, public, 5)
        self._public = public.read_bytes()
        self._heads: list[Head] = []

    @property
    def settings(self) -> str:
        return f'[receipts]\nkey_file = "{self._private}"\n'

    def keep_head(self, client: httpx.Client) -> None:
        """Keep the newest tree head, as an auditor does; nothing if the gateway does not answer or has none yet."""
        try:
            answer = client.get("/v1/receipt-log")
        except httpx.HTTPError:
            return
        if answer.status_code == 200:
            said = answer.json()
            self._heads.append(Head(said["log"], said["size"], bytes.fromhex(said["root"])))

    def judge(self, client: httpx.Client, finished: dict[str, Attachment], *, is_damaged: bool) -> Notes:
        """Return what was lost, twice and wrong.

        `finished` are the finished attachments by their identifiers. A gateway that was damaged may have finished some
        twice, or lost what a statement would be made of: then each receipt that there is must be right.
        """
        notes = Notes([], [], [])
        leaves = self._fetched(client, finished, notes, limit=0 if is_damaged else WAITED)
        self.keep_head(client)
        if not is_damaged:
            notes.lost.extend(f"no receipt of {key}" for key in finished.keys() - leaves.keys())
            self._compare_log({leaf.place: leaf.statement.hex() for leaf in leaves.values()}, len(finished), notes)
        return notes

    def _fetched(
        self, client: httpx.Client, finished: dict[str, Attachment], notes: Notes, limit: float
    ) -> dict[str, Leaf]:
        """Return what the receipts prove, waiting for those that are not made yet."""
        leaves: dict[str, Leaf] = {}
        since = monotonic()
        while missing := finished.keys() - leaves.keys():
            answers = {key: client.get(f"/v1/attachments/{key}/receipt") for key in missing}
            for key, answer in ((key, answer) for key, answer in answers.items() if answer.status_code == 200):
                since = monotonic()
                try:
                    leaves[key] = self._verified(answer.content)
                    notes.wrong.extend(_contradictions(key, finished[key], orjson.loads(leaves[key].statement)))
                except (ValueError, scitt_cose.CoseError) as error:
                    leaves[key] = Leaf(-1, b"")
                    notes.wrong.append(f"the receipt of {key}: {error}")
            if monotonic() - since >= limit:
                break
            sleep(0.2)
        return leaves

    def _compare_log(self, by_place: dict[int, str], finished: int, notes: Notes) -> None:
        """Compare each head that was kept with the statements, which are the whole log if none is twice."""
        newest = self._heads[-1] if self._heads else Head("", 0, b"")
        if newest.size > finished:
            notes.twice.append(f"{newest.size} statements about {finished} attachments")
        elif sorted(by_place) != [*range(newest.size)]:
            if not notes.lost:
                notes.wrong.append(f"receipts name the places {sorted(by_place)} of a log of {newest.size}")
        else:
            entries = [by_place[place] for place in range(newest.size)]
            for head in {head for head in self._heads if head.size}:
                if head.log != newest.log or scitt_cose.merkle_root(entries[: head.size]) != head.root.hex():
                    notes.wrong.append(f"the log does not continue the head {head}")

    def _verified(self, receipt: bytes) -> Leaf:
        """Return what a receipt proves. Raises ValueError, CoseError."""
        parsed = scitt_cose.parse_signed_statement(receipt, public_key_pem=self._public)
        if parsed["signature_verified"] is not True:
            raise ValueError("the signature of the statement is not valid")
        (proof,) = scitt_cose.extract_receipts(receipt)
        found = scitt_cose.verify_receipt(
            proof, leaf_entry_hex=parsed["payload"].hex(), log_public_key_pem=self._public
        )
        if not found.ok or found.leaf_index is None:
            raise ValueError(f"the proof is not valid: {found.errors}")
        return Leaf(found.leaf_index, parsed["payload"])


def _contradictions(key: str, attachment: Attachment, said: dict[str, Any]) -> list[str]:
    """Return in what a statement differs from what was sent. A data set's bytes are the gateway's own."""
    expected: dict[str, Any] = {
        "subject": key,
        "type": "attachment.finished",
        "name": attachment.name,
        "correl_id": attachment.key.hex(),
    }
    if attachment.kind != DATA_SET:
        expected |= {"size": len(attachment.content), "sha256": attachment.sha256}
    return [
        f"the receipt of {key} says {name} {said[name]!r}, not {value!r}"
        for name, value in expected.items()
        if said[name] != value
    ]
