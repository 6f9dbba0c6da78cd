"""What hub and host have of a Work or an object, gathered for `karmada-vc-agent explain`."""

from dataclasses import dataclass, field
from typing import Any

from karmada_vc_agent.cluster.held_namespaces import hold_of
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.labelled_objects import listed_resources
from karmada_vc_agent.commands.command_errors import CommandError
from karmada_vc_agent.config.config_error import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import ApiError, KubeError, NotFoundError
from karmada_vc_agent.model.domain import (
    CLUSTER_LABEL,
    HUB_CONTACT_ANNOTATION,
    NAME_ANNOTATION,
    NAMESPACE_LABEL,
    OBSERVED_AT_ANNOTATION,
    WORK_ANNOTATION,
)
from karmada_vc_agent.model.karmada import execution_namespace
from karmada_vc_agent.model.objects import (
    Object,
    annotations_of,
    gvk_of,
    key_of,
    labels_of,
    maps_at,
)
from karmada_vc_agent.work.works import manifests_of, work_path

MANAGER = "karmada-vc-agent"


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """What is to be explained: a Work, or an object by its virtual names."""

    cluster: str
    work: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """Return what it is called."""
        if self.work:
            return f"Work {self.work}"
        return f"{self.kind} {self.namespace}/{self.name}"


def target_of(text: str) -> ExplainTarget:
    """Parse CLUSTER/WORK or CLUSTER/KIND/NAMESPACE/NAME. Raises ConfigError."""
    parts = text.split("/")
    match parts:
        case [cluster, work] if cluster and work:
            return ExplainTarget(cluster, work)
        case [cluster, kind, namespace, name] if cluster and kind and name:
            return ExplainTarget(cluster, "", kind, namespace, name)
        case _:
            told = (
                f'"{text}" is neither CLUSTER/WORK nor CLUSTER/KIND/NAMESPACE/NAME, such as '
                "branch-a/deployment/edge/web"
            )
            raise ConfigError("flags", "TARGET", told)


@dataclass(slots=True)
class ExplainFacts:
    """What was found. problem: why the hub could not be asked, "" if it was."""

    target: ExplainTarget
    problem: str = ""
    cluster: Object | None = None
    works: list[Object] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)


