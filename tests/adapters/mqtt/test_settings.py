"""What the configuration may say of MQTT, and what it is told when it may not."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from adapters import mqtt
from adapters.mqtt.settings import DestinationSettings, SourceSettings
from app.framing.registry import traits

MINIMAL = {"url": "mqtt://broker", "topic": "sas/attachments"}


def test_little_needs_to_be_said() -> None:
    source = SourceSettings.model_validate(MINIMAL)
    assert (source.host, source.port, source.is_tls) == ("broker", 1883, False)
    assert (source.topic, source.qos, source.version, source.retained) == (["sas/attachments"], 1, "auto", "accept")
    assert SourceSettings.model_validate({**MINIMAL, "url": "mqtts://broker"}).port == 8883
    assert SourceSettings.model_validate({**MINIMAL, "url": "mqtt://[::1]:1884"}).host == "::1"
    assert DestinationSettings.model_validate(MINIMAL).qos == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"url": "http://broker"}, "write mqtt://host:1883"),
        ({"url": "broker:1883"}, "write mqtt://host:1883"),
        ({"url": "mqtt://"}, "write mqtt://host:1883"),
        ({"url": "mqtt://broker/topic"}, "write mqtt://host:1883"),
        ({"url": "mqtt://me:secret@broker"}, "separate settings"),
        ({"url": "mqtt://broker:99999"}, "[Pp]ort"),
        ({"topic": ""}, "1 to 65,535"),
        ({"topic": []}, "at least 1"),
        ({"topic": "a/#/b"}, "# stands alone"),
        ({"topic": "a#"}, "# stands alone"),
        ({"topic": "a+/b"}, "[+] stands alone"),
        ({"qos": 3}, "0, 1 or 2"),
        ({"version": "3.1"}, "'5', '3.1.1' or 'auto'"),
        ({"ca_file": "/etc/hostname"}, "need a url of mqtts"),
        ({"url": "mqtts://broker", "ca_file": "/no/such"}, "there is no file"),
        ({"url": "mqtts://broker", "cert_file": "/etc/hostname"}, "come together"),
        ({"password": "secret"}, "needs a username"),
        ({"receive_maximum": 0}, "greater than or equal to 1"),
        ({"retained": "maybe"}, "'accept' or 'ignore'"),
        ({"topics": "a"}, "Extra inputs"),
    ],
)
def test_what_a_source_may_not_say(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why) as refusal:
        SourceSettings.model_validate({**MINIMAL, **change})
    assert "'secret'" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"topic": "a/+"}, "wildcards"),
        ({"topic": "a/#"}, "wildcards"),
        ({"qos": 0}, "1 or 2"),
        ({"max_inflight": 0}, "greater than or equal to 1"),
        ({"retained": "accept"}, "Extra inputs"),
    ],
)
def test_what_a_destination_may_not_say(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        DestinationSettings.model_validate({**MINIMAL, **change})


def test_sources_of_different_names_have_sessions_of_their_own(tmp_path: Path) -> None:
    settings = mqtt.plugin.source_settings.model_validate(MINIMAL)
    status = mqtt.plugin.receiver("one", traits("sas_queue"), settings).status()
    assert status == {
        "connected": False,
        "since": None,
        "error": None,
        "broker": "broker:1883",
        "unacknowledged": 0,
        "credential": "password",
        "refused_since": None,
    }
