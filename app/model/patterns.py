"""Patterns of texts in settings and requests, each with the sentence for a text that does not match."""

from collections.abc import Mapping
from typing import Final

NO_CONTROL_CHARACTERS: Final = r"^[^\x00-\x1f\x7f]*$"
TEXT: Final = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"
NO_SPACES: Final = r"^[!-~]*$"
IDEMPOTENCY_KEY: Final = r"^[!-~]{1,255}$"
DELIMITER: Final = r"^[\t !#-~]$"
PRINTABLE_ASCII: Final = r"^[ -~]*$"
CORREL_ID: Final = r"^([0-9a-fA-F]{2}){0,24}$"
SETTING_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
SHA_256: Final = r"^[0-9A-Fa-f]{64}$"
ORIGIN: Final = r"^(\*|https?://[A-Za-z0-9.\[\]:-]+)$"
HOST: Final = r"^((\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]?)$"
IDENTIFIER: Final = r"^[0-9a-f]{32}$"
SOME_PRINTABLE_ASCII: Final = r"^[ -~]+$"
WEB_URL: Final = r"^https?://"
KUBERNETES_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
KUBERNETES_NAMESPACE: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
CODE_VERIFIER: Final = r"^[A-Za-z0-9._~-]{43,128}$"

SENTENCES: Final[Mapping[str, str]] = {
    NO_CONTROL_CHARACTERS: "control characters, such as line ends and tabs, are not allowed",
    TEXT: "control characters other than tabs and line ends are not allowed",
    NO_SPACES: "only printable ASCII characters without spaces are allowed",
    IDEMPOTENCY_KEY: "give 1 to 255 printable ASCII characters without spaces",
    DELIMITER: "give one character: a tab, a space or a printable ASCII character other than the quotation mark",
    PRINTABLE_ASCII: "only printable ASCII characters are allowed",
    CORREL_ID: "give up to 24 bytes, as two hexadecimal digits each",
    SETTING_NAME: "give 1 to 64 letters, digits, dots, underscores and hyphens; the first is a letter or a digit",
    SHA_256: "give a SHA-256, 64 hexadecimal digits",
    ORIGIN: "give an origin, such as https://console.example, or *",
    HOST: "give a name such as gateway.example, *.example for all names below it, or an address, without a port",
    IDENTIFIER: "give an identifier, 32 hexadecimal digits in lower case",
    SOME_PRINTABLE_ASCII: "give printable ASCII characters",
    WEB_URL: "give a URL that begins with http:// or https://",
    KUBERNETES_NAME: "give a name of Kubernetes: lower-case letters, digits, dots and hyphens, at most 253",
    KUBERNETES_NAMESPACE: "give a namespace of Kubernetes: lower-case letters, digits and hyphens, at most 63",
    CODE_VERIFIER: "give 43 to 128 letters, digits, dots, underscores, tildes and hyphens (RFC 7636)",
}
