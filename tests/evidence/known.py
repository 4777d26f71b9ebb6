"""Changes after which other content than was sent may be finished, since the protocol itself cannot tell them."""

import re
from typing import NamedTuple

from tests.evidence.cases import Case


class Known(NamedTuple):
    """Cases by framing, and by patterns of kind, of what the sender says and of the change; and why they are so."""

    framing: str
    kind: str
    told: str
    change: str
    why: str

    @property
    def is_of_two(self) -> bool:
        """Whether two changes are needed."""
        return "; " in self.change

    def includes(self, case: Case) -> bool:
        """Tell whether one of the changes of a case, or all of them together, are of this sort."""
        sending = case.sending
        if sending.framing != self.framing:
            return False
        if not re.fullmatch(self.kind, sending.kind) or not re.fullmatch(self.told, sending.told):
            return False
        return any(re.fullmatch(self.change, each) for each in (*case.changes, "; ".join(case.changes)))


ANY = ".*"

KNOWN = (
    Known(
        "sas_queue",
        "text|binary",
        "no size",
        "truncate records (behind a record|to nothing)",
        "records have no number, and nothing says how many there are: whole records before a cut are a whole file",
    ),
    Known(
        "sas_queue",
        "data set.*",
        "no count",
        "truncate observations (behind a record|to four bytes)",
        "rows have no number, and nothing says how many there are: whole rows before a cut are a whole data set",
    ),
    Known(
        "mq_group",
        ANY,
        "group.*|message alone",
        "truncate message .*",
        "a queue manager delivers whole messages; nothing in a message of a group says how long it is",
    ),
    Known(
        "mq_group",
        ANY,
        "group with segments|segments without OriginalLength",
        "truncate last segment .*",
        "the Offset of the next segment says how long a segment is; the last one has none, and no OriginalLength",
    ),
    Known(
        "sas_rendezvous",
        ANY,
        ANY,
        r"swap (AT[XBO]), \1",
        "messages have no number: their order is that in which they come; the same records come in either order",
    ),
    Known(
        "sas_rendezvous",
        ANY,
        ANY,
        r"swap .*(AT[XBO]).*; swap .*\1.*",
        "two swaps of the same records with other messages come to a swap of these records",
    ),
    Known(
        "sas_rendezvous",
        ".*(texts|binaries).*",
        ANY,
        "swap .*(HDR|FDC|LST).*",
        "their order alone says which file or attachment messages are of, where several of one kind are sent",
    ),
    Known(
        "sas_rendezvous",
        ".*(texts|binaries).*",
        ANY,
        "withhold AT[XB]; withhold FDC",
        "all messages of one of two files are lost, and the count is taken to include the header and more",
    ),
    Known(
        "sas_rendezvous",
        ".*(texts|binaries).*",
        ANY,
        "duplicate AT[XB] at (once|the end); withhold FDC",
        "as many messages come as were sent; if no sizes are announced, nothing contradicts",
    ),
    Known(
        "sas_rendezvous",
        ANY,
        ANY,
        "duplicate AT[XBO] at (once|the end); withhold AT[XBO]",
        "as many messages come as were sent; if both have as many bytes or rows, nothing contradicts",
    ),
)
"""What the protocol cannot tell. `docs/evidence.md` lists the same."""
