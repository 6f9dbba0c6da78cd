"""Namespaces that users of a virtual cluster write through the gateway (ADR 52).

By an operator of the site, and through Karmada; the agent sets up what they create.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from control_planes.directory import Directory
from e2e.lab.api import Api, ApiError, Object
from e2e.lab.karmadactl import User
from e2e.lab.kubectl import kubectl
from e2e.lab.lab import CLUSTERS, Lab
from e2e.lab.operated_site import OperatedSite
from e2e.lab.wait import PERIODIC_S, wait_until_deleted, within
from karmada_vc_agent.features.gateway.server.access import SET_UP_S

D = "virtualcluster.kubeedge.io"
ENFORCE = "pod-security.kubernetes.io/enforce"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
RBAC = "rbac.authorization.k8s.io"
AT_ONCE = 8


@pytest.fixture(name="site", scope="module")
def serve(new_lab: Callable[[], Lab]) -> Iterator[OperatedSite]:
    with OperatedSite(new_lab()) as site:
        yield site


def _config_map(name: str, namespace: str) -> tuple[str, ...]:
    return ("configmap", name, "-n", namespace, "--from-literal=a=b")


def _have_same_names(host: Api, *paths: str) -> None:
    one, other = ({each["metadata"]["name"] for each in host.list(path)} for path in paths)
    assert one == other


@pytest.mark.smoke
def test_created_namespace_is_as_the_agent_makes_it(site: OperatedSite) -> None:
    host = site.lab.host
    began = time.monotonic()
    kubectl(site.file, "create", "namespace", "team-a")
    space, default = (site.a.host_namespace(each) for each in ("team-a", "default"))
    bindings = [f"/apis/{RBAC}/v1/namespaces/{each}/rolebindings" for each in (space, default)]
    if time.monotonic() - began >= SET_UP_S:  # else the answer waited until the agent had set it up
        within(PERIODIC_S, _have_same_names, host, *bindings)
        within(PERIODIC_S, kubectl, site.file, "get", "configmaps", "-n", "team-a")
    kubectl(site.file, "create", *_config_map("x", "team-a"))
    metadata = site.on_host("team-a")["metadata"]
    made = site.on_host("default")["metadata"]
    for key in (f"{D}/cluster", f"{D}/agent", ENFORCE):
        assert metadata["labels"][key] == made["labels"][key]
    assert metadata["labels"][f"{D}/namespace"] == "team-a"
    for key in (SELECTOR, f"{D}/created-by-agent", f"{D}/work", f"{D}/pod-security"):
        assert metadata["annotations"][key] == made["annotations"][key]
    _have_same_names(host, *bindings)
    quota = f"/api/v1/namespaces/{space}/resourcequotas/vc-quota"

    def divided() -> None:
        assert host.get(quota)["spec"]["hard"]["pods"] not in ("", "0")

    within(PERIODIC_S, divided)
    shown = yaml.safe_load(kubectl(site.file, "get", "namespace", "team-a", "-o", "yaml"))
    assert shown["metadata"]["labels"]["kubernetes.io/metadata.name"] == "team-a"
    assert not any(D in key for key in shown["metadata"]["labels"])
    assert "team-a" in kubectl(site.file, "get", "namespaces")
    assert "team-a" not in kubectl(site.other, "get", "namespaces")
    assert "NotFound" in kubectl(site.other, "get", "namespace", "team-a", fails=True)


def test_pods_there_run_on_own_nodes_only(site: OperatedSite) -> None:
    kubectl(site.file, "create", "namespace", "team-pods")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "team-pods"},
        "spec": {"containers": [{"name": "c", "image": "c"}]},
    }
    within(PERIODIC_S, kubectl, site.file, "create", "-f", "-", stdin=json.dumps(pod))
    space = site.a.host_namespace("team-pods")
    made = site.lab.host.get(f"/api/v1/namespaces/{space}/pods/bare")
    assert site.a.selector.items() <= made["spec"]["nodeSelector"].items()
    bare = {**pod, "metadata": {"name": "straight", "namespace": space}}
    told = site.lab.host.refusal(bare)
    assert "pod-placement" in told or "nodeSelector" in told


@pytest.mark.parametrize(
    "labels",
    [
        {ENFORCE: "privileged"},
        {f"{D}/cluster": "other"},
        {"istio-injection": "disabled"},
        {"karmada.io/managed": "true"},
    ],
)
def test_what_the_site_decides_stays(site: OperatedSite, labels: dict[str, str]) -> None:
    [key] = labels
    name = f"stays-{key.partition('/')[0].replace('.', '-')}"
    body = {"metadata": {"name": name, "labels": {"team": "x", **labels}}}
    code, made, headers = site.ask("POST", "/api/v1/namespaces", body)
    assert code == 201, made
    assert made["metadata"]["labels"]["team"] == "x"
    before = site.on_host(name)["metadata"]["labels"]
    assert before[ENFORCE] == "baseline"
    assert before[f"{D}/cluster"] == site.a.name
    assert key.startswith(D) or key in headers["Warning"]
    for change in (labels, dict.fromkeys(labels)):
        form = "application/merge-patch+json"
        patch = {"metadata": {"labels": {**change, "more": "y"}}}
        code, told, _ = site.ask("PATCH", f"/api/v1/namespaces/{name}", patch, form)
        assert code == 200, told
    shown = site.ask("GET", f"/api/v1/namespaces/{name}", None)[1]
    shown["metadata"]["labels"] = {"only": "this"}
    assert site.ask("PUT", f"/api/v1/namespaces/{name}", shown)[0] == 200
    after = site.on_host(name)["metadata"]["labels"]
    assert after == {
        **{key: value for key, value in before.items() if key != "team"},
        "only": "this",
    }


def test_server_side_apply_creates_changes_and_keeps(site: OperatedSite) -> None:
    def applied(**labels: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "applied", "labels": labels},
        }
        kubectl(site.file, "apply", "--server-side", "-f", "-", stdin=json.dumps(body))

    applied(a="1", b="2")
    marks = {k: v for k, v in site.on_host("applied")["metadata"]["labels"].items() if D in k}
    assert marks
    applied(a="3")
    labels = site.on_host("applied")["metadata"]["labels"]
    assert labels["a"] == "3"
    assert "b" not in labels
    assert marks.items() <= labels.items()


def test_name_can_be_left_to_the_server(site: OperatedSite) -> None:
    code, made, _ = site.ask("POST", "/api/v1/namespaces", {"metadata": {"generateName": "run-"}})
    assert code == 201, made
    name = made["metadata"]["name"]
    assert name.startswith("run-")
    assert site.on_host(name)["metadata"]["labels"][f"{D}/namespace"] == name


def test_one_of_several_at_once_creates_it(site: OperatedSite) -> None:
    body = {"metadata": {"name": "once"}}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(site.ask, "POST", "/api/v1/namespaces", body) for _ in range(AT_ONCE)]
        answers = [each.result() for each in asked]
    assert sorted(code for code, _, _ in answers) == [201] + [409] * (AT_ONCE - 1)
    for code, told, _ in answers:
        if code == 409:
            assert told["reason"] == "AlreadyExists"
            assert told["message"] == 'namespaces "once" already exists'


def test_dry_run_stores_nothing(site: OperatedSite) -> None:
    kubectl(site.file, "create", "namespace", "dry", "--dry-run=server")
    assert site.lab.host.find(f"/api/v1/namespaces/{site.a.host_namespace('dry')}") is None


def test_deleted_namespace_is_removed_and_can_return(site: OperatedSite) -> None:
    kubectl(site.file, "create", "namespace", "short")
    first = site.on_host("short")["metadata"]["uid"]
    wrong = {"preconditions": {"uid": "0"}}
    assert site.ask("DELETE", "/api/v1/namespaces/short", wrong)[0] == 409
    kubectl(site.file, "delete", "namespace", "short", "--timeout=180s")
    within(PERIODIC_S, kubectl, site.file, "create", "namespace", "short")
    assert site.on_host("short")["metadata"]["uid"] != first


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_what_kubernetes_keeps_is_kept(site: OperatedSite, name: str) -> None:
    assert "orbidden" in kubectl(site.file, "delete", "namespace", name, fails=True)
    code, _, _ = site.ask("DELETE", "/api/v1/namespaces", {})
    assert code == 405
    for part in ("finalize", "status"):
        body = {"metadata": {"name": name}}
        code, told, _ = site.ask("PUT", f"/api/v1/namespaces/{name}/{part}", body)
        assert (code, told["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize("name", ["kube-more", "vc-system", "karmada-system", "karmada-es-x"])
def test_reserved_names_are_refused(site: OperatedSite, name: str) -> None:
    told = kubectl(site.file, "create", "namespace", name, fails=True)
    assert "NamespaceForbidden" in told or "orbidden" in told
    assert "-v-" not in told


def test_namespace_of_the_host_is_not_taken(site: OperatedSite) -> None:
    taken = site.a.host_namespace("taken")
    plain = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": taken}}
    site.lab.host.create(plain)
    try:
        told = kubectl(site.file, "create", "namespace", "taken", fails=True)
        assert "orbidden" in told
        assert "-v-" not in told
        assert "labels" in site.lab.host.get(f"/api/v1/namespaces/{taken}")["metadata"]
        assert "NotFound" in kubectl(site.file, "delete", "namespace", "taken", fails=True)
        assert site.lab.host.find(f"/api/v1/namespaces/{taken}") is not None
    finally:
        site.lab.host.delete(f"/api/v1/namespaces/{taken}")


def test_work_takes_a_created_namespace_over(site: OperatedSite) -> None:
    """Afterwards it is Karmada's to delete."""
    name = site.lab.id + "-later"
    kubectl(site.file, "create", "namespace", name)
    within(PERIODIC_S, kubectl, site.file, "create", *_config_map("mine", name))
    uid = site.on_host(name)["metadata"]["uid"]
    site.lab.hub.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:

        def taken_over() -> None:
            found = site.on_host(name)["metadata"]
            assert found["annotations"][f"{D}/work"]
            assert found["uid"] == uid

        within(PERIODIC_S, taken_over)

        def refused() -> None:
            assert "Karmada propagates it" in kubectl(
                site.file, "delete", "namespace", name, fails=True
            )

        within(PERIODIC_S, refused)
        kubectl(site.file, "get", "configmap", "mine", "-n", name)
    finally:
        site.lab.hub.delete(f"/api/v1/namespaces/{name}")

    wait_until_deleted(site.lab.host, f"/api/v1/namespaces/{site.a.host_namespace(name)}")


