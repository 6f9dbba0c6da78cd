"""Events of the host that tenants and nodes forge: neither hub nor agent nor neighbours notice."""

import re
import time
from pathlib import Path

import pytest

from e2e.lab import accounts, objects
from e2e.lab.agent import Agent
from e2e.lab.api import Api, ApiError, Object, path_of
from e2e.lab.endpoints import Endpoints
from e2e.lab.host_events import event_of_template, pods, reasons, report, warning
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import PERIODIC_S, within

DOMAIN = "virtualcluster.kubeedge.io"
DENIED_FOR_S = 35.0
"""Longer than a right may be missing before readiness names it."""
LOOKS = 120
"""Events after which others of their virtual cluster wait."""
LONG = 60
MEGABYTE = 2**20
MEMORY_MIB = 80
"""By how much the agent may grow; kept as they are, those texts take four times their size."""
PROMPT_S = 60.0


@pytest.fixture
def scene(lab: Lab) -> tuple[Agent, Endpoints, Group, Group]:
    mine, theirs = lab.group("a"), lab.group("b")
    endpoints = Endpoints.new()
    agent = lab.serve(mine, theirs, flags=(*FAST, *endpoints.flags()))
    return agent, endpoints, mine, theirs


def tenant_of(lab: Lab, home: str) -> Api:
    """Return a client with all rights that a virtual cluster may grant in a namespace."""
    tenant = accounts.service_account(lab.host, home, "tenant", lab.directory)
    subject = accounts.subject(home, "tenant")
    lab.host.create(accounts.role_binding(home, "virtual-cluster-admin", subject))
    within(PERIODIC_S, tenant.list, f"/api/v1/namespaces/{home}/events")
    return tenant


def named(kind: str, namespace: str, name: str, **metadata: object) -> Object:
    place = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": kind, "metadata": place | metadata}


def test_name_that_is_a_path_or_an_owner_elsewhere_is_not_followed(
    lab: Lab, scene: tuple[Agent, Endpoints, Group, Group]
) -> None:
    """The log of a pod, for example, is a text of its own choice, and as long as it likes."""
    agent, _, mine, _ = scene
    namespace = lab.namespace()
    home = mine.host_namespace(namespace)
    template = objects.deployment(namespace, replicas=1)
    role = accounts.cluster_role(f"{lab.id}-reader")
    lab.propagate([template], mine)
    lab.wait_applied(lab.create_work(mine, "role", role))
    (pod,) = pods(lab, mine, namespace, 1)
    tenant = tenant_of(lab, home)

    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    for path in (f"{name}/status", f"{name}/log", f"{name}/proxy/", ".", "..", f"../pods/{name}"):
        for metadata in ({}, {"uid": uid}):
            about = named("Pod", home, path, **metadata)
            tenant.create(warning(about, "Injected", "something to read"))
    role["metadata"]["name"] += f"-v-{mine.name}"
    owner = lab.host.get(path_of(role))["metadata"]
    reference: Object = {key: owner[key] for key in ("name", "uid")} | {"controller": True}
    reference |= {"apiVersion": role["apiVersion"], "kind": "ClusterRole"}
    owned = objects.config_map(home, "owned")
    owned["metadata"]["ownerReferences"] = [reference]
    tenant.create(warning(tenant.create(owned), "Injected", "something to read"))

    report(lab, pod, "Genuine", "at the end")
    within(PERIODIC_S, event_of_template, lab.hub, template, "Genuine")
    assert reasons(lab.hub, namespace) == {"Genuine"}
    assert "Failed to reconcile" not in agent.log()


def test_kind_that_the_agent_may_not_read_is_no_right_that_it_lacks(
    lab: Lab, scene: tuple[Agent, Endpoints, Group, Group]
) -> None:
    _, endpoints, mine, _ = scene
    home = mine.host_namespace(lab.namespace())
    within(PERIODIC_S, lab.host.get, f"/api/v1/namespaces/{home}")
    tenant = tenant_of(lab, home)
    bound = named("Binding", home, "none")
    until = time.monotonic() + DENIED_FOR_S
    while time.monotonic() < until:
        tenant.create(warning(bound, "Injected", "something to read"))
        time.sleep(2.0)
    assert endpoints.ask("/readyz") == (200, "ok")


def test_long_texts_take_no_memory_and_delay_no_neighbour(
    lab: Lab, scene: tuple[Agent, Endpoints, Group, Group]
) -> None:
    agent, _, mine, theirs = scene
    namespace, other = lab.namespace("-1"), lab.namespace("-2")
    home = mine.host_namespace(namespace)
    template = objects.deployment(other, replicas=1)
    lab.propagate([objects.deployment(namespace, replicas=1)], mine)
    lab.propagate([template], theirs)
    (pod,), (calm,) = pods(lab, mine, namespace, 1), pods(lab, theirs, other, 1)
    tenant = tenant_of(lab, home)

    before = _memory_mib(agent)
    for number in range(LOOKS):
        tenant.create(warning(named("Pod", home, f"none-{number}"), "Injected", "x"))
    text = "\N{GRINNING FACE}" + "x" * MEGABYTE
    for number in range(LONG):
        tenant.create(warning(pod, f"Long{chr(97 + number % 26)}", f"{number} {text}"))
    tenant.create(warning(named("Pod", home, "x" * MEGABYTE), "Injected", "x"))
    report(lab, calm, "Failed", "no such image")
    within(PROMPT_S, event_of_template, lab.hub, template, "Failed")
    assert _memory_mib(agent) - before < MEMORY_MIB
    assert agent.is_running()


def _memory_mib(agent: Agent) -> int:
    """Return the most memory that an agent had."""
    status = Path(f"/proc/{agent.process_id}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) >> 10


def test_node_reports_what_it_runs_and_nothing_else(
    lab: Lab, scene: tuple[Agent, Endpoints, Group, Group]
) -> None:
    """Kubernetes lets every kubelet write Events, in all namespaces."""
    _, _, mine, theirs = scene
    namespace, other = lab.namespace("-1"), lab.namespace("-2")
    lab.propagate([template := objects.deployment(namespace, replicas=1)], mine)
    lab.propagate([victim := objects.deployment(other, replicas=1)], theirs)
    (pod,), (foreign,) = pods(lab, mine, namespace, 1), pods(lab, theirs, other, 1)
    kubelet = lab.host.acting_as(f"system:node:{mine.nodes[0]}", "system:nodes")
    home = theirs.host_namespace(other)
    for about in (foreign, {**victim, "metadata": {"namespace": home, "name": "web"}}):
        with pytest.raises(ApiError, match="node-events"):
            kubelet.create(warning(about, "Injected", "something to read"))
    theirs_told = report(lab, foreign, "Genuine", "theirs")
    with pytest.raises(ApiError, match="node-events"):
        kubelet.patch(path_of(theirs_told), {"message": "something to read"})

    made = kubelet.create(warning(pod, "Failed", "no such image"))
    kubelet.patch(path_of(made), {"count": 2})
    within(PERIODIC_S, event_of_template, lab.hub, template, "Failed")
    within(PERIODIC_S, event_of_template, lab.hub, victim, "Genuine")
    assert reasons(lab.hub, other) == {"Genuine"}
