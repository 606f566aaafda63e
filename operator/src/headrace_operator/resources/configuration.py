"""The driver's ConfigMap: ``job.json``, an inline program, and the executors' pod template."""

from __future__ import annotations

import json

from headrace.api.driver import (
    CONFIG_DIR,
    CONFIG_FILE,
    EXECUTOR_TEMPLATE_FILE,
    INLINE_PROGRAM_FILE,
    DriverConfig,
    ExecutorConfig,
)
from headrace.api.names import ROLE_EXECUTOR, driver_name
from headrace.api.v1alpha1 import ProgramSource, StreamJobSpec
from headrace.api.v1alpha1.quantities import memory_mib
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.resources.executor_template import build_executor_template
from headrace_operator.resources.identity import JobIdentity, head


def build_driver_config(job: JobIdentity, spec: StreamJobSpec) -> DriverConfig:
    """Return the content of ``job.json``."""
    executor = spec.executor
    spark_conf = {
        "spark.driver.memory": f"{memory_mib(spec.driver.memory)}m",
        # As our Service does. Without it Spark waits for a driver that is ready only once its
        # executors are, for a second at every start, and then logs that it was not.
        "spark.kubernetes.driver.service.publishNotReadyAddresses": "true",
        **spec.spark_conf,
    }
    if executor.cpu_limit is not None:
        spark_conf.setdefault("spark.kubernetes.executor.limit.cores", executor.cpu_limit)
    return DriverConfig(
        job_id=job.job_id,
        job_name=job.name,
        namespace=job.namespace,
        program=program_path(spec.program),
        args=list(spec.args),
        parallelism=spec.parallelism,
        max_parallelism=spec.max_parallelism,
        config=dict(spec.config),
        spark_conf=spark_conf,
        executor=ExecutorConfig(
            instances=spec.executor_instances,
            slots=executor.slots,
            memory_mib=memory_mib(executor.memory),
            memory_overhead_mib=memory_mib(executor.memory_overhead),
            cpu_request=executor.cpu or str(executor.slots),
            image=spec.image,
            image_pull_policy=_pull_policy(spec),
            service_account=spec.service_account_name or driver_name(job.name),
            labels={**spec.pod_template.labels, **job.labels(ROLE_EXECUTOR)},
        ),
        restore_path=spec.restore_from.path if spec.restore_from is not None else None,
        allow_non_restored_state=spec.allow_non_restored_state,
    )


def program_path(program: ProgramSource) -> str:
    """Return where the program lies in the driver's container."""
    if program.file is not None:
        return program.file
    return f"{CONFIG_DIR}/{INLINE_PROGRAM_FILE}"


def build_config_map(job: JobIdentity, spec: StreamJobSpec, program: str | None = None) -> Manifest:
    """Return the driver's ConfigMap.

    Args:
        job: owner.
        spec: validated.
        program: its text when it comes from a ConfigMap, of which this holds a copy.
    """
    template = build_executor_template(job, spec)
    data = {
        CONFIG_FILE: build_driver_config(job, spec).model_dump_json(by_alias=True, indent=2),
        # JSON is YAML, and is written forty times faster.
        EXECUTOR_TEMPLATE_FILE: json.dumps(template, indent=2),
    }
    text = program if program is not None else spec.program.inline
    if text is not None:
        data[INLINE_PROGRAM_FILE] = text
    return {
        **head(Kind.CONFIG_MAP),
        "metadata": job.metadata(driver_name(job.name)),
        "data": data,
    }


def _pull_policy(spec: StreamJobSpec) -> str:
    """Kubernetes' own default, which Spark does not know."""
    if spec.image_pull_policy is not None:
        return spec.image_pull_policy.value
    tag = spec.image.rsplit("/", 1)[-1].partition(":")[2]
    is_latest = "@" not in spec.image and tag in {"", "latest"}
    return "Always" if is_latest else "IfNotPresent"
