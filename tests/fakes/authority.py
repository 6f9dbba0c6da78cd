"""A certificate authority, and kubeconfigs with what it signed."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

START = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECT = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:karmada:agents"),
        x509.NameAttribute(NameOID.COMMON_NAME, "system:karmada:agent:branches"),
    ]
)


class Authority:
    """Signs client certificates."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])

    def sign(
        self,
        public_key: Any,
        subject: x509.Name = SUBJECT,
        start: datetime = START,
        lifetime: timedelta = timedelta(days=100),
    ) -> bytes:
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + lifetime)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)

    def pair(self, **fields: Any) -> tuple[bytes, bytes]:
        """Return a new certificate and its key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        key_pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return self.sign(key.public_key(), **fields), key_pem


def kubeconfig(
    certificate: tuple[bytes, bytes], server: str = "https://hub.example:6443", user: str = "vc"
) -> bytes:
    """Return a kubeconfig with one context and a client certificate."""
    chain, key = (base64.b64encode(pem).decode() for pem in certificate)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": user}}],
        "clusters": [{"name": "hub", "cluster": {"server": server}}],
        "users": [
            {"name": user, "user": {"client-certificate-data": chain, "client-key-data": key}}
        ],
    }
    return yaml.safe_dump(content).encode()
