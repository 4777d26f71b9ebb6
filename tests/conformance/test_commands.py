"""Commands in programmable command formats (PCF), as the libraries send them."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import FAILED, Session
from tests.conformance.target import Target

CHANNEL = b"TEST.SVRCONN"
NAMES = [b"FIRST", b"SECOND.NAME"]


@pytest.fixture
def to(own: Callable[..., Target]) -> Target:
    return own(users={"admin": "password", "app": "password"}, authorities={"app": {"": ["connect"]}})


@pytest.fixture
def admin(to: Target, connect: Callable[..., Session]) -> Session:
    return connect(to=to, user="admin", password="password")


@pytest.fixture
def codes(to: Target) -> ModuleType:
    """The constants of PCF."""
    constants: ModuleType = to.mq.CMQCFC
    return constants


def execute(session: Session, command: str, parameters: dict[int, Any]) -> Any:
    """Sends a command; returns what its responses tell."""
    return getattr(session.mq.PCFExecute(session.connection), f"MQCMD_{command}")(parameters)


def refused(session: Session, command: str, parameters: dict[int, Any]) -> int:
    """Sends a command that fails; returns the reason."""
    with pytest.raises(session.mq.MQMIError) as caught:
        execute(session, command, parameters)
    assert caught.value.comp == FAILED
    reason: int = caught.value.reason
    return reason


def text(value: bytes) -> str:
    return value.decode().strip(" \0")


def test_channels(admin: Session, to: Target, connect: Callable[..., Session], codes: ModuleType) -> None:
    """IBM MQ: Create, Change, Inquire and Delete Channel: what is created can be used and told of, until it is gone."""
    named = {codes.MQCACH_CHANNEL_NAME: CHANNEL}
    kind = {codes.MQIACH_CHANNEL_TYPE: to.mq.CMQXC.MQCHT_SVRCONN}
    execute(admin, "CREATE_CHANNEL", named | kind | {codes.MQIACH_MAX_MSG_LENGTH: 100, codes.MQCACH_DESC: b"a channel"})
    assert refused(admin, "CREATE_CHANNEL", named | kind) == codes.MQRCCF_CHANNEL_ALREADY_EXISTS
    (told,) = execute(admin, "INQUIRE_CHANNEL", {codes.MQCACH_CHANNEL_NAME: b"TEST.*"})
    assert (text(told[codes.MQCACH_CHANNEL_NAME]), text(told[codes.MQCACH_DESC])) == ("TEST.SVRCONN", "a channel")
    assert told[codes.MQIACH_MAX_MSG_LENGTH] == 100
    user = connect(to=to, channel=CHANNEL.decode(), user="admin", password="password")
    with user.fails(to.mq.CMQC.MQRC_DATA_LENGTH_ERROR):
        user.put(user.destination("DEV.QUEUE.1"), bytes(101))
    execute(admin, "CHANGE_CHANNEL", named | kind | {codes.MQIACH_MAX_MSG_LENGTH: 200})
    wanted = {codes.MQIACF_CHANNEL_ATTRS: [codes.MQIACH_MAX_MSG_LENGTH]}
    assert execute(admin, "INQUIRE_CHANNEL", named | wanted)[0][codes.MQIACH_MAX_MSG_LENGTH] == 200
    execute(admin, "DELETE_CHANNEL", named)
    assert refused(admin, "INQUIRE_CHANNEL", named) == codes.MQRCCF_CHANNEL_NOT_FOUND
    assert refused(admin, "DELETE_CHANNEL", named) == codes.MQRCCF_CHANNEL_NOT_FOUND
    with pytest.raises(to.mq.MQMIError):
        connect(to=to, channel=CHANNEL.decode(), user="admin", password="password")


def test_a_type_of_channel_that_there_is_not(admin: Session, codes: ModuleType) -> None:
    """IBM MQ: MQRCCF_CHANNEL_TYPE_ERROR (3034)."""
    parameters = {codes.MQCACH_CHANNEL_NAME: CHANNEL, codes.MQIACH_CHANNEL_TYPE: 99}
    assert refused(admin, "CREATE_CHANNEL", parameters) == codes.MQRCCF_CHANNEL_TYPE_ERROR


def test_who_is_connected(admin: Session, to: Target, codes: ModuleType) -> None:
    """IBM MQ: Inquire Channel Status; Inquire Connection."""
    named = {codes.MQCACH_CHANNEL_NAME: to.channel.encode()}
    status = execute(admin, "INQUIRE_CHANNEL_STATUS", named)
    assert {each[codes.MQIACH_CHANNEL_STATUS] for each in status} == {codes.MQCHS_RUNNING}
    assert {text(each[codes.MQCACH_MCA_USER_ID]) for each in status} == {"admin"}
    none = {codes.MQCACH_CHANNEL_NAME: b"NONE"}
    assert refused(admin, "INQUIRE_CHANNEL_STATUS", none) == codes.MQRCCF_CHL_STATUS_NOT_FOUND
    every = {codes.MQBACF_GENERIC_CONNECTION_ID: to.mq.ByteString(b"")}
    connected = execute(admin, "INQUIRE_CONNECTION", every)
    assert {text(each[codes.MQCACF_USER_IDENTIFIER]) for each in connected} == {"admin"}
    assert {text(each[codes.MQCACH_CHANNEL_NAME]) for each in connected} == {to.channel}


def test_namelists(admin: Session, to: Target, codes: ModuleType) -> None:
    """IBM MQ: Create, Inquire and Delete Namelist: NAMES and NameCount."""
    c = to.mq.CMQC
    named = {c.MQCA_NAMELIST_NAME: b"TEST.NAMELIST"}
    execute(admin, "CREATE_NAMELIST", named | {c.MQCA_NAMES: NAMES})
    assert refused(admin, "CREATE_NAMELIST", named) == codes.MQRCCF_OBJECT_ALREADY_EXISTS
    (told,) = execute(admin, "INQUIRE_NAMELIST", named)
    assert [text(name) for name in told[c.MQCA_NAMES]] == [name.decode() for name in NAMES]
    assert told[c.MQIA_NAME_COUNT] == 2
    execute(admin, "DELETE_NAMELIST", named)
    assert refused(admin, "INQUIRE_NAMELIST", named) == c.MQRC_UNKNOWN_OBJECT_NAME


def test_definitions_survive(admin: Session, to: Target, connect: Callable[..., Session], codes: ModuleType) -> None:
    """IBM MQ: objects are kept on disk: a channel and a namelist are there after a restart, deleted ones are not."""
    c = to.mq.CMQC
    kind = {codes.MQIACH_CHANNEL_TYPE: to.mq.CMQXC.MQCHT_SVRCONN}
    for name in (b"TEST.KEPT", b"TEST.DELETED"):
        execute(admin, "CREATE_CHANNEL", {codes.MQCACH_CHANNEL_NAME: name} | kind)
    execute(admin, "DELETE_CHANNEL", {codes.MQCACH_CHANNEL_NAME: b"TEST.DELETED"})
    execute(admin, "CREATE_NAMELIST", {c.MQCA_NAMELIST_NAME: b"TEST.NAMELIST", c.MQCA_NAMES: NAMES})
    assert to.double is not None
    to.double.kill()
    to.double.start()
    again = connect(to=to, user="admin", password="password")
    channels = execute(again, "INQUIRE_CHANNEL", {codes.MQCACH_CHANNEL_NAME: b"TEST.*"})
    assert [text(each[codes.MQCACH_CHANNEL_NAME]) for each in channels] == ["TEST.KEPT"]
    assert execute(again, "INQUIRE_NAMELIST", {c.MQCA_NAMELIST_NAME: b"*"})[0][c.MQIA_NAME_COUNT] == 2


def test_authority_records(admin: Session, to: Target, connect: Callable[..., Session], codes: ModuleType) -> None:
    """IBM MQ: Set, Inquire and Delete Authority Record: what is added is granted at once, what is removed no more."""
    c = to.mq.CMQC
    app = connect(to=to, user="app", password="password")

    def may_open() -> bool:
        try:
            app.mq.Queue(app.connection, "DEV.QUEUE.1", c.MQOO_OUTPUT | c.MQOO_INQUIRE)
        except app.mq.MQMIError as error:
            if error.reason != c.MQRC_NOT_AUTHORIZED:
                raise
            return False
        return True

    profile = {codes.MQCACF_AUTH_PROFILE_NAME: b"DEV.QUEUE.1", codes.MQIACF_OBJECT_TYPE: c.MQOT_Q}
    user = {codes.MQCACF_PRINCIPAL_ENTITY_NAMES: [b"app"]}
    added = {codes.MQIACF_AUTH_ADD_AUTHS: [codes.MQAUTH_OUTPUT, codes.MQAUTH_INQUIRE]}
    assert not may_open()
    execute(admin, "SET_AUTH_REC", profile | added | user)
    assert may_open()
    (told,) = execute(admin, "INQUIRE_AUTH_RECS", profile)
    assert text(told[codes.MQCACF_ENTITY_NAME]) == "app"
    assert sorted(told[codes.MQIACF_AUTHORIZATION_LIST]) == [codes.MQAUTH_INQUIRE, codes.MQAUTH_OUTPUT]
    execute(admin, "SET_AUTH_REC", profile | {codes.MQIACF_AUTH_REMOVE_AUTHS: [codes.MQAUTH_INQUIRE]} | user)
    assert not may_open()
    execute(admin, "DELETE_AUTH_REC", profile | user)
    assert refused(admin, "INQUIRE_AUTH_RECS", profile)


@pytest.mark.guess
def test_no_authority_records(admin: Session, to: Target, codes: ModuleType) -> None:
    """IBM MQ: Inquire Authority Records; which reason it is that none is found with, its page does not say."""
    profile = {codes.MQCACF_AUTH_PROFILE_NAME: b"DEV.QUEUE.1", codes.MQIACF_OBJECT_TYPE: to.mq.CMQC.MQOT_Q}
    assert refused(admin, "INQUIRE_AUTH_RECS", profile) == to.mq.CMQC.MQRC_UNKNOWN_OBJECT_NAME


def test_records_that_cannot_be_set(admin: Session, to: Target, codes: ModuleType) -> None:
    """IBM MQ: Set Authority Record, error codes; 2292 (08F4) MQRC_UNKNOWN_ENTITY."""
    profile = {codes.MQCACF_AUTH_PROFILE_NAME: b"DEV.QUEUE.1", codes.MQIACF_OBJECT_TYPE: to.mq.CMQC.MQOT_Q}
    assert refused(admin, "SET_AUTH_REC", profile) == codes.MQRCCF_ENTITY_NAME_MISSING
    nobody = profile | {codes.MQCACF_PRINCIPAL_ENTITY_NAMES: [b"nobody"]}
    assert refused(admin, "SET_AUTH_REC", nobody) == to.mq.CMQC.MQRC_UNKNOWN_ENTITY
    unknown = {codes.MQCACF_PRINCIPAL_ENTITY_NAMES: [b"app"], codes.MQIACF_AUTH_ADD_AUTHS: [999]}
    assert refused(admin, "SET_AUTH_REC", profile | unknown) == codes.MQRCCF_AUTH_VALUE_ERROR


def test_authentication_information(admin: Session, to: Target, codes: ModuleType) -> None:
    """IBM MQ: Inquire Authentication Information Object: CHCKCLNT; MQCA_CONN_AUTH of the queue manager names it."""
    c = to.mq.CMQC
    (told,) = execute(admin, "INQUIRE_Q_MGR", {codes.MQIACF_Q_MGR_ATTRS: [c.MQCA_CONN_AUTH]})
    asked = {c.MQCA_AUTH_INFO_NAME: told[c.MQCA_CONN_AUTH], c.MQIA_AUTH_INFO_TYPE: c.MQAIT_IDPW_OS}
    (found,) = execute(admin, "INQUIRE_AUTH_INFO", asked)
    assert found[c.MQIA_CHECK_CLIENT_BINDING] == codes.MQCHK_REQUIRED
