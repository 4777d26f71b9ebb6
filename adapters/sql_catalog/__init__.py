"""The catalog in a SQL database: SQLite by default, PostgreSQL for several processes that read."""

from typing import Any

from adapters.sql_catalog.database_connections import Database, check_url
from adapters.sql_catalog.parts.combined_archives import CombinedArchivesPart
from adapters.sql_catalog.parts.deliveries import DeliveriesPart
from adapters.sql_catalog.parts.events import EventsPart
from adapters.sql_catalog.parts.finishing import FinishingPart
from adapters.sql_catalog.parts.journal_references import JournalReferencesPart
from adapters.sql_catalog.parts.keys import KeysPart
from adapters.sql_catalog.parts.leases import LeasesAlone, LeasesPart
from adapters.sql_catalog.parts.listing import ListingPart
from adapters.sql_catalog.parts.maintenance import Maintenance
from adapters.sql_catalog.parts.missing_parts import MissingPartsPart
from adapters.sql_catalog.parts.ownership import OwnershipPart
from adapters.sql_catalog.parts.pipeline import PipelinePart, pack
from adapters.sql_catalog.parts.quarantine import QuarantinePart
from adapters.sql_catalog.parts.receipts import ReceiptsPart
from adapters.sql_catalog.parts.receiving import ReceivingPart
from adapters.sql_catalog.parts.retention import RetentionPart
from adapters.sql_catalog.parts.shared_journal import SharedJournalPart
from adapters.sql_catalog.parts.uploads import UploadsPart
from app.model.records import Checkpoint
from app.ports import Packed


class SqlCatalog(
    PipelinePart,
    ReceivingPart,
    FinishingPart,
    JournalReferencesPart,
    ListingPart,
    QuarantinePart,
    DeliveriesPart,
    EventsPart,
    KeysPart,
    LeasesPart,
    ReceiptsPart,
    RetentionPart,
    SharedJournalPart,
    CombinedArchivesPart,
    UploadsPart,
    MissingPartsPart,
    OwnershipPart,
):
    """`app.ports.Catalog` at an SQLAlchemy URL: `sqlite:////folder/catalog.db` or `postgresql+psycopg://host/name`.

    It has a part for each concern, over one database. Opening migrates the schema to the newest version. Raises the
    same ValueError and GatewayError as `Database`.
    """

    def __init__(self, url: str) -> None:
        super().__init__(Database(url))

    @staticmethod
    def check_url(url: str) -> None:
        check_url(url)

    @staticmethod
    def database(url: str) -> Maintenance:
        return Maintenance(url)

    @staticmethod
    def leases(url: str) -> LeasesAlone:
        return LeasesAlone(url)

    @staticmethod
    def pack(packing: str, checkpoint: Checkpoint) -> Packed:
        return pack(packing, checkpoint)

    def log_in(self) -> dict[str, Any]:
        return self._database.address.log_in.status() if self._database.dialect == "postgresql" else {}

    def close(self) -> None:
        self._database.close()
