"""Whatever writes a resource that a policy matches, the policy judges: also its subresources."""

from collections.abc import Iterator

from e2e.lab import accounts, objects
from e2e.lab.api import Api, Object, path_of
from e2e.lab.cleanup import POLICIES
from e2e.lab.lab import AGENT_LABEL, Lab
from e2e.lab.wait import eventually

WRITES = {"update", "patch"}
SNIPPET = "nginx.ingress.kubernetes.io/server-snippet"
NETWORKING = "networking.k8s.io/v1"
INGRESS: Object = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}


def test_each_subresource_that_writes_what_a_policy_matches_is_matched(lab: Lab) -> None:
    lab.serve(lab.group("a"))
    policies = lab.host.list(POLICIES[1], f"{AGENT_LABEL}={lab.id}")
    assert policies
    written = {parent: set(parts) for parent, parts in _written_through(lab.host)}
    assert {"status", "finalize"} <= written["", "namespaces"]
    assert "status" in written["networking.k8s.io", "ingresses"]
    missed = [
        f"{policy['metadata']['name']}: {group}/{plural}/{part}"
        for policy in policies
        for rules in (policy["spec"]["matchConstraints"]["resourceRules"],)
        for group, plural in sorted(_updates(rules))
        for part in sorted(written.get((group, plural), ()))
        if not any(_matches(rule, group, plural, part) for rule in rules)
    ]
    assert not missed


def test_a_controller_reports_the_status_of_what_an_administrator_wrote(lab: Lab) -> None:
    """Values that exist may stay, also where status is written by an account with no exception."""
    group = lab.group("a")
    lab.serve(group)
    home = group.host_namespace("default")
    eventually(lab.host.get, f"/api/v1/namespaces/{home}")
    ingress: Object = {
        "apiVersion": NETWORKING,
        "kind": "Ingress",
        "metadata": {"name": "older", "namespace": home, "annotations": {SNIPPET: "x;"}},
        "spec": INGRESS,
    }
    service = objects.service(home, "older")
    service["spec"] |= {"type": "LoadBalancer", "externalIPs": ["192.0.2.53"]}
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "older",
            "namespace": home,
            "annotations": {"volume.kubernetes.io/selected-node": group.nodes[0]},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "older", "namespace": home},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "nodeSelector": group.selector,
            "schedulerName": "none",
        },
    }
    balanced = {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}
    reported: tuple[tuple[Object, Object], ...] = (
        (ingress, balanced),
        (service, balanced),
        (claim, {"conditions": [{"type": "Resizing", "status": "True"}]}),
        (pod, {"message": "reported"}),
    )
    controller = _controller(lab, home)
    for manifest, status in reported:
        path = path_of(eventually(lab.host.create, manifest))
        controller.patch(f"{path}/status", {"status": status})
        assert lab.host.get(path)["status"].keys() >= status.keys()
        lab.host.delete(path, force=True)


def _controller(lab: Lab, home: str) -> Api:
    resources = [f"{each}/status" for each in ("services", "persistentvolumeclaims", "pods")]
    rules = (
        {"apiGroups": [""], "resources": resources, "verbs": ["patch"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses/status"], "verbs": ["patch"]},
    )
    account = accounts.service_account(lab.host, home, "controller", lab.directory)
    role = accounts.cluster_role("controller", *rules) | {"kind": "Role"}
    role["metadata"]["namespace"] = home
    lab.host.create(role)
    binding = accounts.role_binding(home, "controller", accounts.subject(home, "controller"))
    binding["roleRef"]["kind"] = "Role"
    lab.host.create(binding)
    return account


def _written_through(host: Api) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield each served resource with the subresources by which a request may update it."""
    roots = [("", "/api/v1")] + [
        (group["name"], f"/apis/{group['preferredVersion']['groupVersion']}")
        for group in host.get("/apis")["groups"]
    ]
    for group, root in roots:
        resources = host.get(root)["resources"]
        for resource in resources:
            plural, slash, _ = resource["name"].partition("/")
            if not slash:
                yield (
                    (group, plural),
                    [
                        each["name"].partition("/")[2]
                        for each in resources
                        if each["name"].startswith(f"{plural}/")
                        and WRITES & set(each["verbs"])
                        # A connection: what it writes is not an object.
                        and not each["name"].endswith("/proxy")
                    ],
                )


def _updates(rules: list[Object]) -> set[tuple[str, str]]:
    return {
        (group, resource.partition("/")[0])
        for rule in rules
        if {"UPDATE", "*"} & set(rule["operations"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def _matches(rule: Object, group: str, plural: str, part: str) -> bool:
    """Whether a rule matches updates by a subresource, as an API server reads it."""
    return (
        bool({"UPDATE", "*"} & set(rule["operations"]))
        and bool({group, "*"} & set(rule["apiGroups"]))
        and bool({f"{plural}/{part}", f"{plural}/*", f"*/{part}", "*/*"} & set(rule["resources"]))
    )
