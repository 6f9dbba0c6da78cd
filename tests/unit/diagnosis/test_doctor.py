"""`doctor` against a hub and a host: before and after `join`, and with faults."""

import base64
import tarfile
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from karmada_vc_agent.access.admission import GROUP
from karmada_vc_agent.cli import main
from karmada_vc_agent.cluster.hub_clusters import cluster_id
from karmada_vc_agent.diagnosis import doctor
from karmada_vc_agent.feature_list import CONFIG
from karmada_vc_agent.features.objects.definitions import API_VERSION, KIND
from karmada_vc_agent.install.join import plan_of, run_join
from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.vocabulary import AGENT_ANNOTATION, EDGE_LABEL
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.served import Served

RBAC = "rbac.authorization.k8s.io/v1"
RIGHTS = tuple(
    Served(RBAC, f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
)
CRDS = Served(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
HUB = (*served.HUB, *RIGHTS, CRDS)
HOST = (
    *served.HOST,
    *RIGHTS,
    CRDS,
    Served("v1", "serviceaccounts", "ServiceAccount"),
    Served("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Served(
        f"{GROUP}/v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        namespaced=False,
    ),
    Served(
        f"{GROUP}/v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        namespaced=False,
    ),
)
SETTINGS = {
    "apiVersion": "config.virtualcluster.kubeedge.io/v1alpha1",
    "kind": "AgentConfig",
    "agentName": "edge",
    "virtualClusters": [{"name": "branch-a", "nodeNames": ["n1"]}],
}
UID = str(uuid.uuid4())
NAMES = ("agent_name", "agent_namespace", "karmada_context")


@dataclass
class Site:
    """A hub and a host, and what `doctor` is run with."""

    hub: FakeApiServer
    host: FakeApiServer
    folder: Path
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))

    def file(self, name: str, content: object) -> Path:
        path = self.folder / name
        path.write_text(yaml.safe_dump(content))
        return path

    def kubeconfig(self, server: FakeApiServer, name: str) -> str:
        cluster = {"name": "main", "cluster": {"server": server.url}}
        context = {"name": "main", "context": {"cluster": "main"}}
        content = {"current-context": "main", "contexts": [context], "clusters": [cluster]}
        return str(self.file(name, content))

    def options(self, **options: Any) -> dict[str, Any]:
        return {
            **dict.fromkeys(NAMES, ""),
            "config_path": self.file("agent.yaml", self.settings),
            "karmada_kubeconfig": self.kubeconfig(self.hub, "hub"),
            "kubeconfig": self.kubeconfig(self.host, "host"),
            "bundle": None,
            **options,
        }

    async def lines(self, *join_options: str, **options: Any) -> list[str]:
        """Return the findings; the command to join is JOIN."""
        given = self.options(**options)
        with click.Context(doctor.doctor, obj=CONFIG):
            command = doctor._join_command(given, join_options)
            found = await doctor.examine(given, join_options)
        return [str(each).replace(command, "JOIN") for each in found]

    async def join(self) -> None:
        """Have the agent join, but for its certificate, which no fake hub signs."""
        options = self.options()
        with click.Context(doctor.doctor, obj=CONFIG):
            given = doctor._as_of_join(options, options["config_path"], "", ())
            hub = given | {"applies": True, "output": None, "only": "hub"}
            await run_join(plan_of(hub))
            host = hub | {"only": "host", "karmada_kubeconfig": ""}
            await run_join(plan_of(host))

    def register(self, *conditions: Object, renewed: str = "2999-01-01T00:00:00Z") -> None:
        """Put a Cluster and its Lease on the hub."""
        cluster = objects.cluster(
            "branch-a", cluster_id(UID, "branch-a"), conditions=list(conditions)
        )
        cluster["metadata"]["annotations"] = {AGENT_ANNOTATION: "edge/edge"}
        spec = {"renewTime": renewed, "leaseDurationSeconds": 40}
        metadata = {"name": "branch-a", "namespace": "karmada-cluster"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        self.hub.seed(cluster, {**lease, "spec": spec})


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with FakeApiServer(HUB) as hub, FakeApiServer(HOST) as host:
        for server, uid in ((hub, str(uuid.uuid4())), (host, UID)):
            system = objects.namespace("kube-system")
            system["metadata"]["uid"] = uid
            server.seed(system)
        host.seed(objects.node("n1"), objects.node("n2"))
        yield Site(hub, host, tmp_path)


JOINED = [
    "host: it has no Ready Pod yet; next: kubectl -n edge get events",
    (
        "agent edge: it has no Lease: no agent serves it; next: kubectl -n edge get pods; their "
        "log says why"
    ),
    "host: Secret edge/karmada-kubeconfig with the agent's kubeconfig is missing; next: JOIN",
]
"""What is wrong after `join` on fakes, on which nothing runs."""


async def test_before_join_a_host_that_suits_lacks_only_that(site: Site) -> None:
    assert await site.lines() == [
        "hub: agent edge has not joined; next: JOIN",
        "host: agent edge has not joined; next: JOIN",
    ]
    assert site.hub.writes() == site.host.writes() == []


async def test_before_join_no_node_fits_and_a_group_is_empty(site: Site) -> None:
    site.host.remove("/api/v1/nodes/n1")
    site.host.change("/api/v1/nodes/n2", metadata={"name": "n2", "labels": {EDGE_LABEL: ""}})
    lines = await site.lines()
    assert any(
        "the agent fits on no node: n2 is an edge node; next: add a node" in x for x in lines
    )
    assert any(x.startswith("branch-a: NodesMissing=True: no node is named n1") for x in lines)
    assert not any("fits on no node" in x for x in await site.lines("--elsewhere"))


async def test_after_join_nothing_is_missing_but_what_runs(site: Site) -> None:
    await site.join()
    before = len(site.host.changes()), len(site.hub.changes())
    assert await site.lines() == JOINED
    assert (len(site.host.changes()), len(site.hub.changes())) == before


async def test_rules_and_policies_that_are_missing(site: Site) -> None:
    await site.join()
    role = f"/apis/{RBAC}/clusterroles/vc-agent:edge"
    rules = site.host.live(role)["rules"]
    site.host.change(role, rules=rules[1:])
    site.hub.remove(f"/apis/{RBAC}/clusterrolebindings/vc-agent:edge")
    policy = "pod-placement.edge.virtualcluster.kubeedge.io"
    site.host.remove(f"/apis/{GROUP}/v1/validatingadmissionpolicies/{policy}")
    lines = await site.lines()
    assert "hub: ClusterRoleBinding vc-agent:edge is missing; next: JOIN" in lines
    assert f"host: ValidatingAdmissionPolicy {policy} is missing; next: JOIN" in lines
    assert any(x.startswith("host: ClusterRole vc-agent:edge lacks rule {") for x in lines)
    await site.join()
    assert await site.lines() == JOINED


async def test_conditions_and_stale_leases_of_clusters(site: Site) -> None:
    await site.join()
    overlap = objects.condition("NodeOverlap", "True", "NodesShared", "node n1 is of two")
    site.register(objects.ready(), overlap, renewed="2026-01-01T00:00:00Z")
    lines = await site.lines()
    first, second = (line for line in lines if line.startswith("branch-a: "))
    assert first.startswith("branch-a: its Lease was not renewed for ")
    assert second == (
        "branch-a: NodeOverlap=True: node n1 is of two; next: let only one of the two select it "
        "(nodeSelector, nodeNames)"
    )
    assert [line for line in lines if line not in (first, second)] == JOINED


async def test_what_a_virtual_cluster_left_on_the_host(site: Site) -> None:
    ending = objects.claimed("branch-b", agent="edge", finalizers=["a/b"])
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    site.host.seed(ending)
    lines = await site.lines()
    assert any(x.startswith("host: Namespace edge-v-branch-b is being deleted for") for x in lines)
    step = lines[-1].partition("; next: ")[2]
    assert step.startswith("karmada-vc-agent leave --config ")
    assert step.endswith(" branch-b # removes what remains of it")


async def test_what_the_host_describes_or_renames_is_not_to_be_removed(site: Site) -> None:
    """As where its Cluster is missing since the hub was restored."""
    site.settings["objects"] = {"enabled": True}
    head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "branch-z"}}
    spec = {"nodeNames": ["n2"], "formerNames": ["branch-y"]}
    spaces = [objects.claimed(name, agent="edge") for name in ("branch-y", "branch-z")]
    site.host.seed({**head, "spec": spec}, *spaces)
    assert [line for line in await site.lines() if " leave " in line] == []


