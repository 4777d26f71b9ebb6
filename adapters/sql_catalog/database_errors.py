"""Errors of the database as sentences that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from adapters.sql_catalog.schema.bounded_types import damaged
from app.model.errors import CatalogDamaged, CatalogError

_DAMAGED = (
    ("malformed", "fsck --repair"),
    ("could not decode", "fsck --repair"),
    ("not a database", "rebuild"),
)
"""Parts of the database's messages about damage, in lower case, and the command that repairs it."""

_SENTENCES = (
    ("disk i/o error", "the catalog {place} cannot be read or written ({why}): check its disk"),
    ("is full", "no space is left for the catalog {place} ({why})"),
    ("no space left", "no space is left for the catalog {place} ({why})"),
    ("readonly", "the catalog {place} is read-only ({why}): check the owner and the mode of its file and folder"),
    ("unable to open", "the catalog {place} cannot be opened ({why}): check its folder, the owner and the mode"),
    ("is locked", "the catalog {place} is locked by another program ({why})"),
)
"""Parts of its other messages, and the sentence for each."""

_STATEMENTS = ("no such table", "no such column", "syntax error")
"""SQLite's messages about wrong statements. They have the same class of error as faults of the machine."""

_OTHERWISE = "the catalog {place} cannot be used at present ({why})"


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Raise CatalogError for errors of the database or of the connection to it. Errors of a statement are not
    changed."""
    try:
        yield
    except (OperationalError, InterfaceError, InternalError, NoConnection) as error:
        if any(word in str(error) for word in _STATEMENTS):
            raise
        raise _explained(place, error) from error
    except DatabaseError as error:
        if type(error) is not DatabaseError:
            raise
        raise _explained(place, error) from error
    except UnicodeDecodeError as error:  # SQLite's message about its schema has a damaged name
        raise damaged("its schema", error) from error


def _explained(place: str, error: Exception) -> CatalogError:
    original = error.orig if isinstance(error, DBAPIError) else error
    why = str(original).strip().partition("\n")[0] or type(original).__name__
    for word, command in _DAMAGED:
        if word in why.lower():
            what = f"the catalog {place} is damaged ({why})"
            return CatalogDamaged(f"{what}: stop the gateway and run `attachment-gateway {command}`")
    template = next((sentence for word, sentence in _SENTENCES if word in why.lower()), _OTHERWISE)
    return CatalogError(template.format(place=place, why=why))
