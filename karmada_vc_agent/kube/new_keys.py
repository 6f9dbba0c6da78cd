"""New keys: for a client certificate by request, and for a self-signed one to serve.

Imported where a key is made: the library takes 10 MB of memory.
"""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def new_request(subject: x509.Name) -> tuple[bytes, bytes]:
    """Return a new EC key and a signing request for a subject, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    return _pem(key), request.public_bytes(serialization.Encoding.PEM)


def renewal_request(chain: bytes) -> tuple[bytes, bytes]:
    """Return a new EC key and a signing request for the subject of a PEM chain, both in PEM."""
    return new_request(x509.load_pem_x509_certificate(chain).subject)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


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
