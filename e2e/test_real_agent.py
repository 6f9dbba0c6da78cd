"""A real karmada-agent joins the same host beside our virtual clusters."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.lab import objects
from e2e.lab.api import path_of
from e2e.lab.lab import CLUSTERS, Lab
from e2e.lab.real_agent import RealAgent, program_of
from e2e.lab.works import execution_namespace


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    return program_of(request.config)


def test_a_real_agent_and_ours_serve_one_host_side_by_side(lab: Lab, program: str) -> None:
    """One test, since a host can be joined whole only once at a time."""
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    name = lab.namespace()
    template = objects.deployment(name, replicas=1)
    lab.propagate([template], *groups)
    lab.wait_fully_applied(template)

    whole, second = f"{lab.id}-whole", f"{lab.id}-second"
    with _running(lab, program, whole) as real:
        lab.wait_ready(whole)
        host_uid = lab.host.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
        assert lab.cluster(whole)["spec"]["id"] == host_uid
        for group in groups:
            lab.wait_ready(group.name)

        lab.hub.patch(path_of(template), {"spec": {"replicas": 2}})
        lab.wait_status(template, readyReplicas=4)
        _assert_serves(lab, whole, name)
        assert "has not been initialized" not in real.log()

        with _running(lab, program, second) as refused:
            assert refused.wait_exit() != 0
            assert "has been registered" in refused.log()
        assert lab.hub.find(f"{CLUSTERS}/{second}") is None
        assert real.is_running()


@contextmanager
def _running(lab: Lab, program: str, cluster: str) -> Iterator[RealAgent]:
    """Run a real agent that joins the whole host; remove what it made there."""
    lab.clusters.add(cluster)
    agent = RealAgent(program, lab.hub, lab.host, cluster, f"{lab.id}-real", lab.directory)
    try:
        with agent:
            yield agent
    finally:
        _remove_traces(lab, cluster)


def _assert_serves(lab: Lab, cluster: str, namespace: str) -> None:
    """Send something to the whole host: what came before it has been seen by its agent."""
    marker = objects.config_map(namespace, "marker")
    lab.propagate([marker], placement=objects.to_clusters(cluster))
    lab.wait_fully_applied(marker)
    assert lab.host.get(path_of(marker))


def _remove_traces(lab: Lab, cluster: str) -> None:
    """Remove namespaces made on the host; of every test, for all get a Work for theirs."""
    for namespace in lab.host.list("/api/v1/namespaces", "karmada.io/managed=true"):
        metadata = namespace["metadata"]
        origin = metadata.get("annotations", {}).get("work.karmada.io/namespace")
        if origin == execution_namespace(cluster):
            lab.host.delete(f"/api/v1/namespaces/{metadata['name']}")
    for own in (f"{lab.id}-real",):
        lab.host.delete(f"/api/v1/namespaces/{own}")
        lab.hub.delete(f"/api/v1/namespaces/{own}")
