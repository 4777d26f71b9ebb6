"""The election of the active gateway by a Lease.

Clocks of machines are not compared. A gateway that stands by notes, by its own clock, when it first saw each version of
the Lease. The Lease is free when it has had the same version for its duration. The holder counts from before its last
renewal, and gives up earlier than that. So at no time two gateways believe that they hold it, as long as their clocks
run at about the same speed and neither is paused. docs/adr/0017-a-gateway-that-stands-by.md says what happens when one
is paused.
"""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

from app.model.errors import GatewayError
from app.observe import Recurring, logger
from app.service.standby.lease import Lease, LeaseApi, LeaseChanged, LeaseError
from app.settings import Standby

log = logger(__name__)

WATCHES = 20
"""How often within `renew_deadline` the holder looks whether it has passed."""


class Election:
    """One gateway's part in the election, under the `name` of its process. `lost` is called from another thread when it
    may no longer be active."""

    def __init__(self, settings: Standby, name: str, lost: Callable[[str], None]) -> None:
        self._settings, self.name, self._lost = settings, name, lost
        self._api = LeaseApi(settings)
        self.holder = ""
        """The gateway that holds the Lease, as far as this one knows."""
        self._held: Lease | None = None
        self._renewed = 0.0
        self._ending = Event()
        self._threads: list[Thread] = []
        self._fault = Recurring(log, "lease")

    @property
    def error(self) -> str | None:
        """Return why the last request to the API server failed; None if it worked."""
        return self._fault.error

    def campaign(self, stop: Event) -> bool:
        """Wait until this gateway holds the Lease. Return False when `stop` was set before."""
        seen, since = "", monotonic()
        while not stop.is_set():
            try:
                found = self._api.read()
                version = "" if found is None else found.version
                if version != seen:
                    seen, since = version, monotonic()
                self.holder = "" if found is None else found.holder
                # the seconds without renewal after which the Lease of another gateway is free
                longest = 0.0 if found is None else max(found.seconds, self._settings.duration.total_seconds())
                if found is None or not found.holder or monotonic() - since > longest:
                    started = monotonic()
                    self._hold(self._api.take(found, self.name), started)
                    log.info("lease_taken", holder=self.name, before=self.holder or None)
                    self.holder = self.name
                    self._fault.worked()
                    return True
                self._fault.worked()
            except LeaseChanged:
                self._fault.worked()
            except LeaseError as error:
                self._fault.failed(error)
            stop.wait(self._settings.retry.total_seconds())
        return False

    def release(self) -> None:
        """Give the Lease up, once this gateway writes nothing more."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        held, self._held = self._held, None
        if held is not None:
            try:
                self._api.release(held)
                log.info("lease_released", holder=self.name)
            except GatewayError as error:
                log.warning("lease_release_failed", reason=str(error))
        self._api.close()

    def is_held(self) -> bool:
        """Tell whether this gateway has renewed the Lease recently enough."""
        return self._held is not None and monotonic() - self._renewed < self._settings.renew_deadline.total_seconds()

    def _hold(self, lease: Lease, started: float) -> None:
        self._held, self._renewed = lease, started
        for name, work in (("renew lease", self._renew), ("watch lease", self._watch)):
            thread = Thread(target=work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _renew(self) -> None:
        while not self._ending.wait(self._settings.retry.total_seconds()):
            assert self._held is not None
            started = monotonic()
            try:
                self._held, self._renewed = self._api.renew(self._held), started
                self._fault.worked()
            except LeaseChanged:
                self._look()
            except LeaseError as error:
                self._fault.failed(error)

    def _look(self) -> None:
        """Read the Lease after somebody has changed it. Another holder ends this gateway."""
        try:
            found = self._api.read()
        except LeaseError as error:
            self._fault.failed(error)
            return
        if found is None or found.holder != self.name:
            holder = "nobody" if found is None else found.holder or "nobody"
            self._lost(f"the Lease {self._settings.lease} is held by {holder}")
        else:
            self._held = found

    def _watch(self) -> None:
        """End this gateway when the Lease could not be renewed in time. A request that hangs does not delay this."""
        while not self._ending.wait(self._settings.renew_deadline.total_seconds() / WATCHES):
            if not self.is_held():
                self._lost(f"the Lease {self._settings.lease} could not be renewed: {self.error or 'no answer yet'}")
                return