async def test_clock_that_differs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) - timedelta(seconds=90)

    monkeypatch.setattr(doctor, "datetime", Late)
    skewed = [line for line in await site.lines() if "clock" in line]
    assert [line.partition(":")[0] for line in skewed] == ["hub", "host"]
    assert all("s ahead of the clock here; next: synchronize" in line for line in skewed)


async def test_server_that_does_not_answer_hides_nothing_of_the_other(site: Site) -> None:
    with site.hub.down():
        lines = await site.lines()
    assert lines[0].startswith("hub: no answer from the hub http://127.0.0.1:")
    assert lines[0].endswith(
        "next: check address, network and certificate authority in that kubeconfig"
    )
    assert lines[1:] == ["host: agent edge has not joined; next: JOIN"]
    with site.host.down():
        lines = await site.lines()
    assert [line.partition(":")[0] for line in lines] == ["hub", "host"]


async def test_hub_that_does_not_answer_is_not_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.Examination, "_clusters", lambda *_: pytest.fail("it was"))
    with site.hub.down():
        assert (await site.lines())[0].startswith("hub: no answer from the hub")


async def test_host_that_is_given_as_hub_and_hub_that_is_no_karmada(site: Site) -> None:
    lines = await site.lines(karmada_kubeconfig=site.kubeconfig(site.host, "other"))
    assert any("is not a Karmada control plane" in line for line in lines)
    assert any("is also the API server of the host" in line for line in lines)


