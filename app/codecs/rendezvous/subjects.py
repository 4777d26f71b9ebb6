"""Subject names: elements with dots between them, and the wildcards of a subscription."""

from typing import Final

LONGEST_SUBJECT: Final = 255
"""Characters of the longest subject name."""

LONGEST_ELEMENT: Final = 127
"""Characters of the longest element of one."""

SUBJECT_PROPERTY: Final = "rendezvous.subject"
REPLY_PROPERTY: Final = "rendezvous.reply"
"""Properties of a received message: the subject that it was published on, and the one to reply to."""

INBOX: Final = "_INBOX"
ADVISORY: Final = "_RV."
"""What the subjects of advisories begin with; only daemons and libraries publish on them."""


def checked_subject(subject: str, *, wildcards: bool = False) -> str:
    """Return a subject that may be published on, or with `wildcards` listened to. Raises ValueError.

    `*` stands for one element, `>` as the last element for one or more.
    """
    elements = subject.split(".")
    if not subject.isprintable() or not subject.isascii() or " " in subject:
        raise ValueError(f"{subject!r}: a subject has printable ASCII characters and no blanks")
    if len(subject) > LONGEST_SUBJECT or any(not 0 < len(element) <= LONGEST_ELEMENT for element in elements):
        raise ValueError(
            f"{subject!r}: a subject has at most {LONGEST_SUBJECT} characters, and each element 1 to {LONGEST_ELEMENT}"
        )
    if wildcards:
        if any("*" in element and element != "*" for element in elements):
            raise ValueError(f"{subject!r}: * stands alone as an element")
        if any(">" in element for element in elements[:-1]) or (">" in elements[-1] and elements[-1] != ">"):
            raise ValueError(f"{subject!r}: > stands alone as the last element")
    elif "*" in subject or ">" in subject:
        raise ValueError(f"{subject!r}: one cannot publish on a subject with wildcards")
    return subject
