"""Sleeping and the event loop of the machine (machine 11). Part of the prelude, see ``prelude.py``.

Every task, handle, timer and future is an ordinary Python object; waiting is one call to the host.
"""

import asyncio
import time
from asyncio import base_events as _base_events
from asyncio import events as _events
from asyncio import tasks as _tasks

_monotonic = time.monotonic
_type_name = type.__dict__["__name__"].__get__


def sleep(seconds, /):
    """Suspend execution for the given number of seconds; an interrupt ends it by raising."""
    if not isinstance(seconds, (int, float)):
        index = getattr(type(seconds), "__float__", None) or getattr(type(seconds), "__index__", None)
        if index is None:
            raise TypeError(f"'{_type_name(type(seconds))}' object cannot be interpreted as an integer or float")
        seconds = float(index(seconds))
    if seconds != seconds:
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    end = _monotonic() + seconds
    remaining = float(seconds)
    while True:
        __host__.sleep(remaining * 1000.0)
        remaining = end - _monotonic()
        if remaining <= 0:
            return


class Selector:
    """A selector without events: waiting is one call to the host."""

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("this wait can never end: no task or timer is left that could end it")
        if timeout > 0:
            __host__.sleep(timeout * 1000.0)
        return ()

    def close(self):
        pass


class MachineLoop(_base_events.BaseEventLoop):
    """An event loop that is a plain Python object. It may run inside another one, which then stands still."""

    def __init__(self):
        super().__init__()
        self._selector = Selector()
        self._outer = None

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        pass

    def _check_running(self):
        if self.is_running():
            raise RuntimeError("This event loop is already running")

    def _run_forever_setup(self):
        outer = _events._get_running_loop()
        task = _tasks._swap_current_task(outer, None) if outer is not None else None
        _events._set_running_loop(None)
        try:
            super()._run_forever_setup()
        except BaseException:
            self._resume_outer((outer, task))
            raise
        self._outer = (outer, task)

    def _run_forever_cleanup(self):
        super()._run_forever_cleanup()
        outer, self._outer = self._outer, None
        self._resume_outer(outer)

    @staticmethod
    def _resume_outer(outer):
        loop, task = outer
        if loop is not None:
            _events._set_running_loop(loop)
            if task is not None:
                _tasks._swap_current_task(loop, task)

    def run_in_executor(self, executor, func, *args):
        self._check_closed()
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            future.set_exception(error)
        return future

    async def shutdown_default_executor(self, timeout=None):
        self._executor_shutdown_called = True

    async def getaddrinfo(self, host, port, *, family=0, type=0, proto=0, flags=0):
        raise OSError("the machine has no network")

    async def getnameinfo(self, sockaddr, flags=0):
        raise OSError("the machine has no network")


class MachinePolicy(_events._BaseDefaultEventLoopPolicy):
    _loop_factory = MachineLoop

    def get_event_loop(self):
        loop = self._local._loop
        return _machine_loop() if loop is None else loop


_loop = None


def _machine_loop():
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = MachineLoop()
    return _loop


_Runner = asyncio.Runner


def run_coroutine(main, *, debug=None, loop_factory=None):
    """Execute the coroutine in a new event loop and return its result (``asyncio.run``)."""
    outer = _events._get_running_loop()
    if outer is None:
        with _Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    task = _tasks._swap_current_task(outer, None)
    _events._set_running_loop(None)
    try:
        with _Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    finally:
        _events._set_running_loop(outer)
        if task is not None:
            _tasks._swap_current_task(outer, task)


run_coroutine.__name__ = run_coroutine.__qualname__ = "run"


def _drive(coroutine):
    """Run a top-level coroutine on the machine loop. Whatever ends it early cancels it first."""
    loop = _machine_loop()
    task = loop.create_task(coroutine)
    task._log_destroy_pending = False
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done() and not loop.is_closed():
            task.cancel()
            try:
                loop.run_until_complete(task)
            except BaseException:
                pass
        raise


def _install_loop():
    time.sleep = sleep
    asyncio.run = asyncio.runners.run = run_coroutine
    _events._set_running_loop(None)
    _events._set_event_loop_policy(MachinePolicy())
    _machine_loop()
