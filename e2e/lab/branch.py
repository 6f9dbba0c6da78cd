"""All that a branch has: what runs in its namespaces, and the cluster-wide objects it needs.

Two branches get it under the same names; nothing in here tells one from the other.
"""

from typing import Any

from e2e.lab import objects
from e2e.lab.api import Object

RBAC = "rbac.authorization.k8s.io"
FIRST_PORT, PORTS = 32600, 160
"""Node ports that no other test asks for by number."""


class Branch:
    """Templates named after a test. shop, stock: its namespaces."""

    def __init__(self, test: str, shop: str, stock: str) -> None:
        self.test = test
        self.shop = shop
        self.stock = stock
        self.group = f"{test}.example.com"
        self.volume_name = f"{test}-data"
        self.reader_name = f"{test}-reader"
        self.urgent_name = f"{test}-urgent"
        self.node_port = FIRST_PORT + int(test.removeprefix("e2e-"), 16) % PORTS

    def cluster_wide(self) -> list[Object]:
        """Return what has no namespace."""
        return [
            objects.custom_definition(self.group),
            _wide("scheduling.k8s.io/v1", "PriorityClass", self.urgent_name, value=1000),
            self.volume(),
            self.reader(),
            self.readers(),
        ]

    def of_shop(self) -> list[Object]:
        """Return a web server and all around it."""
        return [
            self.web(),
            objects.config_map(self.shop, "web-config", **{"nginx.conf": "events {}"}),
            self._in_shop("v1", "Secret", "web-tls", stringData={"tls.key": "secret"}),
            self._in_shop("v1", "ServiceAccount", "web"),
            self.web_service(),
            self._ingress(),
            self.autoscaler(),
            self._in_shop("policy/v1", "PodDisruptionBudget", "web", spec={
                "minAvailable": 1, "selector": {"matchLabels": {"app": "web"}},
            }),
            self._in_shop(f"{RBAC}/v1", "Role", "web", rules=[
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
                {"apiGroups": [self.group], "resources": ["widgets"], "verbs": ["*"]},
            ]),
            self._in_shop(f"{RBAC}/v1", "RoleBinding", "web", **_grant(
                "Role", "web", _account(self.shop, "web"), _user("alice")
            )),
            objects.cron_job(self.shop) | {"spec": _YEARLY},
            objects.daemon_set(self.shop, "collector"),
        ]  # fmt: skip

    def of_stock(self) -> list[Object]:
        """Return a database with its volume."""
        headless = objects.service(self.stock, "db")
        headless["spec"] |= {"clusterIP": "None", "ports": [{"port": 5432}]}
        database = objects.stateful_set(self.stock, "db")
        database["spec"]["template"]["spec"]["volumes"] = [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        ]
        return [database, headless, self.claim(), self.widget(self.stock)]

    def widget(self, namespace: str) -> Object:
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "Widget",
            "metadata": {"name": "one", "namespace": namespace},
            "spec": {"size": 3},
        }

    def web(self) -> Object:
        web = objects.deployment(self.shop, "web", replicas=2, cpu="100m")
        web["spec"]["template"]["spec"] |= {
            "serviceAccountName": "web",
            "priorityClassName": self.urgent_name,
            "volumes": [
                {"name": "config", "configMap": {"name": "web-config"}},
                {"name": "tls", "secret": {"secretName": "web-tls"}},
            ],
        }
        return web

    def web_service(self) -> Object:
        service = objects.service(self.shop, "web")
        service["spec"] |= {
            "type": "NodePort",
            "ports": [{"port": 80, "nodePort": self.node_port}],
        }
        return service

    def autoscaler(self) -> Object:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"minReplicas": 2, "maxReplicas": 4, "scaleTargetRef": target}
        return self._in_shop("autoscaling/v2", "HorizontalPodAutoscaler", "web", spec=spec)

    def volume(self) -> Object:
        return _wide("v1", "PersistentVolume", self.volume_name, spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"},
            "storageClassName": "",
            "claimRef": {"namespace": self.stock, "name": "data"},
        })  # fmt: skip

    def claim(self) -> Object:
        claim = _wide("v1", "PersistentVolumeClaim", "data", spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": self.volume_name,
        })  # fmt: skip
        claim["metadata"]["namespace"] = self.stock
        return claim

    def reader(self) -> Object:
        rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]}]
        return _wide(f"{RBAC}/v1", "ClusterRole", self.reader_name, rules=rules)

    def readers(self) -> Object:
        """Return a binding of accounts only: its copies do not follow other namespaces."""
        subjects = (_account(self.shop, "web"), _user("alice"))
        return _wide(
            f"{RBAC}/v1",
            "ClusterRoleBinding",
            self.reader_name,
            **_grant("ClusterRole", self.reader_name, *subjects),
        )

    def _ingress(self) -> Object:
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        path = {"path": "/", "pathType": "Prefix", "backend": backend}
        rule = {"host": f"{self.test}.example.com", "http": {"paths": [path]}}
        return self._in_shop("networking.k8s.io/v1", "Ingress", "web", spec={"rules": [rule]})

    def _in_shop(self, api_version: str, kind: str, name: str, **content: Any) -> Object:
        made = _wide(api_version, kind, name, **content)
        made["metadata"]["namespace"] = self.shop
        return made


_YEARLY = {
    "schedule": "0 0 29 2 *",  # not while the test runs
    "jobTemplate": objects.cron_job("")["spec"]["jobTemplate"],
}


def _wide(api_version: str, kind: str, name: str, **content: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def _grant(kind: str, role: str, *subjects: Object) -> Object:
    return {
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": list(subjects),
    }


def _account(namespace: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _user(name: str) -> Object:
    return {"kind": "User", "apiGroup": RBAC, "name": name}
