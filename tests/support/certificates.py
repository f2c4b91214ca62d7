"""Certificates that vouch for themselves."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def self_signed(place: Path, host: str) -> Path:
    """Key and certificate of a host name, in one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    alternative = x509.SubjectAlternativeName([x509.DNSName(host)])
    made = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    place.write_bytes(key.private_bytes(*form) + made.public_bytes(serialization.Encoding.PEM))
    return place
