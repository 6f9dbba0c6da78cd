"""What the rights that `join` gives allow, asked of the real API servers: this and no more."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from e2e.lab.access import Kubeconfigs
from e2e.lab.api import Api
from e2e.lab.lab import Lab

ANY = "anything"


class Ask(NamedTuple):
    """One question; {own}, {other} stand for virtual clusters of this and of another agent."""

    allowed: bool
    verbs: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


CLUSTERS, WORKS, RBAC = "cluster.karmada.io", "work.karmada.io", "rbac.authorization.k8s.io"
SPACE, FOREIGN = "karmada-es-{own}", "karmada-es-{other}"
ADMISSION = "admissionregistration.k8s.io"
ALL_VERBS = "get list watch create update patch delete deletecollection"

HUB = (
    Ask(True, "create list watch", CLUSTERS, "clusters"),
    Ask(True, "get patch", CLUSTERS, "clusters", name="{own}"),
    Ask(False, "get update patch delete", CLUSTERS, "clusters", name="{other}"),
    Ask(False, "update delete", CLUSTERS, "clusters", name="{own}"),
    Ask(False, "deletecollection", CLUSTERS, "clusters"),
    Ask(True, "patch", CLUSTERS, "clusters/status", name="{own}"),
    Ask(False, "update patch", CLUSTERS, "clusters/status", name="{other}"),
    Ask(False, "get create update", CLUSTERS, "clusters/proxy", name="{own}"),
    Ask(True, "get list watch create update patch delete", WORKS, "works", SPACE, ANY),
    Ask(False, "deletecollection", WORKS, "works", SPACE),
    Ask(True, "update", WORKS, "works/status", SPACE, ANY),
    Ask(False, ALL_VERBS, WORKS, "works", FOREIGN, ANY),
    Ask(False, "update patch", WORKS, "works/status", FOREIGN, ANY),
    Ask(False, ALL_VERBS, WORKS, "works"),
    Ask(False, ALL_VERBS, WORKS, "resourcebindings", ANY),
    Ask(False, ALL_VERBS, "policy.karmada.io", "propagationpolicies", ANY),
    Ask(True, "create", "coordination.k8s.io", "leases", "karmada-cluster"),
    Ask(True, "get update", "coordination.k8s.io", "leases", "karmada-cluster", "{own}"),
    Ask(False, "get update delete", "coordination.k8s.io", "leases", "karmada-cluster", "{other}"),
    Ask(False, ALL_VERBS, "coordination.k8s.io", "leases", "karmada-system", ANY),
    Ask(True, "create patch", "", "events", ANY),
    Ask(False, "get list delete", "", "events", ANY),
    Ask(True, "list watch", "", "services"),
    Ask(False, "create update patch delete", "", "services", ANY),
    Ask(True, "get list watch", "config.karmada.io", "resourceinterpretercustomizations"),
    Ask(True, "get list watch", "config.karmada.io", "resourceinterpreterwebhookconfigurations"),
    Ask(False, "create update patch", "config.karmada.io", "resourceinterpretercustomizations"),
    Ask(True, "create get", "certificates.k8s.io", "certificatesigningrequests"),
    Ask(False, "update", "certificates.k8s.io", "certificatesigningrequests/approval"),
    Ask(False, "approve sign", "certificates.k8s.io", "signers"),
    Ask(False, "create", "certificates.k8s.io", "certificatesigningrequests/clusteragent"),
    Ask(False, ALL_VERBS, "", "secrets", "karmada-cluster", "{own}"),
    Ask(False, ALL_VERBS, "", "secrets", "kube-system", ANY),
    Ask(False, ALL_VERBS, "", "secrets", SPACE, ANY),
    Ask(False, ALL_VERBS, "", "secrets"),
    Ask(False, ALL_VERBS, "", "configmaps", ANY),
    Ask(False, ALL_VERBS, "", "namespaces"),
    Ask(False, ALL_VERBS, "apps", "deployments", ANY),
    Ask(False, ALL_VERBS, RBAC, "clusterroles"),
    Ask(False, ALL_VERBS, RBAC, "rolebindings", SPACE),
    Ask(False, "escalate bind", RBAC, "clusterroles"),
    Ask(False, "escalate bind", RBAC, "roles", SPACE),
    Ask(False, "impersonate", "", "users"),
    Ask(False, "impersonate", "", "groups"),
    Ask(False, "impersonate", "", "serviceaccounts", "kube-system"),
    Ask(False, "create", "", "serviceaccounts/token", "kube-system", "default"),
    Ask(False, "*", "*", "*"),
)

HOST = (
    Ask(True, "get list watch create update patch delete", "", "namespaces", name=ANY),
    Ask(True, "get list watch create update patch delete", "apps", "deployments", ANY, ANY),
    Ask(True, "get list watch create update patch delete", "example.org", "widgets", ANY, ANY),
    Ask(True, "get list watch patch", "", "nodes", name=ANY),
    Ask(True, "get create update", "coordination.k8s.io", "leases", ANY, ANY),
    Ask(True, "get list watch create update delete", ADMISSION, "validatingadmissionpolicies"),
    Ask(True, "escalate bind", RBAC, "roles", ANY),
    Ask(True, "escalate bind", RBAC, "clusterroles"),
    Ask(False, "deletecollection", "", "pods", ANY),
    Ask(False, "deletecollection", "apps", "deployments", ANY),
    Ask(False, "impersonate", "", "users"),
    Ask(False, "impersonate", "", "groups"),
    Ask(False, "impersonate", "", "serviceaccounts", "kube-system"),
    Ask(False, "approve sign", "certificates.k8s.io", "signers"),
    Ask(False, "*", "*", "*"),
)


@pytest.mark.parametrize("side", ["hub", "host"])
def test_rights_allow_what_is_needed_and_no_more(lab: Lab, side: str) -> None:
    used = _joined(lab)
    names = {"own": f"{lab.id}-own", "other": f"{lab.id}-other"}
    table, kubeconfig = (HUB, used.hub) if side == "hub" else (HOST, used.host)
    api = Api(kubeconfig)
    wrong = [
        f"{verb} {ask}: {'refused' if ask.allowed else 'allowed'}"
        for ask, verb in _each(table)
        if _may(api, ask, verb, names) is not ask.allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_one_watch_for_all_works_opens_reading_only(lab: Lab) -> None:
    used = _joined(lab, "--works-cluster-wide")
    api, names = Api(used.hub), {"own": f"{lab.id}-own", "other": f"{lab.id}-other"}
    for verb, allowed in (("list", True), ("watch", True), ("get", False), ("patch", False)):
        ask = Ask(allowed, verb, WORKS, "works", FOREIGN, "" if allowed else ANY)
        assert _may(api, ask, verb, names) is allowed, ask


def _joined(lab: Lab, *flags: str) -> Kubeconfigs:
    """Give an agent of one virtual cluster its rights, while another agent has another one."""
    other = {"name": f"{lab.id}-other", "nodeSelector": {"matchLabels": {lab.label: "other"}}}
    own = {"name": f"{lab.id}-own", "nodeSelector": {"matchLabels": {lab.label: "own"}}}
    lab.new_agent(other, agentName=f"{lab.id}-2").join()
    return lab.new_agent(own, flags=flags).join()


def _each(table: tuple[Ask, ...]) -> Iterator[tuple[Ask, str]]:
    for ask in table:
        for verb in ask.verbs.split():
            yield ask, verb


def _may(api: Api, ask: Ask, verb: str, names: dict[str, str]) -> bool:
    resource, _, subresource = ask.resource.partition("/")
    attributes = {
        "verb": verb,
        "group": ask.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": ask.namespace.format(**names),
        "name": ask.name.format(**names),
    }
    answer = api.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": attributes},
        }
    )
    return bool(answer["status"]["allowed"])
