"""Many small cases in one test: hundreds of tests cost more to collect and to report than to run."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any


def for_each(arguments: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each of the cases, one after the other; a failure names its case.

    The arguments and cases are those of `pytest.mark.parametrize`. All cases of a test share its fixtures.
    """
    names = [name.strip() for name in arguments.split(",")]
    values = [case if len(names) > 1 else (case,) for case in cases]
    if not values:
        raise ValueError(f"there is no case of {arguments}")

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def with_each(*of: Any, **fixtures: Any) -> None:
            for number, case in enumerate(values, 1):
                given = dict(zip(names, case, strict=True))
                try:
                    test(*of, **fixtures, **given)
                except BaseException as error:
                    said = ", ".join(f"{name}={value!r:.200}" for name, value in given.items())
                    error.add_note(f"case {number} of {len(values)}: {said}")
                    raise

        whole = signature(test)
        rest = [each for each in whole.parameters.values() if each.name not in names]
        with_each.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined]
        return with_each

    return decorated
