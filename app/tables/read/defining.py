"""Define the data set that a table of any types becomes: every variable's definition, and the faults in it.

A sender's options take precedence, then the file's `sas.*` metadata, then types and values. Everything is checked
before anything is sent, and all faults are found at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from app.codecs.sas import rendezvous_indexes
from app.codecs.sas.data_set_messages import Index
from app.dataset import checks, indexes_and_constraints, sas_columns, side_columns, value_labels
from app.dataset.checks import Fault
from app.dataset.description import sas_metadata
from app.dataset.schema import MOST_VARIABLES
from app.dataset.value_labels import Catalog, ValueLabels
from app.model.names import folded
from app.tables.read.read_request import (
    FREE_EXPANSION,
    MISSING_SUFFIX,
    DataSetOverrides,
    DataSetTarget,
    Defined,
    ExpansionLimit,
    FileTable,
    Remark,
    VariableOverrides,
    unreadable,
)
from app.tables.read.variable_definitions import VariableBuilder

_NAMES = frozenset({"library", "member", "label"})
_EXTRAS = frozenset({"indexes", "constraints", "rendezvous_constraints"})
_KEPT_TEXTS = frozenset({"dataset_type", "compress", "reuse", "encrypt", "sort_collating"})
_KEPT_NUMBERS = {
    "max_gen": (checks.is_long, "four-byte"),
    "sort_flags": (checks.is_short, "two-byte"),
    "sort_variables": (checks.is_short, "two-byte"),
    "version": (checks.is_long, "four-byte"),
}
"""The attributes of a data set in a file that are sent unchanged."""
_CODES = {
    "indexes": "indexes",
    "constraints": "constraints",
    "rendezvous_constraints": "constraints",
    "sort_variables": "sort-key",
    "version": "attribute",
    "max_gen": "attribute",
}
"""The properties that not every framing carries, and the codes of the warnings that they are not sent."""
_NOTHING = frozenset({"", "0", "[]"})


class Definition(NamedTuple):
    """A data set as it will be sent. Its batches may be read if there are no errors.

    `catalog` has the value labels of its variables' formats.
    """

    library: str
    member: str
    label: str
    observations: int
    variables: tuple[Defined, ...]
    indexes: tuple[Index, ...]
    constraints: bytes
    errors: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    catalog: Catalog


def define(
    reading: FileTable, overrides: DataSetOverrides, target: DataSetTarget, catalog: Catalog | None = None
) -> Definition:
    """Return the data set that a file's table becomes. `catalog` has value labels of formats, which it may use.

    Reads the file once or more. Raises InvalidInputError for an invalid file.
    """
    attributes = sas_metadata(reading.schema.metadata)
    sides = _sides(reading.schema, overrides)
    side_of = {of: at for at, of in sides.items()}
    builders = [
        VariableBuilder(at, found, overrides.variables.get(folded(found.name), VariableOverrides()), target, attributes)
        for at, found in enumerate(reading.schema)
        if at not in sides
    ]
    if overrides.names == "rename":
        for each, name in zip(builders, checks.renamed([each.name for each in builders]), strict=True):
            each.rename(name)
    observations = 0
    for batch in reading.batches():
        for each in builders:
            each.see(batch, side_of.get(each.at), observations)
        observations += batch.num_rows
        _check_size(observations * sum(each.length for each in builders), target)
    library = overrides.library or attributes.get("library") or "WORK"
    member = overrides.member or attributes.get("member") or checks.valid_name(overrides.file_stem.upper()) or "DATA"
    label = overrides.label if overrides.label is not None else attributes.get("label", "")
    odd_label = [Fault(None, "label", "control characters in the label are sent as blanks")]
    label_warnings = odd_label if checks.has_controls(label) else []
    label = checks.without_controls(label)
    extras = define_extras(attributes, builders, target)
    used, label_faults = _used_catalog(builders, catalog or {})
    errors = chain(
        checks.data_set_name_faults(library, member, target.charset),
        _data_set_faults(label, attributes, builders, overrides, target),
        extras.errors,
        chain.from_iterable(each.errors() for each in builders),
        _remark_faults(reading.remarks, builders, wrong=True),
    )
    warnings = chain(
        label_warnings,
        extras.warnings,
        label_faults,
        chain.from_iterable(each.warnings() for each in builders),
        _remark_faults(reading.remarks, builders),
    )
    names = {"library": library, "member": member, "label": label}
    schema = _schema(builders, {**attributes, **names, **extras.metadata}, target, used)
    return Definition(
        library,
        member,
        label,
        observations,
        tuple(each.defined() for each in builders),
        extras.indexes,
        extras.constraints or extras.rendezvous_constraints,
        tuple(errors),
        tuple(warnings),
        schema,
        lambda: _converted(reading, builders, side_of, schema),
        used,
    )


def _check_size(size: int, target: DataSetTarget) -> None:
    """Raise InvalidInputError if the observations are too large: a small file may describe a huge table."""
    if size > target.most_bytes:
        raise unreadable(f"its observations have more than {target.most_bytes:,} bytes, the limit for uploads")
    if target.expansion is not None and size > max(FREE_EXPANSION, target.expansion * target.source_bytes):
        raise ExpansionLimit(
            f"its {target.source_bytes:,} bytes become more than {size:,} bytes of observations, which is over "
            f"{target.expansion:,} times as much; send fewer rows, or shorter texts"
        )


def _sides(schema: pa.Schema, overrides: DataSetOverrides) -> dict[int, int]:
    """Return the positions of side columns, each with the position of its column, by metadata or else by name."""
    places: dict[str, int] = {}
    for at, found in enumerate(schema):
        places.setdefault(folded(found.name), at)
    sides = {}
    for at, found in enumerate(schema):
        of = side_columns.missing_of(found) or side_columns.bytes_of(found)
        if of is None and folded(found.name) not in overrides.variables and sas_columns.is_text(found.type):
            stem, mark, _ = folded(found.name).rpartition(MISSING_SUFFIX)
            of = stem if mark and stem in places and not sas_columns.is_text(schema.field(places[stem]).type) else None
        if of is not None and places.get(folded(of), at) != at:
            sides[at] = places[folded(of)]
    return sides


def _data_set_faults(
    label: str,
    attributes: Mapping[str, str],
    builders: Sequence[VariableBuilder],
    overrides: DataSetOverrides,
    target: DataSetTarget,
) -> Iterator[Fault]:
    for code, why in (
        ("charset", checks.charset_fault(target.charset)),
        ("label", checks.label_fault(label, target.charset)),
    ):
        if why is not None:
            yield Fault(None, code, why)
    if not 1 <= len(builders) <= MOST_VARIABLES:
        yield Fault(None, "variables", f"a data set has 1 to {MOST_VARIABLES} variables, this one {len(builders)}")
    known = {folded(each.column) for each in builders}
    for column, override in overrides.variables.items():
        if column not in known:
            yield Fault(override.column or column, "unknown", "unknown column")
    yield from checks.name_faults(
        [each.name for each in builders], target.charset, literals=overrides.names == "literal"
    )
    for key in sorted(_KEPT_TEXTS & attributes.keys()):
        if not checks.is_in(attributes[key], target.charset):
            yield Fault(
                None, "attribute", f"{key} {attributes[key]!r} cannot be written in character set {target.charset}"
            )
    for key, (fits, size) in _KEPT_NUMBERS.items():
        if key in attributes and not fits(attributes[key]):
            yield Fault(None, "attribute", f"{key} {attributes[key]!r} is not a {size} number")


def _remark_faults(
    remarks: Sequence[Remark], builders: Sequence[VariableBuilder], *, wrong: bool = False
) -> Iterator[Fault]:
    names = {each.column: each.name for each in builders}
    for remark in remarks:
        if remark.wrong == wrong:
            variable = None if remark.column is None else names.get(remark.column, remark.column)
            yield Fault(variable, remark.code, remark.why, remark.row)


def _used_catalog(builders: Sequence[VariableBuilder], catalog: Catalog) -> tuple[Catalog, list[Fault]]:
    """Return the value labels of the formats that variables have, and warnings of those that cannot be used."""
    used: dict[str, ValueLabels] = {}
    faults: list[Fault] = []
    for each in builders:
        name = each.format_name
        if not name.removeprefix("$"):
            continue
        labels = catalog.get(name)
        if labels is None and each.value_labels:
            try:
                labels = value_labels.read(each.value_labels)
            except ValueError as error:
                faults.append(Fault(each.name, "value-labels", str(error)))
        if labels and used.setdefault(name, labels) != labels:
            faults.append(Fault(each.name, "value-labels", f"the format {name} has other value labels elsewhere"))
    return used, faults


# --- the table of the data set ------------------------------------------------------------------------------------


def _schema(
    builders: Sequence[VariableBuilder], attributes: Mapping[str, str], target: DataSetTarget, catalog: Catalog
) -> pa.Schema:
    fields = []
    used = ((each.name, labels) for each in builders if (labels := catalog.get(each.format_name)))
    labelled = value_labels.as_metadata(used)
    taken = {each.name.casefold() for each in builders}
    for position, each in enumerate(builders, 1):
        field = each.field(position)
        fields.append(field.with_metadata({**field.metadata, **labelled.get(each.name, {})}))
        if each.has_side:
            fields.append(each.side_field(taken))
            taken.add(fields[-1].name.casefold())
    kept = {
        key: value for key, value in attributes.items() if key in _KEPT_TEXTS | _KEPT_NUMBERS.keys() | _NAMES | _EXTRAS
    }
    settled = {**kept, "encoding": target.charset, "float": target.float_format}
    return pa.schema(fields, {f"sas.{key}": value for key, value in settled.items() if value})


def _converted(
    reading: FileTable, builders: Sequence[VariableBuilder], side_of: Mapping[int, int], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in reading.batches():
        arrays = chain.from_iterable(each.arrays(batch, side_of.get(each.at)) for each in builders)
        yield pa.RecordBatch.from_arrays(list(arrays), schema=schema)


@dataclass(slots=True)
class DataSetExtras:
    """The indexes, integrity constraints and sort key that a file gives for a data set, and the faults in them.

    A fault is an error. A valid item that cannot be sent is a warning: what the destination's framing does not carry,
    an index on a column that the file does not have, constraints that another kind of machine wrote, since their layout
    is not published, and those of TIB/Rendezvous that are in another character set, or name such a column.
    """

    indexes: tuple[Index, ...] = ()
    constraints: bytes = b""
    rendezvous_constraints: bytes = b""
    errors: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    @property
    def metadata(self) -> dict[str, str]:
        """The items as metadata of the data set's table."""
        return {
            "indexes": indexes_and_constraints.written_indexes(self.indexes) if self.indexes else "",
            "constraints": indexes_and_constraints.written_constraints(self.constraints),
            "rendezvous_constraints": indexes_and_constraints.written_constraints(self.rendezvous_constraints),
        }


