"""Files to send, and deliveries of them."""

from hashlib import sha256
from random import Random

from app.model.attachment import AttachmentKind
from app.model.records import DeliveryRecord, FramingOptions, OutgoingAttachment
from app.service.context import ServiceContext

SOURCE = "orders"
RANDOM = Random(7)
FILES: list[tuple[AttachmentKind, str, bytes]] = [
    (AttachmentKind.TEXT_FILE, "empty.txt", b""),
    (AttachmentKind.TEXT_FILE, "one.txt", b"x"),
    (AttachmentKind.TEXT_FILE, "line feed.txt", b"\n"),
    (AttachmentKind.TEXT_FILE, "d:\\mytext.txt", b"first\r\n\nthird\n"),
    (AttachmentKind.TEXT_FILE, "open end.txt", b"first\nlast"),
    (AttachmentKind.TEXT_FILE, "日本語.txt", "ein Satz mit Umlauten: äöü\n".encode() * 3000),
    (AttachmentKind.TEXT_FILE, "long line.txt", b"y" * 100_000 + b"\nshort\n"),
    (AttachmentKind.BINARY_FILE, "empty.bin", b""),
    (AttachmentKind.BINARY_FILE, "one.bin", b"\0"),
    (AttachmentKind.BINARY_FILE, "a body.bin", RANDOM.randbytes(32_000)),
    (AttachmentKind.BINARY_FILE, "../../etc/passwd", RANDOM.randbytes(300_001)),
]


def framing_options(
    dialect: str = "big-4-excluded-packed", body_limit: int = 32_000, record_length: int | None = None
) -> FramingOptions:
    """Return the message format of a destination with UTF-8 and big-endian numbers."""
    return FramingOptions(body_limit, dialect, 1208, 273, record_length)


def delivery(context: ServiceContext, contents: list[tuple[AttachmentKind, str, bytes]]) -> DeliveryRecord:
    """Store these contents and return their delivery; attachment n has a correlid of 16 bytes n."""
    attachments = []
    for number, (kind, name, content) in enumerate(contents, 1):
        object_name = f"outgoing/d/{number}"
        with context.store.create(object_name) as target:
            target.write(content)
        library, _, member = name.rpartition(".") if kind is AttachmentKind.DATA_SET else ("FILENAME", "", name)
        attachments.append(
            OutgoingAttachment(
                bytes([number]) * 16,
                kind,
                library,
                member,
                f"the {number}th",
                number,
                2,
                object_name,
                len(content),
                sha256(content).hexdigest(),
            )
        )
    return DeliveryRecord(
        id="d",
        destination=SOURCE,
        header_correl_id=b"H" * 24,
        message_correl_id=b"M" * 16 + bytes(8),
        attachments=tuple(attachments),
        created_at=1,
        updated_at=1,
        application_body=b"what it is about",
        application_format="MQSTR",
    )
