"""Flags payments by rules that come and go while the job runs.

Shows broadcast state: every slot is given every rule and keeps all of them; payments are keyed by
account. A rule trips when an account has made more than so many payments above an amount. Rules are
a stream of their own, e.g. a second Kafka topic: a new one holds from the next epoch on, without a
restart, and all of them survive restarts and changes of parallelism.

``python job.py`` runs it on this machine over some made-up payments.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.common import Row, Types
from headrace.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.functions import RuntimeContext
from headrace.datastream.state import MapStateDescriptor

PAYMENT = Types.ROW_NAMED(["account", "amount"], [Types.STRING(), Types.LONG()])
RULE = Types.ROW_NAMED(
    ["name", "amount", "payments", "active"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.BOOLEAN()],
)
LIMITS = Types.TUPLE([Types.LONG(), Types.LONG()])

RULES = MapStateDescriptor("rules", Types.STRING(), LIMITS)


class ApplyRules(KeyedBroadcastProcessFunction):
    """Counts, for every account and rule, the payments above the rule's amount."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.counts = runtime_context.get_map_state(
            MapStateDescriptor("counts", Types.STRING(), Types.LONG())
        )

    def process_broadcast_element(
        self, value: Row, ctx: KeyedBroadcastProcessFunction.Context
    ) -> None:
        rules = ctx.get_broadcast_state(RULES)
        if value.active:
            rules.put(value.name, (value.amount, value.payments))
        else:
            rules.remove(value.name)

    def process_element(
        self, value: Row, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[str, str]]:
        for name, (amount, payments) in ctx.get_broadcast_state(RULES).items():
            if value.amount <= amount:
                continue
            count = (self.counts.get(name) or 0) + 1
            self.counts.put(name, count)
            if count == payments + 1:
                yield value.account, name


def alerts_of(env: StreamExecutionEnvironment) -> DataStream:
    """Return (account, rule) for every rule that trips."""
    payments = env.from_collection(
        [(f"acc-{n % 5}", 100 * (n % 7)) for n in range(500)], PAYMENT
    ).uid("payments")
    rules = env.from_collection(
        [
            ("large", 400, 20, True),
            ("any", 0, 1_000, True),
            ("gone", 0, 1, True),
            ("gone", 0, 1, False),
        ],
        RULE,
    ).uid("rules")
    connected = payments.key_by("account").connect(rules.broadcast(RULES))
    alerts = connected.process(ApplyRules(), Types.TUPLE([Types.STRING(), Types.STRING()]))
    return alerts.uid("apply-rules")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    alerts_of(env).print()
    env.execute("fraud-rules")


if __name__ == "__main__":
    main()
