"""Writes manifests/: what `join` makes for manifests/base/agent.yaml, as YAML for other tools.

One source for all: karmada_vc_agent/access. The chart is the same objects with the values of
_VALUES in place of what differs between installations.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from generate import crd_file, konnectivity
from karmada_vc_agent.access.agent_objects import (
    HostInstall,
    base_objects,
    certificates_name,
    metrics_certificate,
    pod_affinity,
    workload_objects,
)
from karmada_vc_agent.access.rights import (
    HubAccess,
    host_bindings,
    host_reasons,
    host_roles,
    hub_objects,
    hub_reasons,
)
from karmada_vc_agent.access.templates import Reasons
from karmada_vc_agent.config.loading import load_config, with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.feature_list import CONFIG, HUB_ROLES
from karmada_vc_agent.install.apply_objects import manifest_text
from karmada_vc_agent.install.host_rights import host_rights
from karmada_vc_agent.install.join import IMAGE
from karmada_vc_agent.model.objects import Object, copy_object
from karmada_vc_agent.model.vocabulary import (
    RBAC_API,
    RBAC_GROUP,
    SERVICE_ACCOUNT_TOKEN,
    gateway_account,
)

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
PACKAGE = ROOT / "karmada_vc_agent"
SETTINGS = MANIFESTS / "base" / "agent.yaml"
CHART = MANIFESTS / "chart"
AGENT = "karmada-vc-agent"

_WRITTEN_BY = "`hack/update-manifests` writes this file from karmada_vc_agent/access."
_NAMESPACE, _IMAGE = "namespace-of-the-release", "image-of-the-values"
_REPLICAS, _RESOURCES = "replicas-of-the-values", "resources-of-the-values"
_SHARD, _STRATEGY = "shard-of-the-values", "strategy-of-the-values"
_VALUES = {
    _NAMESPACE: "{{ .Release.Namespace }}",
    _IMAGE: "{{ .Values.image | quote }}",
    _REPLICAS: "{{ if gt (int .Values.shards) 1 }}{{ add .Values.shards 1 }}{{ else }}"
    "{{ .Values.replicas }}{{ end }}",
    f"        - {_SHARD}\n": "{{- if gt (int .Values.shards) 1 }}\n"
    "        - --shard=auto/{{ .Values.shards }}\n{{- end }}\n",
    f"  strategy: {_STRATEGY}\n": "{{- if gt (int .Values.shards) 1 }}\n"
    "  strategy:\n    rollingUpdate:\n      maxSurge: 100%\n      maxUnavailable: 0\n"
    "{{- end }}\n",
    f" {_RESOURCES}": "\n{{ toYaml .Values.resources | indent 10 }}",
}
"""What stands in an object while it is written -> what stands in the chart."""
_SETTINGS_OF_CHART = f"""\
# {_WRITTEN_BY}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {AGENT}
  namespace: {{{{ .Release.Namespace }}}}
