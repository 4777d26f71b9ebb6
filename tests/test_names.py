"""Classes: one name means one thing in all of `app` and `adapters`, and locks are explained."""

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

EXCEPTIONS: Mapping[str, str] = {
    "SourceSettings": "each transport has its own, and only that transport uses it",
    "DestinationSettings": "each transport has its own, and only that transport uses it",
    "Count": "a message layout, whose name stands in errors and traces, and a schema of REST, whose name clients see",
}
"""Names that several classes have, with the reasons."""


def classes(folder: Path) -> dict[str, list[str]]:
    """Return the public classes of the modules in a folder, by name, each with the modules that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(folder).as_posix())
    return found


def repeated(found: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_two_public_classes_have_the_same_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ("app", "adapters"):
        for name, modules in classes(ROOT / folder).items():
            found[name] += [f"{folder}/{module}" for module in modules]
    assert len(found) > 500
    assert {name: modules for name, modules in repeated(found).items() if name not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() <= repeated(found).keys(), "an exception that is not needed"


def test_a_repeated_name_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Table:\n    class Row: ...\n\n\nclass _Part: ...\n")
    (tmp_path / "two.py").write_text("class Row: ...\n\n\nclass Table: ...\n\n\nclass _Part: ...\n")
    assert repeated(classes(tmp_path)) == {"Table": ["one.py", "two.py"]}


def guarding(path: Path) -> list[tuple[str, bool]]:
    """Return the classes of a module that make a lock, and whether the docstring of each says what it guards."""
    return [
        (node.name, "guards" in (ast.get_docstring(node) or ""))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and re.search(r"\b(Lock|RLock|Condition)\(\)", ast.unparse(node))
    ]


def test_a_class_with_a_lock_says_which_fields_it_guards() -> None:
    found = [
        (f"{path.relative_to(ROOT)}: {name}", says)
        for folder in ("app", "adapters")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, says in guarding(path)
    ]
    assert len(found) > 20
    assert [name for name, says in found if not says] == []