async def test_account_with_too_few_rights_is_a_finding_with_the_rule(site: Site) -> None:
    path = "/api/v1/nodes"
    text = 'nodes is forbidden: User "x" cannot list resource "nodes"'
    site.host.fail(403, "Forbidden", path=path, message=text)
    lines = await site.lines()
    assert any(
        'needs rule {apiGroups: [""], resources: [nodes], verbs: [list]}' in line
        and "next: use an administrator's kubeconfig" in line
        for line in lines
    )


async def test_settings_and_hub_of_an_installed_agent_are_read_from_the_host(site: Site) -> None:
    await site.join()
    site.kubeconfig(site.hub, "own")
    own = (site.folder / "own").read_bytes()
    data = {"karmada-kubeconfig": base64.b64encode(own).decode()}
    metadata = {"name": "karmada-kubeconfig", "namespace": "edge"}
    site.host.seed({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    given = {"config_path": None, "agent_name": "edge", "karmada_kubeconfig": ""}
    assert await site.lines(**given) == JOINED[:2]


async def test_bundle_has_the_findings_and_logs(site: Site) -> None:
    sidecar = [{"name": "agent"}, {"name": "mesh"}]
    for pod in (objects.pod("edge-1", "edge"), objects.pod("edge-2", "edge", containers=sidecar)):
        pod["metadata"]["labels"] = {"app": "edge"}
        site.host.seed(pod)
    site.host.seed(objects.pod("other", "edge"))
    logs = "/api/v1/namespaces/edge/pods/{}/log"
    site.host.fail(400, "BadRequest", path=logs.format("edge-1"), message="is waiting to start")
    for _ in sidecar:
        site.host.answer(b"Bearer abc.def\nserving", path=logs.format("edge-2"))
    path = site.folder / "doctor.tar.gz"
    await site.lines(bundle=path)
    with tarfile.open(path) as archive:
        names = archive.getnames()
        log = archive.extractfile("doctor/edge-2-agent.log")
        assert log is not None
        assert log.read() == b"Bearer (removed)\nserving"
        pods = archive.extractfile("doctor/host-pods.json")
        assert pods is not None
        assert b"other" not in pods.read()
    assert {"doctor/findings.txt", "doctor/host-nodes.json", "doctor/edge-1-c.error"} <= {*names}
    assert "doctor/edge-2-mesh.log" in names
    assert not any("other" in name for name in names)


async def test_kubeconfig_of_the_agent_that_is_none_is_a_finding(site: Site) -> None:
    await site.join()
    metadata = {"name": "karmada-kubeconfig", "namespace": "edge"}
    data = {"karmada-kubeconfig": base64.b64encode(b"- no kubeconfig").decode()}
    site.host.seed({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    lines = await site.lines()
    assert any("is not a kubeconfig" in line for line in lines)
    assert JOINED[0] in lines


@pytest.mark.parametrize(
    "arguments",
    [
        ("--kubeconfig", "/nowhere"),
        ("--config", "/nowhere"),
        ("--agent-name", "A b"),
        ("--unknown",),
        ("--bundle", "/nowhere/doctor.tar.gz"),
        ("--bundle", "/"),
    ],
)
def test_wrong_usage_has_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, ["doctor", *arguments]).exit_code == 2
