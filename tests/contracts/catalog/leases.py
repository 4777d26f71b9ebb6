"""Leases, and that a former holder writes nothing."""

from dataclasses import replace

import pytest

from app.model.errors import LeaseLost
from app.model.records import JournalIdentity
from app.model.webhook_state import WebhookRecord
from app.ports import Catalog, HeldLease

LONG = 3600.0


class Leases:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    def test_a_lease_is_of_one_holder_until_it_ends_or_is_released(self, catalog: Catalog) -> None:
        first = catalog.take_lease("keep", "one", LONG)
        assert first == HeldLease("keep", "one", 1, None, catalog.newest_log())
        assert catalog.lease_holder("keep") == "one"
        assert catalog.lease_holder("other") is None
        assert catalog.take_lease("keep", "two", LONG) is None
        assert catalog.take_lease("keep", "one", LONG) is None  # a process takes a lease once, and renews it
        assert catalog.take_lease("other", "two", LONG) == HeldLease("other", "two", 1, None, catalog.newest_log())
        assert catalog.renew_lease(first, LONG, 17)
        catalog.release_lease(first)
        assert catalog.lease_holder("keep") is None
        second = catalog.take_lease("keep", "two", LONG)
        assert second == HeldLease("keep", "two", 2, 17, catalog.newest_log())
        assert not catalog.renew_lease(first, LONG, 99)
        catalog.release_lease(first, 99)
        assert catalog.take_lease("keep", "three", LONG) is None
        catalog.release_lease(second, 18)
        assert catalog.take_lease("keep", "three", LONG) == HeldLease("keep", "three", 3, 18, catalog.newest_log())

    def test_a_lease_ends_by_itself_and_may_be_renewed_until_somebody_takes_it(self, catalog: Catalog) -> None:
        first = catalog.take_lease("keep", "one", -1.0)
        assert first is not None
        assert catalog.renew_lease(first, LONG)
        assert catalog.take_lease("keep", "two", LONG) is None
        assert catalog.renew_lease(first, -1.0)
        assert catalog.take_lease("keep", "two", LONG) == HeldLease("keep", "two", 2, None, catalog.newest_log())
        assert catalog.take_lease("keep", "three", LONG, at_once=True) == HeldLease(
            "keep", "three", 3, None, catalog.newest_log()
        )

    def test_who_has_lost_a_lease_writes_nothing_under_it(self, catalog: Catalog) -> None:
        webhook = WebhookRecord("hook", 1)
        first = catalog.take_lease("keep", "one", LONG)
        assert first is not None
        kept = catalog.under(first)
        kept.save_webhook(webhook)
        second = catalog.take_lease("keep", "two", LONG, at_once=True)
        assert second is not None
        for write in (
            lambda: kept.save_webhook(replace(webhook, position=2)),
            lambda: kept.prune_events(1 << 60),
            kept.flush,
        ):
            with pytest.raises(LeaseLost, match=r"the lease keep of epoch 1 is over: two with epoch 2 holds it"):
                write()
        assert kept.webhooks() == {"hook": webhook}
        catalog.under(second).save_webhook(replace(webhook, position=3))
        assert catalog.webhooks() == {"hook": replace(webhook, position=3)}
        catalog.save_webhook(replace(webhook, position=4))  # what is no matter of the lease is written by anybody
        assert kept.webhooks() == {"hook": replace(webhook, position=4)}

    def test_a_lease_ends_with_the_log_of_events(self, catalog: Catalog) -> None:
        catalog.bind(JournalIdentity("journal", 1))
        first = catalog.take_lease("keep", "one", LONG)
        assert first is not None
        kept = catalog.under(first)
        assert catalog.renew_lease(first, LONG, 17)
        kept.flush()
        catalog.bind(JournalIdentity("journal", 1))
        assert not catalog.renew_lease(first, LONG, 18)
        with pytest.raises(LeaseLost, match=r"the lease keep of epoch 1 is over: the database was started or put back"):
            kept.flush()
        assert catalog.take_lease("keep", "one", LONG) is None
        catalog.release_lease(first, 19)
        again = catalog.take_lease("keep", "one", LONG)
        assert again == HeldLease("keep", "one", 2, 17, catalog.newest_log()), (
            "the notes 18 and 19 are of the log before"
        )
        catalog.under(again).flush()
