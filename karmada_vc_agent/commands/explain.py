"""`karmada-vc-agent explain`: what became of one Work or object, and why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from karmada_vc_agent.cluster.claims import hold_of
from karmada_vc_agent.cluster.hub_clusters import CLUSTERS_PATH
from karmada_vc_agent.cluster.labelled_objects import listed_resources
from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import CommandError, one_line_errors
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.kube.client import ApiClient
from karmada_vc_agent.kube.discovery import Discovery, Resource
from karmada_vc_agent.kube.errors import ApiError, KubeError, NotFoundError
from karmada_vc_agent.kube.kubeconfig import find_credentials
from karmada_vc_agent.kube.transport import Credentials, Timeouts
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
    dig,
    gvk_of,
    key_of,
    labels_of,
    maps_at,
)
from karmada_vc_agent.model.texts import one_line
from karmada_vc_agent.work.works import manifests_of, work_path


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """A Work, or an object by its virtual names."""

    cluster: str
    work: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def text(self) -> str:
        """Return its name for people."""
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
            problem = (
                f'"{text}" is neither CLUSTER/WORK nor CLUSTER/KIND/NAMESPACE/NAME, such as '
                "branch-a/deployment/edge/web"
            )
            raise ConfigError("flags", "TARGET", problem)


class Explanation:
    """The state of a target on hub and host; without an answer of the hub, on the host alone.

    problem: why the hub could not be read, "" if it was. objects: as in `plain`.
    """

    def __init__(self, hub: ApiClient, host: ApiClient, target: ExplainTarget) -> None:
        self._hub = hub
        self._host = host
        self._kinds = Discovery(host)
        self._namespaces: dict[str, Object] = {}
        self._labelled = {"labelSelector": f"{CLUSTER_LABEL}={target.cluster}"}
        self.target = target
        self.problem = ""
        self.cluster: Object | None = None
        self.works: list[Object] = []
        self.objects: list[dict[str, Any]] = []

    async def gather(self) -> None:
        """Read hub and host. Raises KubeError of the host, CommandError."""
        target = self.target
        try:
            await self._read_hub()
        except KubeError as error:
            self.problem = str(error)
        await self._kinds.refresh()
        claimed = await self._items("/api/v1/namespaces")
        self._namespaces = {labels_of(item).get(NAMESPACE_LABEL, ""): item for item in claimed}
        if self.works:
            for manifest in (each for work in self.works for each in manifests_of(work)):
                if _is_target(target, manifest):
                    self.objects.append(await self._of_manifest(manifest))
        elif target.kind:
            self.objects.append(await self._of_target())
        else:
            self.objects += [each async for each in self._of_work()]
        if self.cluster is None and not self.problem and not self.objects:
            raise CommandError(f'the hub has no Cluster "{target.cluster}"')

    def plain(self) -> dict[str, Any]:
        """Return all of it as JSON and YAML have it."""
        marks = annotations_of(self.cluster or {})
        return {
            "virtualCluster": self.target.cluster,
            "hub": {"reached": not self.problem, "problem": self.problem or None},
            "cluster": {
                "conditions": maps_at(self.cluster or {}, "status", "conditions"),
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
                for work in self.works
            ],
            "objects": self.objects,
        }

    async def _read_hub(self) -> None:
        target = self.target
        self.cluster = await self._hub.look_up(f"{CLUSTERS_PATH}/{target.cluster}")
        path = work_path(execution_namespace(target.cluster), target.work)
        if target.work:
            with suppress(NotFoundError):
                self.works = [await self._hub.get(path)]
            return
        works = (await self._hub.get(path)).get("items") or []
        self.works = [w for w in works if any(_is_target(target, m) for m in manifests_of(w))]

    async def _items(self, path: str) -> list[Object]:
        """Return the objects of the host with the label of the virtual cluster."""
        return (await self._host.get(path, self._labelled)).get("items") or []

    async def _of_manifest(self, manifest: Object) -> dict[str, Any]:
        (gvk, namespace, name) = key_of(manifest)
        if (resource := await self._kinds.find(gvk_of(manifest))) is None:
            return _entry(gvk.kind, namespace, name, "the host has no such kind")
        return await self._of_kind(resource, namespace, name)

    async def _of_target(self) -> dict[str, Any]:
        kind = self.target.kind.lower()
        for each in self._kinds.served.by_kind.values():
            if kind in (each.gvk.kind.lower(), each.plural):
                return await self._of_kind(each, self.target.namespace, self.target.name)
        raise CommandError(f'the host has no kind "{self.target.kind}"')

    async def _of_kind(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        kind = resource.gvk.kind
        if kind == "Namespace" and not resource.namespaced:
            live = self._namespaces.get(name)
            state = "claimed" if live is not None else "not claimed"
            return _entry(kind, "", name, state, live, hold_of(live))
        claimed = self._namespaces.get(namespace)
        if resource.namespaced and claimed is None:
            return _entry(kind, namespace, name, "its namespace is not claimed")
        live = await self._live(resource, claimed, name)
        if live is None:
            return _entry(kind, namespace, name, "not on the host", None, hold_of(claimed))
        is_ours = labels_of(live).get(CLUSTER_LABEL) == self.target.cluster
        state = "on the host" if is_ours else "on the host, but not of this virtual cluster"
        return _entry(kind, namespace, name, state, live, hold_of(claimed))

    async def _live(self, resource: Resource, claimed: Object | None, name: str) -> Object | None:
        if claimed is not None and resource.namespaced:
            return await self._host.look_up(resource.path(claimed["metadata"]["name"], name))
        for item in await self._items(resource.path("")):
            if name in (annotations_of(item).get(NAME_ANNOTATION), item["metadata"]["name"]):
                return item
        return None

    async def _of_work(self) -> AsyncIterator[dict[str, Any]]:
        """Search all kinds of the host for the objects of a Work that the hub cannot show."""
        work = f"{execution_namespace(self.target.cluster)}/{self.target.work}"
        virtual = {item["metadata"]["name"]: name for name, item in self._namespaces.items()}
        for resource in listed_resources(self._kinds.served):
            try:
                items = await self._items(resource.path(""))
            except ApiError:
                continue
            for item in items:
                if annotations_of(item).get(WORK_ANNOTATION) != work:
                    continue
                namespace, name = item["metadata"].get("namespace") or "", item["metadata"]["name"]
                held = hold_of(self._namespaces.get(virtual.get(namespace, "")))
                namespace = virtual.get(namespace, namespace)
                yield _entry(resource.gvk.kind, namespace, name, "on the host", item, held)


def status_written(work: Object) -> str | None:
    """Return when the status of a Work was written last, by the record of the API server."""
    times = [
        str(entry.get("time") or "")
        for entry in maps_at(work, "metadata", "managedFields")
        if entry.get("subresource") == "status"
    ]
    return max(times, default=None)


def _is_target(target: ExplainTarget, manifest: Object) -> bool:
    if target.work:
        return True
    key = key_of(manifest)
    kind = key.gvk.kind.lower()
    kinds = (kind, f"{kind}s", f"{kind}es")
    is_named = (key.namespace, key.name) == (target.namespace, target.name)
    return is_named and target.kind.lower() in kinds


def _entry(
    kind: str,
    namespace: str,
    name: str,
    state: str,
    live: Object | None = None,
    held: str | None = None,
) -> dict[str, Any]:
    own = [dig(live, "metadata", field) for field in ("namespace", "name")]
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "state": state,
        "host": "/".join(filter(None, own)),
        "work": annotations_of(live).get(WORK_ANNOTATION) if live else None,
        "held": held,
    }


_PATIENCE = Timeouts(request_s=10.0)
_EPILOG = """\b
Examples:
  # a Work of virtual cluster branch-a
  karmada-vc-agent explain branch-a/web-7c9d --config agent.yaml
