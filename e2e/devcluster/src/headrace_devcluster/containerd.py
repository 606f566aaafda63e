"""Images in a node's container runtime: what is there, and how more gets in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

from headrace.errors import InternalError
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
    present = frozenset(_run(holder, "content", "list", "--quiet").split())
    _lend_blobs(store, manifest, content, present)
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
    if code != 0 or broken:
        raise ClusterFailedError(
            f"the image could not be imported: read containerd.log image={tag} output={reason!r}"
        )


def _lend_blobs(store: BlobStore, manifest: Path, content: Path, present: Collection[str]) -> None:
    """Links an image's layers into containerd's content store, so that it need not copy them.

    containerd checks for a blob's file before it writes one, skips what it is sent then, and never
    changes a file. Should it collect the link as garbage first, it writes the blob as usual; so it
    does where the cache is on another file system.
    """
    for blob in read_manifest(manifest).layers:
        if blob.digest not in present:
            with contextlib.suppress(OSError):
                os.link(store.blob(blob.digest), content / blob.hexadecimal)


def _input_of(receiver: subprocess.Popen[bytes]) -> IO[bytes]:
    if receiver.stdin is None:
        raise InternalError(f"a process was started without a pipe args={receiver.args!r}")
    return receiver.stdin
