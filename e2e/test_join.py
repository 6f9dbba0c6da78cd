"""`karmada-vc-agent join` on a real hub and host: by an administrator and by a bootstrap token."""

import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.api import Api, Object, collection
from e2e.lab.cleanup import LEASES, NAMESPACES, REQUESTS, clean_up
from e2e.lab.joining import Joining, bootstrap_token, may_renew
from e2e.lab.lab import Lab
from e2e.lab.leave import leave
from e2e.lab.lone_server import lone_karmada
from e2e.lab.wait import eventually

DOMAIN = "virtualcluster.kubeedge.io"
UNCHANGED = "Nothing to change"


@pytest.fixture
def token(hub: Api) -> Iterator[str]:
    """A bootstrap token, as `kubectl-karmada token create` makes it (contract 1.7 point 1)."""
    token = bootstrap_token(hub)
    yield token
    token_id = token.partition(".")[0]
    hub.delete(f"{collection('v1', 'Secret', 'kube-system')}/bootstrap-token-{token_id}")


@pytest.mark.smoke
def test_an_administrator_lets_an_agent_join_and_adds_a_virtual_cluster_later(lab: Lab) -> None:
    first, second = lab.group("a"), lab.group("b")
    joining = Joining(lab, first)
    lines = joining.as_administrator()
    role = f"vc-agent:{lab.id}"
    assert f"hub: create ClusterRole {role}" in lines
    assert f"host: create Deployment {lab.id}-agent/{lab.id}" in lines
    assert lines[-1] == "Joined"
    assert _but_for_kinds(joining.as_administrator()) in ([UNCHANGED], ["Joined"])
    joining.add(second)
    lines = joining.as_administrator()
    assert _but_for_kinds(line for line in lines if not line.startswith(" ")) == [
        f"hub: change ClusterRole {role}",
        f"hub: change Role karmada-cluster/{role}",
        f"hub: create Namespace karmada-es-{second.name}",
        f"hub: create RoleBinding karmada-es-{second.name}/{role}:works",
        f"host: change ValidatingAdmissionPolicy agent-confines.{lab.id}.{DOMAIN}",
        f"host: change ConfigMap {lab.id}-agent/{lab.id}",
        f"host: change Deployment {lab.id}-agent/{lab.id}",
        "Joined",
    ]
    assert f"    .data.agent.yaml:\n      + - name: {second.name}" in "\n".join(lines)
    joining.serve()
    template = objects.config_map(lab.namespace())
    lab.propagate([template], first, second)
    lab.wait_fully_applied(template)


