"""What the demo applies besides servers and operator: the example's own files, adapted.

The program and the StreamJob are those of ``examples/upi_per_merchant``, so that the demo runs
what a reader of the examples sees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import yaml

from headrace_devcluster.checkout import find_checkout
from headrace_devcluster.images import IMAGES, REGISTRY

JOB_NAME: Final = "upi-per-merchant"
INPUT_TOPIC: Final = "payments"
OUTPUT_TOPIC: Final = "merchant-totals"
PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True)
class Images:
    """Where pods take the project's images from."""

    registry: str = REGISTRY
    """Put in place of the embedded cluster's ``registry.local``."""

    def name(self, image: str) -> str:
        """Returns what pods call an image of `headrace_devcluster.images`."""
        return self.adapt(IMAGES[image].tag)

    def adapt(self, manifest: str) -> str:
        """Returns a manifest's text with the images taken from this registry."""
        return manifest.replace(f"{REGISTRY}/", f"{self.registry}/")


def example_directory() -> Path:
    """Returns the directory of the example."""
    return find_checkout().root / "examples" / "upi_per_merchant"


def build_program(namespace: str, name: str, program: str) -> dict[str, object]:
    """Returns the ConfigMap that holds a program under ``job.py``."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"job.py": program},
    }


def build_stream_job(namespace: str, images: Images) -> dict[str, object]:
    """Returns the example's StreamJob, for a namespace and a registry."""
    text = images.adapt((example_directory() / "streamjob.yaml").read_text())
    job = cast("dict[str, object]", yaml.safe_load(text))
    metadata = cast("dict[str, object]", job["metadata"])
    return {**job, "metadata": {**metadata, "namespace": namespace}}


def build_job(namespace: str, images: Images) -> str:
    """Returns program and StreamJob of the demo as YAML documents."""
    program = (example_directory() / "job.py").read_text()
    return render(
        [build_program(namespace, JOB_NAME, program), build_stream_job(namespace, images)]
    )


def render(documents: Iterable[object]) -> str:
    """Returns objects as YAML documents."""
    return yaml.safe_dump_all(documents, sort_keys=False)
