"""The chart, rendered by Helm's own code and checked against Kubernetes' schemas; its alerts and dashboards."""

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import promql_parser
import pytest
import yaml
from pydantic import BaseModel

from app import plugins
from app.metrics import SUPERSEDED, Metrics, PipelineDeclared
from app.settings import Settings, load
from app.web.server.standby_app import HEALTH_PATHS
from docs.alerts import ALERTS
from docs.dashboards import DASHBOARDS, queries
from tests.support import mqi
from tests.support.chart import FOLDER, NAMESPACE, ROOT, Manifest, helm, rendered
from tests.support.models import within

KUBERNETES = "1.37"
NAME = "gateway-attachment-gateway"
URLS = {"journal": "archive_url", "content": "url", "tables": "url", "pipeline": "checkpoint"}
UNSHARED = {section: {key: "s3://bucket/x"} for section, key in URLS.items()}
BESIDE: dict[str, Any] = {"assembler": "spark", "persistence": {"accessModes": ["ReadWriteOnce"]}}
EVERYTHING: dict[str, Any] = {
    "assembler": "spark",
    "dashboards": {"enabled": True},
    "env": [{"name": "AWS_REGION", "value": "eu-1"}],
    "existingSecret": "secrets",
    "extraVolumes": [{"name": "authority", "configMap": {"name": "authority"}}],
    "extraVolumeMounts": [{"name": "authority", "mountPath": "/etc/authority", "readOnly": True}],
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["gateway.example"]},
    "imagePullSecrets": [{"name": "registry"}],
    "ingress": {
        "enabled": True,
        "className": "haproxy",
        "hosts": ["gateway.example"],
        "tls": [{"hosts": ["gateway.example"], "secretName": "tls"}],
    },
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 8883}]}],
    },
    "nodeSelector": {"disk": "ssd"},
    "persistence": {"accessModes": ["ReadWriteMany"], "storageClass": "fast"},
    "pipeline": {
        "master": "k8s://https://kubernetes.default.svc",
        "conf": {"spark.sql.shuffle.partitions": 8},
        "extraVolumes": [{"name": "jars", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "jars", "mountPath": "/opt/jars"}],
    },
    "podDisruptionBudget": {"enabled": True},
    "prometheusRule": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "runbooks": "https://docs.example/alerts/",
    },
    "serviceMonitor": {"enabled": True, "tokenSecret": {"name": "prometheus"}},
    "settings": {
        "http": {"tokens": ["0" * 64]},
        "limits": {"free_bytes": 268435456, "conversions": 2},
        "sources": {"orders": {"transport": "mqtt", "url": "mqtts://broker:8883", "topic": "orders/#"}},
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "traces": {"enabled": True, "endpoint": "http://collector:4318", "ratio": 0.25},
}


@pytest.fixture(scope="module")
def everything() -> list[Manifest]:
    """The chart with all that it has."""
    return rendered(EVERYTHING)


