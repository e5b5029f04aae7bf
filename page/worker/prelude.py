"""The machine's Python side: runs (machine 12) and what happens at the end of a boot (machine 5.4, 16.5).

The four parts, ``prelude_loop.py``, ``prelude_wheels.py``, ``prelude_display.py`` and this one, are executed once, when
the boot image is made, in one namespace of their own whose ``__builtins__`` is a private copy. Every name that is used is bound then; nothing is
looked up in a module that guest code can change (machine 10, H19). ``__host__`` is the host object of machine 4.3.
"""

import _signal
import ast
import linecache
import logging
import os
import random
import sys
import tempfile
import time
import traceback
import types
from _json import encode_basestring_ascii as _quote
from io import FileIO as _FileIO
from io import TextIOWrapper as _TextIOWrapper
from json import loads as _loads

VERSION = 1

SOURCE_NAME = "<machine>"
VALUE_LIMIT = 262144
MESSAGE_LIMIT = 8192
TRACEBACK_LIMIT = 65536
KEPT_SOURCES = 64
RESERVE_BYTES = 524288

_sys, _main = sys, sys.modules["__main__"].__dict__
_builtins_module = sys.modules["builtins"]
_line_cache = linecache.cache
_TracebackException = traceback.TracebackException
_ast_expression, _ast_expr = ast.Expression, ast.Expr
_only_ast, _top_level_await = ast.PyCF_ONLY_AST, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_coroutine_flag, _future_flags = 0x80, 0x1FF0000
_signal_set, _SIGINT, _SIG_IGN = _signal.signal, _signal.SIGINT, _signal.SIG_IGN
_gettrace, _settrace = sys.gettrace, sys.settrace
_getprofile, _setprofile = sys.getprofile, sys.setprofile
_getrecursionlimit, _setrecursionlimit = sys.getrecursionlimit, sys.setrecursionlimit


_saved_handler = _signal.default_int_handler
_saved_trace = None
_saved_profile = None
_names = []
_streams = {}
_reserve = []


def _restock():
    """Memory that is given back when there is no other left, so that the next run can free some."""
    if not _reserve:
        try:
            _reserve.append(bytearray(RESERVE_BYTES))
        except MemoryError:
            pass


def _arm():
    """Interrupts raise from here on, also one that was asked for before."""
    _signal_set(_SIGINT, _saved_handler)
    __host__.remind()


def _disarm():
    """Interrupts are ignored from here on. A pending one is raised by the call itself, so it is tried again."""
    global _saved_handler
    for _ in range(64):
        try:
            handler = _signal_set(_SIGINT, _SIG_IGN)
            break
        except BaseException:
            continue
    else:
        return
    _saved_handler = handler
    if _getrecursionlimit() < 256:
        _setrecursionlimit(256)


def _stream(fd, name):
    raw = _FileIO(fd, "w", closefd=False)
    raw.name = f"<{name}>"
    stream = _TextIOWrapper(
        raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True
    )
    stream.mode = "w"
    return stream


def _is_lost(stream):
    try:
        return stream is None or stream.closed
    except BaseException:
        # It was detached from its file.
        return True


