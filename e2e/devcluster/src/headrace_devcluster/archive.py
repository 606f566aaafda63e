"""Writes a container image that consists of one static program, without any build tool.

The result is a ``docker-archive`` tar, which containerd imports. Times and owners are zero, so
equal programs give equal images.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    archive.addfile(entry, io.BytesIO(content))


def _tar(name: str, content: bytes, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, name, content, mode)
    return buffer.getvalue()


def write_program_image(path: Path, tag: str, program: Path, user: str = "65534") -> None:
    """Writes an image whose only file and entry point is ``program``.

    Args:
        path: The archive to write.
        tag: Full image name with its tag.
        program: A statically linked executable.
        user: Numeric user that it runs as.
    """
    layer = _tar(program.name, program.read_bytes(), 0o755)
    layer_id = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"], "User": user},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_id}"]},
            "history": [{"created_by": "headrace"}],
        },
        sort_keys=True,
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [tag], "Layers": [f"{layer_id}/layer.tar"]}]
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        _add(archive, config_name, config)
        _add(archive, f"{layer_id}/layer.tar", layer)
        _add(archive, "manifest.json", json.dumps(manifest).encode())
