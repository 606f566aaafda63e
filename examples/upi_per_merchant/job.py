"""Counts UPI payments per merchant, and adds up their amounts, exactly once.

Reads payments as JSON from one Kafka topic and writes, for every payment, the merchant's running
totals to another: ``{"merchant": "merchant-0007", "payments": 3, "total_paise": 45000}``.

Runs on this machine (``python job.py --bootstrap-servers localhost:9092``) and, unchanged, as the
program of a StreamJob, see ``streamjob.yaml``.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from headrace.common import Row, Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from headrace.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from headrace.datastream.functions import RuntimeContext
from headrace.datastream.state import ValueStateDescriptor

PAYMENT = Types.ROW_NAMED(["merchant", "amount_paise"], [Types.STRING(), Types.LONG()])
TOTALS = Types.ROW_NAMED(
    ["merchant", "payments", "total_paise"], [Types.STRING(), Types.LONG(), Types.LONG()]
)


@dataclasses.dataclass
class MerchantTotals:
    """What is kept for each merchant."""

    payments: int = 0
    total_paise: int = 0


class TotalsPerMerchant(KeyedProcessFunction):
    """Emits a merchant's new totals after each of its payments."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.totals = runtime_context.get_state(
            ValueStateDescriptor("totals", Types.POJO(MerchantTotals))
        )

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        before = self.totals.value() or MerchantTotals()
        totals = MerchantTotals(before.payments + 1, before.total_paise + value.amount_paise)
        self.totals.update(totals)
        yield Row(
            merchant=ctx.get_current_key(),
            payments=totals.payments,
            total_paise=totals.total_paise,
        )


def build(env: StreamExecutionEnvironment, arguments: argparse.Namespace) -> None:
    """Adds the job to an environment."""
    payments = (
        KafkaSource.builder()
        .set_bootstrap_servers(arguments.bootstrap_servers)
        .set_topics(arguments.input)
        .set_group_id("upi-per-merchant")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(
            JsonRowDeserializationSchema.builder()
            .type_info(PAYMENT)
            .fail_on_missing_field()
            .build()
        )
        .build()
    )
    totals = (
        KafkaSink.builder()
        .set_bootstrap_servers(arguments.bootstrap_servers)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(arguments.output)
            .set_value_serialization_schema(
                JsonRowSerializationSchema.builder().with_type_info(TOTALS).build()
            )
            .build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("upi-per-merchant")
        .build()
    )
    (
        env.from_source(payments, WatermarkStrategy.no_watermarks(), "payments")
        .key_by(lambda payment: payment.merchant, Types.STRING())
        .process(TotalsPerMerchant(), TOTALS)
        .uid("totals-per-merchant")
        .name("Totals per merchant")
        .sink_to(totals)
        .uid("totals-to-kafka")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--input", default="payments", help="topic of payments")
    parser.add_argument("--output", default="merchant-totals", help="topic of totals")
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, arguments)
    env.execute("upi-per-merchant")


if __name__ == "__main__":
    main()
