"""The API conforms to its OpenAPI document, for valid and invalid requests."""

from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import pytest
import schemathesis
from api_fixtures import ApiFixture, open_api
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, Response
from schemathesis.checks import CheckFunction
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

EXAMPLES = 3


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiFixture]:
    with open_api(tmp_path_factory.mktemp("api"), body_bytes=1 << 20, request=60.0) as api:
        yield api


def test_the_api_conforms_to_its_openapi_document(api: ApiFixture) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", api.app)
    found = list(schema.get_all_operations())
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == len(found) > 15
    for operation in operations:
        if operation.path == "/v1/queue/changes":
            continue  # it does not end by itself; tests/live/test_dashboard_api.py reads it
        for mode in schemathesis.GenerationMode:
            _check(operation.as_strategy(generation_mode=mode), api)


def _check(cases: SearchStrategy[Case[Any]], api: ApiFixture) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def answers(case: Case[Any]) -> None:
        if case.path == "/v1/events":
            case.query["follow"] = "false"
        response = case.call(headers={"Authorization": f"Bearer {api.tokens['root']}"})
        case.validate_response(response, excluded_checks=_ignored_checks(case, response))

    with suppress(Unsatisfiable):  # there is nothing about the request to get wrong
        answers()


def _ignored_checks(case: Case[Any], response: Response) -> list[CheckFunction]:
    """What a schema cannot say: how the keys of a job go together, and what was asked before.

    Unknown query parameters are ignored, a missing token is replaced by one that holds, and what is too large
    is refused as such.
    """
    if response.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return [negative_data_rejection]
    if case.meta is not None:
        wrong = {
            where.value for where, made in case.meta.components.items() if made.mode.is_negative
        }
        known = {parameter.name for parameter in case.operation.query}
        ignored = {"header"} | ({"query"} if set(case.query or ()) - known else set())
        if wrong and wrong <= ignored:
            return [negative_data_rejection]
    together = (
        "was sent before, with another job",
        "gpus must be between",
        "give within or steps",
        "steps belong to",
        "worth less",
        "samples_per_second has no",
        "needs two batch sizes",
        "a schedule needs",
        "epochs of a schedule",
        "of an unknown rule",
        "of a sensitivity must",
        "a sensitivity over",
        "leave out rates",
        "rates says nothing of",
    )
    return [positive_data_acceptance] if any(said in response.text for said in together) else []
