"""The journal as a folder of Arrow IPC stream files."""

from adapters.arrow_journal.journal import ArrowJournal

__all__ = ["ArrowJournal"]
