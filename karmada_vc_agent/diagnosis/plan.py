"""`karmada-vc-agent plan`: what files would become on the host, without a hub."""

import asyncio
import difflib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml
from msgspec.structs import replace

from karmada_vc_agent.commands import shared
from karmada_vc_agent.commands.shared import EXIT_FAILED, EXIT_SETTINGS, one_line_errors
from karmada_vc_agent.config.checks import dns_label_problem
from karmada_vc_agent.config.decoding import ConfigError, decode
from karmada_vc_agent.config.loading import load_config, with_profile_defaults
from karmada_vc_agent.config.settings import AgentConfig
from karmada_vc_agent.diagnosis import policies
from karmada_vc_agent.diagnosis.check import object_errors
from karmada_vc_agent.diagnosis.documents import Document, documents_of, kustomized
from karmada_vc_agent.diagnosis.policies import FilePolicy, PolicySpec
from karmada_vc_agent.diagnosis.rehearsal import Change, DryClient, Rehearsal
from karmada_vc_agent.diagnosis.report import counted
from karmada_vc_agent.features.objects import definitions
from karmada_vc_agent.kube.kubeconfig import find_credentials
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model import vocabulary
from karmada_vc_agent.model.objects import (
    GroupKind,
    Object,
    copy_object,
    dig,
    gvk_of,
    key_of,
    labels_of,
    text_at,
)
from karmada_vc_agent.model.user_text import did_you_mean
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import all_problems
from karmada_vc_agent.translation.kind_policy import is_cluster_scoped
from karmada_vc_agent.translation.translate import malformed_frame
from karmada_vc_agent.work.reporting import Failure

_NO_HOST = Credentials("https://no-host.invalid", None, "")
_SECRET = GroupKind("", "Secret")
_SKIPPED_LABEL = "namespace.karmada.io/skip-auto-propagation"


@dataclass(frozen=True, slots=True)
class Row:
    """What one document becomes in one virtual cluster.

    changes: objects before and after. path: of the field that a refusal is about.
    """

    cluster: str
    document: Document
    verdict: str
    detail: str = ""
    changes: tuple[Change, ...] = ()
    path: str = ""
    notes: tuple[str, ...] = ()


class Input:
    """What files have: virtual clusters, templates, policies. Raises ConfigError."""

    def __init__(self, documents: Sequence[Document], config: AgentConfig, namespace: str) -> None:
        self.templates: list[Document] = []
        self.policies: dict[FilePolicy, Document] = {}
        self.vcs: list[VirtualCluster] = list(config.virtual_clusters)
        self.defined: dict[GroupKind, bool] = {}
        self.left_out: list[Document] = []
        for document in documents:
            if dig(document.content, "apiVersion") == vocabulary.CONFIG_API_VERSION:
                raise document.error("kind", "is a settings file; give it by --config")
            if dig(document.content, "kind") == "List":
                raise document.error("kind", "is List; give its items as documents of their own")
            if problem := malformed_frame(document.content):
                raise document.error("", problem)
            if gvk_of(document.content).group_kind == vocabulary.CUSTOM_RESOURCE_DEFINITION:
                spec = dig(document.content, "spec")
                kind = GroupKind(text_at(spec, "group"), text_at(spec, "names", "kind"))
                self.defined[kind] = text_at(spec, "scope") == "Namespaced"
        for document in documents:
            self._take(document, config, namespace)

    def _take(self, document: Document, config: AgentConfig, namespace: str) -> None:
        content, gvk = document.content, gvk_of(document.content)
        is_of_all = is_cluster_scoped(gvk) and gvk.kind not in _NAMESPACED_POLICIES
        if self.defined.get(gvk.group_kind, not is_of_all):
            content["metadata"].setdefault("namespace", namespace)
        if gvk.api_version == definitions.API_VERSION:
            for error in object_errors(document, config):
                raise error
            definition = definitions.read(content, config)
            if definition.virtual_cluster is None:
                raise document.error("spec", definition.problem)
            self.vcs.append(definition.virtual_cluster)
        elif gvk.kind in (*policies.PROPAGATION, *policies.OVERRIDES):
            try:
                spec = decode(content.get("spec") or {}, PolicySpec, "")
            except ConfigError as error:
                raise document.error(f"spec.{error.path}".strip("."), error.problem) from error
            place = content["metadata"]
            namespace = place["namespace"] if gvk.kind in _NAMESPACED_POLICIES else ""
            self.policies[FilePolicy(gvk.kind, namespace, place["name"], spec)] = document
        elif gvk.group.endswith(vocabulary.KARMADAS_DOMAIN.removesuffix("/")):
            self.left_out.append(document)
        else:
            self.templates.append(document)

    def selected(self, names: Sequence[str]) -> list[VirtualCluster]:
        """Return the virtual clusters of these names, without any all. Raises ConfigError."""
        every = [vc.name for vc in self.vcs]
        if not every:
            problem = "give the settings file, or VirtualCluster objects among the files"
            raise ConfigError("flags", "--config", problem)
        for name in names:
            if name not in every:
                problem = f'"{name}" is not a virtual cluster{did_you_mean(name, every)}'
                raise ConfigError("flags", "--cluster", problem)
        return [vc for vc in self.vcs if not names or vc.name in names]

    def placed(self, template: Object) -> tuple[FilePolicy | None, list[VirtualCluster], str]:
        """Return the policy of a template, its virtual clusters, and why it has none."""
        if gvk_of(template).group_kind == vocabulary.NAMESPACE:
            is_skipped = labels_of(template).get(_SKIPPED_LABEL) == "true"
            return None, [] if is_skipped else self.vcs, f"it has label {_SKIPPED_LABEL}"
        if not any(each.kind in policies.PROPAGATION for each in self.policies):
            return None, self.vcs, ""
        policy = policies.policy_of(self.policies, template)
        if policy is None:
            return None, [], "no policy matches"
        return policy, policies.clusters_of(policy, self.vcs), f"{policy} selects none of these"


