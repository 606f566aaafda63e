"""The application that this process runs, if it is a driver pod: read by ``env.execute``.

`headrace driver` installs it before the user's program runs. Without one, a program runs locally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.api.driver import DriverConfig
    from headrace.driver.deployment import Deployment
    from headrace.driver.job_master import JobMaster
    from headrace.driver.status import StatusBoard


@dataclass(slots=True)
class Application:
    """One driver process.

    Attributes:
        board: the status that REST serves; exists before the job does.
        executed: whether the program has called ``execute``.
    """

    deployment: Deployment
    config: DriverConfig
    board: StatusBoard
    executed: bool = False
    master: JobMaster | None = None

    def control(self) -> JobMaster | None:
        """Return the running job, None before it starts."""
        return self.master


_installed: list[Application] = []


def install(application: Application) -> None:
    """Make ``application`` the one of this process; called once."""
    _installed[:] = [application]


def installed() -> Application | None:
    """Return this process's application, None in a local run."""
    return _installed[0] if _installed else None
