"""A webhook in the test's own process, with a certificate of its own."""

import base64
import datetime as dt
import http.server
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from e2e.lab.api import Object

Answer = Callable[[Object], Object]
"""The request of a ResourceInterpreterContext or AdmissionReview -> its response without uid."""
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class WebhookServer:
    """Answers on a port of loopback until it is closed; `requests` are those that came."""

    def __init__(self, directory: Path, answer: Answer, *names: str) -> None:
        self.requests: list[Object] = []
        self._answer = answer
        certificate = self_signed(directory, "127.0.0.1", *names)
        self.ca_bundle = certificate.read_bytes()
        handler = type("Handler", (_Handler,), {"webhook": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/interpret"

    def respond(self, context: Object) -> Object:
        request = context["request"]
        self.requests.append(request)
        response = {"uid": request["uid"], **self._answer(request)}
        return {"apiVersion": context["apiVersion"], "kind": context["kind"], "response": response}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    webhook: WebhookServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps(self.webhook.respond(json.loads(body))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def validating(name: str, namespace: str, server: WebhookServer) -> Object:
    """Return the configuration that has a host ask before it creates ConfigMaps in a namespace."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
        "operations": ["CREATE"],
    }
    hook = {
        "name": "slow.example.com",
        "clientConfig": {
            "url": server.url,
            "caBundle": base64.b64encode(server.ca_bundle).decode(),
        },
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }


def self_signed(directory: Path, *names: str) -> Path:
    """Write a certificate for these names or addresses that is its own CA; return its path."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook of a test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), False)
        .sign(key, hashes.SHA256())
    )
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{certificate.serial_number:x}.crt"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
