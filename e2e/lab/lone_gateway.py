"""A gateway before a lone API server, and its virtual clusters, made by hand."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
import yaml

from control_planes.pki import Authority, write_private
from e2e.lab.agent import ROOT, clean_environment, settings_file
from e2e.lab.api import Api, Object
from e2e.lab.kubectl import kubectl
from e2e.lab.wait import STARTED_S, within
from karmada_vc_agent.access.agent_objects import (
    TOKEN_KINDS,
    TokenKind,
    definition_key,
    secret_name,
)
from karmada_vc_agent.features.gateway.tokens import (
    KEY_BYTES,
    SEALING_KEY,
    TokenSum,
    definition_text,
    digest,
)
from karmada_vc_agent.model.virtual_cluster import LabelSelector, VirtualCluster
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.translation.rbac import absorbed_name, admin_groups
from karmada_vc_agent.translation.rbac_rules import admin_rules

AGENT, HOME = "agent", "agent-home"
FIRST = "first"
"""A virtual cluster of the settings file; those that are added later are told of in the Secret."""
NAMESPACES = ("edge", "shop")
RBAC = "rbac.authorization.k8s.io/v1"
ADMIN, READER = "virtual-cluster-admin", "virtual-cluster-reader"
_READ = ["get", "list", "watch"]
_CLUSTER_SCOPED = (
    ("", ["nodes", "namespaces", "persistentvolumes"]),
    ("rbac.authorization.k8s.io", ["clusterroles", "clusterrolebindings"]),
    ("storage.k8s.io", ["storageclasses"]),
    ("scheduling.k8s.io", ["priorityclasses"]),
    ("apiextensions.k8s.io", ["customresourcedefinitions"]),
)


class LoneGateway:
    """`karmada-vc-agent gateway` as a process, tokens made by hand, and clients of it."""

    def __init__(self, host: Api, folder: Path, clusters: tuple[str, ...] = (FIRST,)) -> None:
        """clusters: those of the settings file."""
        self.host = host
        self.clusters = clusters
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.tokens: dict[tuple[str, TokenKind], str] = {}
        authority = Authority("gateway-ca")
        pair = authority.issue_server()
        self.ca = folder / "gateway-ca.crt"
        self.ca.write_bytes(authority.key_pair.certificate)
        (folder / "tls.crt").write_bytes(pair.certificate)
        write_private(folder / "tls.key", pair.key)
        self.port = 0
        self._pool = urllib3.PoolManager(ca_certs=str(self.ca), retries=False)

    # --- the host -------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make on the host what the agent and `join` would make."""
        self.host.create(_namespace(HOME))
        self._make_roles()
        self.host.create(self._secret())
        self._tell({key: text for vc in self.clusters for key, text in self._make(vc).items()})

    def add(self, *clusters: str) -> None:
        """Make further virtual clusters, and wait until they are served."""
        told: dict[str, str] = {}
        for cluster in clusters:
            vc = VirtualCluster(cluster, LabelSelector(match_labels={"branch": cluster}))
            told |= {**self._make(cluster), definition_key(cluster): definition_text(vc)}
        self._tell(told)
        for cluster in clusters:
            within(STARTED_S, self._assert_serves, cluster)

    def _make(self, cluster: str) -> dict[str, str]:
        """Make what is of one virtual cluster; return what the Secret has to say of it."""
        for virtual in (*NAMESPACES, "vc-system"):
            self.claim(cluster, virtual)
        self.host.create(_node(f"node-{cluster}", cluster))
        self.host.create(_binding("ClusterRoleBinding", f"{READER}-{cluster}", READER, cluster))
        told = {}
        for kind in TOKEN_KINDS:
            token = f"{cluster}-{kind}-{os.urandom(16).hex()}"
            self.tokens[cluster, kind] = token
            each = TokenSum(kind, cluster, "2026-01-01T00:00:00Z", digest(token))
            told[each.key] = each.text
        return told

    def _tell(self, texts: dict[str, str]) -> None:
        path = f"/api/v1/namespaces/{HOME}/secrets/{secret_name(AGENT)}"
        self.host.patch(path, {"stringData": texts})

    def _assert_serves(self, cluster: str) -> None:
        answer = self.ask("/api/v1/namespaces", cluster)
        assert answer.status == 200, answer.data
        names = {each["metadata"]["name"] for each in answer.json()["items"]}
        assert names == {*NAMESPACES, "kube-system"}
        for name in NAMESPACES:
            assert self.ask(f"/api/v1/namespaces/{name}/configmaps", cluster).status == 200
        answer = self.ask("/api/v1/nodes", cluster)
        assert answer.status == 200, answer.data
        assert len(answer.json()["items"]) == 1

    def claim(self, cluster: str, virtual: str) -> str:
        """Make a claimed namespace with the rights in it; return its name on the host."""
        name = f"{virtual}-v-{cluster}"
        labels = {CLUSTER_LABEL: cluster, NAMESPACE_LABEL: virtual, AGENT_LABEL: AGENT}
        self.host.create(_namespace(name, labels))
        self.host.create(_binding("RoleBinding", "vc:admin", ADMIN, cluster, name))
        return name

    def allow_to_impersonate(self, cluster: str, users: list[str], groups: list[str]) -> None:
        """Store what Karmada would send as `karmada-impersonator`."""
        found = (("users", users), ("groups", groups))
        self.host.create(
            {
                "apiVersion": RBAC,
                "kind": "ClusterRole",
                "metadata": {"name": absorbed_name(cluster), "labels": {CLUSTER_LABEL: cluster}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "verbs": ["impersonate"],
                        "resources": [resource],
                        "resourceNames": names,
                    }
                    for resource, names in found
                ],
            }
        )

    def _make_roles(self) -> None:
        admin = [dict(rule) for rule in admin_rules(self._namespaced())]
        reader = [{"apiGroups": [g], "resources": r, "verbs": _READ} for g, r in _CLUSTER_SCOPED]
        for name, rules in ((ADMIN, admin), (READER, reader)):
            self.host.create(
                {
                    "apiVersion": RBAC,
                    "kind": "ClusterRole",
                    "metadata": {"name": name},
                    "rules": rules,
                }
            )

    def _namespaced(self) -> Iterator[tuple[str, str]]:
        groups = [("", "/api/v1")]
        groups += [
            (group["name"], f"/apis/{group['preferredVersion']['groupVersion']}")
            for group in self.host.get("/apis")["groups"]
        ]
        for name, path in groups:
            for resource in self.host.get(path)["resources"]:
                if resource["namespaced"]:
                    yield name, resource["name"]

    def _secret(self) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret_name(AGENT), "namespace": HOME},
            "data": {SEALING_KEY: base64.b64encode(os.urandom(KEY_BYTES)).decode()},
        }

    # --- the process ----------------------------------------------------------------------

    def start(self, kubeconfig: Path | None = None, **settings: Any) -> None:
        """Start it, and wait until it serves. kubeconfig: None = with all rights on the host."""
        config = self._folder / "agent.yaml"
        config.write_text(yaml.safe_dump(settings_file(self._settings(settings))))
        command = [
            *(sys.executable, "-m", "karmada_vc_agent", "gateway", "--config", str(config)),
            *("--kubeconfig", str(kubeconfig or self.host.kubeconfig)),
        ]
        with (self._folder / "gateway.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=ROOT, env=clean_environment()
            )
        self.port = within(STARTED_S, self._serving_port)

    def _settings(self, more: dict[str, Any]) -> dict[str, Any]:
        gateway = {
            "enabled": True,
            "host": "localhost",
            "bindAddress": "127.0.0.1:0",
            "healthProbeBindAddress": "0",
            "metricsBindAddress": "0",
            "certFile": str(self._folder / "tls.crt"),
            "privateKeyFile": str(self._folder / "tls.key"),
            **more,
        }
        vcs = [
            {"name": vc, "nodeSelector": {"matchLabels": {"branch": vc}}} for vc in self.clusters
        ]
        return {
            "agentName": AGENT,
            "agentNamespace": HOME,
            "gateway": gateway,
            "virtualClusters": vcs,
        }

    def _serving_port(self) -> int:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        for line in self.log().splitlines():
            if "Serving" in line and "port=" in line:
                port = int(line.partition("port=")[2].split()[0])
                url = f"https://127.0.0.1:{port}/virtualclusters/{self.clusters[0]}/version"
                token = self.tokens[self.clusters[0], "access"]
                headers = {"Authorization": f"Bearer {token}"}
                assert self._pool.request("GET", url, headers=headers).status == 200
                return port
        raise AssertionError(self.log())

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> float:
        """Tell it to end; return the seconds that takes."""
        assert self._process is not None
        started = time.monotonic()
        self._process.terminate()
        self._process.wait(30)
        return time.monotonic() - started

    def log(self) -> str:
        """What it wrote, with the lines of the audit."""
        return (self._folder / "gateway.log").read_text()

    def audit(self) -> list[Any]:
        """The lines of the audit."""
        whole_lines = self.log().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in whole_lines if line.startswith("{")]

    # --- clients --------------------------------------------------------------------------

    def url(self, cluster: str) -> str:
        """The endpoint of a virtual cluster."""
        return f"https://127.0.0.1:{self.port}/virtualclusters/{cluster}/"

    def ask(
        self,
        path: str,
        cluster: str,
        method: str = "GET",
        *,
        body: Any = None,
        token: str | None = None,
        kind: TokenKind = "access",
        **headers: str,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request; headers: by names with `_` for `-`."""
        token = self.tokens[cluster, kind] if token is None else token
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named["Authorization"] = f"bearer {token}"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        return self._pool.request(
            method, self.url(cluster)[:-1] + path, body=content, headers=named, timeout=60.0
        )

    def kubeconfig(self, cluster: str) -> Path:
        """A kubeconfig with the token of kind access."""
        path = self._folder / f"{cluster}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [
                {
                    "name": "it",
                    "cluster": {
                        "server": self.url(cluster),
                        "certificate-authority": str(self.ca),
                    },
                }
            ],
            "users": [{"name": "it", "user": {"token": self.tokens[cluster, "access"]}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def kubectl(self, cluster: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Run kubectl against a virtual cluster; return what it writes."""
        return kubectl(self.kubeconfig(cluster), *arguments, stdin=stdin, fails=fails)


@contextmanager
def lone_gateway(host: Api, folder: Path, **settings: Any) -> Iterator[LoneGateway]:
    """Run a gateway before an API server that knows nothing of virtual clusters yet."""
    found = LoneGateway(host, folder)
    found.prepare()
    found.start(**settings)
    try:
        yield found
    finally:
        found.stop()


def pod(namespace: str, name: str = "nginx", node: str = "") -> Object:
    """A pod on a node."""
    spec: Object = {"containers": [{"name": "c", "image": "nginx"}]}
    if node:
        spec |= {"nodeName": node, "nodeSelector": {"branch": node.removeprefix("node-")}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "nginx"}},
        "spec": spec,
    }


def config_map(namespace: str, name: str, **data: str) -> Object:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def _namespace(name: str, labels: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels or {}},
    }


def _node(name: str, branch: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"branch": branch, "kubernetes.io/hostname": name},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
    }


def _binding(kind: str, name: str, role: str, cluster: str, namespace: str = "") -> Object:
    """Bind the administrators of a virtual cluster to a role. namespace: of a RoleBinding."""
    api_group = RBAC.partition("/")[0]
    groups = admin_groups(cluster)
    return {
        "apiVersion": RBAC,
        "kind": kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": api_group, "kind": "Group", "name": each} for each in groups],
    }
