"""Where clusters, caches and kubeconfigs are: read from the environment once, in ``main``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import InvalidConfigError
from headrace_devcluster.cache import locate_cache

DEFAULT_ROOT = Path("/var/lib/headrace")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the embedded cluster takes from its surroundings."""

    root: Path
    """Directory of all clusters (``HEADRACE_CLUSTERS``)."""

    cache: Path
    """Directory of built binaries and images (``HEADRACE_CACHE``)."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Handed on to build tools, for proxies, mirrors and certificates."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Reads the settings from environment variables, or takes the defaults."""
        return cls(
            root=Path(environment.get("HEADRACE_CLUSTERS") or DEFAULT_ROOT).absolute(),
            cache=locate_cache(environment).absolute(),
            environment=dict(environment),
        )


def find_kubeconfig(environment: Mapping[str, str]) -> Path:
    """The kubeconfig that ``--use-kubeconfig`` means.

    Raises:
        InvalidConfigError: KUBECONFIG is not set, names several files, or names none.
    """
    value = environment.get("KUBECONFIG", "")
    path = Path(value)
    if not value or ":" in value or not path.is_file():
        raise InvalidConfigError(
            "--use-kubeconfig needs KUBECONFIG to name one existing file: set it to the "
            f"kubeconfig of the cluster to use KUBECONFIG={value!r}"
        )
    return path.absolute()
