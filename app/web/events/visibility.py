"""The events that a principal with limits may see."""

from collections.abc import Sequence

from app.model.access import Principal
from app.model.records import EventRecord
from app.ports import Catalog


def known_events(catalog: Catalog, principal: Principal, events: Sequence[EventRecord]) -> list[EventRecord]:
    """Return the events about sources and destinations that a principal knows.

    Events of earlier versions do not name the source of their attachment or message: it is looked up. What the catalog
    no longer has is left out. Raises CatalogError.
    """
    nameless = [each for each in events if "source" not in each.data]
    about = {
        kind: [each.subject for each in nameless if each.type.startswith(kind)] for kind in ("attachment.", "message.")
    }
    sources = {each.id: each.source for each in catalog.attachments_by_id(about["attachment."])}
    sources |= {each.id: each.source for each in catalog.messages_by_id(about["message."])}
    return [each for each in events if _is_known(principal, each, sources)]


def _is_known(principal: Principal, event: EventRecord, sources: dict[str, str]) -> bool:
    if event.type.startswith("delivery."):
        return principal.knows_destination(str(event.data.get("destination")))
    if principal.sources is None:
        return True
    source = event.data.get("source", sources.get(event.subject))
    return isinstance(source, str) and principal.knows_source(source)
