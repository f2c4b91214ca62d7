"""What a film says of itself, read in the sandbox: its container, and how long it lasts.

Of several lengths that a file claims, the longest counts: a header may lie in either direction, and nobody gains by it.
"""

from typing import Any, BinaryIO

import msgspec

from penstock.uploads.direct.sample_times import IndexUnsound, sample_times

_FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")  # of MP4 and QuickTime
_SEEN = ("General", "Video", "Audio")
_LONGEST = 9_999_999.0  # what the column holds; nearly four months


class Film(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A film that can be read."""

    container: str
    seconds: float


class FilmUnreadable(Exception):
    """Says why, to people."""


def read_film(file: BinaryIO) -> Film:
    from pymediainfo import MediaInfo  # here, so that a process that never reads films does not load it

    if file.seek(0, 2) == 0:
        raise FilmUnreadable("the file is empty")
    by_samples = _by_samples(file)
    # A file may name others; in here there are none to be opened.
    tracks = _tracks(MediaInfo.parse(file, output="JSON", full=False))
    container = _container(tracks)
    if by_samples is None and _is_truncated(tracks):
        raise FilmUnreadable("the file ends before its data does")
    said = [_seconds(track) for track in tracks if track.get("@type") in _SEEN]
    seconds = max([by_samples or 0.0, *said])
    if not any(track.get("@type") == "Video" for track in tracks):
        raise FilmUnreadable("there is no picture in it")
    if seconds <= 0:
        raise FilmUnreadable("it does not say how long it lasts")
    return Film(container, min(seconds, _LONGEST))


def _by_samples(file: BinaryIO) -> float | None:
    """None: it is not made of boxes. What is damaged is found out here, before a library has to make sense of it."""
    file.seek(4)
    if file.read(4) not in _FIRST_BOXES:
        return None
    try:
        samples = sample_times(file)
    except IndexUnsound as wrong:
        raise FilmUnreadable(str(wrong)) from None
    if samples.is_cut_off:
        raise FilmUnreadable("the file ends before its data does")
    if not samples.has_index:
        raise FilmUnreadable("it has no index (moov)")
    return samples.seconds


def _tracks(text: str) -> list[dict[str, Any]]:
    try:
        media = msgspec.json.decode(text).get("media") or {}
        return [track for track in media["track"] if isinstance(track, dict)]
    except (msgspec.DecodeError, LookupError, AttributeError, TypeError):
        raise FilmUnreadable("what it says of itself makes no sense") from None


def _container(tracks: list[dict[str, Any]]) -> str:
    general = next((track for track in tracks if track.get("@type") == "General"), {})
    name, profile = str(general.get("Format", "")), str(general.get("Format_Profile", ""))
    if not name:
        raise FilmUnreadable("it is not a film of any known kind")
    if name == "MPEG-4":
        return "quicktime" if "QuickTime" in profile else "mp4"
    return "".join(letter for letter in name.lower() if letter.isascii() and letter.isalnum())[:40]


def _seconds(track: dict[str, Any]) -> float:
    try:
        said = float(track.get("Duration", 0))
    except (TypeError, ValueError):
        return 0.0
    return said if 0 < said < float("inf") else 0.0


def _is_truncated(tracks: list[dict[str, Any]]) -> bool:
    return any(isinstance(track.get("extra"), dict) and track["extra"].get("IsTruncated") == "Yes" for track in tracks)