def test_tuned_fields_stay_and_required_ones_are_restored(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.as_administrator()
    path = f"{collection('apps/v1', 'Deployment', joining.agent.namespace)}/{lab.id}"
    image, pod = "mirror.example/agent:1", "/spec/template/spec"
    changed = {
        "/spec/replicas": 3,
        f"{pod}/containers/0/image": image,
        f"{pod}/containers/0/resources/limits/memory": "1Gi",
        f"{pod}/serviceAccountName": "default",
        f"{pod}/serviceAccount": "default",
    }
    operations = ({"op": "replace", "path": at, "value": to} for at, to in changed.items())
    lab.host.patch_json(path, *operations)
    lines = _but_for_kinds(joining.as_administrator())
    account, old_name = (
        f'    .spec.template.spec.{field}: "default" -> "{lab.id}"'
        for field in ("serviceAccountName", "serviceAccount")
    )
    assert lines[:2] == [
        f"host: image {image} stays; --image sets another",
        f"host: change Deployment {joining.agent.namespace}/{lab.id}",
    ]
    assert lines[-1] == "Joined"
    assert {account} <= set(lines[2:-1]) <= {account, old_name}
    found = lab.host.get(path)["spec"]
    (container,) = found["template"]["spec"]["containers"]
    assert (found["replicas"], container["image"]) == (3, image)
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    assert container["resources"]["requests"]


def test_join_makes_what_a_hub_without_any_agent_does_not_have(host: Api, tmp_path: Path) -> None:
    with lone_karmada(tmp_path / "own-hub") as hub:
        lab = Lab(hub, host, tmp_path)
        try:
            group = lab.group("a")
            joining = Joining(lab, group)
            assert hub.find(f"{NAMESPACES}/karmada-cluster") is None
            assert "hub: create Namespace karmada-cluster" in joining.as_administrator()
            joining.serve()
            lease = eventually(hub.get, f"{LEASES}/{group.name}")
            assert lease["spec"]["holderIdentity"] == group.name
        finally:
            clean_up(lab)


def test_a_bootstrap_token_is_enough_and_its_powerful_user_is_given_up(
    lab: Lab, token: str
) -> None:
    group = lab.group("a")
    joining = Joining(lab, group)
    flags = ("--token", token, "--discovery-token-ca-cert-hash", joining.ca_hash())
    done = joining.run(joining.endpoint(), *flags, "--apply")
    assert done.returncode == 0, done.stderr
    assert "system:karmada:agent:rbac-generator, which has administrator rights" in done.stdout
    left = [request for request in lab.hub.list(REQUESTS) if _is_requested_by(request, token)]
    assert [request["metadata"]["name"].rpartition("-")[0] for request in left] == [lab.id]
    joining.serve()


def test_a_token_alone_writes_files_without_the_powerful_user(lab: Lab, token: str) -> None:
    joining = Joining(lab, lab.group("a"))
    out = lab.directory / "out"
    flags = ("--token", token, "--discovery-token-unsafe-skip-ca-verification")
    done = joining.run(joining.endpoint(), *flags, "--output-dir", str(out))
    assert done.returncode == 0, done.stderr
    names = ["host.yaml", "hub.kubeconfig", "hub.yaml"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert "rbac-generator" not in done.stdout
    roles = collection("rbac.authorization.k8s.io/v1", "ClusterRole")
    assert lab.hub.find(f"{roles}/vc-agent:{lab.id}") is None
    assert (out / "hub.kubeconfig").stat().st_mode & 0o077 == 0


def test_a_hub_with_another_authority_is_not_trusted(lab: Lab, token: str) -> None:
    joining = Joining(lab, lab.group("a"))
    wrong = "sha256:" + "0" * 64
    flags = ("--token", token, "--discovery-token-ca-cert-hash", wrong)
    done = joining.run(joining.endpoint(), *flags, "--apply")
    assert (done.returncode, done.stdout) == (1, "")
    assert "not the given one" in done.stderr
    assert token not in done.stderr


def test_cluster_name_of_another_owner_is_refused_before_any_write(lab: Lab) -> None:
    group = lab.group("a")
    joining = Joining(lab, group)
    lab.hub.create(_foreign_cluster(group.name))
    done = joining.run("--karmada-kubeconfig", str(lab.hub.kubeconfig), "--apply")
    assert done.returncode == 1
    assert f'Cluster "{group.name}" on the hub belongs to another member cluster' in done.stderr
    assert lab.host.find(f"/api/v1/namespaces/{joining.agent.namespace}") is None


def test_hub_alone_joins_again_and_keeps_the_mark_of_the_host(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.as_administrator()
    before = _host_marks(lab)
    assert len(before) == 3
    assert all(before)
    joining.add(lab.group("b"))
    admin = ("--karmada-kubeconfig", str(lab.hub.kubeconfig), "--only", "hub")
    folder = lab.directory / "written"
    for more in (("--output-dir", str(folder)), ("--apply",)):
        done = joining.run_without_host(*admin, *more)
        assert done.returncode == 0, done.stderr
    assert _host_marks(lab) == before
    written = yaml.safe_load_all((folder / "hub.yaml").read_text())
    roles = [each for each in written if each["kind"] in ("Role", "ClusterRole")]
    assert [_host_mark(role) for role in roles] == before
    assert joining.as_administrator()[-1] == "Joined", "the new one on the host"
    assert _host_marks(lab) == before


def _host_marks(lab: Lab) -> list[str]:
    """Return the id of the host in the roles of the agent, in the order of `join`."""
    cluster_roles = collection("rbac.authorization.k8s.io/v1", "ClusterRole")
    leases = collection("rbac.authorization.k8s.io/v1", "Role", "karmada-cluster")
    name = f"vc-agent:{lab.id}"
    paths = (f"{cluster_roles}/{name}", f"{leases}/{name}", f"{cluster_roles}/{name}:works")
    return [_host_mark(lab.hub.get(path)) for path in paths]


def _host_mark(role: Object) -> str:
    return str((role["metadata"].get("annotations") or {}).get(f"{DOMAIN}/host", ""))


def test_rights_end_with_the_settings_that_needed_them(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    settings = joining.agent.settings
    settings["objects"] = {"enabled": True, "anyName": True}
    settings["nodeGroups"] = {"enabled": True}
    every_work = f"{_rbac('ClusterRoleBinding')}/vc-agent:{lab.id}:works"
    tells = f"{_rbac('Role', 'default')}/vc-agent:{lab.id}"
    joining.as_administrator()
    assert lab.hub.find(every_work)
    assert lab.host.find(tells)
    settings["objects"] = {"enabled": False}
    settings["nodeGroups"]["enabled"] = False
    lines = joining.as_administrator()
    assert f"hub: remove ClusterRoleBinding vc-agent:{lab.id}:works" in lines
    assert f"host: remove Role default/vc-agent:{lab.id}" in lines
    assert lab.hub.find(every_work) is None
    assert lab.host.find(tells) is None

    settings["objects"] = {"enabled": True, "anyName": True}
    joining.as_administrator()
    # Roles for any name have none, and no agent ran: there is no virtual cluster to leave alone.
    done = leave(lab, "--purge", "--yes")
    assert done.returncode == 0, done.stderr
    for kind in ("ClusterRoleBinding", "ClusterRole", "RoleBinding", "Role"):
        for side in (lab.hub, lab.host):
            left = side.list(_rbac(kind), f"{DOMAIN}/agent={lab.id}")
            assert left == [], (side, kind)


def test_hub_approves_renewals_though_it_grants_nothing_to_agents(lab: Lab) -> None:
    """Asked as Karmada's agentcsrapproving does, of a user without the group of agents."""
    Joining(lab, lab.group("a")).as_administrator()
    assert may_renew(lab, f"system:karmada:agent:{lab.id}")
    assert not may_renew(lab, f"system:karmada:agent:{lab.id}-other")


def _rbac(kind: str, namespace: str = "") -> str:
    return collection("rbac.authorization.k8s.io/v1", kind, namespace)


def test_missing_right_is_reported_as_a_rule_to_add(lab: Lab) -> None:
    group = lab.group("a")
    weak = lab.new_agent(group).join()
    joining = Joining(lab, group)
    done = joining.run("--karmada-kubeconfig", str(weak.hub), "--apply")
    assert done.returncode == 1
    rule = "needs rule {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], "
    assert rule in done.stderr


def test_an_agent_of_the_same_name_on_another_host_is_refused(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.as_administrator()
    roles = collection("rbac.authorization.k8s.io/v1", "ClusterRole")
    mark = {"virtualcluster.kubeedge.io/host": "another"}
    lab.hub.patch(f"{roles}/vc-agent:{lab.id}", {"metadata": {"annotations": mark}})
    done = joining.run("--karmada-kubeconfig", str(lab.hub.kubeconfig), "--apply")
    assert done.returncode == 1
    assert "on another host; choose another agentName" in done.stderr


def _but_for_kinds(lines: Iterable[str]) -> list[str]:
    """Leave out roles of the host that follow its kinds: those of other tests come and go."""
    left, is_role = [], False
    for line in lines:
        is_role = line.startswith("host: change ClusterRole ") or (is_role and line[0] == " ")
        left += [] if is_role else [line]
    return left


def _is_requested_by(request: Object, token: str) -> bool:
    user: Any = request["spec"].get("username")
    return bool(user == f"system:bootstrap:{token.partition('.')[0]}")


def _foreign_cluster(name: str) -> Object:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"id": secrets.token_hex(8), "syncMode": "Pull"},
    }
