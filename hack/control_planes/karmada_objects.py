"""Objects that Karmada's own deployment puts on the hub, read from its module.

They are read at run time and never kept here. What they say about Services of a cluster is
turned into ports on loopback; the rest stays as it is.
"""

import base64
from pathlib import Path
from typing import Any

import yaml

from control_planes.errors import ControlPlanesError

Object = dict[str, Any]
MODULE = "github.com/karmada-io/karmada"
CRDS = Path("charts/karmada/_crds")
DEPLOY = Path("artifacts/deploy")
WEBHOOK_SERVICE = "karmada-webhook.karmada-system.svc:443"
NAMESPACES = ("kube-public", "karmada-system")
# the C parser is ten times as fast, and the CRDs are large
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def namespaces() -> list[Object]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES
    ]


def crds(module: Path) -> list[Object]:
    """Return the CRDs of Karmada without their conversion webhook, which may not run yet."""
    paths = sorted((module / CRDS / "bases").rglob("*.yaml"))
    if not paths:
        raise ControlPlanesError(f"{module / CRDS} holds no CRDs; has the layout changed?")
    return [item for path in paths for item in _parse(path, {})]


def with_conversion(module: Path, definitions: list[Object], port: int, ca: Path) -> list[Object]:
    """Return those CRDs that have versions to convert, patched to ask the webhook for it."""
    texts = {"{{name}}.{{namespace}}.svc:443": f"localhost:{port}", "{{caBundle}}": bundle(ca)}
    patches = {
        patch["metadata"]["name"]: patch["spec"]
        for path in sorted((module / CRDS / "patches").glob("*.yaml"))
        for patch in _parse(path, texts)
    }
    return [
        item | {"spec": item["spec"] | patches[item["metadata"]["name"]]}
        for item in definitions
        if item["metadata"]["name"] in patches
    ]


def aggregated_api(
    module: Path, port: int, ca: Path, server: str = "karmada-aggregated-apiserver"
) -> list[Object]:
    """Return the APIServices of a server, and the Service that leads them to a port on loopback."""
    path = module / DEPLOY / f"{server}-apiservice.yaml"
    items = _parse(path, {"{{caBundle}}": bundle(ca)})
    for item in items:
        if item["kind"] == "APIService":
            item["spec"]["service"]["port"] = port
        else:
            item["spec"]["externalName"] = "localhost"
    return items


def webhook_configurations(module: Path, port: int, ca: Path) -> list[Object]:
    texts = {WEBHOOK_SERVICE: f"localhost:{port}", "{{caBundle}}": bundle(ca)}
    return _parse(module / DEPLOY / "webhook-configuration.yaml", texts)


def access_rules(module: Path, server: str, ca: Path) -> list[Object]:
    """Return RBAC for admins and cluster proxy, and what `karmadactl register` needs."""
    texts = {"{{ca_crt}}": bundle(ca), "{{apiserver_address}}": server}
    return [
        *_parse(module / DEPLOY / "admin-clusterrole-aggregation.yaml", {}),
        *_parse(module / DEPLOY / "cluster-proxy-admin-rbac.yaml", {}),
        *_parse(module / DEPLOY / "bootstrap-token-configuration.yaml", texts),
    ]


def bundle(ca: Path) -> str:
    """Return an authority as `caBundle` has it."""
    return base64.b64encode(ca.read_bytes()).decode()


def _parse(path: Path, texts: dict[str, str]) -> list[Object]:
    """Parse all documents of a file after replacing texts, each of which must be there."""
    content = path.read_text()
    for old, new in texts.items():
        if old not in content:
            raise ControlPlanesError(f"{path} no longer holds {old}; has Karmada changed it?")
        content = content.replace(old, new)
    return [item for item in yaml.load_all(content, Loader=LOADER) if item]
