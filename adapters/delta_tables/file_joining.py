"""The choice of small files of a table to be joined to larger ones."""

from collections.abc import Iterator, Sequence

from adapters.delta_tables.delta_log import Active


def neighbours(files: Sequence[Active], size: int) -> Iterator[list[Active]]:
    """Yield groups of neighbouring files of at least `size` bytes together; the last group may be smaller."""
    gathered: list[Active] = []
    for file in files:
        gathered.append(file)
        if sum(each.size for each in gathered) >= size:
            yield gathered
            gathered = []
    if len(gathered) > 1:
        yield gathered


def last_files(files: Sequence[Active], small: int) -> list[Active]:
    """Return the files at the end of a table to be joined to one. All are smaller than `small` bytes.

    Each has at most as many rows as the files after it together, and the last one always belongs to them. So a table to
    which small files are added one by one has few files, their number grows with the logarithm of its rows, and a row
    is written as often as that at most.
    """
    found: list[Active] = []
    rows = 0
    for file in reversed(files):
        if file.size >= small or (found and file.rows > rows):
            break
        found.append(file)
        rows += file.rows
    return found[::-1]
