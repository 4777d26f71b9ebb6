"""The indexes, integrity constraints and sort key that a file gives for a data set.

A fault in them is an error. A valid item that cannot be sent is a warning: an index on a column that the file does not
have, and constraints that another kind of machine wrote, since their layout is not published.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from app.codecs.sas.data_set_messages import Index
from app.dataset import checks, indexes_and_constraints
from app.dataset.checks import Fault
from app.model.names import folded
from app.tables.read.overrides import Target
from app.tables.read.variable_definitions import VariableBuilder


@dataclass(slots=True)
class Beside:
    """The items sent beside the variables, and the faults and omissions in them."""

    indexes: tuple[Index, ...] = ()
    constraints: bytes = b""
    errors: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    @property
    def metadata(self) -> dict[str, str]:
        """The items as metadata of the data set's table."""
        return {
            "indexes": indexes_and_constraints.written_indexes(self.indexes) if self.indexes else "",
            "constraints": indexes_and_constraints.written_constraints(self.constraints),
        }


def define_beside(said: Mapping[str, str], builders: Sequence[VariableBuilder], target: Target) -> Beside:
    """Return the items in the `sas.*` metadata of a file, for a destination and for variables with their new names."""
    found = Beside()
    prefixed = {f"sas.{key}": value for key, value in said.items()}
    try:
        told = indexes_and_constraints.read_indexes(prefixed)
    except ValueError as error:
        found.errors.append(Fault(None, "indexes", f"{indexes_and_constraints.INDEXES}: {error}"))
    else:
        _add_indexes(found, told, builders, target)
    try:
        constraints = indexes_and_constraints.read_constraints(prefixed)
    except ValueError as error:
        found.errors.append(Fault(None, "constraints", f"{indexes_and_constraints.CONSTRAINTS}: {error}"))
    else:
        _add_constraints(found, constraints, said, target)
    found.errors += _sort_faults(said, builders)
    found.warnings += _sort_warnings(said, builders)
    return found


def _add_indexes(found: Beside, told: Sequence[Index], builders: Sequence[VariableBuilder], target: Target) -> None:
    names = {folded(known): each.name for each in builders for known in (each.column, each.known_as)}
    sent: dict[str, Index] = {}
    for index in told:
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


def _add_constraints(found: Beside, constraints: bytes, said: Mapping[str, str], target: Target) -> None:
    if not constraints:
        return
    written = (said.get("dialect"), said.get("encoding"))
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


def _sort_faults(said: Mapping[str, str], builders: Sequence[VariableBuilder]) -> Iterator[Fault]:
    count = said.get("sort_variables", "0")
    if checks.is_short(count) and not 0 <= int(count) <= len(builders):
        yield Fault(None, "attribute", f"sort_variables is {count}, but the data set has {len(builders)} variables")


def _sort_warnings(said: Mapping[str, str], builders: Sequence[VariableBuilder]) -> Iterator[Fault]:
    """Yield a warning if the places of a sort key are inconsistent; the key is sent as the file states it."""
    count = said.get("sort_variables", "")
    places = sorted(abs(each.sort_place) for each in builders if each.sort_place)
    if checks.is_short(count) and places != list(range(1, int(count) + 1)):
        why = f"sort_variables is {count}, but the variables' places in the sort key are {places or 'none'}"
        yield Fault(None, "sort-key", why)