def only(manifests: list[Manifest], kind: str, name: str = NAME) -> Any:
    (found,) = [each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def container(manifests: list[Manifest], kind: str = "StatefulSet", name: str = NAME) -> Any:
    return only(manifests, kind, name)["spec"]["template"]["spec"]["containers"][0]


def test_helm_finds_nothing_to_say() -> None:
    found = helm().lint(str(FOLDER), values=EVERYTHING)
    assert found["errors"] == []
    assert found["messages"] == []


def test_kubernetes_knows_every_field(everything: list[Manifest], monkeypatch: pytest.MonkeyPatch) -> None:
    """As `kubectl apply` with strict validation; of the kinds that are not Kubernetes' own, tests follow."""
    reading = cache(kubernetes_validate.utils.schema_contents)  # it would read all definitions for each manifest
    monkeypatch.setattr(kubernetes_validate.utils, "schema_contents", reading)
    kinds: Counter[str] = Counter()
    for manifest in everything:
        try:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        except kubernetes_validate.utils.SchemaNotFoundError:
            kinds[manifest["kind"]] += 1
    assert kinds == {"HTTPRoute": 1, "PrometheusRule": 1, "ServiceMonitor": 2}
    wrong = only(everything, "StatefulSet") | {"spec": {"replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_without_values_there_is_one_pod_with_a_volume_that_stays() -> None:
    manifests = rendered({})
    kinds = Counter(each["kind"] for each in manifests)
    assert kinds == Counter(("ConfigMap", "PersistentVolumeClaim", "Pod", "Service", "ServiceAccount", "StatefulSet"))
    assert only(manifests, "StatefulSet")["spec"]["replicas"] == 1
    claim = only(manifests, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    (pod,) = [each for each in manifests if each["kind"] == "Pod"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    ast.parse(pod["spec"]["containers"][0]["command"][2])
    assert pod["spec"]["containers"][0]["command"][3] == f"http://{NAME}:8080"


def test_there_are_never_two_active_gateways() -> None:
    for replicas in (0, None):
        made = rendered(BESIDE | {"replicas": replicas, "pipeline": {"replicas": replicas}})
        for name in (NAME, f"{NAME}-pipeline"):
            assert only(made, "StatefulSet", name)["spec"].get("replicas") == replicas
    refusals: list[dict[str, Any]] = [{"replicas": 3}, {"pipeline": {"replicas": 2}}]
    for refused in refusals:
        with pytest.raises(helm().HelmError, match="replicas"):
            rendered(refused)


TWO: dict[str, Any] = {
    "replicas": 2,
    "persistence": {"accessModes": ["ReadWriteMany"]},
    "settings": {"catalog": {"url_file": "/run/secrets/gateway/catalog"}, "standby": {"duration": "20s"}},
}


def test_a_second_gateway_stands_by() -> None:
    made = rendered(TWO)
    spec = only(made, "StatefulSet")["spec"]
    assert (spec["replicas"], spec["updateStrategy"]) == (2, {"type": "OnDelete"})
    pod = spec["template"]["spec"]
    (apart,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    labels = spec["template"]["metadata"]["labels"].items()
    assert apart["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= labels
    configured = tomllib.loads(only(made, "ConfigMap")["data"]["gateway.toml"])
    assert configured["standby"] == {"duration": "20s"}
    kubernetes_validate.validate(only(made, "StatefulSet"), KUBERNETES, strict=True)
    without = rendered(TWO | {"settings": {"catalog": TWO["settings"]["catalog"]}})
    assert tomllib.loads(only(without, "ConfigMap")["data"]["gateway.toml"])["standby"] == {}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"persistence": {"enabled": False}}, "no volume"),
        ({"persistence": {"accessModes": ["ReadWriteOnce"]}}, "ReadWriteMany"),
        ({"settings": {"catalog": {"url_file": None}}}, "PostgreSQL"),
        ({"settings": {"catalog": {"url": "sqlite:////var/lib/gateway/catalog"}}}, "PostgreSQL"),
    ],
)
def test_a_second_gateway_needs_what_both_can_use(values: dict[str, Any], why: str) -> None:
    with pytest.raises(helm().HelmError, match=why):
        rendered({**TWO, **values})


DIVIDED: dict[str, Any] = {
    "web": {"replicas": 3},
    "keepers": {"replicas": 2},
    "settings": {
        "catalog": {"url_file": "/run/secrets/gateway/catalog"},
        "content": {"url": "s3://gateway/content"},
        "journal": {"archive_url": "s3://gateway/journal"},
    },
}


def roles(manifests: list[Manifest], kind: str, name: str) -> list[str]:
    arguments = container(manifests, kind, name)["args"]
    assert arguments[:3] == ["serve", "--config", "/etc/gateway/gateway.toml"]
    assert set(arguments[3::2]) <= {"--role"}
    return list(arguments[4::2])


@pytest.mark.parametrize(
    ("web", "keepers", "receiver"),
    [(0, 0, []), (3, 2, ["receive"]), (3, 0, ["receive", "keep"]), (0, 2, ["receive", "serve"])],
)
def test_each_role_is_of_some_pod(web: int, keepers: int, receiver: list[str]) -> None:
    manifests = rendered(DIVIDED | {"web": {"replicas": web}, "keepers": {"replicas": keepers}})
    assert roles(manifests, "StatefulSet", NAME) == receiver
    for replicas, suffix, role in ((web, "web", "serve"), (keepers, "keeper", "keep")):
        if replicas:
            assert only(manifests, "Deployment", f"{NAME}-{suffix}")["spec"]["replicas"] == replicas
            assert roles(manifests, "Deployment", f"{NAME}-{suffix}") == [role]
    kinds = Counter(each["kind"] for each in manifests)
    assert kinds["Deployment"] == bool(web) + bool(keepers)
    served_by = only(manifests, "StatefulSet") if not web else only(manifests, "Deployment", f"{NAME}-web")
    chosen = only(manifests, "Service")["spec"]["selector"].items()
    pods = [each["spec"]["template"] for each in manifests if each["kind"] in ("StatefulSet", "Deployment")]
    assert [pod for pod in pods if chosen <= pod["metadata"]["labels"].items()] == [served_by["spec"]["template"]]
    ready = container(manifests)["readinessProbe"]["httpGet"]["path"]
    assert ready == ("/health/ready" if web else "/health/ready/read"), "a pod that does not serve is ready, too"


def test_kubernetes_knows_every_field_of_a_divided_release() -> None:
    autoscaling = {"web": {"replicas": 3, "autoscaling": {"enabled": True, "maxReplicas": 9}}}
    manifests = rendered(EVERYTHING | DIVIDED | autoscaling | {"assembler": "embedded"})
    for manifest in manifests:
        with suppress(kubernetes_validate.utils.SchemaNotFoundError):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    name = f"{NAME}-web"
    scaler = only(manifests, "HorizontalPodAutoscaler", name)["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"], scaler["scaleTargetRef"]["name"]) == (3, 9, name)
    deployment = only(manifests, "Deployment", name)["spec"]
    assert "replicas" not in deployment, "an upgrade does not change what the autoscaler chose"
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert container(manifests, "Deployment", name)["lifecycle"]["preStop"]["sleep"]["seconds"] > 0
    assert only(manifests, "PodDisruptionBudget", name)["spec"]["maxUnavailable"] == 1
    pods = [each["spec"]["template"] for each in manifests if each["kind"] in ("StatefulSet", "Deployment")]
    assert len(pods) == 3
    scraped = only(manifests, "Service", f"{NAME}-metrics")
    monitor = only(manifests, "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= scraped["metadata"]["labels"].items()
    assert scraped["metadata"]["labels"][monitor["jobLabel"]] == NAME, "the job that alerts ask for"
    allowed = only(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    for pod in pods:
        labels = pod["metadata"]["labels"].items()
        assert scraped["spec"]["selector"].items() <= labels
        assert allowed.items() <= labels
        assert pod["spec"]["automountServiceAccountToken"] is False
    claims = ["persistentVolumeClaim" in pod["spec"]["volumes"][0] for pod in pods]
    assert sorted(claims) == [False, False, True], "the journal's volume is of the pod that receives"


@pytest.mark.parametrize("lacking", ["catalog", "content", "journal"])
def test_a_divided_release_needs_places_that_all_pods_reach(lacking: str) -> None:
    settings = {name: section for name, section in DIVIDED["settings"].items() if name != lacking}
    for values in ({"web": {"replicas": 1}}, {"keepers": {"replicas": 1}}):
        with pytest.raises(helm().HelmError, match=rf"settings\.{lacking}"):
            rendered(values | {"settings": settings})


def test_each_process_accepts_the_configuration_of_a_divided_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a receiver that stands by: the others ignore that."""
    shared = {"persistence": {"accessModes": ["ReadWriteMany"]}, "replicas": 2}
    settings = DIVIDED["settings"] | {"catalog": {"url": "postgresql+psycopg://gateway@db/gateway"}}
    manifests = rendered(DIVIDED | shared | {"settings": settings})
    path = tmp_path / "gateway.toml"
    path.write_text(only(manifests, "ConfigMap")["data"]["gateway.toml"])
    for kind, name in (("StatefulSet", NAME), ("Deployment", f"{NAME}-web"), ("Deployment", f"{NAME}-keeper")):
        given = roles(manifests, kind, name)
        monkeypatch.setenv("ATTACHMENT_GATEWAY_ROLES", json.dumps(given))
        assert sorted(load(path).roles) == sorted(given)


ORDERS = {"transport": "mqtt", "url": "mqtt://broker", "topic": "orders"}
ORDERS_TOGETHER = {"transport": "mqtt", "url": "mqtts://broker:8883", "topic": ["$share/gateways/orders/#"]}
SAS_TOGETHER = {"transport": "ibm_mq", "queue": "SAS.ATTACHMENTS", "exclusive": False}
TOGETHER: dict[str, Any] = {
    "receivers": {"replicas": 3},
    "settings": DIVIDED["settings"] | {"sources": {"orders": ORDERS_TOGETHER, "sas": SAS_TOGETHER}},
}
RECEIVER = f"{NAME}-receiver"


def together(**sources: dict[str, Any]) -> dict[str, Any]:
    return {**TOGETHER["settings"], "sources": sources}


@pytest.mark.parametrize(
    ("web", "keepers", "own"),
    [(0, 0, ["serve", "keep"]), (3, 0, ["keep"]), (0, 2, ["serve"]), (3, 2, None)],
)
def test_receivers_only_receive_and_the_gateways_pod_does_the_rest(
    web: int, keepers: int, own: list[str] | None
) -> None:
    manifests = rendered(TOGETHER | {"web": {"replicas": web}, "keepers": {"replicas": keepers}})
    assert roles(manifests, "StatefulSet", RECEIVER) == ["receive"]
    sets = {each["metadata"]["name"] for each in manifests if each["kind"] == "StatefulSet"}
    claims = [each for each in manifests if each["kind"] == "PersistentVolumeClaim"]
    assert (sets, len(claims)) == (({RECEIVER}, 0) if own is None else ({RECEIVER, NAME}, 1))
    if own is not None:
        assert roles(manifests, "StatefulSet", NAME) == own
    configured = tomllib.loads(only(manifests, "ConfigMap")["data"]["gateway.toml"])
    assert configured["journal"] == {"archive_url": "s3://gateway/journal", "shared": True}
    selector = only(manifests, "Service")["spec"]["selector"].items()
    serving = only(manifests, "Deployment", f"{NAME}-web") if web else only(manifests, "StatefulSet")
    assert selector <= serving["spec"]["template"]["metadata"]["labels"].items()


def test_receivers_that_acknowledge_by_the_archive_have_no_volume() -> None:
    settings = TOGETHER["settings"] | {"journal": TOGETHER["settings"]["journal"] | {"ack": "archive"}}
    manifests = rendered(TOGETHER | {"settings": settings})
    for manifest in manifests:
        with suppress(kubernetes_validate.utils.SchemaNotFoundError):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    spec = only(manifests, "StatefulSet", RECEIVER)["spec"]
    assert {"volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy"}.isdisjoint(spec)
    volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
    assert volumes["data"] == {"name": "data", "emptyDir": {}}


@pytest.mark.parametrize("with_spark", [False, True], ids=["keepers assemble", "Spark assembles"])
def test_kubernetes_knows_every_field_of_a_release_with_receivers(with_spark: bool) -> None:
    values = EVERYTHING | DIVIDED | TOGETHER | {"assembler": "embedded"}
    if with_spark:
        settings = {**UNSHARED, **TOGETHER["settings"]}
        values |= {"assembler": "spark", "settings": settings}
        values["pipeline"] = EVERYTHING["pipeline"] | {"sharesVolume": False}
    manifests = rendered(values)
    for manifest in manifests:
        with suppress(kubernetes_validate.utils.SchemaNotFoundError):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    spec = only(manifests, "StatefulSet", RECEIVER)["spec"]
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["metadata"]["name"] in {each["name"] for each in container(manifests, name=RECEIVER)["volumeMounts"]}
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    pod = spec["template"]
    labels = pod["metadata"]["labels"].items()
    assert spec["selector"]["matchLabels"].items() <= labels
    budget = only(manifests, "PodDisruptionBudget", RECEIVER)["spec"]
    assert budget == {"maxUnavailable": 1, "selector": spec["selector"]}
    spread = pod["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert all(each["labelSelector"]["matchLabels"].items() <= labels for each in spread)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 120
    assert only(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= labels
    assert only(manifests, "Service", f"{NAME}-metrics")["spec"]["selector"].items() <= labels
    driver = [each for each in manifests if each["metadata"]["name"] == f"{NAME}-pipeline"]
    assert bool(driver) == with_spark


def test_each_receiver_has_client_identifiers_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ORDERS_TOGETHER | {"client_id": "gateway"}
    manifests = rendered(TOGETHER | {"settings": together(**{"orders": ORDERS_TOGETHER, "some-more.of": given})})
    path = tmp_path / "gateway.toml"
    path.write_text(only(manifests, "ConfigMap")["data"]["gateway.toml"])
    monkeypatch.setenv("ATTACHMENT_GATEWAY_CATALOG__URL", "postgresql+psycopg://gateway@db/gateway")
    path.write_text(path.read_text().replace('url_file = "/run/secrets/gateway/catalog"', ""))
    names, *identifiers = container(manifests, name=RECEIVER)["env"]
    assert names == {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    for pod in (f"{RECEIVER}-0", f"{RECEIVER}-1"):
        for variable in identifiers:
            monkeypatch.setenv(variable["name"], variable["value"].replace("$(POD_NAME)", pod))
        found = {name: source.options for name, source in load(path).sources.items()}
        assert {name: getattr(options, "client_id", None) for name, options in found.items()} == {
            "orders": f"{pod}-orders",
            "some-more.of": f"gateway-{pod}",
        }


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"settings": {**TOGETHER["settings"], "catalog": {"url": "sqlite:////data/catalog"}}}, "PostgreSQL"),
        ({"settings": {**TOGETHER["settings"], "journal": {}}}, r"settings\.journal\.archive_url"),
        ({"settings": {**TOGETHER["settings"], "content": {}}}, r"settings\.content\.url"),
        ({"replicas": 2, "persistence": {"accessModes": ["ReadWriteMany"]}}, "exclude each other"),
        ({"settings": {**TOGETHER["settings"], "standby": {"duration": 20}}}, "exclude each other"),
        (BESIDE | {"settings": UNSHARED | TOGETHER["settings"]}, "sharesVolume false"),
        ({"settings": together(o={**ORDERS, "topic": "orders"})}, r"\$share/gateways/orders"),
        ({"settings": together(o={**ORDERS, "topic": ["$share/g/a", "b"]})}, r"\$share/gateways/b"),
        ({"settings": together(Orders=ORDERS_TOGETHER)}, "use lower case"),
        ({"settings": together(a__b=ORDERS_TOGETHER)}, "no two underscores"),
        ({"settings": together(x_=ORDERS_TOGETHER)}, "none at the end"),
        ({"settings": together(o=ORDERS_TOGETHER | {"framing": "sas_rendezvous"})}, "one receiver must get all"),
        ({"settings": together(o={"transport": "rendezvous", "subject": "A"})}, "one receiver must get all"),
        ({"settings": together(o={"transport": "ibm_mq", "queue": "Q"})}, "set exclusive to false"),
        ({"settings": together(o={**SAS_TOGETHER, "exclusive": True})}, "set exclusive to false"),
        ({"receivers": {"persistence": {"accessModes": ["ReadWriteMany"]}}}, "accessModes"),
        ({"receivers": {"replicas": -1}}, "replicas"),
    ],
)
def test_receivers_that_would_not_work_are_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(helm().HelmError, match=why):
        rendered({**TOGETHER, **values})


def test_a_queue_with_several_connections_and_one_receiver_of_a_topic_are_not_refused() -> None:
    settings = together(o={"transport": "ibm_mq", "queue": "Q", "connections": 2}, m={**ORDERS, "topic": "orders"})
    manifests = rendered({"receivers": {"replicas": 1}, "settings": settings})
    assert only(manifests, "StatefulSet", RECEIVER)["spec"]["replicas"] == 1
    with pytest.raises(helm().HelmError, match="every receiver would get every message"):
        rendered({"receivers": {"replicas": None}, "settings": settings})


def test_one_gateway_gets_no_token_of_kubernetes(everything: list[Manifest]) -> None:
    assert only(everything, "StatefulSet")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert NAME not in {each["metadata"]["name"] for each in everything if each["kind"] in {"Role", "RoleBinding"}}


def test_every_reference_between_manifests_leads_somewhere(everything: list[Manifest]) -> None:
    """Services select pods, monitors select Services, ports have names, budgets and policies find the gateway."""
    pods = {each["metadata"]["name"]: each["spec"]["template"] for each in everything if each["kind"] == "StatefulSet"}
    labels = {name: pod["metadata"]["labels"].items() for name, pod in pods.items()}
    ports = {name: {port["name"] for port in pod["spec"]["containers"][0]["ports"]} for name, pod in pods.items()}
    services = {each["metadata"]["name"]: each for each in everything if each["kind"] == "Service"}
    for name, service in services.items():
        assert [pod for pod, has in labels.items() if service["spec"]["selector"].items() <= has] == [name]
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports[name]
    for each in everything:
        spec, name = each.get("spec", {}), each["metadata"]["name"]
        if each["kind"] == "ServiceMonitor":
            (service,) = [
                one
                for one in services.values()
                if spec["selector"]["matchLabels"].items() <= one["metadata"]["labels"].items()
            ]
            assert (service["metadata"]["name"], spec["endpoints"][0]["path"]) == (name, "/metrics")
            assert spec["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
        if each["kind"] in {"NetworkPolicy", "PodDisruptionBudget"}:
            selector = spec.get("podSelector", spec.get("selector"))["matchLabels"]
            assert [pod for pod, has in labels.items() if selector.items() <= has] == [name]
            opened = {port["port"] for rule in spec.get("ingress", ()) for port in rule["ports"]}
            assert opened <= ports[name]
        if each["kind"] == "Ingress":
            assert spec["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] in services
        if each["kind"] == "HTTPRoute":
            assert spec["rules"][0]["backendRefs"] == [{"name": NAME, "port": 8080}]
    claims = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods.values()
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claims == {only(everything, "PersistentVolumeClaim")["metadata"]["name"]}
    test = only(everything, "Pod", f"{NAME}-test")
    (peer,) = [each["podSelector"] for each in only(everything, "NetworkPolicy")["spec"]["ingress"][0]["from"][1:]]
    assert peer["matchLabels"].items() <= test["metadata"]["labels"].items()


@pytest.mark.parametrize("length", [30, 47, 53])
def test_long_names_of_a_release_leave_room_for_what_kubernetes_adds(length: int) -> None:
    """Pods of a StatefulSet have a label of its name, a dash and up to ten digits, at most 63 characters."""
    chart = helm().Chart.load(str(FOLDER))
    made = [chart.render(values, name="r" * length, namespace=NAMESPACE) for values in (EVERYTHING, TOGETHER)]
    texts = [text for each in made for text in each.values() if "kind:" in text]
    manifests = [each for text in texts for each in yaml.safe_load_all(text) if each]
    sets = [each["metadata"]["name"] for each in manifests if each["kind"] == "StatefulSet"]
    assert len(set(sets)) == 3
    assert max(map(len, sets)) <= 52
    (executors,) = [each for each in manifests if "executor.yaml" in each.get("data", ())]
    executor = yaml.safe_load(executors["data"]["executor.yaml"])
    for labels in (each["metadata"]["labels"] for each in (*manifests, executor)):
        assert max(map(len, labels.values())) <= 63


@pytest.mark.parametrize("page", ["kubernetes.md", "scaling.md"])
def test_the_chart_takes_the_values_of_a_page_and_the_gateway_what_it_makes(page: str, tmp_path: Path) -> None:
    (tmp_path / "catalog").write_text("postgresql+psycopg://user:password@database/gateway")
    (tmp_path / "password").write_text("secret")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for values in map(yaml.safe_load, blocks):
        configured = only(rendered(values), "ConfigMap")["data"]["gateway.toml"]
        path = tmp_path / "gateway.toml"
        path.write_text(configured.replace("/run/secrets/gateway", str(tmp_path)))
        load(path)


def test_the_pod_that_repairs_has_what_the_gateway_has() -> None:
    """That of docs/kubernetes.md, for a release named `gateway` with a Secret of this name."""
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    (overrides,) = re.findall(r"--overrides '({.*?})'\n", page, re.DOTALL)
    spec = json.loads(overrides)["spec"]
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fsck"}, "spec": spec}, KUBERNETES, strict=True
    )
    gateway = only(rendered({"existingSecret": "gateway"}), "StatefulSet")["spec"]["template"]["spec"]

    def mounted(pod: Any) -> dict[str, Any]:
        named = {each["name"]: {key: each[key] for key in each if key != "name"} for each in pod["volumes"]}
        return {each["mountPath"]: named[each["name"]] for each in pod["containers"][0]["volumeMounts"]}

    needed = {path: volume for path, volume in mounted(gateway).items() if path != "/tmp"}
    needed["/run/secrets/gateway"]["secret"]["optional"] = True
    assert mounted(spec) == needed
    assert spec["securityContext"].items() <= gateway["securityContext"].items()
    assert spec["containers"][0]["securityContext"].items() <= gateway["containers"][0]["securityContext"].items()


def test_the_driver_may_connect_to_its_executors(everything: list[Manifest]) -> None:
    """It fetches large results from them, also where `networkPolicy.egress` lists all else that it may reach."""
    executor = yaml.safe_load(only(everything, "ConfigMap", f"{NAME}-pipeline")["data"]["executor.yaml"])
    policy = only(everything, "NetworkPolicy", f"{NAME}-pipeline")["spec"]
    (rule,) = [each for each in policy["egress"] if {"podSelector"} == set().union(*each.get("to", ()))]
    assert rule["to"][0]["podSelector"]["matchLabels"].items() <= executor["metadata"]["labels"].items()
    assert "ports" not in rule
    assert only(everything, "NetworkPolicy")["spec"]["egress"] == policy["egress"][:-1]


def test_pods_are_as_safe_as_kubernetes_asks(everything: list[Manifest]) -> None:
    """The profile `restricted` of the Pod Security Standards, for all pods, those that Spark starts among them."""
    templates = [each["spec"]["template"] for each in everything if each["kind"] == "StatefulSet"]
    templates.append(yaml.safe_load(only(everything, "ConfigMap", f"{NAME}-pipeline")["data"]["executor.yaml"]))
    templates.append(only(everything, "Pod", f"{NAME}-test"))
    assert len(templates) == 4
    for template in templates:
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in pod["containers"]:
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_executors_have_the_labels_of_the_driver() -> None:
    """Azure gives a pod its identity by a label, and executors write content and tables, too."""
    label = {"azure.workload.identity/use": "true"}
    manifests = rendered(EVERYTHING | {"pipeline": {**EVERYTHING["pipeline"], "podLabels": label}})
    driver = only(manifests, "StatefulSet", f"{NAME}-pipeline")["spec"]["template"]
    executor = yaml.safe_load(only(manifests, "ConfigMap", f"{NAME}-pipeline")["data"]["executor.yaml"])
    for pod in (driver, executor):
        assert label.items() <= pod["metadata"]["labels"].items()


def test_probes_ask_what_the_gateway_answers(everything: list[Manifest]) -> None:
    probes = {name: each for name, each in container(everything).items() if name.endswith("Probe")}
    assert {name: each["httpGet"]["path"] for name, each in probes.items()} == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready/read",
    }
    paths = {"/health/ready", "/health/ready/read", "/health/ready/receive"}
    for path in paths:
        asked = container(rendered({"readinessProbe": {"path": path}}))["readinessProbe"]
        assert asked["httpGet"]["path"] == path
        assert "path" not in asked
    assert {"/health/live", *paths} == set(HEALTH_PATHS)
    assert "must be one of" in refusal({"readinessProbe": {"path": "/v1/attachments"}})


def test_the_gateway_accepts_its_configuration(everything: list[Manifest], tmp_path: Path) -> None:
    """With numbers that Helm has as floats."""
    path = tmp_path / "gateway.toml"
    path.write_text(only(everything, "ConfigMap")["data"]["gateway.toml"])
    settings = load(path)
    assert (settings.limits.free_bytes, settings.limits.conversions) == (268435456, 2)
    assert settings.sources["orders"].transport == "mqtt"
    assert (settings.pipeline.metrics_host, settings.pipeline.metrics_port) == ("0.0.0.0", 9464)
    assert (settings.traces.enabled, settings.traces.ratio) == (True, 0.25)
    collector = {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://collector:4318"}
    assert collector in container(everything)["env"]
    assert collector in container(everything, "StatefulSet", f"{NAME}-pipeline")["env"]


def example() -> dict[str, Any]:
    """Return docs/gateway.toml with all that is commented out there, without what the chart decides itself.

    It decides `data`, `assembler`, `roles`, and where HTTP listens. TLS ends before the pod, whose probes speak HTTP.
    """
    lines = (ROOT / "docs" / "gateway.toml").read_text()
    settings = tomllib.loads(re.sub(r"^# (\w+ = |\[)", r"\1", lines, flags=re.MULTILINE))
    for key in ("data", "assembler", "roles"):
        del settings[key]
    for key in ("host", "port", "cert_file", "key_file"):
        del settings["http"][key]
    return settings


def test_every_setting_that_is_documented_is_accepted_and_reaches_the_gateway() -> None:
    settings = example()
    found = tomllib.loads(only(rendered({"settings": settings}), "ConfigMap")["data"]["gateway.toml"])
    assert found.pop("data") == "/var/lib/gateway"
    assert found.pop("assembler") == "embedded"
    assert (found["http"].pop("host"), found["http"].pop("port")) == ("0.0.0.0", 8080)
    assert found == settings


Tables = list[tuple[str, type[BaseModel], Callable[[dict[str, Any]], dict[str, Any]]]]


def tables() -> Tables:
    """Return each table of the configuration with a name, its model, and how its keys become the whole `settings`."""

    def below(name: str, model: type[BaseModel], wrap: Callable[[Any], dict[str, Any]]) -> None:
        made.append((name, model, wrap))
        for key, inner in within(model):
            is_list = "list" in str(model.model_fields[key].annotation) or "tuple" in str(
                model.model_fields[key].annotation
            )
            below(
                f"{name}.{key}",
                inner,
                lambda keys, key=key, is_list=is_list: wrap({key: [keys] if is_list else keys}),  # type: ignore[misc]
            )

    made: Tables = []
    for section, model in within(Settings):
        if section == "webhooks":
            below(section, model, lambda keys: {"webhooks": {"w": keys}})
        elif section not in ("sources", "destinations"):
            below(section, model, lambda keys, section=section: {section: keys})  # type: ignore[misc]
    for transport in plugins.names("transport"):
        plugin = plugins.transport(transport)
        for section, model in (("sources", plugin.source_settings), ("destinations", plugin.destination_settings)):
            below(
                f"{section}.{transport}",
                model,
                lambda keys, section=section, transport=transport: {section: {"x": {"transport": transport, **keys}}},  # type: ignore[misc]
            )
    return made


def refusal(values: dict[str, Any]) -> str:
    """Return what Helm says about values: what follows the chart's name, without the lines around it."""
    with pytest.raises(helm().HelmError) as refused:
        rendered(values)
    return str(refused.value).partition("attachment-gateway:")[2].strip()


@pytest.mark.process
def test_every_table_refuses_unknown_keys_and_secrets() -> None:
    """Walks the models, as the schema's writer does by their JSON schemas."""
    mqi.load("pymqi")
    found = tables()
    secrets = 0
    for name, model, whole in found:
        told = refusal({"settings": whole({"topik": "x"})})
        assert re.search(r"additional properties 'topik' not allowed$", told), (name, told)
        assert told.count("\n") == 0, told
        for key, field in model.model_fields.items():
            if "Secret" in str(field.annotation):
                secrets += 1
                value = ["hunter2"] if "list" in str(field.annotation) else "hunter2"
                told = refusal({"settings": whole({key: value})})
                instead = f"name a file of existingSecret by {key}_file, such as /run/secrets/gateway/{key}"
                assert re.fullmatch(rf"- at '[^']*/{key}': value must be 'left out: {instead}'", told), told
                assert rendered({"settings": whole({f"{key}_file": "/run/secrets/gateway/x"})})
                if isinstance(value, str) and whole({}).keys() == {"sources"} and "." not in name.partition(".")[2]:
                    variable = f"ATTACHMENT_GATEWAY_SOURCES__X__{key.upper()}"
                    told = refusal({"env": [{"name": variable, "value": value}]})
                    assert "left out: name a key of a Secret by valueFrom.secretKeyRef" in told
                    assert "hunter2" not in told
    assert len(found) > 20
    assert secrets > 8


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"catalog": {"url": "postgresql+psycopg://gateway:hunter2@db/gateway"}}, "existingSecret by url_file"),
        ({"catalog": {"url": "postgresql+psycopg://db/x?user=u&Password=hunter2"}}, "existingSecret by url_file"),
        ({"webhooks": {"w": {"url": "https://hooks.example/x?token=hunter2"}}}, "existingSecret by url_file"),
        ({"sources": {"o": {**ORDERS, "url": "mqtt://u:hunter2@broker"}}}, "existingSecret by password_file"),
        ({"sources": {"o": {"transport": "stranger", "api_token": "hunter2"}}}, "left out: name a key with the"),
        ({"http": {"tokens": ["hunter2"]}}, "a SHA-256, 64 hexadecimal digits"),
        ({"expiry": {"unfinished": "two moons"}}, "such as 30s, 1h30m or 7d"),
        ({"journal": {"segment_bytes": "many"}}, "such as 64 MiB"),
        ({"journal": {"segment_bytes": 1}}, "minimum: got 1, want 65,536"),
        ({"log": {"level": "loud"}}, "one of 'debug', 'info', 'warning', 'error'"),
        ({"sources": {"o": {**ORDERS, "qos": 3}}}, "one of 0, 1, 2"),
        ({"sources": {"o": {**ORDERS, "topic": 5}}}, "got number, want string or array"),
        ({"sources": {"o": {"url": "mqtt://broker"}}}, "missing property 'transport'"),
        ({"http": {"port": 1}}, "additional properties 'port' not allowed"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_sentence_that_shows_no_secret(settings: dict[str, Any], told: str) -> None:
    found = refusal({"settings": settings})
    assert told in found
    assert found.count("\n") == 0
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"nameOverride": "Gateway_X"}, "lower-case letters, digits and hyphens"),
        ({"fullnameOverride": "1st"}, "lower-case letters, digits and hyphens"),
        (
            DIVIDED
            | {"assembler": "embedded", "web": {"replicas": 6, "autoscaling": {"enabled": True, "maxReplicas": 2}}},
            "maxReplicas 2 is less",
        ),
    ],
)
def test_values_that_kubernetes_would_refuse_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(helm().HelmError, match=told):
        rendered(EVERYTHING | values)
    assert rendered({"settings": {"catalog": {"url": "postgresql+psycopg://db/x?sslkey=/run/key&sslmode=require"}}})


