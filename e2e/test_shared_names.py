"""Hosts and classes that virtual clusters share: told, or refused where the settings say so."""

from e2e.lab import objects
from e2e.lab.api import Object, collection
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import BACKED_OFF_S, within
from e2e.lab.works import execution_namespace

HOST_PATH = "spec.rules[0].host"


def test_second_of_one_host_and_immediately_bound_class_are_reported(lab: Lab) -> None:
    first, second = lab.group("a"), lab.group("b")
    lab.serve(first, second)
    ingress = _ingress(lab.namespace(), f"{lab.id}.example.com")
    lab.wait_applied(lab.create_work(first, "web", ingress))
    lab.wait_applied(lab.create_work(second, "web", ingress))
    within(
        BACKED_OFF_S,
        _has_been_reported,
        lab,
        second,
        "HostShared",
        f"host {lab.id}.example.com is also used by another",
    )
    assert [text for _, text in _events(lab, first) if "is also used by another" in text] == []
    assert first.name not in " ".join(text for _, text in _events(lab, second))
    for group in (first, second):
        assert lab.on_host(ingress, group)["spec"]["rules"][0]["host"] == f"{lab.id}.example.com"

    storage = _storage_class(lab.id)
    work = lab.create_work(first, "storage", storage)
    lab.wait_applied(work)
    within(
        BACKED_OFF_S, _has_been_reported, lab, first, "ImmediateBinding", "set volumeBindingMode"
    )
    lab.hub.delete(work)
    path = f"{collection('storage.k8s.io/v1', 'StorageClass')}/{lab.id}"
    within(BACKED_OFF_S, _was_deleted, lab, path)


def test_a_refused_host_is_applied_once_the_other_gives_it_up(lab: Lab) -> None:
    first, second = lab.group("a"), lab.group("b")
    agent = lab.serve(first, second, refuseSharedHosts=True)
    namespace = lab.namespace()
    ingress = _ingress(namespace, f"{lab.id}.example.com")
    holder = lab.create_work(first, "web", ingress)
    lab.wait_applied(holder)
    work = lab.create_work(second, "web", ingress)
    lab.wait_applied(
        work,
        "False",
        f'Failed to apply all manifests (0/1): virtual cluster "{second.name}" refused Ingress '
        f'{namespace}/web: SharedHostConflict: {HOST_PATH} "{lab.id}.example.com" is used by '
        'another virtual cluster; an administrator can allow it with "allow: [SharedHosts]"',
    )
    refused = f'virtual cluster "{second.name}" refused Ingress'
    within(BACKED_OFF_S, _has_been_reported, lab, second, "SharedHostConflict", refused)

    agent.restart()
    lab.wait_serving(agent)
    lab.wait_applied(lab.create_work(second, "other", objects.config_map(namespace)))
    lab.wait_applied(work, "False")
    assert lab.host.find(lab.host_path(ingress, second)) is None

    lab.hub.delete(holder)
    lab.wait_applied(work)
    assert lab.on_host(ingress, second)["spec"]["rules"][0]["host"] == f"{lab.id}.example.com"


def _ingress(namespace: str, host: str) -> Object:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"rules": [{"host": host, "http": {"paths": paths}}]},
    }


def _storage_class(name: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/none",
        "volumeBindingMode": "Immediate",
    }


def _events(lab: Lab, group: Group) -> list[tuple[str, str]]:
    found = lab.hub.list(collection("v1", "Event", execution_namespace(group.name)))
    return [(event["reason"], event["message"]) for event in found]


def _has_been_reported(lab: Lab, group: Group, reason: str, words: str) -> None:
    told = [text for code, text in _events(lab, group) if code == reason]
    assert any(words in text for text in told), told


def _was_deleted(lab: Lab, path: str) -> None:
    assert lab.host.find(path) is None
