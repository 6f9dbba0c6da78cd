"""`karmada-vc-agent doctor` on a real hub and host: it names each fault, and its steps mend it."""

import shlex
import tarfile
from collections.abc import Callable

import pytest

from e2e.lab.agent import run_command
from e2e.lab.api import Object, collection
from e2e.lab.cleanup import LEASES
from e2e.lab.joining import RULES_OF_OTHERS, Joining
from e2e.lab.lab import NODES, Lab
from e2e.lab.leave import leave
from e2e.lab.wait import STARTED_S, within

DOMAIN = "virtualcluster.kubeedge.io"
RBAC = "rbac.authorization.k8s.io/v1"
DEPLOYMENT_MAKES_NO_POD_READY = ("Unschedulable", "fits on no node", "no Ready Pod yet")
"""The host of stories has only edge nodes, and the agent runs beside it."""


class Doctor:
    """Runs it for what a story joined."""

    def __init__(self, joining: Joining) -> None:
        self._joining = joining
        self._lab = joining.lab

    def run(self, *arguments: str, code: int | None = None) -> list[str]:
        """Return the lines of its output."""
        joining, lab = self._joining, self._lab
        options = ("--config", str(joining.file), "--kubeconfig", str(lab.host.kubeconfig))
        hub = ("--karmada-kubeconfig", str(lab.hub.kubeconfig))
        done = run_command("doctor", *options, *hub, *arguments)
        assert done.returncode in ((0, 1) if code is None else (code,)), done.stderr
        return [line for line in done.stdout.splitlines() if not RULES_OF_OTHERS.match(line)]

    def finds(self, *texts: str) -> str:
        """Wait for a line with these texts; return its next step."""

        def look() -> str:
            lines = self.run(code=1)
            named = [line for line in lines if all(text in line for text in texts)]
            assert named, f"{texts} not in {lines}"
            return named[0].partition("; next: ")[2]

        return within(STARTED_S, look)

    def mend(self, step: str, *gone: str) -> None:
        """Run a step that is a command of ours, and wait until its finding is gone."""
        name, *arguments = shlex.split(step)
        assert name == "karmada-vc-agent"
        done = run_command(*arguments)
        assert done.returncode == 0, done.stderr
        self.finds_no(*gone)

    def finds_no(self, *texts: str) -> None:
        """Wait until no line has one of these texts."""

        def look() -> None:
            lines = self.run()
            assert not [line for line in lines if any(text in line for text in texts)], lines

        within(STARTED_S, look)


def _changed(lab: Lab, path: str, change: Callable[[Object], None]) -> None:
    live = lab.host.get(path)
    change(live)
    lab.host.replace(path, live)