data:
  agent.yaml: |
{{{{ .Values.settings | trim | indent 4 }}}}
"""
_VALUES_HEAD = f"""\
# {_WRITTEN_BY}
# Secret karmada-kubeconfig of the release's namespace, the agent's kubeconfig for the hub, is made
# by `karmada-vc-agent join`. Rights and policies are those for the settings below: after changing
# them run `karmada-vc-agent join --only host`, or `hack/update-manifests` in a clone.
# shards: among how many processes the virtual clusters are divided, with one more that stands by;
# above 1 replicas does not count, and the settings need what docs/scale.md says.
# monitoring: PodMonitors, for which the Prometheus operator must be there, and a certificate
# (docs/metrics.md). konnectivity: the agent of apiserver-network-proxy beside the gateway
# (docs/gateway.md).
"""

Parts = dict[str, list[Object]]


def files(settings: Path = SETTINGS) -> dict[Path, str]:
    """Return the text of each file that is written."""
    parts, why = host_parts(AGENT, IMAGE, settings)
    made = {
        MANIFESTS / "base" / name: manifest_text(objects, why, f"{_HEADS[name]}\n{_WRITTEN_BY}")
        for name, objects in parts.items()
    }
    for folder in (MANIFESTS / "base", PACKAGE / "features" / "objects"):
        made[folder / "crd.yaml"] = crd_file.text()
    made[MANIFESTS / "hub.yaml"] = _hub_text(settings)
    monitor = manifest_text(_monitoring(AGENT), {}, f"{_MONITORING}\n{_WRITTEN_BY}")
    made[MANIFESTS / "components" / "monitoring" / "monitoring.yaml"] = monitor
    made |= _proxy_files()
    return made | _chart_files(parts, settings)


def host_parts(namespace: str, image: str, settings: Path = SETTINGS) -> tuple[Parts, Reasons]:
    """Return the objects for the host by file, in the order to apply them.

    Without rights and policies if only `join` has the names that they depend on (ADR 62).
    """
    config = with_profile_defaults(load_config(CONFIG, settings, {}), namespace)
    affinity = pod_affinity(config.virtual_clusters)
    install = HostInstall(AGENT, namespace, image, affinity=affinity)
    names = tuple(vc.name for vc in config.virtual_clusters)
    rights = host_rights(install, config, names, None)
    install = rights.install
    parts = {
        "namespace.yaml": base_objects(install),
        "roles.yaml": host_roles(rights.access),
        "policies.yaml": rights.policies,
        "bindings.yaml": host_bindings(rights.access),
        "agent-objects.yaml": workload_objects(install),
    }
    if _has_open_names(config):
        parts |= {name: [] for name in _OF_JOIN}
    return parts, host_reasons(rights.access)


def _proxy_files() -> dict[Path, str]:
    """Return the manifests of apiserver-network-proxy: next to Karmada, and beside a gateway."""
    hub = manifest_text(konnectivity.hub_objects(), {}, f"{_PROXY_OF_HUB}\n{_WRITTEN_BY}")
    host = manifest_text(
        konnectivity.host_objects(AGENT, AGENT), {}, f"{_PROXY_OF_HOST}\n{_WRITTEN_BY}"
    )
    return {
        MANIFESTS / "konnectivity" / "konnectivity.yaml": hub,
        MANIFESTS / "components" / "konnectivity" / "konnectivity.yaml": host,
    }


def _monitoring(namespace: str) -> list[Object]:
    """Return what the Prometheus operator needs to scrape the agent and its gateway.

    Each is verified, and gets the token of an account that may read metrics, not Prometheus' own.
    """
    reader = {"name": _READER, "namespace": namespace}
    of_account = {"kubernetes.io/service-account.name": _READER}
    role = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": _READER}
    return [
        _monitor(namespace, AGENT, metrics_certificate(AGENT)),
        _monitor(namespace, gateway_account(AGENT), certificates_name(AGENT)),
        {
            "apiVersion": RBAC_API,
            "kind": "ClusterRole",
            "metadata": {"name": _READER},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(reader)},
        {
            "apiVersion": RBAC_API,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _READER},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **reader}],
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**reader, "annotations": of_account},
            "type": SERVICE_ACCOUNT_TOKEN,
        },
    ]


def _monitor(namespace: str, program: str, certificate: str) -> Object:
    """Return the PodMonitor of a program; certificate: the Secret that has its authority."""
    endpoint = {
        "port": "metrics",
        "scheme": "https",
        "tlsConfig": {
            "ca": {"secret": {"name": certificate, "key": "ca.crt"}},
            "serverName": program,
        },
        "authorization": {"credentials": {"name": _READER, "key": "token"}},
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": program, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": program}},
            "podMetricsEndpoints": [endpoint],
        },
    }


_READER = f"{AGENT}-metrics"
_MONITORING = (
    "For the Prometheus operator. Secrets karmada-vc-agent-metrics-tls and, of a gateway,\n"
    "karmada-vc-agent-gateway-tls have the certificates (docs/metrics.md); alerts are in\n"
    "manifests/samples/alerts.yaml."
)
_PROXY_OF_HUB = (
    "apiserver-network-proxy next to Karmada (docs/gateway.md). Secret konnectivity-server has\n"
    "tls.crt and tls.key, and in ca.crt the authority of its agents."
)
_PROXY_OF_HOST = (
    "The agent of apiserver-network-proxy beside a gateway (docs/gateway.md). ConfigMap\n"
    "konnectivity-agent has PROXY_SERVER_HOST and GATEWAY_HOST; Secret konnectivity-agent has\n"
    "tls.crt and tls.key, and in ca.crt the authority of the server."
)
_HEADS = {
    "namespace.yaml": "The agent's namespace and account.",
    "roles.yaml": "The agent's rights on the host, each rule with its reason.",
    "policies.yaml": "Admission policies: what the agent and the tenants are held to.",
    "bindings.yaml": "The bindings of the roles; apply the policies before them.",
    "agent-objects.yaml": "The agent. `karmada-vc-agent join` makes Secret karmada-kubeconfig.",
}


def _has_open_names(config: AgentConfig) -> bool:
    """Return whether `join --name` gives names that no generated manifest can list (ADR 62)."""
    return config.has_other_sources and not config.objects.any_name


_OF_JOIN = ("roles.yaml", "policies.yaml", "bindings.yaml")


def _hub_text(settings: Path) -> str:
    config = load_config(CONFIG, settings, {})
    if _has_open_names(config):
        return manifest_text(
            [], {}, f"`karmada-vc-agent join --only hub` has names.\n{_WRITTEN_BY}"
        )
    names = tuple(vc.name for vc in config.virtual_clusters)
    access = HubAccess(AGENT, names, gateway=config.gateway.enabled, of_features=HUB_ROLES)
    head = (
        f"For the hub: the rights of agent {AGENT} there, for {', '.join(names)}.\nThey are "
        f"granted to user {access.user}, whom a client certificate\nnames; karmada-vc-agent join "
        f"has that certificate signed.\n{_WRITTEN_BY}"
    )
    return manifest_text(hub_objects(access), hub_reasons(access), head)


def _chart_files(base: Parts, settings: Path) -> dict[Path, str]:
    parts, why = host_parts(_NAMESPACE, _IMAGE, settings)
    parts["namespace.yaml"] = [obj for obj in parts["namespace.yaml"] if obj["kind"] != "Namespace"]
    parts["agent-objects.yaml"] = [_with_values(obj) for obj in parts["agent-objects.yaml"]]
    made = {
        CHART / "templates" / name: _template(manifest_text(objects, why, _WRITTEN_BY))
        for name, objects in parts.items()
    }
    made[CHART / "templates" / "settings.yaml"] = _SETTINGS_OF_CHART
    monitor = _template(manifest_text(_monitoring(_NAMESPACE), {}, _WRITTEN_BY))
    wrapped = f"{{{{- if .Values.monitoring }}}}\n{monitor}{{{{- end }}}}\n"
    made[CHART / "templates" / "monitoring.yaml"] = wrapped
    proxy = konnectivity.host_objects(_NAMESPACE, AGENT)
    text = _template(manifest_text(proxy, {}, _WRITTEN_BY))
    made[CHART / "templates" / "konnectivity.yaml"] = (
        f"{{{{- if .Values.konnectivity }}}}\n{text}{{{{- end }}}}\n"
    )
    made[CHART / "values.yaml"] = _values_text(base["agent-objects.yaml"], settings)
    made[CHART / "crds" / "crd.yaml"] = crd_file.text()
    return made


def _with_values(obj: Object) -> Object:
    """Return a Deployment with placeholders for values; any other object as it is."""
    if obj["kind"] != "Deployment":
        return obj
    made: Object = copy_object(obj)
    made["spec"]["replicas"] = _REPLICAS
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = _RESOURCES
    if obj["metadata"]["name"] == AGENT:
        container["args"].append(_SHARD)
        made["spec"]["strategy"] = _STRATEGY
    return made


def _template(text: str) -> str:
    assert "{{" not in text, "would be taken for a template"  # noqa: S101 - a generator's own check
    for placeholder, value in _VALUES.items():
        text = text.replace(placeholder, value)
    return text


def _values_text(objects: Iterable[Object], settings: Path) -> str:
    deployment: Any = next(obj for obj in objects if obj["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    values = {
        "image": container["image"],
        "replicas": deployment["spec"]["replicas"],
        "shards": 1,
        "resources": container["resources"],
        "monitoring": False,
        "konnectivity": False,
        "settings": settings.read_text(),
    }
    return _VALUES_HEAD + manifest_text([values], {}, "")


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
