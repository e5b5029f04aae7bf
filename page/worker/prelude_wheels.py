"""Finds wheels for imports that nothing else found and unpacks them (machine 17.2). Part of the prelude, see
``prelude.py``.

The host gives the wheel of a top-level name as a file. No script is run and nothing outside the site directory is
written.
"""

import importlib
import os
import sys
import zipfile
from importlib.machinery import PathFinder as _PathFinder

SITE = f"/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
UNPACKED_LIMIT = 256 * 1024 * 1024
CHUNK = 1 << 20
INSTALLER = b"pyproc\n"

_asked = set()
_ZipFile = zipfile.ZipFile
_invalidate_caches = importlib.invalidate_caches
_find_spec = _PathFinder.find_spec
_makedirs, _exists, _remove = os.makedirs, os.path.exists, os.remove
_open = open


class WheelError(ImportError):
    """The wheel of an import cannot be used. ``code`` is the machine's error code."""

    code = "MACHINE_PACKAGE_INVALID"

    def __init__(self, wheel, reason):
        super().__init__(f"{self.code}: the wheel of {wheel!r}: {reason}", name=wheel)


def _target(wheel, name):
    """Where a member goes, relative to the site directory; None when it is not installed."""
    if name.startswith("/") or "\\" in name or "\0" in name:
        raise WheelError(wheel, f"unsafe member name {name!r}")
    parts = name.split("/")
    if ".." in parts or "." in parts or "" in parts[:-1]:
        raise WheelError(wheel, f"unsafe member name {name!r}")
    if len(parts) > 1 and parts[0].endswith(".data"):
        if parts[1] not in ("purelib", "platlib"):
            return None
        parts = parts[2:]
    return "/".join(parts) or None


def _plan(wheel, archive):
    """(member, target) for every file, and the metadata directory. Nothing is written before all of it is checked."""
    files, total, metadata = [], 0, None
    for member in archive.infolist():
        target = _target(wheel, member.filename)
        if target is None or target.endswith("/"):
            continue
        if (member.external_attr >> 28) == 0xA:
            raise WheelError(wheel, f"member {member.filename!r} is a link")
        total += member.file_size
        if total > UNPACKED_LIMIT:
            raise WheelError(wheel, "too large when unpacked")
        first = target.partition("/")[0]
        if first.endswith(".dist-info") and target == first + "/WHEEL":
            metadata = first
        files.append((member, target))
    if metadata is None:
        raise WheelError(wheel, "it has no WHEEL file")
    return files, metadata


def _write(archive, member, path, written):
    """Copies one member; the bytes that arrive are counted, whatever the archive's directory says."""
    _makedirs(path.rpartition("/")[0], exist_ok=True)
    left = member.file_size
    with archive.open(member) as source, _open(path, "wb") as sink:
        written.append(path)
        while chunk := source.read(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"member {member.filename!r} is longer than declared")
            sink.write(chunk)


def _unpack(wheel, file):
    written = []
    try:
        with _ZipFile(file) as archive:
            files, metadata = _plan(wheel, archive)
            for member, target in files:
                path = f"{SITE}/{target}"
                if not _exists(path):
                    _write(archive, member, path, written)
        with _open(f"{SITE}/{metadata}/INSTALLER", "wb") as sink:
            sink.write(INSTALLER)
    except BaseException as error:
        for path in written:
            _remove(path)
        if isinstance(error, (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError)):
            raise WheelError(wheel, str(error)) from None
        raise


class WheelFinder:
    """The last finder: asks the host once for each top-level name that nobody knows."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        if path is not None or "." in fullname or fullname in _asked:
            return None
        _asked.add(fullname)
        file = __host__.wheel(fullname)
        if not isinstance(file, str):
            return None
        try:
            _unpack(fullname, file)
        finally:
            _remove(file)
        _invalidate_caches()
        return _find_spec(fullname)

    @staticmethod
    def invalidate_caches():
        pass


def _install_finder():
    sys.meta_path.append(WheelFinder)
