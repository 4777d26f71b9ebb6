"""Where the database is, and who connects to it: by a URL whose user and password may change while the program runs."""

from typing import Any

from sqlalchemy.engine import URL, Dialect, make_url
from sqlalchemy.exc import ArgumentError

from adapters.connections import LogIn
from app.secret import Changing

_SECRETS = ("password", "sslpassword")
"""Parameters of a URL that libpq takes instead of a password in front of the host."""
_REFUSALS = ("authentication failed", "no password supplied", "not permitted to log in", "no pg_hba.conf entry")
"""Words of the server's refusals. libpq does not tell the SQLSTATE of a connection that was not made."""


def parsed(url: str) -> URL:
    """Return a URL in its parts. Raises ValueError, which shows nothing of it: a password may be in a wrong place."""
    how = "write postgresql+psycopg://user:password@host/name, with %40 for each @ and %2F for each / in the password"
    try:
        found = make_url(str(url))
    except (ArgumentError, ValueError):
        raise ValueError(f"the URL of the catalog cannot be read: {how}") from None
    if "@" in (found.host or "") or "@" in (found.database or ""):
        raise ValueError(f"the URL of the catalog has more than one @: {how}")
    return found


class Address:
    """The URL of a database. Each connection logs in as the file of `url_file` has it then; nothing else of the URL
    changes."""

    def __init__(self, url: str) -> None:
        self._given = url
        self.url = parsed(url)
        self.log_in = LogIn(url=url if isinstance(url, Changing) else None)

    def connect(self, dialect: Dialect, parameters: dict[str, Any]) -> Any:
        """Return a connection of the driver with these parameters, but with the user and the password of now."""
        if isinstance(self._given, Changing) and self._given.file is not None:
            now = parsed(self._given.current)
            query = self.url.query | {name: now.query[name] for name in _SECRETS if name in now.query}
            url = self.url.set(username=now.username, password=now.password, query=query)
            _, fresh = dialect.create_connect_args(url)
            parameters |= {name: fresh[name] for name in ("user", *_SECRETS) if name in fresh}
        try:
            connection = dialect.connect(**parameters)
        except dialect.loaded_dbapi.OperationalError as error:
            if any(words in str(error) for words in _REFUSALS):
                self.log_in.refused()
            raise
        self.log_in.accepted()
        return connection
