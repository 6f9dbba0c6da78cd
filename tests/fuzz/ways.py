"""Every way into the process as a rule sees it: what is spoiled, who reads it, what it may raise.

A way reads one input and comes back, or raises what it documents. Where objects come from a
server they pass its decoder first: what that refuses reaches no rule.
"""

import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import orjson
import yaml

from karmada_vc_agent.cluster.hub_clusters import (
    AgentState,
    ClusterCodec,
    HubClusters,
    cluster_store,
)
from karmada_vc_agent.cluster.rules import cluster_objects
from karmada_vc_agent.cluster.rules.cluster_objects import cluster_changes
from karmada_vc_agent.cluster.rules.conditions import READY
from karmada_vc_agent.cluster.virtual_clusters import (
    Claims,
    Membership,
    VirtualClusters,
    claim_of,
    unclaim,
)
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.loading import load_config
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.interpretation import user_hooks
from karmada_vc_agent.interpretation.user_hooks import (
    INTERPRET_HEALTH,
    INTERPRET_STATUS,
    RETAIN,
    HookError,
    InterpretationError,
)
from karmada_vc_agent.kube.codec import Codec, RawCodec
from karmada_vc_agent.kube.errors import ApiError, UnreadableError, error_from_answer
from karmada_vc_agent.kube.kubeconfig import (
    KubeconfigError,
    client_certificate,
    files_of,
    parse_kubeconfig,
    read_server,
)
from karmada_vc_agent.kube.store import Store
from karmada_vc_agent.kube.transport import Credentials
from karmada_vc_agent.model.core import Node, Pod
from karmada_vc_agent.model.objects import Object, apply_json_patch, copy_object, dig, gvk_of
from karmada_vc_agent.model.virtual_cluster import VirtualCluster
from karmada_vc_agent.runner.common import all_problems
from karmada_vc_agent.translation.context import Names
from karmada_vc_agent.translation.guards import shared_names
from karmada_vc_agent.translation.namespace_defaults import is_made_by_agent
from karmada_vc_agent.translation.restore import names_of, restore, restore_text, restore_texts
from karmada_vc_agent.translation.translate import (
    Converted,
    HostObject,
    Skipped,
    malformed,
    translate,
)
from karmada_vc_agent.work.reporting import owning_work
from karmada_vc_agent.work.rules import apply_plan, ownership, server_changes
from karmada_vc_agent.work.rules.ownership import is_orphan, namespaces_needed, without_claims
from karmada_vc_agent.work.works import (
    applied_of,
    compose_work_status,
    dispatching_of,
    manifests_of,
    namespaces_used,
    ordinals,
)
from tests.fakes import built_in_rules, objects
from tests.fakes.planned import at_once, plan_apply, plan_release, plan_share
from tests.fuzz import hostile, samples
from tests.fuzz.shapes import ClusterShape, ServiceShape, WebhooksShape, WorkShape
from tests.unit.translation import given

NOW = "2026-02-02T00:00:00Z"
HOST_UID = "3f2d9c1e-8a47-4c55-9a0b-6b1f0c2d7e11"


class RefusedHereError(Exception):
    """The decoder took the input for no object."""


@dataclass(frozen=True)
class Way:
    """A way in.

    made: good inputs. read: reads one. allowed: what it documents to raise. as_bytes: the form
    in which the input is torn apart, None where its values alone are spoiled.
    """

    name: str
    made: Callable[[], Sequence[Any]]
    read: Callable[[Any], object]
    allowed: tuple[type[Exception], ...] = ()
    read_bytes: Callable[[bytes], object] | None = None
    as_bytes: Callable[[Any], bytes] = hostile.encoded

    def spoiled(self, rng: random.Random) -> Any:
        """Return an input; bytes or a value."""
        sample = rng.choice(self.samples())
        if self.read_bytes is not None and rng.random() < 0.5:
            content = self.as_bytes(sample)
            if rng.random() < 0.3:
                content = self.as_bytes(hostile.mutated(rng, sample))
            return hostile.torn(rng, content)
        return hostile.mutated(rng, sample)

    def samples(self) -> Sequence[Any]:
        """Return the good inputs, made once."""
        if self.name not in _SAMPLES:
            _SAMPLES[self.name] = self.made()
        return _SAMPLES[self.name]

    def take(self, value: Any) -> bool:
        """Read an input; return whether it was refused as documented, raise what was not."""
        try:
            if isinstance(value, bytes) and self.read_bytes is not None:
                self.read_bytes(value)
            else:
                self.read(value)
        except RefusedHereError:
            return True
        except self.allowed:
            return True
        return False


