"""Places of archives."""


def is_folder(place: str) -> bool:
    """Tell whether a path or URL names a folder."""
    return "://" not in place or place.startswith("file:")
