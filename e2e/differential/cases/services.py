"""Services and what leads to them."""

from e2e.differential.cases import shapes
from e2e.differential.cases.registry import case, propagated, reported, written
from e2e.differential.scene import Play, Scene
from e2e.lab.api import Object

_PORTS = [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090, "protocol": "TCP"}]
_ADDRESS = {"ingress": [{"ip": "192.0.2.7"}]}
_HOSTNAME = {"ingress": [{"hostname": "lb.example"}]}


def _balanced(scene: Scene) -> Object:
    return shapes.service(scene, type="LoadBalancer")


propagated("service-cluster-ip", shapes.service)
written("service-of-two-ports", lambda scene: shapes.service(scene, ports=_PORTS))
written("service-headless", lambda scene: shapes.service(scene, clusterIP="None"))
written("service-node-port", lambda scene: shapes.service(scene, type="NodePort"))
written(
    "service-fixed-node-port",
    lambda scene: shapes.service(scene, type="NodePort", ports=[{"port": 80, "nodePort": 30071}]),
)
written(
    "service-external-name",
    lambda scene: shapes.service(
        scene, type="ExternalName", externalName="db.example", ports=None, selector=None
    ),
)
propagated("service-load-balancer-pending", _balanced)
reported("service-load-balancer-address", _balanced, loadBalancer=_ADDRESS)
reported("service-load-balancer-hostname", _balanced, loadBalancer=_HOSTNAME)


@case
def service_updated(scene: Scene) -> Play:
    """The address that the host gave is retained."""
    template = shapes.service(scene)
    scene.propagate(template)
    yield scene.applied(template)
    scene.update(template, {"spec": {"ports": [{"port": 81}]}})
    yield scene.on_host(template, lambda live: live["spec"]["ports"][0]["port"] == 81)


@case
def service_node_port_updated(scene: Scene) -> Play:
    template = shapes.service(scene, type="NodePort")
    scene.propagate(template)
    yield scene.applied(template)
    scene.update(template, {"spec": {"sessionAffinity": "ClientIP"}})
    yield scene.on_host(template, lambda live: live["spec"]["sessionAffinity"] == "ClientIP")


@case
def service_health_check_port_retained(scene: Scene) -> Play:
    template = shapes.service(scene, type="LoadBalancer", externalTrafficPolicy="Local")
    scene.propagate(template)
    yield scene.applied(template)
    scene.update(template, {"metadata": {"labels": {"stage": "two"}}})
    yield scene.on_host(
        template, lambda live: (live["metadata"].get("labels") or {}).get("stage") == "two"
    )


@case
def service_turned_into_node_port(scene: Scene) -> Play:
    template = shapes.service(scene)
    scene.propagate(template)
    yield scene.applied(template)
    scene.update(template, {"spec": {"type": "NodePort"}})
    yield scene.on_host(template, lambda live: live["spec"]["type"] == "NodePort")


propagated("ingress-pending", shapes.ingress)
reported("ingress-with-address", shapes.ingress, loadBalancer=_ADDRESS)
reported("ingress-with-hostname", shapes.ingress, loadBalancer=_HOSTNAME)


@case
def ingress_brings_its_secret(scene: Scene) -> Play:
    secret = shapes.secret(scene)
    tls = [{"hosts": ["web.example"], "secretName": scene.name}]
    template = shapes.ingress(scene, tls=tls)
    scene.lane.hub.create(secret)
    scene.compare(secret)
    scene.propagate(template, propagateDeps=True)
    yield scene.applied(template)
    yield scene.applied(secret)


def _endpoints(scene: Scene) -> Object:
    subset = {"addresses": [{"ip": "192.0.2.8"}], "ports": [{"port": 80}]}
    return shapes.manifest(scene, "v1", "Endpoints", subsets=[subset])


def _endpoint_slice(scene: Scene) -> Object:
    return shapes.manifest(
        scene,
        "discovery.k8s.io/v1",
        "EndpointSlice",
        addressType="IPv4",
        endpoints=[{"addresses": ["192.0.2.8"]}],
        ports=[{"name": "http", "port": 80}],
    )


def _network_policy(scene: Scene) -> Object:
    selector = {"matchLabels": {"app": scene.name}}
    peer = {"from": [{"podSelector": selector}]}
    spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": [peer]}
    return shapes.manifest(scene, "networking.k8s.io/v1", "NetworkPolicy", spec=spec)


written("endpoints", _endpoints)
written("endpoint-slice", _endpoint_slice)
written("network-policy", _network_policy)
