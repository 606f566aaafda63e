"""The project's own container images: what each is made from.

Pure descriptions; `builder` makes images from them. An image's key covers its Dockerfile, every
file that goes into it and its parent's key, so the key changes exactly when the image would. What
goes in first changes least: distribution packages, dependencies, jars, and last Headrace itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from headrace.cli.jars import read_lock
from headrace.errors import InvalidConfigError
from headrace_devcluster.cache import Source, compute_key
from headrace_devcluster.checkout import Checkout

REGISTRY = "registry.local"
BASE_SUITE = "bookworm"
PYTHON_VERSION = "3.11"
"""What the base's ``python3`` is; dependencies are installed for it from the host."""


class Part(Enum):
    """What can go into an image beside its own files; made by the builder when needed."""

    DEPENDENCIES = "lib"
    """The locked Python packages, as a directory for ``sys.path``."""

    APPLICATION = "app"
    """Headrace itself, installed from the checkout."""

    JARS = "jars"
    MINIO = "minio"


@dataclass(frozen=True, slots=True)
class Image:
    """One image of the project."""

    name: str
    parent: str
    """Name of the image that it extends; ``base`` is the Debian root made by debootstrap."""

    tag: str = ""
    """What pods call it; empty for parents, which no pod runs."""

    parts: tuple[Part, ...] = ()
    requirements: str = ""
    """Lock file of the dependencies."""

    jars: str = ""
    """Set of jars, see `headrace.cli.jars`."""

    borrowed: tuple[str, ...] = ()
    """Files of other images' directories, ``image/file``."""


BASE = "base"

IMAGES: dict[str, Image] = {
    image.name: image
    for image in (
        Image("python", BASE),
        Image("java", "python"),
        Image(
            "runtime-deps",
            "java",
            parts=(Part.DEPENDENCIES, Part.JARS),
            requirements="runtime.txt",
            jars="spark-kafka",
        ),
        Image(
            "runtime",
            "runtime-deps",
            f"{REGISTRY}/headrace-runtime:dev",
            parts=(Part.APPLICATION,),
        ),
        Image("operator-deps", "python", parts=(Part.DEPENDENCIES,), requirements="operator.txt"),
        Image(
            "operator",
            "operator-deps",
            f"{REGISTRY}/headrace-operator:dev",
            parts=(Part.APPLICATION,),
            borrowed=("runtime/headrace",),
        ),
        Image("kafka", "java", f"{REGISTRY}/kafka:4.2.0", (Part.JARS,), jars="kafka-broker"),
        Image("minio", BASE, f"{REGISTRY}/minio:dev", (Part.MINIO,)),
    )
}


def find_image(name: str) -> Image:
    """Finds an image that pods can run.

    Raises:
        InvalidConfigError: There is none of that name.
    """
    image = IMAGES.get(name)
    if image is None or not image.tag:
        known = ", ".join(sorted(image.name for image in IMAGES.values() if image.tag))
        raise InvalidConfigError(
            f"no such image: name one of {known}, or an image archive's path image={name}"
        )
    return image


def list_application_sources(checkout: Checkout) -> list[Source]:
    """What the application part is made from."""
    root = checkout.root
    packages = ("runtime/src", "operator/src", "e2e/devcluster/src", "e2e/demo/src")
    return [Source(root / "pyproject.toml"), *(Source(root / package) for package in packages)]


def _list_sources(checkout: Checkout, image: Image) -> Iterable[Source]:
    yield Source(checkout.images / image.name)
    for file in image.borrowed:
        yield Source(checkout.images / file)
    if Part.DEPENDENCIES in image.parts:
        yield Source(checkout.requirements / image.requirements)
    if Part.MINIO in image.parts:
        yield Source(checkout.devcluster / "minio")
    if Part.APPLICATION in image.parts:
        yield from list_application_sources(checkout)


def compute_image_keys(checkout: Checkout, name: str, architecture: str) -> dict[str, str]:
    """Names the exact image that a build would give now, and those that it extends.

    Args:
        checkout: The source tree.
        name: One of `IMAGES`, or ``base``.
        architecture: The machine's, as the kernel calls it (``x86_64``).

    Returns:
        Image name to key, from ``name`` down to ``base``.
    """
    if name == BASE:
        return {BASE: compute_key((), [BASE_SUITE, architecture])}
    image = IMAGES[name]
    keys = compute_image_keys(checkout, image.parent, architecture)
    words = [keys[image.parent], image.tag]
    if image.jars:
        words.append(read_lock()[image.jars].key)
    return {**keys, name: compute_key(_list_sources(checkout, image), words)}
