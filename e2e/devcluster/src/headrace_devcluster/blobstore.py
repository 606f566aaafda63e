"""Keeps built images as files named by digest, ready to be imported into a cluster.

Layers are stored once, uncompressed, however many images share them, and only those that are
missing are written. So a change of Headrace's source costs the export and the import of its own
two small layers, not of the gigabyte below them.

Layout: ``blobs/sha256/<hex>``, ``manifests/<name>-<key>.json`` (the image's manifest).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

_CHUNK_BYTES = 1 << 20
KEPT_VERSIONS = 3
"""Builds kept of each image: today's, and two to go back to."""


class Descriptor(msgspec.Struct, frozen=True):
    """A reference to a blob, as in the OCI image specification."""

    digest: str
    size: int

    @property
    def hexadecimal(self) -> str:
        """The digest without its algorithm, which is the name of the blob's file."""
        return self.digest.removeprefix("sha256:")


class Manifest(msgspec.Struct, frozen=True):
    """What of an image manifest is used here."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    media_type: str = msgspec.field(default="", name="mediaType")

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """Everything that the image consists of beside the manifest."""
        return (self.config, *self.layers)

    @property
    def size_bytes(self) -> int:
        """What the image takes when nothing of it is shared."""
        return sum(blob.size for blob in self.blobs)


@dataclass(frozen=True, slots=True)
class BlobStore:
    """Images in a directory of the cache."""

    root: Path

    def blob(self, digest: str) -> Path:
        """Where a blob is, or would be."""
        return self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def manifest(self, name: str, key: str) -> Path:
        """Where the manifest of a build is, or would be."""
        return self.root / "manifests" / f"{name}-{key}.json"

    def prepare(self) -> None:
        """Makes the directories."""
        for directory in (self.root / "blobs" / "sha256", self.root / "manifests"):
            directory.mkdir(parents=True, exist_ok=True)

    def prune(self, name: str) -> list[str]:
        """Removes all but the newest builds of an image, and every blob left without an image.

        The caller holds the build lock. Returns the keys that were removed.
        """
        versions = sorted(
            (self.root / "manifests").glob(f"{name}-*.json"),
            key=lambda path: path.stat().st_mtime_ns,
            reverse=True,
        )
        for old in versions[KEPT_VERSIONS:]:
            old.unlink()
        used: set[str] = set()
        for path in (self.root / "manifests").iterdir():
            used.update(blob.hexadecimal for blob in read_manifest(path).blobs)
        for blob in (self.root / "blobs" / "sha256").iterdir():
            if blob.name not in used:
                blob.unlink()
        return [old.stem.removeprefix(f"{name}-") for old in versions[KEPT_VERSIONS:]]


def read_manifest(path: Path) -> Manifest:
    """Reads a kept manifest."""
    return msgspec.json.decode(path.read_bytes(), type=Manifest)


def write_image_archive(
    store: BlobStore, manifest_path: Path, tag: str, present: Collection[str], output: IO[bytes]
) -> None:
    """Writes an OCI image archive, as a stream, without the blobs that the reader has.

    Args:
        store: Where the image is kept.
        manifest_path: Its manifest there.
        tag: Name that the image gets where it is imported.
        present: Digests of the reader's blobs.
        output: Where the archive goes; need not be seekable.
    """
    content = manifest_path.read_bytes()
    manifest = read_manifest(manifest_path)
    index = {
        "schemaVersion": 2,
        "manifests": [
            {
                "mediaType": manifest.media_type,
                "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
                "size": len(content),
                "annotations": {"io.containerd.image.name": tag},
            }
        ],
    }
    with tarfile.open(
        fileobj=output, mode="w|", bufsize=_CHUNK_BYTES, format=tarfile.USTAR_FORMAT
    ) as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        for blob in manifest.blobs:
            if blob.digest not in present:
                archive.add(store.blob(blob.digest), f"blobs/sha256/{blob.hexadecimal}")
        _add(archive, f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content)
        _add(archive, "index.json", json.dumps(index).encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
