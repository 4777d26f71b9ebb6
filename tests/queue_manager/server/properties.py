"""Message properties: names, types and values.

A property is known by its path: a folder, groups, and its own name. Sources: IBM MQ, "Property names", "Property name
restrictions", "Property data types and values", "Mapping from property names to MQRFH2 folder and element names",
"MQIMPO", Options (MQIMPO_CONVERT_TYPE), and the pages of reasons 2442, 2470, 2472, 2473, 2498 and 2513.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused

Path = tuple[str, ...]

USER_FOLDER = "usr"
UTF_8 = 1208
KEYWORDS = frozenset(["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"])
_SYNONYMS: dict[str, Path] = {
    "JMSCorrelationID": ("jms", "Cid"),
    "JMSDeliveryMode": ("jms", "Dlv"),
    "JMSDestination": ("jms", "Dst"),
    "JMSExpiration": ("jms", "Exp"),
    "JMSPriority": ("jms", "Pri"),
    "JMSReplyTo": ("jms", "Rto"),
    "JMSTimestamp": ("jms", "Tms"),
    "JMSXGroupID": ("jms", "Gid"),
    "JMSXGroupSeq": ("jms", "Seq"),
    "JMSType": ("mcd", "Type"),
    "MQTopicString": ("mqps", "Top"),
}
_NAMES = {path: name for name, path in _SYNONYMS.items()}
_SETTABLE = frozenset({"JMSCorrelationID", "JMSReplyTo", "JMSType", "JMSXGroupID", "JMSXGroupSeq"})
DESCRIPTOR_PREFIX = "Root.MQMD."

NUMBERS = {
    mq.MQTYPE_BOOLEAN: "i",
    mq.MQTYPE_INT8: "b",
    mq.MQTYPE_INT16: "h",
    mq.MQTYPE_INT32: "i",
    mq.MQTYPE_INT64: "q",
    mq.MQTYPE_FLOAT32: "f",
    mq.MQTYPE_FLOAT64: "d",
}
"""By type, the format of `struct`."""
TYPES = frozenset({*NUMBERS, mq.MQTYPE_NULL, mq.MQTYPE_BYTE_STRING, mq.MQTYPE_STRING})


@dataclass(slots=True)
class Property:
    """A property: its value is a number, bytes, text or None, as its type says."""

    path: Path
    type: int
    value: Any
    ccsid: int = UTF_8
    """The character set that text was set in."""
    unknown_type: str = ""
    """The data type that an MQRFH2 said and that is not known."""
    support: int = mq.MQPD_SUPPORT_OPTIONAL
    context: int = 0
    copy_options: int = mq.MQCOPY_DEFAULT

    @property
    def name(self) -> str:
        """The name that an inquiry returns."""
        if self.path in _NAMES:
            return _NAMES[self.path]
        return ".".join(self.path[1:] if self.path[0] == USER_FOLDER else self.path)

    def matches(self, pattern: str) -> bool:
        """Whether a name, or one that ends with the wildcard, means this property."""
        if not pattern.endswith("%"):
            return self.path == path_of(pattern)
        return any(name.startswith(pattern[:-1]) for name in (self.name, ".".join(self.path)))


def path_of(name: str) -> Path:
    """Where a property of this name is kept."""
    if name in _SYNONYMS:
        return _SYNONYMS[name]
    return tuple(name.split(".")) if "." in name else (USER_FOLDER, name)


# --- names --------------------------------------------------------------------------------------------------------


def check_name_length(length: int) -> None:
    if not 0 < length <= mq.MQ_MAX_PROPERTY_NAME_LENGTH:
        raise Refused(mq.MQRC_PROPERTY_NAME_LENGTH_ERR)


def check_name(name: str) -> None:
    """Raises Refused for a name that no property may be given."""
    folder, _, rest = name.rpartition(".")
    forbidden = (
        any(not part.isidentifier() for part in name.split(".")),
        name.startswith(("JMS", "usr.JMS")) and name not in _SETTABLE,
        name.lower().startswith("mq") and not name.lower().startswith("mq_usr") and name.count(".") > 1,
        folder in ("", USER_FOLDER) and rest.upper() in KEYWORDS,
        name.startswith(("Body", "Root")) and not name.startswith(DESCRIPTOR_PREFIX),
    )
    if any(forbidden):
        raise Refused(mq.MQRC_PROPERTY_NAME_ERROR)


def check_content(path: Path, others: list[Property]) -> None:
    """Raises Refused for a path that would make a group of what has a value, or the reverse."""
    for other in others:
        common = min(len(path), len(other.path))
        if len(path) != len(other.path) and path[:common] == other.path[:common]:
            raise Refused(mq.MQRC_MIXED_CONTENT_NOT_ALLOWED)


# --- values -------------------------------------------------------------------------------------------------------


def check_length(type_: int, length: int) -> None:
    """Raises Refused for a type that there is not, or a length that a value of this type cannot have."""
    if type_ not in TYPES:
        raise Refused(mq.MQRC_PROPERTY_TYPE_ERROR)
    if type_ in NUMBERS:
        valid = length == struct.calcsize(NUMBERS[type_])
    elif type_ == mq.MQTYPE_NULL:
        valid = length == 0
    else:
        valid = length >= 0 or (type_ == mq.MQTYPE_STRING and length == mq.MQVL_NULL_TERMINATED)
    if not valid:
        raise Refused(mq.MQRC_BUFFER_LENGTH_ERROR)


def _number(text: str, type_: int) -> Any:
    """Raises Refused for text that is no number of the type."""
    try:
        value = float(text) if type_ in (mq.MQTYPE_FLOAT32, mq.MQTYPE_FLOAT64) else int(text)
        struct.pack(NUMBERS[type_], value)
    except (ValueError, struct.error, OverflowError):
        raise Refused(mq.MQRC_PROP_NUMBER_FORMAT_ERROR) from None
    return value


def _boolean(text: str, _: int) -> int:
    if text.upper() not in ("TRUE", "FALSE", "1", "0"):
        raise Refused(mq.MQRC_PROP_CONV_NOT_SUPPORTED)
    return int(text.upper() in ("TRUE", "1"))


def _same(value: Any, _: int) -> Any:
    return value


_Convert = Callable[[Any, int], Any]
_TEXTS: dict[int, _Convert] = {
    mq.MQTYPE_BOOLEAN: lambda value, _: "TRUE" if value else "FALSE",
    mq.MQTYPE_BYTE_STRING: lambda value, _: value.hex().upper(),
    **dict.fromkeys((t for t in NUMBERS if t != mq.MQTYPE_BOOLEAN), lambda value, _: str(value)),
}
_INTEGERS = (mq.MQTYPE_INT8, mq.MQTYPE_INT16, mq.MQTYPE_INT32, mq.MQTYPE_INT64)
_CONVERSIONS: dict[tuple[int, int], _Convert] = {
    **{(type_, mq.MQTYPE_STRING): convert for type_, convert in _TEXTS.items()},
    **{(mq.MQTYPE_STRING, type_): _number for type_ in NUMBERS},
    (mq.MQTYPE_STRING, mq.MQTYPE_BOOLEAN): _boolean,
    **{(mq.MQTYPE_BOOLEAN, type_): _same for type_ in _INTEGERS},
    **{(one, other): _same for place, one in enumerate(_INTEGERS) for other in _INTEGERS[place + 1 :]},
    (mq.MQTYPE_FLOAT32, mq.MQTYPE_FLOAT64): _same,
}
"""By the type that there is and the one that is wanted."""


def converted(found: Property, wanted: int) -> tuple[int, Any]:
    """The value as one of the wanted type, and that type. Raises Refused where that cannot be."""
    if wanted in (mq.MQTYPE_AS_SET, found.type):
        return found.type, found.value
    if wanted not in TYPES:
        raise Refused(mq.MQRC_PROPERTY_TYPE_ERROR)
    convert = _CONVERSIONS.get((found.type, wanted))
    if convert is None:
        raise Refused(mq.MQRC_PROP_CONV_NOT_SUPPORTED)
    return wanted, convert(found.value, wanted)
