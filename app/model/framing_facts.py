"""The facts about a framing that transports, captures and uploads need; `app.framing` has the rest."""

from typing import NamedTuple


class Captures(NamedTuple):
    """The formats of captures (`app.capture.recognising`) that may carry messages of a framing.

    Captures in a format of `default_of` are of this framing where nobody says otherwise.
    """

    formats: frozenset[str] = frozenset({"qload", "raw", "mqtt"})
    default_of: frozenset[str] = frozenset()


class FramingTraits(NamedTuple):
    """The facts about a framing that are needed to receive its messages, to keep them in the journal, and to make data
    sets for it.

    `name` is the name in settings, in the journal and on the command line. A message that `needs_descriptor` means
    nothing without an MQMD, or an envelope over MQTT. A framing that `reads_segments` puts the segments of a message
    together itself, so that a queue manager must not. Messages that are `numbered_on_arrival` do not state what
    they belong to; a transport reports when it may have missed some (`app.model.message.GAP`). A message that is
    `told_by_topic` says in its MQTT topic what it is (`app.model.message.TOPIC`), and its payload is its body as it is.
    A framing that `keeps_types` sends data sets with types that SAS lacks: integers, decimals, booleans, bytes, and
    texts that are null. Receivers refuse messages with the MsgTypes `refused_msg_types`, so that no application's
    message of such a type is sent.
    """

    name: str
    needs_descriptor: bool = True
    reads_segments: bool = False
    numbered_on_arrival: bool = False
    told_by_topic: bool = False
    keeps_types: bool = False
    captures: Captures = Captures()
    refused_msg_types: frozenset[int] = frozenset()
