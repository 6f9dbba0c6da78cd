"""An identity of an agent on the hub: a client certificate that the hub signed."""

import base64
import time
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from e2e.lab.api import Api, Object, collection
from e2e.lab.wait import eventually

ORGANIZATION = "system:karmada:agents"
NAME_PREFIX = "system:karmada:agent:"
REQUESTS = collection("certificates.k8s.io/v1", "CertificateSigningRequest")
SHORTEST_S = 600
"""The API server signs nothing shorter."""


def agent_kubeconfig(hub: Api, path: Path, name: str) -> Path:
    """Write a kubeconfig for the hub by which an agent is `system:karmada:agent:<name>`.

    The certificate lives as short as it may. Karmada approves it, since the administrator asks.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, NAME_PREFIX + name),
        ]
    )
    wanted = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    request = hub.create(_signing_request(name, wanted.public_bytes(serialization.Encoding.PEM)))
    url = f"{REQUESTS}/{request['metadata']['name']}"
    certificate = eventually(lambda: hub.get(url)["status"]["certificate"])
    hub.delete(url)
    content = yaml.safe_load(hub.kubeconfig.read_text())
    context = next(c for c in content["contexts"] if c["name"] == content["current-context"])
    context["context"]["user"] = name
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    user = {
        "client-certificate-data": certificate,
        "client-key-data": base64.b64encode(key_pem).decode(),
    }
    content["users"] = [{"name": name, "user": user}]
    path.write_text(yaml.safe_dump(content))
    path.chmod(0o600)
    return path


def certificate_of(kubeconfig: str) -> x509.Certificate:
    """Return the client certificate in a kubeconfig."""
    (user,) = yaml.safe_load(kubeconfig)["users"]
    return x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))


def _signing_request(name: str, request: bytes) -> Object:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"{name}-{time.time_ns() % 10**6}"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "expirationSeconds": SHORTEST_S,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }
