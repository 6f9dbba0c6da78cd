"""Certificates: client certificates by request, and a self-signed one to serve."""

import base64
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from karmada_vc_agent.model.objects import Object, dig

SIGNING_REQUESTS_PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
SHORTEST_LIFETIME_S = 600
"""The API server rejects shorter ones."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that its renewal needs; the times are those of the chain."""

    subject: x509.Name
    not_before: datetime
    not_after: datetime

    @property
    def lifetime_s(self) -> float:
        return (self.not_after - self.not_before).total_seconds()

    def remaining(self, now: datetime) -> float:
        """Return the remaining fraction of its lifetime: 1 at the start, 0 or less at the end."""
        return (self.not_after - now) / (self.not_after - self.not_before)


def read_certificate(chain: bytes) -> Certificate:
    """Return the first certificate of a PEM chain. Raises ValueError."""
    certificates = x509.load_pem_x509_certificates(chain)
    return Certificate(
        certificates[0].subject,
        max(each.not_valid_before_utc for each in certificates),
        min(each.not_valid_after_utc for each in certificates),
    )


def new_request(subject: x509.Name) -> tuple[bytes, bytes]:
    """Return a new EC key and a signing request for a subject, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    return _pem(key), request.public_bytes(serialization.Encoding.PEM)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def signing_request(name: str, request: bytes, lifetime_s: float) -> Object:
    """Return the CertificateSigningRequest object; request: PEM. Source: contract 1.7, 1.8."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": SIGNER,
            "expirationSeconds": max(int(lifetime_s), SHORTEST_LIFETIME_S),
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    }


def request_refusal(request: Object) -> str:
    """Return why a CertificateSigningRequest was denied or failed, or ""."""
    for condition in dig(request, "status", "conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            return f"{condition['type']}: {condition.get('message') or condition.get('reason')}"
    return ""


SERVING_NAME = "karmada-vc-agent"
_LASTS = timedelta(days=3650)
_CLOCK_SKEW = timedelta(hours=1)


def serving_context() -> ssl.SSLContext:
    """Return a TLS server context with a new key that is stored nowhere else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Readable by its owner only; ssl needs a file.
    with tempfile.NamedTemporaryFile(prefix=SERVING_NAME) as file:
        file.write(_self_signed())
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _self_signed() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVING_NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LASTS)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVING_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(key) + certificate.public_bytes(serialization.Encoding.PEM)