def define_extras(
    attributes: Mapping[str, str], builders: Sequence[VariableBuilder], target: DataSetTarget
) -> DataSetExtras:
    """Return the items in the `sas.*` metadata of a file, for a destination and for variables with their new names."""
    found = DataSetExtras()
    for key, code in _CODES.items():
        if key not in target.extras and attributes.get(key, "") not in _NOTHING:
            given = "" if key in _EXTRAS else f" {attributes[key]}"
            why = f"{key}{given} is not sent: the framing of the destination does not carry it"
            found.warnings.append(Fault(None, code, why))
    attributes = {key: text for key, text in attributes.items() if key in target.extras or key not in _CODES}
    prefixed = {f"sas.{key}": value for key, value in attributes.items()}
    try:
        indexes = indexes_and_constraints.read_indexes(prefixed)
    except ValueError as error:
        found.errors.append(Fault(None, "indexes", f"{indexes_and_constraints.INDEXES}: {error}"))
    else:
        _add_indexes(found, indexes, builders, target)
    try:
        constraints = indexes_and_constraints.read_constraints(prefixed)
    except ValueError as error:
        found.errors.append(Fault(None, "constraints", f"{indexes_and_constraints.CONSTRAINTS}: {error}"))
    else:
        _add_constraints(found, constraints, attributes, target)
    _add_rendezvous_constraints(found, prefixed, builders, target)
    count = attributes.get("sort_variables", "")
    if not checks.is_short(count):
        return found
    if not 0 <= int(count) <= len(builders):
        why = f"sort_variables is {count}, but the data set has {len(builders)} variables"
        found.errors.append(Fault(None, "attribute", why))
    places = sorted(abs(each.sort_place) for each in builders if each.sort_place)
    if places != list(range(1, int(count) + 1)):  # the key is sent as the file states it
        why = f"sort_variables is {count}, but the variables' places in the sort key are {places or 'none'}"
        found.warnings.append(Fault(None, "sort-key", why))
    return found


