"""Attachments of every kind and size, as programs send them."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.model.attachment import AttachmentKind
from app.model.message import PhysicalMessage
from app.testing.waiting import until
from tests.support.gateway import GatewayProcess
from tests.support.sas_client import Attached, Program, binary_file, data_set, message, text_file

NAMES = (
    "d:\\mytext.txt",
    "отчёт.csv",
    "報告書 (最終).bin",
    "تقرير.dat",
    "naïve café.txt",
    "../../etc/passwd",
    "-",
    "a b;c",
)
CHECKED_TOGETHER = 8
SIZES = (0, 1, 2, 31_995, 31_996, 32_000, 32_767, 65_536, 100_000)


def table(program: Program, rows: int) -> pa.Table:
    """Return a table of numbers and texts, some missing."""
    numbers = np.random.default_rng(program.random.getrandbits(32))
    texts = ["", "Ada", "Grace Brewster", "naïve", "O'Neill"]
    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.float64)),
            "value": pa.array(numbers.normal(size=rows), mask=numbers.random(rows) < 0.1),
            "name": pa.array([texts[n] for n in numbers.integers(0, len(texts), rows)]),
        }
    )


def mixed(program: Program, count: int) -> list[Attached]:
    """Return this number of attachments: binary files, text files and data sets in turn, of changing size."""
    random = program.random
    names = [name for name in NAMES if _fits(name, program.charset)]
    made: list[Attached] = []
    for number in range(count):
        name = names[number % len(names)]
        size = SIZES[number // 3 % len(SIZES)]
        if number % 3 == 0:
            made.append(binary_file(program, name, random.randbytes(size), f"file {number}"))
        elif number % 3 == 1:
            lines = [bytes(random.choices(b"abc \xc3\xa4\t,;", k=random.randrange(120))) for _ in range(size // 60)]
            made.append(text_file(program, name, b"\n".join(lines) + random.choice([b"\n", b""]), f"file {number}"))
        else:
            made.append(data_set(program, "WORK", f"T{number}", table(program, size // 30)))
    return made


def _fits(name: str, charset: str) -> bool:
    try:
        name.encode(charset)
    except UnicodeEncodeError:
        return False
    return True


def messages(program: Program, attachments: Sequence[Attached]) -> list[PhysicalMessage]:
    """Return the attachments' physical messages, with one to three attachments in a message."""
    sent: list[PhysicalMessage] = []
    at = 0
    while at < len(attachments):
        together = 1 + at % 3
        sent += message(program, attachments[at : at + together])
        at += together
    return sent


def await_finished(process: GatewayProcess, count: int, timeout: float = 120, **which: str) -> list[dict[str, Any]]:
    """Return the attachments when `count` of them are finished, of those `which` the filters choose."""

    def finished() -> list[dict[str, Any]]:
        if process.samples().total("quarantined_total"):
            raise AssertionError(process.listing("/v1/quarantine"))
        if process.client.get("/health/live").status_code != 200:
            raise AssertionError(f"the gateway is not live:\n{process.log[-4000:]}")
        found = process.listing("/v1/attachments", state="finished", **which)
        return found if len(found) >= count else []

    return until(finished, timeout, pause=0.2)


def assert_received(
    process: GatewayProcess, attachments: Iterable[Attached], timeout: float = 120, **which: str
) -> None:
    """Assert that each attachment is received once and unchanged, and nothing else is, of those `which` the filters
    choose."""
    sent = {attached.definition.correl_id.hex(): attached for attached in attachments}
    await_finished(process, len(sent), timeout, **which)
    received = process.listing("/v1/attachments", **which)
    assert sorted(item["correl_id"] for item in received) == sorted(sent)

    def check(item: dict[str, Any]) -> None:
        attached = sent[item["correl_id"]]
        assert item["state"] == "finished", item
        assert (item["name"], item["description"]) == (attached.definition.qualifier_2, attached.definition.description)
        if attached.definition.kind is AttachmentKind.DATA_SET:
            assert_same_table(process.client, item, attached.content)
        else:
            assert (item["size"], item["sha256"]) == (len(attached.content), attached.sha256), item
            answer = process.client.get(f"/v1/attachments/{item['id']}/content")
            assert answer.status_code == 200, answer.text
            assert answer.content == attached.content

    check_each(check, received)
    process.until(lambda: all(item["complete_at"] for item in process.listing("/v1/messages")))
    assert process.listing("/v1/quarantine") == []


def check_each(check: Callable[[dict[str, Any]], None], items: Iterable[dict[str, Any]]) -> None:
    """Check items in several threads, since a store may take long to answer. Raise what the first of them raises."""
    with ThreadPoolExecutor(CHECKED_TOGETHER) as checking:
        for _ in checking.map(check, items):
            pass


def assert_same_table(client: httpx.Client, item: dict[str, Any], sent: pa.Table) -> None:
    content = (
        client.get(f"/v1/attachments/{item['id']}/content", params={"format": "parquet"}).raise_for_status().content
    )
    read = pq.read_table(BytesIO(content))
    assert read.to_pydict() == sent.to_pydict()
    assert item["observations"] == sent.num_rows
