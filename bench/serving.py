"""Replicas of `serve --role serve` over one catalog in PostgreSQL: requests a second and the time of an answer.

    python -m bench.serving
    python -m bench.serving --rows 1000000
    python -m bench.serving --rows 1000000 --each

list      the newest 50 attachments, by 1, 2 and 3 replicas
detail    one attachment, drawn at random
download  the content of one, 4 KiB in a folder that all replicas share
psycopg   the statement of `list`, by psycopg alone on as many connections: what the database can do
answers   every list and every filter of REST, on one replica and one connection: the first, a middle and the last page,
          filters that match many rows, few, one and none, several filters at once, and numbers of all (`count`)

Each of the requests goes to the next replica. The clients, the replicas and PostgreSQL share the machine: with two
cores, one replica and its clients take one of them. `--each` prints every request of `answers`. The catalog is that of
tests/support/large_catalog.py; building it takes a minute and a half for a million attachments.
"""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from adapters.sql_catalog.listing_pages import encode_cursor, encode_sorted
from app.model.times import to_time
from tests.support.large_catalog import APART, BEGAN, HOOK, RARE_NAME, RARE_SOURCE, identifier

CLIENTS = 8
STORED = 500
"""The number of attachments whose content is there."""
CONTENT = bytes(4096)
LAST = "~"
"""A text behind all identifiers."""
SETTINGS = """[catalog]
url = "{database}"
[content]
url = "{shared}/content"
[journal]
archive_url = "{shared}/archive"
[limits]
free_bytes = 0
[webhooks.hook]
url = "http://127.0.0.1:9/"
secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
networks = ["127.0.0.0/8"]
"""
PAGE = "SELECT * FROM attachments WHERE kind IS NOT NULL ORDER BY first_received_at DESC, id DESC LIMIT 51"


class Kind(NamedTuple):
    """Requests of one kind: their paths, and how often each is sent."""

    paths: Sequence[str]


