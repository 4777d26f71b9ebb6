"""The catalog: the records of messages, attachments and deliveries. `Catalog` combines one Protocol per concern."""

from typing import Any, Protocol

from app.model.records import Checkpoint
from app.ports.catalog.assembly import AssemblyCatalog, JournalReferences
from app.ports.catalog.combined_archives import CombiningCatalog
from app.ports.catalog.database import CatalogBinding, CatalogDatabase, CatalogRepair
from app.ports.catalog.deliveries import DeliveryCatalog
from app.ports.catalog.events import EventCatalog
from app.ports.catalog.finishing import FinishingCatalog
from app.ports.catalog.keys import KeyCatalog
from app.ports.catalog.leases import HeldLease, LeaseCatalog, OpenLeases
from app.ports.catalog.listing import ListingCatalog
from app.ports.catalog.missing_parts import MissingPartsCatalog
from app.ports.catalog.pipeline import Packed, PipelineCatalog
from app.ports.catalog.quarantine import QuarantineCatalog
from app.ports.catalog.receipts import ReceiptCatalog
from app.ports.catalog.receiving import ReceivingCatalog
from app.ports.catalog.retention import RetentionCatalog
from app.ports.catalog.shared_journal import SharedJournalCatalog
from app.ports.catalog.uploads import UploadCatalog


class Catalog(
    CatalogBinding,
    AssemblyCatalog,
    JournalReferences,
    ReceivingCatalog,
    FinishingCatalog,
    ListingCatalog,
    QuarantineCatalog,
    DeliveryCatalog,
    EventCatalog,
    KeyCatalog,
    LeaseCatalog,
    PipelineCatalog,
    ReceiptCatalog,
    RetentionCatalog,
    SharedJournalCatalog,
    CombiningCatalog,
    UploadCatalog,
    MissingPartsCatalog,
    CatalogRepair,
    Protocol,
):
    """Everything in one. All that concerns receiving can be rebuilt from the journal.

    Methods raise CatalogError if the database cannot be read or written at present.
    """

    def under(self, lease: HeldLease) -> "Catalog":
        """Return this catalog for what a lease allows: each write raises LeaseLost once somebody else has taken the
        lease or another log of events has begun, and changes nothing then. It shares all connections, and is not closed
        by itself."""

    def log_in(self) -> dict[str, Any]:
        """Return the setting of its `credential`, and `refused_since` (µs or None); empty if the catalog needs no
        credentials."""

    def close(self) -> None:
        """Close the database and release the lock."""


class CatalogPlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.catalogs` refers to."""

    def __call__(self, url: str, /) -> Catalog:
        """Open the catalog at a SQLAlchemy URL; bring its schema up to date."""

    def check_url(self, url: str) -> None:
        """Raise ValueError for a URL at which no catalog can be. Nothing is opened."""

    def database(self, url: str) -> CatalogDatabase:
        """Return the database at a SQLAlchemy URL, whether a catalog can be opened in it or not."""

    def leases(self, url: str) -> OpenLeases:
        """Return the leases of the catalog at a SQLAlchemy URL, without opening it; nothing is connected yet.

        A schema that is there stays as it is, since another process may use it; where there is none, the first question
        makes it. Calls raise GatewayError if a newer version has made it.
        """

    def pack(self, packing: str, checkpoint: Checkpoint) -> Packed:
        """Return the rows of a checkpoint in a form that a catalog has asked for (`PipelineCatalog.packing`).

        It has nothing but attachments that are complete and `finished`, or messages, and the events of these. The times
        in events, of finishing and of completion are set when the catalog takes the rows. No database is needed.
        """
