"""The reference pages that follow from the code: python docs/make_reference.py writes them.

What stands in them is what the registries, the metrics, the readers and the command line say about
themselves. A test holds the pages in the repository against `made()`.
"""

import inspect
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import python_api
import typer
from pydantic import BaseModel

import volvelle.client
from volvelle.cli.main import app
from volvelle.client.accordion import Accordion
from volvelle.client.gns import GradientNoise
from volvelle.client.pollux import Tunable
from volvelle.core import columns
from volvelle.core.state import Jobs
from volvelle.live.config import ServeConfig
from volvelle.live.http.app import create_routes
from volvelle.live.job_request import JobRequest
from volvelle.metrics.outcomes import Outcomes
from volvelle.model.job import JobSpec, Truth
from volvelle.model.job_schema import fields_of
from volvelle.model.overheads import Overheads
from volvelle.model.units import format_duration
from volvelle.simulate.experiment import Experiment
from volvelle.workload.readers import known_formats
from volvelle.workload.readers.mapping import UNITS
from volvelle.workload.readers.own import COLUMNS

REFERENCE = Path(__file__).resolve().parent / "reference"

SHARED = 3
"""A parameter of so many policies, or an option of so many commands, is explained once."""

MADE = "<!-- Made by docs/make_reference.py; change the code, then run it again. -->"

POLICIES = """Who gets how many GPUs now: `--policy NAME[:KEY=VALUE,...]`, or a `.py` file of yours
([how to write one](../how-to/write-a-policy.md)). Ties go to the earlier submission.

What jobs ask for holds under every policy where it limits them: [dependencies, time
limits](../how-to/submit-jobs.md), constraints on nodes, throttled arrays. Whether priorities are served is
said of each. Exclusive nodes are given under all but `pollux` and others where they choose the nodes
themselves (`locality=true`); jobs that want them are rejected there."""

PLACEMENTS = """Which GPUs a job gets: `--placement NAME`. `none` only counts GPUs: it is the
quickest, lets a job have parts of several GPUs, and cannot follow nodes that come and go
([why](../decisions/0008-counting-refuses-node-changes.md))."""

ADMISSIONS = """Who may enter: `--admission NAME`. Jobs wait in the admission queue by submission;
the first that waits blocks those behind it."""

ESTIMATORS = """What the scheduler believes of a job: `--estimator NAME[:KEY=VALUE,...]`. The
simulated world tells the truth only to those that say so
([why](../decisions/0004-truth-only-for-those-who-ask.md))."""

TERMINATIONS = """When a job ends: `--termination NAME[:KEY=VALUE,...]`. A rule sees the losses that a job
reports; the simulated world reports them from the job's loss curve, where it has one."""

EXECUTORS = """How jobs become processes: `executor = "NAME[:KEY=VALUE,...]"` in the configuration of
`volvelle serve` ([machines of your own](../how-to/run-on-other-machines.md))."""

GENERATORS = """Seeded workloads: `--generate NAME[:KEY=VALUE,...]` in `simulate` and `compare`, or
`volvelle trace generate` to write a file. The same seed gives the same jobs. `arrivals` is one of
`poisson`, `bursty`, `batches` and `diurnal`."""

READERS = """The format is guessed from the content; `--format NAME[:KEY=VALUE,...]` names it. Files
that end in `.gz` are unpacked. Every row is kept, repaired or dropped, and counted by reason;
`--strict` stops at the first row that cannot be read. In all formats the first job is submitted at
0 s."""

MEASURES = """What is measured, and how it is asked for: `--metric NAME:MEASURE`, as in `jct:p99`.
Measures are `mean`, `min`, `max`, `total` and percentiles (`p50`, `p99.9`). A metric of a **job**
has a number for each job, one over **time** is a series weighted by time, one of the **run** is a
single number and has no measure. Percentiles of jobs interpolate linearly between ranks.
`avg` is `mean`, and `pred_error`, PCS' name, is `eta_error`.
A job without a number (it did not finish, it has no deadline) does not count.
`--metric FILE.py[:NAME[:MEASURE]]` measures
[what a file of your own registers](../how-to/plug-in-a-package.md#a-metric) beside these."""

TABLE = """The columns of our own table of jobs, as CSV or Parquet. Needed are `submit_time`,
`gpus`, and one of `duration`, `work`, or `start_time` with `end_time`. Where a file has other
names, map them: `--map gpus=num_gpu,duration=runtime:min`."""

