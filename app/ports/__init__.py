"""What the service needs of the outside world, as Protocols. Adapters implement them and are found by entry point.

Each module is one port. Every method may be called from any thread, unless it says otherwise.
"""

from app.ports.catalog import (
    AssemblyCatalog,
    AttachmentFilter,
    BadCursor,
    Catalog,
    CatalogBinding,
    CatalogDatabase,
    CatalogPlugin,
    CatalogRepair,
    DeliveryCatalog,
    EventCatalog,
    ExpiryCatalog,
    FinishingCatalog,
    IdempotencyConflict,
    Identified,
    JournalReferences,
    KeyCatalog,
    ListingCatalog,
    Page,
    QuarantineCatalog,
    RetentionCatalog,
)
from app.ports.clock import Clock
from app.ports.content_store import ContentStore, ContentStorePlugin, ObjectWriter
from app.ports.journal import (
    ArchivePlugin,
    Journal,
    JournalArchive,
    JournalPlugin,
    JournalReader,
    OpenSegment,
    Segment,
)
from app.ports.journal_batch import JOURNAL_SCHEMA, messages_of
from app.ports.tables import IcebergPlugin, IcebergTables, TableFile, TableStore, TableStorePlugin, TableVersion
from app.ports.transport import Intake, Progress, Receiver, Sender, SendFailed, TransportPlugin

__all__ = [
    "JOURNAL_SCHEMA",
    "ArchivePlugin",
    "AssemblyCatalog",
    "AttachmentFilter",
    "BadCursor",
    "Catalog",
    "CatalogBinding",
    "CatalogDatabase",
    "CatalogPlugin",
    "CatalogRepair",
    "Clock",
    "ContentStore",
    "ContentStorePlugin",
    "DeliveryCatalog",
    "EventCatalog",
    "ExpiryCatalog",
    "FinishingCatalog",
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
    "KeyCatalog",
    "ListingCatalog",
    "ObjectWriter",
    "OpenSegment",
    "Page",
    "Progress",
    "QuarantineCatalog",
    "Receiver",
    "RetentionCatalog",
    "Segment",
    "SendFailed",
    "Sender",
    "TableFile",
    "TableStore",
    "TableStorePlugin",
    "TableVersion",
    "TransportPlugin",
    "messages_of",
]
