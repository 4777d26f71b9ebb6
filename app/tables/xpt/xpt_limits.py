"""The limits of transport files and SAS programs, and the changes that make a table fit if they are allowed.

Sources: the record layouts; for variable names of version 5 the rules by which SAS/CONNECT truncates names for SAS 6;
for reserved names "Rules for SAS Names", as for data sets that are sent (`app.dataset.checks`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa

from app.codecs.charset_text import charset_codec
from app.dataset import checks, format_names, missing, sas_columns, side_columns
from app.dataset.format_names import SasFormat
from app.dataset.schema import MOST_VARIABLES
from app.model.errors import InvalidInputError
from app.model.names import in_capitals
from app.tables.xpt.xpt_layouts import Version

DEFAULT_MEMBER: Final = "DATA"
"""The data set's name if the table has none."""

LONGEST_WIDTH: Final = 32_767
"""The maximum width and number of decimals of a format, which are short integers."""


class XptLimits(NamedTuple):
    """The maximum size of each item in bytes. `file` names the file, `code` the error.

    `literals` tells whether names may have any characters, as with VALIDVARNAME=ANY; else they are in upper case.
    """

    file: str
    code: str
    literals: bool
    member: int
    name: int
    label: int
    format: int
    character: int
    member_label: int = 40
    member_type: int = 8


LIMITS: Final[Mapping[Version, XptLimits]] = {
    5: XptLimits(
        "transport file of version 5",
        "xpt-5-limits",
        literals=False,
        member=8,
        name=8,
        label=40,
        format=8,
        character=200,
    ),
    8: XptLimits(
        "transport file of version 8",
        "xpt-8-limits",
        literals=True,
        member=32,
        name=32,
        label=256,
        format=32,
        character=32_767,
    ),
}

PROGRAM: Final = LIMITS[8]._replace(file="SAS program", code="sas-program-limits")
"""The limits of names in a DATA step with VALIDVARNAME=ANY and VALIDMEMNAME=EXTEND."""


class Misfit(NamedTuple):
    """An item that the version cannot hold: `what` of a column ("" for the data set).

    `becomes` is its value in the file if changes are allowed, or None if no change helps.
    """

    column: str
    what: str
    value: str
    becomes: str | None
    why: str

    def __str__(self) -> str:
        return f"{self.column or 'data set'}: {self.what} {self.value!r} {self.why}"


class UnfitTableError(InvalidInputError):
    """A table that a file of this kind cannot hold; `misfits` lists every reason."""

    def __init__(self, limits: XptLimits, misfits: tuple[Misfit, ...]) -> None:
        why = "; ".join(map(str, misfits))
        super().__init__(limits.code, "", -1, f"the table does not fit a {limits.file}: {why}")
        self.misfits = misfits


class Fitted(NamedTuple):
    """A schema that a version can hold, and the changes made to it."""

    schema: pa.Schema
    changes: tuple[Misfit, ...]


def fit(
    schema: pa.Schema,
    version: Version,
    *,
    charset: str,
    rename: bool = False,
    lengths: Mapping[str, int] | None = None,
) -> Fitted:
    """Return the same schema with `sas.*` metadata that the version can hold.

    With `rename`, names and labels are shortened, formats that do not fit are dropped, and longer character variables
    get the maximum length. In version 5, names become upper case, which SAS treats as equal. `lengths` are the bytes
    that a column's longest value needs, where known. Side columns stay unchanged.

    Raises UnfitTableError with every item that does not fit and may not, or cannot, be changed.
    """
    fitting = _Fitting(LIMITS[version], charset)
    variables = side_columns.without_sides(schema)
    if len(variables) > MOST_VARIABLES:
        fitting.note("", "variables", str(len(variables)), None, f"are more than {MOST_VARIABLES}")
    names = fitting.names({f.name: _decoded(f.metadata).get("sas.name") or str(f.name) for f in variables})
    fields = [
        f if side_columns.is_side(f) else fitting.variable(f, names[f.name], (lengths or {}).get(f.name, 0))
        for f in schema
    ]
    fitted = pa.schema(fields, fitting.member(_decoded(schema.metadata)))
    return Fitted(fitted, fitting.checked(rename=rename))


def names_in_program(schema: pa.Schema, *, rename: bool = False) -> tuple[str, dict[str, str]]:
    """Return the names of the data set and, by column, of its variables in a SAS program.

    Raises UnfitTableError for names that SAS reserves, or that are too long or taken; with `rename`, they are changed.
    """
    fitting = _Fitting(PROGRAM, "utf-8")
    member = fitting.member_name(_decoded(schema.metadata))
    names = fitting.names({name: name for name in side_columns.without_sides(schema).names})
    fitting.checked(rename=rename)
    return member, names


