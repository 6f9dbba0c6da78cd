"""`explain` names the first broken link; each fault is made, and its first line is compared."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2e.lab import objects
from e2e.lab.agent import clean_environment, run_command
from e2e.lab.api import Object, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import STARTED_S, THROUGH_HUB_S, eventually, within

pytestmark = pytest.mark.shared_agent

FINE, HUB, AGENT, HOST = 0, 3, 4, 5


class Explained:
    """What the command prints of one template, and its exit code."""

    def __init__(self, lab: Lab, template: Object, cluster: str = "", kind: str = "") -> None:
        metadata = template["metadata"]
        self.hub, self.host = lab.hub.kubeconfig, lab.host.kubeconfig
        self._what = f"{metadata['namespace']}/{kind or template['kind']}/{metadata['name']}"
        self._flags = ("-C", cluster) if cluster else ()
        self._agent = lab.agents[0]

    def says(self, code: int, first: str) -> str:
        """Check exit code and first line, a regular expression; return all that was printed."""
        config = ("--config", str(self._agent.config))
        servers = ("--karmada-kubeconfig", str(self.hub), "--kubeconfig", str(self.host))
        done = run_command("explain", self._what, *self._flags, *servers, *config)
        print(f"$ explain {self._what} {' '.join(self._flags)}\n{done.stdout}{done.stderr}")
        line, *rest = done.stdout.splitlines() or [""]
        assert re.fullmatch(first, line), done.stdout + done.stderr
        assert rest[0].startswith("next: "), rest
        assert done.returncode == code
        return done.stdout


def served(lab: Lab, letter: str = "a") -> Group:
    group = lab.group(letter)
    lab.serve(group)
    return group


def test_no_policy_matches_and_then_all_is_well(lab: Lab) -> None:
    group = served(lab)
    template = objects.deployment(lab.namespace(), replicas=1)
    lab.hub.create(template)
    other = objects.deployment(template["metadata"]["namespace"], name="wbe")
    explained = Explained(lab, template, kind="deploy")
    what = f"Deployment {template['metadata']['namespace']}/web"
    explained.says(HUB, f"no policy matches {what}; .*")
    placement = objects.to_clusters(group.name)
    policy = objects.policy(template["metadata"]["namespace"], "typo", [other], placement)
    lab.hub.create(policy)
    explained.says(HUB, f'no policy matches {what}; nearest: .* selects name "wbe"; did you.*')
    selectors = policy["spec"]["resourceSelectors"]
    lab.hub.patch(
        path_of(policy), {"spec": {"resourceSelectors": [{**selectors[0], "name": "web"}]}}
    )
    text = within(THROUGH_HUB_S, explained.says, FINE, f"nothing is broken in .*{what}")
    assert "1 of 1 ready" in text
    assert f"is {group.host_namespace(template['metadata']['namespace'])} on the host" in text


def test_policy_names_a_cluster_that_is_none_and_one_that_is_another(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group, other)
    template = objects.config_map(lab.namespace())
    wrong = f"{group.name}x"
    lab.propagate([template], group, placement=objects.to_clusters(wrong))
    explained = Explained(lab, template, kind="cm")
    text = f'PropagationPolicy .* names cluster "{wrong}", which the hub does not have; did .*'
    within(THROUGH_HUB_S, explained.says, HUB, text)
    elsewhere = objects.config_map(template["metadata"]["namespace"], "elsewhere")
    lab.propagate([elsewhere], other)
    explained = Explained(lab, elsewhere, group.name)
    text = f"PropagationPolicy .* places ConfigMap .* on {other.name}, not on {group.name}"
    within(THROUGH_HUB_S, explained.says, HUB, text)


def test_misspelt_names(lab: Lab) -> None:
    group = served(lab)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.on_host(template, group)
    text = f'the hub has no Cluster "{group.name}z"; did you mean "{group.name}"\\?'
    Explained(lab, template, f"{group.name}z").says(HUB, text)
    template["metadata"]["name"] = "settigns"
    Explained(lab, template).says(HUB, 'the hub has no ConfigMap .*; did you mean "settings"\\?')


def test_suspended_work(lab: Lab) -> None:
    group = served(lab)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group, suspension={"dispatching": True})
    text = "Work settings-.* is suspended: nothing of it is written to the host"
    within(THROUGH_HUB_S, Explained(lab, template).says, HUB, text)


def test_refused_work(lab: Lab) -> None:
    group = served(lab)
    selector = {lab.label: "another"}
    template = objects.deployment(lab.namespace(), node_selector=selector)
    lab.propagate([template], group)
    text = r"refused with NodeSelectorConflict: spec\.template\.spec\.nodeSelector.*"
    within(THROUGH_HUB_S, Explained(lab, template).says, AGENT, text)


def test_foreign_namespace(lab: Lab) -> None:
    group = served(lab)
    # The namespace is made on the hub last, so that the agent does not have it first.
    name = f"{lab.id}-{len(lab.namespaces) + 1}-taken"
    foreign = lab.host.create(objects.namespace(group.host_namespace(name)))
    try:
        assert lab.namespace("-taken") == name
        template = objects.config_map(name)
        lab.propagate([template], group)
        text = "refused with NamespaceNotOwned: .*"
        within(THROUGH_HUB_S, Explained(lab, template).says, AGENT, text)
    finally:
        lab.host.delete(path_of(foreign))


def test_quota_exceeded(lab: Lab) -> None:
    group = served(lab)
    namespace = lab.namespace()
    lab.hub.create(objects.federated_quota(namespace, {group.name: "1"}))
    quota = f"/api/v1/namespaces/{group.host_namespace(namespace)}/resourcequotas/shared"
    eventually(lab.host.get, quota)
    template = objects.deployment(namespace, replicas=2)
    lab.propagate([template], group)
    text = f"a quota of {group.name} is exceeded: .*exceeded quota.*"
    within(THROUGH_HUB_S, Explained(lab, template).says, HOST, text)


def test_pods_that_fit_nowhere_and_an_image_that_is_not_there(lab: Lab) -> None:
    group = served(lab)
    template = objects.deployment(lab.namespace(), replicas=1, cpu="64")
    lab.propagate([template], group)
    explained = Explained(lab, template, group.name)
    text = f"pods of Deployment .* fit on no node of {group.name}: .*Insufficient cpu.*"
    printed = within(THROUGH_HUB_S, explained.says, HOST, text)
    assert "1 of 1 Ready" in printed
    pod = lab.pods(group.host_namespace(template["metadata"]["namespace"]))[0]
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nowhere"'}
    state = {"name": "app", "state": {"waiting": waiting}, "ready": False, "restartCount": 0}
    state |= {"image": "nowhere", "imageID": ""}
    lab.host.patch(
        f"{path_of({'apiVersion': 'v1', 'kind': 'Pod', **pod})}/status",
        {"status": {"containerStatuses": [state]}},
    )
    explained.says(HOST, "an image of Deployment .* cannot be pulled: ImagePullBackOff: .*")


def test_group_without_nodes(lab: Lab) -> None:
    group = Group(f"{lab.id}-none", {lab.label: "nothing"})
    lab.clusters.add(group.name)
    lab.serve(group)
    template = objects.deployment(lab.namespace(), replicas=1)
    lab.propagate([template], group)
    text = f"no node of the host is in virtual cluster {group.name}, so the pods of .*"
    within(THROUGH_HUB_S, Explained(lab, template).says, HOST, text)


def test_sides_that_do_not_answer_and_what_is_wrong_with_kubeconfigs(
    lab: Lab, tmp_path: Path
) -> None:
    group = served(lab)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.on_host(template, group)
    explained = Explained(lab, template, group.name)
    within(STARTED_S, explained.says, FINE, "nothing is broken in .*")
    with Proxy(lab.hub.kubeconfig, tmp_path / "hub") as wire:
        wire.cut()
        explained.hub = wire.kubeconfig
        text = explained.says(HUB, "the hub does not answer: .*")
        assert f"ConfigMap {group.host_namespace(template['metadata']['namespace'])}" in text
    explained.hub = lab.hub.kubeconfig
    with Proxy(lab.host.kubeconfig, tmp_path / "host") as wire:
        wire.cut()
        explained.host = wire.kubeconfig
        text = explained.says(HOST, "the host does not answer: .*")
        assert "Applied=True" in text
    explained.hub, explained.host = lab.host.kubeconfig, lab.hub.kubeconfig
    explained.says(HUB, "the kubeconfigs are swapped, .*")
    explained.hub, explained.host = _plain(lab.hub.kubeconfig, tmp_path), lab.host.kubeconfig
    explained.says(HUB, ".* has http for the hub, and .* speaks https")


def _plain(kubeconfig: Path, directory: Path) -> Path:
    """Return a kubeconfig with http in place of https."""
    content = yaml.safe_load(kubeconfig.read_text())
    for entry in content["clusters"]:
        entry["cluster"]["server"] = entry["cluster"]["server"].replace("https:", "http:")
    path = directory / "plain.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def test_right_that_is_missing_is_named(lab: Lab) -> None:
    group = served(lab)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group)
    lab.on_host(template, group)
    explained = Explained(lab, template, group.name)
    explained.hub = lab.agents[0].hub_kubeconfig
    text = "template not seen: hub: the account used needs rule .*configmaps.*get.*"
    printed = within(STARTED_S, explained.says, HUB, text)
    assert "Applied=True" in printed


def test_status_shows_nodes_works_and_why_one_is_not_ready(lab: Lab) -> None:
    group = served(lab)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], group, suspension={"dispatching": True})
    command = (
        *(sys.executable, "-m", "karmada_vc_agent", "status", group.name),
        *("--karmada-kubeconfig", str(lab.hub.kubeconfig)),
        *("--kubeconfig", str(lab.host.kubeconfig)),
    )

    def look() -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=clean_environment()
        )
        print(done.stdout, done.stderr)
        head, row, *_ = done.stdout.splitlines()
        assert head.split()[:3] == ["NAME", "READY", "NODES"]
        cells = dict(zip(head.split(), row.split(), strict=False))
        assert (cells["READY"], cells["NODES"], cells["SUSPENDED"] > "0") == ("True", "1/1", True)

    within(THROUGH_HUB_S, look)
