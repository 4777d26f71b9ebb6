"""A physical message in the data of a publication.

A message of a framing with descriptor fields is opaque data: an MQ image. Of the others, a body that is a tibrvMsg
travels as the data itself, as programs of Rendezvous send it, and anything else is opaque data, too. What comes is told
apart by its type and its first bytes.
"""

from app.codecs.ibm_mq.image import IMAGE_OVERHEAD, fault_code, is_image, read_image, write_image
from app.codecs.rendezvous.daemon import DaemonFrame, publish, publish_head
from app.codecs.rendezvous.subjects import REPLY_PROPERTY, SUBJECT_PROPERTY
from app.codecs.rendezvous.tibrv_message import is_message
from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import NO_ENVELOPE, PhysicalMessage
from app.wire import WireError
from app.wire.kinds import Buffer

HEAD_BYTES = 1024
"""The most bytes that a publication has in addition to a body: subjects, the image's descriptor, and the frame."""

assert HEAD_BYTES > IMAGE_OVERHEAD + 2 * 255 + 64


def read(frame: DaemonFrame, source: str, framing: FramingTraits, received_at: int) -> PhysicalMessage:
    """Return the physical message that a publication carries.

    Raises InvalidInputError with the code `bad-mq-image`, `bad-mq-header`, or `no-envelope` where the framing needs a
    descriptor.
    """
    properties = subjects(frame)
    if not frame.is_message and is_image(frame.data):
        try:
            message = read_image(frame.data, source, framing.name, received_at)
        except WireError as error:
            raise InvalidInputError(fault_code(error), error.row, error.at, error.why) from error
        return message._replace(properties={**message.properties, **properties})
    if framing.needs_descriptor:
        why = f"a publication on {frame.subject!r} that is not an MQ image"
        raise InvalidInputError(NO_ENVELOPE, "", -1, why)
    return PhysicalMessage(source, framing.name, body=frame.data, received_at=received_at, properties=properties)


def subjects(frame: DaemonFrame) -> dict[str, str]:
    """Return the subject of a publication, and the one that its sender wants replies on, as properties."""
    properties = {SUBJECT_PROPERTY: frame.subject}
    if frame.reply is not None:
        properties[REPLY_PROPERTY] = frame.reply
    return properties


def write(message: PhysicalMessage, subject: str, reply: str) -> list[Buffer]:
    """Return the pieces of a publication. Raises InvalidInputError for a value that has no room."""
    head = publish_head(subject, reply)
    if not message.msg_type:
        return publish(head, message.body, is_message=is_message(message.body))
    try:
        return publish(head, write_image(message), is_message=False)
    except WireError as error:
        raise InvalidInputError("bad-envelope", error.row, error.at, error.why) from error