def test_a_transport_of_another_package_has_keys_of_its_own() -> None:
    assert rendered({"settings": {"sources": {"o": {"transport": "stranger", "wing": 2, "api_token_file": "/x"}}}})


def test_an_image_can_be_named_by_its_digest(everything: list[Manifest]) -> None:
    assert container(everything)["image"].startswith("attachment-gateway:")
    digest = "sha256:" + "0a" * 32
    values = EVERYTHING | {"image": {"digest": digest, "tag": "1"}}
    values["pipeline"] = EVERYTHING["pipeline"] | {"image": {"digest": digest}}
    made = rendered(values)
    assert container(made)["image"] == f"attachment-gateway@{digest}"
    assert only(made, "Pod", f"{NAME}-test")["spec"]["containers"][0]["image"] == f"attachment-gateway@{digest}"
    driver = container(made, "StatefulSet", f"{NAME}-pipeline")
    assert driver["image"] == f"attachment-gateway-pipeline@{digest}"
    assert f"spark.kubernetes.container.image=attachment-gateway-pipeline@{digest}" in driver["args"]
    assert "sha256: and 64 hexadecimal digits" in refusal({"image": {"digest": "latest"}})


def test_probes_times_and_further_volumes_are_values(everything: list[Manifest]) -> None:
    probes = {"startupProbe": {"failureThreshold": 9}, "readinessProbe": {"periodSeconds": 2}}
    found = container(rendered(probes))
    assert found["startupProbe"]["failureThreshold"] == 9
    assert found["startupProbe"]["httpGet"]["path"] == "/health/live"
    assert found["readinessProbe"]["periodSeconds"] == 2
    assert "additional properties 'exec' not allowed" in refusal({"livenessProbe": {"exec": {}}})
    executor = yaml.safe_load(only(everything, "ConfigMap", f"{NAME}-pipeline")["data"]["executor.yaml"])
    pods = [only(everything, "StatefulSet", name)["spec"]["template"] for name in (NAME, f"{NAME}-pipeline")]
    for pod, volume in zip((*pods, executor), ("authority", "jars", "jars"), strict=True):
        assert volume in {each["name"] for each in pod["spec"]["volumes"]}
        assert volume in {each["name"] for each in pod["spec"]["containers"][0]["volumeMounts"]}
    (spread,) = pods[0]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"


