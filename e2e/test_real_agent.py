"""A real karmada-agent joins the same host beside our virtual clusters."""

import pytest

from e2e.lab import objects
from e2e.lab.api import path_of
from e2e.lab.lab import CLUSTERS, Lab
from e2e.lab.real_agent import RealAgent, joined_whole, program_of


@pytest.fixture
def program(request: pytest.FixtureRequest) -> str:
    return program_of(request.config)


@pytest.mark.smoke
def test_a_real_agent_and_ours_serve_one_host_side_by_side(lab: Lab, program: str) -> None:
    """One test, since a host can be joined whole only once at a time."""
    groups = [lab.group("a"), lab.group("b")]
    lab.serve(*groups)
    name = lab.namespace()
    template = objects.deployment(name, replicas=1)
    lab.propagate([template], *groups)
    lab.wait_fully_applied(template)

    whole, second = f"{lab.id}-whole", f"{lab.id}-second"
    with joined_whole(lab, program, whole) as real:
        lab.wait_ready(whole)
        host_uid = lab.host.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
        assert lab.cluster(whole)["spec"]["id"] == host_uid
        for group in groups:
            lab.wait_ready(group.name)

        lab.hub.patch(path_of(template), {"spec": {"replicas": 2}})
        lab.wait_status(template, readyReplicas=4)
        _assert_serves(lab, whole, name)
        assert "has not been initialized" not in real.log()

        lab.clusters.add(second)
        own = f"{lab.id}-real"
        with RealAgent(program, lab.hub, lab.host, second, own, lab.directory) as refused:
            assert refused.wait_exit() != 0
            assert "has been registered" in refused.log()
        assert lab.hub.find(f"{CLUSTERS}/{second}") is None
        assert real.is_running()


def _assert_serves(lab: Lab, cluster: str, namespace: str) -> None:
    """Send something to the whole host: what came before it has been seen by its agent."""
    marker = objects.config_map(namespace, "marker")
    lab.propagate([marker], placement=objects.to_clusters(cluster))
    lab.wait_fully_applied(marker)
    assert lab.host.get(path_of(marker))
