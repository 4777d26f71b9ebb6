"""Structures that other libraries wrote: read as what they were made of, in every cut located or whole."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.codecs.ibm_mq.header_chain import Data, peel
from app.codecs.ibm_mq.headers import MQDLH, MQH, MQMD1, MQMD2, MQMDE, MQRFH2, MQXQH
from app.codecs.ibm_mq.rfh import Property, RfhFolder, read_folders
from app.codecs.ibm_mq.unwrap import unwrap
from app.model.message import PhysicalMessage
from app.wire import Context, Layout, WireError
from tests.support.refusals import wire_error

FOLDER = Path(__file__).parents[2] / "vectors" / "ibm_mq"
STRUCTURES: list[dict[str, Any]] = json.loads((FOLDER / "structures.json").read_text())
CHAIN: dict[str, Any] = json.loads((FOLDER / "chain.json").read_text())
LAYOUTS: dict[str, type[Layout]] = {
    layout.__name__: layout for layout in (MQMD1, MQMD2, MQMDE, MQDLH, MQXQH, MQRFH2)
} | {"MQCIH": MQH, "MQIIH": MQH}
WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
IDS = [f"{structure['structure']} by {structure['library']}" for structure in STRUCTURES]


def order_of(raw: bytes) -> Context:
    return Context(">" if raw[4] == 0 else "<")


def given_value(layout: type[Layout], name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    raw = bytes.fromhex(value)
    initial = getattr(layout, name, "")
    return raw if isinstance(initial, bytes) else str(raw, "ascii").rstrip()


@pytest.mark.parametrize("structure", STRUCTURES, ids=IDS)
def test_rows_have_the_values_that_were_set(structure: dict[str, Any]) -> None:
    layout, raw = LAYOUTS[structure["structure"]], bytes.fromhex(structure["hex"])
    header, end = layout.decode(raw, 0, order_of(raw))
    for field, value in structure["fields"].items():
        name = WORDS.sub("_", field).lower()
        assert getattr(header, name) == given_value(layout, name, value), name
    assert end == layout.SIZE
    assert getattr(header, "struc_length", len(raw)) == len(raw)


@pytest.mark.parametrize("structure", STRUCTURES, ids=IDS)
def test_what_is_written_again_differs_in_padding_only(structure: dict[str, Any]) -> None:
    layout, raw = LAYOUTS[structure["structure"]], bytes.fromhex(structure["hex"])
    header, end = layout.decode(raw, 0, order_of(raw))
    again = header.encode(order_of(raw))
    cells = zip(layout.cells(raw, 0, order_of(raw)), layout.cells(again, 0, order_of(raw)), strict=True)
    assert all(one == other for one, other in cells)
    changed = {(one, other) for one, other in zip(raw[:end], again, strict=True) if one != other}
    assert changed <= {(0, ord(" "))}


@pytest.mark.parametrize("structure", [it for it in STRUCTURES if it["structure"] == "MQRFH2"])
def test_folders(structure: dict[str, Any]) -> None:
    raw = bytes.fromhex(structure["hex"])
    header, end = MQRFH2.decode(raw, 0, order_of(raw))
    assert list(read_folders(raw, end, len(raw), header, order_of(raw))) == [
        RfhFolder("mcd", (Property("Msd", "jms_bytes"),)),
        RfhFolder("usr", (Property("colour", "a&b"), Property("size", "42", "i4"))),
    ]


@pytest.mark.parametrize("structure", STRUCTURES, ids=IDS)
def test_a_structure_that_is_cut_names_the_row(structure: dict[str, Any]) -> None:
    layout, raw = LAYOUTS[structure["structure"]], bytes.fromhex(structure["hex"])
    for cut in range(layout.SIZE):
        with pytest.raises(WireError) as refusal:
            layout.decode(raw[:cut], 0, order_of(raw))
        assert refusal.value.at <= cut


def chained(body: bytes) -> PhysicalMessage:
    return PhysicalMessage(
        "source", "", 8, body=body, format=CHAIN["format"], encoding=CHAIN["encoding"], ccsid=CHAIN["ccsid"]
    )


def test_a_whole_chain_becomes_one_message() -> None:
    body = bytes.fromhex(CHAIN["hex"])
    message = unwrap(chained(body))
    identifier = bytes(range(1, 25))
    assert message._replace(body=bytes(message.body)) == PhysicalMessage(
        "source",
        "",
        msg_type=100001,
        correl_id=identifier[::-1],
        body=b"data",
        message_id=identifier,
        group_id=b"g" * 24,
        msg_seq_number=3,
        offset=64,
        msg_flags=10,
        original_length=32,
        encoding=546,
        ccsid=1208,
        format="MQSTR",
        put_time=1_787_394_030_400_000,
        properties={
            "mqmd.reply_to_q": "REPLY.Q",
            "mqmd.put_appl_name": "sas",
            "mqxqh.remote_q_name": "SAS.IN",
            "mqxqh.remote_q_mgr_name": "QM2",
            "mqdlh.reason": "2053",
            "mqdlh.dest_q_name": "SAS.IN",
            "mqdlh.dest_q_mgr_name": "QM1",
            "mqdlh.put_appl_type": "28",
            "mqdlh.put_appl_name": "amqrmppa",
            "mqdlh.put_date": "20260822",
            "mqdlh.put_time": "10203040",
            "mcd.Msd": "jms_bytes",
            "colour": "a&b",
            "size": "42",
        },
    )


def test_the_links_of_a_chain_lie_one_behind_the_other() -> None:
    body = bytes.fromhex(CHAIN["hex"])
    links, data = peel(body, Data(CHAIN["format"], CHAIN["encoding"], CHAIN["ccsid"]))
    assert [type(link.header) for link in links] == [MQXQH, MQMD1, MQMDE, MQDLH, MQRFH2]
    assert [link.at for link in links] == [0, 104, 428, 500, 672]
    assert [link.end for link in links[:-1]] == [link.at for link in links[1:]]
    assert data.at == links[-1].end == len(body) - 4


def test_every_cut_of_a_chain_is_a_message_or_names_its_place() -> None:
    body = bytes.fromhex(CHAIN["hex"])
    for cut in range(len(body)):
        error = wire_error(lambda cut=cut: unwrap(chained(body[:cut])))  # type: ignore[misc]
        assert error is None or error.at <= cut
        # In a later segment, less than a StrucId behind the MQMDE or the MQDLH continues a header of the first one.
        is_continued = any(at <= cut < at + 4 for at in (500, 672))
        assert (error is None) == (cut >= len(body) - 4 or is_continued)
