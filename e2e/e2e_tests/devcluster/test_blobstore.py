"""Images kept as blobs, from buildah's store to an archive."""

import base64
import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_devcluster.archive import write_program_image
from headrace_devcluster.blobstore import KEPT_VERSIONS, BlobStore, write_image_archive
from headrace_devcluster.errors import BuildFailedError
from headrace_devcluster.export import export_image, read_tar_split

NAME = "localhost/headrace-x:1"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def split_tar(archive: bytes) -> Iterator[dict[str, object]]:
    """Records an archive as buildah's store does: all bytes but the contents of files."""
    position = 0
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            header = archive[position : member.offset_data]
            yield {"type": 2, "payload": base64.b64encode(header).decode()}
            crc = base64.b64encode(b"crc").decode() if member.size else None
            yield {"type": 1, "name": member.name, "size": member.size, "payload": crc}
            position = member.offset_data + member.size
    yield {"type": 2, "payload": base64.b64encode(archive[position:]).decode()}


@pytest.fixture
def layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in (("etc/a", b"alpha" * 300), ("etc/empty", b""), ("etc/ä", b"umlaut")):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def store(tmp_path: Path, layer: bytes) -> Path:
    """A store of buildah with one image of one layer."""
    root = tmp_path / "store"
    files = root / "overlay/layer1/diff"
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        files.mkdir(parents=True)
        archive.extractall(files, filter="data")
    (root / "overlay-layers").mkdir()
    with gzip.open(root / "overlay-layers/layer1.tar-split.gz", "wt") as record:
        record.writelines(json.dumps(segment) + "\n" for segment in split_tar(layer))
    layers = [{"id": "layer1", "diff-digest": digest_of(layer)}]
    (root / "overlay-layers/layers.json").write_text(json.dumps(layers))
    config = b'{"os": "linux"}'
    manifest = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"digest": digest_of(config), "size": len(config)},
        "layers": [{"digest": digest_of(layer), "size": len(layer)}],
    }
    image = root / "overlay-images/image1"
    image.mkdir(parents=True)
    (image / "manifest").write_text(json.dumps(manifest))
    (image / f"={base64.b64encode(digest_of(config).encode()).decode()}").write_bytes(config)
    (root / "overlay-images/images.json").write_text(
        json.dumps([{"id": "image1", "names": [NAME]}])
    )
    return root


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def test_a_layer_is_put_together_byte_for_byte(store: Path, blobs: BlobStore, layer: bytes) -> None:
    export_image(store, NAME, blobs, blobs.manifest("x", "1"))
    assert layer == blobs.blob(digest_of(layer)).read_bytes()


def test_a_layer_that_is_not_what_its_name_says_is_refused(store: Path, blobs: BlobStore) -> None:
    (store / "overlay/layer1/diff/etc/a").write_bytes(b"omega" * 300)
    with pytest.raises(BuildFailedError, match="not the one it is named"):
        export_image(store, NAME, blobs, blobs.manifest("x", "1"))
    assert not blobs.manifest("x", "1").exists()


def test_a_layer_that_is_kept_already_is_not_read_again(
    store: Path, blobs: BlobStore, layer: bytes
) -> None:
    export_image(store, NAME, blobs, blobs.manifest("x", "1"))
    (store / "overlay-layers/layer1.tar-split.gz").unlink()
    export_image(store, NAME, blobs, blobs.manifest("x", "2"))
    assert blobs.manifest("x", "2").exists()


def test_an_image_that_the_store_lost_is_an_error_that_says_what_to_do(
    store: Path, blobs: BlobStore
) -> None:
    with pytest.raises(BuildFailedError, match="build again"):
        export_image(store, "localhost/other:1", blobs, blobs.manifest("x", "1"))


def test_names_that_are_not_text_are_found_by_their_bytes() -> None:
    raw = base64.b64encode(b"etc/\xff").decode()
    [part] = read_tar_split([json.dumps({"type": 1, "name_raw": raw, "size": 1}).encode()])
    assert os.fsdecode(b"etc/\xff") == part


def test_an_archive_holds_only_the_blobs_that_the_reader_lacks(
    store: Path, blobs: BlobStore, layer: bytes
) -> None:
    manifest = blobs.manifest("x", "1")
    export_image(store, NAME, blobs, manifest)

    def names(present: set[str]) -> set[str]:
        buffer = io.BytesIO()
        write_image_archive(blobs, manifest, "registry.local/x:1", present, buffer)
        with tarfile.open(fileobj=io.BytesIO(buffer.getvalue())) as archive:
            return set(archive.getnames())

    layer_file = f"blobs/sha256/{digest_of(layer).removeprefix('sha256:')}"
    assert layer_file in names(set())
    assert names(set()) - {layer_file} == names({digest_of(layer)})
    assert {"oci-layout", "index.json"} <= names({digest_of(layer)})


def test_old_builds_go_and_blobs_in_use_stay(store: Path, blobs: BlobStore, layer: bytes) -> None:
    for number in range(KEPT_VERSIONS + 2):
        path = blobs.manifest("x", str(number))
        export_image(store, NAME, blobs, path)
        os.utime(path, (number, number))
    stray = blobs.blob(digest_of(b"stray"))
    stray.write_bytes(b"stray")
    assert blobs.prune("x") == ["1", "0"]
    assert not stray.exists()
    assert blobs.blob(digest_of(layer)).exists()


def test_the_same_program_gives_the_same_image(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF")
    for name in ("one.tar", "two.tar"):
        write_program_image(tmp_path / name, "registry.local/pause:1", program)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
