"""The types of problems as a resource."""

from fastapi import APIRouter

from app.web.problems.problem import Problem
from app.web.problems.problem_types import PROBLEMS
from app.web.problems.schemas import ProblemTypeView, responses

router = APIRouter(prefix="/problems", tags=["operations"])


@router.get("", operation_id="list_problems")
def list_problems() -> list[ProblemTypeView]:
    """List all types of problems that REST answers with."""
    return [ProblemTypeView.of(kind) for kind in PROBLEMS.values()]


@router.get("/{word}", operation_id="get_problem", responses=responses("not-found"))
def get_problem(word: str) -> ProblemTypeView:
    """Return the type of problem that a problem's `type` refers to."""
    if word not in PROBLEMS:
        raise Problem("not-found", "there is no problem type with this name")
    return ProblemTypeView.of(PROBLEMS[word])
