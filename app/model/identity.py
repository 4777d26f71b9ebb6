"""Identifiers that follow from what a sender wrote, so that a replay and another host give the same ones; and what a
sender's own tell."""

from hashlib import blake2b


def attachment_id(source: str, correl_id: bytes) -> str:
    """The identifier of the attachment with this correlid of 16 or 24 bytes from this source: 32 hexadecimal digits."""
    return _identifier(b"attachment", source, correl_id)


def message_id(source: str, header_correl_id: bytes) -> str:
    """The identifier of the message whose header has this 24-byte correlid: 32 hexadecimal digits."""
    return _identifier(b"message", source, header_correl_id)


def announces_application(message_correl_id: bytes) -> bool:
    """Whether a header with this message correlid announces an application message; blanks are those of ASCII or of
    EBCDIC."""
    return bool(message_correl_id.strip(b"\0 @"))


def _identifier(kind: bytes, source: str, correl_id: bytes) -> str:
    return blake2b(source.encode() + b"\0" + correl_id, digest_size=16, person=kind).hexdigest()
