"""Message properties: where an MQGET gives them, and which go into messages that are made of others."""

import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Session
from tests.conformance.headers import dead_letter_header, extension, properties
from tests.conformance.messagehandles import get, handle, is_there, put, value_of
from tests.queue_manager.server import constants as mqi


def test_without_a_handle_they_come_in_an_mqrfh2(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: PropertyControl, MQPROP_COMPATIBILITY, the default: "usr." is one of the prefixes that programs expect.
    Mapping property data types to MQRFH2 data types."""
    made = handle(session)
    made.properties.set(b"colour", "blue <")
    made.properties.set(b"size", 5, property_type=c.MQTYPE_INT32, value_length=4)
    made.properties.set(b"nothing", None, property_type=c.MQTYPE_NULL, value_length=0)
    put(session, queue, made, b"data", Format=b"MQSTR", CodedCharSetId=819)
    got = get(session, queue)
    assert got.md.Format == c.MQFMT_RF_HEADER_2
    name, version, length, _, ccsid, format_ = struct.unpack_from("=4s4i8s", got.body)
    assert (name, version, ccsid, format_) == (b"RFH ", 2, 819, b"MQSTR   ")
    assert got.body[length:] == b"data"
    for element in (b"<colour>blue &lt;</colour>", b">5</size>", b"</nothing>", b"<usr>"):
        assert element in got.body
    assert b'dt="i4"' in got.body or b"dt='i4'" in got.body
    assert b'xsi:nil="true"' in got.body or b"xsi:nil='true'" in got.body


@pytest.mark.parametrize(
    ("option", "name", "there"),
    [
        ("AS_Q_DEF", "colour", True),
        ("AS_Q_DEF", "mq_usr.colour", False),
        ("AS_Q_DEF", "folder.colour", False),
        ("COMPATIBILITY", "colour", True),
        ("COMPATIBILITY", "folder.colour", False),
        ("FORCE_MQRFH2", "folder.colour", True),
        ("NO", "colour", False),
    ],
)
def test_what_the_options_say(session: Session, queue: str, option: str, name: str, there: bool, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, property options: which properties come in the data, and which are discarded."""
    made = handle(session)
    made.properties.set(name.encode(), "blue")
    put(session, queue, made, Format=b"MQSTR", CodedCharSetId=819)
    said = {"NO": "MQGMO_NO_PROPERTIES"}.get(option, f"MQGMO_PROPERTIES_{option}")
    got = get(session, queue, getattr(c, said))
    if there:
        assert (b">blue</colour>" in got.body, got.body[-4:]) == (True, b"data")
    else:
        assert (got.body, got.md.Format, got.md.CodedCharSetId) == (b"data", b"MQSTR   ", 819)


@pytest.mark.parametrize(
    ("propctl", "with_handle", "without"),
    [("NONE", True, False), ("ALL", True, True), ("FORCE", False, True), ("COMPAT", True, False)],
)
def test_what_the_queue_says(
    session: Session, new_queue: Callable[..., str], propctl: str, with_handle: bool, without: bool, c: ModuleType
) -> None:
    """IBM MQ: PropertyControl, of properties in mq_usr: a handle gets them but for MQPROP_FORCE_MQRFH2, the data get
    them with MQPROP_ALL and MQPROP_FORCE_MQRFH2."""
    queue = new_queue(propctl=propctl)
    made, got = handle(session), handle(session)
    made.properties.set(b"mq_usr.colour", "blue")
    put(session, queue, made)
    put(session, queue, made)
    body = get(session, queue, into=got).body
    assert (body == b"data") == with_handle
    if with_handle:
        assert value_of(got, "mq_usr.colour") == "blue"
    assert (b"blue" in get(session, queue).body) == without


def test_options_about_properties_exclude_each_other(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO options, property options; 2046 (07FE) MQRC_OPTIONS_ERROR."""
    with session.fails(c.MQRC_OPTIONS_ERROR):
        get(session, queue, c.MQGMO_NO_PROPERTIES | c.MQGMO_PROPERTIES_FORCE_MQRFH2)


def put_raw(session: Session, queue: str, format_: bytes, body: bytes) -> None:
    """Puts headers in front of data. The MQMDE is for ibmmq, which fails on an MQRFH2 (see test_libraries.py)."""
    c = session.mq.CMQC
    announced = extension(c, Format=format_, MsgFlags=0, CodedCharSetId=1208, Encoding=c.MQENC_NATIVE)
    session.put(session.destination(queue), announced + body, Format=c.MQFMT_MD_EXTENSION)


def test_properties_in_the_data_are_found_by_the_handle(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO, MsgHandle: properties in the data are removed from them; Mapping from property names to MQRFH2
    folder and element names; the synonyms of MQINQMP."""
    folder = b'<usr><a dt="i2">7</a><b>x &amp; y</b></usr>'
    put_raw(session, queue, c.MQFMT_RF_HEADER_2, properties(c, folder) + b"data")
    got = handle(session)
    received = get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, got)
    assert (received.body, received.md.Format, received.md.CodedCharSetId) == (b"data", b"MQSTR   ", 1208)
    assert (value_of(got, "a"), value_of(got, "usr.b")) == (7, "x & y")


@pytest.mark.parametrize("folder", ["mq", "usr"])
def test_segments_without_defined_properties(session: Session, queue: str, folder: str, c: ModuleType) -> None:
    """IBM MQ: 2443 (098B) MQRC_SEGMENTATION_NOT_ALLOWED: "MQ-defined properties are not valid in the message data"."""
    made = handle(session)
    made.properties.set(f"{folder}.Own".encode(), "1")
    put(session, queue, made)
    data = get(session, queue, c.MQGMO_PROPERTIES_FORCE_MQRFH2)
    announced = extension(
        c, Format=data.md.Format, CodedCharSetId=1208, Encoding=c.MQENC_NATIVE, MsgFlags=c.MQMF_SEGMENTATION_ALLOWED
    )
    destination, body = session.destination(queue), announced + data.body
    if folder == "usr":
        session.put(destination, body, Format=c.MQFMT_MD_EXTENSION)
    else:
        with session.fails(c.MQRC_SEGMENTATION_NOT_ALLOWED):
            session.put(destination, body, Format=c.MQFMT_MD_EXTENSION)


def test_synonyms(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQINQMP, Name, properties that have known synonyms; Property name restrictions."""
    put_raw(session, queue, c.MQFMT_RF_HEADER_2, properties(c, b"<jms><Dst>queue:///Q</Dst></jms>"))
    got = handle(session)
    get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, got)
    assert value_of(got, "JMSDestination") == value_of(got, "jms.Dst") == "queue:///Q"


def test_folders_that_are_no_properties_stay(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: PROPCTL queue options, ALL: "Name/value pairs that are not message properties remain in the MQRFH2";
    Supported MQRFH2 folders, content='properties'."""
    for folder, stays in ((b"<own><a>1</a></own>", True), (b"<own content='properties'><a>1</a></own>", False)):
        put_raw(session, queue, c.MQFMT_RF_HEADER_2, properties(c, folder) + b"data")
        got = handle(session)
        body = get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, got).body
        assert (folder in body) == stays
        if not stays:
            assert value_of(got, "own.a") == "1"


def test_a_folder_that_cannot_be_read_stays(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQRFH2 headers that are not valid: "The MQGET call returns successfully, and the MQRFH2 containing the
    error is returned"."""
    put_raw(session, queue, c.MQFMT_RF_HEADER_2, properties(c, b"<<usr><a>1</a></usr>") + b"data")
    body = get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, handle(session)).body
    assert b"<<usr><a>1</a></usr>" in body


def test_where_a_made_header_stands(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Generation of MQRFH2 headers: following "any number of MQXQH, MQRFH, and MQDLH headers"."""
    made = handle(session)
    made.properties.set(b"colour", "blue")
    header = dead_letter_header(c, "Q")
    put(session, queue, made, header + b"data", Format=c.MQFMT_DEAD_LETTER_HEADER, CodedCharSetId=1208)
    got = get(session, queue, c.MQGMO_PROPERTIES_FORCE_MQRFH2)
    assert (got.md.Format, got.body[:4], got.body[116:124]) == (c.MQFMT_DEAD_LETTER_HEADER, b"DLH ", b"MQHRF2  ")
    again = handle(session)
    put(session, queue, made, header + b"data", Format=c.MQFMT_DEAD_LETTER_HEADER, CodedCharSetId=1208)
    assert get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, again).body == header + b"data"


def test_the_length_is_that_of_what_is_returned(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQGMO, MsgHandle: what can be inquired "is not contained in the message data"."""
    made = handle(session)
    made.properties.set(b"colour", "blue" * 100)
    put(session, queue, made)
    assert get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, handle(session), length=4).body == b"data"


def test_they_survive(own: Callable[..., Any], connect: Callable[..., Session], c: ModuleType) -> None:
    """IBM MQ: properties are part of the message: those of a persistent one are there after a restart."""
    to = own()
    to.double.define("QUEUE")
    session = connect(to=to)
    made = handle(session)
    made.properties.set(b"size", 5, property_type=c.MQTYPE_INT64, value_length=8)
    put(session, "QUEUE", made, Persistence=c.MQPER_PERSISTENT)
    to.double.kill()
    to.double.start()
    session = connect(to=to)
    got = handle(session)
    get(session, "QUEUE", c.MQGMO_PROPERTIES_IN_HANDLE, got)
    assert value_of(got, "size") == 5


# --- the descriptor, and messages made of others ------------------------------------------------------------------


def test_fields_of_the_descriptor_are_properties(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: Message descriptor fields as properties; 2473 (09A9) MQRC_PROPERTY_TYPE_ERROR."""
    got = handle(session)
    sent = session.put(session.destination(queue), b"data", Priority=3, Format=b"MQSTR", CorrelId=b"c" * 24)
    get(session, queue, into=got)
    assert value_of(got, "Root.MQMD.Priority") == 3
    assert value_of(got, "Root.MQMD.Format") == "MQSTR   "
    assert (value_of(got, "Root.MQMD.CorrelId"), value_of(got, "Root.MQMD.MsgId")) == (b"c" * 24, sent.MsgId)
    with session.fails(c.MQRC_PROPERTY_NOT_AVAILABLE):
        value_of(got, "Root.MQMD.Version")
    with session.fails(c.MQRC_PROPERTY_TYPE_ERROR):
        got.properties.set(b"Root.MQMD.Priority", "3")
    got.properties.set(b"Root.MQMD.Priority", 5, property_type=c.MQTYPE_INT32, value_length=4)
    assert value_of(got, "Root.MQMD.Priority") == 5


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        (mqi.MQACTP_FORWARD, {"forward", "default", "all"}),
        (mqi.MQACTP_REPLY, {"reply", "all"}),
        (mqi.MQACTP_REPORT, {"report", "default", "all"}),
    ],
)
def test_what_an_action_copies(session: Session, queue: str, action: int, kept: set[str], c: ModuleType) -> None:
    """IBM MQ: MQPMO, Action; MQPD, CopyOptions; Mapping property descriptor fields into MQRFH2 headers."""
    copies = {
        "forward": mqi.MQCOPY_FORWARD,
        "reply": mqi.MQCOPY_REPLY,
        "report": mqi.MQCOPY_REPORT,
        "default": mqi.MQCOPY_DEFAULT,
        "all": mqi.MQCOPY_ALL,
    }
    made, received, got = handle(session), handle(session), handle(session)
    for name, option in copies.items():
        made.properties.set(name.encode(), "old", pd=session.mq.PD(CopyOptions=option))
    put(session, queue, made)
    get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, received)
    new = handle(session)
    new.properties.set(b"own", "new")
    new.properties.set(b"all", "new")
    put(session, queue, received, new=new, action=action)
    get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, got)
    found = {name for name in copies if is_there(session, got, name)}
    assert found == kept
    assert (value_of(got, "own"), value_of(got, "all")) == ("new", "new")
    assert found == {name for name in copies if is_there(session, new, name)}


def test_an_action_that_there_is_not(session: Session, queue: str) -> None:
    """IBM MQ: MQPMO, Action: MQRC_ACTION_ERROR."""
    with session.fails(mqi.MQRC_ACTION_ERROR):
        put(session, queue, handle(session), action=9)
