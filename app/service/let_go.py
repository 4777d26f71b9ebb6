"""Up to where unfinished attachments have been let go, told to whoever assembles elsewhere.

It is an object of the content store, as that is what the gateway and every worker of a Spark job reach: for each source
a packed journal position. An attachment of which nothing has come behind it has expired, and nothing is kept of it.
"""

import json
from collections.abc import Mapping

from app.ports import ContentStore

NAME = "pipeline/let-go.json"


def write_let_go(store: ContentStore, positions: Mapping[str, int]) -> None:
    """Tells it; on disk on return."""
    with store.create(NAME) as target:
        target.write(json.dumps(positions).encode())


def read_let_go(store: ContentStore) -> dict[str, int]:
    """What was told last; nothing where no gateway tells it."""
    try:
        told: dict[str, int] = json.loads(b"".join(store.read(NAME)))
    except KeyError:
        return {}
    return told
