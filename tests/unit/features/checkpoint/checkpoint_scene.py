"""A hub that is known, a host that keeps it, and the writer between them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from karmada_vc_agent.cluster.hub_clusters import AgentState, HubClusters, cluster_id, cluster_store
from karmada_vc_agent.features.checkpoint.entries import CheckpointSecrets
from karmada_vc_agent.features.checkpoint.reader import Expected, Saved, read
from karmada_vc_agent.features.checkpoint.writer import CheckpointWriter, Outdated
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.codec import RawCodec
from karmada_vc_agent.kube.errors import KubeError
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.work.works import Works, new_store
from tests.fakes import objects
from tests.fakes.api_server import FakeApiServer

HOST_UID = "3f2d9c1e-8a47-4c55-9a0b-6b1f0c2d7e11"
STATE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "agent-state", "namespace": "agents"},
    "data": {},
}
SECRETS = "/api/v1/namespaces/agents/secrets"
TEMPLATE = "{namespace}-v-{cluster}"


class LosingClient(ApiClient):
    """Patches, but says `error` in place of the answer where there is one."""

    error: KubeError | None = None

    async def merge_patch(
        self,
        path: str,
        patch: Any,
        as_user: str = "",
        query: Mapping[str, str] | None = None,
        *,
        is_terse: bool = False,
    ) -> Object:
        answer = await super().merge_patch(path, patch, as_user, query, is_terse=is_terse)
        if self.error is not None:
            raise self.error
        return answer


class Scene:
    """Tells the writer what a watch of the hub would; `saved` is what a start would read."""

    def __init__(self, host: FakeApiServer, client: ApiClient, *names: str) -> None:
        self.host, self.client = host, client
        self.served = dict.fromkeys(names or ("branch-a",))
        self.version = 100
        self.works = {name: new_store(RawCodec()) for name in self.served}
        self.cluster_store = cluster_store()
        self.rules: Store[Object] = Store(RawCodec())
        self.clusters = HubClusters(self.cluster_store, HOST_UID, self.served)
        self.is_in_contact = True
        self.hub = "hub-1"
        self.time = "2026-05-01T10:00:00Z"
        self.new_process()
        host.seed(objects.namespace("agents"), STATE)
        self.cluster_store.replace_all([self.cluster(name) for name in self.served], "100")
        self.rules.replace_all([], "100")
        for store in self.works.values():
            store.replace_all([], "100")
        for name in self.served:
            self.works[name].add_handler(partial(self._told, name))
        self.cluster_store.add_handler(lambda *_: self.writer.clusters_changed())

    def new_process(self) -> None:
        """Begin as a process does that knows nothing of the Secrets yet."""
        self.secrets = CheckpointSecrets(self.client, "agents", "agent")
        self.outdated = Outdated(AgentState(self.client, "agents", "agent"))
        self.writer = CheckpointWriter(
            self.secrets,
            self.outdated,
            clusters=self.clusters,
            works=Works(self.works),
            rules=(self.rules,),
            served=self.served,
            template=TEMPLATE,
            hub=lambda: self.hub,
            is_in_contact=lambda _: self.is_in_contact,
            now=lambda: self.time,
            # The clock of the loop would jump while a thread of a busy machine waits.
            in_thread=_at_once,
        )

    def _told(self, name: str, old: Object | None, new: Object | None) -> None:
        self.writer.work_changed(name, old, new)

    def cluster(self, name: str, uid: str = "", **metadata: Any) -> Object:
        made = objects.cluster(name, cluster_id(HOST_UID, name))
        given = {"uid": uid or f"uid-{name}", "generation": 1, "resourceVersion": self._next()}
        made["metadata"] |= {**given, **metadata}
        return made

    def work(self, name: str, of: str = "branch-a", text: str = "", **metadata: Any) -> Object:
        """Store a Work as a watch does."""
        made = objects.work(objects.config_map(value=text or name), vc=of, name=name)
        given = {"uid": f"uid-{name}", "generation": 1, "resourceVersion": self._next()}
        made["metadata"] |= {**given, **metadata}
        self.works[of].apply(made)
        return made

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    async def write(self) -> None:
        """Write as the loop does once. Raises the first error that the loop would tell."""
        await self.writer._write_all()
        self.writer._log_errors()
        for failure in self.writer._failures.values():
            raise failure.error

    def contact_was_noted(self, at: float = float("-inf")) -> None:
        """Let the last note of the contact be of this time; by default the next one is due."""
        self.writer.contact = self.writer.contact._replace(at=at)

    def saved(self, **expected: Any) -> Saved:
        """Return what a start would read now."""
        found = [secret.get("data") or {} for secret in self.host.listed(SECRETS)]
        return read(found, Expected(**{"template": TEMPLATE, "uids": {}, **expected}))

    def names(self, cluster: str = "branch-a") -> list[str]:
        """Return the names of the saved Works."""
        return sorted(work["metadata"]["name"] for work in self.saved().works(cluster))

    def patches(self) -> list[list[str]]:
        """Return the keys of each write since the last call."""
        found = [sorted(request.body.get("data") or {}) for request in self.host.writes()]
        self.host.requests.clear()
        return found


async def _at_once(encode: Any, *parts: Any) -> bytes:
    made: bytes = encode(*parts)
    return made
