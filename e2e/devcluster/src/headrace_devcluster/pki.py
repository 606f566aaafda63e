"""Certificates and tokens of one cluster: its own authority, good for this cluster alone.

Made by the ``openssl`` program, so that the library needs no cryptography package. Keys live in
the cluster's directory, readable by root only, and are removed with it.
"""

from __future__ import annotations

import base64
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headrace_devcluster.components import IDENTITIES
from headrace_devcluster.errors import ClusterFailedError
from headrace_devcluster.layout import CLUSTER_DOMAIN, NODE_NAME, Addresses

VALID_DAYS = 365
"""A development cluster lives for hours; a year spares a clear failure to one left running."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate to be signed by the cluster's authority."""

    file: str
    common_name: str
    organization: str = ""
    alternative_names: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The subject as openssl takes it."""
        organization = f"/O={self.organization}" if self.organization else ""
        return f"{organization}/CN={self.common_name}"


def build_certificates(addresses: Addresses) -> list[Certificate]:
    """The certificates that a cluster with these addresses needs."""
    service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return [
        Certificate(
            "apiserver",
            "kube-apiserver",
            alternative_names=(
                *(f"DNS:{name}" for name in service),
                f"DNS:kubernetes.default.svc.{CLUSTER_DOMAIN}",
                "DNS:localhost",
                f"IP:{addresses.node}",
                f"IP:{addresses.api_service}",
                "IP:127.0.0.1",
            ),
        ),
        Certificate(
            "kubelet",
            f"system:node:{NODE_NAME}",
            "system:nodes",
            (f"DNS:{NODE_NAME}", f"IP:{addresses.node}"),
        ),
        Certificate("apiserver-kubelet", "kube-apiserver-kubelet-client", "system:masters"),
    ]


def build_tokens() -> dict[str, str]:
    """A fresh random bearer token for each identity."""
    return {identity: secrets.token_hex(24) for identity in IDENTITIES}


def _openssl(directory: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ClusterFailedError(
            "openssl could not make the cluster's certificates: check the installed version "
            f"command={arguments[0]!r} output={done.stderr.strip()!r}"
        )


def _sign(directory: Path, certificate: Certificate) -> None:
    name = certificate.file
    extensions = ["keyUsage=critical,digitalSignature", "extendedKeyUsage=serverAuth,clientAuth"]
    if certificate.alternative_names:
        extensions.append("subjectAltName=" + ",".join(certificate.alternative_names))
    (directory / f"{name}.ext").write_text("\n".join(extensions) + "\n")
    _openssl(
        directory, "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", certificate.subject, "-keyout", f"{name}.key", "-out", f"{name}.csr",
    )  # fmt: skip
    _openssl(
        directory, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
        "-CAcreateserial", "-days", str(VALID_DAYS), "-sha256", "-extfile", f"{name}.ext",
        "-out", f"{name}.crt",
    )  # fmt: skip


def write_pki(directory: Path, addresses: Addresses) -> str:
    """Makes the authority, every certificate and the service-account key pair.

    Returns:
        The authority's certificate as kubeconfig wants it (PEM in base64).
    """
    directory.mkdir(parents=True, mode=0o700)
    _openssl(
        directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes", "-sha256", "-days", str(VALID_DAYS), "-subj", "/CN=headrace-devcluster",
        "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
        "-keyout", "ca.key", "-out", "ca.crt",
    )  # fmt: skip
    for certificate in build_certificates(addresses):
        _sign(directory, certificate)
    _openssl(
        directory, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-out", "service-account.key",
    )  # fmt: skip
    _openssl(
        directory, "pkey", "-in", "service-account.key", "-pubout", "-out", "service-account.pub"
    )
    return base64.b64encode((directory / "ca.crt").read_bytes()).decode()
