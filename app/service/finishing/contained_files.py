"""The files of an attachment's content, one after the other: their bytes, their sizes, and what their sender announced.

Most attachments are one file. Where a framing finds several, each has an announcement of its own, with which it is
compared, and its own last line. The catalog then has the place of each in the content (`ContainedFile`).
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from app.codecs.sas.file_messages import FileDescription, RecordTotals
from app.framing.protocol import Body, FileContent
from app.framing.sas_evidence import Evidence
from app.model.evidence import Choice, OnDoubt
from app.model.records import ContainedFile
from app.service.finishing.content_evidence import LINE_END, last_line_end
from app.service.finishing.media_types import announced


class FoundFile(NamedTuple):
    """A file that was read: its announcement, its records, its bytes with line ends, and whether its last line has
    one."""

    description: FileDescription | None
    tally: RecordTotals
    size: int
    line_end: Choice | None = None


def content_pieces(content: FileContent, line_end: bytes, found: list[FoundFile]) -> Iterator[Body]:
    """Yield the bytes of all files: their records, joined or as lines. Each file is added to `found` after its bytes.

    The last line of a file gets a line end, unless the file without it has the announced size.
    """
    for description, spans in content.described():
        tally = RecordTotals()
        between, length, is_between = b"", 0, True
        for _, _, data, ends in spans:
            if between and is_between:
                yield between
            yield data
            length += len(data)
            is_between = ends
            if ends:
                tally.add(length)
                between, length = line_end, 0
        size = tally.size + len(line_end) * max(tally.count - 1, 0)
        choice = None
        if content.of_lines and tally.count and is_between:
            choice = last_line_end(size, len(line_end), description and description.filesize)
            if choice.reading == LINE_END:
                yield line_end
                size += len(line_end)
        found.append(FoundFile(description, tally, size, choice))


def described_files(found: Sequence[FoundFile], on_doubt: OnDoubt, *, of_lines: bool = False) -> dict[str, Any]:
    """Return the fields of `Finished` for what the sender announced of each file. Raises as `announced`."""
    if len(found) == 1:
        return announced(found[0].description, found[0].tally, on_doubt, of_lines=of_lines)
    warnings: list[str] = []
    for number, each in enumerate(found, 1):
        which = f"file {number} of {len(found)}: "
        facts = announced(each.description, each.tally, on_doubt, of_lines=of_lines, which=which)
        warnings += facts.get("warnings", ())
    offsets = accumulate((each.size for each in found), initial=0)
    files = tuple(
        ContainedFile(offset, each.size, *(each.description or (0, 0)))
        for offset, each in zip(offsets, found, strict=False)
    )
    return {"files": files, "warnings": tuple(warnings)}


def last_line_ends(found: Sequence[FoundFile]) -> Evidence:
    """Return the choices of the last line ends, each once."""
    return tuple(dict.fromkeys(each.line_end for each in found if each.line_end is not None))
