"""How commands end: one sentence with its notes, and signals."""

import multiprocessing
import os
import signal
import threading
import time

import pytest

from fluidnpu.errors import UsageError, one_sentence, sentence


def test_notes_belong_to_the_sentence() -> None:
    error = UsageError("this must hold,\n  and that came")
    assert sentence(error) == "this must hold, and that came"
    error.add_note("5 of 9 were done before")
    assert sentence(error) == "this must hold, and that came; 5 of 9 were done before"
    assert sentence(UsageError()) == "UsageError"


def test_sigterm_is_raised_once_and_ends_with_143(capsys: pytest.CaptureFixture[str]) -> None:
    before, tidied = signal.getsignal(signal.SIGTERM), []

    def act() -> None:
        with one_sentence(as_json=False):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(30)
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
        time.sleep(30)

    with one_sentence(as_json=False):
        worker = fork.Process(target=work)
        worker.start()
        assert begun.wait(10)
        worker.terminate()
        worker.join(10)
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