_SAMPLES: dict[str, Sequence[Any]] = {}


def through(codec: Codec[Any], value: Any, shape: type[msgspec.Struct] = msgspec.Struct) -> Any:
    """Return an object as the watch would store it. Raises RefusedHereError.

    shape: what the API server guarantees.
    """
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise RefusedHereError from error
    line = orjson.dumps({"type": "MODIFIED", "object": value})
    return decoded(codec, line)


def decoded(codec: Codec[Any], line: bytes) -> Any:
    """Return the object of a watch event. Raises RefusedHereError."""
    try:
        event = codec.event(line)
    except UnreadableError as error:
        raise RefusedHereError from error
    if event.obj is None:
        unreadable = event.unreadable
        assert event.type in ("BOOKMARK", "ERROR") or unreadable is not None, "nothing is told"
        raise RefusedHereError
    return event.obj


# --- Works ------------------------------------------------------------------------------


AROUND = given.context()


def _read_manifest(manifest: Any) -> None:
    for namespaced in (True, False):
        before = copy_object(manifest)
        result = translate(manifest, namespaced, AROUND)
        assert manifest == before, "translate() changed its input"
        for made in _made(result):
            orjson.dumps(made.obj)
            restore(made.obj, AROUND)


def _made(result: object) -> Iterable[HostObject]:
    match result:
        case HostObject():
            return (result,)
        case Converted(objects=converted):
            return converted
        case Skipped():
            return ()
    text = result.text("branch-a", "Kind", "edge", "name")  # type: ignore[attr-defined]
    assert text
    return ()


def _read_work(value: Any) -> None:
    work = through(RawCodec(), value, WorkShape)
    list(namespaces_used(work))
    found = manifests_of(work)
    namespaces_needed([work])
    applied_of(work.get("status"))
    dispatching_of(work.get("status"))
    for manifest in found:
        gvk_of(manifest)
        malformed(manifest)
    ordinals(found)
    compose_work_status(work.get("status"), [], [], found, NOW)


# --- objects of the host ----------------------------------------------------------------


def _read_host_object(value: Any) -> None:
    live = through(RawCodec(), value)
    virtual = restore(live, AROUND)
    names = names_of(live, AROUND)
    owning_work(live)
    list(shared_names(live))
    is_orphan(live, ())
    ownership.is_managed(live)
    server_changes.reassigned_ports(live)
    apply_plan.plan_leave(live, "branch-a")
    for ask in (built_in_rules.reflect_status, built_in_rules.interpret_health):
        try:
            answer = ask(virtual)
        except InterpretationError:
            continue
        restore_texts(answer, names)
    _plan(live)


_DESIRED = samples.host_objects()[0]


def _plan(live: Object) -> None:
    desired = _DESIRED
    for plan in (plan_apply, plan_release):
        try:
            plan(desired, live, built_in_rules.retain)
            plan(live, desired, built_in_rules.retain)
        except (InterpretationError, apply_plan.ForeignError):
            continue
    plan_share(desired, live, "branch-a")
    without_claims(live)


def _read_text(value: Any) -> None:
    text = dig(value, "text")
    if not isinstance(text, str):
        raise RefusedHereError
    names: Names = AROUND.names({"edge-v-branch-a": "edge"})
    restore_text(text, names)
    server_changes.taken_ports(text)


# --- nodes, pods, namespaces ------------------------------------------------------------

VIRTUAL_CLUSTERS = {
    "branch-a": VirtualCluster("branch-a", given.virtual_cluster().node_selector),
    "branch-b": objects.virtual_cluster("branch-b"),
}


def _read_node(value: Any) -> None:
    _summed(through(Codec(Node), value))


def _summed(node: Node) -> None:
    store: Store[Node] = Store(Codec(Node))
    vcs = VirtualClusters(VIRTUAL_CLUSTERS.values())
    membership = Membership(vcs, store, lambda _: "")
    store.apply(node)
    membership.nodes_of("branch-a")
    membership.taints_of("branch-a")
    _summary([node], [])


def _read_pod(value: Any) -> None:
    _summary([], [through(Codec(Pod), value)])


def _summary(nodes: list[Node], pods: list[Pod]) -> None:
    good = [Codec(Node).event(_event(node)).obj for node in samples.nodes()]
    known = [node for node in good if node is not None]
    found = cluster_objects.resource_summary([*known, *nodes], pods, pods, _MODELS, {"cpu": "1"})
    assert found["allocatable"]["cpu"]
    found = cluster_objects.resource_summary([*known, *nodes], pods, pods, _MODELS)
    orjson.dumps(found)
    assert found["allocatable"]["memory"], "a neighbour's node is not counted"


