"""How commands end: one sentence with its notes, and signals."""

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec

import pytest
from waiting import PATIENCE_S

from fluidnpu.errors import NegativeAnswerError, UsageError, add_note, one_sentence, sentence


def test_notes_belong_to_the_sentence() -> None:
    error = UsageError("this must hold,\n  and that came")
    assert sentence(error) == "this must hold, and that came"
    add_note(error, "5 of 9 were done before")
    assert sentence(error) == "this must hold, and that came; 5 of 9 were done before"
    assert sentence(UsageError()) == "UsageError"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("onnx", "needs the module 'onnx', which is not installed: pip install 'fluidnpu[design]'"),
        ("jinja2", "needs the module 'jinja2', which is not installed: pip install 'fluidnpu[design]'"),
        ("starlette", "needs the module 'starlette', which is not installed: pip install 'fluidnpu[serve]'"),
        ("somewhat", ""),
    ],
)
def test_a_part_that_is_not_installed_is_named_with_its_extra(
    missing: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit if said else ModuleNotFoundError) as caught, one_sentence(as_json=False):
        raise ModuleNotFoundError(f"No module named '{missing}'", name=f"{missing}.helper")
    assert said in capsys.readouterr().err
    assert not said or caught.value.args == (1,)


def test_sigterm_is_raised_once_and_ends_with_143(capsys: pytest.CaptureFixture[str]) -> None:
    before, tidied = signal.getsignal(signal.SIGTERM), []

    def act() -> None:
        with one_sentence(as_json=False):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(PATIENCE_S)
            finally:
                tidied.append(signal.getsignal(signal.SIGTERM))

    with pytest.raises(SystemExit) as caught:
        act()
    assert caught.value.code == 143
    assert tidied == [signal.SIG_DFL]
    assert signal.getsignal(signal.SIGTERM) is before
    assert capsys.readouterr().err == "fluidnpu: stopped by a signal; nothing half-written was kept\n"


def test_sigterm_ends_a_forked_worker_as_ever() -> None:
    """A pool that is torn down must not wait for a worker that took the signal for an error of its task."""
    fork = multiprocessing.get_context("fork")
    begun = fork.Event()

    def work() -> None:
        begun.set()
        time.sleep(PATIENCE_S)

    with one_sentence(as_json=False):
        worker = fork.Process(target=work)
        worker.start()
        assert begun.wait(PATIENCE_S)
        worker.terminate()
        worker.join(PATIENCE_S)
    assert worker.exitcode == -signal.SIGTERM


def test_a_command_in_a_thread_leaves_signals_alone() -> None:
    before, ran = signal.getsignal(signal.SIGTERM), []

    def act() -> None:
        with one_sentence(as_json=False):
            ran.append(signal.getsignal(signal.SIGTERM) is before)

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    assert ran == [True]


def left_with(error: Exception, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """Exit code and standard error of a command that ends with this error."""
    with pytest.raises(SystemExit) as caught, one_sentence(as_json=False):
        raise error
    return caught.value.code, capsys.readouterr().err


def one_sentence_errors(room: str) -> list[Exception]:
    """An error of every class at a room's door or in its `errors.py` that a sentence makes."""
    door = importlib.import_module(f"fluidnpu.{room}")
    places = [door]
    if find_spec(f"{door.__name__}.errors"):
        places.append(importlib.import_module(f"{door.__name__}.errors"))
    kinds = {getattr(place, name) for place in places for name in dir(place) if name.endswith("Error")}
    made = []
    for kind in sorted(kinds, key=lambda kind: str(kind.__name__)):
        if issubclass(kind, ValueError | RuntimeError | ImportError):  # the base of a room's errors is not raised
            with suppress(TypeError):  # it carries more than a sentence
                made.append(kind("this must hold"))
    return made


ROOMS = ("boards", "models", "dse", "hls", "rtl_tb", "scheduler", "host")
ERRORS = [UsageError("this must hold"), NegativeAnswerError("this must hold")]
ERRORS += [error for room in ROOMS for error in one_sentence_errors(room)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_of_every_room_are_one_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    """A ValueError is the caller's fault and ends with 2, all others with 1."""
    code = 2 if isinstance(error, ValueError) else 1
    assert left_with(error, capsys) == (code, "fluidnpu: this must hold\n")


def test_every_room_has_errors_of_both_kinds_among_them() -> None:
    names = {type(error).__name__ for error in ERRORS}
    assert {
        "BoardFileError",
        "NetworkError",
        "DesignError",
        "SimulationError",
        "SchedulerError",
        "BundleError",
    } <= names
    assert len(names) >= 15


@pytest.mark.parametrize("error", [ValueError("a bug"), RuntimeError("a bug"), KeyError("a bug")])
def test_any_other_error_is_a_bug_and_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error), match="a bug"), one_sentence(as_json=False):
        raise error


def test_a_file_that_cannot_be_used_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = left_with(FileNotFoundError(2, "No such file or directory", "x.json"), capsys)
    assert (code, said) == (2, "fluidnpu: the file 'x.json' could not be used: No such file or directory\n")


LOST = """
import os, signal, sys, time, weakref
from fluidnpu.errors import one_sentence

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background process ignores
class Thing: pass

with one_sentence(False):
    thing = Thing()
    gone = weakref.ref(thing, lambda _: os.kill(os.getpid(), int(sys.argv[1])))
    del thing  # the signal is handled inside the callback, where Python drops what is raised
    time.sleep(3600)
    print("nobody stopped it")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_a_callback_of_the_interpreter_is_not_lost(number: int, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", LOST, str(int(number))], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) <= 1
    assert "Traceback" not in done.stderr
