"""Transports: receiving from brokers and sending to them."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from threading import Event as StopSignal
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel

from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import PhysicalMessage
from app.model.records import Subscribers


class Intake(Protocol):
    """Accepts the messages that a broker has delivered to a receiver.

    If it `has_others`, receivers of other processes have messages put into the same journal. So a source may be shared
    with them; otherwise a transport warns of it, since parts of attachments would be missing.
    """

    has_others: bool

    def submit(self, messages: Sequence[PhysicalMessage], on_durable: Callable[[], None]) -> None:
        """Take messages for the journal; block while the backlog is at its limit.

        `on_durable` is called once, from the journal's thread, when all of them are on disk. Only then may the
        receiver acknowledge them to the broker. It is never called if the gateway stops before: the broker delivers
        the messages again. It must not block.
        """

    def refuse(self, message: PhysicalMessage, error: InvalidInputError, on_durable: Callable[[], None]) -> None:
        """Take one message whose envelope the transport could not read; otherwise as `submit`. The message goes to the
        journal and to quarantine with the error, never to assembly."""


class Session(Protocol):
    """What a broker keeps for one receiver alone, whether that is connected or not."""

    @property
    def name(self) -> str:
        """The name by which the broker knows it."""

    def end(self, intake: Intake, stop: StopSignal) -> bool:
        """Take all that the broker has for this session and give it nothing new, until it is empty; then end it there.
        Connect again after failures until `stop` is set. Work in the caller's thread.

        Nothing else may run in the session, but a receiver may come back to it at any time. Then the broker ends this
        connection, or that one, and nothing is lost. Return whether the session was ended.
        """


class Receiver(Protocol):
    """One source's connection to its broker."""

    def run(self, intake: Intake, stop: StopSignal) -> None:
        """Connect, receive and reconnect with back-off until `stop` is set, in the caller's thread."""

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Take note of messages of the source that are in the journal, without their bodies, the newest first. Read as
        many as needed.

        Only for framings that number messages on arrival, before `run`. Return whether the transport will prove that
        nothing is missing behind them, and that none of them is submitted again, or set `GAP` otherwise. If so,
        attachments that they began are continued.
        """

    def session(self, name: str | None = None) -> Session | None:
        """Return the session in which the broker keeps messages for this receiver alone; with a name, that of another
        receiver of the same source. Return None if the broker gives others what this receiver does not acknowledge."""

    def status(self) -> dict[str, Any]:
        """Return the state of the connection, for health checks and people.

        It has at least `connected` (bool), `since` (µs or None) and `error` (text or None). An optional `warning`
        (text) describes a problem that does not stop messages. A source that can lose messages has the number
        `dropped`, and one whose transport sends `advisories` counts them by their level. One that logs in has the name
        of its `credential`'s setting, and `refused_since` (µs or None).
        """


@runtime_checkable
class AnsweringReceiver(Receiver, Protocol):
    """A receiver that can answer the senders of its messages."""

    def answer(self, answers: Sequence[PhysicalMessage]) -> None:
        """Send these messages, each to its own topic, as soon as there is a connection. What is not confirmed when the
        connection breaks is not sent again: who waits for it asks again. May be called from any thread."""


class ReplyEnd(StrEnum):
    """How a reply has ended: the broker has it, the broker or the queue refuses it, or does so for now, as a full queue
    does, or the connection broke before that was known."""

    SENT = "sent"
    REFUSED = "refused"
    BUSY = "busy"
    LOST = "lost"


class Reply(NamedTuple):
    """What replies to a message, at an address that `reply_address` returned for that message.

    `on_end` is called once, from a thread of the receiver, unless the process ends before. It must not block."""

    address: str
    body: bytes
    message: PhysicalMessage
    media_type: str
    on_end: Callable[[ReplyEnd], None] = lambda _end: None


@runtime_checkable
class AskingReceiver(Receiver, Protocol):
    """A receiver that can send replies to the senders of its messages, and so ask for more of them."""

    def reply_address(self, message: PhysicalMessage) -> str | None:
        """Return where the sender of a message wants replies, a topic or a queue; None if it does not say so, or if the
        settings allow none to go there."""

    def reply(self, reply: Reply) -> None:
        """Send a reply as soon as there is a connection. May be called from any thread."""


class RefusedPublish(NamedTuple):
    """A message that a broker refused: its `number` in the batch, from 0 on, and the broker's reason code of MQTT 5."""

    number: int
    code: int


