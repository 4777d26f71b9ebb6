"""The client library's structures have the sizes that pymqi and ibmmq reckon with, and so have the server's."""

import subprocess
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.queue_manager.build import SOURCES
from tests.queue_manager.server import structures
from tests.support.mqi import Library, load

pytestmark = pytest.mark.process

VERSIONS: dict[str, list[str | None]] = {
    "MQMD": ["GroupId", None],
    "MQGMO": ["MatchOptions", "MsgToken", "Reserved2", None],
    "MQPMO": ["RecsPresent", "OriginalMsgHandle", None],
    "MQOD": ["RecsPresent", "AlternateSecurityId", "ObjectString", None],
    "MQCNO": ["ClientConnOffset", "ConnTag", "SSLConfigPtr", "ConnectionId", "CCDTUrlPtr", "ApplName", None],
    "MQCSP": ["Reserved3", "Reserved4", None],
    "MQSCO": ["KeyResetCount", "EncryptionPolicySuiteB", "CertificateValPolicy", "CertificateLabel", None],
    "MQSD": [None],
    "MQSRO": [None],
    "MQCMHO": [None],
    "MQSMPO": [None],
    "MQIMPO": [None],
    "MQPD": [None],
    "MQBO": [None],
    "MQCD": [
        "UserIdentifier",
        "MsgRetryExit",
        "HeartbeatInterval",
        "ClusterPtr",
        "LongMCAUserIdLength",
        "SSLCipherSpec",
        "HdrCompList",
        "SharingConversations",
        "BatchDataLimit",
        "CertificateLabel",
        "SPLProtection",
        None,
    ],
}
"""By structure, the first field that each version of it lacks; None where it is all there."""

SERVER: dict[str, type[structures.Structure]] = {
    "MQMD": structures.MessageDescriptor,
    "MQGMO": structures.GetOptions,
    "MQPMO": structures.PutOptions,
    "MQMDE": structures.DescriptorExtension,
    "MQDLH": structures.DeadLetterHeader,
}


@lru_cache
def compiled() -> dict[str, int]:
    """What the C compiler makes of the declarations: lengths by the names of their constants."""
    places = [
        (f"{name}_LENGTH_{version}", f"offsetof({name}, {field})" if field else f"sizeof({name})")
        for name, fields in VERSIONS.items()
        for version, field in enumerate(fields, 1)
    ]
    prints = "".join(f'printf("{name} %zu\\n", {place});' for name, place in places)
    includes = "".join(f"#include <{header}>\n" for header in ("stddef.h", "stdio.h", "cmqc.h", "cmqxc.h"))
    with TemporaryDirectory() as folder:
        source, program = Path(folder, "lengths.c"), Path(folder, "lengths")
        source.write_text(f"{includes}int main(void) {{ {prints} return 0; }}\n")
        subprocess.run(["gcc", "-I", SOURCES / "include", "-o", program, source], check=True)
        lines = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return {name: int(length) for name, length in map(str.split, lines)}


def padded(length: int) -> int:
    """Where a version ends in the middle of eight bytes, a pointer in it makes it fill them."""
    return -(-length // 8) * 8


@pytest.mark.parametrize("library", ["pymqi", "ibmmq"])
def test_structures_have_the_lengths_of_the_reference(library: Library) -> None:
    package = load(library)
    known = vars(package.CMQC) | vars(package.CMQXC)
    differing = {
        name: (length, known[name])
        for name, length in compiled().items()
        if name in known and known[name] not in (length, padded(length))
    }
    assert differing == {}
    assert len(compiled().keys() & known.keys()) > 30


@pytest.mark.parametrize("name", SERVER)
@pytest.mark.parametrize("library", ["pymqi", "ibmmq"])
def test_the_server_knows_the_same_lengths(library: Library, name: str) -> None:
    assert getattr(load(library).CMQC, f"{name}_CURRENT_LENGTH") == SERVER[name].SIZE


@pytest.mark.parametrize("library", ["pymqi", "ibmmq"])
def test_the_transmission_header_ends_with_a_descriptor(library: Library) -> None:
    length: int = load(library).CMQC.MQXQH_LENGTH_1
    assert length == structures.TransmissionHeader.SIZE + structures.MQMD_LENGTH_1