\b
  # an object, by its name on the hub
  karmada-vc-agent explain branch-a/deployment/edge/web --config agent.yaml -o json
"""


@click.command("explain", epilog=_EPILOG, short_help="Show what became of a Work or an object.")
@click.argument("what", metavar="CLUSTER/WORK|CLUSTER/KIND/NAMESPACE/NAME")
@click.option(
    "--config",
    "config_path",
    type=shared.FilePath(),
    help="Settings file of the agent, for its kubeconfigs.",
)
@click.option(
    "--karmada-kubeconfig", default="", help="Kubeconfig of the hub. Default: as for run."
)
@shared.karmada_context
@shared.agent_name
@shared.agent_namespace
@click.option("--kubeconfig", default="", help="Kubeconfig of the host. Default: as for run.")
@shared.form("text")
def explain(what: str, form: str, **options: Any) -> None:
    """Show what hub and host have of one Work, or of one object by its name on the hub.

    That is the conditions of Work and Cluster, when the hub's picture was made, where the object
    is on the host, and whether an administrator holds its namespace. While the hub is away it
    shows what the host alone has.
    """
    with one_line_errors():
        target = target_of(what)
        config, _, _ = shared.settings_and_agent(options)
        hub = find_credentials(
            options["karmada_kubeconfig"] or (config.karmada_kubeconfig if config else ""),
            options["karmada_context"] or (config.karmada_context if config else ""),
            flag="--karmada-kubeconfig",
        )
        path = options["kubeconfig"] or (config.kubeconfig if config else "")
        host = find_credentials(path, in_cluster_first=True)
        click.echo(written(asyncio.run(_explained(hub, host, target)), form))


async def _explained(hub: Credentials, host: Credentials, target: ExplainTarget) -> Explanation:
    async with (
        ApiClient("hub", hub, timeouts=_PATIENCE) as hub_client,
        ApiClient("host", host, timeouts=_PATIENCE) as host_client,
    ):
        explanation = Explanation(hub_client, host_client, target)
        await explanation.gather()
        return explanation


def written(explanation: Explanation, form: str) -> str:
    """Return it as text, JSON or YAML."""
    if form == "text":
        return "\n".join(map(_harmless, _lines(explanation)))
    return shared.written(explanation.plain(), form)


def _harmless(line: str) -> str:
    """Return a line of what others wrote so that it moves no cursor."""
    text = line.lstrip(" ")
    return " " * (len(line) - len(text)) + one_line(text)


def _lines(explanation: Explanation) -> list[str]:
    plain, target = explanation.plain(), explanation.target
    lines = [f"{target.text} of virtual cluster {target.cluster}"]
    if explanation.problem:
        lines.append(f"  hub not reached, so this is what the host has: {explanation.problem}")
    elif not plain["works"]:
        lines.append("  no Work on the hub")
    for work in plain["works"]:
        at = f", status written {work['statusWritten']}" if work["statusWritten"] else ""
        lines.append(f"  Work {work['name']}, generation {work['generation']}{at}")
        lines += _conditions(work["conditions"])
    for each in plain["objects"]:
        name = "/".join(part for part in (each["namespace"], each["name"]) if part)
        place = f": {each['host']}" if each["host"] else ""
        held = f"; held by an administrator: {each['held']}" if each["held"] else ""
        lines.append(f"  {each['kind']} {name}: {each['state']}{place}{held}")
    cluster = plain["cluster"]
    if cluster["conditions"]:
        at = f", as of {cluster['observedAt']}" if cluster["observedAt"] else ""
        lines.append(f"  Cluster{at}")
        shown = ("Ready", "TakesChanges", "NamespacesHeld")
        lines += _conditions([c for c in cluster["conditions"] if c.get("type") in shown])
    return lines


def _conditions(conditions: list[Object]) -> list[str]:
    return [
        f"    {c.get('type')}={c.get('status')} {c.get('reason', '')}: {c.get('message', '')}"
        for c in conditions
    ]
