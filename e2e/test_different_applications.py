"""Different applications to different virtual clusters."""

import pytest

from e2e.lab import objects
from e2e.lab.api import Object
from e2e.lab.lab import Lab

pytestmark = pytest.mark.shared_agent


def test_each_cluster_gets_its_own_application_and_not_the_other(lab: Lab) -> None:
    group_a, group_b = lab.group("a"), lab.group("b")
    lab.serve(group_a, group_b)
    namespace = lab.namespace()
    shop = objects.deployment(namespace, "shop", replicas=1)
    depot = objects.deployment(namespace, "depot", replicas=1)
    lab.propagate([shop], group_a)
    lab.propagate([depot], group_b)
    for template, here, there in ((shop, group_a, group_b), (depot, group_b, group_a)):
        lab.wait_fully_applied(template)
        assert lab.on_host(template, here)
        assert lab.host.find(lab.host_path(template, there)) is None


def test_objects_of_an_application_follow_it(lab: Lab) -> None:
    group_a, group_b = lab.group("a"), lab.group("b")
    lab.serve(group_a, group_b)
    namespace = lab.namespace()
    shop = [
        objects.deployment(namespace, "shop", replicas=1),
        objects.service(namespace, "shop"),
        objects.config_map(namespace, "shop", colour="red"),
    ]
    lab.propagate(shop, group_a)
    for template in shop:
        lab.wait_fully_applied(template)
        lab.on_host(template, group_a)
        assert lab.host.find(lab.host_path(template, group_b)) is None


@pytest.mark.smoke
def test_one_template_differs_by_cluster_through_an_override(lab: Lab) -> None:
    groups = {"red": lab.group("a"), "blue": lab.group("b")}
    lab.serve(*groups.values())
    template = objects.config_map(lab.namespace(), "theme", colour="none")
    lab.hub.create(_override(template, {colour: g.name for colour, g in groups.items()}))
    lab.propagate([template], *groups.values())
    for colour, group in groups.items():
        lab.wait_data(template, group, colour=colour)


def _override(template: Object, clusters: dict[str, str]) -> Object:
    rules = [
        {
            "targetCluster": {"clusterNames": [cluster]},
            "overriders": {
                "plaintext": [{"path": "/data/colour", "operator": "replace", "value": colour}]
            },
        }
        for colour, cluster in clusters.items()
    ]
    metadata = template["metadata"]
    selector = {"apiVersion": "v1", "kind": template["kind"], "name": metadata["name"]}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "OverridePolicy",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        "spec": {"resourceSelectors": [selector], "overrideRules": rules},
    }
