"""What every stage of the service stands on."""

from dataclasses import dataclass, field

from app.observe import Metrics
from app.ports import Catalog, Clock, ContentStore, Journal
from app.service.bell import Bell
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings, the adapters of the storing ports, and the bell that rings when the event log may have grown."""

    settings: Settings
    journal: Journal
    catalog: Catalog
    store: ContentStore
    clock: Clock
    metrics: Metrics
    bell: Bell = field(default_factory=Bell)
