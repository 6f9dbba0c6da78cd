"""Builds the scene of the attempts: two branches that one agent serves, in either profile."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.escapes.attempt import POD_CIDR, Scene, answer
from e2e.escapes.by_hand import ALLOWED
from e2e.escapes.by_profile import OPENED, extensions, scene_definition, widgets
from e2e.lab import accounts
from e2e.lab.api import Api, Object, collection, path_of
from e2e.lab.gateway import Gateway, Way
from e2e.lab.lab import Group, Lab
from e2e.lab.node_groups import serve_node_groups
from e2e.lab.operated_site import kubeconfig_of
from e2e.lab.wait import GONE_S, STARTED_S, within
from e2e.lab.works import condition


@contextmanager
def served(lab: Lab, tenancy: str) -> Iterator[Scene]:
    """Serve two branches and their gateway; a tenant of one has all rights in its namespace.

    A third one has a name that ends as namespaces of the first do.
    """
    mine, theirs = lab.group("a"), lab.group("b")
    alike = Group(f"b-v-{mine.name}", {lab.label: "c"})
    lab.add_node(alike)
    definition = scene_definition(tenancy)
    serve_node_groups(lab.host)
    for each in (definition, *extensions()):
        within(GONE_S, _is_served, lab, each)
    shared = f"apiextensions.k8s.io/CustomResourceDefinition/{widgets(lab)['metadata']['name']}"
    named = f"storage.k8s.io/StorageClass/{lab.id}-secret"
    gateway = Gateway(lab, Way(lab.directory, by_proxy=False))
    agent = lab.serve(
        mine.settings(podSecurity="baseline", quota={"pods": 100}, allow=[shared, named, OPENED]),
        theirs.settings(allow=[*ALLOWED, shared]),
        alike,
        tenancy=tenancy,
        podCIDRs=[POD_CIDR, "2001:db8:51::/64"],
        gateway=gateway.settings,
    )
    lab.namespace()
    home = mine.host_namespace("default")
    for group in (mine, theirs):
        for name in (lab.id, "default"):
            accounts_path = collection("v1", "ServiceAccount", group.host_namespace(name))
            within(STARTED_S, lab.host.get, f"{accounts_path}/default")
    within(STARTED_S, _is_enforced, lab, mine.name)
    within(STARTED_S, _has_its_share, lab, home)
    tenant = accounts.service_account(lab.host, home, "tenant", lab.directory)
    subject = accounts.subject(home, "tenant")
    lab.host.create(accounts.role_binding(home, "cluster-admin", subject))
    within(
        STARTED_S, tenant.patch, f"/api/v1/namespaces/{home}", {"metadata": {}}
    )  # changes nothing
    gateway.start(agent)
    try:
        operator = Api(within(STARTED_S, kubeconfig_of, lab, agent, mine, "operator"))
        within(STARTED_S, operator.get, "/api/v1/namespaces/default")
        yield Scene(lab, mine, theirs, home, tenant, operator, tenancy)
    finally:
        gateway.stop()


def _is_served(lab: Lab, definition: Object) -> None:
    """Have the host serve a kind; another process may just be deleting its definition."""
    answer(str, lab.host.create, definition)
    assert "deletionTimestamp" not in lab.host.get(path_of(definition))["metadata"]
    spec = definition["spec"]
    version = spec["versions"][0]["name"]
    lab.host.get(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")


def _has_its_share(lab: Lab, home: str) -> None:
    quota = lab.host.get(f"{collection('v1', 'ResourceQuota', home)}/vc-quota")
    assert quota["status"]["hard"]["pods"] != "0"


def _is_enforced(lab: Lab, cluster: str) -> None:
    assert condition(lab.cluster(cluster), "PlacementEnforced")["reason"] == "PodsKept"
