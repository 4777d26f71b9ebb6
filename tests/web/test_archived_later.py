"""What REST answers at a process that reads the journal in the archive, before and after it is there."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx
import pyarrow as pa
import pytest

from app.codecs.sas import correlid
from app.model.identity import attachment_id
from app.model.message import PhysicalMessage
from app.service.context import ReceiverContext
from app.service.gateway import Gateway
from app.settings import Role
from app.testing.gateway_stages import ManualClock, service_context
from app.web.app import create_app
from tests.support.host import SOURCE, Host
from tests.support.mq_client import segmented
from tests.support.roles import archive_of
from tests.support.sas_client import Attached, binary_file, data_set
from tests.web.stock import serving

ROWS = pa.table({"N": [float(number) for number in range(30_000)]})
DATA = Random(7).randbytes(200_000)
LATER: dict[str, str] = {"partial": "true"}


class Serving(NamedTuple):
    """A host that receives, and a client of another process, which serves."""

    host: Host
    context: ReceiverContext
    http: httpx.Client

    def get(self, path: str, **query: str) -> httpx.Response:
        return self.http.get(f"/v1{path}", params=query)

    def begun(self, attached: Attached) -> list[PhysicalMessage]:
        """Receive a header without parts. Return the rest: the parts, then the count."""
        header, *rest = self.host.messages(attached)
        self.host.receive([header])
        return [each for each in rest if correlid.split(each.correl_id)[0] == attached.definition.correl_id]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Serving]:
    clock = ManualClock()
    with service_context(tmp_path, clock, segment_bytes=1 << 30) as context:
        host = Host(context, clock)
        made = Gateway(archive_of(context, frozenset({Role.SERVE})), {}, {})
        with serving(create_app(made)) as address, httpx.Client(base_url=address, timeout=30) as http:
            yield Serving(host, context, http)


def path_of(attached: Attached) -> str:
    return f"/attachments/{attachment_id(SOURCE, attached.definition.correl_id)}"


def record_size(host: Host) -> int:
    """Return the size of the records of a binary file; the first part describes them, each other has one."""
    return host.program.body_limit - host.program.dialect.long - 1


def assert_later(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/unavailable"), answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert "archive" in answer.json()["detail"]


def test_whatever_reads_bodies_says_to_try_again_until_they_are_archived(process: Serving) -> None:
    host, get = process.host, process.get
    whole, half = binary_file(host.program, "a.bin", DATA), binary_file(host.program, "b.bin", DATA)
    rows = data_set(host.program, "WORK", "ROWS", ROWS)
    [header, *sent] = host.messages(whole)
    host.receive([header, *sent])
    message_id = host.record(whole).message_id
    host.receive(process.begun(half)[:3])
    host.receive(process.begun(rows)[:3])
    host.poison(bytes(9_000))
    entry = f"/quarantine/{host.entries()[0].id}"
    position = f"{host.record(half).last_position:016x}"
    bodies: dict[tuple[str, ...], dict[str, str]] = {
        (path_of(whole), "/content"): {},
        (path_of(half), "/content"): LATER,
        (path_of(rows), "/content"): LATER,
        (path_of(rows), "/rows"): LATER,
        (path_of(whole), "/physical-messages"): {},
        (path_of(half), "/physical-messages"): {},
        (path_of(half), "/physical-messages/", position): {},
        (path_of(half), "/physical-messages/", position, "/trace"): {},
        (f"/messages/{message_id}", "/content"): {},
        (entry, "/body"): {},
        (entry, "/trace"): {},
    }
    for names, query in bodies.items():
        assert_later(get("".join(names), **query))
    for path in (path_of(half), f"{path_of(half)}/parts", f"{path_of(half)}/timeline", entry):
        assert get(path).status_code == 200
    assert get(entry).json()["preview"] is None
    assert {run["first_received_at"] for run in get(f"{path_of(half)}/parts").json()["runs"]} == {None}
    process.context.journal.seal()
    for names, query in bodies.items():
        assert get("".join(names), **query).status_code in (200, 206), names
    assert get(f"{path_of(whole)}/content").content == DATA
    assert get(f"{path_of(half)}/content", **LATER).content == DATA[: 2 * record_size(host)]
    assert get(entry).json()["preview"] == "00" * 256
    assert get(f"{path_of(half)}/parts").json()["runs"][0]["first_received_at"] is not None


def test_what_is_archived_can_be_read_while_more_arrives(process: Serving) -> None:
    host, get = process.host, process.get
    half, rows = binary_file(host.program, "b.bin", DATA), data_set(host.program, "WORK", "ROWS", ROWS)
    parts, observations = process.begun(half), process.begun(rows)
    host.receive([*parts[:2], *observations[:4]])
    process.context.journal.seal()
    host.receive([*parts[2:4], *observations[4:6]])
    path, size = path_of(half), record_size(host)

    answer = get(f"{path}/content", **LATER)
    assert (answer.status_code, answer.content, answer.headers["Missing-Parts"]) == (206, DATA[:size], "3-")
    ranged = {"Range": f"bytes={size}-"}
    assert_later(process.http.get(f"/v1{path}/content", params=LATER, headers=ranged))
    page = get(f"{path_of(rows)}/rows", **LATER).json()
    assert (page["rows"][0], page["has_more"]) == ([0.0], True)

    listed = get(f"{path}/physical-messages").json()
    assert ([each["sequence"] for each in listed["items"]], listed["gone"]) == ([None, 1, 2], False)
    assert_later(get(f"{path}/physical-messages", cursor=listed["next"]))
    process.context.journal.seal()
    assert process.http.get(f"/v1{path}/content", params=LATER, headers=ranged).content == DATA[size : 3 * size]
    following = get(f"{path}/physical-messages", cursor=listed["next"]).json()
    assert ([each["sequence"] for each in following["items"]], following["next"]) == ([3, 4], None)


def test_no_answer_begins_that_cannot_end(process: Serving) -> None:
    """A file of which the last parts are not archived."""
    host = process.host
    large = binary_file(host.program, "a.bin", Random(3).randbytes(14_000_000))
    [header, *sent] = host.messages(large)
    host.receive([header, *sent[:400]])
    process.context.journal.seal()
    host.receive(sent[400:])
    record = host.record(large)
    assert record.storage == "journal"
    for path in (f"{path_of(large)}/content", f"/messages/{record.message_id}/content"):
        assert_later(process.get(path))
    process.context.journal.seal()
    assert process.get(f"{path_of(large)}/content").content == large.content


def test_groups(process: Serving) -> None:
    host = process.host
    sent = segmented(Random(2), [bytes([number]) * 1_000 for number in range(5)])
    named = [each._replace(source=SOURCE, received_at=host.clock.now()) for each in sent.messages]
    host.receive(named[:2])
    process.context.journal.seal()
    host.receive(named[2:4])
    path = f"/attachments/{attachment_id(SOURCE, sent.identifier)}"

    def progress() -> Any:
        return process.get(path).json()["progress"]["missing_parts"]

    assert progress() is None
    answer = process.get(f"{path}/content", **LATER)
    assert (answer.status_code, len(answer.content), answer.headers["Missing-Parts"]) == (206, 2_000, "1-")
    refused = process.get(f"{path}/content")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/not-ready")
    process.context.journal.seal()
    assert progress() == [[1, 1]]
    assert len(process.get(f"{path}/content", **LATER).content) == 4_000