@pytest.mark.usefixtures("only_edges")
def test_before_join_its_steps_lead_to_an_agent_that_serves(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.run("-o", "yaml")  # writes the settings file
    doctor = Doctor(joining)
    step = doctor.finds("hub: agent", "has not joined")
    assert step == doctor.finds("host: agent", "has not joined")
    # The nodes of a story are edges: the agent fits on none of them, and runs beside the host.
    assert "--elsewhere" in doctor.finds("fits on no node", "is an edge node")
    doctor.mend(step, "has not joined")
    joining.serve()

    def look() -> None:
        rest = [
            line
            for line in doctor.run("--", "--elsewhere")
            if not any(text in line for text in DEPLOYMENT_MAKES_NO_POD_READY)
        ]
        # A label of the story's own, which nodes may give themselves.
        assert [line.partition("=")[0] for line in rest] == [f"{lab.id}-a: GroupTrusted"], rest

    within(STARTED_S, look)


def test_rules_and_policies_that_are_missing_come_back_by_its_step(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.as_administrator()
    doctor = Doctor(joining)

    def drop(role: Object) -> None:
        role["rules"] = [rule for rule in role["rules"] if "nodes" not in rule.get("resources", ())]

    _changed(lab, f"{collection(RBAC, 'ClusterRole')}/vc-agent:{lab.id}", drop)
    policy = f"pod-placement.{lab.id}.{DOMAIN}"
    kind = "ValidatingAdmissionPolicy"
    policies = collection("admissionregistration.k8s.io/v1", kind)
    lab.host.delete(f"{policies}/{policy}")
    lab.hub.delete(f"{collection(RBAC, 'ClusterRoleBinding')}/vc-agent:{lab.id}")
    step = doctor.finds(f"host: ClusterRole vc-agent:{lab.id} lacks rule", "nodes")
    assert step == doctor.finds(f"host: {kind} {policy} is missing")
    assert step == doctor.finds(f"hub: ClusterRoleBinding vc-agent:{lab.id} is missing")
    doctor.mend(step, "lacks rule", "is missing")


def test_groups_that_overlap_or_are_empty(lab: Lab) -> None:
    first = lab.group("a")
    joining = Joining(lab, first)
    twin, empty = f"{lab.id}-twin", f"{lab.id}-empty"
    lab.clusters |= {twin, empty}
    joining.agent.settings["virtualClusters"] += [
        {"name": twin, "nodeNames": first.nodes},
        {"name": empty, "nodeNames": ["no-such-node"]},
    ]
    joining.run("-o", "yaml")
    doctor = Doctor(joining)
    for _ in ("before", "after"):
        doctor.finds(f"{twin}: NodeOverlap=True", first.name, "only one of the two")
        doctor.finds(f"{empty}: NodesMissing=True", "no-such-node", "correct nodeNames")
        doctor.finds(f"{empty}: NodesReachable=False", "no node of the host is in the group")
        joining.as_administrator()
        if not lab.hub.find(f"{LEASES}/{first.name}"):
            joining.serve()


@pytest.mark.usefixtures("only_edges")
def test_no_node_fits_until_its_command_was_run(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.run("-o", "yaml")
    doctor = Doctor(joining)
    others = [each for each in lab.host.list(NODES) if "edge" not in str(each["metadata"])]
    assert not others, "this story is about a host without other nodes"
    name = f"{lab.id}-server"
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {f"{lab.id}/node": ""},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    lab.host.create(node)
    step = doctor.finds("fits on no node", f"{name} has taint dedicated:NoSchedule")
    assert step == f"kubectl taint nodes {name} dedicated:NoSchedule-"
    lab.host.patch(f"{NODES}/{name}", {"spec": {"taints": None}})  # as that command does
    doctor.finds_no("fits on no node")
    waited = joining.run("--karmada-kubeconfig", str(lab.hub.kubeconfig), "--apply", "--wait")
    assert waited.returncode == 0, waited.stderr
    assert "The agent serves" in waited.stdout


@pytest.mark.usefixtures("only_edges")
def test_join_waits_and_says_why_no_pod_serves(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    waited = joining.run("--karmada-kubeconfig", str(lab.hub.kubeconfig), "--apply", "--wait")
    assert waited.returncode == 1
    assert "Joined" in waited.stdout.splitlines()
    assert "the agent does not serve: Pod" in waited.stderr
    assert "Unschedulable" in waited.stderr
    assert "next: add a node that is no edge node" in waited.stderr


def test_bundle_of_an_installation_has_no_secret(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.as_administrator()
    installed = joining.kubeconfig().read_text()
    path = lab.directory / "doctor.tar.gz"
    Doctor(joining).run("--bundle", str(path))
    with tarfile.open(path) as archive:
        files = [archive.extractfile(each) for each in archive.getmembers()]
        content = "".join(file.read().decode() for file in files if file is not None)
    assert f"{lab.id}-agent" in content
    keys = [line.split()[-1] for line in installed.splitlines() if "client-" in line]
    assert len(keys) == 2
    assert not [key for key in keys if key[:60] in content]
    assert "PRIVATE KEY" not in content


def test_all_virtual_clusters_leave_and_take_the_agent_along(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"), lab.group("b"))
    joining.as_administrator()
    joining.serve()
    done = leave(lab, "--all", "--purge", "--yes")
    assert done.returncode == 0, done.stderr
    left = [line for line in done.stdout.splitlines() if line.endswith(" has left")]
    assert left == [f"{lab.id}-a has left", f"{lab.id}-b has left"]
    assert lab.host.find(f"/api/v1/namespaces/{lab.id}-agent/configmaps/{lab.id}") is None


def test_what_helm_notes_of_policies_stays(lab: Lab) -> None:
    joining = Joining(lab, lab.group("a"))
    joining.as_administrator()
    kind = "ValidatingAdmissionPolicy"
    policies = collection("admissionregistration.k8s.io/v1", kind)
    path = f"{policies}/agent-confines.{lab.id}.{DOMAIN}"
    notes = {"meta.helm.sh/release-name": "edge", "meta.helm.sh/release-namespace": "edge"}
    managed = {"app.kubernetes.io/managed-by": "Helm"}
    lab.host.patch(path, {"metadata": {"annotations": notes, "labels": managed}})
    joining.add(lab.group("b"))  # changes the policy
    assert f"host: change {kind} agent-confines.{lab.id}.{DOMAIN}" in joining.as_administrator()
    metadata = lab.host.get(path)["metadata"]
    assert notes.items() <= metadata["annotations"].items()
    assert managed.items() <= metadata["labels"].items()
