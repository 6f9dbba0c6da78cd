"""A stand-in for the metrics server of a host: nodes and pods simulated by kwok use nothing.

It answers group metrics.k8s.io behind the host's aggregator, for the pods that are there.
"""

import datetime as dt
import http.server
import json
import ssl
import threading
import urllib.parse
from collections import Counter
from pathlib import Path

from e2e.lab.api import Api, Object, collection, path_of
from e2e.lab.wait import eventually
from e2e.lab.webhook_server import self_signed

GROUP = "metrics.k8s.io/v1beta1"
ROOT = f"/apis/{GROUP}"
_NAME, _SPACE = "metrics-server-of-a-test", "kube-system"


class HostMetrics:
    """Serves until it is closed. load: host namespace -> millicores that its pods share."""

    def __init__(self, host: Api, directory: Path) -> None:
        self.load: dict[str, int] = {}
        self._host = host
        handler = type("Handler", (_Handler,), {"metrics": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        certificate = self_signed(directory, "localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._made = [host.create(each) for each in _registered(self._server.server_address[1])]
        eventually(host.get, f"{ROOT}/nodes")

    def close(self) -> None:
        """Take it from the host first: a group that nobody answers keeps namespaces there."""
        for obj in self._made:
            self._host.delete(path_of(obj))
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, selector: str) -> Object | None:
        """Return what is at a path, None if nothing is."""
        if path.rstrip("/") == ROOT:
            return _DISCOVERY
        words = path.removeprefix(f"{ROOT}/").split("/")
        namespace = words[1] if words[0] == "namespaces" and len(words) > 2 else ""
        kind, *names = words[2:] if namespace else words
        if kind not in _KINDS or not path.startswith(ROOT):
            return None
        found = self._host.list(collection("v1", _KINDS[kind], namespace), selector)
        used = self._used()
        items = [_usage(each, used) for each in found]
        if not names:
            metrics = f"{_KINDS[kind]}MetricsList"
            return {"apiVersion": GROUP, "kind": metrics, "metadata": {}, "items": items}
        return next((each for each in items if each["metadata"]["name"] == names[0]), None)

    def _used(self) -> Counter[str]:
        """Return millicores by pod (namespace/name) and by node: loads are shared evenly."""
        pods = [
            each
            for each in self._host.list("/api/v1/pods")
            if each["metadata"]["namespace"] in self.load
        ]
        each_has = Counter(pod["metadata"]["namespace"] for pod in pods)
        used: Counter[str] = Counter()
        for pod in pods:
            space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            share = self.load[space] // each_has[space]
            used[f"{space}/{name}"] = share
            used[pod["spec"].get("nodeName", "")] += share
        return used


_KINDS = {"pods": "Pod", "nodes": "Node"}
_DISCOVERY: Object = {
    "apiVersion": "v1",
    "kind": "APIResourceList",
    "groupVersion": GROUP,
    "resources": [
        {
            "name": name,
            "singularName": "",
            "namespaced": kind == "Pod",
            "kind": f"{kind}Metrics",
            "verbs": ["get", "list"],
        }
        for name, kind in _KINDS.items()
    ],
}


def _usage(obj: Object, used: Counter[str]) -> Object:
    """Return what a Pod or a Node uses."""
    metadata = {key: obj["metadata"].get(key) for key in ("name", "namespace", "labels")}
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    measured: Object = {"metadata": metadata, "timestamp": now, "window": "1s"}
    name, space = metadata["name"], metadata["namespace"]
    usage = {"cpu": f"{used[f'{space}/{name}' if space else name]}m", "memory": "1Mi"}
    if not space:
        return {"apiVersion": GROUP, "kind": "NodeMetrics", **measured, "usage": usage}
    containers = [{"name": each["name"], "usage": usage} for each in obj["spec"]["containers"]]
    return {"apiVersion": GROUP, "kind": "PodMetrics", **measured, "containers": containers}


def _registered(port: int) -> list[Object]:
    """Return what leads the host's aggregator to a port of this machine."""
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME, "namespace": _SPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    registration: Object = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": _NAME, "namespace": _SPACE, "port": port},
        },
    }
    return [service, registration]


class _Handler(http.server.BaseHTTPRequestHandler):
    metrics: HostMetrics
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        selector = urllib.parse.parse_qs(url.query).get("labelSelector", [""])[0]
        found = self.metrics.answer(url.path, urllib.parse.quote(selector))
        content = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "code": 404}).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
