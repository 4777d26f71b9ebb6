"""Message properties: set, inquired and deleted by a message handle."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import Session
from tests.conformance.messagehandles import get, handle, names_and_values, put, value_of
from tests.queue_manager.server import constants as mqi
from tests.support.mqi import Library

VALUES: dict[str, tuple[int, Any, int]] = {
    "boolean": (mqi.MQTYPE_BOOLEAN, 1, 4),
    "bytes": (mqi.MQTYPE_BYTE_STRING, b"\x00\xff<", 3),
    "no bytes": (mqi.MQTYPE_BYTE_STRING, b"", 0),
    "INT8": (mqi.MQTYPE_INT8, -100, 1),
    "INT16": (mqi.MQTYPE_INT16, -30000, 2),
    "INT32": (mqi.MQTYPE_INT32, -(2**31), 4),
    "INT64": (mqi.MQTYPE_INT64, -(2**63), 8),
    "FLOAT32": (mqi.MQTYPE_FLOAT32, 0.5, 4),
    "FLOAT64": (mqi.MQTYPE_FLOAT64, 2.2250738585072014e-308, 8),
    "string": (mqi.MQTYPE_STRING, "Größe <&> ", 12),
    "null": (mqi.MQTYPE_NULL, None, 0),
}


@pytest.mark.parametrize("case", VALUES)
def test_every_type_is_kept_with_the_message(session: Session, queue: str, case: str, c: ModuleType) -> None:
    """IBM MQ: MQSETMP, MQINQMP, Type and Value; MQGMO_PROPERTIES_IN_HANDLE."""
    type_, value, length = VALUES[case]
    made, got = handle(session), handle(session)
    made.properties.set(b"colour", value, property_type=type_, value_length=length)
    assert value_of(made, "colour") == value
    put(session, queue, made)
    assert get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, got).body == b"data"
    assert value_of(got, "colour") == value


def test_a_string_that_ends_with_nul(session: Session, c: ModuleType) -> None:
    """IBM MQ: MQSETMP, ValueLength: MQVL_NULL_TERMINATED."""
    made = handle(session)
    made.properties.set(b"colour", "blue", value_length=c.MQVL_NULL_TERMINATED)
    assert value_of(made, "colour") == "blue"


@pytest.mark.guess
@pytest.mark.parametrize(
    ("type_", "length"),
    [(mqi.MQTYPE_BOOLEAN, 1), (mqi.MQTYPE_INT8, 4), (mqi.MQTYPE_INT64, 4), (mqi.MQTYPE_FLOAT64, -1)],
)
def test_a_length_that_the_type_does_not_have(
    library: Library, session: Session, type_: int, length: int, c: ModuleType
) -> None:
    """IBM MQ: MQSETMP, Type: "ValueLength must be"; that the reason is 2005 is not said there."""
    if library == "ibmmq":
        pytest.skip("ibmmq says the length by itself")
    with session.fails(c.MQRC_BUFFER_LENGTH_ERROR):
        handle(session).properties.set(b"colour", 1, property_type=type_, value_length=length)


def test_a_type_that_there_is_not(library: Library, session: Session, c: ModuleType) -> None:
    """IBM MQ: 2473 (09A9) MQRC_PROPERTY_TYPE_ERROR."""
    if library == "ibmmq":
        pytest.skip("ibmmq refuses it by itself")
    with session.fails(c.MQRC_PROPERTY_TYPE_ERROR):
        handle(session).properties.set(b"colour", "", property_type=3, value_length=0)


def test_a_property_that_is_not_there(session: Session, c: ModuleType) -> None:
    """IBM MQ: 2471 (09A7) MQRC_PROPERTY_NOT_AVAILABLE. Names are case-sensitive."""
    made = handle(session)
    made.properties.set(b"colour", "blue")
    for name in ("Colour", "colours", "size%"):
        with session.fails(c.MQRC_PROPERTY_NOT_AVAILABLE):
            value_of(made, name)


def test_a_buffer_that_is_too_small(session: Session, c: ModuleType) -> None:
    """IBM MQ: 2469 (09A5) MQRC_PROPERTY_VALUE_TOO_BIG: DataLength is that of the value before truncation."""
    made = handle(session)
    made.properties.set(b"colour", "ultramarine")
    with session.fails(c.MQRC_PROPERTY_VALUE_TOO_BIG) as caught:
        value_of(made, "colour", max_value_length=5)
    length = getattr(caught.value, "dataLength", None) or getattr(caught.value, "data_length", None)
    assert length == len("ultramarine")
    assert value_of(made, "colour", max_value_length=11) == "ultramarine"


NOT_VALID = [
    "a b", "1a", "a=b", ".a", "a.", "a..b", "JMSPriority", "usr.JMSType", "null", "usr.Between", "mq.a.b", "MQx.y.z",
    "Body.a", "Root.a",
]  # fmt: skip


@pytest.mark.parametrize("name", NOT_VALID)
def test_names_that_are_not_valid(session: Session, name: str, c: ModuleType) -> None:
    """IBM MQ: 2442 (098A) MQRC_PROPERTY_NAME_ERROR; Property name restrictions; MQCMHO_NO_VALIDATION."""
    with session.fails(c.MQRC_PROPERTY_NAME_ERROR):
        handle(session).properties.set(name.encode(), "value")
    with session.fails(c.MQRC_PROPERTY_NAME_ERROR):
        handle(session, c.MQCMHO_VALIDATE).properties.set(name.encode(), "value")


@pytest.mark.parametrize(
    "name", ["a", "mq_usr.a.b.c", "folder.group.name", "JMSType", "_x", "größe", "usr.a", "like.a"]
)
def test_names_that_are_valid(session: Session, name: str) -> None:
    """IBM MQ: Property names; Property name restrictions."""
    made = handle(session)
    made.properties.set(name.encode(), "value")
    assert value_of(made, name) == "value"


def test_names_may_go_unchecked(session: Session, c: ModuleType) -> None:
    """IBM MQ: MQCMHO, Options: MQCMHO_NO_VALIDATION, which MQCMHO_VALIDATE excludes."""
    made = handle(session, c.MQCMHO_NO_VALIDATION)
    made.properties.set(b"between", "value")
    assert value_of(made, "between") == "value"
    with session.fails(c.MQRC_OPTIONS_ERROR):
        handle(session, c.MQCMHO_NO_VALIDATION | c.MQCMHO_VALIDATE)


@pytest.mark.parametrize("name", ["", "x" * 4096])
def test_lengths_of_names(session: Session, name: str, c: ModuleType) -> None:
    """IBM MQ: 2513 (09D1) MQRC_PROPERTY_NAME_LENGTH_ERR; MQ_MAX_PROPERTY_NAME_LENGTH."""
    made = handle(session)
    made.properties.set(b"x" * 4095, "value")
    with session.fails(mqi.MQRC_PROPERTY_NAME_LENGTH_ERR):
        made.properties.set(name.encode(), "value")


def test_what_has_a_value_is_no_group(session: Session) -> None:
    """IBM MQ: 2498 (09C2) MQRC_MIXED_CONTENT_NOT_ALLOWED, with the page's example."""
    made = handle(session)
    made.properties.set(b"x.y", "value")
    with session.fails(mqi.MQRC_MIXED_CONTENT_NOT_ALLOWED):
        made.properties.set(b"x.y.z", "value")


