"""Files of every size, sent in groups and segments, and the checks of what is received."""

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.support.gateway import GatewayProcess
from tests.support.loads import check_each
from tests.support.mq_client import Sent, alone, any_bodies, group, segmented

SIZES = (0, 1, 999, 32_000, 100_000, 1_000_000)


def files(random: Random) -> list[Sent]:
    """Return each size as a group, as a segmented message and as a single message."""
    made: list[Sent] = []
    for size in SIZES:
        made.append(group(random, any_bodies(random, random.randbytes(size), 20), name=f"d:\\{size} é.bin"))
        made.append(segmented(random, any_bodies(random, random.randbytes(size), 1, 20)[0], text=True))
        made.append(alone(random, random.randbytes(size), text=True, name=f"{size}.txt"))
    return made


def assert_groups(process: GatewayProcess, sent: Sequence[Sent], *, with_names: bool) -> None:
    """Assert that the source `groups` has each file once and unchanged, and nothing else."""
    received = {item["correl_id"]: item for item in process.listing("/v1/attachments", source="groups")}
    by_identifier = {each.identifier.hex(): each for each in sent}
    assert sorted(received) == sorted(by_identifier)

    def check(item: dict[str, Any]) -> None:
        each = by_identifier[item["correl_id"]]
        first = each.messages[0]
        assert (item["size"], item["sha256"]) == (len(each.content), each.sha256), item
        assert process.client.get(f"/v1/attachments/{item['id']}/content").content == each.content
        assert item["progress"]["parts_received"] == len(each.messages)
        assert item["kind"] == ("text-file" if first.format else "binary-file")
        name = first.properties.get("filename") if with_names else None
        assert item["name"] == (name or each.identifier.hex())

    check_each(check, received.values())


def upload(process: GatewayProcess, destination: str, content: list[tuple[str, bytes, str]]) -> None:
    """Post files, each a name, its bytes and its media type."""
    files: list[Any] = [("file", each) for each in content]
    process.client.post("/v1/messages", data={"destination": destination}, files=files).raise_for_status()
