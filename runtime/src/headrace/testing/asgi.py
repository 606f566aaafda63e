"""Calls an ASGI application in this process: REST without a port."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.types import Message


def call(
    app: FastAPI,
    method: str,
    path: str,
    *,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, object]]:
    """Send one request; returns the status and the JSON object of the answer."""
    data = b"" if body is None else json.dumps(body).encode()
    sent = {"content-type": "application/json", **(headers or {})}
    route, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": route,
        "raw_path": route.encode(),
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode()) for k, v in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8081),
    }
    answers: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Message) -> None:
        answers.append(message)

    asyncio.run(app(scope, receive, send))
    text = b"".join(answer.get("body", b"") for answer in answers)
    return int(answers[0]["status"]), json.loads(text)
