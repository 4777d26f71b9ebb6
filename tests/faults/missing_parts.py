"""Two gateways, of which one asks the other for what a lossy network has dropped, while both are killed.

The network drops messages of QoS 0, also those that are sent again. A process is killed when a request has just gone
out: the request, its answer, or what is known of both is lost with it. A witness, who subscribes to everything, sees
what was sent, how often, and what was asked for.

An attachment is *lost* when it is not finished in the end, *twice* when the same request for it went out twice, *wrong*
when its SHA-256 is another one, or when more was sent again than a tenth above what was lost.
"""

import json
from collections import Counter
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from time import sleep

from paho.mqtt.client import Client, MQTTMessage

from adapters.arrow_journal import ArrowJournal
from tests.faults.judging import Verdict
from tests.support.dropping_proxy import DroppingProxy
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import mqtt_destination, mqtt_source
from tests.support.group_loads import upload
from tests.support.mosquitto import Mosquitto
from tests.support.publish import connected

MOST = 10
KINDS = ("receiver killed", "sender killed", "both killed")
FILES = 10
"""Files sent before each fault."""
RATE = 0.05
MOST_SENT_AGAIN = 1.1
ASKED_WITHIN, SOON = 90.0, 420.0
"""Seconds. After a start, nobody is asked for half a minute, and again only after a minute, then two."""


class Witness:
    """A subscriber to everything: the bytes of each message by its correlation data, and the requests."""

    def __init__(self, port: int) -> None:
        self.sent = self.again = 0
        self.requests: Counter[tuple[str, int]] = Counter()
        self._seen: set[tuple[bytes, bytes]] = set()
        self._client = connected(port, "5", "witness")
        self._client.on_message = self._took
        self._client.subscribe([("files", 1), ("ask/#", 1)])

    def _took(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        payload = bytes(message.payload)
        if message.topic != "files":
            asked = json.loads(payload)
            self.requests[asked["attachment"], asked["request"]] += 1
            return
        key = getattr(message.properties, "CorrelationData", b""), sha256(payload).digest()
        self.sent += len(payload)
        self.again += len(payload) if key in self._seen else 0
        self._seen.add(key)

    def has_more_requests(self, number: int) -> bool:
        return len(self.requests) > number

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def run(seed: str, folder: Path, count: int | None = None) -> Verdict:
    """Run the scenario with this number of faults, or with each kind once."""
    random = Random(f"missing parts {seed}")
    kinds = [kind for _ in range(count or 1) for kind in random.sample(KINDS, len(KINDS))][: count or len(KINDS)]
    notes: list[str] = []
    hung: list[str] = []
    with ExitStack() as ending:
        broker = ending.enter_context(Mosquitto(folder))
        proxy = ending.enter_context(DroppingProxy(broker.port, RATE, seed=random.randrange(1 << 30)))
        witness = Witness(broker.port)
        ending.callback(witness.close)
        options = 'body_limit = 4096\nanswer_missing = "ask/sender"\nanswer_missing_rate = 100000\n'
        sender = _gateway(folder / "sender", mqtt_destination("out", broker.port, "files", options))
        options = 'qos = 0\nrequest_missing_to = "ask/#"\nrequest_missing_after = "1s"\nrequest_missing_rate = 100000\n'
        settings = f'{mqtt_source("in", proxy.port, "files", options=options)}[expiry]\nunfinished = "1h"\n'
        receiver = _gateway(folder / "receiver", settings)
        for each in (sender, receiver):
            each.start()
            ending.callback(each.stop)
        receiver.await_source("in")
        digests: dict[str, str] = {}

        def finished() -> dict[str, str]:
            return {each["name"]: each["sha256"] for each in receiver.listing("/v1/attachments", state="finished")}

        try:
            for kind in kinds:
                asked = len(witness.requests)
                _send(sender, digests, random)
                receiver.until(partial(witness.has_more_requests, asked), ASKED_WITHIN)
                sleep(random.uniform(0, 0.3))
                killed = [each for name, each in (("receiver", receiver), ("sender", sender)) if name in kind]
                for each in killed or [receiver, sender]:
                    each.kill()
                for each in killed or [receiver, sender]:
                    each.start()
                receiver.await_source("in")
                notes.append(f"{kind}: {len(finished())} of {len(digests)} are finished")
            proxy.is_dropping = False
            receiver.until(lambda: len(finished()) >= len(digests), SOON, pause=0.5)
        except (AssertionError, TimeoutError) as error:
            hung.append(str(error)[:2000])
        found = finished()
        missing = [f"{name} is not finished" for name in digests.keys() - found.keys()]
        wrong = [f"{name} has other bytes" for name, digest in found.items() if digests.get(name) != digest]
        receiver.stop()
        lost = witness.sent - _kept(receiver)
        if witness.again > MOST_SENT_AGAIN * lost:
            wrong.append(f"{witness.again:,} bytes were sent again, and {lost:,} were lost")
        twice = [f"request {number} for {key}" for (key, number), times in witness.requests.items() if times > 1]
        told = (
            f"{len(digests)} files; {lost:,} bytes lost, {witness.again:,} sent again, {len(witness.requests)} requests"
        )
    notes += [told, *missing, *twice, *wrong, *hung]
    return Verdict(len(kinds), len(missing), len(twice), len(wrong), len(hung), 0, tuple(notes))


def _gateway(folder: Path, settings: str) -> ForkedGateway:
    folder.mkdir()
    return ForkedGateway(folder, settings)


def _kept(receiver: ForkedGateway) -> int:
    """Return the bytes of all messages in the journal of a gateway that has stopped."""
    journal = ArrowJournal(receiver.folder / "var" / "journal")
    kept = sum(len(each.body) for _, some in journal.replay(None) for each in some)
    journal.close()
    return kept


def _send(sender: ForkedGateway, digests: dict[str, str], random: Random) -> None:
    """Send files until at least one message is lost in all likelihood, and wait until the broker has all of them."""
    for _ in range(FILES):
        name, content = f"file-{len(digests):04}.bin", random.randbytes(random.randrange(10_000, 60_000))
        upload(sender, "out", [(name, content, "application/octet-stream")])
        digests[name] = sha256(content).hexdigest()
    sender.until(lambda: len(sender.listing("/v1/deliveries", state="sent")) == len(digests), ASKED_WITHIN)
