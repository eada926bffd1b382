"""``/v1/forecast/past``: a span of the server's own journal, had again under another policy."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from volvelle.live.http.dependencies import (
    OperatorPrincipal,
    TheController,
    TheReplayThreads,
    TheStore,
)
from volvelle.live.http.errors import error_responses
from volvelle.live.http.recomposition import WrittenPart, recomposition
from volvelle.live.http.responses import json_response
from volvelle.live.strict_model import StrictModel
from volvelle.simulate.counterfactual import Counterfactual, counterfactual

router = APIRouter(prefix="/v1", tags=["forecasts"])

_Moment = Annotated[float, Field(ge=0, le=1e12)]


class PastQuestion(StrictModel):
    """The jobs submitted from one moment to another (seconds since the Unix epoch), under other parts."""

    since: _Moment
    until: _Moment
    policy: WrittenPart | None = None
    admission: WrittenPart | None = None


@router.post(
    "/forecast/past", response_model=Counterfactual, responses=error_responses(403, 409, 429)
)
async def forecast_past(
    question: PastQuestion,
    principal: OperatorPrincipal,
    controller: TheController,
    store: TheStore,
    threads: TheReplayThreads,
) -> Response:
    """A span of the past under another policy: the journal, simulated again."""
    request = recomposition(question.policy, question.admission, controller)
    end = time.monotonic() + threads.seconds

    def work() -> Counterfactual:
        dates = controller.dates
        with TemporaryDirectory(prefix="volvelle-") as folder:
            journal = Path(folder) / "journal.jsonl"
            store.write_journal(journal)
            return counterfactual(
                journal,
                request.policy,
                request.admission,
                dates.time(question.since),
                dates.time(question.until),
                lambda: time.monotonic() > end,
            )

    return json_response(await threads.run(principal, work))
