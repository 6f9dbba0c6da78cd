"""A gateway over TLS before a fake host, and clients that see every byte."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from karmada_vc_agent.access.agent_objects import secret_name
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.features.gateway.host_state import HostState
from karmada_vc_agent.features.gateway.mapping.cluster_view import Sealer
from karmada_vc_agent.features.gateway.mapping.plan import plan
from karmada_vc_agent.features.gateway.request_metrics import METRICS, RequestMeter
from karmada_vc_agent.features.gateway.server.connections import Listener
from karmada_vc_agent.features.gateway.server.fairness import Limits
from karmada_vc_agent.features.gateway.server.gateway import Gateway, Planner
from karmada_vc_agent.features.gateway.server.host_requests import HostRequests
from karmada_vc_agent.features.gateway.tokens import KEY_BYTES, TokenSum, digest
from karmada_vc_agent.kube.flows import Supervisor
from karmada_vc_agent.kube.https import ServingCertificate
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import LabelSelector, VirtualCluster
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, NAMESPACE_LABEL
from karmada_vc_agent.telemetry.metrics import Metrics
from karmada_vc_agent.translation.rbac import absorbed_name
from tests.fakes.api_server import FakeApiServer, Fault
from tests.fakes.tls import trusting, write_certificate

AGENT, AGENT_NAMESPACE = "agent", "agent-home"
TOKENS = {
    (cluster, kind): f"{cluster}-{kind}-token"
    for cluster in ("a", "b")
    for kind in ("access", "impersonator")
}


@dataclass
class Reply:
    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Lab:
    """A gateway before a fake host."""

    host: FakeApiServer
    state: HostState
    gateway: Gateway
    listener: Listener
    limits: Limits
    metrics: Metrics
    trust: Any
    port: int = 0
    audit: list[Any] = field(default_factory=list)

    async def ask(
        self,
        path: str,
        *headers: tuple[str, str],
        token: str = TOKENS["a", "access"],
        cluster: str = "a",
        method: str = "GET",
        body: bytes = b"",
    ) -> Reply:
        reader, writer = await self.open(
            path, *headers, token=token, cluster=cluster, method=method, body=body
        )
        try:
            return await read_reply(reader)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def open(
        self,
        path: str,
        *headers: tuple[str, str],
        token: str = TOKENS["a", "access"],
        cluster: str = "a",
        method: str = "GET",
        body: bytes = b"",
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        lines = [f"{method} /virtualclusters/{cluster}{path} HTTP/1.1", "Host: x"]
        lines += [f"Authorization: bearer {token}"] if token else []
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [f"Content-Length: {len(body)}"] if body else []
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        return reader, writer

    def noted(self, path: str) -> list[list[tuple[str, str]]]:
        """Note the headers of requests to a path, each as often as it came."""
        found: list[list[tuple[str, str]]] = []

        def act(incoming: Any) -> None:
            found.append([(name.lower(), value) for name, value in incoming.headers.items()])

        self.host._faults.append(Fault(act, "", path))
        return found


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {
        name.lower(): value
        for name, _, value in (line.partition(": ") for line in head[1:] if line)
    }
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while part := await read_chunk(reader):
            body += part
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Reply(int(head[0].split()[1]), headers, body)


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readline(), 16)
    part = await reader.readexactly(size)
    await reader.readexactly(2)
    return part


def namespace(name: str, cluster: str = "", virtual: str = "", agent: str = AGENT) -> Object:
    labels = {CLUSTER_LABEL: cluster, NAMESPACE_LABEL: virtual, AGENT_LABEL: agent}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels if cluster else {}},
    }


def config_map(namespace: str, name: str = "m") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }


def secret(tokens: dict[tuple[str, str], str]) -> Object:
    sums: list[Any] = [
        TokenSum(kind, cluster, "2026-01-01T00:00:00Z", digest(token))  # type: ignore[arg-type]
        for (cluster, kind), token in tokens.items()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(AGENT), "namespace": AGENT_NAMESPACE},
        "data": {each.key: base64.b64encode(each.text.encode()).decode() for each in sums},
    }


def role(cluster: str, users: list[str], groups: list[str]) -> Object:
    found = (("users", users), ("groups", groups))
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": absorbed_name(cluster), "labels": {CLUSTER_LABEL: cluster}},
        "rules": [
            {"apiGroups": [""], "verbs": ["impersonate"], "resources": [r], "resourceNames": n}
            for r, n in found
        ],
    }


def agent_config() -> AgentConfig:
    vcs = tuple(
        VirtualCluster(name, LabelSelector(match_labels={"branch": name})) for name in ("a", "b")
    )
    return AgentConfig(agent_name=AGENT, agent_namespace=AGENT_NAMESPACE, virtual_clusters=vcs)


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@asynccontextmanager
async def gateway_lab(
    folder: Path, planner: Planner = plan, answer_s: float = 60.0
) -> AsyncIterator[Lab]:
    """Run a gateway over TLS before a fake host with two virtual clusters of equal names."""
    paths = write_certificate(folder)
    async with FakeApiServer() as host:
        host.seed(
            *(namespace(f"edge-v-{name}", name, "edge") for name in ("a", "b")),
            namespace("kube-system"),
            namespace(AGENT_NAMESPACE),
            *(config_map(place) for place in ("edge-v-a", "edge-v-b", "kube-system")),
            secret(TOKENS),
            role("a", ["alice"], ["dev", "system:masters"]),
        )
        host.answer(b'{"status": {"allowed": true}}', 201, path=REVIEWS, times=1_000_000)
        config = agent_config()
        state = HostState(config, host.client(), Supervisor())
        state.file.replace_all(config.virtual_clusters)
        requests = HostRequests(Credentials(host.url, None, "a test"), answer_s=answer_s)
        limits, metrics, lines = Limits(8, 8), Metrics((METRICS,)), []
        sealer = Sealer(bytes(KEY_BYTES))
        gateway = Gateway(
            state,
            requests,
            lambda: sealer,
            limits,
            lambda line: lines.append(orjson.loads(line)),
            RequestMeter(metrics, limits.in_progress),
            planner,
        )
        listener = Listener(ServingCertificate(*paths).context, gateway.handle)
        found = Lab(
            host, state, gateway, listener, limits, metrics, trusting(paths[0]), audit=lines
        )
        found.port = await listener.start("127.0.0.1", 0)
        tasks = [asyncio.create_task(each.run()) for each in state.reflectors]
        for each in state.reflectors:
            await each.wait_synced()
        try:
            yield found
        finally:
            await listener.stop(1.0, gateway.end_long)
            requests.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
