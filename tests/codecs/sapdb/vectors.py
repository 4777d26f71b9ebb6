"""The packets of the vectors."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path("tests/vectors/sapdb")


def load(name: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((FOLDER / f"sapdb_{name}.json").read_text())["vectors"]
    return vectors


KERNEL = {vector["name"]: vector for vector in load("kernel_packets")}
DIRECT = {vector["name"]: vector for vector in load("jdbc_direct")}
WIRE = {f"wire_{vector['index']}": vector for vector in load("jdbc_wire_fixed") if vector["decoded"]}
NO_PACKETS = [bytes.fromhex(vector["hex"]) for vector in load("jdbc_wire_fixed") if not vector["decoded"]]
"""What the driver sends before its first packet."""

ALL = KERNEL | DIRECT | WIRE
PACKETS = {name: bytes.fromhex(vector["hex"]) for name, vector in ALL.items()}
