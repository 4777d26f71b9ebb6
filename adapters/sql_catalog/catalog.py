"""The catalog: one class over one database, composed of one part for each concern."""

from typing import Any

from adapters.sql_catalog.database import Database
from adapters.sql_catalog.parts.deliveries import DeliveriesPart
from adapters.sql_catalog.parts.events import Events
from adapters.sql_catalog.parts.expiry import Receiving
from adapters.sql_catalog.parts.finishing import Finishing
from adapters.sql_catalog.parts.keys import KeysPart
from adapters.sql_catalog.parts.listing import ListingPart
from adapters.sql_catalog.parts.maintenance import Maintenance
from adapters.sql_catalog.parts.needed_segments import Segments
from adapters.sql_catalog.parts.numbering import Numbering
from adapters.sql_catalog.parts.ownership import Belonging
from adapters.sql_catalog.parts.packed import PackedRows, pack
from adapters.sql_catalog.parts.pipeline_runs import PipelineRuns
from adapters.sql_catalog.parts.quarantine import Quarantine
from adapters.sql_catalog.parts.repairing import Repairing
from adapters.sql_catalog.parts.retention import RetentionPart
from adapters.sql_catalog.parts.webhooks import WebhooksPart
from app.model.records import Checkpoint
from app.ports import Packed


class SqlCatalog(
    PackedRows,
    Receiving,
    Numbering,
    Finishing,
    Segments,
    ListingPart,
    Quarantine,
    DeliveriesPart,
    Events,
    KeysPart,
    WebhooksPart,
    PipelineRuns,
    RetentionPart,
    Belonging,
    Repairing,
):
    """`app.ports.Catalog` at an SQLAlchemy URL: `sqlite:////folder/catalog.db` or `postgresql+psycopg://host/name`.

    Opening migrates the schema to the newest version. Raises the same ValueError and GatewayError as `Database`.
    """

    def __init__(self, url: str) -> None:
        super().__init__(Database(url))

    @staticmethod
    def database(url: str) -> Maintenance:
        """Return the database at this URL as a whole, whether it can be opened as a catalog or not."""
        return Maintenance(url)

    @staticmethod
    def pack(packing: str, checkpoint: Checkpoint) -> Packed:
        """Return the rows of a checkpoint in this form."""
        return pack(packing, checkpoint)

    def log_in(self) -> dict[str, Any]:
        return self._database.address.log_in.status() if self._database.dialect == "postgresql" else {}

    def close(self) -> None:
        self._database.close()
