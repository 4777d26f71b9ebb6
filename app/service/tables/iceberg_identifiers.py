"""Identifiers of tables in an Iceberg catalog: a namespace for each library, and a table for each member."""

from collections.abc import Iterable

from app.model.names import library_and_member, name_literal

OWN_NAMESPACE = "attachment_gateway"
"""The namespace of the pipeline's own tables, `files` and `quality`."""


def identifier(name: str) -> tuple[str, str]:
    """Return the namespace and the name in Iceberg of a table.

    A library with a dot is a name literal, in quotes. So are the members `.` and `..`: clients put a name into the path
    of a URL, where these two mean other places. A member that begins with a quote gets quotes, too, so that no two have
    the same name.
    """
    library, member = library_and_member(name)
    is_literal = member in {".", ".."} or member.startswith("'")
    return library or OWN_NAMESPACE, name_literal(member) if is_literal else member


def namespaces(names: Iterable[str]) -> list[str]:
    """Return the namespaces of tables, in order."""
    return sorted({identifier(name)[0] for name in names})


def tables_of(names: Iterable[str], namespace: str) -> dict[str, str]:
    """Return the tables of a namespace: their names in Iceberg, and here. Raises KeyError if there is none."""
    identified = ((*identifier(name), name) for name in sorted(names))
    found = {table: name for within, table, name in identified if within == namespace}
    if not found:
        raise KeyError(namespace)
    return found
