"""The custom resources of ``headrace.dev/v1alpha1``: StreamJob, Savepoint, Rescale.

These pydantic models are the only source of the CRDs in ``crds/`` (`headrace.api.crd`).
"""

from headrace.api.v1alpha1.base import Condition, ConditionStatus, Effect, ObjectMeta
from headrace.api.v1alpha1.pods import DriverSpec, EnvVar, ExecutorSpec, PodTemplate
from headrace.api.v1alpha1.rescale import Rescale, RescaleSpec, RescaleStatus
from headrace.api.v1alpha1.savepoint import Savepoint, SavepointSpec, SavepointStatus
from headrace.api.v1alpha1.streamjob import StreamJob
from headrace.api.v1alpha1.streamjob_spec import (
    DesiredState,
    ProgramSource,
    RestartPolicy,
    StreamJobSpec,
    UpgradeMode,
    field_effects,
)
from headrace.api.v1alpha1.streamjob_status import (
    CheckpointStatus,
    ConditionType,
    DriverFailure,
    DriverPhase,
    DriverRecord,
    ErrorStatus,
    LifecycleState,
    Outcome,
    ReconciledSpec,
    RecoveryStatus,
    StreamJobStatus,
)

__all__ = [
    "CheckpointStatus",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "DesiredState",
    "DriverFailure",
    "DriverPhase",
    "DriverRecord",
    "DriverSpec",
    "Effect",
    "EnvVar",
    "ErrorStatus",
    "ExecutorSpec",
    "LifecycleState",
    "ObjectMeta",
    "Outcome",
    "PodTemplate",
    "ProgramSource",
    "ReconciledSpec",
    "RecoveryStatus",
    "Rescale",
    "RescaleSpec",
    "RescaleStatus",
    "RestartPolicy",
    "Savepoint",
    "SavepointSpec",
    "SavepointStatus",
    "StreamJob",
    "StreamJobSpec",
    "StreamJobStatus",
    "UpgradeMode",
    "field_effects",
]