def test_limits_of_http_reach_the_gateway(tmp_path: Path) -> None:
    http = {"connections": 800, "requests_a_second": 50, "bytes_a_second": "20 MiB", "stall_timeout": "2m"}
    path = tmp_path / "gateway.toml"
    path.write_text(only(rendered({"settings": {"http": http}}), "ConfigMap")["data"]["gateway.toml"])
    found = load(path).http
    assert (found.connections, found.requests_a_second, found.bytes_a_second) == (800, 50, 20 << 20)
    assert found.stall_timeout.total_seconds() == 120


@pytest.mark.parametrize(
    ("values", "public"),
    [
        ({}, ["docs", "metrics"]),
        ({"settings": {"http": {"public": ["docs"]}}}, ["docs"]),
        ({"serviceMonitor": {"enabled": True, "tokenSecret": {"name": "prometheus"}}}, ["docs"]),
    ],
    ids=["nothing is set", "public is set", "Prometheus has a key"],
)
def test_prometheus_may_read_the_metrics(values: dict[str, Any], public: list[str], tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(only(rendered(values), "ConfigMap")["data"]["gateway.toml"])
    assert sorted(load(path).http.public) == public


SERVICE = [NAME, f"{NAME}.{NAMESPACE}", f"{NAME}.{NAMESPACE}.svc", f"{NAME}.{NAMESPACE}.svc.cluster.local"]
INGRESS: dict[str, Any] = {"ingress": {"enabled": True, "hosts": ["gateway.example", "*.wild.example"]}}
ROUTE: dict[str, Any] = {"httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}


@pytest.mark.parametrize(
    ("values", "hosts"),
    [
        ({}, []),
        ({"ingress": {"hosts": ["gateway.example"]}}, []),
        (INGRESS, ["gateway.example", "*.wild.example", *SERVICE]),
        (
            INGRESS | {"settings": {"http": {"hosts": ["10.1.2.3"]}}},
            ["10.1.2.3", *INGRESS["ingress"]["hosts"], *SERVICE],
        ),
        ({"httpRoute": ROUTE["httpRoute"] | {"hostnames": ["route.example"]}}, ["route.example", *SERVICE]),
        (INGRESS | ROUTE, []),
        ({"settings": {"http": {"hosts": ["lan.example"]}}}, ["lan.example", *SERVICE]),
    ],
    ids=["nothing", "no Ingress", "Ingress", "Ingress and settings", "HTTPRoute", "HTTPRoute of all names", "settings"],
)
def test_hosts_are_those_of_the_ways_in(values: dict[str, Any], hosts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    manifests = rendered(values)
    path.write_text(only(manifests, "ConfigMap")["data"]["gateway.toml"])
    assert load(path).http.hosts == hosts
    (pod,) = [each for each in manifests if each["kind"] == "Pod"]
    called = pod["spec"]["containers"][0]["command"][3].removeprefix("http://").partition(":")[0]
    assert not hosts or called in hosts, "`helm test` and clients within the cluster"


def test_pods_are_replaced_when_their_configuration_changes(everything: list[Manifest]) -> None:
    def sums(manifests: list[Manifest]) -> list[str]:
        pods = [only(manifests, "StatefulSet"), only(manifests, "StatefulSet", f"{NAME}-pipeline")]
        found = [each["spec"]["template"]["metadata"]["annotations"] for each in pods]
        return [value for each in found for name, value in sorted(each.items()) if name.startswith("checksum/")]

    before = sums(everything)
    assert len(before) == 3
    changed = sums(rendered(EVERYTHING | {"settings": {"log": {"level": "debug"}}, "existingSecret": ""}))
    assert [old == new for old, new in zip(before, changed, strict=True)] == [False, False, False]


def test_memory_is_enough_for_what_the_settings_allow() -> None:
    """200 MiB, and for each conversion its memory and 100 MiB (docs/sizing.md)."""
    limits = load().limits
    needed = (200 << 20) + limits.conversions * (limits.conversion_memory + (100 << 20))
    limit = container(rendered({}))["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    assert int(limit[:-2]) << 20 >= needed


@pytest.mark.parametrize("port", [9464, 0])
def test_the_port_of_the_pipelines_metrics_is_one_value(port: int) -> None:
    """It is the setting, the container's port, the Service's and the annotation. 0 is none of them."""
    manifests = rendered(BESIDE | {"pipeline": {"metricsPort": port}})
    name = f"{NAME}-pipeline"
    configured = tomllib.loads(only(manifests, "ConfigMap")["data"]["gateway.toml"])
    annotations = only(manifests, "StatefulSet", name)["spec"]["template"]["metadata"]["annotations"]
    services = [each for each in manifests if (each["kind"], each["metadata"]["name"]) == ("Service", name)]
    found = (
        configured.get("pipeline", {}).get("metrics_port"),
        [each["containerPort"] for each in container(manifests, "StatefulSet", name).get("ports", ())],
        [each["port"] for service in services for each in service["spec"]["ports"]],
        annotations.get("prometheus.io/port"),
    )
    assert found == ((port, [port], [port], str(port)) if port else (None, [], [], None))


@pytest.mark.parametrize(
    ("catalog", "env", "accepted"),
    [
        ({}, [], False),
        ({"url": "sqlite:////var/lib/gateway/catalog.sqlite"}, [], False),
        ({"url": "postgresql+psycopg://gateway@db/gateway"}, [], True),
        ({"url_file": "/run/secrets/gateway/catalog"}, [], True),
        ({}, [{"name": "ATTACHMENT_GATEWAY_CATALOG__URL", "value": "postgresql+psycopg://db/x"}], True),
    ],
)
def test_a_catalog_that_two_pods_cannot_share_is_refused(
    catalog: dict[str, str], env: list[Any], accepted: bool
) -> None:
    """Without a shared volume, the job cannot reach the gateway's SQLite."""
    values: dict[str, Any] = {"assembler": "spark", "pipeline": {"sharesVolume": False}, "env": env}
    values["settings"] = UNSHARED | {"catalog": catalog}
    if accepted:
        assert rendered(values)
    else:
        with pytest.raises(helm().HelmError, match=r"settings\.catalog\.url"):
            rendered(values)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"sources": {}}, "sources"),
        ({"settings": {"source": {}}}, "source"),
        ({"settings": {"http": {"port": 1}}}, "port"),
        ({"ingress": {"enabled": True}}, "hosts"),
        ({"httpRoute": {"enabled": True}}, "parentRefs"),
        ({"serviceMonitor": {"interval": "often"}}, "interval"),
        ({"persistence": {"accessModes": ["ReadOnlyMany"]}}, "accessModes"),
        ({"settings": None}, "settings"),
        ({"env": None}, "env"),
        ({"service": {"port": None}}, "port"),
        ({"pipeline": {"conf": None}}, "conf"),
        ({"serviceMonitor": None}, "serviceMonitor"),
    ],
)
def test_values_that_mean_nothing_are_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(helm().HelmError, match=named):
        rendered(values)


