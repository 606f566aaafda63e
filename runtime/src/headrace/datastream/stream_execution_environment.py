"""The entry point of a program, as ``pyflink.datastream.stream_execution_environment``.

An environment holds the graph under construction and the options that the program sets. `execute`
plans the graph and hands it to whatever runs it (`headrace.datastream.execution`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from headrace.common.configuration import Configuration
from headrace.common.typeinfo import Types
from headrace.common.watermark_strategy import WatermarkStrategy
from headrace.config.job_configuration import build_configuration, merge_settings, parse_options
from headrace.config.options import checkpointing, job
from headrace.datastream.checkpoint_config import CheckpointConfig
from headrace.datastream.closeable_iterator import CloseableIterator
from headrace.datastream.data_stream import DataStream
from headrace.datastream.dataframe_types import type_info_of_schema
from headrace.datastream.execution import current_context
from headrace.datastream.outputs import Outputs
from headrace.datastream.program_graph import ProgramGraph, Upstream
from headrace.datastream.unsupported import ENVIRONMENT, missing_attribute
from headrace.errors import InvalidProgramError
from headrace.graph.endpoints import CollectSink, FromCollection, FromDataFrame
from headrace.graph.plan_view import plan_as_json
from headrace.graph.planner import Plan, PlanSettings, plan_job
from headrace.graph.stream_graph import OperatorKind, StreamGraph

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from headrace.common.job_execution_result import JobExecutionResult
    from headrace.common.restart_strategy import RestartStrategyConfiguration
    from headrace.common.typeinfo import TypeInformation
    from headrace.config.job_configuration import JobConfiguration
    from headrace.datastream.checkpointing_mode import CheckpointingMode
    from headrace.datastream.connectors.base import Source
    from headrace.datastream.execution import ExecuteJob
    from headrace.datastream.execution_mode import RuntimeExecutionMode
    from headrace.datastream.state_backend import StateBackend

log = logging.getLogger(__name__)

SPARK_PREFIX = "spark."
DEFAULT_JOB_NAME = "Headrace Streaming Job"


class StreamExecutionEnvironment:
    """Builds and executes programs."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Use `get_execution_environment`."""
        self._context = current_context()
        self._settings = Configuration(configuration)
        self._collected_streams = 0
        self.program = ProgramGraph()
        self.outputs = Outputs()
        self.plan_warnings: tuple[str, ...] = ()
        """Warnings of the last `execute`, for logs and the job's status."""

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """Return an environment for where the program runs: local, or a driver pod."""
        return StreamExecutionEnvironment(configuration)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise missing_attribute(self, name, ENVIRONMENT)

    # --- options ---------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> StreamExecutionEnvironment:
        """Set all options of ``configuration``."""
        self._settings = Configuration.from_dict(
            merge_settings(self._settings.to_dict(), configuration.to_dict())
        )
        return self

    def set_option(self, key: str, text: str) -> None:
        """Set the option of a key, whatever older spelling it was set by before."""
        self.configure(Configuration.from_dict({key: text}))

    def options_in_effect(self) -> JobConfiguration:
        """Return all options in effect, without rules between them."""
        return parse_options(self._effective_settings())

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of slots; a StreamJob's ``spec.parallelism`` takes precedence."""
        self.set_option(job.PARALLELISM.key, str(parallelism))
        return self

    def get_parallelism(self) -> int:
        """Return the number of slots in effect."""
        return self.options_in_effect().get(job.PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, fixed by the first start for the life of the state."""
        self.set_option(job.MAX_PARALLELISM.key, str(max_parallelism))
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups in effect."""
        return self.options_in_effect().get(job.MAX_PARALLELISM)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set how the program runs; only STREAMING is supported yet."""
        self.set_option(job.RUNTIME_MODE.key, execution_mode.name)
        return self

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint every ``interval`` milliseconds."""
        self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            self.get_checkpoint_config().set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the checkpoint settings."""
        return CheckpointConfig(self)

    def get_checkpoint_interval(self) -> int:
        """Return the checkpoint interval in ms, -1 when checkpointing is off."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the guarantee of checkpoints."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Choose where working state lives."""
        return self.configure(Configuration.from_dict(state_backend.settings()))

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> StreamExecutionEnvironment:
        """Choose what happens after a failure."""
        return self.configure(Configuration.from_dict(restart_strategy_configuration.settings))

    # --- sources ---------------------------------------------------------------------------------

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Return the records of a source.

        Args:
            source: made by a connector's builder.
            watermark_strategy: event time of the records.
            source_name: for people.
            type_info: type of the records, None for the source's own.
        """
        return self._source(
            source.description(),
            source_name,
            type_info or source.get_produced_type(),
            watermark_strategy,
        )

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Return the elements of a collection, in order.

        Args:
            collection: the elements; must fit into the memory of every source task.
            type_info: what they become: tuples become rows for a ``Types.ROW``.

        Raises:
            InvalidProgramError: an element is not of the declared type.
        """
        declared = type_info or Types.PICKLED_BYTE_ARRAY()
        items = tuple(collection) if type_info is None else _typed_items(collection, type_info)
        strategy = WatermarkStrategy.no_watermarks()
        return self._source(FromCollection(items), "Collection Source", declared, strategy)

    def from_dataframe(
        self,
        frame: DataFrame,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "DataFrame",
    ) -> DataStream:
        """Return the rows of a streaming DataFrame, each one a `Row` with the columns' names.

        Raises:
            InvalidProgramError: the DataFrame is not a streaming one, or a column's type has no
                counterpart.
        """
        if not frame.isStreaming:
            msg = "a DataFrame source must be a streaming one, read it with spark.readStream"
            raise InvalidProgramError(msg)
        return self._source(
            FromDataFrame(frame),
            source_name,
            type_info_of_schema(frame.schema.jsonValue()),
            watermark_strategy or WatermarkStrategy.no_watermarks(),
        )

    def _source(
        self,
        description: object,
        name: str,
        type_info: TypeInformation,
        watermark_strategy: WatermarkStrategy,
    ) -> DataStream:
        node = self.program.add_operator(
            OperatorKind.SOURCE,
            f"Source: {name}",
            description,
            type_info,
            watermarks=watermark_strategy.to_spec(),
        )
        return DataStream(self, (Upstream(node.id),), type_info)

    # --- execution -------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run what was built since the last execution, to its end.

        Raises:
            InvalidProgramError: the program cannot run.
            InvalidConfigError: an option is wrong.
            HeadraceError: the job failed for good.
        """
        program = self.program.take()
        configuration = build_configuration(self._effective_settings())
        plan = self._plan(program, configuration, job_name)
        self.plan_warnings = (*plan.warnings, *_state_at_risk(plan, configuration))
        for warning in self.plan_warnings:
            log.warning("%s", warning)
        return self._execute_job()(plan.job_graph, configuration, self)

    def execute_and_collect(
        self, stream: DataStream, job_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Execute the program and return the records of ``stream``; see `DataStream`."""
        self._collected_streams += 1
        channel = f"collect-{self._collected_streams}"
        stream._sink("Collect", CollectSink(channel))  # noqa: SLF001 - streams are views on this
        self.outputs.expect(channel, limit)
        try:
            self.execute(job_name)
        finally:
            records = self.outputs.take(channel)
        return CloseableIterator(records) if limit is None else records

    def get_execution_plan(self) -> str:
        """Return what would run as JSON: Flink's list of operators, and Headrace's levels."""
        configuration = self.options_in_effect()
        program = self.program.pending()
        return plan_as_json(program, self._plan(program, configuration, None))

    def _plan(
        self, program: StreamGraph, configuration: JobConfiguration, job_name: str | None
    ) -> Plan:
        settings = PlanSettings(
            name=job_name or configuration.get(job.NAME) or DEFAULT_JOB_NAME,
            parallelism=configuration.get(job.PARALLELISM),
            max_parallelism=configuration.get(job.MAX_PARALLELISM),
            auto_generate_uids=configuration.get(job.AUTO_GENERATE_UIDS),
        )
        return plan_job(program, settings)

    def get_spark_session(self) -> SparkSession:
        """Return the Spark session that the job will run on, for ``from_dataframe``.

        Starts Spark at the first call, so set ``spark.*`` options before.
        """
        if self._context.spark_session is not None:
            return self._context.spark_session(self)
        from headrace.driver.execution import local_session  # noqa: PLC0415 - see _execute_job

        return local_session(self)

    def spark_options(self) -> dict[str, str]:
        """Return the ``spark.*`` options of the program: they are Spark's, not checked here."""
        settings = {**self._context.settings, **self._settings.to_dict()}
        return {key: text for key, text in settings.items() if key.startswith(SPARK_PREFIX)}

    def _effective_settings(self) -> dict[str, str]:
        context = self._context
        fixed: dict[str, str] = {}
        if context.parallelism is not None:
            fixed[job.PARALLELISM.key] = str(context.parallelism)
        if context.max_parallelism is not None:
            fixed[job.MAX_PARALLELISM.key] = str(context.max_parallelism)
        layers = (context.settings, self._settings.to_dict(), fixed)
        return merge_settings(
            *(
                {k: v for k, v in layer.items() if not k.startswith(SPARK_PREFIX)}
                for layer in layers
            )
        )

    def _execute_job(self) -> ExecuteJob:
        if self._context.execute_job is not None:
            return self._context.execute_job
        # The engine pulls in pyspark and a JVM, which building a program must not.
        from headrace.driver.execution import execute_locally  # noqa: PLC0415

        return execute_locally


def _state_at_risk(plan: Plan, configuration: JobConfiguration) -> list[str]:
    """Return a warning when the job keeps state and takes no checkpoints (D14)."""
    keyed = [o.name for o in plan.job_graph.operators() if o.kind.is_keyed]
    if not keyed or configuration.get(checkpointing.INTERVAL) is not None:
        return []
    warning = (
        "checkpointing is off, a crash silently loses all state, call env.enable_checkpointing or "
        f"set {checkpointing.INTERVAL.key}; operators={keyed}"
    )
    return [warning]


def _typed_items(collection: Iterable[Any], type_info: TypeInformation) -> tuple[object, ...]:
    """Bring every element into the type's own form by writing and reading it."""
    serializer = type_info.value_serializer()
    items: list[object] = []
    for index, item in enumerate(collection):
        try:
            items.append(serializer.deserialize(serializer.serialize(item)))
        except (TypeError, ValueError) as error:
            msg = f"element is not of the declared type: {error}; index={index} type={type_info}"
            raise InvalidProgramError(msg) from error
    return tuple(items)
