"""``headrace cluster``: the embedded cluster on the command line.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 an
error, which is shown with its next step, 2 wrong usage, 3 (``status`` only) not up.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, ParamSpec

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from headrace.errors import HeadraceError
from headrace_devcluster import host, status
from headrace_devcluster.cluster import (
    Cluster,
    locate_cluster,
    make_builder,
    make_toolchain,
    take_down,
)
from headrace_devcluster.external import check_external_cluster, find_kubectl, use_external_cluster
from headrace_devcluster.images import IMAGES, Part
from headrace_devcluster.layout import DEFAULT_NAME
from headrace_devcluster.progress import Progress
from headrace_devcluster.record import read_all_records
from headrace_devcluster.settings import Settings, find_kubeconfig

EXIT_NOT_UP = 3

app = typer.Typer(
    name="cluster",
    help="A real single-node Kubernetes on this machine, for development, tests and the demo.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Option("--name", help="Which cluster; several can run side by side.")]
UseKubeconfig = Annotated[
    bool,
    typer.Option(
        "--use-kubeconfig", help="Use the cluster that KUBECONFIG names instead of an embedded one."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

P = ParamSpec("P")


def _shows_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Shows an expected error as its message, without a traceback, and exits with 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except HeadraceError as error:
            Console(stderr=True, highlight=False).print(
                f"error: {error}", style="red", markup=False, soft_wrap=True
            )
            raise typer.Exit(1) from error

    return run


def _settings() -> Settings:
    return Settings.from_environment(os.environ)


@app.command()
@_shows_errors
def up(name: Name = DEFAULT_NAME, use_kubeconfig: UseKubeconfig = False) -> None:
    """Start the cluster; does nothing when it is up."""
    settings, progress = _settings(), Progress.to_stderr()
    if use_kubeconfig:
        kubectl = use_external_cluster(find_kubeconfig(settings.environment), settings)
        version = check_external_cluster(kubectl)
        progress.note(f"The cluster of {kubectl.kubeconfig} can be used (Kubernetes {version})")
        typer.echo(kubectl.kubeconfig)
        return
    try:
        cluster = Cluster.up(name, settings, progress)
    except KeyboardInterrupt:
        with progress.step("Interrupted: removing what was started"):
            take_down(locate_cluster(name, settings))
        raise typer.Exit(130) from None
    progress.note(f"Cluster {name} is up: export KUBECONFIG={cluster.kubeconfig}")
    typer.echo(cluster.kubeconfig)


@app.command()
@_shows_errors
def down(
    name: Name = DEFAULT_NAME,
    use_kubeconfig: UseKubeconfig = False,
    every: Annotated[bool, typer.Option("--all", help="Every embedded cluster.")] = False,
) -> None:
    """Remove the cluster and all that belongs to it, also after a crash of 'up'."""
    settings, progress = _settings(), Progress.to_stderr()
    if use_kubeconfig:
        kubeconfig = find_kubeconfig(settings.environment)
        progress.note(f"The cluster of {kubeconfig} is yours and stays as it is")
        return
    names = [record.name for record in read_all_records(settings.root)] if every else [name]
    for each in names:
        removed = take_down(locate_cluster(each, settings))
        progress.note(f"Cluster {each} is gone" if removed else f"There is no cluster {each}")


@app.command(name="status")
@_shows_errors
def show_status(name: Name = DEFAULT_NAME, as_json: Json = False) -> None:
    """Show the cluster's components, processes, memory and images."""
    settings = _settings()
    host.require_supported()
    layout = locate_cluster(name, settings)
    kubectl = find_kubectl(settings) if layout.kubeconfig.exists() else None
    seen = status.observe_status(layout, kubectl)
    if as_json:
        typer.echo(msgspec.json.encode(seen).decode())
    else:
        _print_status(seen)
    if seen.state is not status.State.UP:
        raise typer.Exit(EXIT_NOT_UP)


