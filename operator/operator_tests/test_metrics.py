"""What an administrator sees of the operator itself (OP59)."""

import asyncio
import contextlib

from prometheus_client import generate_latest

from headrace_operator.reconcile.supervisor import Supervisor
from operator_tests.harness import NAMESPACE, Operator, stream_job


def scraped(operator):
    lines = generate_latest(operator.metrics.registry).decode().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


def test_jobs_are_counted_by_state_when_somebody_asks():
    async def check():
        operator = Operator()
        supervisor = Supervisor(operator.tools)
        for number in range(3):
            job = stream_job(state="suspended")
            job["metadata"]["name"] = name = f"job-{number}"
            made = operator.cluster.add(job)
            supervisor.notice_job(NAMESPACE, name, made, is_gone=False)
        await asyncio.sleep(0.05)
        seen = scraped(operator)
        assert 3 == seen['headrace_operator_jobs{state="Suspended"}']
        assert 0 == seen['headrace_operator_jobs{state="Running"}']
        assert 1 == seen["headrace_operator_leads"]
        assert 3 == seen['headrace_operator_reconcile_total{result="ok"}']
        assert 3 == seen["headrace_operator_status_writes_total"]
        await supervisor.stop()
        assert 0 == scraped(operator)['headrace_operator_jobs{state="Suspended"}']

    asyncio.run(check())


def test_requests_are_counted_by_method_and_answer():
    operator = Operator()
    with operator.metrics.request("GET") as outcome:
        outcome.status = 200
    with contextlib.suppress(TimeoutError), operator.metrics.request("PUT"):
        raise TimeoutError
    seen = scraped(operator)
    assert 1 == seen['headrace_operator_api_requests_total{method="GET",status="200"}']
    assert 1 == seen['headrace_operator_api_requests_total{method="PUT",status="0"}']
    assert 1 == seen['headrace_operator_api_request_seconds_count{method="PUT"}']
