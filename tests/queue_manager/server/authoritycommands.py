"""Commands about authority records and authentication information.

A user whom the settings' authorities do not name may do anything; records of such a user are kept and change nothing.
There are no groups. Sources: IBM MQ, "Set Authority Record", "Delete Authority Record", "Inquire Authority Records",
"Inquire Authentication Information Object" and their responses. The reason when no record is found is believed.
"""

from collections.abc import Callable
from typing import Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.authority import WORDS
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.manager import AUTHENTICATION, QueueManager
from tests.queue_manager.server.pcf import Parameters, Record

_PROFILE, _TYPE, _ADDED, _REMOVED, _PRINCIPALS, _GROUPS = 3067, 1016, 1116, 1117, 3065, 3066
_ENTITY_NAME, _ENTITY_TYPE, _AUTHORIZATIONS, _Q_MGR_NAME = 3068, 1118, 1115, 2015
_PRINCIPAL = 1
_PROFILE_MISSING, _TYPE_MISSING, _ENTITY_MISSING, _VALUE_ERROR = 3347, 3173, 3169, 3171

_AUTHENTICATION_NAME, _AUTHENTICATION_TYPE, _CHECK_CLIENTS, _CHECK_LOCAL = 2045, 66, 258, 257
_OPERATING_SYSTEM = 3
_CHECK_NONE, _CHECK_REQUIRED = 1, 3

_NUMBERS = {word: number for number, word in WORDS.items()}


def _needed(parameters: Parameters, selector: int, reason: int) -> Any:
    if not parameters.get(selector):
        raise Refused(reason)
    return parameters[selector]


def _object(manager: QueueManager, parameters: Parameters) -> str:
    """The name by which authorities know the object; the queue manager's own is empty."""
    profile: str = _needed(parameters, _PROFILE, _PROFILE_MISSING)
    of_manager = _needed(parameters, _TYPE, _TYPE_MISSING) == mq.MQOT_Q_MGR
    return "" if of_manager else profile


def _users(manager: QueueManager, parameters: Parameters) -> list[str]:
    users = list(parameters.get(_PRINCIPALS, ()))
    if not users and _GROUPS not in parameters:
        raise Refused(_ENTITY_MISSING)
    known = manager.settings.users
    if _GROUPS in parameters or (known and not set(users) <= set(known)):
        raise Refused(mq.MQRC_UNKNOWN_ENTITY)
    return users


def _words(numbers: tuple[int, ...]) -> set[str]:
    if not set(numbers) <= set(WORDS):
        raise Refused(_VALUE_ERROR)
    return {WORDS[number] for number in numbers}


def _set_records(manager: QueueManager, parameters: Parameters) -> None:
    name = _object(manager, parameters)
    added, removed = _words(parameters.get(_ADDED, ())), _words(parameters.get(_REMOVED, ()))
    for user in _users(manager, parameters):
        granted = manager.authorities.setdefault(user, {})
        granted[name] = sorted((set(granted.get(name, ())) | added) - removed)


def _delete_records(manager: QueueManager, parameters: Parameters) -> None:
    name = _object(manager, parameters)
    for user in _users(manager, parameters):
        if manager.authorities.get(user, {}).pop(name, None) is None:
            raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)


def _inquire_records(manager: QueueManager, parameters: Parameters) -> list[Record]:
    kind = _needed(parameters, _TYPE, _TYPE_MISSING)
    profile, wanted = parameters.get(_PROFILE), parameters.get(_ENTITY_NAME)
    records: list[Record] = []
    for user, granted in manager.authorities.items():
        for name, words in granted.items():
            of_manager = not name
            if (kind == mq.MQOT_Q_MGR) != of_manager or (wanted and wanted != user):
                continue
            if profile and not of_manager and profile != name:
                continue
            numbers = tuple(sorted(_NUMBERS[word] for word in words if word in _NUMBERS))
            records.append(
                [
                    (_Q_MGR_NAME, manager.settings.name.ljust(48)),
                    (_PROFILE, (name or manager.settings.name).ljust(48)),
                    (_TYPE, kind),
                    (_ENTITY_NAME, user),
                    (_ENTITY_TYPE, _PRINCIPAL),
                    (_AUTHORIZATIONS, numbers or (0,)),
                ]
            )
    if not records:
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    return records


def _inquire_authentication(manager: QueueManager, parameters: Parameters) -> list[Record]:
    if parameters.get(_AUTHENTICATION_NAME) not in (AUTHENTICATION, "*"):
        raise Refused(mq.MQRC_UNKNOWN_OBJECT_NAME)
    return [
        [
            (_AUTHENTICATION_NAME, AUTHENTICATION.ljust(48)),
            (_AUTHENTICATION_TYPE, _OPERATING_SYSTEM),
            (_CHECK_CLIENTS, _CHECK_REQUIRED if manager.settings.users else _CHECK_NONE),
            (_CHECK_LOCAL, _CHECK_NONE),
        ]
    ]


AUTHORITY_COMMANDS: dict[int, Callable[[QueueManager, Parameters], list[Record] | None]] = {
    83: _inquire_authentication,
    87: _inquire_records,
    89: _delete_records,
    90: _set_records,
}
"""By MQCMD number."""
