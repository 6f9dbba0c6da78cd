"""Kinds that a branch may have, its isolated network and its pod-security level."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object, collection, path_of
from e2e.lab.lab import Group, Lab
from e2e.lab.wait import PERIODIC_S, eventually, wait_until_deleted, within
from e2e.lab.works import condition

LEVEL = "pod-security.kubernetes.io/enforce"


def test_denied_kinds_are_not_scheduled_and_not_applied(lab: Lab) -> None:
    group, other = lab.group("a"), lab.group("b")
    lab.serve(group.settings(deniedKinds=["Secret", "networking.k8s.io/*"]), other)
    within(PERIODIC_S, _lacks_denied_kinds, lab, group, other)
    namespace = lab.namespace()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token", "namespace": namespace},
    }
    lab.propagate([secret], group, other)
    lab.on_host(secret, other)
    assert lab.host.find(lab.host_path(secret, group)) is None
    lab.wait_applied(
        lab.create_work(group, "secret", secret),
        "False",
        "Failed to apply all manifests (0/1): "
        f'virtual cluster "{group.name}" refused Secret {namespace}/token: KindForbidden: '
        "kind Secret is not allowed in this virtual cluster",
    )


def test_kind_denied_later_is_removed_with_its_work(lab: Lab) -> None:
    group = lab.group("a")
    agent = lab.serve(group)
    settings = objects.config_map(lab.namespace())
    work = lab.create_work(group, "settings", settings)
    lab.on_host(settings, group)
    agent.kill()
    agent.settings["virtualClusters"] = [group.settings(allowedKinds=["apps/*"])]
    agent.start()
    lab.wait_applied(work, "False")
    assert lab.host.get(lab.host_path(settings, group))
    lab.hub.delete(work)
    wait_until_deleted(lab.host, lab.host_path(settings, group))


@pytest.mark.smoke
def test_namespaces_are_isolated_and_have_their_level(lab: Lab) -> None:
    group = lab.group("a")
    isolated = {"networkPolicy": "isolate", "podSecurity": "baseline"}
    agent = lab.serve(group.settings(**isolated), podCIDRs=["10.244.0.0/16"])
    found = condition(lab.cluster(group.name), "NetworkIsolation")
    assert (found["status"], found["reason"]) == ("Unknown", "PolicyInPlace")
    namespace = lab.namespace()
    settings = objects.config_map(namespace)
    lab.propagate([settings], group)
    host = group.host_namespace(namespace)
    policy = collection("networking.k8s.io/v1", "NetworkPolicy", host) + "/vc-isolation"
    made = eventually(lab.host.get, policy)
    assert made["spec"]["policyTypes"] == ["Ingress"]
    own = {"apiVersion": made["apiVersion"], "kind": made["kind"], "spec": made["spec"]}
    forged = own | {"metadata": {"name": "vc-isolation", "namespace": namespace}}
    refused = lab.wait_applied(lab.create_work(group, "forged", forged), "False")
    assert "NameReserved" in condition(refused, "Applied")["message"]

    lab.host.patch(policy, {"spec": {"ingress": [{}]}})
    lab.host.patch(f"/api/v1/namespaces/{host}", {"metadata": {"labels": {LEVEL: "privileged"}}})

    def is_put_right() -> None:
        assert lab.host.get(policy)["spec"] == made["spec"]
        assert lab.host.get(f"/api/v1/namespaces/{host}")["metadata"]["labels"][LEVEL] == "baseline"

    eventually(is_put_right)
    lab.wait_data(settings, group, key="value")

    agent.kill()
    agent.settings["virtualClusters"] = [group.settings()]
    agent.start()
    wait_until_deleted(lab.host, policy)

    def is_given_up() -> None:
        labels = lab.host.get(f"/api/v1/namespaces/{host}")["metadata"]["labels"]
        assert LEVEL not in labels
        assert condition(lab.cluster(group.name), "NetworkIsolation")["status"] == "False"

    eventually(is_given_up)


def test_level_of_the_settings_wins_over_that_of_a_template(lab: Lab) -> None:
    group = lab.group("a")
    lab.serve(group.settings(podSecurity="baseline"))
    namespace = lab.namespace()
    path = f"/api/v1/namespaces/{group.host_namespace(namespace)}"

    def has(**labels: str) -> None:
        found = lab.host.get(path)["metadata"]["labels"]
        assert {key: found.get(key) for key in (LEVEL, *labels)} == {LEVEL: "baseline", **labels}

    eventually(has)
    lab.hub.patch(
        path_of(objects.namespace(namespace)),
        {"metadata": {"labels": {LEVEL: "privileged", "seen": "yes"}}},
    )
    eventually(has, seen="yes")


def _lacks_denied_kinds(lab: Lab, group: Group, other: Group) -> None:
    """Compare; kinds of other stories come and go, and are reported of one after the other."""
    shown, all_shown = (_kinds(lab.cluster(each.name)) for each in (group, other))
    assert all_shown - shown == {
        ("v1", "Secret"),
        ("networking.k8s.io/v1", "Ingress"),
        ("networking.k8s.io/v1", "IngressClass"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
    }


def _kinds(cluster: Object) -> set[tuple[str, str]]:
    return {
        (group["groupVersion"], resource["kind"])
        for group in cluster["status"]["apiEnablements"]
        for resource in group.get("resources") or []
    }
