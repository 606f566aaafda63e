"""Moving bytes while hashing them: XXH3-128, about memory speed, no protection against malice.

The checksum finds torn writes, bit rot and mixed-up files (D22); it is computed over what went
through our hands, not over what a storage service says that it received.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import xxhash

from headrace.checkpoint.storage.store import ContentDigest

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_BYTES: Final = 1 << 20
"""One read; large enough that calls cost nothing, small enough for the second-level cache."""


class DigestBuilder:
    """Running XXH3-128 and length."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()
        self._size_bytes = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._hash.update(data)
        self._size_bytes += len(data)

    def digest(self) -> ContentDigest:
        """Return length and checksum of everything taken so far."""
        return ContentDigest(self._size_bytes, self._hash.hexdigest())


def digest_of(data: bytes) -> ContentDigest:
    """Return length and checksum of ``data``."""
    return ContentDigest(len(data), xxhash.xxh3_128_hexdigest(data))


def copy_with_digest(source: IO[bytes], target: IO[bytes]) -> ContentDigest:
    """Copy ``source`` to its end into ``target``; both must be unbuffered or plain files."""
    builder = DigestBuilder()
    for chunk in chunks_of(source):
        target.write(chunk)
        builder.update(chunk)
    return builder.digest()


def chunks_of(source: IO[bytes], chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the content of ``source`` in pieces of ``chunk_bytes``, the last one shorter."""
    while chunk := source.read(chunk_bytes):
        yield chunk
