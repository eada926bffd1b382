"""Whatever the OpenAPI document allows or forbids, the API does what the document says."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from api_fixtures import ApiWorld, api_world
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, Response
from schemathesis.checks import CheckFunction
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

EXAMPLES = 5


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiWorld]:
    with api_world(tmp_path_factory.mktemp("api"), body_bytes=1 << 20) as world:
        yield world


def test_the_api_is_as_its_document_says(world: ApiWorld) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", world.app)
    found = list(schema.get_all_operations())
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == len(found) > 15
    for operation in operations:
        for mode in schemathesis.GenerationMode:
            _check(operation.as_strategy(generation_mode=mode), world)


def _check(cases: SearchStrategy[Case[Any]], world: ApiWorld) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def answers(case: Case[Any]) -> None:
        if case.path == "/v1/events":
            case.query["follow"] = "false"
        response = case.call(headers={"Authorization": f"Bearer {world.tokens['root']}"})
        case.validate_response(response, excluded_checks=_no_concern(response))

    with suppress(Unsatisfiable):  # there is nothing about the request to get wrong
        answers()


def _no_concern(response: Response) -> list[CheckFunction]:
    """What a schema cannot say: how the keys of a job go together."""
    together = ("gpus must be between", "give within or steps", "steps belong to")
    return [positive_data_acceptance] if any(said in response.text for said in together) else []
