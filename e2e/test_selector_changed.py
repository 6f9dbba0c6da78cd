"""A group gets other nodes while things run: what can move moves, the rest ends where it is."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import FAST, NODES, QUICK_LEASE, Group, Lab
from e2e.lab.wait import THROUGH_HUB_S, wait_until_deleted, within
from e2e.lab.works import condition

RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
SUCCEEDED = {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_deployments_move_and_what_cannot_ends_where_it_runs_and_is_reported(
    lab: Lab, *, is_restarted: bool
) -> None:
    quick, slow = {f"{lab.id}/quick": ""}, {f"{lab.id}/slow": ""}
    generation = {f"{lab.id}/generation": "2"}
    group = lab.group("a", nodes=0)
    lab.add_node(group, labels=quick)
    held = _add_node_of_the_test(lab, group, slow)
    agent = lab.serve(group, flags=(*FAST, *QUICK_LEASE), installPolicies=True)
    namespace = lab.namespace()
    web = objects.deployment(namespace, node_selector=quick)
    once = objects.job(namespace)
    once["spec"]["template"]["spec"]["nodeSelector"] = slow
    alone = _pod(namespace, "alone", nodeSelector=quick)
    lab.propagate([web, once, alone], group)
    lab.wait_status(web, readyReplicas=2)
    home = group.host_namespace(namespace)

    def running_pod() -> Object:
        _set_ready(lab, held)  # without a kubelet the host takes it for lost after a while
        return _job_pod(lab, home, held)

    running = within(THROUGH_HUB_S, running_pod)
    lab.host.patch(f"{path_of(running)}/status", {"status": RUNNING})
    ending = _pod(home, "operated", nodeSelector=group.selector | quick)
    ending["metadata"]["finalizers"] = [f"{lab.id}/wait"]
    ending = lab.host.create(ending)
    lab.host.delete(path_of(ending), force=True)
    before = {t["kind"]: _identity(lab.on_host(t, group)) for t in (once, alone)}

    newer = lab.add_node(group, labels=quick | slow | generation)
    agent.settings["virtualClusters"] = [
        {"name": group.name, "nodeSelector": {"matchLabels": group.selector | generation}}
    ]
    if is_restarted:
        agent.restart()
    else:
        agent.reload()
    within(THROUGH_HUB_S, _all_run_on, lab, home, "web", newer)
    lab.wait_status(web, readyReplicas=2, updatedReplicas=2)
    for template, spec in ((once, "spec.template.spec"), (alone, "spec")):
        text = (
            f"{spec}.nodeSelector cannot be changed to select {lab.id}/generation=2; the object "
            "stays where it is: to move it, delete and recreate it"
        )
        within(THROUGH_HUB_S, _is_reported_immutable, lab, group, template, text)
        assert _identity(lab.on_host(template, group)) == before[template["kind"]]

    lab.host.patch(path_of(ending), {"metadata": {"finalizers": None}})
    wait_until_deleted(lab.host, path_of(ending))
    still = lab.host.get(path_of(running))
    assert still["status"]["phase"] == "Running"
    lab.host.patch(f"{path_of(running)}/status", {"status": SUCCEEDED})
    # Karmada shows no status of what is not applied: the Work has it all the same.
    within(THROUGH_HUB_S, _has_succeeded, lab, group, once)

    lab.hub.delete(path_of(once))
    wait_until_deleted(lab.host, lab.host_path(once, group))
    lab.hub.create(once)
    lab.wait_fully_applied(once)
    within(THROUGH_HUB_S, _job_pod, lab, home, newer)


def _add_node_of_the_test(lab: Lab, group: Group, labels: dict[str, str]) -> str:
    """Add a node whose pods run until the test ends them: kwok completes those of Jobs at once."""
    name = lab.add_node(group, labels=labels, is_simulated=False)
    _set_ready(lab, name)
    return name


def _set_ready(lab: Lab, node: str) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "set by the test"}
    lab.host.patch(f"{NODES}/{node}/status", {"status": {"conditions": [ready]}})


def _pod(namespace: str, name: str, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "app", "image": objects.IMAGE}]} | spec,
    }


def _identity(live: Object) -> tuple[str, bool]:
    """Return the UID, and whether it goes."""
    return live["metadata"]["uid"], "deletionTimestamp" in live["metadata"]


def _job_pod(lab: Lab, home: str, node: str) -> Object:
    [pod] = lab.host.list(collection("v1", "Pod", home), "batch.kubernetes.io/job-name=once")
    assert pod["spec"]["nodeName"] == node
    return pod | {"apiVersion": "v1", "kind": "Pod"}


def _has_succeeded(lab: Lab, group: Group, job: Object) -> None:
    [entry] = _work_of(lab, group, job)["status"]["manifestStatuses"]
    assert entry["status"].get("succeeded") == 1, entry
    assert condition(entry, "Complete")["status"] == "True"


def _work_of(lab: Lab, group: Group, template: Object) -> Object:
    [work] = [
        work
        for work in lab.works(group)
        for manifest in work["spec"]["workload"]["manifests"]
        if manifest["metadata"]["name"] == template["metadata"]["name"]
    ]
    return work


def _all_run_on(lab: Lab, home: str, app: str, node: str) -> None:
    pods = lab.host.list(collection("v1", "Pod", home), f"app={app}")
    assert [pod["spec"].get("nodeName") for pod in pods] == [node, node]


def _is_reported_immutable(lab: Lab, group: Group, template: Object, text: str) -> None:
    """Assert what the ResourceBinding says: it is what the user sees."""
    metadata = template["metadata"]
    bindings = collection("work.karmada.io/v1alpha2", "ResourceBinding", metadata["namespace"])
    binding = lab.hub.get(f"{bindings}/{metadata['name']}-{template['kind'].lower()}")
    [item] = binding["status"]["aggregatedStatus"]
    assert item.get("applied", False) is False
    assert item["appliedMessage"] == (
        f'Failed to apply all manifests (0/1): virtual cluster "{group.name}" refused '
        f"{template['kind']} {metadata['namespace']}/{metadata['name']}: Immutable: {text}"
    )
