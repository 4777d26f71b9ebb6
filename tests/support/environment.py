"""What the tests, and all processes that they start, do not take from the environment of who runs them.

The variables of a configuration would send their messages to its brokers, and write into its folders. A proxy cannot
reach the servers that tests start on this machine; only what fetches packages gets it, by `with_proxies`.
"""

import json
import os

_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}
KEPT = "PROXIES_OF_WHO_RUNS_THE_TESTS"


def isolate() -> None:
    """Remove the gateway's variables from this process's environment, and put those of tests and its proxies aside."""
    found = {name: os.environ.pop(name) for name in list(os.environ) if name.upper() in _PROXIES}
    os.environ.setdefault(KEPT, json.dumps(found))  # a process of xdist inherits it
    for name in list(os.environ):
        if name.upper().startswith("ATTACHMENT_GATEWAY_"):
            del os.environ[name]


def with_proxies() -> dict[str, str]:
    """Return the environment of a program that fetches something."""
    kept: dict[str, str] = json.loads(os.environ.get(KEPT, "{}"))
    return {**os.environ, **kept}
