"""The senders of these tests share no code with the product, and write what others have written, byte for byte."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.senders import sas_rendezvous
from tests.evidence.senders.order_packets import number

SENDERS = sorted((Path(__file__).parent / "senders").glob("*.py"))
VECTORS = Path(__file__).parents[1] / "vectors"


@pytest.mark.parametrize("path", SENDERS, ids=lambda path: path.name)
def test_senders_import_nothing_of_the_product(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [each for each in imported if each.split(".")[0] in ("app", "adapters")] == []
    assert [each for each in imported if each.startswith("tests.") and ".evidence.senders" not in each] == []


@pytest.mark.parametrize("name", ["hdr", "dat", "var", "ato", "fdc", "atx", "atb", "lst"])
def test_rendezvous_messages_are_those_of_another_library(name: str) -> None:
    vector = json.loads((VECTORS / "rendezvous" / f"rv_{name}.json").read_text())
    fields = [field for each in vector["fields"] for field in _field(each)]
    assert [each["id"] for each in vector["fields"]] == [*range(1, len(fields) + 1)]
    assert sas_rendezvous.message(name.upper(), fields).hex() == vector["hex"]


def _field(said: dict[str, Any]) -> list[sas_rendezvous.Field]:
    match said["type"]:
        case "STRING":
            return sas_rendezvous.string(said["value"].encode("latin-1"))
        case "OPAQUE":
            return sas_rendezvous.opaque(bytes.fromhex(said["value_hex"]))
        case "F64":
            return sas_rendezvous.f64(said["value"])
        case "I16":
            return sas_rendezvous.i16(said["value"])
        case "U32":
            return sas_rendezvous.u32(said["value"])
    return sas_rendezvous.i32(said["value"])


def test_numbers_of_order_packets_are_those_of_a_kernel() -> None:
    vectors = json.loads((VECTORS / "sapdb" / "sapdb_vdn_kernel.json").read_text())["vectors"]
    whole = [each for each in vectors if each["result"] == "num_ok" and each["value"].lstrip("-").isdecimal()]
    whole = [each for each in whole if len(each["value"].lstrip("-").lstrip("0")) <= each["length"]]
    assert len(whole) > 20
    for each in whole:
        assert number(int(each["value"]), each["length"]).hex() == each["hex"], each