def test_wildcards(library: Library, session: Session) -> None:
    """IBM MQ: MQINQMP, Name: the wildcard "matches zero or more characters, including the period"; properties in the
    folder usr are returned without it."""
    made = handle(session)
    for name in ("colour", "folder.size", "cost", "folder.group.weight", "usr.count"):
        made.properties.set(name.encode(), f"<{name}>")

    def said(*names: str) -> list[Any]:
        pairs = [(f"<{name}>", name.removeprefix("usr.")) for name in names]
        return pairs if library == "ibmmq" else [value for value, _ in pairs]

    every = ("colour", "cost", "usr.count", "folder.size", "folder.group.weight")
    assert sorted(names_and_values(session, made, "%")) == sorted(said(*every))
    assert names_and_values(session, made, "co%") == said("colour", "cost", "usr.count")
    assert names_and_values(session, made, "usr.%") == said("colour", "cost", "usr.count")
    assert names_and_values(session, made, "folder.g%") == said("folder.group.weight")


def test_setting_again_changes_the_value(session: Session, queue: str, c: ModuleType) -> None:
    """IBM MQ: MQSMPO, MQSMPO_SET_FIRST: the first property of the name, or one behind those of the same hierarchy."""
    made, got = handle(session), handle(session)
    for name, value in (("a", "1"), ("f.b", "2"), ("c", "3"), ("a", "4")):
        made.properties.set(name.encode(), value)
    put(session, queue, made)
    get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, got)
    values = [value if isinstance(value, str) else value[0] for value in names_and_values(session, got, "%")]
    assert values == ["4", "3", "2"]


def test_places_beside_the_cursor(session: Session, c: ModuleType) -> None:
    """IBM MQ: MQSMPO, Options: under, before and after the property that was inquired last."""
    made = handle(session)

    def set_near(name: bytes, value: str, option: int) -> None:
        made.properties.set(name, value, smpo=session.mq.SMPO(Options=option))

    with session.fails(c.MQRC_PROPERTY_NOT_AVAILABLE):
        set_near(b"a", "1", mqi.MQSMPO_SET_PROP_UNDER_CURSOR)
    for name in (b"a", b"b", b"c"):
        made.properties.set(name, name.decode())
    value_of(made, "b")
    set_near(b"b", "changed", mqi.MQSMPO_SET_PROP_UNDER_CURSOR)
    set_near(b"before", "before", mqi.MQSMPO_SET_PROP_BEFORE_CURSOR)
    set_near(b"after", "after", mqi.MQSMPO_SET_PROP_AFTER_CURSOR)
    values = [value if isinstance(value, str) else value[0] for value in names_and_values(session, made, "%")]
    assert values == ["a", "before", "changed", "after", "c"]
    with session.fails(c.MQRC_OPTIONS_ERROR):
        set_near(b"d", "", mqi.MQSMPO_SET_PROP_BEFORE_CURSOR | mqi.MQSMPO_SET_PROP_AFTER_CURSOR)