def _print_status(seen: status.ClusterStatus) -> None:
    console = Console(highlight=False)
    console.print(f"cluster {seen.name}: {seen.state.value}")
    if seen.api_url is None:
        return
    console.print(f"  API        {seen.api_url}   node ready: {'yes' if seen.node_ready else 'no'}")
    console.print(f"  pods       {seen.pod_subnet}   Services {seen.service_subnet}")
    console.print(f"  kubeconfig {seen.kubeconfig}")
    console.print(f"  memory     {_mib(seen.memory_bytes)} in {seen.processes} processes")
    console.print(f"  logs       {seen.directory}/logs")
    table = Table("component", "process", "state", "memory")
    for component in seen.components:
        table.add_row(
            component.name,
            str(component.pid),
            "running" if component.running else "ended",
            _mib(component.memory_bytes),
        )
    console.print(table)
    for image in seen.images:
        console.print(f"  image      {image}")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"


@app.command()
@_shows_errors
def kubeconfig(
    name: Name = DEFAULT_NAME,
    use_kubeconfig: UseKubeconfig = False,
    content: Annotated[bool, typer.Option("--content", help="Print the file itself.")] = False,
) -> None:
    """Print the path of the cluster's kubeconfig."""
    settings = _settings()
    path = (
        find_kubeconfig(settings.environment)
        if use_kubeconfig
        else Cluster.find(name, settings).kubeconfig
    )
    typer.echo(path.read_text() if content else path)


@app.command()
@_shows_errors
def load(
    images: Annotated[
        list[str],
        typer.Argument(help="runtime, operator, kafka, minio, or paths of image archives."),
    ],
    name: Name = DEFAULT_NAME,
) -> None:
    """Build images of this project as needed and make them available to pods."""
    cluster = Cluster.find(name, _settings())
    for image in images:
        typer.echo(cluster.load(image))


@app.command()
@_shows_errors
def build() -> None:
    """Build every program and image ahead of time, so that what follows takes seconds."""
    settings, progress = _settings(), Progress.to_stderr()
    host.require_supported()
    host.ensure_packages(host.NODE_PACKAGES, progress)
    toolchain = make_toolchain(settings, progress)
    builder = make_builder(settings, progress)
    tagged = [image for image in IMAGES.values() if image.tag]
    # Compilers keep the processors busy, images the disk and the network.
    with ThreadPoolExecutor(1, thread_name_prefix="programs") as pool:
        programs = pool.submit(toolchain.build_all)
        for image in tagged:
            if Part.MINIO not in image.parts:
                builder.build(image.name)
        programs.result()
    for image in tagged:
        builder.build(image.name)
    progress.note("All programs and images are built")


@app.command(name="images")
@_shows_errors
def list_known_images(
    export: Annotated[
        str, typer.Option("--export", help="Build this image and write it to --output.")
    ] = "",
    output: Annotated[Path, typer.Option(help="Archive to write, for other clusters.")] = Path(
        "image.tar"
    ),
) -> None:
    """List the images of this project, or write one as an OCI archive for another cluster."""
    if not export:
        for image in IMAGES.values():
            if image.tag:
                typer.echo(f"{image.name}\t{image.tag}")
        return
    builder = make_builder(_settings(), Progress.to_stderr())
    builder.write_archive(export, output)
    typer.echo(output)


# Not interspersed: from the first word on, all is kubectl's, its own `--` included.
@app.command(
    add_help_option=False,
    context_settings={
        "allow_extra_args": True,
        "allow_interspersed_args": False,
        "ignore_unknown_options": True,
    },
)
@_shows_errors
def kubectl(context: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Run kubectl on the cluster; --name comes first, everything after it is kubectl's."""
    cluster = Cluster.find(name, _settings())
    done = subprocess.run(
        [*cluster.kubectl.command, *context.args],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        check=False,
    )
    raise typer.Exit(done.returncode)
