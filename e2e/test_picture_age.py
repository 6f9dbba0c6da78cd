"""How old the hub's picture is, and what the site knows of it: annotations, status, explain."""

import json
import subprocess
import sys
from typing import Any

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import BACKED_OFF_S, within

OBSERVED_AT = "virtualcluster.kubeedge.io/observed-at"
HUB_CONTACT = "virtualcluster.kubeedge.io/hub-contact"


def told(*arguments: str) -> str:
    command = [sys.executable, "-m", "karmada_vc_agent", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_picture_has_its_age_on_the_hub_and_at_the_site(lab: Lab, hub_wire: Proxy) -> None:
    group = lab.group("a")
    endpoints = Endpoints.new()
    flags = (*FAST, *endpoints.flags())
    agent = lab.new_agent(group, flags=flags, hub=hub_wire.kubeconfig).start()
    lab.wait_serving(agent)
    settings = objects.config_map(lab.namespace(), key="1")
    work = lab.create_work(group, "settings", settings)
    lab.wait_applied(work)

    lab.add_node(group)  # the first status cannot tell when the hub was reached before it
    within(BACKED_OFF_S, _has_both_ages, lab, group.name)
    before = lab.cluster(group.name)["metadata"]["annotations"][OBSERVED_AT]
    url = ("--metrics-url", f"http://{endpoints.metrics}/metrics")
    within(BACKED_OFF_S, _shows_status, url, f"{group.name}   True    2/2")
    assert told("status", group.name, *url).splitlines()[1].rstrip().endswith("now")

    hub_wire.cut()
    within(BACKED_OFF_S, _shows_status, url, "hub not reached since")
    (row,) = json.loads(told("status", group.name, "-o", "json", *url))
    assert row["hub"]["reached"] is False
    assert row["works"]["applied"] >= 1
    away = _explain(lab, agent, hub_wire, f"{group.name}/settings")
    assert "hub not reached" in away
    assert f"ConfigMap {settings['metadata']['namespace']}/settings: on the host" in away

    hub_wire.restore()
    lab.add_node(group)
    within(BACKED_OFF_S, _is_younger, lab, group.name, before)
    within(BACKED_OFF_S, _shows_status, url, "now")
    here = _explain(lab, agent, hub_wire, f"{group.name}/configmap/{lab.id}/settings")
    assert "Applied=True" in here
    assert "status written 20" in here
    assert "Cluster, as of 20" in here


def _explain(lab: Lab, agent: Agent, wire: Proxy, what: str) -> str:
    where = ("--karmada-kubeconfig", str(wire.kubeconfig), "--kubeconfig", str(lab.host.kubeconfig))
    return told("explain", what, "--config", str(agent.config), *where)


def _has_both_ages(lab: Lab, name: str) -> None:
    assert {OBSERVED_AT, HUB_CONTACT} <= lab.cluster(name)["metadata"]["annotations"].keys()


def _is_younger(lab: Lab, name: str, before: str) -> None:
    assert lab.cluster(name)["metadata"]["annotations"][OBSERVED_AT] > before


def _shows(text: str, part: str) -> None:
    assert part in text, text


def _shows_status(url: tuple[str, ...], part: str) -> Any:
    _shows(told("status", *url), part)
