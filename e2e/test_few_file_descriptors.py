"""An agent that may have few files open keeps its virtual clusters right all the same."""

from typing import Any

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.lab import FAST, Group, Lab
from e2e.lab.wait import BACKED_OFF_S, within
from karmada_vc_agent.kube.flows import RESERVED_FILES
from karmada_vc_agent.runner.clients import POOLED

WATCHES = 20
FILES = RESERVED_FILES + POOLED + WATCHES


def test_drift_is_repaired_with_few_file_descriptors(lab: Lab) -> None:
    groups = [lab.group(letter) for letter in "abc"]
    agent = lab.new_agent(*groups, flags=FAST)
    agent.open_files = FILES
    agent.start()
    lab.wait_serving(agent)
    assert f"limit={FILES} " in agent.log()
    templates = _of_many_kinds(lab.namespace())
    works = [lab.create_work(group, "many", *templates) for group in groups]
    for work in works:
        lab.wait_applied(work)

    deleted = {
        lab.host_path(template, group): _delete(lab, group, template)
        for group in groups
        for template in templates
    }
    for path, uid in deleted.items():
        within(BACKED_OFF_S, _assert_made_again, lab, path, uid)
    for group in groups:
        lab.wait_ready(group.name)
    assert agent.is_running()
    assert "Too many open files" not in agent.log()


def _of_many_kinds(namespace: str) -> list[Object]:
    """Return objects of so many kinds that not all of them can be watched at once."""
    return [
        objects.config_map(namespace),
        objects.service(namespace),
        objects.stateful_set(namespace),
        objects.daemon_set(namespace),
        objects.cron_job(namespace),
        _new("v1", "Secret", namespace, stringData={"key": "value"}),
        _new("v1", "ServiceAccount", namespace),
        _new("v1", "LimitRange", namespace, spec={"limits": []}),
        _new(
            "policy/v1",
            "PodDisruptionBudget",
            namespace,
            spec={"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        ),
        _new("networking.k8s.io/v1", "NetworkPolicy", namespace, spec={"podSelector": {}}),
        _new("rbac.authorization.k8s.io/v1", "Role", namespace, rules=[]),
    ]


def _new(api_version: str, kind: str, namespace: str, **fields: Any) -> Object:
    metadata = {"name": "many", "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | fields


def _delete(lab: Lab, group: Group, template: Object) -> str:
    path = lab.host_path(template, group)
    uid = str(lab.host.get(path)["metadata"]["uid"])
    lab.as_agent().delete(path)
    return uid


def _assert_made_again(lab: Lab, path: str, uid: str) -> None:
    assert lab.host.get(path)["metadata"]["uid"] != uid, f"{path} was not deleted yet"
