"""``volvelle tune``: a policy's trade-offs for a workload, to choose a point from."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from collections.abc import Iterable

    from volvelle.cli.tune_live import LiveServer
    from volvelle.metrics.catalogue import Objective
    from volvelle.model.cluster import Cluster
    from volvelle.simulate.experiment import Experiment
    from volvelle.simulate.sources import Source
    from volvelle.tune.front import Front
    from volvelle.tune.search import Search, SearchProgress

DEFAULT_OUT = Path("volvelle-tune")
_search, _server = options.under("The search"), options.under("A server")


@options.besides(
    options.of_experiment(
        *("trace", "generate", "format", "map", "dates", "strict", "ignore_types", "cluster"),
        *("placements", "admissions", "estimators", "terminations", "overheads", "power", "carbon"),
        *("seeds", "out"),
    )
)
def tune(
    objectives: Annotated[
        list[str] | None,
        _search(
            "--objective",
            metavar="NAME[:MEASURE]",
            help="What to trade off, as in jct:avg; repeat it.  [default: jct:avg, pred_error:p99]",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        _search(
            "--policy",
            "-p",
            metavar="NAME[:KEY=VALUE,...]",
            help="The policy to tune; its parameters stay unless they are searched.  "
            "[default: pcs, or the server's]",
        ),
    ] = None,
    candidates: Annotated[int, _search(help="Configurations to try.")] = 320,
    refine: Annotated[
        int,
        _search(help="More to try then, beside those on the front, thresholds and weights free."),
    ] = 0,
    samples: Annotated[
        int, _search(help="Random workloads each is tried on; 0: the history itself.")
    ] = 4,
    jobs: Annotated[int, _search(help="Jobs in each of them.")] = 1000,
    test: Annotated[
        float, _search(help="Share of the jobs, the latest, kept to test the front on; 0: none.")
    ] = 0.25,
    algorithm: Annotated[str, _search(help="spea2 or nsga2.")] = "spea2",
    population: Annotated[int, _search(help="Configurations it keeps.")] = 32,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Parallel processes.  [default: one for each CPU]"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Evaluate on the Ray cluster there, HOST:PORT or auto.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an earlier, equal search.")
    ] = False,
    live: Annotated[
        bool,
        _server(
            "--live", help="Tune on the jobs of a server, for its cluster and parts (operators)."
        ),
    ] = False,
    last: Annotated[str, _server(metavar="TIME", help="So much of its past.")] = "28d",
    put: Annotated[
        str | None,
        _server(metavar="POINT", help="Then let this point decide there, as in balanced."),
    ] = None,
    force: options.Force = False,
    png: options.Png = False,
    output: options.Output = Form.TABLE,
    **given: Any,
) -> None:
    """Search a policy's parameters for the best trade-offs between objectives.

    volvelle tune october.csv --cluster 120x8 --objective jct:avg --objective pred_error:p99

    volvelle simulate november.csv --cluster 120x8 --policy pcs:volvelle-tune/front.json#balanced

    volvelle tune --live --put balanced
    """
    from volvelle.cli.results import free_folder
    from volvelle.cli.tune_live import LiveServer, read_duration
    from volvelle.notebook.search import OBJECTIVES, search_of
    from volvelle.tune.front import FRONT

    _check_workload(
        live=live, put=put, named=any(given[key] for key in ("trace", "generate", "config"))
    )
    past_seconds = read_duration("--last", last)
    server: LiveServer | None = None
    if live:
        directory = given["out"] or DEFAULT_OUT
        if not resume:
            free_folder(directory, FRONT, force=force)
        server = LiveServer.ask(directory, again=resume)
        policy = policy or server.policy
        given["admissions"] = given["admissions"] or server.admission
        given["from_journal"] = server.journal
    experiment = options.experiment(given | {"policies": policy or "pcs"})
    search = search_of(
        objectives or OBJECTIVES,
        algorithm,
        candidates=candidates,
        refine=refine,
        samples=samples,
        jobs=jobs,
        test=test,
        population=population,
        seed=experiment.seeds[0],
    )
    directory = experiment.out or DEFAULT_OUT
    if not resume and server is None:
        free_folder(directory, FRONT, force=force)
    front = _tune(
        experiment,
        search,
        directory,
        output,
        server=server,
        past_seconds=past_seconds,
        workers=workers,
        ray=ray,
        resume=resume,
        png=png,
    )
    if server is not None and put is not None:
        server.put(front, put)


def _check_workload(*, live: bool, put: str | None, named: Any) -> None:
    from volvelle.model.problems import Problem

    if live and named:
        raise Problem(
            "with --live the jobs are those of the server",
            mend="leave out the trace, --generate and --config",
            usage=True,
        )
    if put is not None and not live:
        raise Problem(
            "--put goes with --live",
            mend="use a point of this front with volvelle policy set",
            usage=True,
        )


def _tune(
    experiment: "Experiment",
    search: "Search",
    directory: Path,
    output: Form,
    *,
    server: "LiveServer | None",
    past_seconds: float,
    workers: int | None,
    ray: str | None,
    resume: bool,
    png: bool,
) -> "Front":
    from volvelle.cli.output import remark, remark_on_placements, show
    from volvelle.cli.reading import read_workloads
    from volvelle.cli.tune_live import latest
    from volvelle.notebook.search import make_front
    from volvelle.simulate.past import read_past
    from volvelle.tune.front import FRONT
    from volvelle.tune.picture import table, write_pictures

    cluster = experiment.checked_cluster()
    if server is not None and experiment.cluster is None:
        cluster = read_past(server.journal).last
    run = experiment.only_run(cluster, "tune makes one search", "name one policy")
    source = read_workloads(experiment, cluster)[run.workload]
    if server is not None:
        source = latest(source, past_seconds)
    remark_on_placements([run.setting.composition])
    with _live() as shown:
        front = make_front(
            experiment,
            cluster,
            source,
            search,
            directory,
            workers=workers,
            ray=ray,
            resume=resume,
            present=None if server is None else server.policy,
            **shown,
        )
    if not front.points:
        remark("interrupted before anything was found")
        raise typer.Exit(130)
    path = directory / FRONT
    page = write_pictures(
        front, directory, facts=_facts(cluster, source, front, search.objectives), png=png
    )
    if output is Form.JSON:
        print(json.dumps(front.as_json(), indent=2, ensure_ascii=False, allow_nan=False))
    elif output is Form.CSV:
        show(table(front), output)
    else:
        _say(front, source, cluster, path, page)
    if not front.complete:
        remark(f"interrupted: what was found is in {directory}, not tested on the later part")
        remark("to finish it, give the same command with --resume")
        raise typer.Exit(130)
    return front


def _say(front: "Front", source: "Source", cluster: "Cluster", path: Path, page: Path) -> None:
    from volvelle.notebook.facts import cluster_line, workload_line

    print(f"{_origin(source, workload_line)}; {cluster_line(cluster)}")
    print(
        f"{len(front.evaluated)} configurations of {front.policy} tried, {len(front.points)} on the front\n"
    )
    width = max(map(len, front.named))
    for name, at in front.named.items():
        print(f" {name:{width}}  {front.in_words(at)}")
    if len(front.points) == 1:
        print("\nNo other is better in anything: with these jobs the objectives are not at odds.")
    use = f"{front.policy}:{path}#{next(reversed(front.picks))}"
    if front.present is None:
        print(f"\nUse one: --policy {use}")
    else:
        print(f"\nAgainst {front.present.parameters}, which decides now:\n")
        for name, at in front.named.items():
            worse = "" if front.beats_present(at) else "; better in nothing"
            print(f" {name:{width}}  {front.against_present(at)}{worse}")
        print(f"\nUse one live: volvelle policy set {use}")
    print(f"Pictures: {page}")


def _facts(
    cluster: "Cluster", source: "Source", front: "Front", objectives: "Iterable[Objective]"
) -> dict[str, str]:
    from volvelle.notebook.facts import cluster_line, workload_line

    search = front.search
    return {
        "History": _origin(source, workload_line),
        "Cluster": cluster_line(cluster),
        "Objectives": ", ".join(
            f"{one.asked} ({one})" if one.asked and one.asked != str(one) else str(one)
            for one in objectives
        ),
        "Search": f"{search['algorithm']}, {len(front.evaluated)} configurations, seed {search['seed']}",
        "Samples": f"{search['samples']} of {search['jobs']:,} jobs"
        if search["samples"]
        else "the history itself",
        "Tested on": f"the latest {100 * search['test']:g} % of the jobs"
        if search["test"]
        else "-",
    }


def _origin(source: "Source", line: Callable[[dict[str, Any]], str]) -> str:
    return line(source.origin | {"jobs": len(source.workload)})


@contextmanager
def _live() -> "Iterator[dict[str, Any]]":
    """Yields the ``callbacks`` and ``counted`` of a search that show how far it is."""
    import sys

    from volvelle.cli.output import console, progress

    if not sys.stderr.isatty():
        with progress("searching", "configurations") as update:
            yield {"counted": update}
        return
    from rich.live import Live

    from volvelle.cli.front_picture import picture

    with Live(console=console(stderr=True), auto_refresh=False, transient=True) as live:

        def draw(now: "SearchProgress") -> None:
            live.update(picture(now), refresh=True)

        yield {"callbacks": [draw]}
