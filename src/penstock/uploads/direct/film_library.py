"""Loads the library that reads films, once: imported by a sandbox's template, and so not by every forked process."""

from pymediainfo import MediaInfo

from penstock.uploads.direct import film as _film  # noqa: F401

MediaInfo.can_parse()
