"""What the console command says when it cannot go on: exit codes and the one sentence.

0 done; 1 the answer is no (a mismatch, a board too small or one that does not answer); 2 bad input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

EXIT_NO = 1
EXIT_BAD_INPUT = 2


class UsageError(ValueError):
    """A command line that asks for something impossible; one sentence."""


class NegativeAnswerError(RuntimeError):
    """The command ran and the answer is no; one sentence, and what else `--json` says beside it."""

    def __init__(self, message: str, answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def negative_answers() -> tuple[type[Exception], ...]:
    """Good questions whose answer is no. FitError is a DesignError too, so these are looked at first."""
    from dse import FitError

    return (NegativeAnswerError, FitError)


def caller_errors() -> tuple[type[Exception], ...]:
    """Errors that are the user's to mend: each room's ValueErrors, imported only when something went wrong."""
    from boards import BoardError
    from dse import DesignError
    from hls import DescriptorError, ProgramError, ProjectError, ReportError
    from host import BundleError, DriverUsageError
    from models import NetworkError
    from scheduler import SchedulerError

    ours = (UsageError, BoardError, DesignError, DescriptorError, ProgramError, ProjectError, ReportError)
    return (*ours, BundleError, DriverUsageError, NetworkError, SchedulerError)


def world_errors() -> tuple[type[Exception], ...]:
    """Errors of the machine or the board."""
    from hls import CsimError
    from host import HostError
    from models import TrainingError
    from rtl_tb import SimulationError

    return (CsimError, HostError, SimulationError, TrainingError)


def sentence(error: BaseException) -> str:
    """The error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


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
        yield
    except KeyboardInterrupt as error:
        fail(type(error)("stopped by the user; nothing half-written was kept"), 130, as_json)
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