class SendFailed(Exception):
    """A broker did not take messages. If `permanent`, trying again cannot help. The broker has confirmed the first
    `confirmed` of the messages nevertheless; any number of the later ones may have arrived. An attempt that only had to
    wait does not `count` against the limit of attempts. Neither does one that waits for other credentials in a file:
    it is repeated `within` some seconds. It may have `refused` one of the messages, which its framing understands."""

    def __init__(
        self,
        why: str,
        *,
        permanent: bool = False,
        confirmed: int = 0,
        counts: bool = True,
        within: float | None = None,
        refused: RefusedPublish | None = None,
    ) -> None:
        super().__init__(why)
        self.permanent, self.confirmed, self.within, self.refused = permanent, confirmed, within, refused
        self.counts = counts and within is None


class DeliveryProgress(NamedTuple):
    """How far a delivery is when messages of it are sent: the broker has confirmed its first `messages_sent`, and this
    is attempt number `attempt`. `delivery` is its `sending_name`, as in the methods of `Sender`. If `in_doubt`, an
    earlier attempt may have sent the messages that follow already."""

    delivery: str
    messages_sent: int
    attempt: int
    in_doubt: bool = False


class Sender(Protocol):
    """One destination's connection to its broker. One thread at a time uses it; `status` and `repeats` may be called
    from any thread.

    A sender may record, at the broker, how many messages of a delivery the broker has. If it does, `resume` returns
    the recorded number, so that no message is sent twice; `forget` and `tidy` remove records.
    """

    def max_body(self, wanted: int | None = None) -> int:
        """Return the size, in bytes, of the largest body that a physical message to this destination can carry.

        Connects if necessary. With `wanted`, the caller needs to know no more than whether that many bytes fit.
        Raises SendFailed.
        """

    def max_batch(self) -> int:
        """Return how many messages one `send` may take. After a crash, no more than these can arrive twice. Raises
        SendFailed."""

    def resume(self, delivery: str, known: int | None) -> int:
        """Return how many messages of a delivery the broker has: by the sender's own record, otherwise `known`.

        `known` is None for the first attempt. Called before each attempt. Raises SendFailed.
        """

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> Subscribers | None:
        """Send messages and return when the broker has confirmed all of them. `progress` is the delivery's
        progress before this call.

        Return what the broker reported of subscribers: None if there are some, or if it does not report them.
        Raises SendFailed; any number of messages after the confirmed ones may have arrived then.
        """

    def forget(self, delivery: str) -> None:
        """Remove the record of a delivery that was sent completely, after the catalog says so. Raises SendFailed."""

    def tidy(self, may_continue: Callable[[str], bool]) -> None:
        """Remove the records of deliveries to this destination of which no more can be sent. Raises SendFailed."""

    def repeats(self) -> str | None:
        """Return one sentence that says which messages may arrive twice, or None if none can."""

    def close(self) -> None:
        """Disconnect."""

    def status(self) -> dict[str, Any]:
        """Return the state of the connection, as `Receiver.status` does."""


@runtime_checkable
class KeptSender(Sender, Protocol):
    """A sender whose broker must hear something from time to time."""

    def keep_alive(self) -> float:
        """Do what an open connection needs while nothing is sent. It does not connect. Return after how many seconds to
        call it again at the latest."""


@runtime_checkable
class AskableSender(Sender, Protocol):
    """A sender that names an address of its own in its messages, at which receivers ask for missing parts of them."""

    @property
    def answers_missing(self) -> bool:
        """Whether the settings name such an address."""

    def requests(self, most: int) -> Sequence[bytes]:
        """Return the bodies of requests that have come since the last call, at most some. Connects if necessary. They
        do not come again: who gets no answer asks again. Raises SendFailed."""


class TransportPlugin(Protocol):
    """The object that an entry point of the group `attachment_gateway.transports` refers to.

    `source_settings` and `destination_settings` validate the keys of a source or a destination that are the
    transport's own, in addition to the gateway's (transport, framing, dialect ...). The settings of a source may have
    a property `unshared`: a text that says why a source with these settings cannot be shared by several receivers and
    what to do, or None.
    """

    source_settings: type[BaseModel]
    destination_settings: type[BaseModel]

    def receiver(self, name: str, framing: FramingTraits, settings: BaseModel) -> Receiver:
        """Return the receiver of a source; it does not connect yet."""

    def sender(self, name: str, settings: BaseModel) -> Sender:
        """Return the sender of a destination; it does not connect yet."""