_MODELS = [{"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "9"}]}]


def _event(obj: Object) -> bytes:
    return orjson.dumps({"type": "ADDED", "object": obj})


def _read_namespace(value: Any) -> None:
    live = through(RawCodec(), value)
    store: Store[Object] = Store(RawCodec())
    claims = Claims(store, "karmada-vc-agent")
    neighbour = objects.claimed("branch-b", "shop")
    store.apply(neighbour)
    store.apply(live)
    claim_of(live)
    is_made_by_agent(live)
    unclaim(live)
    store.remove(live)
    if live["metadata"]["name"] != neighbour["metadata"]["name"]:
        assert "shop" in claims.of("branch-b"), "the claim of a neighbour is gone"


# --- Clusters ---------------------------------------------------------------------------


def _read_cluster(value: Any) -> None:
    cluster = through(ClusterCodec(), value, ClusterShape)
    store = cluster_store()
    clusters = HubClusters(store, HOST_UID, ["branch-a", "branch-b"])
    cluster.get("spec")
    if isinstance(cluster.get("spec"), dict):
        cluster["spec"]["id"] = clusters.id_of("branch-a")
    store.apply(objects.cluster("branch-b", clusters.id_of("branch-b")))
    store.apply(cluster)
    for name in VIRTUAL_CLUSTERS:
        clusters.conflicting_cluster(name)
        clusters.created_at(name)
        clusters.is_ready(name)
        clusters.is_deleting(name)
    READY.find(dig(cluster, "status", "conditions"))
    cluster_changes(cluster, VIRTUAL_CLUSTERS["branch-a"], settings_changed=True)
    fields = {"kubernetesVersion": "v1", "nodeSummary": {}, "resourceSummary": {}}
    cluster_objects.compose_cluster_status(cluster.get("status"), fields, [], NOW)


# --- the interpreter --------------------------------------------------------------------


def _read_customization(value: Any) -> None:
    live = through(RawCodec(), value)
    good = samples.customizations()[0]
    good["metadata"]["name"] = "a-neighbour"
    good["spec"]["target"]["kind"] = "Gadget"
    scripts = user_hooks.index_scripts([live, good])
    assert any(kind.kind == "Gadget" for kind, _ in scripts)
    user_hooks.changed_kinds(scripts, {})


def _read_webhooks(value: Any) -> None:
    live = through(RawCodec(), value, WebhooksShape)
    good = samples.webhook_configurations()[0]
    good["metadata"]["name"] = "a-neighbour"
    hooks = user_hooks.webhooks_of([live, good])
    assert [hook for hook in hooks if hook.uid == "a-neighbour/by-url"]
    assert {*hooks}  # they are compared by hash
    for hook in hooks:
        hook.concerns(gvk_of({"apiVersion": "example.com/v1", "kind": "Widget"}))
        assert isinstance(hook.timeout_s, int | float)
        assert 0 < hook.timeout_s <= user_hooks.LONGEST_TIMEOUT_S


def _read_answer(value: Any) -> None:
    _read_answer_bytes(orjson.dumps(value))


def _read_answer_bytes(content: bytes) -> None:
    refused = 0
    for operation in (RETAIN, INTERPRET_STATUS, INTERPRET_HEALTH):
        try:
            answer = user_hooks.read_answer("asked", operation, [objects.config_map()], content)
            orjson.dumps(answer)
        except HookError:
            refused += 1
    if refused == 3:
        raise RefusedHereError


def _read_service(value: Any) -> None:
    service = through(RawCodec(), value, ServiceShape)
    reference = user_hooks.ServiceReference("ns", "hook", 443, "/interpret")
    assert user_hooks.service_url(reference, service).startswith("https://")


def _read_patch(value: Any) -> None:
    apply_json_patch(objects.config_map(), value)


# --- what the agent keeps, and what starts it ---------------------------------------------


class _Answers:
    """Stands for the client of the host: it has one ConfigMap."""

    def __init__(self, state: Object) -> None:
        self._state = state

    async def get(self, _path: str) -> Object:
        return self._state


def _read_state(value: Any) -> None:
    stored = through(RawCodec(), value)
    state = AgentState(_Answers(stored), "ns", "agent")  # type: ignore[arg-type]  # reads only
    at_once(state.load())
    for name in state.clusters():
        assert isinstance(name, str)
    for name in VIRTUAL_CLUSTERS:
        record = state.cluster(name)
        assert record is None or isinstance(record.settings, str)


def _read_settings(value: Any) -> None:
    _read_settings_bytes(_as_yaml(value))


def _read_settings_bytes(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "agent.yaml")
        path.write_bytes(content)
        try:
            load_config(CONFIG, path, {}, problems=all_problems)
        except ConfigError as error:
            text = str(error)
            assert len(text.splitlines()) == 1, f"more than one line: {text!r}"
            assert text.isprintable(), f"not printable: {text!r}"
            raise


def _read_kubeconfig(value: Any) -> None:
    _read_kubeconfig_bytes(_as_yaml(value))


def _read_kubeconfig_bytes(content: bytes) -> None:
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_bytes(content)
        files_of(path)
        contexts = ("", "by-authority", "by-data")
        reads: tuple[Callable[[str], object], ...] = (
            lambda name: _token_of(parse_kubeconfig(content, path, name)),
            lambda name: client_certificate(content, path, name),
            lambda name: read_server(path, name),
        )
        for name in contexts:
            for read in reads:
                try:
                    read(name)
                except KubeconfigError as error:
                    text = str(error)
                    assert text.startswith(str(path)), f"names no file: {text!r}"
                    assert len(text.splitlines()) == 1, f"more than one line: {text!r}"
                    refused += 1
    if refused == len(contexts) * len(reads):
        raise RefusedHereError


def _token_of(credentials: Credentials) -> None:
    assert isinstance(credentials.server, str)
    assert credentials.proxy is None or isinstance(credentials.proxy, str)
    assert credentials.server_hostname is None or isinstance(credentials.server_hostname, str)
    if credentials.token is not None:
        try:
            token = credentials.token()
        except OSError:  # which the client takes for no answer
            return
        assert token is None or isinstance(token, str), f"a token is {token!r}"


def _as_yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode(errors="replace")


_BINDINGS_PATH = "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings"


def _read_refusal(value: Any) -> None:
    _read_refusal_bytes(orjson.dumps(value))


def _read_refusal_bytes(content: bytes) -> None:
    for status in (400, 404, 409, 429, 500):
        header = content[:8].decode(errors="replace")
        error = error_from_answer(status, content, header, path=_BINDINGS_PATH, sent=content)
        assert isinstance(error, ApiError)
        assert str(error)


def _statuses() -> list[Object]:
    return [
        {
            "kind": "Status",
            "message": "no",
            "reason": "Forbidden",
            "code": 403,
            "details": {"retryAfterSeconds": 1},
        }
    ]


def _texts() -> list[Object]:
    told = "admission webhook denied: namespace edge-v-branch-a, port 30080: provided port is"
    return [{"text": told}, {"text": "spec.ports[0].nodePort: Invalid value: 30080: taken"}]


WAYS: dict[str, Way] = {
    way.name: way
    for way in (
        Way("manifests", samples.manifests, _read_manifest),
        Way("works", samples.works, _read_work),
        Way("host-objects", samples.host_objects, _read_host_object),
        Way("answers-in-words", _texts, _read_text),
        Way("nodes", samples.nodes, _read_node),
        Way("pods", samples.pods, _read_pod),
        Way("namespaces", samples.namespaces, _read_namespace),
        Way("clusters", samples.clusters, _read_cluster),
        Way("customizations", samples.customizations, _read_customization),
        Way("webhook-configurations", samples.webhook_configurations, _read_webhooks),
        Way(
            "webhook-answers",
            samples.webhook_answers,
            _read_answer,
            read_bytes=_read_answer_bytes,
        ),
        Way("webhook-services", samples.services, _read_service, (HookError,)),
        Way(
            "json-patches",
            lambda: [[{"op": "replace", "path": "/data/value", "value": 1}]],
            _read_patch,
            (ValueError,),
        ),
        Way("agent-state", samples.states, _read_state),
        Way(
            "settings",
            lambda: [samples.settings()],
            _read_settings,
            (ConfigError,),
            _read_settings_bytes,
            _as_yaml,
        ),
        Way(
            "kubeconfig",
            lambda: [samples.kubeconfig()],
            _read_kubeconfig,
            (KubeconfigError,),
            _read_kubeconfig_bytes,
            _as_yaml,
        ),
        Way("refusals", _statuses, _read_refusal, read_bytes=_read_refusal_bytes),
    )
}
"""The ways in, by name; those that take a running service stand in world.py."""
