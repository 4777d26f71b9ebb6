"""The Arrow schema of a SAS data set; what Arrow has no place for stays in `sas.*` metadata.

Numerics are doubles and may be null (missing); characters are strings and never null (blank is the empty string).
Of passwords only the flags are kept.
"""

from collections.abc import Sequence
from itertools import chain, count

import pyarrow as pa

from app.codecs.sas.dataset import DataSetDefinition, Variable
from app.dataset.formats import Format
from app.dataset.numeric import FloatFormat
from app.model.errors import TheirError

LONGEST_CHARACTER = 32_767
"""The longest character variable that SAS has, in bytes."""

ALIGNMENT = 8
"""Observations may be padded at their end to a multiple of this."""


def arrow_schema(
    definition: DataSetDefinition,
    variables: Sequence[Variable],
    *,
    library: str = "",
    member: str = "",
    charset: str = "utf-8",
    float_format: FloatFormat = "ieee",
) -> pa.Schema:
    """The schema that `app.dataset.decode.batches` fills.

    `library` and `member` are the attachment's qualifiers; `charset` and `float_format` say how the observations were
    written. Raises TheirError for variables that cannot be (see `check`).
    """
    check(definition, variables)
    fields = [
        pa.field(
            name,
            pa.float64() if variable.is_numeric else pa.string(),
            nullable=variable.is_numeric,
            metadata=_variable_metadata(variable, position, name),
        )
        for position, (variable, name) in enumerate(zip(variables, column_names(variables), strict=True), 1)
    ]
    return pa.schema(fields, _data_set_metadata(definition, library, member, charset, float_format))


def check(definition: DataSetDefinition, variables: Sequence[Variable]) -> None:
    """Raises TheirError when the definition and its variables contradict each other or what SAS allows."""
    if definition.variables != len(variables):
        why = f"the definition says {definition.variables} variables, and {len(variables)} are defined"
        raise TheirError("variable-count", "number of variables", -1, why)
    for variable in variables:
        shortest, longest, kind = (2, 8, "numeric") if variable.is_numeric else (0, LONGEST_CHARACTER, "character")
        if not shortest <= variable.length <= longest:
            why = f"{kind} variable {variable.name} cannot have length {variable.length}"
            raise TheirError("variable-length", "variable length", -1, why)
    needed = sum(variable.length for variable in variables)
    if not 0 <= definition.obs_length - needed < ALIGNMENT:
        why = f"the variables need {needed} bytes, and an observation has {definition.obs_length}"
        raise TheirError("observation-length", "observation length", -1, why)


def column_names(variables: Sequence[Variable]) -> list[str]:
    """A column name for each variable: its own, where that can be.

    Readers of tables need names, and different ones, and SAS ignores case. A variable without a name gets
    `VAR<position>`; a name that another variable took before gets the first free suffix `_2`, `_3` ...
    """
    own_names = [variable.name.rstrip(" \0") for variable in variables]
    reserved = {own.casefold() for own in own_names}
    names: list[str] = []
    taken: set[str] = set()
    for position, own in enumerate(own_names, 1):
        name = own
        if not own or own.casefold() in taken:
            base = own or f"VAR{position}"
            candidates = chain([base], (f"{base}_{n}" for n in count(2)))
            name = next(c for c in candidates if c.casefold() not in taken | reserved)
        taken.add(name.casefold())
        names.append(name)
    return names


def _variable_metadata(variable: Variable, position: int, name: str) -> dict[str, str]:
    said = {
        "sas.name": "" if variable.name == name else variable.name,
        "sas.label": variable.label,
        "sas.format": str(Format(variable.format, variable.format_length, variable.format_decimal)),
        "sas.informat": str(Format(variable.informat, variable.informat_length, variable.informat_decimal)),
    }
    return {key: value for key, value in said.items() if value} | {
        "sas.type": "numeric" if variable.is_numeric else "character",
        "sas.length": str(variable.length),
        "sas.nsort": str(int.from_bytes(variable.nsort, "big", signed=True)),
        "sas.position": str(position),
    }


def _data_set_metadata(
    definition: DataSetDefinition, library: str, member: str, charset: str, float_format: str
) -> dict[str, str]:
    protected = [
        word
        for word, flag in (
            ("read", definition.read_flag),
            ("write", definition.write_flag),
            ("alter", definition.alter_flag),
        )
        if flag
    ]
    said = {
        "sas.library": library,
        "sas.member": member,
        "sas.label": definition.label,
        "sas.dataset_type": definition.data_set_type,
        "sas.compress": definition.compress,
        "sas.reuse": definition.reuse.decode(charset, "replace").strip(" \0"),
        "sas.encrypt": definition.encrypt,
        "sas.sort_collating": definition.collating,
        "sas.passwords": " ".join(protected),
    }
    return {key: value for key, value in said.items() if value} | {
        "sas.sort_variables": str(definition.sort_variables),
        "sas.sort_flags": str(definition.sort_flags),
        "sas.float": float_format,
        "sas.encoding": charset,
    }
