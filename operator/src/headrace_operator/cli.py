"""``headrace operator``: run the operator, or print the manifests that install it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import kopf
import typer
import yaml

from headrace.api.crd import build_definitions, render_definition
from headrace.api.driver import REST_PORT
from headrace_operator.handlers import Glue
from headrace_operator.resources.install import DEFAULT_IMAGE, DEFAULT_NAMESPACE, build_install
from headrace_operator.settings import Settings

app = typer.Typer(
    name="operator",
    help="Run the Kubernetes operator, or print what installs it.",
    invoke_without_command=True,
)

CALM_RESYNC_FACTOR = 4
"""A job at rest is read anew so much more rarely than one that is in motion."""

Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", help="Serve this namespace; may be given several times."),
]


@app.callback()
def main(context: typer.Context) -> None:
    """Run the operator for the whole cluster unless a command says otherwise."""
    if context.invoked_subcommand is None:
        serve(Settings(), readable_logs=False)


@app.command()
def run(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    namespace: Namespaces = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Serve the whole cluster (default).")
    ] = False,
    dev: Annotated[
        bool, typer.Option("--dev", help="Readable logs instead of JSON lines.")
    ] = False,
    poll_interval: Annotated[
        float, typer.Option(min=0.1, help="Seconds between two questions to a driver.")
    ] = 2.0,
    resync_interval: Annotated[
        float, typer.Option(min=1, help="Seconds after which everything is read anew.")
    ] = 30.0,
    deletion_timeout: Annotated[
        float, typer.Option(min=1, help="Seconds after which a deleted job is removed by force.")
    ] = 120.0,
    election_namespace: Annotated[
        str, typer.Option(help="Elect one of several operators by a Lease in this namespace.")
    ] = "",
    driver_port: Annotated[
        int, typer.Option(hidden=True, help="Port of every driver's REST API.")
    ] = REST_PORT,
    health_port: Annotated[int, typer.Option(help="Port of /healthz; 0 = none.")] = 8080,
    metrics_port: Annotated[int, typer.Option(help="Port of /metrics; 0 = none.")] = 9090,
) -> None:
    """Run the operator until it is stopped."""
    if namespace and all_namespaces:
        raise typer.BadParameter("give either --namespace or --all-namespaces")
    settings = Settings(
        namespaces=tuple(namespace or ()),
        poll_interval_s=poll_interval,
        resync_interval_s=resync_interval,
        calm_resync_interval_s=resync_interval * CALM_RESYNC_FACTOR,
        deletion_timeout_s=deletion_timeout,
        election_namespace=election_namespace,
        driver_port=driver_port,
        health_port=health_port,
        metrics_port=metrics_port,
    )
    serve(settings, readable_logs=dev)


def serve(settings: Settings, *, readable_logs: bool) -> None:
    """Run the operator in this process until SIGTERM or SIGINT."""
    log_format = kopf.LogFormat.PLAIN if readable_logs else kopf.LogFormat.JSON
    kopf.configure(log_format=log_format)
    # They log every event that is handed over, and every question of a probe.
    for name in ("kopf", "aiohttp.access"):
        logging.getLogger(name).setLevel(logging.WARNING)
    kopf.run(
        registry=Glue(settings).registry(),
        standalone=True,
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        liveness_endpoint=f"http://0.0.0.0:{settings.health_port}/healthz"
        if settings.health_port
        else None,
    )


@app.command()
def manifests(
    image: Annotated[str, typer.Option(help="Image of the operator.")] = DEFAULT_IMAGE,
    install_namespace: Annotated[
        str, typer.Option(help="Namespace that the operator lives in.")
    ] = DEFAULT_NAMESPACE,
    namespace: Namespaces = None,
    pull_policy: Annotated[str, typer.Option(help="imagePullPolicy.")] = "IfNotPresent",
    replicas: Annotated[
        int, typer.Option(min=1, help="Operators; one of them acts, the others stand by.")
    ] = 2,
) -> None:
    """Print namespace, accounts, roles and Deployment of the operator, for kubectl apply."""
    documents = build_install(
        image=image,
        install_namespace=install_namespace,
        namespaces=tuple(namespace or ()),
        pull_policy=pull_policy,
        replicas=replicas,
    )
    sys.stdout.write(yaml.safe_dump_all([dict(d) for d in documents], sort_keys=False))


@app.command()
def crds(
    directory: Annotated[Path | None, typer.Option(help="Write files here.")] = None,
) -> None:
    """Print the custom resource definitions, or write them to a directory."""
    for name, definition in build_definitions().items():
        text = render_definition(definition)
        if directory is None:
            sys.stdout.write(f"---\n{text}")
        else:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text, encoding="utf-8")
