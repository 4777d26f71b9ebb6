"""The catalog's rows for a batch of messages, loaded into the assembly machine before the batch is applied."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from app.assembly.collecting import Address, Key, TrackedAttachment
from app.assembly.header_checks import address_of
from app.assembly.machine import Assembly
from app.framing.part_runs import MessageRun
from app.model.attachment import AttachmentState
from app.model.event import Announced, Event
from app.model.message import PhysicalMessage
from app.service.context import ServiceContext
from app.service.finishing.stored_parts import HeldSegments, held_parts


class ReadMessage(NamedTuple):
    """A message that was read by itself, its packed position, and one of its events."""

    at: int
    message: PhysicalMessage
    event: Event


Step = MessageRun | ReadMessage
"""What is applied at once."""


def load(steps: Sequence[Step], assembly: Assembly, context: ServiceContext) -> list[Address]:
    """Load the rows for the correlids of these steps: attachments, then messages.

    Return the addresses that were not looked for, since headers before them explain these messages. They matter if one
    of the headers is refused.
    """
    held = assembly.attachments
    keys = [
        [(step.source, step.correl_id)]
        if isinstance(step, MessageRun)
        else Assembly.keys(step.message.source, step.event)
        for step in steps
    ]
    wanted = _by_source(key for some in keys for key in some if key not in held)
    segments = HeldSegments(context.journal)
    for source, correl_ids in wanted.items():
        for correl_id, found in context.catalog.attachments_by_key(source, correl_ids).items():
            runs = context.catalog.part_runs(found.id)
            record = found
            if found.state is AttachmentState.COMPLETE and not runs:
                # It was finished after the record was read, and its parts are no longer needed.
                record = context.catalog.attachment(found.id) or found
            record, parts, _ = held_parts(record, runs, segments)  # parts that are gone may come again
            held[source, correl_id] = TrackedAttachment(record, parts)
    addresses: list[Address] = []
    explained: list[Address] = []
    announced: set[Key] = set()
    begun: set[Address] = set()
    for step, some in zip(steps, keys, strict=True):
        is_announced = some[0] in announced
        for address in _addresses(step, assembly):
            (explained if is_announced or address in begun else addresses).append(address)
            if isinstance(step, ReadMessage) and isinstance(step.event, Announced):
                _, *announces = some  # the first key is that of all messages whose correlids begin in the same way
                announced.update(announces)
                begun.add(address)
    load_messages(addresses, assembly, context)
    return explained


def load_messages(addresses: Iterable[Address], assembly: Assembly, context: ServiceContext) -> None:
    """Load the messages with these addresses, as far as the catalog has them."""
    held = assembly.messages
    for source, correl_ids in _by_source(each for each in addresses if each not in held).items():
        for correl_id, found in context.catalog.messages_by_correl_id(source, correl_ids).items():
            held[source, correl_id] = found


def _addresses(step: Step, assembly: Assembly) -> Sequence[Address]:
    """Return the addresses whose messages matter for a step."""
    if isinstance(step, MessageRun):
        key = (step.source, step.correl_id)
        if assembly.is_announced(key):
            return ()
        return [address_of(key, step.first + place) for place in range(len(step.rows))]
    address = assembly.address(step.message.source, step.event)
    return () if address is None else (address,)


def _by_source(keys: Iterable[Key]) -> dict[str, list[bytes]]:
    """Return correlids by their source, each once."""
    found: dict[str, dict[bytes, None]] = {}
    for source, correl_id in keys:
        found.setdefault(source, {})[correl_id] = None
    return {source: list(correl_ids) for source, correl_ids in found.items()}
