"""The program `attachment-gateway`: it starts only with packages of its own.

The gateway's packages are `app` and `adapters`, and other programs have packages of these names, too. Where Python
finds one of those first, or one was installed over the gateway's, errors would come from anywhere and explain nothing.
The name of this module is the gateway's alone. It imports neither package before it knows whose it is.

Only the program imports this module, as `app.__main__`: with the import, Ctrl-C ends the process at once.
"""

from importlib.machinery import ModuleSpec

_OWN = b"attachment gateway"
"""What the first module of each package says of itself."""


def _refuse_others() -> None:
    """Exit with a sentence if one of the packages is not the gateway's."""
    from importlib.util import find_spec  # noqa: PLC0415 - Ctrl-C is handled meanwhile

    for package in ("app", "adapters"):
        spec = find_spec(package)
        if spec is None or not _is_own(spec):
            raise SystemExit(
                f"error: the package {package!r} is not the attachment gateway's: Python finds it in {_place(spec)}\n"
                "Another program has a package of this name. Install the gateway where no other program is: with pipx, "
                "with uv tool, or into a virtual environment of its own. If PYTHONPATH is set, unset it."
            )


def _keep_the_current_folder_out() -> None:
    """Have the processes that multiprocessing and Spark start find no package of others where the user is."""
    import os  # noqa: PLC0415

    os.environ["PYTHONSAFEPATH"] = "1"


def _is_own(spec: ModuleSpec) -> bool:
    """Tell whether a package lies beside this module and is the gateway's."""
    from pathlib import Path  # noqa: PLC0415

    if spec.origin is None:  # a namespace, which has no module of its own
        return False
    first = Path(spec.origin)
    return first.parent.parent.resolve() == Path(__file__).parent.resolve() and _OWN in first.read_bytes()


def _place(spec: ModuleSpec | None) -> str:
    """Return the folder of a package, or the file of a module."""
    places = [*(spec.submodule_search_locations or ()), spec.origin] if spec else []
    return str(places[0]) if places else "no folder"


try:
    _refuse_others()
    _keep_the_current_folder_out()

    from app.__main__ import main
except KeyboardInterrupt:
    raise SystemExit(130) from None  # app.cli.INTERRUPTED, which is perhaps not loaded yet

__all__ = ["main"]
