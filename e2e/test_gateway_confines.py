"""What policy `gateway-confines` lets the gateway's own account do to Namespaces (ADR 52).

Somebody with its credentials asks a real API server directly, past all rules of the gateway.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.lab.access import account_kubeconfig
from e2e.lab.api import Api, ApiError, Object
from e2e.lab.lone_server import lone_api_server
from e2e.lab.wait import eventually
from karmada_vc_agent.access.admission import VALIDATING, PolicyOwner, desired_policies
from karmada_vc_agent.access.rights import HostAccess, host_bindings, host_roles
from karmada_vc_agent.translation.context import NamespaceTemplate, host_namespace
from karmada_vc_agent.translation.own_steps import tenants_patterns

D = "virtualcluster.kubeedge.io"
HOME, AGENT = "agents", "agent"
GATEWAY = f"{AGENT}-gateway"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
ENFORCE = "pod-security.kubernetes.io/enforce"
SPACES = "/api/v1/namespaces"
TEMPLATE = NamespaceTemplate.parse("{namespace}-v-{cluster}")
CLUSTERS = ("branch-a", "branch-b", "c", "b-v-c", "new")


class Host(NamedTuple):
    """An API server, as its administrator, as the agent and as the gateway's account."""

    admin: Api
    agent: Api
    gateway: Api


