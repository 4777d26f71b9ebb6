"""Commands about channels, namelists and connections.

Sources: IBM MQ, "Programmable command formats reference", the pages of the commands and of their responses. That a
connection of a client is one of a user application (MQAT_USER), is believed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.inquiring import Attribute
from tests.queue_manager.server.manager import QueueManager
from tests.queue_manager.server.objects import SERVER_CONNECTION, Channel, Namelist
from tests.queue_manager.server.pcf import FILTER, Parameters, Record
from tests.queue_manager.server.selecting import attributes_of, select
from tests.queue_manager.server.structures import trimmed

_REPLACE = 1006
_OBJECT_ALREADY_EXISTS = 4001
_PARM_MISSING = 3228

_CHANNEL_NAME, _CHANNEL_TYPE, _CHANNEL_ATTRS = 3501, 1511, 1015
_CHANNEL_NOT_FOUND, _CHANNEL_ALREADY_EXISTS, _CHANNEL_TYPE_ERROR = 4032, 4042, 3034
_STATUS_NOT_FOUND = 3065
_CHANNEL_TYPES = range(1, 12)
_RUNNING = 3
_CURRENT = 1011

_CHANNEL_SETTINGS = {
    1501: "trptype",
    1510: "maxmsgl",
    1511: "chltype",
    1563: "hbint",
    1568: "sslcauth",
    1615: "sharecnv",
    1618: "maxinst",
    1619: "maxinstc",
    3502: "descr",
    3505: "xmitq",
    3506: "conname",
    3527: "mcauser",
    3544: "sslciph",
    3545: "sslpeer",
}
"""By parameter, the attribute that it sets."""

_LENGTHS = {"descr": 64, "conname": 264, "xmitq": 48, "mcauser": 12, "sslciph": 32, "sslpeer": 0}


def _read(name: str) -> Callable[[tuple[str, Channel]], Any]:
    return lambda named: getattr(named[1], name)


_CHANNEL: dict[int, Attribute] = {
    _CHANNEL_NAME: Attribute(lambda named: named[0], length=20),
    **{selector: Attribute(_read(name), length=_LENGTHS.get(name, 0)) for selector, name in _CHANNEL_SETTINGS.items()},
}

_STATUS: dict[int, Attribute] = {
    _CHANNEL_NAME: Attribute(lambda connection: connection.channel, length=20),
    _CHANNEL_TYPE: Attribute(lambda connection: SERVER_CONNECTION),
    1527: Attribute(lambda connection: _RUNNING),
    1523: Attribute(lambda connection: _CURRENT),
    3506: Attribute(lambda connection: connection.address, length=264),
    3527: Attribute(lambda connection: connection.user, length=12),
    3548: Attribute(lambda connection: trimmed(connection.application), length=28),
}

_CONNECTION_ID, _GENERIC_CONNECTION_ID, _CONNECTION_ATTRS = 7006, 7007, 1107
_INFORMATION_TYPE, _ABOUT_CONNECTION = 1110, 1111
_USER_APPLICATION = 25
_CONNECTION_ID_ERROR = 3174

_CONNECTION: dict[int, Attribute] = {
    _CONNECTION_ID: Attribute(lambda connection: connection.identifier),
    _INFORMATION_TYPE: Attribute(lambda connection: _ABOUT_CONNECTION),
    1: Attribute(lambda connection: _USER_APPLICATION),  # MQIA_APPL_TYPE
    1024: Attribute(lambda connection: connection.process),  # MQIACF_PROCESS_ID
    _CHANNEL_NAME: Attribute(lambda connection: connection.channel, length=20),
    3506: Attribute(lambda connection: connection.address, length=264),  # MQCACH_CONNECTION_NAME
    3025: Attribute(lambda connection: connection.user, length=64),  # MQCACF_USER_IDENTIFIER
    3058: Attribute(lambda connection: trimmed(connection.application), length=28),  # MQCACF_APPL_TAG
}

_NAMELIST_NAME, _NAMELIST_ATTRS = 2010, 1004
_NAMELIST: dict[int, Attribute] = {
    _NAMELIST_NAME: Attribute(lambda named: named[0]),
    2009: Attribute(lambda named: named[1].descr, length=64),
    2020: Attribute(lambda named: named[1].names),
    19: Attribute(lambda named: len(named[1].names)),
    72: Attribute(lambda named: 0),  # MQIA_NAMELIST_TYPE: MQNT_NONE
}


def _needed(parameters: Parameters, selector: int) -> Any:
    if selector not in parameters:
        raise Refused(_PARM_MISSING)
    return parameters[selector]


# --- channels -----------------------------------------------------------------------------------------------------


def _channel_settings(parameters: Parameters) -> dict[str, Any]:
    return {name: parameters[selector] for selector, name in _CHANNEL_SETTINGS.items() if selector in parameters}


def _create_channel(manager: QueueManager, parameters: Parameters) -> None:
    name, kind = _needed(parameters, _CHANNEL_NAME), _needed(parameters, _CHANNEL_TYPE)
    if kind not in _CHANNEL_TYPES:
        raise Refused(_CHANNEL_TYPE_ERROR)
    if name in manager.channels and not parameters.get(_REPLACE):
        raise Refused(_CHANNEL_ALREADY_EXISTS)
    manager.define_object(name, Channel(**_channel_settings(parameters)))


def _channel(manager: QueueManager, parameters: Parameters) -> tuple[str, Channel]:
    name = _needed(parameters, _CHANNEL_NAME)
    if name not in manager.channels:
        raise Refused(_CHANNEL_NOT_FOUND)
    return name, manager.channels[name]


def _change_channel(manager: QueueManager, parameters: Parameters) -> None:
    name, channel = _channel(manager, parameters)
    if parameters.get(_CHANNEL_TYPE, channel.chltype) != channel.chltype:
        raise Refused(_CHANNEL_TYPE_ERROR)
    manager.define_object(name, replace(channel, **_channel_settings(parameters)))


def _delete_channel(manager: QueueManager, parameters: Parameters) -> None:
    name, channel = _channel(manager, parameters)
    manager.delete_object(name, channel)


def _inquire_channels(manager: QueueManager, parameters: Parameters) -> list[Record]:
    filter_, wanted = parameters.get(FILTER), parameters.get(_CHANNEL_ATTRS)
    named = [(name, (name, channel)) for name, channel in manager.channels.items()]
    found = select(named, _needed(parameters, _CHANNEL_NAME), _CHANNEL, filter_)
    if (kind := parameters.get(_CHANNEL_TYPE)) is not None:
        found = [(name, channel) for name, channel in found if channel.chltype == kind]
    if not found:
        raise Refused(_CHANNEL_NOT_FOUND)
    return [attributes_of(each, _CHANNEL, wanted, (_CHANNEL_NAME, _CHANNEL_TYPE), filter_) for each in found]


def _inquire_channel_status(manager: QueueManager, parameters: Parameters) -> list[Record]:
    filter_ = parameters.get(FILTER)
    named = [(connection.channel, connection) for connection in manager.connections if connection.channel]
    found = select(named, _needed(parameters, _CHANNEL_NAME), _STATUS, filter_)
    if not found:
        raise Refused(_STATUS_NOT_FOUND)
    return [attributes_of(connection, _STATUS, parameters.get(1524), tuple(_STATUS)) for connection in found]


# --- connections --------------------------------------------------------------------------------------------------


def _inquire_connections(manager: QueueManager, parameters: Parameters) -> list[Record]:
    filter_, wanted = parameters.get(FILTER), parameters.get(_CONNECTION_ATTRS)
    generic: bytes = parameters.get(_GENERIC_CONNECTION_ID, b"")
    exact: bytes = parameters.get(_CONNECTION_ID, b"")
    named = [
        ("", connection)
        for connection in manager.connections
        if connection.channel and connection.identifier.startswith(exact or generic)
    ]
    found = select(named, "", _CONNECTION, filter_)
    if not found:
        raise Refused(_CONNECTION_ID_ERROR)
    return [attributes_of(each, _CONNECTION, wanted, (_CONNECTION_ID, _INFORMATION_TYPE), filter_) for each in found]


# --- namelists ----------------------------------------------------------------------------------------------------


def _namelist_settings(parameters: Parameters) -> dict[str, Any]:
    settings = {2009: "descr", 2020: "names"}
    return {name: parameters[selector] for selector, name in settings.items() if selector in parameters}


def _create_namelist(manager: QueueManager, parameters: Parameters) -> None:
    name = _needed(parameters, _NAMELIST_NAME)
    if name in manager.namelists and not parameters.get(_REPLACE):
        raise Refused(_OBJECT_ALREADY_EXISTS)
    manager.define_object(name, Namelist(**_namelist_settings(parameters)))


def _namelist(manager: QueueManager, parameters: Parameters) -> tuple[str, Namelist]:
    name = _needed(parameters, _NAMELIST_NAME)
    if name not in manager.namelists:
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    return name, manager.namelists[name]


def _change_namelist(manager: QueueManager, parameters: Parameters) -> None:
    name, namelist = _namelist(manager, parameters)
    manager.define_object(name, replace(namelist, **_namelist_settings(parameters)))


def _delete_namelist(manager: QueueManager, parameters: Parameters) -> None:
    name, namelist = _namelist(manager, parameters)
    manager.delete_object(name, namelist)


def _inquire_namelists(manager: QueueManager, parameters: Parameters) -> list[Record]:
    filter_, wanted = parameters.get(FILTER), parameters.get(_NAMELIST_ATTRS)
    named = [(name, (name, namelist)) for name, namelist in manager.namelists.items()]
    found = select(named, _needed(parameters, _NAMELIST_NAME), _NAMELIST, filter_)
    if not found:
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    return [attributes_of(each, _NAMELIST, wanted, (_NAMELIST_NAME,), filter_) for each in found]


OBJECT_COMMANDS: dict[int, Callable[[QueueManager, Parameters], list[Record] | None]] = {
    21: _change_channel,
    23: _create_channel,
    24: _delete_channel,
    25: _inquire_channels,
    32: _change_namelist,
    34: _create_namelist,
    35: _delete_namelist,
    36: _inquire_namelists,
    42: _inquire_channel_status,
    85: _inquire_connections,
}
"""By MQCMD number."""
