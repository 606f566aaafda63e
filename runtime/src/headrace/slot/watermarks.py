"""Event time of a job: one watermark from the progress of every source split (G2, G5, G6).

Every slot of level 1 hears of every split in every epoch (`PROGRESS` chunks go to all slots), keeps
the same table and so computes the same watermark; higher levels of the slot use that one. The
watermark moves at the end of an epoch, never within it, so lateness does not depend on the order of
rows inside an epoch (G15). Source: Flink's ``WatermarkOutputMultiplexer`` and
``BoundedOutOfOrdernessWatermarks`` (watermark = greatest timestamp - delay - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.graph.stream_graph import WatermarkSpec
    from headrace.slot.chunk import SplitProgress

WATERMARK_MIN: Final = -(1 << 63)
WATERMARK_MAX: Final = (1 << 63) - 1


class StoredSplit(msgspec.Struct, frozen=True, array_like=True):
    """One split as it is kept in the checkpoint, under the source's uid."""

    source_uid: str
    split: str
    max_timestamp_ms: int
    idle: bool


@dataclass(slots=True)
class _Split:
    max_timestamp_ms: int = WATERMARK_MIN
    last_active_ms: int = 0
    idle: bool = False


class WatermarkTracker:
    """Watermark state of one slot. ``current_ms`` never goes back."""

    def __init__(self, sources: Mapping[int, tuple[str, WatermarkSpec]]) -> None:
        """Prepare for the job's sources.

        Args:
            sources: source index -> (uid, strategy), only those with event time.
        """
        self._specs = {index: spec for index, (_, spec) in sources.items()}
        self._uids = {index: uid for index, (uid, _) in sources.items()}
        self._splits: dict[tuple[int, str], _Split] = {}
        self._ended: set[int] = set()
        self.current_ms = WATERMARK_MIN

    def observe(
        self,
        progress: Iterable[SplitProgress],
        processing_time_ms: int,
        ended_sources: Iterable[int] = (),
    ) -> None:
        """Take in what source tasks saw in this epoch, and which sources have ended with it."""
        self._ended.update(ended_sources)
        for seen in progress:
            if seen.max_timestamp_ms is None or seen.source not in self._specs:
                continue
            split = self._splits.setdefault((seen.source, seen.split), _Split())
            split.max_timestamp_ms = max(split.max_timestamp_ms, seen.max_timestamp_ms)
            split.last_active_ms = processing_time_ms
            split.idle = False

    def advance(self, processing_time_ms: int, *, final: bool) -> int:
        """Move the watermark at the end of an epoch and return it (ms)."""
        if final:
            self.current_ms = WATERMARK_MAX
            return self.current_ms
        candidates: list[int] = []
        for (source, _), split in self._splits.items():
            spec = self._specs[source]
            idle_after = spec.idleness_ms
            if idle_after is not None and processing_time_ms - split.last_active_ms >= idle_after:
                split.idle = True
            if not split.idle and source not in self._ended:
                candidates.append(split.max_timestamp_ms - spec.out_of_orderness_ms - 1)
        silent = [
            source
            for source in self._specs
            if source not in self._ended and not any(key[0] == source for key in self._splits)
        ]
        if candidates and not silent:
            self.current_ms = max(self.current_ms, min(candidates))
        return self.current_ms

    def store(self) -> list[bytes]:
        """Return the splits as items of a union state."""
        return [
            msgspec.msgpack.encode(
                StoredSplit(self._uids[source], name, split.max_timestamp_ms, split.idle)
            )
            for (source, name), split in self._splits.items()
        ]

    def restore(
        self, items: Iterable[bytes], watermark_ms: int | None, processing_time_ms: int
    ) -> None:
        """Take over stored splits; splits of sources that are gone no longer count."""
        by_uid = {uid: index for index, uid in self._uids.items()}
        for item in items:
            stored = msgspec.msgpack.decode(item, type=StoredSplit)
            if stored.source_uid not in by_uid:
                continue
            split = self._splits.setdefault((by_uid[stored.source_uid], stored.split), _Split())
            split.max_timestamp_ms = max(split.max_timestamp_ms, stored.max_timestamp_ms)
            split.last_active_ms = processing_time_ms
            split.idle = stored.idle
        if watermark_ms is not None:
            self.current_ms = watermark_ms
