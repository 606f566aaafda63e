"""DataFrames as a savepoint: Flink's ``SavepointWriter`` (E9).

Two passes over each operator's rows. The first computes every row's key group, in Python, by the
job's own key type, so that writer and job cannot disagree; Spark then brings the rows of a slot
together, sorted by key. The second writes each slot's state where its rows are
(`headrace.state_processor.bootstrap`). The driver gets one small row a slot and publishes.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, StructField, StructType

from headrace.checkpoint.protocol.types import KeyedStateHandle
from headrace.clock import SystemClock
from headrace.config.options.storage import STORAGE_PREFIXES
from headrace.errors import InvalidConfigError, InvalidProgramError
from headrace.ids import OperatorUid, SlotIndex
from headrace.keygroups import MAX_PARALLELISM_DEFAULT
from headrace.serialization.row import row_class
from headrace.state_processor.bootstrap import (
    KeyedBootstrap,
    SavepointTarget,
    slot_of,
    write_slot,
)
from headrace.state_processor.declared import converter
from headrace.state_processor.existing import (
    copy_files,
    read_existing,
    uids_of,
    without_operator,
)
from headrace.state_processor.functions import FillColumns, KeyedStateBootstrapFunction
from headrace.state_processor.publication import check_free, discard, publish
from headrace.state_processor.reading import uri_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.checkpoint.protocol.types import CheckpointMetadata
    from headrace.common.typeinfo import TypeInformation
    from headrace.ids import KeyGroup
    from headrace.serialization.row import Row
    from headrace.state_processor.functions import Columns

SLOT: Final = "_headrace_slot"
KEY_GROUP: Final = "_headrace_key_group"

_PLACE: Final = (
    StructField(SLOT, IntegerType(), nullable=False),
    StructField(KEY_GROUP, IntegerType(), nullable=False),
)
_WRITTEN: Final = pa.schema([("slot", pa.int32()), ("handle", pa.binary())])
_WRITTEN_DDL: Final = "slot int, handle binary"


@dataclass(frozen=True, slots=True)
class OperatorRows:
    """What one operator's state is made of.

    Attributes:
        frame: its rows.
        key: column of the key.
        key_type: the job's key type, as its ``key_by`` has it.
        fill: columns by state, or a function; both as the job declares its state.
        order_by: columns that order the rows of one key, e.g. the index of a list's elements.
    """

    frame: DataFrame
    key: str
    key_type: TypeInformation
    fill: Sequence[Columns] | KeyedStateBootstrapFunction
    order_by: Sequence[str] = ()

    def function(self) -> KeyedStateBootstrapFunction:
        """Return what writes the state.

        Raises:
            InvalidProgramError: a column is missing, or a state cannot be made of columns.
        """
        fill = self.fill
        function = fill if isinstance(fill, KeyedStateBootstrapFunction) else FillColumns(fill)
        wanted = [self.key, *self.order_by]
        wanted += function.names if isinstance(function, FillColumns) else []
        missing = sorted(set(wanted) - set(self.frame.columns))
        if missing:
            msg = (
                "the frame lacks columns that state is made of; "
                f"missing={missing} columns={self.frame.columns}"
            )
            raise InvalidProgramError(msg)
        return function


@dataclass(frozen=True)
class SavepointWriter:
    """Makes a savepoint that a job can start from. Immutable: `with_operator` returns another one.

    Attributes:
        spark: the session.
        max_parallelism: number of key groups; must be the job's, and stays so for its life.
        parallelism: number of slots that the savepoint is written by, and partitions of the work; a
            job may start with another parallelism.
        backend: ``rocksdb`` or ``hashmap``; the job may have the other one.
        options: of storage (``s3.*``, ``fs.azure.*``) and backend (``state.backend.*``), by Flink's
            keys.
        scratch_dir: local directory of executors; None: the one for temporary files.
        operators: what is written, by uid.
        existing: what it takes over from another savepoint.
    """

    spark: SparkSession
    max_parallelism: int
    parallelism: int
    backend: str
    options: Mapping[str, str]
    scratch_dir: Path | None = None
    operators: Mapping[OperatorUid, OperatorRows] = field(default_factory=dict)
    existing: CheckpointMetadata | None = None

    @classmethod
    def new_savepoint(
        cls,
        spark: SparkSession,
        max_parallelism: int = MAX_PARALLELISM_DEFAULT,
        *,
        parallelism: int | None = None,
        backend: str = "rocksdb",
        options: Mapping[str, str] | None = None,
        scratch_dir: Path | None = None,
    ) -> SavepointWriter:
        """Begin a savepoint without state; see the attributes.

        ``parallelism`` is by default that of the session, at most ``max_parallelism``.
        """
        slots = parallelism or min(spark.sparkContext.defaultParallelism, max_parallelism)
        return cls(spark, max_parallelism, slots, backend, options or {}, scratch_dir)

    @classmethod
    def from_existing_savepoint(
        cls,
        spark: SparkSession,
        path: str,
        *,
        backend: str = "rocksdb",
        options: Mapping[str, str] | None = None,
        scratch_dir: Path | None = None,
    ) -> SavepointWriter:
        """Begin a savepoint with all that another one holds: state, source offsets, watermark.

        Args:
            spark: the session.
            path: of a savepoint; a URI, or a path of this machine.
            backend: writes the state of operators that are added.
            options: see the attributes.
            scratch_dir: see the attributes; of the driver too, for copies between two storages.

        Raises:
            NoRestorableStateError, CorruptStateError, IncompatibleStateError: there is no savepoint
                that a job could go on from.
        """
        given = options or {}
        existing = read_existing(
            path, {k: v for k, v in given.items() if k.startswith(STORAGE_PREFIXES)}
        )
        slots, groups = existing.parallelism, existing.max_parallelism
        return cls(spark, groups, slots, backend, given, scratch_dir, {}, existing)

    def remove_operator(self, uid: str) -> SavepointWriter:
        """Return the writer without the state of an operator of the existing savepoint.

        Its state may then be written anew by `with_operator`, e.g. from a table that was read.

        Raises:
            InvalidConfigError: the existing savepoint has no such operator.
        """
        if self.existing is None:
            msg = f"there is no existing savepoint to remove an operator from; operator={uid}"
            raise InvalidConfigError(msg)
        return dataclasses.replace(self, existing=without_operator(self.existing, OperatorUid(uid)))

    def with_operator(
        self,
        uid: str,
        frame: DataFrame,
        *,
        key: str,
        key_type: TypeInformation,
        fill: Sequence[Columns] | KeyedStateBootstrapFunction,
        order_by: Sequence[str] = (),
    ) -> SavepointWriter:
        """Return the writer with the state of one more operator.

        Args:
            uid: as the job's operator has it.
            frame: its rows.
            key: column of the key.
            key_type: the job's key type, as its ``key_by`` has it.
            fill: columns by state, or a function.
            order_by: columns that order the rows of one key.

        Raises:
            InvalidProgramError: the uid is there already, a column is missing, the key type cannot
                be one.
        """
        if uid in self.operators:
            msg = f"an operator is written twice, put its rows into one frame; operator={uid}"
            raise InvalidProgramError(msg)
        if self.existing is not None and uid in uids_of(self.existing):
            msg = f"the existing savepoint has this operator, remove it first; operator={uid}"
            raise InvalidProgramError(msg)
        rows = OperatorRows(frame, key, key_type, fill, order_by)
        rows.function()
        key_type.key_serializer()
        return dataclasses.replace(self, operators={**self.operators, OperatorUid(uid): rows})

    def write(self, path: str) -> str:
        """Write the savepoint; returns its URI when it exists.

        Args:
            path: its directory, a URI that executors reach too, or a path of this machine.

        Raises:
            InvalidConfigError: a savepoint is there already, or an option is wrong.
            InvalidProgramError: no operator was given.
            Exception: of Spark, when a task failed; nothing is left then.
            StorageUnavailableError, StorageAccessError: storage failed.
        """
        if not self.operators and self.existing is None:
            msg = f"a savepoint without operators holds nothing, add one; path={path}"
            raise InvalidProgramError(msg)
        target = SavepointTarget(
            location=uri_of(path),
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            backend=self.backend,
            storage={k: v for k, v in self.options.items() if k.startswith(STORAGE_PREFIXES)},
            state_options={
                k: v for k, v in self.options.items() if not k.startswith(STORAGE_PREFIXES)
            },
            scratch_dir=self.scratch_dir,
        )
        check_free(target)
        try:
            handles = {
                uid: self._write_operator(target, uid, rows) for uid, rows in self.operators.items()
            }
            existing = self.existing and copy_files(self.existing, target)
        except BaseException:
            discard(target)
            raise
        publish(target, handles, SystemClock(), existing)
        return target.location

    def _write_operator(
        self, target: SavepointTarget, uid: OperatorUid, rows: OperatorRows
    ) -> list[KeyedStateHandle]:
        operator = KeyedBootstrap(uid, rows.key_type.key_serializer(), rows.function())
        to_key = converter(rows.key_type.description)
        order = [_column(name) for name in (KEY_GROUP, rows.key, *rows.order_by)]
        written = (
            rows.frame.mapInArrow(
                _key_group_adder(target, operator, rows.key, to_key),
                StructType([*rows.frame.schema, *_PLACE]),
            )
            .repartitionById(target.parallelism, sf.col(SLOT))
            .sortWithinPartitions(*order)
            .mapInArrow(_slot_writer(target, operator, rows.key, to_key), _WRITTEN_DDL)
            .collect()
        )
        handles = [msgspec.json.decode(row.handle, type=KeyedStateHandle) for row in written]
        # A partition without rows has no task, and its key groups must be there all the same.
        empty = sorted(set(range(target.parallelism)) - {handle.slot for handle in handles})
        clock = SystemClock()
        handles += [write_slot(target, operator, SlotIndex(slot), (), clock) for slot in empty]
        return handles


def _column(name: str) -> Column:
    """Return a column by its exact name, dots and all."""
    return sf.col(f"`{name.replace('`', '``')}`")


def _key_group_adder(
    target: SavepointTarget, operator: KeyedBootstrap, key: str, to_key: Callable[[object], object]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what adds slot and key group to every row."""

    def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            groups: list[KeyGroup] = [
                operator.key_group(to_key(value), target.max_parallelism)
                for value in batch.column(key).to_pylist()
            ]
            slots = [slot_of(target, group) for group in groups]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(slots, pa.int32()), pa.array(groups, pa.int32())],
                [*batch.schema.names, SLOT, KEY_GROUP],
            )

    return add


def _slot_writer(
    target: SavepointTarget, operator: KeyedBootstrap, key: str, to_key: Callable[[object], object]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what writes the slots of a partition, one after the other."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = itertools.chain.from_iterable(map(_rows, batches))
        for slot, group in itertools.groupby(rows, lambda row: row[0]):
            pairs = ((to_key(row[key]), row) for _, row in group)
            handle = write_slot(target, operator, SlotIndex(slot), pairs, SystemClock())
            yield pa.RecordBatch.from_pylist(
                [{"slot": slot, "handle": msgspec.json.encode(handle)}], schema=_WRITTEN
            )

    return write


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[int, Row]]:
    """Yield slot and row of a batch."""
    names = tuple(name for name in batch.schema.names if name not in {SLOT, KEY_GROUP})
    columns = [batch.column(name).to_pylist() for name in names]
    values = zip(*columns, strict=True)
    return zip(batch.column(SLOT).to_pylist(), map(row_class(names), values), strict=True)
