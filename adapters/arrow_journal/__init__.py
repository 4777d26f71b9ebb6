"""The journal as a folder of Arrow IPC stream files, or as objects of a store."""

from adapters.arrow_journal.arrow_journal import ArrowJournal
from adapters.arrow_journal.object_journal import ObjectJournal

__all__ = ["ArrowJournal", "ObjectJournal"]