EXPERIMENT = """What `--config FILE` reads, in TOML, for `simulate` and `compare`. Options on the
command line come before it; paths are relative to the file. Every list multiplies: two policies
under two placements with three seeds are twelve runs, and nine times as many at the rates that
`jobs_per_hour = "1:9"` stands for. `policies`, `placements`, `admissions`,
`estimators`, `terminations`, `seeds` and `metrics` may also be written in the singular."""

SERVE = """What `volvelle serve --config FILE` reads, in TOML; options on the command line come before it.
Paths are relative to the file. The cluster is written as in a [cluster file](cluster-file.md)
(`[[nodes]]`, `[[pools]]`), or as `cluster = "4x8"`. Unknown keys are errors that name the nearest.
[How to run a cluster](../how-to/run-a-cluster.md)."""

JOB = """What `volvelle submit FILE.yaml` reads, and what `POST /v1/jobs` takes as JSON. Only `command` is
needed. Durations are seconds or `90m`, `4h30m`, `14d`. A command in one line is split into words as a shell
would, but no shell ever sees it. Unknown keys are errors that name the nearest.
[How to submit jobs](../how-to/submit-jobs.md)."""

HTTP = """What `volvelle serve` answers. Every request but those of `/healthz` and `/readyz` carries a
token: `Authorization: Bearer TOKEN`. Users see and touch their own jobs; of others' jobs there are rows
without command, environment, metrics and logs. Bodies are JSON; times are seconds since the Unix epoch. An
error is always `{"detail": "what is wrong", "place": "where", "hint": "what to do"}`; 503 comes with
`Retry-After`, and with an `Idempotency-Key` a submission may be repeated until it is answered.
`/openapi.json` of a server has every schema."""

COMMANDS = """Results go to standard output, progress and remarks to standard error. Exit status:
0 done, 1 failed, 2 misused, 130 interrupted. Durations are seconds or `90m`, `4h30m`, `14d`,
`D-HH:MM:SS`."""

OWN_PARTS = """What parts of your own are given: the declaration of a job (`volvelle.model.job`) in an
[admission rule or a reader](../how-to/plug-in-a-package.md), jobs in a policy's
[kernel](../how-to/compile-a-policy.md), and outcomes of jobs in a
[metric](../how-to/plug-in-a-package.md#a-metric)."""

CLIENT = """What a training script calls: `import volvelle.client as vc`
([how to use it](../how-to/make-a-script-preemptible.md)). It imports the standard library alone, and works
without a scheduler. `pip install ./packages/client` installs nothing else. The distribution `volvelle`
contains the same files."""


def made() -> dict[str, str]:
    """The pages by file name."""
    pages = {
        "policies": ("Policies", POLICIES, _policies()),
        "placements": ("Placements", PLACEMENTS, _parts("placements")),
        "admissions": ("Admissions", ADMISSIONS, _parts("admissions")),
        "estimators": ("Estimators", ESTIMATORS, _parts("estimators")),
        "terminations": ("Terminations", TERMINATIONS, _parts("terminations")),
        "executors": ("Executors", EXECUTORS, _parts("executors")),
        "generators": ("Generators", GENERATORS, _parts("generators")),
        "trace-formats": ("Trace formats", READERS, _formats()),
        "trace-columns": ("Columns of a table of jobs", TABLE, _columns()),
        "metrics": ("Metrics", MEASURES, _metrics()),
        "experiment-file": ("The experiment file", EXPERIMENT, _experiment()),
        "client": ("The client library", CLIENT, _client()),
        "python": ("Python", python_api.INTRO, python_api.sections()),
        "columns": ("Columns for parts of your own", OWN_PARTS, _own_parts()),
        "serve-file": ("The server file", SERVE, _serve()),
        "job-file": ("The job file", JOB, _model(JobRequest)),
        "http-api": ("The HTTP API", HTTP, _routes()),
        "command-line": ("The command line", COMMANDS, _commands()),
    }
    return {
        f"{name}.md": "\n".join([f"# {title}", "", MADE, "", intro, "", *lines]).rstrip() + "\n"
        for name, (title, intro, lines) in pages.items()
    }


