"""Objects of a queue manager that are no queues: channels and namelists.

Sources: IBM MQ, "Create, change and copy channel (MQTT)", "Change, Copy, and Create Channel" and "Change, Copy, and
Create Namelist". Of a channel's attributes its cipher specification and its longest message count when a client
connects; the others are only kept.
"""

from dataclasses import dataclass

SERVER_CONNECTION = 7
"""MQCHT_SVRCONN."""
TCP = 2
"""MQXPT_TCP."""


@dataclass(slots=True)
class Channel:
    """A channel's attributes, named as the commands name them."""

    chltype: int = SERVER_CONNECTION
    trptype: int = TCP
    descr: str = ""
    conname: str = ""
    xmitq: str = ""
    mcauser: str = ""
    sslciph: str = ""
    sslpeer: str = ""
    sslcauth: int = 0
    maxmsgl: int = 4_194_304
    hbint: int = 300
    sharecnv: int = 10
    maxinst: int = 999_999_999
    maxinstc: int = 999_999_999


@dataclass(slots=True)
class Namelist:
    """A namelist's attributes."""

    names: tuple[str, ...] = ()
    descr: str = ""

    def __post_init__(self) -> None:
        self.names = tuple(self.names)


Object = Channel | Namelist
KINDS: dict[str, type[Channel] | type[Namelist]] = {"channel": Channel, "namelist": Namelist}
"""By the name that the log has for it."""
