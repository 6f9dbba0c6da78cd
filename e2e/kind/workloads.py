"""What tenants run in the story: real programs, out of the Python in the agent's own image."""

from typing import Any

from e2e.lab import objects
from e2e.lab.api import Object
from karmada_vc_agent.install.join import IMAGE

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

TAR = """
import sys, tarfile
if sys.argv[1] == "cf":
    with tarfile.open(mode="w|", fileobj=sys.stdout.buffer) as archive:
        archive.add(sys.argv[3], sys.argv[3].lstrip("/"))
else:
    with tarfile.open(mode="r|", fileobj=sys.stdin.buffer) as archive:
        archive.extractall(sys.argv[sys.argv.index("-C") + 1])
"""
"""As much of tar as `kubectl cp` calls; the image has none."""
CONSOLE = f"""
import hashlib, http.server, os, pathlib, signal, sys, threading
tar = pathlib.Path("/own/tar")
tar.write_text("#!" + sys.executable + {TAR!r})
tar.chmod(0o755)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        size = int(self.path.strip("/"))
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        for _ in range(size // 65536):
            self.wfile.write(bytes(range(256)) * 256)
        self.wfile.write(bytes(size % 65536))
    def do_POST(self):
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left:
            part = self.rfile.read(min(left, 65536))
            left -= len(part)
            digest.update(part)
        text = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("", {PORT}), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
for number in range(2000):
    print("line", number)
print("up", flush=True)
for line in sys.stdin:
    print("heard", line.strip(), flush=True)
signal.pause()
"""
TICKS = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
number = 0
while True:
    print("tick", number, flush=True)
    number += 1
    time.sleep(0.3)
"""
FALLS_ONCE = """
import os, pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
mark = pathlib.Path("/own/fell")
if not mark.exists():
    mark.touch()
    sys.exit("falling")
print("standing", flush=True)
signal.pause()
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


def console(namespace: str) -> Object:
    """Return a Deployment of one pod with three containers to talk to.

    main: answers over HTTP, and says what it hears on standard input. ticks: has something to say
    all the time. falls: fell once before it stood.
    """
    made = objects.deployment(namespace, "console", 1)
    spec = made["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 1
    spec["volumes"] = [{"name": "own", "emptyDir": {}}]
    own = [{"name": "own", "mountPath": "/own"}]
    finds = [{"name": "PATH", "value": "/own:/usr/local/bin:/usr/bin:/bin"}]
    listens = {"httpGet": {"path": "/1", "port": PORT}, "periodSeconds": 2}
    spec["containers"] = [
        _running("main", CONSOLE, stdin=True, env=finds, readinessProbe=listens, volumeMounts=own),
        _running("ticks", TICKS),
        _running("falls", FALLS_ONCE, volumeMounts=own),
    ]
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


def _running(name: str, program: str, **more: Any) -> Object:
    return {"name": name, **_basics(), "command": ["python3", "-c", program], **more}


def _basics() -> Object:
    requests = {"cpu": "10m", "memory": "24Mi"}
    return {"image": IMAGE, "imagePullPolicy": "Never", "resources": {"requests": requests}}


def _container(workload: Object) -> Object:
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: Object = container
    return found
