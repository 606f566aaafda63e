"""The Spark data source ``headrace-state``: stored state as a DataFrame (E9).

Schema and partitions come from the metadata, in a Python process beside the driver; one partition
is the state of one slot, which a task downloads, checks and reads in batches. Nothing is collected
anywhere, and nothing of the program that wrote the state is needed.

Options::

    path               checkpoint or savepoint
    operator, state    uid and name
    decimals-as-text   "true": decimals and big integers as text, for more than 38 digits
    scratch-dir        local directory of the executors for files; default: for temporary files
    s3.*, fs.azure.*   of the storage, by Flink's keys
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from headrace.config.options.storage import STORAGE_PREFIXES
from headrace.errors import InvalidConfigError
from headrace.serialization.arrow_types import ArrowOptions
from headrace.state_processor.catalog import StateTable
from headrace.state_processor.columns import TableColumns
from headrace.state_processor.lists import ListColumns
from headrace.state_processor.reading import StateFiles, read_stored_state, uri_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from headrace.state_processor.catalog import OperatorStateList

FORMAT: Final = "headrace-state"

PATH: Final = "path"
OPERATOR: Final = "operator"
STATE: Final = "state"
DECIMALS_AS_TEXT: Final = "decimals-as-text"
SCRATCH_DIR: Final = "scratch-dir"

_STORAGE_KEYS: Final = tuple(f"{prefix}*" for prefix in STORAGE_PREFIXES)
_OWN: Final = (PATH, OPERATOR, STATE, DECIMALS_AS_TEXT, SCRATCH_DIR)


@dataclasses.dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a reader was asked for.

    Attributes:
        path: URI of the checkpoint or savepoint.
        operator, state: uid and name.
        shown: how types without an exact counterpart are shown.
        scratch_dir: None for the system's directory for temporary files.
        storage: options of the storage.
    """

    path: str
    operator: str
    state: str
    shown: ArrowOptions
    scratch_dir: Path | None
    storage: dict[str, str]

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Return the options of a read.

        Raises:
            InvalidConfigError: one is missing, unknown or not of its type.
        """
        options = {name.lower(): value for name, value in given.items()}
        missing = [name for name in (PATH, OPERATOR, STATE) if not options.get(name)]
        unknown = [n for n in options if n not in _OWN and not n.startswith(STORAGE_PREFIXES)]
        if missing or unknown:
            msg = (
                f"options of {FORMAT} are wrong, `headrace state ls PATH` shows uids and names; "
                f"missing={missing} unknown={unknown} known={[*_OWN, *_STORAGE_KEYS]}"
            )
            raise InvalidConfigError(msg)
        as_text = options.get(DECIMALS_AS_TEXT, "false").lower()
        if as_text not in {"true", "false"}:
            msg = f"option is true or false; option={DECIMALS_AS_TEXT} value={as_text!r}"
            raise InvalidConfigError(msg)
        scratch = options.get(SCRATCH_DIR)
        return cls(
            path=uri_of(options[PATH]),
            operator=options[OPERATOR],
            state=options[STATE],
            shown=ArrowOptions(decimals_as_text=as_text == "true"),
            scratch_dir=Path(scratch) if scratch else None,
            storage={n: value for n, value in options.items() if n.startswith(STORAGE_PREFIXES)},
        )


class SlotPartition(InputPartition):
    """The state of one slot, or all of a state without keys: that lies in the metadata."""

    def __init__(self, state: StateTable | OperatorStateList) -> None:
        super().__init__(state.handles[0].key_group_start if isinstance(state, StateTable) else 0)
        self.state = state


class StateDataSource(DataSource):
    """`DataSource` of one state of one checkpoint or savepoint."""

    _state: StateTable | OperatorStateList | None = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the state (`headrace.state_processor.columns`)."""
        state, shown = self._read_state(), self._parsed().shown
        columns = (
            TableColumns(state, shown)
            if isinstance(state, StateTable)
            else ListColumns(state, shown)
        )
        return spark_schema(columns.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the state."""
        return StateReader(self._read_state(), self._parsed(), schema)

    def _parsed(self) -> SourceOptions:
        return SourceOptions.parse(self.options)

    def _read_state(self) -> StateTable | OperatorStateList:
        if self._state is None:
            options = self._parsed()
            stored = read_stored_state(options.path, options.storage)
            self._state = stored.state(options.operator, options.state)
        return self._state


class StateReader(DataSourceReader):
    """Reads one state, slot by slot; goes to the executors by pickle."""

    def __init__(
        self, state: StateTable | OperatorStateList, options: SourceOptions, schema: StructType
    ) -> None:
        self._state = state
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each slot that has the state."""
        state = self._state
        if not isinstance(state, StateTable):
            return [SlotPartition(state)]
        return [
            SlotPartition(dataclasses.replace(state, handles=(handle,))) for handle in state.handles
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the entries of one slot in batches."""
        if not isinstance(partition, SlotPartition):
            msg = f"not a partition of this source; partition={partition!r}"
            raise TypeError(msg)
        target = to_arrow_schema(self._schema, timezone="UTC")
        for batch in self._batches(partition.state):
            # Names inside nested types are Spark's own, and the batch must have them.
            arrays = [array.cast(field.type) for array, field in zip(batch, target, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=target)

    def _batches(self, state: StateTable | OperatorStateList) -> Iterator[pa.RecordBatch]:
        options = self._options
        if not isinstance(state, StateTable):
            listed = ListColumns(state, options.shown)
            yield listed.batch(list(listed.items()))
            return
        columns = TableColumns(state, options.shown)
        with StateFiles(options.storage, options.scratch_dir) as files:
            yield from columns.batches(columns.entries(files.rows(state)))


def read(
    spark: SparkSession,
    path: str,
    *,
    operator: str,
    state: str,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return one state of a checkpoint or savepoint as a DataFrame.

    Args:
        spark: the session; any will do.
        path: URI of the checkpoint or savepoint, or a path of this machine.
        operator: uid of the operator.
        state: name of the state; ``_event_timers`` and ``_processing_timers`` are timers.
        options: further options of the source (see the module).

    Raises:
        AnalysisException: of Spark, with the message of ours: there is no such checkpoint,
            operator or state.
    """
    register(spark)
    given = {**(options or {}), PATH: path, OPERATOR: operator, STATE: state}
    return spark.read.format(FORMAT).options(**given).load()


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("headrace-state")`` known to a session; idempotent."""
    spark.dataSource.register(StateDataSource)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of Arrow columns, with their metadata."""
    return StructType(
        [
            StructField(
                field.name,
                from_arrow_type(field.type),
                nullable=field.nullable,
                metadata={
                    name.decode(): value.decode() for name, value in (field.metadata or {}).items()
                },
            )
            for field in schema
        ]
    )
