"""What the service needs of the outside world, as Protocols. Adapters implement them and are found by entry point.

Each module is one port. Every method may be called from any thread, unless it says otherwise.
"""

from app.ports.catalog import Catalog, CatalogPlugin
from app.ports.catalog.assembly import JournalReferences
from app.ports.catalog.database import CatalogDatabase
from app.ports.catalog.deliveries import Begin, IdempotencyConflict, Sending
from app.ports.catalog.keys import KeyCatalog
from app.ports.catalog.leases import ACTIVE, HeldLease, LeaseCatalog, OpenLeases
from app.ports.catalog.listing import (
    NEWEST_FIRST,
    AttachmentFilter,
    BadCursor,
    Identified,
    ListingCatalog,
    Page,
    Sort,
    Tallies,
    Total,
)
from app.ports.catalog.missing_parts import MissingRequest
from app.ports.catalog.pipeline import PACKED_AT_ONCE, Packed
from app.ports.catalog.quarantine import QuarantineCatalog, QuarantineGroup, QuarantineGroups
from app.ports.catalog.shared_journal import ArchivedJournal
from app.ports.catalog.uploads import UploadTotals
from app.ports.clock import Clock
from app.ports.content_store import ContentStore, ContentStorePlugin, ObjectFile, ObjectWriter
from app.ports.journal import (
    JOURNAL_SCHEMA,
    ArchivePlugin,
    Journal,
    JournalArchive,
    JournalPlugin,
    JournalReader,
    ObjectJournalPlugin,
    OpenSegment,
    Order,
    PlacedBodies,
    Prepared,
    ReplayReader,
    Segment,
    WritableJournal,
    is_damaged,
    messages_of,
)
from app.ports.span_exporter import Span, SpanExporter, SpanExporterPlugin
from app.ports.table_store import (
    FILES_BY_SOURCE,
    CheckedTableFile,
    IcebergPlugin,
    IcebergTables,
    OpenTable,
    TableFile,
    TableStore,
    TableStorePlugin,
    TableVersion,
)
from app.ports.transport import (
    AnsweringReceiver,
    AskableSender,
    AskingReceiver,
    DeliveryProgress,
    Intake,
    KeptSender,
    Receiver,
    RefusedPublish,
    Reply,
    ReplyEnd,
    Sender,
    SendFailed,
    Session,
    TransportPlugin,
)

__all__ = [
    "ACTIVE",
    "FILES_BY_SOURCE",
    "JOURNAL_SCHEMA",
    "NEWEST_FIRST",
    "PACKED_AT_ONCE",
    "AnsweringReceiver",
    "ArchivePlugin",
    "ArchivedJournal",
    "AskableSender",
    "AskingReceiver",
    "AttachmentFilter",
    "BadCursor",
    "Begin",
    "Catalog",
    "CatalogDatabase",
    "CatalogPlugin",
    "CheckedTableFile",
    "Clock",
    "ContentStore",
    "ContentStorePlugin",
    "DeliveryProgress",
    "HeldLease",
    "IcebergPlugin",
    "IcebergTables",
    "IdempotencyConflict",
    "Identified",
    "Intake",
    "Journal",
    "JournalArchive",
    "JournalPlugin",
    "JournalReader",
    "JournalReferences",
    "KeptSender",
    "KeyCatalog",
    "LeaseCatalog",
    "ListingCatalog",
    "MissingRequest",
    "ObjectFile",
    "ObjectJournalPlugin",
    "ObjectWriter",
    "OpenLeases",
    "OpenSegment",
    "OpenTable",
    "Order",
    "Packed",
    "Page",
    "PlacedBodies",
    "Prepared",
    "QuarantineCatalog",
    "QuarantineGroup",
    "QuarantineGroups",
    "Receiver",
    "RefusedPublish",
    "ReplayReader",
    "Reply",
    "ReplyEnd",
    "Segment",
    "SendFailed",
    "Sender",
    "Sending",
    "Session",
    "Sort",
    "Span",
    "SpanExporter",
    "SpanExporterPlugin",
    "TableFile",
    "TableStore",
    "TableStorePlugin",
    "TableVersion",
    "Tallies",
    "Total",
    "TransportPlugin",
    "UploadTotals",
    "WritableJournal",
    "is_damaged",
    "messages_of",
]
