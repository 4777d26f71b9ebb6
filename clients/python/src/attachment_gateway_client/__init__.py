"""A client of the attachment gateway: list, wait, fetch, send and follow events, with and without an event loop.

from attachment_gateway_client import Client

with Client("http://127.0.0.1:8080") as gateway:
for attachment in gateway.attachments(state="finished"):
gateway.fetch(attachment, attachment["file_name"])
"""

from attachment_gateway_client.asynchronous import AsyncClient
from attachment_gateway_client.calls import DEFAULT_URL, located
from attachment_gateway_client.client import Client
from attachment_gateway_client.errors import (
    AttachmentGatewayError,
    ContentChanged,
    DigestMismatch,
    InvalidKey,
    InvalidPath,
    InvalidToken,
    Problem,
    Unreachable,
)
from attachment_gateway_client.events import Event
from attachment_gateway_client.missing import GONE_FORMAT, GONE_MSG_TYPE, MissingParts
from attachment_gateway_client.schemas import (
    Attachment,
    Delivery,
    Message,
    MessageSummary,
    Quarantine,
    Rehearsal,
    TableSummary,
    Upload,
)
from attachment_gateway_client.sending import File

__all__ = [
    "DEFAULT_URL",
    "GONE_FORMAT",
    "GONE_MSG_TYPE",
    "AsyncClient",
    "Attachment",
    "AttachmentGatewayError",
    "Client",
    "ContentChanged",
    "Delivery",
    "DigestMismatch",
    "Event",
    "File",
    "InvalidKey",
    "InvalidPath",
    "InvalidToken",
    "Message",
    "MessageSummary",
    "MissingParts",
    "Problem",
    "Quarantine",
    "Rehearsal",
    "TableSummary",
    "Unreachable",
    "Upload",
    "located",
]
