"""The messages that were sent, that the broker confirmed to the sender, and that the gateway acknowledged to it."""

from collections.abc import Iterable
from threading import Lock

from tests.faults.packets import Identity
from tests.faults.traffic import Attachment, Letter, Message


class Ledger:
    """One scenario's records. Threads write into them; entries are elements of sets and are never removed."""

    def __init__(self) -> None:
        self.attachments: dict[bytes, Attachment] = {}
        self.letters: list[Letter] = []
        self.sent: dict[Identity, Message] = {}
        self.confirmed: set[Identity] = set()
        self.acknowledged: set[Identity] = set()
        self._lock = Lock()
        self._letter_of: dict[bytes, Letter] = {}

    def expect(self, letters: Iterable[Letter]) -> None:
        """Enter letters whose attachments must arrive."""
        for letter in letters:
            self.letters.append(letter)
            for attachment in letter.attachments:
                self.attachments[attachment.key] = attachment
                self._letter_of[attachment.key] = letter
            for message in letter.head:
                self._letter_of[message.correl_id[:16]] = letter

    def sending(self, message: Message) -> None:
        self.sent[message.identity] = message

    def confirm(self, identity: Identity) -> None:
        self.confirmed.add(identity)

    def acknowledge(self, identity: Identity) -> None:
        with self._lock:
            self.acknowledged.add(identity)

    def unacknowledged(self) -> list[Message]:
        """Return the messages that the broker has confirmed and the gateway has not acknowledged."""
        with self._lock:
            return [self.sent[each] for each in self.confirmed - self.acknowledged]

    def is_acknowledged(self, key: bytes) -> bool:
        """Tell whether the gateway has acknowledged all of an attachment, and the header that announces it."""
        with self._lock:
            header = self._letter_of[key].head[0]
            wanted = {header.identity, *(part.identity for part in self.attachments[key].parts)}
            return wanted <= self.acknowledged

    def is_sent(self, key: bytes) -> bool:
        """Tell whether all of an attachment was sent."""
        header = self._letter_of[key].head[0]
        return all(message.identity in self.sent for message in (header, *self.attachments[key].parts))

    def letter_of(self, key: bytes) -> Letter:
        return self._letter_of[key]

    def about(self, correl_id: bytes) -> set[bytes]:
        """Return the attachments that need a physical message of this correlid."""
        key = correl_id[:16]
        if key in self.attachments:
            return {key}
        letter = self._letter_of.get(key)
        return {each.key for each in letter.attachments} if letter else set()
