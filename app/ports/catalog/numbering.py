"""Numbering: what the numbering of messages on arrival must know when it begins again."""

from collections.abc import Mapping
from typing import Protocol


class NumberingCatalog(Protocol):
    """How senders count, as it was learnt, and the headers whose attachments are open."""

    def counting(self, source: str) -> dict[str, str]:
        """Return what has been learnt of how the senders of a source count, by subject."""

    def learn_counting(self, source: str, rules: Mapping[str, str]) -> None:
        """Save what has been learnt of subjects of a source. Of many subjects, those learnt last are kept: 10,000 a
        source at least."""

    def open_correl_ids(self, source: str) -> dict[bytes, int]:
        """Return the correlids of the headers of a source of which an attachment is being received, and of all
        attachments of these headers, each with the packed position of its header."""
