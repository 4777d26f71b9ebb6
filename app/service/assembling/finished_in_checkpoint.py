"""Attachments that are finished in the checkpoint in which they become complete, and their messages with them.

Their content was read as their parts came. So one transaction has the parts, the content, the messages and the events.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from app.assembly.collecting import CONTRADICTED
from app.model.attachment import AttachmentState
from app.model.identity import announces_application
from app.model.records import AttachmentRecord, Checkpoint, Finished, MessageRecord
from app.service.events.event_entries import finished_events, message_event
from app.service.finishing.content_evidence import with_earlier


class Closed(NamedTuple):
    """The attachments and the messages that a checkpoint closes."""

    attachments: list[AttachmentRecord]
    messages: set[str]


def close(checkpoint: Checkpoint, contents: Mapping[str, Finished], now: int) -> Closed:
    """Finish the complete attachments of a checkpoint whose contents are known, and complete the messages that lack
    nothing else."""
    records = [
        record
        for record in checkpoint.attachments
        if record.id in contents
        and record.state is AttachmentState.COMPLETE
        and CONTRADICTED not in record.evidence  # finishing holds these
    ]
    checkpoint.finished = [with_earlier(contents[record.id], record) for record in records]
    for record, content in zip(records, checkpoint.finished, strict=True):
        checkpoint.events += finished_events(record, content)
    return Closed(records, complete(checkpoint, {record.id for record in records}, now))


def complete(checkpoint: Checkpoint, finished: Collection[str], now: int) -> set[str]:
    """Complete the messages of a checkpoint that lack nothing once these attachments are finished. Return them.

    None of them may have been complete before.
    """
    found = {
        message.id
        for message in checkpoint.messages
        if lacks_only_attachments(message) and all(each in finished for each in message.attachments)
    }
    if found:
        checkpoint.messages = [
            replace(message, complete_at=now) if message.id in found else message for message in checkpoint.messages
        ]
        checkpoint.events += [
            message_event(message.id, message.source, now) for message in checkpoint.messages if message.id in found
        ]
    return found


def lacks_only_attachments(message: MessageRecord) -> bool:
    """Tell whether a message that is not complete has attachments and lacks nothing else."""
    if message.complete_at is not None or not message.attachments:
        return False
    return message.application_body is not None or not announces_application(message.message_correl_id)