def test_the_property_under_the_cursor(session: Session, c: ModuleType) -> None:
    """IBM MQ: MQIMPO, MQIMPO_INQ_PROP_UNDER_CURSOR; without an inquiry before there is no cursor."""
    made = handle(session)
    made.properties.set(b"a", "1")
    with session.fails(c.MQRC_PROPERTY_NOT_AVAILABLE):
        value_of(made, "a", mqi.MQIMPO_INQ_PROP_UNDER_CURSOR)
    value_of(made, "a")
    assert value_of(made, "b", mqi.MQIMPO_INQ_PROP_UNDER_CURSOR) == "1"


def test_deleting(library: Library, session: Session, c: ModuleType) -> None:
    """IBM MQ: MQDLTMP - Delete message property: a warning where there is none; MQDLTMH - Delete message handle."""
    if library == "pymqi":
        pytest.skip("pymqi has neither MQDLTMP nor MQDLTMH")
    made = handle(session)
    made.properties.set(b"a", "1")
    made.properties.dlt(b"a")
    with session.warns(c.MQRC_PROPERTY_NOT_AVAILABLE):
        made.properties.dlt(b"a")
    deleted = made.properties
    made.dlt()
    with session.fails(c.MQRC_HMSG_ERROR):
        deleted.get(b"a")


@pytest.mark.parametrize(
    ("type_", "value", "length", "wanted", "converted"),
    [
        (mqi.MQTYPE_BOOLEAN, 1, 4, mqi.MQTYPE_STRING, "TRUE"),
        (mqi.MQTYPE_BOOLEAN, 1, 4, mqi.MQTYPE_INT64, 1),
        (mqi.MQTYPE_BYTE_STRING, b"\xa0\x01", 2, mqi.MQTYPE_STRING, "A001"),
        (mqi.MQTYPE_INT8, -1, 1, mqi.MQTYPE_INT32, -1),
        (mqi.MQTYPE_INT32, 7, 4, mqi.MQTYPE_STRING, "7"),
        (mqi.MQTYPE_STRING, "-12", 3, mqi.MQTYPE_INT16, -12),
        (mqi.MQTYPE_STRING, "true", 4, mqi.MQTYPE_BOOLEAN, 1),
        (mqi.MQTYPE_STRING, "0.5", 3, mqi.MQTYPE_FLOAT64, 0.5),
        (mqi.MQTYPE_STRING, "a", 1, mqi.MQTYPE_INT32, mqi.MQRC_PROP_NUMBER_FORMAT_ERROR),
        (mqi.MQTYPE_STRING, "300", 3, mqi.MQTYPE_INT8, mqi.MQRC_PROP_NUMBER_FORMAT_ERROR),
        (mqi.MQTYPE_INT64, 1, 8, mqi.MQTYPE_INT32, mqi.MQRC_PROP_CONV_NOT_SUPPORTED),
        (mqi.MQTYPE_FLOAT32, 0.5, 4, mqi.MQTYPE_INT64, mqi.MQRC_PROP_CONV_NOT_SUPPORTED),
        (mqi.MQTYPE_NULL, None, 0, mqi.MQTYPE_STRING, mqi.MQRC_PROP_CONV_NOT_SUPPORTED),
    ],
)
@pytest.mark.guess
def test_types_are_converted(
    library: Library, session: Session, type_: int, value: Any, length: int, wanted: int, converted: Any
) -> None:
    """IBM MQ: MQIMPO, MQIMPO_CONVERT_TYPE; reasons 2470 and 2472. Which pairs of types there are is believed."""
    made = handle(session)
    made.properties.set(b"a", value, property_type=type_, value_length=length)
    options = mqi.MQIMPO_CONVERT_TYPE
    if isinstance(converted, int) and converted > 2000:
        with session.fails(converted):
            value_of(made, "a", options, property_type=wanted)
    else:
        assert value_of(made, "a", options, property_type=wanted) == converted


def test_a_handle_belongs_to_its_connection(
    session: Session, connect: Callable[..., Session], queue: str, c: ModuleType
) -> None:
    """IBM MQ: MQCRTMH, Hconn; 2460 (099C) MQRC_HMSG_ERROR."""
    foreign = handle(connect())
    with session.fails(c.MQRC_HMSG_ERROR):
        put(session, queue, foreign)
    with session.fails(c.MQRC_HMSG_ERROR):
        get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE, foreign)
    with session.fails(c.MQRC_HMSG_ERROR):
        get(session, queue, c.MQGMO_PROPERTIES_IN_HANDLE)
