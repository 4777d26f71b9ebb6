"""The keys of attachments in the 24 characters that a header on TIB/Rendezvous has for each correlid.

A correlid is text there and may be blank, so that nothing in a message tells which attachment it belongs to. The
gateway's own correlids are a key of 16 bytes in base64 behind a mark: who receives them has the sender's keys. Keys of
other senders' attachments are made of where and when their header came.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import blake2b
from typing import Final

from app.codecs.sas.correlid import KEY_SIZE, SIZE

_MARK: Final = b"AG"
BLANK: Final = b" " * SIZE
"""A correlid that says nothing."""


def correlid_of(key: bytes) -> bytes:
    """Return the correlid that a key travels as."""
    return _MARK + urlsafe_b64encode(key[:KEY_SIZE]).rstrip(b"=")


def key_of(correlid: bytes) -> bytes | None:
    """Return the key that a correlid of the gateway's holds; None for any other."""
    if not correlid.startswith(_MARK) or len(correlid) != SIZE:
        return None
    try:
        key = urlsafe_b64decode(correlid[len(_MARK) :] + b"==")
    except (Error, ValueError):
        return None
    return key if len(key) == KEY_SIZE and correlid_of(key) == correlid else None


def derived(base: bytes, number: int) -> bytes:
    """Return the key of the attachment of this number under a header."""
    return blake2b(base + number.to_bytes(4, "big"), digest_size=KEY_SIZE, person=b"rendezvous").digest()


def made(*facts: bytes) -> bytes:
    """Return the key of a header, of what is known of it."""
    return blake2b(b"\0".join(facts), digest_size=KEY_SIZE, person=b"rendezvous-hdr").digest()


def attachment_key(correlid: bytes, base: bytes, number: int) -> bytes:
    """Return the key of an attachment by its correlid, or else by its place under its header."""
    return key_of(correlid) or derived(base, number)