@pytest.fixture(name="host", scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder: Path = tmp_path_factory.mktemp("host")
    with lone_api_server(folder / "planes") as admin:
        admin.create(_plain(HOME))
        account = {"name": GATEWAY, "namespace": HOME}
        admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        access = HostAccess(AGENT, HOME, (), namespaced=(("", "pods"),), gateway_callers=())
        owner = PolicyOwner(
            AGENT,
            HOME,
            f"system:serviceaccount:{HOME}:{AGENT}",
            clusters=CLUSTERS,
            renames=("old/new",),
            gateway=f"system:serviceaccount:{HOME}:{GATEWAY}",
            tenants_keys=tenants_patterns("Shared", ("site.example/*",)),
        )
        for obj in (
            *host_roles(access),
            *desired_policies(owner, {VALIDATING: "v1"}),
            *host_bindings(access),
        ):
            admin.create(obj)
        kubeconfig = account_kubeconfig(admin.kubeconfig, HOME, GATEWAY, folder / "gateway")
        found = Host(admin, admin.acting_as(owner.user, "system:masters"), Api(kubeconfig))
        eventually(_assert_confined, found)
        yield found


def _assert_confined(host: Host) -> None:
    assert "gateway-confines" in host.gateway.refusal(_plain("nobodys"))


def _plain(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def _claimed(virtual: str, cluster: str = "branch-a", name: str = "", **more: Any) -> Object:
    """Return a Namespace as the gateway creates it. more: of labels, annotations, metadata."""
    labels = {f"{D}/cluster": cluster, f"{D}/namespace": virtual, f"{D}/agent": AGENT}
    marks = {f"{D}/created-by-agent": "true", f"{D}/by-gateway": "true", f"{D}/work": ""}
    return _plain(
        name or host_namespace(TEMPLATE, virtual, cluster),  # type: ignore[arg-type] # a text
        labels=_without_none(labels | more.pop("labels", {})),
        annotations=_without_none(marks | {SELECTOR: "b=a"} | more.pop("annotations", {})),
        **more,
    )


def _without_none(pairs: dict[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in pairs.items() if value is not None}


@pytest.mark.parametrize(
    "wanted",
    [
        _claimed("team"),
        _claimed("team", labels={"a": "b", "app.kubernetes.io/name": "x", "site.example/x": "y"}),
        _claimed("team", labels={ENFORCE: "restricted"}, annotations={f"{D}/pod-security": "x"}),
        _claimed("a-v-b", "c"),
        _claimed("a", "b-v-c"),
        _claimed("x" * 60, "branch-b"),
        _claimed("y" * 21 + "--y"),
        _claimed("team", "new"),
        _claimed("team", "new", "team-v-old"),
        {**_claimed("team"), "spec": {"finalizers": ["kubernetes"]}},
    ],
)
def test_it_creates_what_has_the_name_of_its_claim(host: Host, wanted: Object) -> None:
    host.gateway.post(f"{SPACES}?dryRun=All", wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        _plain("team"),
        _plain("kube-more"),
        _claimed("team", name="team"),
        _claimed("team", name="team-v-branch-b"),
        _claimed("team", "branch-b", "team-v-branch-a"),
        _claimed("a-v-b", "c", "a-v-b-v-c"),
        _claimed("a", "b-v-c", "a-v-b-v-c"),
        _claimed("a", "b-v-c", "a-v-b-v-c--A49913C7BDFD".lower() + "0"),
        _claimed("team", name="team-v-branch-a--000000000000"),
        _claimed("team", "old"),
        _claimed("team", "branch-c"),
        _claimed("team", "branch-a", "team-v-old"),
        _claimed("team", labels={f"{D}/agent": "another"}),
        _claimed("team", labels={f"{D}/agent": None}),
        _claimed("team", labels={f"{D}/cluster": None}),
        _claimed("team", labels={f"{D}/namespace": None}),
        _claimed("vc-system"),
        _claimed("kube-system"),
        _claimed("karmada-system"),
        _claimed("karmada-es-branch-a"),
        _claimed("team", labels={ENFORCE: "privileged"}),
        _claimed("team", labels={f"{ENFORCE}-version": "v1.0"}),
        _claimed("team", labels={"istio-injection": "disabled"}),
        _claimed("team", labels={"control-plane": "x"}),
        _claimed("team", labels={"policy.example/ignore": "true"}),
        _claimed("team", labels={"karmada.io/managed": "true"}),
        _claimed("team", labels={f"{D}/shared": "true"}),
        _claimed("team", annotations={SELECTOR: None}),
        _claimed("team", annotations={SELECTOR: ""}),
        _claimed("team", annotations={"scheduler.alpha.kubernetes.io/defaultTolerations": "[]"}),
        _claimed("team", annotations={f"{D}/adopted": "true"}),
        _claimed("team", annotations={f"{D}/allow-adoption": "branch-a"}),
        _claimed("team", annotations={f"{D}/hold": "x"}),
        _claimed("team", annotations={f"{D}/work": "karmada-es-branch-a/x"}),
        _claimed("team", annotations={f"{D}/created-by-agent": None}),
        _claimed("team", finalizers=["example.com/stays"]),
        _claimed(
            "team",
            ownerReferences=[
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1", "controller": True}
            ],
        ),
        {**_claimed("team"), "spec": {"finalizers": ["kubernetes", "example.com/stays"]}},
    ],
)
def test_it_creates_no_other(host: Host, wanted: Object) -> None:
    with pytest.raises(ApiError, match="gateway-confines"):
        host.gateway.post(f"{SPACES}?dryRun=All", wanted)


LABELS, MARKS = "labels", "annotations"


@pytest.mark.parametrize(
    "change",
    [
        {LABELS: {"a": "b"}},
        {LABELS: {"kept": None}},
        {MARKS: {"site.example/x": "y", "note": "x"}},
        {LABELS: {f"{D}/cluster": "branch-a"}},
    ],
)
def test_it_changes_what_is_for_tenants(host: Host, change: Object) -> None:
    path = _there(host, "changed", labels={"kept": "x"})
    host.gateway.patch(f"{path}?dryRun=All", {"metadata": change})


@pytest.mark.parametrize(
    "change",
    [
        *({LABELS: {f"{D}/{key}": None}} for key in ("cluster", "namespace", "agent")),
        {LABELS: None},
        {LABELS: {f"{D}/cluster": "branch-b"}},
        {LABELS: {f"{D}/namespace": "other"}},
        {LABELS: {ENFORCE: None}},
        {LABELS: {ENFORCE: "privileged"}},
        {LABELS: {f"{ENFORCE}-version": "latest"}},
        {LABELS: {"site.policy/strict": None}},
        {LABELS: {"istio-injection": "disabled"}},
        {LABELS: {"karmada.io/managed": "true"}},
        {MARKS: {SELECTOR: None}},
        {MARKS: {SELECTOR: "b=b"}},
        {MARKS: {f"{D}/created-by-agent": None}},
        {MARKS: {f"{D}/work": "karmada-es-branch-a/x"}},
        {MARKS: {f"{D}/hold": None}},
        {MARKS: {"scheduler.alpha.kubernetes.io/defaultTolerations": "[]"}},
        {"finalizers": ["example.com/stays"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]},
    ],
)
def test_it_changes_nothing_else(host: Host, change: Object) -> None:
    labels = {ENFORCE: "restricted", "site.policy/strict": "true"}
    path = _there(host, "unchanged", labels=labels, annotations={f"{D}/hold": "by the site"})
    with pytest.raises(ApiError, match=r"gateway-confines|namespace-claims"):
        host.gateway.patch(f"{path}?dryRun=All", {"metadata": change})


@pytest.mark.parametrize(
    "name", ["kube-system", "kube-public", "default", HOME, "of-the-site", "adopted-by-another"]
)
@pytest.mark.parametrize("verb", ["label", "claim", "delete"])
def test_it_leaves_namespaces_of_the_host(host: Host, name: str, verb: str) -> None:
    if host.admin.find(f"{SPACES}/{name}") is None:
        labels = {f"{D}/cluster": "z", f"{D}/namespace": "z", f"{D}/agent": "another"}
        host.admin.create(_plain(name, labels=labels if "another" in name else {}))
    before = host.admin.get(f"{SPACES}/{name}")["metadata"]["resourceVersion"]
    labels = _claimed("team")["metadata"]["labels"] if verb == "claim" else {"a": "b"}
    method, change = (
        ("DELETE", {}) if verb == "delete" else ("PATCH", {"metadata": {LABELS: labels}})
    )
    form = {"Content-Type": "application/merge-patch+json"} if change else {}
    body = json.dumps(change).encode() if change else b""
    assert host.gateway.answer(method, f"{SPACES}/{name}", body, form)[0] in (403, 422)
    assert host.admin.get(f"{SPACES}/{name}")["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize("part", ["status", "finalize"])
def test_it_has_no_subresources(host: Host, part: str) -> None:
    path = _there(host, "whole")
    body = host.admin.get(path)
    with pytest.raises(ApiError, match="cannot") as refused:
        host.gateway.replace(f"{path}/{part}", body)
    assert refused.value.code == 403


@pytest.mark.parametrize(
    ("virtual", "more", "goes"),
    [
        ("gone", {}, True),
        ("default", {}, False),
        ("vc-system", {}, False),
        ("adopted", {f"{D}/adopted": "true"}, False),
        ("found", {f"{D}/created-by-agent": None}, False),
        ("sent", {f"{D}/work": "karmada-es-branch-a/sent"}, False),
        ("held", {f"{D}/hold": "by the site"}, False),
    ],
)
def test_it_deletes_what_was_created_for_tenants(
    host: Host, virtual: str, more: dict[str, str | None], *, goes: bool
) -> None:
    path = _there(host, virtual, annotations=more)
    if goes:
        host.gateway.delete(path)
        return
    with pytest.raises(ApiError, match="gateway-confines"):
        host.gateway.delete(path)


def test_it_writes_nothing_else_whatever_roles_it_is_given(host: Host) -> None:
    """An administrator's mistake: it is bound to `cluster-admin`."""
    subject = {"kind": "ServiceAccount", "name": GATEWAY, "namespace": HOME}
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "mistake"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }

    def creates_config_map(refusal: str) -> None:
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        with pytest.raises(ApiError, match=refusal):
            host.gateway.post("/api/v1/namespaces/default/configmaps", config)

    host.admin.create(binding)
    try:
        path = _there(host, "more")
        eventually(creates_config_map, "may write Namespaces alone")
        for part in ("status", "finalize"):
            with pytest.raises(ApiError, match="may write Namespaces alone"):
                host.gateway.replace(f"{path}/{part}", host.admin.get(path))
    finally:
        host.admin.delete(f"/apis/{group}/v1/clusterrolebindings/mistake")
        eventually(creates_config_map, "cannot")


def _there(host: Host, virtual: str, **more: Any) -> str:
    """Make a claimed namespace, unless it is there; return its path."""
    wanted = _claimed(virtual, **more)
    path = f"{SPACES}/{wanted['metadata']['name']}"
    if host.admin.find(path) is None:
        host.agent.create(wanted)
    return path