def _add_indexes(
    found: DataSetExtras, indexes: Sequence[Index], builders: Sequence[VariableBuilder], target: DataSetTarget
) -> None:
    names = {folded(known): each.name for each in builders for known in (each.column, each.known_as)}
    sent: dict[str, Index] = {}
    for index in indexes:
        missing = [variable for variable in index.variables if folded(variable) not in names]
        if missing:
            why = f"the index {index.name} is not sent: there is no variable {', '.join(missing)}"
            found.warnings.append(Fault(None, "indexes", why))
            continue
        variables = [names[folded(variable)] for variable in index.variables]
        is_simple = len(variables) == 1 and folded(index.name) == folded(index.variables[0])
        name = variables[0] if is_simple else index.name
        if len(name) > checks.LONGEST_NAME or not checks.is_in(name, target.charset):
            found.errors.append(Fault(None, "indexes", f"{name!r} is not a name for an index"))
        elif folded(name) in sent:
            found.errors.append(Fault(None, "indexes", f"two indexes have the name {name}"))
        else:
            sent[folded(name)] = Index(index.upercmx, name, index.flags, len(variables), variables)
    found.indexes = tuple(sent.values())


def _add_constraints(
    found: DataSetExtras, constraints: bytes, attributes: Mapping[str, str], target: DataSetTarget
) -> None:
    if not constraints:
        return
    written = (attributes.get("dialect"), attributes.get("encoding"))
    if written == (target.dialect, target.charset):
        found.constraints = constraints
        return
    dialect, charset = (word or "an unknown one" for word in written)
    why = (
        f"{len(constraints):,} bytes of integrity constraints are not sent: they are in dialect {dialect} and "
        f"character set {charset}, the destination's are {target.dialect} and {target.charset}, and their layout is "
        "not published"
    )
    found.warnings.append(Fault(None, "constraints", why))


def _add_rendezvous_constraints(
    found: DataSetExtras, entries: Mapping[str, str], builders: Sequence[VariableBuilder], target: DataSetTarget
) -> None:
    key, charset = indexes_and_constraints.RENDEZVOUS_CONSTRAINTS, entries.get("sas.encoding")
    try:
        data = indexes_and_constraints.read_constraints(entries, key)
        messages = tuple(
            rendezvous_indexes.constraint_messages(data, charset if charset == target.charset else "latin-1")
        )
    except ValueError as error:
        found.errors.append(Fault(None, "constraints", f"{key}: {error}"))
        return
    if not messages:
        return
    contents = [each.content for _, constraints in messages for each in constraints]
    named = (each.names for each in contents if not isinstance(each, rendezvous_indexes.CheckConstraint))
    known = {folded(each.name) for each in builders}
    if charset != target.charset:
        why = f"they are in character set {charset or 'an unknown one'}, the destination's is {target.charset}"
    elif missing := sorted({name for names in named for name in names if folded(name) not in known}):
        why = f"there is no variable {', '.join(missing)}"
    else:
        found.rendezvous_constraints = data
        return
    found.warnings.append(Fault(None, "constraints", f"the integrity constraints are not sent: {why}"))
