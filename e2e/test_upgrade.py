"""An upgrade, a rollback and another upgrade, by `join` and by Helm, while everything serves.

The earlier version is the commit before this one; `hack/upgrade-story FROM` names another.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from control_planes import tools
from e2e.lab import objects
from e2e.lab.agent import ROOT
from e2e.lab.api import Api, Object, collection, path_of
from e2e.lab.audit import AgentWrites, AuditLog
from e2e.lab.checkpoint import KEPT, is_saved
from e2e.lab.cleanup import clean_up
from e2e.lab.gateway import Gateway, Way
from e2e.lab.joining import Joining
from e2e.lab.lab import CLUSTERS, Group, Lab
from e2e.lab.lone_server import audit_log, lone_api_server
from e2e.lab.step import Step
from e2e.lab.upgrade import REFUSED, Forbidden, Site, earlier_tree
from e2e.lab.wait import PERIODIC_S, THROUGH_HUB_S, within

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
AGENT = "karmada-vc-agent"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return earlier_tree(tmp_path_factory.mktemp("trees"))


@dataclass
class Served:
    """Three virtual clusters with Works, one of them with a quota, served by an earlier version."""

    lab: Lab
    site: Site
    groups: list[Group]
    templates: list[Object]

    @property
    def namespaces(self) -> list[str]:
        spaces = {template["metadata"]["namespace"] for template in self.templates}
        return [group.host_namespace(space) for group in self.groups for space in sorted(spaces)]

    def lives(self) -> dict[str, Any]:
        """Return the uids of all pods and workloads of the virtual clusters, and generations."""
        lives = {}
        for space in self.namespaces:
            for kind in ("Pod", "Deployment", "StatefulSet", "ConfigMap", "ResourceQuota"):
                version = {"Deployment": "apps/v1", "StatefulSet": "apps/v1"}.get(kind, "v1")
                for obj in self.lab.host.list(collection(version, kind, space)):
                    about = obj["metadata"]
                    lives[f"{space}/{kind}/{about['name']}"] = (
                        about["uid"],
                        about.get("generation"),
                    )
        return lives

    def change(self, value: str) -> None:
        """Change a template, and wait until every group has the change."""
        settings = self.templates[0]
        self.lab.hub.patch(path_of(settings), {"data": {"key": value}})
        for group in self.groups:
            self.lab.wait_data(settings, group, key=value)
            within(PERIODIC_S, self._has_through_gateway, group, value)

    def _has_through_gateway(self, group: Group, value: str) -> None:
        path = f"{CLUSTERS}/{group.name}/proxy{path_of(self.templates[0])}"
        assert self.lab.hub.get(path)["data"] == {"key": value}


@pytest.fixture
def served(own_hub: Api, host: Api, tmp_path: Path, earlier: Path) -> Iterator[Served]:
    """Serve a hub of its own: namespaces of other stories would get a share of the quota."""
    lab = Lab(own_hub, host, tmp_path)
    with ExitStack() as stack:
        stack.callback(clean_up, lab)
        groups = [lab.group(letter, nodes=2) for letter in "abc"]
        joining = Joining(lab, *groups)
        joining.agent.settings |= {"checkpoint": KEPT}
        joining.agent.settings["virtualClusters"][1]["quota"] = {"pods": "20"}
        gateway = Gateway(lab, Way(lab.directory, by_proxy=False))
        stack.callback(gateway.stop)
        joining.agent.settings["gateway"] = gateway.settings
        site = Site(lab, joining, gateway)
        site.join(earlier)
        agent = site.roll_out(earlier)
        namespace = lab.namespace()
        templates = [
            objects.config_map(namespace, key="1"),
            objects.deployment(namespace, replicas=2),
            objects.stateful_set(namespace, replicas=2),
        ]
        lab.propagate(templates, *groups)
        for template in templates:
            lab.wait_fully_applied(template)
        lab.wait_status(templates[1], readyReplicas=6)
        for group in groups:
            within(THROUGH_HUB_S, is_saved, lab, agent, group, templates[0])
        yield Served(lab, site, groups, templates)


def test_virtual_clusters_serve_through_upgrade_and_rollback(
    served: Served, earlier: Path, tmp_path: Path
) -> None:
    lab, site = served.lab, served.site
    leases = audit_log(tmp_path / "own-hub")
    before = served.lives()
    with Forbidden(lab.host, served.groups[0].nodes[0], lab.label) as forbidden:
        for number, tree in enumerate((ROOT, earlier, ROOT)):
            writes = AgentWrites("host", served.namespaces)
            site.join(tree)
            assert served.lives() == before
            site.roll_out(tree)
            assert writes.told() == [], f"objects were written again by {tree}"
            assert served.lives() == before
            served.change(f"{number + 2}")
            assert served.lives() == before
    assert forbidden.outcomes.keys() == {REFUSED}, forbidden.outcomes
    for group in served.groups:
        assert _longest_gap_s(leases, group.name) < _lease_s(lab.hub, group.name)
    assert site.agent is not None
    site.agent.terminate()


def _lease(cluster: str) -> str:
    return f"{collection('coordination.k8s.io/v1', 'Lease', 'karmada-cluster')}/{cluster}"


def _lease_s(hub: Api, cluster: str) -> float:
    return float(hub.get(_lease(cluster))["spec"]["leaseDurationSeconds"])


def _longest_gap_s(log: AuditLog, cluster: str) -> float:
    """Return the longest time between two renewals of the Lease of a Cluster."""
    renewed = [
        each.at
        for each in log.writes()
        if each.target.plural == "leases" and each.target.name == cluster and each.code < 300
    ]
    assert len(renewed) > 2
    return max((later - first).total_seconds() for first, later in pairwise(renewed))


@pytest.mark.strict
@pytest.mark.parametrize(
    "at",
    [
        Step(methods="POST PUT PATCH", path="admissionpolicies/", nth=2, is_before=True),
        Step(methods="POST PUT PATCH", path="admissionpolicybindings/", nth=1, is_before=True),
        Step(methods="POST PUT PATCH", path="/deployments", is_before=True),
    ],
    ids=["between-policies", "before-bindings", "before-the-deployment"],
)
def test_killed_join_is_finished_by_another(lab: Lab, earlier: Path, at: Step) -> None:
    groups = [lab.group(letter) for letter in "ab"]
    joining = Joining(lab, *groups)
    joining.agent.settings["tenancy"] = "Strict"
    site = Site(lab, joining)
    site.join(earlier)
    with Forbidden(lab.host, groups[0].nodes[0], lab.label) as forbidden:
        joining.add(lab.group("c"))  # so that rights, policies and Deployment change
        site.killed_join(at)
        assert site.join(ROOT), "nothing was left to do"
    assert forbidden.outcomes.keys() == {REFUSED}, forbidden.outcomes
    assert _changes(site.join(ROOT)) == []
    site.roll_out(ROOT).terminate()


def _changes(lines: list[str]) -> list[str]:
    """Return what `join` says that it created, changed or removed."""
    return [line for line in lines if line.split()[0] in ("created", "configured", "deleted")]


@pytest.fixture
def lone_host(tmp_path: Path) -> Iterator[Api]:
    with lone_api_server(tmp_path / "host") as host:
        yield host


def test_helm_upgrades_and_rolls_back_without_removing_policies(
    lone_host: Api, earlier: Path, tmp_path: Path
) -> None:
    def helm(*arguments: str | Path) -> None:
        access = ("--kubeconfig", lone_host.kubeconfig, "-n", "edge")
        environment = os.environ | {
            "HELM_CACHE_HOME": str(tmp_path / "cache"),
            "HELM_CONFIG_HOME": str(tmp_path / "config"),
        }
        program = tools.program_paths()["helm"]
        command = [program, *arguments, *access]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr

    def kept() -> dict[str, str]:
        policies = lone_host.list(POLICIES)
        return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in policies}

    chart = Path("manifests", "chart")
    helm("install", "--create-namespace", AGENT, earlier / chart)
    first = kept()
    assert first
    helm("upgrade", AGENT, ROOT / chart)
    second = kept()
    _assert_same(first, second)
    helm("rollback", AGENT, "1")
    _assert_same(second, kept())
    assert kept().keys() == first.keys()
    helm("upgrade", AGENT, ROOT / chart)
    assert kept().keys() == second.keys()


def _assert_same(before: dict[str, str], after: dict[str, str]) -> None:
    """Check that none of those that both versions have was removed and made again."""
    common = before.keys() & after.keys()
    assert common
    assert {name: before[name] for name in common} == {name: after[name] for name in common}