def test_examples_for_keda_name_what_the_chart_makes() -> None:
    """Of a release named `gateway`, and what can scale: the gateway and the job from 0 to 1, receivers, Spark's own
    workers."""
    manifests = rendered(BESIDE | {"replicas": None, "pipeline": {"replicas": None}})
    made = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    several = rendered(TOGETHER | {"receivers": {"replicas": None}})
    made |= {(each["kind"], each["metadata"]["name"]): each for each in several if RECEIVER in each["metadata"]["name"]}
    scaled = {}
    for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml"):
        for each in yaml.safe_load_all(path.read_text()):
            if each["kind"] == "ScaledObject":
                target = each["spec"]["scaleTargetRef"]
                assert "replicas" not in made[target["kind"], target["name"]]["spec"]
                scaled[target["name"]] = (each["spec"]["minReplicaCount"], each["spec"]["maxReplicaCount"])
                for trigger in each["spec"]["triggers"]:
                    check_expression(trigger["metadata"].get("query", "vector(1)"))
            elif each["kind"] != "TriggerAuthentication":
                kubernetes_validate.validate(each, KUBERNETES, strict=True)
    assert scaled == {NAME: (0, 1), f"{NAME}-pipeline": (0, 1), RECEIVER: (1, 4)}


# --- alerts and dashboards --------------------------------------------------------------------------------------------

