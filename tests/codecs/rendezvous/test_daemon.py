"""What a client says to a daemon, byte for byte as a recorded one said it, and what it understands of the answers."""

import json
from pathlib import Path
from random import Random

import pytest

from app.codecs.rendezvous import daemon
from app.codecs.rendezvous.daemon import DaemonMessageKind, DaemonRefused
from app.codecs.rendezvous.subjects import checked_subject
from app.codecs.rendezvous.tibrv_message import Field, encode_message
from app.wire import WireError

RECORDED = json.loads(Path("tests/vectors/rendezvous/rvwire_session.json").read_text())["frames"]
SAID = [bytes.fromhex(frame["hex"]) for frame in RECORDED if "hex" in frame]
SESSION = "7F000001.660C7BDD7903C"


def test_a_client_says_what_the_recorded_one_said() -> None:
    said = [
        daemon.VERSION,
        daemon.RESPONSE,
        daemon.initialise("nobody", "7500", "127.0.0.1"),
        daemon.initialise("nobody", "7500", "127.0.0.1", SESSION),
        daemon.listen(daemon.inbox(SESSION, ">")),
        *(daemon.listen(subject) for subject in ("CMI.*.X", "CMI.TEST.>", "CMI.REQ")),
        daemon.cancel("CMI.*.X"),
    ]
    for each in said:
        assert each in SAID


def test_publications_are_as_recorded() -> None:
    found = 0
    for frame in SAID:
        if (
            frame[4:8] != daemon.PING[4:8]
            or (read := daemon.read_frame(frame)).kind != DaemonMessageKind.DATA
            or not read.data
        ):
            continue
        head = daemon.publish_head(read.subject, read.reply)
        assert b"".join(map(bytes, daemon.publish(head, read.data, is_message=read.is_message))) == frame
        found += 1
    assert found >= 8


def test_the_daemons_answers_are_understood() -> None:
    answers = [daemon.read_frame(frame) for frame in SAID if b"INITRESP" in frame]
    told = daemon.agreement(answers[0])
    assert told == ("127.0.0.1", "660C7BDD789F4")
    assert daemon.session_name(told.address, "1F") == "7F000001.1F"
    connected = next(daemon.read_frame(frame) for frame in SAID if b"ADV_NAME" in frame)
    assert connected.subject == daemon.CONNECTED
    assert daemon.advisory(connected) == {"ADV_CLASS": "INFO", "ADV_SOURCE": "SYSTEM", "ADV_NAME": "RVD.CONNECTED"}


@pytest.mark.parametrize(("error", "why"), [(5, "with another network"), (18, "no service number"), (77, "error 77")])
def test_a_refusal_says_why(error: int, why: str) -> None:
    frame = [
        Field("sub", 0, "SUBJECT", "RVD.INITREFUSED"),
        Field("mtype", 0, "STRING", "R"),
        Field("data", 0, "MSG", (Field("error", 0, "I32", error),)),
    ]
    with pytest.raises(DaemonRefused, match=why):
        daemon.agreement(daemon.read_frame(encode_message(frame)))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (Field("data", 0, "OPAQUE", b"\0\1"), b"\0\1"),
        (Field("data", 0, "STRING", "text"), b"text"),
        (Field("data", 0, "STRING", "text", b"text"), b"text"),
        (Field("other", 0, "STRING", "text"), b""),
    ],
)
def test_data_of_other_formats_are_their_bytes(data: Field, expected: bytes) -> None:
    read = daemon.read_frame(
        encode_message([data, Field("mtype", 0, "STRING", "D"), Field("sub", 0, "SUBJECT", "A.B")])
    )
    assert (read.kind, read.subject, bytes(read.data), read.is_message) == ("D", "A.B", expected, False)


def test_large_opaque_data_are_published() -> None:
    for size in (0, 119, 120, 29_999, 30_000, 1 << 20):
        frame = b"".join(map(bytes, daemon.publish(daemon.publish_head("A"), bytes(size), is_message=False)))
        read = daemon.read_frame(frame)
        assert (len(read.data), read.is_message, read.reply) == (size, False, None)


def test_cuts_and_mutations_give_a_frame_or_our_error() -> None:
    random = Random(13)
    frames = [frame for frame in SAID if frame[4:8] == daemon.PING[4:8]]
    for frame in frames:
        for end in range(len(frame)):
            with pytest.raises(WireError):
                daemon.read_frame(frame[:end])
    for _ in range(10_000):
        data = bytearray(random.choice(frames))
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            read = daemon.read_frame(bytes(data))
            daemon.advisory(read)
            daemon.agreement(read)
        except (WireError, DaemonRefused):
            pass


@pytest.mark.parametrize("subject", ["A", "A.B", "_INBOX.7F000001.1.1", "A.b-c$.X_1"])
def test_subjects_that_may_be_published_on(subject: str) -> None:
    assert checked_subject(subject) == checked_subject(subject, wildcards=True) == subject


@pytest.mark.parametrize(
    "subject", ["", ".", "A.", "A..B", ".A", "A B", "A.\u00e9", "A\n", "x" * 128, "A." * 127 + "AA"]
)
def test_subjects_that_nobody_may_use(subject: str) -> None:
    for wildcards in (False, True):
        with pytest.raises(ValueError, match="a subject has"):
            checked_subject(subject, wildcards=wildcards)


@pytest.mark.parametrize("subject", ["A.*", "*.B", "A.>", ">", "*.*.>"])
def test_wildcards_are_for_listening(subject: str) -> None:
    assert checked_subject(subject, wildcards=True) == subject
    with pytest.raises(ValueError, match="one cannot publish"):
        checked_subject(subject)


@pytest.mark.parametrize("subject", ["A.B*", "A.>.C", "A>", "A.B>"])
def test_wildcards_stand_alone(subject: str) -> None:
    with pytest.raises(ValueError, match="stands alone"):
        checked_subject(subject, wildcards=True)
