"""What every catalog promises, by subject."""

from tests.contracts.catalog.checkpoints import Checkpoints
from tests.contracts.catalog.combining import Combining
from tests.contracts.catalog.deliveries import Deliveries
from tests.contracts.catalog.finishing import Finishing
from tests.contracts.catalog.keys_and_webhooks import KeysAndWebhooks
from tests.contracts.catalog.leases import Leases
from tests.contracts.catalog.listing import Listing
from tests.contracts.catalog.missing_parts import MissingParts
from tests.contracts.catalog.numbering import Numbering
from tests.contracts.catalog.packed import PackedRows
from tests.contracts.catalog.receipts import Receipts
from tests.contracts.catalog.retention import Retention
from tests.contracts.catalog.round_trips import RoundTrips
from tests.contracts.catalog.sharing import Sharing
from tests.contracts.catalog.uploads import Uploads
from tests.contracts.catalog.walking import Walking


class CatalogContract(
    Checkpoints,
    PackedRows,
    Numbering,
    Finishing,
    Receipts,
    Retention,
    KeysAndWebhooks,
    Leases,
    Sharing,
    Combining,
    Listing,
    Deliveries,
    Uploads,
    MissingParts,
    Walking,
    RoundTrips,
):
    """Inherited by an adapter's tests, which give the fixture `catalog`: an empty one."""
