"""Writes the same rows to every sink: a real job for what the suite of sinks checks one by one."""

import json
import os
import sys
from pathlib import Path

from headrace.common import Row, Types
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.connectors.for_each_batch import ForEachBatchSink
from headrace.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from headrace.datastream.formats.parquet import ParquetBulkWriters

ROW = Types.ROW_NAMED(["number", "name"], [Types.LONG(), Types.STRING()])
COUNT = 200


def main(url: str, user: str, output_dir: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    database = builder.with_user_name(user).with_password(os.environ["PASSWORD"]).build()
    rows = [Row(number=number, name=f"row {number}") for number in range(COUNT)]
    stream = env.from_collection(rows, ROW).rebalance()

    def write(batch, batch_id):
        path = Path(output_dir) / f"batch-{batch_id.replace('/', '-')}"
        path.write_text(json.dumps([row.number for row in batch]))

    parquet = ParquetBulkWriters.for_row_type(ROW)
    sinks = {
        "parquet": FileSink.for_bulk_format(f"{output_dir}/parquet", parquet).build(),
        "batches": ForEachBatchSink(write, ROW),
        "once": JdbcSink.exactly_once_sink("INSERT INTO once VALUES (?, ?)", ROW, database),
        "least": JdbcSink.sink("INSERT INTO least VALUES (?, ?)", ROW, database),
        "upsert": JdbcSink.upsert_sink("upsert", ["number"], ROW, database),
    }
    for uid, sink in sinks.items():
        stream.sink_to(sink).uid(uid)
    env.execute("sinks")


if __name__ == "__main__":
    main(*sys.argv[1:])