def _listed(kind: str) -> list[dict[str, Any]]:
    volvelle = Path(sys.executable).with_name("volvelle")
    command = [str(volvelle), "list", kind, "--output", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    listed: list[dict[str, Any]] = json.loads(done.stdout)
    return listed


def _policies() -> Iterator[str]:
    """All in a table, and what parameters mean that several share; then each."""
    listed = _listed("policies")
    rows = (
        (
            f"[`{one['name']}`](#{one['name']})",
            one["summary"],
            "yes" if one["facts"]["needs_durations"] else "",
        )
        for one in listed
    )
    yield from _table(("policy", "what it does", "has to know run times"), rows)
    parameters = [parameter for one in listed for parameter in one["parameters"]]
    shared = _shared((f"`{p['name']}`", p["description"]) for p in parameters)
    yield from ("", "## Parameters that many share", "")
    yield from _table(("parameter", "meaning"), shared)
    yield ""
    for parameter in parameters:
        if (f"`{parameter['name']}`", parameter["description"]) in shared:
            parameter["description"] = ""
    yield from _sections(listed)


def _shared(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Rows that stand in many tables, in the order of their names."""
    return sorted(row for row, times in Counter(rows).items() if times >= SHARED)


def _parts(kind: str) -> Iterator[str]:
    return _sections(_listed(kind))


def _sections(parts: list[dict[str, Any]]) -> Iterator[str]:
    for part in parts:
        yield from (f"## {part['name']}", "", part["summary"], "")
        facts = part["facts"]
        said = [part["source"]] if part["source"] else []
        if kind := facts.get("kind"):
            said.append(f"an {kind}" if kind[0] in "aeiou" else f"a {kind}")
        if facts.get("optimises"):
            said.append(f"for {facts['optimises']}")
        if facts.get("starvation_free"):
            said.append("starvation-free")
        if "work_conserving" in facts and not facts["work_conserving"]:
            said.append("not work-conserving")
        if "heeds_priority" in facts:
            said.append(f"{'serves' if facts['heeds_priority'] else 'ignores'} priorities")
        if said:
            yield from (f"*{'; '.join(said)}*", "")
        yield from _parameters(part["parameters"])


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    """A table of those that have a meaning of their own, and a line of the others with their defaults."""
    rows = [
        (f"`{p['name']}`", _default(p), p["type"].replace("|", "or"), p["description"])
        for p in parameters
        if p["description"]
    ]
    if rows:
        yield from _table(("parameter", "default", "values", "meaning"), rows)
        yield ""
    others = [
        f"`{p['name']}` ({_default(p) or 'none'})" for p in parameters if not p["description"]
    ]
    if others:
        yield from (f"[Shared parameters](#parameters-that-many-share): {', '.join(others)}.", "")


def _default(parameter: dict[str, Any]) -> str:
    value = parameter["default"]
    if value is None:
        return ""
    if parameter["type"] == "duration":
        return format_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _client() -> Iterator[str]:
    for name in sorted(volvelle.client.__all__):
        one = getattr(volvelle.client, name)
        said = _markdown(inspect.getdoc(one) or "")
        yield from (f"## {name}", "")
        if inspect.isfunction(one):
            yield from (f"`{name}{_untyped(inspect.signature(one))}`", "")
        yield from (re.sub(r"^(\w+): ", r"- `\1`: ", said, flags=re.MULTILINE), "")
    for rule in (Accordion, GradientNoise, Tunable):
        signature = _untyped(inspect.signature(rule))
        module = _markdown(inspect.cleandoc(sys.modules[rule.__module__].__doc__ or ""))
        yield from (f"## {rule.__module__}", "", module, "", f"`{rule.__name__}{signature}`", "")
        yield from (_markdown(inspect.getdoc(rule) or ""), "")


def _untyped(signature: inspect.Signature) -> inspect.Signature:
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return inspect.Signature(parameters)


def _formats() -> Iterator[str]:
    options = {one["name"]: one for one in _listed("formats")}
    for name, one in known_formats().items():
        yield from (f"## {name}", "", f"*{one.title}.*", "")
        module = sys.modules[type(one).__module__]
        yield from (_markdown(inspect.cleandoc(module.__doc__ or "")), "")
        if options[name]["facts"]["written"]:
            yield from ("`volvelle trace convert` also writes it.", "")
        for parameter in options[name]["parameters"]:
            if not parameter["description"]:
                parameter["description"] = "see above"
        if name not in ("volvelle", "parquet"):  # their one option is --map
            yield from _parameters(options[name]["parameters"])


def _columns() -> Iterator[str]:
    rows = ((f"`{name}`", meaning.replace("|", "\\|")) for name, meaning in COLUMNS.items())
    yield from _table(("column", "meaning"), rows)
    units = ", ".join(f"`{unit}`" for unit in UNITS)
    yield from (
        "",
        f"Units after the last colon of a mapped column: {units}; of times also a zone, `Europe/Berlin`. "
        "A cell `1:30` of a length of time is minutes and seconds; by `:h`, or under a "
        "header with `(h:mm)`, it is hours and minutes.",
    )


def _job(struct: type[JobSpec] | type[Truth]) -> Iterator[str]:
    yield from (f"## {struct.__name__}", "", _markdown(inspect.getdoc(struct) or ""), "")
    kinds = {
        name: kind.__name__
        if isinstance(kind, type)
        else re.sub(r"\b[a-z_.]+\.(?=[A-Z])", "", str(kind))
        for name, kind in get_type_hints(struct).items()
    }
    rows = (
        (
            f"`{one.name}`",
            f"`{kinds[one.name]}`".replace("|", "\\|"),
            one.about.meaning,
        )
        for one in fields_of(struct)
    )
    yield from _table(("field", "type", "meaning"), rows)
    yield ""


def _own_parts() -> Iterator[str]:
    yield from _job(JobSpec)
    yield from _job(Truth)
    said = re.findall(
        r"^    (\w+): \(?\s*Floats\s*(?:# (.*))?$", inspect.getsource(Jobs), re.MULTILINE
    )
    meaning = {name.upper(): text or name.replace("_", " ") for name, text in said}
    rows = ((f"`{name}`", _markdown(meaning[name])) for name in vars(columns) if name in meaning)
    yield from ("## Jobs in a kernel", "", inspect.getdoc(Jobs) or "", "")
    yield from _table(("column", "meaning"), rows)
    yield from ("", "## Outcomes in a metric", "")
    intro, _, text = (inspect.getdoc(Outcomes) or "").partition("\n\n")
    each = re.split(r"(?:^|(?<=[.;]) )(?=[a-z_0-9, ]+: )", text.replace("\n", " "))
    yield from (_markdown(intro.replace("\n", " ")), "")
    found = (one.rstrip(" ;").split(": ", 1) for one in each if one)
    yield from _table(
        ("column", "meaning"),
        (
            (", ".join(f"`{n}`" for n in names.split(", ")), _markdown(said))
            for names, said in found
        ),
    )


def _metrics() -> Iterator[str]:
    of = {"job": "a job", "time": "time", "run": "the run"}
    rows = (
        (
            f"`{metric['name']}`",
            _markdown(metric["summary"]).replace("|", "\\|"),
            {"1": "", "s": "seconds", "GPU s": "GPU-seconds"}.get(facts["unit"], facts["unit"]),
            of[facts["of"]],
            facts["better"] if facts["better"] != "neither" else "",
        )
        for metric in _listed("metrics")
        for facts in (metric["facts"],)
    )
    yield from _table(("metric", "meaning and source", "unit", "of", "better"), rows)


def _experiment() -> Iterator[str]:
    rows = []
    for name, one in Experiment.model_fields.items():
        default = one.get_default(call_default_factory=True)
        if isinstance(default, tuple):
            shown = f"`{json.dumps(list(default))}`" if default else ""
        else:
            shown = f"`{str(default).lower()}`" if isinstance(default, bool) else ""
        rows.append((f"`{name}`", shown, one.description or ""))
    yield from _table(("key", "default", "meaning"), rows)
    yield from (
        "",
        "A part with parameters is written as on the command line or as a table:",
        "",
        "```toml file=experiment.toml",
        'generate = { name = "lognormal", jobs = 200 }',
        'cluster = "4x8"',
        'policies = ["fifo", "srsf", { name = "las", round = "10m" }]',
        'placement = "consolidated"',
        "overheads = { restore = 30, checkpoint = 10 }",
        "seeds = [1, 2]",
        "```",
        "",
        "```console",
        "$ volvelle compare --config experiment.toml --out results",
        "```",
    )


def _serve() -> Iterator[str]:
    yield from _model(ServeConfig)
    yield from (
        "",
        "```toml file=cluster.toml",
        'policy = "las:round=1m"',
        'executor = { name = "local", pretend = true }',
        'folder = "/var/lib/volvelle"',
        "",
        "[[nodes]]",
        "gpus = 8",
        "",
        "[listen]",
        'address = "0.0.0.0"',
        'certificate = "server.crt"',
        'key = "server.key"',
        "```",
    )


def _model(model: type[BaseModel]) -> Iterator[str]:
    """The keys of a file; those that are tables are told below, under their names."""
    rows, tables = [], []
    fields = sorted(model.model_fields.items(), key=lambda one: not one[1].is_required())
    for name, field in fields:
        inner = [one for one in _within(field.annotation) if issubclass(one, BaseModel)]
        tables += [(name, one) for one in inner if one is not Overheads]
        default = field.get_default(call_default_factory=True)
        plain = isinstance(default, (str, int, float, Path)) and default not in ("", False)
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        rows.append(
            (f"`{name}`", f"`{shown}`" if plain else "", _markdown(field.description or ""))
        )
    yield from _table(("key", "default", "meaning"), rows)
    for name, inner_model in tables:
        yield from (
            "",
            f"## {name}",
            "",
            _markdown(inspect.cleandoc(inner_model.__doc__ or "")),
            "",
        )
        yield from _model(inner_model)


def _within(annotation: Any) -> Iterator[type]:
    """The classes that a type is made of."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for one in get_args(annotation):
        yield from _within(one)


def _routes() -> Iterator[str]:
    rows = [
        (f"`{how.upper()} {path}`", _markdown(" ".join(str(route.get("description", "")).split())))
        for path, routes in create_routes().openapi()["paths"].items()
        for how, route in routes.items()
    ]
    yield from _table(("request", "meaning"), rows)
    yield from (
        "",
        "In Python:",
        "",
        "```text",
        "from volvelle.live.http.client import ApiClient",
        "",
        "server = ApiClient.find()  # VOLVELLE_SERVER and VOLVELLE_TOKEN, or a server's folder",
        'print(server.post("/v1/jobs", {"command": "python train.py", "gpus": 8}, key="tuesday"))',
        "```",
    )


def _commands() -> Iterator[str]:
    listed = list(_within_group("volvelle", typer.main.get_command(app)))
    rows = ((f"[`{name}`](#{name.replace(' ', '-')})", _summary(one)[0]) for name, one in listed)
    yield from _table(("command", "what it does"), rows)
    options = (row for _, one in listed for row in _options(one))
    shared = _shared(row for row in options if row[0].startswith("`--"))
    yield from ("", "## Options that many share", "")
    yield from _table(("argument or option", "meaning"), shared)
    yield ""
    for name, one in listed:
        yield from _command(name, one, shared)


def _within_group(name: str, group: Any) -> Iterator[tuple[str, Any]]:
    """The commands by what one types; a group is one itself where it answers alone."""
    for inner, one in group.commands.items():
        if one.params and (not hasattr(one, "commands") or one.invoke_without_command):
            yield (f"{name} {inner}", one)
        if hasattr(one, "commands"):
            yield from _within_group(f"{name} {inner}", one)


def _options(command: Any) -> list[tuple[str, str]]:
    return [
        (_written(one), (getattr(one, "help", "") or "").replace("|", "\\|"))
        for one in command.params
        if one.name != "help" and not getattr(one, "hidden", False)
    ]


def _summary(command: Any) -> tuple[str, list[str]]:
    """The first line of what a command says of itself, and the others that are not empty."""
    first, *more = inspect.cleandoc(command.help or "").splitlines() or [""]
    return _markdown(first), [line for line in more if line]


def _command(name: str, command: Any, shared: list[tuple[str, str]]) -> Iterator[str]:
    summary, more = _summary(command)
    examples = [line for line in more if line.startswith("volvelle ")]
    said = [line for line in more if line not in examples]
    yield from (f"## {name}", "", " ".join([summary, *said]), "")
    yield from (f"    {line}" for line in examples)
    yield from [""] if examples else []
    rows = _options(command)
    if own := [row for row in rows if row not in shared]:
        yield from _table(("argument or option", "meaning"), own)
        yield ""
    if others := [row[0].split("` ")[0].rstrip("`") for row in rows if row in shared]:
        yield from (f"[Shared options](#options-that-many-share): {'`, '.join(others)}`.", "")


def _written(one: Any) -> str:
    """An argument or option as one would type it."""
    choices = map(str, getattr(one.type, "choices", ()))
    kind = (one.metavar or "|".join(choices)).replace("|", "\\|")
    if not one.opts[0].startswith("-"):
        return f"`{kind or one.name.upper()}`"
    names = ", ".join(f"`{option}`" for option in [*one.opts, *one.secondary_opts])
    if one.is_flag:
        return names
    return f"{names} `{kind or 'N'}`"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(heads)
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join('---' for _ in heads)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _markdown(text: str) -> str:
    """A docstring's text as Markdown."""
    return text.replace("``", "`").replace("`COLUMNS` lists", "[here](trace-columns.md) is")


def main(write: Callable[[str], None] = print) -> None:
    """Write the pages."""
    for name, text in made().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
        write(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
