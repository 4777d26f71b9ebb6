"""The gateway that stands by tells that it lives and is not ready, and refuses everything else."""

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import bound
from app.settings import Settings
from app.testing.waiting import until
from app.web.server.standby_app import standing_by


@pytest.mark.parametrize("public", [["docs"], ["health"]])
def test_it_lives_and_is_not_ready(tmp_path: Path, public: list[str]) -> None:
    settings = Settings.model_validate({"data": tmp_path, "http": {"port": 0, "public": public}})
    details: dict[str, Any] = {"checks": {"standby": {"ok": True, "holder": "other"}}} if public == ["health"] else {}
    with bound(settings.http) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            standing_by(listener, settings, lambda: {"ok": True, "holder": "other"}),
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            until(lambda: _answers(client))
            live = client.get("/health/live")
            assert (live.status_code, live.json()) == (200, {"ok": True, **details})
            ready = client.get("/health/ready")
            assert (ready.status_code, ready.json()) == (503, {"ok": False, **details})
            for path in ("/v1/attachments", "/metrics", "/"):
                refused = client.get(path)
                assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
                assert refused.headers["Content-Type"] == "application/problem+json"
                assert "stands by" in refused.json()["detail"]
            for path in ("/health/ready", "/health/ready/read", "/health/ready/receive"):
                assert client.head(path).status_code == 503
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass  # whoever comes now waits for the one that takes over


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health/live").is_success
    except httpx.TransportError:
        return False