class Gathering:
    """Asks hub and host; a hub that does not answer leaves what the host alone has."""

    def __init__(self, hub: ApiClient, host: ApiClient) -> None:
        self._hub = hub
        self._host = host
        self._kinds = Discovery(host)

    async def facts(self, target: ExplainTarget) -> ExplainFacts:
        """Return all that is found. Raises KubeError of the host, CommandError."""
        found = ExplainFacts(target)
        try:
            await self._ask_hub(found)
        except KubeError as error:
            found.problem = str(error)
        await self._kinds.refresh()
        namespaces = await self._claims(target.cluster)
        if found.works:
            for work in found.works:
                for manifest in manifests_of(work):
                    if _is_meant(target, manifest):
                        found.objects.append(await self._of_manifest(manifest, namespaces, target))
        elif target.kind:
            found.objects += await self._of_object(target, namespaces)
        else:
            found.objects += await self._of_work(target, namespaces)
        if found.cluster is None and not found.problem and not found.objects:
            raise CommandError(f'the hub has no Cluster "{target.cluster}"')
        return found

    async def _ask_hub(self, found: ExplainFacts) -> None:
        target = found.target
        found.cluster = await self._hub.look_up(f"{CLUSTERS_PATH}/{target.cluster}")
        path = work_path(execution_namespace(target.cluster), target.work)
        if target.work:
            try:
                found.works = [await self._hub.get(path)]
            except NotFoundError:
                return
        else:
            items = (await self._hub.get(path)).get("items") or []
            found.works = [w for w in items if any(_is_meant(target, m) for m in manifests_of(w))]

    async def _claims(self, cluster: str) -> dict[str, Object]:
        """Return the claimed host namespaces by virtual name."""
        query = {"labelSelector": f"{CLUSTER_LABEL}={cluster}"}
        items = (await self._host.get("/api/v1/namespaces", query)).get("items") or []
        return {labels_of(item).get(NAMESPACE_LABEL, ""): item for item in items}

    async def _of_manifest(
        self, manifest: Object, namespaces: dict[str, Object], target: ExplainTarget
    ) -> dict[str, Any]:
        resource = await self._kinds.find(gvk_of(manifest))
        (gvk, namespace, name) = key_of(manifest)
        if resource is None:
            return _entry(gvk.kind, namespace, name, "the host has no such kind")
        return await self._entry_of(resource, namespace, name, namespaces, target)

    async def _of_object(
        self, target: ExplainTarget, namespaces: dict[str, Object]
    ) -> list[dict[str, Any]]:
        wanted = target.kind.lower()
        served = self._kinds.served.by_kind.values()
        found = [r for r in served if wanted in (r.gvk.kind.lower(), r.plural)]
        if not found:
            raise CommandError(f'the host has no kind "{target.kind}"')
        return [await self._entry_of(found[0], target.namespace, target.name, namespaces, target)]

    async def _entry_of(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        namespaces: dict[str, Object],
        target: ExplainTarget,
    ) -> dict[str, Any]:
        kind = resource.gvk.kind
        if kind == "Namespace" and not resource.namespaced:
            live = namespaces.get(name)
            state = "claimed" if live is not None else "not claimed"
            return _entry(kind, "", name, state, live, hold_of(live))
        claimed = namespaces.get(namespace)
        if resource.namespaced and claimed is None:
            return _entry(kind, namespace, name, "its namespace is not claimed")
        live = await self._live(resource, claimed, name, target.cluster)
        if live is None:
            return _entry(kind, namespace, name, "not on the host", None, hold_of(claimed))
        is_ours = labels_of(live).get(CLUSTER_LABEL) == target.cluster
        state = "on the host" if is_ours else "on the host, but not of this virtual cluster"
        return _entry(kind, namespace, name, state, live, hold_of(claimed))

    async def _live(
        self, resource: Resource, claimed: Object | None, name: str, cluster: str
    ) -> Object | None:
        if claimed is not None and resource.namespaced:
            return await self._host.look_up(resource.path(claimed["metadata"]["name"], name))
        query = {"labelSelector": f"{CLUSTER_LABEL}={cluster}"}
        items = (await self._host.get(resource.path(""), query)).get("items") or []
        for item in items:
            if name in (annotations_of(item).get(NAME_ANNOTATION), item["metadata"]["name"]):
                return dict(item)
        return None

    async def _of_work(
        self, target: ExplainTarget, namespaces: dict[str, Object]
    ) -> list[dict[str, Any]]:
        """Look through all kinds of the host for what is from a Work that the hub cannot show."""
        query = {"labelSelector": f"{CLUSTER_LABEL}={target.cluster}"}
        work = f"{execution_namespace(target.cluster)}/{target.work}"
        virtual = {item["metadata"]["name"]: name for name, item in namespaces.items()}
        found: list[dict[str, Any]] = []
        for resource in listed_resources(self._kinds.served):
            try:
                items = (await self._host.get(resource.path(""), query)).get("items") or []
            except ApiError:
                continue
            for item in items:
                if annotations_of(item).get(WORK_ANNOTATION) != work:
                    continue
                place, metadata = item["metadata"].get("namespace") or "", item["metadata"]
                held = hold_of(namespaces.get(virtual.get(place, "")))
                entry = (resource.gvk.kind, virtual.get(place, place), metadata["name"])
                found.append(_entry(*entry, "on the host", item, held))
        return found


def plain(facts: ExplainFacts) -> dict[str, Any]:
    """Return the facts as JSON and YAML have them."""
    cluster = facts.cluster or {}
    marks = annotations_of(cluster) if cluster else {}
    return {
        "virtualCluster": facts.target.cluster,
        "hub": {"reached": not facts.problem, "problem": facts.problem or None},
        "cluster": {
            "conditions": maps_at(cluster, "status", "conditions"),
            "observedAt": marks.get(OBSERVED_AT_ANNOTATION),
            "hubContact": marks.get(HUB_CONTACT_ANNOTATION),
        },
        "works": [
            {
                "name": work["metadata"]["name"],
                "generation": work["metadata"].get("generation"),
                "conditions": maps_at(work, "status", "conditions"),
                "statusWritten": status_written(work),
            }
            for work in facts.works
        ],
        "objects": facts.objects,
    }


def status_written(work: Object) -> str | None:
    """Return when the status of a Work was written last, by the record of the API server."""
    times = [
        str(entry.get("time") or "")
        for entry in maps_at(work, "metadata", "managedFields")
        if entry.get("subresource") == "status"
    ]
    return max(times, default=None)


def _is_meant(target: ExplainTarget, manifest: Object) -> bool:
    if target.work:
        return True
    key = key_of(manifest)
    kind = key.gvk.kind.lower()
    kinds = (kind, f"{kind}s", f"{kind}es")
    is_there = (key.namespace, key.name) == (target.namespace, target.name)
    return is_there and target.kind.lower() in kinds


def _entry(
    kind: str,
    namespace: str,
    name: str,
    state: str,
    live: Object | None = None,
    held: str | None = None,
) -> dict[str, Any]:
    metadata = (live or {}).get("metadata") or {}
    place = metadata.get("namespace") or ""
    own = metadata.get("name") or ""
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "state": state,
        "host": f"{place}/{own}" if place else own,
        "work": annotations_of(live).get(WORK_ANNOTATION) if live else None,
        "held": held,
    }