OF_PROMETHEUS = {
    "up": frozenset[str](),
    "process_resident_memory_bytes": frozenset[str](),
    "process_cpu_seconds_total": frozenset[str](),
}
OF_THE_TARGET = {"job", "namespace"}
SAMPLES = OF_PROMETHEUS | {
    name: labels
    for declared in (Metrics(), PipelineDeclared())
    for described in declared.described
    for name, labels in described.samples().items()
}


def check_expression(text: str) -> None:
    """Assert that an expression can be parsed, and that each metric in it exists and has the labels that are named."""
    parsed = promql_parser.parse(re.sub(r"\$__\w+", "5m", text))
    found: list[frozenset[str]] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.MatrixSelector):
            node = node.vector_selector
        if isinstance(node, promql_parser.VectorSelector):
            assert node.name in SAMPLES, f"{node.name} does not exist: {text}"
            assert node.name not in SUPERSEDED
            asked = {each.name for each in node.matchers.matchers}
            assert asked - OF_THE_TARGET <= SAMPLES[node.name], text
            assert "job" in asked, f"{node.name} of any program: {text}"
            found.append(SAMPLES[node.name])
        return True

    promql_parser.walk(parsed, visit)
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", text) for label in re.findall(r"\w+", group)}
    assert grouped - OF_THE_TARGET <= frozenset[str]().union(*found), text


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_asks_for_what_exists(alert: Any) -> None:
    check_expression(alert.promql)
    labels = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    assert labels <= set[str]().union(*(SAMPLES[name] for name in SAMPLES if name in alert.promql))
    assert alert.severity in {"critical", "warning"}
    assert re.fullmatch(r"\d+[mh]", alert.lasting)
    for counter in re.findall(r"increase\((.*?)\[", alert.promql):
        before = f"increase({counter}[15m]) > 0 or ({counter} unless {counter} offset 15m)"
        assert before in alert.promql, "increase alone does not see the first event of a counter with labels"
    assert alert.actions
    for words in (alert.meaning, *alert.actions):
        for link in re.findall(r"\]\(([^)#]+)", words):
            assert (ROOT / "docs" / "alerts" / link).exists(), link


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.identifier)
def test_a_dashboard_shows_what_exists(dashboard: Any) -> None:
    for query in queries(dashboard):
        check_expression(query)
    assert dashboard.metric in SAMPLES
    legends = {
        label
        for row in dashboard.rows
        for panel in row.panels
        for _, legend in panel.queries
        for label in re.findall(r"{{(\w+)}}", legend)
    }
    assert legends <= set[str]().union(*SAMPLES.values())


