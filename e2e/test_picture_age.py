"""How old the hub's picture is, and what the site knows of it: annotations, status, explain."""

import json
import subprocess
import sys
from typing import Any

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.lab import Lab
from e2e.lab.proxy import Proxy
from e2e.lab.wait import BACKED_OFF_S, within

OBSERVED_AT = "virtualcluster.kubeedge.io/observed-at"
HUB_CONTACT = "virtualcluster.kubeedge.io/hub-contact"


def told(*arguments: str) -> str:
    command = [sys.executable, "-m", "karmada_vc_agent", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_picture_has_its_age_on_the_hub_and_at_the_site(lab: Lab, hub_wire: Proxy) -> None:
    group = lab.group("a")
    agent = lab.new_agent(group, hub=hub_wire.kubeconfig).start()
    lab.wait_serving(agent)
    settings = objects.config_map(lab.namespace(), key="1")
    work = lab.create_work(group, "settings", settings)
    lab.wait_applied(work)

    lab.add_node(group)  # the first status cannot tell when the hub was reached before it
    within(BACKED_OFF_S, _has_both_ages, lab, group.name)
    before = lab.cluster(group.name)["metadata"]["annotations"][OBSERVED_AT]
    where = (
        *("--karmada-kubeconfig", str(hub_wire.kubeconfig)),
        *("--kubeconfig", str(lab.host.kubeconfig)),
    )
    within(BACKED_OFF_S, _shows_status, (group.name, *where), f"{group.name}   True    2/2")

    hub_wire.cut()
    within(BACKED_OFF_S, _shows_status, where, "not seen: the hub does not answer")
    what = f"{lab.id}/configmap/settings"
    away = _explain(agent, where, what, group.name, 3)
    assert away.startswith("the hub does not answer")
    assert f"ConfigMap {group.host_namespace(lab.id)}/settings" in away

    hub_wire.restore()
    lab.add_node(group)
    within(BACKED_OFF_S, _is_younger, lab, group.name, before)
    (row,) = json.loads(told("status", group.name, "-o", "json", *where))
    assert row["works"]["applied"] >= 1
    here = _explain(agent, where, f"{group.name}/settings", "", 0)
    assert "Applied=True" in here
    assert "status written" in here
    assert "Lease renewed" in here


def _explain(agent: Agent, where: tuple[str, ...], what: str, cluster: str, code: int) -> str:
    of = ("-C", cluster) if cluster else ()
    arguments = ("explain", what, *of, "--config", str(agent.config), *where)
    command = [sys.executable, "-m", "karmada_vc_agent", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def _has_both_ages(lab: Lab, name: str) -> None:
    assert {OBSERVED_AT, HUB_CONTACT} <= lab.cluster(name)["metadata"]["annotations"].keys()


def _is_younger(lab: Lab, name: str, before: str) -> None:
    assert lab.cluster(name)["metadata"]["annotations"][OBSERVED_AT] > before


def _shows(text: str, part: str) -> None:
    assert part in text, text


def _shows_status(arguments: tuple[str, ...], part: str) -> Any:
    _shows(told("status", *arguments), part)
