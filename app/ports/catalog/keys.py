"""API keys, which clients of REST authenticate with, and secrets that all processes of a gateway share."""

from collections.abc import Mapping
from typing import Protocol

from app.model.principals import ApiKey


class KeyCatalog(Protocol):
    """API keys by identifier. A revoked key stays listed."""

    def add_key(self, key: ApiKey) -> None:
        """Add a key. Raises ValueError if there is one with its identifier or, unless it is revoked, one with its name
        that is not."""

    def api_keys(self) -> list[ApiKey]:
        """Return all keys, also revoked and expired ones, in the order of their creation."""

    def revoke_key(self, key_id: str, now: int) -> bool:
        """Revoke a key. Return False if it is unknown or already revoked."""

    def keys_used(self, times: Mapping[str, int]) -> None:
        """Record when keys were last used; a time before the recorded one changes nothing."""

    def shared_secret(self, name: str, size: int) -> bytes:
        """Return the secret of this name. The first call makes one of random bytes."""
