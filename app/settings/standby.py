"""An active gateway and others that stand by: how they agree by a Lease of Kubernetes."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from app.model.validation import KUBERNETES_NAME, KUBERNETES_NAMESPACE, WEB_URL
from app.settings.section import Section
from app.settings.setting_types import Duration

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

ObjectName = Annotated[str, StringConstraints(pattern=KUBERNETES_NAME)]
NamespaceName = Annotated[str, StringConstraints(pattern=KUBERNETES_NAMESPACE)]


class Standby(Section):
    """Several gateways with one journal, of which the holder of a Lease is active.

    The holder renews the Lease every `retry`. If that fails for `renew_deadline`, it ends at once. Another gateway
    takes over when the Lease has not been renewed for `duration`. The defaults of `api_url`, `namespace_file`,
    `token_file` and `ca_file` are those of a pod."""

    lease: ObjectName
    namespace: NamespaceName
    api_url: str = Field(default="https://kubernetes.default.svc", pattern=WEB_URL)
    token_file: Path = _ACCOUNT / "token"
    ca_file: Path = _ACCOUNT / "ca.crt"
    duration: Duration = Field(default=timedelta(seconds=15), ge=timedelta(seconds=1), le=timedelta(hours=1))
    renew_deadline: Duration = Field(default=timedelta(seconds=10), ge=timedelta(milliseconds=100))
    retry: Duration = Field(default=timedelta(seconds=2), ge=timedelta(milliseconds=50))

    @model_validator(mode="before")
    @classmethod
    def _pods_namespace(cls, given: object) -> object:
        if isinstance(given, dict) and not {"namespace", "namespace_file"} & given.keys():
            return given | {"namespace_file": str(_ACCOUNT / "namespace")}
        return given

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.duration % timedelta(seconds=1):
            raise ValueError("duration must be whole seconds")
        if not self.retry < self.renew_deadline < self.duration:
            raise ValueError("retry must be shorter than renew_deadline, and that shorter than duration")
        return self
