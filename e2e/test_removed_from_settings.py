"""A virtual cluster that is no longer in the settings is left as it is, and so are the others."""

from e2e.lab import objects
from e2e.lab.api import collection, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, settled, within

KINDS = (("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"), ("v1", "Pod"), ("v1", "ConfigMap"))


def test_a_cluster_taken_out_of_the_settings_keeps_all_it_has_and_the_others_go_on(
    lab: Lab,
) -> None:
    kept, removed = lab.group("kept"), lab.group("removed")
    agent = lab.serve(kept, removed)
    name = lab.namespace()
    templates = [objects.deployment(name), objects.config_map(name)]
    lab.propagate(templates, kept, removed)
    lab.wait_status(templates[0], availableReplicas=4)
    for template in templates:
        lab.wait_fully_applied(template)
    lab.wait_namespace_sent(name, kept, removed)
    before = settled(_versions_by_cluster, lab, (kept, removed), name)

    agent.terminate()
    agent.settings["virtualClusters"] = [kept.settings()]
    agent.start()
    marker = objects.config_map(name, "marker", key="1")
    lab.propagate([marker], kept)
    lab.wait_fully_applied(marker)
    lab.hub.patch(path_of(marker), {"data": {"key": "2"}})
    lab.wait_data(marker, kept, key="2")

    after = _versions_by_cluster(lab, (kept, removed), name)
    assert after[removed.name] == before[removed.name]
    assert before[kept.name].items() <= after[kept.name].items()
    lab.wait_ready(kept.name)
    warnings = [line for line in agent.log().splitlines() if "WARN" in line]
    assert any(removed.name in line for line in warnings), warnings
    assert not any(kept.name in line for line in warnings), warnings


def test_a_cluster_put_back_into_the_settings_is_served_again(lab: Lab) -> None:
    kept, removed = lab.group("kept"), lab.group("removed")
    agent = lab.serve(kept, removed)
    template = objects.config_map(lab.namespace())
    lab.propagate([template], removed)
    lab.wait_fully_applied(template)
    uid = lab.on_host(template, removed)["metadata"]["uid"]
    both = agent.settings["virtualClusters"]
    agent.terminate()
    agent.settings["virtualClusters"] = [kept.settings()]
    agent.start()
    within(PERIODIC_S, lambda: _is_left_out(agent.log(), removed))
    agent.terminate()
    lab.hub.patch(path_of(template), {"data": {"key": "new"}})
    agent.settings["virtualClusters"] = both
    agent.start()
    lab.wait_data(template, removed, key="new")
    assert lab.on_host(template, removed)["metadata"]["uid"] == uid


def _versions_by_cluster(
    lab: Lab, groups: tuple[Group, ...], namespace: str
) -> dict[str, dict[str, tuple[str, str]]]:
    return {group.name: _versions(lab, group, namespace) for group in groups}


def _versions(lab: Lab, group: Group, namespace: str) -> dict[str, tuple[str, str]]:
    """Return uid and resourceVersion of Works, host namespace and host objects of a group."""
    host_namespace = group.host_namespace(namespace)
    found = {"Namespace": lab.host.get(f"/api/v1/namespaces/{host_namespace}")}
    for api_version, kind in KINDS:
        for obj in lab.host.list(collection(api_version, kind, host_namespace)):
            found[f"{kind}/{obj['metadata']['name']}"] = obj
    for work in lab.works(group):
        manifest = work["spec"]["workload"]["manifests"][0]["metadata"]
        if namespace in (manifest.get("namespace"), manifest["name"]):
            found[f"Work/{work['metadata']['name']}"] = work
    assert len(found) > len(KINDS)
    return {
        key: (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
        for key, obj in found.items()
    }


def _is_left_out(log: str, group: Group) -> None:
    assert "Not serving a virtual cluster that is no longer in the settings" in log
    assert group.name in log
