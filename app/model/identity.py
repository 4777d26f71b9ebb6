"""Identifiers of attachments and messages, made of their correlids, so that a replay and another host make the same."""

from hashlib import blake2b


def attachment_id(source: str, correl_id: bytes) -> str:
    """Return the identifier, 32 hexadecimal digits, of the attachment with this correlid of 16 or 24 bytes."""
    return _identifier(b"attachment", source, correl_id)


def message_id(source: str, header_correl_id: bytes) -> str:
    """Return the identifier, 32 hexadecimal digits, of the message whose header has this 24-byte correlid."""
    return _identifier(b"message", source, header_correl_id)


def announces_application(message_correl_id: bytes) -> bool:
    """Return whether a header with this message correlid announces an application message: zeros and blanks (in ASCII
    or EBCDIC) announce none."""
    return bool(message_correl_id.strip(b"\0 @"))


def addressed(header_correl_id: bytes, message_correl_id: bytes) -> bytes:
    """Return the correlid of the application message of a header: the header's own where it announces none."""
    return message_correl_id if announces_application(message_correl_id) else header_correl_id


def _identifier(kind: bytes, source: str, correl_id: bytes) -> str:
    return blake2b(source.encode() + b"\0" + correl_id, digest_size=16, person=kind).hexdigest()
