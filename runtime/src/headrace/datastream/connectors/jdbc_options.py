"""Options of ``JdbcSink``; use `headrace.datastream.connectors.jdbc`."""

from __future__ import annotations

from typing import Final

from headrace.connectors.jdbc import sql as statements
from headrace.connectors.jdbc.spec import (
    DEFAULT_BATCH_INTERVAL_MS,
    DEFAULT_BATCH_SIZE,
    DEFAULT_LEDGER_TABLE,
    DEFAULT_MAX_RETRIES,
    DEFAULT_TIMEOUT_S,
)
from headrace.connectors.jdbc.url import connection_settings
from headrace.errors import InvalidConfigError

DRIVER: Final = "org.postgresql.Driver"


class JdbcConnectionOptions:
    """Where the database is; made by `JdbcConnectionOptionsBuilder`."""

    def __init__(
        self, url: str, driver_name: str, user_name: str | None, password: str | None
    ) -> None:
        """Use `JdbcConnectionOptionsBuilder`."""
        self._url = url
        self._driver_name = driver_name
        self._user_name = user_name
        self._password = password
        self._settings = connection_settings(url, user_name, password)

    def get_db_url(self) -> str:
        """Return the URL, as it was given."""
        return self._url

    def get_driver_name(self) -> str:
        """Return the JDBC driver's class, which is not used."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return the user."""
        return self._user_name

    def get_password(self) -> str | None:
        """Return the password."""
        return self._password

    def settings(self) -> dict[str, str]:
        """Return the settings of libpq."""
        return dict(self._settings)

    class JdbcConnectionOptionsBuilder:
        """Collects the options."""

        def __init__(self) -> None:
            """Start with nothing set."""
            self._url: str | None = None
            self._driver_name = DRIVER
            self._user_name: str | None = None
            self._password: str | None = None

        def with_url(self, url: str) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the URL, ``jdbc:postgresql://host:port/database``."""
            self._url = url
            return self

        def with_driver_name(
            self, driver_name: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Name the JDBC driver, as Flink's programs do; only PostgreSQL's is accepted."""
            self._driver_name = driver_name
            return self

        def with_user_name(
            self, user_name: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the user."""
            self._user_name = user_name
            return self

        def with_password(
            self, password: str
        ) -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
            """Set the password."""
            self._password = password
            return self

        def build(self) -> JdbcConnectionOptions:
            """Return the options.

            Raises:
                InvalidConfigError: no URL, or that of another database.
            """
            if self._url is None:
                raise InvalidConfigError("a JDBC sink needs a database; missing=with_url")
            if self._driver_name != DRIVER:
                msg = f"no such driver, leave it out; driver={self._driver_name} known={DRIVER}"
                raise InvalidConfigError(msg)
            return JdbcConnectionOptions(
                self._url, self._driver_name, self._user_name, self._password
            )


class JdbcExecutionOptions:
    """Size of batches and number of retries; made by `builder`."""

    def __init__(self, batch_interval_ms: int, batch_size: int, max_retries: int) -> None:
        """Use `builder`."""
        self._batch_interval_ms = batch_interval_ms
        self._batch_size = batch_size
        self._max_retries = max_retries

    def get_batch_interval_ms(self) -> int:
        """Return the age at which the end of an epoch writes a batch."""
        return self._batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows that are written together."""
        return self._batch_size

    def get_max_retries(self) -> int:
        """Return how often a batch is tried again."""
        return self._max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return Flink's defaults: 5000 rows, no interval, three retries."""
        return JdbcExecutionOptions(
            DEFAULT_BATCH_INTERVAL_MS, DEFAULT_BATCH_SIZE, DEFAULT_MAX_RETRIES
        )

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Collects the options."""

        def __init__(self) -> None:
            """Start with the defaults."""
            self._size = DEFAULT_BATCH_SIZE
            self._interval_ms = DEFAULT_BATCH_INTERVAL_MS
            self._max_retries = DEFAULT_MAX_RETRIES

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Write so many rows together."""
            self._size = size
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Let batches that are not full wait so long; the barrier writes them all the same."""
            self._interval_ms = interval_ms
            return self

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Try a batch again so often before the job fails over."""
            self._max_retries = max_retries
            return self

        def build(self) -> JdbcExecutionOptions:
            """Return the options.

            Raises:
                InvalidConfigError: a number is out of range.
            """
            _check_least("batch_size", self._size, 1)
            _check_least("batch_interval_ms", self._interval_ms, 0)
            _check_least("max_retries", self._max_retries, 0)
            return JdbcExecutionOptions(self._interval_ms, self._size, self._max_retries)


class JdbcExactlyOnceOptions:
    """Ledger and time-out of the exactly-once sink; made by `builder`."""

    def __init__(self, ledger_table: str, timeout_sec: int) -> None:
        """Use `builder`."""
        self._ledger_table = ledger_table
        self._timeout_sec = timeout_sec

    def get_ledger_table(self) -> str:
        """Return the table that remembers what was published."""
        return self._ledger_table

    def get_timeout_sec(self) -> int:
        """Return how long a publication may take before the job fails over."""
        return self._timeout_sec

    @staticmethod
    def defaults() -> JdbcExactlyOnceOptions:
        """Return the defaults: table ``headrace_ledger``, 120 s."""
        return JdbcExactlyOnceOptions(DEFAULT_LEDGER_TABLE, DEFAULT_TIMEOUT_S)

    @staticmethod
    def builder() -> JdbcExactlyOnceOptions.Builder:
        """Return a builder."""
        return JdbcExactlyOnceOptions.Builder()

    class Builder:
        """Collects the options."""

        def __init__(self) -> None:
            """Start with the defaults."""
            self._ledger_table = DEFAULT_LEDGER_TABLE
            self._timeout_sec = DEFAULT_TIMEOUT_S

        def with_ledger_table(self, ledger_table: str) -> JdbcExactlyOnceOptions.Builder:
            """Keep the ledger in this table of the same database; created when it is missing."""
            self._ledger_table = ledger_table
            return self

        def with_timeout_sec(self, timeout_sec: int) -> JdbcExactlyOnceOptions.Builder:
            """Let one publication, and each of its statements, take so long."""
            self._timeout_sec = timeout_sec
            return self

        def build(self) -> JdbcExactlyOnceOptions:
            """Return the options.

            Raises:
                InvalidConfigError: not a table's name, or no time at all.
            """
            statements.quoted_table(self._ledger_table)
            _check_least("timeout_sec", self._timeout_sec, 1)
            return JdbcExactlyOnceOptions(self._ledger_table, self._timeout_sec)


def _check_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InvalidConfigError(f"the number is too small; {name}={value} at_least={least}")
