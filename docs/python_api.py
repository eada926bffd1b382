"""The reference of what ``import volvelle`` offers, for `make_reference`."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from types import FunctionType
from typing import Any

import volvelle
from volvelle.live.forecasts.explanation import JobExplanation
from volvelle.live.forecasts.job_forecast import JobForecast
from volvelle.live.forecasts.suggestions import Suggestion
from volvelle.live.status.view import Guarantee, JobStatusView, NodeStatusView
from volvelle.notebook.jobs import Jobs
from volvelle.notebook.records import Record, Rows, record_kind
from volvelle.notebook.results import Comparison, Run
from volvelle.notebook.runs import OF_JOBS
from volvelle.notebook.search import Tuned
from volvelle.notebook.server import Server
from volvelle.simulate.experiment import Experiment

INTRO = """What a script or a notebook calls: `import volvelle as vv`
([a notebook](../how-to/work-in-a-notebook.ipynb)). Every function does what the command of its name does, by
the same code. Its `settings` are the keys of [the experiment file](experiment-file.md). Mistakes raise
`volvelle.model.problems.Problem`, whose text says what to do.

`Jobs`, `Run`, `Comparison`, `Tuned` and `Rows` go to data frames as they are:
`run.to_pandas()` (pandas and pyarrow come with `pip install -e '.[notebook]'`),
`polars.DataFrame(run)`, `pyarrow.table(run)`; data frames come in where jobs do.
Times of simulations are seconds on the trace's clock, those of a live server datetimes."""

FUNCTIONS = ("read", "generate", "simulate", "compare", "tune", "connect")
CLASSES = (Jobs, Run, Comparison, Tuned, Server, Rows, Record)
MODELS = (JobStatusView, NodeStatusView, JobExplanation, Suggestion, JobForecast, Guarantee)
_DOCUMENTED = (FunctionType, property, cached_property)


def sections() -> Iterator[str]:
    """The lines of the page, below its introduction."""
    for name in FUNCTIONS:
        one = getattr(volvelle, name)
        function = getattr(one, "_function", one)
        yield from (f"## {name}", "", f"`vv.{name}{_untyped(function)}`", "", _text(function), "")
    yield from ("## Cluster", "", "`vv.Cluster(nodes)`", "", _text(volvelle.Cluster), "")
    for kind in CLASSES:
        yield from (f"## {kind.__name__}", "", _text(kind), "")
        for name, member in inspect.getmembers(kind):
            if name.startswith("_") or not isinstance(member, _DOCUMENTED):
                continue
            shown = f"{name}{_untyped(member)}" if inspect.isfunction(member) else name
            yield from (f"- `{shown}`: {' '.join(_text(member).split())}",)
        yield ""
    for model in MODELS:
        names = ", ".join(f"`{one.name}`" for one in fields(model))
        yield from (f"- `{record_kind(model).__name__}`: {names}",)
    yield ""
    of_functions = {*OF_JOBS, "cluster", "policies", "out"}
    keys = ", ".join(f"`{name}`" for name in Experiment.model_fields if name not in of_functions)
    yield from ("## Settings", "", f"Keys of an experiment besides: {keys}.", "")


def _text(one: Any) -> str:
    said = re.sub(r"``([^`]+)``", r"`\1`", inspect.getdoc(one) or "")
    return re.sub(r"`volvelle\.(\w+)`", r"`\1`", said)


def _untyped(function: Any) -> str:
    signature = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return str(inspect.Signature(plain))