def _open_streams():
    """Standard streams write through, so that both arrive in the order of writing. Lost ones are made again."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = _streams.get(name)
        if _is_lost(stream):
            fresh = _streams[name] = _stream(fd, name)
            for attribute in (name, f"__{name}__"):
                if stream is None or getattr(_sys, attribute, None) is stream:
                    setattr(_sys, attribute, fresh)


def _flush():
    """Flushes whatever the guest prints to. The run is over: nothing that a flush raises, not even an interrupt, can
    still end it."""
    for name in ("stdout", "stderr"):
        try:
            getattr(_sys, name).flush()
        except BaseException:
            pass


def _compile(source, name):
    """The code objects of a source: its statements, if any, and its last expression, if it ends with one."""
    tree = compile(source, name, "exec", _only_ast | _top_level_await, True)
    body = tree.body
    last = body.pop() if body and isinstance(body[-1], _ast_expr) else None
    parts = []
    flags = _top_level_await
    if body or last is None:
        parts.append(compile(tree, name, "exec", flags, True))
        flags |= parts[0].co_flags & _future_flags
    if last is not None:
        parts.append(compile(_ast_expression(last.value), name, "eval", flags, True))
    return parts


async def _evaluate_on_loop(parts):
    value = None
    for part in parts:
        value = eval(part, _main)
        if part.co_flags & _coroutine_flag:
            value = await value
    return value


def _evaluate(parts):
    global _saved_trace, _saved_profile
    _settrace(_saved_trace)
    _setprofile(_saved_profile)
    try:
        if _has_await(parts):
            return _drive(_evaluate_on_loop(parts))
        value = None
        for part in parts:
            value = eval(part, _main)
        return value
    finally:
        _saved_profile = _getprofile()
        _setprofile(None)
        _saved_trace = _gettrace()
        _settrace(None)


def _has_await(parts):
    for part in parts:
        if part.co_flags & _coroutine_flag:
            return True
    return False


def _remember(name, source):
    lines = source.splitlines(True)
    _line_cache[name] = (len(source), None, lines, name)
    _names.append(name)
    while len(_names) > KEPT_SOURCES:
        _line_cache.pop(_names.pop(0), None)


def _cut_middle(text, limit):
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text) - limit} characters left out ...]\n"
    head = (limit - len(mark)) // 2
    return text[:head] + mark + text[len(text) - (limit - len(mark) - head) :]


def _own_frames_cut(error, name):
    """The traceback from its first frame of the run's source on, else without the leading frames of this module."""
    first = entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename != name:
        entry = entry.tb_next
    if entry is not None:
        return entry
    while first is not None and first.tb_frame.f_code.co_filename == SOURCE_NAME:
        first = first.tb_next
    return first


def _exact(text):
    return "".join((text,))


def _message(error):
    try:
        return _exact(str(error))[:MESSAGE_LIMIT]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "<unprintable>"


def _exit_code(error):
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int) and -(2**31) <= code < 2**31:
        return int(code)
    return 1


def _report(error, kind, name):
    """The answer for an exception, as JSON."""
    cls = type(error)
    type_name = _type_name(cls)
    module = getattr(cls, "__module__", None)
    message = _message(error)
    try:
        trimmed = _own_frames_cut(error, name)
        trace = _exact("".join(_TracebackException(cls, error, trimmed, compact=True).format()))
    except KeyboardInterrupt:
        raise
    except BaseException:
        trace = f"{type_name}: {message}\n"
    code = f',"exitCode":{_exit_code(error)}' if kind == "exit" else ""
    dropped = _forget_shown()
    if dropped:
        code = f'{code},"displaysDropped":{dropped}'
    return (
        f'{{"error":{{"kind":"{kind}","type":{_quote(_exact(type_name))},'
        f'"module":{_quote(_exact(module) if isinstance(module, str) else "")},"message":{_quote(message)},'
        f'"traceback":{_quote(_cut_middle(trace, TRACEBACK_LIMIT))}{code}}}}}'
    )


def _value(value):
    if value is None:
        return "{}"
    text = _exact(repr(value))
    if len(text) <= VALUE_LIMIT:
        return f'{{"value":{_quote(text)}}}'
    return f'{{"value":{_quote(text[:VALUE_LIMIT])},"valueChars":{len(text)}}}'


def _prepare(source, name):
    """The parts of a source, or the answer for one that does not compile. It raises MemoryError while memory can still
    be given back."""
    try:
        parts = _compile(source, name)
        _remember(name, source)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, MemoryError) and _reserve:
            raise
        return None, _report(error, "syntax", name)
    return parts, None


def _perform(parts, name):
    """Runs the parts of a source and returns the answer."""
    try:
        value = _evaluate(parts)
        _show_value(value)
        text = _with_shown(_value(value))
        _flush()
        return text
    except BaseException as error:
        if isinstance(error, MemoryError):
            _reserve.clear()
        _flush()
        kind = "exit" if isinstance(error, SystemExit) else "exception"
        return _report(error, kind, name)


def _begin(source, name):
    """Everything before code of the guest runs; it may be done again."""
    _main.setdefault("__builtins__", _builtins_module)
    _open_streams()
    _arm()
    return _prepare(source, name)


def _plain_answer(cls):
    name = _type_name(cls)
    return (
        f'{{"error":{{"kind":"exception","type":"{name}","module":"builtins","message":"","traceback":"{name}\\n"}}}}'
    )


_INTERRUPTED = _plain_answer(KeyboardInterrupt)
_OUT_OF_MEMORY = _plain_answer(MemoryError)


