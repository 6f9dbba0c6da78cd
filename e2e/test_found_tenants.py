"""NodeGroups as tenants who do not trust each other: found, named at `join`, and held apart."""

import pytest

from e2e.lab import accounts, objects
from e2e.lab.api import Api, Object, collection, path_of
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.node_groups import NodeGroups
from e2e.lab.wait import PERIODIC_S, within
from e2e.lab.works import condition


@pytest.mark.strict
def test_discovered_tenants_have_their_own_accounts_and_are_separated(
    lab: Lab, node_groups: NodeGroups
) -> None:
    of_file, first, second = lab.group("a"), lab.group("b"), lab.group("c")
    for group in (first, second):
        node_groups.apply(group.name, nodes=group.nodes)
    settings = {"allow": ["ExternalDNS"]}
    found = {"enabled": True, "selector": node_groups.selector, "settings": settings}
    agent = lab.new_agent(of_file, flags=FAST, tenancy="Strict", nodeGroups=found)
    agent.extra_names += [first.name, second.name]
    agent.start()
    for group in (of_file, first, second):
        lab.wait_ready(group.name)

    # What they propagate is written by their own accounts.
    template = objects.config_map(lab.namespace(), "settings", key="1")
    lab.propagate([template], first, second)
    lab.wait_fully_applied(template)
    for group in (first, second):
        lab.on_host(template, group)
        assert lab.host.get(_account(agent.namespace, group, agent.name))

    # What may reach a neighbour is refused, as for tenants of the settings file.
    within(PERIODIC_S, _is_refused, lab, lab.create_work(first, "disk", _disk_of_the_host(lab)))
    assert "Traceback" not in agent.log()

    # Policies know what the settings allow them, and nothing else.
    for group in (first, second):
        tenant = _tenant(lab, group)
        named, addressed = _services(group.host_namespace(lab.namespaces[0]))
        within(PERIODIC_S, _is_denied, tenant, addressed, "LoadBalancerAddresses")
        assert not tenant.refusal(named)
        within(PERIODIC_S, _is_confined, lab, group)
    named, _ = _services(of_file.host_namespace(lab.namespaces[0]))
    within(PERIODIC_S, _is_denied, _tenant(lab, of_file), named, "ExternalDNS")

    # Another `join` by the settings alone keeps them.
    agent.extra_names.clear()
    agent.join()
    lab.hub.patch(path_of(template), {"data": {"key": "2"}})
    for group in (first, second):
        lab.wait_data(template, group, key="2")


def _account(namespace: str, group: Group, agent: str) -> str:
    return f"{collection('v1', 'ServiceAccount', namespace)}/{group.name}.{agent}"


def _services(namespace: str) -> tuple[Object, Object]:
    """Return a Service with a public name, and one with an address of the host."""
    named, addressed = objects.service(namespace, "named"), objects.service(namespace, "addressed")
    name = {"external-dns.alpha.kubernetes.io/hostname": "shop.example.com"}
    named["metadata"]["annotations"] = name
    addressed["spec"] |= {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.1"}
    return named, addressed


def _tenant(lab: Lab, group: Group) -> Api:
    """Return somebody with all that a tenant may do in a namespace of a virtual cluster."""
    namespace = group.host_namespace(lab.namespaces[0])
    tenant = accounts.service_account(lab.host, namespace, "tenant", lab.directory)
    lab.host.create(
        accounts.role_binding(namespace, "admin", accounts.subject(namespace, "tenant"))
    )
    return tenant


def _is_denied(tenant: Api, obj: Object, guard: str) -> None:
    """Assert that a policy denies it; rights and policies take effect a moment after a write."""
    assert f"allow: [{guard}]" in tenant.refusal(obj)


def _is_confined(lab: Lab, group: Group) -> None:
    confined = condition(lab.cluster(group.name), "RightsConfined")
    assert confined["status"] == "True", confined


def _disk_of_the_host(lab: Lab) -> Object:
    """Return a volume that is a directory of whichever node has the pod."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{lab.id}-disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": lab.namespaces[0], "name": "disk"},
            "hostPath": {"path": "/data"},
        },
    }


def _is_refused(lab: Lab, work: str) -> None:
    applied = condition(lab.hub.get(work), "Applied")
    assert applied["status"] == "False", applied
    assert "HostPath" in applied["message"], applied