_NAMESPACED_POLICIES = (policies.PROPAGATION[0], policies.OVERRIDES[0])


async def rows_of(given: Input, names: Sequence[str], rehearsal: Rehearsal) -> list[Row]:
    """Plan each template for each virtual cluster that it is for. Raises KubeError, ConfigError."""
    vcs = given.selected(names)
    placed = [(each, *given.placed(each.content)) for each in given.templates]
    await rehearsal.read()
    for document, _, clusters, _ in placed:
        for vc in clusters:
            if namespace := document.content["metadata"].get("namespace"):
                await rehearsal.claim(vc, namespace)
    rows = []
    for document, policy, clusters, reason in placed:
        if not clusters:
            rows.append(Row("", document, "nowhere", reason))
        here = (vc for vc in clusters if vc in vcs)
        rows += [await _row(given, document, policy, vc, rehearsal) for vc in here]
    return rows


async def _row(
    given: Input, document: Document, policy: FilePolicy | None, vc: VirtualCluster, by: Rehearsal
) -> Row:
    try:
        manifest, overrides = policies.manifest_for(document.content, vc, policy, given.policies)
    except ValueError as error:
        return Row(vc.name, document, "refused", f"OverrideFailed: {error}")
    place = manifest["metadata"]
    name = vocabulary.work_name(manifest["kind"], place["name"], place.get("namespace") or "")
    work = f"{vocabulary.execution_namespace(vc.name)}/{name}"
    done = await by.apply(vc, manifest, work)
    notes = [f"by {policy}"] if policy else []
    notes += [f"changed by {override}" for override in overrides]
    if isinstance(done, Failure):
        text = done.text.partition(f" {key_of(document.content)}: ")[2] or done.text
        at = f" at {done.path}" if done.path and done.path not in text else ""
        return Row(vc.name, document, "refused", text + at, (), done.path, tuple(notes))
    if done is None:
        return Row(vc.name, document, "nothing", "the host needs no object for it")
    notes += [f"{each.code}: {each.detail}" for each in done.notices]
    if by.host.is_offline and "*" in str(manifest.get("rules")):
        notes.append("without --kubeconfig * is nothing: it means what the host serves")
    if not by.host.is_checked and not by.host.is_offline:
        notes.append("the host cannot check it before what it depends on is there")
    changes = tuple((live and shown(live), shown(obj)) for live, obj in by.host.changes)
    changes = tuple((live, obj) for live, obj in changes if live != obj)
    is_new = any(live is None for live, _ in changes)
    verdict = ("create" if is_new else "change") if changes else "unchanged"
    return Row(vc.name, document, verdict, "", changes, "", tuple(notes))


