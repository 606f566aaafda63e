"""``StateTtlConfig`` of ``pyflink.datastream.state``: when entries of a state expire (B15).

Stamps are times of the machine's clock, as in Flink, kept with the values. When expired entries
that nobody accesses are removed differs between Flink's backends; here it is one way for both,
between epochs (`headrace.state.purge`):

=====================================  ==========================================================
in the background (the default)        some stored entries at a time, about 1 % of the time
``cleanup_incrementally(n, every)``    ``n`` stored entries for each access of the state; with
                                       ``every`` also in epochs without access, as by default
``cleanup_in_rocksdb_compact_filter``  as by default: there is no compaction filter
``cleanup_full_snapshot``              all, before every snapshot that writes all rows (the
                                       in-memory backend's); as in Flink not when incremental
=====================================  ==========================================================
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from headrace.common.time import Duration, Time
from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPACTION_PERIOD = Duration.of_days(30)


class StateTtlConfig:
    """When entries of a state expire; made by `new_builder`."""

    class UpdateType(enum.Enum):
        """What counts as access."""

        Disabled = 0
        """Nothing expires."""
        OnCreateAndWrite = 1
        """Creating and writing."""
        OnReadAndWrite = 2
        """Reading too."""

    class StateVisibility(enum.Enum):
        """Whether an expired entry can still be seen."""

        ReturnExpiredIfNotCleanedUp = 0
        """Once, if it was not removed yet."""
        NeverReturnExpired = 1
        """Never."""

    class TtlTimeCharacteristic(enum.Enum):
        """Which time counts."""

        ProcessingTime = 0
        """The machine's clock."""

    def __init__(
        self,
        update_type: StateTtlConfig.UpdateType,
        state_visibility: StateTtlConfig.StateVisibility,
        ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic,
        ttl: Time | Duration,
        cleanup_strategies: StateTtlConfig.CleanupStrategies,
    ) -> None:
        self._ttl_ms = ttl.to_milliseconds() if isinstance(ttl, Time) else ttl.to_millis()
        if self._ttl_ms < 1:
            msg = f"time to live must be at least a millisecond; ttl_ms={self._ttl_ms}"
            raise InvalidProgramError(msg)
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Return a builder of a configuration with this time to live."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Return what counts as access."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Return whether an expired entry can still be seen."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return the time to live."""
        return Time.milliseconds(self._ttl_ms)

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Return which time counts."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether anything expires."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> StateTtlConfig.CleanupStrategies:
        """Return when expired entries are removed."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig(ttl={self._ttl_ms} ms, update={self._update_type.name}, "
            f"visibility={self._state_visibility.name})"
        )

    class Builder:
        """Builds a `StateTtlConfig`; every method but `build` returns the builder."""

        def __init__(self, ttl: Time | Duration) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._time = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies,
                StateTtlConfig.CleanupStrategies.CleanupStrategy,
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Set what counts as access."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Let creating and writing count as access (the default)."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Let reading count as access too."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: StateTtlConfig.StateVisibility
        ) -> StateTtlConfig.Builder:
            """Set whether an expired entry can still be seen."""
            self._visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Let an expired entry be seen once if it was not removed yet."""
            return self.set_state_visibility(
                StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
            )

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Let no expired entry be seen (the default)."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set which time counts; there is only processing time."""
            self._time = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Let the machine's clock count (the default)."""
            return self.set_ttl_time_characteristic(
                StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            )

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired entries out of snapshots that write all rows."""
            kinds = StateTtlConfig.CleanupStrategies
            self._strategies[kinds.Strategies.FULL_STATE_SCAN_SNAPSHOT] = kinds.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Look at ``cleanup_size`` stored entries for each access of the state."""
            kinds = StateTtlConfig.CleanupStrategies
            self._strategies[kinds.Strategies.INCREMENTAL_CLEANUP] = (
                kinds.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: Duration | None = None,
        ) -> StateTtlConfig.Builder:
            """Remove expired entries in the background; there is no compaction filter to tune."""
            kinds = StateTtlConfig.CleanupStrategies
            self._strategies[kinds.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                kinds.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Remove expired entries only when they are accessed, or as another call says."""
            self._in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration) -> StateTtlConfig.Builder:
            """Set the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration.

            Raises:
                InvalidProgramError: the time to live is shorter than a millisecond.
            """
            return StateTtlConfig(
                self._update_type,
                self._visibility,
                self._time,
                self._ttl,
                StateTtlConfig.CleanupStrategies(dict(self._strategies), self._in_background),
            )

    class CleanupStrategies:
        """When expired entries are removed, beside when they are accessed."""

        class Strategies(enum.Enum):
            """The strategies that can be configured."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """A configured strategy."""

        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy without settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Settings of `Builder.cleanup_incrementally`."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                self._cleanup_size = cleanup_size
                self._run_cleanup_for_every_record = run_cleanup_for_every_record

            def get_cleanup_size(self) -> int:
                """Return how many entries to look at for each access."""
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Return whether to look at entries without access too."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Settings of `Builder.cleanup_in_rocksdb_compact_filter`."""

            def __init__(
                self,
                query_time_after_num_entries: int,
                periodic_compaction_time: Duration | None = None,
            ) -> None:
                self._query_time_after_num_entries = query_time_after_num_entries
                self._periodic_compaction_time = periodic_compaction_time or _COMPACTION_PERIOD

            def get_query_time_after_num_entries(self) -> int:
                """Return what was configured; it has no effect."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Return what was configured; it has no effect."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(
            self,
            strategies: Mapping[
                StateTtlConfig.CleanupStrategies.Strategies,
                StateTtlConfig.CleanupStrategies.CleanupStrategy,
            ],
            is_cleanup_in_background: bool,
        ) -> None:
            self._strategies = strategies
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Return whether the default clean-up runs."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            """Return whether full snapshots leave expired entries out."""
            return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy | None:
            """Return the settings, PyFlink's default ones in the background, else None."""
            found = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
            if isinstance(found, self.IncrementalCleanupStrategy):
                return found
            default = self.IncrementalCleanupStrategy(5, run_cleanup_for_every_record=False)
            return default if self._is_cleanup_in_background else None

        def get_rocksdb_compact_filter_cleanup_strategy(
            self,
        ) -> StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
            """Return the settings, PyFlink's default ones in the background, else None."""
            found = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
            if isinstance(found, self.RocksdbCompactFilterCleanupStrategy):
                return found
            default = self.RocksdbCompactFilterCleanupStrategy(1000)
            return default if self._is_cleanup_in_background else None

        def is_configured(self, strategy: StateTtlConfig.CleanupStrategies.Strategies) -> bool:
            """Return whether a strategy was asked for by name (Headrace's own)."""
            return strategy in self._strategies
