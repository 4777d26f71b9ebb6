"""The problem response for each error of sending."""

from functools import singledispatch
from typing import Any

from app.dataset.checks import Fault
from app.service.sending.sending_errors import (
    DestinationRefuses,
    KeyReused,
    MessageFault,
    SendingError,
    UnknownDestination,
    UnsuitableDataSets,
)
from app.web.problems import Problem, pointer_to

MOST_ERRORS = 1000
SHOWN_ERRORS = 5


@singledispatch
def problem_of(error: SendingError) -> Problem:
    """Return the problem for an error of sending."""
    return Problem("unsuitable", str(error))


@problem_of.register
def _(error: UnknownDestination) -> Problem:
    known = ", ".join(error.known)
    detail = f"choose one of: {known}" if known else "add one to the configuration: there is none"
    errors = [{"pointer": pointer_to(["destination"]), "detail": detail}]
    return Problem("unknown-destination", str(error), known=error.known, errors=errors)


@problem_of.register
def _(error: DestinationRefuses) -> Problem:
    errors = [{"pointer": pointer_to(refusal.where), "detail": refusal.why} for refusal in error.refusals]
    return Problem("invalid", str(error), errors=errors)


@problem_of.register
def _(error: UnsuitableDataSets) -> Problem:
    errors = [located(fault) for fault in error.faults]
    shown = "; ".join(str(each["detail"]) for each in errors[:SHOWN_ERRORS])
    more = len(errors) - SHOWN_ERRORS
    return Problem("unsuitable", f"{shown}; and {more} more" if more > 0 else shown, errors=errors[:MOST_ERRORS])


@problem_of.register
def _(error: KeyReused) -> Problem:
    return Problem("key-reused", str(error))


def located(fault: MessageFault) -> dict[str, Any]:
    """Return the members of a FieldError for a fault, with a pointer to its place."""
    return {"pointer": pointer_to(fault.where), **fault_members(fault.fault)}


def fault_members(fault: Fault) -> dict[str, Any]:
    """Return the members of a FieldError for a fault of a data set."""
    places = [fault.variable, None if fault.row is None else f"in row {fault.row}"]
    where = " ".join(place for place in places if place is not None)
    members = {"variable": fault.variable, "row": fault.row, "code": fault.code}
    return {
        "detail": f"{where}: {fault.why}" if where else fault.why,
        **{name: value for name, value in members.items() if value is not None},
    }
