"""A recording executor in place of the engine."""

from __future__ import annotations

import pytest

from headrace.common import JobExecutionResult
from headrace.datastream.execution import ProgramContext, program_context
from headrace.ids import JobId


class RecordingExecutor:
    """Takes what would run; its jobs end at once, with ``collected`` as their output."""

    def __init__(self):
        self.jobs = []
        self.configurations = []
        self.collected = []

    def __call__(self, job_graph, configuration, env, /):
        self.jobs.append(job_graph)
        self.configurations.append(configuration)
        for channel, record in self.collected:
            env.outputs.collect(channel, record)
        return JobExecutionResult(JobId("0" * 32), 1)

    @property
    def job(self):
        return self.jobs[-1]

    @property
    def configuration(self):
        return self.configurations[-1]

    def operator(self, name):
        return next(o for o in self.job.operators() if o.name == name)


@pytest.fixture
def executor():
    recording = RecordingExecutor()
    with program_context(ProgramContext(execute_job=recording)):
        yield recording
