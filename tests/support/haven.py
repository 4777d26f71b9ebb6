"""R's haven, as another program that reads and writes SAS's files.

`make test` installs it. Where it cannot be installed, tests that need it are skipped.
"""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

_READ = """
suppressMessages(library(haven))
given <- commandArgs(TRUE)
for (at in seq(1, length(given), 2)) {
  path <- given[at]
  frame <- if (grepl("[.]xpt$", path)) read_xpt(path) else read_sas(path)
  cells <- lapply(frame, function(column) {
    attr(column, "format.sas") <- NULL
    if (is.character(column)) return(paste0("t", gsub("\\n", "\\\\n", enc2utf8(as.character(column)), fixed = TRUE)))
    moved <- if (inherits(column, "Date")) 3653 else if (inherits(column, "POSIXct")) 315619200 else 0
    tags <- toupper(na_tag(as.double(unclass(column))))
    number <- sprintf("%.17g", as.double(unclass(column)) + moved)
    ifelse(is.na(as.double(column)), ifelse(is.na(tags), "m", paste0("m", tags)), paste0("n", number))
  })
  lines <- c(names(frame), unlist(cells, use.names = FALSE))
  writeLines(c(ncol(frame), nrow(frame), lines), given[at + 1], useBytes = TRUE)
}
"""

_WRITE = """
suppressMessages(library(haven))
folder <- commandArgs(TRUE)[1]
number <- structure(c(1.5, -2, 1e10, NA, 0.1), label = "A number", format.sas = "BEST12")
tagged <- structure(c(tagged_na("A"), 2, NA, tagged_na("Z"), 5), label = "With reasons")
day <- as.Date(c("1960-01-01", "2026-11-22", NA, "1959-12-31", "2000-02-29"))
stamp <- as.POSIXct(c(-315619200, 1795336200, NA, 946684799, 946684800), origin = "1970-01-01", tz = "UTC")
clock <- hms::hms(c(0, 86399, NA, 30600, 1))
city <- structure(c("Malm\\u00f6", "", "x", " lead", "last"), label = "A city")
frame <- tibble::tibble(NUMBER = number, DAY = day, STAMP = stamp, CLOCK = clock, CITY = city)
with_tags <- tibble::add_column(frame, TAGGED = tagged)
write_xpt(with_tags, file.path(folder, "haven5.xpt"), version = 5, name = "HAVEN")
write_xpt(with_tags, file.path(folder, "haven8.xpt"), version = 8, name = "HAVEN")
suppressWarnings(write_sas(with_tags, file.path(folder, "haven.sas7bdat")))
file.copy(system.file("examples", "iris.sas7bdat", package = "haven"), folder)
"""

_SECONDS = 120


@cache
def missing_reason() -> str:
    """Return why haven cannot be used; an empty text if it can."""
    if shutil.which("Rscript") is None:
        return "R is not installed"
    done = _run("suppressMessages(library(haven))")
    return "" if done.returncode == 0 else f"R has no package haven: {done.stderr.strip()[-200:]}"


def require() -> None:
    """Skip the test if haven cannot be used."""
    if why := missing_reason():
        pytest.skip(why)


def write_files(folder: Path) -> None:
    """Write a data set as XPT 5, XPT 8 and sas7bdat, and haven's own example."""
    _ran(_WRITE, str(folder))


def read_cells(paths: list[Path], folder: Path) -> dict[Path, dict[str, list[float | str | None]]]:
    """Return the cells of files by column; `folder` is for temporary files."""
    targets = {path: folder / f"{path.name}.cells" for path in paths}
    _ran(_READ, *(str(each) for pair in targets.items() for each in pair))
    return {path: _cells(target.read_text(encoding="utf-8")) for path, target in targets.items()}


def _cells(text: str) -> dict[str, list[float | str | None]]:
    columns, rows, *lines = text.split("\n")[:-1]
    names, cells = lines[: int(columns)], lines[int(columns) :]
    count = int(rows)
    return {name: [_cell(cell) for cell in cells[at * count : (at + 1) * count]] for at, name in enumerate(names)}


def _cell(text: str) -> float | str | None:
    kind, value = text[0], text[1:]
    if kind == "n":
        return float(value)
    if kind == "m":
        return f".{value}" if value else None
    return value.replace("\\n", "\n")


def _ran(script: str, *arguments: str) -> None:
    done = _run(script, *arguments)
    assert done.returncode == 0, done.stderr


def _run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["Rscript", "--vanilla", "-e", script, *arguments],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
    )
