"""Secrets, and control characters, in texts that people read.

Errors of libraries quote what they were given: URLs with a user and a password, signed URLs of object stores, header
fields. Such errors become parts of log lines, problems, checks and messages of commands. `masked` is applied where all
of these begin.
"""

import re
from typing import Final

MASK: Final = "****"

_PASSWORD: Final = re.compile(r"(://[^\s:/@?#]*):\S*@")
"""The password may hold any character, although a URL should have percent signs for most."""
SECRET_PARAMETERS: Final = (
    *("password", "sslpassword", "passphrase", "secret", "client_secret", "api_key", "sig", "signature"),
    *("token", "access_token", "id_token", "refresh_token"),
    *("x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "x-goog-credential"),
)
"""Parameters of URLs whose values are secrets. Of others, such as a file's name in `sslkey`, some may be."""
_PARAMETER: Final = re.compile(
    rf"([?&;](?:{'|'.join(SECRET_PARAMETERS)}|code|(?:ssl)?key|link|awsaccesskeyid)=)[^\s&;\"'<>]+", re.IGNORECASE
)
_HEADER: Final = re.compile(r"\b(bearer|basic)(\s+)[^\s\"',]{8,}", re.IGNORECASE)


def printable(text: str, also: str = "") -> str:
    """Return text without control characters, since it may come from anywhere."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in also else "\ufffd" for c in text)


def masked(text: str) -> str:
    """Return a text without the passwords in URLs, signatures in their parameters, and credentials of HTTP."""
    if "://" in text:
        text = _PASSWORD.sub(rf"\1:{MASK}@", text)
    if "=" in text:
        text = _PARAMETER.sub(rf"\1{MASK}", text)
    return _HEADER.sub(rf"\1\2{MASK}", text)
