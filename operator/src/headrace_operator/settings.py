"""What an administrator may tune; values only, made once by the command line."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.driver import REST_PORT


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one operator process. Times are seconds."""

    namespaces: tuple[str, ...] = ()
    """Namespaces to serve; none = all of them."""
    poll_interval_s: float = 2.0
    """Pause between two questions to a driver."""
    calm_poll_interval_s: float = 5.0
    """The same for a job that is stable."""
    poll_timeout_s: float = 1.5
    """How long a driver may take to answer."""
    resync_interval_s: float = 30.0
    """Everything is read anew at least this often, whatever the watches say."""
    calm_resync_interval_s: float = 120.0
    """The same for a job that is stable, or that has come to rest."""
    concurrent_turns: int = 16
    """Jobs that read or write the cluster at the same time; the others wait for their turn."""
    unreachable_grace_s: float = 15.0
    """A ready driver that does not answer for this long is no longer called ready."""
    volatile_status_interval_s: float = 15.0
    """Figures that change all the time (lag) are written at most this often on their own."""
    deletion_timeout_s: float = 120.0
    """After this the pods of a deleted job are killed and its finalizer is removed regardless."""
    stop_overdue_s: float = 30.0
    """A pod that is still there so long after its grace period is removed by force."""
    driver_grace_s: int = 30
    """Time that a driver gets to end its epoch when it is stopped."""
    pod_trouble_delay_s: float = 8.0
    """A pod that waits for its volumes longer than this has its events read for the cause."""
    retry_interval_s: float = 5.0
    """Pause after the API server refused an action."""
    election_namespace: str = ""
    """Several operators elect one that acts, by a Lease in this namespace; empty = no election."""
    driver_port: int = REST_PORT
    """Port of every driver's REST API."""
    health_port: int = 8080
    metrics_port: int = 9090