@pytest.fixture(name="user")
def of_the_hub(site: OperatedSite, hub: Api) -> User:
    if not Directory(Path(hub.kubeconfig).parent).is_ours:
        pytest.skip("only a hub of hack/control-planes reaches this machine's loopback")
    home = site.lab.directory / "home"
    home.mkdir(exist_ok=True)

    def look() -> None:
        assert site.lab.cluster(site.a.name)["spec"].get("apiEndpoint")

    within(PERIODIC_S, look)
    return User(site.lab.hub.kubeconfig, home)


def test_masters_of_the_hub_create_and_delete(site: OperatedSite, user: User) -> None:
    server, name = site.lab.hub.server, site.a.name
    within(PERIODIC_S, user.kubectl, server, name, "create", "namespace", "by-masters")
    assert site.on_host("by-masters")
    user.kubectl(server, name, "label", "namespace", "by-masters", "a=b")
    user.kubectl(server, name, "delete", "namespace", "by-masters", "--timeout=180s")
    path = f"/api/v1/namespaces/{site.a.host_namespace('by-masters')}"
    assert site.lab.host.find(path) is None


def test_others_need_the_right_that_roles_of_the_hub_give(site: OperatedSite, user: User) -> None:
    lab, group = site.lab, site.a
    name = f"{lab.id}-carol"
    subject = {"apiGroup": RBAC, "kind": "User", "name": name}

    def role(named: str, *rules: Object) -> Object:
        head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": named}}
        return {**head, "rules": list(rules)}

    def binding(named: str) -> Object:
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": named},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": named},
            "subjects": [subject],
        }

    proxy = {
        "apiGroups": ["cluster.karmada.io"],
        "resources": ["clusters/proxy"],
        "resourceNames": [group.name],
        "verbs": ["*"],
    }
    made = [role(name, proxy), binding(name)]
    for obj in made:
        lab.hub.create(obj)
    path = f"{CLUSTERS}/{group.name}/proxy/api/v1/namespaces"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "by-carol"}}
    try:
        carol = lab.hub.acting_as(name)

        def refused() -> None:
            for act in (
                lambda: carol.post(path, body),
                lambda: carol.delete(f"{path}/default"),
                lambda: carol.delete(f"{path}/nothing"),
            ):
                with pytest.raises(ApiError, match=r'namespaces.* is forbidden: User "') as told:
                    act()
                assert f'"{name}" cannot' in str(told.value)
                assert D not in str(told.value)

        within(PERIODIC_S, refused)
        rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]}
        creates = f"{lab.id}-creates"
        lab.create_work(group, creates, role(creates, rule), binding(creates))

        def created() -> None:
            assert carol.post(path, body)["metadata"]["name"] == "by-carol"

        within(PERIODIC_S, created)
        with pytest.raises(ApiError, match='cannot delete resource "namespaces"'):
            carol.delete(f"{path}/by-carol")
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            lab.hub.delete(f"/apis/{RBAC}/v1/{kind}/{name}")


def test_no_answer_named_the_host_or_the_neighbour(site: OperatedSite) -> None:
    for path in ("/api/v1/namespaces", "/api/v1/namespaces?limit=2"):
        told = json.dumps(site.ask("GET", path, None)[1])
        assert "-v-" not in told.replace("karmada-vc-agent", "")
        assert site.b.name not in told
