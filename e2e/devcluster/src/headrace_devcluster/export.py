"""Reads images out of buildah's store, layer by layer, skipping those that are kept already.

``buildah push`` would write, or compress, every layer of an image each time. The store's own
format (containers/storage, overlay driver) is stable and simple: per image a manifest and a
configuration, per layer the unpacked files and a *tar-split* record, which holds every byte of the
original archive that is not file content. Putting both together gives the archive again, and its
digest proves that it is the same one.

Layout read here, below the store:
``overlay-images/images.json``, ``overlay-images/<id>/{manifest,=<base64 of name>}``,
``overlay-layers/layers.json``, ``overlay-layers/<id>.tar-split.gz``, ``overlay/<id>/diff/``.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec

from headrace_devcluster.blobstore import BlobStore, Descriptor, Manifest
from headrace_devcluster.errors import BuildFailedError

_SEGMENT_FILE = 1
_SEGMENT_BYTES = 2
_CHUNK_BYTES = 1 << 20


class _StoredImage(msgspec.Struct, frozen=True):
    id: str
    names: tuple[str, ...] = ()


class _StoredLayer(msgspec.Struct, frozen=True):
    id: str
    diff_digest: str = msgspec.field(default="", name="diff-digest")


class _Segment(msgspec.Struct, frozen=True):
    """One line of a tar-split record: raw bytes, or a file whose content comes next."""

    type: int
    payload: str | None = None
    name: str = ""
    name_raw: str = ""
    """Instead of ``name`` where that would not be valid text; both are base64."""

    size: int = 0


def read_tar_split(record: Iterable[bytes]) -> Iterator[bytes | str]:
    """Yields the parts of a layer archive: raw bytes, or the path of a file to copy in."""
    for line in record:
        segment = msgspec.json.decode(line, type=_Segment)
        if segment.type == _SEGMENT_BYTES:
            yield base64.b64decode(segment.payload or "")
        elif segment.type == _SEGMENT_FILE and segment.size > 0:
            raw = segment.name_raw
            yield base64.b64decode(raw).decode(errors="surrogateescape") if raw else segment.name


def write_layer(store: Path, layer_id: str, output: IO[bytes]) -> None:
    """Puts a layer's archive together."""
    files = store / "overlay" / layer_id / "diff"
    with gzip.open(store / "overlay-layers" / f"{layer_id}.tar-split.gz") as record:
        for part in read_tar_split(record):
            if isinstance(part, bytes):
                output.write(part)
                continue
            with (files / part).open("rb") as content:
                shutil.copyfileobj(content, output, _CHUNK_BYTES)


def export_image(store: Path, name: str, blobs: BlobStore, manifest_path: Path) -> None:
    """Copies what is missing of an image to the blob store; its manifest comes last.

    Raises:
        BuildFailedError: The store does not hold the image, or holds something else than it says.
    """
    images = msgspec.json.decode(
        (store / "overlay-images" / "images.json").read_bytes(), type=list[_StoredImage]
    )
    image = next((image for image in images if name in image.names), None)
    if image is None:
        raise BuildFailedError(f"the image store lost an image: build again image={name}")
    directory = store / "overlay-images" / image.id
    content = (directory / "manifest").read_bytes()
    manifest = msgspec.json.decode(content, type=Manifest)
    blobs.prepare()

    config_name = base64.b64encode(manifest.config.digest.encode()).decode()
    _keep(blobs, manifest.config, (directory / f"={config_name}").read_bytes())
    by_digest = _read_layer_ids(store)
    for layer in manifest.layers:
        if not blobs.blob(layer.digest).exists():
            _keep_layer(store, by_digest[layer.digest], blobs, layer)
    fresh = manifest_path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(manifest_path)


def _read_layer_ids(store: Path) -> dict[str, str]:
    """Reads the stored layers: diff id to the store's own id."""
    layers = msgspec.json.decode(
        (store / "overlay-layers" / "layers.json").read_bytes(), type=list[_StoredLayer]
    )
    return {layer.diff_digest: layer.id for layer in layers}


def find_unpacked_layers(store: Path, manifest: Manifest) -> list[tuple[str, Path | None]]:
    """Looks up the files of an image's layers.

    Returns:
        For each layer, lowest first, its diff id and the directory of its files, or None where the
        store does not have it any more.
    """
    ids = _read_layer_ids(store) if (store / "overlay-layers" / "layers.json").exists() else {}
    return [
        (
            layer.digest,
            store / "overlay" / ids[layer.digest] / "diff" if layer.digest in ids else None,
        )
        for layer in manifest.layers
    ]


def _keep(blobs: BlobStore, blob: Descriptor, content: bytes) -> None:
    fresh = blobs.blob(blob.digest).with_suffix(".new")
    fresh.write_bytes(content)
    _accept(blobs, blob, fresh)


def _keep_layer(store: Path, layer_id: str, blobs: BlobStore, layer: Descriptor) -> None:
    fresh = blobs.blob(layer.digest).with_suffix(".new")
    with fresh.open("wb") as output:
        write_layer(store, layer_id, output)
    _accept(blobs, layer, fresh)


def _accept(blobs: BlobStore, blob: Descriptor, fresh: Path) -> None:
    """Gives a written blob its name if it is what the name says."""
    with fresh.open("rb") as content:
        actual = hashlib.file_digest(content, "sha256").hexdigest()
    if actual != blob.hexadecimal:
        fresh.unlink()
        raise BuildFailedError(
            "a layer read from buildah's store is not the one it is named: delete the cache's "
            f"'buildah' directory and build again expected={blob.hexadecimal} actual={actual}"
        )
    fresh.replace(blobs.blob(blob.digest))
