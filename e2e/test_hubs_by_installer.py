"""Hubs as Karmada's installers leave them: `join` creates what is missing, and an agent serves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from control_planes import installers
from e2e.lab import objects
from e2e.lab.api import Api
from e2e.lab.cleanup import NAMESPACES, clean_up
from e2e.lab.joining import Joining, bootstrap_token, may_renew
from e2e.lab.lab import Lab
from e2e.lab.lone_server import lone_karmada

INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"


@pytest.fixture(params=[installers.CHART, installers.OPERATOR])
def installer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lab(installer: str, host: Api, tmp_path: Path) -> Iterator[Lab]:
    with lone_karmada(tmp_path / "own-hub", installer=installer) as hub:
        lab = Lab(hub, host, tmp_path)
        yield lab
        clean_up(lab)


def test_agent_joins_serves_and_may_renew_its_certificate(lab: Lab, installer: str) -> None:
    group = lab.group("a")
    joining = Joining(lab, group)
    is_there = lab.hub.find(f"{NAMESPACES}/karmada-cluster") is not None
    assert is_there == (installer == installers.CHART)

    lines = joining.as_administrator()

    assert ("hub: create Namespace karmada-cluster" in lines) != is_there
    lab.wait_serving(joining.serve())
    manifest = objects.config_map(lab.namespace(), "given", key="value")
    lab.wait_applied(lab.create_work(group, "given", manifest))
    assert may_renew(lab, f"system:karmada:agent:{lab.id}")


def test_token_joins_where_the_hub_publishes_how_and_says_what_else_to_use_where_not(
    lab: Lab, installer: str
) -> None:
    """The chart publishes a name of its cluster; the agent keeps the address that it was given."""
    joining = Joining(lab, lab.group("a"))
    token = bootstrap_token(lab.hub)

    done = joining.run(
        *(joining.endpoint(), "--token", token, "--apply"),
        *("--discovery-token-ca-cert-hash", joining.ca_hash()),
    )

    if installer == installers.OPERATOR:
        assert lab.hub.find(INFO) is None
        assert done.returncode == 1
        assert "kube-public/cluster-info" in done.stderr
        assert "--karmada-kubeconfig" in done.stderr
        return
    assert "hub-apiserver.karmada-system.svc" in lab.hub.get(INFO)["data"]["kubeconfig"]
    assert done.returncode == 0, done.stderr
    assert joining.endpoint() in joining.kubeconfig().read_text()
    lab.wait_serving(joining.serve())