@dataclass
class _Fitting:
    limits: XptLimits
    charset: str
    misfits: list[Misfit] = field(default_factory=list)

    def note(self, column: str, what: str, value: str, becomes: str | None, why: str) -> None:
        self.misfits.append(Misfit(column, what, value, becomes, why))

    def checked(self, *, rename: bool) -> tuple[Misfit, ...]:
        """Return what was noted. Raises UnfitTableError if it may not, or cannot, be changed."""
        misfits = tuple(self.misfits)
        if any(not rename or misfit.becomes is None for misfit in misfits):
            raise UnfitTableError(self.limits, misfits)
        return misfits

    def member_name(self, attributes: dict[str, str]) -> str:
        name = attributes.get("sas.member") or DEFAULT_MEMBER
        return self._named({"": name}, self.limits.member, checks.RESERVED_MEMBERS)[""]

    def member(self, attributes: dict[str, str]) -> dict[str, str]:
        return attributes | {
            "sas.member": self.member_name(attributes),
            "sas.label": self._cut("", "label", attributes.get("sas.label", ""), self.limits.member_label),
            "sas.dataset_type": self._cut("", "type", attributes.get("sas.dataset_type", ""), self.limits.member_type),
        }

    def names(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Return a name for each column. Names that fit are kept; others are changed if they collide with them."""
        return self._named(wanted, self.limits.name, checks.RESERVED_VARIABLES)

    def _named(self, wanted: Mapping[str, str], longest: int, reserved: frozenset[str]) -> dict[str, str]:
        found = checks.free_names(
            [
                checks.Wanted(
                    self._cased(nameable := self._nameable(name)), nameable == name and self._size(name) <= longest
                )
                for name in wanted.values()
            ],
            reserved,
            lambda name, room: self._first(name, longest - room),
        )
        names = dict(zip(wanted, found, strict=True))
        for column, name in wanted.items():
            if names[column] != self._cased(name):
                self.note(column, "name", name, names[column], self._fault(name, longest, reserved))
        return names

    def variable(self, column: pa.Field, name: str, needed: int) -> pa.Field:
        attributes = _decoded(column.metadata)
        is_text = sas_columns.is_text(column.type)
        changed = {
            "sas.name": name,
            "sas.label": self._cut(column.name, "label", attributes.get("sas.label", ""), self.limits.label),
        }
        for key in ("sas.format", "sas.informat"):
            if key in attributes:
                changed[key] = self._format(column.name, key.removeprefix("sas."), attributes[key], is_text=is_text)
        stated = attributes.get("sas.length", "") if attributes.get("sas.type") == "character" else ""
        length = max(int(stated) if stated.isascii() and stated.isdigit() else 0, needed)
        if is_text and length > self.limits.character:
            becomes = None if needed > self.limits.character else str(self.limits.character)
            self.note(column.name, "length", str(length), becomes, f"is more than {self.limits.character} bytes")
            changed["sas.length"] = str(self.limits.character)
        return column.with_metadata(attributes | changed)

    def _format(self, column: str, what: str, reference: str, *, is_text: bool) -> str:
        parsed = format_names.parse(reference)
        if is_text and parsed != SasFormat() and not parsed.name.startswith("$"):
            parsed = parsed._replace(name=f"${parsed.name}")
        if self._holds(parsed.name, self.limits.format) and max(parsed.width, parsed.decimals) <= LONGEST_WIDTH:
            return str(parsed)
        self.note(
            column, what, reference, "", f"has a name of more than {self.limits.format} bytes or too large a width"
        )
        return ""

    def _fault(self, name: str, longest: int, reserved: frozenset[str]) -> str:
        """Return why this is not a name of a data set or a variable."""
        if self._nameable(name) != name:
            return "has characters that a name cannot have" if name else "is empty"
        if self._size(name) > longest:
            return f"is longer than {longest} bytes"
        if in_capitals(name) in reserved:
            return "is reserved by SAS"
        return "is another variable's name; case is ignored"

    def _nameable(self, name: str) -> str:
        """Return the name with underscores for the characters that it cannot have."""
        if self.limits.literals:
            return "".join(c if c.isprintable() and self._size(c) else "_" for c in name).strip() or "_"
        return re.sub(r"\A(?=[0-9]|\Z)", "_", re.sub(r"[^A-Za-z0-9_]", "_", name))

    def _cased(self, name: str) -> str:
        return name if self.limits.literals else name.upper()

    def _cut(self, column: str, what: str, value: str, longest: int) -> str:
        if self._holds(value, longest):
            return value
        becomes = self._first(value.encode(self.charset, "replace").decode(self.charset), longest)
        self.note(column, what, value, becomes, f"needs more than {longest} bytes, or other characters")
        return becomes

    def _first(self, text: str, size: int) -> str:
        return text.encode(self.charset)[:size].decode(self.charset, "ignore").rstrip()

    def _holds(self, text: str, longest: int) -> bool:
        size = self._size(text)
        return size <= longest and bool(size or not text)

    def _size(self, text: str) -> int:
        """Return the size of a text in bytes; 0 if the character set cannot represent it."""
        try:
            return len(text.encode(self.charset))
        except UnicodeEncodeError:
            return 0


def _decoded(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in (metadata or {}).items()}


DEFAULT_CHARSET: Final = "utf-8"

_ASCII: Final = bytes(range(0x20, 0x7F))


def checked_charset(charset: str) -> str:
    """Return the name of a Python codec unchanged. Raises InvalidInputError if it is unknown or does not contain
    ASCII."""
    if not _has_ascii(charset):
        raise InvalidInputError(
            "charset", "", -1, f"{charset!r} is not a character set for transport files; choose one that contains ASCII"
        )
    return charset


def charset_of(schema: pa.Schema) -> str:
    """Return the character set of a table's texts in a transport file: their original one, if a file can have it.

    Texts in EBCDIC become Latin-1 if it has their characters, in single bytes too, so that they keep their lengths.
    Others become UTF-8: those in UTF-16, for example.
    """
    stated: str = (schema.metadata or {}).get(b"sas.encoding", b"").decode("utf-8", "replace")
    if _has_ascii(stated):
        return stated
    return "latin-1" if _is_latin(stated) else DEFAULT_CHARSET


@cache
def _is_latin(charset: str) -> bool:
    """Tell whether a character set is a single-byte EBCDIC with the characters of Latin-1."""
    try:
        return missing.is_ebcdic(charset) and bool(bytes(range(256)).decode(charset).encode("latin-1"))
    except (LookupError, UnicodeError):
        return False


def _has_ascii(charset: str) -> bool:
    try:
        return _ASCII.decode(charset_codec(charset), "replace") == _ASCII.decode("ascii")
    except ValueError:
        return False
