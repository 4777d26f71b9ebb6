"""The chart as Helm renders it."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "helm"
RELEASE, NAMESPACE = "gateway", "prod"
Manifest = dict[str, Any]


def rendered(values: dict[str, Any], **given: Any) -> list[Manifest]:
    """Return the manifests of a release with these values, in the order of the templates. Raises HelmError."""
    made = _chart().render(values, name=RELEASE, namespace=NAMESPACE, **given)
    texts = (text for name, text in sorted(made.items()) if name.endswith(".yaml"))
    return [manifest for text in texts for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]


def helm() -> Any:
    """Return the Python package of Helm's own code, or skip the test where there is none for this machine."""
    return pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel for this machine")


@cache
def _chart() -> Any:
    return helm().Chart.load(str(FOLDER))
