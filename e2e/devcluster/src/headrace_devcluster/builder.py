"""Builds the project's images with buildah, from Dockerfiles, without a registry or a daemon.

Each image is built on its parent's exact build (tagged by key in a private store) in a context
assembled from hard links. Dependencies are installed into the context by the host's uv, for the
image's Python, so that the host's package index, proxies and certificates are used as they are.
Every build runs in namespaces of its own that end with it: a killed build leaves no mounts.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.cli.jars import resolve_jars
from headrace_devcluster import images
from headrace_devcluster.blobstore import BlobStore, read_manifest, write_image_archive
from headrace_devcluster.checkout import Checkout
from headrace_devcluster.commands import ISOLATED, run_logged
from headrace_devcluster.export import export_image, find_unpacked_layers
from headrace_devcluster.images import BASE, IMAGES, Image, Part
from headrace_devcluster.progress import Progress
from headrace_devcluster.toolchain import MINIO, Toolchain

_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
"""Images come from this machine only, so there is no signature to check."""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image in the cache."""

    image: Image
    key: str
    manifest: Path
    """Its manifest in the blob store."""


class ImageBuilder:
    """Builds images of a checkout into a cache."""

    def __init__(
        self,
        checkout: Checkout,
        cache: Path,
        toolchain: Toolchain,
        environment: Mapping[str, str],
        progress: Progress,
    ) -> None:
        self._checkout = checkout
        self._cache = cache
        self._toolchain = toolchain
        self._environment = dict(environment)
        self._progress = progress
        self._store = cache / "buildah" / "store"
        self.blobs = BlobStore(cache / "images")

    def build(self, name: str) -> BuiltImage:
        """Returns an image, building what is not in the cache.

        Raises:
            InvalidConfigError: There is no such image.
            BuildFailedError: A step failed; the message names its log.
        """
        image = images.find_image(name)
        # Computed once: the checkout may change while the build runs.
        keys = images.compute_image_keys(self._checkout, name, platform.machine())
        manifest = self.blobs.manifest(name, keys[name])
        if not manifest.exists():
            with self._locked():
                if not manifest.exists():
                    self._build_image(name, keys)
                    self._export(name, keys[name])
        return BuiltImage(image, keys[name], manifest)

    def find_unpacked_layers(self, built: BuiltImage) -> list[tuple[str, Path | None]]:
        """The layers of a built image as directories of files, see `snapshots`."""
        return find_unpacked_layers(self._store, read_manifest(built.manifest))

    def write_archive(self, name: str, path: Path) -> None:
        """Builds an image and writes it as an OCI archive, to be loaded into any cluster."""
        built = self.build(name)
        with path.open("wb") as output:
            write_image_archive(self.blobs, built.manifest, built.image.tag, (), output)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One build at a time: builds share a store, and use every core by themselves."""
        store = self._cache / "buildah"
        store.mkdir(parents=True, exist_ok=True)
        handle = os.open(store, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _build_image(self, name: str, keys: Mapping[str, str]) -> None:
        """Builds an image and, before it, whatever it extends, unless the store has it."""
        tag = _store_tag(name, keys[name])
        if self._is_stored(tag):
            return
        if name == BASE:
            with self._progress.step(f"Image base: Debian {images.BASE_SUITE} (about 25 s, once)"):
                self._build_base(tag)
            return
        image = IMAGES[name]
        self._build_image(image.parent, keys)
        with self._progress.step(f"Image {name}"), self._scratch() as context:
            self._fill_context(image, context)
            parent = _store_tag(image.parent, keys[image.parent])
            self._build_from_context(name, tag, context, "--build-arg", f"PARENT={parent}")

    def _build_base(self, tag: str) -> None:
        with self._scratch() as context:
            root = context / "root"
            mirror = observe_debian_mirror(images.BASE_SUITE)
            run_logged(
                "the base image",
                [
                    *ISOLATED, "debootstrap", "--variant=minbase",
                    images.BASE_SUITE, str(root), *([mirror] if mirror else []),
                ],
                self._log("debootstrap"),
                environment=self._environment,
            )  # fmt: skip
            for useless in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc"):
                shutil.rmtree(root / useless)
                (root / useless).mkdir(parents=True)
            (context / "Dockerfile").write_text("FROM scratch\nCOPY root /\n")
            self._build_from_context(BASE, tag, context)

    def _build_from_context(self, name: str, tag: str, context: Path, *arguments: str) -> None:
        run_logged(
            f"image {name}",
            [
                *self._buildah("bud"), "--isolation", "chroot", "--network", "host",
                "--pull-never", "--layers", "--timestamp", "0",
                *arguments, "--tag", tag, str(context),
            ],
            self._log(name),
            environment=self._environment,
        )  # fmt: skip

    def _export(self, name: str, key: str) -> None:
        """Copies an image out of buildah's store, then drops builds that nobody needs any more."""
        with self._progress.step(f"Exporting image {name}"):
            export_image(
                self._store, _store_tag(name, key), self.blobs, self.blobs.manifest(name, key)
            )
        for old in self.blobs.prune(name):
            subprocess.run(
                [*self._buildah("rmi")[:-2], _store_tag(name, old)],
                capture_output=True,
                check=False,
            )

    def _buildah(self, command: str) -> list[str]:
        policy = self._cache / "buildah" / "policy.json"
        policy.write_text(_POLICY)
        return [
            *ISOLATED, "buildah",
            "--root", str(self._store),
            "--runroot", str(self._cache / "buildah" / "run"),
            "--storage-driver", "overlay",
            command,
            "--signature-policy", str(policy),
        ]  # fmt: skip

    def _is_stored(self, tag: str) -> bool:
        store = self._buildah("images")[:-2]
        done = subprocess.run([*store, "--quiet", tag], capture_output=True, check=False)
        return done.returncode == 0

    def _log(self, name: str) -> Path:
        return self._cache / "logs" / f"image-{name}.log"

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A directory beside the cache's own, so that files can be linked and renamed."""
        parent = self._cache / "buildah"
        with tempfile.TemporaryDirectory(dir=parent, prefix="context-") as path:
            yield Path(path)

    def _fill_context(self, image: Image, context: Path) -> None:
        shutil.copytree(self._checkout.images / image.name, context, dirs_exist_ok=True)
        for file in image.borrowed:
            shutil.copy2(self._checkout.images / file, context)
        if Part.DEPENDENCIES in image.parts:
            lock = self._checkout.requirements / image.requirements
            self._install(context / "lib", "--require-hashes", "--requirement", str(lock))
        if Part.APPLICATION in image.parts:
            self._install(context / "app", str(self._checkout.root))
        if Part.JARS in image.parts:
            (context / "jars").mkdir()
            for jar in resolve_jars(image.jars, self._cache, self._progress.note):
                shutil.copy2(jar, context / "jars")
        if Part.MINIO in image.parts:
            shutil.copy2(self._toolchain.build_program(MINIO), context / "minio")

    def _install(self, target: Path, *what: str) -> None:
        """Installs Python packages for the image, not for the host."""
        run_logged(
            f"Python packages in {target.name}",
            [
                str(self._checkout.find_uv()), "pip", "install", "--no-deps",
                "--target", str(target),
                "--python-version", images.PYTHON_VERSION,
                "--python-platform", f"{platform.machine()}-manylinux_2_36",
                *what,
            ],
            self._log(f"install-{target.name}"),
            environment=self._environment,
        )  # fmt: skip
        # Scripts for the host's interpreter; the image has its own.
        shutil.rmtree(target / "bin", ignore_errors=True)


def _store_tag(name: str, key: str) -> str:
    """What an image is called in the private store."""
    return f"localhost/headrace-{name}:{key}"


def observe_debian_mirror(suite: str) -> str | None:
    """The mirror that this machine's apt uses for a release; None lets debootstrap choose."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        release, _, address = line.partition(" ")
        if release == suite:
            return address
    return None
