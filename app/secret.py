"""Values of the configuration that may be in separate files, and change while the program runs.

`password_file = "/run/secrets/mq"` is `password` with the content of that file. Each use reads the file
again, since secrets rotate. While the file cannot be read, or has no valid content, the last valid value is used.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, get_args, get_origin
from urllib.parse import SplitResult, urlsplit

from pydantic import GetCoreSchemaHandler, SecretStr, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


class ValueFile:
    """The file that has the value of a setting, with the name of the setting that names it."""

    def __init__(self, path: str | Path, setting: str) -> None:
        """Read the file. Raises ValueError if that cannot be done."""
        self.setting, self._path = setting, path
        try:
            self._last = self._content()
        except TypeError:
            raise ValueError("give the path of a file") from None
        except UnicodeDecodeError:
            raise ValueError(f"cannot read {path!r}: it is not text in UTF-8") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}") from None

    def text(self) -> str:
        """Return the content without white space around it, as it is now."""
        with suppress(OSError, UnicodeDecodeError):  # it is being replaced, or is not readable
            self._last = self._content() or self._last
        return self._last

    def has_changed(self) -> bool:
        """Tell whether the content differs from what `text` returned last."""
        try:
            return self._content() not in ("", self._last)
        except (OSError, UnicodeDecodeError):
            return False

    def _content(self) -> str:
        return Path(self._path).read_text().strip()


class _FromFile:
    """A value that may be in a file."""

    file: ValueFile | None = None

    @classmethod
    def of(cls, file: ValueFile) -> Self:
        """Return the value in a file."""
        made = cls._read(file.text())
        made.file = file
        return made

    @classmethod
    def _read(cls, text: str) -> Self:
        return cls(text)  # type: ignore[call-arg]  # of the class that this one is mixed into


class Secret(_FromFile, SecretStr):
    """A text that must not be shown."""

    def get_secret_value(self) -> str:
        """Return the secret, read again if it is in a file."""
        return super().get_secret_value() if self.file is None else self.file.text()


class Changing(_FromFile, str):
    """A text that may be in a file, and is no secret by itself, such as a user's name."""

    @property
    def current(self) -> str:
        """The text, read again if it is in a file."""
        return str(self) if self.file is None else self.file.text()

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        def made(given: str, call: Callable[[str], str]) -> "Changing":
            checked = call(given)
            return given if isinstance(given, cls) else cls(checked)

        return core_schema.no_info_wrap_validator_function(made, core_schema.str_schema())


class Words(_FromFile, list[T], Generic[T]):
    """A list that may be in a file, with white space between its items."""

    _item: Any = str

    @classmethod
    def _read(cls, text: str) -> Self:
        return cls(text.split())

    @property
    def current(self) -> list[T]:
        """The items, read again if they are in a file."""
        if self.file is not None and self.file.has_changed():
            with suppress(ValidationError):  # the items before hold
                self[:] = TypeAdapter(list[self._item]).validate_python(self.file.text().split())  # type: ignore[name-defined]
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        item: Any = (get_args(source) or (str,))[0]

        def made(given: Any, call: Callable[[Any], list[Any]]) -> "Words[Any]":
            checked: Words[Any] = cls(call(given))
            checked.file, checked._item = getattr(given, "file", None), item
            return checked

        return core_schema.no_info_wrap_validator_function(made, handler.generate_schema(list[item]))


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL. Raises ValueError without the URL: it may contain a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(
            "is not a URL: its port is not a number up to 65535, or special characters of a user or a password lack "
            "percent signs"
        ) from None
    return parts


def rotating(annotation: Any) -> Callable[[ValueFile], Any] | None:
    """Return the constructor of values that are read again from a file, if a setting's annotation has such a type."""
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, _FromFile):
        return kind.of
    return next(filter(None, map(rotating, get_args(annotation))), None)
