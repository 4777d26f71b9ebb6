"""API keys: their making, and finding the one that a client shows.

A key is `agw_`, its identifier, `_` and 256 random bits. Only its SHA-256 is stored. Slow hashes (bcrypt, Argon2) are
for passwords, which can be guessed from a list; 256 random bits cannot be guessed however fast a hash is. A slow hash
would let anybody occupy the processor with wrong keys.
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from threading import Lock
from time import monotonic

from app.model.principals import ApiKey, Scope
from app.observe import Recurring, logger
from app.ports import Clock, KeyCatalog

PREFIX = "agw_"
REFRESH_SECONDS = 1.0
"""After this time a key that was made or revoked by another process is accepted or refused."""
USES_SECONDS = 60.0
"""How often the last uses of keys are written to the catalog."""

LONGEST_NAME = 200
"""The most characters of a key's name."""
_KEY = re.compile(r"agw_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")

log = logger(__name__)


class KeyRefused(Exception):
    """A key that is not accepted. The text says why, to a holder of the key."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The sources and destinations that a key is limited to, and the time of its end (µs); None: no limit."""

    sources: frozenset[str] | None = None
    destinations: frozenset[str] | None = None
    expires_at: int | None = None


UNLIMITED = KeyLimits()


def make_key(name: str, scopes: frozenset[Scope], now: int, limits: KeyLimits = UNLIMITED) -> tuple[ApiKey, str]:
    """Return a new key as the catalog keeps it, and its text, which is shown once.

    Raises ValueError for a name that is not one line of text, and for an administrator's key with limits: the audit log
    is about all sources.
    """
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise ValueError(f"the name {name[:LONGEST_NAME]!r}: give 1 to {LONGEST_NAME} printable characters")
    if Scope.ADMIN in scopes and (limits.sources is not None or limits.destinations is not None):
        raise ValueError("a key with the scope 'admin' cannot be limited to sources or destinations")
    identifier = token_hex(6)
    text = f"{PREFIX}{identifier}_{token_urlsafe(32)}"
    made = ApiKey(identifier, name, _digest(text), scopes, now, limits.sources, limits.destinations, limits.expires_at)
    return made, text


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


class Keys:
    """The keys of a catalog in memory, read again every second while requests come. `_reading` guards `_known`,
    `_read_at` and `_saved_at`; `_using` guards `_used`."""

    def __init__(self, catalog: KeyCatalog, clock: Clock) -> None:
        self._catalog, self._clock = catalog, clock
        self._known: Mapping[str, ApiKey] = {}
        self._read_at: float | None = None
        self._reading = Lock()
        self._used: dict[str, int] = {}
        self._using = Lock()
        self._saved_at = monotonic()
        self._saving = Recurring(log, "key_uses")

    @property
    def is_fresh(self) -> bool:
        """Whether `refresh` has nothing to do."""
        return self._read_at is not None and monotonic() - self._read_at < REFRESH_SECONDS

    @property
    def is_empty(self) -> bool:
        """Whether it is known that no key was ever made."""
        return self._read_at is not None and not self._known

    def refresh(self) -> None:
        """Read the keys if they were not read lately, and save their uses now and then. Blocks. Raises CatalogError."""
        with self._reading:
            if self.is_fresh:
                return
            self._known = {key.id: key for key in self._catalog.api_keys()}
            self._read_at = monotonic()
            if self._read_at - self._saved_at >= USES_SECONDS:
                self.save_uses()

    def find(self, text: str) -> ApiKey:
        """Return the key with this text. Raises KeyRefused."""
        match = _KEY.fullmatch(text)
        key = self._known.get(match[1]) if match else None
        if key is None or not hmac.compare_digest(key.digest, _digest(text)):
            raise KeyRefused("the key is unknown")
        self.require_valid(key)
        with self._using:
            self._used[key.id] = self._clock.now()
        return key

    def current(self, key_id: str) -> ApiKey:
        """Return a key by its identifier. Raises KeyRefused if it is not valid any more."""
        key = self._known.get(key_id)
        if key is None:
            raise KeyRefused("the key is unknown")
        self.require_valid(key)
        return key

    def require_valid(self, key: ApiKey) -> None:
        """Raise KeyRefused for a key that was revoked or has expired."""
        if key.revoked_at is not None:
            raise KeyRefused(f"the key {key.name!r} was revoked")
        if key.expires_at is not None and key.expires_at <= self._clock.now():
            raise KeyRefused(f"the key {key.name!r} has expired")

    def save_uses(self) -> None:
        """Write the last uses of keys to the catalog. Errors are logged: no request depends on it."""
        with self._using:
            used, self._used = self._used, {}
        self._saved_at = monotonic()
        try:
            self._catalog.keys_used(used)
        except Exception as error:  # noqa: BLE001 - `_saving` logs it
            with self._using:
                self._used = used | self._used
            self._saving.failed(error)
        else:
            self._saving.worked()
