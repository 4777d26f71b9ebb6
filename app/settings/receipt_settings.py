"""Custody receipts: the key that signs them, and the name of their issuer."""

from typing import Annotated

from pydantic import AfterValidator, Field

from app.secret import Secret
from app.settings.section import Section
from app.settings.setting_types import Name


def _key(given: Secret) -> Secret:
    from app.codecs.receipts.cose import private_key  # noqa: PLC0415 - most gateways make no receipts

    private_key(given.get_secret_value())
    return given


class ReceiptSettings(Section):
    """Receipts for finished attachments and sent deliveries; the table switches them on.

    `key` is an Ed25519 private key in PEM, which `key_file` reads from a file, again at each use. `issuer` names this
    gateway in receipts. With `events`, the event `receipt.made` is logged for each receipt even if no webhook gets it.
    `send_back` has for a source the destination to which the receipts of its attachments are sent, as files."""

    key: Annotated[Secret, AfterValidator(_key)]
    issuer: str = Field(default="attachment-gateway", min_length=1, max_length=200)
    events: bool = False
    send_back: dict[Name, Name] = Field(default={})
