"""API keys, webhooks and their dead letters."""

from dataclasses import replace

import pytest

from app.model.principals import ApiKey, Scope
from app.model.webhook_state import WebhookRecord, WebhookState
from app.ports import Catalog
from tests.contracts.catalog.records import dead_letter


class KeysAndWebhooks:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_keys_are_kept_until_they_are_revoked_and_after(self, catalog: Catalog) -> None:
        assert catalog.api_keys() == []
        first = ApiKey("k1", "billing", b"\x00" * 32, frozenset({Scope.READ}), 5)
        limited = ApiKey("k2", "Grüße\0", b"\xff" * 32, frozenset(Scope), 6, frozenset({"quay"}), frozenset(), 99)
        catalog.add_key(limited)
        catalog.add_key(first)
        assert catalog.api_keys() == [first, limited]
        for taken in (replace(first, name="other"), replace(first, id="k3")):
            with pytest.raises(ValueError, match="already"):
                catalog.add_key(taken)
        assert [catalog.revoke_key("k1", 7), catalog.revoke_key("k1", 8), catalog.revoke_key("k9", 8)] == [
            True,
            False,
            False,
        ]
        again = replace(first, id="k3", created_at=8)
        catalog.add_key(again)
        assert catalog.api_keys() == [replace(first, revoked_at=7), limited, again]

    def test_the_last_use_of_keys_never_goes_back(self, catalog: Catalog) -> None:
        made = [ApiKey(f"k{n}", f"name {n}", b"", frozenset(), n) for n in range(3)]
        for key in made:
            catalog.add_key(key)
        for times in ({"k0": 5, "k1": 9, "gone": 1}, {"k0": 7, "k1": 8}, {}):
            catalog.keys_used(times)
        assert [key.last_used_at for key in catalog.api_keys()] == [7, 9, None]

    # --- webhooks -------------------------------------------------------------------------------------------------

    def test_a_webhook_is_saved_and_replaced(self, catalog: Catalog) -> None:
        assert catalog.webhooks() == {}
        first, other = WebhookRecord("one", 7), WebhookRecord("two", 1 << 40)
        changed = WebhookRecord("one", 8, WebhookState.DISABLED, 3, 11, 12, "gone \x00", 13)
        for record in (first, other, changed):
            catalog.save_webhook(record)
        assert catalog.webhooks() == {"one": changed, "two": other}

    def test_dead_letters_are_kept_in_order_and_by_webhook(self, catalog: Catalog) -> None:
        letters = [dead_letter(number) for number in (3, 1, 2)]
        catalog.save_webhook(WebhookRecord("one", 3), [*letters, dead_letter(1, "two")])
        assert catalog.dead_letters("one", 0, 9) == [dead_letter(1), dead_letter(2), dead_letter(3)]
        assert catalog.dead_letters("one", 1, 1) == [dead_letter(2)]
        assert catalog.dead_letter_counts() == {"one": 3, "two": 1}
        assert catalog.drop_dead_letters("one", [2, 9]) == 1
        assert catalog.drop_dead_letters("one", []) == 0
        assert catalog.drop_dead_letters("one", None) == 2
        assert catalog.dead_letter_counts() == {"two": 1}

    def test_dead_letters_are_queued_and_come_back(self, catalog: Catalog) -> None:
        catalog.save_webhook(WebhookRecord("one", 3), [dead_letter(number) for number in (1, 2, 3)])
        assert catalog.queue_dead_letters("one", [2, 9], 77) == 1
        assert catalog.dead_letters("one", 0, 9, queued=True) == [dead_letter(2)._replace(queued_at=77)]
        again = dead_letter(2)._replace(failed_at=99, reason="again")
        catalog.save_webhook(WebhookRecord("one", 3), [again])
        assert catalog.dead_letters("one", 1, 1) == [again]
        assert catalog.queue_dead_letters("one", None, 78) == 3
        assert catalog.queue_dead_letters("none", None, 78) == 0

    def test_old_dead_letters_go_unless_they_are_queued(self, catalog: Catalog) -> None:
        catalog.save_webhook(WebhookRecord("one", 4), [dead_letter(number) for number in (1, 2, 3, 4)])
        catalog.queue_dead_letters("one", [1], 5)
        assert (catalog.prune_dead_letters(104, 1), catalog.prune_dead_letters(104, 9)) == (1, 1)
        assert [letter.event.number for letter in catalog.dead_letters("one", 0, 9)] == [1, 4]
