"""What a caller knows: the records that identifiers name, whole or by their first unique digits, and the tables."""

import re
from typing import Annotated, Final

from fastapi import Depends, Path

from app.model.records import AttachmentRecord, DeliveryRecord, MessageRecord
from app.plugins import PluginError
from app.ports import Identified, OpenTable, TableStore
from app.service.gateway import Gateway
from app.service.tables.table_reader import are_within, open_table
from app.web.dependencies.caller import Caller, CallerDep
from app.web.dependencies.request_gateway import GatewayDep
from app.web.problems import Problem

SHORTEST: Final = 4
"""The minimum number of digits. Fewer would seldom be unique, and would be a typing error more often than a wish."""

CANDIDATES: Final = 20
"""Maximum number of identifiers that the problems `ambiguous` and `application-message` list."""

LONGEST_SHOWN: Final = 40
_ENTRY = "quarantine entry"
_PREFIX = re.compile(rf"[0-9a-f]{{{SHORTEST},31}}")
POSITION: Final = re.compile(r"[0-9a-f]{1,16}")
"""A place in the journal, packed: the identifier of what has no other."""

Identifier = Annotated[
    str, Path(description=f"the identifier, or its first digits (at least {SHORTEST}) while these are unique")
]
EntryIdentifier = Annotated[str, Path(description="the identifier, with or without its leading zeros")]


def whole(gateway: Gateway, of: Identified, given: str, caller: Caller) -> str:
    """Return the identifier that begins with the given digits, among the identifiers that the caller knows; digits that
    begin no identifier are returned unchanged.

    Raises Problem when there are several.
    """
    if not _PREFIX.fullmatch(given):
        return given
    within = caller.destinations if of == "deliveries" else caller.sources
    found = gateway.catalog.identifiers(of, given, CANDIDATES + 1, within)
    if given in found:
        return given
    if len(found) > 1:
        shown, more = found[:CANDIDATES], " and more" if len(found) > CANDIDATES else ""
        detail = f"several {of} have identifiers that begin with {given}: {', '.join(shown)}{more}"
        raise Problem("ambiguous", detail, candidates=shown)
    return found[0] if found else given


def known_attachment(gateway: Gateway, given: str, caller: Caller) -> AttachmentRecord:
    """Return the attachment, announced or not, that an identifier names. Raises Problem when the caller knows none."""
    identifier = whole(gateway, "attachments", given, caller)
    record = gateway.catalog.attachment(identifier)
    if record is None:
        raise _no_attachment(gateway, identifier, given, caller)
    if not caller.knows_source(record.source):
        raise unknown("attachment", given)
    caller.trail.details = {"attachment": record.id, "source": record.source, "name": record.qualifier_2}
    return record


def _no_attachment(gateway: Gateway, identifier: str, given: str, caller: Caller) -> Problem:
    """Return the problem of an identifier that no attachment has. Application messages may have waited under it."""
    found = [each for each in gateway.catalog.messages_that_waited([identifier]) if caller.knows_source(each.source)]
    if not found:
        return unknown("attachment", given)
    shown = [{"id": each.id, "links": {"self": f"{caller.base}/messages/{each.id}"}} for each in found[:CANDIDATES]]
    named = ", ".join(each.id for each in found[:CANDIDATES]) + (" and more" if len(found) > CANDIDATES else "")
    detail = f"an application message waited under this identifier for its header; it belongs to the message {named}"
    if len(found) > 1:
        detail = f"application messages waited under this identifier for headers; they belong to the messages {named}"
    return Problem("application-message", detail, messages=shown)


def known_message(gateway: Gateway, given: str, caller: Caller) -> MessageRecord:
    """Return the message that an identifier names. Raises Problem when the caller knows none."""
    record = gateway.catalog.message(whole(gateway, "messages", given, caller))
    if record is None or not caller.knows_source(record.source):
        raise unknown("message", given)
    caller.trail.details = {"message": record.id, "source": record.source}
    return record


def known_delivery(gateway: Gateway, given: str, caller: Caller) -> DeliveryRecord:
    """Return the delivery that an identifier names. Raises Problem when the caller knows none."""
    record = gateway.catalog.delivery(whole(gateway, "deliveries", given, caller))
    if record is None or not caller.knows_destination(record.destination):
        raise unknown("delivery", given)
    caller.trail.details = {"delivery": record.id, "destination": record.destination}
    return record


def unknown(what: str, given: str) -> Problem:
    """Return the problem of an identifier that names nothing. It says what one is, if this is none."""
    shown = repr(given) if len(given) <= LONGEST_SHOWN else f"{given[:LONGEST_SHOWN]!r}…"
    digits = 16 if what == _ENTRY else 32
    form = f"[0-9a-f]{{1,{digits}}}" if what == _ENTRY else f"[0-9a-f]{{{SHORTEST},{digits}}}"
    enough = "without its leading zeros" if what == _ENTRY else f"of which the first {SHORTEST} or more are enough"
    rule = "" if re.fullmatch(form, given) else f"; an identifier has {digits} hexadecimal digits, {enough}"
    return Problem("not-found", f"there is no {what} with the identifier {shown}{rule}")


def entry_identifier(given: str) -> str:
    """Return the identifier of a quarantine entry, 16 hexadecimal digits, of one without its leading zeros."""
    return given.zfill(16) if POSITION.fullmatch(given) else given


class KnownTables:
    """The tables that exist for a caller: all, or those whose rows are all of its sources."""

    def __init__(self, store: TableStore, caller: Caller) -> None:
        self.store, self._caller = store, caller

    def names(self) -> list[str]:
        """Return the names of the tables, in no particular order."""
        names, within = self.store.names(), self._caller.sources
        return names if within is None else [name for name in names if are_within(self.store, name, within)]

    def open(self, name: str) -> OpenTable:
        """Return the newest version of a table, by its name in any case. Raises KeyError if there is none."""
        within, trail = self._caller.sources, self._caller.trail
        opened = open_table(self.store, name)
        exact = opened.version.name
        if within is not None and not are_within(self.store, exact, within):
            trail.refused = f"rows of the table {exact!r} are of sources that are not among the caller's"
            raise KeyError(name)
        trail.details = {"table": exact}
        return opened


def _tables(gateway: GatewayDep, caller: CallerDep) -> KnownTables:
    try:
        return KnownTables(gateway.tables.delta(), caller)
    except PluginError as error:
        raise Problem("tables-unavailable", str(error)) from None


TablesDep = Annotated[KnownTables, Depends(_tables)]
