"""New keys."""

from hashlib import sha256

import pytest

from app.model.principals import Scope
from app.service.access.api_keys import KeyLimits, make_key


def test_an_administrators_key_has_no_limits() -> None:
    with pytest.raises(ValueError, match="cannot be limited"):
        make_key("x", frozenset({Scope.ADMIN}), 0, KeyLimits(sources=frozenset({"orders"})))


def test_keys_are_random_and_only_their_digest_is_kept() -> None:
    made = [make_key("x", frozenset({Scope.READ}), 0) for _ in range(2)]
    (one, text), (other, _) = made
    assert (one.id, one.digest) != (other.id, other.digest)
    assert one.digest == sha256(text.encode()).digest()
    assert text.split("_", 2)[2] not in repr(one)
