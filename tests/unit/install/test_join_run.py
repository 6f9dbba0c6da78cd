"""What `join` does with a hub and a host, and what it leaves to the administrator."""

import base64
import uuid
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from karmada_vc_agent.access.admission import GROUP
from karmada_vc_agent.access.rights import MANAGED, HubAccess, hub_objects
from karmada_vc_agent.config.decoding import ConfigError
from karmada_vc_agent.config.settings import AgentConfig, ObjectSettings
from karmada_vc_agent.feature_list import HUB_ROLES
from karmada_vc_agent.install.join import run_join
from karmada_vc_agent.install.join_hub import JoinPlan, kubeconfig_text, user_entry
from karmada_vc_agent.model.objects import Object, annotations_of
from karmada_vc_agent.model.vocabulary import AGENT_LABEL, CLUSTER_LABEL, TENANCY_ANNOTATION
from tests.fakes import objects, served
from tests.fakes.api_server import FakeApiServer
from tests.fakes.authority import Authority
from tests.fakes.objects import virtual_cluster
from tests.fakes.served import Served

ACCESS = HubAccess("branches", ("branch-a",), of_features=HUB_ROLES)
ELSEWHERE = "https://hub.example:5443"
RBAC = "rbac.authorization.k8s.io/v1"
HUB = (
    *served.HUB,
    Served(RBAC, "clusterroles", "ClusterRole", namespaced=False),
    Served(RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Served(RBAC, "roles", "Role"),
    Served(RBAC, "rolebindings", "RoleBinding"),
)

POLICIES = tuple(
    Served(f"{GROUP}/v1", f"validatingadmission{plural}", f"Validating{kind}", namespaced=False)
    for plural, kind in (
        ("policies", "AdmissionPolicy"),
        ("policybindings", "AdmissionPolicyBinding"),
    )
)
DEFINITIONS = Served(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
UNPOLICED = (
    *served.HOST,
    Served("v1", "serviceaccounts", "ServiceAccount"),
    Served("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    DEFINITIONS,
)
HOST = (*UNPOLICED, *POLICIES)


@dataclass
class Ends:
    """Hub and host, and their kubeconfigs."""

    hub: FakeApiServer
    host: FakeApiServer
    folder: Path

    def kubeconfig(self, name: str, server: FakeApiServer) -> str:
        path = self.folder / name
        content = {
            "current-context": "main",
            "contexts": [{"name": "main", "context": {"cluster": "main"}}],
            "clusters": [{"name": "main", "cluster": {"server": server.url}}],
        }
        path.write_text(yaml.safe_dump(content))
        return str(path)

    def plan(
        self,
        server: str = "",
        *,
        applies: bool = False,
        is_dry: bool = False,
        is_elsewhere: bool = False,
    ) -> JoinPlan:
        return JoinPlan(
            access=ACCESS,
            namespace="agents",
            config=AgentConfig(
                agent_name="branches", virtual_clusters=(virtual_cluster("branch-a"),)
            ),
            is_elsewhere=is_elsewhere,
            settings="kind: AgentConfig\n",
            image="agent:1",
            sets_image=False,
            karmada_kubeconfig=self.kubeconfig("hub", self.hub),
            karmada_server=server,
            kubeconfig=self.kubeconfig("host", self.host),
            lifetime_s=3600,
            sides=("hub", "host"),
            applies=applies,
            is_dry=is_dry,
        )

    def install_certificate(self, server: str) -> str:
        """Put a kubeconfig as `join` makes it into the Secret; return it."""
        chain, key = Authority().pair(start=datetime.now(UTC))
        text = kubeconfig_text({"server": server}, "branches", user_entry(chain, key))
        metadata = {"name": "karmada-kubeconfig", "namespace": "agents"}
        data = {"karmada-kubeconfig": base64.b64encode(text.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        self.host.seed(objects.namespace("agents"), secret)
        return text


@pytest.fixture
async def ends(tmp_path: Path) -> AsyncIterator[Ends]:
    async with FakeApiServer(HUB) as hub, FakeApiServer(HOST) as host:
        for server in (hub, host):
            system = objects.namespace("kube-system")
            system["metadata"]["uid"] = str(uuid.uuid4())
            server.seed(system)
        yield Ends(hub, host, tmp_path)


async def test_printing_has_the_hub_sign_nothing(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_join(ends.plan())
    assert ends.hub.writes() == []
    assert ends.host.writes() == []
    printed = capsys.readouterr().out
    assert "kind: Deployment" in printed
    assert "kind: Secret" not in printed
    assert "# Still needed: Secret karmada-kubeconfig in agents" in printed
    assert "--apply and --output-dir have it signed" in printed


async def test_agent_keeps_off_the_nodes_of_objects(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    selector = {"matchLabels": {"example.com/branch": "b"}}
    head = {"apiVersion": "virtualcluster.kubeedge.io/v1alpha1", "kind": "VirtualCluster"}
    spec = {"nodeSelector": selector}
    ends.host.seed({**head, "metadata": {"name": "branch-b"}, "spec": spec})
    plan = ends.plan()
    config = structs.replace(plan.config, objects=ObjectSettings(enabled=True))
    await run_join(replace(plan, config=config))
    made = yaml.safe_load_all(capsys.readouterr().out)
    (agent,) = (each for each in made if each["kind"] == "Deployment")
    affinity = agent["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    off = {"key": "example.com/branch", "operator": "NotIn", "values": ["b"]}
    assert off in term["matchExpressions"]


async def test_printing_shows_no_private_key(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ends.install_certificate(ELSEWHERE)
    await run_join(ends.plan(ELSEWHERE))
    assert ends.hub.writes() == []
    assert base64.b64encode(text.encode()).decode() not in capsys.readouterr().out


async def test_dry_run_says_what_would_be_done_and_does_nothing(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_join(ends.plan(applies=True, is_dry=True))
    assert ends.hub.changes() == []
    assert ends.host.changes() == []
    lines = capsys.readouterr().out.splitlines()
    assert "hub: create Namespace karmada-cluster" in lines
    assert "hub: sign a client certificate for system:karmada:agent:branches" in lines
    assert "host: create Deployment agents/branches" in lines
    assert lines[-1] == "Nothing was changed (--dry-run)"


async def test_joined_once_nothing_is_left_to_change(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    ends.install_certificate(ELSEWHERE)
    plan = ends.plan(ELSEWHERE, applies=True)
    await run_join(plan)
    told = capsys.readouterr().out.splitlines()
    assert "host: create Deployment agents/branches" in told
    assert told[-1] == "Joined"
    changed = len(ends.host.changes()), len(ends.hub.changes())
    await run_join(plan)
    assert capsys.readouterr().out.splitlines() == ["Nothing to change"]
    assert (len(ends.host.changes()), len(ends.hub.changes())) == changed


@pytest.mark.parametrize(
    ("live", "given", "image"),
    [
        ("r.example/agent:1", "", "r.example/agent:1"),
        ("r.example/agent:1", "r.example/agent:2", "r.example/agent:2"),
        ("karmada-vc-agent:0.0.1", "", "agent:1"),
        ("karmada-vc-agent:dev", "", "karmada-vc-agent:dev"),
        ("agent:1", "", "agent:1"),
    ],
)
async def test_image_stays_unless_another_is_given_or_the_version_decides(
    ends: Ends, capsys: pytest.CaptureFixture[str], live: str, given: str, image: str
) -> None:
    ends.install_certificate(ELSEWHERE)
    plan = ends.plan(ELSEWHERE, applies=True)
    await run_join(replace(plan, image=live, sets_image=True))
    capsys.readouterr()
    await run_join(replace(plan, image=given or plan.image, sets_image=bool(given)))
    stays = f"host: image {live} stays; --image sets another" in capsys.readouterr().out
    assert stays is (image == live != plan.image)
    deployment = await ends.host.client().get(
        "/apis/apps/v1/namespaces/agents/deployments/branches"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == image


@pytest.mark.parametrize(
    ("server", "is_elsewhere", "warns"),
    [
        ("", False, True),
        ("https://localhost:1", False, True),
        (ELSEWHERE, False, False),
        ("", True, False),
    ],
)
async def test_hub_address_that_a_pod_cannot_reach_is_warned_of(
    ends: Ends, capsys: pytest.CaptureFixture[str], server: str, *, is_elsewhere: bool, warns: bool
) -> None:
    await run_join(ends.plan(server, is_elsewhere=is_elsewhere))
    warning = capsys.readouterr().err
    assert ("inside a Pod" in warning) is warns
    assert ("with --karmada-server" in warning) is warns


# --- what is not desired any more --------------------------------------------------------

EVERY_WORK = f"/apis/{RBAC}/clusterrolebindings/vc-agent:branches:works"


def role(name: str, **labels: str) -> Object:
    metadata = {"name": name, "namespace": "tenants", "labels": labels}
    return {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": []}


@pytest.mark.parametrize("is_dry", [False, True])
async def test_rights_on_every_cluster_end_with_any_name(
    ends: Ends, capsys: pytest.CaptureFixture[str], *, is_dry: bool
) -> None:
    ends.install_certificate(ELSEWHERE)
    ends.hub.seed(*hub_objects(replace(ACCESS, any_name=True)))
    plan = ends.plan(ELSEWHERE, applies=True, is_dry=is_dry)
    await run_join(plan)
    assert (ends.hub.find(EVERY_WORK) is not None) == is_dry
    told = "hub: remove ClusterRoleBinding vc-agent:branches:works"
    assert told in capsys.readouterr().out
    kept = f"/apis/{RBAC}/namespaces/karmada-es-branch-a/rolebindings/vc-agent:branches:works"
    assert ends.hub.find(kept)


async def test_rights_on_the_host_end_with_their_settings(ends: Ends) -> None:
    """As those to impersonate an account that `applyAs` named; others' roles stay."""
    ends.install_certificate(ELSEWHERE)
    own = {AGENT_LABEL: "branches"}
    kept = (
        role("vc-agent:branches:kinds", **own, **{CLUSTER_LABEL: "branch-a"}),
        role("vc-agent:other", **{AGENT_LABEL: "other"}),
        role("shop", **own),
    )
    ends.host.seed(role("vc-agent:branches", **own), *kept)
    await run_join(ends.plan(ELSEWHERE, applies=True))
    left = ends.host.listed(f"/apis/{RBAC}/namespaces/tenants/roles")
    assert {each["metadata"]["name"] for each in left} == {
        each["metadata"]["name"] for each in kept
    }


# --- hosts that refuse --------------------------------------------------------------------


async def test_host_without_policies_is_joined_only_if_the_administrator_says_so(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeApiServer(UNPOLICED) as old:
        old.seed(*ends.host.listed("/api/v1/namespaces"))
        ends = replace(ends, host=old)
        ends.install_certificate(ELSEWHERE)
        plan = ends.plan(ELSEWHERE, applies=True)
        old.version = {"gitVersion": "v1.29.3"}
        with pytest.raises(ConfigError, match=r"v1.29.3 .*no ValidatingAdmissionPolicy.*1.30 or"):
            await run_join(plan)
        assert capsys.readouterr().err == ""
        assert ends.hub.changes() == old.changes() == []
        await run_join(replace(plan, unconfined=True))
        assert "v1.29.3, which was not measured" in capsys.readouterr().err
        assert old.find("/apis/apps/v1/namespaces/agents/deployments/branches")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("v1.34.0", ""),
        ("", ""),
        (
            "v1.38.0",
            (
                "Warning: the host runs Kubernetes v1.38.0, which was not measured; the nearest "
                "that was is 1.37: see docs/compatibility.md\n"
            ),
        ),
    ],
)
async def test_host_newer_than_any_that_was_measured_is_warned_of(
    ends: Ends, capsys: pytest.CaptureFixture[str], version: str, said: str
) -> None:
    ends.host.version = {"gitVersion": version}
    await run_join(ends.plan(ELSEWHERE))
    assert capsys.readouterr().err == said


def works_definition(*fields: str) -> Object:
    spec: Object = {"properties": {"workload": {}, **{each: {} for each in fields}}}
    entry: Object = {"properties": {"health": {}}}
    status = {"properties": {"manifestStatuses": {"items": entry}}}
    schema = {"openAPIV3Schema": {"properties": {"spec": spec, "status": status}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "works.work.karmada.io"},
        "spec": {"versions": [{"name": "v1alpha1", "schema": schema}]},
    }


@pytest.mark.parametrize("is_lacking", [True, False])
async def test_field_that_the_works_of_an_older_hub_lack_is_warned_of(
    ends: Ends, capsys: pytest.CaptureFixture[str], *, is_lacking: bool
) -> None:
    fields = ["suspendDispatching"] + ["preserveResourcesOnDeletion"] * (not is_lacking)
    async with FakeApiServer((*HUB, DEFINITIONS)) as hub:
        hub.seed(*ends.hub.listed("/api/v1/namespaces"), works_definition(*fields))
        await run_join(replace(ends, hub=hub).plan(ELSEWHERE))
    warning = capsys.readouterr().err
    assert ("spec.preserveResourcesOnDeletion: objects are deleted" in warning) is is_lacking
    assert "suspendDispatching" not in warning
    assert "health" not in warning


@pytest.mark.parametrize(("agent", "is_refused"), [("branches", False), ("other", True)])
async def test_a_host_has_one_profile_that_only_its_sole_agent_changes(
    ends: Ends, agent: str, *, is_refused: bool
) -> None:
    ends.install_certificate(ELSEWHERE)
    shared = {"name": "virtual-cluster-admin", "labels": MANAGED}
    shared["annotations"] = {TENANCY_ANNOTATION: "Strict"}
    own = {"name": f"vc-agent:{agent}", "labels": {AGENT_LABEL: agent}}
    for metadata in (shared, own):
        ends.host.seed({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata})
    told = "tenancy: is Shared, but agent other of this host joined with Strict .*leave --purge"
    with pytest.raises(ConfigError, match=told) if is_refused else nullcontext():
        await run_join(ends.plan(ELSEWHERE, applies=True))
    role = ends.host.live(f"/apis/{RBAC}/clusterroles/virtual-cluster-admin")
    recorded = annotations_of(role)[TENANCY_ANNOTATION]
    assert recorded == ("Strict" if is_refused else "Shared")
    assert not is_refused or ends.hub.changes() == ends.host.changes() == []
