"""Headers in front of the data: what the queue manager checks of them when a message is put."""

import struct
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Session
from tests.conformance.headers import dead_letter_header, properties

INVALID: dict[str, tuple[str, int, bytes]] = {
    "identifier of MQDLH": ("dlh", 0, b"XXX "),
    "version of MQDLH": ("dlh", 4, struct.pack("=i", 2)),
    "character set of MQDLH": ("dlh", 112, struct.pack("=i", 0)),
    "identifier of MQRFH2": ("rfh", 0, b"XXX "),
    "version of MQRFH2": ("rfh", 4, struct.pack("=i", 3)),
    "length of MQRFH2": ("rfh", 8, struct.pack("=i", 35)),
    "character set of MQRFH2": ("rfh", 16, struct.pack("=i", 0)),
}
"""What is wrong, in which header, at which byte."""


def made(c: ModuleType, name: str) -> tuple[bytes, bytes, int]:
    """A header, the Format that announces it, and the reason of one that is not valid."""
    if name == "dlh":
        return dead_letter_header(c, "Q"), c.MQFMT_DEAD_LETTER_HEADER, c.MQRC_DLH_ERROR
    return properties(c, b"<usr><a>b</a></usr>"), c.MQFMT_RF_HEADER_2, c.MQRC_RFH_ERROR


@pytest.mark.parametrize("case", INVALID)
def test_one_that_is_not_valid_fails_the_call(session: Session, queue: str, case: str, c: ModuleType) -> None:
    """IBM MQ: 2141 (085D) MQRC_DLH_ERROR; 2334 (091E) MQRC_RFH_ERROR."""
    name, at, wrong = INVALID[case]
    header, format_, reason = made(c, name)
    broken = header[:at] + wrong + header[at + len(wrong) :]
    with session.fails(reason):
        session.put(session.destination(queue), broken + b"data", Format=format_, CodedCharSetId=1208)


@pytest.mark.parametrize("name", ["dlh", "rfh"])
def test_one_that_is_cut_off_fails_the_call(session: Session, queue: str, name: str, c: ModuleType) -> None:
    """IBM MQ: the same pages: the structure extends beyond the end of the message."""
    header, format_, reason = made(c, name)
    with session.fails(reason):
        session.put(session.destination(queue), header[:-1], Format=format_, CodedCharSetId=1208)


@pytest.mark.parametrize("name", ["dlh", "rfh"])
def test_one_that_is_valid_stays_data(session: Session, queue: str, name: str, c: ModuleType) -> None:
    """IBM MQ: MQDLH - Dead letter header; MQRFH2 - Rules and formatting header 2."""
    header, format_, _ = made(c, name)
    session.put(session.destination(queue), header + b"data", Format=format_, CodedCharSetId=1208)
    options: Any = c.MQGMO_PROPERTIES_FORCE_MQRFH2
    assert session.get(session.source(queue), options).body == header + b"data"


@pytest.mark.guess
def test_with_version_1_nothing_is_checked(session: Session, queue: str, c: ModuleType) -> None:
    """The page on MQMD says that the queue manager performs additional checks on headers when version 2 is used."""
    session.put(session.destination(queue), b"no header", version=1, Format=c.MQFMT_RF_HEADER_2)
    assert session.bodies(session.source(queue)) == [b"no header"]
