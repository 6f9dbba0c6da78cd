"""What tenants run in the story: real programs, out of the Python in the agent's own image."""

from typing import Any

from e2e.lab import objects
from e2e.lab.api import Object

IMAGE = "karmada-vc-agent:kind"
PORT = 8080
SERVER = f"""
import http.server, os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = (os.environ["VERSION"] + " " + os.environ["HOSTNAME"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("", {PORT}), Answer).serve_forever()
"""
ASK = """
import urllib.request
print(urllib.request.urlopen({url!r}, timeout=5).read().decode(), end="")
"""
WHO_AM_I = """
import json, ssl, urllib.request
place = "/var/run/secrets/own/"
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    "https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews",
    json.dumps(review).encode(),
    {"Authorization": "Bearer " + open(place + "token").read(), "Content-Type": "application/json"},
)
trust = ssl.create_default_context(cafile=place + "ca.crt")
answer = json.load(urllib.request.urlopen(request, context=trust, timeout=10))
print(answer["status"]["userInfo"]["username"], end="")
"""


def web(namespace: str, replicas: int) -> Object:
    """Return a Deployment whose pods answer over HTTP with their version and name."""
    made = objects.deployment(namespace, "web", replicas)
    made["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    _serve(made)
    return made


def probe(namespace: str) -> Object:
    """Return a DaemonSet of the same program, with a token of its own in a projected volume."""
    made = objects.daemon_set(namespace)
    _serve(made)
    spec = made["spec"]["template"]["spec"]
    sources: list[Object] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    spec["volumes"] = [{"name": "own", "projected": {"sources": sources}}]
    mount = {"name": "own", "mountPath": "/var/run/secrets/own"}
    spec["containers"][0]["volumeMounts"] = [mount]
    return made


def db(namespace: str) -> Object:
    made = objects.stateful_set(namespace, replicas=2)
    _serve(made)
    return made


def once(namespace: str) -> Object:
    """Return a Job that asks the Service of the Deployment, and ends."""
    made = objects.job(namespace)
    made["spec"]["backoffLimit"] = 10
    container = _container(made)
    container.update(_basics(), command=["python3", "-c", ASK.format(url="http://web/")])
    return made


def service(namespace: str, name: str, **spec: Any) -> Object:
    made = objects.service(namespace, name)
    made["spec"].update({"ports": [{"port": 80, "targetPort": PORT}]} | spec)
    return made


def set_version(deployment: Object, version: str) -> Object:
    """Return the change of a template that makes its pods anew."""
    container = _container(deployment) | {"env": [{"name": "VERSION", "value": version}]}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


def _serve(workload: Object) -> None:
    template = workload["spec"]["template"]["spec"]
    template["terminationGracePeriodSeconds"] = 5
    _container(workload).update(
        _basics(),
        command=["python3", "-c", SERVER],
        env=[{"name": "VERSION", "value": "1"}],
        ports=[{"containerPort": PORT}],
        readinessProbe={"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 2},
    )


def _basics() -> Object:
    requests = {"cpu": "10m", "memory": "24Mi"}
    return {"image": IMAGE, "imagePullPolicy": "Never", "resources": {"requests": requests}}


def _container(workload: Object) -> Object:
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: Object = container
    return found
