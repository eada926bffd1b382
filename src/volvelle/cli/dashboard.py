"""``volvelle dashboard``: where a server's page is, and the page of a run."""

from pathlib import Path
from typing import Annotated

import typer


def dashboard(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="A run directory, whose cluster is shown over time."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="For a run. 0: any that is free.")
    ] = 0,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="NAME",
            help="A metric of a run's jobs, also of a .py file, as a column of the history; repeat it.",
        ),
    ] = None,
) -> None:
    """Show a run in the browser, at any moment of it; without a run, say where the server's page is.

    volvelle dashboard volvelle-run
    """
    if run is None:
        from volvelle.live.http.client import ApiClient

        print(f"{ApiClient.find().url}/")
        print("Log in with your token: VOLVELLE_TOKEN, or that in the folder of the server.")
        return
    from volvelle.cli.report import read_runs
    from volvelle.dashboard.run import RunMoments
    from volvelle.dashboard.run_server import make_server
    from volvelle.metrics.catalogue import metrics as catalogue
    from volvelle.model.problems import Problem

    read = read_runs([run])
    [(name, outcomes)] = read.outcomes.items()
    record = read.records[name]
    measured = list(map(catalogue.written, metrics or ()))
    moments = RunMoments(name, record.composition.policy, record.cluster, outcomes, measured)
    try:
        server = make_server(moments, port)
    except OSError as error:
        raise Problem(
            f"cannot listen at port {port}: {str(error.strerror).lower()}", mend="say --port 0"
        ) from None
    print(f"{name}, until Ctrl-C: http://127.0.0.1:{server.server_address[1]}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
