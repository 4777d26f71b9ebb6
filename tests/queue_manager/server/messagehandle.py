"""Message handles: properties and a message descriptor, from the call that makes one to the one that deletes it.

Sources: IBM MQ, "MQCRTMH", "MQSMPO", "MQIMPO" and "MQDMPO" (Options: the property cursor), "Message descriptor fields
as properties", "MQPMO" (Action, OriginalMsgHandle, NewMsgHandle). That the wildcard alone leaves out the fields of the
descriptor, and which properties MQACTP_NEW takes when both handles are given, is believed.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from tests.queue_manager.server import constants as mq
from tests.queue_manager.server.errors import Refused
from tests.queue_manager.server.properties import DESCRIPTOR_PREFIX, Path, Property, check_content, check_name, path_of
from tests.queue_manager.server.structures import MessageDescriptor, default_descriptor, padded

_COPIED = {
    mq.MQACTP_FORWARD: mq.MQCOPY_FORWARD,
    mq.MQACTP_REPLY: mq.MQCOPY_REPLY,
    mq.MQACTP_REPORT: mq.MQCOPY_REPORT,
}
_DESCRIPTOR_PATH: Path = ("Root", "MQMD")
_BYTES = frozenset({"msg_id", "correl_id", "accounting_token", "group_id"})
_FIELDS: dict[str, str] = {
    "".join(part.title() for part in name.split("_")).replace("Qmgr", "QMgr"): name
    for name in MessageDescriptor.names()
    if name not in ("struc_id", "version")
}
"""By the name that C knows it by, each field of MQMD that is a property."""


@dataclass(eq=False, slots=True)
class MessageHandle:
    """What belongs to one handle."""

    validates: bool = True
    """Whether the names of properties are checked when they are set."""
    properties: list[Property] = field(default_factory=list)
    descriptor: MessageDescriptor = field(default_factory=default_descriptor)
    cursor: Property | None = None
    """The property last inquired."""
    pattern: str = ""
    """The name by which it was."""

    # --- inquiring ------------------------------------------------------------------------------------------------

    def find(self, pattern: str, options: int) -> Property:
        """The property that an inquiry means; the cursor stays. Raises Refused where there is none."""
        if options & mq.MQIMPO_INQ_PROP_UNDER_CURSOR:
            return self._under_cursor()
        candidates = [found for found in self._all(pattern) if found.matches(pattern)]
        if options & mq.MQIMPO_INQ_NEXT and pattern == self.pattern and self.cursor is not None:
            paths = [found.path for found in candidates]
            behind = paths.index(self.cursor.path) + 1 if self.cursor.path in paths else 0
            candidates = candidates[behind:]
        if not candidates:
            raise Refused(mq.MQRC_PROPERTY_NOT_AVAILABLE)
        return candidates[0]

    def move(self, to: Property, pattern: str, options: int) -> None:
        """Sets the cursor on the property that an inquiry returned."""
        self.cursor = to
        if not options & mq.MQIMPO_INQ_PROP_UNDER_CURSOR:
            self.pattern = pattern

    def _all(self, pattern: str) -> list[Property]:
        return self._descriptor_properties() if pattern.startswith(DESCRIPTOR_PREFIX) else self.properties

    def _descriptor_properties(self) -> list[Property]:
        found = []
        for name, place in _FIELDS.items():
            value: Any = getattr(self.descriptor, place)
            type_ = mq.MQTYPE_INT32
            if isinstance(value, bytes):
                type_ = mq.MQTYPE_BYTE_STRING if place in _BYTES else mq.MQTYPE_STRING
            if type_ == mq.MQTYPE_STRING:
                value = value.decode("latin-1")
            found.append(Property((*_DESCRIPTOR_PATH, name), type_, value))
        return found

    def _under_cursor(self) -> Property:
        if self.cursor is None:
            raise Refused(mq.MQRC_PROPERTY_NOT_AVAILABLE)
        if self.cursor.path[:2] != _DESCRIPTOR_PATH and self.cursor not in self.properties:
            raise Refused(mq.MQRC_PROPERTY_NOT_AVAILABLE)
        return self.cursor

    # --- setting --------------------------------------------------------------------------------------------------

    def set(self, name: str, made: Property, options: int) -> None:
        """Sets or adds a property where the options say. Raises Refused."""
        if self.validates:
            check_name(name)
        if name.startswith(DESCRIPTOR_PREFIX):
            self._set_field(name, made)
            return
        check_content(made.path, self.properties)
        near = mq.MQSMPO_SET_PROP_BEFORE_CURSOR | mq.MQSMPO_SET_PROP_AFTER_CURSOR | mq.MQSMPO_SET_PROP_UNDER_CURSOR
        if options & near:
            self._set_near(self.properties.index(self._under_cursor()), made, options)
            return
        same = [at for at, found in enumerate(self.properties) if found.path == made.path]
        kin = [at for at, found in enumerate(self.properties) if found.path[:-1] == made.path[:-1]]
        if options & mq.MQSMPO_APPEND_PROPERTY or not same:
            self.properties.insert(kin[-1] + 1 if kin else len(self.properties), made)
        else:
            self.properties[same[0]] = made

    def _set_near(self, at: int, made: Property, options: int) -> None:
        if options & mq.MQSMPO_SET_PROP_UNDER_CURSOR:
            made = replace(made, path=self.properties[at].path)
            self.properties[at] = self.cursor = made
        else:
            self.properties.insert(at + 1 if options & mq.MQSMPO_SET_PROP_AFTER_CURSOR else at, made)

    def _set_field(self, name: str, made: Property) -> None:
        place = _FIELDS.get(name.removeprefix(DESCRIPTOR_PREFIX))
        if place is None:
            raise Refused(mq.MQRC_PROPERTY_NAME_ERROR)
        (there,) = (found for found in self._descriptor_properties() if ".".join(found.path) == name)
        if made.type != there.type:
            raise Refused(mq.MQRC_PROPERTY_TYPE_ERROR)
        value = made.value
        if not isinstance(value, int):
            size = len(getattr(self.descriptor, place))
            value = padded(value, size) if isinstance(value, str) else value[:size].ljust(size, b"\0")
        setattr(self.descriptor, place, value)

    # --- deleting -------------------------------------------------------------------------------------------------

    def delete(self, name: str, options: int) -> None:
        """Raises Refused, with a warning where there is no property of the name."""
        if options & mq.MQDMPO_DEL_PROP_UNDER_CURSOR:
            self.properties.remove(self._under_cursor())
            return
        if name.startswith(DESCRIPTOR_PREFIX):
            place = _FIELDS.get(name.removeprefix(DESCRIPTOR_PREFIX))
            if place is None:
                raise Refused(mq.MQRC_PROPERTY_NAME_ERROR)
            setattr(self.descriptor, place, getattr(default_descriptor(), place))
            return
        found = next((found for found in self.properties if found.path == path_of(name)), None)
        if found is None:
            raise Refused(mq.MQRC_PROPERTY_NOT_AVAILABLE, mq.MQCC_WARNING)
        self.properties.remove(found)

    # --- messages -------------------------------------------------------------------------------------------------

    def fill(self, descriptor: MessageDescriptor, properties: list[Property]) -> None:
        """Makes it the handle of a message that was got or put."""
        self.descriptor, self.properties = descriptor.copy(), properties
        self.reset()

    def reset(self) -> None:
        """Takes the cursor away."""
        self.cursor, self.pattern = None, ""


def put_properties(original: MessageHandle | None, new: MessageHandle | None, action: int) -> list[Property]:
    """The properties of a message that is put with these handles.

    Those of the new handle stand before those of the original one, of which the action says which are copied; a null
    property in the new one takes that of the original one away. Raises Refused for an action that there is not.
    """
    if action not in (mq.MQACTP_NEW, *_COPIED):
        raise Refused(mq.MQRC_ACTION_ERROR)
    for handle in (original, new):
        if handle is not None:
            handle.reset()
    wanted = _COPIED.get(action)
    copied = [
        found
        for found in (original.properties if original is not None else ())
        if wanted is None or found.copy_options & (wanted | mq.MQCOPY_ALL)
    ]
    if new is None:
        return copied
    originals = {found.path for found in copied}
    named = {found.path for found in new.properties}
    return [
        *(found for found in copied if found.path not in named),
        *(found for found in new.properties if found.type != mq.MQTYPE_NULL or found.path not in originals),
    ]
