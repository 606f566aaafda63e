"""From stored metadata to the summary that REST and status show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.api.driver import CheckpointSummary
from headrace.checkpoint.protocol.paths import checkpoint_dir

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import CheckpointMetadata


def summary_of(metadata: CheckpointMetadata, root_uri: str) -> CheckpointSummary:
    """Return the summary of a complete checkpoint; its trigger time is not stored."""
    slots = metadata.slots
    return CheckpointSummary(
        id=metadata.checkpoint_id,
        status="COMPLETED",
        generation=metadata.generation,
        epoch=metadata.source.epoch if metadata.source else 0,
        path=f"{root_uri}/{checkpoint_dir(metadata.checkpoint_id)}",
        trigger_ms=metadata.created_ms,
        completed_ms=metadata.created_ms,
        sync_ms=max((slot.sync_ms for slot in slots), default=None),
        async_ms=max((slot.async_ms for slot in slots), default=None),
        state_size_bytes=sum(slot.state_size_bytes for slot in slots),
        uploaded_bytes=sum(slot.uploaded_bytes for slot in slots),
    )
