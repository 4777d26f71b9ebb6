"""The arguments of MQCONNX, from the settings of a connection."""

import os
from ctypes import addressof, create_string_buffer
from typing import Any

from adapters.connections import LogIn
from adapters.ibm_mq.constants import (
    MAX_MSG_LENGTH,
    MQCD_VERSION_7,
    MQCNO_HANDLE_SHARE_BLOCK,
    MQCNO_RECONNECT_DISABLED,
    MQCNO_VERSION_7,
    MQSCO_VERSION_6,
)
from adapters.ibm_mq.settings import ConnectionSettings

_OPTIONS = MQCNO_HANDLE_SHARE_BLOCK | MQCNO_RECONNECT_DISABLED
_ONLY_IBMMQ = ("application_name", "token", "key_repository_password")
"""Settings that pymqi's structures have no fields for."""
_APPLICATION_NAME = "attachment-gateway"
_NAME_OF_PROCESS = "MQAPPLNAME"
"""The environment variable that names the connections of a process (IBM MQ 9.1.2)."""


def unknown_to(library: Any, settings: ConnectionSettings) -> list[str]:
    """Return the settings that this client library cannot pass on."""
    if hasattr(library, "CNO"):
        return []
    return [name for name in _ONLY_IBMMQ if getattr(settings, name) is not None]


def log_in(settings: ConnectionSettings) -> LogIn:
    """Return the credentials of connections with these settings."""
    return LogIn(
        password=settings.password,
        token=settings.token,
        user=settings.user,
        key_repository_password=settings.key_repository_password,
    )


def connect_options(library: Any, settings: ConnectionSettings) -> dict[str, Any]:
    """Return the arguments of MQCONNX that the settings give. The client library's environment gives the others.

    Credentials in files are read anew each time.
    """
    options: dict[str, Any] = {"opts": _OPTIONS}
    if not hasattr(library, "CNO"):
        os.environ.setdefault(_NAME_OF_PROCESS, _APPLICATION_NAME)
    elif settings.application_name is not None or _NAME_OF_PROCESS not in os.environ:
        name = settings.application_name or _APPLICATION_NAME
        options["cno"] = library.CNO(Version=MQCNO_VERSION_7, Options=_OPTIONS, ApplName=name.encode())
    if settings.token is not None:
        options["token"] = settings.token.get_secret_value()
    elif settings.user is not None and settings.password is not None:
        options |= {"user": settings.user.current, "password": settings.password.get_secret_value()}
    if settings.channel is not None and settings.connection is not None:
        options["cd"] = _channel(library, settings)
    if settings.cipher_spec is not None:
        options["sco"] = security = library.SCO()
        security.KeyRepository = str(settings.key_repository or "").encode()
        security.CertificateLabel = (settings.certificate_label or "").encode()
        if settings.key_repository_password is not None:
            security.KeyRepoPassword = settings.key_repository_password.get_secret_value()
            security.Version = max(security.Version, MQSCO_VERSION_6)
    return options


def _channel(library: Any, settings: ConnectionSettings) -> Any:
    assert settings.channel is not None
    assert settings.connection is not None
    channel = library.CD(
        ChannelName=settings.channel.encode(),
        ConnectionName=settings.connection.encode(),
        MaxMsgLength=MAX_MSG_LENGTH,
        HeartbeatInterval=settings.heartbeat_interval,
        SSLCipherSpec=(settings.cipher_spec or "").encode(),
    )
    if settings.ssl_peer_name is not None:
        name = settings.ssl_peer_name.encode()
        if hasattr(library, "CNO"):
            channel.SSLPeerNamePtr = name
        else:
            # pymqi has an address in this field. The buffer that it points to lives as long as the structure.
            channel.ssl_peer_name = create_string_buffer(name)
            channel.SSLPeerNamePtr, channel.SSLPeerNameLength = addressof(channel.ssl_peer_name), len(name)
            channel.Version = max(channel.Version, MQCD_VERSION_7)
    return channel
