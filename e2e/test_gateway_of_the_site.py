"""Operators at the site use one virtual cluster, by the gateway, while the hub is away."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
import yaml

from control_planes import tools
from e2e.lab import objects
from e2e.lab.agent import Agent, clean_environment
from e2e.lab.api import Api, ApiError
from e2e.lab.gateway import Gateway, Way
from e2e.lab.kubectl import kubectl
from e2e.lab.lab import AGENT_LABEL, Group, Lab
from e2e.lab.operated_site import kubeconfig_of
from e2e.lab.wait import BACKED_OFF_S, within

CRD = Path(__file__).parents[1] / "manifests" / "base" / "crd.yaml"
OBJECTS = "/apis/virtualcluster.kubeedge.io/v1alpha1/virtualclusters"


class Site:
    """A virtual cluster of the settings file, one of an object, and their gateway.

    kubeconfig(): as an operator gets it, by `karmada-vc-agent kubeconfig`.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.of_file, self.of_object = lab.group("a"), lab.group("b")
        self.gateway = Gateway(lab, Way(lab.directory, by_proxy=False))
        self.agent: Agent = lab.new_agent(
            self.of_file, gateway=self.gateway.settings, objects={"enabled": True}
        )
        self.agent.extra_names.append(self.of_object.name)
        self.agent.start()
        lab.host.create(
            {
                "apiVersion": "virtualcluster.kubeedge.io/v1alpha1",
                "kind": "VirtualCluster",
                "metadata": {"name": self.of_object.name, "labels": {AGENT_LABEL: lab.id}},
                "spec": {"nodeSelector": {"matchLabels": self.of_object.selector}},
            }
        )
        for group in (self.of_file, self.of_object):
            lab.wait_ready(group.name)
        self.namespace = lab.namespace()
        template = objects.deployment(self.namespace, "web")
        lab.propagate([template], self.of_file, self.of_object)
        for group in (self.of_file, self.of_object):
            lab.on_host(template, group)
            within(BACKED_OFF_S, self._assert_has_pods, group)

    def _assert_has_pods(self, group: Group) -> None:
        assert self.lab.pods(group.host_namespace(self.namespace))

    def serve(self) -> None:
        self.gateway.start(self.agent)

    def kubeconfig(self, group: Group, account: str) -> Path:
        return kubeconfig_of(self.lab, self.agent, group, account)

    def close(self) -> None:
        self.gateway.stop()
        for agent in self.lab.agents:
            agent.kill()
        path = f"{OBJECTS}/{self.of_object.name}"
        if self.lab.host.find(path) is not None:
            self.lab.host.delete(path)
            self.lab.host.patch(path, {"metadata": {"finalizers": None}})


@pytest.fixture(name="site")
def live(lab: Lab) -> Iterator[Site]:
    try:
        lab.host.create(yaml.safe_load(CRD.read_text()))
    except ApiError as error:
        if error.code != 409:
            raise
    within(BACKED_OFF_S, lab.host.get, OBJECTS)
    site = Site(lab)
    try:
        yield site
    finally:
        site.close()


@pytest.mark.smoke
def test_operators_see_their_virtual_cluster_while_the_hub_is_away(site: Site) -> None:
    site.agent.kill()  # the hub is not asked: neither by the gateway nor by the command
    site.serve()
    for group, other in ((site.of_file, site.of_object), (site.of_object, site.of_file)):
        file = site.kubeconfig(group, "alice")
        told = within(BACKED_OFF_S, kubectl, file, "get", "pods", "-A", "-o", "yaml")
        spaces = {each["metadata"]["namespace"] for each in yaml.safe_load(told)["items"]}
        assert spaces == {site.namespace}
        assert other.name not in told
        assert kubectl(file, "get", "nodes", "-o", "name").split() == [
            f"node/{node}" for node in group.nodes
        ]
        create = ("create", "configmap", "by-hand", "-n", site.namespace, "--from-literal=a=b")
        kubectl(file, *create)
        path = f"/api/v1/namespaces/{group.host_namespace(site.namespace)}/configmaps/by-hand"
        assert site.lab.host.get(path)["data"] == {"a": "b"}
        told = kubectl(file, "label", "node", group.nodes[0], "taken=yes", fails=True)
        assert "orbidden" in told
        assert "vc:" not in told


def test_token_of_an_operator_is_good_for_its_virtual_cluster_alone(site: Site) -> None:
    site.serve()
    file = site.kubeconfig(site.of_file, "alice")
    within(BACKED_OFF_S, kubectl, file, "get", "namespaces")
    content = yaml.safe_load(file.read_text())
    token = content["users"][0]["user"]["token"]
    other = site.gateway.endpoint(site.of_object.name)
    url = content["clusters"][0]["cluster"]["server"]
    assert url.rstrip("/") == site.gateway.endpoint(site.of_file.name).rstrip("/")
    headers = {"Authorization": f"Bearer {token}"}
    authority = str(site.lab.directory / "gateway" / "ca.crt")
    with urllib3.PoolManager(ca_certs=authority, retries=False) as pool:
        assert pool.request("GET", f"{other}api/v1/pods", headers=headers).status == 401
    content["clusters"][0]["cluster"] = _cluster_of(site.lab.host)
    straight = file.with_suffix(".host")
    straight.write_text(yaml.safe_dump(content))
    assert "must be logged in" in kubectl(straight, "get", "pods", fails=True)


def test_operator_is_out_once_the_account_is_deleted(site: Site) -> None:
    site.serve()
    file, stays = (site.kubeconfig(site.of_file, name) for name in ("alice", "bob"))
    within(BACKED_OFF_S, kubectl, file, "get", "namespaces")
    space = site.of_file.host_namespace("vc-system")
    with _watch(file) as ended, _watch(stays) as lasts:
        site.lab.as_agent().delete(f"/api/v1/namespaces/{space}/serviceaccounts/alice")
        within(BACKED_OFF_S, lambda: _assert_over(ended))
        assert lasts.poll() is None

    def look() -> None:
        assert "must be logged in" in kubectl(file, "get", "namespaces", fails=True)

    within(BACKED_OFF_S, look)
    kubectl(stays, "get", "namespaces")


@contextmanager
def _watch(kubeconfig: Path) -> Iterator[subprocess.Popen[str]]:
    """Watch namespaces, by one request that nobody repeats, until it ends or is not needed."""
    url = "/api/v1/namespaces?watch=true"
    command = [str(tools.program_paths()["kubectl"]), "get", "--raw", url]
    environment = {**clean_environment(), "KUBECONFIG": str(kubeconfig)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as watching:
        assert watching.stdout is not None
        assert '"ADDED"' in watching.stdout.readline()
        try:
            yield watching
        finally:
            watching.kill()


def _assert_over(process: subprocess.Popen[str]) -> None:
    assert process.poll() is not None, "the watch goes on"


def _cluster_of(host: Api) -> object:
    return yaml.safe_load(host.kubeconfig.read_text())["clusters"][0]["cluster"]
