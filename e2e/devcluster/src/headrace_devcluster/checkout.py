"""Where the project's own files are that binaries and images are built from.

They are not part of an installed distribution: the embedded cluster needs a source checkout.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace_devcluster.errors import MissingToolError, UnsupportedHostError


@dataclass(frozen=True, slots=True)
class Checkout:
    """A source tree of the project."""

    root: Path

    @property
    def devcluster(self) -> Path:
        """Sources of the embedded cluster that are not Python."""
        return self.root / "e2e" / "devcluster"

    @property
    def images(self) -> Path:
        """Dockerfiles, one directory for each image."""
        return self.devcluster / "images"

    @property
    def requirements(self) -> Path:
        """Locks of the Python dependencies."""
        return self.root / "requirements"

    def find_uv(self) -> Path:
        """The project's own uv, else the one on PATH.

        Raises:
            MissingToolError: There is neither.
        """
        private = self.root / ".tools" / "uv" / "bin" / "uv"
        if private.exists():
            return private
        found = shutil.which("uv")
        if found is None:
            raise MissingToolError(
                f"uv is needed to install dependencies: run 'make' first looked_for={private}"
            )
        return Path(found)


def find_checkout() -> Checkout:
    """Finds the source tree that this package is run from.

    Raises:
        UnsupportedHostError: The package was installed from a wheel.
    """
    for directory in Path(__file__).resolve().parents:
        if (directory / "e2e" / "devcluster" / "kube" / "go.mod").exists():
            return Checkout(directory)
    raise UnsupportedHostError(
        "the embedded cluster is built from a source checkout: clone the project and install it "
        f"with 'make', or use another cluster with --use-kubeconfig package={Path(__file__).parent}"
    )
