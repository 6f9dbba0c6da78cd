"""Names of virtual namespaces in the resolver of a pod, and the rules behind them."""

from typing import Any

import pytest

from karmada_vc_agent.model.objects import Object
from karmada_vc_agent.model.virtual_cluster import HostNamespace, VirtualNamespace
from karmada_vc_agent.translation.placement import rewrite_rules
from karmada_vc_agent.translation.restore import restore
from tests.unit.translation import given

DOMAIN = "branch-a.vc.cluster.local"
SEARCH = given.context(vc={"service_names": "SearchDomain"})
FIRST = given.context(
    vc={"service_names": "VirtualFirst"}, settings={"cluster_dns": ("10.96.0.10",)}
)


def deployment(**pod_spec: Any) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}], **pod_spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "edge"},
        "spec": {"selector": {}, "template": {"metadata": {}, "spec": spec}},
    }


def pod_spec(context: Any, **given_spec: Any) -> Object:
    obj = given.host_object(deployment(**given_spec), context)
    found: Object = obj["spec"]["template"]["spec"]
    return found


def test_nothing_is_injected_by_default() -> None:
    assert "dnsConfig" not in pod_spec(given.context())


def test_search_domain_is_added_after_the_pods_own() -> None:
    assert pod_spec(SEARCH)["dnsConfig"] == {"searches": [DOMAIN]}
    own = {"searches": ["example.com"], "options": [{"name": "ndots", "value": "2"}]}
    assert pod_spec(SEARCH, dnsConfig=own)["dnsConfig"] == {
        **own,
        "searches": ["example.com", DOMAIN],
    }


@pytest.mark.parametrize(
    "pod",
    [{"dnsPolicy": "Default"}, {"dnsPolicy": "None"}, {"hostNetwork": True}],
    ids=["node", "own", "host network"],
)
def test_pod_that_does_not_ask_the_cluster_is_left_alone(pod: dict[str, Any]) -> None:
    for context in (SEARCH, FIRST):
        assert "dnsConfig" not in pod_spec(context, **pod)


def test_pod_on_the_hosts_network_that_asks_the_cluster_gets_it() -> None:
    spec = pod_spec(SEARCH, hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    assert spec["dnsConfig"] == {"searches": [DOMAIN]}


def test_virtual_names_come_before_those_of_the_host() -> None:
    own = {"searches": ["example.com"], "nameservers": ["1.1.1.1"]}
    spec = pod_spec(FIRST, dnsConfig=own)
    assert spec["dnsPolicy"] == "None"
    assert spec["dnsConfig"] == {
        "nameservers": ["10.96.0.10", "1.1.1.1"],
        "searches": [
            "edge-v-branch-a.svc.cluster.local",
            DOMAIN,
            "svc.cluster.local",
            "cluster.local",
            "example.com",
        ],
        "options": [{"name": "ndots", "value": "5"}],
    }
    options = [{"name": "ndots", "value": "2"}]
    assert pod_spec(FIRST, dnsConfig={"options": options})["dnsConfig"]["options"] == options


@pytest.mark.parametrize("context", [SEARCH, FIRST], ids=["search", "first"])
def test_translating_what_was_restored_gives_the_same(context: Any) -> None:
    once = given.host_object(deployment(), context)
    assert given.host_object(restore(once, context), context) == once


def test_rules_map_each_form_of_a_name_the_longest_first() -> None:
    claims = {
        "branch-a": {
            VirtualNamespace("svc"): HostNamespace("svc-v-branch-a"),
            VirtualNamespace("a-v-b"): HostNamespace("a-v-b-v-branch-a--a49913c7bdfd"),
        }
    }
    rules = rewrite_rules("cluster.local", claims)
    suffixes = [line.split()[2:4] for line in rules.splitlines() if "suffix" in line]
    assert suffixes == [
        [f".{ns}{form}.{DOMAIN}.", f".{host}.svc.cluster.local."]
        for form in (".svc.cluster.local", ".svc", "")
        for ns, host in (
            ("a-v-b", "a-v-b-v-branch-a--a49913c7bdfd"),
            ("svc", "svc-v-branch-a"),
        )
    ]


def test_no_claims_need_no_rules() -> None:
    assert rewrite_rules("cluster.local", {"branch-a": {}}) == ""
