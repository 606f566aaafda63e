"""JDBC's URLs as settings of libpq; pure.

``jdbc:postgresql://host[:port][,host...]/database[?name=value&...]``, or libpq's own
``postgresql://...``. Parameters that both know pass; those that only the JDBC driver knows are
translated or refused by name, never dropped. Passwords stay out of every message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.errors import InvalidConfigError

DEFAULT_PORT: Final = "5432"
CONNECT_TIMEOUT_S: Final = 10
_SAME: Final = frozenset(
    {
        "application_name",
        "channel_binding",
        "client_encoding",
        "connect_timeout",
        "dbname",
        "gssencmode",
        "host",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "options",
        "passfile",
        "password",
        "port",
        "require_auth",
        "service",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslpassword",
        "sslrootcert",
        "ssl_min_protocol_version",
        "target_session_attrs",
        "tcp_user_timeout",
        "user",
    }
)
_SERVER_TYPES: Final = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "preferSecondary": "prefer-standby",
}
_TRANSLATED: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "ApplicationName": ("application_name", str),
    "connectTimeout": ("connect_timeout", str),
    "currentSchema": ("options", lambda value: f"-csearch_path={value.replace(' ', '')}"),
    "targetServerType": ("target_session_attrs", lambda value: _SERVER_TYPES.get(value, value)),
    "tcpKeepAlive": ("keepalives", lambda value: "1" if value == "true" else "0"),
}


def connection_settings(url: str, user: str | None, password: str | None) -> dict[str, str]:
    """Return libpq's settings.

    Args:
        url: see the module; user and password may be parameters of it.
        user: wins over the URL's.
        password: wins over the URL's.

    Raises:
        InvalidConfigError: another database's URL, or a parameter without a counterpart.
    """
    parts = urlsplit(url.removeprefix("jdbc:"))
    if parts.scheme not in {"postgresql", "postgres"}:
        msg = (
            "the JDBC sink writes to PostgreSQL, use jdbc:postgresql://host:port/database; "
            f"scheme={url.split('://', maxsplit=1)[0]}"
        )
        raise InvalidConfigError(msg)
    given, _, addresses = parts.netloc.rpartition("@")
    hosts = [_host_and_port(address) for address in addresses.split(",")]
    settings = {
        "host": ",".join(host for host, _ in hosts) or "localhost",
        "port": ",".join(port for _, port in hosts),
        "dbname": unquote(parts.path.lstrip("/")),
    }
    if given:
        name, _, secret = given.partition(":")
        settings["user"] = unquote(name)
        if secret:
            settings["password"] = unquote(secret)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        settings |= _translate(name, value)
    if user is not None:
        settings["user"] = user
    if password is not None:
        settings["password"] = password
    if not settings["dbname"]:
        raise InvalidConfigError(f"the URL names no database; host={settings['host']}")
    if len(hosts) > 1:
        # Of a primary and its standbys only the primary takes rows.
        settings.setdefault("target_session_attrs", "read-write")
    return {"connect_timeout": str(CONNECT_TIMEOUT_S), **settings}


def shown(settings: Mapping[str, str]) -> str:
    """Return where the settings lead, for messages."""
    return (
        f"host={settings['host']} port={settings['port']} database={settings['dbname']} "
        f"user={settings.get('user', '')}"
    )


def _host_and_port(address: str) -> tuple[str, str]:
    if address.startswith("["):  # IPv6
        host, _, rest = address[1:].partition("]")
        return host, rest.removeprefix(":") or DEFAULT_PORT
    host, _, port = address.partition(":")
    return unquote(host), port or DEFAULT_PORT


def _translate(name: str, value: str) -> dict[str, str]:
    if name in _SAME:
        return {name: value}
    if name in _TRANSLATED:
        other, translate = _TRANSLATED[name]
        return {other: translate(value)}
    if name == "ssl":
        return {"sslmode": "verify-full"} if value in {"", "true"} else {}
    msg = f"this parameter of the URL has no counterpart, remove it; parameter={name}"
    raise InvalidConfigError(msg)
