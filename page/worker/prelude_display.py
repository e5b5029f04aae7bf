"""Pictures that code shows besides text (guide "Pictures"). Part of the prelude, see ``prelude.py``.

What is shown waits here, encoded, until the run's answer takes it along; a run that ends with an error takes nothing.
"""

import sys
import types
from binascii import b2a_base64 as _b2a_base64
from io import BytesIO as _BytesIO

DISPLAY_COUNT = 16
DISPLAY_BYTES = 8388608

_modules = sys.modules
_encode_utf8 = str.encode

# Picked in this order. Text in HTML is no picture: only who asks for it gets it.
_PICTURES = (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_svg_", "image/svg+xml"))
_REPRESENTATIONS = (*_PICTURES, ("_repr_html_", "text/html"))

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

_shown = []
_shown_bytes = 0


def _figure_of(thing):
    """The figure that a matplotlib object is or belongs to. Nothing is imported for it."""
    artist = getattr(_modules.get("matplotlib.artist"), "Artist", None)
    figure = getattr(_modules.get("matplotlib.figure"), "FigureBase", None)
    if isinstance(figure, type) and isinstance(thing, figure):
        return thing
    if isinstance(artist, type) and isinstance(thing, artist):
        return thing.figure
    return None


def _bytes_of(data):
    if isinstance(data, tuple) and data:
        # The second item is metadata of the convention.
        data = data[0]
    if isinstance(data, str):
        return _encode_utf8(data, "utf-8", "replace")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"a representation must be bytes or text, not {_type_name(type(data))}")


def _represent(thing, conventions):
    """The type and the bytes of the first representation that a thing has, or None."""
    figure = _figure_of(thing)
    if figure is not None:
        buffer = _BytesIO()
        figure.savefig(buffer, format="png")
        return "image/png", buffer.getvalue()
    for name, mime in conventions:
        method = getattr(type(thing), name, None)
        data = method(thing) if method is not None else None
        if data is not None:
            return mime, _bytes_of(data)
    return None


def _signed(data):
    for signature, mime in _SIGNATURES:
        if data.startswith(signature):
            return mime, data
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp", data
    return None


def _show(mime, data):
    global _shown_bytes
    if not data:
        raise ValueError("the picture is empty")
    if len(_shown) >= DISPLAY_COUNT:
        raise ValueError(f"a run can display at most {DISPLAY_COUNT} pictures")
    if _shown_bytes + len(data) > DISPLAY_BYTES:
        raise ValueError(
            f"a run can display at most {DISPLAY_BYTES} bytes of pictures; this one has {len(data)} and "
            f"{DISPLAY_BYTES - _shown_bytes} are left"
        )
    encoded = _b2a_base64(data, newline=False).decode("ascii")
    # An interrupt between the two must not make the sum too small.
    _shown_bytes += len(data)
    _shown.append((mime, encoded))


def display(*things):
    """Show pictures beside the result of the run.

    Each argument is an object with one of the methods _repr_png_, _repr_jpeg_, _repr_svg_ and _repr_html_, a matplotlib
    figure or something drawn in one, or the bytes of a PNG, JPEG, GIF or WebP file. A run can display at most 16 of them
    with 8388608 bytes in all.
    """
    for thing in things:
        if isinstance(thing, (bytes, bytearray, memoryview)):
            found = _signed(bytes(thing))
        else:
            found = _represent(thing, _REPRESENTATIONS)
        if found is None:
            raise TypeError(
                f"'{_type_name(type(thing))}' object is no picture: it has none of the methods "
                "_repr_png_, _repr_jpeg_, _repr_svg_ and _repr_html_, and is not the bytes of a PNG, JPEG, GIF or WebP file"
            )
        _show(*found)


def _show_value(value):
    """Shows a value that is a picture. One that cannot be shown is a value like any other."""
    try:
        found = _represent(value, _PICTURES)
        if found is not None:
            _show(*found)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException:
        pass


def _forget_shown():
    """Forgets what was shown and returns how much it was."""
    global _shown_bytes
    count = len(_shown)
    _shown.clear()
    _shown_bytes = 0
    return count


def _with_shown(answer):
    """The answer of a run with what it has shown."""
    if not _shown:
        return answer
    shown = ",".join([f'["{mime}","{data}"]' for mime, data in _shown])
    comma = "," if len(answer) > 2 else ""
    return f'{answer[:-1]}{comma}"displays":[{shown}]}}'


def _make_display():
    module = types.ModuleType("pyproc", "What code can ask of the machine that runs it.")
    module.display = display
    display.__module__ = "pyproc"
    return module
