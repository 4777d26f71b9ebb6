"""Division of neighbouring files among sources: the same rows in as many files, of which each has few sources.

Files lie in the order in which their rows came, and each has rows of most sources. So a query of one source would read
all of them. A window of neighbours is written anew: source by source, and the rows of a source in their order. A query
of a source then reads few files of each window, and a query of a short time at most the files of two windows.
"""

from collections.abc import Iterator, Mapping, Sequence

from adapters.delta_tables.delta_log import ActiveFile

Rows = Mapping[str | None, int]
"""The number of rows of each source in a file."""

_GAIN = 0.75
"""A division that leaves more than this share of the pairs of file and source is not worth the writing."""
_NEARLY = 0.75
"""A file that has this share of its rows ends where its source ends."""


def windows(files: Sequence[ActiveFile], size: int) -> Iterator[list[ActiveFile]]:
    """Yield windows of this number of neighbours whose sources overlap. Neighbours that are divided have bounds that
    follow each other, and are in none."""
    gathered: list[ActiveFile] = []
    for before, file, after in zip([None, *files], files, [*files[1:], None], strict=False):
        if file.sources is None or _follows(before, file) or _follows(file, after):
            gathered = []
            continue
        gathered.append(file)
        if len(gathered) == size:
            yield gathered
            gathered = []


def _follows(before: ActiveFile | None, after: ActiveFile | None) -> bool:
    if before is None or after is None or before.sources is None or after.sources is None:
        return False
    return before.sources[1] <= after.sources[0]


def division(counted: Sequence[Rows], files: int) -> list[dict[str | None, int]]:
    """Return for each of the files `counted` the number of the new file that the rows of each source go to.

    At most `files` are made, of about the same size. Empty if the division would save too few reads.
    """
    left, open_files, new, rows = sum(map(sum, (each.values() for each in counted))), files, 0, 0
    target = left / files
    made: list[dict[str | None, int]] = [{} for _ in counted]

    def end_file() -> None:
        nonlocal left, open_files, new, rows, target
        left, open_files, new, rows = left - rows, open_files - 1, new + 1, 0
        target = left / open_files

    for source in sorted({source for each in counted for source in each}, key=lambda source: source or ""):
        pieces = [(at, each[source]) for at, each in enumerate(counted) if source in each]
        rest = sum(piece for _, piece in pieces)
        if rows and rows >= _NEARLY * target and open_files > 1:
            end_file()
        for at, piece in pieces:
            if rows and rows + piece / 2 > target and rest > (1 - _NEARLY) * target and open_files > 1:
                end_file()
            made[at][source] = new
            rows, rest = rows + piece, rest - piece
    pairs = {pair for each in made for pair in each.items()}
    return made if len(pairs) <= _GAIN * sum(map(len, counted)) else []
