"""`trace`: decode captured bytes field by field. It needs no gateway."""

import json
import re
import sys
from collections.abc import Iterator
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.cells import cell_len, set_cell_size

from app.capture.capture_entries import BoundedLine, lines
from app.capture.hexadecimal import CapturedBytes, capture
from app.cli.terminal import FAILED, Failure, err, out
from app.trace import FORMATS, Frame, Hints, explain

_SHOWN = 24
"""Maximum bytes of a value in the output for people."""

_NAME, _NAME_LEAST, _WIDE = 46, 16, 100
"""Width of the names of cells, their least width, and the width of a terminal that needs no cutting."""

_DIRECTED: Final = re.compile(rb"\s*(REQUEST|RECEIVE)(?=\s)")
"""The word that may precede an order packet."""

_DIRECTIONS: Final = {b"REQUEST": Hints(direction="REQUEST"), b"RECEIVE": Hints(direction="RECEIVE"), b"": Hints()}


def trace(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="File with captured bytes, or - for standard input.")],
    *,
    as_format: Annotated[
        str | None, typer.Option("--as", metavar="FORMAT", help="Format of the bytes: " + ", ".join(FORMATS) + ".")
    ] = None,
    as_hex: Annotated[bool, typer.Option("--hex", help="FILE has hexadecimal digits, one capture per line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per frame.")] = False,
) -> None:
    """Decode captured bytes of MQ, SAS attachment messages, MQTT, Rendezvous and the SAP DB order interface.

    Order packets are printed as the text of a kernel's vtrace. With --as order-packet --hex, a line may begin with
    REQUEST or RECEIVE.
    """
    if as_format is not None and as_format not in FORMATS:
        raise Failure(f"unknown format {as_format!r}", "known formats: " + ", ".join(FORMATS))
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from error
    if not content:
        raise Failure("nothing to decode: the input is empty")
    refused = printed = 0
    for line in lines(BytesIO(content)) if as_hex else [BoundedLine(0, content)]:
        try:
            word, rest = _direction(line) if as_hex and as_format == "order-packet" else (b"", line)
            found = capture(rest) if as_hex else CapturedBytes(line.number, content)
            frames = explain(found.data, as_format, _DIRECTIONS[word]) if found else []
        except ValueError as error:
            where = f"line {line.number}: " if as_hex else ""
            err.print(f"{where}{error}", markup=False, highlight=False, soft_wrap=True)
            refused += 1
            continue
        for frame in frames:
            _print(frame, line.number, as_json=as_json, is_first=not printed)
            printed += 1
    if refused:
        raise typer.Exit(FAILED)


def _direction(line: BoundedLine) -> tuple[bytes, BoundedLine]:
    """Return the word before a packet, and the line with blanks in its place."""
    found = _DIRECTED.match(line.content)
    if found is None:
        return b"", line
    return found[1], line._replace(content=b" " * found.end() + line.content[found.end() :])


def _print(frame: Frame, line: int, *, as_json: bool, is_first: bool) -> None:
    if as_json:
        cells = [{"offset": cell.at, "size": cell.size, "name": cell.name, "value": cell.value} for cell in frame.cells]
        result: dict[str, Any] = {"line": line} if line else {}
        result |= {"format": frame.format, "offset": frame.offset, "note": frame.note, "cells": cells, **frame.decoded}
        typer.echo(json.dumps(result, ensure_ascii=False, default=bytes.hex))
    elif text := frame.decoded.get("trace"):
        typer.echo("\n" * (not is_first) + "\n".join(text))
    else:
        for each in frame_lines(frame, line, out.width):
            typer.echo(each)


def frame_lines(frame: Frame, line: int, room: int) -> Iterator[str]:
    """Yield a frame and its cells as lines, of at most `room` characters a cell."""
    where = f"line {line}, byte {frame.offset}" if line else f"byte {frame.offset}"
    yield f"{frame.format} at {where}" + (f"  ({frame.note})" if frame.note else "")
    for cell in frame.cells:
        # In a narrow terminal, the beginning of the name and the end of the value are cut.
        name, wide = cell.name, _NAME if room >= _WIDE else max(_NAME_LEAST, room // 2 - 16)
        if len(name) > wide and room < _WIDE:
            name = "…" + name[len(name) - wide + 1 :]
        shown = f"{cell.at:8d} {cell.size:6d}  {name:{wide}} {_shown(cell.value)}"
        fits = cell_len(shown) <= room
        yield shown if fits else set_cell_size(shown, room - 1).rstrip() + "…"


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        more = f" and {len(value) - _SHOWN:,} bytes more" if len(value) > _SHOWN else ""
        return value[:_SHOWN].hex().upper() + more
    if isinstance(value, Enum):
        return f"{value.value} {value.name}"
    return repr(value) if isinstance(value, str) else str(value)
