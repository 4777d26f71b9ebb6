"""Data of released versions: they are opened, nothing is lost, and what was unfinished goes on."""

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import Run
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess
from tests.support.mosquitto import Mosquitto
from tests.support.postgresql import new_database
from tests.support.publish import publish
from tests.upgrades.data import VERSIONS, found, from_json, load_catalog, settings, unpacked

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("broker")) as running:
        yield running


class Opened(NamedTuple):
    """A gateway that is to open a version's data, and what it must find."""

    gateway: GatewayProcess
    wanted: dict[str, Any]
    described: dict[str, Any]

    @property
    def configuration(self) -> Path:
        return self.gateway.folder / "gateway.toml"


@pytest.fixture(params=["gateway", "backup", "rebuilt", pytest.param("postgresql", marks=pytest.mark.database)])
def opened(request: pytest.FixtureRequest, version: str, broker: Mosquitto, tmp_path: Path, run: Run) -> Opened:
    kind: str = request.param
    described = unpacked(version, tmp_path)
    folder, url = tmp_path / "gateway", None
    if kind == "postgresql":
        url = new_database(request.getfixturevalue("postgresql"))
        folder = tmp_path / "postgresql"
        load_catalog(folder, url)
    gateway = ForkedGateway(folder, settings(broker.port, catalog=url))
    wanted: dict[str, Any] = dict(described["gateway" if kind == "rebuilt" else kind])
    opened = Opened(gateway, wanted, described)
    if kind == "backup":
        shutil.rmtree(folder / "var")
        assert run("restore", "--config", opened.configuration, "--from", folder / "backup").code == 0
    elif kind == "rebuilt":
        assert run("rebuild", "--yes", "--config", opened.configuration).code == 0
        del wanted["uploads"], wanted["messages"]  # uploads begin anew, and messages are complete when they are read
    return opened


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_opened_and_goes_on(opened: Opened, broker: Mosquitto, run: Run) -> None:
    with opened.gateway as gateway:
        shown = found(gateway)
        assert {name: shown[name] for name in opened.wanted} == opened.wanted
        unfinished = opened.described["unfinished"]
        (begun,) = gateway.listing("/v1/attachments", name=unfinished["name"])
        assert begun["state"] == "receiving"
        gateway.await_source("orders")
        publish(map(from_json, unfinished["missing"]), broker.port, "orders", "5")
        gateway.until(lambda: gateway.client.get(f"/v1/attachments/{begun['id']}").json()["state"] == "finished")
        content = gateway.client.get(f"/v1/attachments/{begun['id']}/content").raise_for_status().content
        assert sha256(content).hexdigest() == unfinished["sha256"]
    checked = run("fsck", "--config", opened.configuration)
    assert checked.code == 0, checked
