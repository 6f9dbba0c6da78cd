"""A restarted agent writes nothing that is right, and puts right what is not (ADR 49)."""

from collections.abc import Callable

from e2e.lab import objects
from e2e.lab.agent import Agent
from e2e.lab.api import Object
from e2e.lab.audit import AgentWrites
from e2e.lab.endpoints import Endpoints
from e2e.lab.lab import FAST, QUICK_LEASE, Group, Lab
from e2e.lab.wait import STARTED_S, within
from karmada_vc_agent.features.host_events.feature import COMPONENT as HOST_EVENTS

SYNCED = "work_sync_workload_duration_seconds_count"


def _object(api_version: str, kind: str, namespace: str, **content: object) -> Object:
    metadata = {"name": kind.lower(), "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _named(obj: Object, name: str, **spec: object) -> Object:
    """Return an object under another name, with more in its spec."""
    metadata = {**obj["metadata"], "name": name}
    return {**obj, "metadata": metadata, "spec": {**obj["spec"], **spec}}


def _written_out(namespace: str) -> Object:
    """Return a Deployment that a server writes in its own way: quantities, null, empty and zero."""
    made = objects.deployment(namespace, "quantities")
    template = made["spec"]["template"]
    template["metadata"]["creationTimestamp"] = None
    template["spec"]["volumes"] = [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}]
    container = template["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "1000m"}, "requests": {"memory": "0.5Gi"}}
    container["livenessProbe"] = {"httpGet": {"path": "/", "port": 80}}
    container["env"] = [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    made["spec"] |= {"strategy": {}, "paused": False}
    template["spec"] |= {"hostNetwork": False, "terminationGracePeriodSeconds": 0}
    return made


def _many_kinds(namespace: str) -> list[Object]:
    """Return objects of many kinds, most of which a server completes."""
    web = objects.service(namespace)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    stateful = objects.stateful_set(namespace)
    stateful["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    host = f"{namespace}.example"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    subject = {"kind": "ServiceAccount", "name": "serviceaccount", "namespace": namespace}
    user = {"kind": "User", "name": "somebody"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "role"}
    rbac = "rbac.authorization.k8s.io/v1"
    limit = {"type": "Container", "default": {"cpu": "100m"}}
    return [
        objects.config_map(namespace),
        objects.secret(namespace),
        _object("v1", "Secret", namespace, stringData={"word": "secret"}),
        web,
        _named(web, "outside", type="NodePort"),
        _named(web, "headless", clusterIP="None"),
        _named(web, "sticky", sessionAffinity="ClientIP"),
        objects.deployment(namespace),
        _written_out(namespace),
        stateful,
        objects.daemon_set(namespace),
        objects.job(namespace),
        objects.cron_job(namespace),
        _object("v1", "PersistentVolumeClaim", namespace, spec=claim),
        _object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            namespace,
            spec={"scaleTargetRef": {**target, "name": "absent"}, "maxReplicas": 3},
        ),
        _object(
            "networking.k8s.io/v1",
            "Ingress",
            namespace,
            spec={"rules": [{"host": host, "http": {"paths": [path]}}]},
        ),
        _object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            namespace,
            spec={"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]},
        ),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            namespace,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        ),
        _object("v1", "ServiceAccount", namespace),
        _object(rbac, "Role", namespace, rules=[rule]),
        _object(rbac, "RoleBinding", namespace, roleRef=role, subjects=[subject, user]),
        _object("v1", "Pod", namespace, spec=objects.pod_template("bare")["spec"]),
        _object("v1", "LimitRange", namespace, spec={"limits": [limit]}),
    ]


class Scene:
    """One agent that says how many Works it synced, and Works written by hand."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.group = lab, lab.group("a")
        self.endpoints = Endpoints.new()
        self.namespace = lab.namespace()
        flags = (*FAST, *QUICK_LEASE, *self.endpoints.flags())
        self.agent: Agent = lab.new_agent(self.group, flags=flags).start()
        lab.wait_serving(self.agent)
        self.works: dict[str, str] = {}

    def bring(self, *manifests: Object) -> None:
        for manifest in manifests:
            name = f"{manifest['kind'].lower()}-{manifest['metadata']['name']}"
            self.works[name] = self.lab.create_work(self.group, name, manifest)
        for work in self.works.values():
            self.lab.wait_applied(work)
        self.lab.wait_namespace_sent(self.namespace, self.group)

    def start_again(self) -> None:
        """Start the agent, and wait until it has looked at each Work."""
        self.agent.start()
        within(STARTED_S, self._has_synced, len(self.works))

    def wait_quiet(self, *audits: AgentWrites) -> None:
        """Wait until nothing was written for a while: controllers complete objects, too."""

        def look(seen: list[int]) -> None:
            now = [len(audit.told()) for audit in audits]
            is_quiet, seen[:] = now == seen, now
            assert is_quiet

        for _ in range(5):
            within(STARTED_S, look, [-1])

    def _has_synced(self, count: int) -> None:
        found = self.endpoints.scrape().values(SYNCED)
        assert sum(found.values()) >= count, found


def test_objects_that_are_right_are_not_written_again(lab: Lab) -> None:
    scene = Scene(lab)
    scene.bring(*_many_kinds(scene.namespace))
    audits = _audits(scene)
    scene.wait_quiet(*audits)
    scene.agent.kill()
    scene.wait_quiet(*audits)  # what was in flight has its audit line after the end
    on_host, on_hub = _audits(scene)
    before = _statuses(scene)
    scene.start_again()
    scene.wait_quiet(on_host, on_hub)
    assert on_host.told() == []
    after = _statuses(scene)
    # Where controllers of the host went on meanwhile, that is to be told.
    as_before = [name for names in after if before[names] == after[names] for name in names]
    lines = [line for line in on_hub.told() if _is_about(line, as_before)]
    # An event of the host just before the end is reported by the next process.
    reported = _events_of_the_host(scene)
    assert [line for line in lines if not any(name in line for name in reported)] == []


def test_drift_and_changes_while_the_agent_was_away_are_put_right(lab: Lab) -> None:
    scene = Scene(lab)
    namespace, group = scene.namespace, scene.group
    web, service = objects.deployment(namespace), objects.service(namespace)
    named, extra = _named(web, "named"), _named(web, "extra")
    told = _named(web, "told", minReadySeconds=7)
    scene.bring(web, service, named, extra, told, objects.stateful_set(namespace))
    before = {
        obj["metadata"]["name"] + obj["kind"]: _spec(lab, obj, group)
        for obj in (web, service, named, extra)
    }
    scene.agent.kill()
    edit: Callable[[Object, Object], Object] = lambda obj, spec: lab.host.patch(  # noqa: E731
        lab.host_path(obj, group), {"spec": spec}
    )
    edit(named, {"replicas": 5})
    edit(extra, {"minReadySeconds": 9, "paused": True})
    edit(service, {"sessionAffinity": "ClientIP", "type": "NodePort"})
    lab.host.delete(lab.host_path(web, group))
    gone = {"op": "remove", "path": "/spec/workload/manifests/0/spec/minReadySeconds"}
    lab.hub.patch_json(scene.works["deployment-told"], gone)
    scene.start_again()

    def look() -> None:
        for obj in (web, service, named, extra):
            wanted = before[obj["metadata"]["name"] + obj["kind"]]
            assert _spec(lab, obj, group) == wanted
        assert "minReadySeconds" not in _spec(lab, told, group)

    within(STARTED_S, look)


def _statuses(scene: Scene) -> dict[tuple[str, str], Object]:
    """Return the status of each Work of the story, by its name and that of its manifest.

    Namespaces of other stories come to this virtual cluster, too.
    """
    found = {}
    for work in scene.lab.works(scene.group):
        (manifest,) = work["spec"]["workload"]["manifests"]
        names = (work["metadata"]["name"], manifest["metadata"]["name"])
        if names[0] in scene.works or names[1] == scene.namespace:
            found[names] = work.get("status") or {}
    return found


def _events_of_the_host(scene: Scene) -> list[str]:
    """Return the names of Events by which the agent reports those of the host."""
    namespaces = (f"karmada-es-{scene.group.name}", scene.namespace)
    events = [
        event
        for namespace in namespaces
        for event in scene.lab.hub.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    ]
    return [
        f"{event['metadata']['namespace']}/{event['metadata']['name']}"
        for event in events
        if event["source"].get("component") == HOST_EVENTS
    ]


def _is_about(line: str, names: list[str]) -> bool:
    return any(f"/{name}{end}" in line for name in names for end in "./")


def _audits(scene: Scene) -> tuple[AgentWrites, AgentWrites]:
    execution = f"karmada-es-{scene.group.name}"
    return (
        AgentWrites("host", (scene.group.host_namespace(scene.namespace),)),
        AgentWrites("hub", (execution, scene.namespace)),
    )


def _spec(lab: Lab, obj: Object, group: Group) -> Object:
    found: Object = lab.host.get(lab.host_path(obj, group))["spec"]
    return found
