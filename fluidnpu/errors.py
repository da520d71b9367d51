"""What the console command says when it cannot go on: exit codes and the one sentence.

0 done; 1 the answer is no (a mismatch, a board too small or one that does not answer); 2 bad input; 130 stopped by Ctrl-C, 143 by SIGTERM.
Notes that an error was given on its way (PEP 678) belong to its sentence.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM


class UsageError(ValueError):
    """A command line that asks for something impossible; one sentence."""


class NegativeAnswerError(RuntimeError):
    """The command ran and the answer is no; one sentence, and what else `--json` says beside it."""

    def __init__(self, message: str, answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def negative_answers() -> tuple[type[Exception], ...]:
    """Good questions whose answer is no. FitError is a DesignError too, so these are looked at first."""
    from fluidnpu.dse import FitError

    return (NegativeAnswerError, FitError)


def caller_errors() -> tuple[type[Exception], ...]:
    """Errors that are the user's to mend: each room's ValueErrors, imported only when something went wrong."""
    from fluidnpu.boards import BoardError
    from fluidnpu.dse import DesignError
    from fluidnpu.hls import DescriptorError, ProgramError, ProjectError, ReportError
    from fluidnpu.host import BundleError, DriverUsageError
    from fluidnpu.models import NetworkError
    from fluidnpu.scheduler import SchedulerError

    ours = (UsageError, BoardError, DesignError, DescriptorError, ProgramError, ProjectError, ReportError)
    return (*ours, BundleError, DriverUsageError, NetworkError, SchedulerError)


def world_errors() -> tuple[type[Exception], ...]:
    """Errors of the machine or the board."""
    from fluidnpu.hls import CsimError
    from fluidnpu.host import HostError
    from fluidnpu.models.errors import TrainingError
    from fluidnpu.rtl_tb import SimulationError

    return (CsimError, HostError, SimulationError, TrainingError)


class Terminated(KeyboardInterrupt):
    """SIGTERM came; whatever tidies up after Ctrl-C does so now."""


def sentence(error: BaseException) -> str:
    """The error's message and its notes on one line."""
    said = str(error) or type(error).__name__
    return " ".join("; ".join((said, *getattr(error, "__notes__", ()))).split())


def fail(error: BaseException, code: int, as_json: bool) -> NoReturn:
    """Say it once, on standard error (and as one object on standard output for scripts), and leave."""
    if as_json:
        answer = error.answer if isinstance(error, NegativeAnswerError) else None
        report: dict[str, Any] = {**(answer or {}), "error": sentence(error)}
        report |= {key: getattr(error, key) for key in ("node", "operator", "suggestion") if getattr(error, key, None)}
        print(json.dumps(report, sort_keys=True, allow_nan=False))
    print(f"fluidnpu: {sentence(error)}", file=sys.stderr)
    sys.exit(code)


@contextmanager
def one_sentence(as_json: bool) -> Iterator[None]:
    """Turn expected errors inside into one sentence and an exit code; anything else is a bug and keeps its traceback."""
    try:
        with _sigterm_raises():
            yield
    except KeyboardInterrupt as error:
        by_signal = isinstance(error, Terminated)
        error.args = (f"stopped by {'a signal' if by_signal else 'the user'}; nothing half-written was kept",)
        fail(error, EXIT_TERMINATED if by_signal else EXIT_INTERRUPTED, as_json)
    except OSError as error:
        where = f" '{error.filename}'" if error.filename else ""
        fail(type(error)(f"the file{where} could not be used: {error.strerror or error}"), EXIT_BAD_INPUT, as_json)
    except Exception as error:
        if isinstance(error, negative_answers()):
            fail(error, EXIT_NO, as_json)
        if isinstance(error, caller_errors()):
            fail(error, EXIT_BAD_INPUT, as_json)
        if isinstance(error, world_errors()):
            fail(error, EXIT_NO, as_json)
        raise


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM raises Terminated in this process, once; a second one ends it at once, and so does the first in a forked worker."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return
    ours = os.getpid()

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != ours:
            os.kill(os.getpid(), number)
        raise Terminated

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
