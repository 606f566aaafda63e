"""Images in a node's container runtime: what is there, and how more gets in."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from headrace.errors import InternalError
from headrace.testing.processes import DIES_WITH_PARENT
from headrace_devcluster.blobstore import BlobStore, read_manifest, write_image_archive
from headrace_devcluster.errors import ClusterFailedError
from headrace_devcluster.node import enter_command, run_in_node
from headrace_devcluster.processes import ProcessId

_CTR = ("ctr", "--namespace=k8s.io")
_QUICK_TIMEOUT_S = 30.0
IMPORT_TIMEOUT_S = 600.0


def _run(holder: ProcessId, *arguments: str, timeout_s: float = _QUICK_TIMEOUT_S) -> str:
    done = run_in_node(holder, [*_CTR, *arguments], timeout_s)
    if done.returncode != 0:
        raise ClusterFailedError(
            "the container runtime refused a command: read its log, containerd.log "
            f"command={' '.join(arguments)!r} output={done.stderr.strip()!r}"
        )
    return done.stdout


def list_images(holder: ProcessId) -> list[str]:
    """Names of the images that pods can use, without containerd's own aliases by digest."""
    names = _run(holder, "images", "list", "--quiet").split()
    return sorted(name for name in names if "sha256:" not in name)


def import_archive(holder: ProcessId, archive: Path) -> None:
    """Imports an image archive (OCI or Docker format) from a file.

    Raises:
        ClusterFailedError: containerd cannot read it.
    """
    with archive.open("rb") as content:
        done = subprocess.run(
            [*enter_command(holder), *_CTR, "images", "import", "-"],
            stdin=content,
            capture_output=True,
            text=True,
            timeout=IMPORT_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise ClusterFailedError(
            "the image could not be imported: check that it is an OCI or Docker archive "
            f"archive={archive} output={done.stderr.strip()!r}"
        )


def import_built_image(
    holder: ProcessId, content: Path, store: BlobStore, manifest: Path, tag: str
) -> None:
    """Imports one of the project's images, sending only the layers that the node lacks.

    Args:
        holder: Of the node.
        content: containerd's directory of blobs.
        store: Where the image is kept.
        manifest: Its manifest there.
        tag: Name that pods call it by.

    Raises:
        ClusterFailedError: containerd refused it.
    """
    _lend_blobs(holder, content, store, manifest)
    reason = _send_archive(holder, store, manifest, tag)
    if reason is not None:
        # containerd may have collected what was lent; what it lacks now is sent in full.
        reason = _send_archive(holder, store, manifest, tag)
    if reason is not None:
        raise ClusterFailedError(
            f"the image could not be imported: read containerd.log image={tag} output={reason!r}"
        )


def _list_blobs(holder: ProcessId) -> frozenset[str]:
    return frozenset(_run(holder, "content", "list", "--quiet").split())


def _send_archive(holder: ProcessId, store: BlobStore, manifest: Path, tag: str) -> str | None:
    """Sends an image without the blobs that the node has; returns why that failed, if it did."""
    present = _list_blobs(holder)
    with tempfile.TemporaryFile() as errors:
        receiver = subprocess.Popen(
            [*enter_command(holder), *_CTR, "images", "import", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        broken = False
        try:
            with _input_of(receiver) as output:
                write_image_archive(store, manifest, tag, present, output)
        except BrokenPipeError:
            # It ended early and says why.
            broken = True
        code = receiver.wait(IMPORT_TIMEOUT_S)
        errors.seek(0)
        reason = errors.read().decode(errors="replace").strip()
    return reason or f"exit code {code}" if code != 0 or broken else None


def _lend_blobs(holder: ProcessId, content: Path, store: BlobStore, manifest: Path) -> None:
    """Gives an image's layers to containerd without copying them.

    Each is linked into the content store and then announced as a blob to be written: containerd
    finds the file, sees that nothing is missing, and accepts it. It never changes a file there.
    What cannot be lent, as when the cache is on another file system, is sent later.
    """
    present = _list_blobs(holder)
    for blob in read_manifest(manifest).layers:
        kept, lent = store.blob(blob.digest), content / blob.hexadecimal
        if blob.digest in present:
            continue
        try:
            os.link(kept, lent)
        except OSError:
            continue
        with kept.open("rb") as written:
            subprocess.run(
                [
                    *DIES_WITH_PARENT, *enter_command(holder), *_CTR, "content", "ingest",
                    "--expected-digest", blob.digest, "--expected-size", str(blob.size),
                    f"lent-{blob.hexadecimal}",
                ],
                stdin=written,
                capture_output=True,
                timeout=IMPORT_TIMEOUT_S,
                check=False,
            )  # fmt: skip


def _input_of(receiver: subprocess.Popen[bytes]) -> IO[bytes]:
    if receiver.stdin is None:
        raise InternalError(f"a process was started without a pipe args={receiver.args!r}")
    return receiver.stdin