def run(source, number):
    """Runs one source and returns the answer as JSON: {}, {value, valueChars?} or {error}. It raises only what strikes
    outside of the source, an interrupt or a monitoring callback; ``settle`` then ends the run."""
    answer = _INTERRUPTED
    try:
        name = f"<run {number}>"
        try:
            parts, answered = _begin(source, name)
        except MemoryError:
            _reserve.clear()
            parts, answered = _begin(source, name)
        answer = _perform(parts, name) if answered is None else answered
    except MemoryError:
        answer = _OUT_OF_MEMORY
        _reserve.clear()
    except BaseException:
        pass
    _disarm()
    _forget_shown()
    _restock()
    return answer


def settle():
    """Ends a run whose answer was lost."""
    _disarm()
    _forget_shown()
    _reserve.clear()


# --- boot -----------------------------------------------------------------------------------------------------------------


def _denied(name, parameters):
    scope = {"__builtins__": __builtins__}
    exec(
        f"def {name}({parameters}):\n    raise PermissionError('{name} is not available to this machine')",
        scope,
    )
    return scope[name]


def _make_jail():
    """The permission module of control protocol 7.6."""
    jail = types.ModuleType("pyprocJail", "Capabilities of a host page. This machine grants none of them.")
    for name, parameters in (("net", "host=''"), ("clipboard", ""), ("home", ""), ("workers", "")):
        setattr(jail, name, _denied(name, parameters))
    return jail


_hidden = []


def _hide_javascript():
    """No JavaScript names for Python (machine 16.5). The image still holds what the engine expects to find in it."""
    import _pyodide._importhook

    _pyodide._importhook.jsfinder.jsproxies.clear()
    for name in list(sys.modules):
        if name.partition(".")[0] in ("js", "pyodide_js"):
            _hidden.append(sys.modules.pop(name))


def _release_javascript():
    """Frees the engine's objects. Their import specifications refer to them in a circle that nothing would collect."""
    while _hidden:
        module = _hidden.pop()
        spec = module.__spec__
        spec.loader.jsproxy = None
        spec.loader = None
        del module.__loader__, module.__spec__


def _warm_up():
    """Reports each kind of error once, so that the modules that only reports need are part of the image."""
    for number, source in enumerate(("if", "nme", "[].apend", "1/0", "raise ExceptionGroup('', [ValueError()])")):
        name = f"<warm-up {number}>"
        parts, _ = _prepare(source, name)
        if parts is not None:
            _perform(parts, name)
        _line_cache.pop(name, None)
    _names.clear()


def _install():
    """Puts everything in place; the last step before the image is taken."""
    _install_loop()
    _install_finder()
    _open_streams()
    sys.modules["pyproc"] = _make_display()
    sys.modules["pyprocJail"] = _make_jail()
    facade = types.ModuleType("_machine", "The machine's Python side.")
    facade.VERSION, facade.entries = VERSION, (run, settle, boot, sys.monitoring.set_events)
    sys.modules["_machine"] = facade
    _warm_up()
    _hide_javascript()
    _restock()
    _disarm()


def boot(config):
    """The fixes after each boot from the image. ``config`` is JSON: ``environment`` and ``preload``."""
    settings = _loads(config)
    del sys.modules["_machine"].entries
    _main.pop("_pyodide_core", None)
    _release_javascript()
    library_path = os.environ.get("LD_LIBRARY_PATH")
    os.environ.clear()
    if library_path is not None:
        os.environ["LD_LIBRARY_PATH"] = library_path
    os.environ.update(settings["environment"])
    sys.path[:] = dict.fromkeys(sys.path)
    _set_zone()
    random.seed()
    tempfile._name_sequence = None
    logging._startTime = time.time_ns()
    for name in settings["preload"]:
        __import__(name)


def _set_zone():
    """The zone constants keep the image maker's zone; they follow the browser's here."""
    year = time.localtime().tm_year
    winter = time.localtime(time.mktime((year, 1, 1, 0, 0, 0, 0, 0, -1)))
    summer = time.localtime(time.mktime((year, 7, 1, 0, 0, 0, 0, 0, -1)))
    if winter.tm_gmtoff > summer.tm_gmtoff:
        winter, summer = summer, winter
    time.timezone, time.altzone = -winter.tm_gmtoff, -summer.tm_gmtoff
    time.daylight = int(winter.tm_gmtoff != summer.tm_gmtoff)
    time.tzname = (winter.tm_zone, summer.tm_zone)


_install()
