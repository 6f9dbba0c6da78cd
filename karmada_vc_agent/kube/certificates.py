"""Client certificates: their lifetime, and requests for new ones."""

import base64
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from karmada_vc_agent.model.objects import Object, dig

REQUESTS_PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
SHORTEST_S = 600
"""The API server rejects shorter ones."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that its renewal needs; the times are those of the chain."""

    subject: x509.Name
    not_before: datetime
    not_after: datetime

    @property
    def lifetime_s(self) -> float:
        """Return its total lifetime in seconds."""
        return (self.not_after - self.not_before).total_seconds()

    def remaining(self, now: datetime) -> float:
        """Return the remaining fraction of its lifetime: 1 at the start, 0 or less at the end."""
        return (self.not_after - now) / (self.not_after - self.not_before)


def read_certificate(chain: bytes) -> Certificate:
    """Return the first certificate of a PEM chain. Raises ValueError."""
    chain_certificates = x509.load_pem_x509_certificates(chain)
    return Certificate(
        chain_certificates[0].subject,
        max(certificate.not_valid_before_utc for certificate in chain_certificates),
        min(certificate.not_valid_after_utc for certificate in chain_certificates),
    )


def new_request(subject: x509.Name) -> tuple[bytes, bytes]:
    """Return a new EC key and a signing request for a subject, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return key_pem, request.public_bytes(serialization.Encoding.PEM)


def signing_request(name: str, request: bytes, lifetime_s: float) -> Object:
    """Return the CertificateSigningRequest object.

    request: PEM. lifetime_s: requested lifetime of the certificate, at least SHORTEST_S.
    Source: contract 1.7, 1.8.
    """
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": SIGNER,
            "expirationSeconds": max(int(lifetime_s), SHORTEST_S),
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }


def refusal(request: Object) -> str:
    """Return why a CertificateSigningRequest was denied or failed, or ""."""
    for condition in dig(request, "status", "conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            return f"{condition['type']}: {condition.get('message') or condition.get('reason')}"
    return ""