_COPIES = (vocabulary.WRITTEN_ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration")
"""Annotations with what was written, which may be the values of a Secret."""
_OF_SERVER = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")


def shown(obj: Object) -> Object:
    """Return an object without what servers, and Karmada, fill in; values of Secrets are hidden."""
    metadata = {key: v for key, v in obj["metadata"].items() if key not in _OF_SERVER}
    for field in ("labels", "annotations"):
        pairs = (metadata.pop(field, None) or {}).items()
        left = {k: v for k, v in pairs if not vocabulary.is_karmada_key(k) and k not in _COPIES}
        metadata |= {field: left} if left else {}
    rest = {key: value for key, value in obj.items() if key != "status"}
    return {**rest, "metadata": metadata}


def text_of(rows: Sequence[Row], form: str) -> Iterator[str]:
    """Yield the lines of a plan. form: diff or yaml."""
    for row in rows:
        content = row.document.content
        line = f"{row.document.where(row.path)}: {key_of(content)}"
        cluster = f" in {row.cluster}" if row.cluster else ""
        prefix = "# " if form == "yaml" else ""
        yield f"{prefix}{line}{cluster}: {row.verdict}{row.detail and ': '}{row.detail}"
        yield from (f"{prefix}  {note}" for note in row.notes)
        for live, obj in row.changes:
            if form == "yaml":
                yield "---\n" + _yaml(obj)
                continue
            before, label = (live, "host") if live is not None else (shown(content), line)
            yield from difflib.unified_diff(
                _yaml(before, obj).splitlines(),
                _yaml(obj, before).splitlines(),
                label,
                str(key_of(obj)),
                lineterm="",
            )


def _yaml(obj: Object, other: Object | None = None) -> str:
    if gvk_of(obj).group_kind == _SECRET:
        obj = dict(obj)
        for field in ("data", "stringData"):
            was = dig(other, field) or {}
            obj |= {field: {k: _hidden(v, was.get(k)) for k, v in (obj.get(field) or {}).items()}}
    return str(yaml.safe_dump(copy_object(obj), sort_keys=True, width=1000)).rstrip()


def _hidden(value: Any, other: Any) -> str:
    return "(not shown)" if other is None or value == other else f"(not shown, {len(value)} bytes)"


def summary_of(rows: Sequence[Row]) -> str:
    """Return how many objects have which verdict."""
    counts = Counter(row.verdict for row in rows)
    clusters = len({row.cluster for row in rows if row.cluster})
    verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    return f"{counted(clusters, 'virtual cluster')}: {verdicts or 'nothing to plan'}"


async def _planned(
    given: Input, names: Sequence[str], config: AgentConfig, host: Credentials | None
) -> list[Row]:
    async with DryClient("host", host or _NO_HOST) as client:
        client.is_offline = host is None
        client.begin()
        if host is not None and config.objects.enabled:
            names_here = {vc.name for vc in given.vcs}
            of_host = await definitions.definitions_on(client, config) or ()
            vcs = (each.virtual_cluster for each in of_host if each.name not in names_here)
            given.vcs += filter(None, vcs)
        return await rows_of(given, names, Rehearsal(config, given.vcs, client, given.defined))


@click.command(
    "plan", epilog=shared.examples("plan"), short_help="Show what files would become on the host."
)
@click.argument("files", nargs=-1, metavar="FILE...")
@shared.options("plan")
@click.pass_obj
def plan(
    struct: type[AgentConfig],
    files: tuple[str, ...],
    directory: Path | None,
    config_path: Path | None,
    names: tuple[str, ...],
    namespace: str,
    kubeconfig: str,
    form: str,
) -> None:
    """Show what manifests would become on the host, without a hub.

    They are placed and changed as the policies and overrides among the files say; without a policy
    each is for every virtual cluster. What the hub decides by its state is not evaluated.

    Exit code: 0, 1 if anything is refused, 2 if the plan cannot be made.
    """
    with one_line_errors(failed=EXIT_SETTINGS):
        if not files and directory is None:
            raise ConfigError("flags", "FILE", "give files, or a directory with -k")
        if problem := dns_label_problem(namespace):
            raise ConfigError("flags", "--namespace", problem)
        documents = documents_of(files) + (kustomized(str(directory)) if directory else [])
        documents = [each.as_json() for each in documents]
        config = struct()
        if config_path is not None:
            config = load_config(struct, config_path, {}, problems=all_problems)
        config = with_profile_defaults(
            replace(config, agent_namespace=config.agent_namespace or config.agent_name),
            config.agent_namespace or config.agent_name,
        )
        given = Input(documents, config, namespace)
        host = find_credentials(kubeconfig) if kubeconfig else None
        rows = asyncio.run(_planned(given, names, config, host))
        for line in (*text_of(rows, form), *_hints(given)):
            click.echo(line)
    click.echo(summary_of(rows), err=True)
    if any(row.verdict == "refused" for row in rows):
        sys.exit(EXIT_FAILED)


def _hints(given: Input) -> Iterator[str]:
    every = [vc.name for vc in given.vcs]
    for policy, document in given.policies.items():
        spec, where = document.content.get("spec"), f"# {document.where()}: {policy}"
        yield from (f"{where}: {note}" for note in policy.strangers(every))
        yield from (f"{where}: {path} is not evaluated" for path in policies.unread(spec))
    for document in given.left_out:
        yield f"# {document.where()}: {document.content['kind']} is of the hub alone"