def test_an_expression_of_what_does_not_exist_is_found() -> None:
    for wrong in (
        "attachment_gateway_nothing{job='x'}",
        "attachment_gateway_taking{job='x', source='y'}",
        "sum by (nothing) (attachment_gateway_taking{job='x'})",
        "rate(attachment_gateway_messages_received_total{job='x'}[5m])",
        "attachment_gateway_taking",
    ):
        with pytest.raises(AssertionError):
            check_expression(wrong)


def test_the_chart_has_all_alerts_of_this_release_alone(everything: list[Manifest]) -> None:
    rule = only(everything, "PrometheusRule")
    assert set(rule["spec"]) == {"groups"}
    ((group),) = rule["spec"]["groups"]
    assert set(group) == {"name", "rules"}
    assert [each["alert"] for each in group["rules"]] == [alert.name for alert in ALERTS]
    for each, alert in zip(group["rules"], ALERTS, strict=True):
        assert set(each) == {"alert", "annotations", "expr", "for", "labels"}
        assert each["annotations"]["summary"] == alert.summary
        assert each["annotations"]["runbook_url"] == f"https://docs.example/alerts/{alert.name}.md"
        assert (ROOT / "docs" / "alerts" / f"{alert.name}.md").exists()
        job = NAME + ("-pipeline" if "$pipeline" in alert.expression else "")
        selectors = re.findall(r"{([^}]*)}", each["expr"])
        assert selectors
        assert all(one.startswith(f'job="{job}", namespace="{NAMESPACE}"') for one in selectors), each["expr"]


def test_the_chart_has_the_dashboards(everything: list[Manifest]) -> None:
    made = only(everything, "ConfigMap", f"{NAME}-dashboards")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    titles = {json.loads(text)["title"] for text in made["data"].values()}
    assert titles == {each.title for each in DASHBOARDS}
    for text in made["data"].values():
        panels = json.loads(text)["panels"]
        places = Counter(
            (x, y)
            for each in panels
            for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
            for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
        )
        assert set(places.values()) == {1}, "panels overlap"
        assert len({each["id"] for each in panels}) == len(panels)