def requests(rows: int) -> dict[str, list[str]]:
    """Return the paths of every list and every filter of REST, by the name of the list."""
    last = rows - 1
    middle = quote(encode_cursor(BEGAN + rows // 2 * APART, LAST))
    end = quote(encode_cursor(BEGAN + 20 * APART, LAST))
    pages = ["", f"cursor={middle}", f"cursor={end}"]

    def at(number: float) -> str:
        """Return the time of a row as a filter has it."""
        return quote(to_time(BEGAN + int(number) * APART + 1).isoformat())

    hour = f"received_after={at(rows // 3)}&received_before={at(rows // 3 + 3600)}"
    attachments = [
        *pages,
        "limit=500",
        *(f"state={state}" for state in ("receiving", "complete", "finished", "expired", "quarantined")),
        *(f"kind={kind}" for kind in ("data-set", "text-file", "binary-file")),
        *(f"source={source}" for source in ("orders", "ledger", RARE_SOURCE, "nowhere")),
        *(
            f"name={name}"
            for name in ("invoice", "_0001_", "0007", "zz", RARE_NAME, "zagreb", "no-such-name", "%C3%BC")
        ),
        f"message={identifier('m', rows // 4)}",
        f"message={identifier('m', rows // 4)[:12]}",
        f"message={'0' * 32}",
        hour,
        f"received_before={at(50)}",
        f"received_after={at(last - 20)}",
        f"received_after={at(last * 2)}",
        *(f"min_size={size}" for size in (1, 1 << 29, (1 << 30) - 1000, 1 << 40)),
        *(f"max_size={size}" for size in (1 << 20, 70, 1)),
        "min_size=1000000&max_size=1000100",
        "announced=false",
        "announced=false&state=receiving",
        "announced=false&name=a",
        "warned=true",
        "warned=false",
        *(f"sort={sort}" for sort in ("received", "-received", "size", "-size", "name", "-name")),
        *(f"sort={sort}&cursor={quote(encode_sorted(sort, 1 << 18, LAST))}" for sort in ("size", "-size")),
        *(f"sort={sort}&cursor={quote(encode_sorted(sort, 'ledger', LAST))}" for sort in ("name", "-name")),
        f"sort=-size&cursor={quote(encode_sorted('-size', 65, LAST))}",
        f"sort=name&cursor={quote(encode_sorted('name', 'trades_zz', LAST))}",
        # Several at once.
        "state=finished&kind=data-set",
        "state=finished&source=orders&kind=text-file",
        "state=quarantined&kind=data-set&warned=true",
        "state=complete&source=ledger",
        f"state=receiving&source={RARE_SOURCE}",
        f"state=finished&source={RARE_SOURCE}&name=invoice",
        "state=receiving&name=no-such-name",
        f"state=finished&name={RARE_NAME}",
        "state=finished&name=no-such-name&kind=text-file",
        f"source=orders&name={RARE_NAME}",
        "source=orders&max_size=70",
        "source=orders&min_size=1073741000",
        "kind=data-set&max_size=1",
        "state=receiving&min_size=1",
        "warned=true&state=finished&source=ledger",
        "warned=true&name=no-such-name",
        f"{hour}&kind=data-set",
        f"{hour}&name=no-such-name",
        f"{hour}&sort=-size",
        "sort=-size&name=invoice",
        "sort=-size&source=orders&kind=data-set",
        f"sort=-size&source={RARE_SOURCE}",
        "sort=-size&state=receiving",
        "sort=name&state=receiving",
        "sort=name&name=no-such-name",
        f"sort=name&source={RARE_SOURCE}",
        "sort=-name&min_size=1073741000",
        "sort=received&state=finished&kind=data-set",
        # Numbers of all.
        *(f"count=true&{which}" for which in ("", "state=finished", "state=receiving", "kind=data-set", hour)),
        *(f"count=true&{which}" for which in ("source=orders", f"source={RARE_SOURCE}", "warned=true", "name=invoice")),
        *(f"count=true&{which}" for which in ("min_size=1000000", "name=no-such-name", "state=finished&kind=data-set")),
        "count=true&state=finished&source=orders",
    ]
    messages = [
        *pages,
        *(f"source={source}" for source in ("orders", "ledger", RARE_SOURCE, "nowhere")),
        hour,
        f"source={RARE_SOURCE}&received_before={at(rows // 2)}",
    ]
    quarantine = [
        *pages,
        *(f"source={source}" for source in ("orders", RARE_SOURCE, "nowhere")),
        *(f"state={state}" for state in ("kept", "replayed", "dismissed")),
        *(f"code={code}" for code in ("truncated", "bad-header", "no-such-code")),
        *(f"why={quote(why)}" for why in ("no count came", "byte 7 is 8", "no such reason")),
        "state=kept&code=bad-header",
        "state=dismissed&code=bad-header&source=orders",
        f"source={RARE_SOURCE}&code=bad-header&why=no%20count%20came",
    ]
    groups = ["", "state=kept", f"source={RARE_SOURCE}", "source=orders&state=dismissed", "code=bad-header"]
    between = f"created_after={at(rows // 3)}&created_before={at(rows // 3 + 3600)}"
    deliveries = [
        *pages,
        *(f"state={state}" for state in ("queued", "sending", "sent", "failed", "cancelled")),
        *(f"destination={destination}" for destination in ("partner", "rarely", "nowhere")),
        between,
        "state=failed&destination=partner",
        "state=sent&destination=rarely",
        "state=failed&destination=rarely",
        "state=sending&destination=partner",
        f"state=failed&{between}",
    ]
    letters = f"/webhooks/{HOOK}/dead-letters"
    asked = {
        "/attachments": attachments,
        "/messages": messages,
        "/quarantine": quarantine,
        "/quarantine/groups": groups,
        "/deliveries": deliveries,
        "/uploads": [""],
        letters: [""],
        "/webhooks": [""],
        "/pipeline/runs": [""],
        "/tables": [""],
        "/audit": ["", "action=sign-in", "result=refused"],
        "/summary": [""],
    }
    return {path: [f"/v1{path}?{query}" for query in queries] for path, queries in asked.items()}
